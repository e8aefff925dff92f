#include "support/support.h"

#include <math.h>

#include "text/json.h"
#include "text/node.h"

static struct node *parse(struct test *t, const char *text)
{
    struct node *n;
    assert_ok(json_parse(t->a, "c.json", sv_of(text), NULL, &n, &t->e), t);
    return n;
}

static void lists_and_maps_grow_in_order(void **state)
{
    struct test *t = *state;
    struct node *list = node_new(t->a, NODE_LIST), *map = node_new(t->a, NODE_MAP);
    for (int i = 0; i < 100; i++) {
        node_push(t->a, list, node_int(t->a, i));
        node_set(t->a, map, sv_of(arena_printf(t->a, "k%d", 99 - i)), node_int(t->a, i));
    }
    assert_int_equal(list->n, 100);
    assert_int_equal(list->items[57]->i, 57);
    assert_int_equal(map->n, 100);
    assert_sv(map->pairs[0].key, "k99");
    assert_int_equal(node_find(map, "k0")->i, 99);
}

static void set_replaces_in_place(void **state)
{
    struct test *t = *state;
    struct node *map = parse(t, "{\"a\": 1, \"b\": 2}");
    node_set(t->a, map, SV("a"), node_str(t->a, "x"));
    assert_int_equal(map->n, 2);
    assert_sv(map->pairs[0].key, "a");
    assert_sv(node_find(map, "a")->s, "x");
}

static void remove_keeps_the_order(void **state)
{
    struct test *t = *state;
    struct node *map = parse(t, "{\"a\": 1, \"b\": 2, \"c\": 3}");
    assert_true(node_remove(map, SV("b")));
    assert_false(node_remove(map, SV("b")));
    assert_int_equal(map->n, 2);
    assert_sv(map->pairs[1].key, "c");
    node_set(t->a, map, SV("d"), node_int(t->a, 4));
    assert_int_equal(node_find(map, "d")->i, 4);
}

static void find_and_path_answer_null_when_absent(void **state)
{
    struct test *t = *state;
    struct node *n = parse(t, "{\"a\": {\"b\": {\"c\": 5}}, \"s\": 1}");
    assert_int_equal(node_path(n, "a.b.c")->i, 5);
    assert_int_equal(node_path(n, "s")->i, 1);
    assert_null(node_path(n, "a.x.c"));
    assert_null(node_path(n, "s.c"));
    assert_null(node_path(n, ""));
    assert_null(node_find(NULL, "a"));
    assert_null(node_find(node_find(n, "s"), "a"));
}

static void a_copy_shares_nothing(void **state)
{
    struct test *t = *state;
    struct arena *other = arena_new();
    struct node *n = parse(t, "{\"a\": [1, \"two\", {\"b\": null}]}");
    struct node *c = node_copy(other, n);
    arena_reset(t->a);
    struct buf out = {0};
    json_write(&out, c, 0, false);
    assert_string_equal(out.p, "{\"a\":[1,\"two\",{\"b\":null}]}");
    node_push(other, node_find(c, "a"), node_bool(other, true));
    assert_int_equal(node_find(c, "a")->n, 4);
    buf_free(&out);
    arena_free(&other);
}

static void duplicates_are_found_in_small_and_large_maps(void **state)
{
    struct test *t = *state;
    for (uint32_t n = 1; n <= 40; n++) {
        struct node *map = node_new(t->a, NODE_MAP);
        map->pairs = arena_array(t->a, struct node_pair, n + 1);
        map->n = map->cap = n;
        for (uint32_t i = 0; i <= n; i++)
            map->pairs[i].key = sv_of(arena_printf(t->a, "k%u", i % n));
        assert_null(node_duplicate(map));
        map->n = n + 1;
        assert_ptr_equal(node_duplicate(map), &map->pairs[n]);
    }
}

static void typed_members(void **state)
{
    struct test *t = *state;
    struct node *n = parse(t, "{\"i\": 3, \"f\": 0.5, \"b\": true, \"s\": \"x\", \"l\": [1]}");
    struct node *list;
    int64_t i;
    double f;
    bool b;
    const char *s;
    assert_ok(node_get_int(n, "i", 3, 3, &i, &t->e), t);
    assert_int_equal(i, 3);
    assert_ok(node_get_double(n, "f", 0.5, 0.5, &f, &t->e), t);
    assert_near(f, 0.5, 0);
    assert_ok(node_get_double(n, "i", 0, 9, &f, &t->e), t);
    assert_near(f, 3, 0);
    assert_ok(node_get_bool(n, "b", &b, &t->e), t);
    assert_true(b);
    assert_ok(node_get_str(n, "s", &s, &t->e), t);
    assert_string_equal(s, "x");
    assert_ok(node_get(n, "l", NODE_LIST, &list, &t->e), t);
    assert_int_equal(list->n, 1);
}

static void wrong_members_are_named_at_their_place(void **state)
{
    struct test *t = *state;
    struct node *n = parse(t, "{\"s\": \"x\", \"i\": 3,\n \"f\": 2.0, \"z\": \"a\\u0000\"}");
    struct node *list;
    int64_t i;
    double f;
    bool b;
    const char *s;
    assert_err(node_get_int(n, "s", 0, 9, &i, &t->e), ST_INPUT, t,
               "c.json:1:7: s: expected an integer, got a string");
    assert_err(node_get_int(n, "f", 0, 9, &i, &t->e), ST_INPUT, t,
               "c.json:2:7: f: expected an integer, got a number");
    assert_err(node_get_int(n, "i", 4, 9, &i, &t->e), ST_INPUT, t,
               "c.json:1:17: i: 3 is below the minimum 4");
    assert_err(node_get_int(n, "i", 0, 2, &i, &t->e), ST_INPUT, t,
               "c.json:1:17: i: 3 is above the maximum 2");
    assert_err(node_get_double(n, "s", 0, 9, &f, &t->e), ST_INPUT, t,
               "c.json:1:7: s: expected a number, got a string");
    assert_err(node_get_double(n, "f", 2.5, 9, &f, &t->e), ST_INPUT, t,
               "c.json:2:7: f: 2 is below the minimum 2.5");
    assert_err(node_get_double(n, "f", 0, 1, &f, &t->e), ST_INPUT, t,
               "c.json:2:7: f: 2 is above the maximum 1");
    assert_err(node_get_bool(n, "i", &b, &t->e), ST_INPUT, t,
               "c.json:1:17: i: expected true or false, got an integer");
    assert_err(node_get_str(n, "i", &s, &t->e), ST_INPUT, t,
               "c.json:1:17: i: expected a string, got an integer");
    assert_err(node_get_str(n, "z", &s, &t->e), ST_INPUT, t,
               "c.json:2:17: z: a NUL character in the text");
    assert_err(node_get(n, "gone", NODE_LIST, &list, &t->e), ST_INPUT, t,
               "c.json:1:1: gone: missing");
    assert_err(node_get(node_find(n, "i"), "k", NODE_LIST, &list, &t->e), ST_INPUT, t,
               "c.json:1:17: expected a map with the key k, got an integer");
}

static void made_nodes_have_no_place(void **state)
{
    struct test *t = *state;
    struct node *map = node_new(t->a, NODE_MAP);
    double f;
    assert_err(node_get_double(map, "x", 0, 1, &f, &t->e), ST_INPUT, t, "x: missing");
    node_set(t->a, map, SV("x"), node_float(t->a, NAN));
    assert_err(node_get_double(map, "x", 0, 1, &f, &t->e), ST_INPUT, t,
               "x: expected a finite number");
}

static void what_is_unknown_is_null(void **state)
{
    struct test *t = *state;
    struct node *map = node_new(t->a, NODE_MAP);
    node_put(t->a, map, "n", node_number(t->a, 2));
    node_put(t->a, map, "n", node_number(t->a, 3));
    assert_int_equal(map->n, 1);
    assert_true(node_find(map, "n")->kind == NODE_FLOAT && node_find(map, "n")->f == 3);
    assert_int_equal(node_number(t->a, (double)NAN)->kind, NODE_NULL);
    assert_int_equal(node_number(t->a, -(double)INFINITY)->kind, NODE_NULL);
    assert_int_equal(node_str_or_null(t->a, NULL)->kind, NODE_NULL);
    assert_int_equal(node_str_or_null(t->a, "")->kind, NODE_STR);
}

static void newer_versions_are_refused(void **state)
{
    struct test *t = *state;
    struct node *n;
    assert_ok(json_parse(t->a, "a.json", SV("{\"v\": 2, \"w\": \"v1\"}"), NULL, &n, &t->e), t);
    assert_ok(node_check_version(n, "v", 2, &t->e), t);
    assert_ok(node_check_version(n, "w", 1, &t->e), t); /* another program's */
    assert_ok(node_check_version(n, "none", 1, &t->e), t);
    assert_err(node_check_version(n, "v", 1, &t->e), ST_INPUT, t,
               "a.json:1:7: v: 2 is newer than 1, the newest this program knows\n"
               "hint: use a newer twinfer");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(newer_versions_are_refused),
        TEST(lists_and_maps_grow_in_order),
        TEST(set_replaces_in_place),
        TEST(remove_keeps_the_order),
        TEST(find_and_path_answer_null_when_absent),
        TEST(a_copy_shares_nothing),
        TEST(duplicates_are_found_in_small_and_large_maps),
        TEST(typed_members),
        TEST(wrong_members_are_named_at_their_place),
        TEST(made_nodes_have_no_place),
        TEST(what_is_unknown_is_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
