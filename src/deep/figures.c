#include "deep/figures.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- from metrics ---- */

enum { FIGURES = sizeof(struct deep_figures) / sizeof(double) };
static_assert(sizeof(struct deep_figures) == FIGURES * sizeof(double), "doubles alone");

static struct deep_figures unknown(void)
{
    struct deep_figures f;
    double *v = (double *)&f;
    for (size_t i = 0; i < FIGURES; i++)
        v[i] = NAN;
    return f;
}

struct figure_source {
    const struct ncu_table *t;
    const struct ncu_launch *l;
    double duration_s;
};

static double get(const struct figure_source *s, const char *metric)
{
    return ncu_value(s->t, s->l, metric);
}

/* A count of the launch: its .sum, else its rate times the duration. */
static double count(const struct figure_source *s, const char *base)
{
    char name[128];
    snprintf(name, sizeof name, "%s.sum", base);
    double v = get(s, name);
    if (!isnan(v))
        return v;
    snprintf(name, sizeof name, "%s.sum.per_second", base);
    v = get(s, name) * s->duration_s;
    if (!isnan(v))
        return v;
    snprintf(name, sizeof name, "%s.sum.per_cycle_elapsed", base);
    return get(s, name) * get(s, "smsp__cycles_elapsed.avg.per_second") * s->duration_s;
}

static double first_of(double a, double b)
{
    return isnan(a) ? b : a;
}

/* a + b where one may be unknown. */
static double both(double a, double b)
{
    return isnan(a) ? b : isnan(b) ? a : a + b;
}

/* Of instructions add, mul and fma of a type, with this many operations each; counted by partition
 * of the SM or by SM. */
static double scalar(const struct figure_source *s, char type, double each)
{
    static const char *const by[] = {"smsp", "sm"};
    static const struct {
        const char *op;
        double weight;
    } ops[] = {{"add", 1}, {"mul", 1}, {"fma", 2}};
    char name[96];
    double sum = NAN;
    for (size_t i = 0; i < 3; i++) {
        double one = NAN;
        for (size_t k = 0; k < 2 && isnan(one); k++) {
            snprintf(name, sizeof name, "%s__sass_thread_inst_executed_op_%c%s_pred_on", by[k],
                     type, ops[i].op);
            one = count(s, name);
        }
        sum = both(sum, one * ops[i].weight * each);
    }
    return sum;
}

/* Of a source type: its own count; else those of its destinations; else its sparsity children. */
static double tensor(const struct figure_source *s, const char *type)
{
    static const char *const targets[] = {"_dst_fp16", "_dst_fp32", "_dst_bf16", "_dst_int32"};
    static const char *const children[] = {"_sparsity_off", "_sparsity_on"};
    char name[128];
    snprintf(name, sizeof name, "sm__ops_path_tensor_src_%s", type);
    double v = count(s, name), sum = NAN;
    for (size_t i = 0; isnan(v) && i < sizeof targets / sizeof *targets; i++) {
        snprintf(name, sizeof name, "sm__ops_path_tensor_src_%s%s", type, targets[i]);
        double one = count(s, name), parts = NAN;
        for (size_t k = 0; isnan(one) && k < 2; k++) {
            snprintf(name, sizeof name, "sm__ops_path_tensor_src_%s%s%s", type, targets[i],
                     children[k]);
            parts = both(parts, count(s, name));
        }
        sum = both(sum, first_of(one, parts));
    }
    v = first_of(v, sum);
    sum = NAN;
    for (size_t k = 0; isnan(v) && k < 2; k++) {
        snprintf(name, sizeof name, "sm__ops_path_tensor_src_%s%s", type, children[k]);
        sum = both(sum, count(s, name));
    }
    return first_of(v, sum);
}

/* The largest that says whether tensor cores worked, operations or not; NAN = nothing says. */
static double tensor_activity(const struct figure_source *s)
{
    static const char *const bases[] = {
        "sm__inst_executed_pipe_tensor",          "sm__inst_executed_pipe_tensor_op_hmma",
        "sm__inst_executed_pipe_tensor_op_gmma",  "sm__inst_executed_pipe_tensor_op_imma",
        "sm__inst_executed_pipe_tensor_op_dmma",  "smsp__inst_executed_pipe_tensor",
        "smsp__inst_executed_pipe_tensor_op_hmma"};
    static const char *const shares[] = {
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active"};
    double most = NAN;
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++)
        most = fmax(most, count(s, bases[i]));
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
        most = fmax(most, get(s, shares[i]));
    return most;
}

/* The tensor cores' part of the figures. Volta's instruction is 512 operations of fp16 whatever its
 * form; later ones differ by shape and type: only their own counters tell. A count of 0 of some
 * types says nothing of the others that the GPU has. Returns the operations that were counted. */
static double take_tensor(struct deep_figures *f, const struct figure_source *s)
{
    static const struct {
        enum deep_unit unit;
        const char *type;
        double since; /* compute capability; 0 = which GPUs have it is left open */
    } rows[] = {{UNIT_TENSOR_FP64, "fp64", 0},   {UNIT_TENSOR_TF32, "tf32", 8.0},
                {UNIT_TENSOR_BF16, "bf16", 8.0}, {UNIT_TENSOR_FP16, "fp16", 7.0},
                {UNIT_TENSOR_FP8, "fp8", 8.9},   {UNIT_TENSOR_FP4, "fp4", 10.0},
                {UNIT_TENSOR_INT8, "int8", 7.2}};
    const double cc = s->l->cc;
    double sum = NAN, activity = tensor_activity(s);
    bool volta = cc >= 7.0 && cc < 7.25;
    bool none = cc > 0 && cc < 7.0, all = true;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        f->flop[rows[i].unit] = tensor(s, rows[i].type);
        sum = both(sum, f->flop[rows[i].unit]);
        if (rows[i].since > 0 && (cc > 0 ? rows[i].since <= cc : rows[i].since <= 8.0))
            all &= !isnan(f->flop[rows[i].unit]);
    }
    if (isnan(sum) && volta) {
        f->flop[UNIT_TENSOR_FP16] = 512 * count(s, "sm__inst_executed_pipe_tensor");
        sum = f->flop[UNIT_TENSOR_FP16];
    }
    if (sum > 0 || none || activity <= 0)
        f->uncounted = 0;
    else if (activity > 0)
        f->uncounted = 1;
    else if (all || (volta && !isnan(sum))) /* counted, and 0 */
        f->uncounted = 0;
    return sum;
}

/* Its own counter, else cycles over their rate. */
static double duration_ns(const struct figure_source *s)
{
    static const char *const times[] = {"gpu__time_duration.sum", "gpu__time_duration.avg",
                                        "gpu__time_duration.max", "gpu__time_active.sum",
                                        "gpu__time_active.avg"};
    double ns = NAN, cycles, hz;
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        ns = first_of(ns, get(s, times[i]));
    cycles = first_of(get(s, "gpc__cycles_elapsed.max"),
                      first_of(get(s, "sm__cycles_elapsed.max"), get(s, "sm__cycles_elapsed.avg")));
    hz = first_of(get(s, "gpc__cycles_elapsed.avg.per_second"),
                  get(s, "sm__cycles_elapsed.avg.per_second"));
    return first_of(ns, hz > 0 ? cycles / hz * 1e9 : (double)NAN);
}

struct deep_figures deep_figures_of(const struct ncu_table *t, const struct ncu_launch *l)
{
    struct figure_source s = {.t = t, .l = l, .duration_s = NAN};
    struct deep_figures f = unknown();
    f.duration_ns = duration_ns(&s);
    s.duration_s = f.duration_ns / 1e9;
    f.flop[UNIT_FP64] = scalar(&s, 'd', 1);
    f.flop[UNIT_FP32] = scalar(&s, 'f', 1);
    f.flop[UNIT_FP16] = scalar(&s, 'h', 2);
    const double tensor_sum = take_tensor(&f, &s);
    f.complete =
        tensor_sum > 0 ||
        (f.uncounted <= 0 && !isnan(f.flop[UNIT_FP64] + f.flop[UNIT_FP32] + f.flop[UNIT_FP16]));
    f.dram_bytes = get(&s, "dram__bytes_read.sum") + get(&s, "dram__bytes_write.sum");
    f.dram_bytes = first_of(f.dram_bytes, count(&s, "dram__bytes"));
    f.dram_bytes = first_of(
        f.dram_bytes, 32 * (count(&s, "dram__sectors_read") + count(&s, "dram__sectors_write")));
    f.l2_bytes = first_of(count(&s, "lts__t_bytes"), 32 * count(&s, "lts__t_sectors"));
    f.l2_bytes = first_of(f.l2_bytes, count(&s, "derived__lts__lts2xbar_bytes"));
    f.sm_percent = get(&s, "sm__throughput.avg.pct_of_peak_sustained_elapsed");
    f.memory_percent = get(&s, "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed");
    f.dram_percent = first_of(get(&s, "dram__throughput.avg.pct_of_peak_sustained_elapsed"),
                              get(&s, "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"));
    f.l2_percent = get(&s, "lts__throughput.avg.pct_of_peak_sustained_elapsed");
    f.l2_hit_percent = get(&s, "lts__t_sector_hit_rate.pct");
    f.occupancy_percent = get(&s, "sm__warps_active.avg.pct_of_peak_sustained_active");
    f.occupancy_limit_percent = get(&s, "sm__maximum_warps_per_active_cycle_pct");
    f.registers = get(&s, "launch__registers_per_thread");
    f.shared_bytes = first_of(get(&s, "launch__shared_mem_per_block"),
                              get(&s, "launch__shared_mem_per_block_dynamic") +
                                  get(&s, "launch__shared_mem_per_block_static"));
    f.waves = get(&s, "launch__waves_per_multiprocessor");
    f.limit_registers = get(&s, "launch__occupancy_limit_registers");
    f.limit_shared = get(&s, "launch__occupancy_limit_shared_mem");
    f.limit_warps = get(&s, "launch__occupancy_limit_warps");
    f.limit_blocks = get(&s, "launch__occupancy_limit_blocks");
    f.limit_barriers = get(&s, "launch__occupancy_limit_barriers");
    return f;
}

void deep_mean_add(struct deep_mean *m, const struct deep_figures *f, double weight)
{
    const double *v = (const double *)f;
    double *sum = (double *)&m->sum, *n = (double *)&m->n;
    for (size_t i = 0; i < FIGURES; i++)
        if (!isnan(v[i])) {
            sum[i] += weight * v[i];
            n[i] += weight;
        }
}

struct deep_figures deep_mean_of(const struct deep_mean *m)
{
    struct deep_figures out;
    const double *sum = (const double *)&m->sum, *n = (const double *)&m->n;
    double *v = (double *)&out;
    for (size_t i = 0; i < FIGURES; i++)
        v[i] = n[i] > 0 ? sum[i] / n[i] : (double)NAN;
    return out;
}

double deep_flop(const struct deep_figures *f)
{
    double sum = NAN;
    if (f->uncounted > 0)
        return NAN;
    for (int i = 0; i < UNITS; i++)
        sum = both(sum, f->flop[i]);
    return sum > 0 || f->complete >= 1 ? sum : (double)NAN;
}

/* ---- the place under the roofs ---- */

const char *deep_class_name(unsigned c)
{
    static const char *const names[] = {"unknown", "compute-bound", "memory-bound", "latency-bound",
                                        "balanced"};
    return names[c];
}

/* Share of the duration that the counted operations take at peak. Operations of a unit without a
 * known peak make it unknown, and so do those that were not counted where the others are none. */
static double compute_share(const struct deep_figures *f, const struct deep_roofs *r)
{
    double s = NAN;
    if (f->uncounted > 0)
        return NAN;
    for (int i = 0; i < UNITS; i++)
        if (f->flop[i] > 0)
            s = (isnan(s) ? 0 : s) + f->flop[i] / r->flop_per_s[i];
        else if (f->flop[i] <= 0)
            s = isnan(s) ? 0 : s;
    for (int i = 0; i < UNITS; i++)
        if (f->flop[i] > 0 && isnan(r->flop_per_s[i]))
            return NAN;
    return s > 0 || f->complete >= 1 ? s / (f->duration_ns / 1e9) : (double)NAN;
}

/* What keeps warps from filling the SMs: the grid where its blocks are fewer than an SM's other
 * limits allow, else the tightest of these; "nothing" where they allow all warps. */
static const char *occupancy_limit(const struct deep_figures *f)
{
    const struct {
        double blocks;
        const char *what;
    } limits[] = {{f->limit_registers, "registers"},
                  {f->limit_shared, "shared memory"},
                  {f->limit_warps, "warps"},
                  {f->limit_blocks, "blocks"},
                  {f->limit_barriers, "barriers"}};
    const char *what = NULL;
    double least = INFINITY;
    if (f->waves < 1 && f->waves < f->occupancy_limit_percent / 100)
        return "the grid's few blocks";
    if (f->occupancy_limit_percent >= 99.9)
        return "nothing";
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i].blocks > 0 && limits[i].blocks < least) {
            least = limits[i].blocks;
            what = limits[i].what;
        }
    return what;
}

/* What a share is of: of a roof where one is known, else of what Nsight Compute takes for the peak.
 */
static const char *whose(bool roof)
{
    return roof ? "the roof" : "Nsight Compute's peak";
}

struct shares {
    double compute, memory;
    bool compute_roof, memory_roof; /* of a roof, not of ncu's peak */
    bool at_least;                  /* compute is a lower bound: not all operations were counted */
    const char *memory_name;
};

static const char *share_words(struct arena *a, const struct shares *s)
{
    const char *least = s->at_least ? "at least " : "";
    if (s->compute_roof == s->memory_roof)
        return arena_printf(a, "compute %s%.0f %%, %s %.0f %% of %s", least, 100 * s->compute,
                            s->memory_name, 100 * s->memory, whose(s->memory_roof));
    return arena_printf(a, "compute %s%.0f %% of %s, %s %.0f %% of %s", least, 100 * s->compute,
                        whose(s->compute_roof), s->memory_name, 100 * s->memory,
                        whose(s->memory_roof));
}

static struct shares shares_of(const struct deep_place *p, const struct deep_figures *f)
{
    struct shares s = {.compute = p->compute, .compute_roof = true};
    const double dram = first_of(p->dram, f->dram_percent / 100),
                 l2 = first_of(p->l2, f->l2_percent / 100), sm = f->sm_percent / 100;
    const bool partial = !(f->complete >= 1);
    if (isnan(s.compute)) {
        s.compute = sm;
        s.compute_roof = false;
    }
    s.at_least = partial && s.compute_roof && isnan(sm);
    s.memory = isnan(dram) ? l2 : isnan(l2) ? dram : fmax(dram, l2);
    s.memory = first_of(s.memory, f->memory_percent / 100);
    const bool by_dram = !isnan(dram) && (isnan(l2) || dram >= l2), by_l2 = !by_dram && !isnan(l2);
    s.memory_name = by_dram ? "DRAM" : by_l2 ? "L2" : "memory";
    s.memory_roof = (by_dram && !isnan(p->dram)) || (by_l2 && !isnan(p->l2));
    return s;
}

static const char *no_shares(const struct deep_figures *f, const struct deep_roofs *r)
{
    if (f->uncounted > 0)
        return "it uses tensor cores, whose operations were not counted";
    if (!deep_roofs_known(r) && isnan(f->sm_percent))
        return "the roofs of this GPU are not known";
    return "its operations or bytes were not counted";
}

static enum deep_class class_of(double compute, double memory)
{
    const double low = fmin(compute, memory), high = fmax(compute, memory);
    if (high < DEEP_LATENCY)
        return DEEP_LATENCY_BOUND;
    if (low >= DEEP_LATENCY && low >= DEEP_BALANCED * high)
        return DEEP_BALANCED_CLASS;
    return compute > memory ? DEEP_COMPUTE : DEEP_MEMORY;
}

static void classify(struct arena *a, struct deep_place *p, const struct deep_figures *f,
                     const struct deep_roofs *r)
{
    const struct shares s = shares_of(p, f);
    const double sm = f->sm_percent / 100, units = f->memory_percent / 100;
    if (isnan(s.compute) || isnan(s.memory)) {
        p->why = no_shares(f, r);
        return;
    }
    p->why = share_words(a, &s);
    p->class = class_of(s.compute, s.memory);
    const bool short_of = p->class == DEEP_LATENCY_BOUND || p->class == DEEP_MEMORY;
    if (s.at_least && short_of && s.memory < DEEP_CERTAIN) {
        p->class = DEEP_UNKNOWN;
        p->why = arena_printf(a, "%s, but %s", p->why,
                              isnan(f->uncounted) ? "nothing says what its tensor cores did"
                                                  : "not all of its operations were counted");
    } else if (short_of && sm >= DEEP_ISSUE && sm > s.memory) {
        p->class = class_of(sm, s.memory);
        p->why = arena_printf(a, "%s, but the SMs are %.0f %% busy", p->why, f->sm_percent);
    } else if (p->class == DEEP_LATENCY_BOUND && units >= DEEP_ISSUE) {
        p->class = DEEP_MEMORY;
        p->why = arena_printf(a, "%s, but L1 or shared memory is %.0f %% busy", p->why,
                              f->memory_percent);
    }
}

struct deep_place deep_place_of(struct arena *a, const struct deep_figures *f,
                                const struct deep_roofs *r)
{
    struct deep_place p = {0};
    double s = f->duration_ns / 1e9, flop = deep_flop(f);
    p.compute = compute_share(f, r);
    p.dram = f->dram_bytes / r->dram_per_s / s;
    p.l2 = f->l2_bytes / r->l2_per_s / s;
    p.flop_per_s = flop / s;
    p.dram_per_s = f->dram_bytes / s;
    p.l2_per_s = f->l2_bytes / s;
    p.intensity = f->dram_bytes > 0 ? flop / f->dram_bytes : (double)NAN;
    p.l2_intensity = f->l2_bytes > 0 ? flop / f->l2_bytes : (double)NAN;
    p.occupied = occupancy_limit(f);
    classify(a, &p, f, r);
    return p;
}
