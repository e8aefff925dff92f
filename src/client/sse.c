#include "client/sse.h"

#include <string.h>
#include <strings.h>

void sse_begin(struct sse *s, size_t max_bytes)
{
    buf_clear(&s->line);
    buf_clear(&s->data);
    buf_clear(&s->comment);
    *s = (struct sse){.line = s->line,
                      .data = s->data,
                      .comment = s->comment,
                      .max_bytes = max_bytes ? max_bytes : (size_t)SSE_MAX_BYTES};
}

void sse_free(struct sse *s)
{
    buf_free(&s->line);
    buf_free(&s->data);
    buf_free(&s->comment);
    *s = (struct sse){0};
}

void sse_feed(struct sse *s, const char *p, size_t n)
{
    ASSERT(s->p == s->end);
    s->p = p;
    s->end = p + n;
}

/* The first line end in p .. end, or end. */
static const char *line_end(const char *p, const char *end)
{
    const char *lf = memchr(p, '\n', (size_t)(end - p));
    const char *stop = lf ? lf : end;
    const char *cr = memchr(p, '\r', (size_t)(stop - p));
    return cr ? cr : stop;
}

/* The next whole line without its end; false when the bytes end first. */
static bool next_line(struct sse *s, struct sv *line)
{
    if (s->after_cr && s->p < s->end) {
        s->after_cr = false;
        s->p += *s->p == '\n';
    }
    const char *stop = line_end(s->p, s->end);
    size_t n = (size_t)(stop - s->p);
    if (s->line.n + n > s->max_bytes) {
        s->too_long = true;
        return false;
    }
    if (stop == s->end) {
        buf_add(&s->line, s->p, n);
        s->p = s->end;
        return false;
    }
    *line = (struct sv){s->p, n};
    if (s->line.n > 0) {
        buf_add(&s->line, s->p, n);
        *line = (struct sv){s->line.p, s->line.n};
    }
    s->after_cr = *stop == '\r';
    s->p = stop + 1;
    return true;
}

static void add_data(struct sse *s, struct sv value)
{
    if (s->has_data)
        buf_putc(&s->data, '\n');
    if (s->data.n + value.n > s->max_bytes)
        s->too_long = true;
    else
        buf_add(&s->data, value.p, value.n);
    s->has_data = true;
}

/* error, server_error, InternalServerError, exception */
static bool names_failure(struct sv event)
{
    static const char *const ends[] = {"error", "exception"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t n = strlen(ends[i]);
        if (event.n >= n && strncasecmp(event.p + event.n - n, ends[i], n) == 0)
            return true;
    }
    return false;
}

/* The blank line that ends an event: whether there is one to return. */
static bool end_event(struct sse *s)
{
    if (s->is_error && !s->has_data)
        add_data(s, (struct sv){buf_str(&s->comment), s->comment.n});
    buf_clear(&s->comment);
    return s->has_data;
}

/* True when the line ends an event to return. */
static bool take_line(struct sse *s, struct sv line)
{
    if (s->lines++ == 0 && line.n >= 3 && memcmp(line.p, "\xef\xbb\xbf", 3) == 0)
        line = (struct sv){line.p + 3, line.n - 3};
    if (line.n == 0)
        return end_event(s);
    const char *colon = memchr(line.p, ':', line.n);
    struct sv name = {line.p, colon ? (size_t)(colon - line.p) : line.n};
    size_t skip = colon ? name.n + 1 : name.n;
    skip += skip < line.n && colon && line.p[skip] == ' ';
    const struct sv value = {line.p + skip, line.n - skip};
    if (*line.p == '{') {
        s->is_error = true;
        add_data(s, line);
    } else if (sv_eq(name, "data")) {
        add_data(s, value);
    } else if (sv_eq(name, "error")) {
        s->is_error = true;
        add_data(s, value);
    } else if (sv_eq(name, "event")) {
        s->is_error |= names_failure(value);
    } else if (name.n == 0) {
        buf_clear(&s->comment);
        buf_add(&s->comment, value.p, value.n);
    }
    return false;
}

enum sse_event sse_next(struct sse *s, struct sv *data)
{
    struct sv line;
    if (s->delivered) {
        buf_clear(&s->data);
        s->has_data = s->delivered = s->is_error = false;
    }
    while (!s->too_long && next_line(s, &line)) {
        bool whole = take_line(s, line);
        buf_clear(&s->line);
        if (!whole || s->too_long)
            continue;
        s->delivered = true;
        *data = (struct sv){buf_str(&s->data), s->data.n};
        return SSE_EVENT;
    }
    if (!s->too_long)
        return SSE_MORE;
    s->p = s->end;
    return SSE_TOO_LONG;
}

void sse_finish(struct sse *s)
{
    sse_feed(s, "\n\n", 2);
}

size_t sse_pending(const struct sse *s)
{
    return s->line.n + (s->delivered ? 0 : s->data.n + s->has_data);
}
