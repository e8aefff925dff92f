#include "profile/rehearse.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "serve/serve.h"
#include "sim/predictor.h"

enum { SHORTEST = 8, LONGEST = 512 }; /* tokens of the prompts */

const struct rehearsal_setting rehearsal_settings[REHEARSAL_SETTINGS] = {
    {1, 10, 32}, {4, 16, 64}, {16, 40, 128}};

/* ---- an executor that remembers what passes through ---- */

struct spy {
    struct executor inner;
    struct rehearsal *out;
    int round;
};

static int32_t spy_max_in_flight(void *self)
{
    (void)self;
    return 1;
}

static enum st spy_submit(void *self, const struct batch *b, uint64_t *ticket, struct err *e)
{
    struct spy *s = self;
    struct rehearsed row = {.round = s->round, .b = *b, .first_chunk = s->out->chunks.n};
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
    if (st == ST_OK && c->op_s) {
        double sum = 0;
        for (int k = 0; k < OP_KINDS; k++)
            sum += c->op_s[k];
        vec_last(&s->out->batches).device_s = sum;
    }
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
    /* unlike ones, so that requests do not end together */
    int64_t decodes = f->decodes / 2 + (int64_t)rng_below(&f->rng, (uint64_t)f->decodes) + 1;
    *out =
        (struct workload_request){.request_id = f->next++,
                                  .num_prefill_tokens = prompt < f->longest ? prompt : f->longest,
                                  .num_decode_tokens = decodes};
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
                      const struct rehearsal_setting *set, int64_t decodes, struct rng rng,
                      const volatile sig_atomic_t *stop, struct err *e)
{
    const int64_t room = p->num_blocks / set->sequences * p->block_size;
    const int64_t kv = p->max_kv < room ? p->max_kv : room;
    decodes = decodes < kv / 4 ? decodes : kv / 4;
    decodes = decodes > 2 ? decodes : 2;
    const int64_t most = decodes / 2 + decodes;
    int64_t longest = kv - most < p->max_tokens ? kv - most : p->max_tokens;
    longest = longest < LONGEST ? longest : LONGEST;
    if (longest < 1)
        return ST_OK;
    struct feed f = {.rng = rng,
                     .n = set->requests,
                     .longest = longest,
                     .decodes = decodes,
                     .vocab = (int32_t)p->model->vocab};
    struct serve_params sp = {
        .policy = "vllm_v1",
        .replicas = 1,
        .batch_cap = set->sequences,
        .token_budget = p->max_tokens > set->sequences ? p->max_tokens : set->sequences,
        .block_size = p->block_size,
        .num_blocks = p->num_blocks,
        .seed = p->seed,
    };
    struct request_source source = {&f, feed_next, feed_ids, NULL};
    struct serve_sink sink = {0};
    struct serve_counters counters;
    if (!p->clock->is_virtual)
        clock_restart(p->clock);
    return serve_run(&sp, p->clock, &ex, &source, &sink, stop, &counters, e);
}

enum st rehearse_round(const struct profile_params *p, struct executor ex, int round, double length,
                       const volatile sig_atomic_t *stop, struct rehearsal *out, struct err *e)
{
    struct executor_ops ops = *ex.ops;
    ops.max_in_flight = spy_max_in_flight;
    ops.submit = spy_submit;
    ops.next = spy_next;
    ops.bind = spy_bind;
    ops.release = spy_release;
    ops.close = spy_close;
    ops.lanes = NULL;
    struct spy spy = {.inner = ex, .out = out, .round = round};
    struct executor spied = {&ops, &spy};
    for (int i = 0; i < REHEARSAL_SETTINGS; i++) {
        const struct rehearsal_setting *set = &rehearsal_settings[i];
        const int64_t decodes = (int64_t)((double)set->decodes * length);
        char name[48];
        snprintf(name, sizeof name, "profile.rehearsal.%d.%d", round, i);
        if (set->sequences <= p->max_batch)
            TRY(run_at(p, spied, set, decodes, rng_stream(p->seed, name), stop, e));
    }
    return ST_OK;
}

void rehearsal_free(struct rehearsal *r)
{
    vec_free(&r->batches);
    vec_free(&r->chunks);
}

/* ---- measured against predicted ---- */

/* The first value of each class. */
static const int64_t classes[2][REHEARSAL_CLASSES] = {{1, 2, 6}, {1, 32, 128}};

static int64_t size_of(const struct batch *b, bool with_prefill)
{
    return with_prefill ? b->prefill_tokens + b->n_decodes : b->n_decodes;
}

static int class_of(const struct batch *b, bool with_prefill)
{
    int k = REHEARSAL_CLASSES - 1;
    while (k > 0 && size_of(b, with_prefill) < classes[with_prefill][k])
        k--;
    return k;
}

struct round_sum {
    double measured, predicted, x;
    int64_t n;
    int round;
};

static int by_factor(const void *a, const void *b)
{
    const struct round_sum *x = a, *y = b;
    double fx = x->measured / x->predicted, fy = y->measured / y->predicted;
    return (fx > fy) - (fx < fy);
}

/* A walk over the batches of one class. */
struct walk {
    const struct rehearsal *r;
    struct predictor p;
    bool with_prefill;
    int k;
    size_t next;
};

static const struct rehearsed *walk_next(struct walk *w, double *predicted)
{
    while (w->next < w->r->batches.n) {
        const struct rehearsed *row = &w->r->batches.p[w->next++];
        struct batch b = row->b;
        if ((b.n_chunks > 0) != w->with_prefill || class_of(&b, w->with_prefill) != w->k)
            continue;
        struct stage_time t;
        struct err ignored;
        b.chunks = w->r->chunks.p + row->first_chunk;
        if (w->p.ops->predict(w->p.self, &b, &t, &ignored) != ST_OK)
            continue;
        *predicted = t.device_s;
        if (*predicted > 0 && row->device_s > 0)
            return row;
    }
    return NULL;
}

static struct rehearsal_scale scale_of(struct arena *a, struct walk w, int rounds)
{
    struct round_sum *sums = arena_array(a, struct round_sum, rounds);
    struct walk again = w;
    double predicted;
    for (const struct rehearsed *row; (row = walk_next(&w, &predicted));) {
        struct round_sum *s = &sums[row->round];
        s->measured += fmin(row->device_s, 3 * predicted);
        s->predicted += predicted;
        s->x += (double)size_of(&row->b, w.with_prefill);
        s->round = row->round;
        s->n++;
    }
    int used = 0;
    for (int i = 0; i < rounds; i++)
        if (sums[i].n > 0)
            sums[used++] = sums[i];
    if (used == 0)
        return (struct rehearsal_scale){.factor = 1};
    qsort(sums, (size_t)used, sizeof *sums, by_factor);
    const struct round_sum *middle = &sums[(used - 1) / 2];
    struct rehearsal_scale out = {.x = middle->x / (double)middle->n,
                                  .factor = middle->measured / middle->predicted,
                                  .n = middle->n};
    for (const struct rehearsed *row; (row = walk_next(&again, &predicted));)
        if (row->round == middle->round)
            out.error += fabs(row->device_s - out.factor * predicted) / row->device_s;
    out.error /= (double)out.n;
    return out;
}

void rehearse_scales(struct arena *a, const struct rehearsal *r, const struct model *m,
                     const struct bundle *unscaled, bool with_prefill,
                     struct rehearsal_scale out[REHEARSAL_CLASSES])
{
    struct predictor_params params = {.model = m, .tp = 1, .pp = 1, .bundle = unscaled};
    struct predictor p = {.ops = &predictor_bundle, .stages = 1};
    struct err ignored;
    int rounds = 0;
    for (size_t i = 0; i < r->batches.n; i++)
        rounds = r->batches.p[i].round >= rounds ? r->batches.p[i].round + 1 : rounds;
    bool known = predictor_open(a, &predictor_bundle, &params, &p, &ignored) == ST_OK;
    for (int k = 0; k < REHEARSAL_CLASSES; k++)
        out[k] =
            known ? scale_of(a, (struct walk){.r = r, .p = p, .with_prefill = with_prefill, .k = k},
                             rounds)
                  : (struct rehearsal_scale){.factor = 1};
}
