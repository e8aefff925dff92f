#include "profile/drive.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"

/* A decode's measured passes follow a lead-in that ends when the train is no faster than before:
 * when LEAD_WINDOW passes take at least LEAD_SETTLED of the time of those before them. The lead-in
 * depends on the cache: on a VM with a large shared cache, attention over 16 sequences of 256
 * tokens took 300 us after one pass, 248 after three, 199 after eight; a model that just fits into
 * a cache takes longer to get back into it. LEAD_S bounds the time of a lead-in, TRAIN_S that of
 * the measured passes. */
enum { LEAD_FEWEST = 2, LEAD_WINDOW = 4, LEAD_MOST = 48 };
static const double LEAD_SETTLED = 0.99, LEAD_S = 0.03, TRAIN_S = 0.03;

struct drive {
    struct executor ex;
    struct grid_limits l;
    int32_t *ids;    /* [max_kv + 1] */
    int32_t *blocks; /* [num_blocks]: 0, 1, ... */
    int32_t *slots;  /* [max_batch] 0, 1, ...: any prefix is a decode set */
    struct chunk *chunks;
    int64_t blocks_per_slot, kv; /* of the current point */
    int32_t in_set;              /* slots of the decode set */
    int64_t iteration;
    double now_s;
};

static struct slot_view view(void *self, int32_t slot)
{
    const struct drive *d = self;
    return (struct slot_view){
        .ids = d->ids,
        .blocks = d->blocks + slot * d->blocks_per_slot,
        .kv_tokens = d->kv,
        .n_blocks = d->blocks_per_slot,
    };
}

struct drive *drive_new(struct arena *a, struct executor ex, const struct grid_limits *l,
                        int64_t vocab, uint64_t seed)
{
    struct drive *d = arena_one(a, struct drive);
    d->ex = ex;
    d->l = *l;
    d->ids = arena_array(a, int32_t, l->max_kv + 1);
    d->blocks = arena_array(a, int32_t, l->num_blocks);
    d->slots = arena_array(a, int32_t, l->max_batch);
    d->chunks = arena_array(a, struct chunk, l->max_batch);
    struct rng ids = rng_stream(seed, "profile.ids");
    for (int64_t i = 0; i <= l->max_kv; i++)
        d->ids[i] = (int32_t)rng_below(&ids, (uint64_t)vocab);
    for (int64_t i = 0; i < l->num_blocks; i++)
        d->blocks[i] = (int32_t)i;
    for (int64_t i = 0; i < l->max_batch; i++)
        d->slots[i] = (int32_t)i;
    drive_bind(d);
    return d;
}

void drive_bind(struct drive *d)
{
    d->in_set = 0;
    d->now_s = 0; /* the clock may have been reset */
    if (d->ex.ops->bind)
        d->ex.ops->bind(d->ex.self, (struct slot_source){d, view});
}

static void fill_prefill(struct drive *d, const struct point *p, struct batch *b)
{
    int64_t n = point_chunks(p, &d->l), left = p->x;
    for (int64_t i = 0; i < n; i++) {
        int64_t tokens = left < d->l.max_kv - p->kv ? left : d->l.max_kv - p->kv;
        d->chunks[i] = (struct chunk){(int32_t)i, p->kv, tokens, true};
        b->load.kv_tokens_prefill += tokens * p->kv;
        b->load.chunk_sq += tokens * (tokens + 1) / 2;
        b->load.kv_read_tokens += tokens + p->kv;
        left -= tokens;
    }
    b->chunks = d->chunks;
    b->n_chunks = b->n_last_chunks = (int32_t)n;
    b->prefill_tokens = p->x;
}

/* All rows leave and enter again, so that each pass starts at the point's kv length. */
static void fill_decode(struct drive *d, const struct point *p, struct batch *b)
{
    b->left = b->entered = d->slots;
    b->n_left = d->in_set;
    b->n_entered = b->n_decodes = d->in_set = (int32_t)p->x;
    b->decode_kv_tokens = p->x * p->kv;
    b->load.seqs = p->x;
    b->load.kv_tokens = p->x * (p->kv + 1);
}

static enum st pass(struct drive *d, struct batch *b, struct completion *c, struct err *e)
{
    uint64_t ticket;
    b->iteration = d->iteration++;
    b->submit_s = d->now_s;
    TRY(d->ex.ops->submit(d->ex.self, b, &ticket, e));
    enum st st = d->ex.ops->next(d->ex.self, INFINITY, c, e);
    if (st == ST_END)
        return err_set(e, ST_DEVICE, "executor %s lost a batch: nothing completes",
                       d->ex.ops->name);
    if (st == ST_OK)
        d->now_s = c->end_s;
    return st;
}

static enum st lead(struct drive *d, struct batch *b, double *spent_s, struct err *e)
{
    double before_s = INFINITY, window_s = 0;
    for (int i = 1; i <= LEAD_MOST; i++) {
        struct completion c;
        TRY(pass(d, b, &c, e));
        b->n_left = d->in_set;
        *spent_s += c.end_s - c.start_s;
        window_s += c.end_s - c.start_s;
        if (i >= LEAD_FEWEST && *spent_s >= LEAD_S)
            break;
        if (i % LEAD_WINDOW)
            continue;
        if (window_s >= LEAD_SETTLED * before_s)
            break;
        before_s = window_s;
        window_s = 0;
    }
    return ST_OK;
}

enum st drive_point(struct drive *d, const struct point *p, int most, double op_s[][OP_KINDS],
                    int *n, double *spent_s, struct err *e)
{
    const bool decode = p->kind == POINT_DECODE;
    *spent_s = 0;
    d->kv = p->kv;
    d->blocks_per_slot = point_blocks(p, &d->l);
    struct batch b = {.op_times = true};
    if (decode)
        fill_decode(d, p, &b);
    else
        fill_prefill(d, p, &b);
    b.load.tokens = point_tokens(p);
    b.load.rows = point_rows(p, &d->l);
    b.kv_blocks = b.load.rows * d->blocks_per_slot;
    if (decode)
        TRY(lead(d, &b, spent_s, e));
    double counted_s = 0;
    for (*n = 0; *n < (decode ? most : 1) && counted_s < TRAIN_S; ++*n) {
        struct completion c;
        TRY(pass(d, &b, &c, e));
        if (c.op_s == NULL)
            return err_set(e, ST_DEVICE, "executor %s gives no operator times", d->ex.ops->name);
        memcpy(op_s[*n], c.op_s, sizeof op_s[*n]);
        counted_s += c.end_s - c.start_s;
    }
    *spent_s += counted_s;
    return ST_OK;
}
