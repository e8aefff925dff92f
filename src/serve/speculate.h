/* Speculative decoding: a draft model proposes k tokens for each decoding sequence, the model
 * verifies them in one batch, and the sequence continues after the first rejected one.
 *
 * The acceptance model is that of Leviathan et al. (ICML 2023): each draft token is accepted with
 * probability a, independently; the first rejected one and all after it are dropped, and the verify
 * step adds one token of its own. So a step of a sequence emits 1 to k + 1 tokens,
 *
 *     P(m tokens) = a^(m-1) (1 - a) for m <= k,  a^k for m = k + 1
 *     mean        = (1 - a^(k+1)) / (1 - a)
 *
 * fewer where the sequence ends. All tokens of a step have the time of its batch's end. Draws come
 * from the stream "serve.speculate" of the seed, per replica, in order of the decode set.
 *
 * Cost: each decode row of a batch computes 1 + k tokens (batch.draft_tokens), counts as that many
 * in the policy's token budget, and needs KV blocks for all of them, which are freed for rejected
 * tokens. The draft model's own time is part of the prediction (sim/drafting.h). Prefills are not
 * speculated on.
 *
 * Predictions only, with one batch of a lane in flight. The decode set's O(1) per batch becomes
 * O(sequences). Not together with prefix caching. */
#ifndef SERVE_SPECULATE_H
#define SERVE_SPECULATE_H

#include "base/rng.h"
#include "serve/serve.h"

struct replica;
struct request;
struct lane;
struct flight;

/* Result of a step of one sequence. */
struct spec_step {
    struct request *q;
    int64_t tokens;
};

struct speculation {
    struct rng rng;
    int32_t draft_tokens; /* k, 0 = off */
    double acceptance;    /* a */
};

struct speculation speculation_begin(const struct serve_params *p, int32_t replica);

/* Tokens of one step, at most `left`. */
int64_t speculation_draw(struct speculation *s, int64_t left);

/* The lane's decode set ran in f, which was submitted: advances its sequences and frees the blocks
 * of rejected tokens. Appends finished ones to f->finishing. */
void speculation_advance(struct replica *r, struct lane *lane, struct flight *f);

/* f completed: delivers its decode tokens. */
void speculation_deliver(struct replica *r, const struct flight *f, int64_t end_ns);

#endif
