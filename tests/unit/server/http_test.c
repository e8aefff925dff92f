/* The server over sockets, in front of the serving loop with an executor that takes a set time: its
 * answers, its bounds, clients that go or do not read, and the end. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "server/server.h"
#include "support/fake_executor.h"
#include "support/support.h"

enum { BLOCK = 16, BLOCKS = 256, CAP = 4 };

struct fixture {
    struct test *t;
    struct server_params params;
    struct server *server; /* the loop's, which closes it */
    int port;
    struct serve_clock clock;
    struct executor ex;
    struct serve_counters counters;
    volatile sig_atomic_t stop, abort;
    _Atomic int64_t hold_at; /* the engine stands still from this batch on; 0 = it never does */
    pthread_t thread;
    enum st st;
    struct err e;
    int64_t rows[RUN_CANCELLED + 1]; /* by status */
    int64_t iterations;
};

/* Linked in place of tokenizer_encode (tests/CMakeLists.txt): a long text waits in there for as
 * long as the test wants. */
enum { LONG_TEXT = 100000 };
static _Atomic bool reading_held, reading_waits;

enum st __real_tokenizer_encode(struct arena *a, const struct tokenizer *t, struct sv text,
                                bool add_special, int32_t **ids, size_t *n, struct err *e);
enum st __wrap_tokenizer_encode(struct arena *a, const struct tokenizer *t, struct sv text,
                                bool add_special, int32_t **ids, size_t *n, struct err *e);
enum st __wrap_tokenizer_encode(struct arena *a, const struct tokenizer *t, struct sv text,
                                bool add_special, int32_t **ids, size_t *n, struct err *e)
{
    while (text.n >= LONG_TEXT && reading_held) {
        reading_waits = true;
        usleep(1000);
    }
    return __real_tokenizer_encode(a, t, text, add_special, ids, n, e);
}

static void count_row(void *self, const struct run_request *r)
{
    ((struct fixture *)self)->rows[r->status]++;
}

static void count_iteration(void *self, const struct serve_iteration *i)
{
    (void)i;
    ((struct fixture *)self)->iterations++;
}

static void *loop(void *self)
{
    struct fixture *f = self;
    const struct serve_params p = {.policy = "vllm_v1",
                                   .replicas = 1,
                                   .batch_cap = CAP,
                                   .block_size = BLOCK,
                                   .num_blocks = BLOCKS,
                                   .max_model_len = f->params.rules.max_model_len,
                                   .emit_tokens = true};
    struct serve_sink rows = {.self = f, .request = count_row, .iteration = count_iteration};
    struct request_source source = server_source(f->server, &f->clock, &f->stop, &f->abort);
    struct serve_sink sink = server_sink(f->server, &rows);
    f->st = serve_run(&p, &f->clock, &f->ex, &source, &sink, &f->abort, &f->counters, &f->e);
    server_close(&f->server);
    return NULL;
}

static struct fixture *prepare(struct test *t, int64_t max_pending)
{
    struct fixture *f = arena_one(t->a, struct fixture);
    f->t = t;
    f->clock = clock_real();
    f->params = (struct server_params){
        .host = "127.0.0.1",
        .rules = {.model = "m", .vocab = FAKE_VOCAB, .max_model_len = 2000, .ignore_eos = true},
        .kv_blocks = BLOCKS,
        .max_pending = max_pending,
        .max_connections = 64,
        .max_per_address = 64,
        .max_unread_tokens = 500,
        .max_body_bytes = 4096,
        .max_held_bytes = 1 << 20,
        .max_header_bytes = 8192,
        .idle_timeout_s = 20,
        .drain_s = 20,
        .threads = 1};
    return f;
}

static void hold(void *self, const struct batch *b)
{
    struct fixture *f = self;
    for (int64_t at; (at = f->hold_at) != 0 && b->iteration >= at;)
        usleep(1000);
}

static void begin(struct fixture *f, double batch_s)
{
    struct test *t = f->t;
    f->ex = fake_executor(&(struct fake_params){.computes = true,
                                                .batch_s = batch_s,
                                                .block_size = BLOCK,
                                                .num_blocks = BLOCKS,
                                                .batch_cap = CAP,
                                                .clock = &f->clock,
                                                .seen = hold,
                                                .seen_self = f});
    assert_ok(server_open(&f->params, &f->server, &t->e), t);
    f->port = server_port(f->server);
    assert_int_equal(pthread_create(&f->thread, NULL, loop, f), 0);
}

static struct fixture *start(struct test *t, double batch_s, int64_t max_pending)
{
    struct fixture *f = prepare(t, max_pending);
    begin(f, batch_s);
    return f;
}

static void finish(struct fixture *f)
{
    __atomic_store_n(&f->stop, 1, __ATOMIC_RELAXED);
    pthread_join(f->thread, NULL);
    f->ex.ops->close(f->ex.self);
    assert_ok(f->st, &f->e);
}

static int dial(const struct fixture *f)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)f->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Everything up to the end of the connection, which must come: nothing for 20 s is a failure. */
static const char *hear(struct fixture *f, int fd)
{
    struct buf b = {0};
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char piece[4096];
    ssize_t n = -1;
    int ready;
    while ((ready = poll(&p, 1, 20000)) > 0 && (n = recv(fd, piece, sizeof piece, 0)) > 0)
        buf_add(&b, piece, (size_t)n);
    assert_int_equal(ready, 1);
    const char *text = arena_str(f->t->a, buf_str(&b));
    buf_free(&b);
    close(fd);
    return text;
}

static const char *ask(struct fixture *f, const char *method, const char *path, const char *body)
{
    int fd = dial(f);
    say(fd, arena_printf(f->t->a,
                         "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                         "application/json\r\nConnection: close\r\nContent-Length: %zu\r\n"
                         "\r\n%s",
                         method, path, strlen(body), body));
    return hear(f, fd);
}

static const char *post(struct fixture *f, const char *body)
{
    return ask(f, "POST", "/v1/completions", body);
}

static void assert_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' is not in: %.600s", part, text);
}

static int count(const char *text, const char *part)
{
    int n = 0;
    for (; (text = strstr(text, part)) != NULL; text += strlen(part))
        n++;
    return n;
}

static void answers_have_openais_shape(void **state)
{
    struct test *t = *state;
    struct fixture *f = start(t, 0, 8);
    assert_has(ask(f, "GET", "/health", ""), "200 OK");
    assert_has(ask(f, "HEAD", "/health", ""), "200 OK");
    assert_has(ask(f, "GET", "/v1/models", ""), "\"data\":[{\"id\":\"m\"");
    assert_has(ask(f, "GET", "/v1/models/m", ""), "\r\n\r\n{\"id\":\"m\",\"object\":\"model\"");
    assert_has(ask(f, "GET", "/v1/models/%6d", ""), "200 OK");
    const int32_t prompt[] = {1, 2, 3};
    const char *text = post(f, "{\"model\":\"m\",\"prompt\":[1,2,3],\"max_tokens\":2,"
                               "\"return_token_ids\":true}");
    assert_has(text, "\"object\":\"text_completion\"");
    assert_has(text, arena_printf(t->a, "\"token_ids\":[%d,", fake_token(prompt, 3)));
    assert_has(text, "\"finish_reason\":\"length\"");
    assert_has(text, "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,\"total_tokens\":5}");
    text = post(f, "{\"model\":\"m\",\"prompt\":[1,2,3],\"max_tokens\":7,\"stream\":true,"
                   "\"stream_options\":{\"include_usage\":true}}");
    assert_has(text, "text/event-stream");
    assert_int_equal(count(text, "\"choices\":[{"), 7);
    assert_int_equal(count(text, "\"finish_reason\":\"length\""), 1);
    assert_int_equal(count(text, "\"completion_tokens\":7"), 1);
    assert_int_equal(count(text, "data: [DONE]\n\n"), 1);
    text = ask(f, "GET", "/metrics", "");
    assert_has(text, "\ntwinfer_requests_total{status=\"ok\"} 2\n");
    assert_has(text, "\ntwinfer_generation_tokens_total 9\n");
    assert_has(text, "\ntwinfer_time_to_first_token_seconds_count 2\n");
    finish(f);
    assert_int_equal(f->rows[RUN_OK], 2);
}

static void bad_requests_are_refused(void **state)
{
    struct test *t = *state;
    struct fixture *f = start(t, 0, 8);
    assert_has(ask(f, "GET", "/", ""), "404 Not Found");
    const char *no = ask(f, "GET", "/v1/completions", "");
    assert_has(no, "405 Method Not Allowed");
    assert_has(no, "\r\nAllow: POST\r\n");
    assert_has(ask(f, "DELETE", "/metrics", ""), "\r\nAllow: GET, HEAD\r\n");
    assert_has(ask(f, "POST", "/v1/models/m", ""), "\r\nAllow: GET, HEAD\r\n");
    assert_has(ask(f, "GET", "/v1/models/x", ""), "the model 'x' does not exist; this is m");
    assert_has(post(f, "{\"model\":\"m\",\"prompt\":[1],\"n\":3}"), "400 Bad Request");
    assert_has(post(f, "nonsense"), "400 Bad Request");
    assert_has(post(f, "{\"model\":\"x\",\"prompt\":[1]}"), "404 Not Found");
    char *large = mem_alloc(5000);
    memset(large, ' ', 4999);
    assert_has(post(f, large), "413 ");
    int fd = dial(f); /* the same without saying beforehand how long it is */
    say(fd, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
            "application/json\r\nConnection: close\r\n"
            "Transfer-Encoding: chunked\r\n\r\n1000\r\n");
    say(fd, large + 4999 - 4096);
    say(fd, "\r\n10\r\n                \r\n0\r\n\r\n");
    assert_has(hear(f, fd), "413 ");
    fd = dial(f);
    say(fd, "GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX: ");
    for (int i = 0; i < 3; i++) /* it need not read to the end */
        (void)!send(fd, large, 4999, MSG_NOSIGNAL);
    (void)!send(fd, "\r\n\r\n", 4, MSG_NOSIGNAL);
    assert_null(strstr(hear(f, fd), "200 OK"));
    mem_free(large);
    finish(f);
    assert_int_equal(f->counters.requests, 0);
}

static void one_too_many_is_told_to_come_back(void **state)
{
    struct test *t = *state;
    struct fixture *f = prepare(t, 1);
    f->hold_at = 20;
    begin(f, 0.005);
    int fd = dial(f);
    const char *body = "{\"model\":\"m\",\"prompt\":[1],\"max_tokens\":60,\"stream\":true}";
    say(fd, arena_printf(t->a,
                         "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                         "application/json\r\nConnection: close\r\n"
                         "Content-Length: %zu\r\n\r\n%s",
                         strlen(body), body));
    struct pollfd p = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 20000), 1); /* it runs */
    const char *text = post(f, "{\"model\":\"m\",\"prompt\":[1]}");
    assert_has(text, "429 Too Many Requests");
    assert_has(text, "Retry-After: 1");
    f->hold_at = 0;
    assert_int_equal(count(hear(f, fd), "\"choices\":[{"), 60);
    assert_has(post(f, "{\"model\":\"m\",\"prompt\":[1]}"), "200 OK");
    finish(f);
}

/* Headers that a proxy could read in another way: refused, and the connection closed. */
static void requests_with_two_ends_are_refused(void **state)
{
    struct test *t = *state;
    struct fixture *f = start(t, 0, 8);
    static const char *const headers[] = {
        "Content-Length: 2\r\nContent-Length: 2\r\n",
        "Content-Length: 2\r\nContent-Length: 40\r\n",
        "Content-Length: 12\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 12\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding:\r\n chunked\r\nContent-Length: 12\r\n",
        "Transfer-Encoding : chunked\r\nContent-Length: 12\r\n",
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        int fd = dial(f); /* kept alive, as far as the client is concerned */
        say(fd,
            arena_printf(
                t->a,
                "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                "application/json\r\n%s\r\n2\r\n{}\r\n0\r\n\r\n"
                "GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\r\n",
                headers[i]));
        const char *text = hear(f, fd);
        assert_has(text, "400 Bad Request");
        assert_int_equal(count(text, "HTTP/1.1 "), 1); /* what follows is nobody's request */
    }
    int fd = dial(f);
    say(fd, "GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
            "application/json\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n");
    assert_has(hear(f, fd), "Content-Length is there twice");
    assert_has(post(f, "{\"model\":\"m\",\"prompt\":[1],\"max_tokens\":3}"), "200 OK");
    finish(f);
    assert_int_equal(f->counters.requests, 1);
}

static const char *ask_with(struct fixture *f, const char *header, const char *method,
                            const char *path, const char *body)
{
    int fd = dial(f);
    say(fd, arena_printf(f->t->a,
                         "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                         "application/json\r\nConnection: close\r\n%sContent-Length: %zu\r\n"
                         "\r\n%s",
                         method, path, header, strlen(body), body));
    return hear(f, fd);
}

static void keys_are_asked_for_below_v1(void **state)
{
    struct test *t = *state;
    struct fixture *f = prepare(t, 8);
    assert_ok(keys_add(&f->params.keys, "it", SV("sk-the-one-key"), &t->e), t);
    begin(f, 0);
    const char *body = "{\"model\":\"m\",\"prompt\":[1],\"max_tokens\":3}";
    const char *good = "Authorization: Bearer sk-the-one-key\r\n";
    const char *text = post(f, body);
    assert_has(text, "401 Unauthorized");
    assert_has(text, "\r\nWWW-Authenticate: Bearer\r\n");
    assert_has(text,
               "{\"error\":{\"message\":\"You didn't provide an API key: send it as "
               "'Authorization: Bearer KEY'\",\"type\":\"invalid_request_error\",\"param\":null,"
               "\"code\":null}}");
    text = ask_with(f, "Authorization: Bearer sk-another-key\r\n", "GET", "/v1/models", "");
    assert_has(text, "401 Unauthorized");
    assert_has(text, "{\"error\":{\"message\":\"Incorrect API key provided\",\"type\":"
                     "\"invalid_request_error\",\"param\":null,\"code\":\"invalid_api_key\"}}");
    assert_has(ask(f, "GET", "/v1/nothing", ""), "401 Unauthorized");
    assert_has(ask_with(f, good, "GET", "/v1/models", ""), "200 OK");
    assert_has(ask_with(f, good, "POST", "/v1/completions", body), "200 OK");
    assert_has(ask(f, "GET", "/health", ""), "200 OK");
    assert_has(ask(f, "GET", "/metrics", ""), "200 OK");
    finish(f);
    keys_free(&f->params.keys);
    assert_int_equal(f->counters.requests, 1);
}

static void errors_have_openais_shape(void **state)
{
    struct test *t = *state;
    struct fixture *f = start(t, 0, 8);
    assert_has(post(f, "{\"model\":\"m\",\"prompt\":[1],\"n\":3}"),
               "\r\n\r\n{\"error\":{\"message\":\"n: not done here: leave it out\",\"type\":"
               "\"invalid_request_error\",\"param\":\"n\",\"code\":null}}");
    assert_has(
        post(f, "{\"model\":\"x\",\"prompt\":[1]}"),
        "\r\n\r\n{\"error\":{\"message\":\"the model 'x' does not exist; this is m\",\"type\":"
        "\"invalid_request_error\",\"param\":\"model\",\"code\":\"model_not_found\"}}");
    assert_has(post(f, "{\"model\":\"m\",\"prompt\":[1],\"max_tokens\":9999}"),
               "\"param\":\"max_tokens\",\"code\":\"context_length_exceeded\"");
    finish(f);
}

/* Bodies of all connections together: one that finds no room is told so, and has it when others are
 * done. */
static void bodies_share_their_room(void **state)
{
    struct test *t = *state;
    struct fixture *f = prepare(t, 8);
    f->params.max_held_bytes = 5000;
    begin(f, 0);
    char *blanks = mem_alloc(4096);
    memset(blanks, ' ', 4095);
    const char *head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                       "application/json\r\nConnection: close\r\n"
                       "Content-Length: 4096\r\n\r\n";
    const char *good = "{\"model\":\"m\",\"prompt\":[1],\"max_tokens\":3}";
    int half = dial(f);
    say(half, head);
    say(half, blanks + 2095); /* 2000 bytes */
    const char *text;
    do /* until they have arrived */
        text = post(f, arena_printf(t->a, "%s%s", good, blanks + 600));
    while (strstr(text, "200 OK"));
    assert_has(text, "429 Too Many Requests");
    assert_has(text, "\r\nRetry-After: 1\r\n");
    assert_has(text, "the bodies of other requests take all the room there is");
    assert_has(post(f, good), "200 OK"); /* a small one has room */
    say(half, arena_printf(t->a, "%s%s", blanks + 1999 + strlen(good), good));
    assert_has(hear(f, half), "200 OK");
    assert_has(post(f, arena_printf(t->a, "%s%s", good, blanks + 600)), "200 OK");
    mem_free(blanks);
    finish(f);
}

/* While a long prompt is being read, streams go on, short requests are answered, and the server can
 * be asked how it is. */
static void a_long_prompt_stalls_nobody(void **state)
{
    struct test *t = *state;
    struct fixture *f = prepare(t, 8);
    struct tokenizer *tokenizer;
    assert_ok(
        tokenizer_load(TW_SOURCE_DIR "/data/models/tiny_qwen3/tokenizer.json", &tokenizer, &t->e),
        t);
    f->params.rules.tokenizer = tokenizer;
    f->params.max_body_bytes = 1 << 20;
    f->hold_at = 20;
    begin(f, 0);
    const char *body = "{\"model\":\"m\",\"prompt\":[1],\"max_tokens\":60,\"stream\":true}";
    int stream = dial(f), large = dial(f);
    say(stream, arena_printf(t->a,
                             "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                             "application/json\r\nConnection: close\r\n"
                             "Content-Length: %zu\r\n\r\n%s",
                             strlen(body), body));
    struct pollfd p = {.fd = stream, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 20000), 1); /* it runs */
    char *text = mem_alloc(LONG_TEXT + 1);
    memset(text, 'a', LONG_TEXT);
    reading_held = true;
    const char *long_body = arena_printf(t->a, "{\"model\":\"m\",\"prompt\":\"%s\"}", text);
    mem_free(text);
    say(large, arena_printf(t->a,
                            "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                            "application/json\r\nConnection: close\r\n"
                            "Content-Length: %zu\r\n\r\n%s",
                            strlen(long_body), long_body));
    for (int i = 0; i < 20000 && !reading_waits; i++)
        usleep(1000);
    assert_true(reading_waits);
    f->hold_at = 0;
    assert_int_equal(count(hear(f, stream), "\"choices\":[{"), 60);
    assert_has(post(f, "{\"model\":\"m\",\"prompt\":[1],\"max_tokens\":3}"), "200 OK");
    assert_has(ask(f, "GET", "/health", ""), "200 OK");
    p.fd = large;
    assert_int_equal(poll(&p, 1, 0), 0);
    reading_held = false;
    assert_has(hear(f, large),
               "the prompt has 100000 tokens: the model takes 2000 in all, output included");
    finish(f);
    tokenizer_free(&tokenizer);
}

/* The server ends while a prompt is being read and another waits for that: it waits for the one,
 * and both are told, if they are quick to listen. */
static void an_end_waits_for_what_is_being_read(void **state)
{
    struct test *t = *state;
    struct fixture *f = prepare(t, 8);
    struct tokenizer *tokenizer;
    assert_ok(
        tokenizer_load(TW_SOURCE_DIR "/data/models/tiny_qwen3/tokenizer.json", &tokenizer, &t->e),
        t);
    f->params.rules.tokenizer = tokenizer;
    f->params.max_body_bytes = 1 << 20;
    begin(f, 0);
    char *text = mem_alloc(LONG_TEXT + 1);
    memset(text, 'a', LONG_TEXT);
    const char *body = arena_printf(t->a, "{\"model\":\"m\",\"prompt\":\"%s\"}", text);
    mem_free(text);
    const char *request = arena_printf(
        t->a,
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Connection: close\r\nContent-Length: %zu\r\n\r\n%s",
        strlen(body), body);
    reading_held = true;
    reading_waits = false;
    int first = dial(f), second = dial(f);
    say(first, request);
    for (int i = 0; i < 20000 && !reading_waits; i++)
        usleep(1000);
    assert_true(reading_waits);
    say(second, request);
    assert_has(ask(f, "GET", "/health", ""), "200 OK"); /* by now it is in, too */
    __atomic_store_n(&f->stop, 1, __ATOMIC_RELAXED);
    usleep(100000);
    reading_held = false;
    finish(f);
    const char *const heard[] = {hear(f, first), hear(f, second)};
    for (int i = 0; i < 2; i++)
        assert_true(!*heard[i] || strstr(heard[i], "HTTP/1.1 400 ") ||
                    strstr(heard[i], "HTTP/1.1 503 "));
    tokenizer_free(&tokenizer);
    assert_int_equal(f->counters.requests, 0);
}

/* An answer ends at a token that the model ends with, unless the request asks to go on. */
static void answers_end_where_the_model_does(void **state)
{
    struct test *t = *state;
    struct fixture *f = prepare(t, 8);
    int32_t ids[5] = {1, 2};
    for (int i = 2; i < 5; i++)
        ids[i] = fake_token(ids, (int64_t)i);
    const int64_t eos[] = {FAKE_VOCAB - 1, ids[4]};
    f->params.rules.ignore_eos = false;
    f->params.eos_ids = eos;
    f->params.n_eos = 2;
    begin(f, 0);
    const char *text = post(f, "{\"model\":\"m\",\"prompt\":[1,2],\"max_tokens\":9,"
                               "\"return_token_ids\":true}");
    assert_has(text, arena_printf(t->a, "\"token_ids\":[%d,%d,%d],\"finish_reason\":\"stop\"",
                                  ids[2], ids[3], ids[4]));
    assert_has(text, "\"completion_tokens\":3");
    text = post(f, "{\"model\":\"m\",\"prompt\":[1,2],\"max_tokens\":9,\"ignore_eos\":true}");
    assert_has(text, "\"completion_tokens\":9");
    assert_has(text, "\"finish_reason\":\"length\"");
    /* the model's third token ends nothing before the fourth */
    text = post(f, "{\"model\":\"m\",\"prompt\":[1,2],\"max_tokens\":9,\"min_tokens\":3}");
    assert_null(strstr(text, "\"completion_tokens\":3,"));
    text = post(f, "{\"model\":\"m\",\"prompt\":[1,2],\"max_tokens\":9,\"min_tokens\":2}");
    assert_has(text, "\"completion_tokens\":3,");
    finish(f);
}

/* What a request holds shows while it runs, and is gone when it is over. The sink behind the
 * server's sees every iteration. */
static void metrics_show_the_kv_cache(void **state)
{
    struct test *t = *state;
    struct fixture *f = prepare(t, 8);
    f->hold_at = 20;
    begin(f, 0);
    const char *body = "{\"model\":\"m\",\"prompt\":[1],\"max_tokens\":60,\"stream\":true}";
    int fd = dial(f);
    say(fd, arena_printf(t->a,
                         "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                         "application/json\r\nConnection: close\r\n"
                         "Content-Length: %zu\r\n\r\n%s",
                         strlen(body), body));
    const char *text = "";
    for (int i = 0; i < 2000 && !strstr(text, "twinfer_kv_blocks_used 2\n"); i++) {
        text = ask(f, "GET", "/metrics", ""); /* 20 tokens are two blocks of 16 */
        usleep(1000);
    }
    assert_has(text, "\ntwinfer_kv_blocks 256\n");
    assert_has(text, "\ntwinfer_kv_blocks_used 2\n");
    assert_has(text, "\ntwinfer_num_requests_running 1\n");
    f->hold_at = 0;
    assert_int_equal(count(hear(f, fd), "\"choices\":[{"), 60);
    text = ask(f, "GET", "/metrics", "");
    assert_has(text, "\ntwinfer_kv_blocks_used 0\n");
    assert_has(text, "\ntwinfer_kv_cache_usage_perc 0\n");
    finish(f);
    assert_int_equal(f->iterations, 60);
}

/* A client that hangs up frees its place: running, waiting, or not reading. */
static void clients_that_left_are_cancelled(void **state)
{
    struct test *t = *state;
    struct fixture *f = prepare(t, 100);
    f->hold_at = 20;
    begin(f, 0.002);
    const char *body = "{\"model\":\"m\",\"prompt\":[1],\"max_tokens\":1500,\"stream\":true}";
    const char *request =
        arena_printf(t->a,
                     "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                     "application/json\r\nContent-Length: %zu\r\n\r\n%s",
                     strlen(body), body);
    int fds[CAP + 2];
    for (size_t i = 0; i < CAP + 2; i++) { /* two wait for a place */
        fds[i] = dial(f);
        say(fds[i], request);
    }
    struct pollfd p = {.fd = fds[0], .events = POLLIN};
    assert_int_equal(poll(&p, 1, 20000), 1);
    for (size_t i = 0; i < CAP + 2; i++)
        close(fds[i]);
    f->hold_at = 0;
    assert_has(post(f, "{\"model\":\"m\",\"prompt\":[1],\"max_tokens\":3}"), "200 OK");
    finish(f);
    assert_int_equal(f->rows[RUN_CANCELLED], CAP + 2);
    assert_int_equal(f->rows[RUN_OK], 1);
    assert_true(f->counters.tokens < 4 * 1500); /* none ran to its end */
}

static void a_stop_lets_running_requests_end(void **state)
{
    struct test *t = *state;
    struct fixture *f = start(t, 0.005, 8);
    const char *body = "{\"model\":\"m\",\"prompt\":[1],\"max_tokens\":50,\"stream\":true}";
    int fd = dial(f), idle = dial(f);
    say(fd, arena_printf(t->a,
                         "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                         "application/json\r\nConnection: close\r\n"
                         "Content-Length: %zu\r\n\r\n%s",
                         strlen(body), body));
    struct pollfd p = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 20000), 1);
    say(idle,
        "GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\r\n"); /* accepted
                                                                                                 before
                                                                                                 the
                                                                                                 stop
                                                                                               */
    p.fd = idle;
    assert_int_equal(poll(&p, 1, 20000), 1);
    __atomic_store_n(&f->stop, 1, __ATOMIC_RELAXED);
    const char *text = hear(f, fd);
    assert_int_equal(count(text, "\"choices\":[{"), 50);
    assert_int_equal(count(text, "[DONE]"), 1);
    close(idle);
    finish(f);
    assert_int_equal(f->rows[RUN_OK], 1);
}

/* A stream that nobody reads is ended when more waits than allowed; others go on. The model's name
 * makes each event larger than what is left after sockets have taken in what they hold. */
static void a_client_that_does_not_read_is_cut_off(void **state)
{
    struct test *t = *state;
    struct fixture *f = prepare(t, 8);
    char name[16001];
    memset(name, 'm', sizeof name - 1);
    name[sizeof name - 1] = 0;
    f->params.rules.model = name;
    f->params.max_unread_tokens = 100;
    f->params.max_body_bytes = 65536;
    begin(f, 0.0005);
    int fd = socket(AF_INET, SOCK_STREAM, 0), small = 4096;
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)f->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    const char *body = arena_printf(
        t->a, "{\"model\":\"%s\",\"prompt\":[1],\"max_tokens\":1900,\"stream\":true}", name);
    say(fd, arena_printf(t->a,
                         "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                         "application/json\r\nContent-Length: %zu\r\n\r\n"
                         "%s",
                         strlen(body), body));
    for (int i = 0; i < 2000 && !strstr(ask(f, "GET", "/metrics", ""), "slow_clients_total 1\n");
         i++)
        usleep(10000);
    assert_has(post(f, arena_printf(t->a, "{\"model\":\"%s\",\"prompt\":[1]}", name)),
               "200 OK");           /* others are served */
    const char *text = hear(f, fd); /* idle_timeout_s is 20: this is not it */
    assert_null(strstr(text, "[DONE]"));
    assert_true(count(text, "\"choices\":[{") > 0);
    finish(f);
    assert_int_equal(f->rows[RUN_CANCELLED], 1);
    assert_int_equal(f->rows[RUN_OK], 1);
    assert_true(f->counters.tokens < 1900);
}

/* One that reads slowly but does read gets everything. */
static void a_client_that_reads_late_gets_all(void **state)
{
    struct test *t = *state;
    struct fixture *f = start(t, 0, 8);
    const char *body = "{\"model\":\"m\",\"prompt\":[1],\"max_tokens\":400,\"stream\":true}";
    int fd = dial(f);
    say(fd, arena_printf(t->a,
                         "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                         "application/json\r\nConnection: close\r\n"
                         "Content-Length: %zu\r\n\r\n%s",
                         strlen(body), body));
    usleep(200000);
    const char *text = hear(f, fd);
    assert_int_equal(count(text, "\"choices\":[{"), 400);
    assert_int_equal(count(text, "[DONE]"), 1);
    finish(f);
}

/* Sends the bytes of `text` one at a time, then 'x' for ever. True when the server closed before
 * `most` of them. */
static bool is_closed_on(int fd, const char *text, int most)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char c;
    for (int i = 0; i < most; i++) {
        char byte = *text ? *text++ : 'x';
        if (send(fd, &byte, 1, MSG_NOSIGNAL) != 1)
            return true;
        if (poll(&p, 1, 50) == 1 && recv(fd, &c, 1, 0) <= 0)
            return true;
    }
    return false;
}

/* Whoever says nothing, or drips, is let go: without a request, in the headers, in the body, after
 * an answer. A request that takes its time, and is in by then, is answered. */
static void connections_have_their_time(void **state)
{
    struct test *t = *state;
    struct fixture *f = prepare(t, 8);
    f->params.idle_timeout_s = 2;
    begin(f, 0);
    int kept = dial(f);
    say(kept, "GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\r\n");
    int silent = dial(f), headers = dial(f), body = dial(f);
    say(body, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
              "application/json\r\nContent-Length: 4000\r\n\r\n");
    assert_true(is_closed_on(headers, "GET /health HTTP/1.1\r\nX-Slow: ", 400));
    assert_true(is_closed_on(body, "{", 400));
    assert_string_equal(hear(f, silent), "");
    assert_has(hear(f, kept), "200 OK");
    close(headers);
    close(body);
    int slow = dial(f);
    assert_false(is_closed_on(slow, "GET /heal", 9));
    say(slow, "th HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: "
              "close\r\n\r\n");
    assert_has(hear(f, slow), "200 OK");
    assert_has(post(f, "{\"model\":\"m\",\"prompt\":[1],\"max_tokens\":3}"), "200 OK");
    finish(f);
}

/* Waiting for a place, or for a slow engine, is not idleness. */
static void a_long_answer_is_not_idle(void **state)
{
    struct test *t = *state;
    struct fixture *f = prepare(t, 8);
    f->params.idle_timeout_s = 2;
    begin(f, 2.6);
    const char *text = post(f, "{\"model\":\"m\",\"prompt\":[1],\"max_tokens\":2}");
    assert_has(text, "200 OK");
    assert_has(text, "\"completion_tokens\":2");
    finish(f);
}

static void addresses_are_checked(void **state)
{
    struct test *t = *state;
    struct server_params p = {.host = "example.org", .max_connections = 1};
    struct server *s;
    assert_err(server_open(&p, &s, &t->e), ST_USAGE, t,
               "server.host: 'example.org' is no numeric address");
    assert_null(s);
    assert_true(server_is_loopback("127.0.0.1") && server_is_loopback("localhost") &&
                server_is_loopback("::1"));
    assert_false(server_is_loopback("0.0.0.0") || server_is_loopback("10.0.0.1") ||
                 server_is_loopback("::"));
}

/* Many connections that say nothing: whoever asks is answered at once. */
static void idle_connections_keep_nobody_out(void **state)
{
    enum { MANY = 40 };
    struct test *t = *state;
    struct fixture *f = prepare(t, 8);
    f->params.max_connections = f->params.max_per_address = 8;
    begin(f, 0);
    int held[MANY];
    for (int i = 0; i < MANY; i++)
        held[i] = dial(f);
    assert_has(ask(f, "GET", "/health", ""), "200 OK");
    assert_has(post(f, "{\"model\":\"m\",\"prompt\":[1],\"max_tokens\":2}"), "200 OK");
    for (int i = 0; i < MANY; i++)
        close(held[i]);
    finish(f);
}

/* All of them busy: /health alone is answered. */
static void health_answers_when_all_are_busy(void **state)
{
    enum { MOST = 2 };
    struct test *t = *state;
    struct fixture *f = prepare(t, 8);
    f->params.max_connections = f->params.max_per_address = MOST;
    begin(f, 0.01);
    int busy[MOST];
    const char *body = "{\"model\":\"m\",\"prompt\":[1],\"max_tokens\":1900,\"stream\":true}";
    for (int i = 0; i < MOST; i++) {
        struct pollfd p = {.fd = busy[i] = dial(f), .events = POLLIN};
        say(busy[i], arena_printf(t->a,
                                  "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                                  "Content-Type: application/json\r\nConnection: close\r\n"
                                  "Content-Length: %zu\r\n\r\n%s",
                                  strlen(body), body));
        assert_int_equal(poll(&p, 1, 20000), 1);
    }
    f->hold_at = 1; /* nothing ends from here on */
    assert_has(ask(f, "GET", "/health", ""), "200 OK");
    assert_has(ask(f, "GET", "/metrics", ""), "503 Service Unavailable");
    assert_has(post(f, "{\"model\":\"m\",\"prompt\":[1]}"), "too many connections are in use");
    f->hold_at = 0;
    for (int i = 0; i < MOST; i++)
        close(busy[i]);
    const char *answer = "503";
    for (int i = 0; i < 2000 && strstr(answer, "503"); i++) { /* until their end is seen */
        usleep(10000);
        answer = post(f, "{\"model\":\"m\",\"prompt\":[1],\"max_tokens\":2}");
    }
    assert_has(answer, "200 OK");
    finish(f);
}

/* What a page in a browser can send. */
static void web_pages_are_refused(void **state)
{
    struct test *t = *state;
    struct fixture *f = start(t, 0, 8);
    static const struct {
        const char *headers, *answer;
    } rows[] = {
        {"Host: evil.example\r\nContent-Type: application/json\r\n", "403 Forbidden"},
        {"Host: localhost\r\nContent-Type: text/plain\r\n", "415 "},
        {"Host: localhost\r\n", "415 "},
        {"Host: localhost\r\nContent-Type: application/json; charset=utf-8\r\n", "200 OK"},
    };
    const char *body = "{\"model\":\"m\",\"prompt\":[1],\"max_tokens\":2}";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int fd = dial(f);
        say(fd, arena_printf(t->a,
                             "POST /v1/completions HTTP/1.1\r\n%sConnection: close\r\n"
                             "Content-Length: %zu\r\n\r\n%s",
                             rows[i].headers, strlen(body), body));
        assert_has(hear(f, fd), rows[i].answer);
    }
    int fd = dial(f);
    say(fd, "GET /v1/models HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    assert_has(hear(f, fd), "Host names another server");
    finish(f);
    assert_int_equal(f->counters.requests, 1);
}

static void health_says_that_it_drains(void **state)
{
    struct test *t = *state;
    struct fixture *f = prepare(t, 8);
    f->hold_at = 5;
    begin(f, 0);
    const char *body = "{\"model\":\"m\",\"prompt\":[1],\"max_tokens\":60,\"stream\":true}";
    int fd = dial(f);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    say(fd, arena_printf(t->a,
                         "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                         "application/json\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
                         strlen(body), body));
    assert_int_equal(poll(&p, 1, 20000), 1);
    __atomic_store_n(&f->stop, 1, __ATOMIC_RELAXED);
    f->hold_at = 30; /* the loop looks at stop again, and stands still */
    const char *health = "200 OK";
    for (int i = 0; i < 2000 && strstr(health, "200 OK"); i++) {
        usleep(10000);
        health = ask(f, "GET", "/health", "");
    }
    assert_has(health, "503 Service Unavailable");
    assert_has(health, "{\"status\":\"draining\"}");
    assert_has(post(f, body), "503 Service Unavailable");
    f->hold_at = 0;
    assert_int_equal(count(hear(f, fd), "\"choices\":[{"), 60);
    finish(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(idle_connections_keep_nobody_out),
        TEST(health_answers_when_all_are_busy),
        TEST(web_pages_are_refused),
        TEST(health_says_that_it_drains),
        TEST(answers_have_openais_shape),
        TEST(bad_requests_are_refused),
        TEST(requests_with_two_ends_are_refused),
        TEST(keys_are_asked_for_below_v1),
        TEST(errors_have_openais_shape),
        TEST(bodies_share_their_room),
        TEST(a_long_prompt_stalls_nobody),
        TEST(an_end_waits_for_what_is_being_read),
        TEST(metrics_show_the_kv_cache),
        TEST(answers_end_where_the_model_does),
        TEST(one_too_many_is_told_to_come_back),
        TEST(clients_that_left_are_cancelled),
        TEST(a_stop_lets_running_requests_end),
        TEST(addresses_are_checked),
        TEST(a_client_that_does_not_read_is_cut_off),
        TEST(a_client_that_reads_late_gets_all),
        TEST(connections_have_their_time),
        TEST(a_long_answer_is_not_idle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
