#include "doctor/roofs.h"

#include <math.h>
#include <stdlib.h>

#include "artifact/artifact.h"
#include "base/clock.h"
#include "base/order.h"
#include "base/stats.h"
#include "text/fields.h"
#include "text/json.h"

static const struct {
    const char *name, *unit, *help;
} rows[ROOF_COUNT] = {
#define X(ID, name, unit, help) {name, unit, help},
    ROOFS(X)
#undef X
};

const char *roof_name(unsigned id)
{
    return id < ROOF_COUNT ? rows[id].name : NULL;
}

const char *roof_unit(unsigned id)
{
    return rows[id].unit;
}

/* ---- measuring ------------------------------------------------------------------------------- */

void roof_set(struct roof *r, double *samples, size_t n)
{
    if (n == 0)
        return;
    qsort(samples, n, sizeof *samples, order_double);
    r->n = (int64_t)n;
    r->low = stats_percentile(samples, n, 25);
    r->median = stats_percentile(samples, n, 50);
    r->high = stats_percentile(samples, n, 75);
}

enum st roofs_stopped(const struct roofs_params *p, struct err *e)
{
    return p->stop && *p->stop ? err_set(e, ST_INTERRUPTED, "interrupted; nothing was written")
                               : ST_OK;
}

void roofs_begin(struct roofs *out)
{
    *out = (struct roofs){.started_wall_ns = clock_wall_ns(), .contention = {NAN, NAN, NAN}};
    for (int i = 0; i < ROOF_COUNT; i++)
        out->roof[i] =
            (struct roof){.median = NAN, .low = NAN, .high = NAN, .buffer_bytes = NAN, .size = NAN};
}

enum st roofs_measure(struct arena *a, const struct roofs_params *p, struct roofs *out,
                      struct err *e)
{
    roofs_begin(out);
    const struct contention_mark begin = contention_mark();
    TRY(roofs_measure_host(p, out, e));
    out->contention = contention_since(&begin);
    TRY(roofs_measure_gpu(a, p, out, e));
    out->ended_wall_ns = clock_wall_ns();
    return ST_OK;
}

/* ---- the file -------------------------------------------------------------------------------- */

struct file_roof {
    const char *unit, *what, *why;
    int64_t n, rejected;
    double median, low, high, buffer_bytes, size;
    const struct node *under; /* NULL = not on a GPU */
};
static const struct field roof_rows[] = {
    FIELD_AS(struct file_roof, what, "what"),
    FIELD(struct file_roof, unit),
    FIELD(struct file_roof, n),
    FIELD(struct file_roof, rejected),
    FIELD(struct file_roof, median),
    FIELD_AS(struct file_roof, low, "quartile_low"),
    FIELD_AS(struct file_roof, high, "quartile_high"),
    FIELD(struct file_roof, buffer_bytes, .optional = true, .omit = true),
    FIELD(struct file_roof, size, .optional = true, .omit = true),
    FIELD(struct file_roof, why, .optional = true, .omit = true),
    FIELD(struct file_roof, under),
};
static const struct fields roof_fields = FIELDS(struct file_roof, roof_rows);

static const struct field gpu_rows[] = {
    FIELD(struct roofs_gpu, name),
    FIELD(struct roofs_gpu, uuid),
    FIELD(struct roofs_gpu, compute_capability),
    FIELD(struct roofs_gpu, sms),
    FIELD(struct roofs_gpu, memory_bytes),
    FIELD(struct roofs_gpu, l2_bytes),
    FIELD(struct roofs_gpu, power_limit_w),
    FIELD(struct roofs_gpu, max_sm_mhz),
    FIELD(struct roofs_gpu, max_memory_mhz),
    FIELD(struct roofs_gpu, pcie_generation, .zero_is_null = true),
    FIELD(struct roofs_gpu, pcie_lanes, .zero_is_null = true),
    FIELD(struct roofs_gpu, mig),
    FIELD(struct roofs_gpu, driver),
    FIELD(struct roofs_gpu, cuda),
    FIELD(struct roofs_gpu, nvrtc),
    FIELD(struct roofs_gpu, cublaslt),
    FIELD(struct roofs_gpu, kernels_compiled),
    FIELD(struct roofs_gpu, kernels_from_cache),
    FIELD(struct roofs_gpu, kernels_s),
};
static const struct fields gpu_fields = FIELDS(struct roofs_gpu, gpu_rows);

static struct node *roof_node(struct arena *a, enum roof_id id, const struct roof *r)
{
    const struct gpu_conditions *c = &r->under;
    const struct file_roof f = {
        .unit = rows[id].unit,
        .what = rows[id].help,
        .why = r->why,
        .n = r->n,
        .rejected = r->rejected,
        .median = r->median,
        .low = r->low,
        .high = r->high,
        .buffer_bytes = r->buffer_bytes,
        .size = r->size,
        .under = r->gpu && c->samples > 0 ? gpu_conditions_node(a, c) : NULL,
    };
    return fields_node(a, &roof_fields, &f);
}

/* The keys of configs/hardware that these roofs give. */
static struct node *hardware_node(struct arena *a, const struct roofs *r)
{
    static const struct {
        const char *key;
        enum roof_id id;
        double by;
    } rates[] = {{"dram_gb_per_s", ROOF_GPU_READ, 1e9}, {"pcie_gb_per_s", ROOF_GPU_TO_DEVICE, 1e9}},
      peaks[] = {{"bf16", ROOF_GPU_GEMM_BF16, 1e12},
                 {"fp16", ROOF_GPU_GEMM_F16, 1e12},
                 {"tf32", ROOF_GPU_GEMM_TF32, 1e12},
                 {"fp32", ROOF_GPU_GEMM_F32, 1e12}};
    struct node *out = node_new(a, NODE_MAP), *peak = node_new(a, NODE_MAP);
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        if (r->roof[rates[i].id].n)
            node_put(a, out, rates[i].key,
                     node_float(a, r->roof[rates[i].id].median / rates[i].by));
    for (size_t i = 0; i < sizeof peaks / sizeof *peaks; i++)
        if (r->roof[peaks[i].id].n)
            node_put(a, peak, peaks[i].key,
                     node_float(a, r->roof[peaks[i].id].median / peaks[i].by));
    if (peak->n)
        node_put(a, out, "peak_tflops", peak);
    return out;
}

struct node *roofs_node(struct arena *a, const struct roofs *r)
{
    struct node *out = node_new(a, NODE_MAP), *list = node_new(a, NODE_MAP);
    node_put(a, out, "schema_version", node_int(a, 1));
    node_put(a, out, "kind", node_str(a, "roofs"));
    node_put(a, out, "started_at", artifact_time(a, r->started_wall_ns));
    node_put(a, out, "ended_at", artifact_time(a, r->ended_wall_ns));
    node_put(a, out, "tool", artifact_tool(a));
    node_put(a, out, "host", artifact_host(a));
    node_put(a, out, "contention", fields_node(a, &contention_fields, &r->contention));
    node_put(a, out, "gpu",
             r->has_gpu ? fields_node(a, &gpu_fields, &r->gpu) : node_new(a, NODE_NULL));
    if (r->no_gpu)
        node_put(a, out, "no_gpu", node_str(a, r->no_gpu));
    for (int i = 0; i < ROOF_COUNT; i++)
        if (r->roof[i].n || r->roof[i].why)
            node_put(a, list, rows[i].name, roof_node(a, (enum roof_id)i, &r->roof[i]));
    node_put(a, out, "roofs", list);
    if (r->has_gpu)
        node_put(a, out, "hardware", hardware_node(a, r));
    return out;
}

enum st roofs_write(const char *path, const struct roofs *r, struct err *e)
{
    struct arena *a = arena_new();
    struct buf text = {0};
    json_write(&text, roofs_node(a, r), 2, true);
    enum st st = fs_mkdirs(fs_dir(a, path), e);
    if (st == ST_OK)
        st = fs_write_atomic(path, text.p, text.n, e);
    buf_free(&text);
    arena_free(&a);
    return st == ST_OK ? st : err_add(e, "cannot keep the roofs");
}
