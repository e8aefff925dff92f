/* Writes the pages that tests/report/look.sh looks at: make_pages FOLDER. */
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "deep/result.h"
#include "energy/energy_report.h"
#include "job/plan.h"
#include "kernels/gantt.h"
#include "report/report.h"
#include "support/fake_kernels.h"
#include "support/fake_run.h"
#include "support/fake_search.h"
#include "support/fake_spool.h"
#include "text/json.h"
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

/* The first n runs, held against the first. */
static enum st runs_page(struct arena *a, const char *dir, const char *const *names, size_t n,
                         const char *id, struct buf *html, struct err *e)
{
    const char **dirs = arena_array(a, const char *, n);
    struct ab x;
    struct artifact art;
    struct node *meta = node_new(a, NODE_MAP);
    for (size_t i = 0; i < n; i++)
        dirs[i] = fs_join(a, dir, names[i]);
    const struct ab_params p = {.dirs = dirs,
                                .n = n,
                                .core_only = true,
                                .gate = n > 2 ? AB_GATE_SLOWER : AB_GATE_NONE,
                                .pass_percent = 5,
                                .warn_percent = 9};
    TRY(ab_compare(a, &p, &x, e));
    TRY(artifact_begin(a, fs_join(a, dir, id), "run_meta.json", &art, e));
    TRY(ab_write(&art, &x, e));
    node_set(a, meta, SV("run_type"), node_str(a, "compare"));
    node_set(a, meta, SV("run_id"), node_str(a, id));
    TRY(artifact_commit(&art, meta, e));
    const char *made = fs_join(a, dir, id);
    TRY(report_artifacts(a, &made, 1, html, e));
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
    TRY(workload_write(&art, &w, NULL, 0, NULL, e));
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

/* A trace of PyTorch: elementwise kernels of templates that differ far behind their names. */
static enum st make_kineto(struct arena *a, const char *path, double slow, struct err *e)
{
    enum { KERNELS = 6, STEPS = 20 };
    struct buf b = {0};
    buf_puts(&b, "{\"cuda_driver_version\": 13000, \"cuda_runtime_version\": 12090, "
                 "\"deviceProperties\": [{\"id\": 0, \"name\": \"NVIDIA H200\", "
                 "\"totalGlobalMem\": 150109880320, \"computeMajor\": 9, \"computeMinor\": 0, "
                 "\"numSms\": 132}], \"traceEvents\": [");
    for (int s = 0; s < STEPS; s++)
        for (int k = 0; k < KERNELS; k++) {
            int id = s * KERNELS + k + 1;
            double at = 1e6 + 400 * s + 60 * k, us = (5 + 7 * k) * slow;
            buf_printf(&b,
                       "%s{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::op_%d\", \"pid\": "
                       "9, \"tid\": 9, \"ts\": %.3f, \"dur\": 30}",
                       id > 1 ? ", " : "", k, at);
            buf_printf(&b,
                       ", {\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": "
                       "\"cudaLaunchKernel\", \"pid\": 9, \"tid\": 9, \"ts\": %.3f, \"dur\": 4, "
                       "\"args\": {\"correlation\": %d}}",
                       at + 5, id);
            buf_printf(
                &b,
                ", {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"void "
                "at::native::vectorized_elementwise_kernel<4, at::native::"
                "gpu_kernel_impl_nocast<at::native::BinaryFunctor<float, float, float, "
                "at::native::binary_internal::MulFunctor<float> > >("
                "at::TensorIteratorBase&, at::native::Functor_%d<float> const&)::{lambda(int)"
                "#1}, std::array<char*, 3ul> >(int, at::native::gpu_kernel_impl_nocast<"
                "at::native::BinaryFunctor<float, float, float> >, std::array<char*, 3ul>)\", "
                "\"pid\": 0, \"tid\": 7, \"ts\": %.3f, \"dur\": %.3f, \"args\": {\"device\": "
                "0, \"context\": 1, \"stream\": %d, \"correlation\": %d}}",
                k, at + 12, us, 7 + k % 2, id);
        }
    buf_puts(&b, "]}");
    (void)a;
    enum st st = fs_write_atomic(path, b.p, b.n, e);
    buf_free(&b);
    return st;
}

static struct node *host_of(struct arena *a, const char *cpu, const char *driver)
{
    struct node *host = node_new(a, NODE_MAP);
    node_set(a, host, SV("cpu"), node_str(a, cpu));
    node_set(a, host, SV("cores"), node_int(a, 96));
    if (driver)
        node_set(a, host, SV("nvidia_driver"), node_str(a, driver));
    return host;
}

/* A run of `kernels` as that command leaves it, in the folder `name`. */
static enum st make_kernels(struct arena *a, const char *dir, const char *name, const char *trace,
                            const char *against, struct buf *html, struct err *e)
{
    struct artifact art;
    const char *path = fs_join(a, dir, name);
    struct node *of = node_new(a, NODE_MAP);
    struct buf json = {0};
    TRY(artifact_begin(a, path, "run_meta.json", &art, e));
    node_set(a, of, SV("run_type"), node_str(a, "kernels"));
    node_set(a, of, SV("trace"), node_str(a, trace));
    node_set(a, of, SV("host"), host_of(a, "a laptop that only analyses", NULL));
    TRY(fake_kernels(a, trace, against, &json, e));
    TRY(fs_write_atomic(artifact_path(a, &art, "kernels.json"), json.p, json.n, e));
    buf_free(&json);
    TRY(artifact_commit(&art, of, e));
    TRY(report_artifacts(a, &path, 1, html, e));
    return save(a, dir, arena_printf(a, "%s.html", name), html, e);
}

/* A trace, and runs of `kernels`; names and notes are hostile. */
static enum st make_traces(struct arena *a, const char *dir, struct buf *html, struct err *e)
{
    const char *trace = fs_join(a, dir, "trace");
    struct artifact art;
    struct node *meta = node_new(a, NODE_MAP);
    TRY(artifact_begin(a, trace, "run_meta.json", &art, e));
    fake_spool_write(
        fs_join(a, art.partial.path, "h-1.spool"),
        &(struct fake_spool){.steps = 12, .killed = true, .range = HOSTILE, .host = HOSTILE});
    struct node *command = node_set(a, meta, SV("command"), node_new(a, NODE_LIST));
    node_push(a, command, node_str(a, "python3"));
    node_push(a, command, node_str(a, HOSTILE));
    node_set(a, meta, SV("run_type"), node_str(a, "trace"));
    node_set(a, meta, SV("run_id"), node_str(a, HOSTILE));
    node_set(a, meta, SV("host"), host_of(a, "the processor that was recorded", "580.82.07"));
    TRY(artifact_commit(&art, meta, e));
    TRY(report_artifacts(a, &trace, 1, html, e));
    TRY(save(a, dir, "trace.html", html, e));
    TRY(make_kernels(a, dir, "kernels", trace, NULL, html, e));
    const char *before = fs_join(a, dir, "before.json"), *after = fs_join(a, dir, "after.json");
    TRY(make_kineto(a, before, 1, e));
    TRY(make_kineto(a, after, 1.25, e));
    return make_kernels(a, dir, "diff", after, before, html, e);
}

/* A session with hostile names, long names, and figures that are missing. */
static enum st make_deep(struct arena *a, const char *dir, struct buf *html, struct err *e)
{
    enum { KERNELS = 12 };
    static const char *const classes[] = {"compute-bound", "memory-bound", "latency-bound",
                                          "balanced", "unknown"};
    struct deep_kernel_row rows[KERNELS];
    for (int i = 0; i < KERNELS; i++) {
        double f = 1 + i, unknown = i == KERNELS - 1 ? (double)NAN : 1;
        rows[i] = (struct deep_kernel_row){
            .name = i ? "void at::native::vectorized_elementwise_kernel<4, at::native::"
                        "BinaryFunctor<float, float, float> >(int, at::native::BinaryFunctor)"
                      : HOSTILE,
            .short_name = i ? "vectorized_elementwise_kernel" : HOSTILE,
            .calls = 1000 * f,
            .total_ms = 50 / f,
            .mean_us = 50 / f / f,
            .share_percent = 30 / f,
            .profiled = 2,
            .ncu_us = 9,
            .app_us = 8,
            .clock_percent = 12.5,
            .gflop = 0.1 * f,
            .dram_mb = 3,
            .l2_mb = 5,
            .intensity = 0.05 * f * f * f * unknown,
            .l2_intensity = 2,
            .tflop_per_s = 0.01 * f * f * f * unknown,
            .dram_gb_per_s = 1200,
            .l2_gb_per_s = 4000,
            .compute_percent = 7 * f * unknown,
            .dram_percent = 80 / f * unknown,
            .l2_percent = 40 / f,
            .occupancy_percent = 61.2,
            .occupancy_limit_percent = 75,
            .registers = 168,
            .shared_bytes = 165332,
            .waves = 0.97,
            .units = i % 2 ? "tensor_bf16 98 %, fp32 2 %" : "fp32 100 %",
            .occupied = "registers",
            .class = classes[i % 5],
            .why = HOSTILE};
    }
    struct deep_stage_row stages[] = {{"prefill", 0,    1,    3, 28,   33,   90,   30, 88, 12, 4,
                                       12,        4944, 13.9, 5, 1e12, 1e10, 12.3, 40, 1,  2},
                                      {"prefill/" HOSTILE,
                                       1,
                                       1,
                                       3,
                                       2,
                                       4,
                                       9,
                                       3,
                                       8,
                                       2,
                                       2,
                                       2,
                                       44,
                                       3,
                                       1,
                                       NAN,
                                       NAN,
                                       NAN,
                                       NAN,
                                       NAN,
                                       NAN}};
    struct deep_bottleneck worst[] = {{HOSTILE, "kernel", 50, 40, 60, 1.67, 1.19, HOSTILE, HOSTILE},
                                      {"The GPU has no work", "idle", 500, 97.5, 0, NAN, NAN,
                                       "The GPU worked 14 ms of 587 ms.", "Gaps."}};
    struct deep_step steps[] = {{"baseline", NULL, "ok", NULL, NULL, 9.5, NAN},
                                {"ncu", "ncu", "failed", HOSTILE, HOSTILE, 15, 57}};
    struct deep_fact facts[] = {{"GPU 0", HOSTILE}};
    struct deep_roof_row roofs[] = {
        {"dram", 4.6e12}, {"l2", 9e12}, {"fp32", 5.1e13}, {"tensor_bf16", 7.3e14}};
    struct deep_operator_row operators[] = {{HOSTILE, 10, 3, 3.4, 45}};
    struct deep_collective_row collectives[] = {{HOSTILE, 4711, 1, 56, 7.5, 3, 4.5}};
    const char *notes[] = {HOSTILE};
    const struct deep_result r = {
        .schema_version = DEEP_SCHEMA,
        .command = "python3 " HOSTILE,
        .model = HOSTILE,
        .roofs = HOSTILE,
        .environment = facts,
        .n_environment = 1,
        .steps = steps,
        .n_steps = 2,
        .roof_rows = roofs,
        .n_roof_rows = 4,
        .totals = {"stages", 587, 14, 14, 6511, 40, 1, 1, NAN, 6511, 6.98, 4.5},
        .stages = stages,
        .n_stages = 2,
        .operators = operators,
        .n_operators = 1,
        .kernels = rows,
        .n_kernels = KERNELS,
        .collectives = collectives,
        .n_collectives = 1,
        .bottlenecks = worst,
        .n_bottlenecks = 2,
        .notes = notes,
        .n_notes = 1};
    struct artifact art;
    const char *path = fs_join(a, dir, "deep");
    struct node *meta = node_new(a, NODE_MAP);
    struct buf json = {0};
    node_set(a, meta, SV("run_type"), node_str(a, "deep"));
    node_set(a, meta, SV("run_id"), node_str(a, HOSTILE));
    deep_result_json(&json, &r);
    TRY(artifact_begin(a, path, "run_meta.json", &art, e));
    TRY(artifact_write(&art, "deep.json", &json, e));
    buf_free(&json);
    TRY(artifact_commit(&art, meta, e));
    TRY(report_artifacts(a, &path, 1, html, e));
    return save(a, dir, "deep.html", html, e);
}

/* Seconds into 2026-11-21 16:30:05, UTC. */
static int64_t moment(double s)
{
    return INT64_C(1795278605) * NS_PER_S + ns_from_s(s);
}

/* 60 s of idle power, a whole from 5 s on, an application from 15 s on, 12 kernels of 2 s each. */
static struct power_log make_power(struct arena *a)
{
    enum { N = 1500 };
    struct power_sample *p = arena_array(a, struct power_sample, N);
    for (int i = 0; i < N; i++) {
        const double s = i * 0.04;
        const double w = s >= 5 && s < 13    ? 410
                         : s >= 15 && s < 23 ? 180
                         : s >= 25 && s < 55 ? 200 + 25 * floor((s - 25) / 2.5)
                                             : 121;
        p[i] = (struct power_sample){moment(s), w + (i % 5 - 2) * 0.7, NAN};
    }
    return (struct power_log){
        .p = p, .n = N, .zoned = true, .source = HOSTILE, .what = "GPU 0", .missing = 3};
}

static enum st write_energy(struct arena *a, const struct artifact *art,
                            const struct energy_report *r, const struct power_log *log,
                            struct err *e)
{
    struct buf text = {0};
    FILE *f;
    TRY(artifact_create_file(art, "power.csv", &f, e));
    power_log_write_zoned(f, log, 0);
    TRY(artifact_close_file(art, "power.csv", &f, e));
    if (r)
        json_write(&text, energy_report_node(a, r), 2, true);
    const enum st st = r ? artifact_write(art, "gpu_energy_report.json", &text, e) : ST_OK;
    buf_free(&text);
    return st;
}

/* Two streams: layers of products and small kernels, and copies beside them. */
static enum st write_timeline(struct arena *a, const struct artifact *art, struct err *e)
{
    enum { BARS = 240 };
    static const char *const lanes[] = {"default stream", HOSTILE};
    static const char *const names[] = {"nvjet_tst_64x64", HOSTILE, "Memcpy DtoD"};
    struct kernels_gantt g = {
        .span_ns = 5066700, .lanes = lanes, .n_lanes = 2, .names = names, .n_names = 3};
    struct doubles *columns[] = {&g.lane,          &g.kind, &g.start_percent,
                                 &g.width_percent, &g.name, &g.duration_ns};
    struct buf text = {0};
    for (size_t k = 0; k < sizeof columns / sizeof *columns; k++)
        *columns[k] = (struct doubles){arena_array(a, double, BARS), BARS};
    for (int i = 0; i < BARS; i++) {
        const bool copy = i % 12 == 11, product = i % 3 == 0;
        const double width = copy ? 0.6 : product ? 0.5 : 0.15;
        const double values[] = {copy,
                                 copy      ? KERNELS_BAR_COPY
                                 : product ? KERNELS_BAR_MATRIX
                                           : KERNELS_BAR_OTHER,
                                 i * 100.0 / BARS,
                                 width,
                                 copy ? 2 : !product,
                                 width / 100 * 5066700};
        for (size_t k = 0; k < sizeof columns / sizeof *columns; k++)
            columns[k]->v[i] = values[k];
    }
    json_write(&text, fields_node(a, &kernels_gantt_fields, &g), 0, true);
    const enum st st = artifact_write(art, "timeline.json", &text, e);
    buf_free(&text);
    return st;
}

/* A report, and a power log; names are hostile, or those of templates. */
static enum st make_energy(struct arena *a, const char *dir, struct buf *html, struct err *e)
{
    enum { KERNELS = 14, POOL = 11 };
    const struct power_log log = make_power(a);
    const struct full_timing full = {.window = timing_window_of(a, moment(5.2), moment(12.8), 0),
                                     .num_runs = 1500,
                                     .inference_us = 5066.7,
                                     .under = {1980, 3201, 54, ""},
                                     .source = "full"};
    const struct full_timing app = {.window = timing_window_of(a, moment(15.2), moment(22.8), 0),
                                    .num_runs = 250,
                                    .inference_us = 30400,
                                    .under = {NAN, NAN, NAN, NULL},
                                    .source = "app"};
    struct kernel_timing *k = arena_array(a, struct kernel_timing, KERNELS);
    for (int i = 0; i < KERNELS; i++) {
        const int loop = i < POOL ? i : POOL; /* the last of them share one */
        k[i] = (struct kernel_timing){
            .window = timing_window_of(a, moment(25.2 + 2.5 * loop), moment(27.2 + 2.5 * loop), 0),
            .name = i == 3 ? HOSTILE
                           : arena_printf(a,
                                          "void at::native::vectorized_elementwise_kernel<%d, "
                                          "at::native::CUDAFunctor_add<c10::BFloat16>, "
                                          "std::array<char*, 3ul>>(int, "
                                          "at::native::CUDAFunctor_add<c10::BFloat16>)",
                                          i),
            .tier = 1 + i % 3,
            .invocation_count = 28,
            .benchmark_runs = 20000,
            .single_time_us = 14,
            .in_context_us = i < POOL ? 17 : 1,
            .pooled = i >= POOL,
            .under = {1980 - 30 * i, 3201, 51 + i, i == 2 ? "power cap" : ""},
            .busy_share = 0.7 + 0.02 * i};
    }
    const struct isolated_timing isolated = {
        .kernels = k, .n = KERNELS, .zoned = true, .source = "isolated"};
    const struct energy_inputs in = {.power = &log,
                                     .full = &full,
                                     .isolated = &isolated,
                                     .application = &app,
                                     .idle_w = 121,
                                     .idle_half_w = 0.3};
    static const char *const names[] = {"energy", "power"};
    struct energy_report r;
    TRY(energy_report_make(a, &in, &r, e));
    for (int i = 0; i < 2; i++) {
        const char *path = fs_join(a, dir, names[i]);
        struct artifact art;
        struct node *meta = node_new(a, NODE_MAP);
        TRY(artifact_begin(a, path, "run_meta.json", &art, e));
        TRY(write_energy(a, &art, i ? NULL : &r, &log, e));
        TRY(i ? ST_OK : write_timeline(a, &art, e));
        node_set(a, meta, SV("run_type"), node_str(a, names[i]));
        node_set(a, meta, SV("run_id"), node_str(a, HOSTILE));
        TRY(artifact_commit(&art, meta, e));
        TRY(report_artifacts(a, &path, 1, html, e));
        TRY(save(a, dir, arena_printf(a, "%s.html", names[i]), html, e));
    }
    return ST_OK;
}

static enum st run_page(struct arena *a, const char *dir, const char *name,
                        const struct fake_run *run, struct buf *html, struct err *e)
{
    const char *path = fs_join(a, dir, name);
    TRY(fake_run_write_to(a, path, run, e));
    TRY(report_artifacts(a, &path, 1, html, e));
    return save(a, dir, arena_printf(a, "%s.html", name), html, e);
}

/* Runs at the ends of what there is: one request, none that ends well, hours, over HTTP. */
static enum st make_runs(struct arena *a, const char *dir, struct buf *html, struct err *e)
{
    struct fake_run one = fake_run_default("vidur"), bad = fake_run_default("real");
    struct fake_run long_one = fake_run_default("vidur"), http = fake_run_default("real");
    one.n = 1;
    one.series_replicas = 1;
    bad.n = bad.n_failed = 3;
    long_one.rate = 1e-3;
    long_one.n = 2000;
    long_one.sequence_s = long_one.base_s = 40;
    long_one.series_replicas = 8;
    http.url = "https://inference.example.com:8443/a/rather/long/path/to/the/v1/" HOSTILE;
    http.error_message = "the server is overloaded, " HOSTILE;
    http.n_failed = 12;
    http.no_batches = true;
    TRY(run_page(a, dir, "one", &one, html, e));
    TRY(run_page(a, dir, "bad", &bad, html, e));
    TRY(run_page(a, dir, "long", &long_one, html, e));
    return run_page(a, dir, "http", &http, html, e);
}

static enum st make(struct arena *a, const char *dir, struct buf *html, struct err *e)
{
    const char *names[] = {"real", "real2", "sim_good", "sim_slow", "busy_real"};
    struct fake_run runs[] = {fake_run_default("real"), fake_run_default("real"),
                              fake_run_default("vidur"), fake_run_default("vidur"),
                              fake_run_default("real")};
    runs[0].run_id = "real_0a1b2c3d4e";
    runs[0].stop_every = 9;
    runs[0].n_warmup = 4;
    runs[0].n_failed = 1;
    runs[1].jitter_seed = 9;
    runs[2].run_id = "sim_5f6a7b8c9d";
    runs[2].series_replicas = 2;
    runs[3].series_replicas = 1;
    runs[3].run_id = HOSTILE;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        runs[i].model = HOSTILE;
    runs[3].prompt_id = HOSTILE;
    runs[3].sequence_s *= 1.6;
    runs[3].host_s = 0;
    runs[4].waiting = 0.3;
    for (int i = 0; i < 5; i++)
        TRY(fake_run_write_to(a, fs_join(a, dir, names[i]), &runs[i], e));
    TRY(add_intervals(a, fs_join(a, dir, "sim_good"), e));
    TRY(make_searches(a, dir, html, e));
    TRY(make_traces(a, dir, html, e));
    TRY(make_energy(a, dir, html, e));
    TRY(make_runs(a, dir, html, e));
    TRY(make_deep(a, dir, html, e));
    const char *real = fs_join(a, dir, "real"), *spread = fs_join(a, dir, "real2");
    TRY(comparison_page(a, dir, real, fs_join(a, dir, "sim_good"), spread, "good", html, e));
    TRY(comparison_page(a, dir, real, fs_join(a, dir, "sim_slow"), NULL, "slow", html, e));
    TRY(comparison_page(a, dir, fs_join(a, dir, "busy_real"), fs_join(a, dir, "sim_slow"), NULL,
                        "busy", html, e));
    TRY(runs_page(a, dir, names, 2, "two", html, e));
    TRY(runs_page(a, dir, names, 5, "runs", html, e));
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
