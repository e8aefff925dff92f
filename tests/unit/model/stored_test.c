/* Bytes by hand; of models that people serve, bytes of an estimate by other means. */
#include "model/stored.h"

#include <string.h>

#include "model/formats.h"
#include "model/shard.h"
#include "support/models.h"
#include "text/json.h"

/* Two layers: q and o of 64 x 64, k and v of 32 x 64, gate and up of 128 x 64, down of 64 x 128:
 * 36,864 elements a layer. Outside embedding and LM head, 12,800, and 320 of norms: 26,240 bytes.
 */
#define DENSE                                                                            \
    "\"model_type\": \"llama\", \"vocab_size\": 100, \"hidden_size\": 64, "              \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, " \
    "\"intermediate_size\": 128"
/* The same attention; a router of 4 x 64 and 4 experts of three matrices of 2,048. */
#define SPARSE                                                                           \
    "\"model_type\": \"qwen3_moe\", \"vocab_size\": 100, \"hidden_size\": 64, "          \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, " \
    "\"head_dim\": 16, \"moe_intermediate_size\": 32, \"num_experts\": 4, "              \
    "\"num_experts_per_tok\": 2, \"intermediate_size\": 128, \"tie_word_embeddings\": false"

static const double REST = 26240;

static struct node *parse(struct test *t, const char *source, const char *text)
{
    struct node *n;
    const struct json_limits limits = {.python = true, .max_bytes = 64 << 20};
    assert_ok(json_parse(t->a, source, sv_of(text), &limits, &n, &t->e), t);
    return n;
}

static enum st read(struct test *t, const char *shape, const char *q, const char *side,
                    struct model *m)
{
    const char *text =
        arena_printf(t->a, "{%s%s%s}", shape, *q ? ",\n\"quantization_config\": " : "", q);
    return model_from_files(t->a, "m", parse(t, "config.json", text),
                            side ? parse(t, "hf_quant_config.json", side) : NULL, m, &t->e);
}

static void bytes_by_scheme(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *q;
        double layers; /* bytes of their matrices */
    } cases[] = {
        {"{\"quant_method\": \"fp8\"}", 2 * 36864 + 14 * 4},
        {"{\"quant_method\": \"fp8\", \"weight_block_size\": [128, 128]}", 2 * 36864 + 14 * 4},
        /* 36 blocks a layer */
        {"{\"quant_method\": \"fp8\", \"weight_block_size\": [32, 32]}", 2 * 36864 + 72 * 4},
        {"{\"quant_method\": \"fp8\", \"weight_block_size\": [32, 32], \"scale_fmt\": \"ue8m0\"}",
         2 * 36864 + 72},
        {"{\"quant_method\": \"fp8\", \"modules_to_not_convert\": "
         "[\"model.layers.1.self_attn\", \"lm_head\", \"visual\"]}",
         2 * 36864 + 14 * 4 + 12288 - 4 * 4},
        {"{\"quant_method\": \"fp8\", \"ignored_layers\": [\"mlp\"]}",
         2 * 12288 + 8 * 4 + 2 * 2 * 24576},
        /* a scale a row, 512 rows a layer */
        {"{\"quant_method\": \"fbgemm_fp8\"}", 2 * (36864 + 512 * 4)},
        {"{\"quant_method\": \"modelopt\", \"quant_algo\": \"FP8\"}", 2 * 36864 + 14 * 4},
        {"{\"quant_method\": \"modelopt\", \"quant_algo\": \"FP8_PER_CHANNEL_PER_TOKEN\"}",
         2 * (36864 + 512 * 4)},
        {"{\"quant_method\": \"modelopt\", \"quant_algo\": \"fp8_pb_wo\"}", 2 * 36864 + 14 * 4},
        {"{\"quant_method\": \"modelopt\", \"quant_algo\": \"MXFP8\"}", 2 * (36864 + 36864 / 32)},
        {"{\"quant_method\": \"modelopt\", \"quant_algo\": \"NVFP4\", \"group_size\": 16}",
         36864 + 2 * 36864 / 16 + 14 * 4},
        {"{\"quant_method\": \"modelopt\", \"quant_algo\": \"NVFP4\", "
         "\"ignore\": [\"model.layers.0*\", \"lm_head\", \"mtp*\"]}",
         18432 + 36864 / 16 + 7 * 4 + 2 * 36864},
        /* groups of 64: one a row, two of down_proj's */
        {"{\"quant_method\": \"modelopt\", \"quant_algo\": \"W4A16_AWQ\", \"group_size\": 64}",
         36864 + 2 * 576 * 2},
        {"{\"quant_method\": \"modelopt\", \"quant_algo\": \"MIXED_PRECISION\", "
         "\"quantized_layers\": {\"model.layers.0.mlp.up_proj\": {\"quant_algo\": \"FP8\"}, "
         "\"model.layers.1.mlp.down_proj\": {\"quant_algo\": \"W4A16_NVFP4\", \"group_size\": "
         "16}}}",
         2 * (2 * 36864 - 2 * 8192) + (8192 + 4) + (8192 / 2 + 8192 / 16 + 4)},
        {"{\"quant_method\": \"modelopt\", \"quant_algo\": \"MIXED_PRECISION\", "
         "\"config_groups\": {\"a\": {\"weights\": {\"num_bits\": 8, \"type\": \"float\"}, "
         "\"targets\": [\"model.layers.0.mlp.up_proj\"]}}}",
         2 * (2 * 36864 - 8192) + 8192 + 2},
        {"{\"quant_method\": \"compressed-tensors\", \"config_groups\": {\"a\": {\"targets\": "
         "[\"Linear\"], \"weights\": {\"num_bits\": 4, \"type\": \"int\", \"group_size\": 32, "
         "\"symmetric\": true}}}, \"ignore\": [\"lm_head\"]}",
         36864 + 2 * (2 * 36864 / 32)},
        {"{\"quant_method\": \"compressed-tensors\", \"config_groups\": {\"a\": {\"targets\": "
         "[\"Linear\"], \"weights\": {\"num_bits\": 4, \"type\": \"int\", \"group_size\": 32}}}, "
         "\"ignore\": [\"re:.*self_attn.*\"]}",
         24576 + 2 * (49152 / 32) + 2 * 24576},
        {"{\"quant_method\": \"compressed-tensors\", \"config_groups\": {"
         "\"a\": {\"targets\": [\"Linear\"], \"weights\": {\"num_bits\": 4, \"type\": \"int\", "
         "\"group_size\": 32}}, \"b\": {\"targets\": [\"re:.*mlp.*\"], \"weights\": {\"num_bits\": "
         "8, \"type\": \"float\", \"strategy\": \"channel\"}}}}",
         24576 * 0.5625 + 49152 + 2 * 320 * 2},
        {"{\"quant_method\": \"compressed-tensors\", \"format\": \"mxfp4-pack-quantized\", "
         "\"config_groups\": {\"a\": {\"targets\": [\"Linear\"], \"weights\": {\"num_bits\": 4, "
         "\"type\": \"float\", \"group_size\": 32}}}}",
         36864 + 2 * 36864 / 32},
        {"{\"quant_method\": \"compressed-tensors\", \"format\": \"nvfp4-pack-quantized\", "
         "\"config_groups\": {\"a\": {\"targets\": [\"Linear\"], \"weights\": {\"num_bits\": 4, "
         "\"type\": \"float\", \"group_size\": 16}}}}",
         36864 + 2 * 36864 / 16 + 14 * 4},
        {"{\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 32}",
         36864 + 2.5 * (2 * 36864 / 32)},
        {"{\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 32, \"dynamic\": "
         "{\"-:.*self_attn.*\": {}, \"+:.*\\\\.1\\\\..*\": {\"bits\": 8}}}",
         2 * 24576 + (12288 + 2.5 * 768) + (24576 + 3 * 768)},
        /* of the LM head's 6,400 */
        {"{\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 32, \"lm_head\": true}",
         36864 + 2.5 * (2 * 36864 / 32) - 12800 + 3200 + 2.5 * 200},
        {"{\"quant_method\": \"awq\", \"bits\": 4, \"group_size\": 32, "
         "\"modules_to_not_convert\": [\"mlp\"]}",
         12288 + 2.5 * 768 + 2 * 49152},
        {"{\"quant_method\": \"mxfp4\"}", 4 * 36864},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model m;
        assert_ok(read(t, DENSE, cases[i].q, NULL, &m), t);
        if (m.stored->bytes != cases[i].layers + REST)
            fail_msg("%s: %.1f bytes, not %.1f", cases[i].q, m.stored->bytes,
                     cases[i].layers + REST);
    }
}

static const struct stored_part *part(const struct model *m, const char *module)
{
    for (int32_t i = 0; i < m->stored->n_parts; i++)
        if (strcmp(m->stored->parts[i].w->module, module) == 0)
            return &m->stored->parts[i];
    fail_msg("no %s", module);
    return NULL;
}

static void experts_differ(void **state)
{
    struct test *t = *state;
    struct model m;
    static const char three[] =
        "\"model.layers.0.mlp.experts.0.up_proj\": {\"quant_algo\": \"NVFP4\"}, "
        "\"model.layers.0.mlp.experts.1.up_proj\": {\"quant_algo\": \"NVFP4\"}, "
        "\"model.layers.0.mlp.experts.3.up_proj\": {\"quant_algo\": \"NVFP4\"}";
    assert_ok(read(t, SPARSE,
                   arena_printf(t->a,
                                "{\"quant_method\": \"modelopt\", \"quant_algo\": "
                                "\"MIXED_PRECISION\", \"quantized_layers\": {%s}}",
                                three),
                   NULL, &m),
              t);
    const struct stored_part *up = part(&m, "mlp.experts.up_proj");
    assert_int_equal(up->copies[0], 5);
    assert_int_equal(up->copies[1], 3);
    assert_int_equal(up->layers[0], 2);
    assert_int_equal(up->layers[1], 1);
    assert_near(up->bytes, 5 * 2 * 2048 + 3 * (1024 + 128 + 4), 0);
    assert_int_equal(part(&m, "mlp.experts.down_proj")->copies[0], 8);

    assert_ok(read(t, SPARSE,
                   "{\"quant_method\": \"mxfp4\", \"modules_to_not_convert\": "
                   "[\"model.layers.*.self_attn\", \"lm_head\"]}",
                   NULL, &m),
              t);
    assert_near(stored_element_bytes(part(&m, "mlp.experts.down_proj")), 0.5 + 1.0 / 32, 1e-12);
    assert_near(stored_element_bytes(part(&m, "self_attn.q_proj")), 2, 0);

    assert_ok(read(t, SPARSE,
                   "{\"quant_method\": \"fp8\", \"scale_fmt\": \"ue8m0\", "
                   "\"weight_block_size\": [32, 32], \"expert_dtype\": \"fp4\"}",
                   NULL, &m),
              t);
    assert_near(part(&m, "mlp.experts.up_proj")->bytes, 8 * (1024 + 64), 0);
    assert_near(part(&m, "self_attn.q_proj")->bytes, 2 * (4096 + 4), 0);
    assert_near(stored_element_bytes(part(&m, "mlp.gate")), 2, 0);
    assert_string_equal(stored_words(t->a, m.stored), "fp8 attention, mxfp4 experts, bf16 rest");
}

static void operators_have_their_bytes(void **state)
{
    struct test *t = *state;
    struct model m;
    assert_ok(read(t, SPARSE,
                   "{\"quant_method\": \"modelopt\", \"quant_algo\": "
                   "\"MIXED_PRECISION\", \"quantized_layers\": {"
                   "\"model.layers.0.mlp.experts\": {\"quant_algo\": \"W4A16_NVFP4\"}, "
                   "\"model.layers.1.mlp.experts\": {\"quant_algo\": \"W4A16_NVFP4\"}, "
                   "\"model.layers.0.self_attn.o_proj\": {\"quant_algo\": \"FP8\"}, "
                   "\"lm_head\": {\"quant_algo\": \"FP8\"}}}",
                   NULL, &m),
              t);
    assert_int_equal(m.weights, PRECISION_FP4);
    assert_near(op_weight_bytes(&m, OP_MOE_UP_PROJ), 0.5625 + 4.0 / 2048, 1e-12);
    assert_near(op_weight_bytes(&m, OP_ATTN_PRE_PROJ), 2, 0);
    assert_near(op_weight_bytes(&m, OP_ATTN_POST_PROJ), (4096 + 4 + 2 * 4096) / 8192.0, 1e-12);
    assert_near(op_weight_bytes(&m, OP_MOE_ROUTER), 2, 0);
    assert_near(op_weight_bytes(&m, OP_LM_HEAD), 1 + 4 / 6400.0, 1e-12);
    assert_near(op_weight_bytes(&m, OP_EMB), 2, 0);
    assert_int_equal(op_multiply(&m, OP_MOE_UP_PROJ), PRECISION_BF16);
    assert_int_equal(op_multiply(&m, OP_LM_HEAD), PRECISION_FP8);
    assert_string_equal(formats_words(t->a, &m),
                        "nvfp4 experts, fp8 attention and LM head, bf16 rest, bf16 KV cache");
    /* what is given takes the place of what the file says */
    assert_ok(formats_set(&m, "fp8", NULL, &t->e), t);
    assert_near(op_weight_bytes(&m, OP_MOE_UP_PROJ), 1, 0);
    assert_near(op_weight_bytes(&m, OP_ATTN_PRE_PROJ), 1, 0);
    assert_near(op_weight_bytes(&m, OP_LM_HEAD), 2, 0);
    /* few matrices are quantised: still a model that no engine here computes */
    assert_ok(read(t, DENSE,
                   "{\"quant_method\": \"modelopt\", \"quant_algo\": "
                   "\"MIXED_PRECISION\", \"quantized_layers\": {\"lm_head\": "
                   "{\"quant_algo\": \"FP8\"}}}",
                   NULL, &m),
              t);
    assert_true(formats_quantised(&m));
    assert_int_equal(model_check_computed(&m, &t->e), ST_INPUT);
}

static void side_file(void **state)
{
    struct test *t = *state;
    struct model m;
    const char *nvfp4 =
        "{\"producer\": {\"name\": \"modelopt\"}, \"quantization\": {\"quant_algo\": "
        "\"NVFP4\", \"kv_cache_quant_algo\": \"FP8\", \"group_size\": 16, "
        "\"exclude_modules\": [\"lm_head\"]}}";
    assert_ok(read(t, DENSE, "", nvfp4, &m), t);
    assert_near(m.stored->bytes, 36864 + 2 * 36864 / 16 + 14 * 4 + REST, 0);
    assert_int_equal(m.kv, PRECISION_FP8);
    assert_int_equal(m.weights, PRECISION_FP4);
    assert_null(m.stored->note);
    /* both agree; config.json says nothing of keys and values */
    assert_ok(read(t, DENSE,
                   "{\"quant_method\": \"modelopt\", \"quant_algo\": \"NVFP4\", "
                   "\"ignore\": [\"lm_head\"]}",
                   nvfp4, &m),
              t);
    assert_null(m.stored->note);
    assert_int_equal(m.kv, PRECISION_FP8);
    assert_ok(read(t, DENSE,
                   "{\"quant_method\": \"modelopt\", \"quant_algo\": \"NVFP4\", "
                   "\"ignore\": [\"*self_attn*\"]}",
                   nvfp4, &m),
              t);
    assert_string_equal(m.stored->note,
                        "config.json counts: it stores self_attn.q_proj as bf16, 2.00 bytes an "
                        "element; hf_quant_config.json as nvfp4, 0.56");
    assert_near(stored_element_bytes(part(&m, "self_attn.o_proj")), 2, 0);
}

static void what_is_not_understood_is_refused(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *q, *error;
    } cases[] = {
        {"{\"quant_method\": \"compressed-tensors\", \"config_groups\": {\"a\": {\"targets\": "
         "[\"LlamaAttention\"], \"weights\": {\"num_bits\": 8, \"type\": \"float\"}}}}",
         "config.json:2:99: targets: 'LlamaAttention' is a class of modules; only Linear is "
         "supported"},
        {"{\"quant_method\": \"compressed-tensors\", \"config_groups\": {\"a\": {\"weights\": "
         "{\"num_bits\": 8, \"type\": \"float\"}}}, \"sparsity_config\": {\"format\": "
         "\"sparse-24-bitmask\"}}",
         "config.json:2:164: sparsity_config.format: only dense weights are supported"},
        {"{\"quant_method\": \"compressed-tensors\", \"config_groups\": {\"a\": {\"weights\": "
         "{\"num_bits\": 6, \"type\": \"float\"}}}}",
         "config.json:2:111: num_bits: only 4 and 8 are supported, got 6"},
        {"{\"quant_method\": \"fp8\", \"expert_dtype\": \"fp6\"}",
         "config.json:2:64: expert_dtype: only fp4 and fp8 are supported"},
        {"{\"quant_method\": \"modelopt\", \"quant_algo\": \"MIXED_PRECISION\"}",
         "config.json:2:67: quant_algo: MIXED_PRECISION without quantized_layers"},
        {"{\"quant_method\": \"fp8\", \"modules_to_not_convert\": [1]}",
         "config.json:2:75: modules_to_not_convert: expected names of modules, got an integer"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model m;
        assert_err(read(t, DENSE, cases[i].q, NULL, &m), ST_INPUT, t, cases[i].error);
    }
}

/* Blocks of 128: 384 features of an MLP are three; two shards would have one and a half each. */
static void shards_keep_blocks_whole(void **state)
{
    struct test *t = *state;
    struct model m;
    static const char dense[] =
        "\"model_type\": \"llama\", \"vocab_size\": 128, \"hidden_size\": 512, "
        "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 4, "
        "\"intermediate_size\": 384";
    static const char sparse[] =
        "\"model_type\": \"mixtral\", \"vocab_size\": 128, \"hidden_size\": 512, "
        "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 4, "
        "\"intermediate_size\": 384, \"num_local_experts\": 4, \"num_experts_per_tok\": 2";
    const char *blocks = "{\"quant_method\": \"fp8\", \"weight_block_size\": [128, 128]}";
    assert_ok(read(t, dense, blocks, NULL, &m), t);
    assert_ok(shard_check(&m, 1, 1, 1, &t->e), t);
    assert_err(shard_check(&m, 2, 1, 1, &t->e), ST_USAGE, t,
               "parallel.tp: 2 shards leave mlp.down_proj of m 192 in features, which its fp8 "
               "weights' blocks "
               "of 128 do not divide\nhint: lower parallel.tp");
    assert_ok(read(t, sparse, blocks, NULL, &m), t);
    assert_err(shard_check(&m, 2, 1, 1, &t->e), ST_USAGE, t,
               "parallel.tp: 2 shards leave mlp.experts.gate_proj of m 192 out features, which its "
               "fp8 weights' blocks "
               "of 128 do not divide\nhint: lower parallel.tp, or share whole experts out "
               "with parallel.ep");
    assert_ok(shard_check(&m, 2, 1, 2, &t->e), t); /* experts are shared out whole */
    assert_ok(read(t, dense, "{\"quant_method\": \"fp8\"}", NULL, &m), t);
    assert_ok(shard_check(&m, 2, 1, 1, &t->e), t);
    assert_ok(read(t, dense,
                   "{\"quant_method\": \"fp8\", \"weight_block_size\": [128, 128], "
                   "\"modules_to_not_convert\": [\"mlp\"]}",
                   NULL, &m),
              t);
    assert_ok(shard_check(&m, 2, 1, 1, &t->e), t);
}

/* GB by an estimate in Python: every module by its real name, matched by fnmatch and re. */
static const struct {
    const char *name;
    double gb;
} estimates[] = {
    {"Qwen--Qwen3-235B-A22B-FP8", 236.445},
    {"nvidia--Qwen3-235B-A22B-NVFP4", 134.102},
    {"deepseek-ai--DeepSeek-V3", 673.151},
    {"nvidia--DeepSeek-V3.1-NVFP4", 386.380},
    {"moonshotai--Kimi-K2.5", 594.205},
    {"nvidia--Kimi-K2.5-NVFP4", 589.837},
    {"nvidia--Kimi-K2.6-NVFP4", 594.206},
    {"MiniMaxAI--MiniMax-M2.7", 230.024},
    {"nvidia--MiniMax-M2.7-NVFP4", 134.402},
    {"openai--gpt-oss-120b", 65.249},
    {"openai--gpt-oss-20b", 13.761},
    {"nvidia--Gemma-4-26B-A4B-NVFP4", 17.637},
    {"nvidia--Gemma-4-31B-IT-NVFP4", 31.482},
    {"nvidia--Qwen3.5-122B-A10B-NVFP4", 77.525},
    {"nvidia--Qwen3.5-397B-A17B-NVFP4", 237.032},
    {"nvidia--Qwen3.6-27B-NVFP4", 20.151},
    {"nvidia--Qwen3.6-35B-A3B-NVFP4", 20.825},
    {"Qwen--Qwen3.8-2.4T-A95B-FP8", 2469.366},
    {"nvidia--NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4", 18.873},
    {"nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4", 19.324},
    {"nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4", 69.544},
};
enum { ESTIMATES = sizeof estimates / sizeof *estimates };

static void models_that_people_serve(void **state)
{
    struct test *t = *state;
    const struct node *all = served_models(t);
    int read_ = 0, compared = 0;
    for (uint32_t i = 0; i < all->n; i++) {
        const struct node *model = all->pairs[i].value;
        const char *name = all->pairs[i].key.p;
        struct model m;
        if (model_from_files(t->a, name, served_file(t, model, "config.json"),
                             served_file(t, model, "hf_quant_config.json"), &m, &t->e) != ST_OK) {
            print_message("refused: %s\n", err_cause(&t->e, 0));
            err_clear(&t->e);
            continue;
        }
        read_++;
        assert_null(m.stored->note);
        for (int k = 0; k < ESTIMATES; k++) {
            if (strcmp(estimates[k].name, name) != 0)
                continue;
            assert_near(m.stored->bytes / 1e9, estimates[k].gb, 0.0006);
            compared++;
        }
    }
    assert_true(read_ >= 94);
    assert_int_equal(compared, ESTIMATES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(bytes_by_scheme),
                                       TEST(experts_differ),
                                       TEST(operators_have_their_bytes),
                                       TEST(side_file),
                                       TEST(what_is_not_understood_is_refused),
                                       TEST(shards_keep_blocks_whole),
                                       TEST(models_that_people_serve)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
