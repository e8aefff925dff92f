/* Rows of layers that differ: against the list of layers alike, and by hand. */
#include "model/model.h"
#include "model/shard.h"
#include "support/models.h"
#include "text/yaml.h"

static struct model group(struct test *t, const char *name)
{
    struct node *tree;
    struct model m;
    const char *path = arena_printf(t->a, "configs/model/%s.yaml", name);
    assert_ok(yaml_load(t->a, path, &tree, &t->e), t);
    assert_ok(model_from_config(t->a, name, node_find(tree, "config"), &m, &t->e), t);
    return m;
}

static struct op_traffic sum_of(const struct model *m, const struct op_list *l,
                                const struct op_load *load)
{
    struct op_traffic sum = {0};
    for (int i = 0; i < l->n; i++) {
        const struct op_traffic x = op_traffic(m, &l->ops[i], load);
        sum.flop += x.flop;
        sum.weights += x.weights;
        sum.kv += x.kv;
        sum.others += x.others;
        sum.id_bytes += x.id_bytes;
    }
    return sum;
}

/* A prompt of 300 tokens behind 200, three decode rows over 900 keys together. */
static const struct op_load load = {.tokens = 303,
                                    .rows = 4,
                                    .seqs = 3,
                                    .kv_tokens = 900,
                                    .kv_tokens_prefill = 300 * 200,
                                    .chunk_sq = 300 * 301 / 2,
                                    .kv_read_tokens = 500};

/* Models of one plain kind have both lists: the same work, parameters and keys. */
static void layers_alike_cost_the_same(void **state)
{
    struct test *t = *state;
    static const char *const names[] = {"llama3_8b",    "qwen3_0_6b",    "bloom_560m",
                                        "mixtral_8x7b", "qwen3_30b_a3b", "qwen2_5_7b"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct model m = group(t, names[i]);
        struct op_list alike, layered;
        int64_t params = 0;
        assert_false(m.layered);
        model_ops(&m, &alike);
        layered_ops(m.structure, &layered);
        const struct op_traffic a = sum_of(&m, &alike, &load), b = sum_of(&m, &layered, &load);
        assert_near(b.flop / a.flop, 1, 1e-12);
        assert_near(b.weights / a.weights, 1, 1e-12);
        assert_near(b.kv / a.kv, 1, 1e-12);
        assert_near(b.others / a.others, 1, 1e-12);
        assert_near(b.id_bytes, a.id_bytes, 0);
        for (int k = 0; k < layered.n; k++)
            params += layered.ops[k].repeat * layered.ops[k].weight_params;
        assert_int_equal(params - (m.tied ? m.vocab * m.hidden : 0), model_params(&m));
    }
}

#define SMALL                                                                \
    "\"vocab_size\": 1000, \"hidden_size\": 64, \"intermediate_size\": 128," \
    " \"num_hidden_layers\": 4, \"num_attention_heads\": 4"
static const char latent[] =
    "{\"model_type\": \"deepseek_v3\"," SMALL
    ", \"q_lora_rank\": 24, \"kv_lora_rank\": 32, \"qk_nope_head_dim\": 16,"
    " \"qk_rope_head_dim\": 8, \"v_head_dim\": 16, \"first_k_dense_replace\": 1,"
    " \"n_routed_experts\": 8, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 32,"
    " \"n_shared_experts\": 1}";

static const struct op *find(const struct op_list *l, enum op_kind k, int32_t part)
{
    for (int i = 0; i < l->n; i++)
        if (l->ops[i].kind == k && l->ops[i].part == part)
            return &l->ops[i];
    fail_msg("no %s of kind %d", op_name(k), part);
    return NULL;
}

static void latent_attention(void **state)
{
    struct test *t = *state;
    const struct model m = model_of_json(t, latent);
    struct op_list l;
    assert_true(m.layered);
    assert_ok(model_check_modelled(&m, &t->e), t);
    assert_int_equal(model_check_uniform(&m, &t->e), ST_INPUT);
    model_ops(&m, &l);
    /* decode: 4 heads over the latent vector of 32 and the rotated 8, values of 32 */
    const struct op_load one = {.tokens = 1, .rows = 1, .seqs = 1, .kv_tokens = 10};
    const struct op_traffic decode = op_traffic(&m, find(&l, OP_ATTN_DECODE, 0), &one);
    assert_near(decode.flop, 4 * (2.0 * 4 * (40 + 32) * 10), 1e-9);
    assert_near(decode.kv, 4 * 40.0 * 10, 1e-9);
    /* prompts: heads of 24 and 16, and keys and values of 30 cached tokens made again */
    const struct op_load prompt = {
        .tokens = 5, .rows = 1, .kv_tokens_prefill = 5 * 30, .chunk_sq = 15, .kv_read_tokens = 35};
    const struct op_traffic prefill = op_traffic(&m, find(&l, OP_ATTN_PREFILL, 0), &prompt);
    const double kv_b = 4 * (16 + 16) * 32;
    assert_near(prefill.flop, 4 * (2.0 * 4 * (24 + 16) * 165 + 2 * kv_b * 30), 1e-9);
    /* one dense layer, three with experts and a shared one */
    assert_int_equal(find(&l, OP_MLP_UP_PROJ, 0)->repeat, 1);
    assert_int_equal(find(&l, OP_MLP_UP_PROJ, 0)->matrix_params, 2 * 128 * 64);
    assert_int_equal(find(&l, OP_MLP_UP_PROJ, 1)->repeat, 3);
    assert_int_equal(find(&l, OP_MLP_UP_PROJ, 1)->matrix_params, 2 * 32 * 64);
    assert_int_equal(find(&l, OP_MOE_UP_PROJ, 1)->experts, 8);
    assert_int_equal(find(&l, OP_MOE_UP_PROJ, 1)->matrix_params, 2 * 32 * 64);
    assert_int_equal(m.experts, 8);
}

/* Heads and features are divided, the latent vector is not. */
static void shards(void **state)
{
    struct test *t = *state;
    const struct model m = model_of_json(t, latent);
    struct op_list l;
    const struct op_load one = {.tokens = 1, .rows = 1, .seqs = 1, .kv_tokens = 10};
    assert_ok(shard_check(&m, 2, 1, 1, &t->e), t);
    shard_ops(&m, 2, &l);
    const struct op_traffic decode = op_traffic(&m, find(&l, OP_ATTN_DECODE, 0), &one);
    assert_near(decode.flop, 4 * (2.0 * 2 * (40 + 32) * 10), 1e-9);
    assert_near(decode.kv, 4 * 40.0 * 10, 1e-9);
    assert_int_equal(find(&l, OP_MOE_UP_PROJ, 1)->matrix_params, 2 * 16 * 64);
    assert_int_equal(find(&l, OP_ATTN_POST_PROJ, 0)->matrix_params, 64 * 2 * 16);
    assert_int_equal(find(&l, OP_LM_HEAD, 0)->m, 500);
    assert_int_equal(shard_all_reduces(&m), 4 + 4);
    assert_near(shard_kv_bytes(&m, 2, 1, 0), 4 * 40 * 2,
                0); /* every shard holds the latent vector */
    assert_near(shard_kv_bytes(&m, 2, 3, 1), 2 * 40 * 2, 0);
    assert_int_equal(shard_check(&m, 3, 1, 1, &t->e), ST_USAGE);
    assert_string_equal(err_cause(&t->e, 0),
                        "parallel.tp: 3 shards do not divide the 4 heads of test");
}

/* A stage has the rows of its own layers, and all stages have those of the model. */
static void stages(void **state)
{
    struct test *t = *state;
    const struct model m = model_of_json(t, latent);
    struct op_list whole, l;
    assert_ok(shard_check(&m, 1, 3, 1, &t->e), t); /* 1, 2 and 1 layers; the first is dense */
    shard_ops(&m, 1, &whole);
    shard_stage_ops(&m, 1, 3, 0, &l);
    assert_int_equal(find(&l, OP_MLP_UP_PROJ, 0)->repeat, 1);
    for (int i = 0; i < l.n; i++)
        assert_false(op_is_expert(l.ops[i].kind));
    assert_int_equal(shard_stage_expert_layers(&m, 3, 0), 0);
    shard_stage_ops(&m, 1, 3, 1, &l);
    assert_int_equal(find(&l, OP_MOE_UP_PROJ, 1)->repeat, 2);
    assert_int_equal(find(&l, OP_ATTN_DECODE, 0)->repeat, 2);
    assert_int_equal(shard_stage_expert_layers(&m, 3, 1), 2);
    assert_int_equal(shard_first_layer(&m, 3, 2), 3);
    double sum = 0;
    for (int64_t i = 0; i < 3; i++) {
        shard_stage_ops(&m, 1, 3, i, &l);
        sum += sum_of(&m, &l, &load).kv;
    }
    assert_near(sum / sum_of(&m, &whole, &load).kv, 1, 1e-12);
    assert_int_equal(shard_stage_all_reduces(&m, 3, 0) + shard_stage_all_reduces(&m, 3, 1) +
                         shard_stage_all_reduces(&m, 3, 2),
                     shard_all_reduces(&m));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(layers_alike_cost_the_same),
        TEST(latent_attention),
        TEST(shards),
        TEST(stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
