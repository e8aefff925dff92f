/* The files of kernels/<id>/, and their figures for the result. */
#include "kernels/analysis_files.h"

#include "kernels/summary.h"
#include "text/csv.h"
#include "text/json.h"

/* Writes a file and frees the text. */
static enum st write_text(const struct artifact *art, const char *name, struct buf *text,
                          struct err *e)
{
    enum st st = artifact_write(art, name, text, e);
    buf_free(text);
    return st;
}

static enum st write_csv(const struct artifact *art, const char *name, const struct table *t,
                         struct err *e)
{
    FILE *f;
    TRY(artifact_create_file(art, name, &f, e));
    struct csv_writer w = {.f = f};
    for (int row = 0; row < table_rows(t); row++) {
        for (int column = 0; column < table_columns(t); column++)
            csv_put_str(&w, table_at(t, row, column));
        csv_end_row(&w);
    }
    return artifact_close_file(art, name, &f, e);
}

/* Files made in memory. */
static const struct {
    const char *name;
    void (*make)(struct buf *out, const struct kernels *k);
} texts[] = {
    {"kernels.md", kernels_markdown},
    {"operators.md", kernels_operators_markdown},
    {"unique_kernels.jsonl", kernels_unique_jsonl},
    {"kernel_signatures.json", kernels_signatures_json},
};

static enum st write_reports(const struct artifact *art, const struct kernels *k,
                             const struct kernels_files *p, struct err *e)
{
    for (const struct kernels_report *r = kernels_reports; r->name; r++) {
        struct table *t = kernels_report_table(art->a, k, r);
        if (table_rows(t) > 1) /* as nsys: no data, no file */
            TRY(write_csv(art, arena_printf(art->a, "trace_%s.csv", r->name), t, e));
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct buf text = {0};
        texts[i].make(&text, k);
        TRY(write_text(art, texts[i].name, &text, e));
    }
    struct buf shapes = {0};
    size_t n_shapes;
    kernels_linear_jsonl(&shapes, k, &n_shapes);
    if (n_shapes)
        TRY(write_text(art, "linear_shapes.jsonl", &shapes, e));
    struct buf regions = {0};
    kernels_regions_markdown(&regions, k, p->regions, p->n_regions);
    return write_text(art, "regions.md", &regions, e);
}

static enum st write_steps(const struct artifact *art, const struct kernels *k,
                           const struct kernels_files *p, struct err *e)
{
    if (!p->step.pattern)
        return ST_OK;
    struct table *t = kernels_step_table(art->a, k, &p->step);
    if (table_rows(t) == 1) {
        err_set(e, ST_INPUT, "kernels.step: no iteration matches %s", p->step.pattern);
        return err_hint(e, "regions.md of a run without kernels.step lists the ranges; an "
                           "iteration launches work and is followed by another");
    }
    return write_csv(art, "cpu_overheads.csv", t, e);
}

static enum st write_diff(const struct artifact *art, const struct kernels *k,
                          const struct kernels_files *p, struct kernels_summary *summary,
                          struct err *e)
{
    struct trace other;
    struct kernels before;
    if (!p->against)
        return ST_OK;
    TRY(trace_load(&other, p->against, p->window, e));
    kernels_open(&before, &other, p->patterns);
    struct table *t = kernels_diff_table(art->a, &before, k);
    kernels_summary_changes(art->a, summary, p->against, t);
    struct buf text = {0};
    kernels_diff_markdown(&text, t);
    enum st st = write_csv(art, "kernels_diff.csv", t, e);
    if (st == ST_OK)
        st = write_text(art, "kernels_diff.md", &text, e);
    else
        buf_free(&text);
    kernels_close(&before);
    trace_free(&other);
    return st;
}

static enum st write_summary(const struct artifact *art, const struct kernels_summary *s,
                             struct err *e)
{
    struct buf timeline = {0}, gantt = {0}, json = {0};
    kernels_timeline_json(&timeline, &s->timeline);
    TRY(write_text(art, "timeline.json", &timeline, e));
    kernels_gantt_draw(&gantt, &s->gantt, true);
    TRY(write_text(art, "gantt.svg", &gantt, e));
    kernels_summary_json(&json, s);
    return write_text(art, "kernels.json", &json, e);
}

static enum st write_exports(const struct artifact *art, const struct kernels_files *p,
                             struct err *e)
{
    for (size_t i = 0; i < p->n_exports; i++) {
        const struct trace_format *f = trace_format_named(p->exports[i]);
        TRY(trace_convert(p->trace, f, artifact_path(art->a, art, f->file), p->window, e));
    }
    return ST_OK;
}

enum st kernels_check_exports(const char *const *wanted, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        const struct trace_format *f = trace_format_named(wanted[i]);
        if (f && f->create)
            continue;
        struct buf names = {0};
        for (const struct trace_format *const *x = trace_formats; *x; x++)
            if ((*x)->create)
                buf_printf(&names, "%s%s", names.n ? ", " : "", (*x)->name);
        err_set(e, ST_USAGE, "kernels.export: %s is no format that can be written", wanted[i]);
        err_hint(e, "these are: %s", buf_str(&names));
        buf_free(&names);
        return e->st;
    }
    return ST_OK;
}

enum st kernels_write(const struct artifact *art, const struct kernels *k,
                      const struct kernels_files *p, struct err *e)
{
    struct kernels_summary summary;
    kernels_summary_of(art->a, k, p->trace, &summary);
    TRY(write_reports(art, k, p, e));
    TRY(write_steps(art, k, p, e));
    if (p->serving) {
        TRY(write_csv(art, "iterations.csv", serving_table(art->a, &p->serving->s), e));
        summary.iterations = p->serving->sums;
        summary.n_iterations = p->serving->n_sums;
    }
    TRY(write_diff(art, k, p, &summary, e));
    TRY(write_summary(art, &summary, e));
    return write_exports(art, p, e);
}

/* ---- in short ---- */

int64_t kernels_names_in_use(const struct kernels *k)
{
    int64_t n = 0;
    bool *used = mem_alloc(k->n_names + 1);
    for (size_t i = 0; i < k->t->ops.n; i++) {
        bool *u = &used[k->name[k->t->ops.sig[i]]];
        n += !*u;
        *u = true;
    }
    mem_free(used);
    return n;
}

int64_t kernels_gpu_time_ns(const struct kernels *k)
{
    int64_t sum = 0;
    for (size_t i = 0; i < k->t->ops.n; i++)
        sum += kernels_duration(k, i);
    return sum;
}

struct node *kernels_figures_node(struct arena *a, const struct kernels *k, struct err *e)
{
    struct node *reports = node_new(a, NODE_MAP), *timeline;
    struct buf text = {0};
    for (const struct kernels_report *r = kernels_reports; r->name; r++)
        node_set(a, reports, sv_of(r->name), kernels_report_node(a, kernels_report_table(a, k, r)));
    const struct kernels_timeline figures = kernels_timeline_of(a, k);
    kernels_timeline_json(&text, &figures);
    struct sv json = {arena_strn(a, buf_str(&text), text.n), text.n};
    buf_free(&text);
    if (json_parse(a, "timeline.json", json, NULL, &timeline, e) != ST_OK)
        return NULL;
    struct node *out = node_new(a, NODE_MAP);
    node_set(a, out, SV("reports"), reports);
    node_set(a, out, SV("timeline"), timeline);
    return out;
}
