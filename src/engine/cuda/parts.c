#include "engine/cuda/parts.h"

#include <math.h>

#include "base/err.h"
#include "base/heap.h"
#include "base/vec.h"

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

enum { AT_ONCE_PER_SM = 3 }; /* blocks of attention_decode */

/* ---- how many -------------------------------------------------------------------------------- */

int cuda_parts_most(int n, int heads, int kv_heads, int sms)
{
    enum { FILL_PER_SM = 2, MOST_PER_SM = 8, ROW_PARTS = 3 };
    const int64_t tiles = cuda_attention_head_tiles(heads, kv_heads);
    if (n == 0)
        return 0;
    const int fill = n * min_int(div_up((int64_t)sms * FILL_PER_SM, n * tiles), CUDA_ROW_PARTS);
    const int least = max_int(fill, div_up(3 * (int64_t)n, 2));
    if (2 * n * tiles <= (int64_t)sms * AT_ONCE_PER_SM)
        return least;
    return max_int(least, min_int(ROW_PARTS * n, div_up((int64_t)sms * MOST_PER_SM, tiles)));
}

int cuda_parts_at_once(int heads, int kv_heads, int sms)
{
    return max_int(sms * AT_ONCE_PER_SM / cuda_attention_head_tiles(heads, kv_heads), 1);
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

/* ---- how long a size takes ------------------------------------------------------------------- */

/* The model of the header. Times are those of a stripe that a block reads alone. */
static const double START = 1.75, FULL_SHARE = 245.0 / 396;
enum { AT_ONCE_MOST = 512 };

/* Parts in the order in which they start; those of a class are taken as equal. */
struct queue {
    int parts[CLASSES];
    double stripes[CLASSES]; /* of a part, in the mean */
    int at;                  /* class of the next one */
};

static struct queue queue_of(const struct cuda_segment *rows, int n, int size)
{
    struct queue q = {0};
    for (int i = 0; i < n; i++) {
        const int stripes = stripes_of(&rows[i]), parts = div_up(stripes, size);
        const int c = class_of(stripes, parts, size);
        q.parts[c] += parts;
        q.stripes[c] += stripes;
    }
    for (int c = 0; c < CLASSES; c++)
        q.stripes[c] /= max_int(q.parts[c], 1);
    return q;
}

static bool queue_next(struct queue *q, double *stripes)
{
    while (q->at < CLASSES && q->parts[q->at] == 0)
        q->at++;
    if (q->at == CLASSES)
        return false;
    q->parts[q->at]--;
    *stripes = q->stripes[q->at];
    return true;
}

static bool earlier(const double *a, const double *b)
{
    return *a < *b;
}

/* Parts that run: they start, all for as long, then read. The ends are in stripes that each of
 * those that read has had so far. */
struct running {
    VEC(double) ends;
    struct {
        double ready_s, stripes;
    } starting[AT_ONCE_MOST]; /* ring */
    int first, n_starting;
};

double cuda_parts_cost(const struct cuda_segment *rows, int n, int size, int at_once)
{
    struct queue q = queue_of(rows, n, size);
    struct running r = {.n_starting = 0};
    const int room = min_int(at_once, AT_ONCE_MOST);
    const double full = FULL_SHARE * at_once;
    double now = 0, had = 0, stripes;
    for (;;) {
        while ((int)r.ends.n + r.n_starting < room && queue_next(&q, &stripes)) {
            const int k = (r.first + r.n_starting++) % AT_ONCE_MOST;
            r.starting[k].ready_s = now + START;
            r.starting[k].stripes = stripes;
        }
        const double rate = (double)r.ends.n > full ? full / (double)r.ends.n : 1;
        const double ready = r.n_starting ? r.starting[r.first].ready_s : INFINITY;
        const double end = r.ends.n ? now + (r.ends.p[0] - had) / rate : INFINITY;
        if (isinf(fmin(ready, end)))
            break;
        had += rate * (fmin(ready, end) - now);
        now = fmin(ready, end);
        if (ready <= end) {
            const double ends = had + r.starting[r.first].stripes;
            heap_push(&r.ends, earlier, ends);
            r.first = (r.first + 1) % AT_ONCE_MOST;
            r.n_starting--;
        } else {
            heap_pop(&r.ends, earlier, &had);
        }
    }
    vec_free(&r.ends);
    return now;
}

/* The fastest of the sizes that cut the longest row into 1, 2, 3 parts, and of the smallest. */
static int fastest_size(const struct cuda_segment *rows, int n, int smallest, int at_once)
{
    enum { WAYS = 3 };
    int best = smallest, longest = 0, last = smallest;
    if (at_once == 0)
        return smallest;
    for (int i = 0; i < n; i++)
        longest = max_int(longest, stripes_of(&rows[i]));
    double least = cuda_parts_cost(rows, n, smallest, at_once);
    for (int parts = WAYS; parts > 0; parts--) {
        const int size = div_up(longest, parts);
        if (size <= last)
            continue;
        const double cost = cuda_parts_cost(rows, n, size, at_once);
        if (cost <= least) {
            least = cost;
            best = size;
        }
        last = size;
    }
    return best;
}

/* ---- the list -------------------------------------------------------------------------------- */

int cuda_parts_plan(const struct cuda_segment *rows, int n, int most, int at_once,
                    struct cuda_part *out)
{
    int at[CLASSES] = {0}; /* parts of each class, then where the class goes on */
    if (n == 0)
        return 0;
    ASSERT(most >= n);
    const int size = fastest_size(rows, n, part_size(rows, n, most), at_once);
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
