#include "model/formats.h"

#include "support/support.h"
#include "text/json.h"

#define SMALL                                                               \
    "\"model_type\": \"llama\", \"vocab_size\": 100, \"hidden_size\": 64, " \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"intermediate_size\": 128"

static enum st read(struct test *t, const char *more, struct model *m)
{
    struct node *n;
    const char *text = arena_printf(t->a, "{" SMALL "%s%s}", *more ? ",\n" : "", more);
    assert_ok(json_parse(t->a, "config.json", sv_of(text), NULL, &n, &t->e), t);
    return model_from_config(t->a, "m", n, m, &t->e);
}

static void formats_of_configurations(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *config;
        enum precision dtype, weights, multiply, kv;
        double scale_bytes;
    } cases[] = {
        {"", PRECISION_BF16, PRECISION_BF16, PRECISION_BF16, PRECISION_BF16, 0},
        {"\"torch_dtype\": \"float32\"", PRECISION_FP16, PRECISION_FP16, PRECISION_FP16,
         PRECISION_FP16, 0},
        {"\"quantization_config\": {\"quant_method\": \"fp8\", \"weight_block_size\": [128, 128]}",
         PRECISION_BF16, PRECISION_FP8, PRECISION_FP8, PRECISION_BF16, 0},
        {"\"quantization_config\": {\"quant_method\": \"modelopt\", \"quant_algo\": \"NVFP4\", "
         "\"kv_cache_quant_algo\": \"FP8\"}",
         PRECISION_BF16, PRECISION_FP4, PRECISION_FP4, PRECISION_FP8, 1.0 / 16},
        {"\"quantization_config\": {\"quant_method\": \"modelopt\", \"quant_algo\": \"FP8\"}",
         PRECISION_BF16, PRECISION_FP8, PRECISION_FP8, PRECISION_BF16, 0},
        {"\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"config_groups\": "
         "{\"group_0\": {\"weights\": {\"num_bits\": 8, \"type\": \"float\"}, "
         "\"input_activations\": {\"num_bits\": 8, \"type\": \"float\"}}}, "
         "\"kv_cache_scheme\": {\"num_bits\": 8, \"type\": \"float\"}}",
         PRECISION_BF16, PRECISION_FP8, PRECISION_FP8, PRECISION_FP8, 0},
        {"\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"config_groups\": "
         "{\"group_0\": {\"weights\": {\"num_bits\": 4, \"type\": \"int\", \"group_size\": 128}, "
         "\"input_activations\": null}}}",
         PRECISION_BF16, PRECISION_INT4, PRECISION_BF16, PRECISION_BF16, 2.0 / 128},
        /* experts alone, of which there are none */
        {"\"quantization_config\": {\"quant_method\": \"mxfp4\"}", PRECISION_BF16, PRECISION_BF16,
         PRECISION_BF16, PRECISION_BF16, 0},
        {"\"quantization_config\": {\"quant_algo\": \"FP8\", \"kv_cache_scheme\": \"FP8\"}",
         PRECISION_BF16, PRECISION_FP8, PRECISION_FP8, PRECISION_FP8, 0},
        {"\"quantization_config\": {\"quant_method\": \"modelopt\", \"quant_algo\": "
         "\"W4A16_NVFP4\", "
         "\"kv_cache_scheme\": {\"num_bits\": 4, \"type\": \"float\"}}",
         PRECISION_BF16, PRECISION_FP4, PRECISION_BF16, PRECISION_FP4, 1.0 / 16},
        {"\"compression_config\": {\"quant_method\": \"compressed-tensors\", \"config_groups\": "
         "{\"a\": {\"targets\": [\"Linear\"], \"weights\": {\"num_bits\": 8, \"type\": \"int\"}, "
         "\"input_activations\": {\"num_bits\": 8, \"type\": \"int\"}}}}",
         PRECISION_BF16, PRECISION_INT8, PRECISION_INT8, PRECISION_BF16, 0},
        {"\"torch_dtype\": \"float16\", \"quantization_config\": {\"quant_method\": \"awq\", "
         "\"bits\": 4, \"group_size\": 128}",
         PRECISION_FP16, PRECISION_INT4, PRECISION_FP16, PRECISION_FP16, 2.5 / 128},
        {"\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 8, \"group_size\": -1}",
         PRECISION_BF16, PRECISION_INT8, PRECISION_BF16, PRECISION_BF16, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model m;
        assert_ok(read(t, cases[i].config, &m), t);
        assert_int_equal(m.dtype, cases[i].dtype);
        assert_int_equal(m.weights, cases[i].weights);
        assert_int_equal(m.multiply, cases[i].multiply);
        assert_int_equal(m.kv, cases[i].kv);
        assert_near(m.scale_bytes, cases[i].scale_bytes, 1e-15);
        bool computed = m.weights == m.dtype;
        assert_int_equal(model_check_computed(&m, &t->e), computed ? ST_OK : ST_INPUT);
        err_clear(&t->e);
    }
}

static void others_are_refused_by_name(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *config, *error;
    } cases[] = {
        {"\"quantization_config\": {\"bits\": 4}",
         "config.json:2:24: quantization_config.quant_method: missing; fp8, fbgemm_fp8, modelopt, "
         "compressed-tensors, mxfp4, gptq and awq are supported"},
        {"\"quantization_config\": {\"quant_method\": \"hqq\"}",
         "config.json:2:41: quantization_config.quant_method: 'hqq'; fp8, fbgemm_fp8, modelopt, "
         "compressed-tensors, mxfp4, gptq and awq are supported"},
        {"\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 3}",
         "config.json:2:57: quantization_config.bits: only 4 and 8 are supported, got 3"},
        {"\"quantization_config\": {\"quant_method\": \"modelopt\", \"quant_algo\": \"W3A8\"}",
         "config.json:2:67: quant_algo: 'W3A8' is not supported; FP8, FP8_PER_CHANNEL_PER_TOKEN, "
         "FP8_PB_WO, FP8_BLOCK_SCALES, NVFP4, NVFP4_AWQ, W4A16_NVFP4, MXFP8, W4A16_MXFP4, "
         "W4A8_MXFP4_FP8, W4A16_AWQ, W4A8_AWQ, and MIXED_PRECISION are"},
        {"\"quantization_config\": {\"quant_method\": \"fp8\", \"kv_cache_scheme\": \"FP6\"}",
         "config.json:2:67: quantization_config.kv_cache_scheme: only FP8, INT8 and NVFP4 are "
         "supported"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model m;
        assert_err(read(t, cases[i].config, &m), ST_INPUT, t, cases[i].error);
    }
}

static void settings_come_before(void **state)
{
    struct test *t = *state;
    struct model m;
    assert_ok(read(t, "", &m), t);
    assert_string_equal(formats_words(t->a, &m), "bf16");
    assert_near(model_kv_bytes(&m), 2 * 2 * 64 * 2, 0);
    assert_ok(formats_set(&m, "fp8", "fp8", &t->e), t);
    assert_int_equal(m.dtype, PRECISION_BF16);
    assert_int_equal(m.multiply, PRECISION_FP8);
    assert_near(model_kv_bytes(&m), 2 * 2 * 64, 0);
    assert_near(op_weight_bytes(&m, OP_MLP_UP_PROJ), 1, 0);
    assert_near(op_weight_bytes(&m, OP_LM_HEAD), 2, 0);
    assert_string_equal(formats_words(t->a, &m), "fp8 weights, fp8 KV cache");
    assert_ok(formats_set(&m, "fp4", NULL, &t->e), t);
    assert_near(op_weight_bytes(&m, OP_MLP_UP_PROJ), 0.5625, 0);
    assert_ok(formats_set(&m, "int4", NULL, &t->e), t);
    assert_int_equal(m.multiply, PRECISION_BF16);
    assert_int_equal(m.kv, PRECISION_FP8);
    assert_ok(formats_set(&m, "fp32", "fp32", &t->e), t);
    assert_near(op_weight_bytes(&m, OP_LM_HEAD), 4, 0);
    assert_err(formats_set(&m, "fp6", NULL, &t->e), ST_USAGE, t,
               "model.dtype: there is no format 'fp6'");
    assert_err(formats_set(&m, NULL, "fp6", &t->e), ST_USAGE, t,
               "model.kv_dtype: there is no format 'fp6'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(formats_of_configurations),
                                       TEST(others_are_refused_by_name),
                                       TEST(settings_come_before)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
