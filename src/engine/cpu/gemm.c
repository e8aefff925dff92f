#include "engine/cpu/gemm.h"

#include <string.h>

#include "base/err.h"

enum {
    DEPTH = 1024,       /* k rows of a panel taken at once when there are many x rows ... */
    GROUP_MAX = 4,      /* ... of so many panels: they stay in the L2 cache */
    INLINE_MACS = 40000 /* smaller products take less time than waking the pool */
};

int64_t gemm_ld(int64_t width)
{
    return (width + 15) / 16 * 16 + 16;
}

static int64_t n_panels(const struct cpu_kernels *kn, int64_t m)
{
    return (m + kn->panel - 1) / kn->panel;
}

size_t gemm_data_floats(const struct cpu_kernels *kn, int64_t m, int64_t k)
{
    return (size_t)(n_panels(kn, m) * kn->panel * k);
}

size_t gemm_bias_floats(const struct cpu_kernels *kn, int64_t m)
{
    return (size_t)(n_panels(kn, m) * kn->panel);
}

static float *row_start(const struct cpu_kernels *kn, const struct matrix *w, int64_t j)
{
    return w->data + j / kn->panel * w->k * kn->panel + j % kn->panel;
}

void gemm_put_row(const struct cpu_kernels *kn, const struct matrix *w, int64_t j, const float *row)
{
    float *at = row_start(kn, w, j);
    for (int64_t i = 0; i < w->k; i++)
        at[i * kn->panel] = row[i];
}

void gemm_get_row(const struct cpu_kernels *kn, const struct matrix *w, int64_t j, float *row)
{
    const float *at = row_start(kn, w, j);
    for (int64_t i = 0; i < w->k; i++)
        row[i] = at[i * kn->panel];
}

float *gemm_at(const struct cpu_kernels *kn, const struct matrix *w, int64_t j, int64_t i)
{
    return row_start(kn, w, j) + i * kn->panel;
}

struct gemm_job {
    const struct cpu_kernels *kn;
    const struct matrix *w;
    int64_t rows, group;
    const float *x;
    int64_t ldx;
    float *y;
};

/* Rows are cut into tiles of nearly equal height: 16 rows are 8 + 8, not 14 + 2. */
struct row_cut {
    int64_t first;
    int rows;
};

static int64_t n_cuts(const struct gemm_job *j)
{
    return (j->rows + j->kn->max_rows - 1) / j->kn->max_rows;
}

static struct row_cut cut_at(const struct gemm_job *j, int64_t i)
{
    const int64_t n = n_cuts(j), first = j->rows * i / n;
    return (struct row_cut){first, (int)(j->rows * (i + 1) / n - first)};
}

/* Panels [p0, p1), all of them whole; of each the k rows [i0, i0 + depth). */
static void whole_panels(const struct gemm_job *j, int64_t p0, int64_t p1, int64_t i0,
                         int64_t depth, struct row_cut cut)
{
    const struct matrix *w = j->w;
    const int64_t width = j->kn->panel;
    float *c = j->y + cut.first * w->m + p0 * width;
    j->kn->panels(cut.rows, p1 - p0, (size_t)(w->k * width),
                  &(struct tile){
                      .k = (size_t)depth,
                      .a = j->x + cut.first * j->ldx + i0,
                      .lda = (size_t)j->ldx,
                      .b = w->data + (p0 * w->k + i0) * width,
                      .ldb = (size_t)width,
                      .c = c,
                      .ldc = (size_t)w->m,
                      .init = i0        ? c
                              : w->bias ? w->bias + p0 * width
                                        : NULL,
                      .ld_init = i0 ? (size_t)w->m : 0,
                  });
}

/* The last panel where m is not a multiple of its width: through a tile of its own, because whole
 * vectors are stored. */
static void ragged_panel(const struct gemm_job *j, int64_t p, struct row_cut cut)
{
    enum { MOST_ROWS = 16, MOST_WIDTH = 32 };
    float out[MOST_ROWS * MOST_WIDTH];
    const struct matrix *w = j->w;
    const int64_t width = j->kn->panel, left = w->m - p * width;
    ASSERT(cut.rows <= MOST_ROWS && width <= MOST_WIDTH);
    j->kn->tile(cut.rows, 2,
                &(struct tile){.k = (size_t)w->k,
                               .a = j->x + cut.first * j->ldx,
                               .lda = (size_t)j->ldx,
                               .b = w->data + p * w->k * width,
                               .ldb = (size_t)width,
                               .c = out,
                               .ldc = (size_t)width,
                               .init = w->bias ? w->bias + p * width : NULL});
    for (int r = 0; r < cut.rows; r++)
        memcpy(j->y + (cut.first + r) * w->m + p * width, out + r * width,
               (size_t)left * sizeof *out);
}

/* One or two tiles: panel after panel, each read from memory once. More: DEPTH k rows of the whole
 * group for all tiles, so that each x tile serves several panels from the first cache. */
static void panel_group(void *ctx, int64_t item, int thread)
{
    (void)thread;
    const struct gemm_job *j = ctx;
    const struct matrix *w = j->w;
    const int64_t total = n_panels(j->kn, w->m), whole = w->m / j->kn->panel, cuts = n_cuts(j);
    const int64_t p0 = item * j->group, end = p0 + j->group < total ? p0 + j->group : total;
    const int64_t p1 = end < whole ? end : whole;
    const int64_t steps = cuts <= 2 ? 1 : (w->k + DEPTH - 1) / DEPTH;
    const int64_t together = cuts == 2 ? 1 : j->group;
    for (int64_t p = p0; p < p1; p += together)
        for (int64_t s = 0; s < steps; s++) {
            const int64_t i0 = w->k * s / steps, depth = w->k * (s + 1) / steps - i0;
            for (int64_t i = 0; i < cuts; i++)
                whole_panels(j, p, p + together < p1 ? p + together : p1, i0, depth, cut_at(j, i));
        }
    for (int64_t i = 0; i < cuts && end > whole; i++)
        ragged_panel(j, whole, cut_at(j, i));
}

/* Panels that a thread takes at a time, of so many of all products together. */
static int64_t group_of(const struct pool *pool, int64_t panels)
{
    const int64_t group = panels / (4 * pool_threads(pool));
    return group > GROUP_MAX ? GROUP_MAX : group < 1 ? 1 : group;
}

void gemm_run(struct pool *pool, const struct cpu_kernels *kn, const struct matrix *w, int64_t rows,
              const float *x, int64_t ldx, float *y)
{
    if (rows == 0)
        return;
    const int64_t panels = n_panels(kn, w->m);
    int64_t group = group_of(pool, panels);
    if (rows * w->m * w->k <= INLINE_MACS)
        group = panels;
    struct gemm_job j = {kn, w, rows, group, x, ldx, y};
    pool_run(pool, (panels + group - 1) / group, panel_group, &j);
}

struct group_job {
    const struct cpu_kernels *kn;
    const struct gemm_group *groups;
    int64_t items_each, group;
    const float *x;
    int64_t ldx;
    float *y;
};

static void group_item(void *ctx, int64_t item, int thread)
{
    const struct group_job *g = ctx;
    const struct gemm_group *one = &g->groups[item / g->items_each];
    struct gemm_job j = {.kn = g->kn,
                         .w = one->w,
                         .rows = one->rows,
                         .group = g->group,
                         .x = g->x + one->first * g->ldx,
                         .ldx = g->ldx,
                         .y = g->y + one->first * one->w->m};
    panel_group(&j, item % g->items_each, thread);
}

void gemm_run_groups(struct pool *pool, const struct cpu_kernels *kn,
                     const struct gemm_group *groups, int64_t n, const float *x, int64_t ldx,
                     float *y)
{
    if (n == 0)
        return;
    const int64_t panels = n_panels(kn, groups[0].w->m);
    int64_t macs = 0;
    for (int64_t i = 0; i < n; i++)
        macs += groups[i].rows * groups[i].w->m * groups[i].w->k;
    const bool few = macs <= INLINE_MACS;
    const int64_t group = few ? panels : group_of(pool, panels * n);
    struct group_job j = {.kn = kn,
                          .groups = groups,
                          .items_each = (panels + group - 1) / group,
                          .group = group,
                          .x = x,
                          .ldx = ldx,
                          .y = y};
    if (few)
        for (int64_t i = 0; i < n; i++)
            group_item(&j, i, 0);
    else
        pool_run(pool, n * j.items_each, group_item, &j);
}
