/* A run whose server's metrics were required is kept only with them. */
#include "client/bench.h"
#include "support/support.h"

static struct client_bench bench_of(enum scrape_mode mode)
{
    return (struct client_bench){.p = {.metrics_mode = mode, .max_wrong_lengths = 0.01},
                                 .health = {.healthy = true, .sent = 1},
                                 .figures = {.completed = 1, .lengths = {[LENGTH_RIGHT] = 1}}};
}

static void missing_metrics_reject_where_they_are_required(void **state)
{
    struct test *t = *state;
    struct client_bench b = bench_of(SCRAPE_REQUIRED);
    assert_ok(client_bench_judge(&b, &t->e), t);
    b.scrape.why = "vllm:x: it fell from 4 to 2";
    assert_err(client_bench_judge(&b, &t->e), ST_REJECTED, t,
               "client.server_metrics=required: the server's metrics are not of this run\n"
               "vllm:x: it fell from 4 to 2");
    err_clear(&t->e);
    b.scrape.why = NULL;
    b.server.why = "the server counted 3 requests that ended, the client 1 that ended well";
    assert_int_equal(client_bench_judge(&b, &t->e), ST_REJECTED);
    assert_cause(&t->e, b.server.why);
}

static void missing_metrics_are_no_fault_otherwise(void **state)
{
    struct test *t = *state;
    struct client_bench b = bench_of(SCRAPE_AUTO);
    b.scrape.why = "they were not there";
    assert_ok(client_bench_judge(&b, &t->e), t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(missing_metrics_reject_where_they_are_required),
        TEST(missing_metrics_are_no_fault_otherwise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
