/* stakeholder_summary.md: every sentence is made from figures, and left out where they are missing.
 */
#include <math.h>
#include <string.h>

#include "deep/deep.h"
#include "text/table.h"

static void number(struct table *t, int decimals, double v)
{
    if (isnan(v))
        table_cell(t, "n/a");
    else
        table_cell(t, "%.*f", decimals, v);
}

/* Of shares from 1e-5 to 100. */
static void significant(struct table *t, double v)
{
    if (isnan(v))
        table_cell(t, "n/a");
    else
        table_cell(t, "%.3g", v);
}

static void environment(struct arena *a, struct buf *out, const struct deep_result *r)
{
    struct table *t = table_new(a, 2);
    buf_puts(out, "## Environment\n\n");
    table_cell(t, "What");
    table_cell(t, "Value");
    for (size_t i = 0; i < r->n_environment; i++) {
        table_cell(t, "%s", r->environment[i].title);
        table_cell(t, "%s", r->environment[i].text);
    }
    if (r->command) {
        table_cell(t, "Command");
        table_cell(t, "%s", r->command);
    }
    if (r->model) {
        table_cell(t, "Model");
        table_cell(t, "%s", r->model);
    }
    table_cell(t, "Roofs");
    table_cell(t, "%s", r->roofs);
    if (r->l2_roof) {
        table_cell(t, "Roof of the L2");
        table_cell(t, "%s", r->l2_roof);
    }
    table_markdown(out, t);
    buf_puts(out, "\n### How it was measured\n\n");
    struct table *s = table_new(a, 5);
    static const char *const heads[] = {"Step", "State", "Wall (s)", "Overhead (%)", "Reason"};
    for (size_t i = 0; i < 5; i++)
        table_cell(s, "%s", heads[i]);
    for (size_t i = 0; i < r->n_steps; i++) {
        const struct deep_step *step = &r->steps[i];
        table_cell(s, "%s%s%s%s", step->name, step->tool ? " (" : "", step->tool ? step->tool : "",
                   step->tool ? ")" : "");
        table_cell(s, "%s", step->state);
        number(s, 2, step->wall_s);
        number(s, 1, step->overhead_percent);
        table_cell(s, "%s%s%s", step->reason ? step->reason : "",
                   step->remedy && step->reason ? "; " : "",
                   step->remedy && step->reason ? step->remedy : "");
    }
    table_markdown(out, s);
}

bool deep_timed(const struct deep_result *r)
{
    return strcmp(r->totals.scope, "profiled launches") != 0;
}

const char *deep_whole(const struct deep_result *r)
{
    return deep_timed(r) ? "elapsed" : "under Nsight Compute";
}

static void aggregates(struct arena *a, struct buf *out, const struct deep_result *r)
{
    const struct deep_totals *x = &r->totals;
    bool timed = deep_timed(r);
    const struct {
        const char *what;
        int decimals;
        double v;
    } rows[] = {{"Elapsed (ms)", 3, timed ? x->elapsed_ms : (double)NAN},
                {"GPU time of all operations (ms)", 3, x->gpu_ms},
                {"GPU busy (ms)", 3, timed ? x->busy_ms : (double)NAN},
                {"Operations on the GPU", 0, x->operations},
                {"Kernels by name", 0, x->kernels},
                {"Processes", 0, x->processes},
                {"GPUs", 0, x->devices},
                {"Host time between two launches, median (us)", 2, x->launch_gap_us},
                {"Host time in a launch, median (us)", 2, x->launch_call_us}};
    buf_printf(out, "\n## Aggregates\n\nOf the %s.\n\n", x->scope);
    struct table *t = table_new(a, 2);
    table_cell(t, "What");
    table_cell(t, "Value");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (isnan(rows[i].v))
            continue;
        table_cell(t, "%s", rows[i].what);
        number(t, rows[i].decimals, rows[i].v);
    }
    table_markdown(out, t);
}

static const char *indented(struct arena *a, const struct deep_stage_row *s)
{
    struct buf out = {0};
    const char *name = strrchr(s->path, '/');
    for (int i = 0; i < (int)s->depth; i++)
        buf_puts(&out, "· ");
    buf_puts(&out, name ? name + 1 : s->path);
    const char *text = arena_str(a, buf_str(&out));
    buf_free(&out);
    return text;
}

static void stages(struct arena *a, struct buf *out, const struct deep_result *r)
{
    static const char *const heads[] = {
        "Stage",     "Instances", "Elapsed (ms)",   "Each (ms)",    "Least (ms)", "Most (ms)",
        "Share (%)", "GPU (ms)",  "Exclusive (ms)", "GPU busy (%)", "Operations"};
    enum { HEADS = sizeof heads / sizeof *heads };
    buf_puts(out, "\n## Per-Stage Timings\n\n");
    if (!r->n_stages) {
        buf_puts(out, "No stage was measured.\n");
        return;
    }
    struct table *t = table_headed(a, heads, HEADS);
    for (size_t i = 0; i < r->n_stages; i++) {
        const struct deep_stage_row *s = &r->stages[i];
        table_cell(t, "%s", indented(a, s));
        number(t, 0, s->instances);
        number(t, 3, s->elapsed_ms);
        number(t, 3, s->per_instance_ms);
        number(t, 3, s->least_ms);
        number(t, 3, s->most_ms);
        number(t, 1, s->share_percent);
        number(t, 3, s->gpu_ms);
        number(t, 3, s->exclusive_ms);
        number(t, 1, s->busy_percent);
        number(t, 0, s->operations);
    }
    table_markdown(out, t);
}

static bool rated(const struct deep_stage_row *s)
{
    return !isnan(s->flop) || !isnan(s->bytes);
}

static void mfu(struct arena *a, struct buf *out, const struct deep_result *r)
{
    static const char *const heads[] = {"Stage",
                                        "TFLOP",
                                        "GB",
                                        "MFU (% of elapsed)",
                                        "MFU (% of GPU time)",
                                        "Bandwidth (% of elapsed)",
                                        "Bandwidth (% of GPU time)"};
    enum { HEADS = sizeof heads / sizeof *heads };
    size_t n = 0;
    for (size_t i = 0; i < r->n_stages; i++)
        n += rated(&r->stages[i]);
    buf_puts(out, "\n## MFU\n\n");
    if (!n) {
        buf_puts(out, "Not known: it takes the model (model=) and the load of a stage "
                      "(deep.stages: load).\n");
        return;
    }
    struct table *t = table_headed(a, heads, HEADS);
    for (size_t i = 0; i < r->n_stages; i++) {
        const struct deep_stage_row *s = &r->stages[i];
        if (!rated(s))
            continue;
        table_cell(t, "%s", s->path);
        number(t, 3, s->flop / 1e12);
        number(t, 2, s->bytes / 1e9);
        significant(t, s->mfu_percent);
        significant(t, s->mfu_gpu_percent);
        significant(t, s->bandwidth_percent);
        significant(t, s->bandwidth_gpu_percent);
    }
    table_markdown(out, t);
    buf_puts(out,
             "\nOperations and bytes are those of the model's operator list, or of the stage's "
             "load, with those of sub-stages that have a load of their own.\n");
}

static void ranks(struct arena *a, struct buf *out, const struct deep_result *r)
{
    static const char *const heads[] = {"Stage",        "Process",  "GPU",          "Instances",
                                        "Elapsed (ms)", "GPU (ms)", "GPU busy (%)", "Operations"};
    enum { HEADS = sizeof heads / sizeof *heads };
    if (!r->n_ranks)
        return;
    buf_puts(out, "\n### By process\n\n");
    struct table *t = table_headed(a, heads, HEADS);
    for (size_t i = 0; i < r->n_ranks; i++) {
        const struct deep_rank_row *k = &r->ranks[i];
        table_cell(t, "%s", k->path);
        number(t, 0, k->process);
        number(t, 0, k->device);
        number(t, 0, k->instances);
        number(t, 3, k->elapsed_ms);
        number(t, 3, k->gpu_ms);
        number(t, 1, k->busy_percent);
        number(t, 0, k->operations);
    }
    table_markdown(out, t);
    buf_puts(out, "\nTheir kernels: regions.md.\n");
}

static void operators(struct arena *a, struct buf *out, const struct deep_result *r)
{
    static const char *const heads[] = {"Operator", "Total (ms)", "Calls", "Mean (ms)",
                                        "Share (%)"};
    buf_puts(out, "\n## Top Operators\n\n");
    if (!r->n_operators) {
        buf_puts(out, "Not known: it takes a timeline.\n");
        return;
    }
    buf_puts(out, "Of the whole trace, what ran outside the stages too.\n\n");
    struct table *t = table_headed(a, heads, 5);
    for (size_t i = 0; i < r->n_operators && i < 10; i++) {
        const struct deep_operator_row *o = &r->operators[i];
        table_cell(t, "%.90s", o->name);
        number(t, 3, o->total_ms);
        number(t, 0, o->calls);
        number(t, 4, o->mean_ms);
        number(t, 1, o->share_percent);
    }
    table_markdown(out, t);
}

static void kernels(struct arena *a, struct buf *out, const struct deep_result *r)
{
    static const char *const heads[] = {"",
                                        "Kernel",
                                        "Total (ms)",
                                        "Calls",
                                        "Mean (us)",
                                        "Under ncu (us)",
                                        "Share (%)",
                                        "Compute (% of roof)",
                                        "DRAM (% of roof)",
                                        "L2 (% of roof)",
                                        "Occupancy (%)",
                                        "Class"};
    enum { HEADS = sizeof heads / sizeof *heads };
    buf_puts(out, "\n## Top Kernels\n\n");
    if (!r->n_kernels) {
        buf_puts(out, "No kernel was measured.\n");
        return;
    }
    struct table *t = table_headed(a, heads, HEADS);
    for (size_t i = 0; i < r->n_kernels && i < 20; i++) {
        const struct deep_kernel_row *k = &r->kernels[i];
        table_cell(t, "%zu", i + 1);
        table_cell(t, "%s", k->label);
        number(t, 3, k->total_ms);
        number(t, 0, k->calls);
        number(t, 2, k->mean_us);
        number(t, 2, k->ncu_us);
        number(t, 1, k->share_percent);
        number(t, 1, k->compute_percent);
        number(t, 1, k->dram_percent);
        number(t, 1, k->l2_percent);
        number(t, 1, k->occupancy_percent);
        table_cell(t, "%s", k->class ? k->class : "not measured");
    }
    table_markdown(out, t);
}

static void collectives(struct arena *a, struct buf *out, const struct deep_result *r)
{
    static const char *const heads[] = {"Collective", "Process",      "GPU",        "Calls",
                                        "Total (ms)", "Waiting (ms)", "Moving (ms)"};
    enum { HEADS = sizeof heads / sizeof *heads };
    if (!r->n_collectives)
        return;
    buf_puts(out,
             "\n## Collectives\n\nWaiting: until the last process had begun the operation.\n\n");
    struct table *t = table_headed(a, heads, HEADS);
    for (size_t i = 0; i < r->n_collectives; i++) {
        const struct deep_collective_row *c = &r->collectives[i];
        table_cell(t, "%.80s", c->name);
        number(t, 0, c->process);
        number(t, 0, c->device);
        number(t, 0, c->calls);
        number(t, 3, c->total_ms);
        number(t, 3, c->waiting_ms);
        number(t, 3, c->moving_ms);
    }
    table_markdown(out, t);
}

static void repeat(struct arena *a, struct buf *out, const struct deep_result *r)
{
    static const char *const heads[] = {"Kernel",    "Calls then", "Calls now",
                                        "Then (ms)", "Now (ms)",   "Change (%)"};
    enum { HEADS = sizeof heads / sizeof *heads };
    if (!r->n_repeat)
        return;
    buf_puts(out, "\n## A Second Time\n\n");
    table_markdown_text(
        out, arena_printf(a, "Against %s: %s", r->repeat->folder, deep_repeat_words(a, r->repeat)));
    buf_puts(out, "\n\n");
    struct table *t = table_headed(a, heads, HEADS);
    for (size_t i = 0; i < r->repeat->n_rows; i++) {
        const struct deep_repeat_row *k = &r->repeat->rows[i];
        table_cell(t, "%s", k->label);
        number(t, 0, k->calls_before);
        number(t, 0, k->calls);
        number(t, 3, k->before_ms);
        number(t, 3, k->ms);
        number(t, 2, k->change_percent);
    }
    table_markdown(out, t);
}

/* Where most of the time without work is, of several stages. */
static void idle_stage(struct buf *out, const struct deep_result *r)
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
        buf_printf(out, " %.3f ms without work are in %s, of its %.3f ms.", most_ms, most->path,
                   most->elapsed_ms);
}

const char *deep_paragraph(struct arena *a, const struct deep_result *r, size_t i)
{
    const struct deep_bottleneck *b = &r->bottlenecks[i];
    struct buf out = {0};
    buf_printf(&out, "%.3f ms of %.3f ms %s (%.1f %%). %s", b->ms, r->totals.elapsed_ms,
               deep_whole(r), b->share_percent, b->evidence);
    if (strcmp(b->kind, "idle") == 0)
        idle_stage(&out, r);
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

static void narrative(struct arena *a, struct buf *out, const struct deep_result *r)
{
    if (!r->n_bottlenecks)
        return;
    buf_puts(out, "\n## Bottlenecks\n\n");
    for (size_t i = 0; i < r->n_bottlenecks; i++) {
        buf_printf(out, "%zu. **", i + 1);
        table_markdown_text(out, r->bottlenecks[i].what);
        buf_puts(out, "** (");
        buf_puts(out, r->bottlenecks[i].kind);
        buf_puts(out, "): ");
        table_markdown_text(out, deep_paragraph(a, r, i));
        buf_putc(out, '\n');
    }
}

void deep_summary(struct arena *a, struct buf *out, const struct deep_result *r)
{
    buf_puts(out, "# Deep profile\n\n");
    environment(a, out, r);
    aggregates(a, out, r);
    stages(a, out, r);
    ranks(a, out, r);
    mfu(a, out, r);
    operators(a, out, r);
    kernels(a, out, r);
    collectives(a, out, r);
    repeat(a, out, r);
    narrative(a, out, r);
    if (r->n_notes)
        buf_puts(out, "\n## Notes\n\n");
    for (size_t i = 0; i < r->n_notes; i++) {
        buf_puts(out, "- ");
        table_markdown_text(out, r->notes[i]);
        buf_putc(out, '\n');
    }
}
