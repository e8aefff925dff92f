#include "profile/read/iterations.h"

#include <math.h>

#include "base/rng.h"
#include "support/support.h"

#define HEAD                                                                   \
    "num_tensor_parallel_workers,chunk_tokens,chunk_context,decode_sequences," \
    "decode_kv_tokens,host_ns,device_ns\n"

static struct iterations *load(struct test *t, const char *rows)
{
    struct iterations *x;
    const char *path = test_write(t, "iteration.csv", arena_printf(t->a, HEAD "%s", rows));
    assert_ok(iterations_load(t->a, path, 1, &x, &t->e), t);
    assert_non_null(x);
    return x;
}

static const char *const decodes = "1,0,0,1,100,1000000,4000000\n"
                                   "1,0,0,4,400,1000000,4300000\n"
                                   "1,0,0,16,1600,1000000,5500000\n"
                                   "1,0,0,16,16000,1000000,12700000\n";

static void rows_come_back(void **state)
{
    struct test *t = *state;
    struct iterations *x = load(t, decodes);
    const struct iterations_batch b = {.decode_sequences = 4, .decode_kv_tokens = 400};
    bool outside;
    struct iterations_time s = iterations_at(x, &b, &outside);
    assert_near_rel(s.host_s, 1e-3, 1e-9);
    assert_near_rel(s.device_s, 4.3e-3, 1e-6);
    assert_false(outside);
    struct iterations_facts f = iterations_facts(x);
    assert_int_equal(f.decodes, 4);
    assert_int_equal(f.prompts, 0);
    assert_int_equal(f.error.tested, 4);
    assert_true(f.error.mean < 0.01 && f.error.max < 0.02);
}

/* Of a trace: the last part of the host's time is beside the device. */
static void launching_is_beside_the_device(void **state)
{
    struct test *t = *state;
    struct iterations *x;
    const char *path = test_write(
        t, "iteration.csv",
        "num_tensor_parallel_workers,chunk_tokens,chunk_context,decode_sequences,"
        "decode_kv_tokens,host_ns,device_ns,n,host_std_ns,device_std_ns,launch_ns\n"
        "1,0,0,1,100,5000000,4000000,9,0,0,4200000\n1,0,0,4,400,5000000,8000000,9,0,0,4200000\n"
        "1,500,125250,0,0,72000000,27000000,9,0,0,70000000\n");
    const struct iterations_batch prompt = {.chunk_tokens = 500, .chunk_context = 125250};
    bool outside;
    assert_ok(iterations_load(t->a, path, 1, &x, &t->e), t);
    const struct iterations_time s = iterations_at(x, &prompt, &outside);
    assert_near_rel(s.launch_s, 70e-3, 1e-6);
    assert_near_rel(iterations_total_s(&s), 72e-3, 1e-6); /* the device is done before the host */
    path = test_write(t, "more.csv",
                      "num_tensor_parallel_workers,chunk_tokens,chunk_context,decode_sequences,"
                      "decode_kv_tokens,host_ns,device_ns,launch_ns\n"
                      "1,0,0,1,100,5000000,4000000,5000001\n");
    assert_int_equal(iterations_load(t->a, path, 1, &x, &t->e), ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 0), "more.csv:2:8: launch_ns"));
}

/* A row that the fit misses pulls its neighbourhood, and not what is far from it. */
static void a_kink_is_followed(void **state)
{
    struct test *t = *state;
    struct buf rows = {0};
    for (int n = 1; n <= 64; n++)
        buf_printf(&rows, "1,0,0,%d,%d,0,%d\n", n, n * 100 + n % 3, n == 32 ? 9000000 : 6000000);
    struct iterations *x = load(t, buf_str(&rows));
    buf_free(&rows);
    const struct iterations_batch at = {.decode_sequences = 32, .decode_kv_tokens = 3202};
    const struct iterations_batch far = {.decode_sequences = 4, .decode_kv_tokens = 400};
    bool outside;
    double s = iterations_at(x, &at, &outside).device_s;
    assert_true(s > 6.2e-3 && s <= 9e-3);
    assert_near_rel(iterations_at(x, &far, &outside).device_s, 6e-3, 0.01);
}

static void outside_is_told(void **state)
{
    struct test *t = *state;
    struct iterations *x = load(t, decodes);
    const struct iterations_batch more = {.decode_sequences = 64, .decode_kv_tokens = 6400};
    const struct iterations_batch prompt = {.chunk_tokens = 100, .chunk_context = 5050};
    bool outside;
    double s = iterations_at(x, &more, &outside).device_s;
    assert_true(outside);
    assert_true(s > 5.5e-3 && s < 30e-3);
    assert_true(isfinite(iterations_at(x, &prompt, &outside).device_s));
    assert_true(outside);
}

static void faults_have_a_place(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *text, *error;
    } cases[] = {
        {HEAD "1,0,0,0,0,1,1\n",
         "iteration.csv:2:2: chunk_tokens: a batch of neither chunks nor decodes"},
        {HEAD "1,0,0,1,5,0,0\n", "iteration.csv:2:7: device_ns: an iteration that took no time"},
        {HEAD "1,0,0,1,5,-1,0\n", "iteration.csv:2:6: host_ns: -1 is below the minimum 0"},
        {HEAD "1,0,0,1,5,1,1\n", "iteration.csv: 1 rows; at least 3 are needed"},
        {HEAD "2,0,0,1,5,1,1\n", "iteration.csv: no rows for num_tensor_parallel_workers 1; the "
                                 "nearest rows have num_tensor_parallel_workers 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct iterations *x;
        const char *path = test_write(t, "iteration.csv", cases[i].text);
        assert_int_equal(iterations_load(t->a, path, 1, &x, &t->e), ST_INPUT);
        assert_non_null(strstr(err_cause(&t->e, 0), cases[i].error));
        err_clear(&t->e);
    }
    struct iterations *none = NULL;
    assert_ok(iterations_load(t->a, test_path(t, "absent.csv"), 1, &none, &t->e), t);
    assert_null(none);
}

/* Times with 4 % noise: the spread is found from them alone, and draws differ by it. */
static void draws_spread_as_rows_do(void **state)
{
    enum { DRAWS = 200 };
    struct test *t = *state;
    struct buf rows = {0};
    struct rng r = rng_stream(1, "noise");
    for (int n = 1; n <= 256; n++)
        buf_printf(&rows, "1,0,0,%d,%d,0,%.0f\n", n, n * 100,
                   (5e6 + 2e4 * n) * exp(0.04 * rng_normal(&r)));
    struct iterations *x = load(t, buf_str(&rows));
    buf_free(&rows);
    const struct op_spread spread[2] = {iterations_spread(t->a, x, false),
                                        iterations_spread(t->a, x, true)};
    assert_near(spread[0].place, 0.04, 0.012);
    assert_near(spread[1].place, 0, 0);
    const struct iterations_batch b = {.decode_sequences = 64, .decode_kv_tokens = 6400};
    double sum = 0, squares = 0;
    bool outside;
    for (int k = 0; k < DRAWS; k++) {
        struct iterations *d = iterations_drawn(t->a, x, spread, (uint64_t)k);
        const double ln =
            log(iterations_at(d, &b, &outside).device_s / iterations_at(x, &b, &outside).device_s);
        sum += ln / DRAWS;
        squares += ln * ln / DRAWS;
    }
    const double sd = sqrt(squares - sum * sum); /* of a mean of neighbours: less than a row's */
    assert_near(sum, 0, 0.01);
    assert_true(sd > 0.008 && sd < 0.04);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(draws_spread_as_rows_do), TEST(rows_come_back),  TEST(launching_is_beside_the_device),
        TEST(a_kink_is_followed),      TEST(outside_is_told), TEST(faults_have_a_place)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
