/* Trees of processes, in a procfs made here and in the real one. */
#include "base/proc_tree.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "support/support.h"

static const char *write_process(struct test *t, int pid, const char *name, char state, int parent,
                                 int start)
{
    const char *dir = arena_printf(t->a, "%s/proc/%d", test_dir(t), pid);
    struct buf stat = {0};
    buf_printf(&stat, "%d (%s) %c %d 1 1 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 %d 1 2\n", pid, name,
               state, parent, start);
    assert_ok(fs_mkdirs(dir, &t->e), t);
    assert_ok(fs_write_atomic(fs_join(t->a, dir, "stat"), stat.p, stat.n, &t->e), t);
    buf_clear(&stat);
    buf_printf(&stat, "%s\n", name);
    assert_ok(fs_write_atomic(fs_join(t->a, dir, "comm"), stat.p, stat.n, &t->e), t);
    buf_free(&stat);
    return arena_printf(t->a, "%s/proc", test_dir(t));
}

static void end_process(struct test *t, int pid)
{
    assert_ok(fs_remove_tree(arena_printf(t->a, "%s/proc/%d", test_dir(t), pid), &t->e), t);
}

static void a_tree_is_a_process_and_all_that_descend_from_it(void **state)
{
    struct test *t = *state;
    struct proc_tree *tree;
    char name[64];
    write_process(t, 1, "init", 'S', 0, 1);
    write_process(t, 20, "vllm", 'S', 1, 5);
    write_process(t, 7, "engine (core)", 'R', 20, 9); /* its pid is lower: they wrap around */
    write_process(t, 22, "worker", 'S', 7, 9);
    const char *proc = write_process(t, 30, "other", 'S', 1, 6);
    assert_ok(proc_tree_open(proc, 20, &tree, &t->e), t);
    assert_int_equal(proc_tree_size(tree), 3);
    assert_int_equal(proc_tree_whose(tree, 20), PROC_OF_TREE);
    assert_int_equal(proc_tree_whose(tree, 22), PROC_OF_TREE);
    assert_int_equal(proc_tree_whose(tree, 1), PROC_OTHER);
    assert_int_equal(proc_tree_whose(tree, 30), PROC_OTHER);
    assert_int_equal(proc_tree_whose(tree, 31), PROC_ABSENT);
    proc_tree_name(tree, 7, name);
    assert_string_equal(name, "engine (core)");
    proc_tree_name(tree, 31, name);
    assert_string_equal(name, "");

    /* Its parent ends and init adopts it; another worker starts. */
    end_process(t, 7);
    write_process(t, 22, "worker", 'S', 1, 9);
    write_process(t, 40, "worker", 'S', 20, 100);
    proc_tree_walk(tree);
    assert_int_equal(proc_tree_size(tree), 3);
    assert_int_equal(proc_tree_whose(tree, 7), PROC_ABSENT);
    assert_int_equal(proc_tree_whose(tree, 22), PROC_OF_TREE);
    assert_int_equal(proc_tree_whose(tree, 40), PROC_OF_TREE);

    /* The pid of a worker that ended is used again, by somebody else. */
    write_process(t, 22, "python3", 'R', 1, 200);
    proc_tree_walk(tree);
    assert_int_equal(proc_tree_whose(tree, 22), PROC_OTHER);
    proc_tree_close(&tree);
    assert_null(tree);
    proc_tree_close(&tree);
}

static void what_is_no_root_is_refused(void **state)
{
    struct test *t = *state;
    struct proc_tree *tree;
    const char *proc = write_process(t, 20, "vllm", 'Z', 1, 5);
    assert_err(proc_tree_open(proc, 20, &tree, &t->e), ST_INPUT, t, "there is no process 20");
    proc_tree_close(&tree);
    err_clear(&t->e);
    assert_err(proc_tree_open(proc, 21, &tree, &t->e), ST_INPUT, t, "there is no process 21");
    proc_tree_close(&tree);
    err_clear(&t->e);
    assert_err(proc_tree_open(NULL, getpid(), &tree, &t->e), ST_INPUT, t,
               arena_printf(t->a, "process %d is twinfer itself", (int)getpid()));
    proc_tree_close(&tree);
    err_clear(&t->e);
    assert_err(proc_tree_open(NULL, getppid(), &tree, &t->e), ST_INPUT, t,
               arena_printf(t->a,
                            "process %d is a parent of twinfer itself: whatever it started would "
                            "be taken for it",
                            (int)getppid()));
    proc_tree_close(&tree);
}

/* A child that waits for the end of a pipe, and a child of it. */
static void the_real_procfs_has_children_and_theirs(void **state)
{
    struct test *t = *state;
    struct proc_tree *tree;
    int go[2], born[2];
    pid_t below = 0;
    char c;
    assert_int_equal(pipe(go), 0);
    assert_int_equal(pipe(born), 0);
    const pid_t child = fork();
    if (child == 0) {
        close(go[1]);
        const pid_t deeper = fork();
        if (deeper > 0 && write(born[1], &deeper, sizeof deeper) != (ssize_t)sizeof deeper)
            _exit(1);
        _exit(read(go[0], &c, 1) == 0 ? 0 : 1);
    }
    assert_int_equal(read(born[0], &below, sizeof below), (ssize_t)sizeof below);
    assert_ok(proc_tree_open(NULL, child, &tree, &t->e), t);
    assert_int_equal(proc_tree_whose(tree, child), PROC_OF_TREE);
    assert_int_equal(proc_tree_whose(tree, below), PROC_OF_TREE);
    assert_int_equal(proc_tree_whose(tree, getpid()), PROC_OTHER);
    close(go[0]), close(go[1]);
    waitpid(child, NULL, 0);
    proc_tree_walk(tree);
    assert_int_equal(proc_tree_whose(tree, child), PROC_ABSENT);
    proc_tree_close(&tree);
    close(born[0]), close(born[1]);
}

static void a_stat_is_read_whole_or_not_at_all(void **state)
{
    static const struct {
        const char *text;
        bool ok;
    } rows[] = {
        {"77 (a ) b (c)) S 1 77 77 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 4711 1 2\n", true},
        {"77 (x) S 1 77 77 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 4711", true},
        {"77 (x) S 1 77 77 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0", false},
        {"77 (x) S -1 77 77 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 4711", false},
        {"0 (x) S 1 77 77 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 4711", false},
        {"77 x S 1 77 77 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 4711", false},
        {"", false},
    };
    struct proc_stat s;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(proc_stat_parse(sv_of(rows[i].text), &s), rows[i].ok);
        if (rows[i].ok) {
            assert_int_equal(s.pid, 77);
            assert_int_equal(s.parent, 1);
            assert_int_equal(s.state, 'S');
            assert_int_equal(s.start, 4711);
        }
    }
}

static void a_namespace_below_the_first_is_contained(void **state)
{
    static const struct {
        const char *name;
        bool contained;
    } rows[] = {{"pid:[4026531836]", false}, {"pid:[4026532447]", true}};
    struct test *t = *state;
    const char *proc = write_process(t, 1, "init", 'S', 0, 1);
    const char *dir = arena_printf(t->a, "%s/self/ns", proc);
    assert_false(proc_is_contained(proc)); /* not known */
    assert_ok(fs_mkdirs(dir, &t->e), t);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *link = fs_join(t->a, dir, "pid");
        unlink(link);
        assert_int_equal(symlink(rows[i].name, link), 0);
        assert_int_equal(proc_is_contained(proc), rows[i].contained);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_tree_is_a_process_and_all_that_descend_from_it),
        TEST(what_is_no_root_is_refused),
        TEST(the_real_procfs_has_children_and_theirs),
        TEST(a_stat_is_read_whole_or_not_at_all),
        TEST(a_namespace_below_the_first_is_contained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
