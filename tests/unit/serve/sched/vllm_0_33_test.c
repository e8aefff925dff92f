/* Hand-worked schedules, as in vllm_v1_test.c; blocks hold 4 tokens, batches 8. What vLLM itself
 * decides is compared in tests/vllm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "serve/sched/sched.h"
#include "support/logged_server.h"
#include "support/serve_harness.h"
#include "support/support.h"

static struct harness harness(const struct workload_request *w, size_t n)
{
    struct harness h = harness_default();
    h.p.policy = "vllm_0_33";
    h.requests = w;
    h.n_requests = n;
    return h;
}

/* Seven blocks. Request 0 holds three of them after its two chunks, so the 17 tokens of request 1
 * do not fit, though its first chunk would. */
static void a_whole_prompt_must_fit(void **state)
{
    (void)state;
    const struct workload_request w[] = {
        {.request_id = 0, .num_prefill_tokens = 10, .num_decode_tokens = 2},
        {.request_id = 1, .num_prefill_tokens = 17, .num_decode_tokens = 1},
    };
    struct harness h = harness(w, 2);
    h.p.num_blocks = 7;
    harness_run(&h);
    harness_check(&h);
    EXPECT_BATCHES(&h, "0: 0:8@0 | 0", "1: 0:2@8! 1:6@0 | 0", "2: 1:7@6 +0 | 1",
                   "3: 1:4@13! -0 | 0");
    harness_free(&h);
    h = harness(w, 2);
    h.p.num_blocks = 7;
    h.p.reserve_full_prompt = true;
    harness_run(&h);
    harness_check(&h);
    EXPECT_BATCHES(&h, "0: 0:8@0 | 0", "1: 0:2@8! | 0", "2: +0 | 1", "3: 0:8@0 -0 | 0",
                   "4: 0:8@8 | 0", "5: 0:1@16! | 0");
    harness_free(&h);
}

/* Chunks of 3 while there are two requests; the long prompt's rest goes at once when it is alone.
 */
static void long_prompts_are_capped_beside_others(void **state)
{
    (void)state;
    const struct workload_request w[] = {
        {.request_id = 0, .num_prefill_tokens = 14, .num_decode_tokens = 1},
        {.request_id = 1, .num_prefill_tokens = 2, .num_decode_tokens = 2},
    };
    struct harness h = harness(w, 2);
    h.p.long_prefill_token_threshold = 3;
    harness_run(&h);
    harness_check(&h);
    EXPECT_BATCHES(&h, "0: 0:3@0 1:2@0! | 0", "1: 0:3@3 +1 | 1", "2: 0:8@6! -1 | 0");
    harness_free(&h);
}

/* Admitted later, the decode of request 2 is not reached by a budget of 4 that two prompts take. */
static void a_decode_rests_behind_long_prompts(void **state)
{
    (void)state;
    const struct workload_request w[] = {
        {.request_id = 0, .num_prefill_tokens = 6, .num_decode_tokens = 1},
        {.request_id = 1, .num_prefill_tokens = 5, .num_decode_tokens = 1},
        {.request_id = 2, .num_prefill_tokens = 1, .num_decode_tokens = 3},
    };
    struct harness h = harness(w, 3);
    h.p.batch_cap = 3;
    h.p.token_budget = 4;
    h.p.long_prefill_token_threshold = 2;
    harness_run(&h);
    harness_check(&h);
    EXPECT_BATCHES(&h, "0: 0:2@0 1:2@0 | 0", "1: 0:2@2 1:2@2 | 0", "2: 0:2@4! 1:1@4! 2:1@0! | 0",
                   "3: +2 | 1", "4: | 1");
    harness_free(&h);
}

static void serves_by_memory(void **state)
{
    struct test *t = *state;
    const struct sched_ops *s = sched_find("vllm_0_33");
    const struct {
        struct sched_hardware hw;
        int64_t tokens, sequences;
    } rows[] = {
        {{"h200", 140.4, 1}, 8192, 1024}, {{"h100", 80, 8}, 8192, 1024},
        {{"b200", 180, 1}, 16384, 1024},  {{"a100", 80, 1}, 2048, 256},
        {{"a40", 45, 1}, 2048, 256},      {{"cpu", 0, 2}, 4096, 256},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct serve_params p = {0};
        assert_ok(s->defaults(&p, &rows[i].hw, &t->e), t);
        assert_int_equal(p.token_budget, rows[i].tokens);
        assert_int_equal(p.batch_cap, rows[i].sequences);
    }
    struct serve_params p = {.token_budget = 100};
    assert_ok(s->defaults(&p, &rows[0].hw, &t->e), t);
    assert_int_equal(p.token_budget, 100);
    assert_int_equal(p.batch_cap, 100);
    const struct sched_hardware unknown = {.id = "x"};
    p = (struct serve_params){.batch_cap = 4};
    assert_err(s->defaults(&p, &unknown, &t->e), ST_USAGE, t,
               "scheduler.token_budget: vLLM sets it by the memory of the GPU, which hardware.id x "
               "does not say\n"
               "hint: hardware.memory_gb=80, or scheduler.token_budget and scheduler.batch_cap "
               "themselves");
}

static struct serve_params server_of(int64_t budget, int64_t cap, int64_t blocks)
{
    return (struct serve_params){.policy = "vllm_0_33",
                                 .replicas = 1,
                                 .batch_cap = cap,
                                 .token_budget = budget,
                                 .block_size = 16,
                                 .num_blocks = blocks,
                                 .reserve_full_prompt = true,
                                 .async = ASYNC_OVERLAP};
}

/* Prompts of 40 and 70 tokens at once, a budget of 60; another comes beside the decodes. */
static void a_logged_schedule_is_made_again(void **state)
{
    struct test *t = *state;
    struct run_request requests[] = {
        {.request_id = 0, .num_prefill_tokens = 40, .num_decode_tokens_actual = 5},
        {.request_id = 1, .num_prefill_tokens = 70, .num_decode_tokens_actual = 3},
        {.request_id = 2, .num_prefill_tokens = 9, .num_decode_tokens_actual = 2}};
    struct logged_iteration of[] = {{.context_requests = 2, .context_tokens = 60},
                                    {.context_requests = 1, .context_tokens = 50},
                                    {.generation_requests = 2},
                                    {.context_requests = 1, .context_tokens = 9},
                                    {.generation_requests = 2}};
    of[1].generation_requests = 1;
    of[3].generation_requests = 2;
    for (size_t i = 0; i < 5; i++) {
        of[i].generation_tokens = of[i].generation_requests;
        of[i].index = of[i].line = (long)i + 1;
        of[i].follows = i > 0;
    }
    for (size_t i = 0; i < 3; i++) {
        requests[i].first_token_ns = (int64_t)i + 1;
        requests[i].num_decode_tokens = requests[i].num_decode_tokens_actual;
    }
    const struct iteration_log log = {.path = "log", .of = of, .n = 5, .engines = 1};
    const struct run run = {.dir = "run", .requests = requests, .n_requests = 3};
    struct iteration_match m;
    assert_ok(iteration_match(t->a, &run, &log, NULL, &m, &t->e), t);
    assert_int_equal(m.n_known, 5);
    struct logged_server s = {.run = &run, .match = &m, .params = server_of(60, 8, 100)};
    assert_ok(logged_server_run(t->a, &s, &t->e), t);
    assert_string_equal(s.first, "");
    assert_int_equal(s.equal, 5);
    assert_int_equal(s.batches, 5);
    s.params.token_budget = 64; /* another server */
    assert_ok(logged_server_run(t->a, &s, &t->e), t);
    assert_int_equal(s.equal, 3);
    assert_string_equal(s.first, "line 1: 2 context requests with 60 tokens, 0 that generate; the "
                                 "policy's batch has 2 with 64, 0");
}

/* vLLM 0.24.0 as shipped, on an H100. */
static void batches_of_real_servers_are_made_again(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *run;
        int64_t batch_cap, kv_tokens;
        double delay_s; /* from the client to the engine: the one with most equal batches */
    } cases[] = {{"vllm_024/it_Llama-3.1-8B_a12", 1024, 462944, 0.006},
                 {"vllm_024/it_Qwen3-30B-A3B_a12", 128, 158752, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *dir = test_data(t, cases[i].run);
        struct run run;
        struct iteration_log log;
        struct iteration_match m;
        struct iteration_times times;
        assert_ok(run_load(t->a, dir, "real", &run, &t->e), t);
        assert_ok(iteration_log_read(t->a, iteration_log_beside(t->a, dir), &log, &t->e), t);
        assert_ok(iteration_match(t->a, &run, &log, NULL, &m, &t->e), t);
        assert_ok(iteration_times(t->a, &run, &m, &times, &t->e), t);
        struct logged_server s = {.run = &run,
                                  .match = &m,
                                  .params =
                                      server_of(8192, cases[i].batch_cap, cases[i].kv_tokens / 16)};
        assert_ok(logged_server_run(t->a, &s, &t->e), t);
        const size_t by_order = s.equal;
        assert_int_equal(by_order, m.n);
        assert_int_equal(s.batches, m.n);
        s.times = &times;
        s.delay_s = cases[i].delay_s;
        assert_ok(logged_server_run(t->a, &s, &t->e), t);
        print_message("%s: %zu of %zu batches are equal by order, %zu by clock\n", cases[i].run,
                      by_order, m.n, s.equal);
        assert_true(s.equal * 10 > m.n * 6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_prompt_must_fit),
        cmocka_unit_test(long_prompts_are_capped_beside_others),
        cmocka_unit_test(a_decode_rests_behind_long_prompts),
        TEST(a_logged_schedule_is_made_again),
        TEST(batches_of_real_servers_are_made_again),
        cmocka_unit_test_setup_teardown(serves_by_memory, test_setup, test_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
