/* Rows of tokens and requests.
 *
 * Predictions emit one token per row of every batch, so nothing is done for a token when its batch
 * ends: the lane notes the end, and the rows of a request are written when it leaves the decode
 * set. Computing executors name each token, and its row is written at once. */
#ifndef SERVE_TOKENS_H
#define SERVE_TOKENS_H

#include "serve/replica.h"

/* Notes that a batch of the lane with its decode set ended. */
void tokens_note_end(struct replica *r, struct lane *lane, int64_t end_ns);

/* Delivers q's next token with its time; id RUN_NONE when unknown. */
void tokens_deliver(struct replica *r, struct request *q, int64_t time_ns, int64_t id);

/* Delivers the tokens of all ticks below `tick` to q, which is in the decode set or just left it.
 */
void tokens_flush(struct replica *r, struct lane *lane, struct request *q, int64_t tick);

/* Writes the row of a request that is over. completion_ns may be RUN_NONE. */
void tokens_request_row(struct serve_run_state *run, struct request *q, enum run_status status,
                        int64_t completion_ns, const char *error_type, const char *error_msg);

#endif
