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
    p.scheduler.num_blocks = INT32_MAX; /* nothing is planned */
    TRY(job_serve_params(&p, m, NULL, &serve, NULL, e));
    complete(&serve);
    return serve_check_params(&serve, e);
}

/* What a row is asked for. */
struct question {
    const struct plan *settings;
    const struct model *m;
    const int64_t *lengths; /* [n] */
    size_t n;
};

/* With requests of up to so many tokens. */
static enum st plan_for(const struct question *q, int64_t tokens, struct fit_row *out,
                        struct err *e)
{
    struct plan p = *q->settings;
    struct serve_params serve;
    struct engine_plan plan = {0};
    p.scheduler.max_model_len = tokens;
    const enum st st = job_serve_params(&p, q->m, NULL, &serve, &plan, e);
    out->plan = plan.memory;
    if (st != ST_OK)
        return st;
    out->num_blocks = serve.num_blocks;
    out->kv_tokens = job_kv_tokens(&p, &serve);
    out->longest = tokens;
    for (size_t i = 0; i < q->n; i++)
        out->sequences[i] = q->lengths[i] > tokens
                                ? 0
                                : serve.num_blocks / job_request_blocks(&p, &serve, q->lengths[i]);
    return ST_OK;
}

/* The longest request that has room: most has not. 0 = none. */
static int64_t find_longest(const struct question *q, int64_t most, const struct fit_row *row)
{
    int64_t good = 0, bad = most;
    while (bad - good > 1) {
        const int64_t tokens = good + (bad - good) / 2;
        struct fit_row r = *row;
        struct err ignored = {0};
        *(plan_for(q, tokens, &r, &ignored) == ST_OK ? &good : &bad) = tokens;
    }
    return good;
}

static void set_reason(struct arena *a, struct fit_row *out, const struct err *e)
{
    const char *hint = err_hint_text(e);
    out->why_not = arena_str(a, err_cause(e, 0));
    out->remedy = hint ? arena_str(a, hint) : NULL;
}

static enum st plan_row(const struct question *q, struct fit_row *out, struct err *e)
{
    const int64_t asked = q->settings->scheduler.max_model_len, own = q->m->max_positions;
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
    const struct question q = {p, &m->m, lengths, n};
    struct err why = {0};
    *out = (struct fit_row){.model = m->m.name,
                            .hardware = p->hardware.id ? p->hardware.id : "",
                            .tp = p->parallel.tp,
                            .pp = p->parallel.pp,
                            .ep = p->parallel.ep,
                            .block_size = p->scheduler.block_size,
                            .sequences = arena_array(c->a, int64_t, n)};
    out->devices = shard_devices(out->tp, out->ep) * out->pp;
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

static void put(struct arena *a, struct node *n, const char *key, struct node *value)
{
    node_set(a, n, sv_of(key), value);
}

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
        put(a, n, rows[i].key,
            planned ? node_int(a, (int64_t)rows[i].bytes) : node_new(a, NODE_NULL));
}

struct node *job_fit_node(struct arena *a, const struct fit_row *r, const int64_t *lengths,
                          size_t n)
{
    struct node *out = node_new(a, NODE_MAP), *sequences = node_new(a, NODE_LIST);
    put(a, out, "model", node_str(a, r->model));
    put(a, out, "hardware", node_str(a, r->hardware));
    put(a, out, "tp", node_int(a, r->tp));
    put(a, out, "pp", node_int(a, r->pp));
    put(a, out, "ep", node_int(a, r->ep));
    put(a, out, "gpus", node_int(a, r->devices));
    put(a, out, "fits", node_bool(a, !r->why_not));
    put_plan(a, &r->plan, out);
    put(a, out, "block_size", node_int(a, r->block_size));
    put(a, out, "num_blocks", node_int(a, r->num_blocks));
    put(a, out, "kv_tokens", node_int(a, r->kv_tokens));
    put(a, out, "longest_context", node_int(a, r->longest));
    for (size_t i = 0; i < n; i++) {
        struct node *one = node_new(a, NODE_MAP);
        put(a, one, "length", node_int(a, lengths[i]));
        put(a, one, "sequences", node_int(a, r->sequences[i]));
        node_push(a, sequences, one);
    }
    put(a, out, "sequences", sequences);
    put(a, out, "why_not", node_str_or_null(a, r->why_not));
    put(a, out, "remedy", node_str_or_null(a, r->remedy));
    return out;
}
