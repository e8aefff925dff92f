/* Page of a deep session: its document, with the pictures that only a page has. */
#include "deep/deep.h"
#include "deep/roofline.h"
#include "report/page.h"

struct deep_data {
    struct deep_result r;
    const struct node *meta;
};

static void draw_timeline(struct arena *a, struct buf *out, const void *data)
{
    const struct deep_result *r = &((const struct deep_data *)data)->r;
    (void)a;
    page_tag(out, "p", NULL,
             "%s, all processes on one clock: ranges of the host above the GPUs' streams.",
             r->n_stages ? "The last instance of the first stage and what followed it"
                         : "All of the trace");
    kernels_gantt_draw(out, r->gantt, false);
}

/* "3, 7": the kernels without a place in the roofline. */
static const char *not_placed(struct arena *a, const struct deep_result *r)
{
    const char *numbers = NULL;
    for (size_t i = 0; i < r->n_kernels; i++)
        if (!deep_roofline_places(&r->kernels[i]))
            numbers = numbers ? arena_printf(a, "%s, %zu", numbers, i + 1)
                              : arena_printf(a, "%zu", i + 1);
    return numbers;
}

static void draw_roofline(struct arena *a, struct buf *out, const void *data)
{
    const struct deep_result *r = &((const struct deep_data *)data)->r;
    const char *numbers = not_placed(a, r);
    page_tag(out, "p", NULL, "Numbers are those of the table. Roofs: %s.", r->roofs);
    buf_puts(out, "<figure class=\"on-screen\">\n");
    deep_roofline(out, r, true);
    buf_puts(out, "</figure>\n<figure class=\"on-phone\">\n");
    deep_roofline(out, r, false);
    buf_puts(out, "</figure>\n");
    if (numbers)
        page_tag(out, "p", "small",
                 "Not in the picture, as their operations are none or not known: %s.", numbers);
}

static void body(struct arena *a, struct buf *out, const struct part *part)
{
    static const struct page_drawing drawings[] = {
        {"timeline", draw_timeline, NULL}, {"roofline", draw_roofline, NULL}, {NULL, NULL, NULL}};
    const struct deep_data *d = part->data;
    const struct document *doc = deep_document(a, &d->r, part->title);
    page_banner(out, doc);
    page_document(a, out, doc, drawings, d);
    if (d->meta)
        page_analysis(a, out, d->meta);
}

struct part part_of_deep(struct arena *a, const struct deep_result *r, const char *id,
                         const struct node *meta)
{
    struct deep_data *d = arena_one(a, struct deep_data);
    *d = (struct deep_data){*r, meta};
    return (struct part){.title = arena_printf(a, "Deep profile %s", id),
                         .remark = arena_printf(a, "%zu kernels", r->n_kernels),
                         .body = body,
                         .data = d};
}

enum st part_deep(struct arena *a, const char *dir, const struct node *meta, struct part *out,
                  struct err *e)
{
    struct deep_result r;
    const char *id = page_value(a, meta, "run_id");
    TRY(deep_result_load(a, fs_join(a, dir, "deep.json"), &r, e));
    *out = part_of_deep(a, &r, id ? id : fs_base(dir), meta);
    return ST_OK;
}
