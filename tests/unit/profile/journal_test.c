#include "profile/journal.h"

#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "support/support.h"

struct fixture {
    struct arena *a;
    struct tmp tmp;
    const char *dir;
    struct journal j;
    struct err e;
};

static int setup(void **state)
{
    static struct fixture f;
    f = (struct fixture){.a = arena_new(), .tmp = tmp_new()};
    f.dir = fs_join(f.a, f.tmp.dir, ".partial/cpu/org/tiny");
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    tmp_free(&f->tmp);
    arena_free(&f->a);
    return 0;
}

static void open_as(struct fixture *f, const char *key)
{
    assert_ok(journal_open(f->a, f->dir, key, 4, &f->j, &f->e), &f->e);
}

static void write_some(struct fixture *f)
{
    double op_s[OP_KINDS];
    for (int k = 0; k < OP_KINDS; k++)
        op_s[k] = 0.1 / (k + 3);
    open_as(f, "key");
    assert_ok(journal_sample(&f->j, 2, op_s, &f->e), &f->e);
    assert_ok(journal_sample(&f->j, 2, op_s, &f->e), &f->e);
    const struct host_sample h[] = {{4, 0, 1e-5, 1e-6, 0.1}, {4, 1, 2e-5, 2e-6, 0.2}};
    assert_ok(journal_host_run(&f->j, 4, h, 2, &f->e), &f->e);
    journal_close(&f->j);
}

static void append(const struct fixture *f, const char *text)
{
    FILE *o = fopen(fs_join(f->a, f->dir, "journal.txt"), "a");
    fputs(text, o);
    fclose(o);
}

static void what_was_written_comes_back_exactly(void **state)
{
    struct fixture *f = *state;
    write_some(f);
    open_as(f, "key");
    assert_int_equal(f->j.resumed, 2);
    assert_int_equal(f->j.samples[2].n, 2);
    assert_int_equal(f->j.samples[0].n, 0);
    for (int k = 0; k < OP_KINDS; k++)
        assert_true(f->j.samples[2].p[1].op_s[k] == 0.1 / (k + 3));
    assert_int_equal(f->j.host.n, 2);
    assert_true(f->j.host.p[1].chunks == 1 && f->j.host.p[1].host_s == 2e-5);
    assert_int_equal(f->j.runs.n, 1);
    assert_false(f->j.publishing);
    assert_false(journal_published(f->a, f->dir));
    assert_ok(journal_publish(&f->j, &f->e), &f->e);
    journal_close(&f->j);
    assert_true(journal_published(f->a, f->dir));
    assert_false(journal_published(f->a, f->tmp.dir));
    open_as(f, "key");
    assert_true(f->j.publishing);
    journal_close(&f->j);
}

static void another_key_empties_it(void **state)
{
    struct fixture *f = *state;
    write_some(f);
    open_as(f, "other");
    assert_int_equal(f->j.resumed, 0);
    assert_int_equal(f->j.samples[2].n, 0);
    assert_int_equal(f->j.host.n, 0);
    journal_close(&f->j);
    open_as(f, "key"); /* nothing is left of it */
    assert_int_equal(f->j.resumed, 0);
    journal_close(&f->j);
}

/* Whatever follows the last good line is dropped, and the next run does not see it either. */
static void a_bad_tail_is_cut_off(void **state)
{
    struct fixture *f = *state;
    static const char *const tails[] = {
        "s 1 0.5",                         /* torn */
        "s 9 1 1 1 1 1 1 1 1 1 1 1 1 1\n", /* too few, and no such point */
        "s x\n",
        "h 8 0 1 1 1\n", /* of a run that did not end */
        "h 8 0 1 1 1\nb 8 8\n",
        "z\n",
        "\n",
        "s 1 nan\n",
    };
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        assert_ok(fs_remove_tree(f->dir, &f->e), &f->e);
        write_some(f);
        append(f, tails[i]);
        open_as(f, "key");
        assert_int_equal(f->j.resumed, 2);
        assert_int_equal(f->j.host.n, 2);
        double op_s[OP_KINDS] = {1};
        assert_ok(journal_sample(&f->j, 1, op_s, &f->e), &f->e);
        journal_close(&f->j);
        open_as(f, "key");
        assert_int_equal(f->j.resumed, 3);
        assert_int_equal(f->j.samples[1].n, 1);
        journal_close(&f->j);
    }
}

static void two_at_once_are_refused(void **state)
{
    struct fixture *f = *state;
    open_as(f, "key");
    struct journal second;
    assert_int_equal(journal_open(f->a, f->dir, "key", 4, &second, &f->e), ST_USAGE);
    char want[400];
    snprintf(want, sizeof want,
             "%s/journal.txt is in use by another profile of the same model and hardware", f->dir);
    assert_cause(&f->e, want);
    journal_close(&f->j);
}

static void removal_takes_empty_parents_only(void **state)
{
    struct fixture *f = *state;
    const char *root = fs_join(f->a, f->tmp.dir, ".partial");
    assert_ok(fs_mkdirs(fs_join(f->a, root, "cpu/other"), &f->e), &f->e);
    open_as(f, "key");
    assert_ok(journal_remove(f->dir, &f->e), &f->e);
    journal_close(&f->j);
    assert_false(fs_exists(fs_join(f->a, root, "cpu/org")));
    assert_true(fs_exists(fs_join(f->a, root, "cpu/other")));
    assert_ok(fs_remove_tree(fs_join(f->a, root, "cpu/other"), &f->e), &f->e);
    open_as(f, "key");
    assert_ok(journal_remove(f->dir, &f->e), &f->e);
    journal_close(&f->j);
    assert_false(fs_exists(root));
    assert_true(fs_exists(f->tmp.dir));
}

int main(void)
{
#define with_dir(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
    const struct CMUnitTest tests[] = {
        with_dir(what_was_written_comes_back_exactly),
        with_dir(another_key_empties_it),
        with_dir(a_bad_tail_is_cut_off),
        with_dir(two_at_once_are_refused),
        with_dir(removal_takes_empty_parents_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
