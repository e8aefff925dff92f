#include "profile/read/iterations.h"

#include <math.h>
#include <stdlib.h>

#include "base/fs.h"
#include "base/order.h"
#include "base/rng.h"
#include "base/vec.h"
#include "profile/read/filter.h"
#include "profile/read/fit.h"

enum { COORDINATES = 4, FEATURES = 5, TIMES = 3, TESTED = 512 };

/* Distances below this, in logarithms, are as good as none: a tenth of a doubling. */
static const double NEAR = 0.07;

struct factor_row {
    struct iterations_batch b;
    double z[COORDINATES];
    double s[TIMES]; /* host, device, launch */
    double ratio[TIMES];
};

/* Batches with, or without prefill chunks. */
struct kind_fit {
    struct factor_row *rows;
    int64_t n;
    double theta[TIMES][FEATURES];
    double low[COORDINATES], high[COORDINATES];
};

struct iterations {
    struct kind_fit decodes, prompts;
    struct holdout error;
};

/* ---- reading --------------------------------------------------------------------------------- */

struct factor_rows {
    struct factor_row *p;
    size_t n, cap;
};

static void place(struct factor_row *r)
{
    const struct iterations_batch *b = &r->b;
    r->z[0] = log1p(b->chunk_tokens);
    r->z[1] = b->chunk_tokens > 0 ? log1p(b->chunk_context / b->chunk_tokens) : 0;
    r->z[2] = log1p(b->decode_sequences);
    r->z[3] = b->decode_sequences > 0 ? log1p(b->decode_kv_tokens / b->decode_sequences) : 0;
}

static const char *const columns[] = {"chunk_tokens",     "chunk_context", "decode_sequences",
                                      "decode_kv_tokens", "host_ns",       "device_ns"};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* launch: its column; -1 = none. */
static enum st read_row(const struct csv_reader *r, const int column[COLUMNS], int launch,
                        struct factor_row *out, struct err *e)
{
    static const double most[COLUMNS] = {1e9, 1e18, 1e9, 1e15, 1e15, 1e15};
    double v[COLUMNS], launch_ns = 0;
    for (int i = 0; i < COLUMNS; i++)
        TRY(csv_double(r, column[i], 0, most[i], &v[i], e));
    if (launch >= 0)
        TRY(csv_double(r, launch, 0, v[4], &launch_ns, e));
    *out = (struct factor_row){.b = {v[0], v[1], v[2], v[3]},
                               .s = {v[4] / 1e9, v[5] / 1e9, launch_ns / 1e9}};
    if (v[0] + v[2] <= 0)
        return csv_err(r, column[0], e, "a batch of neither chunks nor decodes");
    if (v[4] + v[5] <= 0)
        return csv_err(r, column[5], e, "an iteration that took no time");
    place(out);
    return ST_OK;
}

static enum st read_rows(struct csv_reader *r, struct filter *f, struct factor_rows *out,
                         struct err *e)
{
    int column[COLUMNS];
    enum st st;
    for (int i = 0; i < COLUMNS; i++)
        TRY(csv_require(r, columns[i], &column[i], e));
    TRY(filter_bind(f, r, e));
    while ((st = csv_next(r, e)) == ST_OK) {
        bool match;
        struct factor_row row;
        TRY(filter_match(f, r, &match, e));
        if (!match)
            continue;
        TRY(read_row(r, column, csv_find(r, "launch_ns"), &row, e));
        if (out->n == ITERATIONS_MOST)
            return csv_err(r, 0, e, "more than %d rows", (int)ITERATIONS_MOST);
        vec_push(out, row);
    }
    return st == ST_END ? ST_OK : st;
}

/* ---- fitting --------------------------------------------------------------------------------- */

static void features(const struct iterations_batch *b, double f[FEATURES])
{
    f[0] = 1;
    f[1] = b->chunk_tokens;
    f[2] = b->chunk_context;
    f[3] = b->decode_sequences;
    f[4] = b->decode_kv_tokens;
}

static double fitted(const double theta[FEATURES], const struct iterations_batch *b)
{
    double f[FEATURES], s = 0;
    features(b, f);
    for (int i = 0; i < FEATURES; i++)
        s += theta[i] * f[i];
    return s;
}

static void fit(struct arena *a, struct kind_fit *k)
{
    double *f = arena_array(a, double, k->n *FEATURES), *y = arena_array(a, double, k->n);
    for (int i = 0; i < COORDINATES; i++) {
        k->low[i] = INFINITY;
        k->high[i] = -INFINITY;
    }
    for (int64_t i = 0; i < k->n; i++) {
        features(&k->rows[i].b, &f[i * FEATURES]);
        for (int j = 0; j < COORDINATES; j++) {
            k->low[j] = fmin(k->low[j], k->rows[i].z[j]);
            k->high[j] = fmax(k->high[j], k->rows[i].z[j]);
        }
    }
    for (int t = 0; t < TIMES; t++) {
        double sum = 0;
        for (int64_t i = 0; i < k->n; i++)
            sum += y[i] = k->rows[i].s[t];
        if (sum > 0)
            fit_positive(FEATURES, k->n, f, y, (1U << FEATURES) - 1, k->theta[t]);
        for (int64_t i = 0; i < k->n; i++) {
            double guess = fitted(k->theta[t], &k->rows[i].b);
            k->rows[i].ratio[t] = guess > 0 ? k->rows[i].s[t] / guess : 1;
        }
    }
}

static void split(struct arena *a, const struct factor_rows *rows, bool prompts,
                  struct kind_fit *out)
{
    out->rows = arena_array(a, struct factor_row, rows->n);
    for (size_t i = 0; i < rows->n; i++)
        if ((rows->p[i].b.chunk_tokens > 0) == prompts)
            out->rows[out->n++] = rows->p[i];
    if (out->n > 0)
        fit(a, out);
}

/* ---- interpolating --------------------------------------------------------------------------- */

struct near {
    int64_t n, row[ITERATIONS_NEAREST];
    double d2[ITERATIONS_NEAREST]; /* ascending */
};

static void take(struct near *x, int64_t row, double d2)
{
    int64_t i = x->n < ITERATIONS_NEAREST ? x->n : ITERATIONS_NEAREST - 1;
    if (x->n == ITERATIONS_NEAREST && d2 >= x->d2[i])
        return;
    x->n += x->n < ITERATIONS_NEAREST;
    for (; i > 0 && x->d2[i - 1] > d2; i--) {
        x->d2[i] = x->d2[i - 1];
        x->row[i] = x->row[i - 1];
    }
    x->d2[i] = d2;
    x->row[i] = row;
}

/* without: a row that does not count; -1 = none. */
static struct iterations_time at(const struct kind_fit *k, const struct factor_row *at_row,
                                 int64_t without)
{
    struct near x = {0};
    double weights = 0, sum[TIMES] = {0};
    for (int64_t i = 0; i < k->n; i++) {
        double d2 = 0;
        for (int j = 0; j < COORDINATES; j++) {
            double d = k->rows[i].z[j] - at_row->z[j];
            d2 += d * d;
        }
        if (i != without)
            take(&x, i, d2);
    }
    for (int64_t i = 0; i < x.n; i++) {
        double d2 = x.d2[i] + NEAR * NEAR, w = 1 / (d2 * d2);
        weights += w;
        for (int t = 0; t < TIMES; t++)
            sum[t] += w * k->rows[x.row[i]].ratio[t];
    }
    for (int t = 0; t < TIMES; t++)
        sum[t] = fitted(k->theta[t], &at_row->b) * (weights > 0 ? sum[t] / weights : 1);
    return (struct iterations_time){sum[0], sum[1], sum[2] < sum[0] ? sum[2] : sum[0]};
}

struct iterations_batch iterations_batch_of(const struct op_load *load, int64_t longest,
                                            bool padded)
{
    const int64_t sum = load->kv_tokens - load->seqs, all = longest * load->seqs;
    return (struct iterations_batch){
        .chunk_tokens = (double)(load->tokens - load->seqs),
        .chunk_context = (double)(load->kv_tokens_prefill + load->chunk_sq),
        .decode_sequences = (double)load->seqs,
        .decode_kv_tokens = (double)(padded && all > 0 ? all : sum),
    };
}

struct iterations_time iterations_at(const struct iterations *t, const struct iterations_batch *b,
                                     bool *outside)
{
    const struct kind_fit *k = b->chunk_tokens > 0 ? &t->prompts : &t->decodes;
    struct factor_row r = {.b = *b};
    *outside = k->n == 0;
    if (k->n == 0)
        k = k == &t->prompts ? &t->decodes : &t->prompts;
    place(&r);
    for (int i = 0; i < COORDINATES; i++)
        *outside |= r.z[i] < k->low[i] - 1e-9 || r.z[i] > k->high[i] + 1e-9;
    return at(k, &r, -1);
}

/* predicted / measured - 1 of at most TESTED rows, evenly taken; returns how many. */
static int64_t errors_of(const struct kind_fit *k, double *error)
{
    const int64_t step = k->n / TESTED + 1;
    int64_t n = 0;
    for (int64_t i = 0; k->n > 1 && i < k->n; i += step) {
        const struct factor_row *r = &k->rows[i];
        const struct iterations_time s = at(k, r, i);
        const struct iterations_time was = {r->s[0], r->s[1], r->s[2]};
        error[n++] = iterations_total_s(&s) / iterations_total_s(&was) - 1;
    }
    return n;
}

static struct holdout error_of(struct arena *a, const struct iterations *t)
{
    double *off = arena_array(a, double, 2 * (TESTED + 1)), sum = 0;
    int64_t n = errors_of(&t->decodes, off);
    n += errors_of(&t->prompts, off + n);
    for (int64_t i = 0; i < n; i++)
        sum += off[i] = fabs(off[i]);
    if (n == 0)
        return (struct holdout){0};
    qsort(off, (size_t)n, sizeof *off, order_double);
    return (struct holdout){.tested = n,
                            .mean = sum / (double)n,
                            .median = off[n / 2],
                            .p90 = off[n * 9 / 10],
                            .max = off[n - 1]};
}

enum st iterations_load(struct arena *a, const char *path, int64_t tp, struct iterations **out,
                        struct err *e)
{
    struct csv_reader *r = NULL;
    struct filter f = {0};
    struct factor_rows rows = {0};
    *out = NULL;
    if (!fs_exists(path))
        return ST_OK;
    TRY(csv_open(&r, path, e));
    filter_add(&f, (struct filter_column){.name = "num_tensor_parallel_workers", .want = tp});
    enum st st = read_rows(r, &f, &rows, e);
    csv_close(&r);
    if (st == ST_OK)
        st = filter_done(&f, path, e);
    if (st == ST_OK && rows.n < ITERATIONS_LEAST)
        st = err_set(e, ST_INPUT, "%s: %zu rows; at least %d are needed", path, rows.n,
                     (int)ITERATIONS_LEAST);
    if (st == ST_OK) {
        struct iterations *t = arena_one(a, struct iterations);
        split(a, &rows, false, &t->decodes);
        split(a, &rows, true, &t->prompts);
        t->error = error_of(a, t);
        *out = t;
    }
    vec_free(&rows);
    return st;
}

/* ---- drawing --------------------------------------------------------------------------------- */

struct op_spread iterations_spread(struct arena *a, const struct iterations *t, bool prompts)
{
    double *error = arena_array(a, double, TESTED + 1);
    const int64_t n = errors_of(prompts ? &t->prompts : &t->decodes, error);
    return op_spread_of(error, n);
}

static void draw_kind(struct arena *a, const struct kind_fit *k, const struct op_spread *spread,
                      const char *name, uint64_t seed, struct kind_fit *out)
{
    struct rng r = rng_stream(seed, name);
    const double all = exp(spread->shift * rng_normal(&r));
    *out = (struct kind_fit){.n = k->n, .rows = arena_array(a, struct factor_row, k->n + 1)};
    for (int64_t i = 0; i < k->n; i++) {
        const double factor = all * exp(spread->place * rng_normal(&r));
        out->rows[i] = k->rows[i];
        for (int c = 0; c < TIMES; c++)
            out->rows[i].s[c] *= factor;
    }
    if (out->n > 0)
        fit(a, out);
}

struct iterations *iterations_drawn(struct arena *a, const struct iterations *t,
                                    const struct op_spread spread[2], uint64_t seed)
{
    struct iterations *out = arena_one(a, struct iterations);
    draw_kind(a, &t->decodes, &spread[0], "iteration.decode", seed, &out->decodes);
    draw_kind(a, &t->prompts, &spread[1], "iteration.prompt", seed, &out->prompts);
    out->error = t->error;
    return out;
}

struct iterations_facts iterations_facts(const struct iterations *t)
{
    return (struct iterations_facts){t->decodes.n, t->prompts.n, t->error};
}
