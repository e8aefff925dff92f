/* What a session found, as a document: stakeholder_summary.md and the page are made from it. Every
 * sentence is made from figures, and left out where they are missing. */
#include <math.h>
#include <string.h>

#include "deep/deep.h"
#include "deep/roofline.h"
#include "text/document.h"

#define COLUMNS(columns) columns, sizeof columns / sizeof *columns

enum { OPERATORS = 15 };

bool deep_timed(const struct deep_result *r)
{
    return strcmp(r->totals.scope, "profiled launches") != 0;
}

const char *deep_whole(const struct deep_result *r)
{
    return deep_timed(r) ? "elapsed" : "under Nsight Compute";
}

/* ---- the answer ---------------------------------------------------------------------------- */

static void tell_tiles(struct document *d, const struct deep_result *r)
{
    const struct deep_totals *t = &r->totals;
    const double lanes = t->devices > 1 ? t->devices : 1;
    struct arena *a = d->a;
    document_tile(d, deep_timed(r) ? "Elapsed" : "GPU time",
                  document_value(a, DOCUMENT_MS, t->elapsed_ms),
                  arena_printf(a, "of the %s", t->scope));
    if (t->elapsed_ms > 0 && deep_timed(r))
        document_tile(
            d, "GPU busy",
            document_value(a, DOCUMENT_PERCENT, 100 * t->busy_ms / (t->elapsed_ms * lanes)),
            document_value(a, DOCUMENT_MS, t->busy_ms));
    document_tile(d, "Operations", document_value(a, DOCUMENT_COUNT, t->operations), NULL);
    for (size_t i = 0; i < r->n_stages; i++) {
        const struct deep_stage_row *s = &r->stages[i];
        if (s->depth <= 0 && !isnan(s->mfu_percent))
            document_tile(
                d, arena_printf(a, "MFU of %s", s->path),
                document_value(a, DOCUMENT_FINE, s->mfu_percent),
                isnan(s->bandwidth_percent)
                    ? "of peak, over elapsed time"
                    : arena_printf(a, "of peak; bandwidth %s of the memory's",
                                   document_value(a, DOCUMENT_FINE, s->bandwidth_percent)));
    }
}

/* Where most of the time without work is, of several stages. */
static void add_idle_stage(struct arena *a, struct buf *out, const struct deep_result *r)
{
    const struct deep_stage_row *most = NULL;
    double most_ms = 0;
    size_t outermost = 0;
    for (size_t i = 0; i < r->n_stages; i++) {
        const struct deep_stage_row *s = &r->stages[i];
        double idle_ms = s->elapsed_ms * (1 - s->busy_percent / 100);
        if (s->depth > 0)
            continue;
        outermost++;
        if (idle_ms > most_ms) {
            most_ms = idle_ms;
            most = s;
        }
    }
    if (most && outermost > 1)
        buf_printf(out, " %s without work are in %s, of its %s.",
                   document_value(a, DOCUMENT_MS, most_ms), most->path,
                   document_value(a, DOCUMENT_MS, most->elapsed_ms));
}

const char *deep_paragraph(struct arena *a, const struct deep_result *r, size_t i)
{
    const struct deep_bottleneck *b = &r->bottlenecks[i];
    struct buf out = {0};
    buf_printf(&out, "%s of %s %s (%s). %s", document_value(a, DOCUMENT_MS, b->ms),
               document_value(a, DOCUMENT_MS, r->totals.elapsed_ms), deep_whole(r),
               document_value(a, DOCUMENT_PERCENT, b->share_percent), b->evidence);
    if (strcmp(b->kind, "idle") == 0)
        add_idle_stage(a, &out, r);
    if (!isnan(b->gain))
        buf_printf(&out, " Without it the whole is at most %.2f times as fast (1 / (1 - %.3f))",
                   b->gain, b->share_percent / 100);
    if (!isnan(b->gain) && !isnan(b->gain_at_roof) && b->floor_percent > 0)
        buf_printf(&out, ", at its roof at most %.2f times (1 / (1 - %.3f x %.3f))",
                   b->gain_at_roof, b->share_percent / 100, 1 - b->floor_percent / 100);
    buf_printf(&out, "%s%s", isnan(b->gain) ? " " : ". ", b->advice);
    const char *text = arena_str(a, buf_str(&out));
    buf_free(&out);
    return text;
}

static void tell_bottlenecks(struct document *d, const struct deep_result *r)
{
    document_section(d, "Bottlenecks");
    for (size_t i = 0; i < r->n_bottlenecks; i++)
        document_finding(d, r->bottlenecks[i].what, r->bottlenecks[i].kind,
                         deep_paragraph(d->a, r, i));
    document_section(d, "Notes");
    for (size_t i = 0; i < r->n_notes; i++)
        document_note(d, r->notes[i]);
}

/* ---- what was measured, and how ------------------------------------------------------------ */

static void tell_environment(struct document *d, const struct deep_result *r)
{
    document_section(d, "Environment");
    for (size_t i = 0; i < r->n_environment; i++)
        document_fact(d, r->environment[i].title, r->environment[i].text);
    document_fact(d, "Command", r->command);
    document_fact(d, "Model", r->model);
    document_fact(d, "Roofs", r->roofs);
    document_fact(d, "Roof of the L2", r->l2_roof);
}

static void tell_aggregates(struct document *d, const struct deep_result *r)
{
    const struct deep_totals *x = &r->totals;
    const bool timed = deep_timed(r);
    document_section(d, "Aggregates");
    document_paragraph(d, "Of the %s.", x->scope);
    document_fact_of(d, "Elapsed", DOCUMENT_MS, timed ? x->elapsed_ms : (double)NAN);
    document_fact_of(d, "GPU time of all operations", DOCUMENT_MS, x->gpu_ms);
    document_fact_of(d, "GPU busy", DOCUMENT_MS, timed ? x->busy_ms : (double)NAN);
    document_fact_of(d, "Operations on the GPU", DOCUMENT_COUNT, x->operations);
    document_fact_of(d, "Kernels by name", DOCUMENT_COUNT, x->kernels);
    document_fact_of(d, "Processes", DOCUMENT_COUNT, x->processes);
    document_fact_of(d, "GPUs", DOCUMENT_COUNT, x->devices);
    document_fact_of(d, "Host time between two launches, median", DOCUMENT_US, x->launch_gap_us);
    document_fact_of(d, "Host time in a launch, median", DOCUMENT_US, x->launch_call_us);
}

static void fill_step(struct document_table *t, const void *record)
{
    const struct deep_step *s = record;
    document_words(t, "%s", s->name)->remark = s->tool;
}

static void fill_reason(struct document_table *t, const void *record)
{
    const struct deep_step *s = record;
    const char *remedy = s->reason && s->remedy ? s->remedy : NULL;
    document_words(t, "%s%s%s", s->reason ? s->reason : "", remedy ? "; " : "",
                   remedy ? remedy : "");
}

static void tell_steps(struct document *d, const struct deep_result *r)
{
    static const struct document_column columns[] = {
        DOCUMENT_FILLED(fill_step, "Step", DOCUMENT_WORDS),
        DOCUMENT_COLUMN(struct deep_step, state, "State", DOCUMENT_LABEL),
        DOCUMENT_COLUMN(struct deep_step, wall_s, "Wall", DOCUMENT_S),
        DOCUMENT_COLUMN(struct deep_step, overhead_percent, "Overhead", DOCUMENT_PERCENT),
        DOCUMENT_FILLED(fill_reason, "Reason", DOCUMENT_WORDS)};
    document_section(d, "How it was measured");
    DOCUMENT_ROWS(document_table(d, COLUMNS(columns)), r->steps, r->n_steps);
}

/* ---- stages -------------------------------------------------------------------------------- */

static void fill_stage(struct document_table *t, const void *record)
{
    const struct deep_stage_row *s = record;
    const char *name = strrchr(s->path, '/');
    struct buf indent = {0};
    for (int i = 0; i < (int)s->depth && i < 32; i++)
        buf_puts(&indent, "· ");
    document_words(t, "%s%s", buf_str(&indent), name ? name + 1 : s->path);
    buf_free(&indent);
}

static void tell_stages(struct document *d, const struct deep_result *r)
{
#define STAGE(...) DOCUMENT_COLUMN(struct deep_stage_row, __VA_ARGS__)
    static const struct document_column columns[] = {
        DOCUMENT_FILLED(fill_stage, "Stage", DOCUMENT_WORDS),
        STAGE(instances, "Instances", DOCUMENT_COUNT),
        STAGE(elapsed_ms, "Elapsed", DOCUMENT_MS),
        STAGE(per_instance_ms, "Each", DOCUMENT_MS),
        STAGE(least_ms, "Least", DOCUMENT_MS),
        STAGE(most_ms, "Most", DOCUMENT_MS),
        STAGE(share_percent, "Share", DOCUMENT_PERCENT),
        STAGE(gpu_ms, "GPU", DOCUMENT_MS),
        STAGE(exclusive_ms, "Exclusive", DOCUMENT_MS),
        STAGE(busy_percent, "GPU busy", DOCUMENT_PERCENT),
        STAGE(operations, "Operations", DOCUMENT_COUNT)};
    document_section(d, "Per-Stage Timings");
    if (!r->n_stages) {
        document_paragraph(d, "No stage was measured.");
        return;
    }
    DOCUMENT_ROWS(document_table(d, COLUMNS(columns)), r->stages, r->n_stages);
    document_remark(d, "A stage includes its sub-stages. Exclusive GPU time does not.");
}

static void fill_tflop(struct document_table *t, const void *record)
{
    document_number(t, ((const struct deep_stage_row *)record)->flop / 1e12);
}

static void fill_gb(struct document_table *t, const void *record)
{
    document_number(t, ((const struct deep_stage_row *)record)->bytes / 1e9);
}

static void tell_mfu(struct document *d, const struct deep_result *r)
{
    static const struct document_column columns[] = {
        STAGE(path, "Stage", DOCUMENT_WORDS),
        DOCUMENT_FILLED(fill_tflop, "TFLOP", DOCUMENT_NUMBER),
        DOCUMENT_FILLED(fill_gb, "GB", DOCUMENT_NUMBER),
        STAGE(mfu_percent, "MFU, of elapsed", DOCUMENT_FINE),
        STAGE(mfu_gpu_percent, "MFU, of GPU time", DOCUMENT_FINE),
        STAGE(bandwidth_percent, "Bandwidth, of elapsed", DOCUMENT_FINE),
        STAGE(bandwidth_gpu_percent, "Bandwidth, of GPU time", DOCUMENT_FINE)};
    struct document_table *t = document_table_new(d->a, COLUMNS(columns));
    for (size_t i = 0; i < r->n_stages; i++)
        if (!isnan(r->stages[i].flop) || !isnan(r->stages[i].bytes))
            DOCUMENT_ROWS(t, &r->stages[i], 1);
    document_section(d, "MFU");
    if (!t->n_rows) {
        document_paragraph(
            d, "Not known: it takes the model (model=) and the load of a stage (deep.stages: "
               "load).");
        return;
    }
    document_add(d, t);
    document_remark(d, "Operations and bytes are those of the model's operator list, or of the "
                       "stage's load. Sub-stages with a load of their own add theirs.");
}

static void tell_ranks(struct document *d, const struct deep_result *r)
{
#define RANK(...) DOCUMENT_COLUMN(struct deep_rank_row, __VA_ARGS__)
    static const struct document_column columns[] = {
        RANK(path, "Stage", DOCUMENT_WORDS),
        RANK(process, "Process", DOCUMENT_ID),
        RANK(device, "GPU", DOCUMENT_ID),
        RANK(instances, "Instances", DOCUMENT_COUNT),
        RANK(elapsed_ms, "Elapsed", DOCUMENT_MS),
        RANK(gpu_ms, "GPU time", DOCUMENT_MS),
        RANK(busy_percent, "GPU busy", DOCUMENT_PERCENT),
        RANK(operations, "Operations", DOCUMENT_COUNT)};
    if (!r->n_ranks)
        return;
    document_section(d, "By process");
    DOCUMENT_ROWS(document_table(d, COLUMNS(columns)), r->ranks, r->n_ranks);
    document_remark(d, "regions.md has the kernels of each.");
}

/* ---- operators, kernels -------------------------------------------------------------------- */

static void tell_operators(struct document *d, const struct deep_result *r)
{
#define OPERATOR(...) DOCUMENT_COLUMN(struct deep_operator_row, __VA_ARGS__)
    static const struct document_column columns[] = {
        OPERATOR(name, "Operator", DOCUMENT_WORDS), OPERATOR(total_ms, "Total", DOCUMENT_MS),
        OPERATOR(calls, "Calls", DOCUMENT_COUNT), OPERATOR(mean_ms, "Mean", DOCUMENT_MS),
        OPERATOR(share_percent, "Share", DOCUMENT_PERCENT)};
    document_section(d, "Top Operators");
    if (!r->n_operators) {
        document_paragraph(d, "Not known: it takes a timeline.");
        return;
    }
    document_paragraph(d, "Of the whole trace, with what ran outside the stages.");
    DOCUMENT_ROWS(document_table(d, COLUMNS(columns)), r->operators,
                  r->n_operators < OPERATORS ? r->n_operators : OPERATORS);
}

/* ", 12.3 MB": nothing where the figure is not known. */
static void add_figure(struct buf *out, const char *before, double v, const char *after)
{
    if (!isnan(v))
        buf_printf(out, "%s%s%.4g%s", out->n ? ", " : "", before, v, after);
}

/* What Nsight Compute says of one launch; NULL = nothing. */
static const char *launch_words(struct arena *a, const struct deep_kernel_row *k)
{
    struct buf out = {0};
    add_figure(&out, "", k->gflop, " GFLOP");
    if (k->units && k->gflop > 0)
        buf_printf(&out, " (%s)", k->units);
    add_figure(&out, "", k->intensity, " FLOP per byte of DRAM");
    add_figure(&out, "", k->dram_mb, " MB of DRAM");
    add_figure(&out, "", k->l2_mb, " MB of L2");
    add_figure(&out, "", k->registers, " registers");
    add_figure(&out, "", k->shared_bytes, " bytes of shared memory");
    add_figure(&out, "", k->waves, " waves");
    add_figure(&out, "occupancy of ", k->occupancy_limit_percent, " % possible");
    if (k->occupied)
        buf_printf(&out, "%soccupancy limited by %s", out.n ? ", " : "", k->occupied);
    add_figure(&out, "in the application ", k->app_us, " us");
    const char *text = out.n ? arena_printf(a, "A launch: %s.", buf_str(&out)) : NULL;
    buf_free(&out);
    return text;
}

static void fill_kernel(struct document_table *t, const void *record)
{
    const struct deep_kernel_row *k = record;
    struct document_cell *c = document_words(t, "%zu. %s", t->n_rows, k->label);
    c->folded[0] = k->profiled > 0 ? launch_words(t->a, k) : NULL;
    c->folded[1] = strcmp(k->name, k->label) != 0 ? k->name : NULL;
}

static void fill_class(struct document_table *t, const void *record)
{
    const char *class = ((const struct deep_kernel_row *)record)->class;
    document_words(t, "%s", class ? class : "not measured");
}

static void tell_kernels(struct document *d, const struct deep_result *r)
{
#define KERNEL(...) DOCUMENT_COLUMN(struct deep_kernel_row, __VA_ARGS__)
    static const struct document_column columns[] = {
        DOCUMENT_FILLED(fill_kernel, "Kernel", DOCUMENT_WORDS),
        KERNEL(total_ms, "Total", DOCUMENT_MS),
        KERNEL(calls, "Calls", DOCUMENT_COUNT),
        KERNEL(mean_us, "Mean", DOCUMENT_US),
        KERNEL(ncu_us, "Under ncu", DOCUMENT_US, .under = true),
        KERNEL(share_percent, "Share", DOCUMENT_PERCENT),
        KERNEL(compute_percent, "Compute", DOCUMENT_PERCENT),
        KERNEL(dram_percent, "DRAM", DOCUMENT_PERCENT),
        KERNEL(l2_percent, "L2", DOCUMENT_PERCENT),
        KERNEL(occupancy_percent, "Occupancy", DOCUMENT_PERCENT),
        DOCUMENT_FILLED(fill_class, "Class", DOCUMENT_LABEL)};
    document_section(d, "Top Kernels");
    if (!r->n_kernels) {
        document_paragraph(d, "No kernel was measured.");
        return;
    }
    DOCUMENT_ROWS(document_table(d, COLUMNS(columns)), r->kernels, r->n_kernels);
    document_remark(d,
                    "Compute, DRAM and L2 are shares of the roof. Times are %s; under ncu, "
                    "Nsight Compute runs each kernel alone, with flushed caches.",
                    deep_timed(r) ? "the application's" : "Nsight Compute's");
    if (!deep_roofline_any(r))
        return;
    document_section(d, "Roofline");
    document_figure(d, "roofline");
}

static void tell_collectives(struct document *d, const struct deep_result *r)
{
#define COLLECTIVE(...) DOCUMENT_COLUMN(struct deep_collective_row, __VA_ARGS__)
    static const struct document_column columns[] = {COLLECTIVE(name, "Collective", DOCUMENT_WORDS),
                                                     COLLECTIVE(process, "Process", DOCUMENT_ID),
                                                     COLLECTIVE(device, "GPU", DOCUMENT_ID),
                                                     COLLECTIVE(calls, "Calls", DOCUMENT_COUNT),
                                                     COLLECTIVE(total_ms, "Total", DOCUMENT_MS),
                                                     COLLECTIVE(waiting_ms, "Waiting", DOCUMENT_MS),
                                                     COLLECTIVE(moving_ms, "Moving", DOCUMENT_MS)};
    if (!r->n_collectives)
        return;
    document_section(d, "Collectives");
    document_paragraph(d, "Waiting: until the last process had begun the operation.");
    DOCUMENT_ROWS(document_table(d, COLUMNS(columns)), r->collectives, r->n_collectives);
}

static void tell_repeat(struct document *d, const struct deep_result *r)
{
#define REPEAT(...) DOCUMENT_COLUMN(struct deep_repeat_row, __VA_ARGS__)
    static const struct document_column columns[] = {
        REPEAT(label, "Kernel", DOCUMENT_WORDS),
        REPEAT(calls_before, "Calls then", DOCUMENT_COUNT),
        REPEAT(calls, "Calls now", DOCUMENT_COUNT),
        REPEAT(before_ms, "Then", DOCUMENT_MS),
        REPEAT(ms, "Now", DOCUMENT_MS),
        REPEAT(change_percent, "Change", DOCUMENT_CHANGE)};
    if (!r->n_repeat)
        return;
    document_section(d, "A Second Time");
    document_paragraph(d, "Against %s: %s", r->repeat->folder, deep_repeat_words(d->a, r->repeat));
    DOCUMENT_ROWS(document_table(d, COLUMNS(columns)), r->repeat->rows, r->repeat->n_rows);
}

/* ---- all of it ----------------------------------------------------------------------------- */

struct document *deep_document(struct arena *a, const struct deep_result *r, const char *title)
{
    struct document *d = document_new(a, title,
                                      r->model && r->command ? r->model
                                      : r->command           ? r->command
                                      : deep_timed(r)        ? "A timeline made before"
                                                             : "What Nsight Compute measured");
    tell_tiles(d, r);
    tell_bottlenecks(d, r);
    tell_environment(d, r);
    tell_aggregates(d, r);
    tell_stages(d, r);
    tell_ranks(d, r);
    tell_mfu(d, r);
    if (r->n_gantt) {
        document_section(d, "Timeline");
        document_figure(d, "timeline");
    }
    tell_operators(d, r);
    tell_kernels(d, r);
    tell_collectives(d, r);
    tell_repeat(d, r);
    tell_steps(d, r);
    return d;
}
