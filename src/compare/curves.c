#include "compare/curves.h"

static void quantiles(const struct series *s, double out[CURVES_QUANTILES])
{
    for (int i = 0; i < CURVES_QUANTILES; i++)
        out[i] = stats_percentile(s->ns, s->n, 100.0 * i / (CURVES_QUANTILES - 1));
}

/* Adds `weight` for the time [start_s, end_s) to the bins it covers. */
static void bins_add(double bins[CURVES_BINS], double bin_s, double start_s, double end_s,
                     double weight)
{
    double last = end_s / bin_s;
    int n = last < CURVES_BINS ? (int)last + 1 : CURVES_BINS;
    for (int i = start_s / bin_s < n ? (int)(start_s / bin_s) : n; i < n; i++) {
        double from = i * bin_s, to = from + bin_s;
        from = from > start_s ? from : start_s;
        to = to < end_s ? to : end_s;
        if (to > from)
            bins[i] += weight * (to - from) / bin_s;
    }
}

static double last_end_s(const struct run *r)
{
    double end = 0;
    for (size_t i = 0; i < r->n_batches; i++) {
        double s = (double)(r->batches[i].start_ns + r->batches[i].duration_ns) / 1e9;
        end = s > end ? s : end;
    }
    return end;
}

static void over_time(const struct run *r, double bin_s, struct run_curves *out)
{
    for (size_t i = 0; i < r->n_batches; i++) {
        const struct run_batch *b = &r->batches[i];
        out->has_running = true;
        if (b->stage == 0)
            bins_add(out->running, bin_s, (double)b->start_ns / 1e9,
                     (double)(b->start_ns + b->duration_ns) / 1e9, (double)b->batch_size);
    }
    for (size_t i = 0; i < r->n_requests; i++) {
        const struct run_request *q = &r->requests[i];
        if (q->scheduled_ns == RUN_NONE)
            continue;
        out->has_waiting = true;
        bins_add(out->waiting, bin_s, (double)q->arrival_ns / 1e9, (double)q->scheduled_ns / 1e9,
                 1);
    }
}

struct curves *curves_new(struct arena *a, int n_runs, const char *const *names,
                          const struct run *const *runs, const struct run_metrics *const *metrics)
{
    ASSERT(n_runs >= 1 && n_runs <= CURVES_MAX_RUNS);
    struct curves *c = arena_one(a, struct curves);
    double end_s = 0;
    c->n_runs = n_runs;
    for (int k = 0; k < n_runs; k++) {
        double s = last_end_s(runs[k]);
        end_s = s > end_s ? s : end_s;
    }
    c->bin_s = end_s / CURVES_BINS;
    for (int k = 0; k < n_runs; k++) {
        c->names[k] = names[k];
        c->keys[k] = k == 0 ? "real" : "sim";
        for (enum metric m = 0; m < METRICS; m++) {
            const struct series *s = &metrics[k]->of[m];
            c->of[k].has[m] = s->n > 0;
            if (s->n > 0)
                quantiles(s, c->of[k].ns[m]);
        }
        if (c->bin_s > 0)
            over_time(runs[k], c->bin_s, &c->of[k]);
    }
    return c;
}
