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
    double op_s[OP_ROWS] = {0};
    for (int k = 0; k < OP_KINDS; k++)
        op_s[k] = 0.1 / (k + 3);
    open_as(f, "key");
    assert_ok(journal_sample(&f->j, 2, op_s, &f->e), &f->e);
    assert_ok(journal_sample(&f->j, 2, op_s, &f->e), &f->e);
    const struct host_sample h[] = {
        {.batch = 4, .host_s = 1e-5, .executor_s = 1e-6, .device_s = 0.1},
        {.batch = 4,
         .chunks = 1,
         .host_s = 2e-5,
         .executor_s = 2e-6,
         .device_s = 0.2,
         .launch_s = 3e-5,
         .answer_s = 4e-6}};
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
    assert_true(f->j.host.p[0].launch_s == 0 && f->j.host.p[0].answer_s == 0);
    assert_true(f->j.host.p[1].launch_s == 3e-5 && f->j.host.p[1].answer_s == 4e-6);
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

/* Samples of before there was a gap have 23 numbers; as many are written where no later kind has a
 * time. */
enum { KINDS_BEFORE_THE_GAP = 23 };

static void samples_without_a_gap(void **state)
{
    struct fixture *f = *state;
    double op_s[OP_ROWS] = {[OP_EMB] = 0.5};
    struct sv text;
    open_as(f, "key");
    assert_ok(journal_sample(&f->j, 1, op_s, &f->e), &f->e);
    journal_close(&f->j);
    append(f, "s 1 0.25");
    for (int k = 1; k < KINDS_BEFORE_THE_GAP; k++)
        append(f, " 1e-3");
    append(f, "\n");
    open_as(f, "key");
    assert_int_equal(f->j.samples[1].n, 2);
    assert_true(f->j.samples[1].p[1].op_s[OP_EMB] == 0.25);
    assert_true(f->j.samples[1].p[1].op_s[OP_SAMPLE] == 1e-3);
    assert_true(f->j.samples[1].p[1].op_s[OP_GAP] == 0);
    journal_close(&f->j);
    assert_ok(journal_text(f->a, fs_join(f->a, f->dir, "journal.txt"), &text, &f->e), &f->e);
    int numbers = 0;
    const char *line = strstr(arena_strn(f->a, text.p, text.n), "s 1 0.5");
    assert_non_null(line);
    for (; *line != '\n'; line++)
        numbers += *line == ' ';
    assert_int_equal(numbers, 1 + KINDS_BEFORE_THE_GAP);
}

/* Rows of further kinds of layer come behind those of old, without a gap in between as well. */
static void samples_of_further_rows(void **state)
{
    struct fixture *f = *state;
    double op_s[OP_ROWS] = {[OP_EMB] = 0.5, [OP_KINDS + 1] = 0.125, [OP_ROWS - 1] = 0.25};
    open_as(f, "key");
    assert_ok(journal_sample(&f->j, 1, op_s, &f->e), &f->e);
    journal_close(&f->j);
    open_as(f, "key");
    assert_int_equal(f->j.samples[1].n, 1);
    assert_memory_equal(f->j.samples[1].p[0].op_s, op_s, sizeof op_s);
    journal_close(&f->j);
}

/* Sets of rows, as numbers of a journal: bits of kinds stay where they were. */
static void sets_of_rows(void **state)
{
    (void)state;
    assert_int_equal(journal_bits(UINT64_C(1) << OP_EMB), 1);
    assert_int_equal(journal_bits(UINT64_C(1) << OP_LM_HEAD), 1 << 21);
    assert_int_equal(journal_bits(UINT64_C(1) << OP_GAP), 1 << KINDS_BEFORE_THE_GAP);
    for (int row = 0; row < JOURNAL_ROWS; row++) {
        const uint64_t set = UINT64_C(1) << row | 1;
        assert_true(journal_rows_of(journal_bits(set)) == set);
        assert_true((uint64_t)(double)journal_bits(set) == journal_bits(set));
    }
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

/* Rows of a calibration round count when the round is complete; visits are those of the session. */
static void rounds_and_sessions(void **state)
{
    struct fixture *f = *state;
    const double began = 1.7e9, spent = 0.25, a[3] = {1, 2, 3}, b[1] = {4};
    size_t at = 0;
    int n;
    open_as(f, "key");
    assert_ok(journal_row(&f->j, 'n', &began, 1, &f->e), &f->e);
    assert_ok(journal_visit(&f->j, 2, 0.5, &f->e), &f->e);
    assert_ok(journal_row(&f->j, 'r', a, 3, &f->e), &f->e);
    assert_ok(journal_row(&f->j, 'r', b, 1, &f->e), &f->e);
    assert_ok(journal_row(&f->j, 'q', &spent, 1, &f->e), &f->e);
    assert_ok(journal_row(&f->j, 'r', b, 1, &f->e), &f->e); /* of a round that did not end */
    journal_close(&f->j);
    open_as(f, "key");
    assert_int_equal(f->j.now[2].visits, 1);
    assert_true(f->j.now[2].spent_s == 0.5);
    const double *v = journal_next(&f->j, 'r', &at, &n);
    assert_true(n == 3 && v[0] == 1 && v[2] == 3);
    v = journal_next(&f->j, 'r', &at, &n);
    assert_true(n == 1 && v[0] == 4);
    assert_null(journal_next(&f->j, 'r', &at, &n));
    assert_ok(journal_row(&f->j, 'n', &began, 1, &f->e), &f->e);
    assert_int_equal(f->j.now[2].visits, 0);
    at = f->j.session_rows;
    assert_null(journal_next(&f->j, 'q', &at, &n));
    at = 0;
    assert_true(journal_next(&f->j, 'q', &at, &n)[0] == 0.25);
    assert_ok(journal_publish(&f->j, &f->e), &f->e);
    struct sv text;
    assert_ok(journal_text(f->a, f->j.path, &text, &f->e), &f->e);
    assert_memory_equal(text.p + text.n - 13, "n 1700000000\n", 13);
    journal_close(&f->j);
}

static void a_session_is_left_out_where_others_measured_the_same(void **state)
{
    struct fixture *f = *state;
    const double began = 1, w[2] = {5, 6}, c[3] = {1, 0.2, 0};
    double op_s[OP_ROWS] = {1};
    const struct host_sample h[] = {{.batch = 4, .host_s = 1}};
    int n;
    open_as(f, "key");
    for (int session = 1; session <= 2; session++) {
        assert_ok(journal_row(&f->j, 'n', &began, 1, &f->e), &f->e);
        op_s[0] = session;
        assert_ok(journal_sample(&f->j, 2, op_s, &f->e), &f->e);
        assert_ok(journal_row(&f->j, 'w', w, 2, &f->e), &f->e);
        assert_ok(journal_host_run(&f->j, 4, h, 1, &f->e), &f->e);
        if (session == 1)
            assert_ok(journal_sample(&f->j, 3, op_s, &f->e), &f->e);
        assert_ok(journal_row(&f->j, 'c', c, 3, &f->e), &f->e);
    }
    journal_close(&f->j);
    open_as(f, "key");
    journal_leave_out(&f->j, 1);
    assert_int_equal(f->j.samples[2].n, 1);
    assert_true(f->j.samples[2].p[0].op_s[0] == 2);
    assert_int_equal(f->j.samples[3].n, 1); /* nobody else has it */
    assert_int_equal(f->j.host.n, 1);
    size_t at = 0, rows = 0;
    while (journal_next(&f->j, 'w', &at, &n))
        rows++;
    assert_int_equal(rows, 1);
    at = rows = 0;
    while (journal_next(&f->j, 'c', &at, &n))
        rows++;
    assert_int_equal(rows, 2);
    journal_close(&f->j);
    open_as(f, "key");
    assert_int_equal(f->j.samples[2].n, 2); /* the file has it all */
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
        "v 7 1\n",
        "v 1\n",
        "c 1 2\n",
        "y 1\n",
        "r 1 2 3\n", /* of a round that did not end */
    };
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        assert_ok(fs_remove_tree(f->dir, &f->e), &f->e);
        write_some(f);
        append(f, tails[i]);
        open_as(f, "key");
        assert_int_equal(f->j.resumed, 2);
        assert_int_equal(f->j.host.n, 2);
        double op_s[OP_ROWS] = {1};
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
        with_dir(samples_without_a_gap),
        with_dir(samples_of_further_rows),
        cmocka_unit_test(sets_of_rows),
        with_dir(another_key_empties_it),
        with_dir(rounds_and_sessions),
        with_dir(a_session_is_left_out_where_others_measured_the_same),
        with_dir(a_bad_tail_is_cut_off),
        with_dir(two_at_once_are_refused),
        with_dir(removal_takes_empty_parents_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
