/* Documents (text/document.h) as parts of a page. */
#include <string.h>

#include "report/page.h"
#include "text/html.h"

static const char *const tones[] = {[DOCUMENT_PLAIN] = "",
                                    [DOCUMENT_GOOD] = "pass",
                                    [DOCUMENT_CLOSE] = "close",
                                    [DOCUMENT_OPEN] = "open",
                                    [DOCUMENT_BAD] = "fail"};

void page_banner(struct buf *out, const struct document *d)
{
    buf_printf(out, "<header class=\"banner%s%s\">\n", d->tone ? " " : "", tones[d->tone]);
    page_head(out, d->title, d->headline ? d->headline : d->title);
    buf_puts(out, "\n");
    if (d->tiles)
        buf_puts(out, "<dl class=\"tiles\">\n");
    for (const struct document_item *i = d->tiles; i; i = i->next)
        page_tile(out, i->title, i->text, i->remark);
    buf_puts(out, d->tiles ? "</dl>\n</header>\n" : "</header>\n");
}

/* What draws, and of what. */
struct page_pictures {
    const struct page_drawing *list;
    const void *data;
};

static const struct page_drawing *drawing_of(const struct page_pictures *p, const char *name)
{
    const struct page_drawing *list = p->list;
    while (list && list->name && strcmp(list->name, name) != 0)
        list++;
    ASSERT(list && list->name);
    return list;
}

/* ---- tables -------------------------------------------------------------------------------- */

static void add_folded(struct buf *out, const struct document_cell *c, const char *text)
{
    buf_puts(out, "<details class=\"name kernel\"><summary>");
    html_escape(out, text);
    buf_puts(out, "</summary>");
    for (size_t i = 0; i < DOCUMENT_FOLDED; i++)
        if (c->folded[i])
            page_tag(out, "span", "full", "%s", c->folded[i]);
    buf_puts(out, "</details>");
}

static void add_value(struct buf *out, const struct document_cell *c, const char *text)
{
    if (c->folded[0] || c->folded[1]) {
        add_folded(out, c, text);
    } else if (c->tone) {
        buf_printf(out, "<span class=\"badge %s\">", tones[c->tone]);
        html_escape(out, text);
        buf_puts(out, "</span>");
    } else {
        html_escape(out, text);
    }
    if (c->remark) {
        buf_putc(out, ' ');
        page_tag(out, "small", NULL, "%s", c->remark);
    }
}

/* What stands below the value of the column before. */
static void add_under(struct buf *out, const struct document_cell *c, const char *text)
{
    buf_printf(out, "<small class=\"change%s%s\">", c->tone ? " " : "", tones[c->tone]);
    html_escape(out, text);
    buf_puts(out, "</small>");
}

static void add_row(struct page_table *page, const struct document_table *t,
                    const struct document_row *row, const struct page_pictures *pictures)
{
    if (row->group) {
        page_group(page, row->group, row->group_remark);
        return;
    }
    if (row->detail)
        page_row_of(page, "detail");
    else
        page_row(page);
    for (size_t k = 0; k < t->n; k++) {
        const char *picture = t->columns[k].picture;
        page_cell_begin(page);
        if (picture && row->cells[k].of)
            drawing_of(pictures, picture)->draw_cell(page->out, pictures->data, row->cells[k].of);
        add_value(page->out, &row->cells[k], document_cell_text(t, row, k));
        while (k + 1 < t->n && t->columns[k + 1].under) {
            k++;
            const char *text = document_cell_text(t, row, k);
            if (text[0])
                add_under(page->out, &row->cells[k], text);
        }
        page_cell_end(page);
    }
}

static enum page_look look_of(enum document_kind kind)
{
    return kind == DOCUMENT_WORDS ? PAGE_WORDS : kind == DOCUMENT_LABEL ? PAGE_LABEL : PAGE_NUMBER;
}

static void add_table(struct buf *out, const struct document_table *t,
                      const struct page_pictures *pictures)
{
    struct page_column *columns = arena_array(t->a, struct page_column, t->n);
    struct page_table page;
    int n = 0;
    for (size_t k = 0; k < t->n; k++) {
        const struct document_column *c = &t->columns[k];
        if (!c->under)
            columns[n++] = (struct page_column){
                .head = c->title, .look = look_of(c->kind), .series = c->series};
        else
            columns[n - 1].below[columns[n - 1].below[0] != NULL] = c->title;
    }
    page_table_begin(&page, out, columns, n);
    for (const struct document_row *row = t->first; row; row = row->next)
        add_row(&page, t, row, pictures);
    page_table_end(&page);
}

/* ---- blocks -------------------------------------------------------------------------------- */

static void add_facts(struct buf *out, const struct document_item *item)
{
    buf_puts(out, "<div class=\"scroll\"><table class=\"facts\">\n");
    for (; item; item = item->next) {
        buf_puts(out, "<tr>");
        page_tag(out, "th", NULL, "%s", item->title);
        page_tag(out, "td", NULL, "%s", item->text);
        buf_puts(out, "</tr>\n");
    }
    buf_puts(out, "</table></div>\n");
}

static void add_notes(struct buf *out, const struct document_item *item)
{
    buf_puts(out, "<ul class=\"notes\">\n");
    for (; item; item = item->next) {
        page_tag(out, "li", NULL, "%s%s%s", item->title ? item->title : "", item->title ? ": " : "",
                 item->text);
        buf_puts(out, "\n");
    }
    buf_puts(out, "</ul>\n");
}

static void add_findings(struct buf *out, const struct document_item *item)
{
    buf_puts(out, "<ol class=\"findings\">\n");
    for (; item; item = item->next) {
        buf_puts(out, "<li>");
        if (item->title) {
            page_tag(out, "strong", NULL, "%s", item->title);
            buf_puts(out, "<br>");
        }
        if (item->remark) {
            page_tag(out, "small", NULL, "%s", item->remark);
            buf_puts(out, "<br>");
        }
        html_escape(out, item->text);
        buf_puts(out, "</li>\n");
    }
    buf_puts(out, "</ol>\n");
}

static void add_block(struct arena *a, struct buf *out, const struct document_block *b,
                      const struct page_pictures *pictures)
{
    switch (b->kind) {
    case DOCUMENT_PARAGRAPH:
    case DOCUMENT_REMARK:
        page_tag(out, "p", b->kind == DOCUMENT_REMARK ? "small" : NULL, "%s", b->text);
        buf_puts(out, "\n");
        break;
    case DOCUMENT_FACTS:
        add_facts(out, b->items);
        break;
    case DOCUMENT_NOTES:
        add_notes(out, b->items);
        break;
    case DOCUMENT_FINDINGS:
        add_findings(out, b->items);
        break;
    case DOCUMENT_TABLE:
        add_table(out, b->of, pictures);
        break;
    case DOCUMENT_FIGURE:
        drawing_of(pictures, b->text)->draw(a, out, pictures->data);
        break;
    }
}

void page_document(struct arena *a, struct buf *out, const struct document *d,
                   const struct page_drawing *drawings, const void *data)
{
    const struct page_pictures pictures = {drawings, data};
    struct buf body = {0};
    for (const struct document_section *s = d->sections; s; s = s->next) {
        buf_clear(&body);
        for (const struct document_block *b = s->blocks; b; b = b->next)
            add_block(a, &body, b, &pictures);
        if (!body.n) /* nothing to draw either */
            continue;
        page_section(out, s->title);
        buf_add(out, body.p, body.n);
        buf_puts(out, "</section>\n");
    }
    buf_free(&body);
}
