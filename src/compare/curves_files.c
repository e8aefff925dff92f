/* The tables behind the figures. */
#include <math.h>

#include "base/clock.h"
#include "compare/curves.h"

enum { MAX_COLUMNS = 2 + 2 * CURVES_MAX_RUNS };

/* "metric", "quantile", "<key>_ns" ... */
static int cdf_columns(struct arena *a, const struct curves *c, const char **names)
{
    int n = 0;
    names[n++] = "metric";
    names[n++] = "quantile";
    for (int k = 0; k < c->n_runs; k++)
        names[n++] = arena_printf(a, "%s_ns", c->keys[k]);
    return n;
}

static int time_columns(struct arena *a, const struct curves *c, const char **names)
{
    int n = 0;
    names[n++] = "time_ns";
    for (int k = 0; k < c->n_runs; k++)
        names[n++] = arena_printf(a, "%s_running", c->keys[k]);
    for (int k = 0; k < c->n_runs; k++)
        names[n++] = arena_printf(a, "%s_waiting", c->keys[k]);
    return n;
}

/* ---- writing ------------------------------------------------------------------------------- */

static void put_header(struct csv_writer *w, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        csv_put_str(w, names[i]);
    csv_end_row(w);
}

/* Of two runs, metrics that both have; of more, those of any. */
static bool has_cdf(const struct curves *c, enum metric m)
{
    int n = 0;
    for (int k = 0; k < c->n_runs; k++)
        n += c->of[k].has[m];
    return n > 0 && (c->n_runs > 2 || n == c->n_runs);
}

static void put_cdf(struct csv_writer *w, const struct curves *c)
{
    for (enum metric m = 0; m < METRICS; m++) {
        if (!has_cdf(c, m))
            continue;
        for (int i = 0; i < CURVES_QUANTILES; i++) {
            csv_put_str(w, metric_name(m));
            csv_put_double(w, (double)i / (CURVES_QUANTILES - 1));
            for (int k = 0; k < c->n_runs; k++)
                csv_put_double(w, c->of[k].has[m] ? c->of[k].ns[m][i] : (double)NAN);
            csv_end_row(w);
        }
    }
}

static void put_over_time(struct csv_writer *w, const struct curves *c)
{
    for (int i = 0; i < CURVES_BINS; i++) {
        csv_put_int(w, ns_from_s((i + 0.5) * c->bin_s));
        for (int k = 0; k < c->n_runs; k++)
            csv_put_double(w, c->of[k].has_running ? c->of[k].running[i] : (double)NAN);
        for (int k = 0; k < c->n_runs; k++)
            csv_put_double(w, c->of[k].has_waiting ? c->of[k].waiting[i] : (double)NAN);
        csv_end_row(w);
    }
}

enum st curves_write(const struct artifact *art, const struct curves *c, struct err *e)
{
    const char *names[MAX_COLUMNS];
    struct csv_writer w = {0};
    ASSERT(c->n_runs >= 2);
    TRY(artifact_create_file(art, "tables/cdf.csv", &w.f, e));
    put_header(&w, names, cdf_columns(art->a, c, names));
    put_cdf(&w, c);
    TRY(artifact_close_file(art, "tables/cdf.csv", &w.f, e));
    if (c->bin_s <= 0)
        return ST_OK;
    TRY(artifact_create_file(art, "tables/over_time.csv", &w.f, e));
    put_header(&w, names, time_columns(art->a, c, names));
    put_over_time(&w, c);
    return artifact_close_file(art, "tables/over_time.csv", &w.f, e);
}

/* ---- reading ------------------------------------------------------------------------------- */

static enum st open_table(const char *path, const char *const *names, int n, int *columns,
                          struct csv_reader **r, struct err *e)
{
    TRY(csv_open(r, path, e));
    for (int i = 0; i < n; i++)
        TRY(csv_require(*r, names[i], &columns[i], e));
    return ST_OK;
}

static enum st metric_of(const struct csv_reader *r, int column, enum metric *out, struct err *e)
{
    for (enum metric m = 0; m < METRICS; m++) {
        if (sv_eq(csv_cell(r, column), metric_name(m))) {
            *out = m;
            return ST_OK;
        }
    }
    struct sv s = csv_cell(r, column);
    return csv_err(r, column, e, "no such metric: '%.*s'", s.n < 40 ? (int)s.n : 40, s.p);
}

static enum st read_cdf(struct csv_reader *r, const int *columns, struct curves *c, struct err *e)
{
    int seen[METRICS] = {0};
    enum st st;
    while ((st = csv_next(r, e)) == ST_OK) {
        enum metric m = 0;
        TRY(metric_of(r, columns[0], &m, e));
        if (seen[m] == CURVES_QUANTILES)
            return csv_err(r, columns[0], e, "more than %d rows of %s", CURVES_QUANTILES,
                           metric_name(m));
        seen[m]++;
        for (int k = 0; k < c->n_runs; k++) {
            if (csv_empty(r, columns[2 + k]) && c->n_runs > 2)
                continue;
            TRY(csv_double(r, columns[2 + k], 0, 1e19, &c->of[k].ns[m][seen[m] - 1], e));
            c->of[k].has[m] = seen[m] == CURVES_QUANTILES;
        }
    }
    return st == ST_END ? ST_OK : st;
}

static enum st read_over_time(struct csv_reader *r, const int *columns, struct curves *c,
                              struct err *e)
{
    int n = 0;
    enum st st;
    while ((st = csv_next(r, e)) == ST_OK) {
        int64_t time_ns;
        if (n == CURVES_BINS)
            return csv_err(r, columns[0], e, "more than %d rows", CURVES_BINS);
        TRY(csv_int(r, columns[0], 0, INT64_MAX, &time_ns, e));
        c->bin_s = (double)time_ns / 1e9 / (n + 0.5);
        for (int k = 0; k < c->n_runs; k++) {
            struct run_curves *side = &c->of[k];
            const int running = columns[1 + k], waiting = columns[1 + c->n_runs + k];
            side->has_running = !csv_empty(r, running);
            side->has_waiting = !csv_empty(r, waiting);
            if (side->has_running)
                TRY(csv_double(r, running, 0, 1e12, &side->running[n], e));
            if (side->has_waiting)
                TRY(csv_double(r, waiting, 0, 1e12, &side->waiting[n], e));
        }
        n++;
    }
    for (int k = 0; n < CURVES_BINS && k < c->n_runs; k++)
        c->of[k].has_running = c->of[k].has_waiting = false;
    return st == ST_END ? ST_OK : st;
}

static enum st load_table(const char *path, const char *const *names, int n,
                          enum st (*read)(struct csv_reader *, const int *, struct curves *,
                                          struct err *),
                          struct curves *c, struct err *e)
{
    struct csv_reader *r = NULL;
    int columns[MAX_COLUMNS];
    if (!fs_exists(path))
        return ST_OK;
    enum st st = open_table(path, names, n, columns, &r, e);
    if (st == ST_OK)
        st = read(r, columns, c, e);
    csv_close(&r);
    return st;
}

enum st curves_load_runs(struct arena *a, const char *tables, int n, const char *const *keys,
                         const char *const *run_names, struct curves **out, struct err *e)
{
    const char *names[MAX_COLUMNS];
    struct curves *c = arena_one(a, struct curves);
    ASSERT(n >= 2 && n <= CURVES_MAX_RUNS);
    c->n_runs = n;
    for (int k = 0; k < n; k++) {
        c->keys[k] = keys[k];
        c->names[k] = run_names[k];
    }
    *out = c;
    int columns = cdf_columns(a, c, names);
    TRY(load_table(fs_join(a, tables, "cdf.csv"), names, columns, read_cdf, c, e));
    columns = time_columns(a, c, names);
    return load_table(fs_join(a, tables, "over_time.csv"), names, columns, read_over_time, c, e);
}

enum st curves_load(struct arena *a, const char *tables, struct curves **out, struct err *e)
{
    static const char *const keys[] = {"real", "sim"}, *const names[] = {"real", "simulated"};
    return curves_load_runs(a, tables, 2, keys, names, out, e);
}
