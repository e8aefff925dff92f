/* Samples of every format of latency records, written here in the published shape, and what tests
 * do with them. */
#ifndef CONFORM_OBSERVED_SAMPLES_H
#define CONFORM_OBSERVED_SAMPLES_H

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

static inline const char *put(struct test *t, const struct sample *s)
{
    for (int i = 0; i < 3 && s->files[i].name; i++)
        test_write(t, s->files[i].name, s->files[i].text);
    return test_path(t, s->path);
}

/* A cause of the chain holds the text. */
static inline void assert_told(struct test *t, enum st st, const char *text)
{
    assert_int_equal(st, ST_INPUT);
    for (int i = 0; err_cause(&t->e, i); i++)
        if (strstr(err_cause(&t->e, i), text))
            return;
    err_print(&t->e, text, stderr);
    fail();
}

/* A folder in which a word of the sample stands in for another. */
static inline void refused(struct test *t, size_t sample, const char *word, const char *instead,
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

static inline bool doubts(const struct observed *o, const char *text)
{
    for (size_t i = 0; i < o->n_doubts; i++)
        if (strstr(o->doubts[i], text))
            return true;
    return false;
}

/* The sample with words replaced, in turn; NULL ends. */
static inline struct observed changed(struct test *t, size_t sample, const char *const *words)
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

#endif
