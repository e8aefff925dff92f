/* The memory plan on the fake GPU. */
#include "engine/cuda/plan.h"

#include <stdlib.h>
#include <string.h>

#include "engine/cuda/forward.h"
#include "support/support.h"

static struct memory_facts facts_of(struct test *t, struct model *m)
{
    assert_ok(model_load(t->a, TW_SOURCE_DIR "/tests/golden/models/qwen3", m, &t->e), t);
    unsetenv("FAKE_GPU");
    return (struct memory_facts){.rule = MEMORY_VLLM,
                                 .margin = 0.1,
                                 .utilization = 0.75,
                                 .model = m,
                                 .tp = 1,
                                 .pp = 1,
                                 .block_size = 16,
                                 .request_tokens = 4096,
                                 .batch_cap = 8,
                                 .batch_tokens = 256};
}

static const struct engine_settings settings = {.device = "cuda"};

/* All of the share is used, and no more: to a block. */
static void the_cache_takes_what_is_left(void **state)
{
    struct test *t = *state;
    struct model m;
    struct engine_plan plan;
    const struct memory_facts f = facts_of(t, &m);
    for (int dtype = 0; dtype < 3; dtype++) {
        const struct engine_settings typed = {.device = "cuda:0", .dtype = dtype};
        static const enum cuda_dtype types[] = {CUDA_BF16, CUDA_F16, CUDA_F32};
        assert_ok(cuda_engine_plan(&typed, &f, &plan, &t->e), t);
        struct cuda_engine_params p = {.model = &m,
                                       .dtype = types[dtype],
                                       .block_size = 16,
                                       .num_blocks = 4096 / 16,
                                       .max_batch_tokens = 256,
                                       .max_rows = 8};
        struct cuda_memory held = cuda_memory_of(&p, 4);
        held.cache =
            cuda_kv_block_bytes(&m, cuda_plain_dtype(p.dtype), 16) * (size_t)plan.memory.num_blocks;
        const size_t share = (size_t)(256 << 20) / 4 * 3;
        assert_true(cuda_memory_sum(&held) <= share);
        assert_true(cuda_memory_sum(&held) +
                        cuda_kv_block_bytes(&m, cuda_plain_dtype(p.dtype), 16) >
                    share);
        assert_int_equal(plan.memory.max_batch, plan.memory.num_blocks / 256);
    }
}

static void no_room_says_what_was_planned(void **state)
{
    struct test *t = *state;
    struct model m;
    struct engine_plan plan;
    const struct memory_facts f = facts_of(t, &m);
    setenv("FAKE_GPU", "memory=40", 1);
    assert_int_equal(cuda_engine_plan(&settings, &f, &plan, &t->e), ST_USAGE);
    assert_string_equal(err_cause(&t->e, 0), "there is no room for one request of 4096 tokens");
    assert_non_null(strstr(err_cause(&t->e, 1), "planned: weights "));
    assert_string_equal(err_cause(&t->e, 2),
                        "Fake GPU 0 has 40.0 MiB, of which 75 % are planned with");
    unsetenv("FAKE_GPU");
}

/* What is asked for, or what simulations of the hardware plan, comes first. */
static void settings_come_first(void **state)
{
    struct test *t = *state;
    struct model m;
    struct engine_plan plan;
    struct memory_plan simulated;
    struct memory_facts f = facts_of(t, &m);
    f.memory_gb = 3;
    assert_ok(memory_plan(&f, &simulated, &t->e), t);
    assert_ok(cuda_engine_plan(&settings, &f, &plan, &t->e), t);
    assert_int_equal(plan.memory.num_blocks, simulated.num_blocks);
    f.num_blocks = 77;
    assert_ok(cuda_engine_plan(&settings, &f, &plan, &t->e), t);
    assert_int_equal(plan.memory.num_blocks, 77);
    assert_int_equal(plan.dtype, DTYPE_BF16);
    m.hidden = 50; /* 16 bytes are 8 elements */
    assert_int_equal(cuda_engine_plan(&settings, &f, &plan, &t->e), ST_USAGE);
    assert_string_equal(err_cause(&t->e, 0),
                        "engine=cuda takes multiples of 8 for hidden_size in bf16: qwen3 has 50");
}

static void devices_have_numbers(void **state)
{
    (void)state;
    int n = -1;
    assert_true(cuda_ordinal("cuda", &n) && n == 0);
    assert_true(cuda_ordinal("cuda:3", &n) && n == 3);
    assert_false(cuda_ordinal("cuda:", &n));
    assert_false(cuda_ordinal("cuda:x", &n));
    assert_false(cuda_ordinal("cuda:1x", &n));
    assert_false(cuda_ordinal("cpu", &n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(the_cache_takes_what_is_left),
                                       TEST(no_room_says_what_was_planned),
                                       TEST(settings_come_first), TEST(devices_have_numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
