#include "search/search_journal.h"

#include "base/fs.h"
#include "support/support.h"

enum { N = 3 };

static struct search_journal opened(struct test *t, const char *id)
{
    struct search_journal j;
    assert_ok(search_journal_open(t->a, test_path(t, "sub/.j"), id, N, &j, &t->e), t);
    return j;
}

static void what_is_done_is_there_again(void **state)
{
    struct test *t = *state;
    struct search_journal j = opened(t, "search_1");
    assert_ok(search_journal_add(t->a, &j, 2, SV("{\"x\": 0.1}"), &t->e), t);
    assert_ok(search_journal_add(t->a, &j, 0, SV("{\"x\": 7}"), &t->e), t);
    search_journal_close(&j, false);
    j = opened(t, "search_1");
    assert_int_equal(j.done, 2);
    assert_null(j.results[1]);
    assert_int_equal(node_find(j.results[0], "x")->i, 7);
    assert_near(node_find(j.results[2], "x")->f, 0.1, 0);
    search_journal_close(&j, true);
    assert_false(fs_exists(test_path(t, "sub/.j")));
}

static void a_line_cut_off_is_dropped(void **state)
{
    struct test *t = *state;
    struct search_journal j = opened(t, "search_1");
    assert_ok(search_journal_add(t->a, &j, 1, SV("{\"x\": 1}"), &t->e), t);
    search_journal_close(&j, false);
    const char *whole = test_read(t, test_path(t, "sub/.j"));
    test_write(t, "sub/.j", arena_printf(t->a, "%s{\"job\": 2, \"resu", whole));
    j = opened(t, "search_1");
    assert_int_equal(j.done, 1);
    assert_ok(search_journal_add(t->a, &j, 2, SV("{\"x\": 2}"), &t->e), t);
    search_journal_close(&j, false);
    assert_string_equal(test_read(t, test_path(t, "sub/.j")),
                        arena_printf(t->a, "%s{\"job\": 2, \"result\": {\"x\": 2}}\n", whole));
}

static void another_search_begins_anew(void **state)
{
    struct test *t = *state;
    struct search_journal j = opened(t, "search_1");
    assert_ok(search_journal_add(t->a, &j, 1, SV("{\"x\": 1}"), &t->e), t);
    assert_false(j.other);
    search_journal_close(&j, false);
    j = opened(t, "search_2");
    assert_true(j.other);
    assert_int_equal(j.done, 0);
    search_journal_close(&j, false);
    assert_string_equal(test_read(t, test_path(t, "sub/.j")),
                        "{\"jobs\": 3, \"search\": \"search_2\", \"version\": \"" TW_VERSION
                        "\"}\n");
}

static void foreign_lines_end_it(void **state)
{
    static const char *const lines[] = {"{\"job\": 3, \"result\": {}}", "{\"job\": 1}",
                                        "{\"job\": -1, \"result\": {}}", "[]", "x"};
    struct test *t = *state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct node *results[N] = {0};
        size_t keep;
        const char *head = "{\"jobs\": 3, \"search\": \"s\", \"version\": \"" TW_VERSION "\"}\n"
                           "{\"job\": 0, \"result\": {}}\n";
        const char *text =
            arena_printf(t->a, "%s%s\n{\"job\": 2, \"result\": {}}\n", head, lines[i]);
        search_journal_parse(t->a, sv_of(text), "s", results, N, &keep);
        assert_int_equal(keep, strlen(head));
        assert_non_null(results[0]);
        assert_null(results[2]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_done_is_there_again),
        TEST(a_line_cut_off_is_dropped),
        TEST(another_search_begins_anew),
        TEST(foreign_lines_end_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
