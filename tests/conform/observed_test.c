/* One suite over every format of latency records: a sample of each, written here in the published
 * shape, gives the same requests and latencies; what is missing or wrong is told at its place. */
#include <math.h>

#include "calibrate/observed.h"
#include "support/support.h"

/* ---- samples --------------------------------------------------------------------------------- */

#define STATS(mean, min, p10, p25, p50, p75, p90, max)                                           \
    "{\"mean\": " mean ", \"min\": " min ", \"p0.1\": " min ", \"p1\": " min ", \"p5\": " min    \
    ", \"p10\": " p10 ", \"p25\": " p25 ", \"median\": " p50 ", \"p75\": " p75 ", \"p90\": " p90 \
    ", \"p95\": " p90 ", \"p99\": " max ", \"p99.9\": " max ", \"max\": " max "}"

#define EXPERIMENT                                                                              \
    "{\"arrivals\": \"constant rate\", \"engine\": \"vLLM (V1)\", \"gpu\": \"H100 SXM 80GB\", " \
    "\"ignore_eos\": false, \"max_model_len\": 4096, \"max_num_batched_tokens\": 2048, "        \
    "\"max_num_seqs\": 128, \"model\": \"a/b\", \"prompts\": {\"groups\": 1, "                  \
    "\"prompts_per_group\": 3, \"system_prompt_tokens\": 40, \"question_tokens\": 150, "        \
    "\"output_tokens_asked\": 21}, \"stages\": [{\"rate\": 1, \"duration\": 3}], "              \
    "\"tensor_parallel\": 2}"

/* clang-format off */
#define LIFECYCLE                                                                                \
    "{\"successes\": {\"count\": 3, \"latency\": {\"request_latency\": "                         \
    STATS("0.4", "0.2", "0.24", "0.3", "0.4", "0.5", "0.56", "0.6")                              \
    ", \"time_to_first_token\": "                                                                \
    STATS("0.2", "0.1", "0.12", "0.15", "0.2", "0.25", "0.28", "0.3")                            \
    "}, \"prompt_len\": " STATS("200", "100", "100", "150", "200", "250", "300", "300")          \
    ", \"output_len\": " STATS("21", "11", "11", "16", "21", "26", "31", "31")                   \
    "}, \"failures\": {\"count\": 0}}"

/* Counts of answers from 1, latencies from 0.35 of 0.4 s. */
#define REFUTED                                                                                  \
    "{\"successes\": {\"count\": 3, \"latency\": {\"request_latency\": "                         \
    STATS("0.4", "0.35", "0.36", "0.38", "0.4", "0.5", "0.56", "0.6")                            \
    ", \"time_to_first_token\": "                                                                \
    STATS("0.2", "0.1", "0.12", "0.15", "0.2", "0.25", "0.28", "0.3")                            \
    "}, \"prompt_len\": " STATS("200", "100", "100", "150", "200", "250", "300", "300")          \
    ", \"output_len\": " STATS("15", "1", "2", "16", "21", "21", "21", "21")                     \
    "}, \"failures\": {\"count\": 0}}"
/* clang-format on */

static const char run_requests[] =
    "request_id,arrival_time_ns,first_token_time_ns,ttft_ns,completion_time_ns,num_prefill_tokens,"
    "num_decode_tokens,num_decode_tokens_actual,status,scheduled_time_ns,sent_time_ns,ttft_sent_ns,"
    "preemptions,backend,prompt_id,error_type,error_msg,warmup\n"
    "0,0,100000000,100000000,200000000,100,11,11,ok,,,,0,openai,,,,0\n"
    "1,1000000000,1200000000,200000000,1400000000,200,21,21,ok,,,,0,openai,,,,0\n"
    "2,2000000000,2300000000,300000000,2600000000,300,31,31,ok,,,,0,openai,,,,0\n";

#define AIPERF_ROW(start, input, output, ttft, latency)                                        \
    "{\"metadata\": {\"request_start_ns\": " start                                             \
    ", \"was_cancelled\": false, \"benchmark_phase\": \"profiling\"}, \"metrics\": {"          \
    "\"input_sequence_length\": {\"value\": " input                                            \
    ", \"unit\": \"tokens\"}, \"output_sequence_length\": {\"value\": " output                 \
    ", \"unit\": \"tokens\"}, \"time_to_first_token\": {\"value\": " ttft                      \
    ", \"unit\": \"ms\"}, \"request_latency\": {\"value\": " latency                           \
    ", \"unit\": \"ms\"}, \"inter_chunk_latency\": {\"value\": [10, 10], \"unit\": \"ms\"}}, " \
    "\"error\": null}\n"

#define GUIDE_ROW(start, end, first, input, output)                  \
    "{\"request_start_time\": " start ", \"request_end_time\": " end \
    ", \"info\": {\"timings\": {\"first_token_iteration\": " first   \
    ", \"targeted_start\": null}}, "                                 \
    "\"prompt_tokens\": " input ", \"output_tokens\": " output "}"

#define AIPERF_STATS(unit, avg, p10, p25, p50, p75, p90, p99)                               \
    "{\"unit\": \"" unit "\", \"avg\": " avg ", \"p1\": 0, \"p10\": " p10 ", \"p25\": " p25 \
    ", \"p50\": " p50 ", \"p75\": " p75 ", \"p90\": " p90 ", \"p99\": " p99 "}"

/* inference-perf's own */
#define CONFIG                                                                                     \
    "api:\n  type: completion\n  streaming: true\ndata:\n  type: random\nload:\n  type: "          \
    "constant\n"                                                                                   \
    "  interval: 1.0\n  sweep: null\n  stages:\n  - rate: 1.0\n    duration: 3\nserver:\n  type: " \
    "vllm\n"                                                                                       \
    "  model_name: a/b\n  base_url: http://x:8000\n  ignore_eos: true\n"

#define REQUEST(start, end, first, input, output)                                               \
    "{\"start_time\": " start ", \"end_time\": " end ", \"request\": \"x\", \"info\": "         \
    "{\"request_metrics\": {\"text\": {\"input_tokens\": " input                                \
    "}}, \"response_metrics\": {\"output_tokens\": " output ", \"output_token_times\": [" first \
    "], \"server_usage\": null}}, \"error\": null}"

#define SWEPT                                                                                  \
    "{\"completed\": 3, \"request_rate\": 1.0, \"total_input_tokens\": 600, "                  \
    "\"total_output_tokens\": 63, \"mean_ttft_ms\": 200, \"median_ttft_ms\": 200, "            \
    "\"p90_ttft_ms\": 280, \"median_e2el_ms\": 400, \"p90_e2el_ms\": 560, \"run_number\": 0, " \
    "\"max_num_seqs\": 64}"

#define LLMPERF                                                                               \
    "{\"version\": \"2023-08-31\", \"name\": \"m\", \"model\": \"a/b\", "                     \
    "\"num_concurrent_requests\": 2, "                                                        \
    "\"results_ttft_s_quantiles_p50\": 0.2, \"results_ttft_s_quantiles_p90\": 0.28, "         \
    "\"results_ttft_s_mean\": 0.2, \"results_end_to_end_latency_s_quantiles_p50\": 0.4, "     \
    "\"results_end_to_end_latency_s_quantiles_p90\": 0.56, "                                  \
    "\"results_end_to_end_latency_s_mean\": 0.4, \"results_number_input_tokens_mean\": 200, " \
    "\"results_number_output_tokens_mean\": 21, \"results_num_completed_requests\": 3, "      \
    "\"results_number_errors\": 0, \"results_num_completed_requests_per_min\": 60}"

#define RESPONSE(input, output, ttft, e2e)                                                     \
    "{\"error_code\": null, \"error_msg\": \"\", \"inter_token_latency_s\": 0.02, "            \
    "\"ttft_s\": " ttft ", \"end_to_end_latency_s\": " e2e ", \"number_input_tokens\": " input \
    ", \"number_output_tokens\": " output "}"

struct sample {
    const char *format;
    struct {
        const char *name, *text;
    } files[3];
    const char *path;
    bool rows; /* the record has its requests; else their means */
};

static const struct sample samples[] = {
    {"run",
     {{"r/run_meta.json", "{\"schema_version\": 1, \"run_type\": \"real\"}"},
      {"r/request_metrics.csv", run_requests}},
     "r",
     true},
    {"inference_perf",
     {{"i/experiment.json", EXPERIMENT}, {"i/stage_0_lifecycle_metrics.json", LIFECYCLE}},
     "i",
     false},
    {"aiperf",
     {{"a/profile_export.jsonl",
       AIPERF_ROW("1759813208000000000", "200", "21", "200", "400")
           AIPERF_ROW("1759813207000000000", "100", "11", "100",
                      "200") "\n" AIPERF_ROW("1759813209000000000", "300", "31", "300", "600")}},
     "a",
     true},
    {"aiperf",
     {{"s.json",
       "{\"request_count\": {\"unit\": \"requests\", \"avg\": 3}, \"input_config\": {\"loadgen\": "
       "{\"request_rate\": 1, \"request_rate_mode\": \"constant\"}}, \"input_sequence_length\": "
       "{\"unit\": \"tokens\", \"avg\": 200}, \"output_sequence_length\": {\"unit\": \"tokens\", "
       "\"avg\": 21}, \"time_to_first_token\": " AIPERF_STATS(
           "ms", "200", "120", "150", "200", "250", "280",
           "298") ", \"request_latency\": " AIPERF_STATS("ms", "400", "240", "300", "400", "500",
                                                         "560", "596") "}"}},
     "s.json",
     false},
    {"aiperf",
     {{"m-openai-chat-request_rate1.0/profile_export_genai_perf.csv",
       "Metric,avg,min,max,p99,p95,p90,p75,p50,p25\r\n"
       "Time To First Token (ms),200.00,100.00,300.00,298.00,290.00,280.00,250.00,200.00,150.00\r\n"
       "Request Latency (ms),400.00,200.00,600.00,596.00,580.00,560.00,500.00,400.00,300.00\r\n"
       "Output Sequence Length,21.00,11.00,31.00,31.00,30.00,29.00,26.00,21.00,16.00\r\n"
       "Input Sequence Length,200.00,100.00,300.00,298.00,290.00,280.00,250.00,200.00,150.00\r\n"
       "\r\nMetric,Value\r\nOutput Token Throughput (per sec),\"1,024.00\"\r\n"
       "Request Throughput (per sec),1.10\r\nRequest Count (count),3.00\r\n"}},
     "m-openai-chat-request_rate1.0",
     false},
    {"guidellm",
     {{"g.json",
       "{\"metadata\": {\"version\": 1}, \"benchmarks\": [{\"requests\": {\"successful\": "
       "[" GUIDE_ROW("1000.0", "1000.2", "1000.1", "100",
                     "11") ", " GUIDE_ROW("1001.0", "1001.4", "1001.2", "200",
                                          "21") ", " GUIDE_ROW("1002.0", "1002.6", "1002.3", "300",
                                                               "31") "], \"errored\": []}}]}"}},
     "g.json",
     true},
    {"vllm",
     {{"v.json",
       "{\"date\": \"20250101-000000\", \"model_id\": \"a/b\", \"mean_ttft_ms\": 200.0, "
       "\"input_lens\": [200, 100, 300], \"output_lens\": [21, 11, 31], \"ttfts\": [0.2, 0.1, "
       "0.3], \"itls\": [[0.1, 0.1], [0.1], [0.3]], \"start_times\": [101.0, 100.0, 102.0], "
       "\"errors\": [\"\", \"\", \"\"]}"}},
     "v.json",
     true},
    {"vllm",
     {{"w.json", "{\"completed\": 3, \"request_rate\": 1.0, \"total_input_tokens\": 600, "
                 "\"total_output_tokens\": 63, \"mean_ttft_ms\": 200, \"median_ttft_ms\": 200, "
                 "\"p90_ttft_ms\": 280, \"median_e2el_ms\": 400, \"p90_e2el_ms\": 560}"}},
     "w.json",
     false},
    {"inference_perf",
     {{"own/config.yaml", CONFIG}, {"own/stage_0_lifecycle_metrics.json", LIFECYCLE}},
     "own",
     false},
    {"inference_perf",
     {{"each/per_request_lifecycle_metrics.json",
       "[" REQUEST("1001.0", "1001.4", "1001.2", "200", "21") ", " REQUEST(
           "1000.0", "1000.2", "1000.1", "100", "11") ", " REQUEST("1002.0", "1002.6", "1002.3",
                                                                   "300", "31") "]"}},
     "each",
     true},
    {"sweep",
     {{"sw/20260101_101112/SERVE-max_num_seqs=64-BENCH-request_rate=1/run=0.json", SWEPT},
      {"sw/20260101_101112/SERVE-max_num_seqs=64-BENCH-request_rate=1/warmup.json", "{}"},
      {"sw/20260101_101112/summary.csv", "x"}},
     "sw",
     false},
    {"sweep", {{"list/summary.json", "[" SWEPT "]"}}, "list/summary.json", false},
    {"sweep",
     {{"table/summary.csv",
       ",date,completed,request_rate,total_input_tokens,total_output_tokens,mean_ttft_ms,"
       "median_ttft_ms,p90_ttft_ms,median_e2el_ms,p90_e2el_ms,input_lens,p99_ttft_ms,max_num_seqs\n"
       "0,20260101-101112,3,1.0,600,63,200.0,200.0,280.0,400.0,560.0,\"[1, 2]\",,64\n"}},
     "table",
     false},
    {"llmperf",
     {{"l/m_200_21_summary.json", LLMPERF},
      {"l/m_200_21_individual_responses.json",
       "[" RESPONSE("200", "21", "0.2", "0.4") ", " RESPONSE(
           "100", "11", "0.1", "0.2") ", " RESPONSE("300", "31", "0.3", "0.6") "]"}},
     "l",
     false},
    {"llmperf", {{"only_summary.json", LLMPERF}}, "only_summary.json", false},
    {"trtllm",
     {{"trt.json",
       "{\"engine\": {\"model\": \"a/b\", \"backend\": \"Pytorch\", \"kv_cache_dtype\": \"FP8\", "
       "\"quantization\": \"W4A16_AWQ\", \"max_sequence_length\": 4096}, \"machine\": {\"name\": "
       "\"NVIDIA H100 80GB HBM3\"}, \"world_info\": {\"tp_size\": 2, \"pp_size\": 1, \"ep_size\": "
       "1, "
       "\"max_batch_size\": 64, \"max_num_tokens\": 2048, \"issue_rate\": 1.2}, \"request_info\": "
       "{\"num_requests\": 3, \"avg_num_concurrent_requests\": 1.93, \"avg_input_length\": 200.0, "
       "\"avg_output_length\": 21.0}, \"performance\": {\"request_throughput_req_s\": 1.0, "
       "\"request_latency_percentiles_ms\": {\"p50\": 400, \"p90\": 560, \"average\": 400}}, "
       "\"streaming_metrics\": {\"ttft_percentiles\": {\"p50\": 200, \"p90\": 280}}}"}},
     "trt.json",
     false},
};

static const char *put(struct test *t, const struct sample *s)
{
    for (int i = 0; i < 3 && s->files[i].name; i++)
        test_write(t, s->files[i].name, s->files[i].text);
    return test_path(t, s->path);
}

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

/* A cause of the chain holds the text. */
static void assert_told(struct test *t, enum st st, const char *text)
{
    assert_int_equal(st, ST_INPUT);
    for (int i = 0; err_cause(&t->e, i); i++)
        if (strstr(err_cause(&t->e, i), text))
            return;
    err_print(&t->e, text, stderr);
    fail();
}

/* A folder in which a word of the sample stands in for another. */
static void refused(struct test *t, size_t sample, const char *word, const char *instead,
                    const char *error)
{
    struct sample s = samples[sample];
    struct observed o;
    struct buf text = {0};
    for (int i = 0; i < 3 && s.files[i].name; i++) {
        const char *from = s.files[i].text, *at = strstr(from, word);
        if (!at)
            continue;
        buf_clear(&text);
        buf_add(&text, from, (size_t)(at - from));
        buf_puts(&text, instead);
        buf_puts(&text, at + strlen(word));
        s.files[i].text = arena_str(t->a, buf_str(&text));
    }
    buf_free(&text);
    assert_told(t, observed_load(t->a, put(t, &s), &o, &t->e), error);
    err_clear(&t->e);
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

static struct observed changed(struct test *t, size_t sample, const char *const *words);

static bool doubts(const struct observed *o, const char *text)
{
    for (size_t i = 0; i < o->n_doubts; i++)
        if (strstr(o->doubts[i], text))
            return true;
    return false;
}

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

/* The sample with words replaced, in turn; NULL ends. */
static struct observed changed(struct test *t, size_t sample, const char *const *words)
{
    struct sample s = samples[sample];
    struct observed o;
    struct buf text = {0};
    for (int i = 0; i < 3 && s.files[i].name; i++) {
        for (const char *const *w = words; *w; w += 2) {
            const char *from = s.files[i].text;
            buf_clear(&text);
            for (const char *at; (at = strstr(from, w[0])); from = at + strlen(w[0])) {
                buf_add(&text, from, (size_t)(at - from));
                buf_puts(&text, w[1]);
            }
            buf_puts(&text, from);
            s.files[i].text = arena_str(t->a, buf_str(&text));
        }
    }
    buf_free(&text);
    assert_ok(observed_load(t->a, put(t, &s), &o, &t->e), t);
    return o;
}

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
        TEST(an_infinite_rate_is_a_closed_loop),
        TEST(random_lengths_lie_evenly_around_their_means),
        TEST(aiperf_and_genai_perf_state_a_concurrency),
        TEST(records_of_speculation_are_refused),
        TEST(messages_of_several_tokens_are_refused),
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
