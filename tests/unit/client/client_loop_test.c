/* The client against servers that misbehave: every fault ends with its status in
 * request_metrics.csv, and none hangs. */
#include "client/client.h"

#include "client/outcome.h"
#include "support/fault_server.h"
#include "support/support.h"

#define TOKEN(text) "{\"choices\":[{\"text\":\"" text "\",\"finish_reason\":null}]}"
#define LAST(text)  "{\"choices\":[{\"text\":\"" text "\",\"finish_reason\":\"length\"}]}"
#define STOPPED     "{\"choices\":[{\"text\":\"b\",\"finish_reason\":\"stop\"}]}"
#define USAGE       "{\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3}}"
#define HEAD                             \
    {                                    \
        FAULT_SEND, FAULT_STREAM_HEAD, 0 \
    }
#define EVENT(text)          \
    {                        \
        FAULT_EVENT, text, 0 \
    }
#define TAIL                             \
    {                                    \
        FAULT_SEND, FAULT_STREAM_TAIL, 0 \
    }
#define STEPS(...)              \
    (const struct fault_step[]) \
    {                           \
        __VA_ARGS__,            \
        {                       \
            FAULT_END, NULL, 0  \
        }                       \
    }
#define ANSWER(status, type, length, text)                                            \
    STEPS({FAULT_SEND,                                                                \
           "HTTP/1.1 " status "\r\nContent-Type: " type "\r\nContent-Length: " length \
           "\r\n\r\n" text,                                                           \
           0})
#define DRIPPED                                                                       \
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" \
    "data: " TOKEN("a") "\n\ndata: " TOKEN("b") "\n\ndata: " LAST("c") "\n\ndata: [DONE]\n\n"

/* A script and what the client must make of it. */
struct scenario {
    const char *name;
    const struct fault_step *steps;
    const char *status, *type, *msg; /* msg NULL = not looked at: the text is libcurl's */
    int64_t tokens;
};

#define RST                  \
    {                        \
        FAULT_RESET, NULL, 0 \
    }
#define CLOSE                \
    {                        \
        FAULT_CLOSE, NULL, 0 \
    }
#define HOLD                \
    {                       \
        FAULT_HOLD, NULL, 0 \
    }

static const struct scenario scenarios[] = {
    {"good",
     STEPS(HEAD, EVENT(TOKEN("a")), EVENT(TOKEN("b")), EVENT(LAST("c")), EVENT(USAGE),
           EVENT("[DONE]"), TAIL),
     "ok", "", "", 3},
    {"closed before an answer", STEPS(CLOSE), "error", "connection", NULL, 0},
    {"reset amid the headers", STEPS({FAULT_SEND, "HTTP/1.1 200 OK\r\nContent-Ty", 0}, RST),
     "error", "connection", NULL, 0},
    {"no HTTP", STEPS({FAULT_SEND, "220 mail ready\r\n\r\n", 0}, CLOSE), "error", "connection",
     NULL, 0},
    {"endless headers",
     STEPS({FAULT_SEND, "HTTP/1.1 200 OK\r\nX: ", 0}, {FAULT_FILL, NULL, 1 << 20}, HOLD), "error",
     "connection", NULL, 0},
    {"reset amid the stream", STEPS(HEAD, EVENT(TOKEN("a")), {FAULT_WAIT, NULL, 50}, RST), "error",
     "truncated", NULL, 1},
    {"400",
     ANSWER("400 Bad Request", "application/json", "34",
            "{\"error\":{\"message\":\"too long\\n\"}} "),
     "error", "http_400", "status 400: too long ", 0},
    {"404", ANSWER("404 Not Found", "text/html", "4", "gone"), "error", "http_404",
     "status 404: gone", 0},
    {"429", ANSWER("429 Too Many Requests", "application/json", "0", ""), "rejected", "http_429",
     "status 429", 0},
    {"500", ANSWER("500 Oops", "text/event-stream", "0", ""), "error", "http_500", "status 500", 0},
    {"503", ANSWER("503 Busy", "text/plain", "4", "busy"), "rejected", "http_503",
     "status 503: busy", 0},
    {"redirect", ANSWER("302 Found\r\nLocation: http://x/y", "text/plain", "0", ""), "error",
     "http_302", "status 302, a redirection to http://x/y: url should lead there", 0},
    {"wrong content type", ANSWER("200 OK", "application/json", "2", "{}"), "error", "content_type",
     "the answer is no text/event-stream: {}", 0},
    {"compressed",
     STEPS({FAULT_SEND,
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-encoding: gzip\r\n"
            "Content-Length: 4\r\n\r\n\x1f\x8b\x08\x01",
            0}),
     "error", "content_type", "the answer has a Content-Encoding, and none was asked for", 0},
    {"a reason and then much more",
     STEPS({FAULT_SEND,
            "HTTP/1.1 422 No\r\nContent-Length: 20046\r\n\r\n"
            "{\"error\":{\"message\":\"too long\",\"input\":\"......",
            0},
           {FAULT_FILL, NULL, 20000}),
     "error", "http_422", "status 422: too long", 0},
    {"usage that nobody can believe",
     STEPS(HEAD, EVENT(LAST("a")),
           EVENT("{\"choices\":[],\"usage\":{\"prompt_tokens\":9223372036854775807,"
                 "\"completion_tokens\":30000000}}"),
           EVENT("[DONE]"), TAIL),
     "ok", "", "", 1},
    {"truncated: no [DONE]", STEPS(HEAD, EVENT(TOKEN("a")), EVENT(TOKEN("b")), TAIL), "error",
     "truncated", "the stream ended after 2 chunks without [DONE]", 2},
    {"truncated: amid a chunk",
     STEPS(HEAD, EVENT(TOKEN("a")), {FAULT_SEND, "40\r\ndata: {", 0}, CLOSE), "error", "truncated",
     NULL, 1},
    {"malformed JSON", STEPS(HEAD, EVENT(TOKEN("a")), EVENT("{\"choices\":[}"), HOLD), "error",
     "malformed", "chunk:1:13: expected a value or ']', got '}'", 1},
    {"malformed event", STEPS(HEAD, {FAULT_SEND, "8\r\n\xff\xfe{\"a\"}\n\r\n", 0}, TAIL), "error",
     "truncated", "the stream ended after 0 chunks without [DONE]", 0},
    {"a line of 10 MB",
     STEPS(HEAD, EVENT(TOKEN("a")), {FAULT_SEND, "a00006\r\ndata: ", 0},
           {FAULT_FILL, NULL, 10 << 20}, HOLD),
     "error", "too_large", "an event of more than 1048576 bytes", 1},
    {"a slow drip that ends", STEPS({FAULT_DRIP, DRIPPED, 1}, CLOSE), "ok", "", "", 3},
    {"early end of sequence", STEPS(HEAD, EVENT(TOKEN("a")), EVENT(STOPPED), EVENT("[DONE]"), TAIL),
     "ok", "", "", 2},
    {"[DONE] twice", STEPS(HEAD, EVENT(LAST("a")), EVENT("[DONE]"), EVENT("[DONE]"), TAIL), "ok",
     "", "", 1},
    {"[DONE] and no end", STEPS(HEAD, EVENT(LAST("a")), EVENT("[DONE]"), HOLD), "ok", "", "", 1},
    {"reset after [DONE]",
     STEPS(HEAD, EVENT(LAST("a")), EVENT("[DONE]"), {FAULT_WAIT, NULL, 50}, RST), "ok", "", "", 1},
    {"an error in the stream",
     STEPS(HEAD, EVENT(TOKEN("a")), EVENT("{\"error\":{\"message\":\"engine died\"}}"), HOLD),
     "error", "server", "engine died", 1},
    {"nothing but [DONE]", STEPS(HEAD, EVENT("[DONE]"), TAIL), "error", "no_tokens",
     "the stream ended without a token", 0},
};

/* What a limit ends, each with limits that a machine standing still for a second cannot mix up. */
static const struct scenario stalls[] = {
    {"stall before the answer", STEPS(HOLD), "timeout", "stall", "no byte came for 1.5 s", 0},
    {"stall amid the stream", STEPS(HEAD, EVENT(TOKEN("a")), HOLD), "timeout", "stall",
     "no byte came for 1.5 s", 1},
};
static const struct scenario drips[] = {
    {"a slow drip that does not end",
     STEPS(HEAD,
           {FAULT_DRIP,
            "a0\r\ndata: a stream of which a byte comes now and then, and then another\n", 100},
           CLOSE),
     "timeout", "timeout", "not over 2 s after it was sent", 0},
};

#define COUNT(list) (sizeof(list) / sizeof *(list))
enum { N = COUNT(scenarios), MOST = N };

static struct client_params params(struct test *t, int port)
{
    return (struct client_params){
        .url = arena_printf(t->a, "http://127.0.0.1:%d/v1/completions", port),
        .timeout_s = 60,
        .stall_timeout_s = 30,
        .connect_timeout_s = 30};
}

/* n requests for the faults first, first + 1, ... into a run directory that is read again. */
static struct run run_faults(struct test *t, const struct client_params *p, size_t first, size_t n,
                             struct client_health *health)
{
    struct client_request *requests = arena_array(t->a, struct client_request, n);
    struct client_result *results = arena_array(t->a, struct client_result, n);
    struct outcome *outcomes = arena_array(t->a, struct outcome, n);
    struct workload w = {.requests = arena_array(t->a, struct workload_request, n), .n = n};
    for (size_t i = 0; i < n; i++) {
        requests[i].body = sv_of(arena_printf(t->a, "{\"fault\":%zu}", first + i));
        requests[i].at_ns = (int64_t)i * 1000000;
        w.requests[i] = (struct workload_request){.request_id = (int64_t)i,
                                                  .arrival_ns = requests[i].at_ns,
                                                  .num_prefill_tokens = 5,
                                                  .num_decode_tokens = 3};
    }
    assert_ok(client_run(p, requests, n, NULL, NULL, results, health, &t->e), t);
    struct artifact art;
    struct run_writer *writer;
    struct run run;
    const char *dir = test_path(t, arena_printf(t->a, "run%zu", first));
    assert_ok(artifact_begin(t->a, dir, "run_meta.json", &art, &t->e), t);
    assert_ok(run_writer_open(&art, true, false, &writer, &t->e), t);
    outcomes_make(t->a, &w, results, NULL, 0, NULL, outcomes);
    outcomes_write(writer, outcomes, n, "openai", true);
    assert_ok(run_writer_close(&writer, &t->e), t);
    struct run_meta meta = {.run_id = "r", .run_type = "real"};
    assert_ok(artifact_commit(&art, run_meta_node(t->a, &meta), &t->e), t);
    assert_ok(run_load(t->a, dir, "real", &run, &t->e), t);
    for (size_t i = 0; i < n; i++)
        client_result_free(&results[i]);
    return run;
}

static void assert_row(const struct scenario *s, const struct run_request *r)
{
    const char *type = r->error_type ? r->error_type : "", *msg = r->error_msg ? r->error_msg : "";
    if (strcmp(run_status_name(r->status), s->status) != 0 || strcmp(type, s->type) != 0 ||
        (s->msg && strcmp(msg, s->msg) != 0) || r->num_decode_tokens_actual != s->tokens)
        fail_msg("%s: %s, %s, '%s', %lld tokens", s->name, run_status_name(r->status), type, msg,
                 (long long)r->num_decode_tokens_actual);
    assert_true(r->sent_ns >= r->arrival_ns);
    assert_true(r->completion_ns >= r->sent_ns);
    assert_int_equal(r->first_token_ns != RUN_NONE, s->tokens > 0);
}

/* All at once, on one clock. */
static struct run assert_rows(struct test *t, const struct scenario *list, size_t n, double stall_s,
                              double timeout_s)
{
    struct fault faults[MOST] = {0};
    struct client_health health;
    for (size_t i = 0; i < n; i++)
        faults[i].steps = list[i].steps;
    struct fault_server *server = fault_server_start(faults, n);
    struct client_params p = params(t, fault_server_port(server));
    p.stall_timeout_s = stall_s;
    p.timeout_s = timeout_s;
    struct run run = run_faults(t, &p, 0, n, &health);
    fault_server_stop(&server);
    for (size_t i = 0; i < n; i++)
        assert_row(&list[i], &run.requests[i]);
    assert_int_equal(health.sent, n);
    assert_int_equal(health.dropped, 0);
    assert_int_equal(health.retried, 0);
    return run;
}

static void every_fault_has_its_status(void **state)
{
    struct run run = assert_rows(*state, scenarios, N, 30, 60);
    assert_int_equal(run.requests[0].num_prefill_tokens, 9); /* usage knows better */
    assert_int_equal(run.requests[1].num_prefill_tokens, 5);
}

static void a_server_that_falls_silent_is_given_up(void **state)
{
    assert_rows(*state, stalls, COUNT(stalls), 1.5, 60);
}

static void a_server_that_drips_is_given_up(void **state)
{
    assert_rows(*state, drips, COUNT(drips), 1.9, 2); /* each byte begins the 1.9 s anew */
}

/* Neither stream nor error has an end: what was asked for bounds them. */
static void an_endless_answer_has_a_bound(void **state)
{
    struct test *t = *state;
#define TEN                                                                                        \
    EVENT(TOKEN("a")), EVENT(TOKEN("a")), EVENT(TOKEN("a")), EVENT(TOKEN("a")), EVENT(TOKEN("a")), \
        EVENT(TOKEN("a")), EVENT(TOKEN("a")), EVENT(TOKEN("a")), EVENT(TOKEN("a")),                \
        EVENT(TOKEN("a"))
#define HUNDRED TEN, TEN, TEN, TEN, TEN, TEN, TEN, TEN, TEN, TEN
    const struct fault faults[] = {
        {.steps = STEPS(HEAD, HUNDRED, HUNDRED, HUNDRED, HUNDRED, HUNDRED, HUNDRED, HUNDRED,
                        HUNDRED, HUNDRED, HUNDRED, HUNDRED, HOLD)},
        {.steps =
             STEPS({FAULT_SEND, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: ", 0},
                   {FAULT_FILL, NULL, 700000}, {FAULT_SEND, "\n: ", 0}, {FAULT_FILL, NULL, 700000},
                   {FAULT_SEND, "\n: ", 0}, HOLD)},
        {.steps = STEPS({FAULT_SEND, "HTTP/1.1 500 No\r\nContent-Type: text/plain\r\n\r\nno ", 0},
                        {FAULT_FILL, NULL, 2000000}, HOLD)},
    };
    static const char *const want[][2] = {
        {"too_long", "an answer of more than 1072 chunks"},
        {"too_long", "an answer of more than 1097728 bytes to a request for 3 tokens"},
        {"http_500", "status 500: no x"},
    };
    enum { ENDLESS = COUNT(faults) };
    struct client_request requests[ENDLESS];
    struct client_result results[ENDLESS];
    struct client_health health;
    struct fault_server *server = fault_server_start(faults, ENDLESS);
    struct client_params p = params(t, fault_server_port(server));
    p.timeout_s = p.stall_timeout_s = 0;
    for (size_t i = 0; i < ENDLESS; i++)
        requests[i] = (struct client_request){
            .body = sv_of(arena_printf(t->a, "{\"fault\":%zu}", i)), .max_tokens = 3};
    assert_ok(client_run(&p, requests, ENDLESS, NULL, NULL, results, &health, &t->e), t);
    for (size_t i = 0; i < ENDLESS; i++) {
        assert_int_equal(results[i].status, RUN_ERROR);
        assert_string_equal(results[i].error_type, want[i][0]);
        assert_int_equal(strncmp(results[i].error_msg, want[i][1], strlen(want[i][1])), 0);
        client_result_free(&results[i]);
    }
    fault_server_stop(&server);
}

static void nobody_listens(void **state)
{
    struct test *t = *state;
    struct client_health health;
    struct client_params p = params(t, fault_closed_port());
    struct run run = run_faults(t, &p, 0, 3, &health);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(run.requests[i].status, RUN_ERROR);
        assert_string_equal(run.requests[i].error_type, "connect");
    }
    char host[65] = ""; /* too long for a label: no name server is asked, which might not answer */
    memset(host, 'n', sizeof host - 1);
    p.url = arena_printf(t->a, "http://%s.invalid/v1/completions", host);
    run = run_faults(t, &p, 7, 1, &health);
    assert_string_equal(run.requests[0].error_type, "resolve");
}

static void retries_are_asked_for(void **state)
{
    struct test *t = *state;
    struct client_health health;
    const struct fault faults[] = {
        {.steps = scenarios[10].steps, .times = 2, .then = 1}, /* 503 twice, then good */
        {.steps = scenarios[0].steps, .times = 0, .then = 0},
        {.steps = scenarios[6].steps, .times = 0, .then = 0}, /* 400 is not tried again */
        {.steps = scenarios[8].steps, .times = 0, .then = 0}, /* 429 for ever */
    };
    struct fault_server *server = fault_server_start(faults, 4);
    struct client_params p = params(t, fault_server_port(server));
    p.retries = 2;
    p.retry_delay_s = 0.01;
    struct run run = run_faults(t, &p, 0, 4, &health);
    assert_int_equal(run.requests[0].status, RUN_OK);
    assert_int_equal(run.requests[2].status, RUN_ERROR);
    assert_int_equal(run.requests[3].status, RUN_REJECTED);
    assert_int_equal(fault_server_seen(server, 0), 3);
    assert_int_equal(fault_server_seen(server, 2), 1);
    assert_int_equal(fault_server_seen(server, 3), 3);
    assert_int_equal(health.retried, 4);
    fault_server_stop(&server);
}

static void max_concurrency_holds_requests_back(void **state)
{
    struct test *t = *state;
    struct client_health health;
    struct fault faults[8];
    for (size_t i = 0; i < 8; i++)
        faults[i] = (struct fault){.steps = scenarios[0].steps, .times = 0, .then = 0};
    struct fault_server *server = fault_server_start(faults, 8);
    struct client_params p = params(t, fault_server_port(server));
    p.max_concurrency = 1;
    struct run run = run_faults(t, &p, 0, 8, &health);
    assert_int_equal(health.peak_concurrency, 1);
    assert_int_equal(health.connections, 1); /* kept alive */
    for (size_t i = 1; i < 8; i++)
        assert_true(run.requests[i].sent_ns >= run.requests[i - 1].completion_ns);
    fault_server_stop(&server);
}

static void headers_go_out_as_given(void **state)
{
    struct test *t = *state;
    struct client_health health;
    const struct fault good = {.steps = scenarios[0].steps, .times = 0, .then = 0};
    struct fault_server *server = fault_server_start(&good, 1);
    struct client_params p = params(t, fault_server_port(server));
    const char *const headers[] = {"Authorization: Bearer k", "X-A: b"};
    p.headers = headers;
    p.n_headers = 2;
    run_faults(t, &p, 0, 1, &health);
    const char *said = fault_server_last(server);
    assert_non_null(strstr(said, "POST /v1/completions HTTP/1.1\r\n"));
    assert_non_null(strstr(said, "\r\nAuthorization: Bearer k\r\n"));
    assert_non_null(strstr(said, "\r\nX-A: b\r\n"));
    assert_null(strstr(said, "Expect"));
    fault_server_stop(&server);
}

static void a_stopped_run_cancels_what_is_left(void **state)
{
    struct test *t = *state;
    const struct fault hold = {.steps = STEPS(HOLD)};
    struct fault_server *server = fault_server_start(&hold, 1);
    struct client_params p = params(t, fault_server_port(server));
    struct client_request requests[2] = {
        {.at_ns = 0, .body = SV("{\"fault\":0}")},
        {.at_ns = INT64_C(3600000000000), .body = SV("{\"fault\":0}")}};
    struct client_result results[2];
    struct client_health health;
    static volatile sig_atomic_t stop = 1;
    assert_err(client_run(&p, requests, 2, &stop, NULL, results, &health, &t->e), ST_INTERRUPTED, t,
               "interrupted");
    assert_int_equal(results[0].status, RUN_CANCELLED);
    assert_int_equal(results[1].status, RUN_CANCELLED);
    assert_int_equal(results[1].sent_ns, RUN_NONE);
    assert_string_equal(results[1].error_msg, "never sent: interrupted");
    assert_int_equal(health.dropped, 1);
    assert_false(health.healthy);
    fault_server_stop(&server);
}

#define BUSY(header) \
    ANSWER("429 Slow Down\r\nRetry-After: " header, "application/json", "4", "busy")

/* The wait that the answer asks for is kept: by seconds, and by a date that libcurl makes seconds
 * of; a date that has passed asks for nothing. */
static void retry_after_is_heeded(void **state)
{
    struct test *t = *state;
    struct client_health health;
    const struct fault faults[] = {
        {.steps = BUSY("1"), .times = 1, .then = 1},
        {.steps = scenarios[0].steps},
        {.steps = BUSY("Sun, 06 Nov 1994 08:49:37 GMT"), .times = 1, .then = 1},
        {.steps = BUSY("3600")},
        {.steps = BUSY("Fri, 31 Dec 9999 23:59:59 GMT")},
    };
    struct fault_server *server = fault_server_start(faults, COUNT(faults));
    struct client_params p = params(t, fault_server_port(server));
    p.retries = 1;
    p.retry_delay_s = 0.001;
    struct run run = run_faults(t, &p, 0, COUNT(faults), &health);
    assert_int_equal(run.requests[0].status, RUN_OK);
    assert_true(run.requests[0].sent_ns >= INT64_C(1000000000));
    assert_int_equal(run.requests[2].status, RUN_OK);
    assert_int_equal(run.requests[3].status, RUN_REJECTED);
    assert_string_equal(run.requests[3].error_msg,
                        "status 429 (Retry-After: 3600 s, longer than a request may take): busy");
    assert_int_equal(run.requests[4].status, RUN_REJECTED);
    assert_non_null(strstr(run.requests[4].error_msg, ", longer than a request may take): busy"));
    assert_int_equal(fault_server_seen(server, 3), 1);
    assert_int_equal(fault_server_seen(server, 4), 1);
    fault_server_stop(&server);
}

/* n requests, 1 ms apart, for fault 0. */
static struct client_request *alike(struct test *t, size_t n)
{
    struct client_request *r = arena_array(t->a, struct client_request, n);
    for (size_t i = 0; i < n; i++)
        r[i] = (struct client_request){.at_ns = (int64_t)i * 1000000, .body = SV("{\"fault\":0}")};
    return r;
}

static void a_server_that_is_gone_ends_the_run(void **state)
{
    enum { MANY = 50 };
    struct test *t = *state;
    struct client_result results[MANY];
    struct client_health health;
    struct client_params p = params(t, 0);
    const struct fault refuses = {.steps = scenarios[7].steps}; /* 404 */
    struct fault_server *server = fault_server_start(&refuses, 1);
    p.url = arena_printf(t->a, "http://127.0.0.1:%d/v1/completions", fault_server_port(server));
    p.max_concurrency = 1;
    p.give_up_after = 3;
    assert_err(client_run(&p, alike(t, MANY), MANY, NULL, NULL, results, &health, &t->e), ST_DEVICE,
               t,
               "the server is gone: 3 requests in a row ended alike\nhttp_404: status 404: gone");
    assert_true(health.gave_up);
    assert_int_equal(fault_server_seen(server, 0), 3);
    assert_string_equal(results[MANY - 1].error_msg, "never sent: the server is gone");
    fault_server_stop(&server);

    /* one that ends well in between begins the count anew */
    const struct fault wakes[] = {{.steps = scenarios[7].steps, .times = 2, .then = 1},
                                  {.steps = scenarios[0].steps}};
    server = fault_server_start(wakes, 2);
    p.url = arena_printf(t->a, "http://127.0.0.1:%d/v1/completions", fault_server_port(server));
    err_clear(&t->e);
    assert_ok(client_run(&p, alike(t, 4), 4, NULL, NULL, results, &health, &t->e), t);
    assert_int_equal(results[1].status, RUN_ERROR);
    assert_int_equal(results[2].status, RUN_OK);
    for (size_t i = 0; i < 4; i++)
        client_result_free(&results[i]);
    fault_server_stop(&server);
}

static void a_run_may_end_by_its_duration(void **state)
{
    enum { MANY = 4 };
    struct test *t = *state;
    struct client_result results[MANY];
    struct client_health health;
    const struct fault good = {.steps = scenarios[0].steps};
    struct fault_server *server = fault_server_start(&good, 1);
    struct client_params p = params(t, fault_server_port(server));
    struct client_request *r = alike(t, MANY);
    for (size_t i = 2; i < MANY; i++)
        r[i].at_ns = INT64_C(3600000000000);
    p.duration_s = 0.5;
    assert_ok(client_run(&p, r, MANY, NULL, NULL, results, &health, &t->e), t);
    assert_int_equal(health.left_out, 2);
    assert_int_equal(health.dropped, 0);
    assert_true(health.sent == 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(results[i].status, RUN_OK);
        client_result_free(&results[i]);
    }
    fault_server_stop(&server);
}

/* n good requests, turns of sessions of `turns` each; 0 = none. */
static struct client_result *run_following(struct test *t, const struct client_params *p, size_t n,
                                           int64_t turns, int64_t think_ns,
                                           struct client_health *health)
{
    struct client_request *requests = arena_array(t->a, struct client_request, n);
    struct client_result *results = arena_array(t->a, struct client_result, n);
    for (size_t i = 0; i < n; i++) {
        requests[i] = (struct client_request){.body = SV("{\"fault\":0}")};
        if (turns) {
            requests[i].session_id = (int64_t)i / turns;
            requests[i].turn = (int64_t)i % turns + 1;
            requests[i].think_ns = requests[i].turn > 1 ? think_ns : 0;
        }
    }
    assert_ok(client_run(p, requests, n, NULL, NULL, results, health, &t->e), t);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(results[i].status, RUN_OK);
        assert_true(results[i].sent_ns >= results[i].planned_ns);
        client_result_free(&results[i]);
    }
    return results;
}

static void a_closed_loop_sends_one_when_one_ends(void **state)
{
    struct test *t = *state;
    enum { MANY_CLOSED = 20 };
    struct client_health health;
    const struct fault good = {.steps = scenarios[0].steps, .times = 0, .then = 0};
    struct fault_server *server = fault_server_start(&good, 1);
    struct client_params p = params(t, fault_server_port(server));
    for (int64_t limit = 1; limit <= 3; limit += 2) {
        p.concurrency = concurrency_of(t->a, limit, 0);
        const struct client_result *r = run_following(t, &p, MANY_CLOSED, 0, 0, &health);
        assert_true(health.peak_concurrency <= limit && health.follows);
        assert_true(health.concurrency_mean <= (double)limit && health.concurrency_mean > 0);
        assert_true(health.connections <= limit); /* kept alive */
        for (int64_t i = 0; i < limit; i++)
            assert_int_equal(r[i].planned_ns, 0);
        for (int64_t i = limit; i < MANY_CLOSED;
             i++) { /* as many have ended before it is planned */
            int64_t ended = 0;
            for (int64_t k = 0; k < MANY_CLOSED; k++)
                ended += k != i && r[k].end_ns <= r[i].planned_ns;
            assert_true(ended >= i + 1 - limit);
            assert_true(r[i].planned_ns >= r[i - 1].planned_ns);
        }
    }
    fault_server_stop(&server);
}

static void a_turn_is_sent_after_its_think_time(void **state)
{
    struct test *t = *state;
    struct client_health health;
    const int64_t think_ns = 3000000;
    const struct fault good = {.steps = scenarios[0].steps, .times = 0, .then = 0};
    struct fault_server *server = fault_server_start(&good, 1);
    struct client_params p = params(t, fault_server_port(server));
    const struct client_result *r = run_following(t, &p, 12, 4, think_ns, &health);
    assert_int_equal(health.sessions, 3);
    for (size_t i = 0; i < 12; i++)
        if (i % 4)
            assert_true(r[i].planned_ns >= r[i - 1].end_ns + think_ns);
        else
            assert_int_equal(r[i].planned_ns, 0);
    fault_server_stop(&server);
}

/* A failed request has ended, too; retries are part of it. */
static void a_failure_lets_the_next_be_sent(void **state)
{
    struct test *t = *state;
    struct client_health health;
    struct client_request requests[3] = {{.body = SV("{\"fault\":0}")},
                                         {.body = SV("{\"fault\":1}")},
                                         {.body = SV("{\"fault\":0}")}};
    struct client_result results[3];
    const struct fault faults[] = {{.steps = scenarios[0].steps, .times = 0, .then = 0},
                                   {.steps = STEPS(HEAD, EVENT(TOKEN("a")), TAIL)}};
    struct fault_server *server = fault_server_start(faults, 2);
    struct client_params p = params(t, fault_server_port(server));
    p.concurrency = concurrency_of(t->a, 1, 0);
    assert_ok(client_run(&p, requests, 3, NULL, NULL, results, &health, &t->e), t);
    assert_int_equal(results[1].status, RUN_ERROR);
    assert_int_equal(results[2].status, RUN_OK);
    assert_true(results[2].planned_ns >= results[1].end_ns);
    assert_int_equal(health.peak_concurrency, 1);
    for (int i = 0; i < 3; i++)
        client_result_free(&results[i]);
    fault_server_stop(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_fault_has_its_status),
        TEST(a_server_that_falls_silent_is_given_up),
        TEST(a_server_that_drips_is_given_up),
        TEST(an_endless_answer_has_a_bound),
        TEST(nobody_listens),
        TEST(retries_are_asked_for),
        TEST(max_concurrency_holds_requests_back),
        TEST(headers_go_out_as_given),
        TEST(a_stopped_run_cancels_what_is_left),
        TEST(retry_after_is_heeded),
        TEST(a_server_that_is_gone_ends_the_run),
        TEST(a_run_may_end_by_its_duration),
        TEST(a_closed_loop_sends_one_when_one_ends),
        TEST(a_turn_is_sent_after_its_think_time),
        TEST(a_failure_lets_the_next_be_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
