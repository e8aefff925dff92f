/* Writes the pages that tests/report/look.sh looks at: make_pages FOLDER. */
#include <stdio.h>

#include "config/plan.h"
#include "report/report.h"
#include "support/fake_run.h"
#include "support/fake_search.h"
#include "support/fake_spool.h"
#include "workload/workload.h"

#define HOSTILE "<script>document.title='run'</script><b>\"'&"

static enum st save(struct arena *a, const char *dir, const char *name, struct buf *html,
                    struct err *e)
{
    enum st st = fs_write_atomic(fs_join(a, dir, name), html->p, html->n, e);
    buf_clear(html);
    return st;
}

static enum st comparison_page(struct arena *a, const char *dir, const char *real, const char *sim,
                               const char *spread, const char *id, struct buf *html, struct err *e)
{
    const struct compare_params p = {.real_dir = real,
                                     .sim_dir = sim,
                                     .spread_dirs = &spread,
                                     .n_spread = spread != NULL,
                                     .pass_percent = 5,
                                     .warn_percent = 9};
    struct comparison c;
    struct artifact art;
    struct node *meta = node_new(a, NODE_MAP);
    TRY(compare_runs(a, &p, &c, e));
    TRY(artifact_begin(a, fs_join(a, dir, id), "run_meta.json", &art, e));
    TRY(compare_write(&art, &c, e));
    node_set(a, meta, SV("run_type"), node_str(a, "compare"));
    node_set(a, meta, SV("run_id"), node_str(a, id));
    report_comparison(a, html, &c, meta);
    TRY(artifact_commit(&art, meta, e));
    return save(a, dir, arena_printf(a, "%s.html", id), html, e);
}

static enum st make_workload(struct arena *a, const char *dir, struct err *e)
{
    struct artifact art;
    struct workload w;
    const struct workload_params p = {.seed = 3,
                                      .num_requests = 200,
                                      .arrival_kind = ARRIVAL_POISSON,
                                      .rate = 4,
                                      .lengths_kind = LENGTHS_UNIFORM,
                                      .min_tokens = 64,
                                      .max_tokens = 900,
                                      .prefill_decode_ratio = 4};
    TRY(workload_make(a, &p, &w, e));
    TRY(artifact_begin(a, dir, WORKLOAD_META, &art, e));
    TRY(workload_write(&art, &w, NULL, 0, e));
    const struct workload_meta meta = {.workload_id = "w_77aa", .model = HOSTILE, .seed = 3};
    return artifact_commit(&art, workload_meta_node(a, &meta), e);
}

static enum st make_bundle(struct arena *a, const char *dir, struct err *e)
{
    static const char text[] =
        "{\"schema_version\": 1, \"run_type\": \"vidur_profile\", \"model\": \"tiny\", "
        "\"operators\": {"
        "\"attn_decode\": {\"points\": 64, \"samples\": 5120, \"loo_error\": 0.021, "
        "\"loo_error_p90\": 0.05}, \""
        "<i>lm_head"
        "\": {\"points\": 9, \"samples\": 700, "
        "\"loo_error\": null, \"loo_error_p90\": null}}}";
    TRY(fs_mkdirs(dir, e));
    return fs_write_atomic(fs_join(a, dir, "bundle_meta.json"), text, sizeof text - 1, e);
}

/* Intervals of every percentile, as sim.replicas_mc leaves them. */
static enum st add_intervals(struct arena *a, const char *dir, struct err *e)
{
    static const char *const metrics[] = {"ttft", "token_latency", "tpot", "e2e", "delay"};
    struct buf text = {0};
    buf_puts(&text, "metric,percentile,value_ns,low_ns,high_ns,replicas\n");
    for (int m = 0; m < 5; m++)
        for (int p = 0; p < COMPARE_PERCENTILES; p++)
            buf_printf(&text, "%s,%s,1000,950,1070,100\n", metrics[m], compare_percentile_name(p));
    enum st st = fs_write_atomic(fs_join(a, dir, "percentile_intervals.csv"), text.p, text.n, e);
    buf_free(&text);
    return st;
}

static enum st make_searches(struct arena *a, const char *dir, struct buf *html, struct err *e)
{
    const struct fake_search capacity = {
        .id = "capacity_0011223344", .model = HOSTILE, .text = HOSTILE};
    const struct fake_search none = {
        .id = "capacity_none", .model = "tiny", .text = HOSTILE, .unmet = true};
    const struct fake_search search = {.id = "search_55667788", .model = HOSTILE, .text = HOSTILE};
    const char *dirs[] = {fs_join(a, dir, "capacity"), fs_join(a, dir, "none"),
                          fs_join(a, dir, "search")};
    TRY(fake_capacity_write(a, dirs[0], &capacity, e));
    TRY(fake_capacity_write(a, dirs[1], &none, e));
    TRY(fake_search_write(a, dirs[2], &search, e));
    for (int i = 0; i < 3; i++) {
        TRY(report_artifacts(a, &dirs[i], 1, html, e));
        TRY(save(a, dir, arena_printf(a, "%s.html", fs_base(dirs[i])), html, e));
    }
    return ST_OK;
}

/* A trace, and a run of `kernels` on it; names and notes are hostile. */
static enum st make_traces(struct arena *a, const char *dir, struct buf *html, struct err *e)
{
    const char *trace = fs_join(a, dir, "trace"), *kernels = fs_join(a, dir, "kernels");
    struct artifact art;
    struct node *meta = node_new(a, NODE_MAP);
    TRY(artifact_begin(a, trace, "run_meta.json", &art, e));
    fake_spool_write(fs_join(a, art.partial_dir, "h-1.spool"),
                     &(struct fake_spool){.steps = 12, .killed = true, .range = HOSTILE});
    struct node *command = node_set(a, meta, SV("command"), node_new(a, NODE_LIST));
    node_push(a, command, node_str(a, "python3"));
    node_push(a, command, node_str(a, HOSTILE));
    node_set(a, meta, SV("run_type"), node_str(a, "trace"));
    node_set(a, meta, SV("run_id"), node_str(a, HOSTILE));
    TRY(artifact_commit(&art, meta, e));
    struct node *of = node_new(a, NODE_MAP);
    TRY(artifact_begin(a, kernels, "run_meta.json", &art, e));
    node_set(a, of, SV("run_type"), node_str(a, "kernels"));
    node_set(a, of, SV("trace"), node_str(a, trace));
    TRY(artifact_commit(&art, of, e));
    const char *dirs[] = {trace, kernels};
    for (int i = 0; i < 2; i++) {
        TRY(report_artifacts(a, &dirs[i], 1, html, e));
        TRY(save(a, dir, arena_printf(a, "%s.html", fs_base(dirs[i])), html, e));
    }
    return ST_OK;
}

static enum st make(struct arena *a, const char *dir, struct buf *html, struct err *e)
{
    const char *names[] = {"real", "real2", "sim_good", "sim_slow"};
    struct fake_run runs[] = {fake_run_default("real"), fake_run_default("real"),
                              fake_run_default("vidur"), fake_run_default("vidur")};
    runs[0].run_id = "real_0a1b2c3d4e";
    runs[0].stop_every = 9;
    runs[0].n_warmup = 4;
    runs[0].n_failed = 1;
    runs[1].jitter_seed = 9;
    runs[2].run_id = "sim_5f6a7b8c9d";
    runs[2].series_replicas = 2;
    runs[3].series_replicas = 1;
    runs[3].run_id = HOSTILE;
    runs[3].model = HOSTILE;
    runs[3].prompt_id = HOSTILE;
    runs[3].sequence_s *= 1.6;
    runs[3].host_s = 0;
    for (int i = 0; i < 4; i++)
        TRY(fake_run_write_to(a, fs_join(a, dir, names[i]), &runs[i], e));
    TRY(add_intervals(a, fs_join(a, dir, "sim_good"), e));
    TRY(make_searches(a, dir, html, e));
    TRY(make_traces(a, dir, html, e));
    const char *real = fs_join(a, dir, "real"), *spread = fs_join(a, dir, "real2");
    TRY(comparison_page(a, dir, real, fs_join(a, dir, "sim_good"), spread, "good", html, e));
    TRY(comparison_page(a, dir, real, fs_join(a, dir, "sim_slow"), NULL, "slow", html, e));
    const char *all[] = {fs_join(a, dir, "good"), real, fs_join(a, dir, "sim_slow"),
                         fs_join(a, dir, "workload"), fs_join(a, dir, "bundle")};
    TRY(make_workload(a, all[3], e));
    TRY(make_bundle(a, all[4], e));
    TRY(report_artifacts(a, all, 5, html, e));
    TRY(save(a, dir, "all.html", html, e));
    const char *run = fs_join(a, dir, "sim_good");
    TRY(report_artifacts(a, &run, 1, html, e));
    return save(a, dir, "run.html", html, e);
}

int main(int argc, char **argv)
{
    struct err e = {0};
    struct buf html = {0};
    struct arena *a = arena_new();
    enum st st =
        argc == 2 ? make(a, argv[1], &html, &e) : err_set(&e, ST_USAGE, "usage: make_pages FOLDER");
    if (st != ST_OK)
        err_print(&e, "make_pages", stderr);
    buf_free(&html);
    arena_free(&a);
    return err_exit_code(st);
}
