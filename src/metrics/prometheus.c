/* What a server's counters and histograms grew between two snapshots. */
#include "metrics/prometheus.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

/* ---- series -------------------------------------------------------------------------------- */

static const struct sv *label_of(const struct prom_sample *x, const char *name)
{
    for (uint32_t i = 0; i < x->n_labels; i++)
        if (sv_eq(x->labels[i].name, name))
            return &x->labels[i].value;
    return NULL;
}

static bool is_chosen(const struct prom_sample *x, struct prom_where where)
{
    for (size_t i = 0; i < where.n; i++) {
        const struct prom_label *want = &where.labels[i];
        bool has = false;
        for (uint32_t k = 0; k < x->n_labels && !has; k++) {
            const struct prom_label *l = &x->labels[k];
            has = l->name.n == want->name.n && l->value.n == want->value.n &&
                  memcmp(l->name.p, want->name.p, l->name.n) == 0 &&
                  memcmp(l->value.p, want->value.p, l->value.n) == 0;
        }
        if (!has)
            return false;
    }
    return true;
}

/* The same series of the other snapshot; NULL = it has none. */
static const struct prom_sample *twin(const struct prom_snapshot *s, const struct prom_sample *x)
{
    const struct map_entry *entry = s ? map_find(&s->series, x->key.p, x->key.n) : NULL;
    return entry ? &s->of[entry->i] : NULL;
}

bool prom_has(const struct prom_snapshot *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (sv_eq(s->of[i].name, name))
            return true;
    return false;
}

static enum st fault(const struct prom_snapshot *s, const struct prom_sample *x, struct err *e,
                     const char *what)
{
    return err_at(e, ST_INPUT, s->source, x->line, 1, "%.*s: %s", (int)x->name.n, x->name.p, what);
}

static enum st refuse_reset(const char *name, const char *why, struct err *e)
{
    err_set(e, ST_REJECTED, "%s: %s", name, why);
    return err_hint(e, "the server was restarted in between: its metrics do not cover the run");
}

/* ---- growth -------------------------------------------------------------------------------- */

/* Moments of beginning that changed: of the process, and of this family, whose name is n bytes. */
static enum st check_beginning(struct arena *a, const struct prom_snapshot *before,
                               const struct prom_snapshot *after, const char *family, size_t n,
                               struct err *e)
{
    const char *created = arena_printf(a, "%.*s_created", (int)n, family);
    for (size_t i = 0; before && i < after->n; i++) {
        const struct prom_sample *x = &after->of[i], *was;
        if (!sv_eq(x->name, created) && !sv_eq(x->name, "process_start_time_seconds"))
            continue;
        was = twin(before, x);
        if (was && was->value != x->value) /* bit for bit: it is no measurement */
            return refuse_reset(arena_strn(a, x->name.p, x->name.n), "it changed", e);
    }
    return ST_OK;
}

/* What a series grew. */
static enum st growth(struct arena *a, const struct prom_snapshot *before,
                      const struct prom_snapshot *after, const struct prom_sample *x, double *out,
                      struct err *e)
{
    const struct prom_sample *was = twin(before, x);
    *out = x->value;
    if (!(x->value >= 0) || isinf(x->value))
        return fault(after, x, e, "expected a value of 0 or more");
    if (!was)
        return ST_OK;
    if (!(was->value >= 0) || isinf(was->value))
        return fault(before, was, e, "expected a value of 0 or more");
    *out = x->value - was->value;
    return *out >= 0
               ? ST_OK
               : refuse_reset(arena_strn(a, x->name.p, x->name.n),
                              arena_printf(a, "it fell from %.15g to %.15g", was->value, x->value),
                              e);
}

/* No series of that name may have gone. */
static enum st check_kept(const struct prom_snapshot *before, const struct prom_snapshot *after,
                          const char *name, struct prom_where where, struct err *e)
{
    for (size_t i = 0; before && i < before->n; i++) {
        const struct prom_sample *x = &before->of[i];
        if (sv_eq(x->name, name) && is_chosen(x, where) && !twin(after, x))
            return refuse_reset(name, "a series of it is not there any more", e);
    }
    return ST_OK;
}

/* Sum of what all series of a sample grew; NAN = there is none. */
static enum st sum_growth(struct arena *a, const struct prom_snapshot *before,
                          const struct prom_snapshot *after, const char *name,
                          struct prom_where where, double *out, struct err *e)
{
    *out = (double)NAN;
    TRY(check_kept(before, after, name, where, e));
    for (size_t i = 0; i < after->n; i++) {
        const struct prom_sample *x = &after->of[i];
        double grew;
        if (!sv_eq(x->name, name) || !is_chosen(x, where))
            continue;
        TRY(growth(a, before, after, x, &grew, e));
        *out = isnan(*out) ? grew : *out + grew;
    }
    return ST_OK;
}

static size_t family_length(const char *name)
{
    static const char total[] = "_total";
    const size_t n = strlen(name), k = strlen(total);
    return n > k && strcmp(name + n - k, total) == 0 ? n - k : n;
}

enum st prom_counter(struct arena *a, const struct prom_snapshot *before,
                     const struct prom_snapshot *after, const char *name, struct prom_where where,
                     double *out, struct err *e)
{
    *out = (double)NAN;
    TRY(check_beginning(a, before, after, name, family_length(name), e));
    return sum_growth(a, before, after, name, where, out, e);
}

/* ---- histograms ---------------------------------------------------------------------------- */

struct edge_row {
    const char *series; /* labels but for the edge */
    double le, value;
    const struct prom_sample *is;
};

static const char *series_of(struct arena *a, const struct prom_sample *x)
{
    const char *text = "";
    for (uint32_t i = 0; i < x->n_labels; i++)
        if (!sv_eq(x->labels[i].name, "le"))
            text = arena_printf(a, "%s%zu=%.*s,%zu=%.*s;", text, x->labels[i].name.n,
                                (int)x->labels[i].name.n, x->labels[i].name.p, x->labels[i].value.n,
                                (int)x->labels[i].value.n, x->labels[i].value.p);
    return text;
}

static enum st read_edge(const struct prom_snapshot *s, const struct prom_sample *x, double *le,
                         struct err *e)
{
    const struct sv *text = label_of(x, "le");
    if (!text)
        return fault(s, x, e, "it has no label le");
    *le = (double)INFINITY;
    if (sv_eq(*text, "+Inf") || sv_eq(*text, "Inf") || str_double(*text, le))
        return ST_OK;
    return fault(s, x, e, "its label le is no number");
}

static int by_series(const void *x, const void *y)
{
    const struct edge_row *a = x, *b = y;
    const int order = strcmp(a->series, b->series);
    if (order)
        return order;
    return a->le != b->le ? (a->le > b->le) - (a->le < b->le)
                          : (a->is->line > b->is->line) - (a->is->line < b->is->line);
}

typedef VEC(struct edge_row) edge_rows;

static enum st collect(struct arena *a, const struct prom_snapshot *before,
                       const struct prom_snapshot *after, const char *name, struct prom_where where,
                       edge_rows *rows, struct err *e)
{
    for (size_t i = 0; i < after->n; i++) {
        struct edge_row row = {.is = &after->of[i]};
        if (!sv_eq(row.is->name, name) || !is_chosen(row.is, where))
            continue;
        TRY(read_edge(after, row.is, &row.le, e));
        TRY(growth(a, before, after, row.is, &row.value, e));
        row.series = series_of(a, row.is);
        vec_push(rows, row);
    }
    if (rows->n)
        qsort(rows->p, rows->n, sizeof *rows->p, by_series);
    return check_kept(before, after, name, where, e);
}

/* One series of n rows, whose edges must be those of the first series. */
static enum st add_series(const struct prom_snapshot *s, const struct edge_row *row, size_t n,
                          struct prom_histogram *h, struct err *e)
{
    for (size_t i = 1; i < n; i++) {
        if (row[i].le == row[i - 1].le)
            return fault(s, row[i].is, e, "an edge is there twice");
        if (row[i].value < row[i - 1].value)
            return fault(s, row[i].is, e, "its buckets do not rise");
    }
    if (!isinf(row[n - 1].le))
        return fault(s, row[n - 1].is, e, "it has no bucket at +Inf");
    for (size_t i = 0; i < n; i++) {
        if (n != h->n || row[i].le != h->le[i])
            return fault(s, row[i].is, e, "its series have different edges");
        h->at_most[i] += row[i].value;
    }
    return ST_OK;
}

static enum st sum_series(struct arena *a, const struct prom_snapshot *s, const edge_rows *rows,
                          struct prom_histogram *h, struct err *e)
{
    for (size_t from = 0, to; from < rows->n; from = to) {
        for (to = from; to < rows->n && strcmp(rows->p[to].series, rows->p[from].series) == 0;)
            to++;
        if (h->n == 0) {
            h->n = to - from;
            h->le = arena_array(a, double, h->n);
            h->at_most = arena_array(a, double, h->n);
            for (size_t i = 0; i < h->n; i++)
                h->le[i] = rows->p[from + i].le;
        }
        TRY(add_series(s, &rows->p[from], to - from, h, e));
    }
    return ST_OK;
}

static enum st check_kind(const struct prom_snapshot *s, const char *name, struct err *e)
{
    const struct map_entry *kind = map_find(&s->types, name, strlen(name));
    if (!kind || strcmp(kind->p, "histogram") == 0)
        return ST_OK;
    return err_set(e, ST_INPUT, "%s: %s is a %s, expected a histogram", s->source, name,
                   (const char *)kind->p);
}

static enum st add_totals(struct arena *a, const struct prom_snapshot *before,
                          const struct prom_snapshot *after, struct prom_where where,
                          struct prom_histogram *h, struct err *e)
{
    const char *count = arena_printf(a, "%s_count", h->name);
    const char *sum = arena_printf(a, "%s_sum", h->name);
    TRY(sum_growth(a, before, after, count, where, &h->count, e));
    TRY(sum_growth(a, before, after, sum, where, &h->sum, e));
    if (isnan(h->count) || isnan(h->sum))
        return err_set(e, ST_INPUT, "%s: %s is missing", after->source,
                       isnan(h->count) ? count : sum);
    if (h->count != h->at_most[h->n - 1])
        return err_set(e, ST_INPUT, "%s: %s is %.15g, and the bucket at +Inf %.15g", after->source,
                       count, h->count, h->at_most[h->n - 1]);
    return ST_OK;
}

enum st prom_histogram(struct arena *a, const struct prom_snapshot *before,
                       const struct prom_snapshot *after, const char *name, struct prom_where where,
                       struct prom_histogram *out, struct err *e)
{
    const char *bucket = arena_printf(a, "%s_bucket", name);
    edge_rows rows = {0};
    *out = (struct prom_histogram){.name = arena_str(a, name)};
    TRY(check_kind(after, name, e));
    TRY(check_beginning(a, before, after, name, strlen(name), e));
    enum st st = collect(a, before, after, bucket, where, &rows, e);
    if (st == ST_OK)
        st = sum_series(a, after, &rows, out, e);
    vec_free(&rows);
    return st != ST_OK || out->n == 0 ? st : add_totals(a, before, after, where, out, e);
}

double prom_mean(const struct prom_histogram *h)
{
    return h->n && h->count > 0 ? h->sum / h->count : (double)NAN;
}

/* The bucket of the order statistic k, from 0. */
static size_t bucket_holding(const struct prom_histogram *h, double k)
{
    size_t i = 0;
    while (i + 1 < h->n && !(h->at_most[i] > k))
        i++;
    return i;
}

bool prom_quantile(const struct prom_histogram *h, double q, struct prom_bracket *out)
{
    if (h->n == 0 || !(h->count > 0))
        return false;
    const double rank = q * (h->count - 1);
    const size_t low = bucket_holding(h, floor(rank));
    const double below_first = h->le[0] > 0 ? 0 : -(double)INFINITY;
    out->low = low ? h->le[low - 1] : below_first;
    out->high = h->le[bucket_holding(h, ceil(rank))];
    return true;
}
