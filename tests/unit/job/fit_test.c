/* A row of fit is simulate's plan. */
#include "job/fit.h"

#include <string.h>

#include "support/support.h"

enum { WORDS_MOST = 16 };

/* Windows in half of the layers, and states in a third. */
#define HALF_WINDOWS                                                                    \
    "model.name=half", "model.weights_gb=12.8", "model.kv_bytes_per_token=24576",       \
        "model.window_kv_bytes_per_token=24576", "model.window=128", "model.layers=24", \
        "model.kv_heads=8", "model.workspace_gb=1.5", "scheduler.max_model_len=131072", \
        "hardware=h100"
#define STATES                                                                             \
    "model.name=states", "model.weights_gb=50", "model.kv_bytes_per_token=65536",          \
        "model.state_bytes_per_sequence=120000000", "model.layers=32", "model.kv_heads=4", \
        "model.workspace_gb=2", "scheduler.max_model_len=262144", "hardware=h100"

/* The job of a command with these words and, where it is not NULL, one more. */
static struct job_context job_of(struct test *t, enum command command, const char *const *words,
                                 const char *more)
{
    struct config_args *args = arena_one(t->a, struct config_args);
    struct config *config = arena_one(t->a, struct config);
    const char **all = arena_array(t->a, const char *, WORDS_MOST + 1);
    *args = (struct config_args){.command = command, .embedded = embed_cmd, .overrides = all};
    for (; words[args->n_overrides]; args->n_overrides++)
        all[args->n_overrides] = words[args->n_overrides];
    if (more)
        all[args->n_overrides++] = more;
    assert_ok(config_load(t->a, args, config, &t->e), t);
    return (struct job_context){.a = t->a, .config = config, .plan = config->plan, .args = args};
}

static struct fit_row fit_of(struct test *t, const char *const *words, const int64_t *lengths,
                             size_t n)
{
    const struct job_context c = job_of(t, COMMAND_FIT, words, NULL);
    struct job_model m;
    struct fit_row row;
    assert_ok(job_model(&c, false, &m, &t->e), t);
    assert_ok(job_fit(&c, &m, lengths, n, &row, &t->e), t);
    return row;
}

/* Of simulate with a longest request of so many tokens. */
static enum st simulated(struct test *t, const char *const *words, int64_t tokens,
                         struct serve_params *serve, struct engine_plan *plan)
{
    const struct job_context c =
        job_of(t, COMMAND_SIMULATE, words,
               arena_printf(t->a, "scheduler.max_model_len=%lld", (long long)tokens));
    struct job_model m;
    assert_ok(job_model(&c, false, &m, &t->e), t);
    return job_serve_params(c.plan, &m.m, NULL, serve, plan, &t->e);
}

static void a_row_is_simulates_plan(void **state)
{
    struct test *t = *state;
    static const char *const cases[][WORDS_MOST] = {
        {"model=qwen3_8b", "hardware=h100"},
        {"model=qwen3_32b", "hardware=h100"}, /* not as long as the model is */
        {"model=qwen3_32b", "hardware=h100", "parallel.tp=4"},
        {"model=qwen3_32b", "hardware=rtx_4090", "parallel.tp=2", "parallel.pp=2"},
        {"model=qwen3_30b_a3b", "hardware=l40s", "parallel.tp=2", "parallel.ep=4"},
        {"model=llama3_1_70b", "hardware=h200", "model.dtype=fp8", "model.kv_dtype=fp8"},
        {"model=llama3_1_70b", "hardware=h200", "parallel.tp=2", "scheduler=vllm_0_33"},
        {"model=qwen3_32b", "hardware=a10", "parallel.tp=4",
         "scheduler=vllm_0_33"}, /* null block */
        {"model=llama2_7b", "hardware=a100", "scheduler=sarathi"},
        {"model=llama2_7b", "hardware=a10", "scheduler=orca", "parallel.pp=2"},
        {"model=llama2_7b", "hardware=a10", "scheduler=vllm", "scheduler.block_size=32"},
        {"model.ref=tests/golden/models/qwen3", "hardware=t4", "hardware.memory_gb=2"},
        {HALF_WINDOWS, "scheduler=vllm_v1"},
        {HALF_WINDOWS, "scheduler=vllm_0_33", "parallel.tp=4"},
        {HALF_WINDOWS, "scheduler=vllm_0_33", "scheduler.hybrid_kv_cache=false"},
        {HALF_WINDOWS, "scheduler=vllm_0_33", "scheduler.async_scheduling=off"},
        {HALF_WINDOWS, "scheduler=sarathi"},
        {STATES, "scheduler=sarathi"},
        {STATES, "scheduler=vllm_0_33", "scheduler.prefix_caching=false"},
        {STATES, "scheduler=vllm_0_33", "scheduler.prefix_caching=false", "parallel.tp=4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct fit_row row = fit_of(t, cases[i], NULL, 0);
        struct serve_params serve;
        struct engine_plan plan;
        if (row.why_not)
            fail_msg("case %zu: %s", i, row.why_not);
        assert_ok(simulated(t, cases[i], row.longest, &serve, &plan), t);
        assert_int_equal(serve.num_blocks, row.num_blocks);
        if (serve.kv_groups.n)
            assert_in_range(row.kv_tokens, row.longest, serve.num_blocks * row.longest);
        else
            assert_int_equal(serve.num_blocks * serve.block_size, row.kv_tokens);
        assert_true(serve.kv_groups.n || row.longest <= row.kv_tokens);
        assert_memory_equal(&plan.memory, &row.plan, sizeof plan.memory);
    }
}

static void a_token_more_than_the_longest_is_refused(void **state)
{
    struct test *t = *state;
    static const char *const words[] = {"model=qwen3_32b", "hardware=h100", NULL};
    const int64_t lengths[] = {4096, 34496, 34497};
    const struct fit_row row = fit_of(t, words, lengths, 3);
    struct serve_params serve;
    struct engine_plan plan;
    assert_true(row.longest < 40960); /* the model's */
    assert_int_equal(simulated(t, words, row.longest + 1, &serve, &plan), ST_USAGE);
    assert_non_null(strstr(err_cause(&t->e, 0), "no room is left for keys and values"));
    err_clear(&t->e);
    assert_int_equal(row.longest, 34496);
    assert_int_equal(row.sequences[0], row.num_blocks / 256);
    assert_int_equal(row.sequences[1], 1);
    assert_int_equal(row.sequences[2], 0);
}

/* Blocks of a policy with one table count no states: Vidur's plan bounds the requests. */
static void no_more_requests_than_states_fit(void **state)
{
    struct test *t = *state;
    static const char *const words[] = {STATES, "scheduler=sarathi", "scheduler.batch_cap=8192",
                                        NULL};
    const int64_t lengths[] = {16, 262144};
    const struct fit_row row = fit_of(t, words, lengths, 2);
    struct serve_params serve;
    struct engine_plan plan;
    assert_ok(simulated(t, words, row.longest, &serve, &plan), t);
    assert_true(row.sequences[1] >= 1);
    assert_int_equal(row.sequences[0], row.sequences[1]);
    assert_int_equal(row.sequences[0], serve.batch_cap);
}

static void what_does_not_fit_has_its_reason(void **state)
{
    struct test *t = *state;
    const struct {
        const char *words[WORDS_MOST], *why;
        bool planned;
    } cases[] = {
        {{"model=qwen3_32b", "hardware=rtx_4090"}, "no room is left for keys and values", true},
        {{"model=qwen3_32b", "hardware=h100", "parallel.tp=3"},
         "parallel.tp: 3 shards do not divide the 64 heads of qwen3_32b",
         false},
        {{"model=qwen3_8b", "hardware=h100", "parallel.ep=8"},
         "parallel.ep: the model has no experts",
         false},
        {{"model=qwen3_8b", "hardware=cpu"}, "hardware.memory_gb: not set", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t length = 16;
        const struct fit_row row = fit_of(t, cases[i].words, &length, 1);
        assert_non_null(row.why_not);
        assert_non_null(strstr(row.why_not, cases[i].why));
        assert_int_equal(row.plan.weight_bytes > 0, cases[i].planned);
        assert_int_equal(row.plan.cache_bytes < 0, cases[i].planned);
        assert_int_equal(row.num_blocks + row.kv_tokens + row.longest + row.sequences[0], 0);
    }
}

static void settings_that_simulate_refuses_are_errors(void **state)
{
    struct test *t = *state;
    static const char *const words[] = {"model=qwen3_8b", "hardware=h100", "scheduler=vllm_v1",
                                        "scheduler.chunk_size=64", NULL};
    const struct job_context c = job_of(t, COMMAND_FIT, words, NULL);
    struct job_model m;
    struct fit_row row;
    assert_ok(job_model(&c, false, &m, &t->e), t);
    assert_int_equal(job_fit(&c, &m, NULL, 0, &row, &t->e), ST_USAGE);
    assert_non_null(strstr(err_cause(&t->e, 0), "scheduler.chunk_size"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_row_is_simulates_plan),
        TEST(a_token_more_than_the_longest_is_refused),
        TEST(no_more_requests_than_states_fit),
        TEST(what_does_not_fit_has_its_reason),
        TEST(settings_that_simulate_refuses_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
