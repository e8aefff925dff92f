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

static int stripes_of(const struct cuda_segment *s)
{
    return up(s->kv_before + s->tokens, CUDA_STRIPE_KEYS);
}

static int stripes_of_part(const struct cuda_part *p)
{
    const int all = up(p->position + 1, CUDA_STRIPE_KEYS);
    return all * (p->part + 1) / p->parts - all * p->part / p->parts;
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

/* Parts of a row stand one behind the other from `first` on and have all of its stripes; places in
 * `partial` are those of the list. */
static void check_plan(const struct cuda_segment *rows, int n, int most, const struct cuda_part *p,
                       int n_parts)
{
    int next[MOST_ROWS] = {0};
    assert_true(n_parts >= n && n_parts <= most);
    for (int i = 0; i < n_parts; i++) {
        const struct cuda_segment *s = &rows[p[i].seq];
        assert_true(p[i].seq >= 0 && p[i].seq < n);
        assert_int_equal(p[i].row, s->first);
        assert_int_equal(p[i].position, s->kv_before);
        assert_int_equal(p[i].table, s->table);
        assert_int_equal(p[i].part, next[p[i].seq]++);
        assert_int_equal(i, p[i].first + p[i].part);
        assert_true(p[i].parts <= CUDA_ROW_PARTS && stripes_of_part(&p[i]) > 0);
    }
    for (int i = 0; i < n_parts; i++)
        assert_int_equal(next[p[i].seq], p[i].parts);
    for (int i = 0; i < n; i++)
        assert_true(next[i] > 0);
}

static int plan_at_once(const struct cuda_segment *rows, int n, int most, int at_once,
                        struct cuda_part *out)
{
    struct cuda_part again[MOST_PARTS];
    memset(out, 0x55, sizeof again);
    const int parts = cuda_parts_plan(rows, n, most, at_once, out);
    check_plan(rows, n, most, out, parts);
    assert_int_equal(parts, cuda_parts_plan(rows, n, most, at_once, again));
    assert_memory_equal(out, again, (size_t)parts * sizeof *out);
    return parts;
}

static int plan(const struct cuda_segment *rows, int n, int most, struct cuda_part *out)
{
    return plan_at_once(rows, n, most, 0, out);
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
        const int most = k % 4 ? cuda_parts_most(n, 16, 8, SMS) : n + (int)rng_below(&r, 3);
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
        const int most = cuda_parts_most(n, 16, 8, SMS), n_parts = plan(rows, n, most, parts);
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
    const int n = plan(rows, 40, cuda_parts_most(40, 16, 8, SMS), parts);
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
                  most = cuda_parts_most(n, kv == 8 ? 16 : kv, kv, SMS);
        assert_int_equal(most, table[i].most);
        rows_of(rows, n, &length, 1);
        const int n_parts = plan(rows, n, most, parts);
        assert_int_equal(n_parts, n * table[i].parts);
        assert_int_equal(largest_of(parts, n_parts) * CUDA_STRIPE_KEYS, table[i].keys);
    }
}

/* ---- the fastest size ---- */

static const struct gpu {
    int heads, kv_heads, sms;
} gpus[] = {{16, 8, 132}, {32, 32, 132}, {8, 1, 132}, {64, 8, 108}, {12, 4, 1}, {24, 2, 16}};
enum { GPUS = sizeof gpus / sizeof *gpus };

static double cost_of(const struct cuda_segment *rows, int n, const struct gpu *g,
                      struct cuda_part *parts)
{
    const int once = cuda_parts_at_once(g->heads, g->kv_heads, g->sms),
              most = cuda_parts_most(n, g->heads, g->kv_heads, g->sms);
    return cuda_parts_cost(rows, n, largest_of(parts, plan_at_once(rows, n, most, once, parts)),
                           once);
}

/* Of the rule before: as many parts of each row as fill two blocks a multiprocessor. */
static double cost_before(const struct cuda_segment *rows, int n, const struct gpu *g)
{
    const int tiles = cuda_attention_head_tiles(g->heads, g->kv_heads),
              parts = up(2 * g->sms, n * tiles);
    const int cut = parts < CUDA_ROW_PARTS ? parts : CUDA_ROW_PARTS;
    return cuda_parts_cost(rows, n, up(stripes_of(&rows[0]), cut),
                           cuda_parts_at_once(g->heads, g->kv_heads, g->sms));
}

static void equal_rows_take_no_longer_than_by_the_rule_before(void **state)
{
    (void)state;
    static const int lengths[] = {60, 500, 1024, 1500, 4000};
    for (int i = 0; i < GPUS; i++)
        for (int n = 1; n <= 256; n += n < 80 ? 1 : 7)
            for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
                struct cuda_segment rows[MOST_ROWS];
                struct cuda_part parts[MOST_PARTS];
                rows_of(rows, n, &lengths[k], 1);
                const double now = cost_of(rows, n, &gpus[i], parts),
                             before = cost_before(rows, n, &gpus[i]);
                if (now > before * (1 + 1e-9))
                    fail_msg("GPU %d, %d rows of %d keys: %g, before %g", i, n, lengths[k], now,
                             before);
            }
}

/* Whatever the lengths: no slower than the smallest parts, and than the longest row in one piece;
 * no faster than memory, and by no more than two largest parts and the starts slower. */
static void any_lengths_take_little_longer_than_memory_does(void **state)
{
    (void)state;
    enum { START_MOST = 2 };
    struct rng r = rng_stream(5, "cost");
    for (int k = 0; k < 1500; k++) {
        const struct gpu *g = &gpus[k % GPUS];
        struct cuda_segment rows[MOST_ROWS];
        struct cuda_part parts[MOST_PARTS];
        const int n = 1 + (int)rng_below(&r, k % 10 ? 70 : 256);
        int keys[MOST_ROWS], all = 0, longest = 0;
        for (int i = 0; i < n; i++)
            keys[i] = 1 + (int)exp(2 + 6 * rng_unit(&r) * (k % 3 ? 1 : 0.2));
        rows_of(rows, n, keys, n);
        for (int i = 0; i < n; i++) {
            all += stripes_of(&rows[i]);
            longest = stripes_of(&rows[i]) > longest ? stripes_of(&rows[i]) : longest;
        }
        const int once = cuda_parts_at_once(g->heads, g->kv_heads, g->sms),
                  most = cuda_parts_most(n, g->heads, g->kv_heads, g->sms),
                  smallest = largest_of(parts, plan(rows, n, most, parts));
        const double cost = cost_of(rows, n, g, parts);
        const int n_parts = plan_at_once(rows, n, most, once, parts),
                  largest = largest_of(parts, n_parts);
        assert_true(cost <= cuda_parts_cost(rows, n, smallest, once) * (1 + 1e-9));
        assert_true(cost <= cuda_parts_cost(rows, n, longest, once) * (1 + 1e-9));
        const double memory = all / (once * 245.0 / 396), waves = (double)n_parts / once + 1;
        assert_true(cost >= memory && cost >= largest);
        if (cost > memory + 2 * largest + START_MOST * waves)
            fail_msg("GPU %d, %d rows, %d stripes: %g, memory %g, largest part %d of %d", k % GPUS,
                     n, all, cost, memory, largest, n_parts);
    }
}

/* Figures of the header. */
static void costs_by_the_table(void **state)
{
    (void)state;
    static const double US = 64 * 512 / 19e3; /* of a stripe */
    static const struct {
        int rows, gpu, parts;
        double before_us, now_us;
    } table[] = {{1, 0, 16, 4.7, 4.7},     {16, 0, 32, 17.6, 17.6},     {32, 0, 32, 42.1, 32.1},
                 {33, 0, 33, 33.1, 33.1},  {40, 0, 40, 39.4, 39.4},     {48, 0, 48, 46.7, 46.7},
                 {64, 0, 128, 78.2, 67.5}, {128, 0, 128, 125.8, 125.8}, {16, 1, 32, 78.2, 68.5},
                 {64, 1, 64, 268.7, 268.7}};
    static const int length = 1024;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct cuda_segment rows[MOST_ROWS];
        struct cuda_part parts[MOST_PARTS];
        const struct gpu *g = &gpus[table[i].gpu];
        const int n = table[i].rows, most = cuda_parts_most(n, g->heads, g->kv_heads, g->sms);
        rows_of(rows, n, &length, 1);
        assert_near(cost_of(rows, n, g, parts) * US, table[i].now_us, 0.06);
        assert_near(cost_before(rows, n, g) * US, table[i].before_us, 0.06);
        assert_int_equal(
            plan_at_once(rows, n, most, cuda_parts_at_once(g->heads, g->kv_heads, g->sms), parts),
            table[i].parts);
    }
}

static void there_is_room_for_any_batch(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++)
        for (int n = 1; n <= 256; n++) {
            const int most = cuda_parts_most(n, gpus[i].heads, gpus[i].kv_heads, gpus[i].sms);
            assert_true(2 * most >= 3 * n && most <= n * CUDA_ROW_PARTS);
            assert_true(most <= cuda_parts_bound(n, gpus[i].heads, gpus[i].kv_heads, gpus[i].sms));
        }
    assert_int_equal(cuda_parts_most(0, 16, 8, SMS), 0);
    assert_int_equal(cuda_parts_bound(0, 16, 8, SMS), 0);
    assert_int_equal(cuda_parts_plan(NULL, 0, 7, 0, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(any_lengths_are_dealt_out),
        TEST(the_longest_row_does_not_count),
        TEST(large_parts_come_first),
        TEST(equal_rows_by_the_table),
        TEST(equal_rows_take_no_longer_than_by_the_rule_before),
        TEST(any_lengths_take_little_longer_than_memory_does),
        TEST(costs_by_the_table),
        TEST(there_is_room_for_any_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
