/* Filling a document, and its numbers as words. */
#include "text/document.h"

#include <math.h>
#include <stdio.h>

#include "text/words.h"

/* ---- values -------------------------------------------------------------------------------- */

const char *document_value(struct arena *a, enum document_kind kind, double v)
{
    char text[WORDS_MAX];
    if (!isfinite(v))
        return kind == DOCUMENT_SHARE ? "" : "n/a";
    switch (kind) {
    case DOCUMENT_WORDS:
    case DOCUMENT_LABEL:
        break;
    case DOCUMENT_COUNT:
        if (!(fabs(v) < 1e15))
            return "n/a";
        return arena_str(a, words_count(text, (int64_t)v));
    case DOCUMENT_ID:
        return arena_printf(a, "%.0f", v);
    case DOCUMENT_NUMBER:
        if (fabs(v) >= 9999.5 && fabs(v) < 1e15) /* "23,457", not "2.346e+04" */
            return arena_str(a, words_count(text, llround(v)));
        return arena_printf(a, "%.4g", v);
    case DOCUMENT_S:
        return arena_str(a, words_duration(text, v));
    case DOCUMENT_MS:
        return arena_str(a, words_duration(text, v / 1e3));
    case DOCUMENT_US:
        return arena_str(a, words_duration(text, v / 1e6));
    case DOCUMENT_NS:
        return arena_str(a, words_duration(text, v / 1e9));
    case DOCUMENT_NS_AS_MS:
        return arena_str(a, words_ms(text, v / 1e9));
    case DOCUMENT_PERCENT:
        return arena_str(a, words_percent(text, v));
    case DOCUMENT_FINE:
        return arena_printf(a, "%.3g %%", v);
    case DOCUMENT_CHANGE:
        return arena_str(a, words_change(text, v));
    case DOCUMENT_SHARE:
        return arena_str(a, words_share(text, v));
    }
    return "";
}

const char *document_cell_text(const struct document_table *t, const struct document_row *row,
                               size_t column)
{
    const struct document_cell *c = &row->cells[column];
    return c->words ? c->words : document_value(t->a, t->columns[column].kind, c->number);
}

/* ---- tables -------------------------------------------------------------------------------- */

struct document_table *document_table_new(struct arena *a, const struct document_column *columns,
                                          size_t n)
{
    struct document_table *t = arena_one(a, struct document_table);
    ASSERT(n > 0 && !columns[0].under);
    *t = (struct document_table){.a = a, .columns = columns, .n = n};
    return t;
}

static struct document_row *append_row(struct document_table *t, size_t n_cells)
{
    ASSERT(!t->last || t->last->group || t->filled == t->n);
    struct document_row *row =
        arena_alloc(t->a, sizeof *row + n_cells * sizeof(struct document_cell));
    if (t->last)
        t->last->next = row;
    else
        t->first = row;
    t->last = row;
    t->filled = 0;
    return row;
}

struct document_row *document_row(struct document_table *t)
{
    t->n_rows++;
    return append_row(t, t->n);
}

void document_group(struct document_table *t, const char *column, const char *title,
                    const char *remark)
{
    struct document_row *row = append_row(t, 0);
    t->group_title = column;
    row->group = title;
    row->group_remark = remark;
}

static struct document_cell *next_cell(struct document_table *t)
{
    ASSERT(t->last && !t->last->group && t->filled < t->n);
    return &t->last->cells[t->filled++];
}

struct document_cell *document_words(struct document_table *t, const char *fmt, ...)
{
    struct document_cell *c = next_cell(t);
    va_list ap;
    va_start(ap, fmt);
    c->words = arena_vprintf(t->a, fmt, ap);
    va_end(ap);
    c->number = NAN;
    return c;
}

struct document_cell *document_number(struct document_table *t, double v)
{
    struct document_cell *c = next_cell(t);
    c->number = v;
    return c;
}

static void add_member(struct document_table *t, const struct document_column *c,
                       const char *record)
{
    const void *member = record + c->at;
    if (c->fill) {
        c->fill(t, record);
    } else if (c->is_text) {
        const char *text = *(const char *const *)member;
        document_words(t, "%s", text ? text : "");
    } else {
        document_number(t, *(const double *)member);
    }
}

void document_rows(struct document_table *t, const void *records, size_t n, size_t size)
{
    for (size_t i = 0; i < n; i++) {
        document_row(t);
        for (size_t k = 0; k < t->n; k++)
            add_member(t, &t->columns[k], (const char *)records + i * size);
    }
}

struct node *document_json(const struct document_table *t)
{
    struct node *list = node_new(t->a, NODE_LIST);
    for (const struct document_row *row = t->first; row; row = row->next) {
        struct node *map = node_new(t->a, NODE_MAP);
        if (row->group)
            continue;
        for (size_t k = 0; k < t->n; k++) {
            const struct document_cell *c = &row->cells[k];
            const char *key = t->columns[k].key;
            if (key && c->words && c->words[0])
                node_put(t->a, map, key, node_str(t->a, c->words));
            else if (key)
                node_put(t->a, map, key, node_number(t->a, c->words ? (double)NAN : c->number));
        }
        node_push(t->a, list, map);
    }
    return list;
}

/* ---- documents ----------------------------------------------------------------------------- */

struct document *document_new(struct arena *a, const char *title, const char *headline)
{
    struct document *d = arena_one(a, struct document);
    *d = (struct document){.a = a, .title = title, .headline = headline};
    return d;
}

static void append_item(struct document *d, struct document_item **list, const char *title,
                        const char *text, const char *remark)
{
    struct document_item *item = arena_one(d->a, struct document_item);
    *item = (struct document_item){title, text, remark, NULL};
    while (*list)
        list = &(*list)->next;
    *list = item;
}

void document_tile(struct document *d, const char *title, const char *text, const char *remark)
{
    append_item(d, &d->tiles, title, text, remark);
}

static struct document_section *last_section(const struct document *d)
{
    struct document_section *s = d->sections;
    while (s && s->next)
        s = s->next;
    return s;
}

void document_section(struct document *d, const char *title)
{
    struct document_section *last = last_section(d),
                            *section = arena_one(d->a, struct document_section);
    section->title = title;
    if (last)
        last->next = section;
    else
        d->sections = section;
}

/* The last block if it is of a kind that collects; else a new one. */
static struct document_block *block_of(struct document *d, enum document_block_kind kind)
{
    struct document_section *s = last_section(d);
    ASSERT(s);
    struct document_block **at = &s->blocks;
    for (; *at; at = &(*at)->next)
        if (!(*at)->next && (*at)->items && (*at)->kind == kind)
            return *at;
    *at = arena_one(d->a, struct document_block);
    (*at)->kind = kind;
    return *at;
}

void document_paragraph(struct document *d, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    block_of(d, DOCUMENT_PARAGRAPH)->text = arena_vprintf(d->a, fmt, ap);
    va_end(ap);
}

void document_remark(struct document *d, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    block_of(d, DOCUMENT_REMARK)->text = arena_vprintf(d->a, fmt, ap);
    va_end(ap);
}

void document_fact(struct document *d, const char *title, const char *text)
{
    if (text)
        append_item(d, &block_of(d, DOCUMENT_FACTS)->items, title, text, NULL);
}

void document_fact_of(struct document *d, const char *title, enum document_kind kind, double v)
{
    document_fact(d, title, isnan(v) ? NULL : document_value(d->a, kind, v));
}

void document_note(struct document *d, const char *text)
{
    append_item(d, &block_of(d, DOCUMENT_NOTES)->items, NULL, text, NULL);
}

void document_finding(struct document *d, const char *title, const char *remark, const char *text)
{
    append_item(d, &block_of(d, DOCUMENT_FINDINGS)->items, title, text, remark);
}

void document_add(struct document *d, const struct document_table *t)
{
    block_of(d, DOCUMENT_TABLE)->of = t;
}

struct document_table *document_table(struct document *d, const struct document_column *columns,
                                      size_t n)
{
    struct document_table *t = document_table_new(d->a, columns, n);
    document_add(d, t);
    return t;
}

void document_figure(struct document *d, const char *name)
{
    block_of(d, DOCUMENT_FIGURE)->text = name;
}
