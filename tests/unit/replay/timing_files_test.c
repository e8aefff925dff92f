/* What the times of a kernel say of its work, and how a row says it. */
#include "replay/timing_files.h"

#include <math.h>

#include "support/support.h"

static struct timing timing_of(double us)
{
    return us > 0 ? (struct timing){.n = 3, .median_s = us * 1e-6} : (struct timing){0};
}

static void kernels_that_are_too_fast_alone(void **state)
{
    static const struct {
        double warm_us, cold_us, in_context_us; /* 0 = not measured */
        bool copy, suspect;
    } rows[] = {
        {69, 70, 126, false, true},    {69, 0, 126, false, true},
        {69, 126, 126, false, false}, /* its data stays in the L2 cache */
        {101, 101, 126, false, false}, {100, 100, 126, false, true},
        {5, 5, 9.9, false, false}, /* what is warm counts for that much */
        {5, 5, 10.1, false, true},     {69, 69, 126, true, false},
        {0, 0, 126, false, false},     {69, 69, 0, false, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct replay_kernel k = {
            .mangled = rows[i].copy ? NULL : "gemm",
            .warm = timing_of(rows[i].warm_us),
            .cold = timing_of(rows[i].cold_us),
            .in_context_s = rows[i].in_context_us > 0 ? rows[i].in_context_us * 1e-6 : (double)NAN};
        if (replay_is_suspect(&k) != rows[i].suspect)
            fail_msg("row %zu", i);
    }
}

static void a_row_says_what_was_repeated_with_it(void **state)
{
    struct test *t = *state;
    struct replay_kernel p[] = {
        {.name = "gemm", .mangled = "gemm", .first = 3, .warm = timing_of(69), .in_context_s = 1},
        {.name = "gemm", .mangled = "gemm", .first = 4, .sets = 24, .sets_s = 1.5e-6}};
    const struct replay_kernels k = {p, 2};
    p[1].in_context_s = NAN;
    p[1].warm = timing_of(126);
    const struct node *list = node_find(replay_isolated_node(t->a, &k), "kernels");
    const struct node *first = list->items[0], *second = list->items[1];
    assert_null(node_find(first, "with_sets"));
    assert_null(node_find(first, "sets_us"));
    assert_true(node_find(first, "faster_when_repeated")->b);
    assert_int_equal(node_find(second, "with_sets")->i, 24);
    assert_near_rel(node_find(second, "sets_us")->f, 1.5, 1e-9);
    assert_null(node_find(second, "faster_when_repeated"));
}

/* Each sum is judged by its own limit: that in a graph by 5 %, unless the program launched graphs;
 * that as launched by 3 %. */
static void sums_have_limits_of_their_own(void **state)
{
    static const struct {
        double graph_s, launched_s; /* where the application's is 1 */
        bool graphs, within[REPLAY_WAYS];
    } rows[] = {
        {0.968, 0.988, false, {true, true}}, {0.968, NAN, true, {false, false}},
        {0.94, 0.96, false, {false, false}}, {1.06, 1.02, false, {false, true}},
        {0.972, NAN, true, {true, false}},
    };
    struct replay_apart out[REPLAY_WAYS];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct replay_region r = {.nodes_s = rows[i].graph_s,
                                        .as_launched_s = rows[i].launched_s,
                                        .app_nodes_s = 1,
                                        .graphs = rows[i].graphs};
        replay_apart_of(&r, out);
        for (int k = 0; k < REPLAY_WAYS; k++)
            assert_int_equal(out[k].within, rows[i].within[k]);
        assert_true(fabs(out[0].percent - 100 * (rows[i].graph_s - 1)) < 1e-9);
        assert_true(out[0].judged);
        assert_true(isnan(out[1].sum_s) == isnan(rows[i].launched_s));
    }
    replay_apart_of(&(struct replay_region){.nodes_s = 44e-6, .app_nodes_s = 46e-6}, out);
    assert_false(out[0].judged);
    replay_apart_of(&(struct replay_region){.nodes_s = 1, .as_launched_s = 1, .app_nodes_s = NAN},
                    out);
    assert_true(isnan(out[0].sum_s) && isnan(out[1].sum_s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(kernels_that_are_too_fast_alone),
        TEST(a_row_says_what_was_repeated_with_it),
        TEST(sums_have_limits_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
