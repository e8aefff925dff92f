/* What a client asks for: the JSON body of a completion or a chat, checked and tokenized.
 *
 * Known members that would change nothing here are taken (top_p of a greedy engine, user, ...); one
 * that would, and that is not done, is refused by name, and so is an unknown one. */
#ifndef SERVER_ASK_H
#define SERVER_ASK_H

#include "model/chat_template.h"
#include "model/tokenizer.h"
#include "server/stops.h"

struct ask_rules {
    const char *model;                 /* its name here */
    const struct tokenizer *tokenizer; /* NULL = prompts must be token ids */
    int64_t vocab;
    int64_t max_model_len; /* prompt and output, >= 2 */
    enum chat_template chat;
    bool ignore_eos;      /* when the body does not say */
    bool any_temperature; /* the tokens mean nothing, so no sampling setting is refused */
};

struct ask {
    bool chat, stream, include_usage, each_usage, return_ids, ignore_eos;
    int32_t *ids; /* [n_ids], >= 1 */
    int64_t n_ids, max_tokens;
    struct sv stops[STOPS_MOST];
    size_t n_stops;
};

/* What it says lives in the arena. ST_INPUT with *http_status 400, or 404 for another model. */
enum st ask_parse(struct arena *a, const struct ask_rules *rules, bool chat, struct sv body,
                  struct ask *out, int *http_status, struct err *e);

#endif
