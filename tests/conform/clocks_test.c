/* One scheduler, two clocks: an engine with two batches in flight on the real clock, and its
 * simulation on the virtual one, build the same batches at the same moments when both take equally
 * long. The engine's clock is scripted: preparing and launching move it on in submit(), taking
 * tokens in next(), as in engine/cuda. All times are multiples of 2^-20 s, so that sums are exact.
 */
#include <math.h>
#include <stdio.h>

#include "base/rng.h"
#include "base/vec.h"
#include "sim/sim.h"
#include "support/support.h"

static const double UNIT_S = 1.0 / (1 << 20);

/* ---- times ---- */

struct machine {
    double decode_s, prompt_s, token_s, row_s; /* device */
    double host_s, chunk_s, launch;            /* host; launch: share of it, 0.5 or 0.75 or 1 */
    double answer_s, answer_more_s;            /* more: of some batches, up to three times */
};

static double rounded(double s)
{
    return floor(s / UNIT_S / 8) * UNIT_S * 8;
}

static struct stage_time times_of(const struct machine *m, const struct batch *b)
{
    struct stage_time t = {.device_s = b->n_chunks ? m->prompt_s : m->decode_s,
                           .host_s = m->host_s,
                           .answer_s =
                               m->answer_s + m->answer_more_s * (double)(b->load.kv_tokens % 4)};
    t.device_s +=
        rounded(m->token_s * (double)b->load.kv_tokens + m->row_s * (double)b->load.tokens);
    t.host_s += m->chunk_s * (double)b->n_chunks;
    t.launch_s = t.host_s * m->launch;
    t.one_thread = true;
    return t;
}

/* ---- the engine ---- */

struct engine {
    const struct machine *m;
    struct serve_clock *clock;
    struct out {
        uint64_t ticket;
        double done_s, answer_s; /* by the device, by the host */
        bool answered;
        struct completion c;
    } out[2];
    int first, n_out;
    uint64_t tickets;
    double device_free_s;
};

static int32_t two(void *self)
{
    (void)self;
    return 2;
}

static enum st engine_submit(void *self, const struct batch *b, uint64_t *ticket, struct err *e)
{
    struct engine *g = self;
    struct out *o = &g->out[(g->first + g->n_out) % 2];
    const struct stage_time t = times_of(g->m, b);
    const double launched_s = g->clock->now_s + t.host_s;
    (void)e;
    assert_true(g->n_out < 2);
    const double begin_s = fmax(launched_s - t.launch_s, g->device_free_s);
    g->device_free_s = fmax(begin_s + t.device_s, launched_s);
    g->clock->now_s = launched_s;
    *o = (struct out){
        .ticket = *ticket = ++g->tickets, .done_s = g->device_free_s, .answer_s = t.answer_s};
    o->c = (struct completion){
        .ticket = o->ticket, .start_s = launched_s - t.host_s, .device_s = t.device_s};
    g->n_out++;
    return ST_OK;
}

static enum st engine_next(void *self, double deadline_s, struct completion *c, struct err *e)
{
    struct engine *g = self;
    struct out *o = &g->out[g->first];
    (void)e;
    if (g->n_out == 0)
        return ST_END;
    if (!o->answered && o->done_s > fmax(deadline_s, g->clock->now_s)) {
        clock_advance_s(g->clock, deadline_s);
        return ST_END;
    }
    if (!o->answered) {
        clock_advance_s(g->clock, o->done_s);
        o->answered = true;
        o->c.end_s = g->clock->now_s += o->answer_s;
    }
    if (o->c.end_s > deadline_s)
        return ST_END;
    *c = o->c;
    g->first = (g->first + 1) % 2;
    g->n_out--;
    return ST_OK;
}

static void nothing_to_close(void *self)
{
    (void)self;
}

static const struct executor_ops engine_ops = {.name = "scripted",
                                               .version = EXECUTOR_VERSION,
                                               .max_in_flight = two,
                                               .submit = engine_submit,
                                               .next = engine_next,
                                               .close = nothing_to_close};

/* ---- the simulation ---- */

static enum st predicted(void *self, const struct batch *b, struct stage_time *stages,
                         struct err *e)
{
    (void)e;
    stages[0] = times_of(self, b);
    return ST_OK;
}

static const struct predictor_ops predictor_of_machine = {.name = "machine", .predict = predicted};

/* ---- a run ---- */

struct row {
    double submit_s, end_s;
    int64_t iteration, prefill, decodes, kv_tokens, kv_blocks, waiting, running;
};

struct recorded {
    const struct workload_request *w;
    size_t n, pulled;
    VEC(struct row) rows;
    VEC(struct run_request) requests;
};

static enum st pull(void *self, struct workload_request *out, struct err *e)
{
    struct recorded *r = self;
    (void)e;
    if (r->pulled == r->n)
        return ST_END;
    *out = r->w[r->pulled++];
    return ST_OK;
}

static void on_iteration(void *self, const struct serve_iteration *i)
{
    struct recorded *r = self;
    const struct row row = {i->b->submit_s,       i->c->end_s,     i->b->iteration,
                            i->b->prefill_tokens, i->b->n_decodes, i->b->load.kv_tokens,
                            i->b->kv_blocks,      i->waiting,      i->running};
    vec_push(&r->rows, row);
}

static void on_request(void *self, const struct run_request *q)
{
    struct recorded *r = self;
    vec_push(&r->requests, *q);
}

static void run(const struct serve_params *p, struct machine *m, bool simulated,
                const struct workload_request *w, size_t n, struct recorded *out)
{
    struct arena *a = arena_new();
    struct serve_clock clock = clock_virtual();
    struct engine g = {.m = m, .clock = &clock};
    const struct predictor predictor = {.ops = &predictor_of_machine, .self = m, .stages = 1};
    struct executor ex = {&engine_ops, &g};
    struct serve_counters counters;
    struct err e = {0};
    *out = (struct recorded){.w = w, .n = n};
    const struct request_source source = {out, pull, NULL, NULL};
    const struct serve_sink sink = {.self = out, .iteration = on_iteration, .request = on_request};
    if (simulated)
        ex = sim_executor(a, &predictor, ASYNC_OVERLAP);
    else
        clock = (struct serve_clock){.scripted = true};
    assert_ok(serve_run(p, &clock, &ex, &source, &sink, NULL, &counters, &e), &e);
    arena_free(&a);
}

static void check_alike(const struct recorded *real, const struct recorded *sim, int k)
{
    assert_int_equal(real->requests.n, sim->requests.n);
    for (size_t i = 0; i < real->rows.n && i < sim->rows.n; i++) {
        const struct row *x = &real->rows.p[i], *y = &sim->rows.p[i];
        if (x->end_s != y->end_s || x->prefill != y->prefill || x->decodes != y->decodes ||
            x->kv_tokens != y->kv_tokens || x->kv_blocks != y->kv_blocks ||
            x->waiting != y->waiting || x->running != y->running)
            fail_msg("case %d, batch %zu of %zu and %zu: real %lld + %lld rows, %lld blocks, %lld "
                     "waiting, end %.0f; simulated %lld + %lld, %lld, %lld, %.0f",
                     k, i, real->rows.n, sim->rows.n, (long long)x->prefill, (long long)x->decodes,
                     (long long)x->kv_blocks, (long long)x->waiting, x->end_s / UNIT_S,
                     (long long)y->prefill, (long long)y->decodes, (long long)y->kv_blocks,
                     (long long)y->waiting, y->end_s / UNIT_S);
    }
    assert_int_equal(real->rows.n, sim->rows.n);
    for (size_t i = 0; i < real->requests.n; i++) {
        const struct run_request *x = &real->requests.p[i], *y = &sim->requests.p[i];
        assert_int_equal(x->request_id, y->request_id);
        assert_int_equal(x->first_token_ns, y->first_token_ns);
        assert_int_equal(x->completion_ns, y->completion_ns);
        assert_int_equal(x->preemptions, y->preemptions);
    }
}

static void recorded_free(struct recorded *r)
{
    vec_free(&r->rows);
    vec_free(&r->requests);
}

static double drawn(struct rng *r, int64_t most)
{
    return UNIT_S * 8 * (double)rng_below(r, (uint64_t)most + 1);
}

/* From hosts that hardly show to such that take longer than the device; from an idle engine to one
 * whose KV blocks run out. */
static void both_clocks_build_the_same_batches(void **state)
{
    (void)state;
    enum { MOST = 60 };
    int64_t preemptions = 0, waited = 0;
    for (int k = 0; k < 400; k++) {
        struct rng r = rng_stream((uint64_t)k, "clocks");
        struct machine m = {.decode_s = drawn(&r, 100) + UNIT_S * 80,
                            .prompt_s = drawn(&r, 300) + UNIT_S * 80,
                            .token_s = 0.1 * UNIT_S,
                            .row_s = 2 * UNIT_S,
                            .host_s = drawn(&r, k % 3 ? 20 : 150) + UNIT_S * 8,
                            .chunk_s = drawn(&r, k % 2 ? 0 : 80),
                            .launch = (double[]){0.5, 0.75, 1}[rng_below(&r, 3)],
                            .answer_s = drawn(&r, k % 5 ? 2 : 40),
                            .answer_more_s = k % 3 == 1 ? UNIT_S * 8 : 0};
        struct workload_request w[MOST];
        const size_t n = 5 + rng_below(&r, MOST - 5);
        const int64_t gap = 1 + (int64_t)rng_below(&r, 1500);
        double at_s = 0;
        for (size_t i = 0; i < n; i++) {
            at_s += drawn(&r, gap) + (k % 7 ? UNIT_S : 0); /* odd: at no event's moment */
            w[i] = (struct workload_request){.request_id = (int64_t)i,
                                             .row = (int64_t)i,
                                             .arrival_s = at_s,
                                             .arrival_ns = (int64_t)llround(at_s * 1e9),
                                             .num_prefill_tokens = 1 + (int64_t)rng_below(&r, 200),
                                             .num_decode_tokens =
                                                 1 + (int64_t)rng_below(&r, k % 4 ? 40 : 4)};
        }
        const bool v1 = k % 10 < 8;
        const struct serve_params p = {.policy = v1            ? "vllm_v1"
                                                 : k % 10 == 8 ? "sarathi"
                                                               : "orca",
                                       .replicas = 1,
                                       .batch_cap = 1 + (int64_t)rng_below(&r, 24),
                                       .token_budget = v1 ? 32 + (int64_t)rng_below(&r, 300) : 0,
                                       .block_size = 16,
                                       .num_blocks = 16 + (int64_t)rng_below(&r, 200)};
        struct recorded real, sim;
        run(&p, &m, false, w, n, &real);
        run(&p, &m, true, w, n, &sim);
        check_alike(&real, &sim, k);
        for (size_t i = 0; i < real.requests.n; i++)
            preemptions += real.requests.p[i].preemptions;
        for (size_t i = 0; i < real.rows.n; i++)
            waited += real.rows.p[i].waiting > 0;
        recorded_free(&real);
        recorded_free(&sim);
    }
    assert_true(preemptions > 100 && waited > 100); /* the cases are not all easy ones */
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(both_clocks_build_the_same_batches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
