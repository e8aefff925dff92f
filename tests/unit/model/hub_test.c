/* Names of the hub; the cache itself: tests/cli/hub_cache. */
#include "model/hub.h"

#include "support/support.h"

static void names_are_told_from_paths(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is;
    } cases[] = {
        {"Qwen/Qwen3-32B", true},
        {"meta-llama/Llama-3.1-8B", true},
        {"a/b_c.d-e@v1.0", true},
        {"a/b@refs/pr/1", true},
        {"a/b@0123456789abcdef0123456789abcdef01234567", true},
        {"gpt2", false},
        {"", false},
        {"/", false},
        {"a/", false},
        {"/a", false},
        {"a/b/c", false},
        {"./a", false},
        {"../a", false},
        {"a/..", false},
        {"a/.b", false},
        {"a/b--c", false}, /* what the cache's folders are joined by */
        {"a/b..c", false},
        {"a/b-", false},
        {"a/b c", false},
        {"a/b@", false},
        {"a/b@../../../etc", false},
        {"a/b@x//y", false},
        {"a/b@.", false},
        {"a/b@x y", false},
        {"@a/b", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (hub_is_name(cases[i].text) != cases[i].is)
            fail_msg("'%s'", cases[i].text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(names_are_told_from_paths)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
