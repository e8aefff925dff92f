#include "sim/first_use.h"

/* ---- shapes ---------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t h, int64_t v)
{
    h = (h ^ (uint64_t)v) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ h >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return h ^ h >> 29;
}

/* The key's place, or the free one where it belongs. */
static size_t place_of(const struct shapes *s, uint64_t key)
{
    size_t i = (size_t)key & (s->size - 1);
    while (s->key[i] && s->key[i] != key)
        i = (i + 1) & (s->size - 1);
    return i;
}

static void grow(struct arena *a, struct shapes *s)
{
    const struct shapes old = *s;
    s->size = old.size ? 2 * old.size : 64;
    s->key = arena_array(a, uint64_t, s->size);
    for (size_t i = 0; i < old.size; i++)
        if (old.key[i])
            s->key[place_of(s, old.key[i])] = old.key[i];
}

bool shapes_seen(struct arena *a, struct shapes *s, const struct shape *shape)
{
    const bool padded = shape->kv_tokens != shape->sequences * shape->longest;
    const uint64_t chunks = mix(mix(1, shape->chunks), shape->chunk_tokens);
    const uint64_t hash = mix(mix(mix(chunks, shape->sequences), shape->longest), padded);
    const uint64_t key = hash ? hash : 1;
    if (2 * s->n >= s->size)
        grow(a, s);
    const size_t i = place_of(s, key);
    if (s->key[i])
        return true;
    s->key[i] = key;
    s->n++;
    return false;
}

/* ---- the predictor --------------------------------------------------------------------------- */

struct first_use {
    struct predictor p;
    struct predictor_ops ops;
    struct arena *a;
    double first_s[2]; /* without and with chunks */
    struct shapes seen;
};

static enum st predict(void *self, const struct batch *b, struct stage_time *stages, struct err *e)
{
    struct first_use *f = self;
    TRY(f->p.ops->predict(f->p.self, b, stages, e));
    const struct shape shape = {
        .chunks = b->n_chunks,
        .chunk_tokens = b->prefill_tokens,
        .sequences = b->n_decodes,
        .kv_tokens = b->decode_kv_tokens,
        .longest = b->n_decodes ? b->decode_kv_max : 0,
    };
    if (!shapes_seen(f->a, &f->seen, &shape))
        stages[0].host_s += f->first_s[b->n_chunks > 0];
    return ST_OK;
}

static struct stage_time wake(void *self, double pause_s, int k)
{
    const struct first_use *f = self;
    return f->p.ops->wake(f->p.self, pause_s, k);
}

static int wake_batches(void *self)
{
    const struct first_use *f = self;
    return f->p.ops->wake_batches(f->p.self);
}

struct predictor predictor_first_use(struct arena *a, const struct predictor *p, double decode_s,
                                     double prompt_s)
{
    struct first_use *f = arena_one(a, struct first_use);
    f->p = *p;
    f->a = a;
    f->first_s[0] = decode_s;
    f->first_s[1] = prompt_s;
    f->ops = *p->ops;
    f->ops.predict = predict;
    if (p->ops->wake) {
        f->ops.wake = wake;
        f->ops.wake_batches = wake_batches;
    }
    struct predictor out = *p;
    out.ops = &f->ops;
    out.self = f;
    return out;
}
