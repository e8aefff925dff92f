#include "profile/wake.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/order.h"
#include "profile/stats.h"
#include "serve/serve.h"

const double wake_pauses_s[WAKE_LEVELS] = {0.02, 0.15, 0.8};

/* Requests run in triples, one at a time: the first after the pause, the second to settle, the
 * third to compare with. */
enum { PROMPT_TOKENS = 24, TRIPLE = 3 };

struct wake_feed {
    int64_t next;
    double begin_s; /* start of the run on the clock */
    double pause_s; /* time until the requests come */
    int32_t vocab;
    int64_t iteration;
    struct wake_sample row[TRIPLE];
};

static enum st feed_next(void *self, struct workload_request *out, struct err *e)
{
    struct wake_feed *f = self;
    (void)e;
    if (f->next == TRIPLE)
        return ST_END;
    double arrival_s = f->begin_s + f->pause_s;
    *out = (struct workload_request){.request_id = f->next++,
                                     .arrival_s = arrival_s,
                                     .arrival_ns = ns_from_s(arrival_s),
                                     .num_prefill_tokens = PROMPT_TOKENS,
                                     .num_decode_tokens = WAKE_ITERATIONS};
    return ST_OK;
}

static enum st feed_ids(void *self, const struct workload_request *r, int32_t *ids, struct err *e)
{
    const struct wake_feed *f = self;
    (void)e;
    for (int64_t i = 0; i < r->num_prefill_tokens; i++)
        ids[i] = (int32_t)((r->request_id * 17 + i * 5) % f->vocab);
    return ST_OK;
}

static void on_batch(void *self, const struct run_batch *b, const struct completion *c)
{
    struct wake_feed *f = self;
    (void)c;
    struct wake_sample *row = &f->row[f->iteration / WAKE_ITERATIONS];
    int64_t k = f->iteration++ % WAKE_ITERATIONS;
    if (k == 0)
        row->pause_s = ns_to_s(b->start_ns) - f->begin_s;
    row->device_s[k] = ns_to_s(b->device_ns);
    row->host_s[k] = ns_to_s(b->host_ns);
}

static enum st measure_pair(const struct profile_params *p, struct executor ex, int level,
                            const volatile sig_atomic_t *stop, struct wake *out, struct err *e)
{
    struct serve_params sp = {
        .policy = "sequential",
        .replicas = 1,
        .batch_cap = 1,
        .block_size = p->block_size,
        .num_blocks = p->num_blocks,
        .seed = p->seed,
    };
    if (!p->clock->is_virtual)
        clock_restart(p->clock);
    struct wake_feed f = {.begin_s = p->clock->is_virtual ? p->clock->now_s : 0,
                          .pause_s = wake_pauses_s[level],
                          .vocab = (int32_t)p->model->vocab};
    struct request_source source = {&f, feed_next, feed_ids, NULL};
    struct serve_sink sink = {.self = &f, .batch = on_batch};
    struct serve_counters counters;
    TRY(serve_run(&sp, p->clock, &ex, &source, &sink, stop, &counters, e));
    if (f.iteration != (int64_t)TRIPLE * WAKE_ITERATIONS)
        return ST_OK; /* the executor ended a sequence early: nothing to compare */
    struct wake_sample s = f.row[0];
    s.level = level;
    for (int k = 0; k < WAKE_ITERATIONS; k++) {
        s.device_s[k] -= f.row[TRIPLE - 1].device_s[k];
        s.host_s[k] -= f.row[TRIPLE - 1].host_s[k];
    }
    vec_push(&out->samples, s);
    return ST_OK;
}

enum st wake_measure(const struct profile_params *p, struct executor ex,
                     const volatile sig_atomic_t *stop, struct wake *out, struct err *e)
{
    for (int level = 0; level < WAKE_LEVELS; level++)
        TRY(measure_pair(p, ex, level, stop, out, e));
    return ST_OK;
}

/* w: level, pause, device and host seconds of each iteration. */
enum { ROW = 2 + 2 * WAKE_ITERATIONS };

enum st wake_keep(const struct wake *w, size_t from, struct journal *j, struct err *e)
{
    for (size_t i = from; i < w->samples.n; i++) {
        const struct wake_sample *s = &w->samples.p[i];
        double v[ROW] = {s->level, s->pause_s};
        memcpy(v + 2, s->device_s, sizeof s->device_s);
        memcpy(v + 2 + WAKE_ITERATIONS, s->host_s, sizeof s->host_s);
        TRY(journal_row(j, 'w', v, ROW, e));
    }
    return ST_OK;
}

void wake_load(const struct journal *j, struct wake *out)
{
    size_t at = 0;
    int n;
    for (const double *v; (v = journal_next(j, 'w', &at, &n));) {
        if (n != ROW || !(v[0] >= 0 && v[0] < WAKE_LEVELS))
            continue;
        struct wake_sample s = {.level = (int)v[0], .pause_s = v[1]};
        memcpy(s.device_s, v + 2, sizeof s.device_s);
        memcpy(s.host_s, v + 2 + WAKE_ITERATIONS, sizeof s.host_s);
        vec_push(&out->samples, s);
    }
}

double wake_round_s(void)
{
    double s = 0;
    for (int i = 0; i < WAKE_LEVELS; i++)
        s += wake_pauses_s[i];
    return s;
}

/* Statistics over one level of device_s[k], host_s[k] or, with neither, the pause. */
enum wake_part { PART_PAUSE, PART_DEVICE, PART_HOST };

static int64_t level_values(const struct wake *w, int level, enum wake_part part, int k, double *v)
{
    int64_t n = 0;
    for (size_t i = 0; i < w->samples.n; i++) {
        const struct wake_sample *s = &w->samples.p[i];
        if (s->level == level)
            v[n++] = part == PART_PAUSE    ? s->pause_s
                     : part == PART_DEVICE ? s->device_s[k]
                                           : s->host_s[k];
    }
    return n;
}

static struct doubles median_row(struct arena *a, const struct wake *w, int level,
                                 enum wake_part part, double *v)
{
    struct doubles row = {arena_array(a, double, WAKE_ITERATIONS), WAKE_ITERATIONS};
    for (int k = 0; k < WAKE_ITERATIONS; k++) {
        struct stats s = stats_of(v, level_values(w, level, part, k, v));
        row.v[k] = fmax(s.median, 0);
    }
    return row;
}

bool wake_said(struct arena *a, const struct wake *w, struct bundle_wake *out)
{
    if (w->samples.n == 0)
        return false;
    *out = (struct bundle_wake){.pause_s.v = arena_array(a, double, WAKE_LEVELS),
                                .device_s = arena_array(a, struct doubles, WAKE_LEVELS),
                                .host_s = arena_array(a, struct doubles, WAKE_LEVELS),
                                .spread_s.v = arena_array(a, double, WAKE_LEVELS),
                                .samples = INT64_MAX};
    double *v = arena_array(a, double, w->samples.n);
    double longest_s = 0;
    for (int level = 0; level < WAKE_LEVELS; level++) {
        int64_t n = level_values(w, level, PART_PAUSE, 0, v);
        const double pause_s = n ? stats_of(v, n).median : 0;
        if (pause_s <= longest_s)
            continue;
        longest_s = pause_s;
        out->samples = n < out->samples ? n : out->samples;
        out->pause_s.v[out->pause_s.n++] = pause_s;
        out->device_s[out->n_device++] = median_row(a, w, level, PART_DEVICE, v);
        out->host_s[out->n_host++] = median_row(a, w, level, PART_HOST, v);
        n = level_values(w, level, PART_DEVICE, 0, v);
        qsort(v, (size_t)n, sizeof *v, order_double);
        out->spread_s.v[out->spread_s.n++] = v[3 * n / 4] - v[n / 4];
    }
    return true;
}
