#include "engine/cpu/gemm.h"

#include <string.h>

#include "base/err.h"

enum {
    DEPTH = 1024,       /* rows of a panel taken at once: panel and x tile stay in the L2 cache */
    GROUP_MAX = 8,      /* panels an item of the pool covers at most */
    INLINE_MACS = 40000 /* smaller products take less time than waking the pool */
};

static int64_t n_panels(const struct kernels *kn, int64_t m)
{
    return (m + kn->panel - 1) / kn->panel;
}

size_t gemm_data_floats(const struct kernels *kn, int64_t m, int64_t k)
{
    return (size_t)(n_panels(kn, m) * kn->panel * k);
}

size_t gemm_bias_floats(const struct kernels *kn, int64_t m)
{
    return (size_t)(n_panels(kn, m) * kn->panel);
}

static float *row_start(const struct kernels *kn, const struct matrix *w, int64_t j)
{
    return w->data + j / kn->panel * w->k * kn->panel + j % kn->panel;
}

void gemm_put_row(const struct kernels *kn, const struct matrix *w, int64_t j, const float *row)
{
    float *at = row_start(kn, w, j);
    for (int64_t i = 0; i < w->k; i++)
        at[i * kn->panel] = row[i];
}

void gemm_get_row(const struct kernels *kn, const struct matrix *w, int64_t j, float *row)
{
    const float *at = row_start(kn, w, j);
    for (int64_t i = 0; i < w->k; i++)
        row[i] = at[i * kn->panel];
}

struct job {
    const struct kernels *kn;
    const struct matrix *w;
    int64_t rows, group;
    const float *x;
    float *y;
};

/* Panels [p0, p1), all of them whole, k rows [i0, i0 + depth) of them, x rows [r0, r0 + rows). */
static void whole_panels(const struct job *j, int64_t p0, int64_t p1, int64_t i0, int64_t depth,
                         int64_t r0, int rows)
{
    const struct matrix *w = j->w;
    const int64_t width = j->kn->panel;
    float *c = j->y + r0 * w->m + p0 * width;
    const float *init = i0 ? c : w->bias ? w->bias + p0 * width : NULL;
    struct tile t = {
        .k = (size_t)depth,
        .a = j->x + r0 * w->k + i0,
        .lda = (size_t)w->k,
        .b = w->data + (p0 * w->k + i0) * width,
        .ldb = (size_t)width,
        .c = c,
        .ldc = (size_t)w->m,
        .init = init,
        .ld_init = i0 ? (size_t)w->m : 0,
    };
    if (depth == w->k) {
        j->kn->panels(rows, p1 - p0, &t);
        return;
    }
    for (int64_t p = p0; p < p1; p++) {
        j->kn->tile(rows, 2, &t);
        t.b += w->k * width;
        t.c += width;
        t.init = init ? t.init + width : NULL;
    }
}

/* The last panel where m is not a multiple of its width: through a tile of its own, because whole
 * vectors are stored. */
static void ragged_panel(const struct job *j, int64_t p, int64_t r0, int rows)
{
    enum { MOST_ROWS = 16, MOST_WIDTH = 32 };
    float out[MOST_ROWS * MOST_WIDTH];
    const struct matrix *w = j->w;
    const int64_t width = j->kn->panel, left = w->m - p * width;
    ASSERT(rows <= MOST_ROWS && width <= MOST_WIDTH);
    j->kn->tile(rows, 2,
                &(struct tile){.k = (size_t)w->k,
                               .a = j->x + r0 * w->k,
                               .lda = (size_t)w->k,
                               .b = w->data + p * w->k * width,
                               .ldb = (size_t)width,
                               .c = out,
                               .ldc = (size_t)width,
                               .init = w->bias ? w->bias + p * width : NULL});
    for (int r = 0; r < rows; r++)
        memcpy(j->y + (r0 + r) * w->m + p * width, out + r * width, (size_t)left * sizeof *out);
}

/* Rows are cut into tiles of nearly equal height: 16 rows are 8 + 8, not 14 + 2. */
static void panel_group(void *ctx, int64_t item, int thread)
{
    (void)thread;
    const struct job *j = ctx;
    const struct matrix *w = j->w;
    const int64_t total = n_panels(j->kn, w->m), whole = w->m / j->kn->panel;
    const int64_t p0 = item * j->group, end = p0 + j->group < total ? p0 + j->group : total;
    const int64_t p1 = end < whole ? end : whole;
    const int64_t tiles = (j->rows + j->kn->max_rows - 1) / j->kn->max_rows;
    const int64_t steps = tiles <= 2 ? 1 : (w->k + DEPTH - 1) / DEPTH;
    for (int64_t s = 0; s < steps; s++) {
        const int64_t i0 = w->k * s / steps, depth = w->k * (s + 1) / steps - i0;
        for (int64_t t = 0; t < tiles; t++) {
            const int64_t r0 = j->rows * t / tiles, r1 = j->rows * (t + 1) / tiles;
            whole_panels(j, p0, p1, i0, depth, r0, (int)(r1 - r0));
        }
    }
    if (end > whole)
        for (int64_t t = 0; t < tiles; t++) {
            const int64_t r0 = j->rows * t / tiles, r1 = j->rows * (t + 1) / tiles;
            ragged_panel(j, whole, r0, (int)(r1 - r0));
        }
}

void gemm_run(struct pool *pool, const struct kernels *kn, const struct matrix *w, int64_t rows,
              const float *x, float *y)
{
    if (rows == 0)
        return;
    const int64_t panels = n_panels(kn, w->m);
    int64_t group = panels / (4 * pool_threads(pool));
    group = group > GROUP_MAX ? GROUP_MAX : group < 1 ? 1 : group;
    if (rows * w->m * w->k <= INLINE_MACS)
        group = panels;
    struct job j = {kn, w, rows, group, x, y};
    pool_run(pool, (panels + group - 1) / group, panel_group, &j);
}
