/* Notes that a session's figures call for, and no others. */
#include <math.h>

#include "deep/analysis.h"
#include "support/support.h"

static struct deep_stage_row stage(const char *path, double mfu_percent, double bandwidth_percent)
{
    return (struct deep_stage_row){.path = path,
                                   .least_ms = 10,
                                   .most_ms = 11,
                                   .per_instance_ms = 10.5,
                                   .mfu_gpu_percent = mfu_percent,
                                   .bandwidth_gpu_percent = bandwidth_percent};
}

static void work_that_cannot_be(void **state)
{
    struct test *t = *state;
    struct deep_stage_row stages[] = {stage("prefill", 40, 90), stage("decode", NAN, NAN),
                                      stage("whole", 104, 104)};
    struct deep_result r = {.stages = stages, .n_stages = 3};
    deep_notes(t->a, &r);
    assert_int_equal(r.n_notes, 0);
    stages[0].mfu_gpu_percent = 300;
    stages[1].bandwidth_gpu_percent = 549;
    deep_notes(t->a, &r);
    assert_int_equal(r.n_notes, 2);
    assert_non_null(strstr(r.notes[0], "operations of stage prefill are 300 % of the roof"));
    assert_non_null(strstr(r.notes[1], "bytes of stage decode are 549 % of DRAM's roof"));
}

static void runs_that_differ_by_more_than_recording_costs(void **state)
{
    struct test *t = *state;
    struct deep_step steps[] = {{.name = "baseline", .wall_s = 10, .overhead_percent = NAN},
                                {.name = "timeline", .wall_s = 9.8, .overhead_percent = -2},
                                {.name = "timeline, light", .wall_s = 9, .overhead_percent = -10}};
    struct deep_result r = {.steps = steps, .n_steps = 3};
    deep_notes(t->a, &r);
    assert_int_equal(r.n_notes, 1);
    assert_non_null(
        strstr(r.notes[0], "'timeline, light' took 9.00 s, the baseline 10.00 s (-10.0 %)"));
}

static void instances_and_kernels_that_differ(void **state)
{
    struct test *t = *state;
    struct deep_stage_row decode = stage("decode", NAN, NAN);
    struct deep_kernel_row kernels[] = {
        {.label = "gemm", .ncu_us = 5, .app_us = 4.8, .clock_percent = 4},
        {.label = "norm", .ncu_us = 6, .app_us = 4, .clock_percent = 50},
        {.label = "copy", .clock_percent = NAN}};
    struct deep_result r = {.stages = &decode, .n_stages = 1, .kernels = kernels, .n_kernels = 3};
    decode.most_ms = 25;
    deep_notes(t->a, &r);
    assert_int_equal(r.n_notes, 2);
    assert_non_null(strstr(r.notes[0], "Instances of decode take 10.000 to 25.000 ms"));
    assert_non_null(strstr(r.notes[1], "1 of 2 kernels took more than 20 %"));
    assert_non_null(strstr(r.notes[1], "the most norm: 6.00 us against 4.00 us (+50 %)"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(work_that_cannot_be),
                                       TEST(runs_that_differ_by_more_than_recording_costs),
                                       TEST(instances_and_kernels_that_differ)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
