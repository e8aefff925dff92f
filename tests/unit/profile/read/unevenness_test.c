#include "profile/read/unevenness.h"

#include "support/support.h"

static const char *rows(struct test *t, const char *lines)
{
    return test_write(t, "unevenness.csv", arena_printf(t->a, "batches,from,ratio\n%s", lines));
}

static void ratios_are_replayed_in_their_order(void **state)
{
    struct test *t = *state;
    struct unevenness *u;
    struct buf lines = {0};
    for (int i = 0; i < 10; i++) {
        buf_printf(&lines, "decode,1,%d\n", 1 + i); /* mean 5.5 */
        buf_printf(&lines, "decode,4,%d\n", 2);
    }
    buf_puts(&lines, "prompt,16,3\n"); /* too few to say anything */
    const char *path = rows(t, buf_str(&lines));
    buf_free(&lines);
    assert_ok(unevenness_load(t->a, path, &u, &t->e), t);
    struct rng r = rng_stream(1, "test");
    struct unevenness *replay = unevenness_begin(t->a, u, &r);
    double first = unevenness_next(replay, false, 3) * 5.5, sum = first;
    for (int i = 1; i < 10; i++) {
        double next = unevenness_next(replay, false, 3) * 5.5;
        assert_near(next, first == 10 ? 1 : first + 1, 1e-12);
        first = next;
        sum += next;
    }
    assert_near(sum, 55, 1e-9);
    assert_near(unevenness_next(replay, false, 4), 1, 0); /* all alike: even */
    assert_near(unevenness_next(replay, false, 400), 1, 0);
    assert_near(unevenness_next(replay, true, 16), 1, 0);
    assert_near(unevenness_next(replay, true, 8), 1, 0);
}

static void replays_begin_where_they_are_drawn(void **state)
{
    struct test *t = *state;
    struct unevenness *u;
    struct buf lines = {0};
    for (int i = 0; i < 1000; i++)
        buf_printf(&lines, "prompt,8,%d\n", 1 + i);
    const char *path = rows(t, buf_str(&lines));
    buf_free(&lines);
    assert_ok(unevenness_load(t->a, path, &u, &t->e), t);
    struct rng r = rng_stream(1, "test"), again = r;
    double one = unevenness_next(unevenness_begin(t->a, u, &r), true, 8);
    assert_true(one != unevenness_next(unevenness_begin(t->a, u, &r), true, 8));
    assert_near(one, unevenness_next(unevenness_begin(t->a, u, &again), true, 8), 0);
}

static void no_file_is_no_unevenness(void **state)
{
    struct test *t = *state;
    struct unevenness *u;
    assert_ok(unevenness_load(t->a, test_path(t, "none.csv"), &u, &t->e), t);
    assert_null(u);
}

static void a_bad_row_is_named(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *line, *text;
    } cases[] = {
        {"both,1,1\n", "DIR/unevenness.csv:2:1: batches: neither decode nor prompt"},
        {"decode,0,1\n", "DIR/unevenness.csv:2:2: from: 0 is below the minimum 1"},
        {"decode,1,0\n", "DIR/unevenness.csv:2:3: ratio: 0 is below the minimum 0.0001"},
        {"decode,1,nan\n", "DIR/unevenness.csv:2:3: ratio: expected a number, got 'nan'"},
        {"decode,1\n", "DIR/unevenness.csv:2: 2 cells where the header has 3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct unevenness *u;
        assert_err(unevenness_load(t->a, rows(t, cases[i].line), &u, &t->e), ST_INPUT, t,
                   cases[i].text);
        assert_null(u);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ratios_are_replayed_in_their_order),
        TEST(replays_begin_where_they_are_drawn),
        TEST(no_file_is_no_unevenness),
        TEST(a_bad_row_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
