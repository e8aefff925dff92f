/* Responses in OpenAI's format, written without a tree: one event per token. */
#ifndef SERVER_ANSWER_H
#define SERVER_ANSWER_H

#include "server/http_request.h"

struct answer_head {
    int64_t id, created_s;
    const char *model;
    const struct http_request *request;
    struct sv said;     /* Responses API: the whole text, at the end */
    const char *finish; /* likewise */
};

/* One token: its text (may be empty), its id, and the count so far. finish NULL = not finished. */
void answer_event(struct buf *out, const struct answer_head *h, struct sv text, int32_t id,
                  int64_t n, const char *finish);
/* Usage, if requested, and [DONE]. */
void answer_end(struct buf *out, const struct answer_head *h, int64_t n);
/* An error in a stream that has begun; no [DONE] follows. */
void answer_event_error(struct buf *out, const struct answer_head *h, const char *message);

/* The whole answer as one document. */
void answer_document(struct buf *out, const struct answer_head *h, struct sv text,
                     const int32_t *ids, int64_t n, const char *finish);

/* param, code: NULL = null. */
void answer_error(struct buf *out, const char *message, const char *type, const char *param,
                  const char *code);
void answer_model_entry(struct buf *out, const char *model, int64_t created_s,
                        int64_t max_model_len);
void answer_models(struct buf *out, const char *model, int64_t created_s, int64_t max_model_len);

#endif
