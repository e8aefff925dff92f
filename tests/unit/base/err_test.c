#include "support/support.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void a_chain_is_printed_outermost_first(void **state)
{
    struct test *t = *state;
    err_at(&t->e, ST_INPUT, "a.csv", 7, 3, "%d is below the minimum 1", -4);
    err_add(&t->e, "cannot read the workload");
    err_add(&t->e, "simulate");
    err_hint(&t->e, "lengths are counts");
    err_hint(&t->e, "a later hint");
    assert_err(t->e.st, ST_INPUT, t,
               "simulate\ncannot read the workload\na.csv:7:3: -4 is below the minimum 1\n"
               "hint: lengths are counts");
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    err_print(&t->e, "twinfer", f);
    fclose(f);
    assert_string_equal(text, "twinfer: simulate\n"
                              "  because: cannot read the workload\n"
                              "  because: a.csv:7:3: -4 is below the minimum 1\n"
                              "  hint: lengths are counts\n");
    free(text);
    assert_null(err_cause(&t->e, 3));
    assert_null(err_cause(&t->e, -1));
}

static void places_leave_out_what_is_zero(void **state)
{
    struct test *t = *state;
    assert_err(err_at(&t->e, ST_INPUT, "f", 2, 0, "x"), ST_INPUT, t, "f:2: x");
    assert_err(err_at(&t->e, ST_USAGE, "f", 0, 0, "x"), ST_USAGE, t, "f: x");
}

static void set_starts_a_new_chain(void **state)
{
    struct test *t = *state;
    err_set(&t->e, ST_INPUT, "old");
    err_hint(&t->e, "old hint");
    assert_err(err_set(&t->e, ST_DEVICE, "new"), ST_DEVICE, t, "new");
    err_clear(&t->e);
    assert_int_equal(t->e.st, ST_OK);
    assert_null(err_cause(&t->e, 0));
    assert_null(err_hint_text(&t->e));
}

static void errno_decides_between_input_and_io(void **state)
{
    struct test *t = *state;
    errno = ENOENT;
    assert_err(err_errno(&t->e, true, "cannot open %s", "x"), ST_INPUT, t,
               "cannot open x: No such file or directory");
    errno = ENOENT;
    assert_int_equal(err_errno(&t->e, false, "x"), ST_IO);
    errno = ENOSPC;
    assert_err(err_errno(&t->e, false, "cannot write x"), ST_IO, t,
               "cannot write x: No space left on device");
    errno = EMFILE;
    assert_int_equal(err_errno(&t->e, true, "x"), ST_IO);
}

static void too_much_text_is_cut(void **state)
{
    struct test *t = *state;
    char *big = arena_alloc(t->a, 5001);
    memset(big, 'x', 5000);
    err_set(&t->e, ST_INPUT, "%s", big);
    size_t n = strlen(err_cause(&t->e, 0));
    assert_true(n < ERR_TEXT_BYTES);
    assert_string_equal(err_cause(&t->e, 0) + n - 4, "x...");
    for (int i = 0; i < 30; i++)
        err_add(&t->e, "cause %d", i);
    assert_int_equal(err_add(&t->e, "more"), ST_INPUT);
    assert_true(t->e.n <= ERR_MAX_CAUSES);
    err_at(&t->e, ST_INPUT, "f", 1, 1, "%s", big);
    n = strlen(err_cause(&t->e, 0));
    assert_string_equal(err_cause(&t->e, 0) + n - 4, "x...");
}

static void more_causes_than_fit_are_left_out(void **state)
{
    struct test *t = *state;
    err_set(&t->e, ST_INPUT, "first");
    for (int i = 0; i < 30; i++)
        err_add(&t->e, "cause %d", i);
    assert_int_equal(t->e.n, ERR_MAX_CAUSES);
    assert_string_equal(err_cause(&t->e, ERR_MAX_CAUSES - 1), "first");
}

static void quoted_input_cannot_reach_the_terminal(void **state)
{
    struct test *t = *state;
    assert_err(err_set(&t->e, ST_INPUT, "'a\x1b[2J\n\x7f\xc2\x9b' \xc3\xa9 \xff \xe2\x82"),
               ST_INPUT, t, "'a?[2J?\?\?\?' \xc3\xa9 ? ??");
    err_hint(&t->e, "h\r");
    assert_string_equal(err_hint_text(&t->e), "h?");
}

static void exit_codes(void **state)
{
    (void)state;
    assert_int_equal(err_exit_code(ST_OK), 0);
    assert_int_equal(err_exit_code(ST_END), 0);
    assert_int_equal(err_exit_code(ST_USAGE), 2);
    assert_int_equal(err_exit_code(ST_INPUT), 3);
    assert_int_equal(err_exit_code(ST_IO), 3);
    assert_int_equal(err_exit_code(ST_DEVICE), 4);
    assert_int_equal(err_exit_code(ST_REJECTED), 5);
    assert_int_equal(err_exit_code(ST_INTERRUPTED), 130);
}

static void a_bug_ends_with_70(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        fclose(stderr);
        ASSERT(1 + 1 == 3);
        _Exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 70);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_chain_is_printed_outermost_first),
        TEST(places_leave_out_what_is_zero),
        TEST(set_starts_a_new_chain),
        TEST(errno_decides_between_input_and_io),
        TEST(too_much_text_is_cut),
        TEST(more_causes_than_fit_are_left_out),
        TEST(quoted_input_cannot_reach_the_terminal),
        TEST(exit_codes),
        TEST(a_bug_ends_with_70),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
