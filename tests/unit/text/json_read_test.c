#include "support/support.h"
#include "text/json.h"

/* Events as one line: [ ] { } null true false i:1 f:0.5 "text" key: */
static const char *event_text(struct test *t, const struct json_reader *r, enum json_event ev)
{
    static const char *const fixed[] = {
        [JSON_NULL] = "null",    [JSON_TRUE] = "true",  [JSON_FALSE] = "false",
        [JSON_LIST_BEGIN] = "[", [JSON_LIST_END] = "]", [JSON_MAP_BEGIN] = "{",
        [JSON_MAP_END] = "}",
    };
    if (ev == JSON_INT)
        return arena_printf(t->a, "i:%lld", (long long)json_int(r));
    if (ev == JSON_FLOAT)
        return arena_printf(t->a, "f:%.17g", json_double(r));
    struct sv s = json_text(r);
    if (ev == JSON_STRING)
        return arena_printf(t->a, "\"%.*s\"", (int)s.n, s.p);
    if (ev == JSON_KEY)
        return arena_printf(t->a, "%.*s:", (int)s.n, s.p);
    return fixed[ev];
}

/* All events of a text fed in pieces of `piece` bytes, each in memory of its own so that a
 * sanitizer sees a read beyond it. NULL on an error, which is in t->e. */
static const char *events(struct test *t, struct sv text, size_t piece,
                          const struct json_limits *limits)
{
    struct json_reader *r = json_reader_new("t.json", limits);
    struct buf out = {0};
    char *held = NULL;
    size_t at = 0;
    enum json_event ev;
    while ((ev = json_next(r, &t->e)) != JSON_END && ev != JSON_ERROR) {
        if (ev != JSON_MORE) {
            buf_printf(&out, "%s%s", out.n ? " " : "", event_text(t, r, ev));
            continue;
        }
        mem_free(held);
        held = NULL;
        size_t n = text.n - at < piece ? text.n - at : piece;
        if (n == 0) {
            json_finish(r);
            continue;
        }
        held = mem_alloc(n);
        memcpy(held, text.p + at, n);
        json_feed(r, held, n);
        at += n;
    }
    mem_free(held);
    json_reader_free(&r);
    const char *s = ev == JSON_END ? arena_str(t->a, buf_str(&out)) : NULL;
    buf_free(&out);
    return s;
}

static const char DOCUMENT[] =
    " {\"a\": [1, -2.5e1, true,false , null, \"x\\n\\u00e9\\ud83d\\ude00\xc3\xa9\"],\r\n"
    "\t\"empty\": {}, \"\": [], \"big\": 9223372036854775807, \"z\": -0, \"w\": 0.1} \n";

static void every_event_in_pieces_of_every_size(void **state)
{
    struct test *t = *state;
    for (size_t piece = 1; piece <= sizeof DOCUMENT; piece++)
        assert_string_equal(events(t, SV(DOCUMENT), piece, NULL),
                            "{ a: [ i:1 f:-25 true false null \"x\n\xc3\xa9\xf0\x9f\x98\x80\xc3\xa9"
                            "\" ] empty: { } : [ ] big: i:9223372036854775807 z: f:-0 w: "
                            "f:0.10000000000000001 }");
}

static void scalars_stand_alone(void **state)
{
    struct test *t = *state;
    assert_string_equal(events(t, SV("12"), 1, NULL), "i:12");
    assert_string_equal(events(t, SV(" true "), 2, NULL), "true");
    assert_string_equal(events(t, SV("\"\""), 1, NULL), "\"\"");
    assert_string_equal(events(t, SV("-9223372036854775808"), 3, NULL), "i:-9223372036854775808");
    assert_string_equal(events(t, SV("1E+2"), 1, NULL), "f:100");
    assert_string_equal(events(t, SV("1.0"), 1, NULL), "f:1");
}

static void nul_escapes_are_part_of_the_text(void **state)
{
    struct test *t = *state;
    struct json_reader *r = json_reader_new("t.json", NULL);
    json_feed(r, "\"a\\u0000b\"", 10);
    assert_int_equal(json_next(r, &t->e), JSON_STRING);
    assert_int_equal(json_text(r).n, 3);
    assert_memory_equal(json_text(r).p, "a\0b", 3);
    json_reader_free(&r);
}

static void places_count_lines_and_bytes(void **state)
{
    struct test *t = *state;
    struct json_reader *r = json_reader_new("t.json", NULL);
    uint32_t line, column;
    json_feed(r, "{\n  \"k\":\n 7", 11);
    json_next(r, &t->e);
    json_place(r, &line, &column);
    assert_int_equal(line, 1);
    assert_int_equal(column, 1);
    json_next(r, &t->e);
    json_place(r, &line, &column);
    assert_int_equal(line, 2);
    assert_int_equal(column, 3);
    assert_int_equal(json_next(r, &t->e), JSON_MORE);
    json_feed(r, "}", 1);
    assert_int_equal(json_next(r, &t->e), JSON_INT);
    json_place(r, &line, &column);
    assert_int_equal(line, 3);
    assert_int_equal(column, 2);
    json_reader_free(&r);
}

static void faults_are_named_at_their_place(void **state)
{
    static const struct {
        struct sv text;
        const char *error;
    } cases[] = {
        {SV(""), "t.json:1:1: the text ends where a value was expected"},
        {SV(" \n "), "t.json:2:2: the text ends where a value was expected"},
        {SV("{"), "t.json:1:2: the text ends where a key or '}' was expected"},
        {SV("{\"a\""), "t.json:1:5: the text ends where ':' was expected"},
        {SV("{\"a\":"), "t.json:1:6: the text ends where a value was expected"},
        {SV("{\"a\":1"), "t.json:1:7: the text ends where ',' or '}' was expected"},
        {SV("{\"a\":1,"), "t.json:1:8: the text ends where a key in quotes was expected"},
        {SV("["), "t.json:1:2: the text ends where a value or ']' was expected"},
        {SV("[1"), "t.json:1:3: the text ends where ',' or ']' was expected"},
        {SV("[1\n,"), "t.json:2:2: the text ends where a value was expected"},
        {SV("\"abc"), "t.json:1:5: the text ends inside a string"},
        {SV("\"abc\\"), "t.json:1:6: the text ends inside a string"},
        {SV("[1,]"), "t.json:1:4: expected a value, got ']'"},
        {SV("{\"a\":1,}"), "t.json:1:8: expected a key in quotes, got '}'"},
        {SV("[1 2]"), "t.json:1:4: expected ',' or ']', got '2'"},
        {SV("{\"a\" 1}"), "t.json:1:6: expected ':', got '1'"},
        {SV("{a:1}"), "t.json:1:2: expected a key or '}', got 'a'"},
        {SV("{1:1}"), "t.json:1:2: expected a key or '}', got '1'"},
        {SV("[1}"), "t.json:1:3: expected ',' or ']', got '}'"},
        {SV("{]"), "t.json:1:2: expected a key or '}', got ']'"},
        {SV("]"), "t.json:1:1: expected a value, got ']'"},
        {SV("1 2"), "t.json:1:3: expected nothing more, got '2'"},
        {SV("{} x"), "t.json:1:4: expected nothing more, got 'x'"},
        {SV("// c\n1"), "t.json:1:1: expected a value, got '/'"},
        {SV("'a'"), "t.json:1:1: expected a value, got '''"},
        {SV("\xef\xbb\xbf{}"), "t.json:1:1: expected a value, got byte 0xef"},
        {SV("[\0]"), "t.json:1:2: expected a value or ']', got byte 0x00"},
        {SV("NaN"), "t.json:1:1: expected a value, got 'NaN'"},
        {SV("[Infinity]"), "t.json:1:2: expected a value, got 'Infinity'"},
        {SV("-Infinity"), "t.json:1:1: '-Infinity' is not a number"},
        {SV("nul"), "t.json:1:1: expected a value, got 'nul'"},
        {SV("truer"), "t.json:1:1: expected a value, got 'truer'"},
        {SV("True"), "t.json:1:1: expected a value, got 'True'"},
        {SV("+1"), "t.json:1:1: expected a value, got '+1'"},
        {SV(".5"), "t.json:1:1: expected a value, got '.5'"},
        {SV("01"), "t.json:1:1: '01' is not a number"},
        {SV("-"), "t.json:1:1: '-' is not a number"},
        {SV("1."), "t.json:1:1: '1.' is not a number"},
        {SV("1e"), "t.json:1:1: '1e' is not a number"},
        {SV("0x10"), "t.json:1:1: '0x10' is not a number"},
        {SV("1.5.2"), "t.json:1:1: '1.5.2' is not a number"},
        {SV("9223372036854775808"),
         "t.json:1:1: the integer 9223372036854775808 does not fit 64 bits"},
        {SV("1e999"), "t.json:1:1: the number 1e999 does not fit a double"},
        {SV("\"\\x\""), "t.json:1:2: unknown escape in a string"},
        {SV("\"\\u12g4\""), "t.json:1:2: expected four hex digits after \\u"},
        {SV("\"a\\ud800\""), "t.json:1:3: \\ud800 is half of a surrogate pair"},
        {SV("\"\\ud800\\u0041\""), "t.json:1:2: \\ud800 is half of a surrogate pair"},
        {SV("\"\\udc00\""), "t.json:1:2: \\udc00 is half of a surrogate pair"},
        {SV("\"a\nb\""), "t.json:1:3: control byte 0x0a in a string: write it as an escape"},
        {SV("[\"ok\", \"a\xff\"]"), "t.json:1:10: bytes that are not UTF-8 in a string"},
        {SV("\"\xed\xa0\x80\""), "t.json:1:2: bytes that are not UTF-8 in a string"},
        {SV("\"\xc0\xaf\""), "t.json:1:2: bytes that are not UTF-8 in a string"},
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t piece = 1; piece <= cases[i].text.n + 1; piece++) {
            err_clear(&t->e);
            bool failed = !events(t, cases[i].text, piece, NULL);
            assert_err(failed ? t->e.st : ST_OK, ST_INPUT, t, cases[i].error);
        }
}

static void limits_hold(void **state)
{
    struct test *t = *state;
    const struct json_limits limits = {.max_depth = 3, .max_string_bytes = 5};
    assert_string_equal(events(t, SV("[[[\"12345\"]]]"), 4, &limits), "[ [ [ \"12345\" ] ] ]");
    for (size_t piece = 1; piece < 12; piece++) {
        assert_null(events(t, SV("[[[["), piece, &limits));
        assert_err(t->e.st, ST_INPUT, t, "t.json:1:4: nested deeper than 3 levels");
        assert_null(events(t, SV("\"123456\""), piece, &limits));
        assert_err(t->e.st, ST_INPUT, t, "t.json:1:1: a string of more than 5 bytes");
    }
}

/* Python's json module writes them; RFC 8259 has no such numbers. */
static void numbers_of_python_are_read_where_asked(void **state)
{
    struct test *t = *state;
    const struct json_limits python = {.python = true};
    for (size_t piece = 1; piece < 40; piece++) {
        assert_string_equal(events(t, SV("[NaN, Infinity, -Infinity, -1]"), piece, &python),
                            "[ null f:inf f:-inf i:-1 ]");
        assert_null(events(t, SV("[Infinity]"), piece, NULL));
        assert_err(t->e.st, ST_INPUT, t, "t.json:1:2: expected a value, got 'Infinity'");
        err_clear(&t->e);
        assert_null(events(t, SV("[Inf]"), piece, &python));
        err_clear(&t->e);
    }
}

static void a_million_open_brackets_are_refused(void **state)
{
    struct test *t = *state;
    struct buf b = {0};
    for (int i = 0; i < 1000000; i++)
        buf_putc(&b, '[');
    assert_null(events(t, (struct sv){b.p, b.n}, 4096, NULL));
    assert_err(t->e.st, ST_INPUT, t, "t.json:1:65: nested deeper than 64 levels");
    buf_free(&b);
}

static void a_number_of_a_megabyte_is_refused(void **state)
{
    struct test *t = *state;
    struct buf b = {0};
    for (int i = 0; i < 1 << 20; i++)
        buf_putc(&b, '7');
    for (size_t piece = 100; piece <= b.n; piece *= 100) {
        assert_null(events(t, (struct sv){b.p, b.n}, piece, NULL));
        assert_err(t->e.st, ST_INPUT, t, "t.json:1:1: a number of more than 399 digits");
    }
    buf_free(&b);
}

static void a_lenient_reader_takes_what_writers_produce(void **state)
{
    static const struct json_limits lenient = {.lenient = true};
    static const char text[] =
        "[\"a\\ud83d\", \"\\ude00b\", \"\\ud83d\\ude00\", NaN, Infinity, -Infinity, "
        "9223372036854775808, 1e999, -1e999, nope]";
    static const enum json_event want[] = {
        JSON_LIST_BEGIN, JSON_STRING, JSON_STRING, JSON_STRING, JSON_NULL,  JSON_FLOAT,
        JSON_FLOAT,      JSON_FLOAT,  JSON_FLOAT,  JSON_FLOAT,  JSON_ERROR,
    };
    struct test *t = *state;
    struct json_reader *r = json_reader_new("t.json", &lenient);
    json_feed(r, text, sizeof text - 1);
    json_finish(r);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        assert_int_equal(json_next(r, &t->e), want[i]);
        if (i == 1)
            assert_true(sv_eq(json_text(r), "a\xef\xbf\xbd"));
        if (i == 2)
            assert_true(sv_eq(json_text(r), "\xef\xbf\xbd"
                                            "b"));
        if (i == 3)
            assert_true(sv_eq(json_text(r), "\xf0\x9f\x98\x80"));
        if (i == 7)
            assert_near(json_double(r) / 9223372036854775808.0, 1, 1e-15);
        if (i == 9)
            assert_true(json_double(r) < -1e308);
    }
    json_reader_free(&r);
}

static void an_error_repeats(void **state)
{
    struct test *t = *state;
    struct json_reader *r = json_reader_new("t.json", NULL);
    json_feed(r, "]1", 2);
    for (int i = 0; i < 3; i++) {
        err_clear(&t->e);
        assert_int_equal(json_next(r, &t->e), JSON_ERROR);
        assert_err(t->e.st, ST_INPUT, t, "t.json:1:1: expected a value, got ']'");
    }
    json_reader_free(&r);
    json_reader_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_event_in_pieces_of_every_size),
        TEST(scalars_stand_alone),
        TEST(nul_escapes_are_part_of_the_text),
        TEST(places_count_lines_and_bytes),
        TEST(faults_are_named_at_their_place),
        TEST(limits_hold),
        TEST(numbers_of_python_are_read_where_asked),
        TEST(a_million_open_brackets_are_refused),
        TEST(a_number_of_a_megabyte_is_refused),
        TEST(a_lenient_reader_takes_what_writers_produce),
        TEST(an_error_repeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
