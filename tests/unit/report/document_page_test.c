/* A document as a part of a page. */
#include "report/page.h"
#include "support/fake_document.h"
#include "support/support.h"

static void draw_picture(struct arena *a, struct buf *out, const void *data)
{
    (void)a;
    page_tag(out, "p", NULL, "%s", (const char *)data);
}

static void draw_dot(struct buf *out, const void *data, const void *of)
{
    (void)data;
    page_tag(out, "i", NULL, "%s", (const char *)of);
}

static void as_html(void **state)
{
    static const struct page_drawing drawings[] = {
        {"dot", NULL, draw_dot}, {"picture", draw_picture, NULL}, {NULL, NULL, NULL}};
    struct test *t = *state;
    const struct document *d = fake_document(t->a);
    struct buf b = {0};
    page_banner(&b, d);
    page_document(t->a, &b, d, drawings, "<drawn>");
    assert_string_equal(
        buf_str(&b),
        "<header class=\"banner fail\">\n"
        "<p class=\"eyebrow\">Profile &lt;a&gt;</p><h1>prefill\n"
        "is slower</h1>\n"
        "<dl class=\"tiles\">\n"
        "<div><dt>Elapsed</dt><dd>12.50 ms</dd><dd class=\"small\">of the *stages*</dd></div>\n"
        "<div><dt>GPUs</dt><dd>2</dd></div>\n"
        "</dl>\n"
        "</header>\n"
        "<section>\n"
        "<h2>Findings</h2>\n"
        "<ol class=\"findings\">\n"
        "<li><strong>a * b</strong><br><small>kernel</small><br>It takes"
        " &lt;b&gt;all&lt;/b&gt;.</li>\n"
        "<li>It waits.</li>\n"
        "</ol>\n"
        "</section>\n"
        "<section>\n"
        "<h2>Stages</h2>\n"
        "<p>Of 3 stages.</p>\n"
        "<div class=\"scroll\"><table class=\"stack\">\n"
        "<thead><tr><th>Stage</th><th class=\"num\">Calls</th><th class=\"num run"
        " c1\">Total<small class=\"change\">Change</small></th><th "
        "class=\"num\">PID</th><th>Tool</th></tr></thead>\n"
        "<tbody>\n"
        "<tr class=\"group\"><th colspan=\"5\" scope=\"rowgroup\">first<small> 2"
        " stages</small></th></tr>\n"
        "<tr><th class=\"wide\"><details class=\"name"
        " kernel\"><summary>prefill</summary><span class=\"full\">A launch:"
        " &lt;1&gt;.</span></details></th><td class=\"num\""
        " data-head=\"Calls\"><i>dot</i>1,204</td><td class=\"num\" data-head=\"Total\">12.50"
        " ms<small class=\"change fail\">+4.2 %</small></td><td class=\"num\""
        " data-head=\"PID\">4711000</td><td class=\"label\" data-head=\"Tool\"></td></tr>\n"
        "<tr><th class=\"wide\">a|b&lt;c&gt; <small>nsys�[1m</small></th><td"
        " class=\"num\" data-head=\"Calls\">n/a</td><td class=\"num\""
        " data-head=\"Total\">n/a<small class=\"change\">n/a</small></td><td"
        " class=\"num\" data-head=\"PID\">7</td><td class=\"label\""
        " data-head=\"Tool\">nsys�[1m</td></tr>\n"
        "<tr class=\"group\"><th colspan=\"5\" scope=\"rowgroup\">second</th></tr>\n"
        "<tr class=\"detail\"><th class=\"wide\">decode</th><td class=\"num\""
        " data-head=\"Calls\"><span class=\"badge open\">refused</span></td><td"
        " class=\"num\" data-head=\"Total\">250.0 µs</td><td class=\"num\""
        " data-head=\"PID\">8</td><td class=\"label\" data-head=\"Tool\">none</td></tr>\n"
        "</tbody></table></div>\n"
        "<p class=\"small\">A stage includes its sub-stages.</p>\n"
        "</section>\n"
        "<section>\n"
        "<h2>Picture</h2>\n"
        "<p>&lt;drawn&gt;</p></section>\n"
        "<section>\n"
        "<h2>Facts</h2>\n"
        "<div class=\"scroll\"><table class=\"facts\">\n"
        "<tr><th>Model</th><td>a|b</td></tr>\n"
        "<tr><th>Host</th><td>8.030 µs</td></tr>\n"
        "</table></div>\n"
        "<ul class=\"notes\">\n"
        "<li>One `note`.</li>\n"
        "<li>Another.</li>\n"
        "</ul>\n"
        "<p class=\"small\">The end.</p>\n"
        "</section>\n");
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(as_html)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
