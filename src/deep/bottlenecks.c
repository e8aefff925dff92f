/* What costs most time, and what removing it would gain: Amdahl's law on the measured parts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "deep/analysis.h"
#include "deep/deep.h"

enum { MOST = 3 };

/* Elapsed time before over after, when ms of it become ms * left. More than 99.9 % removed is no
 * estimate. */
static double amdahl(double ms, double elapsed_ms, double left)
{
    double after = elapsed_ms - ms * (1 - left);
    return after > elapsed_ms / 1000 ? elapsed_ms / after : (double)NAN;
}

/* "12.345 ms", "6.85 us". */
static const char *time_words(struct arena *a, double ms)
{
    return ms >= 0.1 || isnan(ms) ? arena_printf(a, "%.3f ms", ms)
                                  : arena_printf(a, "%.2f us", 1e3 * ms);
}

static const char *kind_of(const struct deep_kernel_row *k)
{
    if (strncmp(k->name, "[CUDA mem", 9) == 0)
        return "copy";
    return kernels_communicates(TRACE_KERNEL, k->name, k->short_name) ? "communication" : "kernel";
}

static const char *kernel_evidence(struct arena *a, const struct deep_result *r,
                                   const struct deep_kernel_row *k)
{
    struct buf out = {0};
    buf_printf(&out, "%.0f call%s, %s together, %.2f us each: %.1f %% of the GPU's time.", k->calls,
               k->calls == 1 ? "" : "s", time_words(a, k->total_ms), k->mean_us, k->share_percent);
    if (k->running_ms < 0.995 * k->total_ms)
        buf_printf(&out, " Some run side by side: for %s at least one runs.",
                   time_words(a, k->running_ms));
    if (k->profiled > 0 && k->class && strcmp(k->class, "unknown") != 0)
        buf_printf(&out, " It is %s: %s.", k->class, k->why);
    if (!isnan(k->dram_mb) && !isnan(k->dram_gb_per_s))
        buf_printf(&out, " It moves %.3g MB of DRAM a launch at %.0f GB/s%s", k->dram_mb,
                   k->dram_gb_per_s, isnan(k->dram_percent) ? "." : "");
    if (!isnan(k->dram_percent) && !isnan(k->dram_mb))
        buf_printf(&out, " (%.0f %% of the roof).", k->dram_percent);
    if (!isnan(k->occupancy_percent))
        buf_printf(&out, " Occupancy %.0f %%%s", k->occupancy_percent,
                   isnan(k->occupancy_limit_percent) ? "." : "");
    bool limited = k->occupied && strcmp(k->occupied, "nothing") != 0;
    if (!isnan(k->occupancy_percent) && !isnan(k->occupancy_limit_percent))
        buf_printf(&out, " of %.0f %% possible%s%s.", k->occupancy_limit_percent,
                   limited ? ", limited by " : "", limited ? k->occupied : "");
    if (k->profiled <= 0 && r->n_kernels)
        buf_puts(&out, " Nsight Compute did not measure it: no roof is known for it.");
    const char *text = arena_str(a, buf_str(&out));
    buf_free(&out);
    return text;
}

static bool has_class(const struct deep_kernel_row *k, unsigned class)
{
    return k->class && strcmp(k->class, deep_class_name(class)) == 0;
}

/* Share of the kernel's time that it would need at its roof; NAN = not known: a roof was not
 * measured against, or what holds the kernel (busy SMs, Nsight Compute's own peak) is none. */
static double floor_of(const struct deep_kernel_row *k)
{
    double floor = NAN;
    const double shares[] = {k->compute_percent, k->dram_percent, k->l2_percent};
    bool memory = has_class(k, DEEP_MEMORY);
    if (!k->class || has_class(k, DEEP_UNKNOWN) || isnan(k->dram_percent) ||
        (isnan(k->compute_percent) && !memory))
        return NAN;
    for (size_t i = 0; i < 3; i++)
        if (!isnan(shares[i]) && !(floor >= shares[i]))
            floor = shares[i];
    if (!has_class(k, DEEP_LATENCY_BOUND) && floor < 100 * DEEP_LATENCY)
        return NAN;
    return floor > 100 ? 100 : floor;
}

static const char *kernel_advice(struct arena *a, const struct deep_result *r,
                                 const struct deep_kernel_row *k, const struct deep_bottleneck *b)
{
    if (isnan(b->floor_percent))
        return arena_printf(a, "Without its %s the whole would be %s at best.",
                            time_words(a, b->ms),
                            time_words(a, fmax(r->totals.elapsed_ms - b->ms, 0)));
    const char *then =
        arena_printf(a, "At its roof it would take %s instead of %s",
                     time_words(a, b->ms * b->floor_percent / 100), time_words(a, b->ms));
    bool by_l2 = k->l2_percent > k->dram_percent;
    if (has_class(k, DEEP_MEMORY))
        return arena_printf(
            a,
            "%s. %.0f %% of its time are bytes at full rate: only fewer bytes (%.3g "
            "MB of %s a launch now) make it faster than that.",
            then, b->floor_percent, by_l2 ? k->l2_mb : k->dram_mb, by_l2 ? "the L2" : "DRAM");
    if (has_class(k, DEEP_COMPUTE))
        return arena_printf(a,
                            "%s. %.0f %% of its time are operations at full rate: only fewer or "
                            "cheaper ones (%.3g GFLOP a launch now) make it faster than that.",
                            then, b->floor_percent, k->gflop);
    if (!isnan(k->waves))
        return arena_printf(a,
                            "%s: a launch has blocks for %s waves over the GPU's SMs, and %.0f "
                            "%% of its time neither "
                            "bytes nor operations are at their roof.",
                            then,
                            k->waves < 0.01 ? "less than 0.01" : arena_printf(a, "%.2g", k->waves),
                            100 - b->floor_percent);
    return arena_printf(a,
                        "%s: %.0f %% of its time neither bytes nor operations are at their roof.",
                        then, 100 - b->floor_percent);
}

/* A collective that was split: what waiting and what moving data is. */
static void split(struct arena *a, const struct deep_result *r, const struct deep_kernel_row *k,
                  struct deep_bottleneck *b)
{
    double waiting = 0, moving = 0, lanes = 0;
    for (size_t i = 0; i < r->n_collectives; i++)
        if (strcmp(r->collectives[i].name, k->short_name) == 0) {
            waiting += r->collectives[i].waiting_ms;
            moving += r->collectives[i].moving_ms;
            lanes++;
        }
    if (lanes == 0)
        return;
    b->evidence = arena_printf(
        a, "%s Of a process's %s, %s are waiting until the last one has begun, %s moving data.",
        b->evidence, time_words(a, (waiting + moving) / lanes), time_words(a, waiting / lanes),
        time_words(a, moving / lanes));
    b->advice =
        arena_printf(a, "%s Without the waiting alone it would be %s, without the moving alone %s.",
                     b->advice, time_words(a, r->totals.elapsed_ms - waiting / lanes),
                     time_words(a, r->totals.elapsed_ms - moving / lanes));
}

static struct deep_bottleneck of_kernel(struct arena *a, const struct deep_result *r,
                                        const struct deep_kernel_row *k)
{
    double lanes = r->totals.processes > 1 ? r->totals.processes : 1;
    struct deep_bottleneck b = {.what = k->label, .kind = kind_of(k)};
    b.ms = (isnan(k->running_ms) ? k->total_ms : k->running_ms) / lanes;
    b.share_percent = 100 * b.ms / r->totals.elapsed_ms;
    b.floor_percent = floor_of(k);
    b.gain = amdahl(b.ms, r->totals.elapsed_ms, 0);
    b.gain_at_roof = amdahl(b.ms, r->totals.elapsed_ms, b.floor_percent / 100);
    b.evidence = kernel_evidence(a, r, k);
    b.advice = kernel_advice(a, r, k, &b);
    split(a, r, k, &b);
    return b;
}

/* What busy_ms adds up over: GPUs of a whole trace; of stages processes, as far as each has a GPU.
 */
static double idle_lanes(const struct deep_totals *t)
{
    double lanes = strcmp(t->scope, "trace") == 0 ? t->devices : fmin(t->processes, t->devices);
    return lanes > 1 ? lanes : 1;
}

/* How much of the time without work launches can be the cause of. */
static void put_launches(struct buf *out, const struct deep_totals *t, double idle_ms, double lanes)
{
    double launches = t->launches / lanes,
           host_ms = launches * (t->launch_gap_us + t->launch_call_us) / 1e3;
    if (isnan(host_ms))
        return;
    buf_printf(out,
               " %.0f launches at that cost are %.3f ms of the host: fewer or cheaper ones (CUDA "
               "graphs, fused operators) ",
               launches, host_ms);
    if (host_ms < idle_ms)
        buf_printf(out, "save that at most; the other %.3f ms without work have other causes.",
                   idle_ms - host_ms);
    else
        buf_puts(out, "can close all of it.");
}

static struct deep_bottleneck of_idle(struct arena *a, const struct deep_result *r)
{
    const struct deep_totals *t = &r->totals;
    double lanes = idle_lanes(t);
    double busy = t->busy_ms / lanes;
    struct deep_bottleneck b = {.what = "The GPU has no work", .kind = "idle"};
    struct buf text = {0};
    b.ms = fmax(t->elapsed_ms - busy, 0);
    b.share_percent = 100 * b.ms / t->elapsed_ms;
    b.floor_percent = 0;
    b.gain = b.gain_at_roof = amdahl(b.ms, t->elapsed_ms, 0);
    buf_printf(&text, "The GPU worked %.3f ms of %.3f ms (%.1f %%), on %.0f operations.", busy,
               t->elapsed_ms, 100 * busy / t->elapsed_ms, t->operations);
    if (!isnan(t->launch_gap_us) && !isnan(t->launch_call_us))
        buf_printf(&text,
                   " Between two launches the host spends %.2f us, in a launch %.2f us (medians "
                   "of the trace); an operation takes %.2f us on average.",
                   t->launch_gap_us, t->launch_call_us, 1e3 * t->gpu_ms / t->operations);
    b.evidence = arena_str(a, buf_str(&text));
    buf_clear(&text);
    buf_printf(&text, "Without gaps the elapsed time would be %.3f ms.", busy);
    put_launches(&text, t, b.ms, lanes);
    b.advice = arena_str(a, buf_str(&text));
    buf_free(&text);
    return b;
}

/* What ran in the stages' time and none of them launched. */
static struct deep_bottleneck of_beside(struct arena *a, const struct deep_result *r)
{
    const struct deep_totals *t = &r->totals;
    struct deep_bottleneck b = {.what = "Work launched outside of the stages", .kind = "kernel"};
    b.ms = t->beside_ms / idle_lanes(t);
    b.share_percent = 100 * b.ms / t->elapsed_ms;
    b.floor_percent = NAN;
    b.gain = amdahl(b.ms, t->elapsed_ms, 0);
    b.gain_at_roof = NAN;
    b.evidence =
        arena_printf(a,
                     "%s of GPU time in the time of the stages, launched before them or by "
                     "nothing that was recorded.",
                     time_words(a, t->beside_ms));
    b.advice = "deep.stages may name the ranges around its launches.";
    return b;
}

/* Time that could be saved. */
static double saving(const struct deep_bottleneck *b)
{
    return b->ms * (1 - (isnan(b->floor_percent) ? 0 : b->floor_percent / 100));
}

static int by_saving(const void *x, const void *y)
{
    double a = saving(x), b = saving(y);
    return a > b ? -1 : a < b;
}

void deep_bottlenecks(struct arena *a, struct deep_result *r)
{
    struct deep_bottleneck *all = arena_array(a, struct deep_bottleneck, r->n_kernels + 2);
    size_t n = 0;
    if (!(r->totals.elapsed_ms > 0))
        return;
    for (size_t i = 0; i < r->n_kernels; i++)
        all[n++] = of_kernel(a, r, &r->kernels[i]);
    if (deep_timed(r))
        all[n++] = of_idle(a, r);
    if (r->totals.beside_ms > 0)
        all[n++] = of_beside(a, r);
    qsort(all, n, sizeof *all, by_saving);
    r->bottlenecks = all;
    for (r->n_bottlenecks = 0; r->n_bottlenecks < n && r->n_bottlenecks < MOST; r->n_bottlenecks++)
        if (!(saving(&all[r->n_bottlenecks]) > 0))
            break;
}
