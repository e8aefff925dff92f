#include "search/launch.h"

#include <signal.h>
#include <unistd.h>

#include "support/support.h"

enum { JOBS = 40 };

struct squares {
    int64_t got[JOBS];
    int taken;
    long bad; /* job that fails; -1 = none */
    long dies;
    volatile sig_atomic_t stop;
    int stop_after;
};

static enum st square(void *self, size_t i, struct buf *out, struct err *e)
{
    const struct squares *s = self;
    if ((long)i == s->bad)
        return err_hint((err_set(e, ST_INPUT, "job %zu is bad", i), e), "leave it out");
    if ((long)i == s->dies)
        raise(SIGKILL);
    for (size_t k = 0; k < i * 1000; k++) /* results longer than a socket holds */
        buf_putc(out, ' ');
    buf_printf(out, "%zu", i * i);
    return ST_OK;
}

static enum st take(void *self, size_t i, struct sv bytes, struct err *e)
{
    (void)e;
    struct squares *s = self;
    assert_true(str_int64(sv_trim(bytes), &s->got[i]));
    if (++s->taken == s->stop_after)
        s->stop = 1;
    return ST_OK;
}

static struct squares squares(void)
{
    return (struct squares){.bad = -1, .dies = -1};
}

static struct launch_work work(struct squares *s, int64_t workers)
{
    return (struct launch_work){
        .self = s, .n = JOBS, .workers = workers, .job = square, .done = take, .stop = &s->stop};
}

static void every_job_is_done_once_by_any_number_of_workers(void **state)
{
    struct test *t = *state;
    for (int64_t workers = 1; workers <= 5; workers++) {
        struct squares s = squares();
        bool skip[JOBS] = {[3] = true, [39] = true};
        struct launch_work w = work(&s, workers);
        w.skip = skip;
        assert_ok(launch_fork.run(&w, &t->e), t);
        assert_int_equal(s.taken, JOBS - 2);
        for (int64_t i = 0; i < JOBS; i++)
            assert_int_equal(s.got[i], skip[i] ? 0 : i * i);
    }
}

static void an_error_comes_back_whole(void **state)
{
    struct test *t = *state;
    for (int64_t workers = 1; workers <= 3; workers += 2) {
        struct squares s = squares();
        struct launch_work w = work(&s, workers);
        s.bad = 7;
        err_clear(&t->e);
        assert_err(launch_fork.run(&w, &t->e), ST_INPUT, t, "job 7 is bad\nhint: leave it out");
        assert_true(s.taken < JOBS);
    }
}

static void a_worker_that_dies_is_an_error(void **state)
{
    struct test *t = *state;
    struct squares s = squares();
    struct launch_work w = work(&s, 2);
    s.dies = 5;
    assert_err(launch_fork.run(&w, &t->e), ST_IO, t, "a worker process was killed by signal 9");
}

static void a_signal_ends_it(void **state)
{
    struct test *t = *state;
    for (int64_t workers = 1; workers <= 3; workers += 2) {
        struct squares s = squares();
        struct launch_work w = work(&s, workers);
        s.stop_after = 4;
        err_clear(&t->e);
        assert_err(launch_fork.run(&w, &t->e), ST_INTERRUPTED, t, "interrupted by a signal");
        assert_true(s.taken < JOBS);
    }
}

static void launchers_have_names(void **state)
{
    struct test *t = *state;
    const struct launcher_ops *ops;
    assert_ok(launcher_find("mpi", &ops, &t->e), t);
    assert_ptr_equal(ops, &launch_mpi);
    assert_err(launcher_find("slurm", &ops, &t->e), ST_USAGE, t,
               "launcher: there is none called 'slurm'\nhint: known: fork, mpi");
    assert_true(launch_cores() >= 1);
}

static enum st never_ends(void *self, size_t i, struct buf *out, struct err *e)
{
    (void)self, (void)e;
    while (i > 0)
        pause();
    buf_puts(out, "0");
    return ST_OK;
}

/* Workers whose jobs heed nothing: the signal came to this process alone. */
static void a_signal_does_not_wait_for_jobs(void **state)
{
    struct test *t = *state;
    struct squares s = squares();
    struct launch_work w = work(&s, 3);
    s.stop_after = 1;
    w.job = never_ends;
    assert_int_equal(launch_fork.run(&w, &t->e), ST_INTERRUPTED);
    assert_int_equal(s.taken, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_signal_does_not_wait_for_jobs),
        TEST(every_job_is_done_once_by_any_number_of_workers),
        TEST(an_error_comes_back_whole),
        TEST(a_worker_that_dies_is_an_error),
        TEST(a_signal_ends_it),
        TEST(launchers_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
