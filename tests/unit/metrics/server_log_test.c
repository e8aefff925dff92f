/* Facts of logs as vLLM 0.11, 0.20, 0.24 and 0.31 write them, and what is refused. */
#include "metrics/server_log.h"

#include <math.h>

#include "metrics/iteration_log.h"
#include "support/support.h"

#define CORE "(EngineCore_DP0 pid=164) INFO 01-23 15:48:36 [core.py:77] "

static const char v0_11[] =
    "(APIServer pid=1) INFO 01-23 15:48:29 [api_server.py:1842] vLLM API server version 0.11.0\n"
    "(APIServer pid=1) INFO 01-23 15:48:29 [utils.py:233] non-default args: {'model_tag': "
    "'/models/m', 'model': '/models/m', 'dtype': 'float16', 'max_model_len': '32k', "
    "'max_num_seqs': 64, 'served_model_name': ['a, b'], 'quantization': 'gptq'}\n"
    "(APIServer pid=1) INFO 01-23 15:48:33 [scheduler.py:205] Chunked prefill is enabled with "
    "max_num_batched_tokens=2048.\n" CORE
    "Initializing a V1 LLM engine (v0.11.0+582e4e37.nv25.11) with config: model='/models/m', "
    "speculative_config=None, tokenizer='/models/m', revision=None, dtype=torch.float16, "
    "max_seq_len=32768, tensor_parallel_size=2, pipeline_parallel_size=1, data_parallel_size=1, "
    "quantization=gptq, enforce_eager=False, kv_cache_dtype=auto, device_config=cuda, "
    "structured_outputs_config=StructuredOutputsConfig(backend='auto', reasoning_parser=''), "
    "seed=0, enable_prefix_caching=True, chunked_prefill_enabled=True, pooler_config=None, "
    "compilation_config={\"level\":3,\"splitting_ops\":[\"vllm.a\",\"vllm.b\"],\"cudagraph_mode\":["
    "2,1],"
    "\"cudagraph_capture_sizes\":[512,8,4,2,1],\"pass_config\":{},\"max_capture_size\":512,"
    "\"local_cache_dir\":null}\n" CORE "Using Flash Attention backend on V1 engine.\n" CORE
    "GPU KV cache size: 840,176 tokens\n" CORE "GPU KV cache size: 840,160 tokens\n" CORE
    "Maximum concurrency for 32,768 tokens per request: 25.64x\n"
    "(APIServer pid=1) INFO 01-23 15:50:32 [loggers.py:147] Engine 000: vllm cache_config_info "
    "with initialization after num_gpu_blocks is: 52510\n"
    "(APIServer pid=1) INFO 01-23 15:51:32 [loggers.py:127] Engine 000: Avg prompt throughput: "
    "51.2 tokens/s, Avg generation throughput: 12.8 tokens/s, Running: 1 reqs, Waiting: 0 reqs, "
    "GPU KV cache usage: 0.1%, Prefix cache hit rate: 0.0%\n";

static const char v0_20[] =
    "2026-05-01 21:55:03.137 | (APIServer pid=1) INFO 05-01 19:55:14 [utils.py:233] non-default "
    "args: {'gpu_memory_utilization': 0.9, 'max_num_seqs': 1, 'max_cudagraph_capture_size': 4}\n"
    "2026-05-01 21:55:15.305 | (APIServer pid=1) INFO Chunked prefill is enabled with "
    "max_num_batched_tokens=4096.\n"
    "2026-05-01 21:55:15.307 | (APIServer pid=1) INFO Asynchronous scheduling is enabled.\n"
    "2026-05-01 21:55:37.393 | (EngineCore pid=187) INFO [core.py:109] Initializing a V1 LLM "
    "engine (v0.20.0) with config: model='RedHatAI/Qwen3.6-35B-A3B-NVFP4', "
    "speculative_config=None, dtype=torch.bfloat16, max_seq_len=65536, tensor_parallel_size=1, "
    "pipeline_parallel_size=1, data_parallel_size=1, quantization=compressed-tensors, "
    "enforce_eager=False, kv_cache_dtype=fp8_e4m3, enable_prefix_caching=True, "
    "enable_chunked_prefill=True, compilation_config={'mode': <CompilationMode.VLLM_COMPILE: 3>, "
    "'splitting_ops': ['vllm::a', 'vllm::b'], 'cudagraph_mode': "
    "<CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>, 'cudagraph_capture_sizes': [1, 2, 4], "
    "'max_cudagraph_capture_size': 4}, kernel_config=KernelConfig(moe_backend='cutlass')\n"
    "(EngineCore pid=187) INFO Using AttentionBackendEnum.FLASH_ATTN for MMEncoderAttention.\n"
    "(EngineCore pid=187) INFO Using 'VLLM_CUTLASS' NvFp4 MoE backend out of potential backends: "
    "['EMULATION'].\n"
    "(EngineCore pid=187) INFO Using FLASHINFER attention backend out of potential backends: "
    "['FLASHINFER', 'TRITON_ATTN'].\n"
    "(EngineCore pid=187) INFO Setting attention block size to 2096 tokens to ensure that "
    "attention page size is >= mamba page size.\n"
    "(EngineCore pid=187) INFO GPU KV cache size: 79,648 tokens\n";

static void parse(struct test *t, const char *text, struct server_log *l)
{
    assert_ok(server_log_parse(t->a, "server.log", sv_of(text), l, &t->e), t);
}

static void check(const struct server_log *l, enum server_fact_id id, const char *value)
{
    assert_non_null(l->of[id].value);
    assert_string_equal(l->of[id].value, value);
}

static void version_0_11_is_read(void **state)
{
    struct test *t = *state;
    struct server_log l;
    const char *why;
    parse(t, v0_11, &l);
    check(&l, FACT_VERSION, "0.11.0+582e4e37.nv25.11");
    check(&l, FACT_MODEL, "/models/m");
    check(&l, FACT_DTYPE, "float16");
    check(&l, FACT_QUANTIZATION, "gptq");
    check(&l, FACT_CHUNKED_PREFILL, "true");
    check(&l, FACT_GRAPHS, "full_and_piecewise");
    check(&l, FACT_GRAPH_SIZES, "1 2 4 8 512");
    check(&l, FACT_ATTENTION, "Flash_Attention");
    check(&l, FACT_SPECULATIVE, "none");
    assert_int_equal(server_fact_count(&l, FACT_TP), 2);
    assert_int_equal(server_fact_count(&l, FACT_MAX_MODEL_LEN), 32768);
    assert_int_equal(l.of[FACT_MAX_MODEL_LEN].line, 4);
    assert_int_equal(server_fact_count(&l, FACT_BATCH_CAP), 64);
    assert_int_equal(l.of[FACT_BATCH_CAP].line, 2);
    assert_int_equal(server_fact_count(&l, FACT_TOKEN_BUDGET), 2048);
    assert_int_equal(server_fact_count(&l, FACT_KV_TOKENS), 840160); /* the least */
    assert_int_equal(server_log_blocks(t->a, &l, 0, &why), 52510);
    assert_int_equal(server_log_graph_tokens(&l), 512);
    assert_null(l.of[FACT_ASYNC].value);
    assert_int_equal(l.throughputs, 1);
    assert_int_equal(l.iterations, 0);
}

static void version_0_20_is_read(void **state)
{
    struct test *t = *state;
    struct server_log l;
    const char *why;
    parse(t, v0_20, &l);
    check(&l, FACT_VERSION, "0.20.0");
    check(&l, FACT_ASYNC, "true");
    check(&l, FACT_KV_DTYPE, "fp8_e4m3");
    check(&l, FACT_GRAPHS, "full_and_piecewise");
    check(&l, FACT_GRAPH_SIZES, "1 2 4");
    check(&l, FACT_ATTENTION, "FLASHINFER");
    assert_near(server_fact_number(&l, FACT_MEMORY_UTILIZATION), 0.9, 0);
    assert_int_equal(server_fact_count(&l, FACT_BLOCK_SIZE), 2096);
    assert_int_equal(server_log_blocks(t->a, &l, 2096, &why), 38);
    assert_int_equal(server_log_blocks(t->a, &l, 0, &why), 0);
    assert_string_equal(why, "the size of a block is not known");
    assert_int_equal(server_log_blocks(t->a, &l, 17, &why), 0);
    assert_string_equal(why, "its 79648 tokens are no whole blocks of 17");
}

static void later_lines_are_read(void **state)
{
    struct test *t = *state;
    struct server_log l;
    parse(t,
          "(EngineCore pid=9) INFO [core.py:129] Initializing a V1 LLM engine (v0.31.0) with "
          "config: model='m', speculative_config=SpeculativeConfig(method='mtp', model='m', "
          "num_spec_tokens=3), enforce_eager=True, compilation_config={'cudagraph_mode': "
          "<CUDAGraphMode.NONE: 0>, 'cudagraph_capture_sizes': []}\n"
          "(EngineCore pid=9) INFO Using AttentionBackendEnum.FLASH_ATTN backend.\n"
          "(EngineCore pid=9) INFO Using AttentionBackendEnum.TRITON_ATTN backend.\n"
          "(EngineCore pid=9) INFO Using AttentionBackendEnum.FLASH_ATTN backend.\n"
          "(EngineCore pid=9) INFO GPU KV cache size: 651,504 tokens, Maximum concurrency for "
          "4,096 tokens per request: 159.06x\n"
          "(APIServer pid=5) INFO Asynchronous scheduling is disabled.\n"
          "Engine 000: Iteration(627): 0 context requests, ...\n",
          &l);
    check(&l, FACT_SPECULATIVE, "SpeculativeConfig(method='mtp', model='m', num_spec_tokens=3)");
    check(&l, FACT_GRAPHS, "none");
    check(&l, FACT_EAGER, "true");
    check(&l, FACT_ATTENTION, "FLASH_ATTN TRITON_ATTN");
    check(&l, FACT_ASYNC, "false");
    assert_null(l.of[FACT_GRAPH_SIZES].value);
    assert_int_equal(server_fact_count(&l, FACT_KV_TOKENS), 651504);
    assert_int_equal(l.iterations, 1);
}

#define ENGINE "Initializing a V1 LLM engine (v1) with config: "

/* A value that may have been cut is none. */
static void cut_lines_give_no_facts(void **state)
{
    struct test *t = *state;
    struct server_log l;
    parse(t, ENGINE "model='m', tensor_parallel_size=1", &l);
    check(&l, FACT_MODEL, "m");
    assert_null(l.of[FACT_TP].value);
    parse(t,
          ENGINE
          "model='m', tensor_parallel_size=1, compilation_config={'cudagraph_capture_sizes': [1, 2",
          &l);
    check(&l, FACT_TP, "1");
    assert_null(l.of[FACT_GRAPH_SIZES].value);
    parse(t, "non-default args: {'block_size': 32, 'max_num_seqs': 12\n" ENGINE "a=b, c=d\n", &l);
    assert_null(l.of[FACT_BLOCK_SIZE].value);
    assert_null(l.of[FACT_BATCH_CAP].value);
}

static void prompts_say_nothing(void **state)
{
    struct test *t = *state;
    struct server_log l;
    parse(t,
          ENGINE "model='m', x=1\nINFO Received request cmpl-1: prompt: 'GPU KV cache size: 5 "
                 "tokens'\n",
          &l);
    assert_null(l.of[FACT_KV_TOKENS].value);
    parse(t,
          ENGINE "model='m', x=1\nINFO Generated response cmpl-1: output: 'GPU KV cache size: 5 "
                 "tokens'\n",
          &l);
    assert_null(l.of[FACT_KV_TOKENS].value);
}

static void faults_are_named(void **state)
{
    struct test *t = *state;
    struct server_log l;
    static const struct {
        const char *text, *cause;
    } cases[] = {
        {"INFO nothing\n", "server.log: no line of a vLLM engine that starts"},
        {ENGINE "tensor_parallel_size=two, x=1\n",
         "server.log:1: server log: tensor_parallel_size is two"},
        {ENGINE "enforce_eager=perhaps, x=1\n",
         "server.log:1: server log: enforce_eager is perhaps"},
        {"\nGPU KV cache size: none tokens\n", "server.log:2: server log: kv_cache_tokens is "},
        {ENGINE "max_seq_len=4096, x=1\n\n" ENGINE "max_seq_len=8192, x=1\n",
         "server.log:3: server log: max_model_len is 8192, in line 1 4096"},
        {"non-default args: {'max_num_seqs': 4}\nnon-default args: {'max_num_seqs': 8}\n",
         "server.log:2: server log: max_num_seqs is 8, in line 1 4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err_clear(&t->e);
        assert_int_equal(server_log_parse(t->a, "server.log", sv_of(cases[i].text), &l, &t->e),
                         ST_INPUT);
        assert_cause(&t->e, cases[i].cause);
    }
}

static void logs_beside_a_run_are_found(void **state)
{
    struct test *t = *state;
    struct server_log l;
    assert_null(server_log_beside(t->a, test_dir(t)));
    test_write(t, "iterations.log", "Iteration(5): 0 context requests\n");
    assert_null(server_log_beside(t->a, test_dir(t)));
    test_write(t, "server.log", v0_20);
    const char *path = server_log_beside(t->a, test_dir(t));
    assert_string_equal(path, test_path(t, "server.log"));
    assert_ok(server_log_read(t->a, path, &l, &t->e), t);
    check(&l, FACT_VERSION, "0.20.0");
}

static void a_log_that_cannot_be_read_is_not_passed_over(void **state)
{
    struct test *t = *state;
    struct server_log l;
    test_write(t, "server.log.gz", "\x1f\x8b\b"); /* cut */
    test_write(t, "iterations.log", v0_20);
    const char *path = server_log_beside(t->a, test_dir(t));
    assert_string_equal(path, test_path(t, "server.log.gz"));
    assert_int_equal(server_log_read(t->a, path, &l, &t->e), ST_INPUT);
}

/* Throughput lines are no iterations, and a log of them alone says what it has. */
static void throughput_is_told_from_iterations(void **state)
{
    struct test *t = *state;
    struct iteration_log log;
    assert_err(iteration_log_parse(t->a, "server.log", sv_of(v0_11), &log, &t->e), ST_INPUT, t,
               "server.log: no line of an iteration is in it\nhint: start vLLM with "
               "--enable-logging-iteration-details (0.24 to 0.33 have it); lines of throughput "
               "(\"Avg prompt throughput\") say nothing of batches");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(version_0_11_is_read),
        TEST(version_0_20_is_read),
        TEST(later_lines_are_read),
        TEST(cut_lines_give_no_facts),
        TEST(prompts_say_nothing),
        TEST(faults_are_named),
        TEST(logs_beside_a_run_are_found),
        TEST(a_log_that_cannot_be_read_is_not_passed_over),
        TEST(throughput_is_told_from_iterations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
