/* Templates against what Jinja2 made of them (tests/golden/chat), and what is refused. */
#include "text/jinja.h"

#include "support/support.h"
#include "text/json.h"

static enum st render(struct test *t, const char *template, const struct node *variables,
                      struct buf *out)
{
    struct jinja *program;
    TRY(jinja_parse(t->a, "t", sv_of(template), &program, &t->e));
    return jinja_render(t->a, program, variables, out, &t->e);
}

static void templates_give_jinjas_text(void **state)
{
    struct test *t = *state;
    const char *all = test_read(t, TW_SOURCE_DIR "/tests/golden/chat/cases.jsonl");
    int n = 0, refused = 0;
    for (const char *line = all, *end; *line; line = end + 1, n++) {
        struct node *c;
        struct buf text = {0};
        end = strchr(line, '\n');
        assert_non_null(end);
        const struct sv one = {line, (size_t)(end - line)};
        assert_ok(json_parse(t->a, "cases.jsonl", one, NULL, &c, &t->e), t);
        const struct node *want = node_find(c, "text");
        const enum st st =
            render(t, node_find(c, "template")->s.p, node_find(c, "variables"), &text);
        if (want) {
            assert_ok(st, t);
            if (strcmp(buf_str(&text), want->s.p) != 0)
                fail_msg("case %d: '%s' instead of '%s'", n + 1, buf_str(&text), want->s.p);
        } else {
            assert_int_equal(st, ST_INPUT);
            refused++;
        }
        err_clear(&t->e);
        buf_free(&text);
    }
    assert_int_equal(n, 42);
    assert_int_equal(refused, 4);
}

static void what_is_not_done_is_named_when_read(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *template, *text;
    } rows[] = {
        {"{% macro f() %}{% endmacro %}", "t:1:4: tag macro: not done here"},
        {"{% include 'x' %}", "t:1:4: tag include: not done here"},
        {"a\n {{ a|nofilter }}", "t:2:7: filter nofilter: not done here"},
        {"{{ x is nothing }}", "t:1:9: test nothing: not done here"},
        {"{{ f(1) }}", "t:1:4: function f: not done here"},
        {"{{ 'a'.format(1) }}", "t:1:8: method format: not done here"},
        {"{{ 'a'|trim(1, 2) }}", "t:1:8: filter trim: takes 1 arguments at most"},
        {"{{ (a)(1) }}", "t:1:7: only names can be called here"},
        {"{% for x in y %}", "t:1:17: the text ends where else was expected"},
        {"{% for x in y recursive %}{% endfor %}", "t:1:15: expected '%}'"},
        {"{% if x %}{% else %}{% endfor %}", "t:1:24: tag endfor: not done here"},
        {"{{ 'a", "t:1:4: a text without an end"},
        {"{# x", "t:1:1: a comment without an end"},
        {"{{ 1 +", "t:1:7: expected a name"},
        {"{{ [1,2 }}", "t:1:9: expected ','"},
        {"{{ a b }}", "t:1:6: expected '}}'"},
        {"{{ a[] }}", "t:1:6: expected an index"},
        {"{{ 99999999999999999999 }}", "t:1:4: a number that is too large"},
        {"{{ '\\ud800' }}", "t:1:11: an escape of no character"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct jinja *program;
        err_clear(&t->e);
        assert_err(jinja_parse(t->a, "t", sv_of(rows[i].template), &program, &t->e), ST_INPUT, t,
                   rows[i].text);
    }
    struct buf deep = {0};
    buf_puts(&deep, "{{ ");
    for (int i = 0; i < 100; i++)
        buf_putc(&deep, '(');
    struct jinja *program;
    err_clear(&t->e);
    assert_err(jinja_parse(t->a, "t", (struct sv){deep.p, deep.n}, &program, &t->e), ST_INPUT, t,
               "t:1:35: nested more than 64 deep");
    buf_free(&deep);
}

static void what_has_no_meaning_is_named_when_run(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *template, *text;
    } rows[] = {
        {"{{ a.b.c }}", "t:1:10: an undefined value has no members"},
        {"{{ 'a' + 1 }}", "t:1:9: a string + an integer has no meaning"},
        {"{{ 1 // 0 }}", "t:1:8: a division by 0"},
        {"{{ 9223372036854775807 + 1 }}", "t:1:25: a number that is too large"},
        {"{{ [1] }}", "t:1:5: a list is printed: tojson makes a text of it"},
        {"{% set x = 1 %}{% set x.y = 2 %}", "t:1:29: set: x is no namespace"},
        {"{{ 'a'[::2] }}", "t:1:8: a slice of a text goes up by 1"},
        {"{{ raise_exception('roles') }}", "roles"},
        /* what never ends, or grows without end */
        {"{% for x in range(9000) %}{% for y in range(9000) %}{{ y }}{% endfor %}{% endfor %}",
         "t:1:58: the template runs for too long"},
        {"{% set n = namespace(s='aaaaaaaa') %}{% for i in range(99) %}{% set n.s = n.s + n.s %}"
         "{% endfor %}",
         "t:1:80: the template runs for too long"},
        {"{% set n = namespace() %}{% set n.a = n %}{% set n.b = n %}{{ n|tojson }}",
         "t:1:71: tojson: of lists that hold themselves, or too much"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf text = {0};
        struct node *variables = node_new(t->a, NODE_MAP);
        node_set(t->a, variables, SV("a"), node_new(t->a, NODE_MAP));
        err_clear(&t->e);
        assert_err(render(t, rows[i].template, variables, &text), ST_INPUT, t, rows[i].text);
        buf_free(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(templates_give_jinjas_text),
                                       TEST(what_is_not_done_is_named_when_read),
                                       TEST(what_has_no_meaning_is_named_when_run)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
