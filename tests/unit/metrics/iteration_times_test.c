/* Times of iterations from waits and from when some tokens reached the client: of a server that is
 * made up here, whose times are known, and of two real ones. */
#include <math.h>
#include <stdlib.h>

#include "metrics/iteration_times.h"
#include "support/fake_log.h"
#include "support/support.h"

/* What the server that is made up does when. */
struct server {
    struct fake_log fake;
    double end_s[sizeof((struct fake_log *)0)->of / sizeof(struct logged_iteration)];
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

/* The loop of the engine: launch, (async: launch the next one, if there is one,) wait, answer. */
static void run_server(struct server *s, bool async)
{
    double now = 0.5, device_free = 0, done[2] = {0};
    size_t launched = 0;
    struct logged_iteration *of = s->fake.of;
    const size_t n = s->fake.log.n;
    for (size_t i = 0; i < n; i++) {
        struct logged_iteration *x = &of[i];
        if (x->generation_requests == 0 && i > 0)
            now += 0.2;
        while (launched < n && launched <= i + async &&
               (launched == i || of[launched].generation_requests > 0)) {
            const struct logged_iteration *y = &of[launched];
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
    for (int k = 0; k < FAKE_LOG_REQUESTS; k++) {
        struct run_request *q = &s->fake.requests[k];
        const size_t first = s->fake.first[k];
        q->first_token_ns = llround(1e9 * s->end_s[first]);
        q->completion_ns = llround(1e9 * s->end_s[first + FAKE_LOG_ANSWER - 1]);
    }
}

static void check_times(struct test *t, bool async)
{
    struct server *s = arena_one(t->a, struct server);
    struct iteration_match m;
    struct iteration_times x;
    fake_log_compose(&s->fake);
    run_server(s, async);
    assert_ok(iteration_match(t->a, &s->fake.run, &s->fake.log, NULL, &m, &t->e), t);
    assert_int_equal(m.n_known, m.n);
    assert_ok(iteration_times(t->a, &s->fake.run, &m, &x, &t->e), t);
    assert_true(x.async == async);
    assert_true(x.residual_s < 2e-4 && x.waited > 0.1 && x.waited < 0.9);
    for (size_t i = 0; i < m.n; i++) {
        const double own_s = launch_s(&s->fake.of[i]) + s->fake.of[i].elapsed_s + ANSWER_S;
        assert_near(x.tokens_s[i], s->end_s[i], 5e-4);
        if (!m.of[i].idle_before)
            assert_near(x.duration_s[i], own_s, 5e-4);
    }
    const struct run_batch *b = iteration_batches(t->a, &m, &x);
    assert_int_equal(b[0].num_prefill_tokens, s->fake.of[0].context_tokens);
    assert_int_equal(b[1].num_decode_tokens, s->fake.of[1].generation_requests);
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
    fake_log_compose(&s->fake);
    run_server(s, true);
    s->fake.run.n_requests = 10;
    assert_ok(iteration_match(t->a, &s->fake.run, &s->fake.log, NULL, &m, &t->e), t);
    assert_int_equal(iteration_times(t->a, &s->fake.run, &m, &x, &t->e), ST_REJECTED);
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
        print_message("%s: %s, P90 %.2f ms\n", runs[i], iteration_times_words(t->a, &m, &x),
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
