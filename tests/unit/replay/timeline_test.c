/* When the operations of a captured region ran, as a picture. */
#include "replay/timeline.h"

#include <math.h>

#include "support/replay_case.h"
#include "support/support.h"

static struct capsule open_case(struct test *t)
{
    struct capsule c;
    assert_ok(replay_case_write(test_path(t, "c"), 0, (struct sv){0}, &t->e), t);
    assert_ok(capsule_open(t->a, test_path(t, "c"), &c, &t->e), t);
    return c;
}

/* A bar for each launch, copy and set, in the lane of its stream, with its name and duration. */
static void a_row_is_a_stream(void **state)
{
    struct test *t = *state;
    struct capsule c = open_case(t);
    const struct kernels_gantt g = replay_timeline(t->a, &c);
    size_t second = 0;
    assert_true(kernels_gantt_ok(&g));
    assert_int_equal(g.n_lanes, 2);
    assert_string_equal(g.lanes[0], "stream 0");
    assert_int_equal(g.lane.n, 11); /* of 13 operations two are waits */
    assert_int_equal((int)g.kind.v[0], KERNELS_BAR_COPY);
    assert_string_equal(g.names[(size_t)g.name.v[0]], "Memcpy HtoD");
    assert_int_equal((int)g.kind.v[1], KERNELS_BAR_OTHER);
    assert_string_equal(g.names[(size_t)g.name.v[1]], "roof_write");
    for (size_t i = 0; i < g.lane.n; i++) {
        assert_near(g.duration_ns.v[i], 10000, 0);
        assert_near_rel(g.width_percent.v[i], 1e6 / (double)g.span_ns, 1e-3);
        second += g.lane.v[i] > 0;
    }
    assert_true(second > 0 && second < g.lane.n);
    assert_near(g.start_percent.v[0], 0, 0);
    capsule_close(&c);
}

static void what_has_no_times_has_no_bars(void **state)
{
    struct test *t = *state;
    struct capsule c = open_case(t);
    struct capsule_op *ops = arena_copy(t->a, c.ops, c.n_ops * sizeof *ops);
    c.ops = ops;
    ops[0].start_ns = CAPSULE_NO_TIME;
    ops[1].end_ns = CAPSULE_NO_TIME;
    ops[3].end_ns = ops[3].start_ns - 1;
    struct kernels_gantt g = replay_timeline(t->a, &c);
    assert_true(kernels_gantt_ok(&g));
    assert_int_equal(g.lane.n, 8);
    for (size_t i = 0; i < c.n_ops; i++)
        ops[i].start_ns = CAPSULE_NO_TIME;
    g = replay_timeline(t->a, &c);
    assert_int_equal(g.lane.n, 0);
    capsule_close(&c);
}

/* Shorter than a third of a pixel beside a neighbour: left out; none is hidden otherwise. */
static void slivers_are_left_out(void **state)
{
    struct test *t = *state;
    struct capsule c = open_case(t);
    struct capsule_op *ops = arena_copy(t->a, c.ops, c.n_ops * sizeof *ops);
    c.ops = ops;
    for (size_t i = 0; i < c.n_ops; i++) {
        ops[i].stream = 0;
        ops[i].start_ns = (int64_t)i;
        ops[i].end_ns = (int64_t)i + 1;
    }
    ops[12].end_ns = 1000000; /* of 12 ns beside it nothing can be seen */
    const struct kernels_gantt g = replay_timeline(t->a, &c);
    assert_true(kernels_gantt_ok(&g));
    assert_int_equal(g.lane.n, 2);
    assert_true(isnan(g.name.v[0]) && !isnan(g.name.v[1]));
    assert_string_equal(g.names[(size_t)g.name.v[1]], "Memcpy DtoD");
    capsule_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_row_is_a_stream),
        TEST(what_has_no_times_has_no_bars),
        TEST(slivers_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
