#include "support/support.h"

#include "base/embed.h"

static void files_are_found_by_path(void **state)
{
    static const struct embed_file table[] = {
        {"a/b.yaml", "text", 4}, {"c", "", 0}, {NULL, NULL, 0}};
    (void)state;
    assert_ptr_equal(embed_find(table, "a/b.yaml"), &table[0]);
    assert_ptr_equal(embed_find(table, "c"), &table[1]);
    assert_null(embed_find(table, "a"));
    assert_null(embed_find(table + 2, "c"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(files_are_found_by_path)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
