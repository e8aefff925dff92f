/* Times of a trace beside logged iterations. */
#include "metrics/iteration_trace.h"

#include <math.h>

#include "support/fake_log.h"
#include "support/support.h"

static struct iteration_match *matched(struct test *t, struct fake_log *fake)
{
    struct iteration_match *m = arena_one(t->a, struct iteration_match);
    fake_log_compose(fake);
    assert_ok(iteration_match(t->a, &fake->run, &fake->log, NULL, m, &t->e), t);
    return m;
}

/* iterations.csv of all iterations but every third; tokens of `wrong` differ, `twice` is there so.
 */
static const char *csv_of(struct test *t, const struct iteration_match *m, size_t wrong,
                          size_t twice)
{
    struct buf text = {0};
    buf_puts(&text, "iteration,logged_index,context_tokens,generation_tokens,device_ns\n"
                    "0,,,,77\n" /* a warm-up that was not logged */
                    "1,9999999,0,1,88\n");
    for (size_t i = 0; i < m->n; i++)
        for (size_t k = 0; i % 3 < 2 && k < (i == twice ? 2U : 1U); k++)
            buf_printf(&text, "%zu,%lld,%lld,%lld,%zu\n", i + 2, (long long)m->of[i].log->index,
                       (long long)(m->of[i].log->context_tokens + (i == wrong)),
                       (long long)m->of[i].log->generation_tokens, 1000 * (i + 1));
    const char *path = test_write(t, "run/iterations.csv", buf_str(&text));
    buf_free(&text);
    return path;
}

static void times_are_those_of_the_logged_index(void **state)
{
    struct test *t = *state;
    struct fake_log *fake = arena_one(t->a, struct fake_log);
    const struct iteration_match *m = matched(t, fake);
    double *device_s;
    size_t n, want = 0;
    const char *path = csv_of(t, m, SIZE_MAX, SIZE_MAX);
    assert_string_equal(iteration_trace_beside(t->a, test_path(t, "run")), path);
    assert_null(iteration_trace_beside(t->a, test_dir(t)));
    assert_ok(iteration_trace_read(t->a, path, m, &device_s, &n, &t->e), t);
    for (size_t i = 0; i < m->n; i++) {
        want += i % 3 < 2;
        if (i % 3 < 2)
            assert_near(device_s[i], 1e-6 * (double)(i + 1), 1e-12);
        else
            assert_true(isnan(device_s[i]));
    }
    assert_int_equal(n, want);
}

static void the_trace_of_another_log_is_refused(void **state)
{
    struct test *t = *state;
    struct fake_log *fake = arena_one(t->a, struct fake_log);
    const struct iteration_match *m = matched(t, fake);
    double *device_s;
    size_t n;
    const char *path = csv_of(t, m, 4, SIZE_MAX);
    assert_int_equal(iteration_trace_read(t->a, path, m, &device_s, &n, &t->e), ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 0), "held other tokens by its log"));
    err_clear(&t->e);
    path = csv_of(t, m, SIZE_MAX, 4);
    assert_int_equal(iteration_trace_read(t->a, path, m, &device_s, &n, &t->e), ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 0), "stands here twice"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(times_are_those_of_the_logged_index),
                                       TEST(the_trace_of_another_log_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
