/* What the reader of a session's figures must know, found in the figures themselves. */
#include <math.h>
#include <string.h>

#include "deep/analysis.h"

/* A mean of instances that differ by much says little of any. */
static void note_uneven(struct arena *a, struct deep_result *out)
{
    static const double FACTOR = 2;
    for (size_t i = 0; i < out->n_stages; i++) {
        const struct deep_stage_row *s = &out->stages[i];
        if (s->most_ms > FACTOR * s->least_ms)
            deep_note(
                a, out,
                "Instances of %s take %.3f to %.3f ms, %.3f in the mean: some do more, or wait "
                "for what happens once (a library that prepares kernels for a new shape).",
                s->path, s->least_ms, s->most_ms, s->per_instance_ms);
    }
}

/* Recording cannot make a program faster: then the runs themselves differ by more than it costs. */
static void note_overheads(struct arena *a, struct deep_result *out)
{
    static const double FASTER_PERCENT = 3;
    double baseline_s = NAN;
    for (size_t i = 0; i < out->n_steps; i++) {
        const struct deep_step *s = &out->steps[i];
        if (strcmp(s->name, "baseline") == 0)
            baseline_s = s->wall_s;
        if (s->overhead_percent < -FASTER_PERCENT)
            deep_note(
                a, out,
                "The run '%s' took %.2f s, the baseline %.2f s (%+.1f %%): such runs differ by "
                "more than recording costs, and what it costs is not known from these.",
                s->name, s->wall_s, baseline_s, s->overhead_percent);
    }
}

/* Kernels whose time under ncu is far from that in the app. */
static void note_durations(struct arena *a, struct deep_result *out)
{
    static const double FAR_PERCENT = 20;
    size_t far = 0, known = 0;
    const struct deep_kernel_row *worst = NULL;
    for (size_t i = 0; i < out->n_kernels; i++) {
        const struct deep_kernel_row *k = &out->kernels[i];
        if (isnan(k->clock_percent))
            continue;
        known++;
        if (fabs(k->clock_percent) <= FAR_PERCENT)
            continue;
        far++;
        if (!worst || fabs(k->clock_percent) > fabs(worst->clock_percent))
            worst = k;
    }
    if (far)
        deep_note(a, out,
                  "%zu of %zu kernels took more than %.0f %% longer or shorter under Nsight "
                  "Compute than in the application, the most %s: %.2f us against %.2f us "
                  "(%+.0f %%). Nsight Compute runs each kernel alone, with flushed caches, and one "
                  "launch stands for all of its grid, which may be of other sizes "
                  "(ncu.by_region=true measures stage by stage, ncu.launch_count= more launches). "
                  "Shares of time are the application's.",
                  far, known, FAR_PERCENT, worst->label, worst->ncu_us, worst->app_us,
                  worst->clock_percent);
}

/* Work that no GPU does in that time: the load is not that of what ran. */
static void note_loads(struct arena *a, struct deep_result *out)
{
    static const double MOST_PERCENT = 105; /* a measured roof is a median */
    for (size_t i = 0; i < out->n_stages; i++) {
        const struct deep_stage_row *s = &out->stages[i];
        if (s->mfu_gpu_percent > MOST_PERCENT)
            deep_note(a, out,
                      "The operations of stage %s are %.0f %% of the roof in its GPU time, which "
                      "cannot be: its load (deep.stages), the model or the roof is not that of "
                      "what ran.",
                      s->path, s->mfu_gpu_percent);
        if (s->bandwidth_gpu_percent > MOST_PERCENT)
            deep_note(a, out,
                      "The bytes of stage %s are %.0f %% of DRAM's roof in its GPU time: part of "
                      "them stays in the L2, or its load (deep.stages), the model or the roof is "
                      "not that of what ran.",
                      s->path, s->bandwidth_gpu_percent);
    }
}

void deep_notes(struct arena *a, struct deep_result *r)
{
    note_overheads(a, r);
    note_loads(a, r);
    note_uneven(a, r);
    note_durations(a, r);
}
