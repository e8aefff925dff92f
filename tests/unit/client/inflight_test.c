/* What a transfer tells its caller, and when; how every fault ends is run_test.c's. */
#include "client/inflight.h"

#include <math.h>

#include "support/fault_server.h"
#include "support/support.h"

#define EVENT(text)          \
    {                        \
        FAULT_EVENT, text, 0 \
    }
#define TOKEN "{\"choices\":[{\"text\":\"a\",\"finish_reason\":null}]}"
#define BUSY(after)                                                                          \
    "HTTP/1.1 503 Busy\r\nRetry-After: " after "\r\nContent-Type: text/plain\r\nContent-Len" \
    "gth: 4\r\n\r\nbusy"

static const struct fault_step good[] = {
    {FAULT_SEND, FAULT_STREAM_HEAD, 0}, EVENT(TOKEN),        EVENT(TOKEN), EVENT("[DONE]"),
    {FAULT_SEND, FAULT_STREAM_TAIL, 0}, {FAULT_END, NULL, 0}};
static const struct fault_step stays_open[] = {
    {FAULT_SEND, FAULT_STREAM_HEAD, 0}, EVENT(TOKEN), EVENT("[DONE]"), {FAULT_HOLD, NULL, 0}};
static const struct fault_step holds[] = {{FAULT_HOLD, NULL, 0}};
static const struct fault_step soon[] = {{FAULT_SEND, BUSY("7"), 0}, {FAULT_END, NULL, 0}};
static const struct fault_step never[] = {{FAULT_SEND, BUSY("61"), 0}, {FAULT_END, NULL, 0}};
static const struct fault faults[] = {
    {.steps = good}, {.steps = stays_open}, {.steps = holds}, {.steps = soon}, {.steps = never}};
enum { GOOD, STAYS_OPEN, HOLDS, SOON, NEVER, FAULTS };

struct heard {
    struct inflight *t;
    struct inflight_watch watch;
    struct client_result *results;
    size_t chunks[FAULTS];
    int done[FAULTS], ended[FAULTS], between;
    size_t in_flight; /* when the last one ended */
    double retry_after_s[FAULTS];
};

static enum st on_between(void *self, struct err *e)
{
    struct heard *h = self;
    (void)e;
    h->between++;
    return ST_OK;
}

static void on_chunks(void *self, size_t request, size_t from)
{
    struct heard *h = self;
    assert_int_equal(from, h->chunks[request]); /* each is told once */
    h->chunks[request] = h->results[request].chunks.n;
}

static void on_done(void *self, size_t request)
{
    struct heard *h = self;
    assert_true(h->results[request].done);
    assert_int_equal(h->ended[request], 0);
    h->done[request]++;
}

static void on_ended(void *self, size_t request, double retry_after_s)
{
    struct heard *h = self;
    h->ended[request]++;
    h->retry_after_s[request] = retry_after_s;
    h->in_flight = inflight_n(h->t);
}

/* Sends one request for each of the faults and waits until n of them have ended. */
static void run_until(struct test *t, struct heard *h, const struct client_params *p,
                      const int *which, size_t n_sent, size_t n)
{
    h->watch = (struct inflight_watch){
        .self = h, .between = on_between, .chunks = on_chunks, .done = on_done, .ended = on_ended};
    h->results = arena_array(t->a, struct client_result, FAULTS);
    assert_ok(inflight_open(p, &h->watch, 16, NULL, &h->t, &t->e), t);
    inflight_start(h->t);
    for (size_t i = 0; i < n_sent; i++) {
        const struct sv body = sv_of(arena_printf(t->a, "{\"fault\":%d}", which[i]));
        const size_t at = (size_t)which[i];
        assert_ok(inflight_send(h->t, at, body, &h->results[at], &t->e), t);
        assert_int_equal(h->results[at].attempts, 1);
    }
    assert_int_equal(inflight_n(h->t), n_sent);
    for (size_t over = 0; over < n;) {
        assert_ok(inflight_step(h->t, INT64_MAX, &t->e), t);
        over = 0;
        for (int i = 0; i < FAULTS; i++)
            over += (size_t)h->ended[i];
    }
}

static void close_all(struct heard *h)
{
    inflight_close(&h->t);
    assert_null(h->t);
    for (int i = 0; i < FAULTS; i++)
        client_result_free(&h->results[i]);
}

static struct client_params params(struct test *t, struct fault_server *server)
{
    return (struct client_params){
        .url = arena_printf(t->a, "http://127.0.0.1:%d/", fault_server_port(server)),
        .timeout_s = 60,
        .connect_timeout_s = 30};
}

static void chunks_then_the_end(void **state)
{
    struct test *t = *state;
    struct heard h = {0};
    struct fault_server *server = fault_server_start(faults, FAULTS);
    const struct client_params p = params(t, server);
    run_until(t, &h, &p, (const int[]){GOOD}, 1, 1);
    assert_int_equal(h.results[GOOD].status, RUN_OK);
    assert_int_equal(h.chunks[GOOD], 2);
    assert_int_equal(h.ended[GOOD], 1);
    assert_int_equal(h.in_flight, 0); /* its place is free when its end is told */
    assert_true(h.between > 0);
    assert_true(isfinite(h.retry_after_s[GOOD]));
    const struct inflight_counts counts = inflight_counts(h.t);
    assert_int_equal(counts.connections, 1);
    assert_int_equal(counts.peak, 1);
    assert_true(counts.bytes_received > 0);
    close_all(&h);
    fault_server_stop(&server);
}

static void a_response_that_stays_open_is_told_before_its_end(void **state)
{
    struct test *t = *state;
    struct heard h = {0};
    struct fault_server *server = fault_server_start(faults, FAULTS);
    const struct client_params p = params(t, server);
    run_until(t, &h, &p, (const int[]){STAYS_OPEN}, 1, 1);
    assert_true(h.done[STAYS_OPEN] > 0);
    assert_int_equal(h.results[STAYS_OPEN].status, RUN_OK);
    close_all(&h);
    fault_server_stop(&server);
}

static void the_wait_that_a_server_asks_for_is_told(void **state)
{
    struct test *t = *state;
    struct heard h = {0};
    struct fault_server *server = fault_server_start(faults, FAULTS);
    const struct client_params p = params(t, server); /* 60 s a request */
    run_until(t, &h, &p, (const int[]){SOON, NEVER}, 2, 2);
    assert_true(h.retry_after_s[SOON] == 7);
    assert_true(isinf(h.retry_after_s[NEVER]));
    assert_int_equal(inflight_counts(h.t).peak, 2);
    close_all(&h);
    fault_server_stop(&server);
}

static void what_is_cancelled_ends(void **state)
{
    struct test *t = *state;
    struct heard h = {0};
    struct fault_server *server = fault_server_start(faults, FAULTS);
    const struct client_params p = params(t, server);
    run_until(t, &h, &p, (const int[]){HOLDS, GOOD}, 2, 1);
    assert_int_equal(inflight_n(h.t), 1);
    inflight_cancel(h.t, "no more");
    assert_int_equal(inflight_n(h.t), 0);
    assert_int_equal(h.ended[HOLDS], 1);
    assert_int_equal(h.results[HOLDS].status, RUN_CANCELLED);
    assert_string_equal(h.results[HOLDS].error_type, "cancelled");
    assert_string_equal(h.results[HOLDS].error_msg, "no more");
    close_all(&h);
    fault_server_stop(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(chunks_then_the_end),
        TEST(a_response_that_stays_open_is_told_before_its_end),
        TEST(the_wait_that_a_server_asks_for_is_told),
        TEST(what_is_cancelled_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
