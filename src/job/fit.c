#include "job/fit.h"

#include <math.h>

#include "job/memory.h"
#include "model/shard.h"

/* Settings of a replica that have no influence on memory, as simulate has them by default. */
static void complete(struct serve_params *s)
{
    s->replicas = 1;
    s->router = "round_robin";
}

/* Refuses what simulate would refuse before it plans. */
static enum st check_settings(const struct plan *settings, const struct model *m, struct err *e)
{
    struct plan p = *settings;
    struct serve_params serve;
    p.serve.num_blocks = INT32_MAX; /* nothing is planned */
    TRY(job_serve_params(&p, m, NULL, &serve, NULL, e));
    complete(&serve);
    return serve_check_params(&serve, e);
}

/* What a row is asked for. */
struct fit_question {
    const struct plan *settings;
    const struct model *m;
    const int64_t *lengths; /* [n] */
    size_t n;
};

/* Requests of so many tokens at once; one has its blocks on one group of shards. */
static int64_t requests_at_once(const struct plan *p, const struct serve_params *s,
                                const struct memory_plan *plan, int64_t tokens)
{
    const int64_t groups = shard_groups(p->parallel.tp, p->parallel.ep);
    const int64_t most = plan->most_requests ? plan->most_requests : INT64_MAX;
    const int64_t n = groups * (int64_t)job_requests_held(p, s, s->num_blocks / groups, tokens);
    return n < most ? n : most;
}

/* With requests of up to so many tokens. */
static enum st plan_for(const struct fit_question *q, int64_t tokens, struct fit_row *out,
                        struct err *e)
{
    struct plan p = *q->settings;
    struct serve_params serve;
    struct engine_plan plan = {0};
    p.serve.max_model_len = tokens;
    const enum st st = job_serve_params(&p, q->m, NULL, &serve, &plan, e);
    out->plan = plan.memory;
    if (st != ST_OK)
        return st;
    if (requests_at_once(&p, &serve, &plan.memory, tokens) < 1) /* where a block holds nothing */
        return err_set(e, ST_USAGE,
                       "model %s: a request of %lld tokens takes more than %lld blocks", q->m->name,
                       (long long)tokens, (long long)serve.num_blocks);
    out->num_blocks = serve.num_blocks;
    out->kv_tokens = job_kv_tokens(&p, &serve);
    out->longest = tokens;
    for (size_t i = 0; i < q->n; i++)
        out->sequences[i] =
            q->lengths[i] > tokens ? 0 : requests_at_once(&p, &serve, &plan.memory, q->lengths[i]);
    return ST_OK;
}

/* The longest request that this row's blocks hold, as long as a plan for it has as many. */
static int64_t held_by(const struct fit_question *q, const struct fit_row *row, int64_t most)
{
    int64_t good = row->longest, bad = most;
    struct plan p = *q->settings;
    struct serve_params serve;
    struct engine_plan plan;
    struct err ignored = {0};
    p.serve.max_model_len = row->longest;
    if (job_serve_params(&p, q->m, NULL, &serve, &plan, &ignored) != ST_OK)
        return good;
    while (bad - good > 1) {
        const int64_t tokens = good + (bad - good) / 2;
        *(job_requests_held(&p, &serve, row->num_blocks, tokens) >= 1 ? &good : &bad) = tokens;
    }
    return good;
}

static bool has_room(const struct fit_question *q, int64_t tokens, struct fit_row *row)
{
    struct err ignored = {0};
    return plan_for(q, tokens, row, &ignored) == ST_OK;
}

/* The longest request that has room: most has not. 0 = none. Plans are slow of models with many
 * layers: the first two after the shortest look where its blocks end. */
static int64_t find_longest(const struct fit_question *q, int64_t most, const struct fit_row *row)
{
    int64_t good = 1, bad = most;
    struct fit_row r = *row;
    if (most <= 1 || !has_room(q, 1, &r))
        return 0;
    for (int64_t tokens = held_by(q, &r, most), step = 0; bad - good > 1; step++) {
        if (tokens <= good || tokens >= bad)
            tokens = good + (bad - good) / 2;
        const bool room = has_room(q, tokens, &r);
        *(room ? &good : &bad) = tokens;
        tokens = step > 1 ? 0 : room ? tokens + 1 : tokens - 1;
    }
    return good;
}

static void set_reason(struct arena *a, struct fit_row *out, const struct err *e)
{
    const char *hint = err_hint_text(e);
    out->why_not = arena_str(a, err_cause(e, 0));
    out->remedy = hint ? arena_str(a, hint) : NULL;
}

static enum st plan_row(const struct fit_question *q, struct fit_row *out, struct err *e)
{
    const int64_t asked = q->settings->serve.max_model_len, own = q->m->max_positions;
    const int64_t most = asked ? asked : own;
    if (most < 1)
        return err_hint(
            (err_set(e, ST_USAGE, "model %s states no longest sequence", q->m->name), e),
            "scheduler.max_model_len=TOKENS gives one");
    if (plan_for(q, most, out, e) == ST_OK)
        return ST_OK;
    const int64_t longest = find_longest(q, most, out);
    err_clear(e);
    return plan_for(q, longest ? longest : 1, out, e);
}

enum st job_fit(const struct job_context *c, const struct job_model *m, const int64_t *lengths,
                size_t n, struct fit_row *out, struct err *e)
{
    const struct plan *p = c->plan;
    const struct fit_question q = {p, &m->m, lengths, n};
    struct err why = {0};
    *out = (struct fit_row){.model = m->m.name,
                            .hardware = p->hardware.id ? p->hardware.id : "",
                            .tp = p->parallel.tp,
                            .pp = p->parallel.pp,
                            .ep = p->parallel.ep,
                            .node_gpus = p->hardware.gpus_per_node,
                            .block_size = p->serve.block_size,
                            .sequences = arena_array(c->a, int64_t, n)};
    out->devices = shard_devices(out->tp, out->ep) * out->pp;
    out->over_nodes = out->node_gpus > 0 && out->tp > out->node_gpus;
    TRY(check_settings(p, &m->m, e));
    if (!(p->hardware.memory_gb > 0)) {
        err_set(&why, ST_USAGE, "hardware.memory_gb: not set: %s is no GPU whose memory is known",
                out->hardware);
        set_reason(c->a, out, &why);
        return ST_OK;
    }
    if (shard_check(&m->m, out->tp, out->pp, out->ep, &why) != ST_OK ||
        plan_row(&q, out, &why) != ST_OK)
        set_reason(c->a, out, &why);
    return ST_OK;
}

/* ---- as a tree ------------------------------------------------------------------------------- */

static void put_plan(struct arena *a, const struct memory_plan *p, struct node *n)
{
    const struct {
        const char *key;
        double bytes;
    } rows[] = {
        {"weight_bytes", p->weight_bytes},         {"usable_bytes", p->usable_bytes},
        {"activation_bytes", p->activation_bytes}, {"graph_bytes", p->graph_bytes},
        {"other_bytes", p->other_bytes},           {"cache_bytes", p->cache_bytes},
    };
    const bool planned = p->weight_bytes > 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        node_put(a, n, rows[i].key,
                 planned ? node_int(a, (int64_t)rows[i].bytes) : node_new(a, NODE_NULL));
}

struct node *job_fit_node(struct arena *a, const struct fit_row *r, const int64_t *lengths,
                          size_t n)
{
    struct node *out = node_new(a, NODE_MAP), *sequences = node_new(a, NODE_LIST);
    node_put(a, out, "model", node_str(a, r->model));
    node_put(a, out, "hardware", node_str(a, r->hardware));
    node_put(a, out, "tp", node_int(a, r->tp));
    node_put(a, out, "pp", node_int(a, r->pp));
    node_put(a, out, "ep", node_int(a, r->ep));
    node_put(a, out, "gpus", node_int(a, r->devices));
    node_put(a, out, "over_nodes", node_bool(a, r->over_nodes));
    node_put(a, out, "fits", node_bool(a, !r->why_not));
    put_plan(a, &r->plan, out);
    node_put(a, out, "block_size", node_int(a, r->block_size));
    node_put(a, out, "num_blocks", node_int(a, r->num_blocks));
    node_put(a, out, "kv_tokens", node_int(a, r->kv_tokens));
    node_put(a, out, "longest_context", node_int(a, r->longest));
    for (size_t i = 0; i < n; i++) {
        struct node *one = node_new(a, NODE_MAP);
        node_put(a, one, "length", node_int(a, lengths[i]));
        node_put(a, one, "sequences", node_int(a, r->sequences[i]));
        node_push(a, sequences, one);
    }
    node_put(a, out, "sequences", sequences);
    node_put(a, out, "why_not", node_str_or_null(a, r->why_not));
    node_put(a, out, "remedy", node_str_or_null(a, r->remedy));
    return out;
}
