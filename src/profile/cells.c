#include "profile/cells.h"

#include <math.h>
#include <stdlib.h>

#include "base/order.h"

bool profile_measured(const struct profile_result *r, int64_t point)
{
    const struct point *p = &r->points->p[point];
    return p->level <= r->level[point_group(p)] && r->journal->samples[point].n > 0;
}

static bool is_attention(const struct op *op)
{
    return op->axis == AXIS_DECODE || op->axis == AXIS_PREFILL;
}

static double whole_s(const struct sample *s)
{
    double sum = 0;
    for (int k = 0; k < OP_ROWS; k++)
        sum += s->op_s[k];
    return sum;
}

/* What experts took in the sample's own pass. */
static double experts_s(const struct op_list *ops, const struct sample *s)
{
    double sum = 0;
    for (int i = 0; i < ops->n; i++)
        sum += op_is_expert(ops->ops[i].kind) ? s->op_s[ops->ops[i].row] : 0;
    return sum;
}

/* Cells of all other operators over tokens and rows in a pass of the point. */
static double others_s(struct arena *scratch, const struct profile_result *r, int64_t point)
{
    const struct point *p = &r->points->p[point];
    const enum cell_passes passes = p->kind == POINT_DECODE ? CELL_DECODES : CELL_MAIN;
    struct op_list ops;
    double sum = 0;
    profile_ops(r, &ops);
    for (int i = 0; i < ops.n; i++) {
        const struct op *op = &ops.ops[i];
        const int64_t x = op->axis == AXIS_ROWS ? point_rows(p, r->limits) : point_tokens(p);
        if (!is_attention(op) && !op_is_expert(op->kind))
            sum += cell_1d(scratch, r, op, passes, x).median * op->repeat;
    }
    return sum;
}

/* The operator's part of the attention of a sample, where layers of several kinds have some: as its
 * recorded twin divided. */
static double share_of(const struct op_list *ops, const struct op *op, const struct sample *s)
{
    double all = 0, repeats = 0;
    int n = 0;
    for (int i = 0; i < ops->n; i++) {
        const struct op *other = &ops->ops[i];
        if (other->axis != op->axis)
            continue;
        all += s->op_s[other->row];
        repeats += other->repeat;
        n++;
    }
    if (n == 1)
        return 1;
    return all > 0 ? s->op_s[op->row] / all : op->repeat / repeats;
}

struct stats cell_point(struct arena *scratch, const struct profile_result *r, const struct op *op,
                        int64_t point)
{
    size_t n = r->journal->samples[point].n;
    double *v = arena_array(scratch, double, n);
    const bool rest = r->split && is_attention(op);
    const double others = rest ? others_s(scratch, r, point) : 0;
    struct op_list ops;
    profile_ops(r, &ops);
    for (size_t i = 0; i < n; i++) {
        const struct sample *s = &r->journal->samples[point].p[i];
        v[i] = rest ? fmax(whole_s(s) - others - experts_s(&ops, s), 0) * share_of(&ops, op, s)
                    : s->op_s[op->row];
        v[i] /= op->repeat;
    }
    return stats_of(v, (int64_t)n);
}

static int64_t axis_value(const struct profile_result *r, const struct op *op, int64_t point)
{
    const struct point *p = &r->points->p[point];
    return op->axis == AXIS_ROWS ? point_rows(p, r->limits) : point_tokens(p);
}

/* Kinds of points of a cell, as bits. */
enum { OF_PROMPTS = 1, OF_DECODES = 2 };

static bool is_one_prompt(const struct point *p)
{
    return p->kind == POINT_TOKENS || (p->kind == POINT_PREFILL && p->kv == 0);
}

static struct stats cell_of(struct arena *scratch, const struct profile_result *r,
                            const struct op *op, int kinds, int64_t x)
{
    VEC(double) v = {0};
    for (int64_t i = 0; i < r->points->n; i++) {
        const struct point *p = &r->points->p[i];
        const int kind = p->kind == POINT_DECODE ? OF_DECODES : OF_PROMPTS;
        if (r->split && op_is_expert(op->kind) && kind == OF_PROMPTS && !is_one_prompt(p))
            continue;
        if (!(kinds & kind) || !profile_measured(r, i) || axis_value(r, op, i) != x)
            continue;
        for (size_t k = 0; k < r->journal->samples[i].n; k++)
            vec_push(&v, r->journal->samples[i].p[k].op_s[op->row] / op->repeat);
    }
    double *sorted = arena_copy(scratch, v.p, v.n * sizeof *v.p);
    const struct stats s = stats_of(sorted, (int64_t)v.n);
    vec_free(&v);
    return s;
}

struct stats cell_1d(struct arena *scratch, const struct profile_result *r, const struct op *op,
                     enum cell_passes passes, int64_t x)
{
    if (!r->split)
        return passes == CELL_MAIN ? cell_of(scratch, r, op, OF_PROMPTS | OF_DECODES, x)
                                   : (struct stats){0};
    if (passes == CELL_DECODES)
        return cell_of(scratch, r, op, OF_DECODES, x);
    const struct stats s = cell_of(scratch, r, op, OF_PROMPTS, x);
    const bool alike = op->axis == AXIS_ROWS; /* whatever the batch holds besides */
    return s.n || !alike ? s : cell_of(scratch, r, op, OF_DECODES, x);
}

int64_t *cell_counts(struct arena *a, const struct profile_result *r, int64_t *n)
{
    int64_t *v = arena_array(a, int64_t, 2 * r->points->n), m = 0;
    for (int64_t i = 0; i < r->points->n; i++)
        if (profile_measured(r, i)) {
            v[m++] = point_tokens(&r->points->p[i]);
            v[m++] = point_rows(&r->points->p[i], r->limits);
        }
    qsort(v, (size_t)m, sizeof *v, order_int64);
    *n = 0;
    for (int64_t i = 0; i < m; i++)
        if (i == 0 || v[i] != v[i - 1])
            v[(*n)++] = v[i];
    return v;
}

static int64_t points_1d(struct arena *a, const struct profile_result *r, const struct op *op,
                         struct surface_point *out, struct stats *stats)
{
    int64_t n, m = 0, *x = cell_counts(a, r, &n);
    for (int64_t i = 0; i < n; i++) {
        struct stats s = cell_1d(a, r, op, CELL_MAIN, x[i]);
        if (s.n == 0)
            continue;
        stats[m] = s;
        out[m++] = (struct surface_point){.x = (double)x[i], .y = s.median};
    }
    return m;
}

static int64_t points_2d(struct arena *a, const struct profile_result *r, const struct op *op,
                         struct surface_point *out, struct stats *stats)
{
    enum point_kind kind = op->axis == AXIS_DECODE ? POINT_DECODE : POINT_PREFILL;
    int64_t m = 0;
    for (int64_t i = 0; i < r->points->n; i++) {
        const struct point *p = &r->points->p[i];
        if (p->kind != kind || !profile_measured(r, i))
            continue;
        stats[m] = cell_point(a, r, op, i);
        out[m] = (struct surface_point){(double)p->x, (double)p->kv, stats[m].median};
        m++;
    }
    return m;
}

struct op_quality cell_quality(struct arena *a, const struct profile_result *r, const struct op *op)
{
    int64_t room = 2 * r->points->n;
    struct surface_point *p = arena_array(a, struct surface_point, room);
    struct stats *stats = arena_array(a, struct stats, room);
    bool flat = op->axis == AXIS_TOKENS || op->axis == AXIS_ROWS;
    struct op_quality q = {0};
    q.points = (flat ? points_1d : points_2d)(a, r, op, p, stats);
    for (int64_t i = 0; i < q.points; i++)
        q.samples += stats[i].n;
    struct grid_set known = {0};
    struct op_table t;
    const struct seen_rows rows = {r->limits->max_kv, r->limits->block_size};
    op_table_build_for(a, r->p->model, op, r->limits->n_padded > 0 ? &rows : NULL, &known, p,
                       q.points, &t);
    q.loo = op_table_holdout(&t, 0);
    return q;
}
