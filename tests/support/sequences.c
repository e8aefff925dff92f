#include "support/sequences.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "support/support.h"

static struct slot_view view(void *self, int32_t slot)
{
    struct sequences *s = self;
    const struct sequence *q = &s->slots[slot];
    return (struct slot_view){.ids = q->ids,
                              .blocks = q->blocks,
                              .kv_tokens = q->kv_tokens,
                              .n_blocks = q->n_blocks,
                              .sampling = q->sampling};
}

struct sequences *sequences_new(int64_t block_size, int64_t num_blocks, int64_t vocab)
{
    struct sequences *s = mem_alloc(sizeof *s);
    struct rng rng = rng_stream(1, "sequences.blocks");
    s->clock = clock_real();
    s->block_size = block_size;
    s->vocab = vocab;
    s->free_blocks = mem_alloc((size_t)num_blocks * sizeof *s->free_blocks);
    for (int32_t i = 0; i < num_blocks; i++) {
        const int64_t at = (int64_t)rng_below(&rng, (uint64_t)(i + 1));
        s->free_blocks[i] = s->free_blocks[at];
        s->free_blocks[at] = i;
    }
    s->n_free = num_blocks;
    return s;
}

void sequences_bind(struct sequences *s)
{
    struct err e = {0};
    assert_ok(executor_check(&s->ex, &e), &e);
    s->ex.ops->bind(s->ex.self, (struct slot_source){s, view});
}

struct sequences *sequences_open(struct cpu_engine_params params)
{
    struct err e = {0};
    struct sequences *s = sequences_new(params.block_size, params.num_blocks, params.model->vocab);
    params.clock = &s->clock;
    assert_ok(cpu_engine_open(&params, &s->ex, &e), &e);
    sequences_bind(s);
    return s;
}

void sequences_close(struct sequences **s)
{
    (*s)->ex.ops->close((*s)->ex.self);
    mem_free((*s)->free_blocks);
    mem_free(*s);
    *s = NULL;
}

void sequence_start(struct sequences *s, int32_t slot, const int32_t *ids, int64_t n)
{
    struct sequence *q = &s->slots[slot];
    assert_int_equal(q->n_blocks, 0);
    memcpy(q->ids, ids, (size_t)n * sizeof *ids);
    q->n_ids = n;
    q->kv_tokens = 0;
    q->sampling = NULL;
}

void sequence_drop(struct sequences *s, int32_t slot)
{
    struct sequence *q = &s->slots[slot];
    while (q->n_blocks > 0)
        s->free_blocks[s->n_free++] = q->blocks[--q->n_blocks];
    q->kv_tokens = 0;
}

static void grow(struct sequences *s, int32_t slot, int64_t tokens)
{
    struct sequence *q = &s->slots[slot];
    while (q->n_blocks * s->block_size < q->kv_tokens + tokens) {
        assert_true(s->n_free > 0);
        q->blocks[q->n_blocks++] = s->free_blocks[--s->n_free];
    }
}

static bool contains(const int32_t *slots, int32_t n, int32_t slot)
{
    for (int32_t i = 0; i < n; i++)
        if (slots[i] == slot)
            return true;
    return false;
}

/* Members of a that b lacks. */
static int32_t difference(const int32_t *a, int32_t n_a, const int32_t *b, int32_t n_b,
                          int32_t *out)
{
    int32_t n = 0;
    for (int32_t i = 0; i < n_a; i++)
        if (!contains(b, n_b, a[i]))
            out[n++] = a[i];
    return n;
}

static void take_tokens(struct sequences *s, const struct batch *b)
{
    assert_int_equal(s->done.n_tokens, b->n_decodes + b->n_last_chunks);
    for (int32_t i = 0; i < s->done.n_tokens; i++) {
        struct sequence *q = &s->slots[s->done.tokens[i].slot];
        assert_true(q->n_ids < SEQUENCE_TOKENS);
        q->ids[q->n_ids++] = s->done.tokens[i].token_id;
    }
}

void sequences_step(struct sequences *s, struct chunk *chunks, int32_t n_chunks,
                    const int32_t *decodes, int32_t n_decodes)
{
    struct err e = {0};
    int32_t left[SEQUENCES_MAX], entered[SEQUENCES_MAX];
    struct batch b = {.iteration = s->iteration++,
                      .chunks = chunks,
                      .n_chunks = n_chunks,
                      .left = left,
                      .entered = entered,
                      .n_decodes = n_decodes,
                      .op_times = s->op_times};
    if (n_decodes > 0) {
        b.n_left = difference(s->set, s->n_set, decodes, n_decodes, left);
        b.n_entered = difference(decodes, n_decodes, s->set, s->n_set, entered);
        memcpy(s->set, decodes, (size_t)n_decodes * sizeof *decodes);
        s->n_set = n_decodes;
    }
    for (int32_t i = 0; i < n_chunks; i++) {
        const struct sequence *q = &s->slots[chunks[i].slot];
        chunks[i].start = q->kv_tokens;
        chunks[i].last = q->kv_tokens + chunks[i].tokens == q->n_ids;
        b.n_last_chunks += chunks[i].last;
        b.prefill_tokens += chunks[i].tokens;
        grow(s, chunks[i].slot, chunks[i].tokens);
    }
    for (int32_t i = 0; i < n_decodes; i++) {
        b.decode_kv_tokens += s->slots[decodes[i]].kv_tokens;
        grow(s, decodes[i], 1);
    }
    uint64_t ticket;
    assert_ok(s->ex.ops->submit(s->ex.self, &b, &ticket, &e), &e);
    assert_ok(s->ex.ops->next(s->ex.self, INFINITY, &s->done, &e), &e);
    assert_int_equal(s->done.ticket, ticket);
    for (int32_t i = 0; i < n_chunks; i++)
        s->slots[chunks[i].slot].kv_tokens += chunks[i].tokens;
    for (int32_t i = 0; i < n_decodes; i++)
        s->slots[decodes[i]].kv_tokens++;
    take_tokens(s, &b);
}

const float *sequences_logits(const struct sequences *s, int64_t r)
{
    int64_t rows;
    const float *logits = cpu_engine_logits(&s->ex, &rows);
    assert_true(r < rows);
    return logits + r * s->vocab;
}
