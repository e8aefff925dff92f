/* Times of iterations from waits and from when some tokens reached the client: of a server that is
 * made up here, whose times are known, and of two real ones. */
#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "metrics/iteration_times.h"
#include "support/support.h"

enum { REQUESTS = 120, ANSWER = 9, ITERATIONS = REQUESTS * 4 };

/* Requests of ANSWER tokens each, in groups of 30. */
struct server {
    struct run run;
    struct iteration_log log;
    struct logged_iteration of[ITERATIONS + REQUESTS * ANSWER];
    double end_s[ITERATIONS + REQUESTS * ANSWER];
    struct run_request requests[REQUESTS];
};

static const double ANSWER_S = 0.002, TO_CLIENT_S = 0.001;

static double launch_s(const struct logged_iteration *x)
{
    const int64_t tokens = x->context_tokens + x->generation_tokens;
    return x->context_tokens == 0 ? 0.0015 : tokens <= 512 ? 0.010 : 0.025;
}

static double device_s(const struct logged_iteration *x)
{
    return 0.006 + 20e-6 * (double)x->context_tokens + 1e-5 * (double)x->generation_tokens;
}

/* What each iteration holds: requests come one by one, in groups of 30 that end before the next
 * group comes. */
static void compose(struct server *s)
{
    struct rng rng = rng_stream(7, "lengths");
    size_t first[REQUESTS], i = 0;
    int running[REQUESTS], n = 0;
    s->log = (struct iteration_log){.path = "server.log", .of = s->of, .engines = 1};
    s->run = (struct run){.dir = "run", .requests = s->requests, .n_requests = REQUESTS};
    for (int request = 0; request < REQUESTS || n > 0; i++) {
        struct logged_iteration *x = &s->of[i];
        const bool wait = request < REQUESTS && request % 30 == 0 && n > 0;
        *x = (struct logged_iteration){
            .index = (int64_t)i, .line = (long)i + 1, .follows = i > 0, .generation_requests = n};
        x->generation_tokens = n;
        for (int k = 0; k < n;)
            if (--running[k] == 0)
                running[k] = running[--n];
            else
                k++;
        if (request < REQUESTS && !wait && (rng_below(&rng, 3) == 0 || n == 0)) {
            const int64_t prompt = 100 + (int64_t)(rng_unit(&rng) * 900);
            s->requests[request] = (struct run_request){.request_id = request,
                                                        .num_prefill_tokens = prompt,
                                                        .num_decode_tokens = ANSWER,
                                                        .num_decode_tokens_actual = ANSWER};
            first[request] = i;
            x->context_requests = 1;
            x->context_tokens = prompt;
            running[n++] = ANSWER - 1;
            request++;
        }
    }
    s->log.n = i;
    for (int k = 0; k < REQUESTS; k++)
        s->requests[k].first_token_ns = (int64_t)first[k]; /* until there are times */
}

/* The loop of the engine: launch, (async: launch the next one, if there is one,) wait, answer. */
static void run_server(struct server *s, bool async)
{
    double now = 0.5, device_free = 0, done[2] = {0};
    size_t launched = 0;
    for (size_t i = 0; i < s->log.n; i++) {
        struct logged_iteration *x = &s->of[i];
        if (x->generation_requests == 0 && i > 0)
            now += 0.2;
        while (launched < s->log.n && launched <= i + async &&
               (launched == i || s->of[launched].generation_requests > 0)) {
            const struct logged_iteration *y = &s->of[launched];
            const double from = now > device_free ? now : device_free;
            now += launch_s(y);
            device_free = from + device_s(y) > now ? from + device_s(y) : now;
            done[launched++ % 2] = device_free;
        }
        x->elapsed_s = done[i % 2] > now ? done[i % 2] - now : 0;
        now += x->elapsed_s;
        s->end_s[i] = now + TO_CLIENT_S;
        now += ANSWER_S;
    }
    for (int k = 0; k < REQUESTS; k++) {
        struct run_request *q = &s->requests[k];
        const size_t first = (size_t)q->first_token_ns;
        q->first_token_ns = llround(1e9 * s->end_s[first]);
        q->completion_ns = llround(1e9 * s->end_s[first + ANSWER - 1]);
    }
}

static void check_times(struct test *t, bool async)
{
    struct server *s = arena_one(t->a, struct server);
    struct iteration_match m;
    struct iteration_times x;
    compose(s);
    run_server(s, async);
    assert_ok(iteration_match(t->a, &s->run, &s->log, NULL, &m, &t->e), t);
    assert_int_equal(m.n_known, m.n);
    assert_ok(iteration_times(t->a, &s->run, &m, &x, &t->e), t);
    assert_true(x.async == async);
    assert_true(x.residual_s < 2e-4 && x.waited > 0.1 && x.waited < 0.9);
    for (size_t i = 0; i < m.n; i++) {
        const double own_s = launch_s(&s->of[i]) + s->of[i].elapsed_s + ANSWER_S;
        assert_near(x.tokens_s[i], s->end_s[i], 5e-4);
        if (!m.of[i].idle_before)
            assert_near(x.duration_s[i], own_s, 5e-4);
    }
    const struct run_batch *b = iteration_batches(t->a, &m, &x);
    assert_int_equal(b[0].num_prefill_tokens, s->of[0].context_tokens);
    assert_int_equal(b[1].num_decode_tokens, s->of[1].generation_requests);
    assert_int_equal(b[1].host_ns, RUN_NONE);
    for (size_t i = 1; i < m.n; i++)
        assert_true(b[i].start_ns >= b[i - 1].start_ns);
}

static void times_follow_from_waits_and_clients(void **state)
{
    check_times(*state, false);
    check_times(*state, true);
}

static void few_tokens_say_no_times(void **state)
{
    struct test *t = *state;
    struct server *s = arena_one(t->a, struct server);
    struct iteration_match m;
    struct iteration_times x;
    compose(s);
    run_server(s, true);
    s->run.n_requests = 10;
    assert_ok(iteration_match(t->a, &s->run, &s->log, NULL, &m, &t->e), t);
    assert_int_equal(iteration_times(t->a, &s->run, &m, &x, &t->e), ST_REJECTED);
}

static void real_servers_scheduled_asynchronously(void **state)
{
    struct test *t = *state;
    static const char *const runs[] = {"vllm_024/it_Llama-3.1-8B_a12",
                                       "vllm_024/it_Qwen3-30B-A3B_a12"};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        const char *dir = test_data(t, runs[i]);
        struct run r;
        struct iteration_log log;
        struct iteration_match m;
        struct iteration_times x;
        assert_ok(run_load(t->a, dir, "real", &r, &t->e), t);
        assert_ok(iteration_log_read(t->a, iteration_log_beside(t->a, dir), &log, &t->e), t);
        assert_ok(iteration_match(t->a, &r, &log, NULL, &m, &t->e), t);
        assert_ok(iteration_times(t->a, &r, &m, &x, &t->e), t);
        print_message("%s: %s, P90 %.2f ms\n", runs[i], iteration_times_words(t->a, &x),
                      1e3 * x.residual_p90_s);
        assert_true(x.async);
        assert_true(x.residual_s < 4e-3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(times_follow_from_waits_and_clients),
        TEST(few_tokens_say_no_times),
        TEST(real_servers_scheduled_asynchronously),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
