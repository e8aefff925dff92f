#include "metrics/backlog.h"

#include <math.h>

#include "base/rng.h"
#include "support/support.h"

/* A queue with one server of fixed service time: Poisson arrivals, `load` of them in a service time
 * of 1 s, the n-th first. */
static struct backlog queue(uint64_t seed, int n, double load, bool backwards)
{
    struct backlog b = {0};
    struct run_request *rows = mem_alloc((size_t)n * sizeof *rows);
    struct rng r = rng_stream(seed, "arrivals");
    double arrival = 0, idle_at = 0;
    for (int i = 0; i < n; i++) {
        arrival += rng_exponential(&r) / load;
        const double start = arrival > idle_at ? arrival : idle_at;
        idle_at = start + 1;
        rows[i] = (struct run_request){.arrival_ns = (int64_t)(arrival * 1e9),
                                       .scheduled_ns = (int64_t)(start * 1e9),
                                       .status = RUN_OK};
    }
    for (int i = 0; i < n; i++)
        backlog_add(&b, &rows[backwards ? n - 1 - i : i]);
    mem_free(rows);
    return b;
}

/* Of 200 draws of a load that is carried, hardly any; of one that is not, all. */
static void a_load_above_capacity_grows(void **state)
{
    (void)state;
    static const struct {
        double load;
        int n, least, most;
    } cases[] = {{0.5, 1000, 0, 0}, {0.9, 1000, 0, 4}, {1.2, 1000, 196, 200}, {2, 60, 190, 200}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int grew = 0;
        for (uint64_t seed = 0; seed < 200; seed++) {
            const struct backlog b = queue(seed, cases[c].n, cases[c].load, false);
            grew += backlog_trend(&b).grew;
        }
        if (grew < cases[c].least || grew > cases[c].most)
            fail_msg("load %g: %d of 200 grew", cases[c].load, grew);
    }
}

/* At twice what is carried, a wait is half the time since the first arrival. */
static void waits_are_means_of_quarters(void **state)
{
    (void)state;
    const struct backlog b = queue(1, 4000, 2, false), back = queue(1, 4000, 2, true);
    const struct backlog_trend t = backlog_trend(&b), other = backlog_trend(&back);
    for (int q = 0; q < BACKLOG_QUARTERS; q++) {
        assert_near(t.wait_s[q], 2000.0 * (q + 0.5) / 4, 60);
        assert_true(t.wait_s[q] == other.wait_s[q]);
    }
    assert_near(t.waiting, 2 * t.wait_s[3], 0.1 * t.wait_s[3]); /* Little: two arrive a second */
}

static void too_few_show_no_trend(void **state)
{
    (void)state;
    const struct backlog few = queue(1, BACKLOG_LEAST - 1, 5, false), none = {0};
    assert_false(backlog_trend(&few).grew);
    assert_false(backlog_trend(&none).grew);
    assert_true(isnan(backlog_trend(&none).wait_s[0]));
    struct backlog at_once = {0};
    for (int i = 0; i < 100; i++)
        backlog_add(&at_once, &(struct run_request){.scheduled_ns = i * 1000000000LL});
    assert_false(backlog_trend(&at_once).grew);
}

/* Without batches a wait is until the first token; rows that did not end well do not count. */
static void rows_without_a_wait_are_left_out(void **state)
{
    (void)state;
    struct backlog b = {0};
    struct run_request r = {
        .arrival_ns = 1000000000, .scheduled_ns = RUN_NONE, .first_token_ns = 3000000000};
    backlog_add(&b, &r);
    r.status = RUN_REJECTED;
    backlog_add(&b, &r);
    r = (struct run_request){.warmup = true};
    backlog_add(&b, &r);
    const struct backlog_trend t = backlog_trend(&b);
    assert_near(t.wait_s[0], 2, 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_load_above_capacity_grows),
        cmocka_unit_test(waits_are_means_of_quarters),
        cmocka_unit_test(too_few_show_no_trend),
        cmocka_unit_test(rows_without_a_wait_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
