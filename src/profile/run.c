#include "profile/profile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/rng.h"
#include "profile/drive.h"
#include "profile/host.h"
#include "profile/write.h"
#include "profile/yardstick.h"

/* Samples every point gets whatever the budget; from then on a point rests when it has had
 * POINT_ENOUGH_S, or with a budget twice its share. */
enum { FEWEST_SAMPLES = 3 };
static const double POINT_ENOUGH_S = 4;
/* Shares of the time budget: decode batches make up nearly all iterations of a run. */
static const double GROUP_SHARE[POINT_GROUPS] = {[GROUP_DECODE] = 0.3, [GROUP_PROMPT] = 0.3};
static const double HOST_SHARE = 0.1, WAKE_SHARE = 0.1, REHEARSAL_SHARE = 0.17;
static const double YARDSTICK_SHARE = 0.03;
static const double BUSY = 1.3;
enum { HOST_RUNS = 3, HOST_DECODES = 16, WARMUP_LIMIT = 10 };

struct session {
    struct arena *a;
    const struct profile_params *p;
    struct executor ex;
    const volatile sig_atomic_t *stop;
    struct grid_limits limits;
    struct point_list points;
    struct journal journal;
    struct drive *drive;
    struct progress progress;
    int64_t done;    /* samples */
    double *spent_s; /* [points] machine time */
    double used_s[POINT_GROUPS], host_s;
    int level[POINT_GROUPS];
    struct wake wake;
    struct rehearsal rehearsal;
    struct yardstick yardstick;
    struct contention_mark quiet; /* when measuring began */
    int rehearsals;               /* rounds done */
    double rehearsal_s;
};

/* ---- names and limits ---------------------------------------------------------------------- */

static bool is_folder_name(const char *s)
{
    if (!s || !*s || *s == '/' || *s == '.' || strstr(s, "/.") || strstr(s, "//"))
        return false;
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            return false;
    return true;
}

static enum st check_params(const struct profile_params *p, struct executor ex, struct err *e)
{
    const struct {
        const char *key, *value;
    } names[] = {{"hardware.id", p->hardware},
                 {"model.name", p->model_name},
                 {"network_device", p->network_device ? p->network_device : p->hardware}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!is_folder_name(names[i].value))
            return err_set(e, ST_USAGE, "%s: '%s' cannot be the name of a folder of the bundle",
                           names[i].key, names[i].value ? names[i].value : "");
    if (!(ex.ops->caps & EXEC_OP_TIMES))
        return err_set(e, ST_DEVICE, "executor %s gives no operator times", ex.ops->name);
    return ST_OK;
}

static struct grid_limits limits_of(const struct profile_params *p)
{
    struct grid_limits l = {p->max_tokens, p->max_batch, p->max_kv, p->block_size, p->num_blocks};
    if (p->model->max_positions > 0 && p->model->max_positions < l.max_kv)
        l.max_kv = p->model->max_positions;
    if (l.max_batch > l.max_tokens)
        l.max_batch = l.max_tokens;
    return l;
}

int64_t profile_num_blocks(const struct profile_params *p, int64_t bytes, int element_bytes)
{
    struct grid_limits l = limits_of(p);
    int64_t longest = (l.max_kv + l.block_size - 1) / l.block_size;
    int64_t room = bytes / (model_kv_bytes_per_token(p->model, element_bytes) * l.block_size);
    int64_t wanted = longest * l.max_batch;
    if (wanted > room)
        wanted = room;
    return wanted > longest ? wanted : longest;
}

/* What samples depend on; another key starts anew. */
static void resume_key(struct session *s, char hex[HASH_SHA256_HEX + 1])
{
    const struct profile_params *p = s->p;
    const struct model *m = p->model;
    struct buf b = {0};
    buf_printf(&b, "%s|%s|%s|", p->device ? p->device : "", p->settings ? p->settings : "",
               s->ex.ops->name);
    const int64_t v[] = {m->family,
                         m->layers,
                         m->hidden,
                         m->heads,
                         m->kv_heads,
                         m->head_dim,
                         m->intermediate,
                         m->vocab,
                         p->block_size,
                         p->tp,
                         (int64_t)p->seed,
                         s->limits.num_blocks,
                         s->limits.max_tokens,
                         s->limits.max_batch,
                         s->limits.max_kv};
    for (size_t i = 0; i < sizeof v / sizeof *v; i++)
        buf_printf(&b, "%lld|", (long long)v[i]);
    for (int64_t i = 0; i < s->points.n; i++) {
        const struct point *q = &s->points.p[i];
        buf_printf(&b, "%d %lld %lld %d|", (int)q->kind, (long long)q->x, (long long)q->kv,
                   q->level);
    }
    hash_sha256(b.p, b.n, hex);
    buf_free(&b);
}

/* ---- sampling ------------------------------------------------------------------------------ */

static bool stopped(const struct session *s)
{
    return s->stop && *s->stop;
}

static enum st interrupted(const struct session *s, struct err *e)
{
    err_set(e, ST_INTERRUPTED, "interrupted after %lld samples", (long long)s->done);
    return err_hint(e, "they are kept in %s; the same command goes on from there", s->journal.dir);
}

static double sum_of(const double op_s[OP_KINDS])
{
    double t = 0;
    for (int k = 0; k < OP_KINDS; k++)
        t += op_s[k];
    return t;
}

static void show_progress(struct session *s)
{
    double used = s->used_s[GROUP_DECODE] + s->used_s[GROUP_PROMPT] + s->host_s;
    if (s->p->time_budget_s > 0)
        progress_at(&s->progress, (int64_t)fmin(used, s->p->time_budget_s), NULL);
    else
        progress_at(&s->progress, s->done < s->progress.total ? s->done : s->progress.total, NULL);
}

static enum st sample_point(struct session *s, int64_t i, struct err *e)
{
    double op_s[OP_KINDS], spent_s;
    if (stopped(s))
        return interrupted(s, e);
    TRY(drive_point(s->drive, &s->points.p[i], op_s, &spent_s, e));
    TRY(journal_sample(&s->journal, i, op_s, e));
    s->used_s[point_group(&s->points.p[i])] += spent_s;
    s->spent_s[i] += spent_s;
    s->done++;
    show_progress(s);
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

struct turn {
    int64_t point, blocks;
};

/* Decodes go from the most KV blocks to the fewest: points lie at block 0 and up,
 * so each finds in the caches what the one before it read again and again. Shuffled, they found
 * what prompts had left there, and eight sequences of 256 tokens took 5 to 13 % longer than in a
 * run. */
static int by_blocks(const void *pa, const void *pb)
{
    const struct turn *a = pa, *b = pb;
    if (a->blocks != b->blocks)
        return a->blocks > b->blocks ? -1 : 1;
    return (a->point > b->point) - (a->point < b->point);
}

static void order_decodes(const struct session *s, struct arena *a, int64_t *order, int64_t n)
{
    struct turn *turns = arena_array(a, struct turn, n);
    int64_t prompts = 0, decodes = 0;
    for (int64_t i = 0; i < n; i++)
        if (s->points.p[order[i]].kind == POINT_DECODE) {
            const struct point *p = &s->points.p[order[i]];
            turns[decodes++] = (struct turn){order[i], p->x * point_blocks(p, &s->limits)};
        } else {
            order[prompts++] = order[i];
        }
    if (decodes)
        qsort(turns, (size_t)decodes, sizeof *turns, by_blocks);
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

static double budget_of(const struct session *s, enum point_group g)
{
    return s->p->time_budget_s * GROUP_SHARE[g];
}

static bool over_budget(const struct session *s, enum point_group g, int64_t round)
{
    /* the first rounds are planned to fit; a bad plan may cost half as much again */
    double slack = round <= FEWEST_SAMPLES ? 1.5 : 1;
    return round > 1 && budget_of(s, g) > 0 && s->used_s[g] > slack * budget_of(s, g);
}

static bool has_enough(const struct session *s, int64_t i, int64_t round)
{
    enum point_group g = point_group(&s->points.p[i]);
    int64_t have = (int64_t)s->journal.samples[i].n;
    if (have >= round || over_budget(s, g, round))
        return true;
    double share = POINT_ENOUGH_S;
    if (budget_of(s, g) > 0)
        share = 2 * budget_of(s, g) / (double)count_level(s, g, s->level[g]);
    return have >= FEWEST_SAMPLES && s->spent_s[i] >= share;
}

/* One more sample for each point that has fewer than `round`. */
static enum st sample_round(struct session *s, int64_t round, struct err *e)
{
    struct arena *scratch = arena_new();
    int64_t n, *order = turns_of(s, scratch, round, &n);
    enum st st = ST_OK;
    for (int64_t k = 0; k < n && st == ST_OK; k++)
        if (!has_enough(s, order[k], round))
            st = sample_point(s, order[k], e);
    arena_free(&scratch);
    return st;
}

/* Seconds that one round over the group takes at its present level. */
static double round_s(const struct session *s, enum point_group g)
{
    double t = 0;
    for (int64_t i = 0; i < s->points.n; i++)
        if (in_level(s, i, g, s->level[g]) && s->journal.samples[i].n)
            t += s->spent_s[i] / (double)s->journal.samples[i].n;
    return t;
}

/* A finer level costs about as much more as it has more points; three rounds of it must fit. What
 * was begun before an interruption goes on. */
static bool level_fits(const struct session *s, enum point_group g, int level)
{
    for (int64_t i = 0; i < s->points.n; i++)
        if (in_level(s, i, g, level) && s->points.p[i].level == level && s->journal.samples[i].n)
            return true;
    double more = (double)count_level(s, g, level) / (double)count_level(s, g, level - 1);
    return !(budget_of(s, g) > 0) || FEWEST_SAMPLES * round_s(s, g) * more <= budget_of(s, g);
}

static enum st sample_levels(struct session *s, struct err *e)
{
    TRY(sample_round(s, 1, e));
    for (int level = 1; level < GRID_LEVELS; level++) {
        for (int g = 0; g < POINT_GROUPS; g++)
            if (s->level[g] == level - 1 && level_fits(s, (enum point_group)g, level))
                s->level[g] = level;
        TRY(sample_round(s, 1, e));
    }
    int64_t n = 0;
    for (int g = 0; g < POINT_GROUPS; g++)
        n += count_level(s, (enum point_group)g, s->level[g]);
    if (n < s->points.n)
        log_info("profile: the time budget allows %lld of %lld grid points", (long long)n,
                 (long long)s->points.n);
    return ST_OK;
}

/* `warmup` passes over a small batch of each kind, and on until two passes agree within 5 %. */
static enum st warm_up(struct session *s, struct err *e)
{
    double op_s[OP_KINDS], spent_s, before = 0;
    if (s->p->warmup == 0)
        return ST_OK;
    for (int64_t i = 0; i < s->p->warmup + WARMUP_LIMIT; i++) {
        if (stopped(s))
            return interrupted(s, e);
        double t = 0;
        for (int kind = POINT_DECODE; kind <= POINT_PREFILL; kind++)
            for (int64_t k = 0; k < s->points.n; k++)
                if (s->points.p[k].kind == (enum point_kind)kind) {
                    TRY(drive_point(s->drive, &s->points.p[k], op_s, &spent_s, e));
                    t += sum_of(op_s);
                    break;
                }
        if (i + 1 >= s->p->warmup && t < 1.05 * before && t > 0.95 * before)
            break;
        before = t;
    }
    return ST_OK;
}

static double decode_pass_s(const struct session *s, int64_t batch)
{
    double best = 0;
    for (int64_t i = 0; i < s->points.n; i++) {
        const struct point *q = &s->points.p[i];
        if (q->kind == POINT_DECODE && q->x <= batch && s->journal.samples[i].n > 0 && q->kv <= 64)
            best = sum_of(s->journal.samples[i].p[0].op_s); /* points go up with x */
    }
    return best;
}

/* Outputs so long that FEWEST_SAMPLES rounds take the share of the budget, or full length. */
static double rehearsal_length(const struct session *s, double share_s)
{
    double round_s = 0;
    for (int i = 0; i < REHEARSAL_SETTINGS; i++) {
        const struct rehearsal_setting *set = &rehearsal_settings[i];
        if (set->sequences <= s->limits.max_batch)
            round_s += (double)(set->requests * set->decodes) / (double)set->sequences *
                       decode_pass_s(s, set->sequences);
    }
    double length = share_s / (FEWEST_SAMPLES * round_s);
    return share_s > 0 && length < 1 ? length : 1;
}

/* One round of the rehearsal, up to REHEARSALS and, after the first, as far as the budget's share
 * goes. They stand between the rounds over the grid, so that a busy while of the machine touches
 * few of them. Too short to be kept over an interruption. */
static enum st rehearse(struct session *s, struct err *e)
{
    enum { REHEARSALS = 9, YARDSTICK_SAMPLES = 5 };
    double share = REHEARSAL_SHARE * s->p->time_budget_s;
    if (s->rehearsals == REHEARSALS ||
        (s->rehearsals > 0 && share > 0 &&
         s->rehearsal_s * (s->rehearsals + 1) > share * s->rehearsals))
        return ST_OK;
    size_t had = s->rehearsal.batches.n;
    enum st st = rehearse_round(s->p, s->ex, s->rehearsals, rehearsal_length(s, share), s->stop,
                                &s->rehearsal, e);
    drive_bind(s->drive);
    if (st == ST_INTERRUPTED)
        return interrupted(s, e);
    for (; had < s->rehearsal.batches.n; had++)
        s->rehearsal_s += s->rehearsal.batches.p[had].device_s;
    s->rehearsals++;
    if (st == ST_OK &&
        (s->p->time_budget_s <= 0 || s->yardstick.spent_s <= YARDSTICK_SHARE * s->p->time_budget_s))
        st = yardstick_measure(&s->yardstick, YARDSTICK_SAMPLES, e);
    drive_bind(s->drive);
    return st == ST_OK ? ST_OK : err_add(e, "rehearsal");
}

static enum st sample_grid(struct session *s, struct err *e)
{
    s->drive = drive_new(s->a, s->ex, &s->limits, s->p->model->vocab, s->p->seed);
    yardstick_open(s->a, s->ex, &s->limits, s->p->model->vocab, &s->yardstick);
    drive_bind(s->drive);
    TRY(warm_up(s, e));
    TRY(sample_levels(s, e));
    TRY(rehearse(s, e));
    for (int64_t round = 2; round <= s->p->samples; round++) {
        TRY(sample_round(s, round, e));
        TRY(rehearse(s, e));
    }
    return ST_OK;
}

/* ---- host overhead ------------------------------------------------------------------------- */

static int64_t runs_of(const struct session *s, int64_t batch)
{
    int64_t n = 0;
    for (size_t i = 0; i < s->journal.runs.n; i++)
        n += s->journal.runs.p[i] == batch;
    return n;
}

/* Output tokens per request such that one run at each batch size takes the host's share. */
static int64_t decodes_for_budget(const struct session *s, const int64_t *batches, int n)
{
    if (!(s->p->time_budget_s > 0))
        return HOST_DECODES;
    double pass = 0;
    for (int i = 0; i < n; i++)
        pass += decode_pass_s(s, batches[i]);
    double passes = pass > 0 ? HOST_SHARE * s->p->time_budget_s / pass : 1e9;
    double decodes = passes / 2 - 5; /* a run is two generations and some waiting */
    return decodes < 4 ? 4 : decodes > HOST_DECODES ? HOST_DECODES : (int64_t)decodes;
}

static enum st measure_host(struct session *s, struct err *e)
{
    int64_t batches[64];
    int n = host_batches(s->limits.max_batch, batches);
    int64_t decodes = decodes_for_budget(s, batches, n);
    double budget = HOST_SHARE * s->p->time_budget_s;
    for (int64_t round = 1; round <= HOST_RUNS; round++)
        for (int i = 0; i < n; i++) {
            if (runs_of(s, batches[i]) >= round)
                continue;
            if (round > 1 && budget > 0 && s->host_s >= budget)
                return ST_OK;
            size_t had = s->journal.host.n;
            enum st st = host_measure(s->p, s->ex, batches[i], decodes, s->stop, &s->journal, e);
            if (st == ST_INTERRUPTED)
                return interrupted(s, e);
            if (st != ST_OK)
                return err_add(e, "host overhead at batch size %lld", (long long)batches[i]);
            for (; had < s->journal.host.n; had++)
                s->host_s += s->journal.host.p[had].host_s + s->journal.host.p[had].device_s;
            show_progress(s);
        }
    return ST_OK;
}

/* ---- waking up ----------------------------------------------------------------------------- */

/* Rounds of pauses: WAKE_ROUNDS, or what the budget's share allows, but at least one. Too
 * short to be kept over an interruption. */
static enum st measure_wake(struct session *s, struct err *e)
{
    enum { WAKE_ROUNDS = 8 };
    double share = WAKE_SHARE * s->p->time_budget_s;
    for (int round = 0; round < WAKE_ROUNDS; round++) {
        if (round > 0 && share > 0 && (round + 1) * wake_round_s() > share)
            break;
        enum st st = wake_measure(s->p, s->ex, s->stop, &s->wake, e);
        if (st == ST_INTERRUPTED)
            return interrupted(s, e);
        if (st != ST_OK)
            return err_add(e, "waking up");
        show_progress(s);
    }
    return ST_OK;
}

/* ---- the rehearsal: what its batches say ---------------------------------------------------- */

/* The tables as a bundle of their own, without factors, to predict the rehearsal's batches from. */
static enum st judge_rehearsal(struct session *s, struct profile_result *r, struct err *e)
{
    const struct profile_params *p = s->p;
    const char *root = fs_join(s->a, s->journal.dir, "rehearsal");
    const char *dir =
        arena_printf(s->a, "%s/data/profiling/compute/%s/%s", root, p->hardware, p->model_name);
    struct bundle_key key = {.root = root,
                             .hardware = p->hardware,
                             .model_name = p->model_name,
                             .network_device = p->network_device,
                             .model = p->model,
                             .tp = p->tp,
                             .block_size = p->block_size};
    struct bundle *b;
    TRY(fs_remove_tree(root, e));
    TRY(write_compute(s->a, r, dir, e));
    TRY(bundle_load(s->a, &key, &b, e));
    rehearse_scales(s->a, &s->rehearsal, p->model, b, false, r->decode);
    rehearse_scales(s->a, &s->rehearsal, p->model, b, true, r->prompt);
    double worst = 0;
    for (int k = 0; k < REHEARSAL_CLASSES; k++)
        worst = fmax(worst, fmax(r->decode[k].factor, r->prompt[k].factor));
    if (worst > BUSY)
        log_warn(
            "profile: batches of the rehearsal took %.2f times what was measured of them before: "
            "was the machine busy with something else?",
            worst);
    return fs_remove_tree(root, e);
}

/* ---- the whole ----------------------------------------------------------------------------- */

static enum st publish(struct session *s, const char *dir, const char *host, struct err *e)
{
    const struct contention contention = contention_since(&s->quiet);
    if (contention_share(&contention) > CONTENTION_TOO_MUCH)
        log_warn("profile: the machine was busy with something else: for %.0f %% of the time this "
                 "process needed a core, it had none",
                 100 * contention_share(&contention));
    struct profile_result r = {
        .p = s->p,
        .limits = &s->limits,
        .points = &s->points,
        .journal = &s->journal,
        .wake = &s->wake,
        .level = {s->level[GROUP_DECODE], s->level[GROUP_PROMPT]},
        .measured_s = s->used_s[GROUP_DECODE] + s->used_s[GROUP_PROMPT],
        .contention = contention,
        .yardstick = yardstick_node(s->a, &s->yardstick),
    };
    TRY(judge_rehearsal(s, &r, e));
    TRY(journal_publish(&s->journal, e));
    TRY(write_host(s->a, &r, host, e));
    TRY(write_compute(s->a, &r, dir, e));
    return journal_remove(s->journal.dir, e);
}

static enum st measure(struct session *s, const char *dir, const char *host, struct err *e)
{
    for (int64_t i = 0; i < s->points.n; i++) {
        s->done += (int64_t)s->journal.samples[i].n;
        for (size_t k = 0; k < s->journal.samples[i].n; k++) /* passes that led there not known */
            s->spent_s[i] += sum_of(s->journal.samples[i].p[k].op_s);
        s->used_s[point_group(&s->points.p[i])] += s->spent_s[i];
    }
    bool budget = s->p->time_budget_s > 0;
    progress_begin(&s->progress, "profile", budget ? "s of the time budget" : "samples",
                   budget ? (int64_t)s->p->time_budget_s : s->points.n * s->p->samples);
    s->quiet = contention_mark();
    enum st st = sample_grid(s, e);
    if (st == ST_OK)
        st = measure_host(s, e);
    if (st == ST_OK)
        st = measure_wake(s, e);
    progress_end(&s->progress);
    return st == ST_OK ? publish(s, dir, host, e) : st;
}

static enum st refuse(struct err *e, const char *path)
{
    err_set(e, ST_USAGE, "%s already exists", path);
    return err_hint(e, "a bundle is never overwritten: remove it, or choose another hardware.id= "
                       "or profile.root=");
}

enum st profile_run(struct arena *a, const struct profile_params *p, struct executor ex,
                    const volatile sig_atomic_t *stop, const char **dir, struct err *e)
{
    TRY(check_params(p, ex, e));
    struct session s = {.a = a, .p = p, .ex = ex, .stop = stop, .limits = limits_of(p)};
    const char *network = p->network_device ? p->network_device : p->hardware;
    const char *final =
        arena_printf(a, "%s/data/profiling/compute/%s/%s", p->root, p->hardware, p->model_name);
    const char *host = arena_printf(a, "%s/data/profiling/cpu_overhead/%s/%s/cpu_overheads.csv",
                                    p->root, network, p->model_name);
    const char *partial = arena_printf(a, "%s/.partial/%s/%s", p->root, p->hardware, p->model_name);
    if (fs_exists(final)) {
        struct err ignored = {0};
        if (journal_published(a, partial)) /* killed between the rename and the removal */
            journal_remove(partial, &ignored);
        return refuse(e, final);
    }
    if (fs_exists(host) && !fs_exists(partial))
        return refuse(e, host);
    profile_grid(a, &s.limits, &s.points);
    if (s.points.n == 0)
        return err_set(e, ST_USAGE, "the KV cache of %lld blocks holds no point of the grid",
                       (long long)p->num_blocks);
    s.spent_s = arena_array(a, double, s.points.n);
    char key[HASH_SHA256_HEX + 1];
    resume_key(&s, key);
    TRY(journal_open(a, partial, key, s.points.n, &s.journal, e));
    enum st st =
        fs_exists(host) && !s.journal.publishing ? refuse(e, host) : measure(&s, final, host, e);
    journal_close(&s.journal);
    vec_free(&s.wake.samples);
    rehearsal_free(&s.rehearsal);
    yardstick_free(&s.yardstick);
    *dir = final;
    return st;
}
