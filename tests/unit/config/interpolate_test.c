#include "config/interpolate.h"

#include <stdlib.h>

#include "unit/config/fixture.h"

static enum st resolved(struct test *t, const char *yaml, struct node **root)
{
    assert_ok(yaml_parse(t->a, "c.yaml", sv_of(yaml), root, &t->e), t);
    return config_interpolate(t->a, *root, &t->e);
}

static void becomes(struct test *t, const char *yaml, const char *want)
{
    struct node *root;
    assert_ok(resolved(t, yaml, &root), t);
    struct buf b = {0};
    yaml_write(&b, root);
    assert_string_equal(buf_str(&b), want);
    buf_free(&b);
}

static void a_whole_interpolation_keeps_its_kind(void **state)
{
    struct test *t = *state;
    becomes(t, "a: ${b}\nb: 4\n", "a: 4\nb: 4\n");
    becomes(t, "a: ${b}\nb: {c: [1, '${d}']}\nd: 2.0\n",
            "a:\n  c:\n    - 1\n    - 2.0\nb:\n  c:\n    - 1\n    - 2.0\nd: 2.0\n");
    becomes(t, "a: ${ b }\nb: null\n", "a: null\nb: null\n");
}

static void text_takes_scalars(void **state)
{
    struct test *t = *state;
    becomes(t, "a: x-${b}-${c}-${d}-${e}\nb: 1\nc: 2.0\nd: false\ne: s\n",
            "a: x-1-2.0-False-s\nb: 1\nc: 2.0\nd: false\ne: s\n");
}

static void keys_are_found(void **state)
{
    struct test *t = *state;
    becomes(t, "a: {b: [x, {c: y}]}\nd: ${a.b.0}${a.b[1].c}\n",
            "a:\n  b:\n    - x\n    - c: 'y'\nd: xy\n");
    becomes(t, "a: {b: '${.c}', c: 1, d: {e: '${..c}'}}\n", "a:\n  b: 1\n  c: 1\n  d:\n    e: 1\n");
    becomes(t, "a: ${b}\nb: {c: 1}\nd: ${a.c}\n", "a:\n  c: 1\nb:\n  c: 1\nd: 1\n");
    becomes(t, "a: ${x.${y}}\nx: {k: 1}\ny: k\n", "a: 1\nx:\n  k: 1\n'y': k\n");
    becomes(t, "a: ${${y}}\nb: 3\ny: b\n", "a: 3\nb: 3\n'y': b\n");
}

/* A row of the option table that nothing set has its default, or is unset. */
static void an_option_that_is_not_in_the_tree_is_known(void **state)
{
    struct test *t = *state;
    becomes(t, "a: ${compare.pass_percent}\nb: ${model.ref}\nc: ${cluster.router}\n",
            "a: 5\nb: null\nc: round_robin\n");
}

static void a_backslash_makes_it_literal(void **state)
{
    struct test *t = *state;
    becomes(t, "a: \\${b}\nb: 1\n", "a: '${b}'\nb: 1\n");
    becomes(t, "a: \\\\${b}\nb: 1\n", "a: '\\1'\nb: 1\n");
    becomes(t, "a: \\\\\\${b}\nb: 1\n", "a: '\\${b}'\nb: 1\n");
    becomes(t, "a: \\b\n", "a: '\\b'\n");
    /* a literal that is copied stays one */
    becomes(t, "a: ${b}\nb: {c: '\\${d}'}\ne: ${a.c}\n",
            "a:\n  c: '${d}'\nb:\n  c: '${d}'\ne: '${d}'\n");
}

static void the_environment_is_text(void **state)
{
    struct test *t = *state;
    setenv("TWINFER_TEST_VALUE", "${b}", 1);
    unsetenv("TWINFER_TEST_NONE");
    becomes(t, "a: ${oc.env:TWINFER_TEST_VALUE}\n", "a: '${b}'\n");
    becomes(t, "a: ${oc.env:TWINFER_TEST_NONE, 7}\n", "a: '7'\n");
    becomes(t, "a: ${oc.env:TWINFER_TEST_NONE,'a, b'}\n", "a: 'a, b'\n");
    becomes(t, "a: ${oc.env:TWINFER_TEST_NONE,a\\,b\\}}\n", "a: 'a,b}'\n");
    becomes(t, "a: ${oc.env:TWINFER_TEST_NONE,${b}x}\nb: 1\n", "a: '1x'\nb: 1\n");
    becomes(t, "a: ${oc.env:${b}}\nb: TWINFER_TEST_VALUE\n", "a: '${b}'\nb: TWINFER_TEST_VALUE\n");
}

/* sha256 of "real", 0x1f, "a", 0x1f, "1" by sha256sum */
static void a_stable_id_is_the_hash_of_its_parts(void **state)
{
    struct test *t = *state;
    becomes(t, "a: runs/${stable_id:real,a,${b}}\nb: 1\n", "a: runs/real_6ce44ebed4\nb: 1\n");
}

static void fails(struct test *t, const char *yaml, const char *text)
{
    struct node *root;
    assert_err(resolved(t, yaml, &root), ST_USAGE, t, text);
}

static void a_fault_is_named_with_its_place(void **state)
{
    struct test *t = *state;
    unsetenv("TWINFER_TEST_NONE");
    fails(t, "x:\n  a: ${.b}\n  b: 1${.c}\n  c: ${x.a}\n",
          "c.yaml:2:6: x.a: interpolation leads back to itself: x.a -> x.b -> x.c -> x.a");
    fails(t, "a: ${a}\n", "c.yaml:1:4: a: interpolation leads back to itself: a -> a");
    fails(t, "a: {b: '${a}'}\n", "c.yaml:1:8: a.b: interpolation leads back to itself: a.b -> a.b");
    fails(t, "a: ${seeds}\n",
          "c.yaml:1:4: a: there is no key 'seeds' to interpolate\n"
          "hint: did you mean seed? also near: capacity.seeds, repeat");
    fails(t, "a: ${.b}\n", "c.yaml:1:4: a: there is no key '.b' to interpolate");
    fails(t, "a: ${...b}\n", "c.yaml:1:4: a: '...b' leads above the root");
    fails(t, "a: x${b\n", "c.yaml:1:4: a: '${' is not closed");
    fails(t, "a: ${oc.env:X\n", "c.yaml:1:4: a: '${' is not closed");
    fails(t, "a: ${oc.env:'X}\n", "c.yaml:1:4: a: '${' is not closed");
    fails(t, "a: ${oc.env:'X'y}\n", "c.yaml:1:4: a: text after the closing quote of an argument");
    fails(t, "a: ${}\n", "c.yaml:1:4: a: '${}' names nothing");
    fails(t, "a: ${oc.env:}\n",
          "c.yaml:1:4: a: oc.env takes the form ${oc.env:NAME} or ${oc.env:NAME,default}");
    fails(t, "a: ${oc.env:TWINFER_TEST_NONE}\n",
          "c.yaml:1:4: a: the environment variable TWINFER_TEST_NONE is not set\n"
          "hint: ${oc.env:TWINFER_TEST_NONE,default} gives it a default");
    fails(t, "a: ${now:%Y}\n",
          "c.yaml:1:4: a: there is no resolver 'now'\nhint: there are data, oc.env and stable_id");
    fails(t, "a: x${b}\nb: null\n",
          "c.yaml:1:4: a: a key that is not set cannot be part of a text");
    fails(t, "a: x${b}\nb: [1]\n", "c.yaml:1:4: a: a list or map cannot be part of a text");
    setenv("TWINFER_TEST_VALUE", "\xff", 1);
    fails(t, "a: ${oc.env:TWINFER_TEST_VALUE}\n",
          "c.yaml:1:4: a: the environment variable TWINFER_TEST_VALUE is not valid UTF-8");
}

/* Ten references to ten references to ... */
static void expansion_is_bounded(void **state)
{
    struct test *t = *state;
    struct buf b = {0};
    buf_puts(&b, "v0: [1,1,1,1,1,1,1,1,1,1]\n");
    for (int i = 1; i < 9; i++) {
        buf_printf(&b, "v%d: [", i);
        for (int k = 0; k < 10; k++)
            buf_printf(&b, "%s'${v%d}'", k ? ", " : "", i - 1);
        buf_puts(&b, "]\n");
    }
    struct node *root;
    assert_ok(yaml_parse(t->a, "c.yaml", (struct sv){b.p, b.n}, &root, &t->e), t);
    assert_int_equal(config_interpolate(t->a, root, &t->e), ST_USAGE);
    assert_non_null(strstr(err_cause(&t->e, 0),
                           "interpolation makes more than 100000 values or 4 MiB of text"));
    buf_clear(&b);
    buf_puts(&b, "v0: xxxxxxxxxxxxxxxx\n");
    for (int i = 1; i < 40; i++)
        buf_printf(&b, "v%d: ${v%d}${v%d}\n", i, i - 1, i - 1);
    assert_ok(yaml_parse(t->a, "c.yaml", (struct sv){b.p, b.n}, &root, &t->e), t);
    assert_int_equal(config_interpolate(t->a, root, &t->e), ST_USAGE);
    assert_non_null(strstr(err_cause(&t->e, 0),
                           "interpolation makes more than 100000 values or 4 MiB of text"));
    buf_free(&b);
}

static void nesting_is_bounded(void **state)
{
    struct test *t = *state;
    struct buf b = {0};
    for (int i = 0; i < 100; i++)
        buf_printf(&b, "v%d: ${v%d}\n", i, i + 1);
    buf_puts(&b, "v100: 1\n");
    fails(t, buf_str(&b), "c.yaml:65:6: v64: interpolations are nested deeper than 64");
    buf_clear(&b);
    buf_puts(&b, "a: ");
    for (int i = 0; i < 5000; i++)
        buf_puts(&b, "${");
    fails(t, buf_str(&b), "c.yaml:1:4: a: interpolations are nested deeper than 64");
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_whole_interpolation_keeps_its_kind),
        TEST(text_takes_scalars),
        TEST(keys_are_found),
        TEST(an_option_that_is_not_in_the_tree_is_known),
        TEST(a_backslash_makes_it_literal),
        TEST(the_environment_is_text),
        TEST(a_stable_id_is_the_hash_of_its_parts),
        TEST(a_fault_is_named_with_its_place),
        TEST(expansion_is_bounded),
        TEST(nesting_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
