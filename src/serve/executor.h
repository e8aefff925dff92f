/* Executors run batches. The serving loop is independent of the kind: CPU, GPU, another process or
 * a prediction.
 *
 * Asynchronous: submit() hands a batch over and returns; next() delivers the earliest completion.
 * max_in_flight is the number of batches that may be out at once: 1 on the CPU, more with
 * asynchronous scheduling or pipeline stages. lanes is the number of disjoint micro-batches among
 * them: 1 (the default) means that successive batches hold the same sequences and a batch is built
 * before the tokens of the one before are known; with pipeline stages lanes == stages, and each
 * lane has max_in_flight / lanes batches out. Both (the hook turns): lanes + 1 batches, which take
 * turns on the lanes, so that a lane's next batch is built, and waits, while its last one is out.
 *
 * A batch is a delta. Prefill chunks change in every iteration and are listed. Decode rows form a
 * *decode set* per lane: a batch lists the slots that left and entered since the previous batch of
 * its lane (apply left first), plus sums. Every slot in the set emits one token per batch with
 * n_decodes > 0; a batch with n_decodes == 0 does not run the set and leaves it unchanged. So a
 * steady decode batch costs the loop O(1); an executor that needs rows keeps its own list, per
 * lane. A lane is notified that a slot left with its own next batch; the slot may be in another
 * lane by then.
 *
 * With disaggregation (predictions) a slot may enter a decode set without a chunk before it: its KV
 * came from another replica.
 *
 * Slots are small integers, 0 <= slot < batch_cap, naming a live request inside one replica. A
 * request keeps its slot from its first chunk to release(), preemptions included: a chunk that does
 * not continue at the slot's length restarts the sequence, at 0 or, with prefix caching, behind
 * blocks that other sequences filled. These may be filled by another chunk of the same batch: of
 * every layer, keys and values are saved before attention reads. Slots are reused after release().
 * Seconds are doubles on the loop's clock (0 = start of the run). */
#ifndef SERVE_EXECUTOR_H
#define SERVE_EXECUTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "model/model.h"
#include "model/sampling.h"
#include "text/node.h"

/* Part of a prompt (after a preemption: of prompt and tokens generated so far). */
struct chunk {
    int32_t slot;
    int64_t start;  /* tokens of the sequence already in the KV cache */
    int64_t tokens; /* computed by this batch, >= 1 */
    bool last;      /* completes the prefill: this batch emits a token for the slot */
};

/* View of a slot for computing executors. Request it inside submit() only; the arrays stay where
 * they are until the batch's completion was delivered. Without EXEC_COMPUTES the pointers are NULL.
 */
struct slot_view {
    /* [>= start + tokens]: the sequence; a decode row feeds ids[kv_tokens]. With a batch of the
     * lane in flight that token is not here yet: the executor feeds the one it just produced. */
    const int32_t *ids;
    const int32_t *blocks; /* block table: KV block of token t is blocks[t / block_size] */
    int64_t kv_tokens;     /* tokens in the KV cache before this batch */
    int64_t n_blocks;
    const struct sampling *sampling; /* NULL = greedy */
};

struct batch {
    int64_t iteration; /* of this replica, from 0 */
    int32_t replica, lane;
    double submit_s; /* start of the iteration, see serve.h; never above the present time */

    const struct chunk *chunks;
    int32_t n_chunks;
    const int32_t *left, *entered; /* changes of the lane's decode set, in this order */
    int32_t n_entered, n_left;

    int32_t n_decodes;        /* size of the decode set after the changes; 0 = it rests */
    int32_t draft_tokens;     /* speculation (predictions): each decode row computes 1 + that many
                                 tokens, and emits 1 to 1 + that many */
    int32_t n_last_chunks;    /* chunks with last == true */
    int64_t prefill_tokens;   /* sum of chunk tokens */
    int64_t decode_kv_tokens; /* sum over decode rows of tokens in the cache before this batch */
    int64_t decode_kv_max;    /* tokens in the longest of these caches; 0 = unknown */
    int64_t train; /* the lane's batches since its last one with chunks, this one included: 1 = the
                      first; 0 = has chunks itself, or is unknown */
    int64_t kv_blocks;   /* allocated in the replica when submitted */
    struct op_load load; /* of the whole batch, for predictors and rooflines */
    bool op_times;       /* fill completion.op_s; an executor without EXEC_OP_TIMES ignores it */
    bool op_split;       /* with op_times, EXEC_OP_SPLIT, nothing else in flight: measure how the
                            time divides over operators, at whatever cost to it */
};

/* Rows whose logits are needed: n_decodes (1 + draft_tokens) + n_last_chunks. All tokens:
 * prefill_tokens + n_decodes (1 + draft_tokens). */

struct emitted {
    int32_t slot, token_id;
};

/* Times of a batch on one pipeline stage: host, then device, from start_s on. */
struct stage_span {
    double start_s, host_s, device_s;
};

struct completion {
    uint64_t ticket;
    double start_s, end_s; /* end: the host has the tokens */
    double host_s;         /* part of end - start spent on the executor's host side */
    double device_s;       /* part spent in operators */
    double energy_j;       /* energy of the whole batch; 0 = unknown */
    /* EXEC_COMPUTES: one per emitting row, any order. Predictions: NULL, every row emits one. */
    const struct emitted *tokens;
    int32_t n_tokens;
    /* Slots whose token of this batch ends the sequence (EOS seen by the host); it counts as an
     * output token. Rows such a slot has in later batches already out are dropped by the loop. */
    const int32_t *ended;
    int32_t n_ended;
    /* One per pipeline stage, in order; start_s, host_s and device_s above are those of the first
     * one and the sums. NULL = one stage. */
    const struct stage_span *stages;
    int32_t n_stages;
    /* [OP_ROWS] by row of the operator (model.h), summed over repeats; NULL unless the batch
     * requested it */
    const double *op_s;
    /* Host work of this batch, hidden behind the device's or not, of executors with several in
     * flight: from submit_s, or the end of the submit() before, until the device could begin; from
     * then to the end of submit(); from when the device was seen to be done to end_s. 0 = not told.
     */
    double prepare_s, launch_s, answer_s;
    /* EXEC_VIRTUAL: until then the thread that runs the loop prepares and launches this batch. It
     * sees arrivals and the ends of batches when it is done, the latter answer_s after it looked,
     * which end_s must count in. 0 = the executor keeps no such account: all is seen when it
     * happens. */
    double host_until_s;
    /* The device waited for that launching: device_s is the host's time more than its own. */
    bool starved;
};

enum {
    EXEC_COMPUTES = 1 << 0, /* needs ids and block tables, emits token ids */
    EXEC_VIRTUAL = 1 << 1,  /* runs on the virtual clock */
    EXEC_OP_TIMES = 1 << 2, /* fills completion.op_s of batches that ask for it */
    /* With EXEC_OP_TIMES: op_s of a batch is its device_s, divided as the last batch with op_split
     * was, and NULL where that had other chunks or decode rows. */
    EXEC_OP_SPLIT = 1 << 3,
};

struct executor {
    const struct executor_ops *ops;
    void *self;
};

/* Some operators of a batch, over and over without gaps of the host: for sensors of power, which
 * need seconds. */
struct op_loop {
    uint64_t rows;  /* bit k: the kernels that are charged to operator row k; 0 = all of the pass */
    double least_s; /* for so long, by the host's clock */
};
struct op_loop_times {
    int64_t from_ns, to_ns;   /* clock_mono_ns: the device worked at nothing else in between */
    int64_t passes;           /* meanwhile; 0 = the pass has no such kernels, and nothing ran */
    double pass_s, kernels_s; /* of one pass: device time; that in which one of its kernels ran */
};

/* Access to slots, bound by the loop before its first batch. Binding begins a new run: no slot is
 * live and every decode set is empty, whatever the previous run left. */
struct slot_source {
    void *self;
    struct slot_view (*view)(void *self, int32_t slot);
};

enum { EXECUTOR_VERSION = 2 };

struct executor_ops {
    const char *name, *help;
    int version; /* EXECUTOR_VERSION */
    uint32_t caps;
    int32_t (*max_in_flight)(void *self); /* >= 1 */
    /* Take a batch over; it is borrowed until its completion was delivered. Errors end the run. */
    enum st (*submit)(void *self, const struct batch *b, uint64_t *ticket, struct err *e);
    /* The earliest completion that ends at or before deadline_s (INFINITY = wait for one); those of
     * a lane come in the order of submission, with end_s not falling. ST_END when there is none by
     * then or nothing is in flight. Arrays in *out live until the next call of submit or next.
     * EXEC_VIRTUAL: the loop asks with INFINITY right after each submit, so a completion must not
     * depend on batches submitted later. */
    enum st (*next)(void *self, double deadline_s, struct completion *out, struct err *e);
    void (*close)(void *self);
    /* optional */
    void (*bind)(void *self, struct slot_source source);
    void (*release)(void *self,
                    int32_t slot); /* called when its request is over and no batch holds it */
    int32_t (*lanes)(void *self);  /* divides max_in_flight; NULL = 1 */
    bool (*turns)(void *self);     /* lanes > 1, max_in_flight is lanes + 1; NULL = false */
    /* optional, for profiles */
    /* The most decode rows that a batch without chunks is padded to: passes of more rows than the
     * one before and up to it are alike. NULL = each number of rows by itself. */
    int64_t (*padded_rows)(void *self, int64_t rows);
    /* Whether what was measured since the last call is the device's own: false where heat or a
     * fault of its supply held the clocks down. NULL = always. */
    bool (*undisturbed)(void *self);
    /* What a profile keeps of the device and of how it was measured; a map in the arena. NULL =
     * none.
     */
    struct node *(*facts)(void *self, struct arena *a);
    /* With nothing in flight: takes the batch as submit() does and answers it itself, with no
     * completion. The batch must have been run as a whole before: what its other operators left is
     * what these find. Tokens and caches are without meaning afterwards. NULL = cannot. */
    enum st (*loop)(void *self, const struct batch *b, const struct op_loop *l,
                    struct op_loop_times *out, struct err *e);
};

int32_t executor_lanes(const struct executor *x);
bool executor_turns(const struct executor *x);

/* ST_OK, or ST_USAGE naming the fault: a required hook is missing, the version differs,
 * max_in_flight is below 1 or no multiple of lanes, or with turns not lanes + 1. */
enum st executor_check(const struct executor *x, struct err *e);

#endif
