#include "client/sse.h"

#include "support/support.h"

/* All events of a text fed in pieces of `piece` bytes, joined by '|'; "!" where it gave up. */
static const char *events(struct test *t, struct sv text, size_t piece, size_t max_bytes)
{
    struct sse s = {0};
    struct buf out = {0};
    sse_begin(&s, max_bytes);
    for (size_t at = 0; at < text.n; at += piece) {
        size_t n = text.n - at < piece ? text.n - at : piece;
        char *held = mem_alloc(n);
        memcpy(held, text.p + at, n);
        sse_feed(&s, held, n);
        struct sv data;
        enum sse_event ev;
        while ((ev = sse_next(&s, &data)) == SSE_EVENT) {
            buf_puts(&out, s.is_error ? "ERROR " : "");
            buf_add(&out, data.p, data.n);
            buf_putc(&out, '|');
        }
        mem_free(held);
        if (ev == SSE_TOO_LONG) {
            buf_putc(&out, '!');
            break;
        }
    }
    buf_printf(&out, "%zu", sse_pending(&s));
    const char *made = arena_str(t->a, buf_str(&out));
    buf_free(&out);
    sse_free(&s);
    return made;
}

/* Every cut of the text gives the same. */
#define assert_events(t, text, want)                                   \
    do {                                                               \
        for (size_t piece_ = 1; piece_ <= sizeof(text); piece_++)      \
            assert_string_equal(events(t, SV(text), piece_, 0), want); \
    } while (0)

static void events_end_at_a_blank_line(void **state)
{
    struct test *t = *state;
    assert_events(t, "data: a\n\ndata: b\n\n", "a|b|0");
    assert_events(t, "data:a\n\ndata:  b\n\n", "a| b|0");
    assert_events(t, "data: a\n\n\n\ndata: b\n\n", "a|b|0");
}

static void lines_end_in_any_of_three_ways(void **state)
{
    struct test *t = *state;
    assert_events(t, "data: a\r\n\r\ndata: b\r\rdata: c\n\r\n", "a|b|c|0");
}

static void failures_outside_data_are_events(void **state)
{
    struct test *t = *state;
    assert_events(t, "event: error\ndata: a\n\ndata: b\n\n", "ERROR a|b|0");
    assert_events(t, "data: a\nevent: server_error\n\ndata: b\n\n", "ERROR a|b|0");
    assert_events(t, "event: error\n: the worker died\n\ndata: b\n\n", "ERROR the worker died|b|0");
    assert_events(t, ": ping\n\nevent: error\n\n", "ERROR |0");
    assert_events(t, "error: {\"code\":500}\n\ndata: b\n\n", "ERROR {\"code\":500}|b|0");
    assert_events(t, "{\"error\": 1}\n\n", "ERROR {\"error\": 1}|0");
    assert_events(t, "event: message\n: error\n\n", "0");
}

/* The stream is over: an event without its blank line is one. */
static void what_lacks_its_blank_line_is_finished(void **state)
{
    struct sse s = {0};
    struct sv data;
    (void)state;
    sse_begin(&s, 0);
    sse_feed(&s, "data: [DO", 9);
    assert_int_equal(sse_next(&s, &data), SSE_MORE);
    sse_feed(&s, "NE]", 3);
    assert_int_equal(sse_next(&s, &data), SSE_MORE);
    sse_finish(&s);
    assert_int_equal(sse_next(&s, &data), SSE_EVENT);
    assert_true(sv_eq(data, "[DONE]"));
    assert_int_equal(sse_next(&s, &data), SSE_MORE);
    sse_free(&s);
}

static void data_lines_are_joined(void **state)
{
    struct test *t = *state;
    assert_events(t, "data: a\ndata: b\ndata\ndata:\n\n", "a\nb\n\n|0");
}

static void comments_and_other_fields_are_passed_over(void **state)
{
    struct test *t = *state;
    assert_events(t, ": ping\n\nevent: x\nid: 7\ndata: a\nretry: 9\nother\n\n", "a|0");
    assert_events(t, "event: x\n\ndatas: b\n\n", "0");
}

static void a_byte_order_mark_is_skipped_once(void **state)
{
    struct test *t = *state;
    assert_events(t,
                  "\xef\xbb\xbf"
                  "data: a\n\n\xef\xbb\xbf"
                  "data: b\n\n",
                  "a|0");
}

static void what_has_not_ended_is_pending(void **state)
{
    struct test *t = *state;
    assert_events(t, "data: a\n\ndata: b\n", "a|2");
    assert_events(t, "data: a\n\ndata: b", "a|7");
}

static void events_and_lines_are_bounded(void **state)
{
    struct test *t = *state;
    for (size_t piece = 1; piece < 40; piece++) {
        assert_int_equal(*events(t, SV("data: 0123456789\n\n"), piece, 15), '!');
        assert_string_equal(events(t, SV("data: 01234\ndata: 56789\n\n"), piece, 11),
                            "01234\n56789|0");
        const char *three = events(t, SV("data: 01234\ndata: 56789\ndata: a\n\n"), piece, 12);
        assert_int_equal(*three, '!');
    }
    assert_string_equal(events(t, SV("data: 0123456789\n\n"), 3, 16), "0123456789|0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(events_end_at_a_blank_line),
        TEST(lines_end_in_any_of_three_ways),
        TEST(failures_outside_data_are_events),
        TEST(what_lacks_its_blank_line_is_finished),
        TEST(data_lines_are_joined),
        TEST(comments_and_other_fields_are_passed_over),
        TEST(a_byte_order_mark_is_skipped_once),
        TEST(what_has_not_ended_is_pending),
        TEST(events_and_lines_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
