/* The tables behind the figures. */
#include <math.h>

#include "base/clock.h"
#include "compare/curves.h"

static const char *const cdf_columns[] = {"metric", "quantile", "real_ns", "sim_ns"};
static const char *const time_columns[] = {"time_ns", "real_running", "sim_running", "real_waiting",
                                           "sim_waiting"};
enum { CDF_COLUMNS = 4, TIME_COLUMNS = 5, RUN_COLUMN = 1, WAIT_COLUMN = 3 };

/* ---- writing ------------------------------------------------------------------------------- */

static void put_header(struct csv_writer *w, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        csv_put_str(w, names[i]);
    csv_end_row(w);
}

static void put_cdf(struct csv_writer *w, const struct curves *c)
{
    put_header(w, cdf_columns, CDF_COLUMNS);
    for (enum metric m = 0; m < METRICS; m++) {
        if (!c->of[0].has[m] || !c->of[1].has[m])
            continue;
        for (int i = 0; i < CURVES_QUANTILES; i++) {
            csv_put_str(w, metric_name(m));
            csv_put_double(w, (double)i / (CURVES_QUANTILES - 1));
            csv_put_double(w, c->of[0].ns[m][i]);
            csv_put_double(w, c->of[1].ns[m][i]);
            csv_end_row(w);
        }
    }
}

static void put_over_time(struct csv_writer *w, const struct curves *c)
{
    put_header(w, time_columns, TIME_COLUMNS);
    for (int i = 0; i < CURVES_BINS; i++) {
        csv_put_int(w, ns_from_s((i + 0.5) * c->bin_s));
        for (int k = 0; k < 2; k++)
            csv_put_double(w, c->of[k].has_running ? c->of[k].running[i] : (double)NAN);
        for (int k = 0; k < 2; k++)
            csv_put_double(w, c->of[k].has_waiting ? c->of[k].waiting[i] : (double)NAN);
        csv_end_row(w);
    }
}

enum st curves_write(const struct artifact *art, const struct curves *c, struct err *e)
{
    ASSERT(c->n_runs == 2);
    struct csv_writer w = {0};
    TRY(artifact_create_file(art, "tables/cdf.csv", &w.f, e));
    put_cdf(&w, c);
    TRY(artifact_close_file(art, "tables/cdf.csv", &w.f, e));
    if (c->bin_s <= 0)
        return ST_OK;
    TRY(artifact_create_file(art, "tables/over_time.csv", &w.f, e));
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
        for (int k = 0; k < 2; k++)
            TRY(csv_double(r, columns[2 + k], 0, 1e19, &c->of[k].ns[m][seen[m]], e));
        if (++seen[m] == CURVES_QUANTILES)
            c->of[0].has[m] = c->of[1].has[m] = true;
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
        for (int k = 0; k < 2; k++) {
            struct run_curves *side = &c->of[k];
            side->has_running = !csv_empty(r, columns[RUN_COLUMN + k]);
            side->has_waiting = !csv_empty(r, columns[WAIT_COLUMN + k]);
            if (side->has_running)
                TRY(csv_double(r, columns[RUN_COLUMN + k], 0, 1e12, &side->running[n], e));
            if (side->has_waiting)
                TRY(csv_double(r, columns[WAIT_COLUMN + k], 0, 1e12, &side->waiting[n], e));
        }
        n++;
    }
    if (n < CURVES_BINS)
        c->of[0].has_running = c->of[0].has_waiting = false;
    return st == ST_END ? ST_OK : st;
}

static enum st load_table(const char *path, const char *const *names, int n,
                          enum st (*read)(struct csv_reader *, const int *, struct curves *,
                                          struct err *),
                          struct curves *c, struct err *e)
{
    struct csv_reader *r = NULL;
    int columns[TIME_COLUMNS];
    if (!fs_exists(path))
        return ST_OK;
    enum st st = open_table(path, names, n, columns, &r, e);
    if (st == ST_OK)
        st = read(r, columns, c, e);
    csv_close(&r);
    return st;
}

enum st curves_load(struct arena *a, const char *tables, struct curves **out, struct err *e)
{
    struct curves *c = arena_one(a, struct curves);
    *c = (struct curves){.n_runs = 2, .names = {"real", "simulated"}};
    *out = c;
    TRY(load_table(fs_join(a, tables, "cdf.csv"), cdf_columns, CDF_COLUMNS, read_cdf, c, e));
    return load_table(fs_join(a, tables, "over_time.csv"), time_columns, TIME_COLUMNS,
                      read_over_time, c, e);
}
