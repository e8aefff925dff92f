/* What a server counted outside its engine, beside what a fit has there. */
#include "calibrate/tell.h"

#include <math.h>

#include "metrics/server_metrics.h"
#include "support/support.h"

static struct server_metrics counted(int64_t requests)
{
    struct server_metrics m = {.server = "vllm", .client = {requests, 0.030, 1.0}, .alone = true};
    m.of[SERVER_TTFT] = (struct server_stat){"vllm:a", 200, 0.025, 0, 1, 0, 1};
    m.of[SERVER_QUEUE] = (struct server_stat){"vllm:b", 200, 0.001, 0, 1, 0, 1};
    m.of[SERVER_PREFILL] = (struct server_stat){"vllm:c", 200, 0.020, 0, 1, 0, 1};
    return m;
}

static struct observed_stage stage_of(struct test *t)
{
    struct observed_stage s = {.rate = 10};
    s.of[OBSERVED_E2E] = observed_unknown();
    s.of[OBSERVED_E2E].mean = 2;
    s.w.n = 2;
    s.w.requests = arena_array(t->a, struct workload_request, 2);
    s.w.requests[0].num_prefill_tokens = 400;
    s.w.requests[1].num_prefill_tokens = 600;
    return s;
}

static void both_are_told(void **state)
{
    struct test *t = *state;
    const struct server_metrics m = counted(200);
    const struct observed_stage s = stage_of(t);
    const struct observed run = {.name = "a12", .server = &m};
    struct theta theta = {{0}};
    theta.ln[THETA_FRONT] = log(1e-3);
    theta.ln[THETA_FIRST_TOKEN] = log(4e-3);
    theta.ln[THETA_PROMPT_TOKEN] = log(2e-6); /* 500 of them: 1 ms */
    theta.ln[THETA_STREAM] = log(25e-6);      /* 20 running: 0.5 ms */
    assert_string_equal(tell_outside(t->a, &run, &s, &theta),
                        "first tokens of a12 outside the engine: 9.00 ms by its server's own "
                        "metrics (front 4.00, outside the server 5.00; queue 1.00 and prefill "
                        "20.00 in the engine), 6.50 ms or more in the fit");
}

static void counts_of_others_are_not_told(void **state)
{
    struct test *t = *state;
    const struct server_metrics m = counted(201);
    const struct observed_stage s = stage_of(t);
    const struct observed run = {.name = "a12", .server = &m}, none = {.name = "a12"};
    const struct theta theta = {{0}};
    assert_null(tell_outside(t->a, &run, &s, &theta));
    assert_null(tell_outside(t->a, &none, &s, &theta));
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(both_are_told), TEST(counts_of_others_are_not_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
