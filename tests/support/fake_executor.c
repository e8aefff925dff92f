#include "support/fake_executor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/vec.h"

struct row {
    int64_t kv;     /* tokens in the cache */
    int32_t lane;   /* whose set it is in; -1 = none */
    int32_t newest; /* computing: token emitted last, on the "device" */
};

struct out {
    struct batch b;
    uint64_t ticket;
    double start_s, end_s;
    VEC(struct emitted) tokens;
    VEC(int32_t) ended;
};

struct fake {
    struct fake_params p;
    VEC(struct row) rows;
    VEC(int32_t) sets[8];
    VEC(struct out) out; /* in order of submission */
    struct out given;
    int32_t *cache; /* [num_blocks * block_size] */
    struct slot_source source;
    uint64_t tickets;
    double busy_s;
    int64_t n_next;
};

int32_t fake_token(const int32_t *ids, int64_t n)
{
    uint32_t h = 2166136261u;
    for (int64_t i = 0; i < n; i++)
        h = (h ^ (uint32_t)ids[i]) * 16777619u;
    return (int32_t)(1 + (h >> 8) % (FAKE_VOCAB - 1));
}

void fake_batch_text(const struct batch *b, char *out, int size)
{
    int n = snprintf(out, (size_t)size, "%lld:", (long long)b->iteration);
    for (int32_t i = 0; i < b->n_chunks; i++)
        n += snprintf(out + n, (size_t)(size - n), " %d:%lld@%lld%s", b->chunks[i].slot,
                      (long long)b->chunks[i].tokens, (long long)b->chunks[i].start,
                      b->chunks[i].last ? "!" : "");
    for (int32_t i = 0; i < b->n_left; i++)
        n += snprintf(out + n, (size_t)(size - n), " -%d", b->left[i]);
    for (int32_t i = 0; i < b->n_entered; i++)
        n += snprintf(out + n, (size_t)(size - n), " +%d", b->entered[i]);
    snprintf(out + n, (size_t)(size - n), " | %d", b->n_decodes);
}

#define FAULT(...) err_set(e, ST_DEVICE, "fake: " __VA_ARGS__)

static int32_t fake_max_in_flight(void *self)
{
    const struct fake *x = self;
    return x->p.max_in_flight ? x->p.max_in_flight : 1;
}

static int32_t fake_lanes(void *self)
{
    const struct fake *x = self;
    return x->p.lanes ? x->p.lanes : 1;
}

static enum st slot_ok(struct fake *x, int32_t slot, struct err *e)
{
    if (slot < 0 || (x->p.batch_cap && slot >= x->p.batch_cap))
        return FAULT("slot %d", slot);
    while (x->rows.n <= (size_t)slot)
        vec_push(&x->rows, (struct row){.lane = -1});
    return ST_OK;
}

static enum st change_set(struct fake *x, const struct batch *b, struct err *e)
{
    for (int32_t i = 0; i < b->n_left; i++) {
        int32_t slot = b->left[i];
        size_t at = 0;
        while (at < x->sets[b->lane].n && x->sets[b->lane].p[at] != slot)
            at++;
        if (at == x->sets[b->lane].n)
            return FAULT("slot %d left and was not in the set", slot);
        x->sets[b->lane].p[at] = vec_pop(&x->sets[b->lane]);
        if (x->rows.p[slot].lane == b->lane)
            x->rows.p[slot].lane = -1;
    }
    for (int32_t i = 0; i < b->n_entered; i++) {
        int32_t slot = b->entered[i];
        TRY(slot_ok(x, slot, e));
        if (x->rows.p[slot].lane == b->lane) /* another lane may not have been told yet */
            return FAULT("slot %d entered twice", slot);
        if (x->p.receives && x->rows.p[slot].kv == 0)
            x->rows.p[slot].kv = x->source.view(x->source.self, slot).kv_tokens;
        vec_push(&x->sets[b->lane], slot);
        x->rows.p[slot].lane = b->lane;
    }
    return ST_OK;
}

/* The cell of the KV cache that holds token t of the sequence. */
static int32_t *cell(struct fake *x, const struct slot_view *v, int64_t t, struct err *e)
{
    int64_t i = t / x->p.block_size;
    if (i >= v->n_blocks || v->blocks[i] < 0 || v->blocks[i] >= x->p.num_blocks) {
        FAULT("no block for token %lld", (long long)t);
        return NULL;
    }
    return &x->cache[v->blocks[i] * x->p.block_size + t % x->p.block_size];
}

static enum st emit(struct fake *x, const struct slot_view *v, int32_t slot, int64_t n,
                    struct out *o, struct err *e)
{
    int32_t ids[4096];
    if (n > (int64_t)(sizeof ids / sizeof *ids))
        return FAULT("sequence of %lld tokens", (long long)n);
    for (int64_t t = 0; t < n; t++) {
        const int32_t *c = cell(x, v, t, e);
        if (!c)
            return e->st;
        ids[t] = *c;
    }
    int32_t id = fake_token(ids, n);
    x->rows.p[slot].newest = id;
    vec_push(&o->tokens, (struct emitted){slot, id});
    if (x->p.eos_id && id == x->p.eos_id)
        vec_push(&o->ended, slot);
    return ST_OK;
}

static enum st compute_chunk(struct fake *x, const struct chunk *c, struct out *o, struct err *e)
{
    struct slot_view v = x->source.view(x->source.self, c->slot);
    if (v.kv_tokens != c->start)
        return FAULT("slot %d: view at %lld, chunk at %lld", c->slot, (long long)v.kv_tokens,
                     (long long)c->start);
    for (int64_t t = c->start; t < c->start + c->tokens; t++) {
        int32_t *to = cell(x, &v, t, e);
        if (!to)
            return e->st;
        *to = v.ids[t];
    }
    return c->last ? emit(x, &v, c->slot, c->start + c->tokens, o, e) : ST_OK;
}

static enum st compute_decode(struct fake *x, int32_t slot, struct out *o, struct err *e)
{
    struct slot_view v = x->source.view(x->source.self, slot);
    struct row *r = &x->rows.p[slot];
    if (v.kv_tokens != r->kv)
        return FAULT("slot %d: view at %lld, cache at %lld", slot, (long long)v.kv_tokens,
                     (long long)r->kv);
    bool known = fake_max_in_flight(x) == fake_lanes(x); /* one batch of a lane at a time */
    if (known && v.ids[r->kv] != r->newest)
        return FAULT("slot %d is fed %d, not its newest token %d", slot, v.ids[r->kv], r->newest);
    int32_t *to = cell(x, &v, r->kv, e);
    if (!to)
        return e->st;
    *to = r->newest;
    return emit(x, &v, slot, r->kv + 1, o, e);
}

static bool same_load(const struct op_load *a, const struct op_load *b, int32_t spans)
{
    bool same = b->n_spans == spans && (spans == 0 || a->chunks == b->chunks);
    for (int32_t i = 0; i < spans; i++)
        same = same && a->spans[i].kv_tokens == b->spans[i].kv_tokens &&
               a->spans[i].pairs == b->spans[i].pairs && a->spans[i].keys == b->spans[i].keys;
    return same;
}

/* What queries see, counted anew. */
static enum st check_spans(struct fake *x, const struct batch *b, const struct op_load *seen,
                           struct err *e)
{
    return same_load(seen, &b->load, x->p.spans.n) ? ST_OK : FAULT("keys that queries see");
}

/* Chunks: sums, positions, KV lengths. */
static enum st play_chunks(struct fake *x, const struct batch *b, struct out *o, int64_t *blocks,
                           struct op_load *seen, struct err *e)
{
    int64_t tokens = 0, last = 0, kv = 0, sq = 0, read = 0;
    for (int32_t i = 0; i < b->n_chunks; i++) {
        const struct chunk *c = &b->chunks[i];
        TRY(slot_ok(x, c->slot, e));
        struct row *r = &x->rows.p[c->slot];
        bool anew = c->start == 0 || (x->p.shares_blocks && (c->start != r->kv || r->lane >= 0));
        if (anew) /* preempted; another lane's set may not have been told yet */
            r->lane = -1;
        if (r->lane >= 0 || c->tokens < 1 || (c->start != r->kv && !anew))
            return FAULT("chunk of slot %d at %lld, cache at %lld", c->slot, (long long)c->start,
                         (long long)r->kv);
        if (x->p.computes)
            TRY(compute_chunk(x, c, o, e));
        r->kv = c->start + c->tokens;
        op_load_add_chunk(seen, &x->p.spans, c->start, c->tokens);
        tokens += c->tokens;
        last += c->last;
        kv += c->tokens * c->start;
        sq += c->tokens * (c->tokens + 1) / 2;
        read += c->start + c->tokens;
        if (x->p.block_size)
            *blocks += (r->kv + x->p.block_size - 1) / x->p.block_size;
    }
    if (tokens != b->prefill_tokens || last != b->n_last_chunks)
        return FAULT("sums of chunks");
    if (kv != b->load.kv_tokens_prefill || sq != b->load.chunk_sq || read != b->load.kv_read_tokens)
        return FAULT("load of chunks");
    return ST_OK;
}

static enum st play_decodes(struct fake *x, const struct batch *b, struct out *o, int64_t *blocks,
                            struct op_load *seen, struct err *e)
{
    if (b->n_decodes == 0)
        return ST_OK;
    if ((size_t)b->n_decodes != x->sets[b->lane].n)
        return FAULT("%d decodes, the set has %zu", b->n_decodes, x->sets[b->lane].n);
    int64_t kv = 0, longest = 0;
    for (int32_t i = 0; i < b->n_decodes; i++) {
        int32_t slot = x->sets[b->lane].p[i];
        if (x->rows.p[slot].lane != b->lane)
            return FAULT("slot %d is in the set of lane %d", slot, x->rows.p[slot].lane);
        if (b->draft_tokens) /* how many were accepted is the loop's */
            x->rows.p[slot].kv = x->source.view(x->source.self, slot).kv_tokens;
        kv += x->rows.p[slot].kv;
        op_load_add_keys(seen, &x->p.spans, x->rows.p[slot].kv + 1 + b->draft_tokens);
        longest = x->rows.p[slot].kv > longest ? x->rows.p[slot].kv : longest;
        if (x->p.computes)
            TRY(compute_decode(x, slot, o, e));
        x->rows.p[slot].kv += 1 + b->draft_tokens;
        if (x->p.block_size)
            *blocks += (x->rows.p[slot].kv + x->p.block_size - 1) / x->p.block_size;
    }
    if (longest != b->decode_kv_max)
        return FAULT("decode_kv_max %lld, the longest row has %lld", (long long)b->decode_kv_max,
                     (long long)longest);
    if (kv != b->decode_kv_tokens)
        return FAULT("decode_kv_tokens %lld, the rows have %lld", (long long)b->decode_kv_tokens,
                     (long long)kv);
    return ST_OK;
}

static enum st play(struct fake *x, const struct batch *b, struct out *o, struct err *e)
{
    int64_t blocks = 0;
    struct op_load seen = {0};
    TRY(change_set(x, b, e));
    TRY(play_chunks(x, b, o, &blocks, &seen, e));
    TRY(play_decodes(x, b, o, &blocks, &seen, e));
    TRY(check_spans(x, b, &seen, e));
    if (b->n_chunks + b->n_decodes == 0)
        return FAULT("an empty batch");
    const struct op_load *l = &b->load;
    int64_t computed = (int64_t)b->n_decodes * (1 + b->draft_tokens);
    if (l->tokens != b->prefill_tokens + computed || l->seqs != b->n_decodes ||
        l->rows != computed + b->n_last_chunks || l->kv_tokens != b->decode_kv_tokens + computed)
        return FAULT("load of the batch");
    if (x->p.num_blocks && b->kv_blocks > x->p.num_blocks)
        return FAULT("%lld blocks in use of %lld", (long long)b->kv_blocks,
                     (long long)x->p.num_blocks);
    if (blocks > b->kv_blocks && !x->p.shares_blocks)
        return FAULT("rows fill %lld blocks, %lld are in use", (long long)blocks,
                     (long long)b->kv_blocks);
    return ST_OK;
}

static enum st fake_submit(void *self, const struct batch *b, uint64_t *ticket, struct err *e)
{
    struct fake *x = self;
    struct out o = {.b = *b, .ticket = ++x->tickets};
    if (x->p.fail_submit && (int64_t)x->tickets == x->p.fail_submit)
        return err_set(e, ST_DEVICE, "the fake refuses batch %lld", (long long)b->iteration);
    if ((int32_t)x->out.n >= fake_max_in_flight(x))
        return FAULT("too many batches in flight");
    enum st st = play(x, b, &o, e);
    if (st != ST_OK) {
        vec_free(&o.tokens);
        vec_free(&o.ended);
        return err_add(e, "batch %lld", (long long)b->iteration);
    }
    double work = x->p.time_s ? x->p.time_s(x->p.time_self, b)
                              : x->p.batch_s + x->p.token_s * (double)b->load.tokens;
    o.start_s = x->p.clock && !x->p.clock->is_virtual ? clock_now_s(x->p.clock) : b->submit_s;
    if (o.start_s < x->busy_s)
        o.start_s = x->busy_s;
    o.end_s = x->busy_s = o.start_s + x->p.host_s + work;
    for (int32_t i = 0; i < x->p.n_eos; i++)
        if (x->p.eos[i].iteration == b->iteration)
            vec_push(&o.ended, x->p.eos[i].slot);
    if (x->p.seen)
        x->p.seen(x->p.seen_self, b);
    vec_push(&x->out, o);
    *ticket = o.ticket;
    return ST_OK;
}

static enum st fake_next(void *self, double deadline_s, struct completion *out, struct err *e)
{
    struct fake *x = self;
    if (++x->n_next == x->p.fail_next)
        return err_set(e, ST_DEVICE, "the fake lost its batches");
    bool real = x->p.clock && !x->p.clock->is_virtual;
    if (x->out.n == 0)
        return ST_END;
    struct serve_clock clock = real ? *x->p.clock : clock_virtual();
    if (x->out.p[0].end_s > deadline_s) {
        if (real)
            clock_advance_s(&clock, deadline_s);
        return ST_END;
    }
    vec_free(&x->given.tokens);
    vec_free(&x->given.ended);
    struct out *o = &x->given;
    *o = x->out.p[0];
    x->out.n--;
    memmove(x->out.p, x->out.p + 1, x->out.n * sizeof *x->out.p);
    while (real && clock_now_s(&clock) < o->end_s)
        clock_advance_s(&clock, o->end_s);
    *out = (struct completion){.ticket = o->ticket,
                               .start_s = o->start_s,
                               .end_s = o->end_s,
                               .host_s = x->p.host_s,
                               .device_s = o->end_s - o->start_s - x->p.host_s,
                               .tokens = x->p.computes ? o->tokens.p : NULL,
                               .n_tokens = (int32_t)o->tokens.n,
                               .ended = o->ended.p,
                               .n_ended = (int32_t)o->ended.n};
    return ST_OK;
}

static void fake_bind(void *self, struct slot_source source)
{
    ((struct fake *)self)->source = source;
}

static void fake_release(void *self, int32_t slot)
{
    struct fake *x = self;
    x->rows.p[slot].kv = 0;
    x->rows.p[slot].lane = -1;
}

static void fake_close(void *self)
{
    struct fake *x = self;
    for (size_t i = 0; i < x->out.n; i++) {
        vec_free(&x->out.p[i].tokens);
        vec_free(&x->out.p[i].ended);
    }
    vec_free(&x->given.tokens);
    vec_free(&x->given.ended);
    for (size_t i = 0; i < sizeof x->sets / sizeof *x->sets; i++)
        vec_free(&x->sets[i]);
    vec_free(&x->rows);
    vec_free(&x->out);
    mem_free(x->cache);
    mem_free(x);
}

#define FAKE_OPS(caps_)                                                                     \
    {                                                                                       \
        .name = "fake", .help = "scripted, checks the loop", .version = EXECUTOR_VERSION,   \
        .caps = (caps_), .max_in_flight = fake_max_in_flight, .submit = fake_submit,        \
        .next = fake_next, .close = fake_close, .bind = fake_bind, .release = fake_release, \
        .lanes = fake_lanes                                                                 \
    }

struct executor fake_executor(const struct fake_params *p)
{
    static const struct executor_ops ops[4] = {FAKE_OPS(0), FAKE_OPS(EXEC_COMPUTES),
                                               FAKE_OPS(EXEC_VIRTUAL),
                                               FAKE_OPS(EXEC_COMPUTES | EXEC_VIRTUAL)};
    struct fake *x = mem_alloc(sizeof *x);
    memset(x, 0, sizeof *x);
    x->p = *p;
    if (p->computes) {
        x->cache = mem_alloc((size_t)(p->block_size * p->num_blocks) * sizeof *x->cache);
        memset(x->cache, 0xff, (size_t)(p->block_size * p->num_blocks) * sizeof *x->cache);
    }
    bool real = p->clock && !p->clock->is_virtual;
    return (struct executor){&ops[(real ? 0 : 2) + (p->computes ? 1 : 0)], x};
}
