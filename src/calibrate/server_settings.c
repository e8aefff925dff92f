#include "calibrate/server_settings.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/vec.h"

/* ---- taken and not taken --------------------------------------------------------------------- */

struct told {
    struct arena *a;
    const struct server_log *l;
    VEC(const char *) doubts;
};

static void doubt(struct told *t, enum server_fact_id id, const char *why)
{
    vec_push(&t->doubts, arena_printf(t->a, "its log states %s %s, which is not taken: %s",
                                      server_fact_name(id), t->l->of[id].value, why));
}

static void doubt_unless(struct told *t, enum server_fact_id id, const char *const *values,
                         const char *why)
{
    if (!t->l->of[id].value)
        return;
    for (; *values; values++)
        if (server_fact_is(t->l, id, *values))
            return;
    doubt(t, id, why);
}

/* Names of vLLM for 8-bit floats of four bits of exponent. */
static bool is_fp8(const struct server_log *l, enum server_fact_id id)
{
    return server_fact_is(l, id, "fp8") || server_fact_is(l, id, "fp8_e4m3");
}

static void take_formats(struct told *t, struct observed_settings *s)
{
    static const char *const usual[] = {"bfloat16", "float16", NULL};
    static const char *const weights[] = {"none", "fp8", NULL};
    static const char *const kv[] = {"auto", "fp8", "fp8_e4m3", "bfloat16", "float16", NULL};
    s->weights = is_fp8(t->l, FACT_QUANTIZATION) ? "fp8" : NULL;
    s->kv = is_fp8(t->l, FACT_KV_DTYPE) ? "fp8" : NULL;
    doubt_unless(t, FACT_DTYPE, usual, "model.dtype says what the weights are");
    doubt_unless(t, FACT_QUANTIZATION, weights, "model.dtype says what the weights are");
    doubt_unless(t, FACT_KV_DTYPE, kv, "model.kv_dtype says what keys and values are");
}

static int flag(const struct server_log *l, enum server_fact_id id, int unknown)
{
    return !l->of[id].value ? unknown : server_fact_is(l, id, "true");
}

static void take_scheduler(struct told *t, struct observed_settings *s)
{
    const struct server_log *l = t->l;
    static const char *const yes[] = {"true", NULL};
    const double fraction = server_fact_number(l, FACT_MEMORY_UTILIZATION);
    s->token_budget = server_fact_count(l, FACT_TOKEN_BUDGET);
    s->batch_cap = server_fact_count(l, FACT_BATCH_CAP);
    s->max_model_len = server_fact_count(l, FACT_MAX_MODEL_LEN);
    s->block_size = server_fact_count(l, FACT_BLOCK_SIZE);
    s->num_blocks = server_fact_count(l, FACT_NUM_BLOCKS);
    s->kv_tokens = s->num_blocks ? 0 : server_fact_count(l, FACT_KV_TOKENS);
    s->gpu_memory_utilization = isnan(fraction) ? 0 : fraction;
    s->prefix_caching = flag(l, FACT_PREFIX_CACHING, -1);
    s->async = flag(l, FACT_ASYNC, -1) + 1;
    s->cuda_graphs = server_log_graphs(l).value;
    s->graph_tokens = server_log_graph_tokens(l);
    doubt_unless(t, FACT_CHUNKED_PREFILL, yes, "prompts are simulated in chunks");
}

static void take_degrees(struct told *t, struct observed_settings *s)
{
    static const char *const one[] = {"1", NULL};
    s->tp = server_fact_count(t->l, FACT_TP);
    s->pp = server_fact_count(t->l, FACT_PP);
    const bool spread = server_fact_is(t->l, FACT_EP, "true");
    s->ep = spread && server_fact_is(t->l, FACT_DP, "1") ? s->tp : 0;
    if (spread && !s->ep)
        doubt(t, FACT_EP, "over how many devices is not known; parallel.ep says it");
    doubt_unless(t, FACT_DP, one, "cluster.replicas says how many engines there are");
}

enum st server_settings_of(struct arena *a, const struct server_log *l, struct server_settings *out,
                           struct err *e)
{
    struct told t = {.a = a, .l = l};
    *out = (struct server_settings){.of = {.log = l->path, .prefix_caching = -1}};
    if (l->of[FACT_SPECULATIVE].value && !server_fact_is(l, FACT_SPECULATIVE, "none"))
        return err_at(e, ST_INPUT, l->path, l->of[FACT_SPECULATIVE].line, 0,
                      "the server decoded speculatively (%.200s), which is not simulated",
                      l->of[FACT_SPECULATIVE].value);
    take_degrees(&t, &out->of);
    take_scheduler(&t, &out->of);
    take_formats(&t, &out->of);
    out->n_doubts = t.doubts.n;
    out->doubts = arena_copy(a, t.doubts.p, t.doubts.n * sizeof *t.doubts.p);
    vec_free(&t.doubts);
    return ST_OK;
}

/* ---- by their keys ------------------------------------------------------------------------- */

struct counted_setting {
    const char *key;
    size_t at;
};
#define AT(m) offsetof(struct observed_settings, m)
static const struct counted_setting counts[] = {
    {"parallel.tp", AT(tp)},
    {"parallel.pp", AT(pp)},
    {"parallel.ep", AT(ep)},
    {"scheduler.token_budget", AT(token_budget)},
    {"scheduler.batch_cap", AT(batch_cap)},
    {"scheduler.max_model_len", AT(max_model_len)},
    {"scheduler.block_size", AT(block_size)},
    {"scheduler.num_blocks", AT(num_blocks)},
    {"scheduler.graph_tokens", AT(graph_tokens)},
};
enum { COUNTS = sizeof counts / sizeof *counts };
static const struct counted_setting texts[] = {
    {"scheduler.cuda_graphs", AT(cuda_graphs)},
    {"model.dtype", AT(weights)},
    {"model.kv_dtype", AT(kv)},
};
enum { TEXTS = sizeof texts / sizeof *texts };

static int64_t count_at(const struct observed_settings *s, size_t at)
{
    return *(const int64_t *)(const void *)((const char *)s + at);
}

static const char *text_at(const struct observed_settings *s, size_t at)
{
    return *(const char *const *)(const void *)((const char *)s + at);
}

struct node *server_settings_node(struct arena *a, const struct observed_settings *s)
{
    struct node *map = node_new(a, NODE_MAP);
    for (size_t i = 0; i < COUNTS; i++)
        if (count_at(s, counts[i].at))
            node_put(a, map, counts[i].key, node_int(a, count_at(s, counts[i].at)));
    if (s->gpu_memory_utilization > 0)
        node_put(a, map, "scheduler.gpu_memory_utilization",
                 node_float(a, s->gpu_memory_utilization));
    if (s->prefix_caching >= 0)
        node_put(a, map, "scheduler.prefix_caching", node_bool(a, s->prefix_caching == 1));
    if (s->async)
        node_put(a, map, "scheduler.async_scheduling",
                 node_str(a, s->async == 2 ? "overlap" : "off"));
    for (size_t i = 0; i < TEXTS; i++)
        if (text_at(s, texts[i].at))
            node_put(a, map, texts[i].key, node_str(a, text_at(s, texts[i].at)));
    return map;
}

/* ---- beside what a record states ------------------------------------------------------------- */

static enum st differ(const char *path, const char *log, const char *key, const char *x,
                      const char *y, struct err *e)
{
    err_set(e, ST_INPUT, "%s states %s=%s, and %s %s", log, key, y, path, x);
    return err_hint(e, "the log is of another server than the record");
}

static enum st merge_count(const char *path, const char *log, const struct counted_setting *c,
                           const struct observed_settings *s, struct observed_settings *all,
                           struct err *e)
{
    const int64_t have = count_at(all, c->at), stated = count_at(s, c->at);
    char one[32], other[32];
    snprintf(one, sizeof one, "%lld", (long long)have);
    snprintf(other, sizeof other, "%lld", (long long)stated);
    if (have && stated && have != stated)
        return differ(path, log, c->key, one, other, e);
    if (stated)
        memcpy((char *)all + c->at, &stated, sizeof stated);
    return ST_OK;
}

static enum st merge_text(const char *path, const char *log, const struct counted_setting *c,
                          const struct observed_settings *s, struct observed_settings *all,
                          struct err *e)
{
    const char *have = text_at(all, c->at), *stated = text_at(s, c->at);
    if (have && stated && strcmp(have, stated) != 0)
        return differ(path, log, c->key, have, stated, e);
    if (stated)
        memcpy((char *)all + c->at, &stated, sizeof stated);
    return ST_OK;
}

enum st server_settings_merge(const char *path, const struct observed_settings *s,
                              struct observed_settings *all, struct err *e)
{
    static const char *const off_on[] = {"off", "on"};
    for (size_t i = 0; i < COUNTS; i++)
        TRY(merge_count(path, s->log, &counts[i], s, all, e));
    for (size_t i = 0; i < TEXTS; i++)
        TRY(merge_text(path, s->log, &texts[i], s, all, e));
    if (s->prefix_caching >= 0 && all->prefix_caching >= 0 &&
        s->prefix_caching != all->prefix_caching)
        return differ(path, s->log, "prefix caching", off_on[all->prefix_caching == 1],
                      off_on[s->prefix_caching == 1], e);
    if (s->prefix_caching >= 0)
        all->prefix_caching = s->prefix_caching;
    if (s->gpu_memory_utilization > 0 && all->gpu_memory_utilization > 0 &&
        s->gpu_memory_utilization != all->gpu_memory_utilization) {
        char one[32], other[32];
        snprintf(one, sizeof one, "%g", all->gpu_memory_utilization);
        snprintf(other, sizeof other, "%g", s->gpu_memory_utilization);
        return differ(path, s->log, "scheduler.gpu_memory_utilization", one, other, e);
    }
    if (s->gpu_memory_utilization > 0)
        all->gpu_memory_utilization = s->gpu_memory_utilization;
    if (s->kv_tokens)
        all->kv_tokens = s->kv_tokens;
    all->async = s->async ? s->async : all->async;
    all->log = s->log;
    return ST_OK;
}

static void add_doubts(struct arena *a, struct observed *x, const struct server_settings *s)
{
    const char **all = arena_array(a, const char *, x->n_doubts + s->n_doubts);
    for (size_t i = 0; i < x->n_doubts; i++)
        all[i] = x->doubts[i];
    for (size_t i = 0; i < s->n_doubts; i++)
        all[x->n_doubts + i] = s->doubts[i];
    x->doubts = all;
    x->n_doubts += s->n_doubts;
}

enum st observed_take_server_log(struct arena *a, const char *log, struct observed *x,
                                 struct err *e)
{
    struct server_log l;
    struct server_settings s;
    log = log ? log : server_log_beside(a, x->path);
    if (!log)
        return ST_OK;
    TRY(server_log_read(a, log, &l, e));
    TRY(server_settings_of(a, &l, &s, e));
    add_doubts(a, x, &s);
    return server_settings_merge(x->path, &s.of, &x->settings, e);
}
