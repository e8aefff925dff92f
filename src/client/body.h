/* Bodies of requests, made before the clock starts. */
#ifndef CLIENT_BODY_H
#define CLIENT_BODY_H

#include "model/chat_template.h"
#include "text/node.h"

enum body_endpoint {
    BODY_COMPLETIONS,
    BODY_CHAT,
    BODY_RESPONSES
}; /* order of option client.endpoint */

/* Source of output token counts, and what is requested from the server. Order of option
 * client.count. */
enum body_count {
    BODY_COUNT_USAGE,     /* stream_options.include_usage: the total, after the last chunk */
    BODY_COUNT_EACH,      /* and continuous_usage_stats: a running total in every chunk (vLLM) */
    BODY_COUNT_IDS,       /* and return_token_ids: the ids in every chunk (vLLM, twinfer serve) */
    BODY_COUNT_TOKENIZER, /* nothing requested: the texts are tokenized after the run */
};

/* The member that limits the output tokens. Order of option client.max_tokens_name. */
enum body_limit {
    BODY_LIMIT_AUTO, /* max_tokens: every server knows it, and those that require the other name
                        refuse it */
    BODY_LIMIT_MAX_TOKENS,
    BODY_LIMIT_MAX_COMPLETION_TOKENS,
    BODY_LIMIT_MAX_OUTPUT_TOKENS, /* of the Responses API, which has no other */
};

struct body_params {
    enum body_endpoint endpoint;
    const char *model; /* the server's name of it */
    enum body_count count;
    double temperature; /* NAN = not sent */
    enum body_limit limit;
    bool ignore_eos;          /* sent only when true: OpenAI's own servers reject it */
    const struct node *extra; /* map or NULL: further members, instead of those above */
    enum chat_template chat;  /* completions: the text is put into this template */
};

/* Prompt of a request: a text, or ids (completions only). */
struct body_prompt {
    struct sv text;
    const struct sv *earlier; /* [n_earlier] turns before it: of the user, of the assistant, ... */
    size_t n_earlier;         /* even */
    const int32_t *ids;       /* NULL = text */
    size_t n_ids;
};

enum body_limit body_limit(const struct body_params *p); /* never BODY_LIMIT_AUTO */
const char *body_limit_name(enum body_limit l);          /* "max_tokens"; "auto" */

struct body_maker;
/* ST_USAGE: extra sets what the benchmark itself must set (stream, prompt, messages, max_tokens).
 */
enum st body_maker_new(struct arena *a, const struct body_params *p, struct body_maker **out,
                       struct err *e);
/* The body in the arena. The text must be UTF-8; what is not becomes U+FFFD. */
enum st body_make(struct arena *a, struct body_maker *m, const struct body_prompt *prompt,
                  int64_t max_tokens, struct sv *out, struct err *e);

/* url as given by a user ("http://host:8000", ".../v1", ".../v1/") + "/v1" + path. ST_USAGE: not
 * http or https, a user or password in it, a query. */
enum st body_url(struct arena *a, const char *url, const char *path, const char **out,
                 struct err *e);
/* The same of a path beside /v1: "http://host:8000/metrics". Call body_url first, which checks. */
const char *body_root_url(struct arena *a, const char *url, const char *path);

#endif
