/* One event of an OpenAI-style stream: the JSON object after "data: ".
 *
 *     completions  {"choices": [{"text": "...", "finish_reason": null}], "usage": {...}}
 *     chat         {"choices": [{"delta": {"content": "..."}, "finish_reason": null}]}
 *     responses    {"type": "response.output_text.delta", "delta": "..."},
 *                  {"type": "response.completed", "response": {"usage": {...}}}
 *
 * Text is what the model wrote: content (a text, or a list of parts), reasoning_content or
 * reasoning (the first of them where a server sends the same text under both names), refusal, names
 * and arguments of tool calls. Also read: token_ids of a choice (vLLM's return_token_ids) and usage
 * in any chunk. All else is skipped, choices other than the first too. Nothing is allocated for a
 * chunk but what the text and ids need.
 *
 * An error is `error` of the object, of its first choice, or of a map in the object, unless it is
 * null, false, 0 or empty; object or type "error"; and, in an object without a choice and usage,
 * what frameworks and gateways put in the place of a chunk: detail, message, errors, fault, a code
 * or status that is no success, success false.
 *
 * Taken although JSON has it otherwise: halves of surrogate pairs, NaN, counts written as 12.0. */
#ifndef CLIENT_CHUNK_H
#define CLIENT_CHUNK_H

#include "base/str.h"
#include "base/vec.h"

struct stream_chunk {
    bool has_choice;                          /* of index 0 */
    bool role;                                /* a delta has a role */
    size_t text_bytes;                        /* added to text */
    bool reasoning;                           /* some of them are reasoning */
    size_t n_ids;                             /* added to ids */
    bool finished;                            /* finish_reason is set, and not empty: */
    char finish[32];                          /* "stop", "length", ...; cut when longer */
    int64_t prompt_tokens, completion_tokens; /* of usage; -1 = not there */
    int64_t reasoning_tokens;                 /* of the completion tokens; 0 = not there */
    bool done;                                /* responses: the event that ends the stream */
    bool is_error;
    char error[200]; /* its message; cut when longer; "" = none was found */
    char words[200]; /* of detail and its like, where there is no message */
};

struct chunk_ids {
    int32_t *p;
    size_t n, cap;
};

/* text and ids are appended to. ST_INPUT: not one JSON object, or a member of the wrong kind; the
 * error names the column. */
enum st chunk_parse(struct sv json, struct stream_chunk *out, struct buf *text,
                    struct chunk_ids *ids, struct err *e);

/* The text again as it was when it had n bytes. */
void chunk_cut_text(struct buf *text, size_t n);

#endif
