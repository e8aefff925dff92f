#include "text/wrap.h"

#include <string.h>

#include "support/support.h"

static void lines_end_before_column_100(void **state)
{
    (void)state;
    struct buf out = {0}, want = {0}, text = {0};
    char word[151];
    memset(word, 'x', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    wrap_text(&out, "short", 2);
    assert_string_equal(buf_str(&out), "short\n");
    buf_clear(&out);
    buf_printf(&text, "%.60s %.39s %.98s %.150s", word, word, word, word);
    buf_printf(&want, "%.60s %.39s\n  %.98s\n  %.98s\n  %.52s\n", word, word, word, word, word);
    wrap_text(&out, buf_str(&text), 2);
    assert_string_equal(buf_str(&out), buf_str(&want));
    buf_free(&out);
    buf_free(&want);
    buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(lines_end_before_column_100)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
