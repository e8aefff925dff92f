/* What one short request finds out of servers that others wrote (support/known_servers.h). */
#include "client/preflight.h"

#include <math.h>

#include "support/known_servers.h"
#include "support/support.h"

/* What the run would send. */
static struct body_params asked(void)
{
    return (struct body_params){.model = "m", .ignore_eos = true};
}

static enum st ask(struct test *t, const char *name, struct body_params *body,
                   const struct body_prompt *prompt, struct preflight *out)
{
    static const struct body_prompt hello = {.text = {"hello", 5}};
    size_t n = 0;
    const struct fault *faults = known_server(name, &n);
    struct fault_server *server = fault_server_start(faults, n);
    const struct client_params p = {
        .url = arena_printf(t->a, "http://127.0.0.1:%d/v1/%s", fault_server_port(server),
                            body->endpoint == BODY_CHAT ? "chat/completions" : "completions"),
        .timeout_s = 60,
        .connect_timeout_s = 30};
    enum st st = preflight_ask(t->a, &p, body, prompt ? prompt : &hello, NULL, out, &t->e);
    fault_server_stop(&server);
    return st;
}

static void transformers_serve_takes_no_ignore_eos(void **state)
{
    struct test *t = *state;
    struct preflight f;
    for (int chat = 0; chat < 2; chat++) {
        struct body_params b = asked();
        b.endpoint = chat ? BODY_CHAT : BODY_COMPLETIONS;
        assert_ok(ask(t, "transformers", &b, NULL, &f), t);
        assert_int_equal(f.requests, 2);
        assert_true(f.asked && f.changed && f.no_ignore_eos && f.has_usage);
        assert_false(f.no_usage || f.unlimited || f.one_chunk || b.ignore_eos);
        assert_int_equal(f.limit, BODY_LIMIT_MAX_TOKENS);
        assert_int_equal(b.count, BODY_COUNT_USAGE);
    }
}

static void transformers_serve_takes_no_ids(void **state)
{
    struct test *t = *state;
    static const int32_t ids[] = {1, 2};
    const struct body_prompt prompt = {.ids = ids, .n_ids = 2};
    struct body_params b = asked();
    struct preflight f;
    b.ignore_eos = false;
    assert_err(ask(t, "transformers", &b, &prompt, &f), ST_DEVICE, t,
               "the server does not serve a request of 4 output tokens\nhttp_400: status 400: "
               "{\"detail\":\"prompt must be a string.\"}\nhint: client.prompts=text sends prompts "
               "as texts");
}

/* It ignores what it does not know, and knows no max_completion_tokens: asked with that name it
 * answers until its context is full, so that the name must not be tried first. */
static void llama_cpp_python_sends_no_usage(void **state)
{
    struct test *t = *state;
    struct preflight f;
    for (int chat = 0; chat < 2; chat++) {
        struct body_params b = asked();
        b.endpoint = chat ? BODY_CHAT : BODY_COMPLETIONS;
        assert_ok(ask(t, "llama_cpp", &b, NULL, &f), t);
        assert_int_equal(f.requests, 1);
        assert_true(f.asked);
        assert_false(f.changed || f.has_usage || f.unlimited);
    }
    struct body_params b = asked();
    b.endpoint = BODY_CHAT;
    b.limit = BODY_LIMIT_MAX_COMPLETION_TOKENS;
    assert_ok(ask(t, "llama_cpp", &b, NULL, &f), t);
    assert_true(f.asked && f.unlimited);
    assert_int_equal(b.limit, BODY_LIMIT_MAX_COMPLETION_TOKENS); /* the user's word */
}

static void a_reasoning_model_wants_other_names(void **state)
{
    struct test *t = *state;
    struct body_params b = asked();
    struct preflight f;
    assert_ok(ask(t, "reasoner", &b, NULL, &f), t);
    assert_int_equal(f.requests, 3);
    assert_int_equal(f.limit, BODY_LIMIT_MAX_COMPLETION_TOKENS);
    assert_int_equal(b.limit, BODY_LIMIT_MAX_COMPLETION_TOKENS);
    assert_true(f.no_temperature && isnan(b.temperature) && b.ignore_eos);
    b = asked();
    b.limit = BODY_LIMIT_MAX_TOKENS; /* the user's word is not changed */
    assert_err(ask(t, "reasoner", &b, NULL, &f), ST_DEVICE, t,
               "the server does not serve a request of 4 output tokens\nhttp_400: status 400: "
               "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
               "'max_completion_tokens' instead.\nhint: client.preflight=false sends the run's "
               "requests nevertheless");
}

static void an_answer_in_one_chunk_is_seen(void **state)
{
    struct test *t = *state;
    struct body_params b = asked();
    struct preflight f;
    assert_ok(ask(t, "whole", &b, NULL, &f), t);
    assert_true(f.one_chunk && f.has_usage);
}

static void who_refuses_everything_ends_the_run(void **state)
{
    static const struct {
        const char *answer, *want;
    } rows[] = {
        {"HTTP/1.1 401 Unauthorized\r\nContent-Length: 4\r\n\r\nnope",
         "the server does not serve a request of 4 output tokens\nhttp_401: status 401: "
         "nope\nhint: "
         "client.api_key_env names the environment variable that holds the API key"},
        {"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnope",
         "the server does not serve a request of 4 output tokens\nhttp_404: status 404: "
         "nope\nhint: "
         "does url name the server's root, client.endpoint an endpoint it has, and client.model a "
         "model it serves?"},
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct fault_step steps[] = {{FAULT_SEND, rows[i].answer, 0}, {FAULT_END, NULL, 0}};
        const struct fault fault = {.steps = steps};
        struct fault_server *server = fault_server_start(&fault, 1);
        const struct client_params p = {
            .url =
                arena_printf(t->a, "http://127.0.0.1:%d/v1/completions", fault_server_port(server)),
            .timeout_s = 60,
            .connect_timeout_s = 30};
        const struct body_prompt hello = {.text = {"hello", 5}};
        struct body_params b = asked();
        struct preflight f;
        err_clear(&t->e);
        assert_err(preflight_ask(t->a, &p, &b, &hello, NULL, &f, &t->e), ST_DEVICE, t,
                   rows[i].want);
        assert_int_equal(f.requests, 1);
        fault_server_stop(&server);
    }
}

static void a_busy_server_is_no_dead_one(void **state)
{
    struct test *t = *state;
    const struct fault_step steps[] = {
        {FAULT_SEND, "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy", 0},
        {FAULT_END, NULL, 0}};
    const struct fault fault = {.steps = steps};
    struct fault_server *server = fault_server_start(&fault, 1);
    const struct client_params p = {
        .url = arena_printf(t->a, "http://127.0.0.1:%d/v1/completions", fault_server_port(server)),
        .timeout_s = 60,
        .connect_timeout_s = 30};
    const struct body_prompt hello = {.text = {"hello", 5}};
    struct body_params b = asked();
    struct preflight f;
    assert_ok(preflight_ask(t->a, &p, &b, &hello, NULL, &f, &t->e), t);
    assert_false(f.asked || f.changed);
    fault_server_stop(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(transformers_serve_takes_no_ignore_eos), TEST(transformers_serve_takes_no_ids),
        TEST(llama_cpp_python_sends_no_usage),        TEST(a_reasoning_model_wants_other_names),
        TEST(an_answer_in_one_chunk_is_seen),         TEST(who_refuses_everything_ends_the_run),
        TEST(a_busy_server_is_no_dead_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
