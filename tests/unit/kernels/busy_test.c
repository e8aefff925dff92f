#include "kernels/kernels.h"

#include "support/fake_spool.h"
#include "support/support.h"

static const char *timeline(struct test *t, const char *path)
{
    struct trace x;
    struct kernels k;
    struct buf text = {0};
    assert_ok(trace_load(&x, path, NULL, &t->e), t);
    kernels_open(&k, &x, NULL);
    const struct kernels_timeline figures = kernels_timeline_of(t->a, &k);
    kernels_timeline_json(&text, &figures);
    const char *out = arena_str(t->a, buf_str(&text));
    buf_free(&text);
    kernels_close(&k);
    trace_free(&x);
    return out;
}

/* Of one step: kernels run in [10, 14), [20, 22), [40, 46), a copy in [60, 61), a set in [85, 86)
 * us; the calls that end the gaps take [15, 17), [35, 37), [55, 57), [80, 82). */
static void gaps_are_charged_to_what_ends_them(void **state)
{
    struct test *t = *state;
    const char *path = test_path(t, "t.spool");
    fake_spool_write(path, &(struct fake_spool){.steps = 1});
    const char *text = timeline(t, path);
    static const char want[] =
        "{\"device\": 0, \"operations\": 5, \"span_ns\": 76000, \"busy_ns\": 14000, "
        "\"sum_ns\": 14000, \"gaps\": 4, \"idle_host_ns\": 42000, \"idle_launch_ns\": 8000, "
        "\"idle_queue_ns\": 12000, \"idle_unknown_ns\": 0}";
    if (!strstr(text, want))
        fail_msg("no %s in\n%s", want, text);
}

static void one_launch_has_no_deviation(void **state)
{
    struct test *t = *state;
    const char *path =
        test_write(t, "t.json",
                   "{\"traceEvents\": [\n"
                   "  {\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"f\", \"pid\": 7,\n"
                   "   \"tid\": 8, \"ts\": 1, \"dur\": 2, \"args\": {\"correlation\": 9}},\n"
                   "  {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", \"pid\": 0,\n"
                   "   \"tid\": 7, \"ts\": 5, \"dur\": 2, \"args\": {\"device\": 0,\n"
                   "   \"stream\": 7, \"correlation\": 9}}]}\n");
    assert_non_null(strstr(timeline(t, path),
                           "\"launch_call\": {\"n\": 1, \"mean_ns\": 2000.0, "
                           "\"median_ns\": 2000.0, \"min_ns\": 2000, \"max_ns\": 2000, "
                           "\"stddev_ns\": null},\n  \"launch_gap\": null"));
}

#define WORK(cat, name, stream, ts, dur)                          \
    "{\"ph\": \"X\", \"cat\": \"" cat "\", \"name\": \"" name     \
    "\", \"pid\": 0, \"tid\": 1, \"ts\": " #ts ", \"dur\": " #dur \
    ", \"args\": {\"device\": 0, \"stream\": " #stream "}}"

/* Two kernels of NCCL overlap each other, and one of them a product; a copy beside is neither. */
static void communication_is_a_share_of_its_own(void **state)
{
    struct test *t = *state;
    const char *path = test_write(
        t, "t.json",
        "[" WORK("kernel", "gemm", 7, 0, 100) ", " WORK("kernel", "gemm", 9, 50, 70) ", " WORK(
            "kernel", "ncclDevKernel_AllReduce_Sum_f16_RING(ncclArgs)", 8, 90,
            60) ", " WORK("kernel", "ncclDevKernel_AllGather_RING(ncclArgs)", 10, 140,
                          20) ", " WORK("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 7, 130,
                                        50) "]");
    const char *text = timeline(t, path);
    static const char want[] = "\"busy_ns\": 180000, \"sum_ns\": 300000, ";
    static const char links[] = "\"compute_ns\": 120000, \"communication_ns\": 70000, "
                                "\"overlap_ns\": 30000}";
    if (!strstr(text, want) || !strstr(text, links))
        fail_msg("no %s or %s in\n%s", want, links, text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(gaps_are_charged_to_what_ends_them),
                                       TEST(one_launch_has_no_deviation),
                                       TEST(communication_is_a_share_of_its_own)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
