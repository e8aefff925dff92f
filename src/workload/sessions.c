/* Sessions of several turns: the prompt of a turn is that of the turn before, its answer, and what
 * is new. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "workload/make.h"

/* Ids reserved for the pieces of a session, as in shared_prefix.c; tokens of a piece without a
 * prefix. */
enum { OWN_IDS = 1 << 20, PIECE = 512, MAX_TOKENS = INT32_MAX };

bool sessions_wanted(const struct workload_params *p)
{
    return p->session_turns > 1 || p->session_max_turns > 1;
}

enum st sessions_begin(const struct workload_params *p, struct sessions *out, struct err *e)
{
    *out = (struct sessions){.p = p,
                             .rng = rng_stream(p->seed, "workload.sessions"),
                             .think = rng_stream(p->seed, "workload.think"),
                             .prefix = rng_stream(p->seed, "workload.prefix")};
    if (!sessions_wanted(p))
        return ST_OK;
    if (p->session_max_turns && p->session_max_turns < p->session_turns)
        return err_set(e, ST_USAGE, "workload.session.max_turns=%lld is below turns=%lld",
                       (long long)p->session_max_turns, (long long)p->session_turns);
    if (p->arrival_kind == ARRIVAL_TRACE)
        return err_set(e, ST_USAGE,
                       "workload.session.turns: an arrival trace has an arrival for each request");
    if (p->n_prompts)
        return err_set(e, ST_USAGE,
                       "workload.session.turns: workload.prompts has texts without their sessions");
    if (p->think_kind != THINK_FIXED && !(p->think_s > 0))
        return err_set(e, ST_USAGE, "workload.session.think_kind needs workload.session.think_s");
    return ST_OK;
}

int64_t sessions_turns(struct sessions *g)
{
    int64_t least = g->p->session_turns > 1 ? g->p->session_turns : 1;
    int64_t most = g->p->session_max_turns > least ? g->p->session_max_turns : least;
    return least + (most > least ? (int64_t)rng_below(&g->rng, (uint64_t)(most - least + 1)) : 0);
}

static int64_t draw_think_ns(struct sessions *g)
{
    const struct workload_params *p = g->p;
    double s = p->think_s;
    switch ((enum workload_think)p->think_kind) {
    case THINK_FIXED:
        break;
    case THINK_EXPONENTIAL:
        s *= rng_exponential(&g->think);
        break;
    case THINK_LOGNORMAL: {
        double variance = log(1 + p->think_stddev_s * p->think_stddev_s / (s * s));
        s = exp(log(s) - variance / 2 + sqrt(variance) * rng_normal(&g->think));
        break;
    }
    }
    return s < (double)THINK_MOST_NS / 1e9 ? ns_from_s(s) : THINK_MOST_NS;
}

/* The ids of all pieces of the session: those of a turn's prompt are the first of them. */
static enum st give_ids(struct arena *a, struct sessions *g, struct workload_request *turns,
                        int64_t n, struct err *e)
{
    const struct workload_params *p = g->p;
    const int64_t size = p->prefix_tokens ? p->prefix_tokens : PIECE;
    const int64_t groups = p->prefix_tokens ? p->prefix_groups : 0;
    const int64_t pieces = hash_ids_pieces(&turns[n - 1], size);
    if (pieces > OWN_IDS) {
        err_set(e, ST_USAGE, "workload.prefix.tokens=%lld with a session of %lld tokens",
                (long long)size, (long long)turns[n - 1].num_prefill_tokens);
        return err_hint(e, "at most %d times the prefix", OWN_IDS);
    }
    int64_t *ids = arena_array(a, int64_t, pieces);
    for (int64_t i = 0; i < pieces; i++)
        ids[i] = groups + turns->session_id * OWN_IDS + i;
    if (groups)
        ids[0] = (int64_t)rng_below(&g->prefix, (uint64_t)groups);
    for (int64_t i = 0; i < n; i++) {
        turns[i].hash_ids = ids;
        turns[i].hash_tokens = size;
        turns[i].hash_covers = i + 1 < n ? turns[i + 1].num_prefill_tokens : 0;
    }
    return ST_OK;
}

static bool begins_with(const struct workload_request *next, const struct workload_request *q)
{
    int64_t n = hash_ids_pieces(q, q->hash_tokens);
    return next->hash_tokens == q->hash_tokens &&
           next->num_prefill_tokens >= q->num_prefill_tokens + q->num_decode_tokens &&
           memcmp(next->hash_ids, q->hash_ids, (size_t)n * sizeof *q->hash_ids) == 0;
}

void sessions_join(struct workload *w)
{
    for (size_t i = w->n; i-- > 1;) {
        struct workload_request *q = &w->requests[i - 1];
        const struct workload_request *next = &w->requests[i];
        if (next->turn < 2 || !q->hash_ids || !next->hash_ids || !begins_with(next, q))
            continue;
        q->hash_ids = next->hash_ids;
        q->hash_covers = next->num_prefill_tokens;
    }
}

enum st sessions_make(struct arena *a, struct sessions *g, struct workload_request *turns,
                      int64_t n, struct err *e)
{
    int64_t history = g->p->prefix_tokens, next_id = turns->request_id;
    for (int64_t i = 0; i < n; i++) {
        struct workload_request *q = &turns[i];
        q->request_id = next_id + i;
        q->arrival_ns = turns->arrival_ns;
        q->arrival_s = turns->arrival_s;
        q->session_id = g->n;
        q->turn = i + 1;
        q->think_ns = i ? draw_think_ns(g) : 0;
        q->num_prefill_tokens += history;
        history = q->num_prefill_tokens + q->num_decode_tokens;
        if (history > MAX_TOKENS) {
            err_set(e, ST_USAGE, "workload.session.turns: turn %lld has %lld tokens",
                    (long long)q->turn, (long long)history);
            return err_hint(e, "at most %d, all earlier turns included", MAX_TOKENS);
        }
    }
    g->n++;
    return give_ids(a, g, turns, n, e);
}
