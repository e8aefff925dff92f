#include "deep/roofs.h"

#include <math.h>
#include <string.h>

#include "text/json.h"

const char *deep_unit_name(unsigned unit)
{
    static const char *const names[] = {
#define X(id, name) name,
        DEEP_UNITS(X)
#undef X
    };
    return unit < UNITS ? names[unit] : NULL;
}

bool deep_roofs_known(const struct deep_roofs *r)
{
    for (int i = 0; i < UNITS; i++)
        if (!isnan(r->flop_per_s[i]) && !isnan(r->dram_per_s))
            return true;
    return false;
}

static void forget(struct deep_roofs *r)
{
    *r = (struct deep_roofs){.dram_per_s = NAN, .l2_per_s = NAN};
    for (int i = 0; i < UNITS; i++)
        r->flop_per_s[i] = NAN;
}

/* Rates of a group or of roofs.json's member `hardware`, by the group's names. */
static void take_rates(struct deep_roofs *r, const struct hardware *hw)
{
    const struct peak_tflops *p = &hw->peak_tflops;
    const struct {
        enum deep_unit unit;
        double tflops;
    } rows[] = {{UNIT_FP32, p->fp32},        {UNIT_TENSOR_TF32, p->tf32},
                {UNIT_TENSOR_BF16, p->bf16}, {UNIT_TENSOR_FP16, p->fp16},
                {UNIT_TENSOR_FP8, p->fp8},   {UNIT_TENSOR_FP4, p->fp4},
                {UNIT_TENSOR_INT8, p->int8}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].tflops > 0)
            r->flop_per_s[rows[i].unit] = rows[i].tflops * 1e12;
    /* packed halves go through the units of fp32, two at a time */
    if (p->fp32 > 0)
        r->flop_per_s[UNIT_FP16] = 2e12 * p->fp32;
    if (hw->dram_gb_per_s > 0)
        r->dram_per_s = hw->dram_gb_per_s * 1e9;
}

static double number(const struct node *map, const char *path)
{
    const struct node *n = node_path(map, path);
    double v = n && n->kind == NODE_FLOAT ? n->f : n && n->kind == NODE_INT ? (double)n->i : 0;
    return v > 0 && v < 1e18 ? v : 0;
}

/* What only roofs.json has: the L2, and multiply-adds without tensor cores, of which a matrix
 * product reaches less than streams of them. */
static void take_measured(struct deep_roofs *r, const struct node *tree)
{
    static const struct {
        enum deep_unit unit;
        const char *path;
    } rows[] = {{UNIT_FP64, "roofs.gpu_fma_f64.median"},
                {UNIT_FP32, "roofs.gpu_fma_f32.median"},
                {UNIT_FP16, "roofs.gpu_fma_f16.median"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double v = number(tree, rows[i].path);
        if (v > 0 && !(r->flop_per_s[rows[i].unit] > v && rows[i].unit == UNIT_FP32))
            r->flop_per_s[rows[i].unit] = v;
    }
    double l2 = number(tree, "roofs.gpu_read_l2.median");
    if (l2 > 0)
        r->l2_per_s = l2;
}

static enum st from_file(struct arena *a, const char *file, struct deep_roofs *out, struct err *e)
{
    struct node *tree;
    TRY(json_load(a, file, NULL, &tree, e));
    TRY(node_check_version(tree, "schema_version", 1, e));
    const struct node *hardware = node_find(tree, "hardware"), *gpu = node_path(tree, "gpu.name");
    struct hardware h = {.dram_gb_per_s = number(hardware, "dram_gb_per_s"),
                         .peak_tflops.fp32 = number(hardware, "peak_tflops.fp32"),
                         .peak_tflops.tf32 = number(hardware, "peak_tflops.tf32"),
                         .peak_tflops.bf16 = number(hardware, "peak_tflops.bf16"),
                         .peak_tflops.fp16 = number(hardware, "peak_tflops.fp16"),
                         .peak_tflops.fp8 = number(hardware, "peak_tflops.fp8"),
                         .peak_tflops.fp4 = number(hardware, "peak_tflops.fp4"),
                         .peak_tflops.int8 = number(hardware, "peak_tflops.int8")};
    take_rates(out, &h);
    take_measured(out, tree);
    if (!deep_roofs_known(out)) {
        err_at(e, ST_INPUT, file, 0, 0, "has no roofs of a GPU");
        return err_hint(e, "twinfer doctor doctor.measure=true on a machine with a GPU makes it");
    }
    out->measured = true;
    out->gpu = gpu && gpu->kind == NODE_STR ? gpu->s.p : NULL;
    out->source = arena_printf(a, "measured by doctor: %s%s%s%s", file, out->gpu ? " (" : "",
                               out->gpu ? out->gpu : "", out->gpu ? ")" : "");
    return ST_OK;
}

/* ---- the peaks of ncu's counters ---- */

static double peak(const struct ncu_table *t, const char *per_cycle, const char *cycles)
{
    double best = NAN;
    for (size_t i = 0; i < t->launches.n; i++) {
        const struct ncu_launch *l = &t->launches.p[i];
        double v = ncu_value(t, l, per_cycle) * (cycles ? ncu_value(t, l, cycles) : 1);
        if (v > 0 && !(best >= v))
            best = v;
    }
    return best;
}

/* Bytes over the share of the peak that ncu says they were, from the launch that used most. */
static double peak_by_share(const struct ncu_table *t, const char *bytes, const char *percent)
{
    double most = 0, best = NAN;
    for (size_t i = 0; i < t->launches.n; i++) {
        const struct ncu_launch *l = &t->launches.p[i];
        double share = ncu_value(t, l, percent), ns = ncu_value(t, l, "gpu__time_duration.sum"),
               v = ncu_value(t, l, bytes);
        if (share > most && share >= 1 && ns > 0 && v > 0) {
            most = share;
            best = v / ns * 1e9 / (share / 100);
        }
    }
    return best;
}

static double l2_peak(const struct ncu_table *t)
{
    double v = peak(t, "lts__t_bytes.sum.peak_sustained", "lts__cycles_elapsed.avg.per_second");
    if (isnan(v))
        v = peak(t, "derived__lts__lts2xbar_bytes.sum.peak_sustained",
                 "lts__cycles_elapsed.avg.per_second");
    if (isnan(v))
        v = peak_by_share(t, "lts__t_bytes.sum", "lts__t_bytes.avg.pct_of_peak_sustained_elapsed");
    return v;
}

/* Tensor cores' peaks are of sparse products, twice the dense ones. */
static void from_ncu(struct deep_roofs *r, const struct ncu_table *t)
{
    static const struct {
        enum deep_unit unit;
        const char *metric, *cycles;
        double factor;
    } rows[] = {
        {UNIT_FP64, "sm__sass_thread_inst_executed_op_dfma_pred_on.sum.peak_sustained",
         "sm__cycles_elapsed.avg.per_second", 2},
        {UNIT_FP32, "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained",
         "sm__cycles_elapsed.avg.per_second", 2},
        {UNIT_FP16, "sm__sass_thread_inst_executed_op_hfma_pred_on.sum.peak_sustained",
         "sm__cycles_elapsed.avg.per_second", 4},
        {UNIT_TENSOR_FP64, "sm__ops_path_tensor_src_fp64.sum.peak_sustained_elapsed.per_second",
         NULL, 1},
        {UNIT_TENSOR_TF32,
         "sm__ops_path_tensor_src_tf32_dst_fp32.sum.peak_sustained_elapsed.per_second", NULL, 0.5},
        {UNIT_TENSOR_BF16,
         "sm__ops_path_tensor_src_bf16_dst_fp32.sum.peak_sustained_elapsed.per_second", NULL, 0.5},
        {UNIT_TENSOR_FP16, "sm__ops_path_tensor_src_fp16.sum.peak_sustained_elapsed.per_second",
         NULL, 0.5},
        {UNIT_TENSOR_INT8, "sm__ops_path_tensor_src_int8.sum.peak_sustained_elapsed.per_second",
         NULL, 0.5},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (isnan(r->flop_per_s[rows[i].unit]))
            r->flop_per_s[rows[i].unit] = rows[i].factor * peak(t, rows[i].metric, rows[i].cycles);
    if (isnan(r->dram_per_s))
        r->dram_per_s =
            peak(t, "dram__bytes.sum.peak_sustained", "dram__cycles_elapsed.avg.per_second");
}

enum st deep_roofs_make(struct arena *a, const char *file, const struct hardware *hw,
                        const struct ncu_table *ncu, struct deep_roofs *out, struct err *e)
{
    forget(out);
    if (file) {
        TRY(from_file(a, file, out, e));
    } else if (hw->id && hw->dram_gb_per_s > 0) {
        take_rates(out, hw);
        out->source = arena_printf(a, "data sheet: hardware=%s, not measured", hw->id);
    } else if (ncu) {
        from_ncu(out, ncu);
        if (deep_roofs_known(out))
            out->source = "Nsight Compute: peaks of its counters at the clocks it saw";
    }
    if (!out->source)
        out->source = "not known: hardware= or deep.roofs= gives them";
    if (ncu && isnan(out->l2_per_s)) {
        out->l2_per_s = l2_peak(ncu);
        if (!isnan(out->l2_per_s))
            out->l2_source = "Nsight Compute's peak of the L2's counters";
    }
    return ST_OK;
}
