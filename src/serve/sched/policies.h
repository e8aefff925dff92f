/* The members of the family; registry.c lists them. */
#ifndef SERVE_SCHED_POLICIES_H
#define SERVE_SCHED_POLICIES_H

#include "serve/sched/sched.h"

/* vLLM's V1 engine: one token budget per batch, running requests first. Decodes take a token each,
 * then prefills go on in chunks, then new requests are admitted while tokens, batch cap and blocks
 * allow; blocks are taken as chunks need them. When no block is free the request admitted last is
 * preempted, and a step that preempted admits nobody. */
extern const struct sched_ops sched_vllm_v1;

/* Sarathi-Serve as Vidur has it: chunk_size tokens per batch, decodes first, then the prefills
 * begun, then new requests, each with blocks for its whole prompt and above the watermark. A decode
 * wants a free block whether it needs one or not, and the last of the running ones is preempted for
 * it. Where Vidur restarts a half-done prefill as a shorter prompt with more output, the prompt is
 * recomputed here. */
extern const struct sched_ops sched_sarathi;

/* One request at a time, in order of arrival: what continuous batching is compared to. */
extern const struct sched_ops sched_sequential;

#endif
