#include "job/logits.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"

struct driver {
    const struct engine *x;
    const struct executor *ex;
    struct logits *l;
    int32_t *blocks; /* [prompts, blocks of one] */
    int32_t *slots;  /* 0, 1, ... */
    int64_t kv;      /* tokens in the cache, of each */
    struct chunk *chunks;
    float *rows; /* [prompts, vocab] */
};

static int64_t length(const struct logits_params *p)
{
    return p->prompt_tokens + p->tokens;
}

static int64_t blocks_of_one(const struct logits_params *p)
{
    return (length(p) + p->block_size - 1) / p->block_size;
}

int64_t logits_blocks(const struct logits_params *p)
{
    return p->prompts * blocks_of_one(p);
}

enum st logits_check(const struct logits_params *p, const struct model *m, struct err *e)
{
    const int64_t most = LOGITS_MOST_BYTES / (int64_t)sizeof(float);
    if (m->position != POSITION_ALIBI && length(p) > m->max_positions)
        return err_set(e, ST_USAGE,
                       "logits.prompt_tokens and logits.tokens: a sequence of %lld tokens, model "
                       "%s has %lld positions",
                       (long long)length(p), m->name, (long long)m->max_positions);
    if (p->prompts > most / p->tokens / m->vocab)
        return err_set(e, ST_USAGE,
                       "logits.prompts and logits.tokens: more than 16 GiB of logits, %lld of a "
                       "token",
                       (long long)m->vocab);
    return ST_OK;
}

static struct slot_view view(void *self, int32_t slot)
{
    const struct driver *d = self;
    const struct logits_params *p = &d->l->p;
    return (struct slot_view){.ids = d->l->ids + slot * length(p),
                              .blocks = d->blocks + slot * blocks_of_one(p),
                              .kv_tokens = d->kv,
                              .n_blocks = blocks_of_one(p)};
}

/* Batch number `at`: the prompts, then a token of each. */
static struct batch batch_of(const struct driver *d, int64_t at)
{
    const struct logits_params *p = &d->l->p;
    const int32_t n = (int32_t)p->prompts;
    struct batch b = {.iteration = at, .train = at, .kv_blocks = logits_blocks(p)};
    if (at == 0) {
        b.chunks = d->chunks;
        b.n_chunks = b.n_last_chunks = n;
        b.prefill_tokens = p->prompts * p->prompt_tokens;
        return b;
    }
    b.entered = d->slots;
    b.n_entered = at == 1 ? n : 0;
    b.n_decodes = n;
    b.decode_kv_tokens = n * d->kv;
    b.decode_kv_max = d->kv;
    return b;
}

/* Row i of a batch is slot i: chunks are in that order, and decode rows always are. */
static enum st run_batch(struct driver *d, int64_t at, struct err *e)
{
    const struct logits_params *p = &d->l->p;
    const struct batch b = batch_of(d, at);
    const size_t vocab = (size_t)d->l->vocab;
    struct completion done;
    uint64_t ticket;
    TRY(d->ex->ops->submit(d->ex->self, &b, &ticket, e));
    TRY(d->ex->ops->next(d->ex->self, INFINITY, &done, e));
    TRY(d->x->logits(d->ex, p->prompts, d->rows, e));
    d->kv = p->prompt_tokens + at;
    for (int32_t i = 0; i < done.n_tokens; i++)
        d->l->ids[done.tokens[i].slot * length(p) + d->kv] = done.tokens[i].token_id;
    for (int64_t s = 0; s < p->prompts; s++)
        memcpy(d->l->values + (size_t)(s * p->tokens + at) * vocab, d->rows + (size_t)s * vocab,
               vocab * sizeof *d->rows);
    return ST_OK;
}

static void draw_prompts(const struct logits *l)
{
    struct rng r = rng_stream(l->p.seed, "logits.prompts");
    for (int64_t s = 0; s < l->p.prompts; s++)
        for (int64_t i = 0; i < l->p.prompt_tokens; i++)
            l->ids[s * length(&l->p) + i] = (int32_t)rng_below(&r, (uint64_t)l->vocab);
}

enum st logits_compute(struct arena *a, const struct engine *x, const struct executor *ex,
                       const struct model *m, const struct logits_params *p, struct logits *out,
                       struct err *e)
{
    *out = (struct logits){.p = *p, .vocab = m->vocab};
    out->ids = arena_array(a, int32_t, p->prompts * length(p));
    out->values = arena_array(a, float, p->prompts * p->tokens * m->vocab);
    struct driver d = {.x = x,
                       .ex = ex,
                       .l = out,
                       .blocks = arena_array(a, int32_t, logits_blocks(p)),
                       .slots = arena_array(a, int32_t, p->prompts),
                       .chunks = arena_array(a, struct chunk, p->prompts),
                       .rows = arena_array(a, float, p->prompts * m->vocab)};
    for (int64_t i = 0; i < logits_blocks(p); i++)
        d.blocks[i] = (int32_t)i;
    for (int32_t s = 0; s < p->prompts; s++) {
        d.slots[s] = s;
        d.chunks[s] = (struct chunk){.slot = s, .tokens = p->prompt_tokens, .last = true};
    }
    draw_prompts(out);
    ex->ops->bind(ex->self, (struct slot_source){&d, view});
    for (int64_t at = 0; at < p->tokens; at++)
        TRY(run_batch(&d, at, e));
    return ST_OK;
}

enum st logits_write(struct arena *a, const struct logits *l, const char *path, struct err *e)
{
    const struct logits_params *p = &l->p;
    int32_t *prompts = arena_array(a, int32_t, p->prompts * p->prompt_tokens);
    int32_t *tokens = arena_array(a, int32_t, p->prompts * p->tokens);
    for (int64_t s = 0; s < p->prompts; s++) {
        const int32_t *from = l->ids + s * length(p);
        memcpy(prompts + s * p->prompt_tokens, from, (size_t)p->prompt_tokens * sizeof *from);
        memcpy(tokens + s * p->tokens, from + p->prompt_tokens, (size_t)p->tokens * sizeof *from);
    }
    const struct tensor all[] = {{.name = "prompts",
                                  .dtype = DTYPE_I32,
                                  .n_dims = 2,
                                  .dims = {p->prompts, p->prompt_tokens},
                                  .data = prompts},
                                 {.name = "tokens",
                                  .dtype = DTYPE_I32,
                                  .n_dims = 2,
                                  .dims = {p->prompts, p->tokens},
                                  .data = tokens},
                                 {.name = "logits",
                                  .dtype = DTYPE_F32,
                                  .n_dims = 3,
                                  .dims = {p->prompts, p->tokens, l->vocab},
                                  .data = l->values}};
    return weights_write(path, all, sizeof all / sizeof *all, e);
}
