/* The plan of decode attention: every key once, no part larger than any other needs to be. */
#include "engine/cuda/parts.h"

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

static int plan(const struct cuda_segment *rows, int n, int most, struct cuda_part *out)
{
    struct cuda_part again[MOST_PARTS];
    memset(out, 0x55, sizeof again);
    const int parts = cuda_parts_plan(rows, n, most, out);
    check_plan(rows, n, most, out, parts);
    assert_int_equal(parts, cuda_parts_plan(rows, n, most, again));
    assert_memory_equal(out, again, (size_t)parts * sizeof *out);
    return parts;
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

/* Equal rows: parts of each, and stripes of the largest, by the table of the header. */
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

static void there_is_room_for_any_batch(void **state)
{
    (void)state;
    static const struct {
        int heads, kv_heads, sms;
    } gpus[] = {{16, 8, 132}, {32, 32, 132}, {8, 1, 132}, {64, 8, 108}, {12, 4, 1}, {24, 2, 16}};
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++)
        for (int n = 1; n <= 256; n++) {
            const int most = cuda_parts_most(n, gpus[i].heads, gpus[i].kv_heads, gpus[i].sms);
            assert_true(2 * most >= 3 * n && most <= n * CUDA_ROW_PARTS);
            assert_true(most <= cuda_parts_bound(n, gpus[i].heads, gpus[i].kv_heads, gpus[i].sms));
        }
    assert_int_equal(cuda_parts_most(0, 16, 8, SMS), 0);
    assert_int_equal(cuda_parts_bound(0, 16, 8, SMS), 0);
    assert_int_equal(cuda_parts_plan(NULL, 0, 7, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(any_lengths_are_dealt_out),   TEST(the_longest_row_does_not_count),
        TEST(large_parts_come_first),      TEST(equal_rows_by_the_table),
        TEST(there_is_room_for_any_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
