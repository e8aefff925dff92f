/* What is read of a server's log, and what is refused, by place. */
#include <math.h>
#include <string.h>

#include "metrics/iteration_log.h"
#include "support/support.h"

static enum st parse(struct test *t, const char *text, struct iteration_log *log)
{
    return iteration_log_parse(t->a, "server.log", sv_of(text), log, &t->e);
}

static void lines_of_two_versions_are_read(void **state)
{
    struct test *t = *state;
    struct iteration_log log;
    assert_ok(parse(t,
                    "INFO 11-27 10:11:12 [api_server.py:1] Starting vLLM\n"
                    "\x1b[0;36m(EngineCore_DP0 pid=7)\x1b[0;0m INFO 11-27 10:11:12 [core.py:345] "
                    "Iteration(626): 1 context requests, 4 context tokens, 2 generation requests, "
                    "3 generation tokens, iteration elapsed time: 0.03 ms\r\n"
                    "Iteration of something else\n"
                    "(APIServer pid=5) INFO 11-27 10:11:12 [loggers.py:200] Engine 000: "
                    "Iteration(627): 0 context requests, 0 context tokens, 1 generation requests, "
                    "1 generation tokens, iteration elapsed time: 1.96 ms, GPU KV cache usage: "
                    "1.5%, encoder inputs: 2, encoder output embeddings: 99\n",
                    &log),
              t);
    assert_int_equal(log.n, 2);
    assert_int_equal(log.engines, 1);
    const struct logged_iteration *x = &log.of[0];
    assert_int_equal(x->index, 626);
    assert_int_equal(x->context_requests, 1);
    assert_int_equal(x->context_tokens, 4);
    assert_int_equal(x->generation_requests, 2);
    assert_int_equal(x->generation_tokens, 3);
    assert_near(x->elapsed_s, 0.00003, 1e-12);
    assert_true(isnan(x->kv_usage) && !x->follows && !x->dummy);
    assert_int_equal(x->line, 2);
    assert_near(x[1].kv_usage, 0.015, 1e-12);
    assert_int_equal(x[1].encoder_inputs, 2);
    assert_int_equal(x[1].encoder_tokens, 99);
    assert_true(x[1].follows);
}

#define LINE(engine, index, more)                                                                  \
    engine "Iteration(" index                                                                      \
           "): 0 context requests, 0 context tokens, 1 generation requests, 1 generation tokens, " \
           "iteration elapsed time: 2.00 ms" more "\n"

static void engines_and_gaps_are_told_apart(void **state)
{
    struct test *t = *state;
    struct iteration_log log;
    assert_ok(parse(t,
                    LINE("Engine 000: ", "5", "") LINE("Engine 001: ", "5", " (dummy)")
                        LINE("Engine 000: ", "6", "") LINE("Engine 001: ", "7", "")
                            LINE("(EngineCore_DP2 pid=3) ", "1", ""),
                    &log),
              t);
    static const struct {
        int32_t engine;
        bool follows, dummy;
    } want[] = {{0, false, false},
                {1, false, true},
                {0, true, false},
                {1, false, false},
                {2, false, false}};
    assert_int_equal(log.engines, 3);
    assert_int_equal(log.n, 5);
    for (size_t i = 0; i < log.n; i++) {
        assert_int_equal(log.of[i].engine, want[i].engine);
        assert_true(log.of[i].follows == want[i].follows);
        assert_true(log.of[i].dummy == want[i].dummy);
    }
}

static void malformed_lines_are_named(void **state)
{
    struct test *t = *state;
    struct iteration_log log;
    static const struct {
        const char *text, *cause;
    } cases[] = {
        {"\nIteration(3): 1 context requests, 4 context tok", "server.log:2:36: iteration log: "
                                                              "expected \" context tokens, \""},
        {"x Iteration(3): -1 context requests",
         "server.log:1:17: iteration log: expected \"COUNT\""},
        {"Iteration(3 : 1", "server.log:1:12: iteration log: expected \"): \""},
        {"Iteration(1): 0 context requests, 0 context tokens, 1 generation requests, 1 generation "
         "tokens, iteration elapsed time: fast",
         "server.log:1:121: iteration log: expected \"NUMBER\""},
        {"INFO nothing here\n", "server.log: no line of an iteration is in it"},
        {"", "server.log: no line of an iteration is in it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err_clear(&t->e);
        assert_int_equal(parse(t, cases[i].text, &log), ST_INPUT);
        assert_cause(&t->e, cases[i].cause);
    }
}

static void logs_of_a_folder_are_found(void **state)
{
    struct test *t = *state;
    struct iteration_log log;
    assert_null(iteration_log_beside(t->a, test_dir(t)));
    test_write(t, "iterations.log", LINE("", "5", ""));
    const char *path = iteration_log_beside(t->a, test_dir(t));
    assert_non_null(path);
    assert_ok(iteration_log_read(t->a, path, &log, &t->e), t);
    assert_int_equal(log.n, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(lines_of_two_versions_are_read),
        TEST(engines_and_gaps_are_told_apart),
        TEST(malformed_lines_are_named),
        TEST(logs_of_a_folder_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
