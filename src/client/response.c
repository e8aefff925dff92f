#include "client/response.h"

#include <stdio.h>
#include <string.h>

enum { ERROR_BYTES = 160 }; /* of an error that is told as it came */

void client_result_free(struct client_result *r)
{
    vec_free(&r->chunks);
    vec_free(&r->empties);
    vec_free(&r->ids);
    buf_free(&r->text);
}

void response_begin(struct response *s, struct client_result *r, size_t max_event_bytes)
{
    sse_begin(&s->sse, max_event_bytes);
    s->r = r;
    s->usage_so_far = s->ids_so_far = true;
    s->failed = false;
    r->chunks.n = r->empties.n = r->ids.n = 0;
    buf_clear(&r->text);
    r->status = RUN_OK;
    r->error_type[0] = r->error_msg[0] = r->finish[0] = 0;
    r->first_byte_ns = r->end_ns = RUN_NONE;
    r->prompt_tokens = r->completion_tokens = -1;
    r->reasoning_tokens = 0;
    r->reasoned = false;
    r->http_status = r->after_done = 0;
    r->done = false;
}

void response_free(struct response *s)
{
    sse_free(&s->sse);
}

/* Every whole secret, and the beginning of one at the end of a text that was cut before. */
static void redact(const struct response *s, struct buf *text)
{
    static const char mark[] = "redacted";
    for (size_t k = 0; k < s->n_secrets; k++) {
        const char *secret = s->secrets[k];
        const size_t n = strlen(secret);
        struct buf out = {0};
        size_t i = 0;
        if (n < SECRET_LEAST)
            continue;
        while (i < text->n) {
            const size_t left = text->n - i;
            const size_t same = left < n ? left : n;
            if (same >= SECRET_LEAST && memcmp(text->p + i, secret, same) == 0) {
                buf_add(&out, mark, sizeof mark - 1);
                i += same;
            } else {
                buf_putc(&out, text->p[i++]);
            }
        }
        buf_free(text);
        *text = out;
    }
}

void response_fail(struct response *s, int64_t time_ns, enum run_status status, const char *type,
                   const char *fmt, ...)
{
    struct client_result *r = s->r;
    if (s->failed)
        return;
    s->failed = true;
    r->status = status;
    r->end_ns = time_ns;
    snprintf(r->error_type, sizeof r->error_type, "%s", type);
    va_list ap;
    va_start(ap, fmt);
    char whole[1024];
    struct buf text = {0};
    vsnprintf(whole, sizeof whole, fmt, ap);
    va_end(ap);
    buf_puts(&text, whole);
    redact(s, &text);
    snprintf(r->error_msg, sizeof r->error_msg, "%s", buf_str(&text));
    buf_free(&text);
    r->error_msg[str_utf8_valid(r->error_msg, strlen(r->error_msg))] = 0;
    for (char *c = r->error_msg; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = ' ';
}

/* Tokens of a chunk as far as they are known; -1 = it carries none. */
static int32_t count_tokens(struct response *s, const struct stream_chunk *c)
{
    struct client_result *r = s->r;
    bool usage = c->completion_tokens >= 0;
    int64_t known = r->completion_tokens > 0 ? r->completion_tokens : 0;
    int64_t more = usage ? c->completion_tokens - known : 0;
    if (!c->has_choice)
        return -1;
    if (c->n_ids > 0)
        return s->ids_so_far ? (int32_t)c->n_ids : 0;
    if (c->text_bytes == 0 && !(usage && s->usage_so_far && more > 0))
        return -1;
    s->ids_so_far = false;
    if (!usage)
        s->usage_so_far = false;
    return s->usage_so_far && more > 0 ? (int32_t)(more < INT32_MAX ? more : 0) : 0;
}

/* Of a message: behind those that the same read brought before it, empty ones too. */
static int64_t time_of(const struct client_result *r, int64_t time_ns)
{
    if (r->chunks.n && time_ns <= vec_last(&r->chunks).time_ns)
        time_ns = vec_last(&r->chunks).time_ns + 1;
    if (r->empties.n && time_ns <= vec_last(&r->empties).time_ns)
        time_ns = vec_last(&r->empties).time_ns + 1;
    return time_ns;
}

static void take_chunk(struct response *s, int64_t time_ns, const struct stream_chunk *c)
{
    struct client_result *r = s->r;
    int32_t tokens = count_tokens(s, c);
    time_ns = time_of(r, time_ns);
    if (tokens >= 0) {
        vec_push(&r->chunks, (struct client_chunk){time_ns, tokens, (int32_t)c->text_bytes});
        r->end_ns = time_ns;
    } else if (c->has_choice)
        vec_push(&r->empties, (struct client_empty){time_ns, r->chunks.n, c->role, c->finished});
    if (c->prompt_tokens >= 0)
        r->prompt_tokens = c->prompt_tokens;
    if (c->completion_tokens >= 0)
        r->completion_tokens = c->completion_tokens;
    if (c->reasoning_tokens > 0)
        r->reasoning_tokens = c->reasoning_tokens;
    if (c->finished)
        memcpy(r->finish, c->finish, sizeof r->finish);
    r->reasoned |= c->reasoning;
    r->done |= c->done;
}

/* The server's words: the message, what stands in its place, or the event itself. */
static void tell_error(struct response *s, int64_t time_ns, const struct stream_chunk *c,
                       struct sv data)
{
    const char *said = c->error[0] ? c->error : c->words;
    if (*said)
        response_fail(s, time_ns, RUN_ERROR, "server", "%s", said);
    else if (data.n > 0)
        response_fail(s, time_ns, RUN_ERROR, "server", "%.*s",
                      (int)(data.n < ERROR_BYTES ? data.n : ERROR_BYTES), data.p);
    else
        response_fail(s, time_ns, RUN_ERROR, "server",
                      "the server reports an error without a text");
}

/* An error outside the data of a chunk (sse.h): a document, or a text. */
static void take_error(struct response *s, int64_t time_ns, struct sv data)
{
    struct stream_chunk c;
    struct buf text = {0};
    struct chunk_ids ids = {0};
    err_clear(&s->e);
    if (chunk_parse(data, &c, &text, &ids, &s->e) != ST_OK)
        c.error[0] = c.words[0] = 0;
    tell_error(s, time_ns, &c, data);
    buf_free(&text);
    vec_free(&ids);
}

/* What servers call an answer that they did not bring to its end. */
static bool is_given_up(const char *finish)
{
    static const char *const reasons[] = {
        "abort",     "aborted",
        "error",     "cancel", /* vLLM, SGLang, Dynamo */
        "cancelled", "canceled",
        "timeout",   "timed_out",                    /* TensorRT-LLM */
        "failed",    "insufficient_system_resource", /* DeepSeek */
    };
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (strcmp(finish, reasons[i]) == 0)
            return true;
    return false;
}

static void take_event(struct response *s, int64_t time_ns, struct sv data)
{
    struct client_result *r = s->r;
    struct stream_chunk c;
    if (r->done) {
        r->after_done++;
        return;
    }
    if (s->sse.is_error) {
        take_error(s, time_ns, data);
        return;
    }
    if (sv_eq(sv_trim(data), "[DONE]")) {
        r->done = true;
        return;
    }
    if (sv_trim(data).n == 0) /* "data:" alone keeps a connection open */
        return;
    err_clear(&s->e);
    if (chunk_parse(data, &c, &r->text, &r->ids, &s->e) != ST_OK)
        response_fail(s, time_ns, RUN_ERROR, "malformed", "%s", err_cause(&s->e, 0));
    else if (c.is_error)
        tell_error(s, time_ns, &c, data);
    else
        take_chunk(s, time_ns, &c);
    if (!s->failed && c.finished && is_given_up(c.finish))
        response_fail(s, time_ns, RUN_ERROR, "server", "the server gave up: finish_reason %s",
                      c.finish);
}

bool response_bytes(struct response *s, int64_t time_ns, const char *p, size_t n)
{
    struct sv data;
    if (s->failed)
        return false;
    if (s->r->first_byte_ns == RUN_NONE)
        s->r->first_byte_ns = time_ns;
    sse_feed(&s->sse, p, n);
    for (;;) {
        enum sse_event ev = sse_next(&s->sse, &data);
        if (ev == SSE_MORE)
            return true;
        if (ev == SSE_EVENT)
            take_event(s, time_ns, data);
        else if (!s->r->done)
            response_fail(s, time_ns, RUN_ERROR, "too_large", "an event of more than %zu bytes",
                          s->sse.max_bytes);
        if (s->failed || ev == SSE_TOO_LONG) {
            s->sse.p = s->sse.end; /* the rest is ignored */
            return !s->failed;
        }
    }
}

struct choice_fields {
    bool finish, role; /* beside those that are neither */
};

static bool is_chosen(struct choice_fields which, const struct client_empty *x)
{
    return (!x->finish || which.finish) && (!x->role || which.role);
}

/* Puts those chunks without text in their places. */
static void merge_empties(struct client_result *r, struct choice_fields which)
{
    struct client_result old = *r;
    r->chunks.p = NULL;
    r->chunks.n = r->chunks.cap = 0;
    for (size_t i = 0, k = 0; i <= old.chunks.n; i++) {
        for (; k < r->empties.n && r->empties.p[k].at == i; k++)
            if (is_chosen(which, &r->empties.p[k]))
                vec_push(&r->chunks, (struct client_chunk){r->empties.p[k].time_ns, 0, 0});
        if (i < old.chunks.n)
            vec_push(&r->chunks, old.chunks.p[i]);
    }
    vec_free(&old.chunks);
    r->end_ns = vec_last(&r->chunks).time_ns;
}

/* Total of tokens: by usage, else the number requested if the server reports that limit as its
 * stop. -1 = unknown. */
static int64_t total_tokens(const struct client_result *r)
{
    if (r->completion_tokens >= 0)
        return r->completion_tokens;
    return r->max_tokens > 0 && strcmp(r->finish, "length") == 0 ? r->max_tokens : -1;
}

/* Whether chunks without text were tokens, by the total. */
static void judge_empties(struct client_result *r)
{
    const int64_t total = total_tokens(r);
    static const struct choice_fields ways[] = {
        {false, false}, {true, false}, {false, true}, {true, true}};
    for (size_t i = 0; i < r->chunks.n; i++)
        if (r->chunks.p[i].tokens > 0) /* counts are known: nothing to judge */
            return;
    size_t plain = 0;
    for (size_t k = 0; k < r->empties.n; k++)
        plain += !r->empties.p[k].role && !r->empties.p[k].finish;
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        size_t n = 0;
        if (ways[w].role && plain == 0) /* most servers send it before there is a token */
            continue;
        for (size_t k = 0; k < r->empties.n; k++)
            n += is_chosen(ways[w], &r->empties.p[k]);
        if (n > 0 && (int64_t)(r->chunks.n + n) == total) {
            merge_empties(r, ways[w]);
            return;
        }
    }
}

/* The last event, where the stream ends without its blank line. */
static void take_rest(struct response *s, int64_t time_ns)
{
    const struct client_result before = *s->r;
    const size_t n_text = s->r->text.n, n_ids = s->r->ids.n;
    struct sv data;
    sse_finish(&s->sse);
    if (sse_next(&s->sse, &data) == SSE_EVENT)
        take_event(s, time_ns, data);
    if (s->failed && strcmp(s->r->error_type, "malformed") == 0) { /* it was cut: truncated */
        s->failed = false;
        chunk_cut_text(&s->r->text, n_text);
        s->r->ids.n = n_ids;
        s->r->status = before.status;
        s->r->end_ns = before.end_ns;
        s->r->error_type[0] = s->r->error_msg[0] = 0;
    }
}

/* Tokens that were counted and of which nothing was sent: an answer that came at once, at its last
 * chunk. */
static void count_unseen(struct client_result *r, int64_t time_ns)
{
    const int32_t n = r->completion_tokens > INT32_MAX ? 0 : (int32_t)r->completion_tokens;
    if (r->chunks.n > 0 || n <= 0)
        return;
    const int64_t at_ns = r->empties.n > 0 ? vec_last(&r->empties).time_ns : time_ns;
    vec_push(&r->chunks, (struct client_chunk){at_ns, n, 0});
    r->end_ns = at_ns;
}

void response_close(struct response *s, int64_t time_ns)
{
    struct client_result *r = s->r;
    const struct client_sends *sends = &s->sends;
    if (!s->failed && !r->done)
        take_rest(s, time_ns);
    if (s->failed)
        return;
    if (r->done || r->finish[0]) {
        judge_empties(r);
        count_unseen(r, time_ns);
    }
    if (!r->done && (!r->finish[0] || sends->done))
        response_fail(s, time_ns, RUN_ERROR, "truncated",
                      "the stream ended after %zu chunks without [DONE]", r->chunks.n);
    else if (sends->finish && !r->finish[0])
        response_fail(s, time_ns, RUN_ERROR, "incomplete",
                      "[DONE] after %zu chunks without a finish_reason, which this server sends",
                      r->chunks.n);
    else if (sends->usage && r->completion_tokens < 0)
        response_fail(s, time_ns, RUN_ERROR, "incomplete",
                      "the stream ended after %zu chunks without usage, which this server sends",
                      r->chunks.n);
    else if (r->chunks.n == 0)
        response_fail(s, time_ns, RUN_ERROR, "no_tokens", "the stream ended without a token");
}
