#include "energy/energy_notes.h"

#include <math.h>
#include <string.h>

#include "base/vec.h"

#define CLOCKS_APART 0.02 /* of the whole's */

typedef VEC(const char *) note_list;

/* A GPU that draws less than this, even at its highest, is one whose powers are in kilowatts. */
#define LEAST_GPU_W 2.0

static double highest_w(const struct power_log *log)
{
    double most = 0;
    for (size_t i = 0; i < log->n; i++)
        most = fmax(most, log->p[i].power_w);
    return most;
}

static void note_log(struct arena *a, note_list *notes, const struct power_log *log)
{
    if (log->averaged)
        vec_push(notes, arena_printf(a,
                                     "the power of %s is an average over the last second: windows "
                                     "of a few seconds are smeared",
                                     log->source));
    if (log->missing)
        vec_push(notes,
                 arena_printf(a, "%s: %lld rows without power were left out%s%s%s", log->source,
                              (long long)log->missing, log->no_power ? ", the first '" : "",
                              log->no_power ? log->no_power : "", log->no_power ? "'" : ""));
    if (!log->meter && highest_w(log) > 0 && highest_w(log) < LEAST_GPU_W)
        vec_push(notes,
                 arena_printf(a,
                              "%s: %.3g W at most is little for a GPU: kilowatts belong in a "
                              "column power_kw",
                              log->source, highest_w(log)));
    if (log->counted)
        vec_push(notes, arena_printf(a, "%s has no index: %s was read", log->source, log->what));
    if (log->headers)
        vec_push(notes, arena_printf(a, "%s: %lld repeated headers were skipped", log->source,
                                     (long long)log->headers));
    if (log->doubtful)
        vec_push(notes, arena_printf(a,
                                     "%s: no column says which GPU its rows are of; their powers "
                                     "or times change in turn as those of several GPUs do: log "
                                     "the index too",
                                     log->source));
    if (log->cut)
        vec_push(notes,
                 arena_printf(a, "%s: the last line has no end and was left out", log->source));
}

static void note_whole(struct arena *a, note_list *notes, const struct energy_whole *w,
                       const char *what)
{
    const struct energy *g = &w->energy;
    if (g->how == ENERGY_ONE_SAMPLE)
        vec_push(notes, arena_printf(a, "%s: a single sample of power, taken for all of it", what));
    if (g->outside_s > 0)
        vec_push(notes,
                 arena_printf(a, "%s: no power for %.3f of its %.3f s: the log's end is held", what,
                              g->outside_s, g->duration_s));
    if (g->how == ENERGY_TRAPEZOIDS && g->longest_gap_s > 0.1 * g->duration_s)
        vec_push(notes, arena_printf(a, "%s: %.3f s between two samples of power, of %.3f s", what,
                                     g->longest_gap_s, g->duration_s));
    if (!isnan(g->counter_j) && fabs(energy_percent_off(g->joules, g->counter_j)) > 3)
        vec_push(
            notes,
            arena_printf(a, "%s: the samples integrate to %+.1f %% of the energy counter's %.4g J",
                         what, energy_percent_off(g->joules, g->counter_j), g->counter_j));
}

/* Kernels that overlap have more time in sum than a run takes. */
static void note_overlap(struct arena *a, note_list *notes, const struct energy_report *r,
                         const struct energy_context *c)
{
    if (c->known && c->busy_us > 1.01 * r->full.inference_us)
        vec_push(notes,
                 arena_printf(a,
                              "the kernels' times sum to %.1f %% of a run of the whole: some "
                              "overlap, and the overlap is charged twice",
                              100 * c->busy_us / r->full.inference_us));
}

static void note_kernels(struct arena *a, note_list *notes, const struct energy_inputs *in,
                         const struct energy_report *r, const struct energy_context *c)
{
    if (r->num_excluded)
        vec_push(notes, arena_printf(a,
                                     "%lld of %zu kernels have no sample of power in their window "
                                     "and are in no sum",
                                     (long long)r->num_excluded, r->n));
    if (r->num_estimated)
        vec_push(notes, arena_printf(a,
                                     "%lld of %zu kernels have a single sample of power, taken "
                                     "for all of their window",
                                     (long long)r->num_estimated, r->n));
    if (c->known && c->estimated_us > 0)
        vec_push(notes, arena_printf(a,
                                     "kernels without power take %.2f %% of the kernels' time and "
                                     "are charged the mean power of the others",
                                     100 * c->estimated_us / c->busy_us));
    if (!c->known && c->busy_us > 0 && c->estimated_us > 0)
        vec_push(notes, arena_printf(a,
                                     "no in-context energy: kernels without power take %.1f %% of "
                                     "the kernels' time",
                                     100 * c->estimated_us / c->busy_us));
    else if (!c->known && in->isolated && r->n)
        vec_push(notes, "no in-context energy: the times of the kernels in the whole "
                        "(in_context_us) are not in the timing file");
    else if (c->known && isnan(in->idle_w) && !r->whole.known)
        vec_push(notes, "no prediction: idle_power= is unknown");
    if (c->known && isnan(c->half_j))
        vec_push(notes, "the prediction has no interval: the powers of some kernels rest on fewer "
                        "than three readings");
    if (in->isolated && in->isolated->in_context_from &&
        strcmp(in->isolated->in_context_from, "application") == 0)
        vec_push(notes, "the times of the kernels inside the whole are those of the application, "
                        "not of the replay");
}

/* Of kernels that were repeated with their sets, and of those that may do other work then. */
static void note_repeats(struct arena *a, note_list *notes, const struct energy_inputs *in)
{
    const struct isolated_timing *t = in->isolated;
    size_t with_sets = 0, faster = 0;
    const char *first = NULL;
    for (size_t i = 0; t && i < t->n; i++) {
        const struct kernel_timing *k = &t->kernels[i];
        with_sets += k->benchmark_runs > 0 && !k->pooled && k->with_sets > 0;
        faster += k->faster_when_repeated;
        if (k->faster_when_repeated && !first)
            first = k->name;
    }
    if (with_sets)
        vec_push(notes, arena_printf(a,
                                     "%zu of %zu kernels were repeated with the sets that belong "
                                     "to them: the sum of windows counts those sets twice",
                                     with_sets, t->n));
    if (faster)
        vec_push(notes, arena_printf(a,
                                     "%zu of %zu kernels are so much faster when they are repeated "
                                     "that their power may be that of other work: %.80s%s",
                                     faster, t->n, first, faster > 1 ? " and others" : ""));
}

/* A kernel alone may be held at other clocks than inside the whole: its power is another then. */
static void note_clocks(struct arena *a, note_list *notes, const struct energy_report *r)
{
    const double whole = r->full.under.sm_mhz;
    double low = NAN, high = NAN, apart_us = 0, all_us = 0;
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++) {
        const double mhz = r->kernels[i].under.sm_mhz, us = energy_context_us(&r->kernels[i]);
        all_us += isnan(us) ? 0 : us;
        if (!(whole > 0 && mhz > 0 && fabs(mhz - whole) > CLOCKS_APART * whole))
            continue;
        n++;
        apart_us += isnan(us) ? 0 : us;
        low = fmin(low, mhz);
        high = fmax(high, mhz);
    }
    if (n && all_us > 0)
        vec_push(notes,
                 arena_printf(a,
                              "%zu of %zu kernels, %.1f %% of the kernels' time, ran alone at "
                              "other clocks than the whole: SM at %.0f to %.0f MHz, the whole at "
                              "%.0f MHz",
                              n, r->n, 100 * apart_us / all_us, low, high, whole));
}

void energy_notes(struct arena *a, const struct energy_inputs *in, const struct energy_context *c,
                  struct energy_report *r)
{
    const struct power_log *app_power = in->application_power ? in->application_power : in->power;
    note_list notes = {0};
    note_log(a, &notes, in->power);
    if (app_power != in->power)
        note_log(a, &notes, app_power);
    note_whole(a, &notes, &r->full, "the whole");
    if (in->application)
        note_whole(a, &notes, &r->application, "the application");
    note_kernels(a, &notes, in, r, c);
    note_repeats(a, &notes, in);
    note_overlap(a, &notes, r, c);
    note_clocks(a, &notes, r);
    r->notes = arena_copy(a, notes.p, notes.n * sizeof *notes.p);
    r->n_notes = notes.n;
    vec_free(&notes);
}
