#include <stdlib.h>

#include "serve/replica.h"
#include "serve/sched/policies.h"

enum { DEFAULT_MAX_TOKENS = 4096, DEFAULT_WAITING_ITERS = 10 };

/* Tokens a request holds, its next batch's included, and tokens it will still add. */
struct request_tail {
    int64_t held, left;
};

/* The tails of all running requests, most tokens left first. */
struct tails {
    struct request_tail *p; /* [n], room for one lane's requests */
    size_t n;
};

static void insert(struct tails *t, struct request_tail x)
{
    size_t i = t->n++;
    for (; i > 0 && t->p[i - 1].left < x.left; i--)
        t->p[i] = t->p[i - 1];
    t->p[i] = x;
}

/* Most tokens ever held at once: when the request with the i-th most tokens left ends, those before
 * it have grown by as much. */
static int64_t peak(const struct tails *t)
{
    int64_t held = 0, most = 0;
    for (size_t i = 0; i < t->n; i++) {
        held += t->p[i].held;
        int64_t then = held + t->p[i].left * (int64_t)(i + 1);
        most = then > most ? then : most;
    }
    return most;
}

static int by_left(const void *pa, const void *pb)
{
    const struct request_tail *a = pa, *b = pb;
    return (a->left < b->left) - (a->left > b->left);
}

static void tails_of_running(struct tails *t, const struct decode_set *set)
{
    for (const struct link *l = set->members.next; l != &set->members; l = l->next) {
        const struct request *q = request_of((struct link *)(uintptr_t)l);
        t->p[t->n++] = (struct request_tail){decode_set_kv(set, q) + 1, q->finish - set->tick};
    }
    qsort(t->p, t->n, sizeof *t->p, by_left);
}

static void admit(struct replica *r, int32_t lane)
{
    const struct serve_params *p = r->run->p;
    const struct decode_set *set = replica_set(r, lane);
    int64_t limit = p->max_tokens_in_batch ? p->max_tokens_in_batch : DEFAULT_MAX_TOKENS;
    int64_t room = p->batch_cap - set->n, used = 0;
    struct tails t = {.p = mem_alloc((size_t)(set->n + 1 + (room > 0 ? room : 0)) * sizeof *t.p)};
    tails_of_running(&t, set);
    for (; r->waiting.n && room > 0; room--) {
        const struct request *q = queue_head(&r->waiting);
        int64_t tokens = q->prefill, left = q->w.num_decode_tokens - 2;
        if ((used > 0 && used + tokens > limit) || !replica_can_admit(r, tokens))
            break;
        insert(&t, (struct request_tail){tokens + 1, left > 0 ? left : 0});
        if (peak(&t) >= p->num_blocks)
            break;
        replica_admit(r, lane, tokens, tokens);
        used += tokens;
    }
    mem_free(t.p);
}

static void next_batch(struct replica *r, int32_t lane)
{
    const struct serve_params *p = r->run->p;
    struct decode_set *set = replica_set(r, lane);
    int64_t *waited = &r->lanes[lane].decode_batches;
    if (set->n == 0 ||
        *waited >= (p->max_waiting_iters ? p->max_waiting_iters : DEFAULT_WAITING_ITERS)) {
        if (r->waiting.n)
            admit(r, lane);
        if (set->n > 0 || replica_rows(r) > 0)
            *waited = 0;
        if (set->n == 0 || replica_rows(r) > 0)
            return;
    }
    if (decode_set_blocks(set) > r->kv.free)
        return; /* held by a request whose end the host has not seen yet */
    ++*waited;
    replica_run_decodes(r, lane);
}

static int64_t max_batch_tokens(const struct serve_params *p, int64_t longest)
{
    int64_t limit = p->max_tokens_in_batch ? p->max_tokens_in_batch : DEFAULT_MAX_TOKENS;
    int64_t alone = p->max_model_len ? p->max_model_len : longest;
    int64_t most = limit > p->batch_cap ? limit : p->batch_cap;
    return most > alone ? most : alone;
}

/* The admission's bound counts a token more than the cache holds, and must stay below num_blocks.
 */
static int64_t blocks_needed(const struct serve_params *p, int64_t kv_tokens)
{
    (void)p;
    return kv_tokens + 2;
}

const struct sched_ops sched_lightllm = {
    .name = "lightllm",
    .help = "LightLLM: admits by the peak of tokens to come, every few batches",
    .version = SCHED_VERSION,
    .knobs = KNOB_MAX_TOKENS_IN_BATCH | KNOB_MAX_WAITING_ITERS,
    .traits = SCHED_RESTS | SCHED_ONE_LANE | SCHED_TOKEN_BLOCKS,
    .next_batch = next_batch,
    .max_batch_tokens = max_batch_tokens,
    .blocks_needed = blocks_needed,
};
