/* Every family is predicted: one suite over transformers' configurations of all of them, and over
 * the models that people serve.
 *
 * The iteration model (profile/read/iteration.h) is held against the operators' own traffic, by
 * another path; stages against the whole; and time against what must hold of it: it does not fall
 * with the context, is bounded where no layer sees all, and the same where all keep states. */
#include <math.h>

#include "model/shard.h"
#include "model/state_ops.h"
#include "profile/read/iteration.h"
#include "support/models.h"

/* Peaks of one kind, so that work is time; fp8 as fast as bf16 lets rows be summed. */
static const struct iteration_hardware gpu = {.dram_bytes_per_s = 1e12,
                                              .flop_per_s = {[PRECISION_BF16] = 1e15,
                                                             [PRECISION_FP16] = 1e15,
                                                             [PRECISION_FP32] = 1e15,
                                                             [PRECISION_FP8] = 1e15,
                                                             [PRECISION_FP4] = 1e15,
                                                             [PRECISION_INT8] = 1e15,
                                                             [PRECISION_INT4] = 1e15},
                                              .links.link_bytes_per_s = 1e11};

static struct iteration_shape shape_of(struct test *t, const struct model *m, int64_t tp,
                                       int64_t pp)
{
    struct iteration_shape s;
    const struct iteration_degrees degrees = {.tp = tp, .pp = pp, .ep = 1};
    assert_ok(iteration_shape(t->a, m, &gpu, &degrees, &s, &t->e), t);
    return s;
}

static struct iteration_batch decode_of(const struct model *m, int64_t rows, int64_t kv)
{
    const struct key_spans spans = model_spans(m);
    struct iteration_batch b = {
        .load = {.tokens = rows, .rows = rows, .seqs = rows, .n_spans = spans.n}};
    for (int64_t i = 0; i < rows; i++)
        op_load_add_keys(&b.load, &spans, kv);
    return b;
}

static struct iteration_batch mixed_of(const struct model *m, int64_t kv, int64_t chunk)
{
    const struct key_spans spans = model_spans(m);
    struct iteration_batch b = decode_of(m, 3, kv);
    b.load.tokens += 2 * chunk;
    b.load.rows += 1;
    b.chunks = 2;
    op_load_add_chunk(&b.load, &spans, 0, chunk);
    op_load_add_chunk(&b.load, &spans, kv, chunk);
    return b;
}

static double time_of(const struct model *m, const struct iteration_shape *s,
                      const struct iteration_batch *b)
{
    const struct iteration_params p = iteration_defaults(m->multiply);
    double sum = 0;
    for (int64_t i = 0; i < s->stages; i++) {
        struct iteration_terms x;
        iteration_terms(s, b, i, &x);
        sum += iteration_time(&p, &x, NULL).device_s;
    }
    assert_true(isfinite(sum) && sum > 0);
    return sum;
}

/* ---- against the operators ------------------------------------------------------------------- */

/* What attention reads and computes by op_traffic, in seconds at the peaks above. */
struct attention_work {
    double memory, compute;
};

static struct attention_work by_operators(const struct model *m, int64_t tp,
                                          const struct op_load *load, enum op_axis axis)
{
    const struct model shard = shard_model(m, tp);
    struct attention_work sum = {0};
    struct op_list l;
    shard_ops(m, tp, &l);
    for (int i = 0; i < l.n; i++) {
        const struct op *op = &l.ops[i];
        if (op->axis != axis)
            continue;
        const struct op_traffic x = op_traffic(&shard, op, load);
        const double scores =
            op->line.pair_bytes > 0 /* are activations */
                ? x.own_bytes * op->line.pair_bytes / (op->line.pair_bytes + op->line.key_bytes)
                : 0;
        const double states = op->repeat * 2 * op->line.state_elements *
                              (double)(axis == AXIS_DECODE ? load->seqs : load->chunks);
        sum.memory += x.kv * precision_bytes(m->kv) + x.own_bytes - scores +
                      states * precision_bytes(m->dtype);
        sum.compute += x.flop;
    }
    sum.memory /= 1e12;
    sum.compute /= 1e15;
    return sum;
}

static void assert_close(const char *name, const char *what, double got, double want)
{
    if (!(fabs(got - want) <= 1e-9 * fabs(want)))
        fail_msg("%s: %s %.17g, operators have %.17g", name, what, got, want);
}

static bool has_slow_kernels(const struct model *m)
{
    for (int32_t i = 0; m->layered && i < m->structure->n_attentions; i++)
        if (state_kernel_of(&m->structure->attention[i].state).efficiency > 0)
            return true;
    return false;
}

static void agrees_with_operators(struct test *t, const struct model *m, int64_t tp)
{
    const struct iteration_shape s = shape_of(t, m, tp, 1);
    const struct iteration_batch decode = decode_of(m, 3, 5000);
    const struct key_spans spans = model_spans(m);
    struct iteration_batch prompt = {.load = {.tokens = 700, .rows = 1}, .chunks = 1};
    struct iteration_terms x;
    op_load_add_chunk(&prompt.load, &spans, 0, 700); /* scores and keys are as many per pair */
    iteration_terms(&s, &decode, 0, &x);
    struct attention_work w = by_operators(m, tp, &decode.load, AXIS_DECODE);
    assert_close(m->name, "decode: memory", x.decode_kv, w.memory);
    assert_close(m->name, "decode: compute", x.decode_compute, w.compute);
    iteration_terms(&s, &prompt, 0, &x);
    w = by_operators(m, tp, &prompt.load, AXIS_PREFILL);
    if (has_slow_kernels(m)) /* those of states reach less than attention's */
        assert_true(x.prefill_compute > w.compute);
    else
        assert_close(m->name, "prompt: compute", x.prefill_compute, w.compute);
}

/* ---- stages ---------------------------------------------------------------------------------- */

static void stages_add_up(struct test *t, const struct model *m, int64_t tp)
{
    const int64_t pp = m->layers >= 3 ? 3 : m->layers;
    const struct iteration_shape one = shape_of(t, m, tp, 1), many = shape_of(t, m, tp, pp);
    const struct iteration_batch b = mixed_of(m, 3000, 100);
    struct iteration_terms whole, x, sum = {0};
    iteration_terms(&one, &b, 0, &whole);
    for (int64_t i = 0; i < pp; i++) {
        iteration_terms(&many, &b, i, &x);
        sum.gemm_weights += x.gemm_weights;
        sum.expert_weights += x.expert_weights;
        sum.decode_kv += x.decode_kv;
        sum.prefill_compute += x.prefill_compute;
        sum.layers += x.layers;
        assert_true(x.gemm_weights + x.expert_weights > 0);
    }
    assert_close(m->name, "weights of stages", sum.gemm_weights, whole.gemm_weights);
    assert_close(m->name, "experts of stages", sum.expert_weights, whole.expert_weights);
    assert_close(m->name, "keys of stages", sum.decode_kv, whole.decode_kv);
    assert_close(m->name, "prompts of stages", sum.prefill_compute, whole.prefill_compute);
    assert_true(sum.layers == (double)m->layers);
}

/* ---- time ------------------------------------------------------------------------------------ */

/* The farthest token that any layer sees, its own included; 0 = all, INT64_MIN = none looks back.
 */
static int64_t farthest(const struct model *m)
{
    const struct key_spans spans = model_spans(m);
    struct op_list l;
    int64_t most = INT64_MIN;
    model_ops(m, &l);
    for (int i = 0; i < l.n; i++) {
        const struct op *op = &l.ops[i];
        if (op->axis != AXIS_DECODE || op->kind == OP_STATE_DECODE)
            continue;
        if (!op->line.set || op->line.spans & 1)
            return 0;
        for (int32_t k = 0; k < spans.n; k++) {
            const int64_t period = span_period(&spans.of[k]);
            if (!(op->line.spans & UINT32_C(2) << k))
                continue;
            if (period == 0)
                return 0;
            most = period > most ? period : most;
        }
    }
    return most;
}

static bool has_pieces(const struct model *m)
{
    const struct key_spans spans = model_spans(m);
    for (int32_t i = 0; i < spans.n; i++)
        if (spans.of[i].chunk)
            return true;
    return false;
}

static void time_follows_the_context(struct test *t, const struct model *m, int64_t tp)
{
    const struct iteration_shape s = shape_of(t, m, tp, 1);
    const int64_t far = farthest(m);
    double last = 0;
    for (int64_t kv = 512; kv <= 1 << 20;
         kv *= 8) { /* ends of pieces, whose sizes are powers of 2 */
        const struct iteration_batch b = decode_of(m, 8, kv), p = mixed_of(m, kv, 512);
        const double now = time_of(m, &s, &b);
        if (now < last)
            fail_msg("%s: %lld tokens take %g, fewer took %g", m->name, (long long)kv, now, last);
        assert_true(time_of(m, &s, &p) > now * 0.3);
        last = now;
    }
    if (far == 0) {
        const struct iteration_batch more = decode_of(m, 8, 1 << 23);
        assert_true(time_of(m, &s, &more) > last);
    } else if (far == INT64_MIN) {
        const struct iteration_batch one = decode_of(m, 8, 1);
        assert_true(time_of(m, &s, &one) == last);
    } else if (!has_pieces(m)) {
        const struct iteration_batch at = decode_of(m, 8, far), more = decode_of(m, 8, 1 << 23);
        assert_true(time_of(m, &s, &more) == time_of(m, &s, &at));
    }
}

/* ---- the suite ------------------------------------------------------------------------------- */

static int64_t shards_of(const struct model *m)
{
    for (int64_t tp = 8; tp > 1; tp /= 2) {
        struct err e = {0};
        const bool fits = shard_check(m, tp, 1, 1, &e) == ST_OK;
        err_clear(&e);
        if (fits)
            return tp;
    }
    return 1;
}

static void check_model(struct test *t, const struct model *m)
{
    const int64_t most = shards_of(m);
    for (int64_t tp = 1; tp <= most; tp = tp == 1 && most > 1 ? most : tp + most) {
        agrees_with_operators(t, m, tp);
        stages_add_up(t, m, tp);
        time_follows_the_context(t, m, tp);
    }
}

static void families_of_transformers(void **state)
{
    struct test *t = *state;
    struct golden_family f = {0};
    int layered = 0, uniform = 0, refused = 0;
    while (golden_family_next(t, &f)) {
        struct model m;
        struct err e = {0};
        if (model_from_config(t->a, f.name, f.config, &m, &e) != ST_OK) {
            err_clear(&e);
            refused++;
            continue;
        }
        if (model_check_modelled(&m, &e) != ST_OK) {
            print_message("not modelled: %s\n", err_cause(&e, 0));
            err_clear(&e);
            refused++;
            continue;
        }
        check_model(t, &m);
        *(m.layered ? &layered : &uniform) += 1;
    }
    print_message("%d with layers that differ, %d alike, %d refused by name\n", layered, uniform,
                  refused);
    assert_true(layered >= 60 && layered + uniform >= 170);
}

static void models_that_people_serve(void **state)
{
    struct test *t = *state;
    const struct node *all = served_models(t);
    int predicted = 0;
    for (uint32_t i = 0; i < all->n; i++) {
        const struct node *model = all->pairs[i].value;
        const char *name = all->pairs[i].key.p;
        struct model m;
        struct err e = {0};
        if (model_from_files(t->a, name, served_file(t, model, "config.json"),
                             served_file(t, model, "hf_quant_config.json"), &m, &e) != ST_OK) {
            print_message("refused: %s\n", err_cause(&e, 0));
            err_clear(&e);
            continue;
        }
        assert_ok(model_check_modelled(&m, &t->e), t);
        check_model(t, &m);
        predicted++;
    }
    print_message("%d of %u predicted\n", predicted, all->n);
    assert_true(predicted >= 94);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(families_of_transformers),
        TEST(models_that_people_serve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
