#include "compare/ab.h"

#include <math.h>
#include <string.h>

#include "compare/bootstrap.h"
#include "compare/intern.h"
#include "profile/read/reference_ratio.h"

enum { P50, P90 };

const char *ab_call_name(enum ab_call c)
{
    static const char *const names[] = {[AB_UNKNOWN] = "unknown",
                                        [AB_NO_DIFFERENCE] = "no_difference",
                                        [AB_SLOWER] = "slower",
                                        [AB_FASTER] = "faster"};
    return names[c];
}

/* ---- runs ---------------------------------------------------------------------------------- */

static enum st check_params(const struct ab_params *p, struct err *e)
{
    if (p->n < 2 || p->n > AB_MAX_RUNS) {
        err_set(e, ST_USAGE, "runs: %zu given, 2 to %d are compared", p->n, AB_MAX_RUNS);
        return err_hint(e, "runs=[runs/real/a,runs/real/b] holds b against a");
    }
    for (size_t i = 1; i < p->n; i++) {
        for (size_t k = 0; k < i; k++) {
            if (!compare_same_folder(p->dirs[i], p->dirs[k]))
                continue;
            err_set(e, ST_USAGE, "runs: %s and %s are the same run", p->dirs[k], p->dirs[i]);
            return err_hint(e, "a run does not differ from itself: name another one");
        }
    }
    return compare_check_limits(p->pass_percent, p->warn_percent, p->n_spread, e);
}

static const char *type_of(const struct run *r)
{
    const struct node *type = node_find(r->meta, "run_type");
    return type && type->kind == NODE_STR ? type->s.p : "";
}

/* The folder's own name where those differ, else its path. */
static const char *label_of(struct arena *a, const struct ab_params *p, size_t i)
{
    const char *base = fs_base(p->dirs[i]);
    for (size_t k = 0; k < p->n; k++)
        if (k != i && strcmp(fs_base(p->dirs[k]), base) == 0)
            base = p->dirs[i];
    return arena_printf(a, "%c %s", (char)('A' + i), base);
}

static enum st load_runs(struct arena *a, struct ab *x, struct err *e)
{
    for (size_t i = 0; i < x->params.n; i++) {
        struct ab_run *r = &x->runs[i];
        if (run_load(a, x->params.dirs[i], NULL, &r->run, e) != ST_OK)
            return err_add(e, "cannot read runs=%s", x->params.dirs[i]);
        r->key = arena_printf(a, "%c", (char)('a' + i));
        r->name = arena_printf(a, "%c", (char)('A' + i));
        r->label = label_of(a, &x->params, i);
        r->simulated = strcmp(type_of(&r->run), "vidur") == 0;
        r->drift = (double)NAN;
    }
    return ST_OK;
}

/* ---- requests that count ------------------------------------------------------------------- */

/* Whether the second run served the requests of the first, compared over common ids; at least one.
 */
static bool one_workload(const struct run *a, const struct run *b)
{
    size_t both = 0;
    const struct moments moments = align_moments(a, b);
    for (size_t i = 0; i < a->n_requests; i++) {
        const struct run_request *q = &a->requests[i], *r = run_find(b, q->request_id);
        if (!r)
            continue;
        both++;
        if (!align_same_moment(&moments, q, r) || q->num_prefill_tokens != r->num_prefill_tokens ||
            q->num_decode_tokens != r->num_decode_tokens)
            return false;
    }
    return both > 0;
}

/* Tokens of a counted request; 0 = not counted. */
static int64_t tokens_of(const struct run *r, int64_t id)
{
    const struct run_request *q = run_find(r, id);
    if (!q || q->warmup || q->status != RUN_OK)
        return 0;
    return q->num_decode_tokens_actual;
}

/* Output tokens that all runs of the set have of a request; 0 = left out. `only` NULL: A and all
 * paired runs. */
static int64_t common_tokens(const struct ab *x, const struct ab_run *only, int64_t id)
{
    int64_t least = INT64_MAX, most = 0;
    bool can_cut = true;
    for (size_t i = 0; i < x->params.n; i++) {
        const struct ab_run *r = &x->runs[i];
        if (only ? r != only : !r->paired)
            continue;
        int64_t n = tokens_of(&r->run, id);
        least = n < least ? n : least;
        most = n > most ? n : most;
        can_cut = can_cut && r->run.tokens;
    }
    return least == most || can_cut ? least : 0;
}

static struct alignment counted(struct arena *a, const struct ab *x, const struct ab_run *of,
                                const struct ab_run *only)
{
    struct alignment al = {.ids = arena_array(a, int64_t, of->run.n_requests),
                           .max_tokens = arena_array(a, int64_t, of->run.n_requests)};
    for (size_t i = 0; i < of->run.n_requests; i++) {
        int64_t id = of->run.requests[i].request_id, n = common_tokens(x, only, id);
        if (n < 1)
            continue;
        al.ids[al.n] = id;
        al.max_tokens[al.n++] = n;
    }
    return al;
}

/* ---- values with their requests ------------------------------------------------------------ */

static void put(struct ab_run *r, enum metric m, double ns, size_t owner)
{
    struct boot_series *s = &r->series[m];
    s->values[s->n++] = (struct boot_value){ns, (uint32_t)owner};
}

static void put_request(struct ab_run *r, size_t owner, int64_t id, int64_t kept, bool token0)
{
    const struct run_request *q = run_find(&r->run, id);
    const size_t i = (size_t)(q - r->run.requests);
    const struct run_token *t = r->run.tokens ? r->run.tokens + r->run.first_token[i] : NULL;
    int64_t rows = t ? (int64_t)(r->run.first_token[i + 1] - r->run.first_token[i]) : 0;
    int64_t end_ns = q->completion_ns;
    if (kept < q->num_decode_tokens_actual) {
        rows = rows == q->num_decode_tokens_actual ? kept : 0;
        end_ns = rows ? t[rows - 1].token_time_ns : RUN_NONE;
    }
    const bool first = q->first_token_ns != RUN_NONE, end = end_ns != RUN_NONE;
    if (first)
        put(r, METRIC_TTFT, (double)(q->first_token_ns - q->arrival_ns), owner);
    if (end)
        put(r, METRIC_E2E, (double)(end_ns - q->arrival_ns), owner);
    if (first && end && kept > 1)
        put(r, METRIC_TPOT, (double)(end_ns - q->first_token_ns) / (double)(kept - 1), owner);
    if (token0 && rows > 0)
        put(r, METRIC_TOKEN_LATENCY, (double)t[0].token_latency_ns, owner);
    for (int64_t k = 1; k < rows; k++)
        put(r, METRIC_TOKEN_LATENCY, (double)(t[k].token_time_ns - t[k - 1].token_time_ns), owner);
}

/* Orders requests by arrival, so that bootstrap blocks are stretches of time. */
static size_t *by_arrival(struct arena *a, const struct run *r, const struct alignment *al)
{
    struct boot_series order = {arena_array(a, struct boot_value, al->n), al->n};
    size_t *out = arena_array(a, size_t, al->n);
    for (size_t i = 0; i < al->n; i++)
        order.values[i] =
            (struct boot_value){(double)run_find(r, al->ids[i])->arrival_ns, (uint32_t)i};
    boot_sort(&order);
    for (size_t i = 0; i < al->n; i++)
        out[i] = order.values[i].owner;
    return out;
}

static enum st measure(struct arena *a, struct ab_run *r, const struct alignment *al, bool token0,
                       struct err *e)
{
    const struct metrics_params params = align_params(al, token0);
    TRY(metrics_from_run(a, &r->run, &params, &r->metrics, e));
    r->n_requests = al->n;
    r->n_left_out = r->run.n_requests - al->n;
    r->series = arena_array(a, struct boot_series, METRICS);
    for (enum metric m = 0; m < METRICS; m++)
        r->series[m].values = arena_array(a, struct boot_value, r->metrics.of[m].n);
    const size_t *order = by_arrival(a, &r->run, al);
    for (size_t i = 0; i < al->n; i++)
        put_request(r, i, al->ids[order[i]], al->max_tokens[order[i]], token0);
    for (enum metric m = 0; m < METRICS; m++) {
        ASSERT(r->series[m].n == r->metrics.of[m].n);
        boot_sort(&r->series[m]);
    }
    return ST_OK;
}

static enum st measure_runs(struct arena *a, struct ab *x, struct alignment *of_a, struct err *e)
{
    for (size_t i = 0; i < x->params.n; i++)
        x->runs[i].paired = i == 0 || one_workload(&x->runs[0].run, &x->runs[i].run);
    *of_a = counted(a, x, &x->runs[0], NULL);
    if (of_a->n == 0) {
        err_set(e, ST_INPUT, "%s: no request ended well in all runs of its workload",
                x->runs[0].run.dir);
        return err_hint(e, "leave out the run that failed, or look at it with twinfer report");
    }
    for (size_t i = 0; i < x->params.n; i++) {
        struct ab_run *r = &x->runs[i];
        struct alignment al = *of_a;
        if (!r->paired)
            al = counted(a, x, r, r);
        if (al.n == 0)
            return err_set(e, ST_INPUT, "%s: no request ended well", r->run.dir);
        TRY(measure(a, r, &al, x->params.include_token0, e));
    }
    return ST_OK;
}

/* ---- cells --------------------------------------------------------------------------------- */

static double change(const struct series *a, const struct series *b, int p)
{
    if (a->n == 0 || b->n == 0)
        return (double)NAN;
    double was = stats_percentile(a->ns, a->n, compare_percentiles[p]);
    double is = stats_percentile(b->ns, b->n, compare_percentiles[p]);
    return was > 0 ? 100 * (is - was) / was : (double)NAN;
}

static void measure_cells(struct ab *x, struct ab_run *r)
{
    double low[METRICS * COMPARE_PERCENTILES], high[METRICS * COMPARE_PERCENTILES];
    const struct ab_run *a = &x->runs[0];
    const struct boot_params params = {.a_requests = a->n_requests,
                                       .b_requests = r->n_requests,
                                       .paired = r->paired,
                                       .percentiles = compare_percentiles,
                                       .n_percentiles = COMPARE_PERCENTILES};
    int draws = boot_intervals(&params, a->series, r->series, METRICS, low, high);
    x->draws = x->draws == 0 || draws < x->draws ? draws : x->draws;
    for (enum metric m = 0; m < METRICS; m++) {
        for (int p = 0; p < COMPARE_PERCENTILES; p++) {
            struct ab_cell *cell = &r->cells[m][p];
            const int at = (int)m * COMPARE_PERCENTILES + p;
            *cell =
                (struct ab_cell){.change_percent = change(&a->metrics.of[m], &r->metrics.of[m], p),
                                 .low_percent = low[at],
                                 .high_percent = high[at],
                                 .repeat_percent = (double)NAN,
                                 .verdict = VERDICT_NONE};
            if (isnan(cell->low_percent) || isnan(cell->change_percent))
                cell->low_percent = cell->high_percent = (double)NAN;
            else
                cell->call = cell->low_percent > 0    ? AB_SLOWER
                             : cell->high_percent < 0 ? AB_FASTER
                                                      : AB_NO_DIFFERENCE;
        }
    }
}

static enum st measure_repeats(struct arena *a, struct ab *x, const struct alignment *al,
                               struct err *e)
{
    const struct metrics_params params = align_params(al, x->params.include_token0);
    for (size_t k = 0; k < x->params.n_spread; k++) {
        struct run again;
        struct run_metrics m;
        TRY(compare_load_repeat(a, &x->runs[0].run, al, x->params.spread_dirs, k, &again, e));
        TRY(metrics_from_run(a, &again, &params, &m, e));
        for (size_t i = 1; i < x->params.n; i++) {
            for (int at = 0; at < METRICS * COMPARE_PERCENTILES; at++) {
                const int metric = at / COMPARE_PERCENTILES, p = at % COMPARE_PERCENTILES;
                struct ab_cell *cell = &x->runs[i].cells[metric][p];
                double size = fabs(change(&x->runs[0].metrics.of[metric], &m.of[metric], p));
                if (!(cell->repeat_percent >= size))
                    cell->repeat_percent = size;
            }
        }
    }
    return ST_OK;
}

/* ---- gate ---------------------------------------------------------------------------------- */

static double waited(const struct run *r)
{
    struct contention busy = contention_of(r->meta, "contention");
    return contention_worst(&busy);
}

static void hold(struct ab_cell *cell, enum compare_cause cause)
{
    cell->verdict = VERDICT_INCONCLUSIVE;
    cell->causes |= 1u << cause;
}

/* Excuses a slowdown beyond the limit that the machine explains. */
static void excuse(struct ab *x, const struct ab_run *r, struct ab_cell *cell)
{
    if (x->found[CAUSE_WAITED_FOR_CORES].text && waited(&r->run) > CONTENTION_TOO_MUCH)
        hold(cell, CAUSE_WAITED_FOR_CORES);
    if (r->drift > REFERENCE_TOO_MUCH && cell->change_percent <= COMPARE_AMPLIFIED * 100 * r->drift)
        hold(cell, CAUSE_MACHINE_CHANGED);
    if (cell->change_percent <= cell->repeat_percent)
        hold(cell, CAUSE_SPREAD);
}

static void judge(struct ab *x, const struct ab_run *r, struct ab_cell *cell)
{
    const double pass = x->params.pass_percent, warn = x->params.warn_percent;
    if (isnan(cell->change_percent))
        return;
    if (!r->paired)
        hold(cell, CAUSE_WORKLOADS_DIFFER);
    if (cause_late_client_ms(&r->run) >= 0 || cause_late_client_ms(&x->runs[0].run) >= 0)
        hold(cell, CAUSE_CLIENT_LATE);
    if (cell->causes)
        return;
    cell->verdict = cell->high_percent <= pass   ? VERDICT_PASS
                    : cell->high_percent <= warn ? VERDICT_WARN
                                                 : VERDICT_FAIL;
    if (cell->verdict != VERDICT_FAIL)
        return;
    if (!(cell->low_percent > warn))
        hold(cell, CAUSE_INTERVAL);
    excuse(x, r, cell);
}

static void find_causes(struct arena *a, struct ab *x)
{
    char percent[WORDS_MAX];
    for (size_t i = 0; i < x->params.n; i++) {
        const struct ab_run *r = &x->runs[i];
        double ms = cause_late_client_ms(&r->run), share = waited(&r->run);
        struct compare_reason *f = x->found;
        if (ms >= 0 && !f[CAUSE_CLIENT_LATE].text) {
            const char *clause =
                arena_printf(a, "the client of run %s did not keep its schedule", r->name);
            cause_figure(a,
                         cause_found(a, f, CAUSE_CLIENT_LATE, clause,
                                     arena_printf(a, "%s (p99 of the delay %.1f ms)", clause, ms)),
                         "schedule_delay_p99_ms", ms);
        }
        if (!r->paired && !f[CAUSE_WORKLOADS_DIFFER].text) {
            const char *clause = "the runs are not of one workload";
            cause_found(a, f, CAUSE_WORKLOADS_DIFFER, clause,
                        arena_printf(a, "%s: %s has other requests, arrivals or lengths than A",
                                     clause, r->name));
        }
        if (share > CONTENTION_TOO_MUCH && !f[CAUSE_WAITED_FOR_CORES].text) {
            const struct contention busy = contention_of(r->run.meta, "contention");
            const char *clause =
                arena_printf(a, "the machine was busy: %s",
                             cause_waited(a, &busy, arena_printf(a, "run %s", r->name)));
            struct compare_reason *found =
                cause_found(a, f, CAUSE_WAITED_FOR_CORES, clause, clause);
            cause_figure(a, found, "share", share);
            cause_figure(a, found, "limit", CONTENTION_TOO_MUCH);
        }
        if (fabs(r->drift) > REFERENCE_TOO_MUCH && !f[CAUSE_MACHINE_CHANGED].text) {
            const char *clause = arena_printf(a, "the machine itself was %s %s in %s than in A",
                                              words_percent(percent, 100 * fabs(r->drift)),
                                              r->drift > 0 ? "slower" : "faster", r->name);
            struct compare_reason *found = cause_found(a, f, CAUSE_MACHINE_CHANGED, clause, clause);
            cause_figure(a, found, "change_percent", 100 * r->drift);
            cause_figure(a, found, "limit_percent", 100 * REFERENCE_TOO_MUCH);
        }
    }
    if (x->params.n_spread)
        cause_found(a, x->found, CAUSE_SPREAD, "A's own repeats differ by as much",
                    "A's own repeats differ by as much");
    cause_found(a, x->found, CAUSE_INTERVAL, "too few requests to tell",
                arena_printf(a, "the 95 %% interval reaches across the limit of %g %%",
                             x->params.warn_percent));
}

static void judge_runs(struct ab *x)
{
    x->verdict = VERDICT_NONE;
    for (size_t i = 1; x->params.gate == AB_GATE_SLOWER && i < x->params.n; i++) {
        for (enum metric m = 0; m < METRICS; m++) {
            for (int p = 0; p < COMPARE_PERCENTILES; p++) {
                struct ab_cell *cell = &x->runs[i].cells[m][p];
                const bool core = m != METRIC_TOKEN_LATENCY && p <= P90;
                if (!core && (x->params.core_only || isnan(cell->low_percent)))
                    continue;
                judge(x, &x->runs[i], cell);
                if (cell->verdict == VERDICT_NONE)
                    continue;
                if (x->verdict == VERDICT_NONE || cell->verdict > x->verdict)
                    x->verdict = cell->verdict;
                causes_count(x->found, cell->causes, cell->change_percent);
            }
        }
    }
    x->n_reasons = causes_weigh(x->found, x->reasons);
}

/* ---- all of it ----------------------------------------------------------------------------- */

static bool same_times(const struct ab_run *a, const struct ab_run *b)
{
    for (enum metric m = 0; m < METRICS; m++) {
        if (a->series[m].n != b->series[m].n)
            return false;
        if (a->series[m].n &&
            memcmp(a->metrics.of[m].ns, b->metrics.of[m].ns, a->series[m].n * sizeof(double)) != 0)
            return false;
    }
    return true;
}

static const struct curves *curves_of(struct arena *a, const struct ab *x)
{
    const char *names[AB_MAX_RUNS], *keys[AB_MAX_RUNS];
    const struct run *runs[AB_MAX_RUNS];
    const struct run_metrics *metrics[AB_MAX_RUNS];
    for (size_t i = 0; i < x->params.n; i++) {
        names[i] = x->runs[i].label;
        keys[i] = x->runs[i].key;
        runs[i] = &x->runs[i].run;
        metrics[i] = &x->runs[i].metrics;
    }
    struct curves *c = curves_new(a, (int)x->params.n, names, runs, metrics);
    for (size_t i = 0; i < x->params.n; i++)
        c->keys[i] = keys[i];
    return c;
}

enum st ab_compare(struct arena *a, const struct ab_params *p, struct ab *out, struct err *e)
{
    struct alignment al;
    *out = (struct ab){.params = *p};
    TRY(check_params(p, e));
    out->runs = arena_array(a, struct ab_run, p->n);
    TRY(load_runs(a, out, e));
    TRY(measure_runs(a, out, &al, e));
    for (size_t i = 1; i < p->n; i++) {
        struct ab_run *r = &out->runs[i];
        measure_cells(out, r);
        r->same_times = same_times(&out->runs[0], r);
        r->drift = reference_ratio(node_find(r->run.meta, "yardstick"),
                                   node_find(out->runs[0].run.meta, "yardstick")) -
                   1;
    }
    TRY(measure_repeats(a, out, &al, e));
    find_causes(a, out);
    judge_runs(out);
    out->curves = curves_of(a, out);
    ab_tell(a, out);
    return ST_OK;
}
