#include "unit/config/fixture.h"

/* The model of the shipped configuration beside one word; "none" where there is none. */
static const char *model_beside(struct test *t, const char *word)
{
    struct config c = fixture_good(t, ARGS(SIMULATE, embed_cmd, word));
    if (c.stand_in)
        assert_string_equal(c.plan->model.name, "tiny_qwen3");
    return c.stand_in             ? "stand-in"
           : c.plan->model.ref    ? "a folder"
           : c.plan->model.config ? c.plan->model.name
                                  : "none";
}

static void it_stands_in_for_no_other_model_and_beside_no_other_hardware(void **state)
{
    static const char *const cases[][2] = {
        {"seed=1", "stand-in"},
        {"hardware=cpu", "stand-in"},
        {"hardware.id=cpu", "stand-in"},
        {"hardware.kv_cache_gb=1", "stand-in"},
        {"model.dtype=fp32", "stand-in"},
        {"model.hub=null", "stand-in"},
        {"hardware=h200", "none"},
        {"~hardware", "none"},
        {"hardware.id=mine", "none"},
        {"hardware.memory_gb=80", "none"},
        {"hardware.peak_tflops.bf16=900", "none"},
        {"hardware.dram_gb_per_s=4800", "none"},
        {"model.name=qwen3_8b", "none"},
        {"model.weights_gb=15", "none"},
        {"model.hub=Nobody/Model", "none"},
        {"model.hub=Qwen/Qwen3-8B", "qwen3_8b"},
        {"model.hub='Qwen/Qwen3-8B'", "qwen3_8b"},
        {"model.ref=some/folder", "a folder"},
        {"model=Qwen/Qwen3-8B", "qwen3_8b"},
        {"model=Nobody/Model", "a folder"},
        {"model=Nobody/Model@v1", "a folder"},
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *model = model_beside(t, cases[i][0]);
        if (strcmp(model, cases[i][1]) != 0)
            fail_msg("%s: the model is %s, not %s", cases[i][0], model, cases[i][1]);
    }
}

static void a_model_that_was_chosen_stays(void **state)
{
    struct test *t = *state;
    struct config c = fixture_good(
        t, ARGS(SIMULATE, embed_cmd, "model=tiny_qwen3", "hardware=h200", "model.hub=Some/Name"));
    assert_string_equal(c.plan->model.name, "tiny_qwen3");
    assert_false(c.stand_in);
    const struct embed_file *files =
        FILES({"simulate.yaml", "defaults: [model: mine, hardware: cpu, _self_]\n"},
              {"own.yaml", "defaults: [base, override hardware: big, _self_]\n"},
              {"base.yaml", "defaults: [model: tiny_qwen3, hardware: cpu, _self_]\n"},
              {"model/mine.yaml", "name: mine\n"}, {"model/tiny_qwen3.yaml", "name: tiny_qwen3\n"},
              {"hardware/cpu.yaml", "id: cpu\n"}, {"hardware/big.yaml", "id: big\n"});
    c = fixture_good(t, ARGS(SIMULATE, files, "hardware=big"));
    assert_string_equal(c.plan->model.name, "mine");
    struct config_args args = ARGS(SIMULATE, files, "seed=1");
    args.config_name = "own";
    c = fixture_good(t, args);
    assert_string_equal(c.plan->hardware.id, "big");
    assert_null(c.plan->model.name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_stands_in_for_no_other_model_and_beside_no_other_hardware),
        TEST(a_model_that_was_chosen_stays),
    };
    return cmocka_run_group_tests(tests, fixture_leave, NULL);
}
