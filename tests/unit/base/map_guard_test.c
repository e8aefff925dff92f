#include "base/map_guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "support/support.h"

enum { BYTES = 1 << 20 };

static const char *large(struct test *t, const char *name)
{
    char *text = arena_alloc(t->a, BYTES + 1);
    memset(text, 'x', BYTES);
    return test_write(t, name, text);
}

/* Runs what in a child whose stderr goes to a file; its status of waitpid. */
static int in_child(struct test *t, void (*what)(struct test *t), const char *err)
{
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        dup2(open(err, O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
        what(t);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static char last_byte(const struct fs_map *m)
{
    return ((const volatile char *)m->p)[m->n - 1];
}

static void cut_while_mapped(struct test *t)
{
    struct fs_map other, m;
    const char *path = test_path(t, "f");
    fs_map(test_path(t, "other"), &other, &t->e);
    fs_unmap(&other); /* its place is used again */
    fs_map(path, &m, &t->e);
    fs_map(test_path(t, "other"), &other, &t->e);
    if (truncate(path, 100) == 0)
        last_byte(&m);
}

static void a_file_that_becomes_shorter_is_named(void **state)
{
    struct test *t = *state;
    large(t, "f");
    large(t, "other");
    const char *err = test_path(t, "err");
    int status = in_child(t, cut_while_mapped, err);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 3);
    assert_string_equal(test_read(t, err),
                        arena_printf(t->a,
                                     "twinfer: %s became shorter while it was read\n"
                                     "  hint: run again when nothing writes to it\n",
                                     test_path(t, "f")));
}

/* Of a mapping that nobody told of. */
static void cut_elsewhere(struct test *t)
{
    struct fs_map m;
    const char *path = test_path(t, "f");
    fs_map(test_path(t, "other"), &m, &t->e);
    int fd = open(path, O_RDONLY);
    const volatile char *p = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE, fd, 0);
    signal(SIGBUS, SIG_DFL); /* sanitizers have one */
    map_guard_add(m.p, m.n, "x");
    if (truncate(path, 100) == 0)
        (void)p[BYTES - 1];
}

static void other_bus_errors_are_crashes(void **state)
{
    struct test *t = *state;
    large(t, "f");
    large(t, "other");
    int status = in_child(t, cut_elsewhere, test_path(t, "err"));
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGBUS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(a_file_that_becomes_shorter_is_named),
                                       TEST(other_bus_errors_are_crashes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
