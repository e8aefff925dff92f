/* Tables of a page; report.css lays them out for narrow screens. */
#include "report/page.h"
#include "text/html.h"

/* Classes of heads and cells: words and labels align left, numbers right. */
static const struct {
    const char *head, *cell;
} classes[] = {
    [PAGE_NUMBER] = {"num", "num"},
    [PAGE_WORDS] = {NULL, "why"},
    [PAGE_LABEL] = {NULL, "label"},
};

static void add_head(struct buf *out, const struct page_column *c, const char *class)
{
    buf_puts(out, "<th");
    if (c->series > 0)
        buf_printf(out, " class=\"%s run c%d\"", class ? class : "", c->series - 1);
    else if (class)
        buf_printf(out, " class=\"%s\"", class);
    buf_putc(out, '>');
    html_escape(out, c->head);
    for (int i = 0; i < 2 && c->below[i]; i++)
        page_tag(out, "small", "change", "%s", c->below[i]);
    buf_puts(out, "</th>");
}

void page_table_begin(struct page_table *t, struct buf *out, const struct page_column *columns,
                      int n)
{
    *t = (struct page_table){.out = out, .columns = columns, .n = n};
    buf_puts(out, "<div class=\"scroll\"><table class=\"stack\">\n<thead><tr>");
    for (int i = 0; i < n; i++) {
        const struct page_column *c = &columns[i];
        const char *class = i > 0 ? classes[c->look].head : NULL;
        if (c->head[0])
            add_head(out, c, class);
        else
            buf_puts(out, "<td></td>");
    }
    buf_puts(out, "</tr></thead>\n<tbody>\n");
}

static void end_row(struct page_table *t)
{
    ASSERT(t->at == 0 || t->at == t->n);
    if (t->at)
        buf_puts(t->out, "</tr>\n");
    t->at = 0;
}

void page_row_of(struct page_table *t, const char *class)
{
    end_row(t);
    buf_printf(t->out, "<tr class=\"%s\">", class);
}

void page_row(struct page_table *t)
{
    end_row(t);
    buf_puts(t->out, "<tr>");
}

void page_group(struct page_table *t, const char *title, const char *remark)
{
    page_row_of(t, "group");
    buf_printf(t->out, "<th colspan=\"%d\" scope=\"rowgroup\">", t->n);
    page_text(t->out, "%s", title);
    if (remark)
        page_tag(t->out, "small", NULL, " %s", remark);
    buf_puts(t->out, "</th></tr>\n");
}

void page_cell_begin(struct page_table *t)
{
    ASSERT(t->at < t->n);
    const struct page_column *c = &t->columns[t->at];
    if (t->at == 0) {
        buf_printf(t->out, "<th class=\"%s\">", c->look == PAGE_LABEL ? "label" : "wide");
        return;
    }
    buf_printf(t->out, "<td class=\"%s\" data-head=\"", classes[c->look].cell);
    html_escape(t->out, c->head);
    buf_puts(t->out, "\">");
}

void page_cell_end(struct page_table *t)
{
    buf_puts(t->out, t->at++ == 0 ? "</th>" : "</td>");
}

void page_cell(struct page_table *t, const char *text)
{
    page_cell_begin(t);
    html_escape(t->out, text);
    page_cell_end(t);
}

void page_cell_duration(struct page_table *t, double seconds)
{
    char text[WORDS_MAX];
    page_cell(t, words_duration(text, seconds));
}

void page_cell_percent(struct page_table *t, double percent)
{
    char text[WORDS_MAX];
    page_cell(t, words_percent(text, percent));
}

void page_cell_count(struct page_table *t, double n)
{
    char text[WORDS_MAX];
    page_cell(t, page_count(text, n));
}

void page_table_end(struct page_table *t)
{
    end_row(t);
    buf_puts(t->out, "</tbody></table></div>\n");
}

void page_bar(struct buf *out, double percent)
{
    double p = percent > 100 ? 100 : percent > 0 ? percent : 0;
    buf_printf(out,
               "<svg class=\"bar\" aria-hidden=\"true\"><rect class=\"outer\" width=\"100%%\" "
               "height=\"100%%\"/><rect width=\"%.1f%%\" height=\"100%%\"/></svg>",
               p);
}
