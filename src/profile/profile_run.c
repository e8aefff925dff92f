#include "profile/profile.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "profile/host.h"
#include "profile/power_cap.h"
#include "profile/publish.h"
#include "profile/session.h"
#include "profile/write.h"

/* Shares of the time budget beside those of the grid (sample.c). */
static const double HOST_SHARE = 0.07, WAKE_SHARE = 0.13, CALIBRATION_SHARE = 0.22;
static const double REFERENCE_SHARE = 0.03;
/* Rounds of the calibration run in a budget, shortened to fit; most rounds of a session. */
enum { CALIBRATIONS_IN_BUDGET = 2, CALIBRATIONS = 9 };
enum { PROMPT_TOKENS = 120 }; /* long enough that its time is proportional to its tokens */
enum {
    HOST_RUNS = 3,
    HOST_DECODES = 16,
    HOST_FEWEST_DECODES = 4,
    WAKE_ROUNDS = 8,
    REFERENCE_SAMPLES = 5
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

static enum st check_names(const struct profile_params *p, struct err *e)
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
    return ST_OK;
}

static enum st check_params(const struct profile_params *p, struct executor ex, struct err *e)
{
    TRY(check_names(p, e));
    TRY(model_check_rows(p->model, JOURNAL_ROWS, e));
    if (!(ex.ops->caps & EXEC_OP_TIMES))
        return err_set(e, ST_DEVICE, "executor %s gives no operator times", ex.ops->name);
    return ST_OK;
}

struct grid_limits profile_limits(const struct profile_params *p)
{
    struct grid_limits l = {.max_tokens = p->max_tokens,
                            .max_batch = p->max_batch,
                            .max_kv = p->max_kv,
                            .block_size = p->block_size,
                            .num_blocks = p->num_blocks};
    if (p->model->max_positions > 0 && p->model->max_positions < l.max_kv)
        l.max_kv = p->model->max_positions;
    if (l.max_batch > l.max_tokens)
        l.max_batch = l.max_tokens;
    return l;
}

/* The padded sizes of decode batches; none where the executor does not pad. */
static void find_padded(struct session *s)
{
    const struct executor *x = &s->ex;
    if (!x->ops->padded_rows)
        return;
    int64_t *padded = arena_array(s->a, int64_t, s->limits.max_batch);
    for (int64_t rows = 1; rows <= s->limits.max_batch; rows++) {
        const int64_t to = x->ops->padded_rows(x->self, rows);
        rows = to < s->limits.max_batch ? to : s->limits.max_batch;
        padded[s->limits.n_padded++] = rows;
    }
    s->limits.padded = padded;
}

/* Hash of everything that samples depend on; another key starts anew. */
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
    if (m->experts) /* since rows feed tokens of their own, behind caches that are no prompt's */
        buf_puts(&b, "own tokens, own caches|");
    struct op_list ops;
    model_ops(m, &ops);
    for (int i = 0; m->layered && i < ops.n; i++) /* rows are places in a journal's samples */
        buf_printf(&b, "%s %d %d %lld %lld|", ops.ops[i].name, ops.ops[i].row, ops.ops[i].repeat,
                   (long long)ops.ops[i].m, (long long)ops.ops[i].k);
    if (s->limits.n_padded > 0)
        buf_printf(&b, "unequal|"); /* point_row_kv */
    if (s->ex.ops->caps & EXEC_OP_SPLIT)
        buf_printf(&b, "host first|"); /* measure_loop */
    for (int64_t i = 0; i < s->points.n; i++) {
        const struct point *q = &s->points.p[i];
        buf_printf(&b, "%d %lld %lld %d|", (int)q->kind, (long long)q->x, (long long)q->kv,
                   q->level);
    }
    hash_sha256(b.p, b.n, hex);
    buf_free(&b);
}

/* ---- a session ----------------------------------------------------------------------------- */

bool session_stopped(const struct session *s)
{
    return s->stop && *s->stop;
}

enum st session_interrupted(const struct session *s, struct err *e)
{
    int64_t samples = 0;
    for (int64_t i = 0; i < s->points.n; i++)
        samples += (int64_t)s->journal.samples[i].n;
    err_set(e, ST_INTERRUPTED, "interrupted after %lld samples", (long long)samples);
    return err_hint(e, "they are kept in %s; the same command goes on from there", s->journal.dir);
}

void session_used(struct session *s, double *part, double spent_s)
{
    *part += spent_s;
    s->used_s += spent_s;
    if (s->p->time_budget_s > 0) {
        progress_at(&s->progress, (int64_t)fmin(s->used_s, s->p->time_budget_s), NULL);
        return;
    }
    int64_t samples = 0;
    for (int64_t i = 0; i < s->points.n; i++)
        samples += s->journal.now[i].samples;
    progress_at(&s->progress, samples < s->progress.total ? samples : s->progress.total, NULL);
}

/* ---- the calibration run ------------------------------------------------------------------- */

/* The parts of a round for `length`; returns their estimated seconds. */
static double calibration_parts(const struct session *s, double length,
                                struct calibration_part parts[CALIBRATION_SETTINGS])
{
    double round_s = 0, part_s;
    const double token_s = sample_prompt_token_s(s, PROMPT_TOKENS);
    const struct calibration_setting *sets = calibration_settings_of(calibration_is_deep(&s->ex));
    for (int i = 0; i < CALIBRATION_SETTINGS; i++) {
        const struct calibration_setting *set = &sets[i];
        parts[i] =
            calibration_part(set, length, sample_decode_s(s, set->sequences), token_s, &part_s);
        round_s += set->sequences <= s->limits.max_batch ? part_s : 0;
    }
    return round_s;
}

/* Chooses the length so that a round takes that many seconds (0 = no budget: full length). */
static void calibration_fit(const struct session *s, double seconds,
                            struct calibration_part parts[CALIBRATION_SETTINGS])
{
    double low = 0, high = 1;
    if (calibration_parts(s, high, parts) <= seconds || seconds <= 0)
        return;
    for (int i = 0; i < 20; i++) {
        const double length = (low + high) / 2;
        if (calibration_parts(s, length, parts) <= seconds)
            low = length;
        else
            high = length;
    }
    calibration_parts(s, low, parts);
}

static int rows_of_session(const struct session *s, char kind)
{
    size_t at = s->journal.session_rows;
    int n, rows = 0;
    while (journal_next(&s->journal, kind, &at, &n))
        rows++;
    return rows;
}

static enum st measure_reference(struct session *s, struct err *e)
{
    const double budget = s->p->time_budget_s;
    if (budget > 0 && s->reference.spent_s > REFERENCE_SHARE * budget)
        return ST_OK;
    size_t had[REFERENCE_POINTS];
    for (int i = 0; i < REFERENCE_POINTS; i++)
        had[i] = s->reference.pass_s[i].n;
    double ignored = 0, before = s->reference.spent_s;
    enum st st = reference_measure(&s->reference, REFERENCE_SAMPLES, e);
    drive_bind(s->drive);
    for (int i = 0; i < REFERENCE_POINTS; i++)
        for (; st == ST_OK && had[i] < s->reference.pass_s[i].n; had[i]++)
            st = journal_row(&s->journal, 'y', (double[]){i, s->reference.pass_s[i].p[had[i]]}, 2,
                             e);
    session_used(s, &ignored, s->reference.spent_s - before);
    return st;
}

/* One round of the calibration run, unless the session had `round` of them, up to CALIBRATIONS in a
 * session and, after the first, as far as the budget's share goes: *more is false when that is used
 * up. */
static enum st calibrate(struct session *s, int64_t round, bool *more, struct err *e)
{
    const int done = rows_of_session(s, 'q');
    const double share =
        (s->p->calibration_only ? 1 - REFERENCE_SHARE : CALIBRATION_SHARE) * s->p->time_budget_s;
    *more = done < CALIBRATIONS &&
            !(done > 0 && share > 0 && s->calibration_s * (done + 1) > share * done);
    if (!*more || done >= round)
        return ST_OK;
    struct calibration_part parts[CALIBRATION_SETTINGS];
    calibration_fit(s, s->p->calibration_only ? share : share / CALIBRATIONS_IN_BUDGET, parts);
    struct calibration r = {0};
    enum st st =
        calibration_round(s->p, s->ex, journal_rows(&s->journal, 'q'), parts, s->stop, &r, e);
    drive_bind(s->drive);
    double spent_s = 0;
    for (size_t i = 0; i < r.batches.n; i++)
        spent_s += r.batches.p[i].device_s;
    if (st == ST_OK)
        st = calibration_keep(&r, 0, spent_s, &s->journal, e);
    calibration_free(&r);
    if (st == ST_INTERRUPTED)
        return session_interrupted(s, e);
    session_used(s, &s->calibration_s, spent_s);
    return st == ST_OK ? ST_OK : err_add(e, "calibration run");
}

/* Once in a session, behind the grid's first visits: kernels are found by then. */
static enum st measure_power_cap(struct session *s, struct err *e)
{
    if (!(s->ex.ops->caps & EXEC_OP_SPLIT) || s->p->calibration_only || rows_of_session(s, 'u'))
        return ST_OK;
    double ignored = 0, spent_s;
    enum st st = power_cap_measure(s, &spent_s, e);
    if (st == ST_INTERRUPTED)
        return session_interrupted(s, e);
    if (st != ST_OK)
        return err_add(e, "trains for the power cap");
    session_used(s, &ignored, spent_s);
    return ST_OK;
}

/* The rounds of the calibration run that come before anything is recorded. */
static enum st calibrate_first(struct session *s, struct err *e)
{
    bool more = true;
    drive_bind(s->drive);
    for (int64_t round = 1; round <= s->p->samples && more; round++)
        TRY(calibrate(s, round, &more, e));
    return ST_OK;
}

/* Rounds over the grid, each with the reference passes behind it and, where `calibrates`, a round
 * of the calibration run, so that a busy period of the machine affects few of each. */
static enum st sample_grid(struct session *s, bool calibrates, struct err *e)
{
    bool more = calibrates;
    int64_t visited = !s->p->calibration_only;
    drive_bind(s->drive);
    TRY(sample_warm_up(s, e));
    TRY(sample_levels(s, e));
    TRY(measure_power_cap(s, e));
    for (int64_t round = 1; round <= s->p->samples && (round == 1 || visited || more); round++) {
        if (round > 1 && !s->p->calibration_only)
            TRY(sample_round(s, round, &visited, e));
        if (calibrates)
            TRY(calibrate(s, round, &more, e));
        if (round <= CALIBRATIONS)
            TRY(measure_reference(s, e));
    }
    return ST_OK;
}

/* ---- host overhead ------------------------------------------------------------------------- */

static int64_t runs_of(const struct session *s, int64_t batch)
{
    int64_t n = 0;
    for (size_t i = s->journal.session_runs; i < s->journal.runs.n; i++)
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
        pass += sample_decode_s(s, batches[i]);
    double passes = pass > 0 ? HOST_SHARE * s->p->time_budget_s / pass : 1e9;
    double decodes = passes / 2 - 5; /* a run is two generations of requests and some waiting */
    return decodes < HOST_FEWEST_DECODES ? HOST_FEWEST_DECODES
           : decodes > HOST_DECODES      ? HOST_DECODES
                                         : (int64_t)decodes;
}

/* j NULL: the iterations are not kept. */
static enum st host_at(const struct session *s, int64_t batch, int64_t decodes, struct journal *j,
                       struct err *e)
{
    enum st st = host_measure(s->p, s->ex, batch, decodes, s->stop, j, e);
    if (st == ST_INTERRUPTED)
        return session_interrupted(s, e);
    return st == ST_OK ? st : err_add(e, "host overhead at batch size %lld", (long long)batch);
}

/* first: nothing has run yet. A run of each size is not kept then: an engine finds its matrix
 * kernels in it. */
static enum st measure_host(struct session *s, bool first, struct err *e)
{
    int64_t batches[64];
    int n = host_batches(s->limits.max_batch, batches);
    int64_t decodes = decodes_for_budget(s, batches, n);
    double budget = HOST_SHARE * s->p->time_budget_s;
    for (int i = 0; i < n && first; i++)
        TRY(host_at(s, batches[i], HOST_FEWEST_DECODES, NULL, e));
    for (int64_t round = 1; round <= HOST_RUNS; round++)
        for (int i = 0; i < n; i++) {
            if (runs_of(s, batches[i]) >= round)
                continue;
            if (round > 1 && budget > 0 && s->host_s >= budget)
                return ST_OK;
            size_t had = s->journal.host.n;
            TRY(host_at(s, batches[i], decodes, &s->journal, e));
            double spent_s = 0;
            for (; had < s->journal.host.n; had++)
                spent_s += s->journal.host.p[had].host_s + s->journal.host.p[had].device_s;
            session_used(s, &s->host_s, spent_s);
        }
    return ST_OK;
}

/* ---- waking up ----------------------------------------------------------------------------- */

/* Rounds of pauses: WAKE_ROUNDS a session, or what the budget's share allows, but at least one. */
static enum st measure_wake(struct session *s, struct err *e)
{
    double share = WAKE_SHARE * s->p->time_budget_s;
    for (int round = rows_of_session(s, 'w') / WAKE_LEVELS; round < WAKE_ROUNDS; round++) {
        if (round > 0 && share > 0 && (round + 1) * wake_round_s() > share)
            break;
        struct wake w = {0};
        enum st st = wake_measure(s->p, s->ex, s->stop, &w, e);
        if (st == ST_OK)
            st = wake_keep(&w, 0, &s->journal, e);
        vec_free(&w.samples);
        if (st == ST_INTERRUPTED)
            return session_interrupted(s, e);
        if (st != ST_OK)
            return err_add(e, "waking up");
        session_used(s, &s->wake_s, wake_round_s());
    }
    return ST_OK;
}

/* What the serving loop adds. Before all else, as the calibration run, where kernels are recorded,
 * which an executor with EXEC_OP_SPLIT does: its launches take longer from the first recorded pass
 * on (gpu/records.h). Otherwise last, as the passes by then say how much the budget holds. */
static enum st measure_loop(struct session *s, bool first, struct err *e)
{
    if (s->p->calibration_only)
        return ST_OK;
    TRY(measure_host(s, first, e));
    return measure_wake(s, e);
}

/* ---- the whole ----------------------------------------------------------------------------- */

/* Restores counts of this session from before an interruption. */
static void resume(struct session *s)
{
    int n;
    for (int64_t i = 0; i < s->points.n; i++)
        s->group_s[point_group(&s->points.p[i])] += s->journal.now[i].spent_s;
    size_t at = s->journal.session_rows;
    for (const double *v; (v = journal_next(&s->journal, 'q', &at, &n));)
        s->calibration_s += v[0];
    for (int g = 0; g < POINT_GROUPS; g++)
        s->used_s += s->group_s[g];
    s->used_s += s->calibration_s;
}

/* What else was measured is in the journal already. */
static enum st measure_power(struct session *s, struct err *e)
{
    if (power_measure(s, s->p->meter, s->p->energy_budget_s, e) == ST_OK)
        return ST_OK;
    if (e->st == ST_INTERRUPTED)
        return e->st;
    return err_add(e,
                   "energy of operators; their times are kept in %s: the same command goes on "
                   "with the energy, and without profile.energy=true writes the bundle",
                   s->journal.dir);
}

static double number(double v)
{
    return isnan(v) ? -1 : v;
}

static enum st measure(struct session *s, const char *dir, const char *host, struct err *e)
{
    const bool budget = s->p->time_budget_s > 0;
    const int64_t began_ns = clock_mono_ns();
    const struct contention_mark quiet = contention_mark();
    if (!journal_rows(&s->journal, 'n') || (s->extends && rows_of_session(s, 'c')))
        TRY(journal_row(&s->journal, 'n', (double[]){(double)clock_wall_ns() / 1e9}, 1, e));
    resume(s);
    if (budget)
        log_info("profile: takes about %.0f s (profile.time_budget_s; 0 = the whole grid)",
                 s->p->time_budget_s);
    progress_begin(&s->progress, "profile", budget ? "s of the time budget" : "samples",
                   budget ? (int64_t)ceil(s->p->time_budget_s) : s->points.n * s->p->samples);
    const bool loop_first = s->ex.ops->caps & EXEC_OP_SPLIT;
    s->drive = drive_new(s->a, s->ex, &s->limits, s->p->model->vocab, s->p->seed);
    reference_open(s->a, s->ex, &s->limits, s->p->model->vocab, &s->reference);
    enum st st = loop_first ? measure_loop(s, true, e) : ST_OK;
    if (st == ST_OK && loop_first)
        st = calibrate_first(s, e);
    if (st == ST_OK)
        st = sample_grid(s, !loop_first, e);
    if (st == ST_OK && !loop_first)
        st = measure_loop(s, false, e);
    progress_end(&s->progress);
    if (st == ST_OK && s->p->meter)
        st = measure_power(s, e);
    TRY(st);
    struct contention c = contention_since(&quiet);
    if (s->p->clock->is_virtual) /* no real times */
        c = (struct contention){(double)NAN, (double)NAN, (double)NAN};
    if (contention_share(&c) > CONTENTION_TOO_MUCH)
        log_warn("profile: the machine was busy with something else: for %.0f %% of the time this "
                 "process needed a core, it had none",
                 100 * contention_share(&c));
    TRY(journal_row(&s->journal, 'c',
                    (double[]){ns_to_s(clock_mono_ns() - began_ns), number(c.waiting),
                               number(c.stolen), number(c.pressure)},
                    4, e));
    return session_publish(s, dir, host, e);
}

static enum st refuse(struct err *e, const char *path)
{
    err_set(e, ST_USAGE, "%s already exists", path);
    return err_hint(e, "a bundle is never overwritten: remove it, choose another hardware.id= or "
                       "profile.root=, or measure more into it with profile.extend=true");
}

/* Copies the journal of the bundle to the partial folder, unless one is there. */
static enum st take_up(struct session *s, const char *final, const char *partial, struct err *e)
{
    const char *samples = fs_join(s->a, final, PROFILE_SAMPLES);
    const char *journal = fs_join(s->a, partial, "journal.txt");
    struct sv text;
    if (journal_published(s->a, partial))
        TRY(fs_remove_tree(partial, e));
    if (fs_exists(journal))
        return ST_OK;
    if (!fs_exists(samples)) {
        err_set(e, ST_USAGE, "%s has no %s: it cannot be extended", final, PROFILE_SAMPLES);
        return err_hint(e, "bundles keep their samples since they can be extended; profile anew");
    }
    TRY(journal_text(s->a, samples, &text, e));
    TRY(fs_mkdirs(partial, e));
    return fs_write_atomic(journal, text.p, text.n, e);
}

struct places {
    const char *final, *host, *partial;
    bool extends;
};

static struct places places_of(struct arena *a, const struct profile_params *p)
{
    const char *network = p->network_device ? p->network_device : p->hardware;
    struct places out = {
        .final =
            arena_printf(a, "%s/data/profiling/compute/%s/%s", p->root, p->hardware, p->model_name),
        .host = arena_printf(a, "%s/data/profiling/cpu_overhead/%s/%s/cpu_overheads.csv", p->root,
                             network, p->model_name),
        .partial = arena_printf(a, "%s/.partial/%s/%s", p->root, p->hardware, p->model_name)};
    out.extends = p->extend && fs_exists(out.final);
    return out;
}

/* What is there already allows this call. */
static enum st check_places(struct arena *a, const struct profile_params *p, const struct places *x,
                            struct err *e)
{
    if (fs_exists(x->final) && !x->extends) {
        struct err ignored = {0};
        if (journal_published(a, x->partial)) /* killed between the rename and the removal */
            journal_remove(x->partial, &ignored);
        return refuse(e, x->final);
    }
    if (p->calibration_only && !x->extends) {
        err_set(e, ST_USAGE, "profile.measure=calibration: there is no bundle %s to extend",
                x->final);
        return err_hint(e, "profile with profile.measure=all first, then with profile.extend=true");
    }
    if (fs_exists(x->host) && !x->extends && !fs_exists(x->partial))
        return refuse(e, x->host);
    return ST_OK;
}

enum st profile_check_place(struct arena *a, const struct profile_params *p, struct err *e)
{
    TRY(check_names(p, e));
    const struct places x = places_of(a, p);
    TRY(check_places(a, p, &x, e));
    if (fs_exists(x.partial))
        return ST_OK;
    char *up = arena_str(a, x.partial); /* up to here it is there */
    for (char *slash; !fs_exists(up) && (slash = strrchr(up, '/')) && slash > up;)
        *slash = 0;
    const size_t there = fs_exists(up) ? strlen(up) : 0;
    const enum st st = fs_mkdirs(x.partial, e);
    char *made = arena_str(a, x.partial);
    while (strlen(made) > there && (rmdir(made) == 0 || errno == ENOENT)) {
        char *slash = strrchr(made, '/');
        *(slash ? slash : made) = 0;
    }
    return st;
}

enum st profile_run(struct arena *a, const struct profile_params *p, struct executor ex,
                    const volatile sig_atomic_t *stop, const char **dir, struct err *e)
{
    TRY(check_params(p, ex, e));
    struct session s = {.a = a, .p = p, .ex = ex, .stop = stop, .limits = profile_limits(p)};
    const struct places x = places_of(a, p);
    const char *final = x.final, *host = x.host, *partial = x.partial;
    s.extends = x.extends;
    TRY(check_places(a, p, &x, e));
    find_padded(&s);
    profile_grid(a, &s.limits, &s.points);
    if (s.points.n == 0)
        return err_set(e, ST_USAGE, "the KV cache of %lld blocks holds no point of the grid",
                       (long long)p->num_blocks);
    char key[HASH_SHA256_HEX + 1];
    resume_key(&s, key);
    if (s.extends)
        TRY(take_up(&s, final, partial, e));
    TRY(journal_open(a, partial, key, s.points.n, &s.journal, e));
    enum st st;
    if (s.extends && !journal_rows(&s.journal, 'n')) {
        err_set(e, ST_USAGE, "%s was measured with another model, grid, device or setting", final);
        st = err_hint(e, "profile.extend=true measures more of the same: use the settings in its "
                         "bundle_meta.json");
        struct err ignored = {0};
        journal_remove(partial, &ignored);
    } else if (fs_exists(host) && !s.extends && !s.journal.publishing) {
        st = refuse(e, host);
    } else {
        st = measure(&s, final, host, e);
    }
    journal_close(&s.journal);
    reference_free(&s.reference);
    *dir = final;
    return st;
}
