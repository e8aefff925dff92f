#include "support/support.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"

static void a_file_is_read_whole(void **state)
{
    struct test *t = *state;
    struct sv text;
    const char *path = test_write_bytes(t, "f", SV("a\0bc"));
    assert_ok(fs_read(t->a, path, 4, &text, &t->e), t);
    assert_int_equal(text.n, 4);
    assert_memory_equal(text.p, "a\0bc", 5);
    assert_ok(fs_read(t->a, test_write(t, "empty", ""), 4, &text, &t->e), t);
    assert_int_equal(text.n, 0);
    assert_ok(fs_read(t->a, "/proc/self/stat", 4096, &text, &t->e), t);
    assert_true(text.n > 10);
}

static void what_cannot_be_read_is_named(void **state)
{
    struct test *t = *state;
    struct sv text;
    struct fs_map m;
    const char *path = test_write(t, "f", "12345");
    assert_err(fs_read(t->a, path, 4, &text, &t->e), ST_INPUT, t,
               "DIR/f has 5 bytes; the limit for this kind of file is 4");
    assert_err(fs_read(t->a, test_path(t, "no"), 4, &text, &t->e), ST_INPUT, t,
               "cannot open DIR/no: No such file or directory");
    assert_err(fs_read(t->a, test_dir(t), 4, &text, &t->e), ST_INPUT, t,
               "DIR is not a regular file");
    assert_int_equal(mkfifo(test_path(t, "fifo"), 0600), 0);
    assert_err(fs_map(test_path(t, "fifo"), &m, &t->e), ST_INPUT, t,
               "DIR/fifo is not a regular file");
    assert_null(m.p);
}

static void files_are_mapped(void **state)
{
    struct test *t = *state;
    struct fs_map m;
    assert_ok(fs_map(test_write(t, "f", "mapped"), &m, &t->e), t);
    assert_int_equal(m.n, 6);
    assert_memory_equal(m.p, "mapped", 6);
    fs_unmap(&m);
    assert_null(m.p);
    fs_unmap(&m);
    assert_ok(fs_map(test_write(t, "empty", ""), &m, &t->e), t);
    assert_int_equal(m.n, 0);
    fs_unmap(&m);
}

static void atomic_writes_leave_one_file(void **state)
{
    struct test *t = *state;
    const char *path = test_path(t, "d/f"), **names;
    size_t n;
    struct stat s;
    assert_ok(fs_mkdirs(test_path(t, "d"), &t->e), t);
    assert_ok(fs_write_atomic(path, "old", 3, &t->e), t);
    mode_t before = umask(027);
    assert_ok(fs_write_atomic(path, "newer", 5, &t->e), t);
    umask(before);
    assert_string_equal(test_read(t, path), "newer");
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0640);
    assert_ok(fs_list(t->a, test_path(t, "d"), &names, &n, &t->e), t);
    assert_int_equal(n, 1);
}

static void a_failed_write_leaves_nothing(void **state)
{
    struct test *t = *state;
    const char **names;
    size_t n;
    const char *want = arena_printf(
        t->a, "cannot create DIR/none/f.tmp.%ld: No such file or directory", (long)getpid());
    assert_err(fs_write_atomic(test_path(t, "none/f"), "x", 1, &t->e), ST_IO, t, want);
    assert_ok(fs_mkdirs(test_path(t, "d/f"), &t->e), t);
    want = arena_printf(t->a, "cannot rename DIR/d/f.tmp.%ld to DIR/d/f: Is a directory",
                        (long)getpid());
    assert_err(fs_write_atomic(test_path(t, "d/f"), "x", 1, &t->e), ST_IO, t, want);
    assert_ok(fs_list(t->a, test_path(t, "d"), &names, &n, &t->e), t);
    assert_int_equal(n, 1);
}

static void folders_are_made_with_their_parents(void **state)
{
    struct test *t = *state;
    struct stat s;
    const char *path = test_path(t, "a/b//c/");
    mode_t before = umask(027);
    assert_ok(fs_mkdirs(path, &t->e), t);
    umask(before);
    assert_ok(fs_mkdirs(path, &t->e), t);
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0750);
    test_write(t, "file", "");
    assert_err(fs_mkdirs(test_path(t, "file"), &t->e), ST_IO, t,
               "cannot create folder DIR/file: a file is in the way");
    assert_err(fs_mkdirs(test_path(t, "file/x"), &t->e), ST_IO, t,
               "cannot create folder DIR/file/x: Not a directory");
    assert_err(fs_mkdirs("", &t->e), ST_IO, t, "cannot create a folder of a name of 0 bytes");
}

static void lists_are_sorted_bytewise(void **state)
{
    struct test *t = *state;
    const char **names;
    size_t n;
    test_write(t, "l/b", "");
    test_write(t, "l/B", "");
    test_write(t, "l/.h", "");
    test_write(t, "l/a/x", "");
    assert_ok(fs_list(t->a, test_path(t, "l"), &names, &n, &t->e), t);
    assert_int_equal(n, 4);
    assert_string_equal(names[0], ".h");
    assert_string_equal(names[1], "B");
    assert_string_equal(names[2], "a");
    assert_string_equal(names[3], "b");
    assert_err(fs_list(t->a, test_path(t, "no"), &names, &n, &t->e), ST_INPUT, t,
               "cannot list DIR/no: No such file or directory");
}

static void removing_a_tree_does_not_follow_links(void **state)
{
    struct test *t = *state;
    const char *kept = test_write(t, "kept/f", "x");
    test_write(t, "tree/a/b", "");
    assert_int_equal(symlink(test_path(t, "kept"), test_path(t, "tree/a/link")), 0);
    assert_int_equal(symlink("nowhere", test_path(t, "tree/dangling")), 0);
    assert_ok(fs_remove_tree(test_path(t, "tree"), &t->e), t);
    assert_false(fs_exists(test_path(t, "tree")));
    assert_true(fs_exists(kept));
    assert_ok(fs_remove_tree(test_path(t, "tree"), &t->e), t);
}

static void names_are_joined_and_split(void **state)
{
    struct test *t = *state;
    assert_string_equal(fs_join(t->a, "a", "b"), "a/b");
    assert_string_equal(fs_join(t->a, "a/", "b"), "a/b");
    assert_string_equal(fs_join(t->a, "a", "/b"), "/b");
    assert_string_equal(fs_base("a/b.c"), "b.c");
    assert_string_equal(fs_base("b.c"), "b.c");
    assert_string_equal(fs_dir(t->a, "a/b/c"), "a/b");
    assert_string_equal(fs_dir(t->a, "/c"), "/");
    assert_string_equal(fs_dir(t->a, "c"), ".");
    assert_true(fs_is_dir(fs_self_dir(t->a)));
}

static void names_from_inputs_stay_inside(void **state)
{
    static const char *const bad[] = {"", "/etc/passwd", "..", "../x", "a/../../x", "a/..", "a\nb"};
    struct test *t = *state;
    char *path;
    test_write(t, "in/f", "");
    test_write(t, "out/f", "");
    const char *in = test_path(t, "in");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *want = arena_printf(t->a, "file name '%s' does not stay inside DIR/in",
                                        strcmp(bad[i], "a\nb") == 0 ? "a?b" : bad[i]);
        assert_err(fs_join_inside(t->a, in, bad[i], &path, &t->e), ST_INPUT, t, want);
    }
    assert_ok(fs_join_inside(t->a, in, "f", &path, &t->e), t);
    assert_string_equal(path, test_path(t, "in/f"));
    assert_ok(fs_join_inside(t->a, in, "not/yet/..there", &path, &t->e), t);
    assert_int_equal(symlink("f", test_path(t, "in/here")), 0);
    assert_ok(fs_join_inside(t->a, in, "here", &path, &t->e), t);
    assert_int_equal(symlink("../out", test_path(t, "in/away")), 0);
    assert_err(fs_join_inside(t->a, in, "away/f", &path, &t->e), ST_INPUT, t,
               "file name 'away/f' is a link out of DIR/in");
    /* Hugging Face's cache */
    test_write(t, "hub/blobs/0a", "");
    test_write(t, "hub/snapshots/main/config.json", "");
    const char *snapshot = test_path(t, "hub/snapshots/main");
    assert_int_equal(symlink("../../blobs/0a", test_path(t, "hub/snapshots/main/model")), 0);
    assert_ok(fs_join_inside(t->a, snapshot, "model", &path, &t->e), t);
    assert_int_equal(symlink("../../../out/f", test_path(t, "hub/snapshots/main/away")), 0);
    assert_err(fs_join_inside(t->a, snapshot, "away", &path, &t->e), ST_INPUT, t,
               "file name 'away' is a link out of DIR/hub/snapshots/main");
    assert_int_equal(symlink("../inner", test_path(t, "in/sibling")), 0);
    test_write(t, "inner", "");
    assert_err(fs_join_inside(t->a, in, "sibling", &path, &t->e), ST_INPUT, t,
               "file name 'sibling' is a link out of DIR/in");
}

/* Names that others can foresee, in a folder that they can write. */
static void links_are_not_followed(void **state)
{
    struct test *t = *state;
    const char *victim = test_write(t, "victim", "precious"), *path = test_path(t, "f");
    FILE *f;
    for (int i = 0; i < 3; i++) {
        const char *name = arena_printf(t->a, i ? "f.tmp.%ld.%d" : "f.tmp.%ld", (long)getpid(), i);
        assert_int_equal(symlink(victim, test_path(t, name)), 0);
    }
    assert_ok(fs_write_atomic(path, "new", 3, &t->e), t);
    struct stat s;
    assert_int_equal(lstat(path, &s), 0);
    assert_true(S_ISREG(s.st_mode));
    assert_string_equal(test_read(t, path), "new");
    assert_int_equal(symlink(victim, test_path(t, "journal")), 0);
    assert_err(fs_open_append(test_path(t, "journal"), &f, &t->e), ST_IO, t,
               "cannot write DIR/journal: it is a symbolic link\nhint: remove the link");
    assert_null(f);
    assert_int_equal(mkfifo(test_path(t, "fifo"), 0600), 0);
    assert_err(fs_open_append(test_path(t, "fifo"), &f, &t->e), ST_IO, t,
               "cannot write DIR/fifo: it is not a regular file");
    assert_ok(fs_open_append(test_path(t, "own"), &f, &t->e), t);
    fclose(f);
    assert_string_equal(test_read(t, victim), "precious");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(links_are_not_followed),
        TEST(a_file_is_read_whole),
        TEST(what_cannot_be_read_is_named),
        TEST(files_are_mapped),
        TEST(atomic_writes_leave_one_file),
        TEST(a_failed_write_leaves_nothing),
        TEST(folders_are_made_with_their_parents),
        TEST(lists_are_sorted_bytewise),
        TEST(removing_a_tree_does_not_follow_links),
        TEST(names_are_joined_and_split),
        TEST(names_from_inputs_stay_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
