#include "profile/reference.h"

#include <stdlib.h>

#include "base/order.h"

static const struct {
    const char *name;
    struct point point;
} points[REFERENCE_POINTS] = {
    {"decode_1x128", {POINT_DECODE, 1, 128, 0}},
    {"decode_8x256", {POINT_DECODE, 8, 256, 0}},
    {"prompt_128", {POINT_PREFILL, 128, 0, 0}},
};
enum { FIRST = 4 }; /* samples dropped while caches settle */
static const double ENOUGH_S = 0.5;

static bool fits(const struct point *p, const struct grid_limits *l)
{
    const int64_t kv = p->kv + (p->kind == POINT_DECODE ? 1 : p->x);
    return kv <= l->max_kv && point_tokens(p) <= l->max_tokens &&
           point_rows(p, l) <= l->max_batch &&
           point_rows(p, l) * point_blocks(p, l) <= l->num_blocks;
}

void reference_open(struct arena *a, struct executor ex, const struct grid_limits *l, int64_t vocab,
                    struct reference *out)
{
    struct grid_limits equal = *l; /* of a profile and of a run, which knows no padding */
    *out = (struct reference){0};
    equal.n_padded = 0;
    bool any = false;
    for (int i = 0; i < REFERENCE_POINTS; i++)
        any |= out->fits[i] = fits(&points[i].point, l);
    if (any && ex.ops->caps & EXEC_OP_TIMES)
        out->drive = drive_new(a, ex, &equal, vocab, 0);
}

void reference_free(struct reference *y)
{
    for (int i = 0; i < REFERENCE_POINTS; i++)
        vec_free(&y->pass_s[i]);
}

enum st reference_measure(struct reference *y, int samples, struct err *e)
{
    if (!y->drive)
        return ST_OK;
    drive_bind(y->drive);
    for (int i = 0; i < REFERENCE_POINTS; i++) {
        double used_s = 0;
        for (int k = 0; y->fits[i] && k < FIRST + samples && (k <= FIRST || used_s < ENOUGH_S);
             k++) {
            double op_s[1][OP_ROWS], spent_s, pass_s = 0;
            int n;
            TRY(drive_point(y->drive, &points[i].point, 1, op_s, &n, &spent_s, e));
            for (int o = 0; o < OP_ROWS; o++)
                pass_s += op_s[0][o];
            if (k >= FIRST)
                vec_push(&y->pass_s[i], pass_s);
            used_s += spent_s;
            y->spent_s += spent_s;
        }
    }
    return ST_OK;
}

struct node *reference_node(struct arena *a, const struct reference *y)
{
    struct node *map = NULL;
    for (int i = 0; i < REFERENCE_POINTS; i++) {
        const size_t n = y->pass_s[i].n;
        if (n == 0)
            continue;
        double *v = arena_copy(a, y->pass_s[i].p, n * sizeof *v);
        qsort(v, n, sizeof *v, order_double);
        struct node *row = node_new(a, NODE_MAP);
        node_set(a, row, SV("median_s"), node_float(a, (v[(n - 1) / 2] + v[n / 2]) / 2));
        node_set(a, row, SV("n"), node_int(a, (int64_t)n));
        node_set(a, row, SV("spread_s"), node_float(a, v[n - 1 - n / 4] - v[n / 4]));
        map = map ? map : node_new(a, NODE_MAP);
        node_set(a, map, sv_of(points[i].name), row);
    }
    return map;
}
