#include "profile/read/iteration.h"

#include <math.h>

#include "model/shard.h"
#include "support/support.h"

static const struct model llama = {.name = "llama",
                                   .family = MODEL_LLAMA,
                                   .norm = NORM_RMS,
                                   .act = ACT_SILU_GATED,
                                   .position = POSITION_ROPE,
                                   .layers = 4,
                                   .hidden = 1024,
                                   .heads = 16,
                                   .kv_heads = 4,
                                   .head_dim = 64,
                                   .intermediate = 4096,
                                   .vocab = 32000};

static struct model mixtral(void)
{
    struct model m = llama;
    m.experts = 8;
    m.experts_per_token = 2;
    return m;
}

static const struct iteration_hardware gpu = {
    .dram_bytes_per_s = 1e12,
    .flop_per_s = {[PRECISION_BF16] = 1e14, [PRECISION_FP8] = 2e14},
    .links.link_bytes_per_s = 1e11};

/* 3 decode rows with 300 keys, and chunks of 20 tokens after 100 and of 7 after 0, one the last. */
static const struct iteration_batch mixed = {.load = {.tokens = 30,
                                                      .rows = 4,
                                                      .seqs = 3,
                                                      .kv_tokens = 300,
                                                      .kv_tokens_prefill = 2000,
                                                      .chunk_sq = 210 + 28,
                                                      .kv_read_tokens = 127},
                                             .chunks = 2};

static struct iteration_terms terms_of(struct test *t, const struct model *m, int64_t tp,
                                       int64_t pp, int64_t ep, const struct iteration_batch *b,
                                       int64_t stage)
{
    struct iteration_shape s;
    struct iteration_terms x;
    assert_ok(
        iteration_shape(t->a, m, &gpu, &(struct iteration_degrees){tp, pp, ep, 0, {0}}, &s, &t->e),
        t);
    iteration_terms(&s, b, stage, &x);
    return x;
}

/* Work of the operators as model/ops.h counts it, of one shard. */
static void check_against_ops(struct test *t, const struct model *m, int64_t tp)
{
    const struct model shard = shard_model(m, tp);
    struct op_list ops;
    double weights = 0, kv = 0, others = 0, gemm = 0, attention = 0;
    shard_ops(m, tp, &ops);
    for (int i = 0; i < ops.n; i++) {
        const struct op *op = &ops.ops[i];
        struct op_traffic x = op_traffic(&shard, op, &mixed.load);
        bool reads = op->axis == AXIS_PREFILL || op->axis == AXIS_DECODE;
        weights += x.weights * 2;
        kv += reads ? x.kv * 2 : 0;
        others += op->m ? 0 : x.others * 2 + x.id_bytes + (reads ? 0 : x.kv * 2);
        gemm += op->m ? x.flop : 0;
        attention += reads ? x.flop : 0;
        struct op_cost whole = op_cost(&shard, op, &mixed.load, 2);
        assert_near_rel((x.weights + x.kv + x.others) * 2 + x.id_bytes, whole.bytes, 1e-12);
    }
    struct iteration_terms x = terms_of(t, m, tp, 1, 1, &mixed, 0);
    assert_near_rel(x.gemm_weights + x.expert_weights + x.head_weights, weights / 1e12, 1e-9);
    assert_near_rel(x.decode_kv + x.prefill_kv, kv / 1e12, 1e-9);
    assert_near_rel(x.gemm_compute + x.expert_compute + x.head_compute, gemm / 1e14, 1e-9);
    assert_near_rel(x.decode_compute + x.prefill_compute, attention / 1e14, 1e-9);
    /* Norm weights after the layers are left out: 2 KB. */
    assert_near_rel(x.activations, others / 1e12, 1e-3);
}

static void terms_are_the_operators_work(void **state)
{
    struct test *t = *state;
    struct model moe = mixtral();
    check_against_ops(t, &llama, 1);
    check_against_ops(t, &llama, 4);
    check_against_ops(t, &moe, 1);
    check_against_ops(t, &moe, 2);
}

static void formats_change_what_they_are_of(void **state)
{
    struct test *t = *state;
    struct model m = llama;
    struct iteration_terms x = terms_of(t, &m, 1, 1, 1, &mixed, 0), y;
    m.weights = m.multiply = PRECISION_FP8;
    y = terms_of(t, &m, 1, 1, 1, &mixed, 0);
    assert_near_rel(y.gemm_weights, x.gemm_weights / 2, 1e-9);
    assert_near_rel(y.gemm_compute, x.gemm_compute / 2, 1e-9);
    assert_near_rel(y.head_weights, x.head_weights, 1e-9);
    assert_near_rel(y.decode_kv, x.decode_kv, 1e-9);
    m.scale_bytes = 0.5;
    m.kv = PRECISION_FP8;
    y = terms_of(t, &m, 1, 1, 1, &mixed, 0);
    assert_near_rel(y.gemm_weights, x.gemm_weights * 0.75, 1e-9);
    assert_near_rel(y.decode_kv, x.decode_kv / 2, 1e-9);
    assert_near_rel(y.prefill_kv, x.prefill_kv / 2, 1e-9);
    assert_near_rel(y.prefill_compute, x.prefill_compute, 1e-9);
}

static void experts_are_those_that_are_hit(void **state)
{
    struct test *t = *state;
    struct model m = mixtral();
    struct iteration_batch one = {.load = {.tokens = 1, .rows = 1, .seqs = 1, .kv_tokens = 10}};
    struct iteration_terms x = terms_of(t, &m, 1, 1, 1, &one, 0);
    double expert = 4 * 3 * 1024.0 * 4096 * 2 / 1e12; /* layers, gate, up and down */
    assert_near_rel(x.expert_weights, 2 * expert, 1e-9);
    one.load.tokens = one.load.seqs = one.load.rows = 1000;
    x = terms_of(t, &m, 1, 1, 1, &one, 0);
    assert_near_rel(x.expert_weights, 8 * expert, 1e-9);
    /* Four devices hold two experts each, see a quarter of the batch, and wait for the busiest. */
    struct expert_load load;
    expert_load_make(&m, 4, 0, &load);
    struct expert_pairs most = expert_load_at(&load, 1000);
    assert_true(most.pairs > 500 && most.pairs < 600);
    double whole = x.expert_compute;
    x = terms_of(t, &m, 1, 1, 4, &one, 0);
    assert_near_rel(x.expert_weights, most.hit * expert, 1e-9);
    assert_near_rel(x.expert_compute, whole * most.pairs / 2000, 1e-9);
    assert_near_rel(x.gemm_compute, terms_of(t, &m, 1, 1, 1, &one, 0).gemm_compute / 4, 1e-9);
    assert_near(x.collectives, 8, 0);
    assert_near_rel(x.link, 8 * most.pairs * 2048 * 0.75 / 1e11, 1e-9);
    /* Two groups of two shards: whole experts, on devices that share the rest of the layer. */
    struct iteration_terms y = terms_of(t, &m, 2, 1, 4, &one, 0);
    assert_near_rel(y.expert_weights, x.expert_weights, 1e-9);
    assert_near_rel(y.expert_compute, x.expert_compute, 1e-9);
}

/* Of sums alone: sequences are dealt to the groups, and one is no more than one group's. */
static void a_sequence_lives_on_one_group(void **state)
{
    struct test *t = *state;
    const struct model m = mixtral();
    struct iteration_batch b = {.load = {.tokens = 100, .rows = 1, .chunk_sq = 5050}, .chunks = 1};
    const struct iteration_terms whole = terms_of(t, &m, 1, 1, 1, &b, 0);
    struct iteration_terms x = terms_of(t, &m, 1, 1, 4, &b, 0);
    assert_near_rel(x.prefill_compute, whole.prefill_compute, 1e-9);
    assert_near_rel(x.gemm_compute, whole.gemm_compute, 1e-9);
    assert_near_rel(x.link, 8 * 200.0 * 2048 * 0.75 / 1e11, 1e-9); /* it sends all of its pairs */
    b.chunks = 4;
    x = terms_of(t, &m, 1, 1, 4, &b, 0);
    assert_near_rel(x.prefill_compute, whole.prefill_compute / 4, 1e-3);
    assert_near_rel(x.gemm_compute, whole.gemm_compute / 4, 1e-9);
    b = (struct iteration_batch){.load = {.tokens = 2, .rows = 2, .seqs = 2, .kv_tokens = 500}};
    assert_near_rel(terms_of(t, &m, 1, 1, 4, &b, 0).decode_kv,
                    terms_of(t, &m, 1, 1, 1, &b, 0).decode_kv / 2, 1e-9);
    const struct op_load own = {.tokens = 1, .rows = 1, .seqs = 1, .kv_tokens = 400};
    b.group = &own;
    assert_near_rel(terms_of(t, &m, 1, 1, 4, &b, 0).decode_kv,
                    terms_of(t, &m, 1, 1, 1, &b, 0).decode_kv * 0.8, 1e-9);
}

static void devices_share_the_work_and_talk(void **state)
{
    struct test *t = *state;
    struct iteration_terms x = terms_of(t, &llama, 4, 1, 1, &mixed, 0);
    assert_near(x.collectives, 2 * 4 + 1, 0); /* and the gathering of logits */
    assert_near_rel(x.link, (8 * 30 * 1024 * 2 * 2 * 0.75 + 4 * 32000 * 2 * 0.75) / 1e11, 1e-9);
    struct iteration_terms whole = terms_of(t, &llama, 1, 1, 1, &mixed, 0);
    struct iteration_terms first = terms_of(t, &llama, 1, 2, 1, &mixed, 0);
    struct iteration_terms last = terms_of(t, &llama, 1, 2, 1, &mixed, 1);
    assert_near(whole.collectives, 0, 0);
    assert_near(first.collectives, 1, 0);
    assert_near(last.collectives, 0, 0);
    assert_near_rel(first.link, 30 * 2048 / 1e11, 1e-9);
    assert_near(first.head_weights, 0, 0);
    assert_near(last.iterations, 0, 0);
    assert_near_rel(first.gemm_compute + last.gemm_compute, whole.gemm_compute, 1e-9);
    assert_near_rel(first.activations + last.activations, whole.activations, 1e-9);
    assert_near(first.layers + last.layers, 4, 0);
    struct iteration_terms middle = terms_of(t, &llama, 1, 3, 1, &mixed, 1); /* 1, 2, 1 layers */
    assert_near(middle.layers, 2, 0);
    assert_near_rel(middle.gemm_compute, whole.gemm_compute / 2, 1e-9);
    assert_near_rel(middle.decode_kv, whole.decode_kv / 2, 1e-9);
    assert_near(whole.sequences, 5, 0);
    assert_near(whole.chunks, 2, 0);
}

static void drafts_share_their_row_of_keys(void **state)
{
    struct test *t = *state;
    struct iteration_batch b = {.load = {.tokens = 12, .rows = 12, .seqs = 3, .kv_tokens = 300},
                                .queries = 4};
    struct iteration_batch plain = {.load = {.tokens = 3, .rows = 3, .seqs = 3, .kv_tokens = 300}};
    struct iteration_terms x = terms_of(t, &llama, 1, 1, 1, &b, 0);
    struct iteration_terms y = terms_of(t, &llama, 1, 1, 1, &plain, 0);
    assert_near_rel(x.decode_kv, y.decode_kv, 1e-12);
    assert_near_rel(x.decode_compute, 4 * y.decode_compute, 1e-12);
    assert_near_rel(x.gemm_compute, 4 * y.gemm_compute, 1e-12);
}

static struct iteration_terms launched(struct test *t, const struct model *m,
                                       const struct launching *l, const struct iteration_batch *b)
{
    struct iteration_shape s;
    struct iteration_terms x;
    const struct iteration_degrees degrees = {.tp = 2, .pp = 2, .ep = 1, .launching = *l};
    assert_ok(iteration_shape(t->a, m, &gpu, &degrees, &s, &t->e), t);
    iteration_terms(&s, b, 0, &x);
    return x;
}

/* The host launches a stage's layers as their batch is captured, and answers; untold it does
 * neither. Of the layers of Mixtral a stage has half. */
static void layers_are_launched(void **state)
{
    struct test *t = *state;
    const struct model m = mixtral();
    const struct iteration_batch decodes = {
        .load = {.tokens = 3, .rows = 3, .seqs = 3, .kv_tokens = 300}};
    const double half = (double)m.layers / 2;
    const struct iteration_params p = iteration_defaults(PRECISION_BF16);
    const struct {
        struct launching l;
        const struct iteration_batch *b;
        double pieces, kernels, tokens; /* layers; tokens that are computed */
    } cases[] = {
        {{LAUNCHING_UNTOLD, 0}, &mixed, 0, 0, 30},
        {{LAUNCHING_FULL_AND_PIECEWISE, 512}, &mixed, half, 0, 32},
        {{LAUNCHING_FULL_AND_PIECEWISE, 512}, &decodes, 0, 0, 4},
        {{LAUNCHING_FULL_AND_PIECEWISE, 16}, &mixed, 0, half, 30},
        {{LAUNCHING_NONE, 0}, &decodes, 0, half, 3},
    };
    struct iteration_terms one = launched(t, &m, &cases[4].l, &decodes);
    const double token = one.gemm_compute / 3;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct iteration_terms x = launched(t, &m, &cases[i].l, cases[i].b);
        const struct iteration_time s = iteration_time(&p, &x, NULL);
        const bool untold = cases[i].l.mode == LAUNCHING_UNTOLD;
        assert_near(x.piece_layers, cases[i].pieces, 0);
        assert_near(x.kernel_layers, cases[i].kernels, 0);
        assert_near(x.kernel_experts, cases[i].kernels, 0); /* every layer has experts */
        assert_near_rel(x.gemm_compute, token * cases[i].tokens, 1e-12);
        assert_near_rel(s.launch_s,
                        cases[i].pieces * p.v[ITERATION_PIECE_LAYER_S] +
                            cases[i].kernels *
                                (p.v[ITERATION_KERNEL_LAYER_S] + p.v[ITERATION_KERNEL_EXPERTS_S]),
                        1e-12);
        assert_true(s.host_s > s.launch_s);
        assert_near(s.answer_s, untold ? 0 : p.v[ITERATION_ANSWER_S], 0);
    }
}

static void gradient_is_the_slope(void **state)
{
    struct test *t = *state;
    struct model m = mixtral();
    const struct launching kernels = {.mode = LAUNCHING_NONE};
    struct iteration_terms x = launched(t, &m, &kernels, &mixed);
    struct iteration_params p = iteration_defaults(PRECISION_BF16);
    p.v[ITERATION_TOKEN_S] = 1e-6;
    double g[ITERATION_PARAMS];
    struct iteration_time s = iteration_time(&p, &x, g);
    assert_true(s.host_s > 0 && s.device_s > 0);
    for (int i = 0; i < ITERATION_PARAMS; i++) {
        struct iteration_params up = p, down = p;
        double h = p.v[i] * 1e-5;
        const bool other_launch = i == ITERATION_PIECE_LAYER_S;
        const bool beside =
            i == ITERATION_LAUNCH_SPREAD || i == ITERATION_COLD_LAUNCH || i == ITERATION_ANSWER_S;
        up.v[i] += h;
        down.v[i] -= h;
        struct iteration_time a = iteration_time(&up, &x, NULL),
                              b = iteration_time(&down, &x, NULL);
        double slope = (a.host_s + a.device_s - b.host_s - b.device_s) / (2 * h);
        assert_near(g[i], slope, 1e-6 * (fabs(slope) + s.device_s));
        assert_true((fabs(g[i]) > 0) == !(other_launch || beside));
    }
}

static void a_faster_host_launches_faster(void **state)
{
    (void)state;
    const struct iteration_params p = iteration_defaults(PRECISION_FP8);
    const struct iteration_params q = iteration_defaults_on(PRECISION_FP8, 2);
    const struct iteration_params same = iteration_defaults_on(PRECISION_FP8, 0);
    for (int i = 0; i < ITERATION_PARAMS; i++) {
        const bool host = i == ITERATION_ITERATION_S || i == ITERATION_SEQUENCE_S ||
                          i == ITERATION_CHUNK_S || i == ITERATION_TOKEN_S ||
                          i == ITERATION_PIECE_LAYER_S || i == ITERATION_KERNEL_LAYER_S ||
                          i == ITERATION_KERNEL_EXPERTS_S || i == ITERATION_ANSWER_S;
        assert_near(q.v[i], host ? p.v[i] / 2 : p.v[i], 0);
        assert_near(same.v[i], p.v[i], 0);
    }
}

static void the_larger_of_two_binds(void **state)
{
    (void)state;
    struct iteration_params p = {{[ITERATION_WEIGHTS_EFFICIENCY] = 0.5}};
    for (int i = 0; i < ITERATION_PARAMS; i++)
        if (p.v[i] == 0)
            p.v[i] = 1;
    struct iteration_terms x = {.gemm_weights = 1, .gemm_compute = 0.01};
    assert_near_rel(iteration_time(&p, &x, NULL).device_s, 2, 1e-6);
    x.gemm_compute = 2;
    assert_near_rel(iteration_time(&p, &x, NULL).device_s, 2 * pow(2, 0.25), 1e-9);
    x.gemm_compute = 40;
    assert_near_rel(iteration_time(&p, &x, NULL).device_s, 40, 1e-5);
}

static void unknown_peaks_are_named(void **state)
{
    struct test *t = *state;
    struct iteration_shape s;
    struct iteration_hardware hw = gpu;
    struct model m = llama;
    hw.dram_bytes_per_s = 0;
    assert_err(
        iteration_shape(t->a, &m, &hw, &(struct iteration_degrees){1, 1, 1, 0, {0}}, &s, &t->e),
        ST_USAGE, t,
        "hardware.dram_gb_per_s: the memory bandwidth of this hardware is unknown\n"
        "hint: hardware.dram_gb_per_s= sets it; hardware= takes a group that has it");
    hw = gpu;
    hw.links.link_bytes_per_s = 0;
    assert_ok(
        iteration_shape(t->a, &m, &hw, &(struct iteration_degrees){1, 1, 1, 0, {0}}, &s, &t->e), t);
    assert_err(
        iteration_shape(t->a, &m, &hw, &(struct iteration_degrees){2, 1, 1, 0, {0}}, &s, &t->e),
        ST_USAGE, t,
        "hardware.link_gb_per_s: the bandwidth between devices of this hardware is unknown\n"
        "hint: hardware.link_gb_per_s= sets it; hardware= takes a group that has it");
    m.multiply = PRECISION_FP4;
    assert_err(
        iteration_shape(t->a, &m, &hw, &(struct iteration_degrees){1, 1, 1, 0, {0}}, &s, &t->e),
        ST_USAGE, t,
        "hardware.peak_tflops.fp4: the arithmetic peak in that format of this hardware is "
        "unknown\nhint: hardware.peak_tflops.fp4= sets it; a GPU without such units has the "
        "peak of the format that servers multiply in there, bf16 for fp8 and fp4; hardware= "
        "takes a group that has it");
    assert_err(iteration_shape(t->a, &llama, &gpu, &(struct iteration_degrees){3, 1, 1, 0, {0}}, &s,
                               &t->e),
               ST_USAGE, t, "parallel.tp: 3 shards do not divide the 16 heads of llama");
}

static void parameters_have_names_and_ranges(void **state)
{
    (void)state;
    struct iteration_params p = iteration_defaults(PRECISION_FP8);
    for (int i = 0; i < ITERATION_PARAMS; i++) {
        const struct iteration_param_info *x = &iteration_param_table[i];
        enum iteration_param back;
        assert_true(iteration_param_find(sv_of(x->name), &back));
        assert_int_equal(back, i);
        assert_true(p.v[i] >= x->min && p.v[i] <= x->max && x->default_sd > 0);
    }
    enum iteration_param none;
    assert_false(iteration_param_find(SV("efficiency"), &none));
}

/* On one device popular experts are hit by more of the tokens, so fewer are read; as many products
 * are made. */
static void skew_reads_fewer_experts(void **state)
{
    struct test *t = *state;
    const struct model m = mixtral();
    double last = 9;
    for (int k = 0; k < 3; k++) {
        const double skew[] = {0, 0.5, 2};
        struct iteration_shape s;
        struct iteration_terms x;
        const struct iteration_degrees degrees = {1, 1, 1, skew[k], {0}};
        assert_ok(iteration_shape(t->a, &m, &gpu, &degrees, &s, &t->e), t);
        const struct iteration_batch b = {
            .load = {.tokens = 4, .rows = 4, .seqs = 4, .kv_tokens = 40}};
        iteration_terms(&s, &b, 0, &x);
        const double hit = x.expert_weights / s.work.expert_weights_s;
        assert_near(x.expert_compute, s.work.expert_token_s * 4, 1e-18);
        assert_true(hit < last && hit >= 2);
        if (k == 0)
            assert_near(hit, model_experts_hit(&m, 4), 1e-12);
        last = hit;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(skew_reads_fewer_experts),         TEST(terms_are_the_operators_work),
        TEST(formats_change_what_they_are_of),  TEST(experts_are_those_that_are_hit),
        TEST(devices_share_the_work_and_talk),  TEST(a_sequence_lives_on_one_group),
        TEST(drafts_share_their_row_of_keys),   TEST(gradient_is_the_slope),
        TEST(the_larger_of_two_binds),          TEST(unknown_peaks_are_named),
        TEST(parameters_have_names_and_ranges), TEST(layers_are_launched),
        TEST(a_faster_host_launches_faster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
