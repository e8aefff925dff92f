#include "metrics/time_series.h"

#include <math.h>

#include "support/support.h"

static void add(struct time_series *t, int32_t replica, double start_s, double end_s,
                int64_t waiting, int64_t kv, double energy_j)
{
    const struct batch b = {
        .replica = replica, .n_chunks = 1, .n_decodes = 3, .prefill_tokens = 7, .kv_blocks = kv};
    const struct completion c = {.energy_j = energy_j};
    const struct serve_iteration i = {
        .b = &b, .c = &c, .start_s = start_s, .end_s = end_s, .waiting = waiting, .running = 4};
    time_series_add(t, &i);
}

static const struct time_series_row *write_and_load(struct test *t, struct time_series *s,
                                                    size_t *n)
{
    struct artifact art;
    struct time_series_row *rows;
    const char *dir = test_path(t, "run");
    assert_ok(artifact_begin(t->a, dir, "run_meta.json", &art, &t->e), t);
    assert_ok(time_series_write(s, &art, &t->e), t);
    assert_ok(artifact_commit(&art, NULL, &t->e), t);
    assert_ok(time_series_load(t->a, dir, &rows, n, &t->e), t);
    time_series_free(&s);
    return rows;
}

/* Buckets of 1/512 s = 1953125 ns. A batch over two and a half of them, then a pause. */
static void means_are_over_time(void **state)
{
    struct test *t = *state;
    struct time_series *s = time_series_new(1);
    size_t n;
    add(s, 0, 0.5 / 512, 3.0 / 512, 2, 10, 0);
    add(s, 0, 4.5 / 512, 4.75 / 512, 6, 20, 0);
    const struct time_series_row *r = write_and_load(t, s, &n);
    assert_int_equal(n, 5);
    assert_int_equal(r[0].time_ns, 0);
    assert_int_equal(r[1].time_ns, 1953125);
    assert_int_equal(r[1].duration_ns, 1953125);
    assert_int_equal(r[4].duration_ns, 1464844); /* to the end: three quarters */
    assert_true(r[0].waiting == 1 && r[0].kv_blocks == 5 && r[0].busy == 0.5);
    assert_true(r[1].waiting == 2 && r[1].running == 4 && r[1].busy == 1);
    assert_true(r[2].kv_blocks == 10 && r[2].busy == 1);
    assert_true(r[3].waiting == 0 && r[3].running == 0 && r[3].busy == 0);
    assert_near(r[4].waiting, 2, 1e-4);
    assert_int_equal(r[0].iterations, 1);
    assert_int_equal(r[1].iterations, 0);
    assert_true(r[0].batch_size == 4 && isnan(r[1].batch_size));
    assert_int_equal(r[4].prefill_tokens, 7);
    assert_int_equal(r[4].decode_tokens, 3);
    assert_int_equal(r[4].waiting_max, 6);
    assert_int_equal(r[4].kv_blocks_max, 20);
    assert_int_equal(r[1].kv_blocks_max, 10); /* no batch started in it */
    assert_int_equal(r[2].waiting_max, 2);
    assert_int_equal(r[3].waiting_max, 0);
    assert_true(isnan(r[0].power_w));
}

/* Two stages: the second batch starts before the first one ends. */
static void overlapping_batches_count_once(void **state)
{
    struct test *t = *state;
    struct time_series *s = time_series_new(1);
    size_t n;
    add(s, 0, 0, 1.0 / 512, 0, 8, 3);
    add(s, 0, 0.5 / 512, 2.0 / 512, 0, 16, 3);
    const struct time_series_row *r = write_and_load(t, s, &n);
    assert_int_equal(n, 2);
    assert_true(r[0].busy == 1 && r[0].kv_blocks == 12);
    assert_true(r[1].busy == 1 && r[1].kv_blocks == 16);
    assert_near((r[0].power_w + r[1].power_w) / 512, 6, 1e-4); /* all of the energy */
}

/* Two stages that draw 20 W each while idle: a batch that keeps one busy for half a bucket. */
static void idle_time_draws_power(void **state)
{
    struct test *t = *state;
    struct time_series *s = time_series_new(1);
    size_t n;
    time_series_power(s, &(struct time_series_power){.idle_w = 20, .stages = 2});
    const struct batch b = {.n_decodes = 1};
    const struct completion c = {.energy_j = 300.0 / 1024, .device_s = 1.0 / 1024};
    time_series_add(s,
                    &(struct serve_iteration){.b = &b, .c = &c, .start_s = 0, .end_s = 1.0 / 1024});
    time_series_add(
        s, &(struct serve_iteration){.b = &b, .c = &c, .start_s = 2.0 / 512, .end_s = 2.5 / 512});
    const struct time_series_row *r = write_and_load(t, s, &n);
    assert_int_equal(n, 3);
    assert_near(r[0].power_w, (300 + 20 + 2 * 20) / 2.0, 1e-3);
    assert_near(r[1].power_w, 40, 1e-3);
    assert_near(r[2].power_w, 300 + 20, 1e-3); /* the last bucket is half as wide */
}

static double rising(void *self, double from_s, double to_s)
{
    return from_s < 1.0 / 512 ? (double)NAN : *(double *)self * (from_s + to_s) / 2;
}

static void measured_power_is_taken_as_it_is(void **state)
{
    struct test *t = *state;
    struct time_series *s = time_series_new(1);
    double slope = 512;
    size_t n;
    add(s, 0, 0, 0.5 / 512, 0, 0, 3);
    add(s, 0, 2.0 / 512, 3.0 / 512, 0, 0, 3);
    time_series_power(s, &(struct time_series_power){.mean_w = rising, .self = &slope});
    const struct time_series_row *r = write_and_load(t, s, &n);
    assert_int_equal(n, 3);
    assert_true(isnan(r[0].power_w));
    assert_near(r[1].power_w, 1.5, 1e-3);
    assert_near(r[2].power_w, 2.5, 1e-3);
}

/* A long run: buckets widen, nothing is lost, and their number stays bounded. */
static void long_runs_get_wider_buckets(void **state)
{
    struct test *t = *state;
    enum { N = 100000, REPLICAS = 3 };
    struct time_series *s = time_series_new(REPLICAS);
    size_t n;
    for (int i = 0; i < N; i++)
        for (int k = 0; k < REPLICAS; k++)
            add(s, k, i * 0.01, i * 0.01 + 0.005, i % 2, 10 * k, 0.25);
    const struct time_series_row *r = write_and_load(t, s, &n);
    int64_t iterations[REPLICAS] = {0};
    double busy_s[REPLICAS] = {0}, kv_s[REPLICAS] = {0}, joules = 0, seconds = 0;
    assert_in_range(n, REPLICAS * TIME_SERIES_BUCKETS / 2 - REPLICAS,
                    REPLICAS * TIME_SERIES_BUCKETS);
    for (size_t i = 0; i < n; i++) {
        double width_s = (double)r[i].duration_ns / 1e9;
        assert_int_equal(r[i].replica, i % REPLICAS);
        assert_int_equal(r[i].waiting_max, 1);
        iterations[r[i].replica] += r[i].iterations;
        busy_s[r[i].replica] += r[i].busy * width_s;
        kv_s[r[i].replica] += r[i].kv_blocks * width_s;
        joules += r[i].power_w * width_s;
        seconds += width_s;
    }
    for (int k = 0; k < REPLICAS; k++) {
        assert_int_equal(iterations[k], N);
        assert_near_rel(busy_s[k], N * 0.005, 1e-3);
        assert_near(kv_s[k], N * 0.005 * 10 * k, 1);
    }
    assert_near_rel(joules, N * REPLICAS * 0.25, 1e-3);
    assert_near_rel(seconds / REPLICAS, (N - 1) * 0.01 + 0.005, 1e-6);
}

static void many_replicas_share_the_buckets(void **state)
{
    struct test *t = *state;
    struct time_series *s = time_series_new(4096);
    size_t n;
    for (int i = 0; i < 4096; i++)
        add(s, i, 1, 100, 0, 1, 0);
    write_and_load(t, s, &n);
    assert_in_range(n, 4096 * 8, 4096 * 16);
}

static void a_run_without_batches_has_no_rows(void **state)
{
    struct test *t = *state;
    size_t n;
    write_and_load(t, time_series_new(2), &n);
    assert_int_equal(n, 0);
    struct time_series *none = NULL;
    time_series_free(&none);
}

static void reading_names_what_is_wrong(void **state)
{
    struct test *t = *state;
    struct time_series_row *rows;
    size_t n = 7;
#define HEADER                                                                                    \
    "time_ns,duration_ns,replica,waiting,waiting_max,running,kv_blocks,kv_blocks_max,iterations," \
    "batch_size,prefill_tokens,decode_tokens,busy,power_w\n"
    assert_ok(time_series_load(t->a, test_dir(t), &rows, &n, &t->e), t);
    assert_int_equal(n, 0);
    test_write(t, TIME_SERIES, HEADER "5,1,0,,0,,,0,0,,0,0,,\n4,1,0,,0,,,0,0,,0,0,,\n");
    assert_err(time_series_load(t->a, test_dir(t), &rows, &n, &t->e), ST_INPUT, t,
               "DIR/time_series.csv:3:1: time_ns: 4 is before the row above it");
    test_write(t, TIME_SERIES, HEADER "5,0,0,,0,,,0,0,,0,0,,\n");
    assert_err(time_series_load(t->a, test_dir(t), &rows, &n, &t->e), ST_INPUT, t,
               "DIR/time_series.csv:2:2: duration_ns: 0 is below the minimum 1");
    test_write(t, TIME_SERIES, HEADER "5,1,0,-1,0,,,0,0,,0,0,,\n");
    assert_err(time_series_load(t->a, test_dir(t), &rows, &n, &t->e), ST_INPUT, t,
               "DIR/time_series.csv:2:4: waiting: -1 is below the minimum 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(means_are_over_time),
        TEST(overlapping_batches_count_once),
        TEST(long_runs_get_wider_buckets),
        TEST(idle_time_draws_power),
        TEST(measured_power_is_taken_as_it_is),
        TEST(many_replicas_share_the_buckets),
        TEST(a_run_without_batches_has_no_rows),
        TEST(reading_names_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
