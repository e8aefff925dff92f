/* Executors: what carries a batch out. The serving loop does not know whether it talks to a CPU, a
 * GPU, another process or a prediction.
 *
 * Asynchronous from the first day: submit() hands a batch over and returns; next() delivers the
 * earliest completion. max_in_flight says how many batches may be out at once (1 on the CPU; more
 * with asynchronous scheduling or pipeline stages).
 *
 * A batch is a delta. Prefill chunks change in every iteration and are listed. Decode rows form a
 * *decode set* per lane (lane = index below max_in_flight): a batch says which slots entered and
 * left since the previous batch of its lane, plus sums; every slot in the set emits one token per
 * batch. So a steady decode batch costs the loop O(1); an executor that needs rows keeps its own
 * list.
 *
 * Slots are small integers naming a live request inside one replica; they are reused after
 * release(). Seconds are doubles on the loop's clock (0 = start of the run). */
#ifndef SERVE_EXECUTOR_H
#define SERVE_EXECUTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "model/model.h"

/* Part of a prompt (after a preemption: of prompt and tokens generated so far). */
struct chunk {
    int32_t slot;
    int64_t start;  /* tokens of the sequence already in the KV cache */
    int64_t tokens; /* computed by this batch, >= 1 */
    bool last;      /* completes the prefill: this batch emits a token for the slot */
};

/* What a computing executor may read about a slot, valid from submit to the completion. Without
 * EXEC_COMPUTES the pointers are NULL. */
struct slot_view {
    const int32_t *ids; /* [>= start + tokens]: the sequence; a decode row feeds ids[kv_tokens] */
    const int32_t *blocks; /* block table: KV block of token t is blocks[t / block_size] */
    int64_t kv_tokens;     /* tokens in the KV cache before this batch */
    int64_t n_blocks;
};

struct batch {
    int64_t iteration; /* of this replica, from 0 */
    int32_t replica, lane;
    double submit_s; /* when the loop began to build it */

    const struct chunk *chunks;
    int32_t n_chunks;
    const int32_t *entered, *left; /* changes of the lane's decode set; a slot is in at most one */
    int32_t n_entered, n_left;

    int32_t n_decodes;        /* size of the decode set with this batch */
    int32_t n_last_chunks;    /* chunks with last == true */
    int64_t prefill_tokens;   /* sum of chunk tokens */
    int64_t decode_kv_tokens; /* sum over decode rows of tokens in the cache before this batch */
    int64_t kv_blocks;        /* allocated in the replica when submitted */
    struct op_load load;      /* of the whole batch, for predictors and rooflines */
};

/* Rows whose logits are needed: n_decodes + n_last_chunks. All tokens: prefill_tokens + n_decodes.
 */

struct emitted {
    int32_t slot, token_id;
};

struct completion {
    uint64_t ticket;
    double start_s, end_s;        /* end: the host has the tokens */
    double host_s;                /* part of end - start spent by the executor's host side */
    double device_s;              /* part spent in operators */
    const struct emitted *tokens; /* [n_tokens] or NULL (predictions): every row emits one */
    int32_t n_tokens;
    const int32_t *ended; /* slots whose token ends the sequence (EOS seen by the host) */
    int32_t n_ended;
    const double *op_s; /* [OP_KINDS] summed over repeats, or NULL; needs EXEC_OP_TIMES */
};

enum {
    EXEC_COMPUTES = 1 << 0, /* needs ids and block tables, emits token ids */
    EXEC_VIRTUAL = 1 << 1,  /* runs on the virtual clock */
    EXEC_OP_TIMES = 1 << 2, /* fills completion.op_s */
};

struct executor {
    const struct executor_ops *ops;
    void *self;
};

/* The function that gives an executor sight of a slot; set once by the loop before the first batch.
 */
struct slot_source {
    void *self;
    struct slot_view (*view)(void *self, int32_t slot);
};

enum { EXECUTOR_VERSION = 1 };

struct executor_ops {
    const char *name, *help;
    int version; /* EXECUTOR_VERSION */
    uint32_t caps;
    int (*max_in_flight)(void *self);
    /* Take a batch over; it is borrowed until its completion was delivered. Errors end the run. */
    enum st (*submit)(void *self, const struct batch *b, uint64_t *ticket, struct err *e);
    /* The earliest completion that ends at or before deadline_s (INFINITY = wait for one). ST_END
     * when there is none by then. Arrays in *out live until the next call of submit or next. */
    enum st (*next)(void *self, double deadline_s, struct completion *out, struct err *e);
    void (*close)(void *self);
    /* optional */
    void (*bind)(void *self, struct slot_source source);
    void (*release)(void *self, int32_t slot); /* the slot's request is over or preempted */
};

/* ST_OK, or the bug's name: a required hook is missing or the version is another. */
enum st executor_check(const struct executor_ops *ops, struct err *e);

#endif
