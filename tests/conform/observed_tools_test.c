/* What load generators write beside the common: closed loops, speculation, counts of the server,
 * and folders of several files. */
#include <math.h>

#include "observed_samples.h"

/* ---- closed loops ----------------------------------------------------------------------------
 */

/* As SGLang writes it; NaN is unknown. */
static void an_infinite_rate_is_a_closed_loop(void **state)
{
    static const char *const words[] = {"\"request_rate\": 1.0",
                                        "\"request_rate\": Infinity, \"max_concurrency\": 2, "
                                        "\"request_throughput\": 1.5, \"p99_ttft_ms\": NaN",
                                        NULL};
    static const char *const text[] = {"\"request_rate\": 1.0",
                                       "\"request_rate\": \"inf\", \"max_concurrency\": 2", NULL};
    static const char *const rows[] = {"\"start_times\": [101.0, 100.0, 102.0]",
                                       "\"request_rate\": Infinity, \"max_concurrency\": 2", NULL};
    struct observed o = changed(*state, 7, words);
    assert_int_equal(concurrency_peak(o.stages->w.concurrency), 2);
    assert_int_equal(o.stages->w.requests[2].arrival_ns, 0);
    assert_near(o.stages->rate, 1.5, 0);
    assert_true(isnan(o.stages->of[OBSERVED_TTFT].at[OBSERVED_P99]));
    assert_null(o.stages->drawn_ns);
    o = changed(*state, 7, text);
    assert_int_equal(concurrency_peak(o.stages->w.concurrency), 2);
    o = changed(*state, 6, rows); /* its lengths, in its order */
    assert_int_equal(concurrency_peak(o.stages->w.concurrency), 2);
    assert_int_equal(o.stages->w.requests[0].num_prefill_tokens, 200);
    assert_near(o.stages->of[OBSERVED_E2E].at[OBSERVED_P50], 0.4, 1e-6);
}

static void a_rate_that_changes_is_refused(void **state)
{
    refused(*state, 7, "\"request_rate\": 1.0",
            "\"request_rate\": \"inf\", \"max_concurrency\": 2, \"ramp_up_strategy\": \"linear\"",
            "ramp_up_strategy: the rate changed while requests were sent, and the record does not "
            "hold when");
}

/* A rate beside a limit that held requests back, and one that did not. */
static void a_limit_that_decides_is_a_closed_loop(void **state)
{
#define LIMITED(throughput, e2e)                                                                 \
    {                                                                                            \
        "\"request_rate\": 1.0",                                                                 \
            "\"request_rate\": 1.0, \"max_concurrency\": 2, \"request_throughput\": " throughput \
                e2e,                                                                             \
            NULL                                                                                 \
    }
    static const char *const reached[] = LIMITED("0.9", ", \"mean_e2el_ms\": 2000");
    static const char *const far[] = LIMITED("0.9", ", \"mean_e2e_latency_ms\": 400");
    static const char *const slower[] = LIMITED("0.5", "");
    const struct observed o = changed(*state, 7, reached);
    assert_int_equal(concurrency_peak(o.stages->w.concurrency), 2);
    assert_near(o.stages->rate, 0.9, 0);
    assert_null(changed(*state, 7, far).stages->w.concurrency);
    assert_int_equal(concurrency_peak(changed(*state, 7, slower).stages->w.concurrency), 2);
}

static void random_lengths_lie_evenly_around_their_means(void **state)
{
    static const char *const words[] = {"\"request_rate\": 1.0",
                                        "\"request_rate\": 1.0, \"dataset_name\": \"random\", "
                                        "\"random_input_len\": 390, \"random_output_len\": 21",
                                        NULL};
    const struct observed o = changed(*state, 7, words);
    for (int k = 0; k < 3; k++) {
        assert_in_range(o.stages->w.requests[k].num_prefill_tokens, 10, 390);
        assert_int_equal(o.stages->w.requests[k].num_decode_tokens, 21);
    }
    assert_int_not_equal(o.stages->w.requests[0].num_prefill_tokens,
                         o.stages->w.requests[1].num_prefill_tokens);
}

static void aiperf_and_genai_perf_state_a_concurrency(void **state)
{
    static const char loadgen[] =
        "\"loadgen\": {\"request_rate\": 1, \"request_rate_mode\": \"constant\"}";
    const char *const words[] = {loadgen,
                                 "\"loadgen\": {\"request_rate\": null, \"concurrency\": 4}", NULL};
    const char *const stimulus[] = {
        loadgen, "\"perf_analyzer\": {\"stimulus\": {\"concurrency\": 5}}", NULL};
    const char *const plain[] = {loadgen, "\"concurrency\": null, \"request_rate\": 2.0", NULL};
    assert_int_equal(concurrency_peak(changed(*state, 3, words).stages->w.concurrency), 4);
    assert_int_equal(concurrency_peak(changed(*state, 3, stimulus).stages->w.concurrency), 5);
    const struct observed o = changed(*state, 3, plain);
    assert_null(o.stages->w.concurrency);
    assert_near(o.stages->rate, 2, 0);
    assert_near(o.stages->w.requests[2].arrival_s, 1, 1e-9); /* Perf Analyzer's default is even */
    /* 4.5 a second that took 0.4 s each are 1.8 at a time */
    const char *const held_back[] = {
        loadgen,
        "\"loadgen\": {\"request_rate\": 100, \"concurrency\": 2}}, \"request_throughput\": "
        "{\"unit\": \"requests/sec\", \"avg\": 4.5}, \"x\": {",
        NULL};
    const char *const free_of_it[] = {
        loadgen,
        "\"loadgen\": {\"request_rate\": 5, \"concurrency\": 20}}, \"request_throughput\": "
        "{\"unit\": \"requests/sec\", \"avg\": 4.5}, \"x\": {",
        NULL};
    /* gaps of 1 s each, or nearly so */
    const char *const even[] = {
        loadgen, "\"loadgen\": {\"request_rate\": 1, \"arrival_pattern\": \"constant\"}", NULL};
    const char *const smooth[] = {loadgen,
                                  "\"loadgen\": {\"request_rate\": 1, \"arrival_pattern\": "
                                  "\"gamma\", \"arrival_smoothness\": 10000}",
                                  NULL};
    assert_near(changed(*state, 3, even).stages->w.requests[2].arrival_s, 2, 1e-9);
    assert_near(changed(*state, 3, smooth).stages->w.requests[2].arrival_s, 2, 0.1);
    assert_int_equal(concurrency_peak(changed(*state, 3, held_back).stages->w.concurrency), 2);
    assert_null(changed(*state, 3, free_of_it).stages->w.concurrency);
}

/* ---- speculation ------------------------------------------------------------------------------
 */

static void records_of_speculation_are_refused(void **state)
{
    struct test *t = *state;
    static const char *const said[] = {
        "\"accept_length\": 2.9", "\"spec_decode_acceptance_length\": 1.01",
        "\"spec_decode_num_drafts\": 7", "\"speculative_config\": {\"method\": \"eagle\"}"};
    static const char *const plain[] = {
        "\"request_rate\": 1.0",
        "\"request_rate\": 1.0, \"accept_length\": null, "
        "\"speculative_config\": null, \"avg_spec_accept_length\": 1.0",
        NULL};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        refused(t, 7, "\"request_rate\": 1.0",
                arena_printf(t->a, "\"request_rate\": 1.0, %s", said[i]),
                "the server decoded speculatively, which is not simulated");
    refused(t, 1, "\"tensor_parallel\": 2",
            "\"tensor_parallel\": 2, \"speculative_config\": {\"num_speculative_tokens\": 3}",
            "the server decoded speculatively");
    assert_int_equal(changed(t, 7, plain).stages->completed, 3);
}

/* A result of two requests with 100 and 40 tokens, in so many gaps. */
static enum st load_messages(struct test *t, int first, int second, struct observed *o)
{
    struct buf b = {0};
    buf_puts(&b, "{\"ttfts\": [0.1, 0.1], \"start_times\": [0, 1], \"input_lens\": [9, 9], "
                 "\"output_lens\": [100, 40], \"itls\": [");
    for (int k = 0; k < 2; k++) {
        buf_puts(&b, k ? ", [" : "[");
        for (int i = 0; i < (k ? second : first); i++)
            buf_puts(&b, i ? ", 0.01" : "0.01");
        buf_puts(&b, "]");
    }
    buf_puts(&b, "]}");
    const char *path = test_write(t, "m.json", buf_str(&b));
    buf_free(&b);
    return observed_load(t->a, path, o, &t->e);
}

static void messages_of_several_tokens_are_refused(void **state)
{
    struct test *t = *state;
    struct observed o;
    assert_ok(load_messages(t, 99, 39, &o), t);
    assert_ok(load_messages(t, 95, 37, &o), t); /* joined here and there */
    assert_ok(load_messages(t, 1, 1, &o), t);   /* collected on the way */
    assert_told(t, load_messages(t, 33, 13, &o), "its messages brought 3 tokens each");
    err_clear(&t->e);
    assert_told(t, load_messages(t, 70, 39, &o), "its messages brought 1.27 tokens each");
    err_clear(&t->e);
}

/* GuideLLM counts the messages that had tokens. */
static void messages_of_guidellm_are_counted(void **state)
{
    struct test *t = *state;
    static const char *const each[] = {"\"output_tokens\": 31",
                                       "\"output_tokens\": 310, \"token_iterations\": 310", NULL};
    assert_int_equal(changed(t, 5, each).stages->completed, 3);
    refused(t, 5, "\"output_tokens\": 31", "\"output_tokens\": 310, \"token_iterations\": 104",
            "its messages brought 3 tokens each");
}

/* ---- counts of the server ---------------------------------------------------------------------
 */

static void what_the_server_counted_wins(void **state)
{
    struct test *t = *state;
    static const char *const words[] = {
        "\"inter_chunk_latency\"",
        "\"usage_prompt_tokens\": {\"value\": 2000, \"unit\": \"tokens\"}, "
        "\"usage_completion_tokens\": {\"value\": 75, \"unit\": \"tokens\"}, \"x\"",
        NULL};
    static const char *const means[] = {
        "{\"request_count\"",
        "{\"usage_prompt_tokens\": {\"unit\": \"tokens\", \"avg\": 2000}, "
        "\"usage_completion_tokens\": {\"unit\": \"tokens\", \"avg\": 75}, \"request_count\"",
        NULL};
    struct observed o = changed(t, 2, words);
    assert_int_equal(o.stages->w.requests[1].num_prefill_tokens, 2000);
    assert_int_equal(o.stages->w.requests[1].num_decode_tokens, 75);
    assert_near(o.stages->of[OBSERVED_TPOT].at[OBSERVED_P50], 0.2 / 74, 1e-6);
    assert_non_null(strstr(o.stages->notes[0], "where the client counted 200 and 21"));
    o = changed(t, 3, means);
    assert_int_equal(o.stages->w.requests[1].num_prefill_tokens, 2000);
    assert_int_equal(o.stages->w.requests[1].num_decode_tokens, 75);
    /* one request without: the client's counts for all */
    struct sample s = samples[2];
    const char *usage = ", \"usage_prompt_tokens\": {\"value\": 2000, \"unit\": \"tokens\"}, "
                        "\"usage_completion_tokens\": {\"value\": 75, \"unit\": \"tokens\"}";
    char *at = strstr(s.files[0].text, ", \"inter_chunk_latency");
    s.files[0].text =
        arena_printf(t->a, "%.*s%s%s", (int)(at - s.files[0].text), s.files[0].text, usage, at);
    assert_ok(observed_load(t->a, put(t, &s), &o, &t->e), t);
    assert_int_equal(o.stages->w.requests[1].num_decode_tokens, 21);
}

static void inference_perf_counts_of_the_server_win(void **state)
{
    static const char *const words[] = {
        "\"output_len\": {",
        "\"output_tokens\": {\"total\": 3, \"mean\": 75, \"median\": 75}, "
        "\"prompt_tokens\": {\"total\": 3, \"mean\": 900, \"median\": 900}, "
        "\"output_len\": {",
        NULL};
    const struct observed o = changed(*state, 1, words);
    assert_int_equal(o.stages->w.requests[1].num_prefill_tokens, 900);
    assert_int_equal(o.stages->w.requests[1].num_decode_tokens, 75);
}

/* A stage refutes its client's counts, another does not: one server, one decision. */
static void lengths_under_ignore_eos_are_one_decision(void **state)
{
    struct test *t = *state;
    struct observed o;
    struct sample s = samples[1];
    s.files[0].text =
        "{\"arrivals\": \"constant rate\", \"gpu\": \"H100\", \"ignore_eos\": true, \"model\": "
        "\"a/b\", \"prompts\": {\"question_tokens\": 150, \"output_tokens_asked\": 21}, "
        "\"stages\": [{\"rate\": 1, \"duration\": 3}, {\"rate\": 1, \"duration\": 3}], "
        "\"tensor_parallel\": 2}";
    s.files[2].name = "i/stage_1_lifecycle_metrics.json";
    s.files[2].text = REFUTED;
    assert_ok(observed_load(t->a, put(t, &s), &o, &t->e), t);
    for (size_t i = 0; i < 2; i++)
        for (int k = 0; k < 3; k++)
            assert_int_equal(o.stages[i].w.requests[k].num_decode_tokens, 21);
    s.files[2].text = LIFECYCLE;
    assert_ok(observed_load(t->a, put(t, &s), &o, &t->e), t);
    int64_t sum = 0;
    for (int k = 0; k < 3; k++)
        sum += o.stages[1].w.requests[k].num_decode_tokens;
    assert_int_equal(sum, 63);
    assert_int_not_equal(o.stages[1].w.requests[0].num_decode_tokens,
                         o.stages[1].w.requests[1].num_decode_tokens);
}

/* ---- inference-perf's own folder ---------------------------------------------------------------
 */

static void inference_perf_needs_no_experiment(void **state)
{
    struct test *t = *state;
    static const char *const shared[] = {
        "type: random",
        "type: shared_prefix\n  shared_prefix: {num_unique_system_prompts: 1, "
        "num_users_per_system_prompt: 3, system_prompt_len: 40, question_len: 150, output_len: 21}",
        NULL};
    static const char *const closed[] = {
        "rate: 1.0\n    duration: 3", "num_requests: 3\n    concurrency_level: 2\n    rate: null",
        "type: constant", "type: concurrent", NULL};
    static const char *const sweep[] = {
        "sweep: null", "sweep: {num_stages: 1}", "{\"successes\"",
        "{\"load_summary\": {\"count\": 3, \"requested_rate\": 0.5}, \"successes\"", NULL};
    struct observed o = changed(t, 8, shared);
    assert_string_equal(o.settings.model, "a/b");
    assert_int_equal(o.settings.tp, 0);
    assert_true(doubts(&o, "config.yaml says nothing of the server"));
    const struct workload_request *q = o.stages->w.requests;
    assert_int_equal(q[1].hash_ids[1], q[0].hash_ids[1]); /* 40 tokens: two whole pieces */
    assert_int_not_equal(q[1].hash_ids[2], q[0].hash_ids[2]);
    o = changed(t, 8, closed);
    assert_int_equal(concurrency_peak(o.stages->w.concurrency), 2);
    assert_null(o.stages->drawn_ns);
    o = changed(t, 8, sweep);
    assert_near(o.stages->rate, 0.5, 0);
    assert_int_equal(o.stages->w.n, 3);
    refused(t, 8, "type: constant", "type: trace_replay",
            "load.type 'trace_replay' has no rate and no concurrency");
    refused(t, 8, "rate: 1.0", "speed: 1.0",
            "load.stages: neither rate and duration nor concurrency_level");
}

/* What stages' files count cuts the requests; the server's counts win. */
static void inference_perf_has_its_requests(void **state)
{
    struct test *t = *state;
    struct observed o;
    struct sample s = samples[8];
    s.files[2].name = "own/"
                      "per_request_lifecycle_metrics.json";
    s.files[2].text = samples[9].files[0].text;
    assert_ok(observed_load(t->a, put(t, &s), &o, &t->e), t);
    assert_int_equal(o.stages->w.requests[2].num_prefill_tokens, 300);
    assert_near(o.stages->of[OBSERVED_TPOT].at[OBSERVED_P50], 0.01, 1e-6);
    static const char *const usage[] = {
        "\"server_usage\": null",
        "\"server_usage\": {\"prompt_tokens\": 900, \"completion_tokens\": 75, "
        "\"prompt_tokens_details\": {\"cached_tokens\": 32}}",
        NULL};
    o = changed(t, 9, usage);
    assert_int_equal(o.stages->w.requests[2].num_prefill_tokens, 900);
    assert_int_equal(o.stages->w.requests[2].num_decode_tokens, 75);
    assert_int_equal(o.stages->w.requests[2].hash_ids[1], o.stages->w.requests[0].hash_ids[1]);
    static const char *const failed[] = {"\"error\": null}]",
                                         "\"error\": {\"error_type\": \"HTTP Error 503\"}}]", NULL};
    o = changed(t, 9, failed);
    assert_int_equal(o.stages->failed, 1);
    refused(t, 9, "\"start_time\"", "\"began\"", "start_time: missing");
}

/* ---- sweeps, LLMPerf and trtllm-bench ----------------------------------------------------------
 */

enum { SWEEP = 10, SWEEP_TABLE = 12, LLMPERF_BOTH = 13, LLMPERF_MEANS = 14, TRTLLM = 15 };

static void sweeps_are_of_one_server(void **state)
{
    struct test *t = *state;
    struct observed o;
    struct sample s = samples[SWEEP];
    assert_ok(observed_load(t->a, put(t, &s), &o, &t->e), t);
    assert_int_equal(o.settings.batch_cap, 64);
    s.files[1].name = "sw/20260101_101112/SERVE-max_num_seqs=64-BENCH-request_rate=2/run=0.json";
    s.files[1].text = SWEPT;
    assert_ok(observed_load(t->a, put(t, &s), &o, &t->e), t);
    assert_int_equal(o.n_stages, 2);
    s.files[1].name = "sw/20260101_101112/SERVE-max_num_seqs=8-BENCH-request_rate=2/run=0.json";
    assert_told(t, observed_load(t->a, put(t, &s), &o, &t->e),
                "the sweep has several servers: SERVE-max_num_seqs=64 and SERVE-max_num_seqs=8");
    err_clear(&t->e);
    assert_ok(
        observed_load(t->a,
                      test_path(t, "sw/20260101_101112/SERVE-max_num_seqs=8-BENCH-request_rate=2"),
                      &o, &t->e),
        t);
    refused(t, SWEEP_TABLE, ",64\n", ",64\n1,x,3,1.0,600,63,200.0,200.0,280.0,400.0,560.0,,,8\n",
            "the sweep has servers of max_num_seqs 64 and 8");
    refused(t, SWEEP_TABLE, "max_num_seqs\n", "num_speculative_tokens\n",
            "num_speculative_tokens 64: the server decoded speculatively");
}

static void llmperf_is_a_closed_loop(void **state)
{
    struct test *t = *state;
    static const char *const as_is[] = {NULL};
    struct observed o = changed(t, LLMPERF_BOTH, as_is);
    assert_int_equal(concurrency_peak(o.stages->w.concurrency), 2);
    assert_int_equal(o.stages->w.requests[0].num_prefill_tokens, 200);
    assert_near(o.stages->of[OBSERVED_TPOT].at[OBSERVED_P50], 0.01, 1e-6);
    assert_string_equal(o.settings.model, "a/b");
    o = changed(t, LLMPERF_MEANS, as_is);
    assert_int_equal(concurrency_peak(o.stages->w.concurrency), 2);
    assert_true(isnan(o.stages->of[OBSERVED_TPOT].at[OBSERVED_P50]));
    const char *alone =
        test_write(t, "x_individual_responses.json", samples[LLMPERF_BOTH].files[1].text);
    assert_told(t, observed_load(t->a, alone, &o, &t->e),
                "does not say how many requests were sent at a time");
    err_clear(&t->e);
}

static void trtllm_states_its_engine(void **state)
{
    struct test *t = *state;
    static const char *const as_is[] = {NULL};
    static const char *const at_once[] = {"\"issue_rate\": 1.2", "\"issue_rate\": 90000.0", NULL};
    struct observed o = changed(t, TRTLLM, as_is);
    assert_int_equal(concurrency_peak(o.stages->w.concurrency), 2);
    assert_int_equal(o.settings.tp, 2);
    assert_int_equal(o.settings.batch_cap, 64);
    assert_int_equal(o.settings.max_model_len, 4096);
    assert_string_equal(o.settings.kv, "fp8");
    assert_string_equal(o.settings.weights, "int4");
    assert_true(doubts(&o, "vLLM's scheduler stands in for its own"));
    o = changed(t, TRTLLM, at_once);
    assert_int_equal(concurrency_peak(o.stages->w.concurrency), 3);
    refused(t, TRTLLM, "\"streaming_metrics\"", "\"decoding_stats\": {\"mode\": \"Eagle\"}, \"s\"",
            "decoding_stats: the server decoded speculatively");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_infinite_rate_is_a_closed_loop),
        TEST(a_rate_that_changes_is_refused),
        TEST(a_limit_that_decides_is_a_closed_loop),
        TEST(random_lengths_lie_evenly_around_their_means),
        TEST(aiperf_and_genai_perf_state_a_concurrency),
        TEST(records_of_speculation_are_refused),
        TEST(messages_of_several_tokens_are_refused),
        TEST(messages_of_guidellm_are_counted),
        TEST(what_the_server_counted_wins),
        TEST(inference_perf_counts_of_the_server_win),
        TEST(lengths_under_ignore_eos_are_one_decision),
        TEST(inference_perf_needs_no_experiment),
        TEST(inference_perf_has_its_requests),
        TEST(sweeps_are_of_one_server),
        TEST(llmperf_is_a_closed_loop),
        TEST(trtllm_states_its_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
