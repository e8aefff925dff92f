/* What an engine computes for prompts, written out: for comparing it with another implementation of
 * the same model (adapters/transformers_logits.py). All prompts are one batch of chunks, then every
 * sequence decodes greedily in batches of all: the ways of a run, its graphs included. */
#ifndef JOB_LOGITS_H
#define JOB_LOGITS_H

#include "engine/registry.h"

struct logits_params {
    int64_t prompts, prompt_tokens, tokens; /* tokens: generated of each prompt */
    uint64_t seed;                          /* of the prompts' ids, uniform over the vocabulary */
    int64_t block_size;
};

struct logits {
    struct logits_params p;
    int64_t vocab;
    int32_t *ids;  /* [prompts, prompt_tokens + tokens]: prompts, and behind each what it became */
    float *values; /* [prompts, tokens, vocab]; of token t those that it was taken from */
};

/* Blocks, tokens of a batch and rows that an engine is opened with. */
int64_t logits_blocks(const struct logits_params *p);
/* ST_USAGE: sequences longer than the model's positions, more logits than LOGITS_MOST_BYTES. */
#define LOGITS_MOST_BYTES (INT64_C(16) << 30)
enum st logits_check(const struct logits_params *p, const struct model *m, struct err *e);
/* ex is of x, opened with ignore_eos; params are checked. Memory is the arena's. */
enum st logits_compute(struct arena *a, const struct engine *x, const struct executor *ex,
                       const struct model *m, const struct logits_params *p, struct logits *out,
                       struct err *e);
/* As safetensors: prompts [prompts, prompt_tokens] and tokens [prompts, tokens] int32, logits
 * [prompts, tokens, vocab] float32. */
enum st logits_write(struct arena *a, const struct logits *l, const char *path, struct err *e);

#endif
