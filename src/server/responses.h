/* OpenAI's Responses API: its requests as chats, and its answers.
 *
 *     instructions, input      a system message, and messages; calls and outputs of functions are
 *                              messages of the assistant and of a tool
 *     max_output_tokens, text  max_tokens, response_format
 *
 * Nothing is stored: previous_response_id, conversation and background are refused.
 *
 * A stream is response.created, .in_progress, .output_item.added, .content_part.added, a
 * .output_text.delta for each token, .output_text.done, .content_part.done, .output_item.done, and
 * response.completed with the whole answer and its usage, or response.incomplete where
 * max_output_tokens ended it. Events are numbered from 0. */
#ifndef SERVER_RESPONSES_H
#define SERVER_RESPONSES_H

#include "server/answer.h"
#include "text/node.h"

/* The body as one of a chat, in the arena. *param: the member at fault. */
enum st responses_as_chat(struct arena *a, const struct node *doc, struct node **out,
                          const char **param, struct err *e);

/* The n-th token, from 1. */
void responses_event(struct buf *out, const struct answer_head *h, struct sv text, int64_t n);
/* The end after n tokens; h->said is the whole text, h->finish how it ended. */
void responses_end(struct buf *out, const struct answer_head *h, int64_t n);
void responses_error(struct buf *out, const char *message);
/* The whole answer as one document. */
void responses_document(struct buf *out, const struct answer_head *h, struct sv text, int64_t n,
                        const char *finish);

#endif
