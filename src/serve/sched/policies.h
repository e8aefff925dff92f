/* The policies; registry.c lists them. */
#ifndef SERVE_SCHED_POLICIES_H
#define SERVE_SCHED_POLICIES_H

#include "serve/sched/sched.h"

/* vLLM's V1 engine: one token budget per batch, running requests first. Decodes take a token each,
 * then prefills go on in chunks, then new requests are admitted while tokens, batch cap and blocks
 * allow; blocks are taken as chunks need them. When no block is free the request admitted last is
 * preempted, and a step that preempted admits no request. Layers that keep different things have
 * tables of their own (serve/kv_tables.h), here and in vllm_0_33. */
extern const struct sched_ops sched_vllm_v1;

/* The scheduler of vLLM 0.33 as its server runs it (vllm/v1/core), batch for batch; tests/vllm
 * compares it to vLLM's own. It differs from vllm_v1 in this:
 * - A request is admitted when its whole prompt finds blocks, though they are taken as chunks need
 *   them (reserve_full_prompt). Without other requests no watermark counts.
 * - A chunk has at most long_prefill_token_threshold tokens, unless the request is alone. Requests
 *   are looked at in order of admission, so prompts in chunks may take the budget that decodes
 *   admitted later want; these then rest for a batch.
 * - Chunks of a prompt follow each other through pipeline stages.
 * - The request admitted last is preempted at once, though it be in a batch in flight
 *   (serve/detached.h). Requests that still are in one are passed over by admission.
 * - With a batch in flight the engine waits for it, not for arrivals.
 * - Free KV blocks without a name are taken before named ones; one more block than num_blocks is
 *   there and holds nothing. */
extern const struct sched_ops sched_vllm_0_33;

/* Sarathi-Serve as Vidur has it: chunk_size tokens per batch, decodes first, then the prefills
 * begun, then new requests, each with blocks for its whole prompt and above the watermark. A decode
 * requires a free block, needed or not, and the last of the running requests is preempted for it.
 * Where Vidur restarts a half-done prefill as a shorter prompt with more output, the prompt is
 * recomputed here. */
extern const struct sched_ops sched_sarathi;

/* vLLM before its V1 engine, as Vidur has it: waiting prompts first, whole and in batches of their
 * own while blocks stay above the watermark and (prompts x longest prompt) fits max_tokens_in_batch
 * (4096 when unset); only when none can be admitted do the decodes run, by arrival. A decode
 * requires a free block, needed or not, and the last arrival is preempted for it. Where Vidur would
 * wait for ever, a prompt longer than max_tokens_in_batch goes alone. */
extern const struct sched_ops sched_vllm;

/* Orca as Vidur has it: continuous batching without paging. Every batch holds all decodes and, as
 * whole prompts, as many waiting requests as blocks for max_model_len tokens each are free. Without
 * a max_model_len each request reserves what it will need. Nothing is preempted. The batch cap is
 * that of each pipeline stage's batch. */
extern const struct sched_ops sched_orca;

/* FasterTransformer as Vidur has it: static batching. Requests are admitted, with blocks for
 * max_model_len tokens each, only when the batch before has ended altogether; what has its last
 * token drops out of the batch. In Vidur the blocks of requests that end before their batch leak,
 * and the run fails; here a request's blocks come back when it ends, which changes no batch, for
 * only an empty lane admits. */
extern const struct sched_ops sched_faster_transformer;

/* LightLLM as Vidur has it: blocks of one token, one pipeline stage. Waiting prompts, whole, make a
 * batch of their own when nothing runs or after max_waiting_iters (10) batches of decodes; each is
 * admitted if by the known lengths the cache cannot overflow: with running requests and candidate
 * sorted by tokens left, falling, max over i of (left_i * i + sum of tokens held by the first i)
 * stays below num_blocks; and if the batch's prompts fit max_tokens_in_batch (4096 when unset; a
 * longer prompt goes alone). So nothing is ever preempted. Vidur cannot run it as released: its
 * tables have no rows for blocks of one token. */
extern const struct sched_ops sched_lightllm;

/* One request at a time, in order of arrival: what continuous batching is compared to. */
extern const struct sched_ops sched_sequential;

#endif
