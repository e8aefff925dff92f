/* One event of an OpenAI-style stream: the JSON object after "data: ".
 *
 *     completions  {"choices": [{"text": "...", "finish_reason": null}], "usage": {...}}
 *     chat         {"choices": [{"delta": {"content": "..."}, "finish_reason": null}]}
 *
 * Also read: reasoning_content or reasoning of a delta (output tokens too; the first of them where
 * a server sends the same text under both names), token_ids of a choice (vLLM's return_token_ids),
 * usage (in any chunk), error as an object or a text. All else is skipped, choices other than the
 * first too. Nothing is allocated for a chunk but what the text and ids need. */
#ifndef CLIENT_CHUNK_H
#define CLIENT_CHUNK_H

#include "base/str.h"
#include "base/vec.h"

struct stream_chunk {
    bool has_choice;                          /* of index 0 */
    bool role;                                /* a delta has a role */
    size_t text_bytes;                        /* added to text */
    size_t n_ids;                             /* added to ids */
    bool finished;                            /* finish_reason is set: */
    char finish[24];                          /* "stop", "length", ...; cut when longer */
    int64_t prompt_tokens, completion_tokens; /* of usage; -1 = not there */
    bool is_error;
    char error[200]; /* its message; cut when longer */
};

struct chunk_ids {
    int32_t *p;
    size_t n, cap;
};

/* text and ids are appended to. ST_INPUT: not one JSON object, or a member of the wrong kind; the
 * error names the column. */
enum st chunk_parse(struct sv json, struct stream_chunk *out, struct buf *text,
                    struct chunk_ids *ids, struct err *e);

#endif
