#include "model/model.h"

#include <string.h>

#include "support/support.h"
#include "text/json.h"
#include "text/yaml.h"

static struct arena *a;

static int setup(void **state)
{
    (void)state;
    a = arena_new();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_free(&a);
    return 0;
}

static enum st from_text(const char *json, struct model *m, struct err *e)
{
    struct node *config = NULL;
    assert_ok(json_parse(a, "config.json", sv_of(json), NULL, &config, e), e);
    return model_from_config(a, "test", config, m, e);
}

static struct model good(const char *json)
{
    struct model m;
    struct err e = {0};
    assert_ok(from_text(json, &m, &e), &e);
    return m;
}

/* The published files, less the keys that nobody reads. */
static const char qwen3_0_6b[] =
    "{\"model_type\": \"qwen3\", \"attention_bias\": false, \"bos_token_id\": 151643,"
    " \"eos_token_id\": 151645, \"head_dim\": 128, \"hidden_act\": \"silu\", \"hidden_size\": 1024,"
    " \"intermediate_size\": 3072, \"max_position_embeddings\": 40960, \"max_window_layers\": 28,"
    " \"num_attention_heads\": 16, \"num_hidden_layers\": 28, \"num_key_value_heads\": 8,"
    " \"rms_norm_eps\": 1e-06, \"rope_scaling\": null, \"rope_theta\": 1000000,"
    " \"sliding_window\": null, \"tie_word_embeddings\": true, \"torch_dtype\": \"bfloat16\","
    " \"use_sliding_window\": false, \"vocab_size\": 151936}";
static const char llama2_7b[] =
    "{\"model_type\": \"llama\", \"bos_token_id\": 1, \"eos_token_id\": 2, \"hidden_act\": "
    "\"silu\","
    " \"hidden_size\": 4096, \"intermediate_size\": 11008, \"max_position_embeddings\": 4096,"
    " \"num_attention_heads\": 32, \"num_hidden_layers\": 32, \"num_key_value_heads\": 32,"
    " \"pretraining_tp\": 1, \"rms_norm_eps\": 1e-05, \"rope_scaling\": null,"
    " \"tie_word_embeddings\": false, \"vocab_size\": 32000}";
static const char bloom_560m[] =
    "{\"model_type\": \"bloom\", \"apply_residual_connection_post_layernorm\": false,"
    " \"bos_token_id\": 1, \"eos_token_id\": 2, \"layer_norm_epsilon\": 1e-05, \"n_embed\": 1024,"
    " \"n_inner\": null, \"n_layer\": 24, \"num_attention_heads\": 16, \"offset_alibi\": 100,"
    " \"seq_length\": 2048, \"vocab_size\": 250880}";

static void public_models(void **state)
{
    (void)state;
    struct model q = good(qwen3_0_6b), l = good(llama2_7b), b = good(bloom_560m);
    assert_int_equal(model_params(&q), 596049920);
    assert_int_equal(model_params(&l), 6738415616);
    assert_int_equal(model_params(&b), 559214592);
    assert_int_equal(model_kv_bytes_per_token(&q, 2), 28 * 2 * 8 * 128 * 2);
    assert_int_equal(model_kv_bytes_per_token(&l, 2), 524288);
    assert_int_equal(model_kv_bytes_per_token(&b, 4), 24 * 2 * 1024 * 4);
}

static void qwen3_fields(void **state)
{
    (void)state;
    struct model m = good(qwen3_0_6b);
    assert_string_equal(m.name, "test");
    assert_int_equal(m.family, MODEL_QWEN3);
    assert_int_equal(m.norm, NORM_RMS);
    assert_int_equal(m.position, POSITION_ROPE);
    assert_true(m.qk_norm && m.tied);
    assert_false(m.attn_bias || m.mlp_bias || m.emb_norm);
    assert_int_equal(m.head_dim, 128);
    assert_int_equal(m.max_positions, 40960);
    assert_near(m.rope_theta, 1e6, 0);
    assert_near(m.norm_eps, 1e-6, 0);
    assert_int_equal(m.bos_id, 151643);
    assert_int_equal(m.n_eos, 1);
    assert_int_equal(m.eos_ids[0], 151645);
}

static void bloom_fields(void **state)
{
    (void)state;
    struct model m = good(bloom_560m);
    assert_int_equal(m.norm, NORM_LAYER);
    assert_int_equal(m.act, ACT_GELU_TANH);
    assert_int_equal(m.position, POSITION_ALIBI);
    assert_int_equal(m.intermediate, 4096);
    assert_int_equal(m.kv_heads, 16);
    assert_int_equal(m.head_dim, 64);
    assert_true(m.attn_bias && m.mlp_bias && m.emb_norm && m.tied);
}

/* Absent and null members fall back to what transformers takes for them. */
static void defaults(void **state)
{
    (void)state;
    struct model m = good("{\"model_type\": \"llama\", \"vocab_size\": 10, \"hidden_size\": 24,"
                          " \"intermediate_size\": 7, \"num_hidden_layers\": 1,"
                          " \"num_attention_heads\": 4, \"num_key_value_heads\": null}");
    assert_int_equal(m.kv_heads, 4);
    assert_int_equal(m.head_dim, 6);
    assert_int_equal(m.max_positions, 2048);
    assert_int_equal(m.bos_id, -1);
    assert_int_equal(m.n_eos, 0);
    assert_false(m.tied);
    assert_near(m.rope_theta, 1e4, 0);
    assert_near(m.norm_eps, 1e-6, 0);
}

#define SMALL                                                                                     \
    "\"model_type\": \"llama\", \"vocab_size\": 10, \"hidden_size\": 24, \"intermediate_size\": " \
    "7,"                                                                                          \
    " \"num_hidden_layers\": 2, \"num_attention_heads\": 4"

static void both_forms_of_rope(void **state)
{
    (void)state;
    struct model m = good("{" SMALL ", \"rope_theta\": 5e5}");
    assert_near(m.rope_theta, 5e5, 0);
    m = good("{" SMALL ", \"rope_parameters\": {\"rope_theta\": 7e5, \"rope_type\": \"default\"}}");
    assert_near(m.rope_theta, 7e5, 0);
    m = good("{" SMALL ", \"rope_scaling\": {\"type\": \"default\"}, \"eos_token_id\": [3, 5]}");
    assert_int_equal(m.n_eos, 2);
    assert_int_equal(m.eos_ids[1], 5);
}

/* Windows that the configuration names and the model does not use. */
static void unused_windows(void **state)
{
    (void)state;
    static const char q[] = "{\"model_type\": \"qwen3\", \"vocab_size\": 10, \"hidden_size\": 24,"
                            " \"intermediate_size\": 7, \"num_hidden_layers\": 2,"
                            " \"num_attention_heads\": 4, \"sliding_window\": 4096,%s}";
    struct model m = good(arena_printf(a, q, " \"use_sliding_window\": false"));
    assert_int_equal(m.head_dim, 128);
    assert_false(m.layered);
    m = good(arena_printf(a, q, " \"use_sliding_window\": true, \"max_window_layers\": 2"));
    assert_false(m.layered);
    m = good(arena_printf(a, q, " \"use_sliding_window\": true, \"max_window_layers\": 1"));
    assert_true(m.layered);
    assert_int_equal(m.structure->n_attentions, 2);
    assert_int_equal(m.structure->attention[1].type, ATTENTION_WINDOW);
    assert_int_equal(m.structure->attention[1].window, 4096);
}

/* What can be described and predicted but is not computed, or not modelled yet. */
static void described_only(void **state)
{
    (void)state;
    static const struct {
        const char *json, *computed;
    } cases[] = {
        {"{" SMALL ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8}}",
         "model test: no engine here computes rotary positions of type llama3 without "
         "low_freq_factor"},
        {"{" SMALL ", \"rope_parameters\": {\"rope_theta\": 1e4, \"rope_type\": \"yarn\"}}",
         "model test: no engine here computes rotary positions of type yarn without factor"},
        {"{" SMALL ", \"rope_scaling\": {\"rope_type\": \"longrope\", \"factor\": 8}}",
         "model test: no engine here computes rotary positions of type longrope"},
        {"{" SMALL ", \"partial_rotary_factor\": 0.5, \"head_dim\": 8}",
         "model test: no engine here computes heads of which a part is rotated"},
        {"{" SMALL ", \"attention_multiplier\": 0.5}",
         "model test: no engine here computes what attention_multiplier changes"},
        {"{\"model_type\": \"qwen2_moe\", \"vocab_size\": 10, \"hidden_size\": 24,"
         " \"moe_intermediate_size\": 7, \"num_hidden_layers\": 2, \"num_attention_heads\": 4,"
         " \"num_experts\": 4, \"num_experts_per_tok\": 2}",
         "model test: no engine here computes models of type qwen2_moe"},
        {"{" SMALL ", \"hidden_act\": \"gelu\"}",
         "model test: no engine here computes a gated MLP with gelu"},
        {"{\"model_type\": \"mimo\", \"vocab_size\": 10, \"hidden_size\": 24,"
         " \"intermediate_size\": 7, \"num_hidden_layers\": 2, \"num_attention_heads\": 4}",
         "model test: no engine here computes models of type mimo"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err e = {0};
        const struct model m = good(cases[i].json);
        assert_int_equal(model_check_computed(&m, &e), ST_INPUT);
        assert_string_equal(err_cause(&e, 0), cases[i].computed);
    }
}

/* Mistral without windows is Llama by another name. */
static void mistral(void **state)
{
    (void)state;
    struct err e = {0};
    const struct model m =
        good("{\"model_type\": \"mistral\", \"vocab_size\": 10, \"hidden_size\": 24,"
             " \"intermediate_size\": 7, \"num_hidden_layers\": 2,"
             " \"num_attention_heads\": 4, \"sliding_window\": null}");
    assert_int_equal(m.family, MODEL_LLAMA);
    assert_ok(model_check_computed(&m, &e), &e);
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *json, *error;
    } cases[] = {
        {"[]", "config.json:1:1: expected a map, got a list"},
        {"{}", "config.json:1:1: model_type: missing"},
        {"{\"model_type\": \"gpt9\"}", "config.json:1:16: model_type: 'gpt9' is not supported"},
        {"{" SMALL ",\n \"moe_thing\": 3}",
         "config.json:2:15: moe_thing: is not known for llama, and may change its shapes"},
        {"{\"model_type\": \"llama\"}", "config.json:1:1: hidden_size: missing"},
        {"{\"model_type\": \"qwen\", \"vocab_size\": 9, \"hidden_size\": 8, "
         "\"num_hidden_layers\": 1,\n \"num_attention_heads\": 1, \"intermediate_size\": 7}",
         "config.json:2:49: intermediate_size: gate and up are two equal halves, got 7"},
        {"{\"model_type\": \"mixtral\", \"vocab_size\": 9, \"hidden_size\": 8, "
         "\"num_hidden_layers\": 1,\n \"num_attention_heads\": 1, \"intermediate_size\": 7, "
         "\"num_local_experts\": 4, \"num_experts_per_tok\": 5}",
         "config.json:2:99: num_experts_per_tok: 5 is above the maximum 4"},
        {"{" SMALL ",\n \"quantization_config\": {\"bits\": 4}}",
         "config.json:2:25: quantization_config.quant_method: missing; fp8, fbgemm_fp8, modelopt, "
         "compressed-tensors, mxfp4, gptq and awq are supported"},
        {"{" SMALL ",\n \"rope_scaling\": 2}",
         "config.json:2:18: rope_scaling: expected a map, got an integer"},
        {"{" SMALL ",\n \"sliding_window\": 64, \"layer_types\": [\"full_attention\", \"some\"]}",
         "config.json:2:39: layer_types: 'some' is not known for llama"},
        {"{" SMALL ",\n \"layer_types\": [\"full_attention\"]}",
         "config.json:2:17: layer_types: 1 entries for 2 layers"},
        {"{" SMALL ",\n \"num_key_value_heads\": 3}",
         "config.json:2:25: num_key_value_heads: 4 heads are not divisible by 3 kv heads"},
        {"{" SMALL ",\n \"head_dim\": 5}",
         "config.json:2:14: head_dim: rotary positions need an even head, got 5"},
        {"{" SMALL ",\n \"head_dim\": 0}", "config.json:2:14: head_dim: 0 is below the minimum 1"},
        {"{" SMALL ",\n \"rms_norm_eps\": \"small\"}",
         "config.json:2:18: rms_norm_eps: expected a number, got a string"},
        {"{" SMALL ",\n \"eos_token_id\": [1, 2.5]}",
         "config.json:2:22: eos_token_id: expected an integer, got a number"},
        {"{" SMALL ",\n \"eos_token_id\": 10}",
         "config.json:2:18: eos_token_id: 10 is not in the vocabulary of 10"},
        {"{" SMALL ",\n \"eos_token_id\": [0,1,2,3,4,5,6,7,8]}",
         "config.json:2:18: eos_token_id: at most 8 ids, got 9"},
        {"{\"model_type\": \"llama\", \"vocab_size\": 10, \"hidden_size\": 25, "
         "\"intermediate_size\": 7,"
         " \"num_hidden_layers\": 2, \"num_attention_heads\": 4}",
         "config.json:1:133: num_attention_heads: the hidden size 25 is not divisible by 4 heads"},
        {"{\"model_type\": \"llama\", \"vocab_size\": 10, \"hidden_size\": 4611686018427387904}",
         "config.json:1:58: hidden_size: 4611686018427387904 is above the maximum 1048576"},
        {"{\"model_type\": \"bloom\", \"vocab_size\": 10, \"n_embed\": 8, \"n_layer\": 1,"
         " \"n_head\": 2, \"n_inner\": 30}",
         "config.json:1:95: n_inner: BLOOM's is 4 x the hidden size = 32, got 30"},
        {"{\"model_type\": \"bloom\", \"vocab_size\": 10, \"n_embed\": 8, \"n_layer\": 1,"
         " \"n_head\": 2,\n \"apply_residual_connection_post_layernorm\": true}",
         "config.json:2:46: apply_residual_connection_post_layernorm: only false is supported "
         "for bloom, got true"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err e = {0};
        struct model m;
        assert_int_equal(from_text(cases[i].json, &m, &e), ST_INPUT);
        assert_cause(&e, cases[i].error);
    }
}

/* The model groups that ship, with the parameter counts of the published weights. */
static void groups(void **state)
{
    (void)state;
    static const struct {
        const char *name, *family;
        int64_t params, kv_bytes; /* of a token, float16 */
        bool computed;
    } cases[] = {
        {"llama2_7b", "llama", 6738415616, 524288, true},
        {"llama2_70b", "llama", 68976648192, 327680, true},
        {"codellama_34b", "llama", 33743970304, 196608, true},
        {"internlm_20b", "internlm", 20088714240, 1228800, true},
        {"qwen_72b", "qwen", 72287920128, 2621440, false},
        {"phi2", "phi", 2779683840, 327680, false},
        {"llama3_8b", "llama", 8030261248, 131072, true},
        {"llama3_70b", "llama", 70553706496, 327680, true},
        {"qwen3_0_6b", "qwen3", 596049920, 114688, true},
        {"qwen2_5_0_5b", "qwen2", 494032768, 12288, true},
        {"qwen2_5_7b", "qwen2", 7615616512, 57344, true},
        {"qwen2_5_72b", "qwen2", 72706203648, 327680, true},
        {"vicuna_7b", "llama", 6738415616, 524288, true},
        {"bloom_560m", "bloom", 559214592, 98304, true},
        {"mixtral_8x7b", "mixtral", 46702792704, 131072, true},
        {"qwen3_30b_a3b", "qwen3_moe", 30532122624, 98304, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct node *group;
        struct model m;
        struct err e = {0};
        const char *path = arena_printf(a, "configs/model/%s.yaml", cases[i].name);
        assert_ok(yaml_load(a, path, &group, &e), &e);
        assert_ok(model_from_config(a, cases[i].name, node_find(group, "config"), &m, &e), &e);
        assert_string_equal(model_family_name(&m), cases[i].family);
        assert_int_equal(model_params(&m), cases[i].params);
        assert_int_equal(model_kv_bytes_per_token(&m, 2), cases[i].kv_bytes);
        assert_int_equal(model_check_computed(&m, &e), cases[i].computed ? ST_OK : ST_INPUT);
    }
}

/* Phi: attention and MLP side by side after one norm, biases everywhere, part of a head rotated. */
static void phi(void **state)
{
    (void)state;
    struct model m = good("{\"model_type\": \"phi\", \"vocab_size\": 10, \"hidden_size\": 40,"
                          " \"intermediate_size\": 7, \"num_hidden_layers\": 1,"
                          " \"num_attention_heads\": 4, \"partial_rotary_factor\": 0.4}");
    assert_int_equal(m.rotary_dim, 4);
    assert_int_equal(m.norm, NORM_LAYER);
    struct op_list l;
    model_ops(&m, &l);
    const struct op_load load = {.tokens = 5, .rows = 5};
    bool norm = false;
    for (int i = 0; i < l.n; i++) {
        norm |= l.ops[i].kind == OP_POST_ATTN_NORM;
        if (l.ops[i].kind == OP_ROPE) /* 3 T (Q + K) of which 4/10 */
            assert_near(op_cost(&m, &l.ops[i], &load, 2).flop, 3 * 5 * 80 * 0.4, 1e-9);
        if (l.ops[i].kind == OP_LM_HEAD)
            assert_int_equal(l.ops[i].weight_params, 10 * 40 + 10);
    }
    assert_false(norm);
    struct err e = {0};
    assert_int_equal(model_check_computed(&m, &e), ST_INPUT);
    assert_string_equal(err_cause(&e, 0), "model test: no engine here computes models of type phi");
}

/* gemma-3-4b-it's file as it is published leaves out what its class has. */
static void what_a_class_has_is_left_out(void **state)
{
    (void)state;
    struct model m =
        good("{\"architectures\": [\"Gemma3ForConditionalGeneration\"], \"model_type\": "
             "\"gemma3\", \"eos_token_id\": [1, 106], \"text_config\": {\"hidden_size\": 2560, "
             "\"intermediate_size\": 10240, \"model_type\": \"gemma3_text\", "
             "\"num_hidden_layers\": 34, \"rope_scaling\": {\"factor\": 8.0, \"rope_type\": "
             "\"linear\"}, \"sliding_window\": 1024}, \"vision_config\": {\"hidden_size\": 1152}}");
    assert_int_equal(model_params(&m), 3880263168); /* as transformers counts it */
    assert_int_equal(m.heads, 8);
    assert_int_equal(m.kv_heads, 4);
    assert_int_equal(m.max_positions, 131072);
    m = good("{\"model_type\": \"mistral\", \"vocab_size\": 10, \"hidden_size\": 64, "
             "\"intermediate_size\": 7, \"num_hidden_layers\": 1, \"num_attention_heads\": 16}");
    assert_int_equal(m.kv_heads, 8);
    m = good("{\"model_type\": \"mixtral\", \"vocab_size\": 10, \"hidden_size\": 64, "
             "\"intermediate_size\": 8, \"num_hidden_layers\": 1, \"num_attention_heads\": 16, "
             "\"num_experts_per_tok\": 2}");
    assert_int_equal(m.experts, 8);
}

/* gpt-oss without a map of positions has one in its class, which is not read. */
static void a_map_of_the_class_is_not_computed(void **state)
{
    (void)state;
    struct err e = {0};
    const struct model m =
        good("{\"model_type\": \"gpt_oss\", \"vocab_size\": 10, \"hidden_size\": 64, "
             "\"intermediate_size\": 8, \"num_hidden_layers\": 2, \"num_attention_heads\": 8, "
             "\"num_key_value_heads\": 2, \"head_dim\": 8, \"num_local_experts\": 4, "
             "\"num_experts_per_tok\": 2, \"sliding_window\": 4}");
    assert_int_equal(model_check_computed(&m, &e), ST_INPUT);
    assert_non_null(strstr(err_cause(&e, 0), "rope_scaling"));
}

/* gemma-3-1b-it's file as it is published. */
static void gemma3(void **state)
{
    (void)state;
    struct err e = {0};
    const struct model m =
        good("{\"architectures\": [\"Gemma3ForCausalLM\"], \"attention_bias\": false, "
             "\"attention_dropout\": 0.0, \"attn_logit_softcapping\": null, "
             "\"bos_token_id\": 2, \"cache_implementation\": \"hybrid\", "
             "\"eos_token_id\": [1, 106], \"final_logit_softcapping\": null, "
             "\"head_dim\": 256, \"hidden_activation\": \"gelu_pytorch_tanh\", "
             "\"hidden_size\": 1152, \"initializer_range\": 0.02, "
             "\"intermediate_size\": 6912, \"max_position_embeddings\": 32768, "
             "\"model_type\": \"gemma3_text\", \"num_attention_heads\": 4, "
             "\"num_hidden_layers\": 26, \"num_key_value_heads\": 1, \"pad_token_id\": 0, "
             "\"query_pre_attn_scalar\": 256, \"rms_norm_eps\": 1e-06, "
             "\"rope_local_base_freq\": 10000, \"rope_scaling\": null, "
             "\"rope_theta\": 1000000, \"sliding_window\": 512, "
             "\"sliding_window_pattern\": 6, \"torch_dtype\": \"bfloat16\", "
             "\"transformers_version\": \"4.50.0.dev0\", \"use_cache\": true, "
             "\"vocab_size\": 262144}");
    const struct structure *s = m.structure;
    assert_int_equal(m.family, MODEL_GEMMA3);
    assert_ok(model_check_computed(&m, &e), &e);
    assert_int_equal(model_params(&m), 999885952);
    assert_int_equal(structure_layers_of_attention(s, 0), 22); /* slide */
    assert_int_equal(s->attention[0].window, 512);
    assert_int_equal(s->attention[1].window, 0);
    assert_int_equal(s->n_ropes, 2);
    assert_near(s->ropes[s->attention[0].rope].theta, 1e4, 0);
    assert_near(s->ropes[s->attention[1].rope].theta, 1e6, 0);
    assert_near(s->attention[0].score_scale, 1.0 / 16, 1e-15);
    assert_near(s->embedding_scale * s->embedding_scale, 1152, 1e-9);
    assert_near(s->norm_offset, 1, 0);
    assert_int_equal(s->mlp[0].act, MLP_ACT_GELU_TANH);
    assert_true(s->attention[0].out_norm && s->mlp[0].out_norm);
}

static void load_folder(void **state)
{
    (void)state;
    struct model m;
    struct err e = {0};
    assert_ok(model_load(a, "tests/golden/models/qwen3/", &m, &e), &e);
    assert_string_equal(m.name, "qwen3");
    assert_near(m.rope_theta, 1e6, 0);
    assert_int_equal(model_params(&m), 72560); /* total_parameters of qwen3_sharded's index */
    assert_ok(model_load(a, "tests/golden/models/qwen3_sharded", &m, &e), &e);
    assert_near(m.rope_theta, 1e6, 0);
    assert_int_equal(model_load(a, "tests/golden/models/none", &m, &e), ST_INPUT);
    assert_string_equal(err_cause(&e, 0), "cannot use the model in tests/golden/models/none");
    assert_cause(&e, "cannot open tests/golden/models/none/config.json: No such file or directory");
}

static void a_generation_config_adds_ends(void **state)
{
    struct test *t = *state;
    struct model m = {.vocab = 10, .eos_ids = {3}, .n_eos = 1};
    struct node *c;
    assert_ok(
        json_parse(t->a, "g", SV("{\"eos_token_id\": [5, 3], \"top_k\": 20}"), NULL, &c, &t->e), t);
    assert_ok(model_add_eos(&m, c, &t->e), t);
    assert_int_equal(m.n_eos, 2);
    assert_int_equal(m.eos_ids[1], 5);
    assert_ok(json_parse(t->a, "g", SV("{\"eos_token_id\": 10}"), NULL, &c, &t->e), t);
    assert_err(model_add_eos(&m, c, &t->e), ST_INPUT, t,
               "g:1:18: eos_token_id: 10 is not in the vocabulary of 10");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_generation_config_adds_ends),
        cmocka_unit_test(public_models),
        cmocka_unit_test(qwen3_fields),
        cmocka_unit_test(bloom_fields),
        cmocka_unit_test(defaults),
        cmocka_unit_test(both_forms_of_rope),
        cmocka_unit_test(unused_windows),
        cmocka_unit_test(described_only),
        cmocka_unit_test(mistral),
        cmocka_unit_test(refused),
        cmocka_unit_test(groups),
        cmocka_unit_test(phi),
        cmocka_unit_test(what_a_class_has_is_left_out),
        cmocka_unit_test(a_map_of_the_class_is_not_computed),
        cmocka_unit_test(gemma3),
        cmocka_unit_test(load_folder),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
