#include "search/space.h"

#include "support/support.h"
#include "text/yaml.h"

static const struct node *map_of(struct test *t, const char *yaml)
{
    struct node *n;
    assert_ok(yaml_parse(t->a, "s.yaml", sv_of(yaml), &n, &t->e), t);
    return n;
}

static void every_combination_has_its_words(void **state)
{
    struct test *t = *state;
    struct space s;
    assert_ok(space_read(t->a,
                         map_of(t, "scheduler: {group: [vllm, sarathi], chunk_size: [null, 512]}\n"
                                   "parallel.tp: [1, 2, 4]\nx.name: \"it's, so\"\ny: 0.5\n"),
                         &s, &t->e),
              t);
    assert_int_equal(s.n_axes, 5);
    assert_int_equal(s.n, 12);
    assert_string_equal(s.axes[0].words[1], "scheduler=sarathi");
    assert_null(s.axes[1].words[0]);
    assert_string_equal(s.axes[1].words[1], "scheduler.chunk_size=512");
    assert_string_equal(s.axes[2].words[2], "parallel.tp=4");
    assert_string_equal(s.axes[3].words[0], "x.name='it\\'s, so'");
    assert_string_equal(s.axes[4].words[0], "y=0.5");
    size_t seen = 0;
    for (size_t i = 0; i < s.n; i++) {
        size_t back = (space_at(&s, i, 0) * 2 + space_at(&s, i, 1)) * 3 + space_at(&s, i, 2);
        assert_int_equal(space_at(&s, i, 3), 0);
        seen += back == i;
    }
    assert_int_equal(seen, 12);
}

static void what_cannot_be_tried_is_named(void **state)
{
    static const struct {
        const char *yaml, *text;
    } rows[] = {
        {"{}", "search.space is empty: there is nothing to try\n"
               "hint: +search.space.scheduler.group=[vllm,sarathi] "
               "+search.space.scheduler.batch_cap=[32,128], or a map of lists in a file for "
               "--config-name"},
        {"a: []", "s.yaml:1:4: search.space: a has no values to try"},
        {"a: [1, [2]]", "s.yaml:1:8: search.space: a: a value to try must be a scalar, not a list"},
        {"a.b: 1\na: {b: 2}", "s.yaml:2:8: search.space: a.b is given twice"},
        {"a: [1,2,3,4,5,6,7,8,9,10]\nb: [1,2,3,4,5,6,7,8,9,10]\nc: [1,2,3,4,5,6,7,8,9,10]\n"
         "d: [1,2,3,4,5,6,7,8,9,10]\ne: [1, 2]",
         "s.yaml:5:4: search.space: more than 10000 combinations"},
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct space s;
        err_clear(&t->e);
        assert_err(space_read(t->a, map_of(t, rows[i].yaml), &s, &t->e), ST_USAGE, t, rows[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_combination_has_its_words),
        TEST(what_cannot_be_tried_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
