#include "server/answer.h"

#include "server/responses.h"
#include "text/json.h"

static void begin(struct buf *out, const struct answer_head *h, bool whole)
{
    bool chat = h->request->chat;
    const char *object = !chat   ? "text_completion"
                         : whole ? "chat.completion"
                                 : "chat.completion.chunk";
    buf_printf(out, "{\"id\":\"%s-%lld\",\"object\":\"%s\",\"created\":%lld,\"model\":",
               chat ? "chatcmpl" : "cmpl", (long long)h->id, object, (long long)h->created_s);
    json_quote(out, sv_of(h->model));
}

static void usage(struct buf *out, const struct answer_head *h, int64_t n)
{
    long long prompt = h->request->n_ids, output = n;
    buf_printf(
        out, ",\"usage\":{\"prompt_tokens\":%lld,\"completion_tokens\":%lld,\"total_tokens\":%lld}",
        prompt, output, prompt + output);
}

static void finish_reason(struct buf *out, const char *finish)
{
    if (finish)
        buf_printf(out, ",\"finish_reason\":\"%s\"", finish);
    else
        buf_puts(out, ",\"finish_reason\":null");
}

void answer_event(struct buf *out, const struct answer_head *h, struct sv text, int32_t id,
                  int64_t n, const char *finish)
{
    if (h->request->api == HTTP_RESPONSES) {
        responses_event(out, h, text, n);
        return;
    }
    buf_puts(out, "data: ");
    begin(out, h, false);
    buf_puts(out, ",\"choices\":[{\"index\":0,");
    if (h->request->chat)
        buf_puts(out, n == 1 ? "\"delta\":{\"role\":\"assistant\",\"content\":"
                             : "\"delta\":{\"content\":");
    else
        buf_puts(out, "\"text\":");
    json_quote(out, text);
    if (h->request->chat)
        buf_putc(out, '}');
    if (h->request->return_ids)
        buf_printf(out, ",\"token_ids\":[%d]", id);
    finish_reason(out, finish);
    buf_puts(out, "}]");
    if (h->request->each_usage)
        usage(out, h, n);
    buf_puts(out, "}\n\n");
}

void answer_end(struct buf *out, const struct answer_head *h, int64_t n)
{
    if (h->request->api == HTTP_RESPONSES) {
        responses_end(out, h, n);
        return;
    }
    if (h->request->include_usage) {
        buf_puts(out, "data: ");
        begin(out, h, false);
        buf_puts(out, ",\"choices\":[]");
        usage(out, h, n);
        buf_puts(out, "}\n\n");
    }
    buf_puts(out, "data: [DONE]\n\n");
}

void answer_event_error(struct buf *out, const struct answer_head *h, const char *message)
{
    if (h->request->api == HTTP_RESPONSES) {
        responses_error(out, message);
        return;
    }
    buf_puts(out, "data: ");
    answer_error(out, message, "server_error", NULL, NULL);
    buf_puts(out, "\n\n");
}

void answer_document(struct buf *out, const struct answer_head *h, struct sv text,
                     const int32_t *ids, int64_t n, const char *finish)
{
    if (h->request->api == HTTP_RESPONSES) {
        responses_document(out, h, text, n, finish);
        return;
    }
    begin(out, h, true);
    buf_puts(out, ",\"choices\":[{\"index\":0,");
    buf_puts(out,
             h->request->chat ? "\"message\":{\"role\":\"assistant\",\"content\":" : "\"text\":");
    json_quote(out, text);
    if (h->request->chat)
        buf_putc(out, '}');
    for (int64_t i = 0; h->request->return_ids && i < n; i++)
        buf_printf(out, "%s%d%s", i ? "," : ",\"token_ids\":[", ids[i], i + 1 == n ? "]" : "");
    finish_reason(out, finish);
    buf_puts(out, "}]");
    usage(out, h, n);
    buf_putc(out, '}');
}

static void quote_or_null(struct buf *out, const char *name, const char *value)
{
    buf_printf(out, ",\"%s\":", name);
    if (value)
        json_quote(out, sv_of(value));
    else
        buf_puts(out, "null");
}

void answer_error(struct buf *out, const char *message, const char *type, const char *param,
                  const char *code)
{
    buf_puts(out, "{\"error\":{\"message\":");
    json_quote(out, sv_of(message));
    quote_or_null(out, "type", type);
    quote_or_null(out, "param", param);
    quote_or_null(out, "code", code);
    buf_puts(out, "}}");
}

void answer_model_entry(struct buf *out, const char *model, int64_t created_s,
                        int64_t max_model_len)
{
    buf_puts(out, "{\"id\":");
    json_quote(out, sv_of(model));
    buf_printf(
        out,
        ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"twinfer\",\"max_model_len\":%lld}",
        (long long)created_s, (long long)max_model_len);
}

void answer_models(struct buf *out, const char *model, int64_t created_s, int64_t max_model_len)
{
    buf_puts(out, "{\"object\":\"list\",\"data\":[");
    answer_model_entry(out, model, created_s, max_model_len);
    buf_puts(out, "]}");
}
