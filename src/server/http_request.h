/* Parser of requests: the JSON body of a completion, a chat or a response, checked and tokenized.
 *
 * A member that is null is one that is absent. Known members without effect here are accepted
 * (user, n of 1, logprobs of false, a response_format of text, ...); unsupported ones that would
 * have an effect are refused by name, and so are unknown ones. */
#ifndef SERVER_HTTP_REQUEST_H
#define SERVER_HTTP_REQUEST_H

#include "model/chat_format.h"
#include "model/sampling.h"
#include "model/tokenizer.h"
#include "server/stops.h"

struct http_request_rules {
    const char *model;                 /* its name here */
    const struct tokenizer *tokenizer; /* NULL = prompts must be token ids */
    int64_t vocab;
    int64_t max_model_len; /* prompt and output, >= 2 */
    struct chat_format chat;
    bool ignore_eos;    /* default */
    double temperature; /* default; 0 = greedy */
    bool predicted;     /* tokens are predicted, so no sampling setting is refused */
};

enum http_api { HTTP_COMPLETIONS, HTTP_CHAT, HTTP_RESPONSES };

struct http_request {
    enum http_api api;
    bool chat; /* its prompt is of messages */
    bool stream, include_usage, each_usage, return_ids, ignore_eos;
    bool sampled, seeded; /* `sampling` is valid, and so is its seed */
    struct sampling sampling;
    int32_t *ids; /* [n_ids], >= 1 */
    int64_t n_ids, max_tokens;
    int64_t min_tokens; /* neither an end token nor a stop string ends the answer before */
    struct sv stops[STOPS_MOST];
    size_t n_stops;
};

/* Response to a refused request, beside the error's text. */
struct http_refusal {
    int status;        /* 400, or 404 for another model */
    const char *param; /* the member at fault, where it is known; static */
    const char *code;  /* OpenAI's, or NULL; static */
};

/* The result lives in the arena; the tree of the body is freed. */
enum st http_request_parse(struct arena *a, const struct http_request_rules *rules,
                           enum http_api api, struct sv body, struct http_request *out,
                           struct http_refusal *refusal, struct err *e);

#endif
