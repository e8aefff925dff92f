#include "engine/cuda/parts.h"

#include "base/err.h"

static int div_up(int64_t n, int64_t by)
{
    return (int)((n + by - 1) / by);
}

static int max_int(int a, int b)
{
    return a > b ? a : b;
}

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

/* ---- how many -------------------------------------------------------------------------------- */

int cuda_parts_most(int n, int heads, int kv_heads, int sms)
{
    enum { FILL_PER_SM = 2, AT_ONCE_PER_SM = 3, MOST_PER_SM = 8, ROW_PARTS = 3 };
    const int64_t tiles = cuda_attention_head_tiles(heads, kv_heads);
    if (n == 0)
        return 0;
    const int fill = n * min_int(div_up((int64_t)sms * FILL_PER_SM, n * tiles), CUDA_ROW_PARTS);
    const int least = max_int(fill, div_up(3 * (int64_t)n, 2));
    if (2 * n * tiles <= (int64_t)sms * AT_ONCE_PER_SM)
        return least;
    return max_int(least, min_int(ROW_PARTS * n, div_up((int64_t)sms * MOST_PER_SM, tiles)));
}

int cuda_parts_bound(int n, int heads, int kv_heads, int sms)
{
    int most = 0;
    for (int i = 1; i <= n; i++)
        most = max_int(most, cuda_parts_most(i, heads, kv_heads, sms));
    return most;
}

/* ---- the plan -------------------------------------------------------------------------------- */

static int stripes_of(const struct cuda_segment *row)
{
    return div_up((int64_t)row->kv_before + row->tokens, CUDA_STRIPE_KEYS);
}

static int64_t parts_of(const struct cuda_segment *rows, int n, int size)
{
    int64_t parts = 0;
    for (int i = 0; i < n; i++)
        parts += div_up(stripes_of(&rows[i]), size);
    return parts;
}

/* S of the header: the parts become fewer as it grows. */
static int part_size(const struct cuda_segment *rows, int n, int most)
{
    int64_t all = 0;
    int longest = 0;
    for (int i = 0; i < n; i++) {
        const int stripes = stripes_of(&rows[i]);
        all += stripes;
        longest = max_int(longest, stripes);
    }
    int lo = max_int(div_up(all, most), div_up(longest, CUDA_ROW_PARTS)), hi = longest;
    if (most > n)
        hi = max_int(lo, min_int(longest, div_up(all, most - n)));
    while (lo < hi) {
        const int middle = lo + (hi - lo) / 2;
        if (parts_of(rows, n, middle) <= most)
            hi = middle;
        else
            lo = middle + 1;
    }
    return lo;
}

enum { CLASSES = 8 };

/* Of the row's largest part; 0 has the largest. */
static int class_of(int stripes, int parts, int size)
{
    return CLASSES - div_up((int64_t)div_up(stripes, parts) * CLASSES, size);
}

int cuda_parts_plan(const struct cuda_segment *rows, int n, int most, struct cuda_part *out)
{
    int at[CLASSES] = {0}; /* parts of each class, then where the class goes on */
    if (n == 0)
        return 0;
    ASSERT(most >= n);
    const int size = part_size(rows, n, most);
    for (int i = 0; i < n; i++) {
        const int stripes = stripes_of(&rows[i]), parts = div_up(stripes, size);
        at[class_of(stripes, parts, size)] += parts;
    }
    int used = 0;
    for (int c = 0; c < CLASSES; c++) {
        const int here = at[c];
        at[c] = used;
        used += here;
    }
    for (int i = 0; i < n; i++) {
        const int stripes = stripes_of(&rows[i]), parts = div_up(stripes, size);
        int *to = &at[class_of(stripes, parts, size)];
        for (int j = 0; j < parts; j++)
            out[*to + j] = (struct cuda_part){.row = rows[i].first,
                                              .position = rows[i].kv_before,
                                              .table = rows[i].table,
                                              .seq = i,
                                              .part = j,
                                              .parts = parts,
                                              .first = *to};
        *to += parts;
    }
    ASSERT(used <= most);
    return used;
}
