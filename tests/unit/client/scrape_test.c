/* A server's metrics around a run: what is waited for, and what is told where they are missing. */
#include "client/scrape.h"

#include <math.h>

#include "support/fault_server.h"
#include "support/support.h"

#define METRICS(n)                                                                           \
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"               \
    "vllm:time_to_first_token_seconds_bucket{le=\"+Inf\"} " n "\n"                           \
    "vllm:time_to_first_token_seconds_count " n "\nvllm:time_to_first_token_seconds_sum 1\n" \
    "vllm:e2e_request_latency_seconds_bucket{le=\"+Inf\"} " n "\n"                           \
    "vllm:e2e_request_latency_seconds_count " n "\nvllm:e2e_request_latency_seconds_sum 1\n"

static const struct fault_step says_2[] = {{FAULT_SEND, METRICS("2"), 0}, {FAULT_CLOSE, NULL, 0}};
static const struct fault_step says_3[] = {{FAULT_SEND, METRICS("3"), 0}, {FAULT_CLOSE, NULL, 0}};
static const struct fault_step says_4[] = {{FAULT_SEND, METRICS("4"), 0}, {FAULT_CLOSE, NULL, 0}};
static const struct fault_step says_6[] = {{FAULT_SEND, METRICS("6"), 0}, {FAULT_CLOSE, NULL, 0}};
static const struct fault_step says_no[] = {
    {FAULT_SEND, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", 0},
    {FAULT_CLOSE, NULL, 0}};
static const struct fault_step says_less[] = {
    {FAULT_SEND, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nvllm:time_to_first{", 0},
    {FAULT_CLOSE, NULL, 0}};

static struct scrape scrape_of(struct test *t, const struct fault_server *server,
                               struct client_params *p, enum scrape_mode mode)
{
    *p = (struct client_params){.timeout_s = 60, .connect_timeout_s = 30};
    return (struct scrape){
        .a = t->a,
        .client = p,
        .url = arena_printf(t->a, "http://127.0.0.1:%d/metrics", fault_server_port(server)),
        .mode = mode};
}

/* A request of before the run that is counted late is no part of it. */
static void counts_settle_first(void **state)
{
    struct test *t = *state;
    static const struct fault faults[] = {{.steps = says_2, .times = 1, .then = 1},
                                          {.steps = says_3}};
    struct fault_server *server = fault_server_start(faults, 2);
    struct client_params p;
    struct scrape s = scrape_of(t, server, &p, SCRAPE_REQUIRED);
    assert_ok(scrape_begin(&s, &t->e), t);
    assert_true(s.on && !s.why);
    assert_near(s.ended, 3, 0);
    assert_int_equal(fault_server_seen(server, 0), 4); /* 2, 3, 3, and the snapshot */
    fault_server_stop(&server);
}

static void late_counts_are_waited_for(void **state)
{
    struct test *t = *state;
    static const struct fault faults[] = {{.steps = says_3, .times = 5, .then = 1},
                                          {.steps = says_6}};
    struct fault_server *server = fault_server_start(faults, 2);
    struct client_params p;
    struct scrape s = scrape_of(t, server, &p, SCRAPE_REQUIRED);
    struct server_metrics m;
    assert_ok(scrape_begin(&s, &t->e), t);
    scrape_end(&s, &(struct client_side){3, 0.5, 0.6}, &m);
    assert_null(s.why);
    assert_near(m.of[SERVER_E2E].count, 3, 0);
    assert_true(m.alone);
    assert_true(m.waited_s >= 2 * SCRAPE_PAUSE_MS / 1e3);
    fault_server_stop(&server);
}

static void requests_of_others_do_not_wait(void **state)
{
    struct test *t = *state;
    static const struct fault faults[] = {{.steps = says_2, .times = 3, .then = 1},
                                          {.steps = says_6}};
    struct fault_server *server = fault_server_start(faults, 2);
    struct client_params p;
    struct scrape s = scrape_of(t, server, &p, SCRAPE_AUTO);
    struct server_metrics m;
    assert_ok(scrape_begin(&s, &t->e), t);
    scrape_end(&s, &(struct client_side){3, 0.5, 0.6}, &m);
    assert_false(m.alone);
    assert_string_equal(m.why, "the server counted 4 requests that ended, the client 3 that ended "
                               "well");
    fault_server_stop(&server);
}

static void a_restart_is_told(void **state)
{
    struct test *t = *state;
    static const struct fault faults[] = {{.steps = says_4, .times = 3, .then = 1},
                                          {.steps = says_2}};
    struct fault_server *server = fault_server_start(faults, 2);
    struct client_params p;
    struct scrape s = scrape_of(t, server, &p, SCRAPE_AUTO);
    struct server_metrics m;
    assert_ok(scrape_begin(&s, &t->e), t);
    scrape_end(&s, &(struct client_side){0, NAN, NAN}, &m); /* nothing to wait for */
    assert_non_null(s.why);
    assert_string_equal(s.why, "vllm:time_to_first_token_seconds_bucket: it fell from 4 to 2 (the "
                               "server was restarted in between: its metrics do not cover the "
                               "run)");
    fault_server_stop(&server);
}

static void missing_metrics_are_told_or_refused(void **state)
{
    struct test *t = *state;
    static const struct {
        const struct fault_step *steps;
        enum st st;
        const char *why;
    } cases[] = {
        {says_no, ST_DEVICE, "GET URL: the server answers with status 404"},
        {says_less, ST_INPUT, "URL:1:20: Prometheus text: expected the name of a label, or }"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct fault faults[] = {{.steps = cases[i].steps}};
        struct fault_server *server = fault_server_start(faults, 1);
        struct client_params p;
        struct server_metrics m = {.url = "untouched"};
        struct scrape s = scrape_of(t, server, &p, SCRAPE_AUTO);
        const char *at = strstr(cases[i].why, "URL");
        const char *why =
            arena_printf(t->a, "%.*s%s%s", (int)(at - cases[i].why), cases[i].why, s.url, at + 3);
        assert_ok(scrape_begin(&s, &t->e), t);
        assert_string_equal(s.why, why);
        scrape_end(&s, &(struct client_side){1, 1, 1}, &m);
        assert_string_equal(m.url, "untouched");
        s.mode = SCRAPE_REQUIRED;
        assert_int_equal(scrape_begin(&s, &t->e), cases[i].st);
        assert_string_equal(err_cause(&t->e, 0),
                            "client.server_metrics=required: the server's metrics are missing");
        assert_cause(&t->e, why);
        err_clear(&t->e);
        fault_server_stop(&server);
    }
}

static void none_asks_nobody(void **state)
{
    struct test *t = *state;
    const struct fault faults[] = {{.steps = says_2}};
    struct fault_server *server = fault_server_start(faults, 1);
    struct client_params p;
    struct scrape s = scrape_of(t, server, &p, SCRAPE_NONE);
    assert_ok(scrape_begin(&s, &t->e), t);
    assert_false(s.on);
    assert_string_equal(s.why, "they were not asked for");
    assert_int_equal(fault_server_seen(server, 0), 0);
    fault_server_stop(&server);
}

static void means_are_of_requests_that_ended_well(void **state)
{
    (void)state;
    struct client_chunk chunk[] = {{.time_ns = 3000000}, {.time_ns = 9000000}};
    struct client_result r[3] = {
        {.status = RUN_OK, .sent_ns = 1000000, .end_ns = 9000000, .chunks = {&chunk[0], 1, 1}},
        {.status = RUN_TIMEOUT, .sent_ns = 0, .end_ns = 90000000},
        {.status = RUN_OK, .sent_ns = 5000000, .end_ns = 9000000, .chunks = {&chunk[1], 1, 1}}};
    const struct client_side c = scrape_client_side(r, 3);
    assert_int_equal(c.requests, 2);
    assert_near(c.ttft_s, 0.003, 1e-15);
    assert_near(c.e2e_s, 0.006, 1e-15);
    assert_true(isnan(scrape_client_side(r + 1, 1).ttft_s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(counts_settle_first),
        TEST(late_counts_are_waited_for),
        TEST(requests_of_others_do_not_wait),
        TEST(a_restart_is_told),
        TEST(missing_metrics_are_told_or_refused),
        TEST(none_asks_nobody),
        TEST(means_are_of_requests_that_ended_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
