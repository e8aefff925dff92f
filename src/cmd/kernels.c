#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "cmd/commands.h"
#include "config/override.h"
#include "job/job.h"
#include "kernels/analysis_files.h"
#include "kernels/iterations.h"
#include "kernels/serving.h"

static struct node *meta_node(struct job_context *c, const char *id, const struct artifact *art,
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
    return job_meta_elsewhere(c, art, id, "kernels", extra);
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

/* The kernels that took most. */
static void add_top(struct job_context *c, const struct kernels *k, struct buf *text)
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

/* ---- the bundle of iterations ---------------------------------------------------------------- */

#define ITERATIONS_ROOT "profile" /* below out= */

static bool wants_iterations(const struct plan *p)
{
    return p->kernels.composition || p->kernels.step_table;
}

static enum st check_iterations(const struct plan *p, struct err *e)
{
    if (!wants_iterations(p))
        return ST_OK;
    if (p->kernels.iterations)
        return err_set(e, ST_USAGE,
                       "kernels.iterations and %s: one of them says which iterations there are",
                       p->kernels.composition ? "kernels.composition" : "kernels.step_table");
    if (p->kernels.composition && p->kernels.step_table)
        return err_set(e, ST_USAGE,
                       "kernels.composition and kernels.step_table: one of them says "
                       "what was in the batches");
    if (!p->model.name || !p->hardware.id) {
        err_set(e, ST_USAGE, "%s: not set, and the bundle is filed under it",
                p->model.name ? "hardware.id" : "model.name");
        return err_hint(e, "model.name=qwen3_0_6b hardware.id=h200");
    }
    if (!p->kernels.composition || strcmp(p->kernels.composition, "auto") == 0)
        return ST_OK;
    return composition_check(p->kernels.composition, e);
}

static struct whole_params bundle_params(struct job_context *c, const struct artifact *art,
                                         const struct kernels *k)
{
    const struct plan *p = c->plan;
    struct node *meta = node_new(c->a, NODE_MAP);
    node_put(c->a, meta, "trace", node_str(c->a, p->kernels.trace));
    node_put(c->a, meta, "trace_format", node_str(c->a, k->t->format));
    return (struct whole_params){.root = artifact_path(c->a, art, ITERATIONS_ROOT),
                                 .hardware = p->hardware.id,
                                 .model_name = p->model.name,
                                 .tp = p->parallel.tp,
                                 .method = "trace",
                                 .meta = meta};
}

static enum st write_iterations(struct job_context *c, const struct artifact *art,
                                const struct kernels *k, struct kernels_iterations_result *out,
                                struct err *e)
{
    const struct plan *p = c->plan;
    const struct kernels_iterations_params params = {
        .composition = p->kernels.composition,
        .pattern = p->kernels.step,
        .table = p->kernels.step_table,
        .to = bundle_params(c, art, k),
    };
    if (!wants_iterations(p))
        return ST_OK;
    TRY(kernels_iterations(c->a, k, &params, out, e));
    if (out->kv_unknown)
        log_warn("no range says how many tokens were cached (kv): times are taken not to depend on "
                 "them");
    return ST_OK;
}

/* The same of a server whose log says what was in its batches. */
static enum st write_served(struct job_context *c, const struct artifact *art,
                            const struct kernels *k, const struct serving_result *r,
                            struct kernels_iterations_result *out, struct err *e)
{
    const struct plan *p = c->plan;
    if (!p->kernels.iteration_log || !p->model.name || !p->hardware.id)
        return ST_OK;
    struct whole_params to = bundle_params(c, art, k);
    size_t compiled;
    const struct whole_sample *samples =
        serving_samples(c->a, &r->s, &out->iterations, &compiled, &out->kv_unknown);
    if (compiled)
        log_info("%zu iterations were left out: the host compiled kernels, or stalled", compiled);
    node_put(c->a, to.meta, "compiled", node_int(c->a, (int64_t)compiled));
    node_put(c->a, to.meta, "iteration_log", node_str(c->a, p->kernels.iteration_log));
    struct node *runs = node_new(c->a, NODE_LIST);
    for (size_t i = 0; i < p->kernels.runs.n; i++)
        node_push(c->a, runs, node_str(c->a, p->kernels.runs.items[i]));
    node_put(c->a, to.meta, "runs", runs);
    node_put(c->a, to.meta, "kv_known", node_bool(c->a, !out->kv_unknown));
    if (out->kv_unknown)
        log_warn("a log does not say how many tokens were cached: times are taken not to depend on "
                 "them; kernels.runs= takes the runs whose requests they were");
    return whole_write(c->a, &to, samples, out->iterations, &out->bundle, e);
}

static void show_serving(struct job_context *c, const struct serving_result *r, struct buf *text,
                         struct node *out)
{
    buf_puts(text, "\n");
    table_text(text, serving_kind_table(c->a, r->sums, r->n_sums));
    buf_puts(text, "\n");
    table_text(text, serving_class_table(c->a, r->sums, r->n_sums));
    buf_puts(text, "\n");
    node_put(c->a, out, "served_iterations", node_int(c->a, (int64_t)r->s.n));
    if (c->plan->kernels.iteration_log)
        node_put(c->a, out, "logged_iterations", node_int(c->a, (int64_t)r->s.n_logged));
    struct node *matches = node_new(c->a, NODE_LIST);
    for (size_t i = 0; i < r->n_matches; i++)
        node_push(c->a, matches, node_str(c->a, r->matches[i]));
    if (r->n_matches)
        node_put(c->a, out, "runs", matches);
}

static void show_iterations(struct job_context *c, const struct kernels_iterations_result *r,
                            const char *dir, struct node *out)
{
    const struct holdout *h = &r->bundle.error;
    if (!r->iterations)
        return;
    node_put(c->a, out, "iterations", node_int(c->a, (int64_t)r->iterations));
    node_put(c->a, out, "iteration_rows", node_int(c->a, (int64_t)r->bundle.rows));
    node_put(c->a, out, "loo_error_percent",
             node_number(c->a, h->tested ? round(h->mean * 1e4) / 1e2 : (double)NAN));
    node_put(c->a, out, "profile_root",
             node_str(c->a, arena_printf(c->a, "%s/%s", dir, ITERATIONS_ROOT)));
}

static enum st print_result(struct job_context *c, const struct kernels *k,
                            const struct serving_result *serving,
                            const struct kernels_iterations_result *iterations, const char *dir,
                            struct err *e)
{
    const struct trace_dict *d = &k->t->dict;
    const char *impossible = trace_impossible(c->a, d);
    struct node *out = node_new(c->a, NODE_MAP), *figures;
    struct buf text = {0};
    add_top(c, k, &text);
    node_set(c->a, out, SV("operations"), node_int(c->a, (int64_t)k->t->ops.n));
    node_set(c->a, out, SV("names"), node_int(c->a, kernels_names_in_use(k)));
    node_set(c->a, out, SV("gpu_time_ms"), node_float(c->a, (double)kernels_gpu_time_ns(k) / 1e6));
    if (d->dropped)
        node_set(c->a, out, SV("dropped"), node_int(c->a, (int64_t)d->dropped));
    if (impossible)
        node_set(c->a, out, SV("left_out"), node_str(c->a, impossible));
    if (serving)
        show_serving(c, serving, &text, out);
    show_iterations(c, iterations, dir, out);
    node_set(c->a, out, SV("out"), node_str(c->a, dir));
    job_lines(&text, out);
    buf_puts(&text, "next: twinfer report ");
    override_list_word(&text, "report.inputs", &dir, 1);
    buf_puts(&text, " out=DIR makes a page of it\n");
    if (c->json) {
        figures = kernels_figures_node(c->a, k, e);
        for (uint32_t i = 0; figures && i < figures->n; i++)
            node_set(c->a, out, figures->pairs[i].key, figures->pairs[i].value);
        if (serving)
            node_put(c->a, out, "iterations_by_graphs", serving_sums_node(c->a, serving));
    }
    if (e->st == ST_OK)
        job_result(c, out, buf_str(&text));
    buf_free(&text);
    return e->st;
}

static enum st write_all(struct job_context *c, struct trace *t, const struct trace_window *w,
                         struct err *e)
{
    const struct plan *p = c->plan;
    struct kernels k;
    struct kernels_params params = {p->kernels.include.items, p->kernels.exclude.items,
                                    p->kernels.include.n, p->kernels.exclude.n};
    const char *id, *dir = job_out_dir(c, "kernels", &id);
    struct artifact art;
    TRY(artifact_begin(c->a, dir, "run_meta.json", &art, e));
    struct serving_result served, *serving = p->kernels.iterations ? &served : NULL;
    const struct serving_params serving_params = {.log = p->kernels.iteration_log,
                                                  .runs = p->kernels.runs.items,
                                                  .n_runs = p->kernels.runs.n};
    kernels_open(&k, t, &params);
    if (t->ops.n == 0)
        log_warn("no GPU work in %s%s", p->kernels.trace,
                 params.n_include || params.n_exclude || w->from_ns || w->to_ns
                     ? " within this span and these patterns"
                     : "");
    const struct kernels_files files = {
        .regions = p->kernels.regions.items,
        .n_regions = p->kernels.regions.n,
        .step = {.pattern = p->kernels.step,
                 .model = p->model.name ? p->model.name : "unknown",
                 .batch_size = p->kernels.step_batch_size,
                 .tensor_parallel = p->parallel.tp},
        .serving = serving,
        .against = p->kernels.against,
        .patterns = &params,
        .window = w,
        .trace = p->kernels.trace,
        .exports = p->kernels.exports.items,
        .n_exports = p->kernels.exports.n,
    };
    struct kernels_iterations_result iterations = {0};
    enum st st = serving ? serving_of(c->a, &k, &serving_params, serving, e) : ST_OK;
    if (st == ST_OK)
        st = kernels_write(&art, &k, &files, e);
    if (st == ST_OK)
        st = write_iterations(c, &art, &k, &iterations, e);
    if (st == ST_OK && serving)
        st = write_served(c, &art, &k, serving, &iterations, e);
    if (st == ST_OK)
        st = job_snapshot(c, &art, e);
    if (st == ST_OK)
        st = artifact_commit(&art, meta_node(c, id, &art, &k), e);
    if (st == ST_OK)
        st = print_result(c, &k, serving, &iterations, dir, e);
    else
        artifact_discard(&art);
    kernels_close(&k);
    return st;
}

static enum st run(struct job_context *c, struct err *e)
{
    const struct plan *p = c->plan;
    if (!p->kernels.trace) {
        err_set(e, ST_USAGE, "kernels.trace is not set");
        return err_hint(e, "kernels.trace=runs/traces/t1 takes a trace folder or file");
    }
    if (p->kernels.to_ms > 0 && p->kernels.to_ms <= p->kernels.from_ms)
        return err_set(e, ST_USAGE, "kernels.to_ms is not after kernels.from_ms");
    TRY(check_iterations(p, e));
    TRY(kernels_check_exports(p->kernels.exports.items, p->kernels.exports.n, e));
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

static int run_kernels(struct job_context *c, struct err *e)
{
    if (run(c, e) != ST_OK)
        err_add(e, "kernels");
    return err_exit_code(e->st);
}

const struct cmd cmd_kernels = {
    .id = COMMAND_KERNELS,
    .columns = "operations names gpu_time_ms dropped",
    .summary = "say what the GPU did: times by kernel, region and operator",
    .about =
        "Reads a trace of any format and writes the reports of `nsys stats` under their names "
        "and headers, kernels.md, operators.md, regions.md, unique kernels with counts and "
        "tiers, where the GPU stood idle, and a Gantt chart. Of an engine whose ranges say what "
        "is in its batches, or of a vLLM server with its log of iterations, it makes a profiling "
        "bundle.",
    .example = "twinfer kernels kernels.trace=runs/traces/t1 out=kernels",
    .run = run_kernels,
};
