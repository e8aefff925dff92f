/* An executor that plays its part by script and checks everything the loop tells it.
 *
 * It replays the deltas into rows of its own and compares every sum of a batch with them; when it
 * computes, it keeps the KV cache as a table of token ids, reads each sequence back through its
 * block table, and emits fake_token() of what it read: so a wrong block, a lost token or a block
 * given to two requests ends the run with a message, or gives the wrong tokens. */
#ifndef SUPPORT_FAKE_EXECUTOR_H
#define SUPPORT_FAKE_EXECUTOR_H

#include "serve/clock.h"
#include "serve/executor.h"

enum { FAKE_VOCAB = 1000 };

struct fake_eos {
    int64_t iteration;
    int32_t slot;
};

struct fake_params {
    bool computes;
    int32_t max_in_flight, lanes;    /* 0 = 1 */
    double batch_s, token_s, host_s; /* a batch takes host_s + batch_s + token_s * its tokens */
    double (*time_s)(void *self, const struct batch *b); /* NULL; else the device part */
    void *time_self;
    const struct fake_eos *eos; /* predictions: the script; the iteration's end ends the slot */
    int32_t n_eos;
    int32_t eos_id;                  /* computing: this token ends a sequence; 0 = none does */
    int64_t block_size, num_blocks;  /* 0 = not checked; needed to compute */
    struct key_spans spans;          /* of the model */
    int64_t batch_cap;               /* 0 = not checked */
    bool receives;                   /* KV may come from another replica */
    bool shares_blocks;              /* prefix caching: sequences may begin behind 0 */
    int64_t fail_submit, fail_next;  /* n > 0: the nth call fails */
    const struct serve_clock *clock; /* not virtual: batches end after real time */
    void (*seen)(void *self, const struct batch *b); /* NULL; called for every batch */
    void *seen_self;
};

struct executor fake_executor(const struct fake_params *p);

/* The token that follows n ids: 1 .. FAKE_VOCAB - 1. */
int32_t fake_token(const int32_t *ids, int64_t n);

/* "iteration: slot+tokens@start! ... | n decodes": one line of text for a batch, "!" for a last
 * chunk, changes of the set as -slot and +slot. */
void fake_batch_text(const struct batch *b, char *out, int size);

#endif
