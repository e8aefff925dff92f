#include "model/shard.h"

#include <string.h>

#include "base/fs.h"
#include "support/support.h"

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

/* 12 query heads over 6 KV heads. */
static const struct model decoder = {.name = "decoder",
                                     .family = MODEL_QWEN3,
                                     .layers = 4,
                                     .hidden = 48,
                                     .heads = 12,
                                     .kv_heads = 6,
                                     .head_dim = 8,
                                     .intermediate = 24,
                                     .vocab = 101,
                                     .qk_norm = true,
                                     .attn_bias = true,
                                     .mlp_bias = true};

static const struct model bloom = {.name = "bloom",
                                   .family = MODEL_BLOOM,
                                   .norm = NORM_LAYER,
                                   .act = ACT_GELU_TANH,
                                   .position = POSITION_ALIBI,
                                   .layers = 2,
                                   .hidden = 32,
                                   .heads = 4,
                                   .kv_heads = 4,
                                   .head_dim = 8,
                                   .intermediate = 128,
                                   .vocab = 100,
                                   .attn_bias = true,
                                   .mlp_bias = true,
                                   .emb_norm = true,
                                   .tied = true};

static const struct model experts = {.name = "experts",
                                     .family = MODEL_MIXTRAL,
                                     .layers = 4,
                                     .hidden = 16,
                                     .heads = 4,
                                     .kv_heads = 2,
                                     .head_dim = 4,
                                     .intermediate = 20,
                                     .vocab = 50,
                                     .experts = 8,
                                     .experts_per_token = 2};

static const struct op *find(const struct op_list *l, enum op_kind k)
{
    for (int i = 0; i < l->n; i++)
        if (l->ops[i].kind == k)
            return &l->ops[i];
    fail_msg("operator %s is not in the list", op_name(k));
    return NULL;
}

static void shapes_of_a_shard(void **state)
{
    (void)state;
    const struct {
        enum op_kind kind;
        int64_t m, k;
    } want[] = {{OP_ATTN_PRE_PROJ, (3 + 2 * 2) * 8, 48},
                {OP_ATTN_POST_PROJ, 48, 3 * 8},
                {OP_MLP_UP_PROJ, 2 * 6, 48},
                {OP_MLP_DOWN_PROJ, 48, 6},
                {OP_LM_HEAD, 26, 48}}; /* 101 / 4, rounded up; 6 / 4 KV heads likewise */
    struct op_list l, whole, one;
    shard_ops(&decoder, 4, &l);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        assert_int_equal(find(&l, want[i].kind)->m, want[i].m);
        assert_int_equal(find(&l, want[i].kind)->k, want[i].k);
    }
    assert_int_equal(find(&l, OP_EMB)->weight_params, 101 * 48);
    assert_int_equal(find(&l, OP_LM_HEAD)->weight_params, 26 * 48);
    assert_int_equal(find(&l, OP_MLP_UP_PROJ)->repeat, 4);

    model_ops(&experts, &whole); /* one shard holds all of it */
    shard_ops(&experts, 1, &one);
    assert_int_equal(whole.n, one.n);
    for (int i = 0; i < one.n; i++)
        assert_memory_equal(&one.ops[i], &whole.ops[i], sizeof one.ops[i]);

    shard_ops(&experts, 2, &l);
    assert_int_equal(find(&l, OP_MOE_UP_PROJ)->m, 20);
    assert_int_equal(find(&l, OP_MOE_UP_PROJ)->experts, 8);
    assert_int_equal(find(&l, OP_MOE_ROUTER)->m, 8);
}

/* Of two shards each does half the work of a projection, and reads half the keys. */
static void costs_of_a_shard(void **state)
{
    (void)state;
    static const enum op_kind cut[] = {OP_ATTN_PRE_PROJ, OP_ATTN_DECODE, OP_ATTN_POST_PROJ,
                                       OP_MLP_UP_PROJ,   OP_MLP_ACT,     OP_MLP_DOWN_PROJ};
    const struct op_load load = {.tokens = 3, .rows = 3, .seqs = 3, .kv_tokens = 90};
    struct model m = decoder;
    m.attn_bias = m.mlp_bias = false; /* those of the projections back are not cut */
    const struct model shard = shard_model(&m, 2);
    struct op_list all, half;
    model_ops(&m, &all);
    shard_ops(&m, 2, &half);
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++)
        assert_near(op_cost(&shard, find(&half, cut[i]), &load, 2).flop * 2,
                    op_cost(&m, find(&all, cut[i]), &load, 2).flop, 0);
    assert_near(op_cost(&shard, find(&half, OP_INPUT_NORM), &load, 2).flop,
                op_cost(&m, find(&all, OP_INPUT_NORM), &load, 2).flop, 0);
    assert_int_equal(model_kv_bytes_per_token(&shard, 2) * 2, model_kv_bytes_per_token(&m, 2));
}

static void all_reduces(void **state)
{
    (void)state;
    assert_int_equal(shard_all_reduces(&decoder), 8);
    assert_int_equal(shard_all_reduces(&bloom), 4);
    assert_int_equal(shard_all_reduces(&experts), 8);
    assert_true(shard_is_partial(OP_MOE_COMBINE));
    assert_false(shard_is_partial(OP_MOE_DOWN_PROJ));
    assert_int_equal(shard_groups(2, 0), 1);
    assert_int_equal(shard_groups(2, 2), 1);
    assert_int_equal(shard_groups(2, 8), 4);
    assert_int_equal(shard_devices(4, 1), 4);
    assert_int_equal(shard_devices(2, 8), 8);
}

/* Every element is held by one shard; those that all hold by all, and KV heads by tp / kv_heads. */
static void slices(const struct model *m, int64_t tp)
{
    struct err e = {0};
    struct weight_place *places;
    struct op_list ops;
    size_t n;
    assert_ok(shard_check_weights(m, tp, &e), &e);
    const struct tensor *t = model_tensors(a, m, &places, &n);
    const struct model shard = shard_model(m, tp);
    shard_ops(m, tp, &ops);
    for (size_t i = 0; i < n; i++) {
        const int64_t rows = t[i].dims[0], columns = t[i].n_dims == 2 ? t[i].dims[1] : 1;
        const struct op *op = find(&ops, places[i].op);
        int *held = arena_array(a, int, rows *columns);
        for (int64_t rank = 0; rank < tp; rank++) {
            const struct shard_slice s = shard_tensor(m, tp, rank, &t[i], &places[i]);
            assert_true(s.row >= 0 && s.row + s.rows <= rows);
            assert_true(s.column >= 0 && s.column + s.columns <= columns);
            for (int64_t r = s.row; r < s.row + s.rows; r++)
                for (int64_t c = s.column; c < s.column + s.columns; c++)
                    held[r * columns + c]++;
            if (!op->m)
                continue;
            assert_true(places[i].bias || s.columns == op->k);
            for (int64_t r = 0; r < s.rows; r++)
                assert_true(weight_row(&shard, &places[i], r) < op->m);
        }
        for (int64_t k = 1; k < rows * columns; k++)
            assert_int_equal(held[k], held[0]);
        const bool kv = places[i].part == WEIGHT_K || places[i].part == WEIGHT_V;
        const bool out = places[i].op == OP_ATTN_PRE_PROJ || places[i].op == OP_MLP_UP_PROJ ||
                         places[i].op == OP_LM_HEAD;
        const bool in = places[i].op == OP_ATTN_POST_PROJ || places[i].op == OP_MLP_DOWN_PROJ;
        const int64_t copies = !out && !(in && !places[i].bias) ? tp
                               : kv && out && tp > m->kv_heads  ? tp / m->kv_heads
                                                                : 1;
        assert_int_equal(held[0], copies);
    }
}

static void slices_of_tensors(void **state)
{
    (void)state;
    slices(&decoder, 1);
    slices(&decoder, 2);
    slices(&decoder, 3);
    slices(&decoder, 6);
    slices(&decoder, 12); /* each KV head twice */
    slices(&bloom, 2);
    slices(&bloom, 4);
}

/* Head 3 of 4, as BLOOM stores it, and KV head 1 of 6 on the second of three shards. */
static void slices_by_hand(void **state)
{
    (void)state;
    const struct tensor qkv = {.n_dims = 2, .dims = {96, 32}}, k = {.n_dims = 1, .dims = {48}};
    const struct tensor down = {.n_dims = 2, .dims = {48, 24}};
    struct shard_slice s = shard_tensor(
        &bloom, 4, 3, &qkv, &(struct weight_place){.op = OP_ATTN_PRE_PROJ, .part = WEIGHT_QKV});
    assert_int_equal(s.row, 72);
    assert_int_equal(s.rows, 24);
    assert_int_equal(s.columns, 32);
    s = shard_tensor(
        &decoder, 3, 1, &k,
        &(struct weight_place){.op = OP_ATTN_PRE_PROJ, .part = WEIGHT_K, .bias = true});
    assert_int_equal(s.row, 16);
    assert_int_equal(s.rows, 16);
    s = shard_tensor(&decoder, 3, 2, &down, &(struct weight_place){.op = OP_MLP_DOWN_PROJ});
    assert_int_equal(s.rows, 48);
    assert_int_equal(s.column, 16);
    assert_int_equal(s.columns, 8);
}

/* What vLLM 0.33's get_pp_indices deals. */
static void layers_are_dealt_to_stages(void **state)
{
    static const struct {
        int64_t layers, pp, dealt[8];
    } cases[] = {
        {32, 4, {8, 8, 8, 8}},
        {5, 2, {3, 2}},
        {10, 3, {3, 4, 3}},
        {11, 3, {4, 4, 3}},
        {22, 4, {5, 6, 6, 5}},
        {23, 4, {6, 6, 6, 5}},
        {61, 8, {7, 7, 8, 8, 8, 8, 8, 7}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model m = decoder;
        struct err e = {0};
        m.layers = cases[i].layers;
        assert_ok(shard_check(&m, 1, cases[i].pp, 1, &e), &e);
        int64_t most = 0;
        for (int64_t k = 0; k < cases[i].pp; k++) {
            assert_int_equal(shard_stage_layers(&m, cases[i].pp, k), cases[i].dealt[k]);
            most = cases[i].dealt[k] > most ? cases[i].dealt[k] : most;
        }
        assert_int_equal(shard_most_layers(&m, cases[i].pp), most);
    }
}

static void refused(const struct model *m, int64_t tp, int64_t pp, int64_t ep, const char *text)
{
    struct err e = {0};
    assert_int_equal(shard_check(m, tp, pp, ep, &e), ST_USAGE);
    assert_cause(&e, text);
}

static void what_does_not_divide(void **state)
{
    (void)state;
    struct err e = {0};
    refused(&decoder, 1, 5, 0, "parallel.pp: 5 stages for the 4 layers of decoder");
    refused(&decoder, 5, 1, 0, "parallel.tp: 5 shards do not divide the 12 heads of decoder");
    refused(&decoder, 2, 1, 2, "parallel.ep: the model has no experts");
    refused(&experts, 2, 1, 3,
            "parallel.ep: 3 devices are no multiple of parallel.tp=2 that divides the 8 experts of "
            "experts");
    assert_ok(shard_check(&experts, 2, 2, 8, &e), &e);
    assert_int_equal(shard_check_weights(&decoder, 4, &e), ST_USAGE);
    assert_cause(&e, "parallel.tp: 6 KV heads of decoder cannot be shared evenly by 4 shards");
    struct model odd = bloom;
    odd.intermediate = 130;
    e = (struct err){0};
    assert_int_equal(shard_check_weights(&odd, 4, &e), ST_USAGE);
    assert_cause(&e, "parallel.tp: 4 shards do not divide the 130 features of the MLP of bloom");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_of_a_shard),
        cmocka_unit_test(costs_of_a_shard),
        cmocka_unit_test(all_reduces),
        cmocka_unit_test(slices_of_tensors),
        cmocka_unit_test(slices_by_hand),
        cmocka_unit_test(what_does_not_divide),
        cmocka_unit_test(layers_are_dealt_to_stages),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
