#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/support.h"

enum { LONG_S = 20 }; /* nothing here takes that long unless it is broken */

static enum process_fate shell(struct test *t, const char *script, struct process_params p,
                               const char **out, int *status)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    struct buf b = {0};
    p.argv = argv;
    enum process_fate fate = process_capture(&p, 1 << 16, LONG_S * NS_PER_S, &b, status);
    *out = arena_str(t->a, buf_str(&b));
    buf_free(&b);
    return fate;
}

static const char *whole(struct test *t, const char *script, struct process_params p)
{
    const char *out;
    int status;
    assert_int_equal(shell(t, script, p, &out, &status), PROCESS_WHOLE);
    assert_int_equal(status, 0);
    return out;
}

static void output_and_status_are_kept(void **state)
{
    struct test *t = *state;
    const char *out;
    int status;
    struct process_params none = {.in = PROCESS_NULL, .err = PROCESS_NULL};
    assert_string_equal(whole(t, "echo a; cat; echo b >&2; echo c", none), "a\nc\n");
    assert_int_equal(shell(t, "echo x; exit 7", none, &out, &status), PROCESS_WHOLE);
    assert_string_equal(out, "x\n");
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    assert_int_equal(shell(t, "kill -9 $$", none, &out, &status), PROCESS_WHOLE);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void environment_and_folder_are_its_own(void **state)
{
    struct test *t = *state;
    static const char *const env[] = {"TW_TEST=new=1", "TW_OTHER=", NULL};
    setenv("TW_TEST", "old", 1);
    setenv("TW_TEST_LONGER", "kept", 1);
    struct process_params p = {.env = env, .dir = test_dir(t)};
    const char *out = whole(t, "echo \"$TW_TEST|$TW_TEST_LONGER|${TW_OTHER-unset}\"; pwd -P", p);
    char *real = realpath(test_dir(t), NULL);
    assert_string_equal(out, arena_printf(t->a, "new=1|kept|\n%s\n", real));
    assert_string_equal(getenv("TW_TEST"), "old");
    free(real);
}

static void what_cannot_start_is_an_errno(void **state)
{
    struct test *t = *state;
    const char *const absent[] = {"no-such-program-of-that-name", NULL}, *const sh[] = {"sh", NULL};
    const char *const denied[] = {test_write(t, "text", "x"), NULL};
    struct process p;
    assert_int_equal(process_start(&p, &(struct process_params){.argv = absent}), ENOENT);
    assert_true(p.pid == 0 && p.in < 0 && p.out < 0 && p.err < 0);
    assert_int_equal(process_start(&p, &(struct process_params){.argv = denied}), EACCES);
    assert_int_equal(process_start(&p, &(struct process_params){.argv = sh, .dir = "/none"}),
                     ENOENT);
    struct buf out = {0};
    int status;
    assert_int_equal(
        process_capture(&(struct process_params){.argv = absent}, 100, NS_PER_S, &out, &status),
        PROCESS_NOT_STARTED);
    assert_int_equal(status, ENOENT);
    process_end(&p);
}

static void too_much_and_too_late_end_it(void **state)
{
    struct test *t = *state;
    const char *const yes[] = {"sh", "-c", "while :; do echo 0123456789; done", NULL};
    const char *const slow[] = {"sh", "-c", "echo begun; sleep 100", NULL};
    const char *const closed[] = {"sh", "-c", "exec >&-; sleep 100", NULL};
    struct process_params p = {.argv = yes, .group = true};
    struct buf out = {0};
    int status;
    (void)t;
    assert_int_equal(process_capture(&p, 1000, LONG_S * NS_PER_S, &out, &status), PROCESS_TOO_MUCH);
    assert_in_range(out.n, 1000, 1000 + 4096);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    buf_clear(&out);
    p.argv = slow; /* what came in time is kept: on a slow machine that takes longer */
    for (int64_t limit_ns = 200 * NS_PER_MS; out.n == 0; limit_ns *= 2)
        assert_int_equal(process_capture(&p, 1000, limit_ns, &out, &status), PROCESS_TOO_LATE);
    assert_string_equal(buf_str(&out), "begun\n");
    p.argv = closed;
    const int64_t before_ns = clock_mono_ns();
    assert_int_equal(process_capture(&p, 1000, 200 * NS_PER_MS, &out, &status), PROCESS_TOO_LATE);
    assert_true(clock_mono_ns() - before_ns < LONG_S * NS_PER_S);
    buf_free(&out);
}

static void a_capture_is_stopped(void **state)
{
    (void)state;
    const char *const slow[] = {"sh", "-c", "echo begun; sleep 100", NULL};
    const char *const closed[] = {"sh", "-c", "exec >&-; sleep 100", NULL};
    const char *const *const programs[] = {slow, closed};
    static volatile sig_atomic_t stop;
    struct buf out = {0};
    for (size_t i = 0; i < 2; i++) {
        const struct process_params p = {.argv = programs[i], .group = true, .stop = &stop};
        const int64_t before_ns = clock_mono_ns();
        int status;
        stop = 0; /* then nothing but the limit ends it */
        assert_int_equal(process_capture(&p, 1000, 100 * NS_PER_MS, &out, &status),
                         PROCESS_TOO_LATE);
        stop = 1;
        assert_int_equal(process_capture(&p, 1000, 10 * LONG_S * NS_PER_S, &out, &status),
                         PROCESS_STOPPED);
        assert_true(clock_mono_ns() - before_ns < LONG_S * NS_PER_S);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    buf_free(&out);
}

/* The end of a pipe that a process holds open: EOF says that it is gone, and all that it started.
 */
static void assert_end(int fd)
{
    char byte;
    alarm(LONG_S);
    while (read(fd, &byte, 1) > 0)
        ;
    alarm(0);
}

static void a_group_ends_with_its_leader(void **state)
{
    (void)state;
    const char *const argv[] = {"sh", "-c", "sleep 100 & echo; exit 3", NULL};
    struct process_params params = {.argv = argv, .out = PROCESS_PIPE, .group = true};
    struct process p;
    assert_int_equal(process_start(&p, &params), 0);
    assert_int_equal(getpgid(p.pid), p.pid);
    assert_true(process_reap(&p, true));
    assert_true(p.pid == 0 && WEXITSTATUS(p.status) == 3);
    assert_end(p.out);
    process_signal(&p, SIGKILL); /* nobody's */
    process_end(&p);
    assert_int_equal(p.out, -1);
}

static void a_pipe_each_way(void **state)
{
    (void)state;
    const char *const argv[] = {"sh", "-c", "cat; echo done >&2", NULL};
    struct process_params params = {
        .argv = argv, .in = PROCESS_PIPE, .out = PROCESS_PIPE, .err = PROCESS_PIPE};
    struct process p;
    char text[16] = {0};
    assert_int_equal(process_start(&p, &params), 0);
    assert_int_equal(write(p.in, "hello", 5), 5);
    assert_false(process_reap(&p, false));
    assert_false(process_wait(&p, clock_mono_ns() + 5 * NS_PER_MS));
    process_close(&p.in);
    assert_true(process_wait(&p, clock_mono_ns() + LONG_S * NS_PER_S));
    assert_int_equal(p.status, 0);
    assert_int_equal(read(p.out, text, sizeof text), 5);
    assert_int_equal(read(p.err, text + 5, sizeof text - 5), 5);
    assert_string_equal(text, "hellodone\n");
    process_end(&p);
}

static void on_usr1(int sig)
{
    (void)sig;
}

/* Signals of the shell that runs: one word each of those ignored and those blocked. */
static void signals_are_what_was_asked_for(void **state)
{
    struct test *t = *state;
    static const char bits[] =
        "sed -n 's/^Sig\\(Blk\\|Ign\\|Cgt\\):\\s*//p' /proc/self/status | tr '\\n' ' '";
    struct sigaction old_pipe, old_usr1;
    sigset_t blocked, before, none;
    sigemptyset(&none);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, &old_pipe);
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = on_usr1}, &old_usr1);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    const unsigned long long pipe = 1ull << (SIGPIPE - 1), usr1 = 1ull << (SIGUSR1 - 1),
                             usr2 = 1ull << (SIGUSR2 - 1);
    for (int fresh = 0; fresh < 2; fresh++) {
        struct process_params p = {.default_signals = fresh, .mask = fresh ? &none : NULL};
        char *at = (char *)(uintptr_t)whole(t, bits, p);
        unsigned long long blk = strtoull(at, &at, 16), ign = strtoull(at, &at, 16),
                           cgt = strtoull(at, &at, 16);
        assert_int_equal((blk & usr2) != 0, !fresh);
        assert_int_equal((ign & pipe) != 0, !fresh);
        assert_true((cgt & usr1) == 0 && (ign & usr1) == 0);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    sigaction(SIGPIPE, &old_pipe, NULL);
    sigaction(SIGUSR1, &old_usr1, NULL);
}

static void limits_hold(void **state)
{
    struct test *t = *state;
    const char *out;
    int status;
    struct process_params p = {.err = PROCESS_NULL, .file_bytes = 1 << 16, .dir = test_dir(t)};
    assert_int_equal(shell(t, "exec head -c 200000 /dev/zero >big", p, &out, &status),
                     PROCESS_WHOLE);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
    assert_string_equal(whole(t, "ulimit -t", (struct process_params){.cpu_s = 77}), "77\n");
    assert_string_equal(
        whole(t, "ulimit -v", (struct process_params){.memory_bytes = UINT64_C(1) << 40}),
        "1073741824\n");
}

/* A parent of its own for the child: one that is killed without a chance to do anything. */
static void it_dies_with_its_parent(void **state)
{
    (void)state;
    const char *const argv[] = {"sleep", "100", NULL};
    int hold[2], told[2];
    assert_int_equal(pipe(hold), 0);
    assert_int_equal(pipe(told), 0);
    pid_t parent = fork();
    if (parent == 0) {
        struct process p;
        close(hold[0]);
        int error = process_start(&p, &(struct process_params){.argv = argv, .dies_with_us = true});
        if (write(told[1], &error, sizeof error) != sizeof error)
            _exit(1);
        pause();
        _exit(0);
    }
    int error = -1, status;
    close(hold[1]);
    assert_int_equal(read(told[0], &error, sizeof error), sizeof error);
    assert_int_equal(error, 0);
    kill(parent, SIGKILL);
    assert_int_equal(waitpid(parent, &status, 0), parent);
    assert_end(hold[0]); /* sleep held it too */
    close(hold[0]);
    close(told[0]);
    close(told[1]);
}

static void a_copy_answers_and_dies_with_its_maker(void **state)
{
    (void)state;
    struct process p;
    int number = 41, hold[2], status;
    assert_int_equal(process_fork(&p), 0);
    if (p.pid == 0) {
        number++; /* its own */
        _exit(write(p.in, &number, sizeof number) == sizeof number ? 3 : 4);
    }
    number = 0;
    assert_int_equal(read(p.in, &number, sizeof number), sizeof number);
    assert_int_equal(number, 42);
    assert_true(process_reap(&p, true));
    assert_int_equal(WEXITSTATUS(p.status), 3);
    process_end(&p);

    assert_int_equal(pipe(hold), 0);
    pid_t parent = fork();
    if (parent == 0) {
        char told;
        close(hold[0]);
        int error = process_fork(&p);
        if (p.pid == 0 && !error && write(p.in, "x", 1) == 1)
            pause();
        else if (!error && read(p.in, &told, 1) == 1)
            kill(getpid(), SIGKILL);
        _exit(1);
    }
    close(hold[1]);
    assert_int_equal(waitpid(parent, &status, 0), parent);
    assert_true(WIFSIGNALED(status));
    assert_end(hold[0]); /* the copy held it too */
    close(hold[0]);
}

/* With our own stdin and stdout closed, pipes get their numbers. */
static void closed_standard_streams_do_no_harm(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        const char *const argv[] = {"sh", "-c", "read x; echo \"$x$x\"", NULL};
        struct process_params params = {
            .argv = argv, .in = PROCESS_PIPE, .out = PROCESS_PIPE, .err = PROCESS_NULL};
        struct process p;
        char text[16] = {0};
        close(0);
        close(1);
        alarm(LONG_S);
        bool ok = process_start(&p, &params) == 0 && write(p.in, "ab\n", 3) == 3 &&
                  process_reap(&p, true) && read(p.out, text, sizeof text) == 5 &&
                  memcmp(text, "abab\n", 5) == 0;
        _exit(ok ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void variables_can_be_left_out(void **state)
{
    (void)state;
    const char *const argv[] = {"sh", "-c", "printf %s \"${A-none} ${AB-none} ${C-none}\"", NULL};
    const char *const env[] = {"C=added", NULL}, *const without[] = {"A", NULL};
    struct buf out = {0};
    int status;
    setenv("A", "1", 1);
    setenv("AB", "2", 1);
    const struct process_params p = {.argv = argv, .env = env, .without = without};
    assert_int_equal(process_capture(&p, 100, 60 * NS_PER_S, &out, &status), PROCESS_WHOLE);
    assert_string_equal(out.p, "none 2 added");
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(variables_can_be_left_out),
        TEST(output_and_status_are_kept),
        TEST(environment_and_folder_are_its_own),
        TEST(what_cannot_start_is_an_errno),
        TEST(too_much_and_too_late_end_it),
        TEST(a_capture_is_stopped),
        TEST(a_group_ends_with_its_leader),
        TEST(a_pipe_each_way),
        TEST(signals_are_what_was_asked_for),
        TEST(limits_hold),
        TEST(it_dies_with_its_parent),
        TEST(a_copy_answers_and_dies_with_its_maker),
        TEST(closed_standard_streams_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
