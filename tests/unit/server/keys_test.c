#include "server/keys.h"

#include "support/support.h"

static void only_the_keys_are_good(void **state)
{
    struct test *t = *state;
    struct keys k = {0};
    assert_int_equal(keys_check(&k, NULL), KEYS_GOOD); /* nobody is asked */
    assert_ok(keys_add(&k, "a", SV("sk-first-key"), &t->e), t);
    assert_ok(keys_add(&k, "b", SV("sk-second-key"), &t->e), t);
    assert_int_equal(keys_check(&k, "Bearer sk-first-key"), KEYS_GOOD);
    assert_int_equal(keys_check(&k, "bearer   sk-second-key "), KEYS_GOOD);
    assert_int_equal(keys_check(&k, NULL), KEYS_MISSING);
    assert_int_equal(keys_check(&k, ""), KEYS_MISSING);
    assert_int_equal(keys_check(&k, "Basic sk-first-key"), KEYS_MISSING);
    assert_int_equal(keys_check(&k, "sk-first-key"), KEYS_MISSING);
    assert_int_equal(keys_check(&k, "Bearer "), KEYS_WRONG);
    assert_int_equal(keys_check(&k, "Bearer sk-first-ke"), KEYS_WRONG);
    assert_int_equal(keys_check(&k, "Bearer sk-first-key2"), KEYS_WRONG);
    assert_int_equal(keys_check(&k, "Bearer sk-first-key,sk-second-key"), KEYS_WRONG);
    keys_free(&k);
}

static void a_file_has_a_key_on_a_line(void **state)
{
    struct test *t = *state;
    struct keys k = {0};
    const char *path = test_write(t, "keys", "# of the team\n\n  sk-first-key \r\nsk-second-key");
    assert_ok(keys_add_file(&k, path, &t->e), t);
    assert_int_equal(k.all.n, 2);
    assert_int_equal(keys_check(&k, "Bearer sk-first-key"), KEYS_GOOD);
    assert_int_equal(keys_check(&k, "Bearer sk-second-key"), KEYS_GOOD);
    test_write(t, "keys", "# none\n\n");
    assert_err(keys_add_file(&k, path, &t->e), ST_USAGE, t, "DIR/keys: there is no key in it");
    err_clear(&t->e);
    test_write(t, "keys", "good-enough\nshort\n");
    assert_err(keys_add_file(&k, path, &t->e), ST_USAGE, t,
               "DIR/keys:2: a key has 8 to 512 characters, this one 5");
    err_clear(&t->e);
    assert_err(keys_add(&k, "it", SV("two words-of-it"), &t->e), ST_USAGE, t,
               "it: character 4 of the key is not visible ASCII");
    keys_free(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(only_the_keys_are_good),
                                       TEST(a_file_has_a_key_on_a_line)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
