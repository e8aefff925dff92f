#include "server/responses.h"
#include "text/json.h"

/* Events before the first token, and those of a token. */
enum { BEFORE = 4 };

static void begin(struct buf *out, const char *type, int64_t number)
{
    buf_printf(out, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%lld", type, type,
               (long long)number);
}

static void end(struct buf *out)
{
    buf_puts(out, "}\n\n");
}

static bool is_cut(const char *finish)
{
    return finish && sv_eq(sv_of(finish), "length");
}

static const char *status_of(const char *finish)
{
    return !finish ? "in_progress" : is_cut(finish) ? "incomplete" : "completed";
}

static void part(struct buf *out, struct sv text)
{
    buf_puts(out, "{\"type\":\"output_text\",\"text\":");
    json_quote(out, text);
    buf_puts(out, ",\"annotations\":[],\"logprobs\":[]}");
}

/* text.p NULL: it has no content yet. */
static void item(struct buf *out, const struct answer_head *h, struct sv text, const char *finish)
{
    buf_printf(out,
               "{\"type\":\"message\",\"id\":\"msg_%lld\",\"status\":\"%s\",\"role\":"
               "\"assistant\",\"content\":[",
               (long long)h->id, status_of(finish));
    if (text.p)
        part(out, text);
    buf_puts(out, "]}");
}

/* finish NULL: it goes on. */
static void response(struct buf *out, const struct answer_head *h, struct sv text, int64_t n,
                     const char *finish)
{
    const long long prompt = h->request->n_ids, output = n;
    buf_printf(
        out,
        "{\"id\":\"resp_%lld\",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\","
        "\"error\":null,\"incomplete_details\":%s,\"instructions\":null,"
        "\"max_output_tokens\":%lld,\"model\":",
        (long long)h->id, (long long)h->created_s, status_of(finish),
        is_cut(finish) ? "{\"reason\":\"max_output_tokens\"}" : "null",
        (long long)h->request->max_tokens);
    json_quote(out, sv_of(h->model));
    buf_puts(out, ",\"output\":[");
    if (finish)
        item(out, h, text, finish);
    buf_puts(out, "],\"parallel_tool_calls\":false,\"previous_response_id\":null,\"store\":false,"
                  "\"tool_choice\":\"auto\",\"tools\":[],\"metadata\":{},\"usage\":");
    if (finish)
        buf_printf(out,
                   "{\"input_tokens\":%lld,\"output_tokens\":%lld,\"output_tokens_details\":{"
                   "\"reasoning_tokens\":0},\"total_tokens\":%lld}}",
                   prompt, output, prompt + output);
    else
        buf_puts(out, "null}");
}

static void event_response(struct buf *out, const struct answer_head *h, const char *type,
                           int64_t number, struct sv text, int64_t n, const char *finish)
{
    begin(out, type, number);
    buf_puts(out, ",\"response\":");
    response(out, h, text, n, finish);
    end(out);
}

static void event_item(struct buf *out, const struct answer_head *h, const char *type,
                       int64_t number, struct sv text, const char *finish)
{
    begin(out, type, number);
    buf_puts(out, ",\"output_index\":0,\"item\":");
    item(out, h, text, finish);
    end(out);
}

static void place(struct buf *out, const struct answer_head *h)
{
    buf_printf(out, ",\"item_id\":\"msg_%lld\",\"output_index\":0,\"content_index\":0",
               (long long)h->id);
}

static void event_part(struct buf *out, const struct answer_head *h, const char *type,
                       int64_t number, struct sv text)
{
    begin(out, type, number);
    place(out, h);
    buf_puts(out, ",\"part\":");
    part(out, text);
    end(out);
}

static void event_text(struct buf *out, const struct answer_head *h, const char *type,
                       int64_t number, const char *name, struct sv text)
{
    begin(out, type, number);
    place(out, h);
    buf_printf(out, ",\"%s\":", name);
    json_quote(out, text);
    buf_puts(out, ",\"logprobs\":[]");
    end(out);
}

void responses_event(struct buf *out, const struct answer_head *h, struct sv text, int64_t n)
{
    const struct sv none = {NULL, 0};
    if (n == 1) {
        event_response(out, h, "response.created", 0, none, 0, NULL);
        event_response(out, h, "response.in_progress", 1, none, 0, NULL);
        event_item(out, h, "response.output_item.added", 2, none, NULL);
        event_part(out, h, "response.content_part.added", 3, SV(""));
    }
    event_text(out, h, "response.output_text.delta", BEFORE + n - 1, "delta", text);
}

void responses_end(struct buf *out, const struct answer_head *h, int64_t n)
{
    const int64_t at = BEFORE + n;
    event_text(out, h, "response.output_text.done", at, "text", h->said);
    event_part(out, h, "response.content_part.done", at + 1, h->said);
    event_item(out, h, "response.output_item.done", at + 2, h->said, h->finish);
    event_response(out, h, is_cut(h->finish) ? "response.incomplete" : "response.completed", at + 3,
                   h->said, n, h->finish);
}

void responses_error(struct buf *out, const char *message)
{
    buf_puts(out, "event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":");
    json_quote(out, sv_of(message));
    buf_puts(out, ",\"param\":null}\n\n");
}

void responses_document(struct buf *out, const struct answer_head *h, struct sv text, int64_t n,
                        const char *finish)
{
    response(out, h, text, n, finish);
}
