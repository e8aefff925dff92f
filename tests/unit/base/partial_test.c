#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/partial.h"
#include "support/support.h"

/* A child that makes the partial folder of dir/name, writes a file into it, and then lives until
 * its standard input ends (NULL) or dies at once. */
struct writer {
    pid_t pid;
    int stop; /* closing it ends the child */
};

static struct writer start_writer(struct test *t, const char *name)
{
    int down[2], up[2];
    test_dir(t); /* in this process, which removes it */
    assert_int_equal(pipe(down), 0);
    assert_int_equal(pipe(up), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct partial p;
        char byte = 0;
        close(down[1]);
        bool ok = partial_make(t->a, test_path(t, name), &p, &t->e) == ST_OK &&
                  fs_write_atomic(fs_join(t->a, p.path, "data"), "1234", 4, &t->e) == ST_OK;
        if (!ok || write(up[1], &byte, 1) != 1)
            _exit(1);
        while (read(down[0], &byte, 1) > 0)
            continue;
        _exit(0); /* as kill -9 would: nothing is tidied up */
    }
    char byte;
    close(down[0]);
    close(up[1]);
    assert_int_equal(read(up[0], &byte, 1), 1);
    close(up[0]);
    return (struct writer){pid, down[1]};
}

static void end_writer(struct writer *w)
{
    int status;
    close(w->stop);
    assert_int_equal(waitpid(w->pid, &status, 0), w->pid);
    assert_int_equal(status, 0);
}

static struct partial_found only_one(struct test *t)
{
    struct partial_list l = partial_find(t->a, test_dir(t), 8);
    assert_int_equal(l.n, 1);
    return l.p[0];
}

/* Tests run in $TMPDIR, which may be on a file system of which locks say nothing. */
static void need_local(struct test *t)
{
    assert_int_equal(mkdir(test_path(t, ".partial-x-0"), 0700), 0);
    bool local = only_one(t).state == PARTIAL_DEAD;
    assert_int_equal(rmdir(test_path(t, ".partial-x-0")), 0);
    if (!local) {
        print_message("skipped: %s is on a file system that others may write to\n", test_dir(t));
        skip();
    }
}

static void names(void **state)
{
    struct test *t = *state;
    struct partial p, q;
    mode_t before = umask(027);
    assert_ok(partial_make(t->a, test_path(t, "deep/er/run"), &p, &t->e), t);
    umask(before);
    assert_string_equal(fs_base(p.path), arena_printf(t->a, ".partial-run-%ld", (long)getpid()));
    struct stat s;
    assert_int_equal(stat(p.path, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0750);
    assert_ok(partial_make(t->a, test_path(t, "deep/er/run"), &q, &t->e), t);
    assert_string_equal(fs_base(q.path), arena_printf(t->a, ".partial-run-%ld.1", (long)getpid()));
    assert_true(partial_is_name(".partial-run-1"));
    assert_false(partial_is_name(".partial"));
    assert_false(partial_is_name("run.partial-1"));
    partial_discard(&p);
    assert_null(p.path);
    partial_discard(&p); /* again is fine */
    partial_discard(&q);
    const char **left;
    size_t n;
    assert_ok(fs_list(t->a, test_path(t, "deep/er"), &left, &n, &t->e), t);
    assert_int_equal(n, 0);
}

static void one_that_lives_is_never_removed(void **state)
{
    struct test *t = *state;
    struct writer w = start_writer(t, "run");
    struct partial_found f = only_one(t);
    assert_int_equal(f.state, PARTIAL_LIVING);
    assert_int_equal(f.pid, w.pid);
    f.state = PARTIAL_DEAD; /* it is looked at again */
    assert_err(partial_remove(&f, &t->e), ST_REJECTED, t,
               arena_printf(t->a, "DIR/.partial-run-%ld is being written again", (long)w.pid));
    assert_true(fs_is_dir(f.path));
    end_writer(&w);
}

static void one_that_is_dead_is_removed(void **state)
{
    struct test *t = *state;
    need_local(t);
    struct writer w = start_writer(t, "a/run");
    end_writer(&w);
    assert_int_equal(partial_find(t->a, test_dir(t), 0).n, 0); /* it is one level down */
    struct partial_found f = only_one(t);
    assert_int_equal(f.state, PARTIAL_DEAD);
    assert_int_equal(f.pid, w.pid);
    assert_true(f.bytes > 0);
    assert_true(f.wrote_wall_ns > 0);
    assert_ok(partial_remove(&f, &t->e), t);
    assert_false(fs_exists(f.path));
    assert_ok(partial_remove(&f, &t->e), t); /* gone is fine */
}

/* The recorder inside a traced program outlives `twinfer trace`; so does a child of a search. */
static void a_lock_on_a_file_in_it_counts(void **state)
{
    struct test *t = *state;
    need_local(t);
    const char *spool = test_write(t, ".partial-t-0/host-7.spool", "x");
    int fd = open(spool, O_RDONLY);
    assert_int_equal(flock(fd, LOCK_SH), 0);
    assert_int_equal(only_one(t).state, PARTIAL_LIVING);
    close(fd);
    assert_int_equal(only_one(t).state, PARTIAL_DEAD);
}

/* No lock, as older versions left them: a process with that number may be the writer if it ran when
 * something was last written, and is another one if it started later. */
static void numbers_that_were_given_away_again(void **state)
{
    struct test *t = *state;
    need_local(t);
    pid_t pid = fork();
    if (pid == 0) {
        pause();
        _exit(0);
    }
    const char *dir = test_path(t, arena_printf(t->a, ".partial-run-%ld", (long)pid));
    assert_int_equal(mkdir(dir, 0700), 0);
    struct timespec soon[2] = {{.tv_sec = time(NULL) + 3600}, {.tv_sec = time(NULL) + 3600}};
    assert_int_equal(utimensat(AT_FDCWD, dir, soon, 0), 0);
    struct partial_found f = only_one(t);
    assert_int_equal(f.state, PARTIAL_UNKNOWN);
    assert_string_equal(
        f.why, arena_printf(t->a, "process %ld, which may be its writer, runs", (long)pid));
    assert_err(partial_remove(&f, &t->e), ST_REJECTED, t,
               arena_printf(t->a, "DIR/.partial-run-%ld: %s", (long)pid, f.why));
    struct timespec long_ago[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    assert_int_equal(utimensat(AT_FDCWD, dir, long_ago, 0), 0);
    assert_int_equal(only_one(t).state, PARTIAL_DEAD);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_int_equal(utimensat(AT_FDCWD, dir, soon, 0), 0);
    assert_int_equal(only_one(t).state, PARTIAL_DEAD);
}

static void names_without_a_number(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *name;
        long pid;
    } rows[] = {{".partial-a-2147480001", 2147480001},
                {".partial-a-2147480001.3", 2147480001},
                {".partial-7-", 0},
                {".partial-a-1x", 0},
                {".partial-99999999999999999999", 0},
                {".partial-", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(mkdir(test_path(t, rows[i].name), 0700), 0);
        assert_int_equal(only_one(t).pid, rows[i].pid);
        assert_int_equal(rmdir(test_path(t, rows[i].name)), 0);
    }
    test_write(t, ".partial-file-1", ""); /* no folder */
    assert_int_equal(symlink("/", test_path(t, ".partial-link-1")), 0);
    assert_int_equal(partial_find(t->a, test_dir(t), 8).n, 0);
    assert_int_equal(partial_find(t->a, test_path(t, "absent"), 8).n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(names),
        TEST(one_that_lives_is_never_removed),
        TEST(one_that_is_dead_is_removed),
        TEST(a_lock_on_a_file_in_it_counts),
        TEST(numbers_that_were_given_away_again),
        TEST(names_without_a_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
