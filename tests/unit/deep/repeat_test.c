/* Kernel totals of two sessions, whatever number of kernels their tables list. */
#include "deep/repeat.h"

#include "deep/deep.h"
#include "support/support.h"

static struct deep_result session(struct deep_kernel_total *totals, size_t n)
{
    struct deep_result r = {.totals = {.scope = "stages"}, .kernel_totals = totals};
    r.n_kernel_totals = n;
    for (size_t i = 0; i < n; i++)
        r.totals.gpu_ms += totals[i].total_ms;
    for (size_t i = 0; i < n; i++)
        totals[i].share_percent = 100 * totals[i].total_ms / r.totals.gpu_ms;
    return r;
}

static void a_kernel_that_crosses_the_limit_is_in_both(void **state)
{
    struct test *t = *state;
    struct deep_kernel_total before[] = {
        {"void k<1>(int)", 4, 90.5, 0}, {"void k<2>(int)", 2, 0.9, 0}, {"old", 1, 8.6, 0}};
    struct deep_kernel_total now[] = {
        {"void k<1>(int)", 4, 90.502, 0}, {"void k<2>(int)", 2, 1.2, 0}, {"new", 1, 8.3, 0}};
    const struct deep_result first = session(before, 3);
    struct deep_result second = session(now, 3);
    deep_repeat(t->a, "d", &first, &second);
    assert_int_equal(second.n_repeat, 1);
    assert_int_equal(second.repeat->n_rows, 2);
    assert_string_equal(second.repeat->rows[0].label, "k<1>");
    assert_true(second.repeat->only_one == 2);
    assert_string_equal(
        deep_repeat_words(t->a, second.repeat),
        "GPU time 100.000 to 100.002 ms (below 0.01 %). Of the kernels with 1 % of it or more, 1 "
        "of 2 "
        "are within 10 %; the largest change is +33.3 % (k<2>). 2 more take 1 % in one session and "
        "less than 0.5 % in the other, or nothing.");
}

/* Ranks wait for each other as long as their hosts make them. */
static void waiting_of_collectives_does_not_count(void **state)
{
    struct test *t = *state;
    struct deep_kernel_total before[] = {{"void k<1>(int)", 4, 40, 0},
                                         {"ncclAllReduce(Args)", 8, 60, 0}};
    struct deep_kernel_total now[] = {{"void k<1>(int)", 4, 40, 0},
                                      {"ncclAllReduce(Args)", 8, 20, 0}};
    struct deep_collective_row old_rows[] = {
        {.name = "ncclAllReduce", .total_ms = 50, .waiting_ms = 45, .moving_ms = 5},
        {.name = "ncclAllReduce", .process = 1, .total_ms = 10, .waiting_ms = 5, .moving_ms = 5}};
    struct deep_collective_row rows[] = {
        {.name = "ncclAllReduce", .total_ms = 20, .waiting_ms = 9.5, .moving_ms = 10.5}};
    struct deep_result first = session(before, 2), second = session(now, 2);
    first.collectives = old_rows;
    first.n_collectives = 2;
    second.collectives = rows;
    second.n_collectives = 1;
    deep_repeat(t->a, "d", &first, &second);
    assert_int_equal(second.repeat->n_rows, 2);
    assert_true(second.repeat->rows[1].before_ms == 10 && second.repeat->rows[1].ms == 10.5);
    assert_string_equal(deep_repeat_words(t->a, second.repeat),
                        "GPU time 50.000 to 50.500 ms (+1.0 %). That is without the 50.000 and "
                        "9.500 ms in which collectives waited for another rank. Of the kernels "
                        "with 1 % of it or more, 2 of 2 are within 10 %; the largest change is "
                        "+5.0 % (ncclAllReduce).");
}

/* Tables that deep.top cut at different lengths are not what is compared. */
static void cut_tables_do_not_count(void **state)
{
    struct test *t = *state;
    struct deep_kernel_total totals[] = {{"a", 1, 60, 0}, {"b", 1, 40, 0}};
    struct deep_kernel_row rows[] = {{.name = "a"}, {.name = "b"}};
    struct deep_result first = session(totals, 2), second = session(totals, 2);
    first.kernels = second.kernels = rows;
    first.n_kernels = 1;
    second.n_kernels = 2;
    deep_repeat(t->a, "d", &first, &second);
    assert_int_equal(second.repeat->n_rows, 2);
    assert_true(second.repeat->only_one == 0);
}

static void an_older_session_is_not_compared(void **state)
{
    struct test *t = *state;
    struct deep_kernel_total totals[] = {{"a", 1, 60, 0}};
    struct deep_kernel_row row = {.name = "a"};
    struct deep_result first = session(totals, 0), second = session(totals, 1);
    first.kernels = &row;
    first.n_kernels = 1;
    deep_repeat(t->a, "d", &first, &second);
    assert_int_equal(second.n_repeat, 0);
    assert_string_equal(second.notes[0],
                        "Not compared with d: its deep.json is of an older version, without "
                        "kernel_totals; twinfer deep deep.session= makes it anew.");
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(a_kernel_that_crosses_the_limit_is_in_both),
                                       TEST(waiting_of_collectives_does_not_count),
                                       TEST(cut_tables_do_not_count),
                                       TEST(an_older_session_is_not_compared)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
