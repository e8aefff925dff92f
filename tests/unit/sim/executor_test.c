#include "sim/sim.h"

#include <math.h>
#include <string.h>

#include "model/expert_load.h"
#include "profile/read/read.h"
#include "support/support.h"

static const struct model two_layers = {.act = ACT_SILU_GATED,
                                        .layers = 2,
                                        .hidden = 64,
                                        .heads = 4,
                                        .kv_heads = 2,
                                        .head_dim = 16,
                                        .intermediate = 128,
                                        .vocab = 512};

/* Times chosen so that each part of a batch can be told from the sum, in s:
 * tokens 1 per token, rows 1000 per row, decode 1e-3 per cached token, prefill 1e-6 per score. */
static void make_bundle(struct arena *a, struct bundle *b)
{
    static const double tokens[] = {1, 4096}, host[] = {0.25, 0.25 + 4095 * 0.01};
    static const double with_prefill[] = {0.5, 0.5};
    struct grid *g = grid_new(a, tokens, 2);
    static double per_row[] = {1000, 4096000}, per_token[] = {1, 4096};
    b->tokens.n = b->rows.n = 1;
    b->tokens.curve[0] = (struct curve){g, per_token};
    b->rows.curve[0] = (struct curve){g, per_row};
    b->host.s = (struct curve){g, host};
    b->host_prefill.s = (struct curve){g, with_prefill};
    b->host_scale = b->host_prefill_scale = 1;
    b->counts = arena_one(a, struct bundle_counts);

    struct grid_set known = {0};
    struct surface_point *p = arena_array(a, struct surface_point, 64);
    int n = 0;
    for (int x = 1; x <= 8; x *= 2)
        for (int kv = 0; kv <= 1024; kv += 256)
            p[n++] = (struct surface_point){x, kv, 1e-9 + 1e-3 * x * kv};
    b->ops.n = 2;
    b->ops.ops[0] = (struct op){
        .kind = OP_ATTN_PREFILL, .row = OP_ATTN_PREFILL, .axis = AXIS_PREFILL, .repeat = 1};
    b->ops.ops[1] = (struct op){
        .kind = OP_ATTN_DECODE, .row = OP_ATTN_DECODE, .axis = AXIS_DECODE, .repeat = 1};
    bundle_find_attention(b);
    op_table_build(a, AXIS_DECODE, &known, p, n, &b->table[OP_ATTN_DECODE]);
    p = arena_array(a, struct surface_point, 64);
    n = 0;
    for (int c = 1; c <= 128; c *= 2)
        for (int kv = 0; kv <= 512; kv += 128)
            p[n++] = (struct surface_point){c, kv, 1e-12 + 1e-6 * (c * kv + c * (c + 1) / 2.0)};
    op_table_build(a, AXIS_PREFILL, &known, p, n, &b->table[OP_ATTN_PREFILL]);
}

static double scores(int64_t start, int64_t n)
{
    return (double)(n * start) + (double)(n * (n + 1)) / 2;
}

static const struct chunk chunks[] = {{.slot = 7, .start = 100, .tokens = 60},
                                      {.slot = 8, .start = 0, .tokens = 5, .last = true}};
static const struct batch mixed = {.submit_s = 10,
                                   .chunks = chunks,
                                   .n_chunks = 2,
                                   .n_decodes = 3,
                                   .n_last_chunks = 1,
                                   .prefill_tokens = 65,
                                   .decode_kv_tokens = 900};

static struct predictor opened(struct arena *a, const struct predictor_params *p)
{
    struct predictor out;
    struct err e = {0};
    assert_ok(predictor_open(a, &predictor_bundle, p, &out, &e), &e);
    return out;
}

static void predict(const struct predictor *p, const struct batch *b, double *device, double *host)
{
    struct stage_time t = {0};
    struct err e = {0};
    assert_ok(p->ops->predict(p->self, b, &t, &e), &e);
    *device = t.device_s;
    *host = t.host_s;
}

static void a_batch_is_the_sum_of_its_parts(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct bundle b = {0};
    make_bundle(a, &b);
    struct predictor_params p = {
        .model = &two_layers, .tp = 1, .pp = 1, .bundle = &b, .host_overhead = true};
    double device, host;
    struct predictor with_host = opened(a, &p);
    p.host_overhead = false;
    struct predictor without = opened(a, &p);
    predict(&with_host, &mixed, &device, &host);
    assert_near(device, 68 + 4000 + 0.9 + 1e-6 * (scores(100, 60) + scores(0, 5)), 1e-6);
    assert_near(host, 0.5, 0);
    struct batch decode = {.n_decodes = 3, .decode_kv_tokens = 900};
    predict(&with_host, &decode, &device, &host);
    assert_near(device, 3 + 3000 + 0.9, 1e-6);
    assert_near(host, 0.25 + 2 * 0.01, 1e-12);
    static const double size[] = {0, 2}, factor[] = {1.5, 1.5}; /* 1 to 4 sequences */
    b.decode_scale = (struct curve){grid_new(a, size, 2), factor};
    double scaled;
    predict(&with_host, &decode, &scaled, &host);
    assert_near(scaled, 1.5 * device, 1e-9);
    predict(&without, &mixed, &device, &host);
    assert_near(host, 0, 0);
    assert_int_equal(bundle_extrapolations(&b), 0);
    arena_free(&a);
}

/* 3 rows of 1 + 4 tokens over 300 cached each: 15 tokens, 15 rows whose logits are needed, and
 * attention that reads 304 keys a row; host time goes by sequences. */
static void rows_that_verify_drafts_have_their_tokens(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct bundle b = {0};
    make_bundle(a, &b);
    const struct predictor_params p = {
        .model = &two_layers, .tp = 1, .pp = 1, .bundle = &b, .host_overhead = true};
    const struct predictor predictor = opened(a, &p);
    const struct batch verify = {.n_decodes = 3, .draft_tokens = 4, .decode_kv_tokens = 900};
    double device, host;
    predict(&predictor, &verify, &device, &host);
    assert_near(device, 15 + 15000 + 1e-3 * 3 * 304, 1e-6);
    assert_near(host, 0.25 + 2 * 0.01, 1e-12);
    arena_free(&a);
}

static void batches_end_when_predicted_one_at_a_time(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct bundle b = {0};
    make_bundle(a, &b);
    struct predictor_params p = {
        .model = &two_layers, .tp = 1, .pp = 1, .bundle = &b, .host_overhead = true};
    struct predictor predictor = opened(a, &p);
    struct executor x = sim_executor(a, &predictor, ASYNC_OFF);
    struct err e = {0};
    assert_ok(executor_check(&x, &e), &e);
    assert_int_equal(x.ops->max_in_flight(x.self), 1);
    double device, host;
    predict(&predictor, &mixed, &device, &host);

    struct completion c;
    assert_int_equal(x.ops->next(x.self, INFINITY, &c, &e), ST_END);
    uint64_t first, second;
    assert_ok(x.ops->submit(x.self, &mixed, &first, &e), &e);
    assert_int_equal(x.ops->next(x.self, 10 + device, &c, &e), ST_END);
    assert_ok(x.ops->next(x.self, INFINITY, &c, &e), &e);
    assert_true(c.ticket == first);
    assert_true(c.start_s == 10 && c.end_s == 10 + host + device);
    assert_true(c.device_s == device && c.host_s == host);
    assert_null(c.tokens);
    assert_int_equal(c.n_tokens, 0);
    assert_int_equal(c.n_ended, 0);
    assert_int_equal(x.ops->next(x.self, INFINITY, &c, &e), ST_END);

    /* built before the batch ahead of it is over: starts at its end */
    double free_s = c.end_s;
    assert_ok(x.ops->submit(x.self, &mixed, &second, &e), &e);
    assert_ok(x.ops->next(x.self, INFINITY, &c, &e), &e);
    assert_true(c.ticket == second && second != first);
    assert_true(c.start_s == free_s && c.end_s == free_s + host + device);
    x.ops->close(x.self);
    arena_free(&a);
}

/* Two out: the host has prepared the second when the device is free for it, and for the third,
 * built when the first came back, it needs longer than the second runs. */
static enum st host_and_device(void *self, const struct batch *b, struct stage_time *stages,
                               struct err *e)
{
    (void)self;
    (void)e;
    stages[0] =
        (struct stage_time){.host_s = (double)b->n_chunks, .device_s = (double)b->n_decodes};
    return ST_OK;
}

static void hosts_work_beside_the_device(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    static const struct predictor_ops ops = {.predict = host_and_device};
    const struct predictor p = {.ops = &ops, .stages = 1};
    struct executor x = sim_executor(a, &p, ASYNC_OVERLAP);
    struct err e = {0};
    struct completion c;
    uint64_t ticket;
    assert_ok(executor_check(&x, &e), &e);
    assert_int_equal(x.ops->max_in_flight(x.self), 2);
    const struct batch b[] = {{.submit_s = 10, .n_chunks = 1, .n_decodes = 4},
                              {.submit_s = 10, .n_chunks = 1, .n_decodes = 2},
                              {.submit_s = 15, .n_chunks = 3, .n_decodes = 1}};
    const double ends[] = {15, 17, 19};
    assert_ok(x.ops->submit(x.self, &b[0], &ticket, &e), &e);
    for (int i = 0; i < 3; i++) {
        if (i < 2)
            assert_ok(x.ops->submit(x.self, &b[i + 1], &ticket, &e), &e);
        assert_ok(x.ops->next(x.self, INFINITY, &c, &e), &e);
        assert_near(c.end_s, ends[i], 1e-12);
        assert_near(c.device_s, b[i].n_decodes, 1e-12);
        assert_near(c.host_s, i == 1 ? 0 : 1, 1e-12);
    }
    arena_free(&a);
}

/* 4 s of host work, of which the device needs the first 1 s before it begins; its own time is the
 * number of decode rows. Tokens come 0.5 s after the device's end and hold nothing up. */
static enum st launched(void *self, const struct batch *b, struct stage_time *stages, struct err *e)
{
    (void)self;
    (void)e;
    stages[0] = (struct stage_time){.host_s = 4,
                                    .launch_s = 3,
                                    .device_s = (double)b->n_decodes,
                                    .answer_s = 0.5,
                                    .one_thread = true};
    return ST_OK;
}

/* A prompt of 100 s, all of it by the clock but 10 s. */
static enum st clocked(void *self, const struct batch *b, struct stage_time *stages, struct err *e)
{
    (void)self;
    (void)b;
    (void)e;
    for (int i = 0; i < 2; i++)
        stages[i] = (struct stage_time){.host_s = 5, .device_s = 100, .operators_s = 90};
    return ST_OK;
}

static void a_clock_falls_with_work_and_recovers_at_rest(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    static const struct predictor_ops ops = {.predict = clocked};
    static const double size[] = {8}, rested[] = {0.9}, sustained[] = {1.2}, target[] = {1};
    struct grid *g = grid_new(a, size, 1);
    const struct power_cap cap = {.smoothing_s = 60,
                                  .control_s = 50,
                                  .decode_below = 0.1,
                                  .rest_below = 2,
                                  .decode_ratio = 1.1,
                                  .rested = {g, rested},
                                  .sustained = {g, sustained},
                                  .target = {g, target}};
    struct predictor p = {.ops = &ops, .stages = 2, .power_cap = &cap};
    struct executor x = sim_executor(a, &p, ASYNC_OFF), other = sim_executor(a, &p, ASYNC_OFF);
    struct err e = {0};
    struct completion c;
    uint64_t ticket;
    struct power_cap_state clock[2] = {power_cap_rested(&cap), power_cap_rested(&cap)};
    double free_s[2] = {0};
    for (int k = 0; k < 4; k++) { /* the third comes late, the last has decodes alone */
        const struct batch b = {.submit_s = k < 2 ? 0 : 1000.0 * k,
                                .n_chunks = k < 3,
                                .prefill_tokens = k < 3 ? 256 : 0,
                                .n_decodes = k < 3 ? 0 : 4};
        const struct power_cap_batch y = {.tokens = b.prefill_tokens + b.n_decodes,
                                          .chunks = k < 3};
        const struct power_cap_factors f = power_cap_factors(&cap, &y);
        assert_ok(x.ops->submit(x.self, &b, &ticket, &e), &e);
        assert_ok(x.ops->next(x.self, INFINITY, &c, &e), &e);
        for (int i = 0; i < 2; i++) { /* a state for each stage, idle while its host works */
            const double begin_s = c.stages[i].start_s + 5;
            power_cap_rest(&cap, begin_s - free_s[i], &clock[i]);
            const double s = power_cap_run(&cap, &f, 90, 10, &clock[i]);
            assert_near(c.stages[i].device_s, s, 1e-9);
            free_s[i] = begin_s + s;
        }
        if (k == 0) /* of the other replica, which has done nothing */
            assert_ok(other.ops->submit(other.self, &b, &ticket, &e), &e);
    }
    assert_true(clock[0].held < 1e-3 && clock[0].excess < 0);
    struct completion first;
    assert_ok(other.ops->next(other.self, INFINITY, &first, &e), &e);
    assert_true(first.device_s > 2 * (10 + 81) && first.device_s < 2 * (10 + 108));
    p.power_cap = NULL;
    x = sim_executor(a, &p, ASYNC_OFF);
    const struct batch b = {.n_chunks = 1, .prefill_tokens = 256};
    assert_ok(x.ops->submit(x.self, &b, &ticket, &e), &e);
    assert_ok(x.ops->next(x.self, INFINITY, &c, &e), &e);
    assert_true(c.device_s == 200);
    arena_free(&a);
}

/* What goes with the clock: operators with the factor of the calibration run, not all-reduces. */
static void a_bundle_says_what_goes_with_the_clock(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct bundle b = {0};
    make_bundle(a, &b);
    static const double size[] = {0, 20}, factor[] = {1.5, 1.5};
    b.prompt_scale = (struct curve){grid_new(a, size, 2), factor};
    const struct power_cap cap = {.smoothing_s = 1, .control_s = 1, .decode_ratio = 1};
    b.power_cap = &cap;
    const struct predictor_params p = {.model = &two_layers, .tp = 1, .pp = 1, .bundle = &b};
    const struct predictor predictor = opened(a, &p);
    assert_ptr_equal(predictor.power_cap, &cap);
    struct stage_time t = {0};
    struct err e = {0};
    assert_ok(predictor.ops->predict(predictor.self, &mixed, &t, &e), &e);
    assert_near(t.operators_s, t.device_s, 0);
    assert_near(t.decode_share, 1.5 * 0.9 / t.device_s, 1e-9);
    arena_free(&a);
}

static void a_device_begins_while_kernels_are_launched(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    static const struct predictor_ops ops = {.predict = launched};
    const struct predictor p = {.ops = &ops, .stages = 1};
    struct executor x = sim_executor(a, &p, ASYNC_OVERLAP);
    struct err e = {0};
    struct completion c;
    uint64_t ticket;
    /* alone: the device is slower than the launching, from 11 s on; then it waits for the host,
     * which launches until 19.5 and so until 23.5 s, behind 17 s */
    const struct batch b[] = {{.submit_s = 10, .n_decodes = 6},
                              {.submit_s = 15.5, .n_decodes = 1},
                              {.submit_s = 15.5, .n_decodes = 2}};
    const double ends[] = {17.5, 20, 24}, hosts[] = {1, 1.5, 2};
    for (int i = 0; i < 3; i++) {
        assert_ok(x.ops->submit(x.self, &b[i], &ticket, &e), &e);
        assert_ok(x.ops->next(x.self, INFINITY, &c, &e), &e);
        assert_near(c.end_s, ends[i], 1e-12);
        assert_near(c.host_s, hosts[i], 1e-12);
        assert_near(c.device_s, b[i].n_decodes, 1e-12);
    }
    /* one after the other: the device works beside the launching there, too */
    struct executor serial = sim_executor(a, &p, ASYNC_OFF);
    assert_ok(serial.ops->submit(serial.self, &b[0], &ticket, &e), &e);
    assert_ok(serial.ops->next(serial.self, INFINITY, &c, &e), &e);
    assert_near(c.end_s, 17.5, 1e-12);
    assert_ok(serial.ops->submit(serial.self, &b[1], &ticket, &e), &e);
    assert_ok(serial.ops->next(serial.self, INFINITY, &c, &e), &e);
    assert_near(c.end_s, 17 + 3 + 1 + 0.5, 1e-12);
    arena_free(&a);
}

static enum st cold(void *self, const struct batch *b, struct stage_time *stages, struct err *e)
{
    (void)self;
    (void)e;
    const bool kernels = b->n_decodes > 2; /* which are launched one by one */
    stages[0] = (struct stage_time){.host_s = kernels ? 4 : 1,
                                    .launch_s = kernels ? 3 : 0,
                                    .cold_s = kernels ? 0.5 : 0,
                                    .device_s = 1,
                                    .one_thread = true};
    return ST_OK;
}

/* Only behind a batch that was launched otherwise, or none, it takes longer. */
static void launching_is_slower_from_cold(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    static const struct predictor_ops ops = {.predict = cold};
    const struct predictor p = {.ops = &ops, .stages = 1};
    struct executor x = sim_executor(a, &p, ASYNC_OFF);
    struct err e = {0};
    static const struct {
        int32_t rows;
        double lasts_s;
    } batches[] = {{4, 4.5}, {4, 4}, {1, 2}, {3, 4.5}};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        const struct batch b = {.submit_s = 10 * (double)i, .n_decodes = batches[i].rows};
        struct completion c;
        uint64_t ticket;
        assert_ok(x.ops->submit(x.self, &b, &ticket, &e), &e);
        assert_ok(x.ops->next(x.self, INFINITY, &c, &e), &e);
        assert_near(c.end_s - c.start_s, batches[i].lasts_s, 1e-12);
    }
    arena_free(&a);
}

/* The loop learns when the host is done (tests/conform/clocks_test.c has what it makes of that). */
static void a_host_that_launches_sees_nothing_meanwhile(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    static const struct predictor_ops ops = {.predict = launched},
                                      thread = {.predict = host_and_device};
    const struct predictor p = {.ops = &ops, .stages = 1}, q = {.ops = &thread, .stages = 1};
    struct executor x = sim_executor(a, &p, ASYNC_OVERLAP), y = sim_executor(a, &q, ASYNC_OVERLAP);
    struct executor serial = sim_executor(a, &p, ASYNC_SERIAL);
    struct err e = {0};
    struct completion c;
    uint64_t ticket;
    const struct batch b[] = {{.submit_s = 10, .n_decodes = 4}, {.submit_s = 12, .n_decodes = 8}};
    const double ends[] = {15.5, 23.5}, until[] = {14, 18}; /* the device goes on at 15 */
    for (int i = 0; i < 2; i++) {
        assert_ok(x.ops->submit(x.self, &b[i], &ticket, &e), &e);
        assert_ok(x.ops->next(x.self, INFINITY, &c, &e), &e);
        assert_near(c.end_s, ends[i], 1e-12);
        assert_near(c.answer_s, 0.5, 1e-12);
        assert_near(c.host_until_s, until[i], 1e-12);
    }
    /* a thread of its own for tokens; one batch after the other */
    assert_ok(y.ops->submit(y.self, &b[0], &ticket, &e), &e);
    assert_ok(y.ops->next(y.self, INFINITY, &c, &e), &e);
    assert_near(c.host_until_s, 0, 0);
    assert_ok(serial.ops->submit(serial.self, &b[0], &ticket, &e), &e);
    assert_ok(serial.ops->next(serial.self, INFINITY, &c, &e), &e);
    assert_near(c.host_until_s, 0, 0);
    arena_free(&a);
}

/* Device times of 2 stages, 1 s and 3 s: the first is free early, but a batch of the lane whose
 * last one sampled tokens waits for these; one of a lane that sampled none does not. */
static enum st one_and_three(void *self, const struct batch *b, struct stage_time *stages,
                             struct err *e)
{
    (void)self;
    (void)b;
    (void)e;
    stages[0] = (struct stage_time){.device_s = 1};
    stages[1] = (struct stage_time){.device_s = 3};
    return ST_OK;
}

static void a_turn_waits_for_the_tokens_of_its_last_one(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    static const struct predictor_ops ops = {.predict = one_and_three};
    const struct predictor p = {.ops = &ops, .stages = 2};
    struct executor x = sim_executor(a, &p, ASYNC_SERIAL);
    struct err e = {0};
    struct completion c;
    uint64_t ticket;
    assert_ok(executor_check(&x, &e), &e);
    assert_true(executor_turns(&x));
    assert_int_equal(x.ops->max_in_flight(x.self), 3);
    const struct batch b[] = {{.lane = 0, .load.rows = 1},
                              {.lane = 1, .load.rows = 0},
                              {.lane = 0, .load.rows = 1},
                              {.lane = 1, .submit_s = 4, .load.rows = 1}};
    const double starts[] = {0, 1, 4, 5}, ends[] = {4, 7, 10, 13};
    for (int i = 0; i < 3; i++)
        assert_ok(x.ops->submit(x.self, &b[i], &ticket, &e), &e);
    for (int i = 0; i < 4; i++) {
        assert_ok(x.ops->next(x.self, INFINITY, &c, &e), &e);
        assert_near(c.start_s, starts[i], 1e-12);
        assert_near(c.end_s, ends[i], 1e-12);
        if (i == 0)
            assert_ok(x.ops->submit(x.self, &b[3], &ticket, &e), &e);
    }
    arena_free(&a);
}

static void a_batch_allocates_nothing(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct bundle b = {0};
    make_bundle(a, &b);
    struct predictor_params p = {
        .model = &two_layers, .tp = 1, .pp = 1, .bundle = &b, .host_overhead = true};
    struct predictor predictor = opened(a, &p);
    struct executor x = sim_executor(a, &predictor, ASYNC_OFF);
    size_t before = arena_used(a);
    struct err e = {0};
    struct completion c;
    uint64_t ticket;
    for (int i = 0; i < 100; i++) {
        assert_ok(x.ops->submit(x.self, &mixed, &ticket, &e), &e);
        assert_ok(x.ops->next(x.self, INFINITY, &c, &e), &e);
    }
    assert_int_equal(arena_used(a), before);
    arena_free(&a);
}

/* Stage i of three takes i + 1 s of device and, the first, half a second of host. */
static enum st three_stages(void *self, const struct batch *b, struct stage_time *stages,
                            struct err *e)
{
    (void)self;
    (void)e;
    for (int i = 0; i < 3; i++)
        stages[i] = (struct stage_time){.host_s = i == 0 ? 0.5 : 0,
                                        .device_s = (i + 1) * (double)b->n_decodes};
    return ST_OK;
}

/* Each stage holds one batch; the second batch waits for the slower stages ahead of it. */
static void stages_work_side_by_side(void **state)
{
    (void)state;
    static const struct predictor_ops ops = {.name = "three", .predict = three_stages};
    struct arena *a = arena_new();
    struct predictor p = {.ops = &ops, .stages = 3};
    struct executor x = sim_executor(a, &p, ASYNC_OFF);
    struct err e = {0};
    assert_ok(executor_check(&x, &e), &e);
    assert_int_equal(x.ops->max_in_flight(x.self), 3);
    assert_int_equal(executor_lanes(&x), 3);
    const struct batch b = {.submit_s = 10, .n_decodes = 1};
    uint64_t first, second;
    struct completion c;
    assert_ok(x.ops->submit(x.self, &b, &first, &e), &e);
    assert_ok(x.ops->submit(x.self, &b, &second, &e), &e);
    assert_ok(x.ops->next(x.self, INFINITY, &c, &e), &e);
    assert_true(c.ticket == first && c.start_s == 10 && c.end_s == 16.5);
    assert_true(c.host_s == 0.5 && c.device_s == 6);
    assert_int_equal(c.n_stages, 3);
    assert_true(c.stages[0].start_s == 10 && c.stages[1].start_s == 11.5);
    assert_true(c.stages[2].start_s == 13.5 && c.stages[2].device_s == 3);
    assert_int_equal(x.ops->next(x.self, 19.25, &c, &e), ST_END);
    assert_ok(x.ops->next(x.self, 19.5, &c, &e), &e);
    assert_true(c.ticket == second && c.end_s == 19.5);
    assert_true(c.stages[0].start_s == 11.5 && c.stages[0].host_s == 0.5);
    assert_true(c.stages[1].start_s == 13.5 && c.stages[2].start_s == 16.5);
    arena_free(&a);
}

/* Layers split evenly, embedding first, rows last, hand-overs between, all-reduces everywhere: the
 * parts of two stages are those of one and the hand-over. */
static void a_bundle_is_cut_into_stages(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct bundle b = {0};
    make_bundle(a, &b);
    static const double x[] = {1, 4096};
    static double embed[] = {0.25, 1024}, reduce[] = {1e-3, 1e-3}, send[] = {0.125, 0.125};
    struct grid *g = grid_new(a, x, 2);
    b.once.n = 1;
    b.once.curve[0] = (struct curve){g, embed};
    b.all_reduce = (struct curve){g, reduce};
    b.send_recv = (struct curve){g, send};
    b.all_reduces = b.all_to_alls = 4;
    struct predictor_params p = {
        .model = &two_layers, .tp = 2, .pp = 2, .bundle = &b, .host_overhead = true};
    struct predictor two = opened(a, &p);
    p.pp = 1;
    struct predictor one = opened(a, &p);
    struct stage_time t[2];
    struct err e = {0};
    double device, host;
    predict(&one, &mixed, &device, &host);
    assert_ok(two.ops->predict(two.self, &mixed, t, &e), &e);
    assert_near(t[0].device_s + t[1].device_s, device + 0.125, 1e-9);
    assert_near(t[1].device_s - t[0].device_s, 4000 - 68 * 0.25 - 0.125, 1e-6);
    assert_near(t[0].host_s, host, 0);
    assert_near(t[1].host_s, 0, 0);
    p.tp = 1;
    struct predictor alone = opened(a, &p);
    double less;
    predict(&alone, &mixed, &less, &host);
    assert_near(device - less, 4e-3, 1e-9);
    arena_free(&a);
}

/* Four groups of two shards: each group has a quarter of the tokens, rows and decodes, a device an
 * eighth of the experts, and the busiest of them more than an eighth of the pairs. Of 1 s a token
 * 0.75 are the experts', all of it work. */
static void experts_are_shared_by_groups(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct bundle b = {0};
    make_bundle(a, &b);
    static const double x[] = {1, 4096};
    static double expert[] = {0.75, 0.75 * 4096}, to_all[] = {1e-3, 4.096}, reduce[] = {1, 1};
    struct grid *g = grid_new(a, x, 2);
    b.experts.n = 1;
    b.experts.curve[0] = (struct curve){g, expert};
    b.experts_fit[2] = 0.75;
    b.expert_model = (struct model){.experts = 16, .experts_per_token = 6};
    b.all_to_all = (struct curve){g, to_all};
    b.all_reduce = (struct curve){g, reduce};
    b.all_reduces = b.all_to_alls = 4;
    struct model m = two_layers;
    m.experts = 16;
    m.experts_per_token = 6;
    struct predictor_params p = {.model = &m, .tp = 2, .pp = 1, .ep = 8, .bundle = &b};
    struct predictor predictor = opened(a, &p);
    struct batch decode = {.n_decodes = 16, .decode_kv_tokens = 16 * 100, .decode_kv_max = 100};
    double device, host;
    predict(&predictor, &decode, &device, &host);
    /* a group: 4 tokens at 0.25 s, 4 rows, 400 cached tokens; 4 all-reduces; the busiest device: of
     * two experts with 6/16 of 16 tokens each, 12 pairs and more, which 4 all-to-alls bring */
    struct expert_load load;
    expert_load_make(&m, 8, 0, &load);
    const double most = expert_load_at(&load, 16).pairs, many = expert_load_at(&load, 100).pairs;
    assert_true(most > 14 && most < 18 && many > 80 && many < 90);
    assert_near(device,
                4 * 0.25 + 2 * most / 6 * 0.75 + 4000 + 0.4 + 4 * 1 + 4 * round(most) * 1e-3, 1e-6);
    p.ep = 2; /* the shards themselves: nothing is sent, all-reduces add up what experts made */
    predictor = opened(a, &p);
    predict(&predictor, &decode, &device, &host);
    assert_near(device, 16 + 16000 + 1.6 + 4, 1e-6);
    /* one long chunk cannot be split: it is one group's, 100 tokens, whose devices send 300 pairs
     */
    p.ep = 8;
    predictor = opened(a, &p);
    static const struct chunk one[] = {{.slot = 1, .tokens = 100}};
    struct batch prompt = {.chunks = one, .n_chunks = 1, .prefill_tokens = 100};
    predict(&predictor, &prompt, &device, &host);
    assert_near(device,
                100 * 0.25 + 2 * many / 6 * 0.75 + 1e-6 * scores(0, 100) + 4 + 4 * 300 * 1e-3,
                1e-6);
    p.expert_skew = 1;
    predictor = opened(a, &p);
    double uneven;
    predict(&predictor, &prompt, &uneven, &host);
    assert_true(uneven - device > 0.3 * 2 * many / 6 * 0.75);
    /* where all devices have a part of each expert, fewer of them are read */
    p.ep = p.tp;
    predictor = opened(a, &p);
    predict(&predictor, &decode, &uneven, &host);
    p.expert_skew = 0;
    predictor = opened(a, &p);
    predict(&predictor, &decode, &device, &host);
    assert_true(uneven <= device);
    arena_free(&a);
}

static void expert_parallelism_is_checked(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct bundle b = {0};
    make_bundle(a, &b);
    struct model m = two_layers;
    struct predictor_params p = {.model = &m, .tp = 2, .pp = 1, .ep = 4, .bundle = &b};
    struct predictor out;
    struct err e = {0};
    m.name = "tiny";
    assert_int_equal(predictor_open(a, &predictor_bundle, &p, &out, &e), ST_USAGE);
    assert_cause(&e, "parallel.ep: the model has no experts");
    err_clear(&e);
    p.ep = 1;
    p.expert_skew = 0.5;
    assert_int_equal(predictor_open(a, &predictor_bundle, &p, &out, &e), ST_USAGE);
    assert_cause(&e, "parallel.expert_skew: the model has no experts");
    err_clear(&e);
    p.ep = 4;
    p.expert_skew = 0;
    m.experts = 6;
    m.experts_per_token = 1;
    assert_int_equal(predictor_open(a, &predictor_bundle, &p, &out, &e), ST_USAGE);
    assert_cause(&e, "parallel.ep: 4 devices are no multiple of parallel.tp=2 that divides the 6 "
                     "experts of tiny");
    err_clear(&e);
    m.experts = 8;
    p.tables = "nowhere";
    assert_int_equal(predictor_open(a, &predictor_vidur_tables, &p, &out, &e), ST_USAGE);
    assert_cause(&e, "parallel.ep: this predictor has no experts");
    arena_free(&a);
}

/* Operators draw 3 W, or 5 W where nothing is known of them but their energy; idle devices 0.5 W.
 */
static void energy_is_that_of_the_operators_and_of_idle_devices(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct bundle b = {0};
    make_bundle(a, &b);
    static const double x[] = {1, 4096};
    static double reduce[] = {0.25, 0.25}, token_j[] = {3, 3 * 4096}, row_j[] = {5000, 5000 * 4096};
    struct grid *g = grid_new(a, x, 2);
    b.all_reduce = (struct curve){g, reduce};
    b.all_reduces = b.all_to_alls = 4;
    b.has_energy = true;
    b.idle_w = 0.5;
    b.energy_tokens.n = b.energy_rows.n = 1;
    b.energy_tokens.curve[0] = (struct curve){g, token_j};
    b.energy_rows.curve[0] = (struct curve){g, row_j};
    struct predictor_params p = {
        .model = &two_layers, .tp = 2, .pp = 1, .bundle = &b, .host_overhead = true};
    struct predictor predictor = opened(a, &p);
    struct executor ex = sim_executor(a, &predictor, ASYNC_OFF);
    struct err e = {0};
    struct completion c;
    uint64_t ticket;
    assert_ok(ex.ops->submit(ex.self, &mixed, &ticket, &e), &e);
    assert_ok(ex.ops->next(ex.self, INFINITY, &c, &e), &e);
    /* 68 tokens, 4 rows; idle in 0.5 s of host time and 4 all-reduces of 0.25 s; two shards */
    assert_near(c.energy_j, 2 * (68 * 3 + 4 * 5000 + 0.5 * (0.5 + 1)), 1e-9);
    /* 3 replicas for 10 s, their stages busy for 12 s */
    assert_near(predictor_idle_j(&predictor, 3, 12, 10), 2 * 0.5 * (30 - 12), 1e-12);
    assert_near(predictor_idle_j(&predictor, 1, 12, 10), 0, 0);
    arena_free(&a);
}

/* What waking up takes is busy time, in which devices draw what idle ones do. */
static void waking_up_draws_idle_power(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct bundle b = {0};
    make_bundle(a, &b);
    static const double pause[] = {1}, device[] = {2}, host[] = {0.5};
    b.has_energy = true;
    b.idle_w = 4;
    b.wake.pause_s = pause;
    b.wake.device_s = device;
    b.wake.host_s = host;
    b.wake.levels = b.wake.iterations = 1;
    struct predictor_params p = {
        .model = &two_layers, .tp = 2, .pp = 1, .bundle = &b, .host_overhead = true};
    struct predictor predictor = opened(a, &p);
    struct executor ex = sim_executor(a, &predictor, ASYNC_OFF);
    struct err e = {0};
    struct completion c;
    uint64_t ticket;
    assert_ok(ex.ops->submit(ex.self, &mixed, &ticket, &e), &e);
    assert_ok(ex.ops->next(ex.self, INFINITY, &c, &e), &e);
    /* two shards; 0.5 s of host time, 2.5 s of waking after 10 s without work */
    assert_near(c.energy_j, 2 * 4 * (0.5 + 2.5), 1e-9);
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_work_side_by_side),
        cmocka_unit_test(experts_are_shared_by_groups),
        cmocka_unit_test(expert_parallelism_is_checked),
        cmocka_unit_test(energy_is_that_of_the_operators_and_of_idle_devices),
        cmocka_unit_test(waking_up_draws_idle_power),
        cmocka_unit_test(a_bundle_is_cut_into_stages),
        cmocka_unit_test(a_batch_is_the_sum_of_its_parts),
        cmocka_unit_test(rows_that_verify_drafts_have_their_tokens),
        cmocka_unit_test(batches_end_when_predicted_one_at_a_time),
        cmocka_unit_test(hosts_work_beside_the_device),
        cmocka_unit_test(a_clock_falls_with_work_and_recovers_at_rest),
        cmocka_unit_test(a_bundle_says_what_goes_with_the_clock),
        cmocka_unit_test(a_device_begins_while_kernels_are_launched),
        cmocka_unit_test(launching_is_slower_from_cold),
        cmocka_unit_test(a_host_that_launches_sees_nothing_meanwhile),
        cmocka_unit_test(a_turn_waits_for_the_tokens_of_its_last_one),
        cmocka_unit_test(a_batch_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
