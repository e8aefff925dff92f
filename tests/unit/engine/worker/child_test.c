#include "base/clock.h"
#include "base/fs.h"
#include "engine/worker/child.h"
#include "support/support.h"

#include <stdlib.h>
#include <unistd.h>

static void start(struct test *t, struct child *p, const char *script)
{
    const char *argv[] = {"sh", "-c", script, NULL};
    assert_ok(child_start(p, argv, 100, &t->e), t);
}

/* The next line; "" when the output is at its end. */
static const char *next_line(struct test *t, struct child *p)
{
    struct sv line;
    const int64_t until_ns = clock_mono_ns() + 20 * NS_PER_S;
    for (;;) {
        enum st st = child_line(p, &line, &t->e);
        if (st == ST_OK)
            return arena_strn(t->a, line.p, line.n);
        assert_int_equal(st, ST_END);
        if (p->ended)
            return "";
        assert_true(clock_mono_ns() < until_ns);
        child_wait(p, until_ns);
    }
}

static void lines_go_both_ways(void **state)
{
    struct test *t = *state;
    struct child p;
    start(t, &p, "while read -r x; do echo \"got $x\"; echo \"err $x\" >&2; done");
    assert_true(child_send(&p, "one\ntwo\n", 8));
    assert_string_equal(next_line(t, &p), "got one");
    assert_string_equal(next_line(t, &p), "got two");
    child_stop(&p, clock_mono_ns() + 20 * NS_PER_S);
    assert_int_equal(p.p.status, 0);
    assert_int_equal(p.p.pid, 0);
    assert_string_equal(child_last_words(&p, t->a), "err two");
    child_free(&p);
}

/* More than any pipe holds, while the child writes as much back. */
static void much_goes_through(void **state)
{
    enum { LINES = 60000 };
    struct test *t = *state;
    struct child p;
    struct buf text = {0};
    for (int i = 0; i < LINES; i++)
        buf_printf(&text, "%05d some words to make the line long enough for the pipe\n", i);
    start(t, &p, "exec cat");
    child_send(&p, text.p, text.n);
    for (int i = 0; i < LINES; i++)
        assert_int_equal(atoi(next_line(t, &p)), i);
    buf_free(&text);
    child_free(&p);
}

static void fates_are_told(void **state)
{
    static const struct {
        const char *script, *fate;
    } rows[] = {
        {"exit 7", "exited with status 7"},
        {"kill -9 $$", "was killed by signal 9 (Killed)"},
        {"exec >&-; sleep 100", "closed its output"},
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct child p;
        start(t, &p, rows[i].script);
        assert_string_equal(next_line(t, &p), "");
        assert_string_equal(child_fate(&p, t->a), rows[i].fate);
        child_free(&p);
    }
}

/* Until init reaps it, a dead orphan is a zombie: for ever in containers whose init does not. */
static bool runs(struct test *t, pid_t pid)
{
    struct sv stat;
    struct err ignored = {0};
    if (fs_read(t->a, arena_printf(t->a, "/proc/%d/stat", (int)pid), 4096, &stat, &ignored) !=
        ST_OK)
        return false;
    const char *end = strrchr(stat.p, ')');
    return end && end[1] && end[2] != 'Z' && end[2] != 'X';
}

/* A child that heeds nothing, and one that left a grandchild behind. */
static void nobody_stays(void **state)
{
    struct test *t = *state;
    struct child p;
    start(t, &p, "trap '' TERM; sleep 100 & echo $!; wait; wait");
    pid_t grandchild = (pid_t)atoi(next_line(t, &p));
    assert_true(grandchild > 0);
    child_stop(&p, 0);
    assert_int_equal(p.p.pid, 0);
    const int64_t until_ns = clock_mono_ns() + 20 * NS_PER_S;
    while (runs(t, grandchild) && clock_mono_ns() < until_ns)
        clock_sleep_until_ns(clock_mono_ns() + NS_PER_MS);
    assert_false(runs(t, grandchild));
    child_free(&p);
}

static void a_dead_reader_is_no_signal(void **state)
{
    struct test *t = *state;
    struct child p;
    start(t, &p, "exit 0");
    assert_string_equal(next_line(t, &p), "");
    assert_true(child_send(&p, "x\n", 2));
    assert_true(child_send(&p, "x\n", 2));
    child_free(&p);
}

static void lines_are_bounded(void **state)
{
    struct test *t = *state;
    struct child p;
    struct sv line;
    start(t, &p, "printf %0200d 1");
    while (!p.ended)
        child_wait(&p, clock_mono_ns() + 20 * NS_PER_S);
    assert_err(child_line(&p, &line, &t->e), ST_INPUT, t,
               "worker:1: the line has more than 100 bytes");
    child_free(&p);
}

/* A descendant in a session of its own: what holds the pipe is gone. */
static void sessions_of_their_own_end_too(void **state)
{
    struct test *t = *state;
    struct child p;
    int held[2];
    char byte;
    assert_int_equal(pipe(held), 0);
    const char *script =
        arena_printf(t->a, "setsid sh -c 'echo up; exec sleep 1000' & wait; echo never");
    start(t, &p, script); /* its descendants have the pipe open */
    close(held[1]);
    assert_string_equal(next_line(t, &p), "up");
    child_stop(&p, 0);
    child_free(&p);
    assert_int_equal(read(held[0], &byte, 1), 0);
    close(held[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sessions_of_their_own_end_too),
        TEST(lines_go_both_ways),
        TEST(much_goes_through),
        TEST(fates_are_told),
        TEST(nobody_stays),
        TEST(a_dead_reader_is_no_signal),
        TEST(lines_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
