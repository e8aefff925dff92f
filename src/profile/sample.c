#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "model/shard.h"
#include "profile/host.h"
#include "profile/session.h"

/* Minimum of visits of every point, whatever the budget; after them a point is skipped once it used
 * POINT_ENOUGH_S or, with a budget, twice its share. */
enum { FEWEST_VISITS = 2, WARMUP_LIMIT = 10, VISITS_REJECTED = 5 };
static const double POINT_ENOUGH_S = 4;
/* Shares of the time budget: decode batches make up nearly all iterations of a run. */
static const double GROUP_SHARE[POINT_GROUPS] = {[GROUP_DECODE] = 0.3, [GROUP_PROMPT] = 0.25};

static double sum_of(const double op_s[OP_ROWS])
{
    double t = 0;
    for (int k = 0; k < OP_ROWS; k++)
        t += op_s[k];
    return t;
}

static int64_t visits(const struct session *s, int64_t i)
{
    return s->journal.now[i].visits;
}

static bool begun(const struct session *s, int64_t i)
{
    return s->journal.samples[i].n > 0;
}

/* Measures the point again where the device was disturbed meanwhile, but not for ever. */
static enum st drive_undisturbed(struct session *s, int64_t i, double op_s[][OP_ROWS], int *n,
                                 double *spent_s, struct err *e)
{
    const int64_t left = s->p->samples - s->journal.now[i].samples;
    for (int rejected = 0; rejected < VISITS_REJECTED; rejected++) {
        TRY(drive_point(s->drive, &s->points.p[i], left < DRIVE_TRAIN ? (int)left : DRIVE_TRAIN,
                        op_s, n, spent_s, e));
        if (!s->ex.ops->undisturbed || s->ex.ops->undisturbed(s->ex.self))
            return ST_OK;
        s->rejected += *n;
        session_used(s, &s->group_s[point_group(&s->points.p[i])], *spent_s);
    }
    err_set(e, ST_REJECTED,
            "heat or the power supply held the device's clocks down in %d visits of "
            "a point, one after the other",
            VISITS_REJECTED);
    return err_hint(e, "let it cool down; nvidia-smi -q -d PERFORMANCE says why. The same command "
                       "goes on from what is measured");
}

static enum st visit_point(struct session *s, int64_t i, struct err *e)
{
    double op_s[DRIVE_TRAIN][OP_ROWS], spent_s;
    int n;
    if (session_stopped(s))
        return session_interrupted(s, e);
    TRY(drive_undisturbed(s, i, op_s, &n, &spent_s, e));
    for (int k = 0; k < n; k++)
        TRY(journal_sample(&s->journal, i, op_s[k], e));
    TRY(journal_visit(&s->journal, i, spent_s, e));
    session_used(s, &s->group_s[point_group(&s->points.p[i])], spent_s);
    return ST_OK;
}

static bool in_level(const struct session *s, int64_t i, enum point_group g, int level)
{
    return point_group(&s->points.p[i]) == g && s->points.p[i].level <= level;
}

static int64_t count_level(const struct session *s, enum point_group g, int level)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s->points.n; i++)
        n += in_level(s, i, g, level);
    return n;
}

/* ---- the order of a round ------------------------------------------------------------------ */

struct point_turn {
    int64_t point;
    double key;
};

static int by_key(const void *pa, const void *pb)
{
    const struct point_turn *a = pa, *b = pb;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return (a->point > b->point) - (a->point < b->point);
}

/* Decodes go from the most KV blocks to the fewest: all points use blocks from 0 up, so each finds
 * its data in the caches from the one before, and its train settles soon. */
static void order_decodes(const struct session *s, struct arena *a, int64_t *order, int64_t n)
{
    struct point_turn *turns = arena_array(a, struct point_turn, n);
    int64_t prompts = 0, decodes = 0;
    for (int64_t i = 0; i < n; i++) {
        const struct point *p = &s->points.p[order[i]];
        if (p->kind == POINT_DECODE)
            turns[decodes++] =
                (struct point_turn){order[i], -(double)(p->x * point_blocks(p, &s->limits))};
        else
            order[prompts++] = order[i];
    }
    if (decodes)
        qsort(turns, (size_t)decodes, sizeof *turns, by_key);
    for (int64_t i = 0; i < decodes; i++)
        order[prompts + i] = turns[i].point;
}

/* Points of the groups' levels in the order of this round: prompts shuffled, then decodes. */
static int64_t *turns_of(struct session *s, struct arena *a, int64_t round, int64_t *n)
{
    int64_t *order = arena_array(a, int64_t, s->points.n);
    char name[48];
    snprintf(name, sizeof name, "profile.round.%lld", (long long)round);
    struct rng rng = rng_stream(s->p->seed, name);
    *n = 0;
    for (int64_t i = 0; i < s->points.n; i++)
        if (s->points.p[i].level <= s->level[point_group(&s->points.p[i])])
            order[(*n)++] = i;
    for (int64_t i = *n - 1; i > 0; i--) {
        int64_t j = (int64_t)rng_below(&rng, (uint64_t)i + 1), swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
    order_decodes(s, a, order, *n);
    return order;
}

/* ---- the budget ------------------------------------------------------------------------------ */

static double budget_of(const struct session *s, enum point_group g)
{
    return s->p->time_budget_s * GROUP_SHARE[g];
}

static bool over_budget(const struct session *s, enum point_group g, int64_t round)
{
    /* the first rounds are planned to fit; allow half as much again for a bad estimate */
    double slack = round <= FEWEST_VISITS ? 1.5 : 1;
    return round > 1 && budget_of(s, g) > 0 && s->group_s[g] > slack * budget_of(s, g);
}

static bool has_enough(const struct session *s, int64_t i, int64_t round)
{
    enum point_group g = point_group(&s->points.p[i]);
    if (visits(s, i) >= round || s->journal.now[i].samples >= s->p->samples ||
        over_budget(s, g, round))
        return true;
    double share = POINT_ENOUGH_S;
    if (budget_of(s, g) > 0)
        share = 2 * budget_of(s, g) / (double)count_level(s, g, s->level[g]);
    return visits(s, i) >= FEWEST_VISITS && s->journal.now[i].spent_s >= share;
}

/* Seconds that one round over the group takes at its present level. */
static double round_s(const struct session *s, enum point_group g)
{
    double t = 0;
    for (int64_t i = 0; i < s->points.n; i++)
        if (in_level(s, i, g, s->level[g]) && visits(s, i))
            t += s->journal.now[i].spent_s / (double)visits(s, i);
    return t;
}

/* A finer level costs about as much more as it has more points; FEWEST_VISITS rounds of it must
 * fit. A level begun earlier, in a session or before an interruption, continues. */
static bool level_fits(const struct session *s, enum point_group g, int level)
{
    for (int64_t i = 0; i < s->points.n; i++)
        if (in_level(s, i, g, level) && s->points.p[i].level == level && begun(s, i))
            return true;
    if (s->extends || s->left_out)
        return false;
    double more = (double)count_level(s, g, level) / (double)count_level(s, g, level - 1);
    return !(budget_of(s, g) > 0) || FEWEST_VISITS * round_s(s, g) * more <= budget_of(s, g);
}

/* ---- rounds -------------------------------------------------------------------------------- */

enum st sample_round(struct session *s, int64_t round, int64_t *visited, struct err *e)
{
    struct arena *scratch = arena_new();
    int64_t n, *order = turns_of(s, scratch, round, &n);
    enum st st = ST_OK;
    *visited = 0;
    for (int64_t k = 0; k < n && st == ST_OK; k++) {
        const bool dropped = !begun(s, order[k]) && (s->extends || round > 1 || s->left_out);
        if (dropped || has_enough(s, order[k], round))
            continue;
        st = visit_point(s, order[k], e);
        ++*visited;
    }
    arena_free(&scratch);
    return st;
}

/* FLOP and bytes of a pass in one number, to scale the time of one point to the next: a byte counts
 * as BYTE_FLOP operations, between the rates of caches and memory. */
static double work_of(const struct session *s, const struct point *p)
{
    static const double BYTE_FLOP = 4;
    const bool decode = p->kind == POINT_DECODE;
    const int64_t kv = point_kv(p), chunks = p->kind == POINT_PROMPTS ? p->x / p->kv : 1;
    const int64_t chunk = p->x / chunks;
    const struct key_spans spans = model_spans(s->p->model);
    struct op_load load = {.tokens = point_tokens(p),
                           .rows = point_rows(p, &s->limits),
                           .seqs = decode ? p->x : 0,
                           .n_spans = spans.n};
    for (int64_t i = 0; i < load.seqs; i++)
        op_load_add_keys(&load, &spans, p->kv + 1);
    for (int64_t i = 0; !decode && i < chunks; i++)
        op_load_add_chunk(&load, &spans, kv, chunk);
    const struct model shard = shard_model(s->p->model, s->p->tp);
    struct op_list ops;
    shard_ops(s->p->model, s->p->tp, &ops);
    double work = 0;
    for (int i = 0; i < ops.n; i++) {
        const struct op_cost c = op_cost(&shard, &ops.ops[i], &load, (int)sizeof(float));
        work += c.flop + BYTE_FLOP * c.bytes;
    }
    return work;
}

/* Seconds per work that the visit before number k took, in the order of work. */
static double forecast_s(const struct session *s, const struct point_turn *turns, int64_t k)
{
    while (k > 0 && !visits(s, turns[k - 1].point))
        k--;
    if (k == 0)
        return 0;
    const struct journal_point *last = &s->journal.now[turns[k - 1].point];
    return last->spent_s / (double)last->visits / turns[k - 1].key;
}

/* Samples the coarsest level in the order of work: a point whose forecast exceeds the group's share
 * of the budget is left out before it costs time; but never the KIND_FEWEST cheapest of a kind,
 * which a table needs. */
static enum st sample_coarsest(struct session *s, enum point_group g, struct err *e)
{
    enum { KIND_FEWEST = 3 };
    struct arena *scratch = arena_new();
    struct point_turn *turns = arena_array(scratch, struct point_turn, s->points.n);
    int64_t n = 0, had[POINT_KINDS] = {0};
    for (int64_t i = 0; i < s->points.n; i++)
        if (in_level(s, i, g, 0) && (!s->extends || begun(s, i)))
            turns[n++] = (struct point_turn){i, work_of(s, &s->points.p[i])};
    if (n)
        qsort(turns, (size_t)n, sizeof *turns, by_key);
    enum st st = ST_OK;
    for (int64_t k = 0; k < n && st == ST_OK; k++) {
        const int64_t i = turns[k].point;
        const bool needed = had[s->points.p[i].kind]++ < KIND_FEWEST || begun(s, i);
        if (visits(s, i))
            continue;
        if (!needed && budget_of(s, g) > 0 &&
            s->group_s[g] + forecast_s(s, turns, k) * turns[k].key > budget_of(s, g))
            s->left_out++;
        else
            st = visit_point(s, i, e);
    }
    arena_free(&scratch);
    return st;
}

static void tell_plan(const struct session *s)
{
    int64_t n = 0;
    double whole_s = 0;
    for (int g = 0; g < POINT_GROUPS; g++) {
        n += count_level(s, (enum point_group)g, s->level[g]);
        whole_s += round_s(s, (enum point_group)g) * (double)s->p->samples *
                   (double)count_level(s, (enum point_group)g, GRID_LEVELS - 1) /
                   (double)count_level(s, (enum point_group)g, s->level[g]) /
                   (g == GROUP_DECODE ? DRIVE_TRAIN : 1);
    }
    if (s->extends)
        return;
    if (s->left_out)
        log_warn("profile: a budget of %g s cannot hold the %lld dearest of %lld points of the "
                 "coarsest grid: look-ups there will be extrapolated",
                 s->p->time_budget_s, (long long)s->left_out,
                 (long long)(count_level(s, GROUP_DECODE, 0) + count_level(s, GROUP_PROMPT, 0)));
    if (n - s->left_out < s->points.n)
        log_info("profile: the time budget allows %lld of %lld grid points; all of them, with %lld "
                 "samples each, take about %.0f s (profile.time_budget_s=0)",
                 (long long)(n - s->left_out), (long long)s->points.n, (long long)s->p->samples,
                 whole_s);
    else if (!(s->p->time_budget_s > 0))
        log_info("profile: %lld grid points with %lld samples each take about %.0f s", (long long)n,
                 (long long)s->p->samples, whole_s);
}

enum st sample_levels(struct session *s, struct err *e)
{
    const bool visits = !s->p->calibration_only;
    int64_t visited;
    for (int g = 0; g < POINT_GROUPS && visits; g++)
        TRY(sample_coarsest(s, (enum point_group)g, e));
    for (int level = 1; level < GRID_LEVELS; level++) {
        for (int g = 0; g < POINT_GROUPS; g++)
            if (s->level[g] == level - 1 && level_fits(s, (enum point_group)g, level))
                s->level[g] = level;
        if (visits)
            TRY(sample_round(s, 1, &visited, e));
    }
    tell_plan(s);
    return ST_OK;
}

enum st sample_warm_up(struct session *s, struct err *e)
{
    double op_s[1][OP_ROWS], spent_s, before = 0;
    int n;
    if (s->p->warmup == 0)
        return ST_OK;
    for (int64_t i = 0; i < s->p->warmup + WARMUP_LIMIT; i++) {
        if (session_stopped(s))
            return session_interrupted(s, e);
        double t = 0;
        for (int kind = POINT_DECODE; kind <= POINT_PREFILL; kind++)
            for (int64_t k = 0; k < s->points.n; k++)
                if (s->points.p[k].kind == (enum point_kind)kind) {
                    TRY(drive_point(s->drive, &s->points.p[k], 1, op_s, &n, &spent_s, e));
                    t += sum_of(op_s[0]);
                    break;
                }
        if (i + 1 >= s->p->warmup && t < 1.05 * before && t > 0.95 * before)
            break;
        before = t;
    }
    return ST_OK;
}

/* The first passes of a session are cold. */
static double quickest(const struct session *s, int64_t point)
{
    double best = INFINITY;
    for (size_t i = 0; i < s->journal.samples[point].n; i++)
        best = fmin(best, sum_of(s->journal.samples[point].p[i].op_s));
    return best;
}

/* Of the runs for host time, the nearest size up to that batch; 0 = there are none. */
static double quickest_run(const struct session *s, int64_t batch, bool prompts)
{
    double best = 0;
    int64_t nearest = 0;
    for (size_t i = 0; i < s->journal.host.n; i++) {
        const struct host_sample *h = &s->journal.host.p[i];
        if ((h->chunks > 0) != prompts || h->device_s <= 0 || h->batch > batch ||
            h->batch < nearest)
            continue;
        best = h->batch > nearest ? h->device_s : fmin(best, h->device_s);
        nearest = h->batch;
    }
    return best;
}

double sample_decode_s(const struct session *s, int64_t batch)
{
    double best = 0;
    for (int64_t i = 0; i < s->points.n; i++) {
        const struct point *q = &s->points.p[i];
        if (q->kind == POINT_DECODE && q->x <= batch && begun(s, i) && q->kv <= 64)
            best = quickest(s, i); /* points go up with x */
    }
    return best > 0 ? best : quickest_run(s, batch, false);
}

double sample_prompt_token_s(const struct session *s, int64_t tokens)
{
    double best = 0;
    int64_t shortest = INT64_MAX;
    for (int64_t i = 0; i < s->points.n; i++) {
        const struct point *q = &s->points.p[i];
        if (q->kind != POINT_DECODE && q->kv == 0 && q->x >= tokens && q->x < shortest &&
            begun(s, i)) {
            shortest = q->x;
            best = quickest(s, i) / (double)q->x;
        }
    }
    return best > 0 ? best : quickest_run(s, 1, true) / (double)host_prompt_tokens(s->p, &s->ex, 1);
}
