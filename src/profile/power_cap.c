#include "profile/power_cap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "profile/read/power_cap.h"
#include "profile/stats.h"

/* The clock of an H200 fell 40 to 80 ms after rest and was back 60 to 140 ms behind the prompts. */
static const double REST_S = 0.3, TRAIN_S = 0.35, RESTED_S = 0.025, DECODES_S = 0.4;
static const double HELD_S = 0.2, MIXED_S = 0.5; /* until prompts are sustained; of a mixed train */
static const double BREAKS_S[] = {0.01, 0.04};   /* between prompts */
/* Of the decodes behind the prompts: those that begin before and after that. */
static const double BEHIND_S = 0.015, SETTLED_S = 0.2;
static const double LONGEST_S = 0.05;   /* a longer pass is not at the clock of rest to its end */
static const double HELD_LEAST = 0.015; /* of the time; passes repeat within some 0.5 % */
static const double VARY_MOST = 0.05;   /* between quartiles, of the median */
static const double SHARE = 0.1;        /* of the time budget */
enum { SHORTEST = 128, SIZES = 24, RESTED_FEWEST = 3, SEQUENCES = 4, CACHED = 1024 };
enum { BEHIND = 3, TURN = 256 }; /* passes of each size behind long prompts; points of a train */

/* ---- the trains ------------------------------------------------------------------------------ */

static int sizes_of(const struct grid_limits *l, int64_t sizes[SIZES])
{
    const int64_t blocks = l->num_blocks * l->block_size;
    int64_t most = l->max_tokens < l->max_kv ? l->max_tokens : l->max_kv;
    most = most < blocks ? most : blocks;
    int n = 0;
    for (int64_t x = SHORTEST; x <= most && n < SIZES; x *= 2)
        sizes[n++] = x;
    if (n == 0)
        sizes[n++] = most;
    return n;
}

static struct point decodes_of(const struct grid_limits *l)
{
    struct point p = {POINT_DECODE, l->max_batch < SEQUENCES ? l->max_batch : SEQUENCES, CACHED, 0};
    if (p.kv > l->max_kv - 1)
        p.kv = l->max_kv - 1;
    while (p.kv > 1 && point_rows(&p, l) * point_blocks(&p, l) > l->num_blocks)
        p.kv /= 2;
    return p;
}

struct trains {
    struct session *s;
    int train;
    int rested[SIZES]; /* passes at the clock of rest */
    double spent_s;
};

static void rest_for(struct trains *t, double seconds)
{
    t->spent_s += seconds;
    if (!t->s->p->clock->is_virtual)
        clock_sleep_until_ns(clock_mono_ns() + ns_from_s(seconds));
}

static void rest(struct trains *t)
{
    rest_for(t, REST_S);
}

/* Points of a train, in turn; more than fit are left out. */
struct train_turn {
    struct point p[TURN];
    size_t n;
};

static void turn_put(struct train_turn *u, const struct point *p, int64_t times)
{
    for (int64_t i = 0; i < times && u->n < TURN; i++)
        u->p[u->n++] = *p;
}

/* kind: of its rows. from_s: when it begins, in its train. rested: where passes at the clock of
 * rest are counted; NULL = not. */
static enum st run_turn(struct trains *t, char kind, const struct point *points, size_t n,
                        double from_s, double seconds, int *rested, struct err *e)
{
    struct drive_passes passes = {0};
    if (session_stopped(t->s))
        return ST_INTERRUPTED;
    enum st st = drive_train(t->s->drive, points, n, seconds, &passes, e);
    for (size_t i = 0; i < passes.of.n && st == ST_OK; i++) {
        const struct drive_pass *pass = &passes.of.p[i];
        const struct point *p = &points[pass->point];
        t->spent_s += pass->device_s;
        if (pass->device_s > 0 && pass->begin_s <= RESTED_S && rested)
            ++*rested;
        if (pass->device_s > 0)
            st = journal_row(&t->s->journal, kind,
                             (double[]){t->train, p->kind != POINT_DECODE, (double)p->x,
                                        from_s + pass->begin_s, pass->device_s},
                             5, e);
    }
    vec_free(&passes.of);
    return st;
}

static enum st run_train(struct trains *t, const struct point *p, double seconds, int *rested,
                         struct err *e)
{
    const enum st st = run_turn(t, 't', p, 1, 0, seconds, rested, e);
    t->train++;
    return st;
}

/* Two passes first, so that what a size needs is there: they are no rows. *took_s: the second. */
static enum st warm(struct trains *t, const struct point *p, double *took_s, struct err *e)
{
    struct drive_passes passes = {0};
    const enum st st = drive_train(t->s->drive, p, 1, 0, &passes, e);
    *took_s = st == ST_OK ? vec_last(&passes.of).device_s : 0;
    vec_free(&passes.of);
    return st;
}

/* Passes in so many seconds, at most half a turn; each takes took_s, 0 = not known. */
static int64_t passes_in(double seconds, double took_s)
{
    return took_s > 0 ? (int64_t)fmin(ceil(seconds / took_s), TURN / 2.0) : 1;
}

static struct point prompt_of(int64_t tokens)
{
    return (struct point){POINT_PREFILL, tokens, 0, 0};
}

/* Twos of prompts with rests of so long between. */
static enum st run_with_rests(struct trains *t, const struct point *p, double rest_s, struct err *e)
{
    const int64_t begin_ns = clock_mono_ns();
    rest(t);
    for (double at_s = 0; at_s < MIXED_S;) {
        TRY(run_turn(t, 'm', p, 1, at_s, 0, NULL, e));
        rest_for(t, rest_s);
        at_s = ns_to_s(clock_mono_ns() - begin_ns) - REST_S;
        if (t->s->p->clock->is_virtual)
            break;
    }
    t->train++;
    return ST_OK;
}

/* n sizes, of which the last takes so long; a decode likewise. */
static enum st run_mixed(struct trains *t, const int64_t *sizes, int n, double longest_s,
                         const struct point *decodes, double decode_s, struct err *e)
{
    const struct point longest = prompt_of(sizes[n - 1]);
    struct train_turn u = {0};
    turn_put(&u, &longest, passes_in(HELD_S, longest_s));
    for (int i = 0; i < BEHIND * (n - 1); i++) {
        const struct point p = prompt_of(sizes[i % (n - 1)]);
        turn_put(&u, &p, 1);
        turn_put(&u, &longest, 2);
    }
    rest(t);
    TRY(run_turn(t, 'm', u.p, u.n, 0, 0, NULL, e));
    t->train++;
    for (int i = n - 1; i >= 0 && i >= n - 2; i--)
        for (size_t k = 0; k < sizeof BREAKS_S / sizeof *BREAKS_S; k++) {
            const struct point p = prompt_of(sizes[i]);
            u.n = 0;
            turn_put(&u, &p, 1);
            turn_put(&u, decodes, passes_in(BREAKS_S[k], decode_s));
            rest(t);
            TRY(run_turn(t, 'm', u.p, u.n, 0, MIXED_S, NULL, e));
            t->train++;
            TRY(run_with_rests(t, &p, BREAKS_S[k], e));
        }
    return ST_OK;
}

enum st power_cap_measure(struct session *s, double *spent_s, struct err *e)
{
    int64_t sizes[SIZES];
    int n = sizes_of(&s->limits, sizes);
    const struct point decodes = decodes_of(&s->limits);
    const double share_s = SHARE * s->p->time_budget_s;
    struct trains t = {.s = s};
    double took_s = 0, decode_s;
    drive_bind(s->drive);
    TRY(warm(&t, &decodes, &decode_s, e));
    for (int i = 0; i < n; i++) {
        const struct point p = prompt_of(sizes[i]);
        double this_s;
        TRY(warm(&t, &p, &this_s, e));
        if (i > 0 && this_s > LONGEST_S)
            n = i;
        if (i == n)
            break;
        took_s = this_s;
        rest(&t);
        TRY(run_train(&t, &p, TRAIN_S, &t.rested[i], e));
    }
    TRY(run_train(&t, &decodes, DECODES_S, NULL, e)); /* behind the last, the longest */
    for (bool more = true; more;) {
        more = false;
        for (int i = n - 1; i >= 0; i--) {
            const struct point p = prompt_of(sizes[i]);
            const int had = t.rested[i];
            if (had >= RESTED_FEWEST || (share_s > 0 && t.spent_s + REST_S > share_s))
                continue;
            rest(&t);
            TRY(run_train(&t, &p, 0, &t.rested[i], e));
            more |= t.rested[i] > had;
        }
    }
    struct bundle_power_cap so_far;
    if (power_cap_fit(s->a, &s->journal, &so_far) && so_far.held)
        TRY(run_mixed(&t, sizes, n, took_s, &decodes, decode_s, e));
    *spent_s = t.spent_s;
    return journal_row(&s->journal, 'u', spent_s, 1, e);
}

/* ---- what they say --------------------------------------------------------------------------- */

struct timed_pass {
    bool begins; /* its train */
    bool mixed;  /* of a mixed train */
    bool prompt;
    int64_t tokens;
    double begin_s, device_s;
};

struct passes {
    struct timed_pass *p; /* [n] in order */
    size_t n;
};

static void load_kind(const struct journal *j, char kind, struct passes *out)
{
    size_t at = 0;
    int n;
    double train = -1;
    for (const double *v; (v = journal_next(j, kind, &at, &n));) {
        if (n != 5 || !(v[2] >= 1 && v[2] <= 1e9 && v[4] > 0))
            continue;
        out->p[out->n++] = (struct timed_pass){.begins = v[0] != train,
                                               .mixed = kind == 'm',
                                               .prompt = v[1] > 0,
                                               .tokens = (int64_t)v[2],
                                               .begin_s = v[3],
                                               .device_s = v[4]};
        train = v[0];
    }
}

static struct passes load(struct arena *a, const struct journal *j)
{
    struct passes out = {arena_array(a, struct timed_pass, j->rows.n), 0};
    load_kind(j, 't', &out);
    load_kind(j, 'm', &out);
    return out;
}

/* Median time of prompts of a size (decodes: 0) that began then in trains of their own; *n of them,
 * in scratch, sorted. */
static double median_of(const struct passes *all, int64_t tokens, double from_s, double to_s,
                        double *scratch, int64_t *n)
{
    *n = 0;
    for (size_t i = 0; i < all->n; i++) {
        const struct timed_pass *p = &all->p[i];
        if (!p->mixed && (p->prompt ? p->tokens : 0) == tokens && p->begin_s >= from_s &&
            p->begin_s <= to_s)
            scratch[(*n)++] = p->device_s;
    }
    return stats_of(scratch, *n).median;
}

/* Median time of prompts of a size behind two of a longer one that began late in a mixed train;
 * NAN: there are none. */
static double median_behind(const struct passes *all, int64_t tokens, double *scratch, int64_t *n)
{
    *n = 0;
    for (size_t i = 2; i < all->n; i++) {
        const struct timed_pass *p = &all->p[i], *before = p - 1, *first = p - 2;
        if (p->mixed && p->prompt && p->tokens == tokens && !p->begins && !before->begins &&
            before->prompt && first->prompt && before->tokens > tokens &&
            first->tokens == before->tokens && p->begin_s >= TRAIN_S / 2)
            scratch[(*n)++] = p->device_s;
    }
    return *n ? stats_of(scratch, *n).median : (double)NAN;
}

static const struct bundle_power_cap_row *row_of(const struct bundle_power_cap *c, int64_t tokens)
{
    for (size_t i = 0; i < c->n_rows; i++)
        if (c->rows[i].tokens == tokens)
            return &c->rows[i];
    return NULL;
}

static int by_tokens(const void *p, const void *q)
{
    const struct bundle_power_cap_row *x = p, *y = q;
    return (x->tokens > y->tokens) - (x->tokens < y->tokens);
}

static double ratio_of(const struct bundle_power_cap_row *r)
{
    return r->sustained_s / r->rested_s;
}

static void find_rows(struct arena *a, const struct passes *all, double *scratch,
                      struct bundle_power_cap *out)
{
    out->rows = arena_array(a, struct bundle_power_cap_row, all->n);
    for (size_t i = 0; i < all->n; i++) {
        struct bundle_power_cap_row r = {.tokens = all->p[i].tokens};
        if (!all->p[i].prompt || row_of(out, r.tokens))
            continue;
        r.rested_s = median_of(all, r.tokens, 0, RESTED_S, scratch, &r.rested_passes);
        r.sustained_s =
            median_of(all, r.tokens, TRAIN_S / 2, INFINITY, scratch, &r.sustained_passes);
        const int64_t n = r.sustained_passes;
        if (n > 0 && scratch[n - 1 - n / 4] - scratch[n / 4] > VARY_MOST * r.sustained_s)
            continue; /* they wait for their launches */
        r.behind_s = median_behind(all, r.tokens, scratch, &r.behind_passes);
        r.rested_s = fmin(r.rested_s, r.sustained_s); /* more is waking up, not the clock */
        if (r.rested_passes > 0 && r.sustained_passes > 0)
            out->rows[out->n_rows++] = r;
    }
    if (out->n_rows)
        qsort(out->rows, out->n_rows, sizeof *out->rows, by_tokens);
}

/* Sum of absolute errors of the state model. Trains that begin with prompts begin rested, those of
 * decodes where the prompts before them ended. The ratios of rows are to rested_s here, not to
 * tables. What lies between two passes of a train, or was not told, is rest. */
static double error_of(const struct passes *all, const struct bundle_power_cap *said,
                       const struct power_cap *model, double free_s)
{
    struct power_cap_state clock = power_cap_rested(model);
    double sum = 0;
    for (size_t i = 0; i < all->n; i++) {
        const struct timed_pass *p = &all->p[i];
        const struct bundle_power_cap_row *r = p->prompt ? row_of(said, p->tokens) : NULL;
        if (p->prompt && !r)
            continue;
        const struct power_cap_batch b = {.tokens = p->tokens, .chunks = p->prompt};
        const struct power_cap_factors f = power_cap_factors(model, &b);
        if (p->begins && p->prompt)
            clock = power_cap_rested(model);
        else if (!p->begins)
            power_cap_rest(model, p->begin_s - (p[-1].begin_s + p[-1].device_s), &clock);
        const double rested_s = r ? r->rested_s : free_s;
        sum += fabs(rested_s * power_cap_over(model, &f, p->device_s, &clock) - p->device_s);
    }
    return sum;
}

enum { FITTED = 4 };

static void set_fitted(struct bundle_power_cap *said, const double v[FITTED])
{
    said->smoothing_s = v[0];
    said->control_s = v[1];
    said->decode_below = v[2];
    said->rest_below = v[3];
}

struct fitting {
    const struct passes *all;
    struct bundle_power_cap said;
    double *rested_s; /* [n_rows] */
    double free_s;
};

static double error_at(struct fitting *x, const double v[FITTED])
{
    struct arena *scratch = arena_new();
    const struct power_cap *model;
    struct err never = {0};
    double error = INFINITY;
    set_fitted(&x->said, v);
    if (power_cap_make(scratch, NULL, &x->said, x->rested_s, &model, &never) == ST_OK)
        error = error_of(x->all, &x->said, model, x->free_s);
    arena_free(&scratch);
    return error;
}

/* The best of a coarse table, then steps along each number, by ever smaller factors. */
static void fit_times(struct arena *a, const struct passes *all, struct bundle_power_cap *said,
                      double free_s)
{
    static const double starts[FITTED][3] = {
        {0.01, 0.02, 0.05}, {0.015, 0.03, 0.08}, {0.05, 0.15, 0.5}, {1, 2, 4}};
    static const double from[FITTED] = {0.002, 0.002, 0.05, 0.1}, to[FITTED] = {1, 1, 10, 30};
    enum { STARTS = 81 };
    struct fitting x = {.all = all, .said = *said, .free_s = free_s};
    double best[FITTED] = {0}, v[FITTED], least = INFINITY;
    x.rested_s = arena_array(a, double, said->n_rows);
    for (size_t i = 0; i < said->n_rows; i++)
        x.rested_s[i] = said->rows[i].rested_s;
    for (int k = 0; k < STARTS; k++) {
        for (int i = 0, digits = k; i < FITTED; i++, digits /= 3)
            v[i] = starts[i][digits % 3];
        const double error = error_at(&x, v);
        if (error < least) {
            least = error;
            memcpy(best, v, sizeof best);
        }
    }
    for (double factor = 1.4; factor > 1.005;) {
        bool better = false;
        for (int i = 0; i < 2 * FITTED; i++) {
            memcpy(v, best, sizeof v);
            v[i / 2] =
                fmin(fmax(i % 2 ? v[i / 2] / factor : v[i / 2] * factor, from[i / 2]), to[i / 2]);
            const double error = error_at(&x, v);
            if (error < least) {
                least = error;
                memcpy(best, v, sizeof best);
                better = true;
            }
        }
        if (!better)
            factor = sqrt(factor);
    }
    set_fitted(said, best);
}

bool power_cap_fit(struct arena *a, const struct journal *j, struct bundle_power_cap *out)
{
    static const double unknown[FITTED] = {(double)NAN, (double)NAN, (double)NAN, (double)NAN};
    *out = (struct bundle_power_cap){.decode_ratio = (double)NAN};
    set_fitted(out, unknown);
    const struct passes all = load(a, j);
    double *scratch = arena_array(a, double, all.n), most = 0;
    int64_t behind, settled;
    find_rows(a, &all, scratch, out);
    for (size_t i = 0; i < out->n_rows; i++)
        most = fmax(most, ratio_of(&out->rows[i]) - 1);
    out->held = most >= HELD_LEAST;
    if (!out->held)
        return out->n_rows > 0;
    const double behind_s = median_of(&all, 0, 0, BEHIND_S, scratch, &behind);
    const double free_s = median_of(&all, 0, SETTLED_S, INFINITY, scratch, &settled);
    out->decode_ratio = behind && settled ? fmin(fmax(behind_s / free_s, 1), 10) : 1;
    fit_times(a, &all, out, free_s);
    return true;
}
