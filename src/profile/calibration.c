#include "profile/calibration.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/order.h"
#include "base/rng.h"
#include "profile/read/power_cap.h"
#include "profile/stats.h"
#include "serve/serve.h"
#include "sim/predictor.h"

enum { SHORTEST = 8, LONGEST_LEAST = 64 }; /* tokens per prompt */

static const struct calibration_setting settings[2][CALIBRATION_SETTINGS] = {
    {{1, 16, 48, 512, 0.5, 1},
     {2, 8, 96, 512, 0.5, 1},
     {4, 12, 96, 512, 0.5, 1},
     {8, 16, 96, 512, 0.5, 1},
     {16, 32, 96, 512, 0.5, 1},
     {32, 48, 96, 512, 0.5, 1}},
    /* batches of all sizes between come at the end of each, as it drains; prompts of few sequences
     * up to what a batch holds: factors of the classes at the upper end are not those below */
    {{1, 16, 48, 4096, 2, 0.6},
     {6, 24, 64, 4096, 2, 0.6},
     {20, 60, 64, 4096, 2, 1},
     {44, 100, 64, 1024, 2, 1},
     {72, 144, 64, 1024, 2, 1},
     {128, 256, 64, 1024, 2, 1}},
};

const struct calibration_setting *calibration_settings_of(bool deep)
{
    return settings[deep];
}

bool calibration_is_deep(const struct executor *ex)
{
    return executor_lanes(ex) == 1 && ex->ops->max_in_flight(ex->self) > 1;
}

/* ---- how much of a setting is run ---- */

/* Mean tokens of prompts up to that length. */
static double mean_tokens(int64_t longest)
{
    return (double)(longest - SHORTEST) / log((double)longest / SHORTEST);
}

struct calibration_part calibration_part(const struct calibration_setting *set, double length,
                                         double decode_s, double token_s, double *seconds)
{
    const double part = fmax(length, (double)CALIBRATION_FEWEST / (double)set->decodes);
    const int64_t requests = (int64_t)((double)set->requests * fmin(length / part, 1));
    struct calibration_part out = {.requests = requests > 2 ? requests : 2,
                                   .decodes = (int64_t)((double)set->decodes * part),
                                   .longest = set->longest};
    const double each_s = decode_s * (double)out.decodes / (double)set->sequences;
    while (out.longest > LONGEST_LEAST &&
           mean_tokens(out.longest) * token_s > set->prompts * each_s)
        out.longest /= 2;
    const double request_s = each_s + fmax(mean_tokens(out.longest) * token_s, decode_s);
    if (set->busy < 1)
        out.gap_s = request_s / set->busy;
    *seconds = (double)out.requests * request_s / set->busy;
    return out;
}

/* ---- an executor that remembers what passes through ---- */

struct spy {
    struct executor inner;
    struct calibration *out;
    size_t answered; /* batches of out; those of one lane come back in order */
    int round;
    double done_s; /* by the device, the last batch of the setting; NAN = none */
};

static int32_t spy_max_in_flight(void *self)
{
    const struct spy *s = self;
    return calibration_is_deep(&s->inner) ? s->inner.ops->max_in_flight(s->inner.self) : 1;
}

static enum st spy_submit(void *self, const struct batch *b, uint64_t *ticket, struct err *e)
{
    struct spy *s = self;
    struct calibration_batch row = {.round = s->round, .b = *b, .first_chunk = s->out->chunks.n};
    row.b.chunks = NULL;
    row.b.left = row.b.entered = NULL;
    for (int32_t i = 0; i < b->n_chunks; i++)
        vec_push(&s->out->chunks, b->chunks[i]);
    vec_push(&s->out->batches, row);
    return s->inner.ops->submit(s->inner.self, b, ticket, e);
}

static enum st spy_next(void *self, double deadline_s, struct completion *c, struct err *e)
{
    struct spy *s = self;
    enum st st = s->inner.ops->next(s->inner.self, deadline_s, c, e);
    if (st != ST_OK)
        return st;
    double sum = c->op_s ? 0 : c->device_s;
    for (int k = 0; c->op_s && k < OP_ROWS; k++)
        sum += c->op_s[k];
    ASSERT(s->answered < s->out->batches.n);
    struct calibration_batch *row = &s->out->batches.p[s->answered++];
    row->device_s = c->starved ? 0 : sum; /* 0: is left out */
    row->launch_s = row->b.n_chunks && c->launch_s > 0 ? c->prepare_s + c->launch_s : 0;
    const double done_s = c->end_s - c->answer_s, idle_s = done_s - c->device_s - s->done_s;
    /* of others the time between two batches is the host's, and in no pause; 0 for NAN */
    row->idle_s = calibration_is_deep(&s->inner) && idle_s > 0 ? idle_s : 0;
    s->done_s = done_s;
    return st;
}

static void spy_bind(void *self, struct slot_source source)
{
    struct spy *s = self;
    if (s->inner.ops->bind)
        s->inner.ops->bind(s->inner.self, source);
}

static void spy_release(void *self, int32_t slot)
{
    struct spy *s = self;
    if (s->inner.ops->release)
        s->inner.ops->release(s->inner.self, slot);
}

static void spy_close(void *self)
{
    (void)self;
}

/* ---- the workload ---- */

struct feed {
    struct rng rng;
    int64_t next, n, longest, decodes;
    double gap_s, at_s;
    int32_t vocab;
};

static enum st feed_next(void *self, struct workload_request *out, struct err *e)
{
    struct feed *f = self;
    (void)e;
    if (f->next == f->n)
        return ST_END;
    double octaves = log2((double)f->longest / SHORTEST);
    int64_t prompt = (int64_t)(SHORTEST * exp2(rng_unit(&f->rng) * fmax(octaves, 0)));
    /* varied, so that requests do not end together */
    int64_t decodes = f->decodes / 2 + (int64_t)rng_below(&f->rng, (uint64_t)f->decodes) + 1;
    *out =
        (struct workload_request){.request_id = f->next++,
                                  .arrival_ns = ns_from_s(f->at_s),
                                  .arrival_s = ns_to_s(ns_from_s(f->at_s)),
                                  .num_prefill_tokens = prompt < f->longest ? prompt : f->longest,
                                  .num_decode_tokens = decodes};
    if (f->gap_s > 0)
        f->at_s += f->gap_s * rng_exponential(&f->rng);
    return ST_OK;
}

static enum st feed_ids(void *self, const struct workload_request *r, int32_t *ids, struct err *e)
{
    const struct feed *f = self;
    (void)e;
    for (int64_t i = 0; i < r->num_prefill_tokens; i++)
        ids[i] = (int32_t)((r->request_id * 13 + i * 11) % f->vocab);
    return ST_OK;
}

static enum st run_at(const struct profile_params *p, struct executor ex,
                      const struct calibration_setting *set, const struct calibration_part *part,
                      struct rng rng, const volatile sig_atomic_t *stop, struct err *e)
{
    const int64_t room = p->num_blocks / set->sequences * p->block_size;
    const int64_t kv = p->max_kv < room ? p->max_kv : room;
    int64_t decodes = part->decodes < kv / 4 ? part->decodes : kv / 4;
    decodes = decodes > 2 ? decodes : 2;
    const int64_t most = decodes / 2 + decodes;
    int64_t longest = kv - most < p->max_tokens ? kv - most : p->max_tokens;
    longest = longest < part->longest ? longest : part->longest;
    if (longest < 1)
        return ST_OK;
    struct feed f = {.rng = rng,
                     .n = part->requests,
                     .longest = longest,
                     .decodes = decodes,
                     .gap_s = part->gap_s,
                     .vocab = (int32_t)p->model->vocab};
    struct serve_params sp = {
        .policy = "vllm_v1",
        .replicas = 1,
        .batch_cap = set->sequences,
        .token_budget = p->max_tokens > set->sequences ? p->max_tokens : set->sequences,
        .block_size = p->block_size,
        .num_blocks = p->num_blocks,
        .seed = p->seed,
        .op_times = true,
        .spans = model_spans(p->model),
    };
    struct request_source source = {&f, feed_next, feed_ids, NULL};
    struct serve_sink sink = {0};
    struct serve_counters counters;
    if (!p->clock->is_virtual)
        clock_restart(p->clock);
    return serve_run(&sp, p->clock, &ex, &source, &sink, stop, &counters, e);
}

enum st calibration_round(const struct profile_params *p, struct executor ex, int round,
                          const struct calibration_part parts[CALIBRATION_SETTINGS],
                          const volatile sig_atomic_t *stop, struct calibration *out, struct err *e)
{
    struct executor_ops ops = *ex.ops;
    ops.max_in_flight = spy_max_in_flight;
    ops.submit = spy_submit;
    ops.next = spy_next;
    ops.bind = spy_bind;
    ops.release = spy_release;
    ops.close = spy_close;
    ops.lanes = NULL;
    ops.padded_rows = NULL;
    ops.undisturbed = NULL;
    ops.facts = NULL;
    struct spy spy = {.inner = ex, .out = out, .round = round, .answered = out->batches.n};
    const struct calibration_setting *sets = calibration_settings_of(calibration_is_deep(&ex));
    struct executor spied = {&ops, &spy};
    for (int i = 0; i < CALIBRATION_SETTINGS; i++) {
        const struct calibration_setting *set = &sets[i];
        char name[48];
        snprintf(name, sizeof name, "profile.rehearsal.%d.%d", round, i);
        spy.done_s = (double)NAN; /* the clock is set back */
        if (set->sequences <= p->max_batch)
            TRY(run_at(p, spied, set, &parts[i], rng_stream(p->seed, name), stop, e));
    }
    return ST_OK;
}

void calibration_free(struct calibration *r)
{
    vec_free(&r->batches);
    vec_free(&r->chunks);
}

/* ---- in the journal ---- */

/* Line "r": these numbers, then start and tokens of each chunk. A pair whose second number is below
 * 0 is the keys that decodes see of span -1 - that (op_load). Before 2026-11-26 there was no
 * IDLE_S, and their number was even. */
enum row {
    DECODES,
    LAST_CHUNKS,
    PREFILL,
    KV_TOKENS,
    KV_MAX,
    TRAIN,
    DEVICE_S,
    LAUNCH_S,
    IDLE_S,
    ROW
};

enum st calibration_keep(const struct calibration *r, size_t from, double spent_s,
                         struct journal *j, struct err *e)
{
    for (size_t i = from; i < r->batches.n; i++) {
        const struct calibration_batch *row = &r->batches.p[i];
        const struct batch *b = &row->b;
        double v[JOURNAL_NUMBERS] = {[DECODES] = (double)b->n_decodes,
                                     [LAST_CHUNKS] = (double)b->n_last_chunks,
                                     [PREFILL] = (double)b->prefill_tokens,
                                     [KV_TOKENS] = (double)b->decode_kv_tokens,
                                     [KV_MAX] = (double)b->decode_kv_max,
                                     [TRAIN] = (double)b->train,
                                     [DEVICE_S] = row->device_s,
                                     [LAUNCH_S] = row->launch_s,
                                     [IDLE_S] = row->idle_s};
        int n = ROW;
        for (int32_t k = 0; k < b->load.n_spans; k++) {
            v[n++] = (double)b->load.spans[k].kv_tokens;
            v[n++] = -1 - k;
        }
        for (int32_t k = 0; k < b->n_chunks && n + 2 <= JOURNAL_NUMBERS; k++) {
            v[n++] = (double)r->chunks.p[row->first_chunk + (size_t)k].start;
            v[n++] = (double)r->chunks.p[row->first_chunk + (size_t)k].tokens;
        }
        TRY(journal_row(j, 'r', v, n, e));
    }
    return journal_row(j, 'q', &spent_s, 1, e);
}

static void take_pair(const double *v, struct batch *b, struct calibration *out)
{
    const int32_t span = v[1] < 0 ? (int32_t)(-1 - v[1]) : -1;
    if (span >= 0 && span < SPANS_MOST) {
        b->load.spans[span].kv_tokens = (int64_t)v[0];
        b->load.n_spans = span + 1 > b->load.n_spans ? span + 1 : b->load.n_spans;
    } else if (span < 0) {
        vec_push(&out->chunks, (struct chunk){.start = (int64_t)v[0], .tokens = (int64_t)v[1]});
        b->n_chunks++;
    }
}

static void load_batch(const double *v, int n, int round, struct calibration *out)
{
    const int first = n % 2 ? ROW : IDLE_S; /* chunk */
    struct calibration_batch row = {.round = round,
                                    .first_chunk = out->chunks.n,
                                    .device_s = v[DEVICE_S],
                                    .launch_s = v[LAUNCH_S],
                                    .idle_s = first == ROW ? v[IDLE_S] : 0};
    row.b = (struct batch){.n_decodes = (int32_t)v[DECODES],
                           .n_last_chunks = (int32_t)v[LAST_CHUNKS],
                           .prefill_tokens = (int64_t)v[PREFILL],
                           .decode_kv_tokens = (int64_t)v[KV_TOKENS],
                           .decode_kv_max = (int64_t)v[KV_MAX],
                           .train = (int64_t)v[TRAIN],
                           .load = {.seqs = (int64_t)v[DECODES]}};
    for (int i = first; i + 1 < n; i += 2)
        take_pair(v + i, &row.b, out);
    vec_push(&out->batches, row);
}

void calibration_load(const struct journal *j, struct calibration *out)
{
    int round = 0;
    for (size_t i = 0; i < j->rows.n; i++) {
        const struct journal_row *row = &j->rows.p[i];
        if (row->kind == 'q')
            round++;
        else if (row->kind == 'r' && row->n >= IDLE_S)
            load_batch(j->numbers.p + row->first, row->n, round, out);
    }
}

/* ---- measured against predicted ---- */

/* The lowest value of each class, for batches without and with chunks. Matrix kernels change with
 * 16 rows: a factor between those of 11 and of 29 tokens made prompts of 18 take 9 % too little. */
static const struct classes {
    int n;
    int64_t from[2][CALIBRATION_CLASSES];
} class_sets[2] = {
    {6, {{1, 2, 3, 6, 12, 24}, {1, 16, 24, 48, 128, 320}}},
    /* deep: by the sizes that GPUs pad decode batches to */
    {CALIBRATION_CLASSES,
     {{1, 2, 3, 5, 9, 17, 25, 33, 41, 49, 65, 81, 97, 113, 161},
      {1, 16, 24, 48, 96, 160, 256, 384, 512, 768, 1024, 1536, 2048, 2560, 3072}}},
};
/* From this pass on a train of decodes is steady: on a VM with a large cache the first after a
 * prompt took 1.7 times as long as the rest, the second and third 1.17 times, the fourth 1.01. */
enum { SETTLED = 4 };

static int64_t size_of(const struct batch *b)
{
    return b->n_chunks > 0 ? b->prefill_tokens + b->n_decodes : b->n_decodes;
}

static enum calibration_kind kind_of(const struct batch *b)
{
    return b->n_chunks > 0       ? (b->n_decodes > 0 ? CALIBRATION_MIXED : CALIBRATION_PROMPT)
           : b->train == 1       ? CALIBRATION_FIRST
           : b->train >= SETTLED ? CALIBRATION_DECODE
                                 : CALIBRATION_SECOND;
}

static int class_of(const struct calibration *r, const struct batch *b)
{
    const struct classes *c = &class_sets[r->deep];
    int k = c->n - 1;
    while (k > 0 && size_of(b) < c->from[b->n_chunks > 0][k])
        k--;
    return k;
}

static const double LEAST_FACTOR = 0.1;
enum { FEW_BATCHES = 2 };

struct round_sum {
    double measured, predicted;
};

/* Seconds of a batch whose place in the run is known: the clock is where the batches before it, as
 * long as they were measured to take, left it. */
static double predicted_s(const struct power_cap *c, const struct calibration_batch *row,
                          const struct stage_time *t, struct power_cap_state *clock)
{
    if (!c)
        return t->device_s;
    const struct power_cap_batch x = {
        .tokens = size_of(&row->b), .chunks = row->b.n_chunks > 0, .decode_share = t->decode_share};
    const struct power_cap_factors f = power_cap_factors(c, &x);
    const double took_s = row->device_s > 0 ? row->device_s : t->device_s;
    return t->operators_s * (power_cap_over(c, &f, took_s, clock) - 1) + t->device_s;
}

void calibration_predict(struct arena *a, struct calibration *r, const struct model *m,
                         const struct bundle *unscaled)
{
    const struct predictor_params params = {.model = m, .tp = 1, .pp = 1, .bundle = unscaled};
    struct predictor p;
    struct err ignored = {0};
    if (predictor_open(a, &predictor_bundle, &params, &p, &ignored) != ST_OK)
        return;
    struct power_cap_state clock =
        p.power_cap ? power_cap_rested(p.power_cap) : (struct power_cap_state){0};
    const struct power_cap_state begins = clock;
    double pause_s = 0, host_s;
    const int wakes = bundle_wake_iterations(unscaled);
    int round = -1, awake = wakes; /* batches since the pause */
    for (size_t i = 0; i < r->batches.n; i++) {
        struct calibration_batch *row = &r->batches.p[i];
        struct batch b = row->b;
        struct stage_time t;
        double wake_s = 0;
        b.chunks = r->chunks.p + row->first_chunk;
        if (row->round != round)
            clock = begins;
        round = row->round;
        if (row->idle_s > 0) {
            pause_s = row->idle_s;
            awake = 0;
        }
        if (awake < wakes)
            bundle_wake_s(unscaled, pause_s, awake++, &wake_s, &host_s);
        if (p.power_cap)
            power_cap_rest(p.power_cap, row->idle_s, &clock);
        if (p.ops->predict(p.self, &b, &t, &ignored) == ST_OK)
            row->predicted_s = wake_s + predicted_s(p.power_cap, row, &t, &clock);
    }
}

double calibration_launch_s(struct arena *a, const struct calibration *r)
{
    double *v = arena_array(a, double, r->batches.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < r->batches.n; i++) {
        const bool behind = i > 0 && r->batches.p[i - 1].b.n_chunks > 0;
        if (r->batches.p[i].launch_s > 0 && !behind)
            v[n++] = r->batches.p[i].launch_s;
    }
    qsort(v, n, sizeof *v, order_double);
    return n ? v[n - 1 - n / 20] : 0;
}

void calibration_find_waiting(struct calibration *r, double launch_s)
{
    double host_free_s = 0, done_s = 0, done_before_s = 0; /* before: of the second batch back */
    for (size_t i = 0; i < r->batches.n && launch_s > 0; i++) {
        struct calibration_batch *row = &r->batches.p[i];
        const bool chunks = row->b.n_chunks > 0;
        /* without decodes nothing tells whether a batch was in flight: none is least in favour */
        const double free_s = row->b.n_decodes > 0 ? done_before_s : done_s;
        const double begin_s = fmax(host_free_s, free_s), start_s = fmax(begin_s, done_s);
        host_free_s = begin_s + (chunks ? launch_s : 0);
        row->waited = chunks && host_free_s > start_s + row->predicted_s;
        done_before_s = done_s;
        done_s = start_s + (row->device_s > 0 ? row->device_s : row->predicted_s);
        done_s = fmax(done_s, host_free_s);
    }
}

/* Iterator over the batches of classes k to last that were measured and predicted. */
struct walk {
    const struct calibration *r;
    enum calibration_kind kind;
    int k, last;
    size_t next;
};

static bool is_known(const struct calibration_batch *row)
{
    return row->predicted_s > 0 && row->device_s > 0 && !row->waited;
}

static const struct calibration_batch *walk_next(struct walk *w)
{
    while (w->next < w->r->batches.n) {
        const struct calibration_batch *row = &w->r->batches.p[w->next++];
        const int k = class_of(w->r, &row->b);
        if (kind_of(&row->b) == w->kind && k >= w->k && k <= w->last && is_known(row))
            return row;
    }
    return NULL;
}

static double deviation(const double *v, int n)
{
    double mean = 0, sum = 0;
    for (int i = 0; i < n; i++)
        mean += v[i] / n;
    for (int i = 0; i < n; i++)
        sum += (v[i] - mean) * (v[i] - mean);
    return n > 1 ? sqrt(sum / (n - 1)) : 0;
}

/* Ratio of the time of a kind's batches with stalls to that without. */
static double stall_of(struct arena *a, struct walk w, int rounds)
{
    static const double STALL_MOST = 1.1;
    struct round_sum *sums = arena_array(a, struct round_sum, rounds);
    double sum = 0;
    int n = 0;
    for (const struct calibration_batch *row; (row = walk_next(&w));) {
        sums[row->round].measured += row->device_s;
        sums[row->round].predicted += fmin(row->device_s, 3 * row->predicted_s);
    }
    for (int i = 0; i < rounds; i++)
        if (sums[i].predicted > 0) {
            sum += fmin(sums[i].measured / sums[i].predicted, STALL_MOST);
            n++;
        }
    return n ? sum / n : 1;
}

static struct calibration_scale scale_of(struct arena *a, struct walk w, int rounds)
{
    struct round_sum *sums = arena_array(a, struct round_sum, rounds);
    double *ln = arena_array(a, double, rounds), ratios = 0;
    struct calibration_scale out = {.factor = 1};
    struct walk again = w;
    for (const struct calibration_batch *row; (row = walk_next(&w));) {
        struct round_sum *s = &sums[row->round];
        s->measured += fmin(row->device_s, 3 * row->predicted_s);
        s->predicted += row->predicted_s;
        out.x += (double)size_of(&row->b);
        out.n++;
    }
    if (out.n == 0)
        return out;
    for (int i = 0; i < rounds; i++)
        if (sums[i].predicted > 0) {
            const double ratio = sums[i].measured / sums[i].predicted;
            ratios += ratio;
            ln[out.rounds++] = log(ratio);
        }
    out.x /= (double)out.n;
    /* clamped: beyond, the tables are too coarse for any factor, and readers refuse it */
    out.factor = fmin(fmax(ratios / out.rounds, LEAST_FACTOR), 1 / LEAST_FACTOR);
    out.drift = deviation(ln, out.rounds);
    for (const struct calibration_batch *row; (row = walk_next(&again));)
        out.error +=
            fabs(row->device_s - out.factor * row->predicted_s) / row->device_s / (double)out.n;
    return out;
}

void calibration_rests(const struct calibration *r,
                       struct calibration_scale scale[CALIBRATION_KINDS][CALIBRATION_CLASSES],
                       struct calibration_rests *out)
{
    for (size_t i = 0; i < r->batches.n; i++) {
        const struct calibration_batch *row = &r->batches.p[i];
        const int k = class_of(r, &row->b);
        const bool prompt = row->b.n_chunks > 0;
        if (is_known(row))
            vec_push(&out->of, (struct calibration_rest){
                                   .prompt = prompt,
                                   .from = class_sets[r->deep].from[prompt][k],
                                   .ratio = row->device_s / (scale[kind_of(&row->b)][k].factor *
                                                             row->predicted_s)});
    }
}

static int64_t known_in(struct walk w, int first, int last)
{
    int64_t n = 0;
    w.k = first;
    w.last = last;
    while (walk_next(&w))
        n++;
    return n;
}

/* The last of the classes from k on that have enough batches together, and enough behind them. */
static int last_of_group(const struct walk *all, int k)
{
    int last = k;
    while (last < all->last && known_in(*all, k, last) < FEW_BATCHES)
        last++;
    return known_in(*all, last + 1, all->last) < FEW_BATCHES ? all->last : last;
}

void calibration_scales(struct arena *a, const struct calibration *r, enum calibration_kind kind,
                        struct calibration_scale out[CALIBRATION_CLASSES])
{
    int rounds = 0;
    for (size_t i = 0; i < r->batches.n; i++)
        rounds = r->batches.p[i].round >= rounds ? r->batches.p[i].round + 1 : rounds;
    const struct walk all = {.r = r, .kind = kind, .last = CALIBRATION_CLASSES - 1};
    const double stall = stall_of(a, all, rounds);
    for (int k = 0; k < CALIBRATION_CLASSES;) {
        struct walk w = all;
        w.k = k;
        w.last = last_of_group(&all, k);
        const struct calibration_scale s = scale_of(a, w, rounds);
        const double factor = fmin(s.factor * stall, 1 / LEAST_FACTOR);
        for (; k <= w.last; k++)
            out[k] = (struct calibration_scale){.factor = factor, .stall = stall};
        out[w.last] = s;
        out[w.last].stall = stall;
        out[w.last].factor = factor;
    }
}

struct bundle_classes calibration_classes(struct arena *a,
                                          const struct calibration_scale s[CALIBRATION_CLASSES])
{
    struct bundle_classes out = {arena_array(a, struct bundle_class, CALIBRATION_CLASSES), 0};
    for (int k = 0; k < CALIBRATION_CLASSES; k++)
        if (s[k].n > 0)
            out.of[out.n++] = (struct bundle_class){.x = s[k].x,
                                                    .factor = s[k].factor,
                                                    .error = s[k].error,
                                                    .drift = s[k].drift,
                                                    .stall = s[k].stall,
                                                    .batches = s[k].n,
                                                    .rounds = s[k].rounds};
    return out;
}

/* ---- decode attention beside prompts ---- */

/* A batch of the fit, in parts of its measured time: what is left without decode attention, with
 * one unit a cached token, with one a row. */
struct beside_row {
    int k; /* class */
    double rest, keys, rows;
};
typedef VEC(struct beside_row) beside_rows;

/* What is predicted of all batches now. [batches] */
static const double *predictions(struct arena *a, const struct calibration *r)
{
    double *out = arena_array(a, double, r->batches.n + 1);
    for (size_t i = 0; i < r->batches.n; i++)
        out[i] = r->batches.p[i].predicted_s;
    return out;
}

/* The same with that decode attention beside prompts. */
static const double *predictions_with(struct arena *a, struct calibration *r, const struct model *m,
                                      struct bundle *b, double per_key_s, double per_row_s)
{
    const struct bundle_decode_beside beside = {.per_key_s = per_key_s, .per_row_s = per_row_s};
    bundle_set_decode_beside(b, &beside);
    calibration_predict(a, r, m, b);
    bundle_set_decode_beside(b, NULL);
    return predictions(a, r);
}

/* The factors of classes that leave the least squares. */
static void fit_factors(const beside_rows *rows, const double unit[2],
                        double factor[CALIBRATION_CLASSES])
{
    double sum[CALIBRATION_CLASSES] = {0}, squares[CALIBRATION_CLASSES] = {0};
    for (size_t i = 0; i < rows->n; i++) {
        const struct beside_row *x = &rows->p[i];
        const double q = x->rest + unit[0] * x->keys + unit[1] * x->rows;
        sum[x->k] += q;
        squares[x->k] += q * q;
    }
    for (int k = 0; k < CALIBRATION_CLASSES; k++)
        factor[k] = squares[k] > 0 ? sum[k] / squares[k] : 1;
}

/* The units, none below 0, that leave the least squares with these factors; keys: that of a cached
 * token, 0 = not known. */
static void fit_units(const beside_rows *rows, const double factor[CALIBRATION_CLASSES],
                      double keys, double unit[2])
{
    double kk = 0, kr = 0, rr = 0, ky = 0, ry = 0;
    for (size_t i = 0; i < rows->n; i++) {
        const struct beside_row *x = &rows->p[i];
        const double f = factor[x->k], y = 1 - f * x->rest, k = f * x->keys, r = f * x->rows;
        kk += k * k, kr += k * r, rr += r * r, ky += k * y, ry += r * y;
    }
    if (keys > 0) {
        unit[0] = keys, unit[1] = rr > 0 ? fmax((ry - keys * kr) / rr, 0) : 0;
        return;
    }
    const double det = kk * rr - kr * kr;
    unit[0] = det > 0 ? (ky * rr - ry * kr) / det : 0;
    unit[1] = det > 0 ? (ry * kk - ky * kr) / det : 0;
    if (unit[0] < 0)
        unit[0] = 0, unit[1] = rr > 0 ? fmax(ry / rr, 0) : 0;
    else if (unit[1] < 0)
        unit[1] = 0, unit[0] = kk > 0 ? fmax(ky / kk, 0) : 0;
}

/* What the tables' decode attention takes for one more cached token, in the batch with the most
 * decodes. */
static double key_of_table(const struct calibration *r, const struct bundle *b)
{
    int64_t rows = 0, kv = 0;
    for (size_t i = 0; i < r->batches.n; i++) {
        const struct batch *x = &r->batches.p[i].b;
        if (x->n_decodes > rows) {
            rows = x->n_decodes;
            kv = x->decode_kv_tokens;
        }
    }
    const double more_s = predict_decode_s(b, rows, 2 * kv) - predict_decode_s(b, rows, kv);
    return kv > 0 ? fmax(more_s / (double)kv, 0) : 0;
}

void calibration_fit_beside(struct arena *a, struct calibration *r, const struct model *m,
                            struct bundle *unscaled, struct bundle_decode_beside *out)
{
    enum { LEAST_BATCHES = 50, TURNS = 100 };
    static const double FAR = 1.5, KEY_S = 1e-8, ROW_S = 1e-5; /* stalls; the units' sizes */
    double unit[2] = {0}, factor[CALIBRATION_CLASSES];
    beside_rows rows = {0};
    *out = (struct bundle_decode_beside){0};
    if (!r->deep)
        return;
    const double key_s = m->experts > 0 ? key_of_table(r, unscaled) : 0;
    const double *table = predictions(a, r);
    const double *rest = predictions_with(a, r, m, unscaled, 0, 0);
    const double *keys = predictions_with(a, r, m, unscaled, KEY_S, 0);
    const double *each = predictions_with(a, r, m, unscaled, 0, ROW_S);
    for (size_t i = 0; i < r->batches.n; i++) {
        const struct calibration_batch *row = &r->batches.p[i];
        const double s = row->device_s;
        if (kind_of(&row->b) == CALIBRATION_MIXED && is_known(row) && s < FAR * table[i] &&
            table[i] < FAR * s)
            vec_push(&rows, (struct beside_row){class_of(r, &row->b), rest[i] / s,
                                                (keys[i] - rest[i]) / s, (each[i] - rest[i]) / s});
    }
    if (rows.n >= LEAST_BATCHES) {
        for (int i = 0; i < TURNS; i++) {
            fit_factors(&rows, unit, factor);
            fit_units(&rows, factor, key_s / KEY_S, unit);
        }
        *out = (struct bundle_decode_beside){
            .per_key_s = unit[0] * KEY_S, .per_row_s = unit[1] * ROW_S, .batches = (int64_t)rows.n};
        bundle_set_decode_beside(unscaled, out);
    }
    calibration_predict(a, r, m, unscaled);
    vec_free(&rows);
}
