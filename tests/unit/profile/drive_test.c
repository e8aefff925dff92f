#include "profile/drive.h"

#include <string.h>

#include "support/support.h"
#include "support/timed_executor.h"

static const struct model m = {.act = ACT_SILU_GATED,
                               .layers = 3,
                               .hidden = 64,
                               .heads = 4,
                               .kv_heads = 2,
                               .head_dim = 16,
                               .intermediate = 128,
                               .vocab = 500};
static const struct grid_limits limits = {
    .max_tokens = 256, .max_batch = 8, .max_kv = 100, .block_size = 16, .num_blocks = 56};

/* Every block a slot may touch is in the cache and no other slot's; ids are in the vocabulary, and
 * those of two slots differ. */
static void look_at_slots(void *self, int64_t pass)
{
    struct timed_executor *t = self;
    (void)pass;
    bool used[56] = {false};
    const int32_t *before = NULL;
    for (int32_t s = 0; s < 1024; s++) {
        if (!t->in_set[s])
            continue;
        struct slot_view v = t->source.view(t->source.self, s);
        assert_true(v.n_blocks * 16 >= v.kv_tokens + 1);
        for (int64_t i = 0; i < v.n_blocks; i++) {
            assert_in_range(v.blocks[i], 0, 55);
            assert_false(used[v.blocks[i]]);
            used[v.blocks[i]] = true;
        }
        for (int64_t i = 0; i <= v.kv_tokens; i++)
            assert_in_range(v.ids[i], 0, 499);
        assert_true(!before || memcmp(before, v.ids, 8 * sizeof *before) != 0);
        before = v.ids;
    }
}

static void drive_grid(const struct grid_limits *l, int64_t driven[POINT_KINDS])
{
    struct arena *a = arena_new();
    struct timed_executor t = {.model = &m, .at_pass = look_at_slots};
    t.at_pass_self = &t;
    struct executor ex = timed_executor(&t);
    struct drive *d = drive_new(a, ex, l, m.vocab, 1);
    struct point_list points;
    profile_grid(a, l, &points);
    struct err e = {0};
    for (int64_t i = 0; i < points.n; i++) {
        const struct point *p = &points.p[i];
        double op_s[DRIVE_TRAIN][OP_ROWS], spent_s;
        const int64_t before = t.passes;
        int n;
        assert_ok(drive_point(d, p, DRIVE_TRAIN, op_s, &n, &spent_s, &e), &e);
        const int64_t passes = t.passes - before;
        assert_near(op_s[0][OP_MLP_ACT], 3 * timed_flat_s(OP_MLP_ACT, p->x), 1e-15);
        assert_near(op_s[0][OP_LM_HEAD], timed_flat_s(OP_LM_HEAD, point_rows(p, l)), 1e-15);
        bool decode = p->kind == POINT_DECODE;
        assert_near(op_s[n - 1][OP_ATTN_DECODE],
                    decode ? 3 * timed_decode_s(p->x, p->x * p->kv) : 0, 1e-15);
        if (p->kind == POINT_PREFILL)
            assert_near(op_s[0][OP_ATTN_PREFILL], 3 * timed_prefill_s(p->x, p->kv), 1e-15);
        if (p->kind == POINT_PROMPTS) /* equal prompts, nothing in the cache */
            assert_near(op_s[0][OP_ATTN_PREFILL],
                        3 * (double)point_chunks(p, l) * timed_prefill_s(p->kv, 0), 1e-15);
        driven[p->kind]++;
        /* a decode follows its like, until two windows of four take the same time */
        assert_int_equal(n, decode ? DRIVE_TRAIN : 1);
        assert_int_equal(passes, decode ? 8 + DRIVE_TRAIN : 1);
        assert_near(spent_s / (double)passes - timed_host_s(point_rows(p, l), !decode),
                    t.done.device_s, 1e-9);
    }
    arena_free(&a);
}

/* Of equal lengths, and of unequal ones as padded batches have them. */
static void every_point_of_a_grid_can_be_driven(void **state)
{
    (void)state;
    static const int64_t padded[] = {1, 2, 4, 8};
    struct grid_limits unequal = limits;
    unequal.padded = padded;
    unequal.n_padded = 4;
    int64_t driven[2][POINT_KINDS] = {{0}};
    drive_grid(&limits, driven[0]);
    drive_grid(&unequal, driven[1]);
    assert_int_equal(driven[0][POINT_PROMPTS], 0);
    assert_int_equal(driven[1][POINT_PROMPTS], 3);
}

/* As a model that gets back into a cache it was driven out of: 20 passes, each faster. */
static double getting_faster(int64_t pass)
{
    return pass < 20 ? 2 - 0.05 * (double)pass : 1;
}

static void a_train_runs_until_it_is_no_faster(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct timed_executor t = {.model = &m, .factor = getting_faster};
    struct drive *d = drive_new(a, timed_executor(&t), &limits, m.vocab, 1);
    struct point p = {POINT_DECODE, 1, 16, 0};
    double op_s[DRIVE_TRAIN][OP_ROWS], spent_s;
    int n;
    struct err e = {0};
    assert_ok(drive_point(d, &p, DRIVE_TRAIN, op_s, &n, &spent_s, &e), &e);
    assert_int_equal(n, DRIVE_TRAIN);
    for (int i = 0; i < n; i++)
        assert_near(op_s[i][OP_ATTN_DECODE], 3 * timed_decode_s(1, 16), 1e-15);
    arena_free(&a);
}

/* Passes of a second each: two lead, one counts. */
static double a_hundred_thousand_times(int64_t pass)
{
    (void)pass;
    return 1e5;
}

static void a_slow_machine_is_not_asked_for_long_trains(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct timed_executor t = {.model = &m, .factor = a_hundred_thousand_times};
    struct drive *d = drive_new(a, timed_executor(&t), &limits, m.vocab, 1);
    struct point p = {POINT_DECODE, 1, 16, 0};
    double op_s[DRIVE_TRAIN][OP_ROWS], spent_s;
    int n;
    struct err e = {0};
    assert_ok(drive_point(d, &p, DRIVE_TRAIN, op_s, &n, &spent_s, &e), &e);
    assert_int_equal(n, 1);
    assert_int_equal(t.passes, 3);
    arena_free(&a);
}

/* Passes of a train, with what they take, until one begins late. */
static void a_train_lasts_as_long_as_asked(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct timed_executor t = {.model = &m};
    struct drive *d = drive_new(a, timed_executor(&t), &limits, m.vocab, 1);
    const struct point points[] = {{POINT_PREFILL, 64, 0, 0}, {POINT_DECODE, 4, 32, 0}};
    struct err e = {0};
    for (int k = 0; k < 2; k++) {
        struct drive_passes passes = {0};
        assert_ok(drive_train(d, &points[k], 1, 0, &passes, &e), &e);
        assert_int_equal(passes.of.n, 2);
        const double pass_s = passes.of.p[0].device_s, step_s = passes.of.p[1].begin_s;
        assert_true(pass_s > 0 && step_s > pass_s && passes.of.p[0].begin_s == 0);
        vec_clear(&passes.of);
        assert_ok(drive_train(d, &points[k], 1, 9.5 * step_s, &passes, &e), &e);
        assert_int_equal(passes.of.n, 11);
        for (size_t i = 0; i < passes.of.n; i++) {
            assert_near(passes.of.p[i].begin_s, (double)i * step_s, 1e-9);
            assert_near(passes.of.p[i].device_s, pass_s, 1e-12);
        }
        vec_free(&passes.of);
    }
    arena_free(&a);
}

/* Points in turn: once through them however long that takes, and around while there is time. */
static void a_train_of_several_points_takes_them_in_turn(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct timed_executor t = {.model = &m};
    struct drive *d = drive_new(a, timed_executor(&t), &limits, m.vocab, 1);
    const struct point points[] = {
        {POINT_PREFILL, 64, 0, 0}, {POINT_DECODE, 4, 32, 0}, {POINT_DECODE, 4, 32, 0}};
    struct drive_passes passes = {0};
    struct err e = {0};
    assert_ok(drive_train(d, points, 3, 0, &passes, &e), &e);
    assert_int_equal(passes.of.n, 3);
    const double round_s = passes.of.p[2].begin_s + passes.of.p[2].device_s;
    assert_true(passes.of.p[0].device_s > passes.of.p[1].device_s);
    vec_clear(&passes.of);
    assert_ok(drive_train(d, points, 3, 2.5 * round_s, &passes, &e), &e);
    assert_true(passes.of.n >= 7 && passes.of.n <= 10);
    for (size_t i = 0; i < passes.of.n; i++)
        assert_int_equal(passes.of.p[i].point, i % 3);
    assert_near(passes.of.p[3].device_s, passes.of.p[0].device_s, 1e-12);
    assert_near(passes.of.p[4].device_s, passes.of.p[2].device_s, 1e-12);
    vec_free(&passes.of);
    arena_free(&a);
}

/* Blocks of slot 0 in each pass. */
struct placed {
    struct timed_executor *t;
    int32_t first[4], last[4];
};

static void look_at_place(void *self, int64_t pass)
{
    struct placed *x = self;
    const struct slot_view v = x->t->source.view(x->t->source.self, 0);
    x->first[pass] = v.blocks[0];
    x->last[pass] = v.blocks[v.n_blocks - 1];
}

/* Decodes of a device find no prompt of the profile in their caches. */
static void prompts_of_a_device_lie_at_the_end_of_the_cache(void **state)
{
    (void)state;
    const struct point points[] = {{POINT_DECODE, 4, 32, 0}, {POINT_PREFILL, 64, 0, 0}};
    for (int split = 0; split < 2; split++) {
        struct arena *a = arena_new();
        struct timed_executor t = {.model = &m, .at_pass = look_at_place};
        struct placed placed = {&t, {0}, {0}};
        t.at_pass_self = &placed;
        struct executor ex = timed_executor(&t);
        struct executor_ops ops = *ex.ops;
        ops.caps |= split ? EXEC_OP_SPLIT : 0;
        ex.ops = &ops;
        struct drive *d = drive_new(a, ex, &limits, m.vocab, 1);
        struct drive_passes passes = {0};
        struct err e = {0};
        assert_ok(drive_train(d, points, 2, 0, &passes, &e), &e);
        assert_int_equal(placed.first[0], 0);
        assert_int_equal(placed.first[1], split ? 52 : 0);
        assert_int_equal(placed.last[1], split ? 55 : 3);
        vec_free(&passes.of);
        arena_free(&a);
    }
}

static enum st lost(void *self, double deadline_s, struct completion *out, struct err *e)
{
    (void)self, (void)deadline_s, (void)out, (void)e;
    return ST_END;
}

static void a_lost_batch_is_an_error(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct timed_executor t = {.model = &m};
    struct executor ex = timed_executor(&t);
    struct executor_ops broken = *ex.ops;
    broken.next = lost;
    ex.ops = &broken;
    struct drive *d = drive_new(a, ex, &limits, m.vocab, 1);
    struct point p = {POINT_PREFILL, 4, 0, 0};
    double op_s[DRIVE_TRAIN][OP_ROWS], spent_s;
    int n;
    struct err e = {0};
    assert_int_equal(drive_point(d, &p, 1, op_s, &n, &spent_s, &e), ST_DEVICE);
    assert_cause(&e, "executor timed lost a batch: nothing completes");
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_of_a_device_lie_at_the_end_of_the_cache),
        cmocka_unit_test(every_point_of_a_grid_can_be_driven),
        cmocka_unit_test(a_train_runs_until_it_is_no_faster),
        cmocka_unit_test(a_slow_machine_is_not_asked_for_long_trains),
        cmocka_unit_test(a_train_lasts_as_long_as_asked),
        cmocka_unit_test(a_train_of_several_points_takes_them_in_turn),
        cmocka_unit_test(a_lost_batch_is_an_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
