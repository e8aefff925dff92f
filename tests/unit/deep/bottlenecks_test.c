/* Time without work, over several GPUs and stages, and the words for it. */
#include <math.h>

#include "deep/analysis.h"
#include "deep/deep.h"
#include "support/support.h"
#include "text/document.h"

static const struct deep_bottleneck *idle_of(struct test *t, struct deep_result *r)
{
    deep_bottlenecks(t->a, r);
    for (size_t i = 0; i < r->n_bottlenecks; i++)
        if (strcmp(r->bottlenecks[i].kind, "idle") == 0)
            return &r->bottlenecks[i];
    fail_msg("no idle time among %zu bottlenecks", r->n_bottlenecks);
    return NULL;
}

static struct deep_totals totals(const char *scope, double processes, double devices)
{
    return (struct deep_totals){.scope = scope,
                                .elapsed_ms = 100,
                                .gpu_ms = 80,
                                .busy_ms = 80,
                                .operations = 1000,
                                .processes = processes,
                                .devices = devices,
                                .launches = NAN,
                                .launch_gap_us = NAN,
                                .launch_call_us = NAN};
}

/* Launches are blamed for no more than they cost. */
static void launches_explain_a_part(void **state)
{
    struct test *t = *state;
    struct deep_result r = {.totals = totals("stages", 2, 2)}; /* 60 ms without work */
    assert_string_equal(idle_of(t, &r)->advice,
                        "Without gaps the elapsed time would be 40.000 ms.");
    r.totals.launches = 2000;
    r.totals.launch_gap_us = 12;
    r.totals.launch_call_us = 8;
    assert_non_null(
        strstr(idle_of(t, &r)->advice, " 1000 launches at that cost are 20.000 ms of "));
    assert_non_null(
        strstr(idle_of(t, &r)->advice, "; the other 40.000 ms without work have other"));
    r.totals.launches = 6000;
    assert_non_null(strstr(idle_of(t, &r)->advice, "60.000 ms of the host"));
    assert_non_null(strstr(idle_of(t, &r)->advice, " can close all of it."));
}

/* Busy time of a trace adds up over GPUs, that of stages over processes. */
static void idle_time_is_of_one_gpu(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *scope;
        double processes, devices, idle_ms;
    } cases[] = {{"trace", 1, 1, 20},  {"trace", 1, 2, 60},  {"trace", 2, 2, 60},
                 {"stages", 1, 1, 20}, {"stages", 1, 2, 20}, {"stages", 2, 2, 60},
                 {"stages", 2, 1, 20}, {"stages", 2, 4, 60}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct deep_result r = {.totals =
                                    totals(cases[i].scope, cases[i].processes, cases[i].devices)};
        assert_true(fabs(idle_of(t, &r)->ms - cases[i].idle_ms) < 1e-9);
    }
}

static void the_stage_with_most_of_it_is_named(void **state)
{
    struct test *t = *state;
    struct deep_stage_row stages[] = {
        {.path = "prefill", .elapsed_ms = 30, .busy_percent = 90},
        {.path = "prefill/sam", .depth = 1, .elapsed_ms = 25, .busy_percent = 0},
        {.path = "decode", .elapsed_ms = 70, .busy_percent = 75.5}};
    struct deep_result r = {.totals = totals("stages", 1, 1), .stages = stages, .n_stages = 3};
    size_t at = (size_t)(idle_of(t, &r) - r.bottlenecks);
    const char *words = deep_paragraph(t->a, &r, at);
    assert_non_null(strstr(words, " 17.15 ms without work are in decode, of its 70.00 ms. "));
    r.n_stages = 2; /* one outermost: it is all of it */
    assert_null(strstr(deep_paragraph(t->a, &r, at), "without work are"));
}

/* Without a timeline nothing says how long the program ran, nor that the GPU had no work. */
static void tables_alone_have_no_elapsed_time(void **state)
{
    struct test *t = *state;
    struct deep_kernel_row kernel = {.name = "gemm",
                                     .short_name = "gemm",
                                     .label = "gemm",
                                     .calls = 4,
                                     .total_ms = 80,
                                     .running_ms = 80,
                                     .mean_us = 20000,
                                     .share_percent = 100,
                                     .dram_mb = NAN,
                                     .dram_percent = NAN,
                                     .compute_percent = NAN,
                                     .l2_percent = NAN,
                                     .occupancy_percent = NAN};
    struct deep_result r = {
        .totals = totals("profiled launches", NAN, NAN), .kernels = &kernel, .n_kernels = 1};
    struct buf out = {0};
    r.roofs = "not known";
    deep_bottlenecks(t->a, &r);
    assert_int_equal(r.n_bottlenecks, 1);
    document_markdown(&out, deep_document(t->a, &r, "Deep profile"));
    assert_null(strstr(buf_str(&out), "lapsed"));
    assert_non_null(strstr(buf_str(&out), "80.00 ms of 100.0 ms under Nsight Compute (80 %)"));
    assert_non_null(strstr(buf_str(&out), "## Top Operators\n\nNot known"));
    buf_free(&out);
}

/* What a kernel would need "at its roof" is said only where the roof that holds it is known. */
static void a_floor_takes_the_roof_that_holds(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *class;
        double compute, dram, l2, floor; /* % */
    } cases[] = {{"latency-bound", 2, 30, NAN, 30},    {"latency-bound", 0, NAN, NAN, NAN},
                 {"latency-bound", 0, NAN, 5, NAN},    {"latency-bound", NAN, 30, NAN, NAN},
                 {"memory-bound", 10, 90, 20, 90},     {"memory-bound", NAN, 90, NAN, 90},
                 {"memory-bound", 10, 20, NAN, NAN}, /* by the L2's share of ncu's peak */
                 {"memory-bound", 10, 20, 60, 60},     {"compute-bound", 80, 50, NAN, 80},
                 {"compute-bound", 0, 10, NAN, NAN}, /* its SMs are busy with other instructions */
                 {"compute-bound", NAN, 30, NAN, NAN}, {"balanced", 80, 70, NAN, 80},
                 {"unknown", 2, 30, NAN, NAN},         {NULL, 2, 30, NAN, NAN},
                 {"memory-bound", 10, 103, NAN, 100}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct deep_kernel_row kernel = {.name = "gemm",
                                         .short_name = "gemm",
                                         .label = "gemm",
                                         .calls = 4,
                                         .total_ms = 80,
                                         .running_ms = NAN, /* older sessions */
                                         .mean_us = 20000,
                                         .share_percent = 100,
                                         .profiled = 1,
                                         .class = cases[i].class,
                                         .why = "why",
                                         .compute_percent = cases[i].compute,
                                         .dram_percent = cases[i].dram,
                                         .l2_percent = cases[i].l2,
                                         .dram_mb = 12,
                                         .l2_mb = 34,
                                         .dram_gb_per_s = NAN,
                                         .waves = NAN,
                                         .occupancy_percent = NAN};
        struct deep_result r = {
            .totals = totals("profiled launches", NAN, NAN), .kernels = &kernel, .n_kernels = 1};
        deep_bottlenecks(t->a, &r);
        if (cases[i].floor == 100) { /* nothing to save */
            assert_int_equal(r.n_bottlenecks, 0);
            continue;
        }
        assert_int_equal(r.n_bottlenecks, 1);
        const struct deep_bottleneck *b = r.bottlenecks;
        bool known = !isnan(cases[i].floor);
        assert_int_equal(known, b->floor_percent == cases[i].floor);
        assert_int_equal(known, strstr(b->advice, "At its roof") != NULL);
        assert_int_equal(known, strstr(deep_paragraph(t->a, &r, 0), "t its roof") != NULL);
        if (known && strcmp(cases[i].class, "memory-bound") == 0)
            assert_non_null(strstr(b->advice, cases[i].floor == 60 ? "(34 MB of the L2 a launch"
                                                                   : "(12 MB of DRAM a launch"));
    }
}

/* What the stages did not launch, and yet ran in their time. */
static void work_beside_the_stages_has_a_share(void **state)
{
    struct test *t = *state;
    struct deep_result r = {.totals = totals("stages", 1, 1)};
    r.totals.beside_ms = 25;
    deep_bottlenecks(t->a, &r);
    assert_int_equal(r.n_bottlenecks, 2);
    assert_string_equal(r.bottlenecks[0].what, "Work launched outside of the stages");
    assert_near(r.bottlenecks[0].share_percent, 25, 1e-9);
    assert_near(r.bottlenecks[1].share_percent, 20, 1e-9); /* no work */
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(idle_time_is_of_one_gpu),
                                       TEST(launches_explain_a_part),
                                       TEST(the_stage_with_most_of_it_is_named),
                                       TEST(tables_alone_have_no_elapsed_time),
                                       TEST(a_floor_takes_the_roof_that_holds),
                                       TEST(work_beside_the_stages_has_a_share)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
