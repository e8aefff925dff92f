#define _GNU_SOURCE /* CPU sets */
#include "base/contention.h"

#include <math.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/support.h"

static void burn_ns(int64_t ns)
{
    for (int64_t end = clock_mono_ns() + ns; clock_mono_ns() < end;)
        ;
}

/* At least 300 ms, and on a core that stands still in between, or has more to do, until both got
 * some of it: at most 20 s. */
static struct contention burn_both(const struct contention_mark *begin)
{
    const int64_t from_ns = clock_mono_ns();
    struct contention c;
    do {
        burn_ns(300 * NS_PER_MS);
        c = contention_since(begin);
    } while (!isnan(c.waiting) && !(c.waiting > 0.2 && c.waiting < 0.95) &&
             clock_mono_ns() - from_ns < 20 * NS_PER_S);
    return c;
}

/* Two processes that burn on one core each get half of it. */
static void sharing_a_core_shows(void **state)
{
    (void)state;
    cpu_set_t before, one;
    if (sched_getaffinity(0, sizeof before, &before) != 0) {
        print_message("skipped: the cores of this process are not told\n");
        skip();
    }
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &before))
            CPU_SET(i, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) {
        print_message("skipped: this process may not choose its core\n");
        skip();
    }
    struct contention_mark begin = contention_mark();
    pid_t other = fork();
    if (other == 0) {
        burn_ns(60 * NS_PER_S);
        _exit(0);
    }
    struct contention c = burn_both(&begin);
    sched_setaffinity(0, sizeof before, &before);
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    if (isnan(c.waiting)) {
        print_message("skipped: the kernel has no schedstat\n");
        skip();
    }
    assert_true(c.waiting > 0.2 && c.waiting < 0.95);
    assert_true(contention_share(&c) > CONTENTION_TOO_MUCH);
    if (!isnan(c.pressure))
        assert_true(c.pressure > CONTENTION_TOO_MUCH && c.pressure <= 1);
}

static void what_is_unknown_is_not_zero(void **state)
{
    (void)state;
    struct contention_mark nothing = {0};
    struct contention c = contention_since(&nothing);
    assert_true(isnan(c.waiting) && isnan(c.stolen));
    assert_true(isnan(contention_share(&c)));
    assert_near(contention_share(&(struct contention){0.25, (double)NAN, 0}), 0.25, 0);
    assert_near(contention_share(&(struct contention){(double)NAN, 0.5, 0}), 0.5, 0);
    assert_true(isnan(c.pressure) && isnan(contention_worst(&c)));
    assert_near(contention_share(&(struct contention){0.25, 0.5, 0}), 0.75, 0);
    assert_near(contention_worst(&(struct contention){0.25, 0.5, 0.8}), 0.8, 0);
    assert_near(contention_worst(&(struct contention){0.25, 0, 0.125}), 0.25, 0);
    assert_near(contention_worst(&(struct contention){0.25, 0, (double)NAN}), 0.25, 0);
    assert_near(contention_worst(&(struct contention){(double)NAN, (double)NAN, 0.5}), 0.5, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sharing_a_core_shows),
        cmocka_unit_test(what_is_unknown_is_not_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
