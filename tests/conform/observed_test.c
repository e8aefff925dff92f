/* One suite over every format of latency records: a sample of each gives the same requests and
 * latencies; what is missing or wrong is told at its place. */
#include <math.h>

#include "observed_samples.h"

static void samples_give_their_requests(void **state)
{
    struct test *t = *state;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        struct observed o;
        assert_ok(observed_load(t->a, put(t, &samples[i]), &o, &t->e), t);
        assert_string_equal(o.format, samples[i].format);
        assert_int_equal(o.n_stages, 1);
        const struct observed_stage *s = o.stages;
        assert_int_equal(s->completed, 3);
        assert_int_equal(s->failed, 0);
        assert_int_equal(s->w.n, 3);
        assert_near(s->rate, 1, 1e-6);
        int64_t prompt = 0, output = 0;
        for (int k = 0; k < 3; k++) {
            assert_int_equal(s->w.requests[k].request_id, k);
            prompt += s->w.requests[k].num_prefill_tokens;
            output += s->w.requests[k].num_decode_tokens;
        }
        assert_int_equal(prompt, 600);
        assert_int_equal(output, 63);
        for (int k = 0; samples[i].rows && k < 3; k++) {
            assert_near((double)s->w.requests[k].arrival_ns, 1e9 * k, 2e3);
            assert_int_equal(s->w.requests[k].num_prefill_tokens, 100 * (k + 1));
            assert_int_equal(s->w.requests[k].num_decode_tokens, 10 * (k + 1) + 1);
        }
        assert_int_equal(s->n_notes > 0, !samples[i].rows && strcmp(o.format, "inference_perf"));
    }
}

static void samples_give_their_latencies(void **state)
{
    struct test *t = *state;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        struct observed o;
        assert_ok(observed_load(t->a, put(t, &samples[i]), &o, &t->e), t);
        const struct observed_stage *s = o.stages;
        assert_near(s->of[OBSERVED_TTFT].at[OBSERVED_P50], 0.2, 1e-6);
        assert_near(s->of[OBSERVED_TTFT].at[OBSERVED_P90], 0.28, 1e-6);
        assert_near(s->of[OBSERVED_E2E].at[OBSERVED_P50], 0.4, 1e-6);
        assert_near(s->of[OBSERVED_E2E].at[OBSERVED_P90], 0.56, 1e-6);
        if (samples[i].rows)
            assert_near(s->of[OBSERVED_TPOT].at[OBSERVED_P50], 0.01, 1e-6);
    }
}

static void every_format_has_a_sample(void **state)
{
    (void)state;
    for (const struct observed_format *f = observed_formats; f->name; f++) {
        bool found = false;
        for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
            found |= strcmp(samples[i].format, f->name) == 0;
        assert_true(found);
        assert_true(f->help && f->marks && f->is && f->read);
    }
}

static void what_is_missing_or_wrong_is_named(void **state)
{
    struct test *t = *state;
    refused(t, 1, "\"tensor_parallel\"", "\"shards\"", "tensor_parallel: missing");
    refused(t, 1, "\"max_num_seqs\": 128", "\"max_num_seqs\": \"many\"", "max_num_seqs");
    refused(t, 1, "\"gpu\"", "\"card\"", "gpu: missing");
    refused(t, 1, "\"constant rate\"", "\"bursts\"", "arrivals: 'bursts' is not known here");
    refused(t, 1, "\"latency\": {", "\"latencies\": {",
            "neither request_latency nor time_to_first_token has a median");
    refused(t, 1, "\"duration\": 3}", "\"duration\": 3}, {\"rate\": 2, \"duration\": 1}",
            "has no stage_1_lifecycle_metrics.json");
    refused(t, 2, "\"unit\": \"ms\"", "\"unit\": \"days\"", "unit: 'days' is not known here");
    refused(t, 2, "1759813208000000000", "\"soon\"", "request_start_ns");
    refused(t, 3, "\"request_rate\"", "\"request_count\"", "does not hold when requests were sent");
    refused(t, 5, "\"successful\"", "\"good\"", "has no successful requests");
    refused(t, 5, "\"prompt_tokens\": 100", "\"prompt_tokens\": \"many\"", "prompt_tokens");
    refused(t, 6, "\"itls\": [[0.1, 0.1]", "\"itls\": [7", "itls: expected a list of lists");
    refused(t, 6, "[21, 11, 31]", "[21, 11]", "output_lens has 2 values, input_lens 3");
    refused(t, 7, "\"request_rate\": 1.0", "\"request_rate\": \"inf\"",
            "the record does not hold when");
}

static void other_files_are_no_record(void **state)
{
    struct test *t = *state;
    struct observed o;
    assert_told(t, observed_load(t->a, test_write(t, "x.json", "{\"a\": [{}, 1]}"), &o, &t->e),
                "is no record of a run that is known here");
    err_clear(&t->e);
    assert_told(t, observed_load(t->a, test_path(t, "none"), &o, &t->e), "does not exist");
}

/* ---- what inference-perf's counts say of lengths ------------------------------------------------
 */

static void counted_lengths_that_latencies_refute_are_not_taken(void **state)
{
    struct test *t = *state;
    struct observed o;
    struct sample s = samples[1];
    /* E2E from 0.35 to 0.6, and counts from 1: with ignore_eos all have what was asked for. */
    s.files[0].text =
        "{\"arrivals\": \"constant rate\", \"engine\": \"vLLM (V1)\", \"gpu\": \"H100\", "
        "\"ignore_eos\": true, \"max_model_len\": 4096, \"max_num_batched_tokens\": "
        "2048, \"max_num_seqs\": 128, \"model\": \"a/b\", \"prompts\": {\"groups\": 1, "
        "\"prompts_per_group\": 3, \"system_prompt_tokens\": 40, \"question_tokens\": "
        "150, \"output_tokens_asked\": 21}, \"stages\": [{\"rate\": 1, \"duration\": "
        "3}], \"tensor_parallel\": 2}";
    s.files[1].text = REFUTED;
    assert_ok(observed_load(t->a, put(t, &s), &o, &t->e), t);
    for (int k = 0; k < 3; k++)
        assert_int_equal(o.stages->w.requests[k].num_decode_tokens, 21);
    assert_int_equal(o.stages->n_notes, 1);
    assert_non_null(strstr(o.stages->notes[0], "contradicts the latencies"));
}

static void prompts_of_a_group_share_their_beginning(void **state)
{
    struct test *t = *state;
    struct observed o;
    assert_ok(observed_load(t->a, put(t, &samples[1]), &o, &t->e), t);
    const struct workload_request *q = o.stages->w.requests;
    for (int k = 1; k < 3; k++) {
        assert_int_equal(q[k].hash_tokens, 16);
        assert_int_equal(q[k].hash_ids[0], q[0].hash_ids[0]); /* 40 tokens: two whole pieces */
        assert_int_equal(q[k].hash_ids[1], q[0].hash_ids[1]);
        assert_int_not_equal(q[k].hash_ids[2], q[0].hash_ids[2]);
    }
    assert_int_equal(o.settings.batch_cap, 128);
    assert_int_equal(o.settings.tp, 2);
}

/* ---- experiment.json --------------------------------------------------------------------------
 */

static void experiments_say_what_they_leave_open(void **state)
{
    static const char *const as_is[] = {NULL};
    assert_int_equal(changed(*state, 1, as_is).n_doubts, 0);
    static const char *const words[] = {"\"max_num_seqs\"",
                                        "\"max_seqs\"",
                                        "\"groups\"",
                                        "\"g\"",
                                        "\"ignore_eos\"",
                                        "\"ignore\"",
                                        "\"max_model_len\"",
                                        "\"cpu_offload_gb\"",
                                        "\"vLLM (V1)\"",
                                        "\"SGLang 0.5\"",
                                        NULL};
    const struct observed o = changed(*state, 1, words);
    assert_int_equal(o.n_doubts, 9);
    assert_true(doubts(&o, "max_num_seqs is not stated: taken to be what vLLM takes on this GPU"));
    assert_true(doubts(&o, "max_model_len is not stated: taken to be that of the model"));
    assert_true(doubts(&o, "max_seqs is not read"));
    assert_true(doubts(&o, "cpu_offload_gb is not read"));
    assert_true(doubts(&o, "prompts.g is not read"));
    assert_true(doubts(&o, "prompts are taken to share nothing"));
    assert_true(doubts(&o, "ignore_eos is not stated: taken to be true"));
    assert_true(doubts(&o, "engine 'SGLang 0.5': vLLM's scheduler stands in for its own"));
    assert_int_equal(o.settings.batch_cap, 0);
    assert_string_equal(o.settings.engine, "sglang");
    assert_null(o.stages->w.requests[1].hash_ids);
}

static void experiments_state_more_of_the_server(void **state)
{
    static const char *const words[] = {
        "\"tensor_parallel\": 2",
        "\"tensor_parallel_size\": 4, \"pp\": 2, \"enable_expert_parallel\": true, "
        "\"quantization\": \"fp8\", \"kv_cache_dtype\": \"fp8_e4m3\", \"dtype\": \"auto\", "
        "\"gpu_memory_utilization\": 0.8, \"num_gpu_blocks\": 900, \"block_size\": 32, "
        "\"enable_prefix_caching\": false, \"data_parallel\": 1, \"note\": \"none\"",
        "\"question_tokens\"", "\"question_len\"", NULL};
    const struct observed o = changed(*state, 1, words);
    const struct observed_settings *s = &o.settings;
    assert_int_equal(o.n_doubts, 0);
    assert_int_equal(s->tp, 4);
    assert_int_equal(s->pp, 2);
    assert_int_equal(s->ep, 4);
    assert_string_equal(s->weights, "fp8");
    assert_string_equal(s->kv, "fp8");
    assert_near(s->gpu_memory_utilization, 0.8, 0);
    assert_int_equal(s->num_blocks, 900);
    assert_int_equal(s->block_size, 32);
    assert_int_equal(s->prefix_caching, 0);
    static const char *const numbers[] = {
        "\"tensor_parallel\": 2",
        "\"tensor_parallel\": 2, \"enable_prefix_caching\": 1, \"expert_parallel\": 1", NULL};
    assert_int_equal(changed(*state, 1, numbers).settings.prefix_caching, 1);
    assert_int_equal(changed(*state, 1, numbers).settings.ep, 0); /* a degree */
    static const char *const named[] = {"a/b", "Org/Llama-3.3-70B-Instruct-FP8-dynamic", NULL};
    assert_string_equal(changed(*state, 1, named).settings.weights, "fp8");
    static const char *const plain[] = {"a/b", "Org/Llama-3.3-70B-Instruct", NULL};
    assert_null(changed(*state, 1, plain).settings.weights);
}

static void experiments_that_no_replica_stands_for_are_refused(void **state)
{
    struct test *t = *state;
    static const char tp[] = "\"tensor_parallel\": 2";
    refused(t, 1, tp, "\"tensor_parallel\": 2, \"data_parallel\": 2",
            "data_parallel: 2 replicas, and one is simulated");
    refused(t, 1, tp, "\"tensor_parallel\": 2, \"tp\": 4",
            "tp and tensor_parallel say different things");
    refused(t, 1, tp, "\"tensor_parallel\": 2, \"quantization\": \"q4_k_m\"",
            "quantization: 'q4_k_m' is not known here");
    refused(t, 1, tp, "\"tensor_parallel\": 2, \"enable_prefix_caching\": 2",
            "enable_prefix_caching: expected true or false");
    refused(t, 1, tp, "\"tensor_parallel\": 2, \"enable_prefix_caching\": \"on\"",
            "enable_prefix_caching: expected true or false");
    refused(t, 1, "\"output_tokens_asked\": 21", "\"output_tokens_asked\": 0",
            "output_tokens_asked: 0 is below the minimum 1");
}

static void names_of_one_model_and_of_one_gpu_are_equal(void **state)
{
    (void)state;
    static const char *const same[][2] = {
        {"meta-llama/Llama-3.1-8B", "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8"},
        {"mistralai/Mixtral-8x7B-v0.1", "mixtral-8x7b-instruct-v0.1"},
        {"mistralai/Mistral-Nemo-Base-2407", "mistralai/Mistral-Nemo-Instruct-2407"},
        {"Qwen/Qwen3-8B", "Qwen/Qwen3-8B-FP8"},
        {"meta-llama/Llama-2-7b-hf", "meta-llama/Llama-2-7b-chat-hf"},
    };
    static const char *const other[][2] = {
        {"meta-llama/Llama-3.1-8B", "meta-llama/Llama-3-8B"},
        {"mistralai/Mixtral-8x7B-v0.1", "mistralai/Mixtral-8x22B-v0.1"},
        {"Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-32B"},
        {"a/b", NULL},
    };
    static const char *const same_gpu[][2] = {
        {"H100 SXM 80GB", "NVIDIA H100 80GB HBM3"},
        {"A100-SXM4-80GB", "NVIDIA A100 80GB"},
        {"NVIDIA H200", "H200 SXM 141GB"},
    };
    static const char *const other_gpu[][2] = {
        {"H100 SXM 80GB", "H100 PCIe 80GB"},
        {"A100-SXM4-80GB", "A100-SXM4-40GB"},
        {"H100", "H200"},
        {"L40", "L40S"},
        {"H100 NVL", "H100"},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        assert_true(observed_same_model(same[i][0], same[i][1]));
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        assert_false(observed_same_model(other[i][0], other[i][1]));
    for (size_t i = 0; i < sizeof same_gpu / sizeof *same_gpu; i++)
        assert_true(observed_same_gpu(same_gpu[i][0], same_gpu[i][1]));
    for (size_t i = 0; i < sizeof other_gpu / sizeof *other_gpu; i++)
        assert_false(observed_same_gpu(other_gpu[i][0], other_gpu[i][1]));
}

/* ---- versions, and what generators leave out ----------------------------------------------------
 */

static void inference_perf_without_streaming_has_e2e_alone(void **state)
{
    static const char *const words[] = {"\"time_to_first_token\": {", "\"x\": {", NULL};
    static const char *const null[] = {"\"x\"", "\"time_to_first_token\": null, \"x\"", NULL};
    struct observed o = changed(*state, 1, words);
    assert_true(isnan(o.stages->of[OBSERVED_TTFT].at[OBSERVED_P50]));
    assert_near(o.stages->of[OBSERVED_E2E].at[OBSERVED_P50], 0.4, 1e-9);
    o = changed(*state, 1, null);
    assert_near(o.stages->of[OBSERVED_E2E].at[OBSERVED_P50], 0.4, 1e-9);
}

static void inference_perf_has_the_lengths_of_either_version(void **state)
{
    static const char *const words[] = {"\"prompt_len\": {", "\"prompt_tokens\": {\"cached\": 0, ",
                                        "\"output_len\": {",
                                        "\"output_len\": null, "
                                        "\"output_tokens\": {",
                                        NULL};
    static const char *const none[] = {"\"prompt_len\"", "\"p\"", "\"output_len\"", "\"o\"", NULL};
    struct observed o = changed(*state, 1, words);
    int64_t prompt = 0, output = 0;
    for (int k = 0; k < 3; k++) {
        prompt += o.stages->w.requests[k].num_prefill_tokens;
        output += o.stages->w.requests[k].num_decode_tokens;
    }
    assert_int_equal(prompt, 600);
    assert_int_equal(output, 63);
    o = changed(*state, 1, none);
    assert_int_equal(o.stages->n_notes, 2);
    assert_int_equal(o.stages->w.requests[1].num_prefill_tokens, 190);
    assert_int_equal(o.stages->w.requests[1].num_decode_tokens, 21);
}

static void inference_perf_needs_no_percentile_but_the_median(void **state)
{
    static const char *const words[] = {"\"p10\"", "\"a\"", "\"p99\"", "\"b\"",
                                        "\"min\"", "\"c\"", NULL};
    const struct observed o = changed(*state, 1, words);
    const struct observed_series *e2e = &o.stages->of[OBSERVED_E2E];
    assert_true(isnan(e2e->at[OBSERVED_P10]) && isnan(e2e->at[OBSERVED_P99]));
    assert_near(e2e->at[OBSERVED_P90], 0.56, 1e-9);
    for (int k = 0; k < 3; k++) /* P1 to the maximum */
        assert_in_range(o.stages->w.requests[k].num_prefill_tokens, 100, 300);
}

static void a_stage_without_successes_is_left_to_the_others(void **state)
{
    struct test *t = *state;
    struct observed o;
    struct sample s = samples[1];
    s.files[1].text =
        "{\"successes\": {\"count\": 0, \"latency\": {\"request_latency\": null, "
        "\"time_to_first_token\": null}, \"prompt_len\": null, \"output_len\": null}, "
        "\"failures\": {\"count\": 3}}";
    assert_ok(observed_load(t->a, put(t, &s), &o, &t->e), t);
    assert_int_equal(o.stages->completed, 0);
    assert_int_equal(o.stages->failed, 3);
}

static void aiperf_states_its_load_in_phases_too(void **state)
{
    struct test *t = *state;
    static const char *const words[] = {
        "\"loadgen\": {\"request_rate\": 1, \"request_rate_mode\": \"constant\"}",
        "\"phases\": [{\"kind\": \"warmup\", \"rate\": 9}, {\"kind\": \"profiling\", \"type\": "
        "\"constant\", \"rate\": 1.0}]",
        NULL};
    const struct observed o = changed(t, 3, words);
    assert_near(o.stages->rate, 1, 0);
    assert_near(o.stages->w.requests[2].arrival_s, 2, 1e-9);
    refused(t, 3, "\"loadgen\": {\"request_rate\": 1, ",
            "\"phases\": [{\"rate\": 1}, {\"rate\": 2}], \"l\": {",
            "input_config.phases: has several beside warm-up");
}

static void aiperf_without_streaming_is_known_by_its_latency(void **state)
{
    static const char *const words[] = {"time_to_first_token", "x", NULL};
    const struct observed records = changed(*state, 2, words);
    assert_true(isnan(records.stages->of[OBSERVED_TTFT].at[OBSERVED_P50]));
    assert_near(records.stages->of[OBSERVED_E2E].at[OBSERVED_P50], 0.4, 1e-6);
    const struct observed summary = changed(*state, 3, words);
    assert_string_equal(summary.format, "aiperf");
    assert_near(summary.stages->of[OBSERVED_E2E].at[OBSERVED_P50], 0.4, 1e-6);
}

/* GuideLLM's strategies without a plan want every request sent at the start. */
static void guidellm_plans_arrivals_in_some_strategies(void **state)
{
    static const char *const throughput[] = {
        "\"targeted_start\": null", "\"targeted_start\": 999.5", "{\"requests\"",
        "{\"config\": {\"strategy\": {\"type_\": \"throughput\"}}, \"requests\"", NULL};
    static const char *const poisson[] = {
        "\"targeted_start\": null", "\"targeted_start\": 999.5", "{\"requests\"",
        "{\"config\": {\"strategy\": {\"type_\": \"poisson\"}}, \"requests\"", NULL};
    struct observed o = changed(*state, 5, throughput);
    assert_near(o.stages->of[OBSERVED_E2E].at[OBSERVED_P50], 0.4, 1e-6);
    assert_near(o.stages->w.requests[2].arrival_s, 2, 1e-6);
    o = changed(*state, 5, poisson);
    assert_near(o.stages->of[OBSERVED_E2E].at[OBSERVED_P50], 1.9, 1e-6);
}

static void guidellm_reports_are_whole_or_refused(void **state)
{
    struct test *t = *state;
    static const char *const words[] = {
        "\"benchmarks\": [",
        "\"benchmarks\": [{\"requests\": {\"successful\": [], \"errored\": []}}, ", NULL};
    const struct observed o = changed(t, 5, words);
    assert_int_equal(o.n_stages, 1);
    assert_string_equal(o.stages->name, "1");
    refused(t, 5, "{\"requests\"",
            "{\"metrics\": {\"request_totals\": {\"successful\": 9}}, \"requests\"",
            "it holds 3 of 9 successful requests");
    struct observed folder;
    test_write(t, "gl/benchmarks.json", samples[5].files[0].text);
    assert_ok(observed_load(t->a, test_path(t, "gl"), &folder, &t->e), t);
    assert_string_equal(folder.format, "guidellm");
}

static void vllm_results_may_follow_each_other(void **state)
{
    struct test *t = *state;
    struct observed o;
    const char *one = samples[7].files[0].text;
    test_write(t, "both.json", arena_printf(t->a, "%s\n%s\n", one, one));
    assert_ok(observed_load(t->a, test_path(t, "both.json"), &o, &t->e), t);
    assert_int_equal(o.n_stages, 2);
    assert_string_equal(o.stages[1].name, "1");
    assert_near(o.stages[1].of[OBSERVED_E2E].at[OBSERVED_P90], 0.56, 1e-9);
    test_write(t, "cut.json", arena_printf(t->a, "%s\n{\"completed\"", one));
    assert_told(t, observed_load(t->a, test_path(t, "cut.json"), &o, &t->e), "cut.json:2:");
    err_clear(&t->e);
}

static void vllm_before_start_times_has_lengths_and_latencies(void **state)
{
    struct test *t = *state;
    static const char *const words[] = {"\"start_times\": [101.0, 100.0, 102.0]",
                                        "\"request_rate\": 2.0", NULL};
    const struct observed o = changed(t, 6, words);
    assert_int_equal(o.stages->w.requests[0].num_prefill_tokens, 200);
    assert_int_equal(o.stages->w.requests[2].num_decode_tokens, 31);
    assert_near(o.stages->of[OBSERVED_E2E].at[OBSERVED_P50], 0.4, 1e-6);
    assert_int_equal(o.stages->n_notes, 1);
    refused(t, 6, "\"start_times\": [101.0, 100.0, 102.0]", "\"request_rate\": \"inf\"",
            "the record does not hold when");
}

static void vllm_counts_what_did_not_complete(void **state)
{
    static const char *const words[] = {"\"completed\": 3", "\"completed\": 3, \"num_prompts\": 5",
                                        NULL};
    static const char *const sglang[] = {"e2el_ms", "e2e_latency_ms", NULL};
    struct observed o = changed(*state, 7, words);
    assert_int_equal(o.stages->failed, 2);
    o = changed(*state, 7, sglang);
    assert_near(o.stages->of[OBSERVED_E2E].at[OBSERVED_P90], 0.56, 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(samples_give_their_requests),
        TEST(samples_give_their_latencies),
        TEST(every_format_has_a_sample),
        TEST(what_is_missing_or_wrong_is_named),
        TEST(other_files_are_no_record),
        TEST(counted_lengths_that_latencies_refute_are_not_taken),
        TEST(prompts_of_a_group_share_their_beginning),
        TEST(experiments_say_what_they_leave_open),
        TEST(experiments_state_more_of_the_server),
        TEST(experiments_that_no_replica_stands_for_are_refused),
        TEST(names_of_one_model_and_of_one_gpu_are_equal),
        TEST(inference_perf_without_streaming_has_e2e_alone),
        TEST(inference_perf_has_the_lengths_of_either_version),
        TEST(inference_perf_needs_no_percentile_but_the_median),
        TEST(a_stage_without_successes_is_left_to_the_others),
        TEST(aiperf_states_its_load_in_phases_too),
        TEST(aiperf_without_streaming_is_known_by_its_latency),
        TEST(guidellm_plans_arrivals_in_some_strategies),
        TEST(guidellm_reports_are_whole_or_refused),
        TEST(vllm_results_may_follow_each_other),
        TEST(vllm_before_start_times_has_lengths_and_latencies),
        TEST(vllm_counts_what_did_not_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
