/* Page of a profiling bundle: device, measurements, and error of predicting held-out points. */
#include "profile/read/meta.h"
#include "report/page.h"

struct bundle_data {
    const struct node *meta; /* whole */
    struct bundle_meta said;
};

static void operators(struct buf *out, const struct bundle_meta *said)
{
    static const struct page_column columns[] = {{.head = ""},
                                                 {.head = "points"},
                                                 {.head = "samples"},
                                                 {.head = "mean error"},
                                                 {.head = "P90 error"}};
    struct page_table t;
    if (said->n_operators == 0)
        return;
    page_section(out, "Operators");
    PAGE_TABLE(&t, out, columns);
    for (size_t i = 0; i < said->n_operators; i++) {
        const struct bundle_operator *op = &said->operators[i];
        page_row(&t);
        page_cell(&t, op->name);
        page_cell_count(&t, (double)op->points);
        page_cell_count(&t, (double)op->samples);
        page_cell_percent(&t, 100 * op->loo_error);
        page_cell_percent(&t, 100 * op->loo_error_p90);
    }
    page_table_end(&t);
    page_tag(out, "p", "small",
             "Errors are leave-one-out: each measured point is predicted from all others.");
    buf_puts(out, "\n</section>\n");
}

static void bundle_body(struct arena *a, struct buf *out, const struct part *part)
{
    const struct bundle_data *d = part->data;
    const char *model = page_value(a, d->meta, "model");
    buf_puts(out, "<header class=\"banner\">\n");
    page_head(out, "Profiling bundle", model ? model : part->title);
    buf_puts(out, "</header>\n");
    operators(out, &d->said);
    page_facts(a, out, "How it was measured", NULL, &d->meta, 1);
}

enum st part_bundle(struct arena *a, const char *dir, const struct node *meta, struct part *out,
                    struct err *e)
{
    struct bundle_data *d = arena_one(a, struct bundle_data);
    const struct node *ops = node_find(meta, "operators");
    if (ops && ops->kind != NODE_MAP)
        return node_err(ops, ST_INPUT, e, "operators: expected a map, got %s",
                        node_kind_name(ops->kind));
    d->meta = meta;
    fields_read_loose(a, &bundle_meta_fields, meta, &d->said);
    *out = (struct part){.title = arena_printf(a, "Bundle %s", fs_base(dir)),
                         .remark = ops ? arena_printf(a, "%u operators", ops->n) : NULL,
                         .body = bundle_body,
                         .data = d};
    return ST_OK;
}
