#include "compare/compare.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "compare/intern.h"
#include "text/json.h"

enum st compare_check_limits(double pass_percent, double warn_percent, size_t n_spread,
                             struct err *e)
{
    if (n_spread > COMPARE_MAX_SPREAD)
        return err_set(e, ST_USAGE, "spread: %zu runs given, at most %d are taken", n_spread,
                       COMPARE_MAX_SPREAD);
    if (pass_percent > warn_percent)
        return err_set(e, ST_USAGE,
                       "compare.pass_percent (%g) must not be above compare.warn_percent (%g)",
                       pass_percent, warn_percent);
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

bool compare_same_folder(const char *x, const char *y)
{
    struct stat sx, sy;
    return stat(x, &sx) == 0 && stat(y, &sy) == 0 && sx.st_dev == sy.st_dev &&
           sx.st_ino == sy.st_ino;
}

/* Refuses a run given twice: it would make the spread too small. */
static enum st check_spread_is_new(const struct run *real, const char *const *dirs, size_t i,
                                   struct err *e)
{
    const char *dir = dirs[i], *before = real->dir;
    for (size_t k = 0; k < i && !compare_same_folder(dir, before); k++)
        before = dirs[k];
    if (!compare_same_folder(dir, before))
        return ST_OK;
    err_set(e, ST_USAGE, "spread: %s is %s", dir,
            before == real->dir ? "the real run itself" : "given twice");
    return err_hint(e, "spread= takes further real runs: repeat=1, repeat=2 of the first");
}

/* Refuses a repeat with another model, engine or scheduler than the real run: the spread would
 * include their effect. */
static enum st check_spread_is_a_repeat(struct arena *a, const struct run *real,
                                        const struct run *r, struct err *e)
{
    static const char *const same[] = {"params.model", "params.engine", "params.scheduler",
                                       "params.cluster", "params.parallel"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        const struct node *want = node_path(real->meta, same[i]),
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
                real->dir, same[i] + strlen("params."), is, was);
        return err_hint(e, "spread= takes more real runs of the very same workload and settings");
    }
    return ST_OK;
}

static enum st check_spread_client(const struct run *r, struct err *e)
{
    double ms = cause_late_client_ms(r);
    if (ms < 0)
        return ST_OK;
    err_set(e, ST_INPUT, "%s: its client did not keep its schedule (p99 of the delay %.1f ms)",
            r->dir, ms);
    return err_hint(e, "its latencies are the client's too: leave it out of spread=");
}

enum st compare_load_repeat(struct arena *a, const struct run *of, const struct alignment *al,
                            const char *const *dirs, size_t i, struct run *out, struct err *e)
{
    TRY(check_spread_is_new(of, dirs, i, e));
    TRY(load_run(a, dirs[i], "spread", out, e));
    TRY(align_check_spread(of, al, out, e));
    TRY(check_spread_is_a_repeat(a, of, out, e));
    return check_spread_client(out, e);
}

static enum st load_spread(struct arena *a, struct comparison *c, const struct alignment *al,
                           struct run_metrics *out, struct err *e)
{
    const struct metrics_params params = align_params(al, c->params.include_token0);
    const struct node **meta = arena_array(a, const struct node *, c->params.n_spread);
    c->spread_meta = meta;
    for (size_t i = 0; i < c->params.n_spread; i++) {
        struct run r;
        TRY(compare_load_repeat(a, &c->real, al, c->params.spread_dirs, i, &r, e));
        meta[i] = r.meta;
        compare_path_repeat(c, al, &r);
        TRY(metrics_from_run(a, &r, &params, &out[i], e));
    }
    return ST_OK;
}

static void tell_samples(const struct comparison *c, struct notes *notes)
{
    if (c->n_aligned < 20)
        compare_note(notes, "Only %zu request%s: P90 rests on one or two of them.", c->n_aligned,
                     c->n_aligned == 1 ? "" : "s");
    const struct run *runs[] = {&c->real, &c->sim};
    for (int i = 0; i < 2; i++) {
        if (!runs[i]->tokens)
            compare_note(notes, "%s has no token_metrics.csv: per-token latency is not compared.",
                         runs[i]->dir);
        if (runs[i]->n_contradictions)
            compare_note(notes,
                         "%s: %zu cells contradict the times they follow from; the times count.",
                         runs[i]->dir, runs[i]->n_contradictions);
    }
    if (c->params.n_spread == 0)
        compare_note(notes,
                     "No spread runs: how much the real side varies from run to run is unknown. "
                     "Add them with spread=DIR,DIR.");
    else
        compare_note(
            notes, "Real percentiles are the means of %zu runs; curves and batch times are of %s.",
            c->params.n_spread + 1, c->real.dir);
    if (c->uncertainty.uneven)
        compare_note(
            notes,
            "Simulated percentiles are the means of its replicas, in which batches differ as "
            "those of the calibration run did; curves and batch times are of the run "
            "without.");
}

static void tell_calibration(const struct comparison *c, struct notes *notes)
{
    const struct node *n = node_find(c->sim.meta, "uncalibrated");
    if (n && n->kind == NODE_BOOL && n->b)
        compare_note(notes, "The simulation is uncalibrated: no measurement stands behind its "
                            "times.");
}

static void tell_host_time(const struct comparison *c, struct notes *notes)
{
    const struct node *n = node_find(c->sim.meta, "host_overhead");
    if (n && n->kind == NODE_BOOL && !n->b)
        compare_note(notes,
                     "The simulation has no host time per iteration (its profile has none, or "
                     "sim.host_overhead=false): its times are device times alone.");
}

/* Notes the share of the simulation that rests on times beyond the profiled grid. */
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
        compare_note(
            notes,
            "%.3g %% of the simulation's look-ups (%lld of %lld) fell outside the profiled grid "
            "and were extrapolated.",
            100 * (double)outside / (double)all, (long long)outside, (long long)all);
}

enum st compare_runs(struct arena *a, const struct compare_params *p, struct comparison *out,
                     struct err *e)
{
    *out = (struct comparison){.params = *p};
    TRY(compare_check_limits(p->pass_percent, p->warn_percent, p->n_spread, e));
    TRY(load_run(a, p->real_dir, "real_run_dir", &out->real, e));
    TRY(load_run(a, p->sim_dir, "sim_run_dir", &out->sim, e));
    TRY(compare_uncertainty_read(a, out->sim.dir, &out->uncertainty, e));
    for (int k = 0; p->include_token0 && k < COMPARE_PERCENTILES; k++) { /* not in the file */
        out->uncertainty.low[METRIC_TOKEN_LATENCY][k] =
            out->uncertainty.high[METRIC_TOKEN_LATENCY][k] = (double)NAN;
        out->uncertainty.mean[METRIC_TOKEN_LATENCY][k] = 1;
    }

    struct notes notes = {.a = a};
    struct alignment al;
    TRY(compare_take_log(a, out, &notes, e));
    TRY(align_runs(a, out, &al, &notes, e));
    const struct metrics_params params = align_params(&al, p->include_token0);
    enum st st = metrics_from_run(a, &out->real, &params, &out->real_metrics, e);
    if (st == ST_OK)
        st = metrics_from_run(a, &out->sim, &params, &out->sim_metrics, e);
    if (st == ST_OK)
        compare_path_find(a, out, &al);
    struct run_metrics *spread = arena_array(a, struct run_metrics, p->n_spread);
    if (st == ST_OK)
        st = load_spread(a, out, &al, spread, e);
    if (st == ST_OK) {
        causes_find(a, out, &notes);
        compare_path_tell(a, out);
        if (!out->path.is)
            compare_energy_find(a, out);
        compare_judge(a, out, spread);
        compare_diagnose(a, out, &al);
        out->curves =
            curves_new(a, 2, (const char *const[]){"real", "simulated"},
                       (const struct run *const[]){&out->real, &out->sim},
                       (const struct run_metrics *const[]){&out->real_metrics, &out->sim_metrics});
        compare_saturated_tell(out, &notes);
        tell_samples(out, &notes);
        tell_calibration(out, &notes);
        tell_host_time(out, &notes);
        tell_extrapolation(out, &notes);
        st = compare_tell_server_log(a, out, &notes, e);
        if (st == ST_OK)
            st = compare_tell_first_tokens(a, out, &notes, e);
    }
    out->n_notes = compare_notes_end(&notes, &out->notes);
    return st;
}
