#include "kernels/kernels.h"

#include "artifact/artifact.h"
#include "base/clock.h"
#include "base/log.h"
#include "cmd/commands.h"
#include "job/job.h"
#include "text/csv.h"
#include "text/json.h"

static enum st write_text(const struct artifact *art, const char *name, struct buf *text,
                          struct err *e)
{
    FILE *f;
    enum st st = artifact_create_file(art, name, &f, e);
    if (st == ST_OK) {
        fwrite(buf_str(text), 1, text->n, f);
        st = artifact_close_file(art, name, &f, e);
    }
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

/* The files that are text in memory. */
static const struct {
    const char *name;
    void (*make)(struct buf *out, const struct kernels *k);
} texts[] = {
    {"kernels.md", kernels_markdown},
    {"operators.md", kernels_operators_markdown},
    {"unique_kernels.jsonl", kernels_unique_jsonl},
    {"kernel_signatures.json", kernels_signatures_json},
    {"timeline.json", kernels_timeline_json},
    {"gantt.svg", kernels_gantt_svg},
};

static enum st write_reports(struct cmd_context *c, const struct artifact *art,
                             const struct kernels *k, struct err *e)
{
    for (const struct kernels_report *r = kernels_reports; r->name; r++) {
        struct table *t = kernels_report_table(c->a, k, r);
        if (table_rows(t) > 1) /* as nsys: no data, no file */
            TRY(write_csv(art, arena_printf(c->a, "trace_%s.csv", r->name), t, e));
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
    kernels_regions_markdown(&regions, k, c->plan->kernels.regions.items,
                             c->plan->kernels.regions.n);
    return write_text(art, "regions.md", &regions, e);
}

static enum st write_steps(struct cmd_context *c, const struct artifact *art,
                           const struct kernels *k, struct err *e)
{
    const struct plan *p = c->plan;
    struct kernels_step_params params = {.pattern = p->kernels.step,
                                         .model = p->model.name ? p->model.name : "unknown",
                                         .batch_size = p->kernels.step_batch_size,
                                         .tensor_parallel = p->parallel.tp};
    if (!params.pattern)
        return ST_OK;
    struct table *t = kernels_step_table(c->a, k, &params);
    if (table_rows(t) == 1) {
        err_set(e, ST_INPUT, "kernels.step: no iteration matches %s", params.pattern);
        return err_hint(e, "regions.md of a run without kernels.step lists the ranges; an "
                           "iteration launches work and is followed by another");
    }
    return write_csv(art, "cpu_overheads.csv", t, e);
}

static enum st write_diff(struct cmd_context *c, const struct artifact *art,
                          const struct kernels *k, const struct kernels_params *params,
                          const struct trace_window *w, struct err *e)
{
    struct trace other;
    struct kernels before;
    if (!c->plan->kernels.against)
        return ST_OK;
    TRY(trace_load(&other, c->plan->kernels.against, w, e));
    kernels_open(&before, &other, params);
    struct table *t = kernels_diff_table(c->a, &before, k);
    struct buf text = {0};
    kernels_diff_markdown(&text, t);
    enum st st = write_csv(art, "kernels_diff.csv", t, e);
    if (st == ST_OK)
        st = write_text(art, "kernels_diff.md", &text, e);
    buf_free(&text);
    kernels_close(&before);
    trace_free(&other);
    return st;
}

static enum st write_exports(struct cmd_context *c, const struct artifact *art,
                             const struct trace_window *w, struct err *e)
{
    const struct option_list *wanted = &c->plan->kernels.exports;
    for (size_t i = 0; i < wanted->n; i++) {
        const struct trace_format *f = trace_format_named(wanted->items[i]);
        TRY(trace_convert(c->plan->kernels.trace, f, artifact_path(c->a, art, f->file), w, e));
    }
    return ST_OK;
}

static enum st check_exports(const struct option_list *wanted, struct err *e)
{
    for (size_t i = 0; i < wanted->n; i++) {
        const struct trace_format *f = trace_format_named(wanted->items[i]);
        if (f && f->create)
            continue;
        struct buf names = {0};
        for (const struct trace_format *const *x = trace_formats; *x; x++)
            if ((*x)->create)
                buf_printf(&names, "%s%s", names.n ? ", " : "", (*x)->name);
        err_set(e, ST_USAGE, "kernels.export: %s is no format that can be written",
                wanted->items[i]);
        err_hint(e, "these are: %s", buf_str(&names));
        buf_free(&names);
        return e->st;
    }
    return ST_OK;
}

static struct node *meta_node(struct cmd_context *c, const char *id, const struct artifact *art,
                              const struct kernels *k)
{
    struct arena *a = c->a;
    const struct trace *t = k->t;
    uint64_t impossible = 0;
    struct node *extra = node_new(a, NODE_MAP), *counters = node_new(a, NODE_MAP);
    node_set(a, extra, SV("trace"), node_str(a, c->plan->kernels.trace));
    node_set(a, extra, SV("trace_format"), node_str(a, t->format));
    node_set(a, counters, SV("operations"), node_int(a, (int64_t)t->ops.n));
    node_set(a, counters, SV("calls"), node_int(a, (int64_t)t->calls.n));
    node_set(a, counters, SV("ranges"), node_int(a, (int64_t)t->n_ranges));
    node_set(a, counters, SV("dropped"), node_int(a, (int64_t)t->dict.dropped));
    node_set(a, counters, SV("skipped"), node_int(a, (int64_t)t->dict.skipped));
    for (int i = 0; i < TRACE_RECORDS; i++)
        impossible += t->dict.impossible[i];
    node_set(a, counters, SV("impossible"), node_int(a, (int64_t)impossible));
    node_set(a, extra, SV("counters"), counters);
    struct run_meta meta = job_meta(c, art, id, "kernels");
    meta.hardware_id = meta.device = NULL; /* not those of the plan */
    meta.extra = extra;
    return run_meta_node(a, &meta);
}

static void tell_notes(struct arena *a, const struct trace *t)
{
    const char *impossible = trace_impossible(a, &t->dict);
    for (uint32_t i = 0; i < t->dict.n_notes; i++)
        log_write((enum log_level)t->dict.notes[i].level, "%s", t->dict.notes[i].text);
    if (impossible)
        log_warn("left out for times that cannot be: %s", impossible);
    if (t->dict.dropped)
        log_warn("the recorder lost %llu records: sums are too small",
                 (unsigned long long)t->dict.dropped);
}

/* Patterns and spans leave names without an operation. */
static int64_t names_in_use(const struct kernels *k)
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

static int64_t gpu_time_ns(const struct kernels *k)
{
    int64_t sum = 0;
    for (size_t i = 0; i < k->t->ops.n; i++)
        sum += kernels_duration(k, i);
    return sum;
}

/* The reports, and where the GPU stood idle: what the files say. */
static struct node *figures_node(struct cmd_context *c, const struct kernels *k, struct err *e)
{
    struct node *reports = node_new(c->a, NODE_MAP), *timeline;
    struct buf text = {0};
    for (const struct kernels_report *r = kernels_reports; r->name; r++)
        node_set(c->a, reports, sv_of(r->name),
                 kernels_report_node(c->a, kernels_report_table(c->a, k, r)));
    kernels_timeline_json(&text, k);
    struct sv json = {arena_strn(c->a, buf_str(&text), text.n), text.n};
    buf_free(&text);
    if (json_parse(c->a, "timeline.json", json, NULL, &timeline, e) != ST_OK)
        return NULL;
    struct node *out = node_new(c->a, NODE_MAP);
    node_set(c->a, out, SV("reports"), reports);
    node_set(c->a, out, SV("timeline"), timeline);
    return out;
}

/* The kernels that took most. */
static void add_top(struct cmd_context *c, const struct kernels *k, struct buf *text)
{
    enum { TOP = 10 };
    static const int columns[] = {0, 1, 2, 3, 8};
    struct table *all = kernels_report_table(c->a, k, &kernels_reports[0]);
    struct table *t = table_new(c->a, 5);
    for (int row = 0; row < table_rows(all) && row <= TOP; row++)
        for (int i = 0; i < 5; i++)
            table_cell(t, "%.90s", table_at(all, row, columns[i]));
    table_text(text, t);
}

static enum st print_result(struct cmd_context *c, const struct kernels *k, const char *dir,
                            struct err *e)
{
    const struct trace_dict *d = &k->t->dict;
    const char *impossible = trace_impossible(c->a, d);
    struct node *out = node_new(c->a, NODE_MAP), *figures;
    struct buf text = {0};
    add_top(c, k, &text);
    node_set(c->a, out, SV("operations"), node_int(c->a, (int64_t)k->t->ops.n));
    node_set(c->a, out, SV("names"), node_int(c->a, names_in_use(k)));
    node_set(c->a, out, SV("gpu_time_ms"), node_float(c->a, (double)gpu_time_ns(k) / 1e6));
    if (d->dropped)
        node_set(c->a, out, SV("dropped"), node_int(c->a, (int64_t)d->dropped));
    if (impossible)
        node_set(c->a, out, SV("left_out"), node_str(c->a, impossible));
    node_set(c->a, out, SV("out"), node_str(c->a, dir));
    job_lines(&text, out);
    buf_printf(&text, "next: twinfer report report.inputs='[%s]' out=DIR makes a page of it\n",
               dir);
    if (c->json) {
        figures = figures_node(c, k, e);
        for (uint32_t i = 0; figures && i < figures->n; i++)
            node_set(c->a, out, figures->pairs[i].key, figures->pairs[i].value);
    }
    if (e->st == ST_OK)
        job_result(c, out, buf_str(&text));
    buf_free(&text);
    return e->st;
}

static enum st write_all(struct cmd_context *c, struct trace *t, const struct trace_window *w,
                         struct err *e)
{
    const struct plan *p = c->plan;
    struct kernels k;
    struct kernels_params params = {p->kernels.include.items, p->kernels.exclude.items,
                                    p->kernels.include.n, p->kernels.exclude.n};
    const char *id, *dir = job_out_dir(c, "kernels", &id);
    struct artifact art;
    TRY(artifact_begin(c->a, dir, "run_meta.json", &art, e));
    kernels_open(&k, t, &params);
    if (t->ops.n == 0)
        log_warn("no GPU work in %s%s", p->kernels.trace,
                 params.n_include || params.n_exclude || w->from_ns || w->to_ns
                     ? " within this span and these patterns"
                     : "");
    enum st st = write_reports(c, &art, &k, e);
    if (st == ST_OK)
        st = write_steps(c, &art, &k, e);
    if (st == ST_OK)
        st = write_diff(c, &art, &k, &params, w, e);
    if (st == ST_OK)
        st = write_exports(c, &art, w, e);
    if (st == ST_OK)
        st = job_snapshot(c, &art, e);
    if (st == ST_OK)
        st = artifact_commit(&art, meta_node(c, id, &art, &k), e);
    if (st == ST_OK)
        st = print_result(c, &k, dir, e);
    else
        artifact_discard(&art);
    kernels_close(&k);
    return st;
}

static enum st run(struct cmd_context *c, struct err *e)
{
    const struct plan *p = c->plan;
    if (!p->kernels.trace) {
        err_set(e, ST_USAGE, "kernels.trace is not set");
        return err_hint(e, "kernels.trace=runs/traces/t1 takes a trace folder or file");
    }
    if (p->kernels.to_ms > 0 && p->kernels.to_ms <= p->kernels.from_ms)
        return err_set(e, ST_USAGE, "kernels.to_ms is not after kernels.from_ms");
    TRY(check_exports(&p->kernels.exports, e));
    struct trace t;
    struct trace_window w = {ns_from_s(p->kernels.from_ms / 1e3),
                             ns_from_s(p->kernels.to_ms / 1e3)};
    if (trace_load(&t, p->kernels.trace, &w, e) != ST_OK)
        return fs_exists(p->kernels.trace)
                   ? e->st
                   : err_hint(e, "kernels.trace= takes a folder of twinfer trace, Nsight Systems' "
                                 "SQLite export, or PyTorch's JSON");
    tell_notes(c->a, &t);
    enum st st = write_all(c, &t, &w, e);
    trace_free(&t);
    return st;
}

static int run_kernels(struct cmd_context *c, struct err *e)
{
    if (run(c, e) != ST_OK)
        err_add(e, "kernels");
    return err_exit_code(e->st);
}

const struct cmd cmd_kernels = {
    .id = COMMAND_KERNELS,
    .columns = "operations names gpu_time_ms dropped",
    .summary = "say what the GPU did: times by kernel, region and operator",
    .about = "Reads a trace of any format and writes the reports of `nsys stats` under their names "
             "and headers, kernels.md, operators.md, regions.md, unique kernels with counts and "
             "tiers, where the GPU stood idle, and a Gantt chart.",
    .example = "twinfer kernels kernels.trace=runs/traces/t1 out=kernels",
    .run = run_kernels,
};
