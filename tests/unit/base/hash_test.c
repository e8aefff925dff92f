#include "support/support.h"

#include "base/hash.h"

static void sha256_of_known_texts(void **state)
{
    (void)state;
    char hex[HASH_SHA256_HEX + 1];
    hash_sha256("", 0, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    hash_sha256("abc", 3, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

/* Made with: printf 'run\037a\037b' | sha256sum */
static void stable_ids_are_for_ever(void **state)
{
    struct test *t = *state;
    const char *parts[] = {"a", "b"};
    assert_string_equal(hash_stable_id(t->a, "run", parts, 2), "run_d4f766f876");
    assert_string_equal(hash_stable_id(t->a, "run", NULL, 0), "run_acba255121");
    const char *joined[] = {"a\x1f"
                            "b"};
    assert_string_equal(hash_stable_id(t->a, "run", joined, 1), "run_d4f766f876");
}

static void the_fast_hash_spreads(void **state)
{
    (void)state;
    unsigned used[256] = {0};
    for (int i = 0; i < 25600; i++) {
        char key[16];
        int n = snprintf(key, sizeof key, "k%d", i);
        used[hash_bytes(key, (size_t)n) & 255]++;
    }
    for (int i = 0; i < 256; i++) {
        assert_true(used[i] > 50);
        assert_true(used[i] < 170);
    }
    assert_true(hash_bytes("a", 1) != hash_bytes("b", 1));
    assert_true(hash_bytes("a\0", 2) != hash_bytes("a", 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sha256_of_known_texts),
        TEST(stable_ids_are_for_ever),
        TEST(the_fast_hash_spreads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
