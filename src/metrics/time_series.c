#include "metrics/time_series.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/vec.h"
#include "text/csv.h"

enum { CELLS = 1 << 16, LEAST_BUCKETS = 16 };
/* A power of two, so that edges and quotients are exact; and whole in ns from the start. */
static const double FIRST_WIDTH_S = 1.0 / 512;

/* Sums over a bucket's time are in units times seconds. */
struct bucket_sums {
    double busy_s, waiting_s, running_s, kv_s, energy_j;
    int64_t iterations, batch_size, prefill_tokens, decode_tokens;
    int64_t waiting_max, kv_max;
};

/* State of a replica since from_s. */
struct standing {
    double from_s; /* the state holds since then */
    double end_s;  /* latest end of its batches so far */
    double waiting, running, kv;
    double joules;             /* energy beyond that of idle devices, not charged yet */
    double watts;              /* power while it is charged */
    struct bucket_sums *cells; /* [buckets] */
    struct bucket_sums *cell;  /* of from_s, where the bucket ends at edge_s */
    double edge_s;
};

struct time_series {
    struct arena *a;
    int32_t replicas, buckets;
    double width_s, end_s;
    bool has_energy;
    struct time_series_power power;
    struct standing *of; /* [replicas] */
};

struct time_series *time_series_new(int32_t replicas)
{
    struct arena *a = arena_new();
    struct time_series *t = arena_one(a, struct time_series);
    *t = (struct time_series){.a = a, .replicas = replicas, .width_s = FIRST_WIDTH_S};
    t->buckets = TIME_SERIES_BUCKETS;
    while (t->buckets > LEAST_BUCKETS && (int64_t)t->buckets * replicas > CELLS)
        t->buckets /= 2;
    t->of = arena_array(a, struct standing, replicas);
    for (int32_t i = 0; i < replicas; i++)
        t->of[i].cells = arena_array(a, struct bucket_sums, t->buckets);
    return t;
}

void time_series_power(struct time_series *t, const struct time_series_power *p)
{
    t->power = *p;
}

void time_series_free(struct time_series **pt)
{
    if (!*pt)
        return;
    struct arena *a = (*pt)->a;
    *pt = NULL;
    arena_free(&a);
}

/* ---- adding ------------------------------------------------------------------------------- */

static struct bucket_sums sum_of(const struct bucket_sums *x, const struct bucket_sums *y)
{
    return (struct bucket_sums){
        .busy_s = x->busy_s + y->busy_s,
        .waiting_s = x->waiting_s + y->waiting_s,
        .running_s = x->running_s + y->running_s,
        .kv_s = x->kv_s + y->kv_s,
        .energy_j = x->energy_j + y->energy_j,
        .iterations = x->iterations + y->iterations,
        .batch_size = x->batch_size + y->batch_size,
        .prefill_tokens = x->prefill_tokens + y->prefill_tokens,
        .decode_tokens = x->decode_tokens + y->decode_tokens,
        .waiting_max = x->waiting_max > y->waiting_max ? x->waiting_max : y->waiting_max,
        .kv_max = x->kv_max > y->kv_max ? x->kv_max : y->kv_max,
    };
}

static void widen(struct time_series *t)
{
    int32_t half = t->buckets / 2;
    for (int32_t i = 0; i < t->replicas; i++) {
        struct bucket_sums *c = t->of[i].cells;
        for (int32_t k = 0; k < half; k++)
            c[k] = sum_of(&c[2 * k], &c[2 * k + 1]);
        memset(c + half, 0, (size_t)half * sizeof *c);
        t->of[i].edge_s = 0; /* look up again */
    }
    t->width_s *= 2;
}

/* Finds the bucket of a time; widens buckets until there is one. */
static void seek(struct time_series *t, struct standing *s, double at_s)
{
    while (at_s >= t->width_s * (double)t->buckets)
        widen(t);
    int64_t k = at_s > 0 ? (int64_t)(at_s / t->width_s) : 0;
    s->cell = &s->cells[k];
    s->edge_s = (double)(k + 1) * t->width_s;
}

static inline void note_most(struct bucket_sums *c, int64_t waiting, int64_t kv)
{
    if (waiting > c->waiting_max)
        c->waiting_max = waiting;
    if (kv > c->kv_max)
        c->kv_max = kv;
}

static inline void charge(struct standing *s, double span_s)
{
    struct bucket_sums *c = s->cell;
    c->busy_s += span_s;
    c->waiting_s += s->waiting * span_s;
    c->running_s += s->running * span_s;
    c->kv_s += s->kv * span_s;
    c->energy_j += s->watts * span_s;
}

/* Charges the time from s->from_s on to its buckets; from_s < until_s. */
static void stand_until(struct time_series *t, struct standing *s, double until_s)
{
    s->watts = s->joules / (until_s - s->from_s);
    s->joules = 0;
    while (until_s > s->edge_s) {
        if (s->edge_s > s->from_s) {
            charge(s, s->edge_s - s->from_s);
            s->from_s = s->edge_s;
        }
        seek(t, s, s->from_s);
        note_most(s->cell, (int64_t)s->waiting, (int64_t)s->kv); /* where no batch may start */
    }
    charge(s, until_s - s->from_s);
    s->watts = 0;
}

void time_series_add(struct time_series *t, const struct serve_iteration *i)
{
    const struct batch *b = i->b;
    struct standing *s = &t->of[b->replica];
    double start_s = i->start_s > s->from_s ? i->start_s : s->from_s;
    double until_s = start_s < s->end_s ? start_s : s->end_s;
    if (s->from_s < until_s) {
        if (until_s <= s->edge_s && s->joules == 0)
            charge(s, until_s - s->from_s);
        else
            stand_until(t, s, until_s);
    }
    if (start_s >= s->edge_s)
        seek(t, s, start_s);
    s->from_s = start_s;
    s->end_s = i->end_s > start_s ? i->end_s : start_s;
    s->waiting = (double)i->waiting;
    s->running = (double)i->running;
    s->kv = (double)b->kv_blocks;
    s->joules += i->c->energy_j - t->power.idle_w * (i->c->host_s + i->c->device_s);
    t->has_energy |= i->c->energy_j > 0;
    struct bucket_sums *c = s->cell;
    c->iterations++;
    c->batch_size += b->n_decodes + b->n_chunks;
    c->prefill_tokens += b->prefill_tokens;
    c->decode_tokens += b->n_decodes;
    note_most(c, i->waiting, b->kv_blocks);
}

/* ---- the file ----------------------------------------------------------------------------- */

enum { COLUMNS = 14 };
static const char *const names[COLUMNS] = {
    "time_ns",        "duration_ns",   "replica",       "waiting",    "waiting_max",
    "running",        "kv_blocks",     "kv_blocks_max", "iterations", "batch_size",
    "prefill_tokens", "decode_tokens", "busy",          "power_w",
};

static void put_mean(struct csv_writer *w, double sum, double over)
{
    enum { DIGITS = 10000 };
    csv_put_double(w, over > 0 ? round(sum / over * DIGITS) / DIGITS : (double)NAN);
}

static double energy_of(const struct time_series *t, const struct bucket_sums *c, double from_s,
                        double width_s)
{
    const struct time_series_power *p = &t->power;
    if (p->mean_w)
        return p->mean_w(p->self, from_s, from_s + width_s) * width_s;
    return c->energy_j + p->idle_w * p->stages * width_s;
}

static void put_row(struct csv_writer *w, const struct time_series *t, int32_t replica,
                    const struct bucket_sums *c, double from_s)
{
    double width_s = from_s + t->width_s < t->end_s ? t->width_s : t->end_s - from_s;
    csv_put_int(w, ns_from_s(from_s));
    csv_put_int(w, ns_from_s(width_s));
    csv_put_int(w, replica);
    put_mean(w, c->waiting_s, width_s);
    csv_put_int(w, c->waiting_max);
    put_mean(w, c->running_s, width_s);
    put_mean(w, c->kv_s, width_s);
    csv_put_int(w, c->kv_max);
    csv_put_int(w, c->iterations);
    put_mean(w, (double)c->batch_size, (double)c->iterations);
    csv_put_int(w, c->prefill_tokens);
    csv_put_int(w, c->decode_tokens);
    put_mean(w, c->busy_s, width_s);
    put_mean(w, energy_of(t, c, from_s, width_s), t->power.mean_w || t->has_energy ? width_s : 0);
    csv_end_row(w);
}

/* The time of each replica's last batch. */
static void finish(struct time_series *t)
{
    for (int32_t i = 0; i < t->replicas; i++) {
        struct standing *s = &t->of[i];
        if (s->from_s < s->end_s)
            stand_until(t, s, s->end_s);
        s->from_s = s->end_s;
        t->end_s = s->end_s > t->end_s ? s->end_s : t->end_s;
    }
}

enum st time_series_write(struct time_series *t, const struct artifact *art, struct err *e)
{
    FILE *f;
    TRY(artifact_create_file(art, TIME_SERIES, &f, e));
    struct csv_writer w = {.f = f};
    for (int i = 0; i < COLUMNS; i++)
        csv_put_str(&w, names[i]);
    csv_end_row(&w);
    finish(t);
    for (int32_t k = 0; k < t->buckets && (double)k * t->width_s < t->end_s; k++)
        for (int32_t i = 0; i < t->replicas; i++)
            put_row(&w, t, i, &t->of[i].cells[k], (double)k * t->width_s);
    return artifact_close_file(art, TIME_SERIES, &f, e);
}

/* ---- reading ------------------------------------------------------------------------------ */

/* An empty cell is NAN. */
static enum st mean_of(const struct csv_reader *r, int column, double *out, struct err *e)
{
    *out = (double)NAN;
    return csv_empty(r, column) ? ST_OK : csv_double(r, column, 0, 1e18, out, e);
}

static enum st read_row(const struct csv_reader *r, const int *at, struct time_series_row *row,
                        struct err *e)
{
    const struct {
        int column;
        int64_t min;
        int64_t *out;
    } ints[] = {
        {0, 0, &row->time_ns},         {1, 1, &row->duration_ns},    {2, 0, &row->replica},
        {4, 0, &row->waiting_max},     {7, 0, &row->kv_blocks_max},  {8, 0, &row->iterations},
        {10, 0, &row->prefill_tokens}, {11, 0, &row->decode_tokens},
    };
    const struct {
        int column;
        double *out;
    } means[] = {
        {3, &row->waiting},    {5, &row->running}, {6, &row->kv_blocks},
        {9, &row->batch_size}, {12, &row->busy},   {13, &row->power_w},
    };
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
        TRY(csv_int(r, at[ints[i].column], ints[i].min, INT64_MAX, ints[i].out, e));
    for (size_t i = 0; i < sizeof means / sizeof *means; i++)
        TRY(mean_of(r, at[means[i].column], means[i].out, e));
    return ST_OK;
}

typedef VEC(struct time_series_row) row_vec;

static enum st read_rows(struct csv_reader *r, row_vec *v, struct err *e)
{
    int at[COLUMNS];
    for (int i = 0; i < COLUMNS; i++)
        TRY(csv_require(r, names[i], &at[i], e));
    for (enum st st; (st = csv_next(r, e)) != ST_END;) {
        struct time_series_row row = {0};
        TRY(st);
        TRY(read_row(r, at, &row, e));
        if (v->n && row.time_ns < vec_last(v).time_ns)
            return csv_err(r, at[0], e, "%lld is before the row above it", (long long)row.time_ns);
        vec_push(v, row);
    }
    return ST_OK;
}

enum st time_series_load(struct arena *a, const char *dir, struct time_series_row **rows, size_t *n,
                         struct err *e)
{
    const char *path = fs_join(a, dir, TIME_SERIES);
    struct csv_reader *r;
    row_vec v = {0};
    *rows = NULL;
    *n = 0;
    if (!fs_exists(path))
        return ST_OK;
    TRY(csv_open(&r, path, e));
    enum st st = read_rows(r, &v, e);
    csv_close(&r);
    if (st == ST_OK) {
        *rows = arena_copy(a, v.p, v.n * sizeof *v.p);
        *n = v.n;
    }
    vec_free(&v);
    return st;
}
