/* Programs that end, fail, hang and are stopped. */
#include "deep/tool.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/support.h"

static struct tool_result run(struct test *t, const char *script, double limit_s,
                              const volatile sig_atomic_t *stop)
{
    const char *argv[] = {"sh", "-c", script, NULL};
    struct tool_result out;
    assert_ok(tool_start_and_wait(
                  t->a,
                  &(struct tool_run){
                      .argv = argv, .log = test_path(t, "log"), .limit_s = limit_s, .stop = stop},
                  &out, &t->e),
              t);
    return out;
}

static void output_goes_to_the_log(void **state)
{
    struct test *t = *state;
    struct tool_result r = run(t, "echo out; echo err >&2", 0, NULL);
    assert_int_equal(r.fate, TOOL_ENDED);
    assert_non_null(strstr(r.tail, "out\n"));
    assert_non_null(strstr(r.tail, "err\n"));
    assert_string_equal(test_read(t, test_path(t, "log")), r.tail);
}

static void the_end_of_much_output_is_kept(void **state)
{
    struct test *t = *state;
    struct tool_result r =
        run(t, "head -c 600000 /dev/zero | tr '\\0' x; echo; echo last", 0, NULL);
    assert_true(strlen(r.tail) <= TOOL_TAIL_BYTES);
    assert_non_null(strstr(r.tail, "x\nlast\n"));
    assert_int_equal(strlen(test_read(t, test_path(t, "log"))), 600006);
}

static void failures_have_a_reason(void **state)
{
    struct test *t = *state;
    struct tool_result r = run(t, "exit 3", 0, NULL);
    assert_int_equal(r.fate, TOOL_FAILED);
    assert_string_equal(r.why, "sh ended with exit code 3");
    r = run(t, "kill -9 $$", 0, NULL);
    assert_int_equal(r.fate, TOOL_FAILED);
    assert_string_equal(r.why, "sh was killed by signal 9");
}

static void a_missing_program_is_named(void **state)
{
    struct test *t = *state;
    const char *argv[] = {"/nothing/here", NULL};
    struct tool_result r;
    assert_ok(tool_start_and_wait(
                  t->a, &(struct tool_run){.argv = argv, .log = test_path(t, "log")}, &r, &t->e),
              t);
    assert_int_equal(r.fate, TOOL_NOT_THERE);
    assert_string_equal(r.why, "cannot run /nothing/here: No such file or directory");
    const struct tool_limits limits = {0};
    const struct tool_answer none = tool_version(t->a, "/nothing/here", &limits);
    assert_null(none.text);
    assert_string_equal(none.why, "/nothing/here is not there");
}

/* Descendants hold a FIFO open, as descriptor 9: its end comes when all are gone. */
static int held(struct test *t, const char **fifo)
{
    *fifo = test_path(t, "fifo");
    unlink(*fifo);
    assert_int_equal(mkfifo(*fifo, 0600), 0);
    const int fd = open(*fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void assert_released(int fd)
{
    enum { MOST_MS = 60000 };
    char byte;
    int waited_ms = 0;
    while (read(fd, &byte, 1) < 0 && waited_ms++ < MOST_MS)
        usleep(1000);
    assert_int_equal(read(fd, &byte, 1), 0);
    close(fd);
}

static void what_hangs_is_cut_off(void **state)
{
    struct test *t = *state;
    const char *fifo;
    const int fd = held(t, &fifo);
    struct tool_result r =
        run(t, arena_printf(t->a, "exec 9>'%s'; sleep 1000 & wait", fifo), 0.3, NULL);
    assert_int_equal(r.fate, TOOL_CUT_OFF);
    assert_string_equal(r.why, "sh did not end within 0.3 s and was cut off");
    assert_released(fd);
}

/* Launchers of several processes give each a session of its own; its children have the leader as
 * parent, then nobody. */
static void other_sessions_end_with_it(void **state)
{
    struct test *t = *state;
    const char *fifo;
    const char *ready = test_path(t, "ready"),
               *ends[] = {"wait", arena_printf(t->a,
                                               "while [ ! -e '%s' ]; do sleep 0.01; done; "
                                               "exit 4",
                                               ready)};
    if (system("setsid true 2>/dev/null") != 0) {
        print_message("skipped: there is no setsid\n");
        skip();
    }
    for (size_t i = 0; i < 2; i++) {
        const int fd = held(t, &fifo);
        const char *script =
            arena_printf(t->a, "exec 9>'%s'; setsid sh -c 'sleep 1000 & : >\"$0\"; wait' '%s' & %s",
                         fifo, ready, ends[i]);
        struct tool_result r = run(t, script, i == 0 ? 0.3 : 0, NULL);
        assert_int_equal(r.fate, i == 0 ? TOOL_CUT_OFF : TOOL_FAILED);
        assert_released(fd);
        unlink(ready);
    }
}

static void a_question_ends_by_limit_or_stop(void **state)
{
    struct test *t = *state;
    volatile sig_atomic_t stop = 0;
    const char *const hangs[] = {"sh", "-c", "echo begun; sleep 1000", NULL};
    const char *const says[] = {"sh", "-c", "echo out; echo err >&2; exit 3", NULL};
    struct tool_limits limits = {.limit_s = 0.2, .stop = &stop};
    struct tool_answer r = tool_ask(t->a, hangs, &limits);
    assert_null(r.text);
    assert_true(r.hung);
    assert_string_equal(r.why, "sh did not end within 0.2 s and was cut off");
    stop = 1;
    limits.limit_s = 0;
    r = tool_ask(t->a, hangs, &limits);
    assert_null(r.text);
    assert_false(r.hung);
    assert_string_equal(r.why, "the session was interrupted");
    stop = 0;
    r = tool_ask(t->a, says, &limits);
    assert_string_equal(r.text, "out\n");
    assert_int_equal(r.code, 3);
    const char *const denied[] = {test_write(t, "text", "x"), NULL};
    r = tool_ask(t->a, denied, &limits);
    assert_string_equal(r.why, arena_printf(t->a, "cannot run %s: Permission denied", denied[0]));
}

static void the_session_stops_it(void **state)
{
    struct test *t = *state;
    volatile sig_atomic_t stop = 1;
    struct tool_result r = run(t, "sleep 1000", 0, &stop);
    assert_int_equal(r.fate, TOOL_STOPPED);
}

/* A tool with an injection of its own must not find the recorder's variables. */
static void the_recorders_variables_stay_here(void **state)
{
    struct test *t = *state;
    setenv("CUDA_INJECTION64_PATH", "/x.so", 1);
    setenv("TWINFER_TRACE", "/settings", 1);
    struct tool_result r =
        run(t, "echo \"[${CUDA_INJECTION64_PATH-none}] [${TWINFER_TRACE-none}]\"", 0, NULL);
    unsetenv("CUDA_INJECTION64_PATH");
    unsetenv("TWINFER_TRACE");
    assert_string_equal(r.tail, "[none] [none]\n");
}

static void known_messages_are_explained(void **state)
{
    (void)state;
    struct tool_known k = tool_explain("==ERROR== ERR_NVGPUCTRPERM - The user does not have\n");
    assert_non_null(strstr(k.reason, "performance counters"));
    assert_non_null(strstr(k.remedy, "NVreg_RestrictProfilingToAdminUsers=0"));
    k = tool_explain("  because: cannot take records of kernels\n");
    assert_non_null(strstr(k.reason, "one profiler in a process"));
    assert_null(tool_explain("all is well").reason);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(output_goes_to_the_log),
        TEST(the_end_of_much_output_is_kept),
        TEST(failures_have_a_reason),
        TEST(a_missing_program_is_named),
        TEST(what_hangs_is_cut_off),
        TEST(other_sessions_end_with_it),
        TEST(the_session_stops_it),
        TEST(a_question_ends_by_limit_or_stop),
        TEST(the_recorders_variables_stay_here),
        TEST(known_messages_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
