/* Iterations of a scripted server: two layers, a graph for decode steps, graphs of three pieces for
 * small mixed batches, kernels alone for large ones; warm-up and pauses, and a second thread. */
#include "kernels/serving.h"

#include <math.h>
#include <stdlib.h>

#include "profile/whole.h"
#include "support/support.h"

/* us */
enum { COPY_CALL = 2, CALL = 4, GRAPH_CALL = 20, BETWEEN = 300, WAIT = 500 };

struct server {
    struct trace t;
    struct kernels k;
    struct trace_sink sink;
    struct test *test;
    uint32_t process, engine, other;
    int64_t now_us, gpu_us; /* host; when the GPU is free */
    uint32_t correlation;
};

struct piece {
    const char *kernel; /* NULL = a copy */
    int us, copies;     /* how long; of a graph: how many of them */
    uint32_t graph;
    bool to_host;
};

static void server_begin(struct test *t, struct server *s)
{
    *s = (struct server){.test = t, .now_us = 1000};
    trace_begin(&s->t);
    s->sink = trace_sink_of(&s->t);
    s->process = trace_process_of(&s->t.dict, 7, 0);
    s->engine = trace_thread_of(&s->t.dict, s->process, 8);
    s->other = trace_thread_of(&s->t.dict, s->process, 9);
}

static void put_piece(struct server *s, const struct piece *l, uint32_t thread)
{
    const char *const call = l->graph ? "cuGraphLaunch" : l->kernel ? "cuLaunchKernel" : "cuMemcpy";
    const int call_us = l->graph ? GRAPH_CALL : l->kernel ? CALL : COPY_CALL;
    struct trace_sig sig = {.process = s->process, .graph = l->graph};
    sig.kind = l->kernel ? TRACE_KERNEL : TRACE_COPY;
    sig.copy_kind = l->kernel ? 0 : l->to_host ? 2 : 1;
    sig.name = l->kernel ? trace_string(&s->t.dict, sv_of(l->kernel))
                         : trace_memory_op_name(&s->t.dict, &sig);
    struct trace_call c = {.start_ns = s->now_us * 1000,
                           .end_ns = (s->now_us + call_us) * 1000,
                           .correlation = ++s->correlation,
                           .thread = thread,
                           .name = trace_string(&s->t.dict, sv_of(call))};
    assert_ok(s->sink.call(s->sink.self, &c, &s->test->e), s->test);
    s->now_us += call_us;
    for (int i = 0; i < (l->copies ? l->copies : 1); i++) {
        const int64_t start = s->gpu_us > s->now_us ? s->gpu_us : s->now_us;
        struct trace_op o = {.start_ns = start * 1000,
                             .end_ns = (start + l->us) * 1000,
                             .sig = trace_sig_id(&s->t.dict, &sig),
                             .correlation = s->correlation,
                             .graph_node = l->graph ? (uint64_t)i + 1 : 0};
        assert_ok(s->sink.op(s->sink.self, &o, &s->test->e), s->test);
        s->gpu_us = start + l->us;
    }
}

/* The host waits for the GPU; waits are WAIT us at least. */
static void put_wait(struct server *s)
{
    const int64_t until = s->gpu_us > s->now_us + WAIT ? s->gpu_us : s->now_us + WAIT;
    struct trace_sync y = {.start_ns = s->now_us * 1000,
                           .end_ns = until * 1000,
                           .process = s->process,
                           .stream = TRACE_NONE,
                           .event = TRACE_NONE};
    assert_ok(s->sink.sync(s->sink.self, &y, &s->test->e), s->test);
    s->now_us = until;
}

#define ATTENTION "void flash::fwd<1>(int)"
#define PRODUCT   "nvjet_sm90_hsh_64x8"
#define SAMPLE    "ArgMaxOps"

/* An iteration of so many tokens; the host goes on BETWEEN us later. */
static void put_iteration(struct server *s, enum serving_kind kind, int tokens)
{
    const struct piece input = {.us = 1}, output = {.us = 1, .to_host = true};
    const struct piece sample = {SAMPLE, 3, 0, 0, false};
    const struct piece attention = {ATTENTION, 5, 0, 0, false};
    put_piece(s, &input, s->engine);
    if (kind == SERVING_FULL)
        put_piece(s, &(struct piece){PRODUCT, 100 + tokens, 2, 40, false}, s->engine);
    for (int layer = 0; kind != SERVING_FULL && layer < 3; layer++) {
        const uint32_t graph = kind == SERVING_PIECES ? 50 + (uint32_t)layer : 0;
        put_piece(s, &(struct piece){PRODUCT, 100 + tokens, 1, graph, false}, s->engine);
        if (layer < 2)
            put_piece(s, &attention, s->engine);
    }
    put_piece(s, &sample, s->engine);
    put_piece(s, &output, s->engine);
    put_wait(s);
    s->now_us += BETWEEN;
}

static void server_end(struct server *s)
{
    trace_finish(&s->t);
    kernels_open(&s->k, &s->t, NULL);
}

static void server_close(struct server *s)
{
    kernels_close(&s->k);
    trace_free(&s->t);
}

/* Iterations that were served: of i, every fifth a small prompt, every seventh a large one. */
static enum serving_kind kind_of(int i)
{
    return i % 7 == 6 ? SERVING_NONE : i % 5 == 4 ? SERVING_PIECES : SERVING_FULL;
}

static int tokens_of(int i)
{
    return kind_of(i) == SERVING_NONE     ? 600 + 20 * (i % 3)
           : kind_of(i) == SERVING_PIECES ? 200 + 10 * (i % 4)
                                          : 1 + i % 9;
}

static void serve(struct test *t, struct server *s, int n)
{
    server_begin(t, s);
    put_iteration(s, SERVING_NONE, 1000); /* a warm-up, and no copy of its own behind it */
    s->now_us += 2 * SERVING_PAUSE_NS / 1000;
    for (int i = 0; i < n; i++) {
        if (i == 20)
            s->now_us += 3000000; /* no requests */
        put_iteration(s, kind_of(i), tokens_of(i));
        put_piece(s, &(struct piece){"elsewhere", 1, 0, 0, false}, s->other);
    }
    server_end(s);
}

static struct iteration_log *log_of(struct test *t, int from, int n)
{
    struct buf text = {0};
    struct iteration_log *log = arena_one(t->a, struct iteration_log);
    for (int i = from; i < from + n; i++) {
        const bool prompt = kind_of(i) != SERVING_FULL;
        buf_printf(&text,
                   "INFO Iteration(%d): %d context requests, %d context tokens, %d generation "
                   "requests, %d generation tokens, iteration elapsed time: 0.05 ms\n",
                   100 + i, prompt, prompt ? tokens_of(i) - 1 : 0, prompt ? 1 : tokens_of(i),
                   prompt ? 1 : tokens_of(i));
    }
    assert_ok(
        iteration_log_parse(t->a, "vllm.log", sv_of(arena_str(t->a, buf_str(&text))), log, &t->e),
        t);
    buf_free(&text);
    return log;
}

static void iterations_end_with_copies_to_the_host(void **state)
{
    struct test *t = *state;
    struct server s;
    struct serving found;
    serve(t, &s, 40);
    assert_ok(serving_find(t->a, &s.k, &found, &t->e), t);
    /* The warm-up of the script copies as well: the first iteration is that. */
    assert_int_equal(found.n, 41);
    assert_int_equal(found.elsewhere, 40);
    for (int i = 0; i < 40; i++) {
        const struct serving_iteration *x = &found.of[i + 1];
        const enum serving_kind kind = kind_of(i);
        assert_int_equal(x->kind, kind);
        assert_int_equal(x->graphs, kind == SERVING_FULL ? 1 : kind == SERVING_PIECES ? 3 : 0);
        assert_int_equal(x->calls, kind == SERVING_FULL ? 4 : 8);
        assert_int_equal(x->operations, kind == SERVING_FULL ? 5 : 8);
        assert_int_equal(x->after_idle, i == 0 || i == 20);
        assert_int_equal(x->graph, kind == SERVING_FULL ? 40 : kind == SERVING_PIECES ? 50 : 0);
        const int calls = 2 * COPY_CALL + CALL +
                          (kind == SERVING_FULL     ? GRAPH_CALL
                           : kind == SERVING_PIECES ? 3 * GRAPH_CALL + 2 * CALL
                                                    : 5 * CALL);
        assert_int_equal(x->launch_to_ns - x->launch_from_ns, 1000 * calls);
        const int products = (kind == SERVING_FULL ? 2 : 3) * (100 + tokens_of(i));
        assert_int_equal(x->class_ns[CLASS_PRODUCTS], 1000 * products);
        assert_int_equal(x->class_ns[CLASS_ATTENTION], kind == SERVING_FULL ? 0 : 10000);
        assert_int_equal(x->class_ns[CLASS_SAMPLING], 3000);
        assert_int_equal(x->class_ns[CLASS_COPIES], 2000);
        assert_int_equal(x->busy_ns, 1000 * (products + 3 + 2 + (kind == SERVING_FULL ? 0 : 10)));
        if (x->after_idle) {
            assert_int_equal(x->before_ns, -1);
            assert_int_equal(x->period_ns, x->to_ns - x->launch_from_ns);
            continue;
        }
        assert_int_equal(x->before_ns, 1000 * (BETWEEN + CALL)); /* the other thread's launch too */
        assert_true(x->wait_ns >= 1000 * WAIT);
        assert_int_equal(x->tokens_ns, x->to_ns); /* this host launches nothing ahead */
        assert_int_equal(x->period_ns, x->to_ns - x[-1].to_ns);
    }
    server_close(&s);
}

/* The host launches the next iteration before it waits: tokens are handed on after that. */
static void tokens_wait_for_the_next_launch(void **state)
{
    struct test *t = *state;
    struct server s;
    struct serving found;
    server_begin(t, &s);
    for (int i = 0; i < 3; i++) {
        for (int kernel = 0; kernel < (i == 1 ? 20 : 1); kernel++)
            put_piece(&s, &(struct piece){PRODUCT, 20, 0, 0, false}, s.engine);
        put_piece(&s, &(struct piece){.us = 1, .to_host = true}, s.engine);
        s.now_us += i == 1 ? 1000 : 10;
    }
    server_end(&s);
    assert_ok(serving_find(t->a, &s.k, &found, &t->e), t);
    assert_int_equal(found.n, 3);
    assert_true(found.of[1].launch_from_ns < found.of[0].to_ns);
    assert_true(found.of[1].launch_to_ns > found.of[0].to_ns);
    assert_int_equal(found.of[0].tokens_ns, found.of[1].launch_to_ns);
    assert_int_equal(found.of[1].tokens_ns, found.of[1].to_ns); /* the host came later */
    server_close(&s);
}

static void what_ran_before_the_first_copy_is_left_out(void **state)
{
    struct test *t = *state;
    struct server s;
    struct serving found;
    server_begin(t, &s);
    for (int i = 0; i < 5; i++)
        put_piece(&s, &(struct piece){PRODUCT, 50, 0, 0, false}, s.engine);
    s.now_us += 2 * SERVING_PAUSE_NS / 1000;
    put_iteration(&s, SERVING_FULL, 1);
    put_iteration(&s, SERVING_FULL, 1);
    server_end(&s);
    assert_ok(serving_find(t->a, &s.k, &found, &t->e), t);
    assert_int_equal(found.n, 2);
    assert_int_equal(found.of[0].calls, 4);
    assert_int_equal(found.of[0].kind, SERVING_FULL);
    server_close(&s);
}

static void a_log_says_what_they_held(void **state)
{
    struct test *t = *state;
    struct server s;
    struct serving found;
    size_t n;
    size_t compiled;
    bool kv_unknown;
    serve(t, &s, 40);
    assert_ok(serving_find(t->a, &s.k, &found, &t->e), t);
    assert_ok(serving_align(t->a, log_of(t, 0, 40), &found, &t->e), t);
    assert_int_equal(found.shift, 1);
    assert_int_equal(found.n_logged, 40);
    assert_true(found.agreement == 1);
    assert_null(found.of[0].log);
    for (int i = 0; i < 40; i++)
        assert_int_equal(found.of[i + 1].log->index, 100 + i);
    const struct serving_sum *sums = serving_sums(t->a, &found, &n);
    assert_int_equal(n, 3);
    assert_int_equal(sums[SERVING_FULL].iterations + sums[SERVING_PIECES].iterations, 35);
    assert_true(sums[SERVING_PIECES].graphs == 3);
    assert_true(fabs(sums[SERVING_PIECES].launch_ms - 0.076) < 1e-9);
    assert_true(fabs(sums[SERVING_FULL].before_ms - 0.304) < 1e-9);
    assert_true(sums[SERVING_PIECES].tokens >= 200 && sums[SERVING_PIECES].tokens <= 230);
    const struct whole_sample *samples = serving_samples(t->a, &found, &n, &compiled, &kv_unknown);
    assert_int_equal(n, 40);
    assert_int_equal(compiled, 0);
    assert_true(kv_unknown);
    assert_true(samples[4].b.chunk_tokens == tokens_of(4) - 1);
    assert_true(fabs(samples[4].launch_s - 76e-6) < 1e-12);
    assert_true(fabs(samples[4].host_s - samples[4].launch_s - 304e-6) < 1e-12);
    /* 8 operations with the gaps of graphs, 19 us of 5, are more than it had: launching its first
     */
    assert_true(fabs(samples[4].device_s * 1e9 - (double)found.of[5].busy_ns - 19e3) < 1);
    /* large: its kernels waited for their launches, and 8 operations have 30.4 us */
    assert_int_equal(found.of[7].kind, SERVING_NONE);
    const double own = (double)(found.of[7].to_ns - found.of[7].from_ns - found.of[7].busy_ns);
    assert_true(fabs(samples[6].device_s * 1e9 - (double)found.of[7].busy_ns -
                     fmin(own, 8 * 19e3 / 5)) < 1);
    found.of[7].launch_to_ns = found.of[7].launch_from_ns + 834000000; /* a first use */
    serving_samples(t->a, &found, &n, &compiled, &kv_unknown);
    assert_int_equal(n, 39);
    assert_int_equal(compiled, 1);
    server_close(&s);
}

/* A recording of a part of the time. */
static void a_part_of_a_log_is_found(void **state)
{
    struct test *t = *state;
    struct server s;
    struct serving found;
    server_begin(t, &s);
    for (int i = 30; i < 70; i++)
        put_iteration(&s, kind_of(i), tokens_of(i));
    server_end(&s);
    assert_ok(serving_find(t->a, &s.k, &found, &t->e), t);
    assert_int_equal(found.n, 40);
    assert_ok(serving_align(t->a, log_of(t, 0, 100), &found, &t->e), t);
    for (int i = 0; i < 40; i++)
        assert_int_equal(found.of[i].log->index, 130 + i);
    server_close(&s);
}

static void another_servers_log_is_refused(void **state)
{
    struct test *t = *state;
    struct server s;
    struct serving found;
    serve(t, &s, 40);
    assert_ok(serving_find(t->a, &s.k, &found, &t->e), t);
    assert_int_equal(serving_align(t->a, log_of(t, 3, 41), &found, &t->e), ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 0), "vllm.log does not belong to the trace"));
    server_close(&s);
}

static void a_trace_without_iterations_is_refused(void **state)
{
    struct test *t = *state;
    struct server s;
    struct serving found;
    server_begin(t, &s);
    server_end(&s);
    assert_int_equal(serving_find(t->a, &s.k, &found, &t->e), ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 0), "holds no launches on the host"));
    server_close(&s);
    t->e = (struct err){0};
    server_begin(t, &s);
    put_piece(&s, &(struct piece){PRODUCT, 50, 0, 0, false}, s.engine);
    server_end(&s);
    assert_int_equal(serving_find(t->a, &s.k, &found, &t->e), ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 0), "no work is followed by a copy to the host"));
    server_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(iterations_end_with_copies_to_the_host),
        TEST(tokens_wait_for_the_next_launch),
        TEST(what_ran_before_the_first_copy_is_left_out),
        TEST(a_log_says_what_they_held),
        TEST(a_part_of_a_log_is_found),
        TEST(another_servers_log_is_refused),
        TEST(a_trace_without_iterations_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
