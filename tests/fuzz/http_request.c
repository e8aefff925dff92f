/* Bodies that clients send: taken or refused with a text, and what is taken is within its bounds.
 * The first byte picks the API and the template. */
#include "fuzz.h"

#include "server/http_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tokenizer *tokenizer;
    struct err e = {0};
    if (!tokenizer)
        REQUIRE(tokenizer_load(TW_SOURCE_DIR "/data/models/tiny_qwen3/tokenizer.json", &tokenizer,
                               &e) == ST_OK);
    if (size == 0)
        return 0;
    const struct http_request_rules rules = {
        .model = "m",
        .tokenizer = tokenizer,
        .vocab = 2496,
        .max_model_len = 64,
        .chat = {.kind = (enum chat_template)(data[0] / 2 % 3)}};
    /* completion, chat, and above 127 responses: seeds are older than they */
    const enum http_api api = data[0] > 127 ? HTTP_RESPONSES : (enum http_api)(data[0] % 2);
    struct sv body = {(const char *)data + 1, size - 1};
    struct arena *a = arena_new();
    struct http_request request;
    struct http_refusal refusal;
    if (http_request_parse(a, &rules, api, body, &request, &refusal, &e) == ST_OK) {
        REQUIRE(request.n_ids >= 1 && request.max_tokens >= 1 &&
                request.n_ids + request.max_tokens <= 64);
        for (int64_t i = 0; i < request.n_ids; i++)
            REQUIRE(request.ids[i] >= 0 && request.ids[i] < 2496);
    } else {
        REQUIRE(e.st == ST_INPUT && (refusal.status == 400 || refusal.status == 404) &&
                *err_cause(&e, 0));
    }
    arena_free(&a);
    return 0;
}
