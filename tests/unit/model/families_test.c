/* Every family against transformers' own count of its parameters. */
#include "model/families/family.h"

#include "model/describe_layers.h"
#include "support/models.h"
#include "text/json.h"

/* Parameters that stand beside the matrices and are not told apart here: scales of activations,
 * biases of routers, norms inside an attention. At most so much of all of them. */
static const double UNCOUNTED = 2e-4;

static void assert_parameters(struct test *t, const char *name, const struct node *config,
                              int64_t want)
{
    struct structure s;
    assert_ok(family_read(t->a, name, config, NULL, &s, &t->e), t);
    const double off = (double)(structure_params(&s) - want) / (double)want;
    if (off < -UNCOUNTED || off > UNCOUNTED)
        fail_msg("%s: %lld parameters, transformers counts %lld", name,
                 (long long)structure_params(&s), (long long)want);
}

static struct structure read(struct test *t, const char *json)
{
    struct node *config;
    struct structure s;
    assert_ok(json_parse(t->a, "config.json", sv_of(json), NULL, &config, &t->e), t);
    assert_ok(family_read(t->a, "test", config, NULL, &s, &t->e), t);
    return s;
}

#define SIZES                                                                \
    "\"vocab_size\": 1000, \"hidden_size\": 64, \"intermediate_size\": 128," \
    " \"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"

/* Rows that transformers has and families.c has not: refused by name, never counted wrong. */
static bool is_refused(struct test *t, const char *name, const struct node *config)
{
    struct structure s;
    struct err e = {0};
    if (family_read(t->a, name, config, NULL, &s, &e) == ST_OK)
        return false;
    assert_int_equal(e.st, ST_INPUT);
    return true;
}

static void parameters_are_those_of_transformers(void **state)
{
    struct test *t = *state;
    struct golden_family f = {0};
    int counted = 0, refused = 0;
    while (golden_family_next(t, &f)) {
        int64_t want;
        assert_ok(node_get_int(f.row, "parameters", 1, INT64_MAX, &want, &t->e), t);
        if (is_refused(t, f.name, f.config)) {
            refused++;
        } else {
            assert_parameters(t, f.name, f.config, want);
            counted++;
        }
    }
    print_message("%d configurations counted, %d refused by name\n", counted, refused);
    assert_true(counted >= 180);
}

/* Parameters, kinds of layers and what they keep. */
static const char *layers_text(struct test *t, const struct structure *s)
{
    struct buf b = {0};
    json_write(&b, describe_layers_node(t->a, s), 0, true);
    buf_printf(&b, " %lld parameters, %lld positions", (long long)structure_params(s),
               (long long)s->max_positions);
    for (int64_t i = 0; i < s->layers; i++)
        buf_printf(&b, " %d/%d", s->attention_of[i], s->mlp_of[i]);
    const char *text = arena_str(t->a, buf_str(&b));
    buf_free(&b);
    return text;
}

static const struct node *without(struct test *t, const struct node *config, uint32_t i)
{
    struct node *copy = node_new(t->a, NODE_MAP);
    for (uint32_t k = 0; k < config->n; k++)
        if (k != i)
            node_set(t->a, copy, config->pairs[k].key, config->pairs[k].value);
    return copy;
}

/* The first row of a family is what its class has by default: without any one of the keys it is the
 * same model, or refused. */
static void a_key_that_is_left_out_is_the_classes(void **state)
{
    struct test *t = *state;
    struct golden_family f = {0};
    char last[64] = "";
    int same = 0, refused = 0;
    while (golden_family_next(t, &f)) {
        const struct node *family = node_find(f.row, "family");
        struct structure s;
        struct err e = {0};
        if (strcmp(last, family->s.p) == 0)
            continue;
        snprintf(last, sizeof last, "%s", family->s.p);
        if (family_read(t->a, f.name, f.config, NULL, &s, &e) != ST_OK)
            continue;
        const char *whole = layers_text(t, &s);
        for (uint32_t i = 0; i < f.config->n; i++) {
            const char *key = f.config->pairs[i].key.p;
            struct structure less;
            struct err why = {0};
            if (strcmp(key, "model_type") == 0)
                continue;
            if (family_read(t->a, f.name, without(t, f.config, i), NULL, &less, &why) != ST_OK) {
                refused++;
                continue;
            }
            if (strcmp(layers_text(t, &less), whole) != 0)
                fail_msg("%s without %s is another model", f.name, key);
            same++;
        }
    }
    print_message("%d keys left out, %d of them refused\n", same + refused, refused);
    assert_true(same > 1500);
}

/* Classes whose defaults cannot be built, and parts of wrappers that no class has alone:
 * transformers' count of these sizes and otherwise those of the class. */
static void counted_apart(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *type;
        int hidden, intermediate, layers, head_dim;
        int64_t parameters;
    } cases[] = {
        {"glm4v_moe_text", 4096, 10944, 46, 128, 106851196928},
        {"glm4v_text", 4096, 13696, 40, 128, 9400279040},
        {"hunyuan_v1_moe", 4096, 11008, 6, 128, 4409333248},
        {"muse_glimmer_text", 6656, 19968, 52, 128, 27854780928},
        {"qwen2_5_vl_text", 8192, 29568, 80, 128, 72706203648},
        {"qwen3_vl_text", 4096, 22016, 32, 128, 12049461248},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *json =
            arena_printf(t->a,
                         "{\"model_type\": \"%s\", \"hidden_size\": %d, \"intermediate_size\": %d,"
                         " \"num_hidden_layers\": %d, \"head_dim\": %d}",
                         cases[i].type, cases[i].hidden, cases[i].intermediate, cases[i].layers,
                         cases[i].head_dim);
        struct node *config;
        assert_ok(json_parse(t->a, "config.json", sv_of(json), NULL, &config, &t->e), t);
        assert_parameters(t, cases[i].type, config, cases[i].parameters);
    }
}

/* vLLM's windows where transformers has others, or where only the class has one. */
static void windows_that_no_list_says(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *type, *more;
        int64_t full; /* of 4 layers */
    } cases[] = {
        {"mistral", "", 0},
        {"mistral", ", \"sliding_window\": null", 4},
        {"qwen3_moe", ", \"sliding_window\": 8, \"max_window_layers\": 2", 4},
        {"qwen3_moe",
         ", \"sliding_window\": 8, \"max_window_layers\": 2, \"use_sliding_window\": true", 0},
        {"qwen2_moe", ", \"sliding_window\": 8, \"use_sliding_window\": true", 4},
        {"qwen2", ", \"sliding_window\": 8, \"max_window_layers\": 2, \"use_sliding_window\": true",
         2},
        {"olmo3", "", 1},
        {"olmo2", "", 4},
        {"cohere2", "", 1},
        {"cohere", "", 4},
        {"exaone4", ", \"sliding_window\": null", 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct structure s =
            read(t, arena_printf(t->a, "{\"model_type\": \"%s\"," SIZES " \"head_dim\": 16%s}",
                                 cases[i].type, cases[i].more));
        int64_t full = 0;
        for (int32_t k = 0; k < s.n_attentions; k++)
            full +=
                s.attention[k].type == ATTENTION_FULL ? structure_layers_of_attention(&s, k) : 0;
        if (full != cases[i].full)
            fail_msg("%s%s: %lld layers see all", cases[i].type, cases[i].more, (long long)full);
    }
}

/* Of two layers the second takes the first one's selection: as listed, by a pattern, by a number.
 */
static void layers_share_an_index(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *more;
        int64_t own; /* of 4 layers */
    } cases[] = {
        {"", 4},
        {", \"index_topk_pattern\": \"FSSF\"", 2},
        {", \"index_topk_freq\": 4", 2}, /* 0 and 1 */
        {", \"index_topk_freq\": 2, \"index_skip_topk_offset\": 1", 2},
        {", \"indexer_types\": [\"full\", \"shared\", \"shared\", \"shared\"]", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct structure s = read(t, arena_printf(t->a,
                                                        "{\"model_type\": \"glm_moe_dsa\"," SIZES
                                                        " \"n_routed_experts\": 0%s}",
                                                        cases[i].more));
        int64_t own = 0;
        for (int32_t k = 0; k < s.n_attentions; k++)
            own += s.attention[k].n_caches == 2 ? structure_layers_of_attention(&s, k) : 0;
        if (own != cases[i].own)
            fail_msg("glm_moe_dsa%s: %lld layers have an index", cases[i].more, (long long)own);
    }
}

static void models_that_people_serve(void **state)
{
    struct test *t = *state;
    const struct node *all = served_models(t);
    int accepted = 0, counted = 0;
    for (uint32_t i = 0; i < all->n; i++) {
        const struct node *model = all->pairs[i].value;
        const char *name = all->pairs[i].key.p;
        struct structure s;
        struct err e = {0};
        const struct node *config = served_file(t, model, "config.json");
        const struct node *params = node_find(node_find(model, "parameters"), "params");
        if (family_read(t->a, name, config, NULL, &s, &e) != ST_OK) {
            print_message("refused: %s\n", err_cause(&e, 0));
            continue;
        }
        accepted++;
        if (params && params->kind == NODE_INT) {
            assert_parameters(t, name, config, params->i);
            counted++;
        }
    }
    print_message("%d of %u accepted, %d counted\n", accepted, all->n, counted);
    assert_true(accepted >= 94);
    assert_true(counted >= 75);
}

/* ---- what is kept ---------------------------------------------------------------------------- */

/* K and V of 2 heads of 16 in four layers, of which three keep the last 8 tokens. */
static void windows_keep_the_last_tokens(void **state)
{
    struct test *t = *state;
    const struct structure s =
        read(t, "{\"model_type\": \"gemma3_text\"," SIZES " \"head_dim\": 16,"
                " \"sliding_window\": 8, \"sliding_window_pattern\": 4}");
    const struct layer_bytes b = layer_bytes_of(&s, 2, 4);
    assert_int_equal(s.n_attentions, 2);
    assert_int_equal(s.attention[0].type, ATTENTION_WINDOW);
    assert_int_equal(structure_layers_of_attention(&s, 0), 3);
    assert_true(b.token == 1 * 2 * 2 * 16 * 2);
    assert_true(b.window_token == 3 * 2 * 2 * 16 * 2);
    assert_true(b.window == 8 * b.window_token);
    assert_true(b.state == 0);
}

/* vLLM's fp8_ds_mla and nvfp4_ds_mla of what sparse kernels read (vllm/model_executor/layers/
 * attention/mla_attention.py, get_kv_cache_spec); dense kernels have elements alone. */
static void sparse_latent_vectors_are_packed(void **state)
{
    struct test *t = *state;
    static const char json[] =
        "{\"model_type\": \"%s\"," SIZES
        " \"n_routed_experts\": 0, \"q_lora_rank\": 24, \"kv_lora_rank\": 512, \"v_head_dim\": 16,"
        " \"qk_nope_head_dim\": 16, \"qk_rope_head_dim\": 64%s}";
    const char *const index = ", \"index_head_dim\": 128, \"index_n_heads\": 2, \"index_topk\": 4";
    static const char *const sparse[] = {"deepseek_v32", "glm_moe_dsa"};
    for (size_t i = 0; i < sizeof sparse / sizeof *sparse; i++) {
        const struct structure s = read(t, arena_printf(t->a, json, sparse[i], index));
        const struct cache *c = s.attention[0].caches;
        assert_true(cache_entry_bytes(&c[0], 2) == 1152);
        assert_true(cache_entry_bytes(&c[0], 1) == 656);
        assert_true(cache_entry_bytes(&c[0], 0.5) == 352);
        assert_true(cache_entry_bytes(&c[1], 1) == 132); /* the index's, in a format of its own */
    }
    const struct structure v4 =
        read(t, "{\"model_type\": \"deepseek_v4\", \"vocab_size\": 1000, \"hidden_size\": 64,"
                " \"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"head_dim\": 512,"
                " \"compress_ratios\": [0, 4, 128, 4], \"n_routed_experts\": 8, \"o_groups\": 2}");
    assert_true(cache_entry_bytes(&v4.attention[0].caches[0], 1) == 584);
    assert_true(cache_entry_bytes(&v4.attention[1].caches[1], 1) == 584);
    const struct structure dense = read(t, arena_printf(t->a, json, "deepseek_v3", ""));
    assert_true(cache_entry_bytes(&dense.attention[0].caches[0], 1) == 576);
}

/* The latent vector and the rotated part, once for all heads and shards; index keys in fp8 with a
 * float32 scale. */
static void latent_attention_keeps_one_vector(void **state)
{
    struct test *t = *state;
    const struct structure s =
        read(t, "{\"model_type\": \"deepseek_v32\"," SIZES
                " \"q_lora_rank\": 24, \"kv_lora_rank\": 32, \"qk_nope_head_dim\": 16,"
                " \"qk_rope_head_dim\": 8, \"v_head_dim\": 16, \"index_head_dim\": 16,"
                " \"index_n_heads\": 2, \"index_topk\": 64, \"n_routed_experts\": null}");
    const struct attention *x = &s.attention[0];
    assert_int_equal(x->type, ATTENTION_LATENT);
    assert_int_equal(x->top_k, 64);
    assert_int_equal(x->n_caches, 2);
    assert_int_equal(x->caches[0].elements, 32 + 8);
    assert_true(x->caches[0].whole);
    assert_int_equal(x->caches[1].bytes, 16 + 4);
    assert_true(layer_bytes_of(&s, 2, 4).token == 4 * (40 * 2 + 20));
}

/* Three of four layers keep a state of 4 heads of 8 x 16 in float32, and 3 inputs of a convolution
 * over q, k of 2 heads of 8 and v. */
static void states_do_not_grow(void **state)
{
    struct test *t = *state;
    const struct structure s =
        read(t, "{\"model_type\": \"qwen3_5_text\"," SIZES
                " \"head_dim\": 16, \"full_attention_interval\": 4, \"linear_conv_kernel_dim\": 4,"
                " \"linear_key_head_dim\": 8, \"linear_value_head_dim\": 16,"
                " \"linear_num_key_heads\": 2, \"linear_num_value_heads\": 4}");
    const struct layer_bytes b = layer_bytes_of(&s, 2, 4);
    assert_true(b.token == 2 * 2 * 16 * 2);
    assert_true(b.state == 3 * (4 * 8 * 16 * 4 + 3 * (2 * 16 + 64) * 2));
}

static void experts_that_a_token_goes_through(void **state)
{
    struct test *t = *state;
    const struct structure s =
        read(t, "{\"model_type\": \"qwen2_moe\"," SIZES
                " \"moe_intermediate_size\": 32, \"shared_expert_intermediate_size\": 48,"
                " \"num_experts\": 8, \"num_experts_per_tok\": 2, \"mlp_only_layers\": [1]}");
    const int64_t expert = 3 * 32 * 64;
    assert_int_equal(s.n_mlps, 2);
    assert_int_equal(structure_layers_of_mlp(&s, 0), 3);
    assert_int_equal(structure_expert_params(&s), 3 * 8 * expert);
    assert_int_equal(structure_params(&s) - structure_active_params(&s), 3 * 6 * expert);
}

/* A wrapper's text part counts; its encoder is told. */
static void wrappers(void **state)
{
    struct test *t = *state;
    const struct structure s = read(
        t, "{\"model_type\": \"some_vl\", \"tie_word_embeddings\": true,"
           " \"vision_config\": {\"depth\": 4}, \"text_config\": {\"model_type\": \"qwen3\"," SIZES
           " \"head_dim\": 16}}");
    assert_string_equal(s.family, "qwen3");
    assert_string_equal(s.encoder, "vision_config");
    assert_true(s.tied);
}

static void refused(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *json, *error;
    } cases[] = {
        {"{\"model_type\": \"llama\"," SIZES "\n \"new_kind_of_layer\": 7}",
         "config.json:2:23: new_kind_of_layer: is not known for llama, and may change its shapes"},
        {"{\"model_type\": \"kimi_k2\"," SIZES "\n \"q_lora_rank\": 24}",
         "config.json:1:1: kv_lora_rank: missing"},
        {"{\"model_type\": \"gpt2\"," SIZES "\n \"add_cross_attention\": true}",
         "config.json:2:25: add_cross_attention: is not known for gpt2, and may change its shapes"},
        {"{\"model_type\": \"cohere2_moe\"," SIZES "\n \"first_k_dense_replace\": 1}",
         "config.json:1:1: layer_types: missing"},
        {"{\"model_type\": \"smollm3\"," SIZES "\n \"use_sliding_window\": true,"
         " \"sliding_window\": 8}",
         "config.json:2:24: use_sliding_window: which layers of smollm3 have a window is not known "
         "without layer_types"},
        {"{\"model_type\": \"minimax_m2\"," SIZES "\n \"qk_norm_type\": \"per_head\","
         " \"num_local_experts\": 4, \"num_experts_per_tok\": 2}",
         "config.json:2:18: qk_norm_type: only per_layer is supported for minimax_m2, got "
         "per_head"},
        {"{\"model_type\": \"nemotron_h\", \"vocab_size\": 9, \"hidden_size\": 8,\n"
         " \"hybrid_override_pattern\": \"M?\", \"num_hidden_layers\": 2, \"num_attention_heads\": "
         "1, \"num_key_value_heads\": 1,"
         " \"mamba_num_heads\": 2, \"mamba_head_dim\": 4, \"n_groups\": 1, \"ssm_state_size\": 4,"
         " \"conv_kernel\": 4, \"intermediate_size\": 8}",
         "config.json:2:29: hybrid_override_pattern: M, *, - or E for each of 2 layers"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct node *config;
        struct structure s;
        struct err e = {0};
        assert_ok(json_parse(t->a, "config.json", sv_of(cases[i].json), NULL, &config, &t->e), t);
        assert_int_equal(family_read(t->a, "test", config, NULL, &s, &e), ST_INPUT);
        assert_string_equal(err_cause(&e, 0), cases[i].error);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(parameters_are_those_of_transformers),
        TEST(models_that_people_serve),
        TEST(a_key_that_is_left_out_is_the_classes),
        TEST(counted_apart),
        TEST(windows_that_no_list_says),
        TEST(layers_share_an_index),
        TEST(windows_keep_the_last_tokens),
        TEST(sparse_latent_vectors_are_packed),
        TEST(latent_attention_keeps_one_vector),
        TEST(states_do_not_grow),
        TEST(experts_that_a_token_goes_through),
        TEST(wrappers),
        TEST(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
