/* From facts of a server's log to settings: what is taken, what is told, what contradicts. */
#include "calibrate/server_settings.h"

#include "support/support.h"
#include "text/json.h"

static struct server_log log_of(struct test *t, const char *before, const char *config)
{
    struct server_log l;
    const char *text = arena_printf(
        t->a, "%sInitializing a V1 LLM engine (v0.24.0) with config: %s, x=()\n", before, config);
    assert_ok(server_log_parse(t->a, "server.log", sv_of(text), &l, &t->e), t);
    return l;
}

static const char *keys_of(struct test *t, const struct observed_settings *s)
{
    struct buf text = {0};
    json_write(&text, server_settings_node(t->a, s), 0, true);
    const char *copy = arena_str(t->a, buf_str(&text));
    buf_free(&text);
    return copy;
}

static void stated_settings_are_taken(void **state)
{
    struct test *t = *state;
    struct server_settings s;
    const struct server_log l = log_of(
        t,
        "non-default args: {'max_num_seqs': 128, 'block_size': 32, 'enable_expert_parallel': "
        "True}\nAsynchronous scheduling is disabled.\nGPU KV cache size: 3,200 tokens\n",
        "tensor_parallel_size=2, data_parallel_size=1, quantization=fp8, kv_cache_dtype=fp8_e4m3, "
        "enforce_eager=True, enable_prefix_caching=False, max_seq_len=4096, "
        "compilation_config={'cudagraph_mode': <CUDAGraphMode.FULL: 2>}");
    assert_ok(server_settings_of(t->a, &l, &s, &t->e), t);
    assert_string_equal(
        keys_of(t, &s.of),
        "{\"model.dtype\":\"fp8\",\"model.kv_dtype\":\"fp8\",\"parallel.ep\":2,\"parallel.tp\":2,"
        "\"scheduler.async_scheduling\":\"off\",\"scheduler.batch_cap\":128,"
        "\"scheduler.block_size\":32,\"scheduler.cuda_graphs\":\"none\","
        "\"scheduler.max_model_len\":4096,\"scheduler.prefix_caching\":false}");
    assert_int_equal(s.of.kv_tokens, 3200);
    assert_int_equal(s.n_doubts, 0);
}

static void what_is_not_stated_is_left_open(void **state)
{
    struct test *t = *state;
    struct server_settings s;
    const struct server_log l = log_of(t, "", "model='m'");
    assert_ok(server_settings_of(t->a, &l, &s, &t->e), t);
    assert_string_equal(keys_of(t, &s.of), "{}");
    assert_int_equal(s.of.prefix_caching, -1);
}

static void what_is_not_taken_is_told(void **state)
{
    struct test *t = *state;
    struct server_settings s;
    static const char *const wants[] = {
        "its log states data_parallel_size 2, which is not taken: cluster.replicas says how many "
        "engines there are",
        "its log states enable_chunked_prefill false, which is not taken: prompts are simulated in "
        "chunks",
        "its log states dtype float32, which is not taken: model.dtype says what the weights are",
        "its log states quantization awq, which is not taken: model.dtype says what the weights "
        "are",
        "its log states kv_cache_dtype int8, which is not taken: model.kv_dtype says what keys and "
        "values are",
    };
    const struct server_log l =
        log_of(t, "",
               "data_parallel_size=2, enable_chunked_prefill=False, dtype=torch.float32, "
               "quantization=awq, kv_cache_dtype=int8");
    assert_ok(server_settings_of(t->a, &l, &s, &t->e), t);
    assert_int_equal(s.n_doubts, 5);
    for (size_t i = 0; i < s.n_doubts; i++)
        assert_string_equal(s.doubts[i], wants[i]);
}

/* Of one engine only, whose devices are counted, are experts spread as is known. */
static void experts_are_taken_of_one_engine(void **state)
{
    struct test *t = *state;
    struct server_settings s;
    static const char asked[] = "non-default args: {'enable_expert_parallel': True}\n";
    static const char *const configs[] = {"tensor_parallel_size=4, a=1",
                                          "data_parallel_size=1, a=1",
                                          "tensor_parallel_size=4, data_parallel_size=2"};
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        const struct server_log l = log_of(t, asked, configs[i]);
        assert_ok(server_settings_of(t->a, &l, &s, &t->e), t);
        assert_int_equal(s.of.ep, 0);
        assert_true(s.n_doubts > 0);
        assert_string_equal(s.doubts[0],
                            "its log states enable_expert_parallel true, which is not taken: over "
                            "how many devices is not known; parallel.ep says it");
    }
}

static void speculation_is_refused(void **state)
{
    struct test *t = *state;
    struct server_settings s;
    const struct server_log l = log_of(t, "\n", "speculative_config=SpeculativeConfig(a=1)");
    assert_err(server_settings_of(t->a, &l, &s, &t->e), ST_INPUT, t,
               "server.log:2: the server decoded speculatively (SpeculativeConfig(a=1)), which is "
               "not simulated");
}

static void a_record_may_not_contradict(void **state)
{
    struct test *t = *state;
    const struct observed_settings none = {.prefix_caching = -1};
    const struct observed_settings log = {.log = "server.log",
                                          .tp = 2,
                                          .cuda_graphs = "full",
                                          .gpu_memory_utilization = 0.9,
                                          .prefix_caching = 1,
                                          .kv_tokens = 320,
                                          .async = 2};
    struct observed_settings all = none;
    assert_ok(server_settings_merge("run", &log, &all, &t->e), t);
    assert_int_equal(all.tp, 2);
    assert_int_equal(all.async, 2);
    assert_int_equal(all.kv_tokens, 320);
    assert_string_equal(all.log, "server.log");
    all = (struct observed_settings){.num_blocks = 20, .batch_cap = 7, .prefix_caching = -1};
    assert_ok(server_settings_merge("run", &log, &all, &t->e), t);
    assert_int_equal(all.kv_tokens, 320); /* beside the record's blocks, which count */
    assert_int_equal(all.batch_cap, 7);
    static const struct {
        struct observed_settings has;
        const char *cause;
    } cases[] = {
        {{.tp = 4, .prefix_caching = -1}, "server.log states parallel.tp=2, and run 4"},
        {{.cuda_graphs = "none", .prefix_caching = -1},
         "server.log states scheduler.cuda_graphs=full, and run none"},
        {{.prefix_caching = 0}, "server.log states prefix caching=on, and run off"},
        {{.gpu_memory_utilization = 0.8, .prefix_caching = -1},
         "server.log states scheduler.gpu_memory_utilization=0.9, and run 0.8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        all = cases[i].has;
        err_clear(&t->e);
        assert_int_equal(server_settings_merge("run", &log, &all, &t->e), ST_INPUT);
        assert_cause(&t->e, cases[i].cause);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(stated_settings_are_taken), TEST(what_is_not_stated_is_left_open),
        TEST(what_is_not_taken_is_told), TEST(experts_are_taken_of_one_engine),
        TEST(speculation_is_refused),    TEST(a_record_may_not_contradict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
