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
enum { LEAD_FEWEST = 2, LEAD_WINDOW = 4, LEAD_MOST = 48, LEAD_SHORT = 2, SHORT_TRAIN = 4 };
static const double LEAD_SETTLED = 0.99, LEAD_S = 0.03, TRAIN_S = 0.03;

enum { IDS_STEP = 64 };

struct drive {
    struct executor ex;
    struct grid_limits l;
    int32_t *ids;    /* [max_kv + IDS_STEP max_batch]; a slot's sequence begins IDS_STEP behind that
                        of the slot before: rows and short prompts have tokens of their own, which
                        choose different experts */
    int32_t *blocks; /* [num_blocks]: 0, 1, ... */
    int32_t *slots;  /* [max_batch] 0, 1, ...: any prefix is a decode set */
    struct chunk *chunks;
    int64_t *kv, *first_block; /* [max_batch] of the current point; one more for its end */
    struct point filler;       /* a decode that keeps the device busy; x 0 = none */
    int32_t in_set;            /* slots of the decode set */
    int64_t iteration;
    double now_s;
};

static struct slot_view view(void *self, int32_t slot)
{
    const struct drive *d = self;
    return (struct slot_view){
        .ids = d->ids + (int64_t)slot * IDS_STEP,
        .blocks = d->blocks + d->first_block[slot],
        .kv_tokens = d->kv[slot],
        .n_blocks = d->first_block[slot + 1] - d->first_block[slot],
    };
}

/* A decode of many sequences that fits the cache: takes a device some milliseconds. */
static struct point filler_of(const struct grid_limits *l)
{
    enum { SEQUENCES = 64, TOKENS = 1024 };
    struct point p = {POINT_DECODE, l->max_batch < SEQUENCES ? l->max_batch : SEQUENCES, TOKENS, 0};
    if (p.kv > l->max_kv - 1)
        p.kv = l->max_kv - 1;
    while (p.x > 1 && p.x * point_blocks(&p, l) > l->num_blocks)
        p.x /= 2;
    while (p.kv > 1 && p.x * point_blocks(&p, l) > l->num_blocks)
        p.kv /= 2;
    return p;
}

struct drive *drive_new(struct arena *a, struct executor ex, const struct grid_limits *l,
                        int64_t vocab, uint64_t seed)
{
    struct drive *d = arena_one(a, struct drive);
    d->ex = ex;
    d->l = *l;
    const int64_t n_ids = l->max_kv + l->max_batch * IDS_STEP;
    d->ids = arena_array(a, int32_t, n_ids);
    d->blocks = arena_array(a, int32_t, l->num_blocks);
    d->slots = arena_array(a, int32_t, l->max_batch);
    d->chunks = arena_array(a, struct chunk, l->max_batch);
    d->kv = arena_array(a, int64_t, l->max_batch);
    d->first_block = arena_array(a, int64_t, l->max_batch + 1);
    struct rng ids = rng_stream(seed, "profile.ids");
    for (int64_t i = 0; i < n_ids; i++)
        d->ids[i] = (int32_t)rng_below(&ids, (uint64_t)vocab);
    for (int64_t i = 0; i < l->num_blocks; i++)
        d->blocks[i] = (int32_t)i;
    for (int64_t i = 0; i < l->max_batch; i++)
        d->slots[i] = (int32_t)i;
    d->filler = filler_of(l);
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
    const int64_t kv = point_kv(p), n = point_chunks(p, &d->l);
    const int64_t most = p->kind == POINT_PROMPTS ? p->kv : d->l.max_kv - kv;
    int64_t left = p->x;
    for (int64_t i = 0; i < n; i++) {
        const int64_t tokens = left < most ? left : most;
        d->chunks[i] = (struct chunk){(int32_t)i, kv, tokens, true};
        b->load.kv_tokens_prefill += tokens * kv;
        b->load.chunk_sq += tokens * (tokens + 1) / 2;
        b->load.kv_read_tokens += tokens + kv;
        left -= tokens;
    }
    b->chunks = d->chunks;
    b->n_chunks = b->n_last_chunks = (int32_t)n;
    b->prefill_tokens = p->x;
}

/* All rows leave and enter again, so that each pass starts at the point's kv lengths. */
static void fill_decode(struct drive *d, const struct point *p, struct batch *b)
{
    b->left = b->entered = d->slots;
    b->n_left = d->in_set;
    b->n_entered = b->n_decodes = d->in_set = (int32_t)p->x;
    b->decode_kv_tokens = p->x * p->kv;
    b->load.seqs = p->x;
    b->load.kv_tokens = p->x * (p->kv + 1);
}

static enum st give(struct drive *d, struct batch *b, struct err *e)
{
    uint64_t ticket;
    b->iteration = d->iteration++;
    b->submit_s = d->now_s;
    return d->ex.ops->submit(d->ex.self, b, &ticket, e);
}

static enum st take(struct drive *d, struct completion *c, struct err *e)
{
    enum st st = d->ex.ops->next(d->ex.self, INFINITY, c, e);
    if (st == ST_END)
        return err_set(e, ST_DEVICE, "executor %s lost a batch: nothing completes",
                       d->ex.ops->name);
    if (st == ST_OK)
        d->now_s = c->end_s;
    return st;
}

static enum st pass(struct drive *d, struct batch *b, struct completion *c, struct err *e)
{
    TRY(give(d, b, e));
    return take(d, c, e);
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

/* The blocks of a point's sequences lie one behind the other. Slots past them, of a decode set that
 * rests or leaves, are like the mean one while there are blocks. A device's prompts lie at the
 * cache's end: what decodes find cached are the sequences of the serving loop's runs then, which
 * come first, and not parts of one prompt, behind which all rows choose like experts. On an H100
 * decodes of 8 rows of Qwen3-30B-A3B took 10.4 ms before the first long prompt, as in a run, and
 * 7.2 behind it. */
static void place_rows(struct drive *d, const struct point *p)
{
    const int64_t rows = point_rows(p, &d->l), each = point_blocks(p, &d->l), kv = point_kv(p);
    const bool end = p->kind != POINT_DECODE && d->ex.ops->caps & EXEC_OP_SPLIT;
    int64_t at = end ? d->l.num_blocks - rows * each : 0;
    for (int64_t i = 0; i < d->l.max_batch; i++) {
        const bool fits = i < rows || at + each <= d->l.num_blocks;
        d->first_block[i] = at;
        d->kv[i] = i < rows ? point_row_kv(p, &d->l, i) : fits ? kv : 0;
        at += fits ? each + (d->kv[i] - kv) / d->l.block_size : 0;
    }
    d->first_block[d->l.max_batch] = at;
}

static struct batch batch_of(struct drive *d, const struct point *p)
{
    struct batch b = {.op_times = true};
    place_rows(d, p);
    if (p->kind == POINT_DECODE)
        fill_decode(d, p, &b);
    else
        fill_prefill(d, p, &b);
    b.load.tokens = point_tokens(p);
    b.load.rows = point_rows(p, &d->l);
    b.kv_blocks = b.load.rows * point_blocks(p, &d->l);
    return b;
}

static enum st keep(const struct drive *d, const struct completion *c, double op_s[][OP_ROWS],
                    int *n, double *counted_s, struct err *e)
{
    if (c->op_s == NULL)
        return err_set(e, ST_DEVICE, "executor %s gives no operator times", d->ex.ops->name);
    memcpy(op_s[(*n)++], c->op_s, sizeof *op_s);
    *counted_s += c->device_s;
    return ST_OK;
}

/* With two in flight; the first LEAD_SHORT do not count. */
static enum st decode_train(struct drive *d, struct batch *b, int most, double op_s[][OP_ROWS],
                            int *n, struct err *e)
{
    double counted_s = 0;
    int given = 0, taken = 0;
    struct completion c;
    b->n_left = d->in_set;
    do {
        while (given < taken + 2 && given < LEAD_SHORT + most && counted_s < TRAIN_S) {
            TRY(give(d, b, e));
            given++;
        }
        TRY(take(d, &c, e));
        if (taken++ >= LEAD_SHORT)
            TRY(keep(d, &c, op_s, n, &counted_s, e));
    } while (taken < given);
    return ST_OK;
}

static enum st prompt_passes(struct drive *d, const struct point *p, int most,
                             double op_s[][OP_ROWS], int *n, struct err *e)
{
    double counted_s = 0;
    while (*n < most && (*n == 0 || counted_s < TRAIN_S)) {
        struct completion c;
        struct batch before = batch_of(d, &d->filler);
        before.op_times = false;
        TRY(give(d, &before, e));
        struct batch b = batch_of(d, p);
        TRY(give(d, &b, e));
        TRY(take(d, &c, e));
        TRY(take(d, &c, e));
        TRY(keep(d, &c, op_s, n, &counted_s, e));
    }
    return ST_OK;
}

static enum st drive_split(struct drive *d, const struct point *p, int most, double op_s[][OP_ROWS],
                           int *n, double *spent_s, struct err *e)
{
    const double begin_s = d->now_s;
    struct completion c;
    struct batch b = batch_of(d, p);
    most = most < SHORT_TRAIN ? most : SHORT_TRAIN;
    *n = 0;
    b.op_split = true;
    TRY(pass(d, &b, &c, e));
    b.op_split = false;
    enum st st = p->kind == POINT_DECODE ? decode_train(d, &b, most, op_s, n, e)
                                         : prompt_passes(d, p, most, op_s, n, e);
    *spent_s = d->now_s - begin_s;
    return st;
}

enum st drive_train(struct drive *d, const struct point *points, size_t n, double seconds,
                    struct drive_passes *out, struct err *e)
{
    const size_t in_flight = d->ex.ops->max_in_flight(d->ex.self) > 1 ? 2 : 1;
    const size_t fewest = n < 2 ? 2 : n;
    double begin_s = 0, first_s = 0;
    size_t given = 0, taken = 0;
    struct completion c;
    for (;;) {
        while (given < taken + in_flight && (given < fewest || begin_s < seconds)) {
            struct batch b = batch_of(d, &points[given++ % n]);
            b.op_times = false;
            TRY(give(d, &b, e));
        }
        if (taken == given)
            return ST_OK;
        TRY(take(d, &c, e));
        first_s = taken ? first_s : c.end_s - c.device_s;
        begin_s = c.end_s - c.device_s - first_s;
        vec_push(&out->of, (struct drive_pass){begin_s, c.starved ? 0 : c.device_s, taken++ % n});
    }
}

enum st drive_loop(struct drive *d, const struct point *p, const struct op_loop *l,
                   struct op_loop_times *out, struct err *e)
{
    struct completion c;
    struct batch b = batch_of(d, p);
    b.op_times = false;
    TRY(pass(d, &b, &c, e));
    if (p->kind == POINT_DECODE)
        b.n_left = d->in_set;
    return d->ex.ops->loop(d->ex.self, &b, l, out, e);
}

enum st drive_point(struct drive *d, const struct point *p, int most, double op_s[][OP_ROWS],
                    int *n, double *spent_s, struct err *e)
{
    const bool decode = p->kind == POINT_DECODE;
    if (d->ex.ops->caps & EXEC_OP_SPLIT)
        return drive_split(d, p, most, op_s, n, spent_s, e);
    *spent_s = 0;
    struct batch b = batch_of(d, p);
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
