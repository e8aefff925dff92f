/* Operations, bytes, places under the roofs, classes. */
#include "deep/figures.h"

#include <math.h>

#include "support/support.h"

/* A launch with these metrics, "name=value ...". */
static struct deep_figures figures(struct test *t, const char *metrics)
{
    struct ncu_table x;
    struct buf text = {0};
    ncu_table_init(&x, t->a);
    buf_puts(&text, "\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n");
    for (const char *p = metrics; *p;) {
        size_t name = strcspn(p, "="), n = strcspn(p, " ");
        buf_printf(&text, "\"0\",\"f\",\"%.*s\",\"\",\"%.*s\"\n", (int)name, p, (int)(n - name - 1),
                   p + name + 1);
        p += n + (p[n] == ' ');
    }
    assert_ok(ncu_csv_parse(&x, "t.csv", sv_of(buf_str(&text)), &t->e), t);
    struct deep_figures f = deep_figures_of(&x, &x.launches.p[0]);
    ncu_table_free(&x);
    buf_free(&text);
    return f;
}

static struct deep_roofs roofs(void)
{
    struct deep_roofs r = {.dram_per_s = 1e12, .l2_per_s = 4e12, .source = "test"};
    for (int i = 0; i < UNITS; i++)
        r.flop_per_s[i] = NAN;
    r.flop_per_s[UNIT_FP32] = 50e12;
    r.flop_per_s[UNIT_TENSOR_BF16] = 500e12;
    return r;
}

static void fused_operations_count_two(void **state)
{
    struct test *t = *state;
    struct deep_figures f = figures(t, "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum=100 "
                                       "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum=1000 "
                                       "smsp__sass_thread_inst_executed_op_hfma_pred_on.sum=10");
    assert_true(f.flop[UNIT_FP32] == 2100);
    assert_true(f.flop[UNIT_FP16] == 40); /* packed */
    assert_true(isnan(f.flop[UNIT_FP64]));
    assert_true(deep_flop(&f) == 2140);
}

static void tensor_work_is_counted_once(void **state)
{
    struct test *t = *state;
    struct deep_figures f = figures(t, "sm__ops_path_tensor_src_fp16.sum=500 "
                                       "sm__ops_path_tensor_src_fp16_dst_fp32.sum=400 "
                                       "sm__ops_path_tensor_src_bf16_dst_fp32.sum=300 "
                                       "sm__ops_path_tensor_src_bf16_dst_fp32_sparsity_off.sum=300 "
                                       "sm__ops_path_tensor_src_fp8_sparsity_off.sum=70 "
                                       "sm__ops_path_tensor_src_fp8_sparsity_on.sum=5");
    assert_true(f.flop[UNIT_TENSOR_FP16] == 500);
    assert_true(f.flop[UNIT_TENSOR_BF16] == 300);
    assert_true(f.flop[UNIT_TENSOR_FP8] == 75);
}

/* Of a raw page of the roofline sections: rates alone. */
static void rates_times_the_duration(void **state)
{
    struct test *t = *state;
    struct deep_figures f =
        figures(t, "gpu__time_duration.sum=2000 dram__bytes.sum.per_second=1000000000000 "
                   "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed=10 "
                   "smsp__cycles_elapsed.avg.per_second=1000000000");
    assert_true(fabs(f.dram_bytes - 2e6) < 1e-3);
    assert_true(fabs(f.flop[UNIT_FP32] - 40000) < 1e-6);
}

static const char *class_of(struct test *t, const char *metrics)
{
    struct deep_figures f = figures(t, metrics);
    struct deep_roofs r = roofs();
    struct deep_place p = deep_place_of(t->a, &f, &r);
    return arena_printf(t->a, "%s: %s", deep_class_name(p.class), p.why);
}

#define ONE_US "gpu__time_duration.sum=1000 "

/* No operation of the types that such a GPU has beside fp32. */
#define NO_OTHER                                             \
    "sm__inst_executed_pipe_tensor.sum=0 "                   \
    "smsp__sass_thread_inst_executed_op_hfma_pred_on.sum=0 " \
    "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum=0 "

static void classes_follow_the_rules(void **state)
{
    struct test *t = *state;
    /* of 50 Mflop and 1 MB a microsecond */
    assert_string_equal(class_of(t, ONE_US
                                 "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum=40000000 "
                                 "dram__bytes.sum=500000"),
                        "compute-bound: compute at least 80 %, DRAM 50 % of the roof");
    assert_string_equal(class_of(t, ONE_US
                                 "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum=5000000 "
                                 "dram__bytes.sum=900000"),
                        "memory-bound: compute at least 10 %, DRAM 90 % of the roof");
    assert_string_equal(class_of(t, ONE_US
                                 "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum=40000000 "
                                 "dram__bytes.sum=700000"),
                        "balanced: compute at least 80 %, DRAM 70 % of the roof");
    assert_string_equal(
        class_of(t, ONE_US "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum=1000000 " NO_OTHER
                           "dram__bytes.sum=300000"),
        "latency-bound: compute 2 %, DRAM 30 % of the roof");
    assert_string_equal(class_of(t, ONE_US
                                 "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum=1000000 "
                                 "dram__bytes.sum=300000"),
                        "unknown: compute at least 2 %, DRAM 30 % of the roof, but nothing says "
                        "what its tensor cores did");
    assert_string_equal(
        class_of(t, ONE_US "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum=0 "
                           "dram__bytes.sum=100000 "
                           "sm__throughput.avg.pct_of_peak_sustained_elapsed=85"),
        "compute-bound: compute 85 % of Nsight Compute's peak, DRAM 10 % of the roof");
    assert_string_equal(class_of(t, ONE_US "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum=0 "
                                           "dram__bytes.sum=100000 lts__t_bytes.sum=2000000"),
                        "unknown: its operations or bytes were not counted");
    assert_string_equal(class_of(t, ONE_US "dram__bytes.sum=100000"),
                        "unknown: its operations or bytes were not counted");
}

/* Shares that Nsight Compute made are not called those of a roof. */
static void a_share_says_what_it_is_of(void **state)
{
    struct test *t = *state;
    static const char COMPUTE[] = "sm__throughput.avg.pct_of_peak_sustained_elapsed=3 ",
                      DRAM[] = "dram__throughput.avg.pct_of_peak_sustained_elapsed=60 ";
    assert_string_equal(class_of(t, arena_printf(t->a, ONE_US "%s%s", COMPUTE, DRAM)),
                        "memory-bound: compute 3 %, DRAM 60 % of Nsight Compute's peak");
    assert_string_equal(
        class_of(t, arena_printf(t->a, ONE_US "%sdram__bytes.sum=600000", COMPUTE)),
        "memory-bound: compute 3 % of Nsight Compute's peak, DRAM 60 % of the roof");
    assert_string_equal(
        class_of(t, arena_printf(t->a,
                                 ONE_US "%slts__throughput.avg.pct_of_peak_sustained_elapsed=9 "
                                        "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum=0",
                                 COMPUTE)),
        "latency-bound: compute 3 %, L2 9 % of Nsight Compute's peak");
}

/* Nsight Compute's memory throughput is that of the busiest unit: not of DRAM and L2 alone. */
static void a_busy_first_level_is_no_latency(void **state)
{
    struct test *t = *state;
    static const char REST[] = ONE_US "sm__throughput.avg.pct_of_peak_sustained_elapsed=30 "
                                      "dram__throughput.avg.pct_of_peak_sustained_elapsed=5 "
                                      "lts__throughput.avg.pct_of_peak_sustained_elapsed=20 ",
                      BUSIEST[] =
                          "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed";
    assert_string_equal(class_of(t, arena_printf(t->a, "%s%s=85", REST, BUSIEST)),
                        "memory-bound: compute 30 %, L2 20 % of Nsight Compute's peak, but L1 or "
                        "shared memory is 85 % busy");
    assert_string_equal(class_of(t, arena_printf(t->a, "%s%s=35", REST, BUSIEST)),
                        "latency-bound: compute 30 %, L2 20 % of Nsight Compute's peak");
}

/* A table of a few counters: 0 operations of one type say nothing of the others. */
static void what_was_not_counted_is_unknown(void **state)
{
    struct test *t = *state;
    static const char BF16[] = ONE_US "sm__ops_path_tensor_src_bf16_dst_fp32.sum=0 ",
                      FP32[] = ONE_US "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum=500000 ",
                      SM[] = "sm__throughput.avg.pct_of_peak_sustained_elapsed=85 ",
                      DRAM[] = "dram__throughput.avg.pct_of_peak_sustained_elapsed=45 ";
    struct deep_figures f = figures(t, arena_printf(t->a, "%s%s%s", BF16, SM, DRAM));
    const struct deep_roofs r = roofs();
    assert_true(isnan(deep_flop(&f)) && isnan(f.uncounted) && f.complete == 0);
    assert_true(isnan(deep_place_of(t->a, &f, &r).compute));
    assert_string_equal(class_of(t, arena_printf(t->a, "%s%s%s", BF16, SM, DRAM)),
                        "compute-bound: compute 85 %, DRAM 45 % of Nsight Compute's peak");
    assert_string_equal(class_of(t, arena_printf(t->a, "%s%s", BF16, DRAM)),
                        "unknown: its operations or bytes were not counted");
    /* a few operations of fp32, and tensor cores of which nothing is said */
    assert_string_equal(class_of(t, arena_printf(t->a, "%s%s%s", FP32, SM, DRAM)),
                        "compute-bound: compute 2 % of the roof, DRAM 45 % of Nsight Compute's "
                        "peak, but the SMs are 85 % busy");
    assert_string_equal(class_of(t, arena_printf(t->a, "%s%s", FP32, DRAM)),
                        "unknown: compute at least 2 % of the roof, DRAM 45 % of Nsight Compute's "
                        "peak, but nothing says what its tensor cores did");
    /* all counted, and 0: integers alone keep the SMs busy */
    f = figures(t, arena_printf(t->a, "%s" NO_OTHER, FP32));
    assert_true(f.complete == 1 && deep_flop(&f) == 1e6);
    assert_string_equal(
        class_of(t, arena_printf(t->a, "%s" NO_OTHER "%s", FP32, DRAM)),
        "memory-bound: compute 2 % of the roof, DRAM 45 % of Nsight Compute's peak");
    assert_string_equal(
        class_of(t, arena_printf(t->a, "%s" NO_OTHER "%s%s", FP32, SM, DRAM)),
        "compute-bound: compute 2 % of the roof, DRAM 45 % of Nsight Compute's peak, but the SMs "
        "are 85 % busy");
    assert_string_equal(
        class_of(t, arena_printf(t->a,
                                 "%s" NO_OTHER "%sdram__throughput.avg.pct_of_peak_"
                                 "sustained_elapsed=95",
                                 FP32, SM)),
        "memory-bound: compute 2 % of the roof, DRAM 95 % of Nsight Compute's peak");
}

/* The metrics that roofline tutorials ask for: by SM, with the tensor cores' instructions. */
static void tensor_cores_that_nobody_counted(void **state)
{
    struct test *t = *state;
    struct deep_figures f = figures(t, "sm__cycles_elapsed.avg=2000 "
                                       "sm__cycles_elapsed.avg.per_second=1000000000 "
                                       "sm__sass_thread_inst_executed_op_ffma_pred_on.sum=1000 "
                                       "sm__inst_executed_pipe_tensor.sum=50 "
                                       "dram__sectors_read.sum=3 dram__sectors_write.sum=1");
    assert_true(f.duration_ns == 2000);
    assert_true(f.flop[UNIT_FP32] == 2000);
    assert_true(f.dram_bytes == 128);
    assert_true(f.uncounted == 1);
    assert_true(isnan(deep_flop(&f))); /* not 2000: the larger part is missing */
    assert_string_equal(class_of(t, ONE_US
                                 "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum=1000000 "
                                 "sm__inst_executed_pipe_tensor.sum=50 dram__bytes.sum=300000"),
                        "unknown: it uses tensor cores, whose operations were not counted");
    f = figures(t, "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum=1000 "
                   "sm__inst_executed_pipe_tensor.sum=0");
    assert_true(f.uncounted == 0 && deep_flop(&f) == 2000);
    f = figures(t, "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum=1000");
    assert_true(isnan(f.uncounted));
}

/* Mixed units: the times at their peaks add up. A unit without a peak makes the share unknown, and
 * ncu's percentage stands in. */
static void units_have_peaks_of_their_own(void **state)
{
    struct test *t = *state;
    struct deep_roofs r = roofs();
    struct deep_figures f = figures(
        t, ONE_US "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum=5000000 "
                  "sm__ops_path_tensor_src_bf16_dst_fp32.sum=200000000 dram__bytes.sum=1000");
    assert_true(fabs(deep_place_of(t->a, &f, &r).compute - 0.5) < 1e-9);
    f = figures(t,
                ONE_US "smsp__sass_thread_inst_executed_op_dadd_pred_on.sum=5000000 "
                       "dram__bytes.sum=1000 sm__throughput.avg.pct_of_peak_sustained_elapsed=70");
    struct deep_place p = deep_place_of(t->a, &f, &r);
    assert_true(isnan(p.compute));
    assert_string_equal(deep_class_name(p.class), "compute-bound");
}

static void occupancy_has_the_tightest_limit(void **state)
{
    struct test *t = *state;
    struct deep_roofs r = roofs();
    struct deep_figures f =
        figures(t, "launch__occupancy_limit_registers=3 launch__occupancy_limit_shared_mem=2 "
                   "launch__occupancy_limit_warps=16 sm__maximum_warps_per_active_cycle_pct=25 "
                   "launch__registers_per_thread=168");
    assert_string_equal(deep_place_of(t->a, &f, &r).occupied, "shared memory");
    assert_true(f.registers == 168 && f.occupancy_limit_percent == 25);
    /* 0.03 waves: SMs without a block, and the others with fewer than they hold */
    f = figures(t,
                "launch__occupancy_limit_registers=16 launch__occupancy_limit_warps=16 "
                "sm__maximum_warps_per_active_cycle_pct=100 launch__waves_per_multiprocessor=0.03");
    assert_string_equal(deep_place_of(t->a, &f, &r).occupied, "the grid's few blocks");
    f = figures(
        t, "launch__occupancy_limit_registers=1 launch__occupancy_limit_warps=5 "
           "sm__maximum_warps_per_active_cycle_pct=18.75 launch__waves_per_multiprocessor=0.97");
    assert_string_equal(deep_place_of(t->a, &f, &r).occupied, "registers");
    f = figures(t, "launch__occupancy_limit_registers=16 launch__occupancy_limit_warps=16 "
                   "sm__maximum_warps_per_active_cycle_pct=100 launch__waves_per_multiprocessor=3");
    assert_string_equal(deep_place_of(t->a, &f, &r).occupied, "nothing");
}

static void means_leave_out_what_is_unknown(void **state)
{
    struct test *t = *state;
    struct deep_mean m = {0};
    struct deep_figures a = figures(t, "gpu__time_duration.sum=100 dram__bytes.sum=10"),
                        b = figures(t, "gpu__time_duration.sum=400");
    deep_mean_add(&m, &a, 2);
    deep_mean_add(&m, &b, 1);
    struct deep_figures f = deep_mean_of(&m);
    assert_true(f.duration_ns == 200 && f.dram_bytes == 10);
    assert_true(isnan(f.registers));
}

/* ---- roofs ---- */

static void roofs_come_from_a_file_a_group_or_ncu(void **state)
{
    struct test *t = *state;
    struct deep_roofs r;
    struct hardware rates = {
        .id = "h9", .dram_gb_per_s = 1000, .peak_tflops = {.bf16 = 900, .fp32 = 60}};
    const char *path =
        test_write(t, "roofs.json",
                   "{\"gpu\": {\"name\": \"GPU 9\"}, \"hardware\": {\"dram_gb_per_s\": "
                   "4000, \"peak_tflops\": {\"bf16\": 700}}}");
    assert_ok(deep_roofs_make(t->a, path, &rates, NULL, &r, &t->e), t);
    assert_true(r.measured && r.dram_per_s == 4e12 && r.flop_per_s[UNIT_TENSOR_BF16] == 7e14);
    assert_true(isnan(r.flop_per_s[UNIT_FP32]));
    assert_ok(deep_roofs_make(t->a, NULL, &rates, NULL, &r, &t->e), t);
    assert_string_equal(r.source, "data sheet: hardware=h9, not measured");
    assert_true(!r.measured && r.flop_per_s[UNIT_FP16] == 120e12);
    assert_ok(deep_roofs_make(t->a, NULL, &(struct hardware){0}, NULL, &r, &t->e), t);
    assert_false(deep_roofs_known(&r));
    path = test_write(t, "l2.json",
                      "{\"hardware\": {\"dram_gb_per_s\": 4000, \"peak_tflops\": {\"fp32\": 51}}, "
                      "\"roofs\": {\"gpu_read_l2\": {\"median\": 9e12}, \"gpu_fma_f32\": "
                      "{\"median\": 6e13}, \"gpu_fma_f64\": {\"median\": null}}}");
    assert_ok(deep_roofs_make(t->a, path, &rates, NULL, &r, &t->e), t);
    assert_true(r.l2_per_s == 9e12 && !r.l2_source && r.flop_per_s[UNIT_FP32] == 6e13);
    assert_true(isnan(r.flop_per_s[UNIT_FP64]) && r.flop_per_s[UNIT_FP16] == 102e12);
    path = test_write(t, "none.json", "{\"hardware\": {}}");
    assert_err(deep_roofs_make(t->a, path, &rates, NULL, &r, &t->e), ST_INPUT, t,
               arena_printf(t->a,
                            "%s: has no roofs of a GPU\nhint: twinfer doctor "
                            "doctor.measure=true on a machine with a GPU makes it",
                            path));
}

static void ncu_knows_the_peaks_of_its_counters(void **state)
{
    struct test *t = *state;
    struct ncu_table x;
    struct deep_roofs r;
    ncu_table_init(&x, t->a);
    assert_ok(
        ncu_csv_parse(
            &x, "t.csv",
            SV("\"ID\",\"Kernel Name\",\"dram__bytes.sum.peak_sustained\","
               "\"dram__cycles_elapsed.avg.per_second\","
               "\"sm__ops_path_tensor_src_bf16_dst_fp32.sum.peak_sustained_elapsed.per_second\","
               "\"lts__t_bytes.sum\",\"lts__t_bytes.avg.pct_of_peak_sustained_elapsed\","
               "\"gpu__time_duration.sum\"\n"
               "\"\",\"\",\"byte/cycle\",\"hz\",\"\",\"byte\",\"%\",\"ns\"\n"
               "\"0\",\"f\",\"1,504\",\"3,000,000,000\",\"1,000,000,000,000,000\",\"2,000,"
               "000\",\"50\",\"1,000\"\n"),
            &t->e),
        t);
    assert_ok(deep_roofs_make(t->a, NULL, &(struct hardware){0}, &x, &r, &t->e), t);
    assert_true(r.dram_per_s == 1504 * 3e9);
    assert_true(r.flop_per_s[UNIT_TENSOR_BF16] == 5e14); /* dense */
    assert_true(fabs(r.l2_per_s - 4e12) < 1);
    ncu_table_free(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(fused_operations_count_two),
        TEST(tensor_work_is_counted_once),
        TEST(rates_times_the_duration),
        TEST(classes_follow_the_rules),
        TEST(what_was_not_counted_is_unknown),
        TEST(a_share_says_what_it_is_of),
        TEST(a_busy_first_level_is_no_latency),
        TEST(tensor_cores_that_nobody_counted),
        TEST(units_have_peaks_of_their_own),
        TEST(occupancy_has_the_tightest_limit),
        TEST(means_leave_out_what_is_unknown),
        TEST(roofs_come_from_a_file_a_group_or_ncu),
        TEST(ncu_knows_the_peaks_of_its_counters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
