#include "compare/compare.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "compare/intern.h"
#include "profile/read/yardstick_ratio.h"
#include "text/json.h"

void note(struct notes *n, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vec_push(&n->v, arena_vprintf(n->a, fmt, ap));
    va_end(ap);
}

static enum st check_params(const struct compare_params *p, struct err *e)
{
    if (p->n_spread > COMPARE_MAX_SPREAD)
        return err_set(e, ST_USAGE, "spread: %zu runs given, at most %d are taken", p->n_spread,
                       COMPARE_MAX_SPREAD);
    if (p->pass_percent > p->warn_percent)
        return err_set(e, ST_USAGE,
                       "compare.pass_percent (%g) must not be above compare.warn_percent (%g)",
                       p->pass_percent, p->warn_percent);
    return ST_OK;
}

static enum st load_run(struct arena *a, const char *dir, const char *what, struct run *out,
                        struct err *e)
{
    if (!dir)
        return err_set(e, ST_USAGE, "%s is not set", what);
    return run_load(a, dir, NULL, out, e) == ST_OK ? ST_OK
                                                   : err_add(e, "cannot read %s=%s", what, dir);
}

static bool same_folder(const char *x, const char *y)
{
    struct stat sx, sy;
    return stat(x, &sx) == 0 && stat(y, &sy) == 0 && sx.st_dev == sy.st_dev &&
           sx.st_ino == sy.st_ino;
}

/* A run counted twice would make the spread look smaller than it is. */
static enum st check_spread_is_new(const struct compare_params *p, size_t i, struct err *e)
{
    const char *dir = p->spread_dirs[i], *before = p->real_dir;
    for (size_t k = 0; k < i && !same_folder(dir, before); k++)
        before = p->spread_dirs[k];
    if (!same_folder(dir, before))
        return ST_OK;
    err_set(e, ST_USAGE, "spread: %s is %s", dir,
            before == p->real_dir ? "the real run itself" : "given twice");
    return err_hint(e, "spread= takes further real runs: repeat=1, repeat=2 of the first");
}

/* A repeat has the real run's model, engine and scheduler; else the spread would hide what they
 * change. */
static enum st check_spread_is_a_repeat(struct arena *a, const struct comparison *c,
                                        const struct run *r, struct err *e)
{
    static const char *const same[] = {"params.model", "params.engine", "params.scheduler",
                                       "params.cluster", "params.parallel"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        const struct node *want = node_path(c->real.meta, same[i]),
                          *got = node_path(r->meta, same[i]);
        if (!want || !got)
            continue;
        struct buf x = {0}, y = {0};
        json_write(&x, want, 0, true);
        json_write(&y, got, 0, true);
        const bool equal = strcmp(buf_str(&x), buf_str(&y)) == 0;
        const char *is = arena_str(a, buf_str(&y)), *was = arena_str(a, buf_str(&x));
        buf_free(&x);
        buf_free(&y);
        if (equal)
            continue;
        err_set(e, ST_INPUT, "%s: not a repeat of %s: %s is %.300s, there %.300s", r->dir,
                c->real.dir, same[i] + strlen("params."), is, was);
        return err_hint(e, "spread= takes more real runs of the very same workload and settings");
    }
    return ST_OK;
}

/* p99 of the schedule delay in ms where bench rejected the run because of it; negative elsewhere.
 */
static double late_client_ms(const struct run *r)
{
    const struct node *verdict = node_path(r->meta, "client.verdict");
    const struct node *client = node_find(r->meta, "client");
    struct err ignored = {0};
    double ms = 0;
    if (!verdict || verdict->kind != NODE_STR || !sv_eq(verdict->s, "rejected"))
        return -1;
    (void)node_get_double(client, "schedule_delay_p99_ms", 0, 1e12, &ms, &ignored);
    return ms;
}

static enum st check_spread_client(const struct run *r, struct err *e)
{
    double ms = late_client_ms(r);
    if (ms < 0)
        return ST_OK;
    err_set(e, ST_INPUT, "%s: its client did not keep its schedule (p99 of the delay %.1f ms)",
            r->dir, ms);
    return err_hint(e, "its latencies are the client's too: leave it out of spread=");
}

static void find_late_clients(struct arena *a, struct comparison *c, struct notes *notes)
{
    const struct {
        const struct run *run;
        const char *what;
    } sides[] = {{&c->real, "the real run"}, {&c->sim, "the simulated run"}};
    for (size_t i = 0; i < 2; i++) {
        double ms = late_client_ms(sides[i].run);
        if (ms < 0)
            continue;
        if (!c->late_client)
            c->late_client =
                arena_printf(a, "the client of %s did not keep its schedule", sides[i].what);
        note(notes,
             "The client of %s did not keep its schedule: p99 of the delay is %.1f ms. Its "
             "latencies are the client's too, and nothing is concluded from them.",
             sides[i].what, ms);
    }
}

static enum st load_spread(struct arena *a, struct comparison *c, const struct alignment *al,
                           struct run_metrics *out, struct err *e)
{
    const struct metrics_params params = align_params(al, c->params.include_token0);
    for (size_t i = 0; i < c->params.n_spread; i++) {
        struct run r;
        TRY(check_spread_is_new(&c->params, i, e));
        TRY(load_run(a, c->params.spread_dirs[i], "spread", &r, e));
        TRY(align_check_spread(c, al, &r, e));
        TRY(check_spread_is_a_repeat(a, c, &r, e));
        TRY(check_spread_client(&r, e));
        path_repeat(c, al, &r);
        TRY(metrics_from_run(a, &r, &params, &out[i], e));
    }
    return ST_OK;
}

static void tell_samples(const struct comparison *c, struct notes *notes)
{
    if (c->n_aligned < 20)
        note(notes, "Only %zu request%s: P90 rests on one or two of them.", c->n_aligned,
             c->n_aligned == 1 ? "" : "s");
    const struct run *runs[] = {&c->real, &c->sim};
    for (int i = 0; i < 2; i++) {
        if (!runs[i]->tokens)
            note(notes, "%s has no token_metrics.csv: per-token latency is not compared.",
                 runs[i]->dir);
        if (runs[i]->n_contradictions)
            note(notes, "%s: %zu cells contradict the times they follow from; the times count.",
                 runs[i]->dir, runs[i]->n_contradictions);
    }
    if (c->params.n_spread == 0)
        note(notes, "No spread runs: how much the real side varies from run to run is unknown. "
                    "Add them with spread=DIR,DIR.");
}

static void tell_host_time(const struct comparison *c, struct notes *notes)
{
    const struct node *n = node_find(c->sim.meta, "host_overhead");
    if (n && n->kind == NODE_BOOL && !n->b)
        note(notes, "The simulation has no host time per iteration (its profile has none, or "
                    "sim.host_overhead=false): its times are device times alone.");
}

/* How much of the simulation rests on times beyond the profiled grid. */
static void tell_extrapolation(const struct comparison *c, struct notes *notes)
{
    int64_t all = 0, outside = 0;
    const struct node *counters = node_find(c->sim.meta, "counters");
    const struct node *n = node_find(counters, "extrapolated_lookups");
    const struct node *of = node_find(counters, "lookups");
    if (n && n->kind == NODE_INT)
        outside = n->i;
    if (of && of->kind == NODE_INT)
        all = of->i;
    if (outside > 0 && all >= outside)
        note(notes,
             "%.3g %% of the simulation's look-ups (%lld of %lld) fell outside the profiled grid "
             "and were extrapolated.",
             100 * (double)outside / (double)all, (long long)outside, (long long)all);
}

/* A busy machine makes real runs and profiles slow; the simulation cannot know. */
static void find_disturbance(struct arena *a, struct comparison *c, struct notes *notes)
{
    const struct {
        const struct run *run;
        const char *key, *what;
    } sides[] = {{&c->real, "contention", "the real run"},
                 {&c->sim, "contention", "the simulated run"},
                 {&c->sim, "profile_contention", "the profile behind the simulated run"}};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        struct contention busy = contention_of(sides[i].run->meta, sides[i].key);
        char percent[WORDS_MAX];
        words_percent(percent, 100 * contention_share(&busy));
        if (!(contention_share(&busy) > CONTENTION_TOO_MUCH))
            continue;
        if (!c->disturbed)
            c->disturbed =
                arena_printf(a, "the machine was busy: %s waited for cores %s of the time",
                             sides[i].what, percent);
        note(notes, "The machine was busy with something else: %s waited for cores %s of the time.",
             sides[i].what, percent);
    }
}

static void find_drift(struct comparison *c, struct notes *notes)
{
    const struct node *now = node_path(c->real.meta, "yardstick");
    const struct node *then = node_path(c->sim.meta, "profile_yardstick");
    const char *what = "while it was profiled";
    if (!then) {
        then = node_path(c->sim.meta, "yardstick");
        what = "in the other run";
    }
    c->drift = yardstick_ratio(now, then) - 1;
    if (!(fabs(c->drift) > YARDSTICK_TOO_MUCH))
        return;
    char percent[WORDS_MAX];
    note(notes,
         "The machine itself was %s %s in the real run than %s (the same passes, timed both "
         "times).",
         words_percent(percent, 100 * fabs(c->drift)), c->drift > 0 ? "slower" : "faster", what);
}

enum st compare_runs(struct arena *a, const struct compare_params *p, struct comparison *out,
                     struct err *e)
{
    *out = (struct comparison){.params = *p};
    TRY(check_params(p, e));
    TRY(load_run(a, p->real_dir, "real_run_dir", &out->real, e));
    TRY(load_run(a, p->sim_dir, "sim_run_dir", &out->sim, e));
    TRY(compare_doubt_read(a, out->sim.dir, &out->doubt, e));
    for (int k = 0; p->include_token0 && k < COMPARE_PERCENTILES; k++) /* the file leaves it out */
        out->doubt.low[METRIC_TOKEN_LATENCY][k] = out->doubt.high[METRIC_TOKEN_LATENCY][k] =
            (double)NAN;

    struct notes notes = {.a = a};
    struct alignment al;
    TRY(align_runs(a, out, &al, &notes, e));
    const struct metrics_params params = align_params(&al, p->include_token0);
    enum st st = metrics_from_run(a, &out->real, &params, &out->real_metrics, e);
    if (st == ST_OK)
        st = metrics_from_run(a, &out->sim, &params, &out->sim_metrics, e);
    if (st == ST_OK)
        path_find(a, out, &al);
    struct run_metrics *spread = arena_array(a, struct run_metrics, p->n_spread);
    if (st == ST_OK)
        st = load_spread(a, out, &al, spread, e);
    if (st == ST_OK) {
        find_late_clients(a, out, &notes);
        find_disturbance(a, out, &notes);
        path_tell(a, out);
        find_drift(out, &notes);
        judge_cells(a, out, spread);
        diagnose(a, out, &al);
        out->curves =
            curves_new(a, 2, (const char *const[]){"real", "simulated"},
                       (const struct run *const[]){&out->real, &out->sim},
                       (const struct run_metrics *const[]){&out->real_metrics, &out->sim_metrics});
        tell_samples(out, &notes);
        tell_host_time(out, &notes);
        tell_extrapolation(out, &notes);
        out->notes = arena_copy(a, notes.v.p, notes.v.n * sizeof *notes.v.p);
        out->n_notes = notes.v.n;
    }
    vec_free(&notes.v);
    return st;
}
