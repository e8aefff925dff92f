#include "model/describe.h"

#include "model/formats.h"
#include "serve/kv_group.h"
#include "support/models.h"
#include "text/json.h"

static const struct model small = {.name = "small",
                                   .family = MODEL_LLAMA,
                                   .norm = NORM_RMS,
                                   .act = ACT_SILU_GATED,
                                   .position = POSITION_ROPE,
                                   .layers = 2,
                                   .hidden = 8,
                                   .heads = 2,
                                   .kv_heads = 1,
                                   .head_dim = 4,
                                   .intermediate = 16,
                                   .vocab = 1000};

static double number(const struct node *root, const char *path)
{
    const struct node *n = node_path(root, path);
    assert_non_null(n);
    return n->kind == NODE_INT ? (double)n->i : n->f;
}

static void text(void **state)
{
    struct test *t = *state;
    struct buf b = {0};
    model_describe(t->a, &small, &(struct describe_params){4, 10, 2}, &b);
    assert_golden(t, "model/describe_small.txt", ((struct sv){b.p, b.n}));
    buf_free(&b);
}

/* Parameters: embedding and head 8000 each; a layer 8 + 16*8 + 8*8 + 8 + 32*8 + 8*16 = 592; last
 * norm
 * 8. Attention of the prompt: 4 Q P / 4 tokens, P = 10 pairs, 2 layers. */
static void tree(void **state)
{
    struct test *t = *state;
    const struct node *n = model_describe_node(t->a, &small, &(struct describe_params){4, 10, 2});
    assert_int_equal(node_path(n, "parameters")->i, 16000 + 2 * 592 + 8);
    assert_int_equal(node_path(n, "weight_bytes.bfloat16")->i, 2 * 17192);
    assert_int_equal(node_path(n, "kv_bytes_per_token.float32")->i, 2 * 2 * 4 * 4);
    assert_int_equal(node_path(n, "dimensions.kv_heads")->i, 1);
    const struct node *ops = node_path(n, "operators");
    double flop = 0, bytes = 0;
    bool seen = false;
    for (uint32_t i = 0; i < ops->n; i++) {
        const struct node *op = ops->items[i];
        flop += number(op, "decode.flop");
        bytes += number(op, "prefill.bytes");
        if (!sv_eq(node_path(op, "name")->s, "attn_prefill"))
            continue;
        seen = true;
        assert_near(number(op, "prefill.flop"), 2 * 4 * 8 * 10 / 4.0, 0);
        assert_near(number(op, "decode.flop"), 0, 0);
    }
    assert_true(seen);
    assert_near(number(n, "total.decode.flop"), flop, 1e-9);
    assert_near(number(n, "total.prefill.bytes"), bytes, 1e-9);
}

/* What windows keep stands below keys and values, not below what is stored. */
static void kept_before_stored(void **state)
{
    struct test *t = *state;
    static const char json[] =
        "{\"model_type\": \"gpt_oss\", \"vocab_size\": 1000, \"hidden_size\": 64,"
        " \"intermediate_size\": 64, \"num_hidden_layers\": 4, \"num_attention_heads\": 4,"
        " \"num_key_value_heads\": 2, \"head_dim\": 16, \"sliding_window\": 8,"
        " \"num_local_experts\": 4, \"num_experts_per_tok\": 2,"
        " \"quantization_config\": {\"quant_method\": \"mxfp4\"}}";
    struct node *config;
    struct model m;
    struct buf b = {0};
    assert_ok(json_parse(t->a, "config.json", sv_of(json), NULL, &config, &t->e), t);
    assert_ok(model_from_config(t->a, "small", config, &m, &t->e), t);
    model_describe(t->a, &m, &(struct describe_params){0}, &b);
    static const char windows[] = "\n                    of it 256 B as bfloat16 in layers with a "
                                  "window, at most 2.00 KiB a sequence\n";
    const char *const lines[] = {"\nKV cache per token  ", windows, "\nstored              "};
    const char *at = buf_str(&b);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const char *next = strstr(at, lines[i]);
        if (!next)
            fail_msg("'%s' is not where it should be: %s", lines[i], buf_str(&b));
        at = next + 1;
    }
    buf_free(&b);
}

static void defaults(void **state)
{
    struct test *t = *state;
    const struct node *n = model_describe_node(t->a, &small, &(struct describe_params){0});
    assert_int_equal(node_path(n, "prompt_tokens")->i, 512);
    assert_int_equal(node_path(n, "kv_tokens")->i, 512);
    assert_int_equal(node_path(n, "element_bytes")->i, 4);
}

/* The keys and values of a token, of models that people serve, are those of vLLM's specs, which the
 * groups are held to (tests/vllm/groups.py). */
static void stored_kv_is_what_groups_keep(void **state)
{
    struct test *t = *state;
    const struct node *all = served_models(t);
    int held = 0;
    for (uint32_t i = 0; i < all->n; i++) {
        const char *name = all->pairs[i].key.p;
        const struct node *model = all->pairs[i].value;
        struct kv_groups groups;
        struct model m;
        struct err e = {0};
        double bytes = 0;
        if (model_from_files(t->a, name, served_file(t, model, "config.json"),
                             served_file(t, model, "hf_quant_config.json"), &m, &e) != ST_OK)
            continue;
        const struct kv_settings set = {.block_size = 16,
                                        .element_bytes = precision_bytes(m.kv),
                                        .state_bytes = precision_bytes(m.dtype),
                                        .max_model_len = 4096,
                                        .hybrid = true};
        if (kv_groups_make(t->a, name, m.structure, &set, &groups, &e) != ST_OK)
            continue; /* refused by name */
        if (groups.hash_tokens < 16)
            continue; /* what compressed entries are made of is no key and no value */
        for (int32_t k = 0; k < groups.n; k++)
            bytes += groups.g[k].token_bytes;
        const struct node *n = model_describe_node(t->a, &m, &(struct describe_params){0});
        if (number(n, "stored_kv_bytes_per_token") < bytes ||
            number(n, "stored_kv_bytes_per_token") > bytes)
            fail_msg("%s: %g, groups keep %g", name, number(n, "stored_kv_bytes_per_token"), bytes);
        held++;
    }
    print_message("%d of %u models\n", held, all->n);
    assert_true(held >= 80);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(text), TEST(tree), TEST(kept_before_stored),
                                       TEST(defaults), TEST(stored_kv_is_what_groups_keep)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
