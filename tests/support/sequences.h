/* The least a computing executor needs around it: sequences in slots, block tables over scattered
 * blocks, batches as deltas of the decode set. What serve_run does, without a scheduler. */
#ifndef SUPPORT_SEQUENCES_H
#define SUPPORT_SEQUENCES_H

#include "engine/engine.h"

enum { SEQUENCES_MAX = 64, SEQUENCE_TOKENS = 2048 };

struct sequence {
    int32_t ids[SEQUENCE_TOKENS];
    int32_t blocks[SEQUENCE_TOKENS];
    int64_t n_ids, n_blocks, kv_tokens;
    const struct sampling *sampling; /* set after sequence_start; NULL = greedy */
};

struct sequences {
    struct executor ex;
    struct serve_clock clock;
    int64_t block_size, vocab;
    int32_t *free_blocks; /* [n_free] in no sensible order */
    int64_t n_free;
    struct sequence slots[SEQUENCES_MAX];
    int32_t set[SEQUENCES_MAX]; /* decode set the executor was last told, [n_set] ascending */
    int32_t n_set;
    int64_t iteration;
    bool op_times;          /* asked for by each batch */
    struct completion done; /* of the last batch */
};

/* Opens the CPU engine on params (clock is filled in) and fails the test when that fails. */
struct sequences *sequences_open(struct cpu_engine_params params);
void sequences_close(struct sequences **s);
/* In two steps, for another engine: new, then ex is opened on its clock, then bind. */
struct sequences *sequences_new(int64_t block_size, int64_t num_blocks, int64_t vocab);
void sequences_bind(struct sequences *s);

void sequence_start(struct sequences *s, int32_t slot, const int32_t *ids, int64_t n);
void sequence_drop(struct sequences *s, int32_t slot); /* give its blocks back */

/* One batch: for each chunk of slot and tokens (start and last are filled in), then one decode row
 * for each of the ascending slots. Tokens that come back are appended to their sequences. */
void sequences_step(struct sequences *s, struct chunk *chunks, int32_t n_chunks,
                    const int32_t *decodes, int32_t n_decodes);

/* Logits of row r of the last batch, [vocab]. */
const float *sequences_logits(const struct sequences *s, int64_t r);

#endif
