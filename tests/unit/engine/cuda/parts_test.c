/* The plan of decode attention: every key once, no part larger than any other needs to be. */
#include "engine/cuda/parts.h"

#include <math.h>

#include "base/rng.h"
#include "support/support.h"

enum { MOST_ROWS = 300, MOST_PARTS = 1024, SMS = 132 };

static int up(int n, int by)
{
    return (n + by - 1) / by;
}

/* That the rows see, 0 = all keys: the plan's under test. */
static int window;

static int first_stripe(const struct cuda_segment *s)
{
    const int first = s->kv_before + s->tokens - window;
    return window > 0 && first > 0 ? first / CUDA_STRIPE_KEYS : 0;
}

static int stripes_of(const struct cuda_segment *s)
{
    return up(s->kv_before + s->tokens, CUDA_STRIPE_KEYS);
}

static int stripes_of_part(const struct cuda_part *p)
{
    return p->to - p->from;
}

static int largest_of(const struct cuda_part *p, int n)
{
    int largest = 0;
    for (int i = 0; i < n; i++)
        largest = stripes_of_part(&p[i]) > largest ? stripes_of_part(&p[i]) : largest;
    return largest;
}

static void rows_of(struct cuda_segment *rows, int n, const int *keys, int n_keys)
{
    for (int i = 0, table = 5; i < n; i++) {
        rows[i] = (struct cuda_segment){100 + i, 1, keys[i % n_keys] - 1, table};
        table += up(keys[i % n_keys], 16);
    }
}

struct deal {
    struct cuda_part parts[MOST_PARTS];
    int runs[MOST_PARTS];
    struct cuda_step step;
};

/* Parts of a row stand one behind the other from `first` on and have all of its stripes; every part
 * is in one run; rows of blocks past the last have none. */
static void check_plan(const struct cuda_segment *rows, int n, int most, const struct deal *d)
{
    const struct cuda_part *p = d->parts;
    const int n_parts = d->step.n_parts, n_runs = d->step.n_runs;
    int next[MOST_ROWS], cut[MOST_ROWS] = {0};
    for (int i = 0; i < n; i++)
        next[i] = first_stripe(&rows[i]);
    assert_true(n_parts >= n && n_parts <= cuda_parts_room(most, n) && n_runs <= most);
    for (int i = 0; i < n_parts; i++) {
        const struct cuda_segment *s = &rows[p[i].seq];
        assert_true(p[i].seq >= 0 && p[i].seq < n);
        assert_int_equal(p[i].row, s->first);
        assert_int_equal(p[i].position, s->kv_before);
        assert_int_equal(p[i].table, s->table);
        assert_int_equal(p[i].from, next[p[i].seq]);
        assert_int_equal(i, p[i].first + cut[p[i].seq]++);
        assert_true(p[i].parts <= CUDA_ROW_PARTS && p[i].from < p[i].to);
        next[p[i].seq] = p[i].to;
    }
    for (int i = 0; i < n_parts; i++)
        assert_int_equal(cut[p[i].seq], p[i].parts);
    for (int i = 0; i < n; i++)
        assert_int_equal(next[i], stripes_of(&rows[i]));
    assert_int_equal(d->runs[0], 0);
    for (int i = 0; i < most; i++)
        assert_true(d->runs[i] <= d->runs[i + 1]);
    for (int i = n_runs; i <= most; i++)
        assert_int_equal(d->runs[i], n_parts);
}

/* Twice, for the same bytes, and nothing else of the step or behind the lists. */
static void make(const struct cuda_segment *rows, int n, enum cuda_deal deal, int most, int at_once,
                 struct deal *d)
{
    static struct deal again;
    const struct cuda_parts_limits limits = {deal, most, at_once, window};
    memset(d, 0x55, sizeof *d);
    memset(&again, 0x55, sizeof again);
    cuda_parts_plan(rows, n, &limits, d->parts, d->runs, &d->step);
    check_plan(rows, n, most, d);
    assert_int_equal(d->step.n_tokens, 0x55555555);
    assert_int_equal(d->runs[most + 1], 0x55555555);
    assert_int_equal(d->parts[cuda_parts_room(most, n)].row, 0x55555555);
    cuda_parts_plan(rows, n, &limits, again.parts, again.runs, &again.step);
    memcpy(again.parts + d->step.n_parts, d->parts + d->step.n_parts,
           (size_t)(MOST_PARTS - d->step.n_parts) * sizeof *d->parts); /* room for other forms */
    assert_memory_equal(d, &again, sizeof again);
}

/* The smallest parts. */
static int plan(const struct cuda_segment *rows, int n, int most, struct cuda_part *out)
{
    static struct deal d;
    make(rows, n, CUDA_DEAL_SMALLEST, most, 0, &d);
    assert_int_equal(d.step.n_runs, d.step.n_parts);
    memcpy(out, d.parts, sizeof d.parts);
    return d.step.n_parts;
}

static double cost_of(const struct deal *d, int at_once)
{
    return cuda_parts_cost(d->parts, d->runs, d->step.n_runs, at_once);
}

/* Nothing larger fits: one stripe less a part, and there were more parts than allowed. */
static void size_is_the_smallest(const struct cuda_segment *rows, int n, int most, int largest)
{
    int64_t parts = 0;
    int longest = 0;
    for (int i = 0; i < n; i++)
        longest = stripes_of(&rows[i]) > longest ? stripes_of(&rows[i]) : longest;
    if (largest == 1 || up(longest, CUDA_ROW_PARTS) == largest)
        return;
    for (int i = 0; i < n; i++)
        parts += up(stripes_of(&rows[i]), largest - 1);
    assert_true(parts > most);
}

static void any_lengths_are_dealt_out(void **state)
{
    (void)state;
    struct rng r = rng_stream(3, "parts");
    for (int k = 0; k < 2000; k++) {
        struct cuda_segment rows[MOST_ROWS];
        struct cuda_part parts[MOST_PARTS];
        int keys[MOST_ROWS], most_keys = 1 << (1 + rng_below(&r, 14));
        const int n = 1 + (int)rng_below(&r, k % 10 ? 70 : MOST_ROWS);
        for (int i = 0; i < n; i++)
            keys[i] = 1 + (int)rng_below(&r, (uint64_t)most_keys);
        if (k % 3 == 0)
            keys[rng_below(&r, (uint64_t)n)] = 200000;
        rows_of(rows, n, keys, n);
        const int most =
            k % 4 ? cuda_parts_most(CUDA_DEAL_SMALLEST, n, 16, 8, SMS) : n + (int)rng_below(&r, 3);
        const int n_parts = plan(rows, n, most, parts);
        size_is_the_smallest(rows, n, most, largest_of(parts, n_parts));
    }
}

/* The bound of the header: no part is larger than ceil(all / (most - rows)), whatever the longest
 * row is. */
static void the_longest_row_does_not_count(void **state)
{
    (void)state;
    static const int lengths[] = {64, 128, 4096};
    struct cuda_segment rows[MOST_ROWS];
    struct cuda_part parts[MOST_PARTS];
    for (int n = 33; n <= 128; n += 5) {
        int all = 0;
        rows_of(rows, n, lengths, 3);
        for (int i = 0; i < n; i++)
            all += stripes_of(&rows[i]);
        const int most = cuda_parts_most(CUDA_DEAL_SMALLEST, n, 16, 8, SMS),
                  n_parts = plan(rows, n, most, parts);
        assert_true(largest_of(parts, n_parts) <= up(all, most - n));
        assert_true(largest_of(parts, n_parts) < 64);
    }
}

static void large_parts_come_first(void **state)
{
    (void)state;
    static const int lengths[] = {100, 5000, 64, 900, 1, 2048};
    struct cuda_segment rows[MOST_ROWS];
    struct cuda_part parts[MOST_PARTS];
    rows_of(rows, 40, lengths, 6);
    const int n = plan(rows, 40, cuda_parts_most(CUDA_DEAL_SMALLEST, 40, 16, 8, SMS), parts);
    const int largest = largest_of(parts, n);
    for (int i = 1; i < n; i++) /* in eighths of the largest, and a stripe of an uneven cut */
        assert_true(stripes_of_part(&parts[i]) <= stripes_of_part(&parts[i - 1]) + largest / 8 + 1);
    assert_int_equal(stripes_of_part(&parts[n - 1]), 1);
}

/* Equal rows in parts of the smallest size: how many of each, and keys of the largest. */
static void equal_rows_by_the_table(void **state)
{
    (void)state;
    static const struct {
        int rows, kv_heads, most, parts, keys;
    } table[] = {{1, 8, 33, 16, 64},   {16, 8, 48, 3, 384},    {24, 8, 48, 2, 512},
                 {32, 8, 96, 3, 384},  {33, 8, 99, 3, 384},    {48, 8, 132, 2, 512},
                 {64, 8, 132, 2, 512}, {128, 8, 192, 1, 1024}, {64, 32, 96, 1, 1024}};
    static const int length = 1024;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct cuda_segment rows[MOST_ROWS];
        struct cuda_part parts[MOST_PARTS];
        const int n = table[i].rows, kv = table[i].kv_heads,
                  most = cuda_parts_most(CUDA_DEAL_SMALLEST, n, kv == 8 ? 16 : kv, kv, SMS);
        assert_int_equal(most, table[i].most);
        rows_of(rows, n, &length, 1);
        const int n_parts = plan(rows, n, most, parts);
        assert_int_equal(n_parts, n * table[i].parts);
        assert_int_equal(largest_of(parts, n_parts) * CUDA_STRIPE_KEYS, table[i].keys);
    }
}

/* ---- runs ---- */

/* Each run has its share of stripes and parts, to a stripe at each end and what it cannot cut. */
static void runs_are_equal(void **state)
{
    (void)state;
    static struct deal d;
    struct rng r = rng_stream(4, "runs");
    for (int k = 0; k < 2000; k++) {
        struct cuda_segment rows[MOST_ROWS];
        int keys[MOST_ROWS], most_keys = 1 << (1 + rng_below(&r, 14));
        const int n = 1 + (int)rng_below(&r, k % 10 ? 70 : MOST_ROWS),
                  most = 1 + (int)rng_below(&r, k % 3 ? 50 : 400);
        int64_t weight = n, longest = 0;
        for (int i = 0; i < n; i++)
            keys[i] = 1 + (int)rng_below(&r, (uint64_t)most_keys);
        if (k % 5 == 0)
            keys[rng_below(&r, (uint64_t)n)] = 200000;
        rows_of(rows, n, keys, n);
        for (int i = 0; i < n; i++) {
            weight += stripes_of(&rows[i]);
            longest = stripes_of(&rows[i]) > longest ? stripes_of(&rows[i]) : longest;
        }
        make(rows, n, CUDA_DEAL_RUNS, most, most, &d);
        const int n_runs = d.step.n_runs;
        if (n_runs < most && n_runs < weight) /* a row may not be cut more often */
            assert_true((n_runs + 1) * (longest + 1) > (CUDA_ROW_PARTS - 2) * weight);
        for (int i = 0; i < n_runs; i++) {
            int share = 0;
            for (int j = d.runs[i]; j < d.runs[i + 1]; j++)
                share += stripes_of_part(&d.parts[j]) + 1;
            const double mean = (double)weight / n_runs;
            /* a run that begins within a row has its weight too; one that begins with it may have
             * lost that to the run in front */
            assert_true(share <= mean + 2 && share >= mean - 2);
        }
    }
}

/* 64 rows of 16 stripes in 49 runs, as an H200 takes those of 16 heads of 8: most rows are in one
 * run or two, where a part a block leaves the second of two waves a third full. */
static void runs_fill_the_gpu_once(void **state)
{
    (void)state;
    static const int length = 1024;
    static struct deal d;
    struct cuda_segment rows[MOST_ROWS];
    rows_of(rows, 64, &length, 1);
    assert_int_equal(cuda_parts_most(CUDA_DEAL_FASTEST, 64, 16, 8, SMS), 49);
    make(rows, 64, CUDA_DEAL_FASTEST, 49, 49, &d);
    assert_int_equal(d.step.n_runs, 49);
    assert_int_equal(d.step.n_parts, 107); /* 5 cuts fall between rows */
    for (int i = 0; i < 49; i++)
        assert_true(d.runs[i + 1] - d.runs[i] >= 2 && d.runs[i + 1] - d.runs[i] <= 3);
}

/* The switch: without runs the plan is a part a block, in the grid of that rule. */
static void without_runs_each_part_has_its_block(void **state)
{
    (void)state;
    static const int lengths[] = {1024, 90, 5000};
    static struct deal d;
    struct cuda_segment rows[MOST_ROWS];
    rows_of(rows, 64, lengths, 3);
    const int most = cuda_parts_most(CUDA_DEAL_SINGLE, 64, 16, 8, SMS);
    assert_int_equal(most, 132);
    make(rows, 64, CUDA_DEAL_SINGLE, most, 49, &d);
    assert_int_equal(d.step.n_runs, d.step.n_parts);
    for (int i = 0; i <= d.step.n_runs; i++)
        assert_int_equal(d.runs[i], i);
}

/* ---- the fastest plan ---- */

static const struct gpu {
    int heads, kv_heads, sms;
} gpus[] = {{16, 8, 132}, {32, 32, 132}, {8, 1, 132}, {64, 8, 108}, {12, 4, 1}, {24, 2, 16}};
enum { GPUS = sizeof gpus / sizeof *gpus };

static double make_on(const struct cuda_segment *rows, int n, const struct gpu *g,
                      enum cuda_deal deal, struct deal *d)
{
    const int once = cuda_parts_at_once(g->heads, g->kv_heads, g->sms);
    make(rows, n, deal, cuda_parts_most(deal, n, g->heads, g->kv_heads, g->sms), once, d);
    return cost_of(d, once);
}

/* Of as many parts of each of n equal rows, a block each. */
static double cost_cut(int n, int keys, int parts, const struct gpu *g)
{
    static struct deal d;
    struct cuda_segment rows[MOST_ROWS];
    const int once = cuda_parts_at_once(g->heads, g->kv_heads, g->sms);
    rows_of(rows, n, &keys, 1);
    make(rows, n, CUDA_DEAL_SMALLEST, n * parts, once, &d);
    return cost_of(&d, once);
}

/* No slower than each of the forms where it has room for both; single where it has not. */
static void the_faster_form_is_taken(void **state)
{
    (void)state;
    static struct deal d;
    struct rng r = rng_stream(5, "cost");
    for (int k = 0; k < 1500; k++) {
        const struct gpu *g = &gpus[k % GPUS];
        struct cuda_segment rows[MOST_ROWS];
        const int n = 1 + (int)rng_below(&r, k % 10 ? 70 : 256),
                  once = cuda_parts_at_once(g->heads, g->kv_heads, g->sms);
        int keys[MOST_ROWS];
        for (int i = 0; i < n; i++)
            keys[i] = 1 + (int)exp(2 + 6 * rng_unit(&r) * (k % 3 ? 1 : 0.2));
        rows_of(rows, n, keys, n);
        const double fastest = make_on(rows, n, g, CUDA_DEAL_FASTEST, &d);
        const bool few = 2 * n <= 3 * once;
        assert_int_equal(cuda_parts_most(CUDA_DEAL_FASTEST, n, g->heads, g->kv_heads, g->sms),
                         few ? once
                             : cuda_parts_most(CUDA_DEAL_SINGLE, n, g->heads, g->kv_heads, g->sms));
        if (few)
            assert_true(fastest <= make_on(rows, n, g, CUDA_DEAL_RUNS, &d) * (1 + 1e-9));
        if (n <= once || !few) {
            const int most =
                few ? once : cuda_parts_most(CUDA_DEAL_SINGLE, n, g->heads, g->kv_heads, g->sms);
            make(rows, n, CUDA_DEAL_SINGLE, most, once, &d);
            assert_true(fastest <= cost_of(&d, once) * (1 + 1e-9));
        }
    }
}

/* No faster than memory, whatever the lengths; runs take no longer than that, or than their share
 * by a block of three, and what they begin with. */
static void runs_take_little_longer_than_memory_does(void **state)
{
    (void)state;
    static const double START = 2.5 / (64 * 512 / 15e3), SHARE = 4540 / 15.0 / 396;
    static struct deal d;
    struct rng r = rng_stream(6, "cost");
    for (int k = 0; k < 600; k++) {
        const struct gpu *g = &gpus[k % GPUS];
        struct cuda_segment rows[MOST_ROWS];
        const int n = 1 + (int)rng_below(&r, 200),
                  once = cuda_parts_at_once(g->heads, g->kv_heads, g->sms);
        int keys[MOST_ROWS], all = 0;
        for (int i = 0; i < n; i++)
            keys[i] = 1 + (int)exp(2 + 6 * rng_unit(&r));
        rows_of(rows, n, keys, n);
        for (int i = 0; i < n; i++)
            all += stripes_of(&rows[i]);
        const double cost = make_on(rows, n, g, CUDA_DEAL_RUNS, &d);
        double slowest = 0;
        for (int i = 0; i < d.step.n_runs; i++) {
            double begins = 0, reads = 0;
            for (int j = d.runs[i]; j < d.runs[i + 1]; j++) {
                begins += START;
                reads += stripes_of_part(&d.parts[j]);
            }
            slowest = fmax(slowest, begins + reads / fmin(SHARE * once / d.step.n_runs, 1));
        }
        assert_true(cost >= all / (SHARE * once));
        assert_true(cost <= slowest * (1 + 1e-9));
    }
}

/* Times of `gpu_bench unequal` on an H200, us: the constants of the model are those nearest to
 * them. Here rows of 1,024 keys, in 1 to 4 parts. */
static void the_model_is_near_what_was_measured(void **state)
{
    (void)state;
    static const double STRIPE_US = 64 * 512 / 15e3, ENDS_US = 5.7;
    static const struct {
        int gpu, rows;
        double us[4];
    } seen[] = {{0, 16, {27.6, 25.7, 21.6, 27.7}},    {0, 24, {31.2, 28.8, 34.7, 33.8}},
                {0, 33, {45.4, 45.2, 42.2, 44.7}},    {0, 48, {50.4, 55.8, 58.8, 60.9}},
                {0, 64, {75.3, 75.6, 76.5, 79.4}},    {0, 128, {131.8, 143.6, 142.1, 149.3}},
                {1, 16, {74.9, 73.9, 74.7, 77.4}},    {1, 24, {96.5, 105.9, 107.2, 111.8}},
                {1, 64, {256.9, 262.4, 264.5, 278.5}}};
    double squares = 0;
    int n = 0;
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++)
        for (int parts = 1; parts <= 4; parts++) {
            const double us = seen[i].us[parts - 1],
                         model =
                             cost_cut(seen[i].rows, 1024, parts, &gpus[seen[i].gpu]) * STRIPE_US +
                             ENDS_US;
            squares += log(model / us) * log(model / us);
            n++;
            if (fabs(model / us - 1) > 0.15)
                fail_msg("%d rows in %d parts: %.1f us, the model %.1f", seen[i].rows, parts, us,
                         model);
        }
    assert_true(sqrt(squares / n) < 0.05);
}

/* Figures of the header. */
static void costs_by_the_table(void **state)
{
    (void)state;
    static const double STRIPE_US = 64 * 512 / 15e3;
    static const struct {
        int rows, gpu;
        double single_us, now_us;
    } table[] = {{1, 0, 3.7, 3.7},       {16, 0, 17.7, 17.7}, {24, 0, 24.9, 24.9},
                 {33, 0, 37.5, 34.3},    {48, 0, 47.3, 47.3}, {64, 0, 69.5, 65.4},
                 {128, 0, 133.9, 133.9}, {16, 1, 69.5, 66.5}, {64, 1, 262.4, 262.4}};
    static const int length = 1024;
    static struct deal d;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct cuda_segment rows[MOST_ROWS];
        const struct gpu *g = &gpus[table[i].gpu];
        const int n = table[i].rows;
        rows_of(rows, n, &length, 1);
        assert_near(make_on(rows, n, g, CUDA_DEAL_SINGLE, &d) * STRIPE_US, table[i].single_us,
                    0.06);
        assert_near(make_on(rows, n, g, CUDA_DEAL_FASTEST, &d) * STRIPE_US, table[i].now_us, 0.06);
    }
}

static void there_is_room_for_any_batch(void **state)
{
    (void)state;
    static struct deal d;
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++)
        for (int n = 1; n <= 256; n++) {
            const struct gpu *g = &gpus[i];
            const int single = cuda_parts_most(CUDA_DEAL_SINGLE, n, g->heads, g->kv_heads, g->sms);
            struct cuda_sizes s = {.decodes = n, .sms = g->sms};
            assert_true(2 * single >= 3 * n && single <= n * CUDA_ROW_PARTS);
            cuda_parts_sizes(CUDA_DEAL, g->heads, g->kv_heads, &s);
            assert_int_equal(s.runs, cuda_parts_most(CUDA_DEAL, n, g->heads, g->kv_heads, g->sms));
            assert_int_equal(s.parts, s.runs + n);
            assert_true(s.runs <= cuda_parts_bound(n, g->heads, g->kv_heads, g->sms));
        }
    assert_int_equal(cuda_parts_most(CUDA_DEAL, 0, 16, 8, SMS), 0);
    assert_int_equal(cuda_parts_bound(0, 16, 8, SMS), 0);
    make(NULL, 0, CUDA_DEAL, 0, 49, &d);
    make(NULL, 0, CUDA_DEAL, 7, 49, &d);
    assert_int_equal(d.step.n_runs, 0);
}

/* The stripes from the one with the first key that is seen, in every form. */
static void windows_are_dealt_out(void **state)
{
    static const int windows[] = {1, 16, 63, 64, 65, 128, 1024, 1 << 20};
    static const enum cuda_deal deals[] = {CUDA_DEAL_SMALLEST, CUDA_DEAL_SINGLE, CUDA_DEAL_RUNS,
                                           CUDA_DEAL_FASTEST};
    static struct deal d;
    struct rng r = rng_stream(5, "windows");
    struct cuda_segment rows[64];
    (void)state;
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++)
        for (int n = 1; n <= 64; n = 2 * n + 1)
            for (size_t k = 0; k < sizeof deals / sizeof *deals; k++) {
                int keys[64];
                for (int j = 0; j < n; j++)
                    keys[j] = 1 + (int)rng_below(&r, j % 2 ? 300 : 5000);
                rows_of(rows, n, keys, n);
                window = windows[i];
                make(rows, n, deals[k], 3 * n, 49, &d);
            }
    window = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(any_lengths_are_dealt_out),
        TEST(the_longest_row_does_not_count),
        TEST(large_parts_come_first),
        TEST(equal_rows_by_the_table),
        TEST(runs_are_equal),
        TEST(runs_fill_the_gpu_once),
        TEST(without_runs_each_part_has_its_block),
        TEST(the_faster_form_is_taken),
        TEST(runs_take_little_longer_than_memory_does),
        TEST(the_model_is_near_what_was_measured),
        TEST(costs_by_the_table),
        TEST(there_is_room_for_any_batch),
        TEST(windows_are_dealt_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
