#include <float.h>
#include <math.h>
#include <string.h>

#include "text/json.h"

/* What the grammar allows next. */
enum want {
    WANT_VALUE,
    WANT_ITEM_OR_END, /* after '[' */
    WANT_KEY_OR_END,  /* after '{' */
    WANT_KEY,         /* after ',' in a map */
    WANT_COLON,
    WANT_COMMA_OR_END,
    WANT_NOTHING, /* the top-level value is complete */
};

/* A token that the fed bytes cut in two; its first part waits in `held`. */
enum json_partial { PARTIAL_NONE, PARTIAL_STRING, PARTIAL_WORD };

struct json_reader {
    const char *p, *end; /* unread bytes of the current feed */
    uint64_t end_offset; /* of `end` in the stream */
    uint64_t line_start; /* offset of the current line's first byte */
    uint64_t line;       /* from 1 */
    uint64_t token;      /* offset of the current token's first byte */
    struct sv text;      /* of the current string or key */
    int64_t i;           /* of the current integer */
    double f;            /* of the current number */
    enum want want;
    enum json_partial partial;
    bool escaped; /* a partial string ends in an open backslash */
    bool finished, failed;
    bool python, lenient; /* of json_limits */
    uint32_t depth, max_depth;
    size_t max_string_bytes;
    struct buf held;    /* raw bytes of a token cut by the end of a feed */
    struct buf decoded; /* a string with its escapes resolved */
    struct err error;   /* once failed */
    char *source;
    bool *is_map; /* [max_depth]: kind of each open container */
};

enum { MAX_NUMBER_BYTES = 399, MAX_DEPTH = 64, MAX_STRING_BYTES = 16 << 20 };

struct json_reader *json_reader_new(const char *source, const struct json_limits *limits)
{
    struct json_reader *r = mem_alloc(sizeof *r);
    r->line = limits && limits->first_line ? limits->first_line : 1;
    r->max_depth = limits && limits->max_depth ? limits->max_depth : MAX_DEPTH;
    r->max_string_bytes =
        limits && limits->max_string_bytes ? limits->max_string_bytes : MAX_STRING_BYTES;
    r->python = limits && (limits->python || limits->lenient);
    r->lenient = limits && limits->lenient;
    r->is_map = mem_alloc(r->max_depth * sizeof *r->is_map);
    size_t n = strlen(source) + 1;
    r->source = mem_alloc(n);
    memcpy(r->source, source, n);
    return r;
}

void json_reader_free(struct json_reader **r)
{
    if (!r || !*r)
        return;
    buf_free(&(*r)->held);
    buf_free(&(*r)->decoded);
    mem_free((*r)->is_map);
    mem_free((*r)->source);
    mem_free(*r);
    *r = NULL;
}

void json_feed(struct json_reader *r, const char *p, size_t n)
{
    ASSERT(r->p == r->end && !r->finished);
    r->p = p;
    r->end = p + n;
    r->end_offset += n;
}

void json_finish(struct json_reader *r)
{
    r->finished = true;
}

struct sv json_text(const struct json_reader *r)
{
    return r->text;
}

int64_t json_int(const struct json_reader *r)
{
    return r->i;
}

double json_double(const struct json_reader *r)
{
    return r->f;
}

static uint32_t clamp32(uint64_t v)
{
    return v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
}

void json_place(const struct json_reader *r, uint32_t *line, uint32_t *column)
{
    *line = clamp32(r->line);
    *column = clamp32(r->token - r->line_start + 1);
}

static uint64_t here(const struct json_reader *r)
{
    return r->end_offset - (uint64_t)(r->end - r->p);
}

static enum json_event fail(struct json_reader *r, uint64_t offset, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

static enum json_event fail(struct json_reader *r, uint64_t offset, const char *fmt, ...)
{
    char text[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    err_at(&r->error, ST_INPUT, r->source, (long)r->line, (long)(offset - r->line_start + 1), "%s",
           text);
    r->failed = true;
    return JSON_ERROR;
}

static const char *wanted(const struct json_reader *r)
{
    static const char *const in_list[] = {
        [WANT_VALUE] = "a value",
        [WANT_ITEM_OR_END] = "a value or ']'",
        [WANT_KEY_OR_END] = "a key or '}'",
        [WANT_KEY] = "a key in quotes",
        [WANT_COLON] = "':'",
        [WANT_COMMA_OR_END] = "',' or ']'",
        [WANT_NOTHING] = "nothing more",
    };
    if (r->want == WANT_COMMA_OR_END && r->is_map[r->depth - 1])
        return "',' or '}'";
    return in_list[r->want];
}

static enum json_event unexpected(struct json_reader *r)
{
    unsigned char c = (unsigned char)*r->p;
    if (c > 0x20 && c < 0x7f)
        return fail(r, here(r), "expected %s, got '%c'", wanted(r), c);
    return fail(r, here(r), "expected %s, got byte 0x%02x", wanted(r), c);
}

static enum json_event value_done(struct json_reader *r, enum json_event ev)
{
    r->want = r->depth ? WANT_COMMA_OR_END : WANT_NOTHING;
    return ev;
}

/* ---- strings ---- */

static bool plain_byte(unsigned char c)
{
    return c >= 0x20 && c != '"' && c != '\\';
}

#define EVERY(byte) (UINT64_C(0x0101010101010101) * (byte))

/* The first of eight bytes that may be special (quote, backslash, control) or end. Bytes from 0x80
 * pass. A borrow can only flag a byte behind a true one, so stopping early is safe. */
static const char *skip_plain(const char *p, const char *end)
{
    while (end - p >= 8) {
        uint64_t x;
        memcpy(&x, p, 8);
        uint64_t quote = x ^ EVERY(0x22), slash = x ^ EVERY(0x5c);
        uint64_t hit = ((x - EVERY(0x20)) & ~x) | ((quote - EVERY(1)) & ~quote) |
                       ((slash - EVERY(1)) & ~slash);
        if (hit & EVERY(0x80))
            break;
        p += 8;
    }
    while (p < end && plain_byte((unsigned char)*p))
        p++;
    return p;
}

/* Moves *at to the closing quote; false when the bytes end first. A backslash skips the byte after
 * it; *escaped carries an open one to the next feed. Control bytes are found by the decoder. */
static bool find_quote(const char **at, const char *end, bool *escaped, bool *has_special)
{
    const char *p = *at;
    for (;;) {
        if (*escaped && p < end) {
            *escaped = false;
            p++;
        }
        p = skip_plain(p, end);
        if (p == end || *p == '"') {
            *at = p;
            return p < end;
        }
        *has_special = true;
        *escaped = *p == '\\';
        p++;
    }
}

static int hex4(const char *p, const char *end)
{
    int v = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int c = p[i], lower = c | 0x20;
        int digit = c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 87 : -1;
        if (digit < 0)
            return -1;
        v = v * 16 + digit;
    }
    return v;
}

static void put_utf8(struct buf *b, unsigned c)
{
    char u[4];
    size_t n = 0;
    if (c < 0x80) {
        u[n++] = (char)c;
    } else if (c < 0x800) {
        u[n++] = (char)(0xc0 | c >> 6);
        u[n++] = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        u[n++] = (char)(0xe0 | c >> 12);
        u[n++] = (char)(0x80 | (c >> 6 & 0x3f));
        u[n++] = (char)(0x80 | (c & 0x3f));
    } else {
        u[n++] = (char)(0xf0 | c >> 18);
        u[n++] = (char)(0x80 | (c >> 12 & 0x3f));
        u[n++] = (char)(0x80 | (c >> 6 & 0x3f));
        u[n++] = (char)(0x80 | (c & 0x3f));
    }
    buf_add(b, u, n);
}

/* \uXXXX or a surrogate pair at p (behind the 'u'); returns the bytes used, 0 with a fault set. */
static size_t unicode_escape(struct json_reader *r, const char *p, const char *end, uint64_t offset)
{
    int c = hex4(p, end);
    if (c < 0)
        return (void)fail(r, offset, "expected four hex digits after \\u"), 0;
    if (c < 0xd800 || c > 0xdfff) {
        put_utf8(&r->decoded, (unsigned)c);
        return 4;
    }
    int low = c <= 0xdbff && end - p >= 10 && p[4] == '\\' && p[5] == 'u' ? hex4(p + 6, end) : -1;
    if ((low < 0xdc00 || low > 0xdfff) && r->lenient) {
        put_utf8(&r->decoded, 0xfffd);
        return 4;
    }
    if (low < 0xdc00 || low > 0xdfff)
        return (void)fail(r, offset, "\\u%04x is half of a surrogate pair", (unsigned)c), 0;
    put_utf8(&r->decoded, 0x10000u + ((unsigned)(c - 0xd800) << 10) + (unsigned)(low - 0xdc00));
    return 10;
}

/* Resolves the escapes of raw[0, n) into r->text. */
static bool decode(struct json_reader *r, const char *raw, size_t n)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    buf_clear(&r->decoded);
    for (const char *p = raw, *end = raw + n; p < end;) {
        const char *q = skip_plain(p, end);
        buf_add(&r->decoded, p, (size_t)(q - p));
        p = q;
        if (p == end)
            break;
        uint64_t offset = r->token + 1 + (uint64_t)(p - raw);
        if (*p != '\\')
            return fail(r, offset, "control byte 0x%02x in a string: write it as an escape",
                        (unsigned char)*p),
                   false;
        const char *known = p[1] ? strchr(from, p[1]) : NULL;
        if (known) {
            buf_putc(&r->decoded, to[known - from]);
            p += 2;
        } else if (p[1] == 'u') {
            size_t used = unicode_escape(r, p + 2, end, offset);
            if (!used)
                return false;
            p += 2 + used;
        } else {
            return fail(r, offset, "unknown escape in a string"), false;
        }
    }
    r->text = (struct sv){buf_str(&r->decoded), r->decoded.n};
    return true;
}

static enum json_event string_event(struct json_reader *r, const char *raw, size_t n, bool special)
{
    if (n > r->max_string_bytes)
        return fail(r, r->token, "a string of more than %zu bytes", r->max_string_bytes);
    size_t valid = str_utf8_valid(raw, n);
    if (valid < n)
        return fail(r, r->token + 1 + valid, "bytes that are not UTF-8 in a string");
    r->text = (struct sv){raw, n};
    if (special && !decode(r, raw, n))
        return JSON_ERROR;
    if (r->want == WANT_VALUE || r->want == WANT_ITEM_OR_END)
        return value_done(r, JSON_STRING);
    r->want = WANT_COLON;
    return JSON_KEY;
}

/* The bytes ran out inside a token: keep what is there and ask for more. */
static enum json_event hold(struct json_reader *r, enum json_partial kind, const char *from)
{
    buf_add(&r->held, from, (size_t)(r->end - from));
    r->partial = kind;
    r->p = r->end;
    if (r->held.n > r->max_string_bytes)
        return fail(r, r->token, "a string of more than %zu bytes", r->max_string_bytes);
    if (!r->finished)
        return JSON_MORE;
    return fail(r, r->end_offset, "the text ends inside a string");
}

static enum json_event read_string(struct json_reader *r)
{
    bool resumed = r->partial == PARTIAL_STRING;
    if (!resumed) {
        r->token = here(r);
        r->p++;
        r->escaped = false;
        buf_clear(&r->held);
    }
    bool special = resumed; /* a string cut by a feed is always decoded as a whole */
    const char *from = r->p, *at = r->p;
    if (!find_quote(&at, r->end, &r->escaped, &special))
        return hold(r, PARTIAL_STRING, from);
    r->p = at + 1;
    r->partial = PARTIAL_NONE;
    if (!resumed)
        return string_event(r, from, (size_t)(at - from), special);
    buf_add(&r->held, from, (size_t)(at - from));
    return string_event(r, buf_str(&r->held), r->held.n, special);
}

/* ---- numbers and literals ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const char *skip_digits(const char *p, const char *end)
{
    while (p < end && is_digit(*p))
        p++;
    return p;
}

/* The grammar of RFC 8259; *integral: it has neither fraction nor exponent. */
static bool is_number(const char *p, const char *end, bool *integral)
{
    *integral = true;
    p += p < end && *p == '-';
    const char *digits = p;
    p = skip_digits(p, end);
    if (p == digits || (*digits == '0' && p - digits > 1))
        return false;
    if (p < end && *p == '.') {
        *integral = false;
        const char *fraction = ++p;
        p = skip_digits(p, end);
        if (p == fraction)
            return false;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        *integral = false;
        p++;
        p += p < end && (*p == '+' || *p == '-');
        const char *exponent = p;
        p = skip_digits(p, end);
        if (p == exponent)
            return false;
    }
    return p == end;
}

static enum json_event number_event(struct json_reader *r, struct sv w)
{
    bool integral;
    if (w.n > MAX_NUMBER_BYTES)
        return fail(r, r->token, "a number of more than %d digits", MAX_NUMBER_BYTES);
    if (!is_number(w.p, w.p + w.n, &integral))
        return fail(r, r->token, "'%.*s' is not a number", (int)(w.n < 60 ? w.n : 60), w.p);
    if (integral && !sv_eq(w, "-0")) { /* minus zero is a double only */
        if (str_int64(w, &r->i)) {
            r->f = (double)r->i;
            return value_done(r, JSON_INT);
        }
        if (!r->lenient)
            return fail(r, r->token, "the integer %.*s does not fit 64 bits",
                        (int)(w.n < 60 ? w.n : 60), w.p);
    }
    if (!str_double(w, &r->f) && r->lenient)
        r->f = *w.p == '-' ? -DBL_MAX : DBL_MAX;
    else if (!str_double(w, &r->f))
        return fail(r, r->token, "the number %.*s does not fit a double",
                    (int)(w.n < 60 ? w.n : 60), w.p);
    return value_done(r, JSON_FLOAT);
}

/* Infinity, -Infinity, NaN; JSON_ERROR = none of them. */
static enum json_event python_event(struct json_reader *r, struct sv w)
{
    if (sv_eq(w, "NaN"))
        return value_done(r, JSON_NULL);
    const bool negative = sv_eq(w, "-Infinity");
    if (!negative && !sv_eq(w, "Infinity"))
        return JSON_ERROR;
    r->f = negative ? -(double)INFINITY : (double)INFINITY;
    return value_done(r, JSON_FLOAT);
}

static enum json_event word_event(struct json_reader *r, struct sv w)
{
    static const struct {
        const char *text;
        enum json_event event;
    } literals[] = {{"null", JSON_NULL}, {"true", JSON_TRUE}, {"false", JSON_FALSE}};
    const enum json_event python = r->python ? python_event(r, w) : JSON_ERROR;
    if (python != JSON_ERROR)
        return python;
    if (w.p[0] == '-' || is_digit(w.p[0]))
        return number_event(r, w);
    for (size_t i = 0; i < sizeof literals / sizeof *literals; i++)
        if (sv_eq(w, literals[i].text))
            return value_done(r, literals[i].event);
    return fail(r, r->token, "expected a value, got '%.*s'", (int)(w.n < 60 ? w.n : 60), w.p);
}

static bool word_byte(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '+' || c == '.' || c == '_';
}

/* A number or literal reaches to the first byte that cannot belong to one. */
static enum json_event read_word(struct json_reader *r)
{
    if (r->partial == PARTIAL_NONE) {
        r->token = here(r);
        buf_clear(&r->held);
    }
    const char *from = r->p;
    while (r->p < r->end && word_byte(*r->p))
        r->p++;
    struct sv w = {from, (size_t)(r->p - from)};
    bool cut = r->p == r->end && !r->finished;
    if (cut || r->partial == PARTIAL_WORD) {
        if (r->held.n <= MAX_NUMBER_BYTES) /* longer ones fail whatever follows */
            buf_add(&r->held, w.p, w.n);
        r->partial = cut ? PARTIAL_WORD : PARTIAL_NONE;
        if (cut)
            return JSON_MORE;
        w = (struct sv){buf_str(&r->held), r->held.n};
    }
    r->partial = PARTIAL_NONE;
    return word_event(r, w);
}

/* ---- structure ---- */

static enum json_event open_container(struct json_reader *r, bool map)
{
    r->token = here(r);
    if (r->depth == r->max_depth)
        return fail(r, r->token, "nested deeper than %u levels", r->max_depth);
    r->is_map[r->depth++] = map;
    r->p++;
    r->want = map ? WANT_KEY_OR_END : WANT_ITEM_OR_END;
    return map ? JSON_MAP_BEGIN : JSON_LIST_BEGIN;
}

static enum json_event close_container(struct json_reader *r, bool map)
{
    bool may_end =
        r->want == WANT_COMMA_OR_END || r->want == WANT_ITEM_OR_END || r->want == WANT_KEY_OR_END;
    if (!may_end || r->is_map[r->depth - 1] != map)
        return unexpected(r);
    r->token = here(r);
    r->p++;
    r->depth--;
    return value_done(r, map ? JSON_MAP_END : JSON_LIST_END);
}

static void skip_space(struct json_reader *r)
{
    for (; r->p < r->end; r->p++) {
        char c = *r->p;
        if (c == '\n') {
            r->line++;
            r->line_start = here(r) + 1;
        } else if (c != ' ' && c != '\t' && c != '\r') {
            break;
        }
    }
}

static enum json_event no_more_bytes(struct json_reader *r)
{
    r->token = r->end_offset;
    if (!r->finished)
        return JSON_MORE;
    if (r->want == WANT_NOTHING)
        return JSON_END;
    return fail(r, r->end_offset, "the text ends where %s was expected", wanted(r));
}

/* Consumes the comma or colon that the grammar requires here. */
static bool pass_separator(struct json_reader *r, char c)
{
    if (c == ':' && r->want == WANT_COLON)
        r->want = WANT_VALUE;
    else if (c == ',' && r->want == WANT_COMMA_OR_END)
        r->want = r->is_map[r->depth - 1] ? WANT_KEY : WANT_VALUE;
    else
        return false;
    r->p++;
    return true;
}

static enum json_event next(struct json_reader *r)
{
    if (r->partial == PARTIAL_STRING)
        return read_string(r);
    if (r->partial == PARTIAL_WORD)
        return read_word(r);
    for (;;) {
        skip_space(r);
        if (r->p == r->end)
            return no_more_bytes(r);
        char c = *r->p;
        if (pass_separator(r, c))
            continue;
        if (c == ']' || c == '}')
            return close_container(r, c == '}');
        bool value = r->want == WANT_VALUE || r->want == WANT_ITEM_OR_END;
        bool key = r->want == WANT_KEY || r->want == WANT_KEY_OR_END;
        if (c == '"' && (value || key))
            return read_string(r);
        if (!value)
            return unexpected(r);
        if (c == '{' || c == '[')
            return open_container(r, c == '{');
        return word_byte(c) ? read_word(r) : unexpected(r);
    }
}

enum json_event json_next(struct json_reader *r, struct err *e)
{
    enum json_event ev = r->failed ? JSON_ERROR : next(r);
    if (ev == JSON_ERROR)
        *e = r->error;
    return ev;
}
