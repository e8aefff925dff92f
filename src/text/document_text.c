/* Documents as text for a terminal and as Markdown. */
#include "text/document.h"
#include "text/wrap.h"

/* ---- tables -------------------------------------------------------------------------------- */

struct table *document_plain(const struct document_table *t)
{
    struct table *plain = table_new(t->a, (int)t->n + (t->group_title != NULL));
    const char *group = "";
    if (t->group_title)
        table_cell(plain, "%s", t->group_title);
    for (size_t k = 0; k < t->n; k++) {
        table_align(plain, (int)k + (t->group_title != NULL), t->columns[k].kind > DOCUMENT_LABEL);
        table_cell(plain, "%s", t->columns[k].title);
    }
    for (const struct document_row *row = t->first; row; row = row->next) {
        if (row->group) {
            group = row->group;
            continue;
        }
        if (t->group_title)
            table_cell(plain, "%s", group);
        for (size_t k = 0; k < t->n; k++) {
            const char *remark = row->cells[k].remark;
            table_cell(plain, "%s%s%s%s%s", k == 0 && row->detail ? "- " : "",
                       document_cell_text(t, row, k), remark ? " (" : "", remark ? remark : "",
                       remark ? ")" : "");
        }
    }
    return plain;
}

/* ---- the two forms ------------------------------------------------------------------------- */

/* The order of a document's parts is the same in both. */
struct document_form {
    const char *title, *section, *strong;                        /* before them; around */
    void (*words)(struct buf *out, const char *s);               /* escaped */
    void (*line)(struct buf *out, const char *line, int indent); /* ends it */
    void (*table)(struct buf *out, const struct table *t);
};

static void markdown_line(struct buf *out, const char *line, int indent)
{
    (void)indent;
    buf_puts(out, line);
    buf_putc(out, '\n');
}

static const struct document_form text_form = {"", "", "", buf_puts, wrap_text, table_text};
static const struct document_form markdown_form = {
    "# ", "## ", "**", table_markdown_text, markdown_line, table_markdown};

/* Writes one line of foreign words, whatever they hold. */
static void end_line(struct buf *out, const struct document_form *f, struct buf *line, int indent)
{
    for (size_t i = 0; i < line->n; i++)
        if (line->p[i] == '\n' || line->p[i] == '\r' || line->p[i] == '\t')
            line->p[i] = ' ';
    if (line->n)
        str_make_printable(line->p, line->n, false);
    f->line(out, buf_str(line), indent);
    buf_free(line);
}

static void write_line(struct buf *out, const struct document_form *f, const char *before,
                       const char *text)
{
    struct buf line = {0};
    buf_puts(&line, before);
    f->words(&line, text);
    end_line(out, f, &line, 0);
}

/* "1. **title** (remark): text"; number 0: "- title: text, remark". */
static void write_item(struct buf *out, const struct document_form *f, size_t number,
                       const struct document_item *item)
{
    struct buf line = {0};
    if (number)
        buf_printf(&line, "%zu. ", number);
    else
        buf_puts(&line, "- ");
    int indent = (int)line.n;
    if (item->title) {
        buf_puts(&line, number ? f->strong : "");
        f->words(&line, item->title);
        buf_puts(&line, number ? f->strong : "");
    }
    if (number && item->remark) {
        buf_puts(&line, " (");
        f->words(&line, item->remark);
        buf_puts(&line, ")");
    }
    buf_puts(&line, item->title ? ": " : "");
    f->words(&line, item->text);
    if (!number && item->remark) {
        buf_puts(&line, ", ");
        f->words(&line, item->remark);
    }
    end_line(out, f, &line, indent);
}

static void write_list(struct buf *out, const struct document_form *f,
                       const struct document_item *item, bool numbered)
{
    for (size_t i = 1; item; item = item->next, i++)
        write_item(out, f, numbered ? i : 0, item);
}

static void write_facts(struct arena *a, struct buf *out, const struct document_form *f,
                        const struct document_item *item)
{
    static const char *const heads[] = {"What", "Value"};
    struct table *t = table_headed(a, heads, 2);
    for (; item; item = item->next) {
        table_cell(t, "%s", item->title);
        table_cell(t, "%s", item->text);
    }
    f->table(out, t);
}

static void write_block(struct arena *a, struct buf *out, const struct document_form *f,
                        const struct document_block *b)
{
    switch (b->kind) {
    case DOCUMENT_PARAGRAPH:
    case DOCUMENT_REMARK:
        write_line(out, f, "", b->text);
        break;
    case DOCUMENT_FACTS:
        write_facts(a, out, f, b->items);
        break;
    case DOCUMENT_NOTES:
    case DOCUMENT_FINDINGS:
        write_list(out, f, b->items, b->kind == DOCUMENT_FINDINGS);
        break;
    case DOCUMENT_TABLE:
        f->table(out, document_plain(b->of));
        break;
    case DOCUMENT_FIGURE:
        break;
    }
}

static void write_section(struct arena *a, struct buf *out, const struct document_form *f,
                          const struct document_section *s)
{
    bool open = false;
    for (const struct document_block *b = s->blocks; b; b = b->next) {
        if (b->kind == DOCUMENT_FIGURE)
            continue;
        buf_putc(out, '\n');
        if (!open) {
            write_line(out, f, f->section, s->title);
            buf_putc(out, '\n');
        }
        open = true;
        write_block(a, out, f, b);
    }
}

static void write_document(struct buf *out, const struct document_form *f, const struct document *d)
{
    write_line(out, f, f->title, d->title);
    if (d->headline) {
        buf_putc(out, '\n');
        write_line(out, f, "", d->headline);
    }
    if (d->tiles) {
        buf_putc(out, '\n');
        write_list(out, f, d->tiles, false);
    }
    for (const struct document_section *s = d->sections; s; s = s->next)
        write_section(d->a, out, f, s);
}

void document_text(struct buf *out, const struct document *d)
{
    write_document(out, &text_form, d);
}

void document_markdown(struct buf *out, const struct document *d)
{
    write_document(out, &markdown_form, d);
}
