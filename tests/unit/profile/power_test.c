/* Power of operators and energy of cells, by an executor and a sensor whose every figure is known.
 */
#include "profile/power.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile/profile.h"
#include "profile/read/bundle.h"
#include "support/support.h"
#include "support/timed_executor.h"
#include "text/csv.h"
#include "text/json.h"

static const struct model qwen = {.name = "tiny",
                                  .family = MODEL_QWEN3,
                                  .act = ACT_SILU_GATED,
                                  .qk_norm = true,
                                  .layers = 3,
                                  .hidden = 64,
                                  .heads = 4,
                                  .kv_heads = 2,
                                  .head_dim = 32,
                                  .intermediate = 128,
                                  .vocab = 500,
                                  .max_positions = 512};
static const double IDLE_W = 50, PART = 0.8; /* of a loop's time kernels run */

struct bench {
    struct arena *a;
    struct timed_executor t;
    struct executor inner;
    struct executor_ops ops;
    struct serve_clock clock;
    struct power_meter meter;
    struct profile_params p;
    const struct op_loop *loop; /* the last one, until its power was asked for */
    uint64_t loop_ops;
    double tokens, rows, kv;
    int loops, alone[OP_ROWS];
    enum st refuses;
    bool silent;
    struct err e;
};

/* While a kernel of it runs: linear in the logarithm of the size, as what is interpolated. */
static double power_w(int k, double x)
{
    return 200 + 20 * k + 10 * log2(x);
}

static double size_of(const struct bench *b, int k)
{
    const struct op *op = op_list_at(&b->t.ops, k);
    return op && op->axis == AXIS_DECODE                             ? b->kv
           : k == OP_LM_HEAD || k == OP_SAMPLE || k == OP_FINAL_NORM ? b->rows
                                                                     : b->tokens;
}

static enum st loop(void *self, const struct batch *x, const struct op_loop *l,
                    struct op_loop_times *out, struct err *e)
{
    struct bench *b = self;
    uint64_t ticket;
    struct completion done;
    TRY(b->inner.ops->submit(b->inner.self, x, &ticket, e));
    TRY(b->inner.ops->next(b->inner.self, INFINITY, &done, e));
    b->tokens = (double)x->load.tokens;
    b->rows = (double)x->load.rows;
    b->kv = (double)x->decode_kv_tokens;
    b->loop = l;
    b->loop_ops = l->rows;
    b->loops++;
    int n = 0, last = 0;
    for (int k = 0; k < OP_ROWS; k++)
        if (l->rows & UINT64_C(1) << k) {
            n++;
            last = k;
        }
    b->alone[last] += n == 1;
    *out = (struct op_loop_times){
        .from_ns = 5, .to_ns = 1000005, .passes = 7, .pass_s = 1e-3, .kernels_s = PART * 1e-3};
    return ST_OK;
}

static struct power_reading mean(void *self, int64_t from_ns, int64_t to_ns)
{
    struct bench *b = self;
    double sum = 0;
    int n = 0;
    (void)from_ns, (void)to_ns;
    if (b->silent)
        return (struct power_reading){NAN, NAN, 0};
    if (!b->loop)
        return (struct power_reading){IDLE_W, 0.5, 9};
    for (int k = 0; k < OP_ROWS; k++)
        if (b->loop_ops & UINT64_C(1) << k) {
            sum += power_w(k, size_of(b, k));
            n++;
        }
    b->loop = NULL;
    if (n == 0)
        return (struct power_reading){300, 1, 9};
    return (struct power_reading){IDLE_W + (sum / n - IDLE_W) * PART, 1, 9};
}

static struct power_conditions conditions(void *self)
{
    (void)self;
    return (struct power_conditions){1755, 1700, 61, (double)NAN, 4};
}

static const char *words(struct arena *a, unsigned long long reasons)
{
    return arena_printf(a, "reasons %llu", reasons);
}

static enum st check(void *self, unsigned long long reasons, struct err *e)
{
    const struct bench *b = self;
    (void)reasons;
    return b->refuses == ST_OK ? ST_OK : err_set(e, b->refuses, "someone else computes there");
}

static void *own_self(const struct bench *b)
{
    return b->inner.self;
}

static struct bench *bench_new(struct test *t)
{
    struct bench *b = arena_one(t->a, struct bench);
    b->a = t->a;
    b->clock = clock_virtual();
    b->t.model = &qwen;
    b->inner = timed_executor(&b->t);
    b->ops = *b->inner.ops;
    b->meter = (struct power_meter){.self = b,
                                    .sensor = "a sensor",
                                    .update_s = 1e-4,
                                    .settle_s = 2e-4,
                                    .mean = mean,
                                    .conditions = conditions,
                                    .words = words,
                                    .check = check};
    b->p = (struct profile_params){.root = test_dir(t),
                                   .hardware = "bench",
                                   .model_name = "tiny",
                                   .device = "cpu",
                                   .settings = "",
                                   .model = &qwen,
                                   .block_size = 16,
                                   .num_blocks = 400,
                                   .max_tokens = 256,
                                   .max_batch = 16,
                                   .max_kv = 300,
                                   .samples = 2,
                                   .warmup = 1,
                                   .tp = 1,
                                   .seed = 1,
                                   .meter = &b->meter,
                                   .energy_budget_s = 0.1,
                                   .clock = &b->clock};
    return b;
}

/* The loop's hook has the test for its self, the others have the executor. */
static struct bench *the_bench;
static enum st loop_of_the_bench(void *self, const struct batch *x, const struct op_loop *l,
                                 struct op_loop_times *out, struct err *e)
{
    assert_ptr_equal(self, own_self(the_bench));
    return loop(the_bench, x, l, out, e);
}

static enum st run(struct bench *b, bool loops)
{
    const char *dir = NULL;
    the_bench = b;
    b->clock = clock_virtual();
    b->ops.loop = loops ? loop_of_the_bench : NULL;
    err_clear(&b->e);
    return profile_run(b->a, &b->p, (struct executor){&b->ops, b->inner.self}, NULL, &dir, &b->e);
}

static const char *compute(const struct bench *b, const char *name)
{
    return arena_printf(b->a, "%s/data/profiling/compute/bench/tiny/%s", b->p.root, name);
}

static const struct node *meta(struct bench *b)
{
    struct node *n;
    assert_ok(json_load(b->a, compute(b, "bundle_meta.json"), NULL, &n, &b->e), &b->e);
    return n;
}

static double number(const struct node *n)
{
    return n->kind == NODE_INT ? (double)n->i : n->kind == NODE_FLOAT ? n->f : (double)NAN;
}

static void cells_are_power_times_time(void **state)
{
    struct test *t = *state;
    struct bench *b = bench_new(t);
    assert_ok(run(b, true), &b->e);
    struct csv_reader *r;
    int checked = 0, time, joules, tokens;
    assert_ok(csv_open(&r, compute(b, "mlp.csv"), &b->e), &b->e);
    assert_ok(csv_require(r, "num_tokens", &tokens, &b->e), &b->e);
    assert_ok(csv_require(r, "time_stats.mlp_down_proj.median", &time, &b->e), &b->e);
    assert_ok(csv_require(r, "energy_stats.mlp_down_proj.median_j", &joules, &b->e), &b->e);
    assert_true(b->alone[OP_MLP_DOWN_PROJ] >= 2);
    while (csv_next(r, &b->e) == ST_OK) {
        int64_t x;
        double ms, j;
        assert_ok(csv_int(r, tokens, 1, 1000, &x, &b->e), &b->e);
        assert_ok(csv_double(r, time, 0, 1e9, &ms, &b->e), &b->e);
        assert_ok(csv_double(r, joules, 0, 1e9, &j, &b->e), &b->e);
        if (x < 64) /* below the smallest prompt: its power */
            x = 64;
        assert_near(j / (ms / 1e3), power_w(OP_MLP_DOWN_PROJ, (double)x), 1e-6);
        checked++;
    }
    csv_close(&r);
    assert_true(checked > 5);
    /* and the reader finds them all, decode attention by the tokens in all caches */
    const struct bundle_key key = {.root = b->p.root,
                                   .hardware = "bench",
                                   .model_name = "tiny",
                                   .model = &qwen,
                                   .tp = 1,
                                   .block_size = 16};
    struct bundle *read;
    assert_ok(bundle_load(b->a, &key, &read, &b->e), &b->e);
    assert_true(bundle_has_energy(read));
    assert_null(bundle_energy_missing(read));
    assert_near(bundle_idle_w(read), IDLE_W, 1e-9);
    const double j = predict_decode_j(read, 16, 16 * 256, NULL),
                 s = predict_decode_s(read, 16, 16 * 256);
    assert_true(j / s > power_w(OP_ATTN_DECODE, 16) && j / s < power_w(OP_ATTN_DECODE, 16 * 300));
}

/* Loops are of rows: attention to all has power and energy of its own beside that to a window. */
static void rows_have_power_of_their_own(void **state)
{
    static const char config[] =
        "{\"model_type\": \"gpt_oss\", \"vocab_size\": 500, \"hidden_size\": 64, "
        "\"intermediate_size\": 32, \"num_hidden_layers\": 4, \"num_attention_heads\": 4, "
        "\"num_key_value_heads\": 2, \"head_dim\": 16, \"sliding_window\": 48, "
        "\"num_local_experts\": 4, \"num_experts_per_tok\": 2, "
        "\"max_position_embeddings\": 512}";
    struct test *t = *state;
    struct bench *b = bench_new(t);
    struct node *tree;
    struct model m;
    assert_ok(json_parse(t->a, "config.json", sv_of(config), NULL, &tree, &t->e), t);
    assert_ok(model_from_config(t->a, "tiny", tree, &m, &t->e), t);
    b->t.model = b->p.model = &m;
    b->inner = timed_executor(&b->t);
    assert_ok(run(b, true), &b->e);
    const struct bundle_key key = {.root = b->p.root,
                                   .hardware = "bench",
                                   .model_name = "tiny",
                                   .model = &m,
                                   .tp = 1,
                                   .block_size = 16};
    struct bundle *read;
    assert_ok(bundle_load(b->a, &key, &read, &b->e), &b->e);
    assert_null(bundle_energy_missing(read));
    assert_true(bundle_has_energy(read));
    const int32_t full = op_list_row(&b->t.ops, OP_ATTN_PRE_PROJ, 1);
    assert_true(full >= OP_KINDS && b->alone[full] > 0);
    struct csv_reader *r;
    int time, joules, tokens, checked = 0;
    assert_ok(csv_open(&r, compute(b, "mlp.csv"), &b->e), &b->e);
    assert_ok(csv_require(r, "num_tokens", &tokens, &b->e), &b->e);
    assert_ok(csv_require(r, "time_stats.attn_pre_proj_full.median", &time, &b->e), &b->e);
    assert_ok(csv_require(r, "energy_stats.attn_pre_proj_full.median_j", &joules, &b->e), &b->e);
    while (csv_next(r, &b->e) == ST_OK) {
        int64_t x;
        double ms, j;
        assert_ok(csv_int(r, tokens, 1, 1000, &x, &b->e), &b->e);
        assert_ok(csv_double(r, time, 0, 1e9, &ms, &b->e), &b->e);
        assert_ok(csv_double(r, joules, 0, 1e9, &j, &b->e), &b->e);
        assert_near(j / (ms / 1e3), power_w(full, x < 64 ? 64 : (double)x), 1e-6);
        checked++;
    }
    csv_close(&r);
    assert_true(checked > 5);
    const struct node *loops = node_path(meta(b), "energy.loops");
    bool named = false;
    for (uint32_t i = 0; i < loops->n; i++) {
        const struct node *ops = node_find(loops->items[i], "operators");
        for (uint32_t k = 0; k < ops->n; k++)
            named = named || sv_eq(ops->items[k]->s, "attn_pre_proj_full");
    }
    assert_true(named);
}

static void what_was_measured_stands_in_the_meta(void **state)
{
    struct test *t = *state;
    struct bench *b = bench_new(t);
    assert_ok(run(b, true), &b->e);
    const struct node *energy = node_find(meta(b), "energy");
    assert_near(number(node_path(energy, "idle_half_interval_w")), 0.5, 1e-9);
    assert_string_equal(arena_strn(t->a, node_path(energy, "sensor")->s.p, 8), "a sensor");
    assert_int_equal(node_path(energy, "conditions.power_limit_w")->kind, NODE_NULL);
    assert_memory_equal(node_path(energy, "conditions.clocks_held_by")->s.p, "reasons 4", 9);
    const struct node *loops = node_find(energy, "loops"),
                      *whole = node_find(energy, "whole_passes");
    assert_int_equal(loops->n + whole->n, b->loops);
    assert_true(whole->n >= 4 && whole->n <= 6);
    for (uint32_t i = 0; i < whole->n; i++) {
        assert_near(number(node_find(whole->items[i], "power_w")), 300, 1e-9);
        assert_true(number(node_find(whole->items[i], "error_percent")) < 1e3);
    }
}

static void a_small_budget_takes_fewer_sizes(void **state)
{
    struct test *t = *state;
    struct bench *b = bench_new(t);
    b->p.energy_budget_s = 1e-6;
    assert_ok(run(b, true), &b->e);
    assert_int_equal(node_path(meta(b), "energy.whole_passes")->n, 2); /* a decode and a prompt */
}

static void refusals(void **state)
{
    struct test *t = *state;
    struct bench *b = bench_new(t);
    assert_int_equal(run(b, false), ST_DEVICE);
    assert_string_equal(err_cause(&b->e, 1), "executor timed cannot run operators alone");
    b->silent = true;
    assert_int_equal(run(b, true), ST_DEVICE);
    assert_non_null(strstr(err_cause(&b->e, 1), "the sensor a sensor gave no reading within "));
    b->silent = false;
    b->refuses = ST_REJECTED;
    assert_int_equal(run(b, true), ST_REJECTED);
    assert_string_equal(err_cause(&b->e, 1), "someone else computes there");
    /* the times were kept, and make a bundle without energy */
    const int64_t passes = b->t.passes;
    b->p.meter = NULL;
    assert_ok(run(b, true), &b->e);
    assert_true(b->t.passes < 2 * passes);
    assert_null(node_find(meta(b), "energy"));
    struct sv text;
    assert_ok(fs_read(t->a, compute(b, "mlp.csv"), 1 << 24, &text, &b->e), &b->e);
    assert_null(strstr(text.p, "energy_stats"));
    /* into which another session measures it; a third one without keeps it */
    b->p.meter = &b->meter;
    b->refuses = ST_OK;
    b->p.extend = true;
    assert_ok(run(b, true), &b->e);
    assert_near(number(node_path(meta(b), "energy.idle_w")), IDLE_W, 1e-9);
    b->p.meter = NULL;
    assert_ok(run(b, true), &b->e);
    assert_near(number(node_path(meta(b), "energy.idle_w")), IDLE_W, 1e-9);
    assert_int_equal(node_path(meta(b), "energy.sensor")->kind, NODE_NULL);
}

static void curves(void **state)
{
    struct test *t = *state;
    struct power_point points[] = {{4, 100}, {16, 200}, {16, 300}, {64, 400}};
    struct power_table x = {.idle_w = 50};
    const struct op up = {.kind = OP_MLP_UP_PROJ, .row = OP_MLP_UP_PROJ, .axis = AXIS_TOKENS},
                    gap = {.kind = OP_GAP, .row = OP_GAP, .axis = AXIS_TOKENS},
                    head = {.kind = OP_LM_HEAD, .row = OP_LM_HEAD, .axis = AXIS_ROWS};
    (void)t;
    x.prompt[OP_MLP_UP_PROJ] = (struct power_curve_1d){points, 4};
    assert_near(power_at(&x, &up, false, 1), 100, 1e-9);
    assert_near(power_at(&x, &up, false, 8), 150, 1e-9);
    assert_near(power_at(&x, &up, true, 32), 350, 1e-9); /* decodes have none: as prompts */
    assert_near(power_at(&x, &up, false, 1000), 400, 1e-9);
    assert_near(power_at(&x, &gap, false, 7), 50, 1e-9);
    assert_true(isnan(power_at(&x, &head, true, 7)));
    assert_true(isnan(power_cell_j(&x, &head, true, 7, 1)));
    assert_true(power_cell_j(&x, &head, true, 7, 0) == 0);
    assert_near(power_cell_j(&x, &up, false, 8, 2), 300, 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(cells_are_power_times_time),
        TEST(rows_have_power_of_their_own),
        TEST(what_was_measured_stands_in_the_meta),
        TEST(a_small_budget_takes_fewer_sizes),
        TEST(refusals),
        TEST(curves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
