#include "engine/registry.h"

#include <string.h>

#include "support/support.h"

static void names(void **state)
{
    struct test *t = *state;
    const struct engine *x;
    struct buf known = {0}, help = {0};
    assert_ok(engine_for("cpu", COMMAND_BENCH, &x, &t->e), t);
    assert_string_equal(x->name, "cpu");
    engine_names(&known, COMMAND_BENCH);
    assert_err(engine_for("gpu", COMMAND_BENCH, &x, &t->e), ST_USAGE, t,
               arena_printf(t->a, "engine.kind: there is no engine 'gpu'\nhint: engines: %s",
                            buf_str(&known)));
    assert_null(strstr(buf_str(&known), "sim"));
    buf_clear(&known);
    engine_names(&known, COMMAND_SERVE);
    assert_err(engine_for("null", COMMAND_SERVE, &x, &t->e), ST_USAGE, t,
               arena_printf(t->a,
                            "engine.kind: twinfer serve does not run engine null\n"
                            "hint: engines: %s",
                            buf_str(&known)));
    assert_null(engine_find("cp"));
    engine_help(&help, COMMAND_SERVE);
    assert_non_null(
        strstr(buf_str(&help), "the built-in engine on this machine's cores [cpu, F32]\n"));
    assert_non_null(strstr(buf_str(&help), "that a profiling bundle predicts [cpu]\n"));
    buf_clear(&help);
    engine_help(&help, COMMAND_SIMULATE);
    assert_int_equal(help.n, 0);
    buf_free(&known);
    buf_free(&help);
}

static void places(void **state)
{
    struct test *t = *state;
    struct engine_settings p = {.device = "cpu"};
    const struct hardware none = {0}, h200 = {.id = "h200", .sms = 132};
    const struct engine *cpu = engine_find("cpu"), *sim = engine_find("sim");
    assert_int_equal(engine_device("cpu"), ENGINE_ON_CPU);
    assert_int_equal(engine_device("cuda"), ENGINE_ON_CUDA);
    assert_int_equal(engine_device("cuda:3"), ENGINE_ON_CUDA);
    assert_int_equal(engine_device("cpu:1"), 0);
    assert_int_equal(engine_device("cud"), 0);
    assert_ok(engine_check_place(cpu, &p, &none, 1, &t->e), t);
    p.device = "cuda:1";
    assert_err(engine_check_place(cpu, &p, &none, 1, &t->e), ST_DEVICE, t,
               "device=cuda:1: engine cpu runs on the CPU\nhint: device=cpu");
    p.device = "cpu";
    assert_ok(engine_check_place(sim, &p, &h200, 1, &t->e), t);
    err_clear(&t->e);
    assert_err(engine_check_place(cpu, &p, &h200, 1, &t->e), ST_USAGE, t,
               "hardware=h200: that is a GPU, and engine cpu runs on device=cpu\n"
               "hint: leave hardware out, or engine=cuda");
    err_clear(&t->e);
    assert_ok(engine_check_place(sim, &p, &none, 2, &t->e), t);
    assert_err(engine_check_place(cpu, &p, &none, 2, &t->e), ST_USAGE, t,
               "cluster.replicas: engine cpu runs one replica, not 2");
}

/* What was asked for, else the device's memory, else the same on every machine. */
static void host_plans(void **state)
{
    struct test *t = *state;
    const struct engine_settings p = {.device = "cpu"};
    struct engine_plan plan;
    struct memory_plan expected;
    struct model m;
    assert_ok(model_load(t->a, TW_SOURCE_DIR "/tests/golden/models/qwen3", &m, &t->e), t);
    struct memory_facts f = {.model = &m,
                             .tp = 1,
                             .pp = 1,
                             .block_size = 16,
                             .request_tokens = 100,
                             .batch_cap = 3,
                             .memory_gb = 1};
    assert_ok(engine_plan_host(&p, &f, &plan, &t->e), t);
    assert_ok(memory_plan(&f, &expected, &t->e), t);
    assert_int_equal(plan.dtype, DTYPE_F32);
    assert_int_equal(plan.memory.num_blocks, expected.num_blocks);
    assert_int_equal(plan.memory.max_batch, expected.max_batch);
    f.memory_gb = 0;
    assert_ok(engine_plan_host(&p, &f, &plan, &t->e), t);
    assert_int_equal(plan.memory.num_blocks, 3 * 7);
    f.num_blocks = 5;
    assert_ok(engine_plan_host(&p, &f, &plan, &t->e), t);
    assert_int_equal(plan.memory.num_blocks, 5);
    f.num_blocks = 0;
    f.memory_gb = 1e-9;
    assert_int_equal(engine_plan_host(&p, &f, &plan, &t->e), ST_USAGE);
    t->e = (struct err){0};
}

/* As a real run plans, but only with what the settings say of the device. */
static void simulated_plans(void **state)
{
    struct test *t = *state;
    const struct engine_settings p = {0};
    const struct engine *sim = engine_find("sim");
    struct engine_plan plan, real;
    struct model m;
    assert_ok(model_load(t->a, TW_SOURCE_DIR "/tests/golden/models/qwen3", &m, &t->e), t);
    struct memory_facts f = {.hardware_id = "b300",
                             .model = &m,
                             .tp = 1,
                             .pp = 1,
                             .block_size = 16,
                             .request_tokens = 100,
                             .batch_cap = 3};
    assert_err(sim->plan(&p, &f, &plan, &t->e), ST_USAGE, t,
               "scheduler.num_blocks: how many KV blocks hardware.id b300 holds is not known, nor "
               "its memory\nhint: hardware=NAME takes that group of configs/hardware, with its "
               "memory; else give hardware.memory_gb or scheduler.num_blocks, or "
               "hardware.kv_cache_gb of an engine that keeps them in the host's memory");
    const struct memory_facts known[] = {
        {.num_blocks = 5}, {.memory_gb = 1}, {.cache_bytes = 4096}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        f.num_blocks = known[i].num_blocks;
        f.memory_gb = known[i].memory_gb;
        f.cache_bytes = known[i].cache_bytes;
        assert_ok(sim->plan(&p, &f, &plan, &t->e), t);
        assert_ok(engine_find("cpu")->plan(&p, &f, &real, &t->e), t);
        assert_int_equal(plan.memory.num_blocks, real.memory.num_blocks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(names), TEST(places), TEST(host_plans),
                                       TEST(simulated_plans)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
