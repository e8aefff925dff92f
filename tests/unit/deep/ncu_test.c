/* Arguments of ncu; whole commands are in tests/cli/deep_dry_run. */
#include "deep/ncu.h"

#include "support/support.h"

static void names_become_one_exact_expression(void **state)
{
    struct test *t = *state;
    const char *names[] = {"_Z4gemmPf", "a<b>(int*)", "x.y"};
    size_t used;
    assert_string_equal(ncu_regex(t->a, names, 3, &used), "^(_Z4gemmPf|a<b>\\(int\\*\\)|x\\.y)$");
    assert_int_equal(used, 3);
    assert_null(ncu_regex(t->a, names, 0, &used));
}

static void names_beyond_the_limit_are_left_out(void **state)
{
    struct test *t = *state;
    enum { N = 40, LENGTH = 4000 };
    const char *names[N];
    size_t used;
    char *one = arena_alloc(t->a, LENGTH + 1);
    memset(one, 'a', LENGTH);
    for (int i = 0; i < N; i++)
        names[i] = one;
    const char *regex = ncu_regex(t->a, names, N, &used);
    assert_true(used > 4 && used < N);
    assert_true(strlen(regex) <= NCU_REGEX_BYTES + 2);
}

static void ranges_in_its_syntax(void **state)
{
    struct test *t = *state;
    assert_string_equal(ncu_range(t->a, "decode"), "decode/");
    assert_string_equal(ncu_range(t->a, "a/b@c"), "a\\/b\\@c/");
    assert_string_equal(ncu_range(t->a, "step*"), "regex:step.*/");
    assert_string_equal(ncu_range(t->a, "s.?"), "regex:s\\../");
}

static void unknown_metrics_are_left_out(void **state)
{
    struct test *t = *state;
    const char *wanted[] = {"dram__bytes_read.sum", "sm__new_thing.sum",
                            "launch__registers_per_thread"};
    struct texts w = {wanted, 3};
    const char *counters = "Device NVIDIA H200 (GH100)\n"
                           "dram__bytes_read       Counter  byte   # of bytes read\n";
    struct texts known = ncu_known(t->a, w, counters, "launch__registers_per_thread  register\n");
    assert_int_equal(known.n, 2);
    assert_string_equal(known.items[1], "launch__registers_per_thread");
    assert_int_equal(ncu_known(t->a, w, "", "").n, 3);
}

static void an_argument_a_line(void **state)
{
    struct test *t = *state;
    struct argv v = {.a = t->a};
    struct buf out = {0};
    argv_add(&v, "a b");
    argv_add(&v, "c\"d'\\");
    argv_add(&v, "e\nf");
    argv_option(&v, "--none", NULL);
    argv_joined(&v, "--empty", (struct texts){NULL, 0});
    argv_print(&out, &v);
    assert_string_equal(out.p, "a b\nc\"d'\\\\\ne\\nf\n");
    assert_null(argv_words(&v)[3]);
    buf_free(&out);
}

static void one_line_is_the_same_words_to_a_shell(void **state)
{
    struct test *t = *state;
    const char *const words[] = {"python3", "my script.py", "it's", "--size=1,2", "$HOME", ""};
    assert_string_equal(argv_line(t->a, (struct texts){words, 6}),
                        "python3 'my script.py' 'it'\\''s' --size=1,2 '$HOME' ''");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(names_become_one_exact_expression),
        TEST(names_beyond_the_limit_are_left_out),
        TEST(ranges_in_its_syntax),
        TEST(unknown_metrics_are_left_out),
        TEST(an_argument_a_line),
        TEST(one_line_is_the_same_words_to_a_shell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
