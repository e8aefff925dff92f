#include "profile/publish.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "profile/power_cap.h"
#include "profile/write.h"

static const double BUSY = 1.3;

/* ---- judging the calibration run ------------------------------------------------------------ */

/* Writes the tables as a temporary bundle without factors, to predict the batches from. */
static enum st judge_calibration(struct session *s, struct profile_result *r, struct err *e)
{
    const struct profile_params *p = s->p;
    const char *root = fs_join(s->a, s->journal.dir, "rehearsal");
    const char *dir =
        arena_printf(s->a, "%s/data/profiling/compute/%s/%s", root, p->hardware, p->model_name);
    struct bundle_key key = {.root = root, /* no network: it has compute tables alone */
                             .hardware = p->hardware,
                             .model_name = p->model_name,
                             .model = p->model,
                             .tp = p->tp,
                             .block_size = p->block_size};
    struct bundle *b;
    TRY(fs_remove_tree(root, e));
    TRY(write_compute(s->a, r, dir, e));
    TRY(bundle_load(s->a, &key, &b, e));
    struct calibration all = {.deep = calibration_is_deep(&s->ex)};
    calibration_load(&s->journal, &all);
    calibration_predict(s->a, &all, p->model, b);
    calibration_find_waiting(&all, calibration_launch_s(s->a, &all));
    calibration_fit_beside(s->a, &all, p->model, b, &r->decode_beside);
    for (int kind = 0; kind < CALIBRATION_KINDS; kind++)
        calibration_scales(s->a, &all, (enum calibration_kind)kind, r->scale[kind]);
    calibration_rests(&all, r->scale, &r->rests);
    calibration_free(&all);
    static const enum calibration_kind told[] = {CALIBRATION_DECODE, CALIBRATION_PROMPT,
                                                 CALIBRATION_MIXED};
    double worst = 0;
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        for (int k = 0; k < CALIBRATION_CLASSES; k++)
            worst = fmax(worst, r->scale[told[i]][k].factor);
    if (worst > BUSY)
        log_warn("profile: batches of the calibration run took %.2f times what was measured of "
                 "them before: was the machine busy with something else?",
                 worst);
    return fs_remove_tree(root, e);
}

/* ---- sessions ------------------------------------------------------------------------------- */

/* Collects the reference passes of a journal's lines from `from` to `to`. */
static void reference_rows(const struct journal *j, size_t from, size_t to, struct reference *out)
{
    int n;
    *out = (struct reference){0};
    for (const double *v; from < to && (v = journal_next(j, 'y', &from, &n)) && from <= to;)
        if (n == 2 && v[0] >= 0 && v[0] < REFERENCE_POINTS)
            vec_push(&out->pass_s[(int)v[0]], v[1]);
}

static double known(double v)
{
    return v < 0 ? (double)NAN : v;
}

/* Of a row 'c' of n numbers. */
static struct contention contention_from(const double *v, int n)
{
    return (struct contention){known(v[1]), known(v[2]), n > 3 ? known(v[3]) : (double)NAN};
}

/* {at, seconds, used, contention, yardstick} of the session with the lines from .. to. */
static struct node *session_node(struct session *s, size_t from, size_t to, bool used)
{
    const struct journal *j = &s->journal;
    struct node *map = node_new(s->a, NODE_MAP);
    char at[CLOCK_ISO_MAX];
    int n;
    size_t row = from;
    const double *v = journal_next(j, 'n', &row, &n);
    clock_iso8601((int64_t)(v[0] * 1e9), at);
    node_set(s->a, map, SV("at"), node_str(s->a, arena_str(s->a, at)));
    node_set(s->a, map, SV("used"), node_bool(s->a, used));
    row = from;
    v = journal_next(j, 'c', &row, &n);
    if (v && row <= to) {
        const struct contention c = contention_from(v, n);
        node_set(s->a, map, SV("seconds"), node_float(s->a, v[0]));
        node_set(s->a, map, SV("contention"), fields_node(s->a, &contention_fields, &c));
    }
    struct reference y;
    reference_rows(j, from, to, &y);
    struct node *passes = reference_node(s->a, &y);
    reference_free(&y);
    if (passes)
        node_set(s->a, map, SV("yardstick"), passes);
    return map;
}

static bool contended(const struct journal *j, const struct journal_row *row)
{
    const struct contention all = contention_from(j->numbers.p + row->first, row->n);
    return contention_share(&all) > CONTENTION_TOO_MUCH;
}

/* Selects sessions: those with a busy machine are used only if all were busy. used [sessions]. */
static int choose_sessions(struct session *s, bool **used)
{
    const struct journal *j = &s->journal;
    const int sessions = journal_rows(j, 'n');
    int at = 0, clean = sessions;
    *used = arena_array(s->a, bool, sessions);
    for (int i = 0; i < sessions; i++)
        (*used)[i] = true;
    for (size_t i = 0; i < j->rows.n; i++) {
        at += j->rows.p[i].kind == 'n';
        if (j->rows.p[i].kind != 'c' || at == 0 || !(*used)[at - 1] || !contended(j, &j->rows.p[i]))
            continue;
        (*used)[at - 1] = false;
        clean--;
    }
    for (int i = 0; i < sessions && clean == 0; i++)
        (*used)[i] = true;
    return sessions;
}

static struct node *sessions_node(struct session *s, const bool *used)
{
    int at = 0;
    struct node *list = node_new(s->a, NODE_LIST);
    const struct journal *j = &s->journal;
    for (size_t i = 0; i < j->rows.n; i++) {
        if (j->rows.p[i].kind != 'n')
            continue;
        size_t end = i + 1;
        while (end < j->rows.n && j->rows.p[end].kind != 'n')
            end++;
        node_push(s->a, list, session_node(s, i, end, used[at++]));
    }
    return list;
}

/* Mean over the used sessions, weighted by length; unknown where one is unknown. */
static struct contention contention_of_all(const struct journal *j, const bool *used)
{
    struct contention all = {0};
    double seconds = 0;
    int at = 0;
    for (size_t i = 0; i < j->rows.n; i++) {
        at += j->rows.p[i].kind == 'n';
        if (j->rows.p[i].kind != 'c' || !used[at - 1])
            continue;
        const double *v = j->numbers.p + j->rows.p[i].first;
        const struct contention c = contention_from(v, j->rows.p[i].n);
        all.waiting += v[0] * c.waiting;
        all.stolen += v[0] * c.stolen;
        all.pressure += v[0] * c.pressure;
        seconds += v[0];
    }
    return seconds > 0 ? (struct contention){all.waiting / seconds, all.stolen / seconds,
                                             all.pressure / seconds}
                       : (struct contention){(double)NAN, (double)NAN, (double)NAN};
}

/* Moves the extended bundle aside while the new one is written, and back if that fails. */
static enum st replace_compute(struct session *s, const struct profile_result *r, const char *dir,
                               struct err *e)
{
    const char *old = fs_join(s->a, s->journal.dir, "replaced");
    const bool had = fs_exists(dir);
    TRY(fs_remove_tree(old, e));
    if (had && rename(dir, old) != 0)
        return err_errno(e, false, "cannot move %s", dir);
    enum st st = write_compute(s->a, r, dir, e);
    if (st != ST_OK && had)
        (void)rename(old, dir);
    return st;
}

enum st session_publish(struct session *s, const char *dir, const char *host, struct err *e)
{
    struct wake wake = {0};
    struct reference passes;
    bool *used;
    const int sessions = choose_sessions(s, &used);
    struct node *told = sessions_node(s, used);
    for (int i = 0; i < sessions; i++)
        if (!used[i])
            journal_leave_out(&s->journal, i + 1);
    wake_load(&s->journal, &wake);
    reference_rows(&s->journal, 0, s->journal.rows.n, &passes);
    int64_t left_out = 0;
    for (int64_t i = 0; i < s->points.n; i++)
        left_out += s->points.p[i].level == 0 && s->journal.samples[i].n == 0;
    struct profile_result r = {
        .p = s->p,
        .limits = &s->limits,
        .points = &s->points,
        .journal = &s->journal,
        .wake = &wake,
        .level = {s->level[GROUP_DECODE], s->level[GROUP_PROMPT]},
        .left_out = left_out,
        .split = s->ex.ops->caps & EXEC_OP_SPLIT,
        .overlaps = calibration_is_deep(&s->ex),
        .rejected = s->rejected,
        .facts = s->ex.ops->facts ? s->ex.ops->facts(s->ex.self, s->a) : NULL,
        .measured_s = s->group_s[GROUP_DECODE] + s->group_s[GROUP_PROMPT],
        .contention = contention_of_all(&s->journal, used),
        .sessions = told,
        .reference = reference_node(s->a, &passes),
    };
    struct bundle_power_cap cap;
    if (power_cap_fit(s->a, &s->journal, &cap))
        r.power_cap = &cap;
    if (r.power_cap && cap.held)
        log_info("profile: the power limit lowers the clock: prompts of %lld tokens take %.1f ms "
                 "rested and %.1f ms one after the other",
                 (long long)cap.rows[cap.n_rows - 1].tokens,
                 cap.rows[cap.n_rows - 1].rested_s * 1e3,
                 cap.rows[cap.n_rows - 1].sustained_s * 1e3);
    struct power_table power;
    struct op_list *ops = arena_one(s->a, struct op_list);
    profile_ops(&r, ops);
    if (power_load(s->a, &s->journal, ops, &power))
        r.power = &power;
    enum st st = judge_calibration(s, &r, e);
    if (st == ST_OK)
        st = journal_publish(&s->journal, e);
    if (st == ST_OK)
        st = write_host(s->a, &r, host, e);
    if (st == ST_OK)
        st = replace_compute(s, &r, dir, e);
    vec_free(&wake.samples);
    vec_free(&r.rests.of);
    reference_free(&passes);
    return st == ST_OK ? journal_remove(s->journal.dir, e) : st;
}
