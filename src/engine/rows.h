/* Converts a batch of the loop (serve/executor.h: chunks, and changes of the decode set) to the
 * batch that an engine computes: tokens with their places in the KV cache, and the rows that emit.
 * And back: token ids to a completion, ends of sequence included.
 *
 * Tokens stand in one order everywhere: those of the chunks in batch order, then one per decode
 * row, by ascending slot. Rows are the tokens whose logits are needed, in the same order: the last
 * token of each chunk that completes its prefill, and every decode row.
 *
 * One struct rows per engine keeps the decode sets of its lanes; one struct row_batch per batch in
 * flight holds what was resolved, so batches may complete while later ones are out. All on the
 * loop's thread. */
#ifndef ENGINE_ROWS_H
#define ENGINE_ROWS_H

#include "serve/executor.h"

struct rows_params {
    /* Vocabulary and ends of sequence. NULL: batches are resolved to rows alone, without tokens. */
    const struct model *model;
    int64_t block_size, num_blocks;
    int64_t max_tokens, max_rows; /* of a batch; 0 = any number */
    int64_t max_position;         /* tokens a sequence may have */
    int32_t lanes;                /* 0 = 1 */
    bool ignore_eos;              /* no token ends a sequence */
};

/* Consecutive tokens of one sequence. */
struct segment {
    int64_t first;         /* index of its first token in the batch */
    int64_t tokens;        /* >= 1 */
    int64_t kv_before;     /* position of its first token */
    const int32_t *blocks; /* block table of the sequence */
};

/* In row_batch.ids: the token that this slot emits in a batch that is still out. Only with several
 * batches of a lane in flight; the engine has the token on its device. */
enum { ROW_TOKEN_OUT = -1 };

/* A batch, resolved. A zeroed struct is empty; the arrays grow and are reused. */
struct row_batch {
    int64_t n_tokens, n_rows;
    int64_t n_chunks, n_decodes;
    struct segment *segments;             /* [n_chunks + n_decodes], chunks first */
    int32_t *ids;                         /* [n_tokens] or ROW_TOKEN_OUT */
    int64_t *positions;                   /* [n_tokens] in the sequence */
    int64_t *kv_at;                       /* [n_tokens] in the cache: block * block_size + offset */
    int32_t top_block;                    /* highest block that tokens go to; -1 = none */
    int32_t *row_slot;                    /* [n_rows] */
    int64_t *row_token;                   /* [n_rows] index of the row's token */
    const struct sampling **row_sampling; /* [n_rows] NULL = greedy */
    bool sampled;                         /* one of them is not greedy */
    struct emitted *tokens;               /* [n_rows], by rows_answer */
    int32_t *ended;                       /* likewise */
    int64_t tokens_cap, rows_cap, segments_cap;
};

struct lane_slots; /* the decode rows of one lane */

struct rows {
    struct rows_params p;
    struct slot_source source;
    struct lane_slots *lanes; /* [p.lanes] */
    int32_t *out;             /* [n_slots] rows of the slot in batches not answered yet */
    int32_t n_slots;
};

/* p->model is borrowed. */
void rows_open(struct rows *r, const struct rows_params *p);
/* executor_ops.bind: every decode set is empty, no batch is out. */
void rows_bind(struct rows *r, struct slot_source source);
void rows_close(struct rows *r);

/* executor_ops.submit. A slot that leaves without being in its lane's decode set, or enters while
 * it is, and a set of another size than b->n_decodes are bugs of the loop. ST_USAGE: more tokens or
 * rows than p allows, a sequence longer than max_position, an id outside the vocabulary. */
enum st rows_resolve(struct rows *r, const struct batch *b, struct row_batch *out, struct err *e);

/* The batch completed with ids[i] for row i: sets tokens and ended of *out, which point into *b and
 * live until it is resolved anew. */
void rows_answer(struct rows *r, struct row_batch *b, const int32_t *ids, struct completion *out);
void row_batch_free(struct row_batch *b);

#endif
