#include "profile/passes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/order.h"
#include "base/rng.h"
#include "base/stats.h"
#include "base/vec.h"
#include "profile/read/meta.h"

enum { LEVELS = 2, LEAST_KV = 16, LEAST_FIRSTS = 5 };
const double PASSES_SHARE = 0.6;

/* ---- the grid -------------------------------------------------------------------------------- */

struct pass_knot {
    int64_t v;
    int level;
};
typedef VEC(struct pass_knot) knots;
typedef VEC(struct passes_point) points;

/* Powers of two from `first` to max, every other one coarse, and max. */
static void doubling(knots *out, int64_t first, int64_t max)
{
    int i = 0;
    for (int64_t v = first; v < max; v *= 2, i++)
        vec_push(out, (struct pass_knot){v, i % 2});
    if (max > 0)
        vec_push(out, (struct pass_knot){max, 0});
}

static int worse(int a, int b)
{
    return a > b ? a : b;
}

static void add_decodes(points *out, const struct passes_limits *l)
{
    knots n = {0}, kv = {0};
    doubling(&n, 1, l->max_batch);
    doubling(&kv, LEAST_KV, l->max_kv - 1);
    for (size_t i = 0; i < n.n; i++)
        for (size_t j = 0; j < kv.n; j++)
            vec_push(out, (struct passes_point){.decodes = n.p[i].v,
                                                .kv = kv.p[j].v,
                                                .level = worse(n.p[i].level, kv.p[j].level)});
    vec_free(&n);
    vec_free(&kv);
}

/* cached: after cached tokens, else without. */
static void add_prompts(points *out, const struct passes_limits *l, bool cached)
{
    const int64_t longest = l->max_tokens < l->max_kv ? l->max_tokens : l->max_kv;
    knots chunk = {0}, kv = {0};
    doubling(&chunk, cached ? LEAST_KV : 1, longest);
    doubling(&kv, 4 * LEAST_KV, l->max_kv - 1);
    for (size_t i = 0; i < chunk.n; i++) {
        struct passes_point p = {.chunk = chunk.p[i].v, .level = chunk.p[i].level};
        for (size_t j = 0; cached && j < kv.n; j++) {
            p.chunk_kv = kv.p[j].v;
            p.level = worse(chunk.p[i].level, kv.p[j].level);
            if (p.chunk + p.chunk_kv <= l->max_kv)
                vec_push(out, p);
        }
        if (!cached)
            vec_push(out, p);
    }
    vec_free(&chunk);
    vec_free(&kv);
}

/* Every fourth power of two of each quantity, every other of these coarse. */
static void add_mixed(points *out, const struct passes_limits *l)
{
    const int64_t longest = l->max_tokens < l->max_kv ? l->max_tokens : l->max_kv;
    int i = 0;
    for (int64_t chunk = LEAST_KV; chunk <= longest; chunk *= 4, i++) {
        int j = 0;
        for (int64_t n = 1; n <= l->max_batch && n + chunk <= l->max_tokens; n *= 4, j++) {
            int k = 0;
            for (int64_t kv = 4 * LEAST_KV; kv < l->max_kv; kv *= 4, k++)
                vec_push(out,
                         (struct passes_point){
                             .decodes = n, .kv = kv, .chunk = chunk, .level = (i | j | k) & 1});
        }
    }
}

struct passes_point *passes_grid(struct arena *a, const struct passes_limits *l, uint32_t kinds,
                                 size_t *n)
{
    points all = {0};
    if (kinds & PASSES_DECODE)
        add_decodes(&all, l);
    if (kinds & PASSES_PROMPT)
        add_prompts(&all, l, false);
    if (kinds & PASSES_CHUNK)
        add_prompts(&all, l, true);
    if (kinds & PASSES_MIXED)
        add_mixed(&all, l);
    struct passes_point *out = arena_array(a, struct passes_point, all.n + 1);
    *n = 0;
    for (int level = 0; level < LEVELS; level++)
        for (size_t i = 0; i < all.n; i++)
            if (all.p[i].level == level)
                out[(*n)++] = all.p[i];
    vec_free(&all);
    return out;
}

enum passes_kind passes_kind_of(const struct passes_point *p)
{
    if (p->chunk == 0)
        return PASSES_DECODE;
    return p->decodes ? PASSES_MIXED : p->chunk_kv ? PASSES_CHUNK : PASSES_PROMPT;
}

/* ---- measuring ------------------------------------------------------------------------------- */

struct point_state {
    int64_t samples;
    bool refused;
    double first_s;               /* of its very first pass */
    double visit_s[PASSES_VISIT]; /* of its first visit's others, ascending; [n_visit] */
    int64_t n_visit;
};

struct passes_session {
    const struct passes_params *p;
    const struct passes_engine *engine;
    const struct passes_point *points; /* [n] */
    struct point_state *of;            /* [n] */
    size_t n, coarse;
    VEC(struct whole_sample) samples;
    struct rng rng;
    int64_t began_ns;
    double budget_s, measured_s; /* of the passes */
    const char *why;
};

static double spent_s(const struct passes_session *s)
{
    return ns_to_s(clock_mono_ns() - s->began_ns);
}

static struct iterations_batch batch_of(const struct passes_point *p)
{
    const double c = (double)p->chunk;
    return (struct iterations_batch){
        .chunk_tokens = c,
        .chunk_context = c * ((double)p->chunk_kv + (c + 1) / 2),
        .decode_sequences = (double)p->decodes,
        .decode_kv_tokens = (double)(p->decodes * p->kv),
    };
}

/* A visit: warm-up passes, as many as were set at the first and one at later ones. */
static enum st visit(struct passes_session *s, size_t i, struct err *e)
{
    double total_s[PASSES_VISIT], device_s[PASSES_VISIT];
    const struct passes_point *p = &s->points[i];
    const int64_t left = s->p->samples - s->of[i].samples;
    const int64_t n = left < PASSES_VISIT ? left : PASSES_VISIT;
    const bool began = s->of[i].first_s > 0;
    const int64_t warmup = !began && s->p->warmup > 1 ? s->p->warmup - 1 : began && s->p->warmup;
    if (n <= 0 || s->of[i].refused)
        return ST_OK;
    if (s->p->stop && *s->p->stop)
        return err_set(e, ST_INTERRUPTED, "interrupted by a signal");
    enum st st = ST_OK;
    if (!began) {
        st = s->engine->run(s->engine->self, p, 0, 1, total_s, device_s, &s->why, e);
        s->of[i].first_s = st == ST_OK ? total_s[0] : 0;
    }
    if (st == ST_OK)
        st = s->engine->run(s->engine->self, p, warmup, n, total_s, device_s, &s->why, e);
    if (st == ST_END) {
        s->of[i].refused = true;
        return ST_OK;
    }
    TRY(st);
    for (int64_t k = 0; k < n; k++) {
        /* what the engine does not tell apart counts as the device's */
        const double device = device_s[k] < 0 ? total_s[k] : device_s[k];
        vec_push(&s->samples, (struct whole_sample){batch_of(p), total_s[k] - device, device, 0});
    }
    s->of[i].samples += n;
    if (!began) {
        s->of[i].n_visit = n;
        memcpy(s->of[i].visit_s, total_s, (size_t)n * sizeof *total_s);
        qsort(s->of[i].visit_s, (size_t)n, sizeof *total_s, order_double);
    }
    return ST_OK;
}

/* What first passes with or without prompt tokens take more; 0 where it does not show. */
static double first_use_of(const struct passes_session *s, bool prompt)
{
    static const double LEAST_SHARE = 0.02, OF_MEDIAN = 1.2533 * STATS_NORMAL_MAD;
    double *more = mem_alloc((s->n + 1) * sizeof *more),
           *pass = mem_alloc((s->n + 1) * sizeof *pass);
    size_t n = 0;
    double found = 0;
    for (size_t i = 0; i < s->n; i++) {
        const struct point_state *x = &s->of[i];
        if (!x->n_visit || (s->points[i].chunk > 0) != prompt)
            continue;
        pass[n] = x->visit_s[x->n_visit / 2];
        more[n] = x->first_s - pass[n];
        n++;
    }
    if (n >= LEAST_FIRSTS) {
        found = stats_median(more, n);
        for (size_t i = 0; i < n; i++)
            more[i] = fabs(more[i] - found);
        const double error = OF_MEDIAN * stats_median(more, n) / sqrt((double)n);
        if (found < 3 * error || found < LEAST_SHARE * stats_median(pass, n))
            found = 0;
    }
    mem_free(more);
    mem_free(pass);
    return found;
}

/* Points from `from` to before `to`, in shuffled order. `whole`: however long it takes. */
static enum st visit_all(struct passes_session *s, size_t from, size_t to, bool whole,
                         struct err *e)
{
    const double budget_s = s->budget_s;
    const size_t n = to - from;
    size_t *order = mem_alloc((n + 1) * sizeof *order);
    enum st st = ST_OK;
    for (size_t i = 0; i < n; i++) {
        const size_t j = (size_t)rng_below(&s->rng, i + 1);
        order[i] = order[j];
        order[j] = from + i;
    }
    for (size_t i = 0; i < n && st == ST_OK; i++) {
        if (!whole && budget_s > 0 && spent_s(s) >= budget_s)
            break;
        st = visit(s, order[i], e);
    }
    mem_free(order);
    return st;
}

static bool finished(const struct passes_session *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!s->of[i].refused && s->of[i].samples < s->p->samples)
            return false;
    return true;
}

static enum st measure(struct passes_session *s, struct err *e)
{
    const double budget_s = s->budget_s;
    size_t n = s->coarse;
    TRY(visit_all(s, 0, n, true, e));
    const double finer_s = spent_s(s) * (double)(s->n - n) / (double)(n ? n : 1);
    if (budget_s == 0 || spent_s(s) + finer_s < budget_s / 2) {
        TRY(visit_all(s, n, s->n, false, e));
        n = s->n;
    }
    while (!finished(s, n) && (budget_s == 0 || spent_s(s) < budget_s))
        TRY(visit_all(s, 0, n, false, e));
    return ST_OK;
}

/* ---- the calibration run --------------------------------------------------------------------- */

/* Of the decode steps that were carried out, and of the prompts: the most sequences, the most
 * cached tokens at that many, the longest prompt; and times, for an estimate. */
static struct rehearsal_params carried_out(const struct passes_session *s)
{
    const struct passes_params *p = s->p;
    struct rehearsal_params r = {
        .time_budget_s = p->time_budget_s - s->budget_s, .seed = p->seed, .stop = p->stop};
    for (size_t i = 0; i < s->n; i++) {
        const struct passes_point *x = &s->points[i];
        const bool more =
            x->decodes > r.max_batch || (x->decodes == r.max_batch && x->kv >= r.max_kv);
        if (s->of[i].samples == 0)
            continue;
        if (x->decodes && !x->chunk && more) {
            r.max_batch = x->decodes;
            r.max_kv = x->kv + 1;
            r.decode_most_s = s->of[i].visit_s[s->of[i].n_visit / 2];
        }
        if (x->decodes == 1 && !x->chunk && r.decode_s == 0)
            r.decode_s = s->of[i].visit_s[s->of[i].n_visit / 2];
        if (!x->decodes && !x->chunk_kv && x->chunk > r.prompt_tokens) {
            r.max_tokens = r.prompt_tokens = x->chunk;
            r.prompt_s = s->of[i].visit_s[s->of[i].n_visit / 2];
        }
    }
    return r;
}

/* An engine that fails at requests has still carried out its passes. */
static enum st rehearse(struct arena *a, const struct passes_session *s, struct rehearsal *out,
                        const char **why, struct err *e)
{
    const struct rehearsal_params params = carried_out(s);
    *why = s->engine->why_no_loop ? s->engine->why_no_loop : "the engine takes no requests";
    if (!s->engine->loop)
        return ST_OK;
    *why = "there are no passes of prompts or none of decode steps";
    if (!params.max_batch || !params.max_tokens)
        return ST_OK;
    enum st st = rehearsal_run(a, &params, s->engine->loop, out, why, e);
    if (st == ST_OK)
        *why = NULL;
    if (st == ST_OK || st == ST_END || st == ST_INTERRUPTED)
        return st == ST_END ? ST_OK : st;
    *why = arena_str(a, err_cause(e, 0));
    err_clear(e);
    return ST_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static const struct {
    enum passes_kind kind;
    const char *name;
} kinds[] = {{PASSES_DECODE, "decode"},
             {PASSES_PROMPT, "prompt"},
             {PASSES_CHUNK, "chunk"},
             {PASSES_MIXED, "mixed"}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static enum st check_kinds(const struct passes_session *s, struct err *e)
{
    for (int k = 0; k < KINDS; k++) {
        size_t asked = 0, made = 0;
        for (size_t i = 0; i < s->n; i++)
            if (passes_kind_of(&s->points[i]) == kinds[k].kind) {
                asked += s->of[i].samples > 0 || s->of[i].refused;
                made += s->of[i].samples > 0;
            }
        if (asked && !made)
            return err_set(e, ST_REJECTED, "no %s pass was carried out: %.400s", kinds[k].name,
                           s->why ? s->why : "");
    }
    return ST_OK;
}

static struct node *grid_node(struct arena *a, const struct passes_session *s,
                              const struct passes_result *r)
{
    struct node *n = node_new(a, NODE_MAP), *made = node_new(a, NODE_LIST);
    for (int k = 0; k < KINDS; k++)
        if (s->p->kinds & kinds[k].kind)
            node_push(a, made, node_str(a, kinds[k].name));
    node_put(a, n, "kinds", made);
    node_put(a, n, "max_tokens", node_int(a, s->p->limits.max_tokens));
    node_put(a, n, "max_batch", node_int(a, s->p->limits.max_batch));
    node_put(a, n, "max_kv", node_int(a, s->p->limits.max_kv));
    node_put(a, n, "points", node_int(a, (int64_t)r->points));
    node_put(a, n, "points_left_out", node_int(a, (int64_t)r->left_out));
    node_put(a, n, "left_out_because", node_str_or_null(a, r->why));
    node_put(a, n, "samples", node_int(a, s->p->samples));
    node_put(a, n, "warmup", node_int(a, s->p->warmup));
    node_put(a, n, "time_budget_s", node_float(a, s->p->time_budget_s));
    node_put(a, n, "measured_s", node_float(a, s->measured_s));
    return n;
}

static enum st publish(struct arena *a, struct passes_session *s, struct passes_result *out,
                       struct err *e)
{
    struct whole_params to = s->p->to;
    struct rehearsal loop = {0};
    for (size_t i = 0; i < s->n; i++) {
        out->points += s->of[i].samples > 0;
        out->left_out += s->of[i].refused;
    }
    out->samples = s->samples.n;
    out->why = s->why;
    TRY(check_kinds(s, e));
    TRY(rehearse(a, s, &loop, &out->why_no_loop, e));
    if (out->why_no_loop)
        log_warn("profile: no calibration run, so times are of passes alone: %.300s",
                 out->why_no_loop);
    else
        to.loop = &loop;
    if (to.loop && loop.wake.samples.n == 0)
        log_warn("profile: nothing is known of waking up: the engine does not compute single "
                 "requests batch by batch");
    to.meta = to.meta ? node_copy(a, to.meta) : node_new(a, NODE_MAP);
    if (out->why_no_loop)
        node_put(a, to.meta, "no_calibration_run", node_str(a, out->why_no_loop));
    node_put(a, to.meta, "grid", grid_node(a, s, out));
    for (int prompt = 0; prompt < 2; prompt++)
        to.first_use_s[prompt] = out->first_use_s[prompt] = first_use_of(s, prompt);
    const struct bundle_first_use first = {out->first_use_s[false], out->first_use_s[true]};
    node_put(a, to.meta, "first_use", fields_node(a, &bundle_first_use_fields, &first));
    if (out->left_out)
        log_warn("profile: %zu batches are left out, which the engine refused: %.200s",
                 out->left_out, s->why ? s->why : "");
    const enum st st = whole_write(a, &to, s->samples.p, s->samples.n, &out->bundle, e);
    rehearsal_free(&loop);
    return st;
}

enum st passes_profile(struct arena *a, const struct passes_params *p,
                       const struct passes_engine *engine, struct passes_result *out, struct err *e)
{
    struct passes_session s = {.p = p, .engine = engine, .began_ns = clock_mono_ns()};
    const char *dir;
    *out = (struct passes_result){0};
    TRY(whole_check(a, &p->to, &dir, e));
    s.budget_s = p->time_budget_s * (engine->loop ? PASSES_SHARE : 1);
    s.rng = rng_stream(p->seed, "profile.passes");
    s.points = passes_grid(a, &p->limits, p->kinds, &s.n);
    s.of = arena_array(a, struct point_state, s.n + 1);
    while (s.coarse < s.n && s.points[s.coarse].level == 0)
        s.coarse++;
    enum st st = measure(&s, e);
    s.measured_s = spent_s(&s);
    if (st == ST_OK)
        st = publish(a, &s, out, e);
    vec_free(&s.samples);
    return st;
}
