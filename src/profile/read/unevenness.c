#include "profile/read/unevenness.h"

#include "base/fs.h"
#include "base/vec.h"
#include "text/csv.h"

struct ratio_row {
    int64_t from;
    double ratio;
};

struct ratio_rows {
    VEC(struct ratio_row) of[2];
};

static enum st read_row(const struct csv_reader *r, const int column[3], struct ratio_rows *out,
                        struct err *e)
{
    struct sv batches = csv_cell(r, column[0]);
    struct ratio_row row;
    bool prompt = sv_eq(batches, "prompt");
    if (!prompt && !sv_eq(batches, "decode"))
        return csv_err(r, column[0], e, "neither decode nor prompt");
    TRY(csv_int(r, column[1], 1, INT32_MAX, &row.from, e));
    TRY(csv_double(r, column[2], 1e-4, 1e6, &row.ratio, e));
    vec_push(&out->of[prompt], row);
    return ST_OK;
}

static enum st read_rows(struct csv_reader *r, struct ratio_rows *out, struct err *e)
{
    static const char *const names[] = {"batches", "from", "ratio"};
    int column[3];
    enum st st;
    for (int i = 0; i < 3; i++)
        TRY(csv_require(r, names[i], &column[i], e));
    while ((st = csv_next(r, e)) == ST_OK)
        TRY(read_row(r, column, out, e));
    return st == ST_END ? ST_OK : st;
}

/* The rows of that class, scaled to mean 1. */
static struct unevenness_class class_of(struct arena *a, const struct ratio_row *rows, size_t n,
                                        int64_t from)
{
    double *ratio = arena_array(a, double, n), sum = 0;
    struct unevenness_class c = {.from = from, .ratio = ratio};
    for (size_t i = 0; i < n; i++)
        if (rows[i].from == from) {
            ratio[c.n++] = rows[i].ratio;
            sum += rows[i].ratio;
        }
    for (int64_t i = 0; i < c.n; i++)
        ratio[i] *= (double)c.n / sum;
    return c;
}

static int group(struct arena *a, const struct ratio_row *rows, size_t n,
                 struct unevenness_class out[UNEVENNESS_CLASSES])
{
    int classes = 0;
    for (int64_t from = 0; classes < UNEVENNESS_CLASSES;) {
        int64_t least = INT64_MAX; /* of those above the last */
        for (size_t i = 0; i < n; i++)
            if (rows[i].from > from && rows[i].from < least)
                least = rows[i].from;
        if (least == INT64_MAX)
            break;
        from = least;
        out[classes] = class_of(a, rows, n, from);
        classes += out[classes].n >= UNEVENNESS_LEAST;
    }
    return classes;
}

enum st unevenness_load(struct arena *a, const char *path, struct unevenness **out, struct err *e)
{
    struct csv_reader *r = NULL;
    struct ratio_rows rows = {0};
    *out = NULL;
    if (!fs_exists(path))
        return ST_OK;
    TRY(csv_open(&r, path, e));
    enum st st = read_rows(r, &rows, e);
    csv_close(&r);
    if (st == ST_OK) {
        *out = arena_one(a, struct unevenness);
        for (int i = 0; i < 2; i++)
            (*out)->n[i] = group(a, rows.of[i].p, rows.of[i].n, (*out)->of[i]);
    }
    for (int i = 0; i < 2; i++)
        vec_free(&rows.of[i]);
    return st;
}

struct unevenness *unevenness_begin(struct arena *a, const struct unevenness *u, struct rng *r)
{
    struct unevenness *out = arena_copy(a, u, sizeof *u);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < out->n[i]; k++)
            out->of[i][k].next = (int64_t)rng_below(r, (uint64_t)out->of[i][k].n);
    return out;
}

double unevenness_next(struct unevenness *u, bool prompt, int64_t size)
{
    int k = u->n[prompt] - 1;
    while (k >= 0 && u->of[prompt][k].from > size)
        k--;
    if (k < 0)
        return 1;
    struct unevenness_class *c = &u->of[prompt][k];
    const double ratio = c->ratio[c->next];
    c->next = c->next + 1 < c->n ? c->next + 1 : 0;
    return ratio;
}
