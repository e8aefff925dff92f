#include "support/support.h"

#include <openssl/evp.h>

#include "text/html.h"
#include "text/svg.h"

static const char *escaped(struct test *t, const char *s)
{
    struct buf b = {0};
    html_escape(&b, s);
    char *copy = arena_str(t->a, buf_str(&b));
    buf_free(&b);
    return copy;
}

static void markup_is_escaped(void **state)
{
    struct test *t = *state;
    assert_string_equal(escaped(t, "<a href=\"x\" b='y'>&amp;</a>"),
                        "&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;amp;&lt;/a&gt;");
    assert_string_equal(escaped(t, ""), "");
    assert_string_equal(escaped(t, "\xc3\xa9\t\n"), "\xc3\xa9\t\n");
}

static void what_html_cannot_hold_is_replaced(void **state)
{
    struct test *t = *state;
    assert_string_equal(escaped(t, "a\x01\r\x7f"
                                   "b"),
                        "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
                        "b");
    assert_string_equal(escaped(t, "\xff<\xc3"), "\xef\xbf\xbd&lt;\xef\xbf\xbd");
}

static const char *between(struct test *t, const char *s, const char *from, const char *to)
{
    const char *start = strstr(s, from);
    assert_non_null(start);
    start += strlen(from);
    const char *end = strstr(start, to);
    assert_non_null(end);
    return arena_strn(t->a, start, (size_t)(end - start));
}

static const char *source_hash(struct test *t, const char *style)
{
    unsigned char md[32], base64[64];
    unsigned n = 0;
    assert_int_equal(EVP_Digest(style, strlen(style), md, &n, EVP_sha256(), NULL), 1);
    EVP_EncodeBlock(base64, md, (int)n);
    return arena_printf(t->a, "'sha256-%s'", (const char *)base64);
}

static void the_policy_allows_only_our_styles(void **state)
{
    struct test *t = *state;
    struct buf b = {0};
    html_page_begin(&b, "a <title> & more", ".x{color:red}");
    buf_puts(&b, "<p>x</p>\n");
    svg_chart(&b, &(struct svg_chart){.title = "c"});
    html_page_end(&b);
    const char *page = between(t, b.p, "<style>", "</style>");
    const char *chart = between(t, strstr(b.p, "<svg"), "<style>", "</style>");
    assert_string_equal(chart, svg_css);
    assert_non_null(strstr(page, ".x{color:red}"));
    assert_string_equal(
        between(t, b.p, "Content-Security-Policy\" content=\"", "\">"),
        arena_printf(t->a,
                     "default-src 'none'; base-uri 'none'; form-action 'none'; style-src %s %s",
                     source_hash(t, page), source_hash(t, chart)));
    assert_string_equal(between(t, b.p, "<title>", "</title>"), "a &lt;title&gt; &amp; more");
    assert_non_null(strstr(b.p, "<meta name=\"viewport\""));
    assert_null(strstr(b.p, "style="));
    assert_null(strstr(b.p, "<script"));
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(markup_is_escaped),
        TEST(what_html_cannot_hold_is_replaced),
        TEST(the_policy_allows_only_our_styles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
