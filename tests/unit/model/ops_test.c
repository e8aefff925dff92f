#include "model/model.h"

#include "support/support.h"

/* Sizes that are all different, so that a swapped one shows. */
static const struct model qwen = {.family = MODEL_QWEN3,
                                  .norm = NORM_RMS,
                                  .act = ACT_SILU_GATED,
                                  .position = POSITION_ROPE,
                                  .layers = 3,
                                  .hidden = 10,
                                  .heads = 6,
                                  .kv_heads = 2,
                                  .head_dim = 4,
                                  .intermediate = 17,
                                  .vocab = 101,
                                  .qk_norm = true,
                                  .tied = true};
static const struct model bloom = {.family = MODEL_BLOOM,
                                   .norm = NORM_LAYER,
                                   .act = ACT_GELU_TANH,
                                   .position = POSITION_ALIBI,
                                   .layers = 2,
                                   .hidden = 8,
                                   .heads = 2,
                                   .kv_heads = 2,
                                   .head_dim = 4,
                                   .intermediate = 32,
                                   .vocab = 50,
                                   .attn_bias = true,
                                   .mlp_bias = true,
                                   .emb_norm = true,
                                   .tied = true};

static struct op find(const struct model *m, enum op_kind k)
{
    struct op_list l;
    model_ops(m, &l);
    for (int i = 0; i < l.n; i++)
        if (l.ops[i].kind == k)
            return l.ops[i];
    fail_msg("operator %s is not in the list", op_name(k));
    return l.ops[0];
}

static struct op_cost cost(const struct model *m, enum op_kind k, const struct op_load *load)
{
    struct op op = find(m, k);
    return op_cost(m, &op, load, 2);
}

#define check_cost(m, kind, load, want_flop, want_bytes) \
    do {                                                 \
        struct op_cost c_ = cost(m, kind, load);         \
        assert_near(c_.flop, want_flop, 0);              \
        assert_near(c_.bytes, want_bytes, 0);            \
    } while (0)

static void names(void **state)
{
    (void)state;
    for (int k = 0; k < OP_KINDS; k++) {
        enum op_kind back;
        assert_true(op_kind_from_name(sv_of(op_name((enum op_kind)k)), &back));
        assert_int_equal(back, k);
    }
    enum op_kind none;
    assert_false(op_kind_from_name(SV("attn"), &none));
    assert_string_equal(op_name(OP_KV_SAVE), "attn_kv_cache_save");
}

static void lists(void **state)
{
    (void)state;
    struct op_list q, b;
    model_ops(&qwen, &q);
    model_ops(&bloom, &b);
    assert_int_equal(q.n, OP_KINDS - 1 - 12); /* all but emb_norm, experts, norms of outputs, gap,
                                                 states and indices */
    assert_int_equal(b.n, OP_KINDS - 2 - 12); /* and all but q/k norm and rope */
    struct op_list more = q;
    op_list_add_gap(&more);
    assert_int_equal(more.n, q.n + 1);
    assert_true(more.ops[q.n].kind == OP_GAP && more.ops[q.n].repeat == 1);
    for (int i = 1; i < q.n; i++)
        assert_true(q.ops[i].kind > q.ops[i - 1].kind);
    assert_int_equal(find(&qwen, OP_EMB).repeat, 1);
    assert_int_equal(find(&qwen, OP_ADD).repeat, 3);
    assert_int_equal(find(&qwen, OP_SAMPLE).repeat, 1);
    struct op up = find(&qwen, OP_MLP_UP_PROJ), up_b = find(&bloom, OP_MLP_UP_PROJ);
    assert_int_equal(up.m, 34);
    assert_int_equal(up.k, 10);
    assert_int_equal(up_b.m, 32);
    assert_int_equal(up_b.weight_params, 32 * 8 + 32);
}

static void check_steps(const struct op_steps *s, const enum op_kind *want, int n)
{
    assert_int_equal(s->n, n);
    for (int i = 0; i < n; i++)
        assert_int_equal(s->kinds[i], want[i]);
}

#define STEPS(s, ...)                             \
    check_steps(s, (enum op_kind[]){__VA_ARGS__}, \
                sizeof((enum op_kind[]){__VA_ARGS__}) / sizeof(int))

static void steps(void **state)
{
    (void)state;
    struct model_steps q, b;
    model_steps(&qwen, &q);
    model_steps(&bloom, &b);
    STEPS(&q.before, OP_EMB);
    STEPS(&q.layers[0], OP_INPUT_NORM, OP_ATTN_PRE_PROJ, OP_QK_NORM, OP_ROPE, OP_KV_SAVE,
          OP_ATTN_PREFILL, OP_ATTN_DECODE, OP_ATTN_POST_PROJ, OP_ADD, OP_POST_ATTN_NORM,
          OP_MLP_UP_PROJ, OP_MLP_ACT, OP_MLP_DOWN_PROJ, OP_ADD);
    STEPS(&q.after, OP_FINAL_NORM, OP_LM_HEAD, OP_SAMPLE);
    STEPS(&b.before, OP_EMB, OP_EMB_NORM);
    assert_int_equal(b.layers[0].n, q.layers[0].n - 2); /* neither q/k norm nor rope */
    struct op_list l;
    model_ops(&bloom, &l);
    for (int i = 0; i < l.n; i++)
        assert_int_equal(l.ops[i].repeat == 1, l.ops[i].where != OP_IN_LAYER);
}

/* Worked by hand: T = 5, Q = 24, K = 8, 3 layers, 2 bytes an element. */
static void token_wise(void **state)
{
    (void)state;
    const struct op_load l = {.tokens = 5, .rows = 2};
    check_cost(&qwen, OP_EMB, &l, 0, 5 * 4 + 2 * 5 * 10 * 2);
    check_cost(&qwen, OP_INPUT_NORM, &l, 3 * 4 * 50, 3 * 2 * (2 * 50 + 10));
    check_cost(&qwen, OP_ATTN_PRE_PROJ, &l, 3 * 2 * 5 * 40 * 10, 3 * 2 * (400 + 50 + 200));
    check_cost(&qwen, OP_QK_NORM, &l, 3 * 4 * 5 * 32, 3 * 2 * (2 * 5 * 32 + 8));
    check_cost(&qwen, OP_ROPE, &l, 3 * 3 * 5 * 32, 3 * 2 * 2 * 5 * 32);
    check_cost(&qwen, OP_KV_SAVE, &l, 0, 3 * 2 * 4 * 5 * 8);
    check_cost(&qwen, OP_ATTN_POST_PROJ, &l, 3 * 2 * 5 * 10 * 24, 3 * 2 * (240 + 120 + 50));
    check_cost(&qwen, OP_MLP_UP_PROJ, &l, 3 * 2 * 5 * 34 * 10, 3 * 2 * (340 + 50 + 170));
    check_cost(&qwen, OP_MLP_ACT, &l, 3 * 5 * 5 * 17, 3 * 2 * 3 * 5 * 17);
    check_cost(&qwen, OP_MLP_DOWN_PROJ, &l, 3 * 2 * 5 * 10 * 17, 3 * 2 * (170 + 85 + 50));
    check_cost(&qwen, OP_ADD, &l, 3 * 2 * 50, 3 * 2 * 6 * 50);
    check_cost(&qwen, OP_FINAL_NORM, &l, 4 * 20, 2 * (2 * 20 + 10));
    check_cost(&qwen, OP_LM_HEAD, &l, 2 * 2 * 101 * 10, 2 * (1010 + 20 + 202));
    check_cost(&qwen, OP_SAMPLE, &l, 202, 2 * 202 + 4 * 2);
    check_cost(&bloom, OP_EMB_NORM, &l, 7 * 40, 2 * (2 * 40 + 16));
    check_cost(&bloom, OP_ATTN_PRE_PROJ, &l, 2 * (2 * 5 * 24 * 8 + 5 * 24),
               2 * 2 * (24 * 8 + 24 + 40 + 120));
    check_cost(&bloom, OP_MLP_ACT, &l, 2 * 9 * 5 * 32, 2 * 2 * 2 * 5 * 32);
}

/* One mixed batch. Chunks of 3 after 4 cached tokens and of 2 after none: pairs (5 + 6 + 7) + (1 +
 * 2) = 21, keys read 7 + 2. Two decode rows that see 6 and 9 keys. */
static void attention(void **state)
{
    (void)state;
    const struct op_load l = {.tokens = 3 + 2 + 2,
                              .rows = 4,
                              .seqs = 2,
                              .kv_tokens = 6 + 9,
                              .kv_tokens_prefill = 3 * 4 + 2 * 0,
                              .chunk_sq = 3 * 4 / 2 + 2 * 3 / 2,
                              .kv_read_tokens = 7 + 2};
    check_cost(&qwen, OP_ATTN_PREFILL, &l, 3 * 4 * 24 * 21, 3 * 2 * (2 * 5 * 24 + 2 * 8 * 9));
    check_cost(&qwen, OP_ATTN_DECODE, &l, 3 * 4 * 24 * 15, 3 * 2 * (2 * 2 * 24 + 2 * 8 * 15));
}

/* 4 experts, 2 per token. One token hits 2 of them, two tokens 4 (1 - 1/4) = 3. By hand for T = 2,
 * H = 10, I = 17, two layers fewer: T X = 4. */
static void experts(void **state)
{
    (void)state;
    struct model m = qwen;
    m.family = MODEL_QWEN3_MOE;
    m.experts = 4;
    m.experts_per_token = 2;
    assert_near(model_experts_hit(&m, 0), 0, 0);
    assert_near(model_experts_hit(&m, 1), 2, 1e-15);
    assert_near(model_experts_hit(&m, 2), 3, 1e-15);
    assert_near(model_experts_hit(&m, 1000), 4, 1e-12);
    struct op up = find(&m, OP_MOE_UP_PROJ), router = find(&m, OP_MOE_ROUTER);
    assert_int_equal(up.experts, 4);
    assert_int_equal(up.m, 34);
    assert_int_equal(up.weight_params, 4 * 34 * 10);
    assert_int_equal(router.experts, 0);
    assert_int_equal(router.m, 4);
    const struct op_load l = {.tokens = 2, .rows = 2};
    check_cost(&m, OP_MOE_ROUTER, &l, 3 * (2 * 2 * 4 * 10 + 4 * 2 * 4), 3 * 2 * (40 + 2 * 14));
    check_cost(&m, OP_MOE_UP_PROJ, &l, 3 * 2 * 4 * 34 * 10, 3 * 2 * (3 * 340 + 4 * 44));
    check_cost(&m, OP_MOE_ACT, &l, 3 * 5 * 4 * 17, 3 * 2 * 3 * 4 * 17);
    check_cost(&m, OP_MOE_DOWN_PROJ, &l, 3 * 2 * 4 * 10 * 17, 3 * 2 * (3 * 170 + 4 * 27));
    check_cost(&m, OP_MOE_COMBINE, &l, 3 * 2 * 4 * 10, 3 * 2 * (40 + 20 + 4));
    int64_t dense = model_params(&qwen), one = 3 * 17 * 10; /* weights of one expert */
    assert_int_equal(model_params(&m), dense + 3 * (3 * one + 40));
    assert_true(op_is_expert(OP_MOE_ACT) && !op_is_expert(OP_MOE_ROUTER));
}

/* An operator that a batch does not run costs nothing, weights included. */
static void idle(void **state)
{
    (void)state;
    const struct op_load none = {.tokens = 5};
    check_cost(&qwen, OP_LM_HEAD, &none, 0, 0);
    check_cost(&qwen, OP_ATTN_DECODE, &none, 0, 0);
    check_cost(&qwen, OP_ATTN_PREFILL, &none, 0, 0);
}

/* The GEMMs of a forward are 2 FLOPs per weight and token: the rule of thumb holds exactly. */
static void two_flops_per_weight(void **state)
{
    (void)state;
    const struct op_load l = {.tokens = 7, .rows = 7};
    struct op_list ops;
    double flop = 0, weights = 0;
    model_ops(&qwen, &ops);
    for (int i = 0; i < ops.n; i++) {
        const struct op *op = &ops.ops[i];
        if (op->m == 0)
            continue;
        flop += op_cost(&qwen, op, &l, 4).flop;
        weights += (double)(op->repeat * op->m * op->k);
    }
    assert_near(flop, 2 * 7 * weights, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),     cmocka_unit_test(lists),
        cmocka_unit_test(steps),     cmocka_unit_test(token_wise),
        cmocka_unit_test(attention), cmocka_unit_test(experts),
        cmocka_unit_test(idle),      cmocka_unit_test(two_flops_per_weight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
