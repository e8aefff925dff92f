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

/* Of a part a block. */
static int most_singles(int n, int64_t tiles, int sms)
{
    enum { FILL_PER_SM = 2, MOST_PER_SM = 8, ROW_PARTS = 3 };
    const int fill = n * min_int(div_up((int64_t)sms * FILL_PER_SM, n * tiles), CUDA_ROW_PARTS);
    const int least = max_int(fill, div_up(3 * (int64_t)n, 2));
    if (2 * n * tiles <= (int64_t)sms * AT_ONCE_PER_SM)
        return least;
    return max_int(least, min_int(ROW_PARTS * n, div_up((int64_t)sms * MOST_PER_SM, tiles)));
}

int cuda_parts_most(enum cuda_deal deal, int n, int heads, int kv_heads, int sms)
{
    enum { RUN_HALF_WAVES = 3 };
    const int at_once = cuda_parts_at_once(heads, kv_heads, sms);
    if (n == 0)
        return 0;
    if (deal == CUDA_DEAL_RUNS || (deal == CUDA_DEAL_FASTEST && 2 * n <= RUN_HALF_WAVES * at_once))
        return at_once;
    return most_singles(n, cuda_attention_head_tiles(heads, kv_heads), sms);
}

int cuda_parts_at_once(int heads, int kv_heads, int sms)
{
    return max_int(sms * AT_ONCE_PER_SM / cuda_attention_head_tiles(heads, kv_heads), 1);
}

int cuda_parts_bound(int n, int heads, int kv_heads, int sms)
{
    int most = 0;
    for (int i = 1; i <= n; i++)
        most = max_int(most, cuda_parts_most(CUDA_DEAL, i, heads, kv_heads, sms));
    return most;
}

void cuda_parts_sizes(enum cuda_deal deal, int heads, int kv_heads, struct cuda_sizes *s)
{
    s->runs = cuda_parts_most(deal, s->decodes, heads, kv_heads, s->sms);
    s->parts = cuda_parts_room(s->runs, s->decodes);
    s->parts_at_once = cuda_parts_at_once(heads, kv_heads, s->sms);
}

int cuda_parts_room(int most, int n)
{
    return most + n;
}

/* ---- a part a block -------------------------------------------------------------------------- */

/* The stripe of the first key that the row sees. */
static int first_stripe(const struct cuda_segment *row, int window)
{
    const int64_t first = (int64_t)row->kv_before + row->tokens - window;
    return window > 0 && first > 0 ? (int)(first / CUDA_STRIPE_KEYS) : 0;
}

/* That it reads. */
static int stripes_of(const struct cuda_segment *row, int window)
{
    return div_up((int64_t)row->kv_before + row->tokens, CUDA_STRIPE_KEYS) -
           first_stripe(row, window);
}

static int64_t parts_of(const struct cuda_segment *rows, int n, int window, int size)
{
    int64_t parts = 0;
    for (int i = 0; i < n; i++)
        parts += div_up(stripes_of(&rows[i], window), size);
    return parts;
}

/* The smallest S of the header: the parts become fewer as it grows. */
static int part_size(const struct cuda_segment *rows, int n, int window, int most)
{
    int64_t all = 0;
    int longest = 0;
    for (int i = 0; i < n; i++) {
        const int stripes = stripes_of(&rows[i], window);
        all += stripes;
        longest = max_int(longest, stripes);
    }
    int lo = max_int(div_up(all, most), div_up(longest, CUDA_ROW_PARTS)), hi = longest;
    if (most > n)
        hi = max_int(lo, min_int(longest, div_up(all, most - n)));
    while (lo < hi) {
        const int middle = lo + (hi - lo) / 2;
        if (parts_of(rows, n, window, middle) <= most)
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

/* A plan as it is written; runs[n_runs] is its end. */
struct part_list {
    struct cuda_part *parts;
    int *runs;
    int n_parts, n_runs;
};

/* from, to: of the stripes that the row reads. */
static void put_part(struct part_list *l, int at, const struct cuda_segment *rows, int seq,
                     int window, int from, int to)
{
    const int first = first_stripe(&rows[seq], window);
    l->parts[at] = (struct cuda_part){.row = rows[seq].first,
                                      .position = rows[seq].kv_before,
                                      .table = rows[seq].table,
                                      .seq = seq,
                                      .from = first + from,
                                      .to = first + to};
}

/* n parts from `first` on are those of one row. */
static void join_parts(struct part_list *l, int first, int n)
{
    for (int j = 0; j < n; j++) {
        l->parts[first + j].first = first;
        l->parts[first + j].parts = n;
    }
}

static void list_singles(const struct cuda_segment *rows, int n, int window, int size,
                         struct part_list *l)
{
    int at[CLASSES] = {0}; /* parts of each class, then where the class goes on */
    for (int i = 0; i < n; i++) {
        const int stripes = stripes_of(&rows[i], window), parts = div_up(stripes, size);
        at[class_of(stripes, parts, size)] += parts;
    }
    int used = 0;
    for (int c = 0; c < CLASSES; c++) {
        const int here = at[c];
        at[c] = used;
        used += here;
    }
    for (int i = 0; i < n; i++) {
        const int stripes = stripes_of(&rows[i], window), parts = div_up(stripes, size);
        int *to = &at[class_of(stripes, parts, size)];
        for (int j = 0; j < parts; j++)
            put_part(l, *to + j, rows, i, window, (int)((int64_t)stripes * j / parts),
                     (int)((int64_t)stripes * (j + 1) / parts));
        join_parts(l, *to, parts);
        *to += parts;
    }
    l->n_parts = l->n_runs = used;
    for (int i = 0; i <= used; i++)
        l->runs[i] = i;
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* What a part takes of a run besides its stripes, in stripes: START of the model below. */
enum { PART_WEIGHT = 1 };

/* As many runs as there is room for, none so short that a row is cut too often. */
static void list_runs(const struct cuda_segment *rows, int n, int window, int most,
                      struct part_list *l)
{
    int64_t all = 0, longest = 0, begin = 0;
    for (int i = 0; i < n; i++) {
        const int weight = stripes_of(&rows[i], window) + PART_WEIGHT;
        all += weight;
        longest = weight > longest ? weight : longest;
    }
    int64_t n_runs = most < all ? most : all;
    if (n_runs * longest > (CUDA_ROW_PARTS - 2) * all) /* a row touches a run more at each end */
        n_runs = max_int((int)((CUDA_ROW_PARTS - 2) * all / longest), 1);
    int run = 0, at = 0;
    l->runs[0] = 0;
    for (int i = 0; i < n; i++) {
        const int stripes = stripes_of(&rows[i], window), first = at;
        const int64_t end = begin + stripes + PART_WEIGHT;
        int from = 0;
        for (int64_t cut; run + 1 < n_runs && (cut = all * (run + 1) / n_runs) < end;) {
            const int to = max_int((int)(cut - begin) - PART_WEIGHT, 0);
            if (to > from)
                put_part(l, at++, rows, i, window, from, to);
            from = to;
            l->runs[++run] = at;
        }
        put_part(l, at++, rows, i, window, from, stripes);
        join_parts(l, first, at - first);
        begin = end;
    }
    l->n_runs = (int)n_runs;
    l->n_parts = l->runs[l->n_runs] = at;
}

/* ---- how long a list takes ------------------------------------------------------------------- */

/* The model of the header. Times are those of a stripe that a block reads beside two others. */
static const double BLOCK_GB_S = 15, /* a block with two others on its multiprocessor */
    PAIR_GB_S = 21, LONE_GB_S = 28, ALL_GB_S = 4540, SLOTS = 396, START_US = 2.5,
                    STRIPE_US = 64 * 512 / 15e3;

struct stripe_reader {
    double at; /* when it reads; then, in stripes that each has had, when it ends */
    double stripes;
};

static bool earlier(const struct stripe_reader *a, const struct stripe_reader *b)
{
    return a->at < b->at;
}

/* Of a block where n read; of those that run at once. */
static double rate_of(double n, double at_once)
{
    const double alone = 3 * n <= at_once ? LONE_GB_S : 2 * n <= at_once ? PAIR_GB_S : BLOCK_GB_S;
    return fmin(alone, ALL_GB_S / SLOTS * at_once / n) / BLOCK_GB_S;
}

double cuda_parts_cost(const struct cuda_part *parts, const int *runs, int n_runs, int at_once)
{
    const double start = START_US / STRIPE_US;
    VEC(struct stripe_reader) starting = {0}, reading = {0};
    double now = 0, had = 0;
    for (int run = 0;;) {
        while (run < n_runs && (int)(starting.n + reading.n) < at_once) {
            struct stripe_reader r = {.at = now};
            for (int i = runs[run]; i < runs[run + 1]; i++) {
                r.at += start;
                r.stripes += parts[i].to - parts[i].from;
            }
            if (runs[run] < runs[run + 1])
                heap_push(&starting, earlier, r);
            run++;
        }
        const double rate = rate_of(fmax((double)reading.n, 1), at_once);
        const double ready = starting.n ? starting.p[0].at : INFINITY;
        const double end = reading.n ? now + (reading.p[0].at - had) / rate : INFINITY;
        struct stripe_reader next;
        if (isinf(fmin(ready, end)))
            break;
        had += rate * (fmin(ready, end) - now);
        now = fmin(ready, end);
        if (ready <= end) {
            heap_pop(&starting, earlier, &next);
            next.at = had + next.stripes;
            heap_push(&reading, earlier, next);
        } else {
            heap_pop(&reading, earlier, &next);
            had = next.at;
        }
    }
    vec_free(&starting);
    vec_free(&reading);
    return now;
}

static double cost_of(const struct part_list *l, int at_once)
{
    return cuda_parts_cost(l->parts, l->runs, l->n_runs, at_once);
}

/* ---- the plan -------------------------------------------------------------------------------- */

/* Of the fastest of the sizes that cut the longest row into 1, 2, 3 parts, and of the smallest. */
static double list_fastest_singles(const struct cuda_segment *rows, int n,
                                   const struct cuda_parts_limits *m, struct part_list *l)
{
    enum { WAYS = 3 };
    const int window = m->window;
    int best = part_size(rows, n, window, m->most), longest = 0, last = best;
    for (int i = 0; i < n; i++)
        longest = max_int(longest, stripes_of(&rows[i], window));
    list_singles(rows, n, window, best, l);
    double least = cost_of(l, m->at_once);
    for (int parts = WAYS; parts > 0; parts--) {
        const int size = div_up(longest, parts);
        if (size <= last)
            continue;
        list_singles(rows, n, window, size, l);
        const double cost = cost_of(l, m->at_once);
        if (cost <= least) {
            least = cost;
            best = size;
        }
        last = size;
    }
    if (best != last)
        list_singles(rows, n, window, best, l);
    return least;
}

void cuda_parts_plan(const struct cuda_segment *rows, int n, const struct cuda_parts_limits *m,
                     struct cuda_part *parts, int *runs, struct cuda_step *step)
{
    struct part_list l = {.parts = parts, .runs = runs};
    const bool single = m->deal != CUDA_DEAL_RUNS && n <= m->most,
               in_runs = m->deal == CUDA_DEAL_RUNS ||
                         (m->deal == CUDA_DEAL_FASTEST && m->most <= m->at_once);
    ASSERT(single || in_runs);
    if (n == 0) {
        l.n_runs = 0;
    } else if (m->deal == CUDA_DEAL_SMALLEST) {
        list_singles(rows, n, m->window, part_size(rows, n, m->window, m->most), &l);
    } else if (!single) {
        list_runs(rows, n, m->window, m->most, &l);
    } else {
        double runs_cost = INFINITY;
        if (in_runs) {
            list_runs(rows, n, m->window, m->most, &l);
            runs_cost = cost_of(&l, m->at_once);
        }
        if (list_fastest_singles(rows, n, m, &l) > runs_cost)
            list_runs(rows, n, m->window, m->most, &l);
    }
    ASSERT(l.n_runs <= m->most && l.n_parts <= cuda_parts_room(m->most, n));
    for (int i = l.n_runs; i <= m->most; i++)
        runs[i] = l.n_parts;
    step->n_parts = l.n_parts;
    step->n_runs = l.n_runs;
}
