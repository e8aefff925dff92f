#include <math.h>

#include "model/expert_load.h"
#include "model/shard.h"
#include "sim/groups.h"
#include "sim/predictor.h"

struct of_bundle {
    struct predictor_params p;
    struct expert_load load; /* of the busiest device, where groups share experts or tokens choose
                                them unevenly; n 0 = neither */
    struct groups groups;
    const struct bundle *
        *stage; /* [pp], of layers that differ; NULL = stages are parts of p.bundle */
};

static enum st open_bundle(struct arena *a, const struct predictor_params *p, void **self,
                           struct err *e)
{
    struct of_bundle *o = arena_one(a, struct of_bundle);
    (void)e;
    o->p = *p;
    if (shard_groups(p->tp, p->ep) > 1)
        expert_load_make(p->model, p->ep, p->expert_skew, &o->load);
    else if (p->model->experts > 0 && p->expert_skew > 0)
        expert_load_make(p->model, 1, p->expert_skew, &o->load);
    o->groups = groups_new(a, shard_groups(p->tp, p->ep), model_spans(p->model));
    if (p->pp > 1 && p->model->layered) {
        o->stage = arena_array(a, const struct bundle *, p->pp);
        for (int64_t i = 0; i < p->pp; i++)
            o->stage[i] = bundle_stage(a, p->bundle, p->model, p->pp, i);
    }
    *self = o;
    return ST_OK;
}

static int64_t groups_of(const struct predictor_params *p)
{
    return shard_groups(p->tp, p->ep);
}

static int64_t share(int64_t n, int64_t groups)
{
    return (n + groups - 1) / groups;
}

/* Decode rows hold a token each, and those that verify drafts as many more. */
static int64_t row_tokens(const struct batch *b)
{
    return (int64_t)b->n_decodes * (1 + b->draft_tokens);
}

/* Seconds of a batch's operators, all layers, on one device. */
struct parts {
    double tokens, once, rows, attention, reduce, all_to_all;
    double decode;   /* of attention */
    int64_t to_pass; /* tokens that the device sends on to the next stage */
};

static double sum_of(const struct parts *x)
{
    return x->tokens + x->rows + x->attention + x->reduce + x->all_to_all;
}

/* Of the chunks of that group, in layers of one kind. */
static double prefill_in(struct of_bundle *o, const struct bundle *t, const struct batch *b,
                         int64_t group, int kind)
{
    const bool one = o->groups.n == 1;
    struct together_sum sum = {0};
    if (!one)
        groups_begin(&o->groups);
    for (int32_t i = 0; i < b->n_chunks; i++)
        if (one || groups_deal(&o->groups, &b->chunks[i]) == group)
            predict_prefill_add(t, kind, b->chunks[i].start, b->chunks[i].tokens, &sum);
    const double all = predict_prefills_s(t, kind, &sum);
    return all > sum.longest_s ? all : sum.longest_s;
}

static double prefill_of(struct of_bundle *o, const struct bundle *t, const struct batch *b,
                         int64_t group)
{
    double s = 0;
    for (int kind = 0; kind < predict_prefill_kinds(t); kind++)
        s += prefill_in(o, t, b, group, kind);
    return s;
}

/* What experts take more, as prompts and decodes choose others each. */
static double experts_more_s(const struct bundle *t, const struct batch *b)
{
    const int64_t rows = row_tokens(b);
    const struct experts_part decodes = {rows, predict_experts_unread(t, rows, true)};
    struct experts_part prompts = {0, 1};
    for (int32_t i = 0; i < b->n_chunks; i++) {
        prompts.tokens += b->chunks[i].tokens;
        prompts.unread *= predict_experts_unread(t, b->chunks[i].tokens, false);
    }
    return predict_experts_more_s(t, &prompts, &decodes);
}

/* What one group does of a batch. */
struct own {
    int64_t group, tokens, rows, decodes, kv, kv_max;
    const struct op_load *load;
};

static void parts_of(struct of_bundle *o, const struct bundle *t, const struct batch *b,
                     const struct own *g, struct parts *x)
{
    const struct predictor_params *p = &o->p;
    const bool chunks = b->n_chunks > 0;
    x->decode = (chunks ? predict_decode_beside_s : predict_verify_s)(
        t, g->decodes, g->kv, g->kv_max, b->draft_tokens, g->load);
    x->attention = x->decode + (chunks ? prefill_of(o, t, b, g->group) : 0);
    x->tokens = chunks ? predict_tokens_s(t, g->tokens) : predict_decode_tokens_s(t, g->tokens);
    x->once = p->pp > 1 ? predict_once_s(t, g->tokens) : 0;
    x->rows = chunks ? predict_rows_s(t, g->rows) : predict_decode_rows_s(t, g->rows);
    x->reduce = p->tp > 1 ? predict_all_reduce_s(t, g->tokens) : 0;
    x->all_to_all = 0;
    x->to_pass = g->tokens;
    if (o->groups.n == 1 && o->load.n == 0) {
        x->tokens += chunks ? experts_more_s(t, b) : 0;
        return;
    }
    const int64_t all = b->prefill_tokens + row_tokens(b);
    struct expert_pairs most = expert_load_at(&o->load, (double)all);
    if (o->groups.n == 1) { /* as many pairs as without skew, of fewer experts */
        const double pairs = (double)(all * p->model->experts_per_token);
        x->tokens += predict_experts_part_s(t, all, pairs, most.hit, 1) - predict_experts_s(t, all);
        return;
    }
    x->tokens += predict_experts_part_s(t, all, most.pairs, most.hit, (double)p->tp) -
                 predict_experts_s(t, g->tokens);
    const double sent = (double)(g->tokens * p->model->experts_per_token) / (double)p->tp;
    x->all_to_all = predict_all_to_all_s(t, llround(fmax(most.pairs, sent)));
}

/* Of the group that takes longest. */
static void slowest_of(struct of_bundle *o, const struct bundle *t, const struct batch *b,
                       struct parts *worst)
{
    struct group_part of[GROUP_PARTS];
    const int n = groups_busiest(&o->groups, b, of);
    for (int i = 0; i < n; i++) {
        const struct own own = {of[i].group,   of[i].load.tokens, of[i].load.rows,
                                of[i].decodes, of[i].decode_kv,   of[i].decode_kv_max,
                                &of[i].load};
        struct parts x;
        parts_of(o, t, b, &own, &x);
        if (i == 0 || sum_of(&x) > sum_of(worst))
            *worst = x;
    }
}

/* Idle power of all devices of a stage. */
static double idle_w_of(const struct predictor_params *p)
{
    return bundle_idle_w(p->bundle) * (double)shard_devices(p->tp, p->ep);
}

/* Energy of the whole batch, on all devices. idle_s: time of its stages in which no operator runs,
 * the host's not included. */
static double energy_of(const struct predictor_params *p, const struct batch *b, double scale,
                        double idle_s)
{
    const struct bundle *t = p->bundle;
    const int64_t all = (int64_t)b->n_chunks + b->n_decodes;
    /* those that have sequences, with equal parts */
    const int64_t groups = all < groups_of(p) ? all : groups_of(p);
    const int64_t seqs = share(b->n_decodes, groups);
    const int64_t tokens = share(b->prefill_tokens + row_tokens(b), groups);
    const int64_t rows = share(row_tokens(b) + b->n_last_chunks, groups);
    const bool chunks = b->n_chunks > 0;
    double g = (double)groups;
    double j =
        g * (chunks ? predict_tokens_j(t, tokens) : predict_decode_tokens_j(t, tokens)) +
        g * (chunks ? predict_rows_j(t, rows) : predict_decode_rows_j(t, rows)) +
        g * predict_decode_j(t, seqs, share(b->decode_kv_tokens, groups) + seqs * b->draft_tokens,
                             &b->load);
    for (int32_t i = 0; i < b->n_chunks; i++)
        j += predict_prefill_j(t, b->chunks[i].start, b->chunks[i].tokens);
    return (double)p->tp * j * scale + idle_w_of(p) * idle_s;
}

static void take_energy(const struct predictor_params *p, const struct batch *b, double scale,
                        double idle_s, struct stage_time *out)
{
    out->energy_j = energy_of(p, b, scale, idle_s);
    out->wait_w = idle_w_of(p);
}

/* Of all that runs, or of the group that takes longest. */
static void whole_of(struct of_bundle *o, const struct bundle *t, const struct batch *b,
                     struct parts *x)
{
    const struct own own = {.tokens = b->prefill_tokens + row_tokens(b),
                            .rows = row_tokens(b) + b->n_last_chunks,
                            .decodes = b->n_decodes,
                            .kv = b->decode_kv_tokens,
                            .kv_max = b->decode_kv_max,
                            .load = &b->load};
    if (o->groups.n > 1)
        slowest_of(o, t, b, x);
    else
        parts_of(o, t, b, &own, x);
}

static double host_of(const struct predictor_params *p, const struct batch *b)
{
    return p->host_overhead
               ? bundle_host_s(p->bundle, (int64_t)b->n_decodes + b->n_chunks, b->n_chunks > 0)
               : 0;
}

/* Stages of layers that differ, each of a bundle of its own. */
static void predict_stages(struct of_bundle *o, const struct batch *b, double scale,
                           struct stage_time *stages)
{
    const struct predictor_params *p = &o->p;
    double idle_s = 0;
    for (int64_t i = 0; i < p->pp; i++) {
        struct parts x;
        whole_of(o, o->stage[i], b, &x);
        const bool last = i == p->pp - 1;
        const double s = x.tokens + x.attention + (last ? x.rows : 0);
        const double comm =
            x.reduce + x.all_to_all + (last ? 0 : predict_send_recv_s(p->bundle, x.to_pass));
        stages[i] = (struct stage_time){.device_s = s * scale + comm,
                                        .operators_s = s * scale,
                                        .decode_share = s > 0 ? x.decode / s : 0};
        idle_s += comm;
    }
    stages[0].host_s = host_of(p, b);
    if (bundle_has_energy(p->bundle))
        take_energy(p, b, scale, idle_s, &stages[0]);
}

static enum st predict(void *self, const struct batch *b, struct stage_time *stages, struct err *e)
{
    struct of_bundle *o = self;
    const struct predictor_params *p = &o->p;
    const struct bundle *t = p->bundle;
    int64_t tokens = b->prefill_tokens + row_tokens(b);
    double scale = b->n_chunks ? bundle_prompt_scale(t, tokens, b->n_decodes > 0)
                               : bundle_decode_scale(t, b->n_decodes, b->train);
    (void)e;
    if (o->stage) {
        predict_stages(o, b, scale, stages);
        return ST_OK;
    }
    struct parts x;
    whole_of(o, t, b, &x);
    const double host = host_of(p, b);
    double comm = x.reduce + x.all_to_all;
    const double operators = x.tokens + x.rows + x.attention;
    const double decode_share = operators > 0 ? x.decode / operators : 0;
    if (p->pp == 1) {
        const double launch = bundle_launch_s(t, host, b->n_chunks > 0);
        stages[0] = (struct stage_time){.host_s = host,
                                        .device_s = operators * scale + comm,
                                        .operators_s = operators * scale,
                                        .decode_share = decode_share,
                                        .launch_s = launch,
                                        .one_thread = launch > 0,
                                        .answer_s = p->host_overhead ? bundle_answer_s(t) : 0};
        if (bundle_has_energy(t))
            take_energy(p, b, scale, comm, &stages[0]);
        return ST_OK;
    }
    double pass_on = predict_send_recv_s(t, x.to_pass);
    const double layers = x.tokens - x.once + x.attention;
    for (int64_t i = 0; i < p->pp; i++) {
        const double part =
            (double)shard_stage_layers(p->model, p->pp, i) / (double)p->model->layers;
        const double s = layers * part + (i == 0 ? x.once : 0) + (i == p->pp - 1 ? x.rows : 0);
        stages[i] =
            (struct stage_time){.host_s = i == 0 ? host : 0,
                                .device_s = s * scale + comm * part + (i < p->pp - 1 ? pass_on : 0),
                                .operators_s = s * scale,
                                .decode_share = decode_share};
    }
    if (bundle_has_energy(t))
        take_energy(p, b, scale, comm + pass_on * (double)(p->pp - 1), &stages[0]);
    return ST_OK;
}

static int wake_batches(void *self)
{
    const struct predictor_params *p = &((const struct of_bundle *)self)->p;
    return p->host_overhead ? bundle_wake_iterations(p->bundle) : 0;
}

static struct stage_time wake(void *self, double pause_s, int k)
{
    const struct predictor_params *p = &((const struct of_bundle *)self)->p;
    struct stage_time t = {0};
    bundle_wake_s(p->bundle, pause_s, k, &t.device_s, &t.host_s);
    if (bundle_has_energy(p->bundle))
        t.energy_j = idle_w_of(p) * t.device_s; /* host_s becomes the batch's */
    return t;
}

const struct predictor_ops predictor_bundle = {
    .name = "bundle",
    .help = "from a profiling bundle, interpolated",
    .version = PREDICTOR_VERSION,
    .needs_bundle = true,
    .experts = true,
    .verifies = true,
    .open = open_bundle,
    .predict = predict,
    .wake = wake,
    .wake_batches = wake_batches,
};
