#include "inject/settings.h"

#include <stdio.h>
#include <unistd.h>

#include "support/support.h"

static void a_file_is_read_line_by_line(void **state)
{
    struct test *t = *state;
    const char *path = test_write(t, "s",
                                  "# a comment\n dir=/tmp/x\ngraphs=graph # here too\n"
                                  "api=all\r\n\nring_events=1000\nbuffer_kb=128\n"
                                  "delay_ms=250\nrange=a@*,b,c@d\nsync=0");
    struct settings s;
    assert_true(inject_settings_read(&s, path));
    assert_string_equal(s.complaint, "");
    assert_string_equal(s.dir, "/tmp/x");
    assert_int_equal(s.graphs, TRACE_GRAPHS_WHOLE);
    assert_int_equal(s.api, TRACE_API_ALL);
    assert_int_equal(s.ring_events, 1024);
    assert_int_equal(s.buffer_bytes, 131072);
    assert_int_equal(s.delay_ns, 250000000);
    assert_int_equal(s.patterns.n, 3);
    assert_string_equal(s.patterns.list[0].domain, "*");
    assert_string_equal(s.patterns.list[1].range, "b");
    assert_string_equal(s.patterns.list[1].domain, "");
    assert_string_equal(s.patterns.list[2].domain, "d");
    assert_false(s.sync);
    assert_true(s.kernels);
}

static void a_folder_alone_means_defaults(void **state)
{
    struct test *t = *state;
    struct settings s;
    assert_true(inject_settings_read(&s, test_dir(t)));
    assert_string_equal(s.dir, test_dir(t));
    assert_true(s.kernels && s.copies && s.sync && s.nvtx && s.launches &&
                s.graphs == TRACE_GRAPHS_NODE);
}

static void a_backslash_takes_the_meaning(void **state)
{
    struct test *t = *state;
    struct settings s;
    assert_true(
        inject_settings_read(&s, test_write(t, "s",
                                            "dir=/tmp/a\\#b\\\\c, d@e # a comment\n"
                                            "range=step\\#1\\, warm@*,user\\@host@a\\@b,c:\\x")));
    assert_string_equal(s.complaint, "");
    assert_string_equal(s.dir, "/tmp/a#b\\c, d@e");
    assert_int_equal(s.patterns.n, 3);
    assert_string_equal(s.patterns.list[0].range, "step#1, warm");
    assert_string_equal(s.patterns.list[0].domain, "*");
    assert_string_equal(s.patterns.list[1].range, "user@host");
    assert_string_equal(s.patterns.list[1].domain, "a@b");
    assert_string_equal(s.patterns.list[2].range, "c:\\x");
    assert_string_equal(s.patterns.list[2].domain, "");
}

static void a_folder_is_absolute_from_then_on(void **state)
{
    struct test *t = *state;
    struct settings s;
    char cwd[512], want[600];
    assert_non_null(getcwd(cwd, sizeof cwd));
    assert_true(inject_settings_read(&s, test_write(t, "s", "dir=runs/x\n")));
    snprintf(want, sizeof want, "%s/runs/x", cwd);
    assert_string_equal(s.dir, want);
    assert_true(inject_settings_read(&s, "tests"));
    snprintf(want, sizeof want, "%s/tests", cwd);
    assert_string_equal(s.dir, want);
}

static void without_a_folder_there_is_nothing_to_do(void **state)
{
    struct test *t = *state;
    struct settings s;
    assert_false(inject_settings_read(&s, NULL));
    assert_false(inject_settings_read(&s, ""));
    assert_false(inject_settings_read(&s, "/nonexistent"));
    assert_false(inject_settings_read(&s, test_write(t, "s", "kernels=1\n")));
}

static void the_first_bad_line_is_kept(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"colour", "red"},  {"kernels", "yes"},
        {"graphs", "all"},  {"api", ""},
        {"delay_ms", "-1"}, {"delay_ms", "1.5"},
        {"buffer_kb", "1"}, {"buffers", "1"},
        {"range", "@x"},    {"flush_ms", "99999999999999999999"},
        {"buffers", ""},    {"range", "a,b,c,d,e,f,g,h,i"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct settings s = {.max_buffers = 7};
        assert_false(inject_settings_set(&s, bad[i][0], bad[i][1]));
        char want[256];
        snprintf(want, sizeof want, "setting not understood: %s=%s", bad[i][0], bad[i][1]);
        assert_string_equal(s.complaint, want);
        assert_int_equal(s.max_buffers, 7);
        assert_int_equal(s.patterns.n, 0);
    }
}

static void stars_match_any_run(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *text;
        bool match;
    } rows[] = {
        {"*", "", true},
        {"*", "abc", true},
        {"a*c", "abbbc", true},
        {"a*c", "abcd", false},
        {"", "", true},
        {"", "a", false},
        {"a**b", "ab", true},
        {"*b*", "abc", true},
        {"*bc", "abcbc", true},
        {"decode", "decode", true},
        {"decode", "decoder", false},
        {"a*b*c", "a_b_b_c", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(inject_settings_match(rows[i].pattern, rows[i].text, strlen(rows[i].text)),
                         rows[i].match);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_file_is_read_line_by_line),
        TEST(a_folder_alone_means_defaults),
        TEST(a_folder_is_absolute_from_then_on),
        TEST(a_backslash_takes_the_meaning),
        TEST(without_a_folder_there_is_nothing_to_do),
        TEST(the_first_bad_line_is_kept),
        TEST(stars_match_any_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
