/* What layers of real models cost, against numbers written out from their papers and
 * configurations. */
#include "model/model.h"
#include "model/shard.h"
#include "support/models.h"

static struct model from(struct test *t, const char *json)
{
    const struct model m = model_of_json(t, json);
    assert_ok(model_check_modelled(&m, &t->e), t);
    return m;
}

/* One decode row that sees `kv` tokens, and a prompt of so many behind `before`. */
struct both {
    struct op_load decode, prompt;
};

static struct both loads(const struct model *m, int64_t kv, int64_t before, int64_t tokens)
{
    const struct key_spans spans = model_spans(m);
    struct both b = {.decode = {.tokens = 1, .rows = 1, .seqs = 1},
                     .prompt = {.tokens = tokens, .rows = 1, .n_spans = spans.n}};
    op_load_add_keys(&b.decode, &spans, kv);
    op_load_add_chunk(&b.prompt, &spans, before, tokens);
    return b;
}

/* All rows of one operator. */
static struct op_traffic of(const struct model *m, const struct op_load *load, enum op_kind k)
{
    struct op_list l;
    struct op_traffic sum = {0};
    model_ops(m, &l);
    for (int i = 0; i < l.n; i++) {
        if (l.ops[i].kind != k)
            continue;
        const struct op_traffic x = op_traffic(m, &l.ops[i], load);
        sum.flop += x.flop;
        sum.kv += x.kv;
        sum.others += x.others;
        sum.own_bytes += x.own_bytes;
    }
    return sum;
}

#define ASSERT_SAME(got, want) assert_near((got) / (want), 1, 1e-12)

/* gpt-oss-20b: 24 layers, every other sees 128 tokens; 64 heads of 64, 8 KV heads. */
static void gpt_oss_20b(void **state)
{
    struct test *t = *state;
    const struct model m =
        from(t, "{\"model_type\": \"gpt_oss\", \"vocab_size\": 201088, \"hidden_size\": 2880,"
                " \"intermediate_size\": 2880, \"num_hidden_layers\": 24, \"head_dim\": 64,"
                " \"num_attention_heads\": 64, \"num_key_value_heads\": 8,"
                " \"sliding_window\": 128, \"num_local_experts\": 32,"
                " \"num_experts_per_tok\": 4, \"max_position_embeddings\": 131072}");
    const struct both b = loads(&m, 10000, 0, 4096);
    const struct op_traffic decode = of(&m, &b.decode, OP_ATTN_DECODE);
    ASSERT_SAME(decode.flop, 12.0 * 4 * 64 * 64 * (10000 + 128));
    ASSERT_SAME(decode.kv, 12.0 * 2 * 8 * 64 * (10000 + 128));
    const struct op_traffic prompt = of(&m, &b.prompt, OP_ATTN_PREFILL);
    const double all = 4096.0 * 4097 / 2, window = 128.0 * 129 / 2 + (4096 - 128) * 128.0;
    ASSERT_SAME(prompt.flop, 12.0 * 4 * 64 * 64 * (all + window));
    ASSERT_SAME(prompt.kv, 12.0 * 2 * 8 * 64 * (4096 + 4096));
    /* behind 100,000 tokens a window reads 127 of them and its own */
    const struct both far = loads(&m, 1, 100000, 100);
    ASSERT_SAME(of(&m, &far.prompt, OP_ATTN_PREFILL).kv, 12.0 * 2 * 8 * 64 * (100100 + 127 + 100));
}

/* Gemma 3 27B: 62 layers, every sixth sees all, the others 1024; 32 heads of 128, 16 KV heads. */
static void gemma_3_27b(void **state)
{
    struct test *t = *state;
    const struct model m =
        from(t, "{\"model_type\": \"gemma3_text\", \"vocab_size\": 262208, \"hidden_size\": 5376,"
                " \"intermediate_size\": 21504, \"num_hidden_layers\": 62, \"head_dim\": 128,"
                " \"num_attention_heads\": 32, \"num_key_value_heads\": 16,"
                " \"sliding_window\": 1024, \"sliding_window_pattern\": 6}");
    const struct both b = loads(&m, 32768, 0, 512);
    const struct op_traffic decode = of(&m, &b.decode, OP_ATTN_DECODE);
    ASSERT_SAME(decode.kv, 2.0 * 16 * 128 * (10 * 32768 + 52 * 1024));
    ASSERT_SAME(decode.flop, 4.0 * 32 * 128 * (10 * 32768 + 52 * 1024));
    /* a prompt within the window costs every layer the same */
    ASSERT_SAME(of(&m, &b.prompt, OP_ATTN_PREFILL).flop, 62 * 4.0 * 32 * 128 * 512 * 513 / 2);
}

#define DEEPSEEK_V32                                                                    \
    "{\"model_type\": \"deepseek_v32\", \"vocab_size\": 129280, \"hidden_size\": 7168," \
    " \"intermediate_size\": 18432, \"num_hidden_layers\": 61,"                         \
    " \"num_attention_heads\": 128, \"q_lora_rank\": 1536, \"kv_lora_rank\": 512,"      \
    " \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, \"v_head_dim\": 128,"        \
    " \"index_head_dim\": 128, \"index_n_heads\": 64, \"index_topk\": 2048,"            \
    " \"n_routed_experts\": 256, \"num_experts_per_tok\": 8, \"n_shared_experts\": 1,"  \
    " \"first_k_dense_replace\": 3, \"moe_intermediate_size\": 2048}"

/* DeepSeek V3.2: the index reads a key of 128 bytes and its scale of each token, with 64 heads of
 * 128; 2048 latent vectors of 512 + 64 are attended to, by 128 heads, in prompts as well. */
static void deepseek_v3_2(void **state)
{
    struct test *t = *state;
    const struct model m = from(t, DEEPSEEK_V32);
    const struct both b = loads(&m, 65536, 0, 4096);
    const struct op_traffic index = of(&m, &b.decode, OP_INDEX_DECODE);
    ASSERT_SAME(index.flop, 61.0 * 65536 * (2 * 64 * 128 + 3 * 64 + 1));
    ASSERT_SAME(index.own_bytes, 61.0 * 65536 * (128 + 4 + 8)); /* and a score, twice */
    assert_true(index.kv == 0);
    const struct op_traffic decode = of(&m, &b.decode, OP_ATTN_DECODE);
    ASSERT_SAME(decode.flop, 61.0 * 2 * 128 * (576 + 512) * 2048);
    ASSERT_SAME(decode.kv, 61.0 * 576 * 2048);
    const double pairs = 2048.0 * 2049 / 2 + 2048.0 * 2048;
    const struct op_traffic prompt = of(&m, &b.prompt, OP_ATTN_PREFILL);
    ASSERT_SAME(prompt.flop, 61.0 * 2 * 128 * (576 + 512) * pairs);
    ASSERT_SAME(prompt.kv, 61.0 * 576 * 4096);
    ASSERT_SAME(of(&m, &b.prompt, OP_INDEX_PREFILL).flop,
                61.0 * 4096 * 4097 / 2 * (2 * 64 * 128 + 3 * 64 + 1));
    /* the index is not cut by tensor parallelism, heads are */
    struct op_list l;
    const struct model shard = shard_model(&m, 8);
    shard_ops(&m, 8, &l);
    for (int i = 0; i < l.n; i++) {
        const struct op_traffic x = op_traffic(&shard, &l.ops[i], &b.decode);
        if (l.ops[i].kind == OP_INDEX_DECODE)
            ASSERT_SAME(x.flop, index.flop);
        if (l.ops[i].kind == OP_ATTN_DECODE)
            ASSERT_SAME(x.flop, decode.flop / 8);
    }
}

/* Qwen3-Next 80B-A3B: 48 layers, three of four gated delta nets of 32 heads of [128, 128], 16 heads
 * of keys, a convolution of 4 taps over 8192 channels; the fourth 16 heads of 256, 2 KV heads. */
static void qwen3_next_80b(void **state)
{
    struct test *t = *state;
    const struct model m =
        from(t, "{\"model_type\": \"qwen3_next\", \"vocab_size\": 151936, \"hidden_size\": 2048,"
                " \"intermediate_size\": 5120, \"num_hidden_layers\": 48, \"head_dim\": 256,"
                " \"num_attention_heads\": 16, \"num_key_value_heads\": 2,"
                " \"linear_num_key_heads\": 16, \"linear_num_value_heads\": 32,"
                " \"linear_key_head_dim\": 128, \"linear_value_head_dim\": 128,"
                " \"linear_conv_kernel_dim\": 4, \"full_attention_interval\": 4,"
                " \"num_experts\": 512, \"num_experts_per_tok\": 10,"
                " \"moe_intermediate_size\": 512, \"shared_expert_intermediate_size\": 512,"
                " \"decoder_sparse_step\": 1}");
    const struct both b = loads(&m, 5000, 0, 1000);
    const struct op_traffic state_ = of(&m, &b.decode, OP_STATE_DECODE);
    const double channels = 2 * 16 * 128 + 32 * 128, outputs = 32 * 128;
    /* read and written: 2 MiB of float32, and 3 inputs of each channel */
    ASSERT_SAME(state_.own_bytes, 36 * 2 * 32 * 128 * 128 * 4.0);
    ASSERT_SAME(state_.flop,
                36 * (32 * (7.0 * 128 * 128 + 2 * 128) + channels * (2 * 4 + 4) + 9 * outputs));
    const double moved = 2 * channels + (channels + 2 * 32 + outputs) + 3 * outputs;
    ASSERT_SAME(state_.others, 36 * (2 * 3 * channels + moved));
    /* prompts, 64 tokens at once: 6 products with states, 5 inside, a triangular solve */
    const double inside = 64 * (3 * 128 + 2 * 128) + 64.0 * 64 / 3;
    ASSERT_SAME(of(&m, &b.prompt, OP_STATE_PREFILL).flop,
                36.0 * 1000 *
                    (32 * (6.0 * 128 * 128 + inside) + channels * (2 * 4 + 4) + 9 * outputs));
    ASSERT_SAME(of(&m, &b.decode, OP_ATTN_DECODE).kv, 12.0 * 2 * 2 * 256 * 5000);
}

/* Kimi Linear 48B-A3B: 27 layers, 20 with 32 heads of [128, 128] and 7 of latent attention. The
 * report counts 6 d^2 + 3 C d + C^2 a head and token for C = 64. */
static void kimi_linear_48b(void **state)
{
    struct test *t = *state;
    const struct model m =
        from(t, "{\"model_type\": \"kimi_linear\", \"vocab_size\": 163840, \"hidden_size\": 2304,"
                " \"intermediate_size\": 9216, \"num_hidden_layers\": 27,"
                " \"num_attention_heads\": 32, \"num_key_value_heads\": 32,"
                " \"kv_lora_rank\": 512, \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64,"
                " \"v_head_dim\": 128, \"mla_use_nope\": true,"
                " \"linear_attn_config\": {\"full_attn_layers\": [4, 8, 12, 16, 20, 24, 27],"
                "  \"kda_layers\": [1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15, 17, 18, 19, 21, 22,"
                "   23, 25, 26], \"head_dim\": 128, \"num_heads\": 32,"
                "  \"short_conv_kernel_size\": 4},"
                " \"num_experts\": 256, \"num_experts_per_token\": 8,"
                " \"moe_intermediate_size\": 1024, \"num_shared_experts\": 1,"
                " \"first_k_dense_replace\": 1, \"moe_layer_freq\": 1}");
    const struct both b = loads(&m, 1000000, 0, 64);
    ASSERT_SAME(of(&m, &b.decode, OP_STATE_DECODE).own_bytes, 20 * 2 * 32 * 128 * 128 * 4.0);
    ASSERT_SAME(of(&m, &b.decode, OP_ATTN_DECODE).kv, 7 * 576.0 * 1000000);
    const double around = 3 * 4096 * (2 * 4 + 4) + 9 * 4096.0;
    const double head = (of(&m, &b.prompt, OP_STATE_PREFILL).flop / 20 / 64 - around) / 32;
    const double report = 6.0 * 128 * 128 + 3 * 64.0 * 128 + 64.0 * 64;
    assert_near(head / report, 1, 0.11);
    assert_true(head >= report);
}

/* Nemotron-H 56B: 54 layers of Mamba 2 with 256 heads of [64, 256], 8 groups, 128 tokens at once;
 * 54 MLPs without attention, 10 attentions without an MLP. */
static void nemotron_h_56b(void **state)
{
    struct test *t = *state;
    const struct model m = from(
        t, "{\"model_type\": \"nemotron_h\", \"vocab_size\": 131072, \"hidden_size\": 8192,"
           " \"intermediate_size\": 32768, \"num_hidden_layers\": 118,"
           " \"num_attention_heads\": 64, \"num_key_value_heads\": 8, \"attention_head_dim\": 128,"
           " \"mamba_num_heads\": 256, \"mamba_head_dim\": 64, \"n_groups\": 8,"
           " \"ssm_state_size\": 256, \"conv_kernel\": 4, \"chunk_size\": 128,"
           " \"hybrid_override_pattern\": \"M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-"
           "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-\"}");
    const struct both b = loads(&m, 8000, 0, 1000), twice = loads(&m, 16000, 8000, 1000);
    const double inner = 256 * 64, channels = inner + 2 * 8 * 256;
    const double around = channels * (2 * 4 + 4) + 9 * inner;
    ASSERT_SAME(of(&m, &b.decode, OP_STATE_DECODE).flop,
                54 * (256 * (5.0 * 256 * 64 + 2 * 64) + around));
    ASSERT_SAME(of(&m, &b.prompt, OP_STATE_PREFILL).flop,
                54.0 * 1000 *
                    (256 * (4.0 * 256 * 64 + 128 * 64 + 2 * 64) + 8 * 128 * 256 + around));
    const double moved = 2 * channels + (2 * 8 * 256 + 2 * inner + 256) + 3 * inner;
    ASSERT_SAME(of(&m, &b.decode, OP_STATE_DECODE).others, 54 * (2 * 3 * channels + moved));
    ASSERT_SAME(of(&m, &b.decode, OP_STATE_DECODE).own_bytes, 54 * 2 * 256.0 * 64 * 256 * 4);
    ASSERT_SAME(of(&m, &b.decode, OP_ATTN_DECODE).kv, 10 * 2 * 8 * 128 * 8000.0);
    /* whatever came before */
    ASSERT_SAME(of(&m, &twice.decode, OP_STATE_DECODE).flop,
                of(&m, &b.decode, OP_STATE_DECODE).flop);
    ASSERT_SAME(of(&m, &twice.prompt, OP_STATE_PREFILL).flop,
                of(&m, &b.prompt, OP_STATE_PREFILL).flop);
    /* layers without an MLP or an attention have no rows of it */
    struct op_list l;
    int mlps = 0, projections = 0;
    model_ops(&m, &l);
    for (int i = 0; i < l.n; i++) {
        mlps += l.ops[i].kind == OP_MLP_UP_PROJ ? l.ops[i].repeat : 0;
        projections += l.ops[i].kind == OP_ATTN_PRE_PROJ ? l.ops[i].repeat : 0;
    }
    assert_int_equal(mlps, 54);
    assert_int_equal(projections, 64);
}

/* A piece of DeepSeek V4 Flash: layers with entries of 4 tokens, of which 512 are chosen, and of
 * 128, beside the last 128 tokens; 64 heads of 512, whose keys are values too. */
static void deepseek_v4_flash(void **state)
{
    struct test *t = *state;
    const struct model m =
        from(t, "{\"model_type\": \"deepseek_v4\", \"vocab_size\": 129280, \"hidden_size\": 4096,"
                " \"num_hidden_layers\": 4, \"num_attention_heads\": 64, \"head_dim\": 512,"
                " \"q_lora_rank\": 1024, \"o_lora_rank\": 1024, \"o_groups\": 8,"
                " \"sliding_window\": 128, \"index_head_dim\": 128, \"index_n_heads\": 64,"
                " \"index_topk\": 512, \"compress_ratios\": [0, 4, 128, 4], \"hc_mult\": 4,"
                " \"moe_intermediate_size\": 2048, \"n_shared_experts\": 1,"
                " \"n_routed_experts\": 256, \"num_experts_per_tok\": 6}");
    const struct both b = loads(&m, 100000, 0, 1);
    const double keys = 4 * 128 + 2 * 512 + 100000 / 128; /* entries that are whole */
    const struct op_traffic decode = of(&m, &b.decode, OP_ATTN_DECODE);
    ASSERT_SAME(decode.kv, 512 * keys);
    ASSERT_SAME(decode.flop, 2 * 64 * (512 + 512) * keys);
    const struct op_traffic index = of(&m, &b.decode, OP_INDEX_DECODE);
    ASSERT_SAME(index.own_bytes, 2 * 25000.0 * (128 + 4 + 8));
    /* a token leaves its own key, a quarter or a 128th of an entry, and a quarter of the index's */
    const struct op_traffic save = of(&m, &b.decode, OP_KV_SAVE);
    ASSERT_SAME(save.kv, 512 * (4 + 2 / 4.0 + 1 / 128.0));
    ASSERT_SAME(save.own_bytes, 2 * 132 / 4.0);
    /* 4 lanes around each of the two parts of a layer */
    ASSERT_SAME(of(&m, &b.decode, OP_ADD).others, 4 * 2 * (3 * 4 + 2) * 4096.0);
}

/* Gemma 4's last layers read an earlier one's keys: no keys of their own, made, normed or saved. */
static void shared_keys(void **state)
{
    struct test *t = *state;
#define GEMMA_4(shared)                                                                    \
    "{\"model_type\": \"gemma4_text\", \"vocab_size\": 1000, \"hidden_size\": 64,"         \
    " \"intermediate_size\": 128, \"num_hidden_layers\": 4, \"num_attention_heads\": 4,"   \
    " \"num_key_value_heads\": 2, \"head_dim\": 16, \"global_head_dim\": 32,"              \
    " \"sliding_window\": 8, \"num_kv_shared_layers\": " shared ","                        \
    " \"layer_types\": [\"sliding_attention\", \"full_attention\", \"sliding_attention\"," \
    " \"full_attention\"]}"
    const struct model own = from(t, GEMMA_4("0")), shared = from(t, GEMMA_4("2"));
    const struct both b = loads(&own, 100, 0, 50);
    ASSERT_SAME(of(&shared, &b.decode, OP_ATTN_DECODE).kv, of(&own, &b.decode, OP_ATTN_DECODE).kv);
    ASSERT_SAME(of(&shared, &b.decode, OP_ATTN_DECODE).kv,
                2.0 * (2 * 2 * 16 * 8 + 2 * 2 * 32 * 100));
    ASSERT_SAME(of(&shared, &b.decode, OP_KV_SAVE).kv, of(&own, &b.decode, OP_KV_SAVE).kv / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(gpt_oss_20b),     TEST(gemma_3_27b),    TEST(deepseek_v3_2),     TEST(qwen3_next_80b),
        TEST(kimi_linear_48b), TEST(nemotron_h_56b), TEST(deepseek_v4_flash), TEST(shared_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
