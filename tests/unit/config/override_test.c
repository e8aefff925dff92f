#include "config/override.h"
#include "unit/config/fixture.h"

static void the_sign_tells_the_kind(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *typed, *key, *package, *text;
        enum override_kind kind;
        bool has_value;
    } rows[] = {
        {"a.b=4", "a.b", NULL, "4", OVERRIDE_SET, true},
        {"+a= 4 ", "a", NULL, "4", OVERRIDE_ADD, true},
        {"++a=", "a", NULL, "", OVERRIDE_FORCE, true},
        {"~a/b", "a/b", NULL, "", OVERRIDE_REMOVE, false},
        {"~a=x=y", "a", NULL, "x=y", OVERRIDE_REMOVE, true},
        {"db@x.y=z", "db", "x.y", "z", OVERRIDE_SET, true},
        {"a=b@c", "a", NULL, "b@c", OVERRIDE_SET, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct override o;
        assert_ok(override_parse(t->a, rows[i].typed, &o, &t->e), t);
        assert_int_equal(o.kind, rows[i].kind);
        assert_int_equal(o.has_value, rows[i].has_value);
        assert_string_equal(o.key, rows[i].key);
        if (rows[i].package)
            assert_string_equal(o.package, rows[i].package);
        else
            assert_null(o.package);
        assert_sv(o.text, rows[i].text);
    }
}

static void a_bad_key_is_named(void **state)
{
    struct test *t = *state;
    static const char *const rows[][2] = {
        {"seed", "'seed': there is no '='"},
        {"", "'': there is no '='"},
        {"=1", "'=1': the key is empty"},
        {"~", "'~': the key is empty"},
        {"a@=1", "'a@=1': the key is empty"},
        {"a..b=1", "'a..b=1': the key has an empty part"},
        {".a=1", "'.a=1': the key has an empty part"},
        {"a/=1", "'a/=1': the key has an empty part"},
        {"a b=1", "'a b=1': the key has a character that no key has"},
        {"--seed=1,2", NULL}, /* a flag is no key, but nothing forbids its characters */
        {"{a}=1", "'{a}=1': the key has a character that no key has"},
        {"+++a=1", "'+++a=1': the key has a character that no key has"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct override o;
        enum st st = override_parse(t->a, rows[i][0], &o, &t->e);
        if (!rows[i][1])
            assert_ok(st, t);
        else
            assert_err(st, ST_USAGE, t,
                       arena_printf(t->a,
                                    "command line: %s\nhint: overrides are key=value, "
                                    "+key=value, ++key=value or ~key",
                                    rows[i][1]));
    }
    struct override o;
    assert_err(override_parse(t->a, "out=a\xff", &o, &t->e), ST_USAGE, t,
               "command line: 'out=a...': byte 6 is not valid UTF-8");
}

static const char *value_text(struct test *t, const char *text, enum value_style style)
{
    struct override o;
    struct node *n;
    assert_ok(override_parse(t->a, arena_printf(t->a, "k=%s", text), &o, &t->e), t);
    assert_ok(override_value(t->a, &o, style, &n, &t->e), t);
    assert_string_equal(n->source, "command line");
    struct node *wrap = node_new(t->a, NODE_MAP);
    node_set(t->a, wrap, SV("k"), n);
    struct buf b = {0};
    yaml_write(&b, wrap);
    const char *s = arena_strn(t->a, b.p, b.n - 1);
    buf_free(&b);
    return s + strlen("k:");
}

static void a_value_has_the_kind_it_spells(void **state)
{
    struct test *t = *state;
    static const char *const rows[][2] = {
        {"4", " 4"},
        {"-0", " 0"},
        {"1e3", " 1000.0"},
        {"007", " 7"},
        {"9223372036854775808", " 9.223372036854776e+18"},
        {"true", " true"},
        {"null", " null"},
        {"a b", " a b"},
        {"'4'", " '4'"},
        {"'it\\'s'", " 'it''s'"},
        {"\"a'b\"", " 'a''b'"},
        {"'\\\\x'", " '\\x'"},
        {"x\\,y\\[\\]\\{", " 'x,y[]{'"},
        {"\\4", " '\\4'"},
        {"1\\ 2", " '1 2'"},
        {"it's", " 'it''s'"},
        {"[]", " []"},
        {"{}", " {}"},
        {"[1, [a, 'b,c'], {x: 1}]", "\n  - 1\n  - - a\n    - 'b,c'\n  - x: 1"},
        {"{a: 1, 'b c': {d: [x]}}", "\n  a: 1\n  b c:\n    d:\n      - x"},
        {"${a.b}", " '${a.b}'"},
        {"${oc.env:X,'a}b'}/x", " '${oc.env:X,''a}b''}/x'"},
        {"[${oc.env:X,1},2]", "\n  - '${oc.env:X,1}'\n  - 2"},
        {"\\${a}", " '\\${a}'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *got = value_text(t, rows[i][0], VALUE_TYPED);
        if (strcmp(got, rows[i][1]) != 0)
            print_error("%s:\n%s\n", rows[i][0], got);
        assert_string_equal(got, rows[i][1]);
    }
}

static void text_stays_text_where_it_is_wanted(void **state)
{
    struct test *t = *state;
    assert_string_equal(value_text(t, "007", VALUE_TEXT), " '007'");
    assert_string_equal(value_text(t, "true", VALUE_TEXT), " 'true'");
    assert_string_equal(value_text(t, "null", VALUE_TEXT), " null");
    assert_string_equal(value_text(t, "'null'", VALUE_TEXT), " 'null'");
    assert_string_equal(value_text(t, "a,1,b", VALUE_LIST), " 'a,1,b'");
    assert_string_equal(value_text(t, "[1,b]", VALUE_LIST), "\n  - '1'\n  - b");
}

static void a_bad_value_is_named_with_its_place(void **state)
{
    struct test *t = *state;
    static const char sweep[] = "\nhint: -m runs one job for each; if the comma belongs to the "
                                "value, quote it: k=\"'...'\"";
    static const struct {
        const char *text, *error;
        bool sweep;
    } rows[] = {
        {"[1", "'[' is not closed at character 1 of [1", false},
        {"[1 2", "'[' is not closed at character 1 of [1 2", false},
        {"[1,]", "a value is missing at character 4 of [1,]", false},
        {"[1]]", "unexpected text after the value at character 4 of [1]]", false},
        {"'x", "a quote is not closed at character 1 of 'x", false},
        {"'x'y", "unexpected text after the value at character 4 of 'x'y", false},
        {"{a: 1", "'{' is not closed at character 1 of {a: 1", false},
        {"{a}", "a key without ': value' at character 2 of {a}", false},
        {"{: 1}", "a value is missing at character 2 of {: 1}", false},
        {"{null: 1}", "a key must be text at character 2 of {null: 1}", false},
        {"{a: 1, a: 2}", "a key stands twice at character 8 of {a: 1, a: 2}", false},
        {"${a", "'${' is not closed at character 1 of ${a", false},
        {"1,2", "'1,2' is a sweep over several values", true},
        {"choice(1)", "'choice(1)' is a sweep over several values", true},
        {"range(2)", "'range(2)' is a sweep over several values", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct override o;
        struct node *n;
        assert_ok(override_parse(t->a, arena_printf(t->a, "k=%s", rows[i].text), &o, &t->e), t);
        assert_err(
            override_value(t->a, &o, VALUE_TYPED, &n, &t->e), ST_USAGE, t,
            arena_printf(t->a, "command line: k: %s%s", rows[i].error, rows[i].sweep ? sweep : ""));
    }
}

static void deep_nesting_is_refused(void **state)
{
    struct test *t = *state;
    char text[200] = "k=";
    memset(text + 2, '[', 100);
    struct override o;
    struct node *n;
    assert_ok(override_parse(t->a, text, &o, &t->e), t);
    assert_int_equal(override_value(t->a, &o, VALUE_TYPED, &n, &t->e), ST_USAGE);
    assert_non_null(strstr(err_cause(&t->e, 0), "too deeply nested at character 33 of ["));
}

/* What is printed to be typed reads back as it was, by a shell and then here. */
static void words_read_back(void **state)
{
    struct test *t = *state;
    static const char *const texts[] = {"runs/a", "a,b", "it's", "a b", "$(x)", "[x]", "k=v"};
    enum { N = sizeof texts / sizeof *texts };
    struct buf word = {0}, list = {0};
    override_word(&word, "out", "runs/a");
    assert_string_equal(word.p, "out=runs/a");
    override_list_word(&list, "report.inputs", texts, 1);
    assert_string_equal(list.p, "report.inputs='[runs/a]'");
    buf_clear(&list);
    override_list_word(&list, "k", texts, N);
    buf_clear(&word);
    buf_printf(&word, "printf %%s %s", list.p);
    FILE *sh = popen(word.p, "r");
    char typed[256] = "";
    assert_non_null(sh);
    assert_true(fread(typed, 1, sizeof typed - 1, sh) > 0);
    pclose(sh);
    struct override o;
    struct node *n;
    assert_ok(override_parse(t->a, typed, &o, &t->e), t);
    assert_ok(override_value(t->a, &o, VALUE_LIST, &n, &t->e), t);
    assert_int_equal(n->n, N);
    for (size_t i = 0; i < N; i++)
        assert_string_equal(n->items[i]->s.p, texts[i]);
    buf_free(&word);
    buf_free(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(words_read_back),
        TEST(the_sign_tells_the_kind),
        TEST(a_bad_key_is_named),
        TEST(a_value_has_the_kind_it_spells),
        TEST(text_stays_text_where_it_is_wanted),
        TEST(a_bad_value_is_named_with_its_place),
        TEST(deep_nesting_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
