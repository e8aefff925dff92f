/* Which requests of a run each iteration of its server's log (iteration_log.h) held.
 *
 * The log has counts, the run has its requests. vLLM takes requests first come, first served, and
 * a prompt whole or, where the token budget ends, in chunks that the following iterations go on
 * with; from the iteration of its last chunk on a request has one token in each until it has all.
 * So counts follow from the requests, in the order of their first tokens (requests of one iteration
 * get theirs together, and network or tokenizer may have turned their order of arrival), and each
 * iteration is checked against them:
 *
 *   - context requests and tokens: the next prompts, all but the last whole. Fewer tokens than a
 *     prompt has are a chunk where the request is not among those that generate in the next
 *     iteration, and were found in the prefix cache where it is. Tokens of a hit belong to one
 *     request if the iteration has one context request; of several it is not known whose they are.
 *   - generation requests: those that have a token and are not done. A request that ended before
 *     it had all tokens that it asked for may stand in one iteration more, as asynchronous
 *     scheduling launched that before it saw the end.
 *   - fewer than those: the requests admitted last were preempted. Tokens beyond one a request are
 *     those of one that is computed again.
 *
 * An iteration that agrees is known. One that does not is told, with its place, and is left out of
 * all that needs to know; the match goes on with what makes most of the next iterations agree
 * (requests of others in the same server, requests that failed).
 *
 * The log may begin before the run and end after it. Warm-up requests of a client that are not in
 * the run's table may stand before it. The run begins at the iteration from which its prompts
 * follow in the log. ST_INPUT, each by name with the place: a log of other requests (under half of
 * the iterations agree), several places where the run could begin, lines that are missing inside
 * of the run, several engines, speculative decoding.
 *
 * One engine without pipeline stages; requests are not followed over several. */
#ifndef METRICS_ITERATION_MATCH_H
#define METRICS_ITERATION_MATCH_H

#include "artifact/run.h"
#include "metrics/batch_load.h"
#include "metrics/iteration_log.h"

/* Tokens of a prompt that an iteration computed. */
struct matched_chunk {
    size_t request;        /* index in the run */
    int64_t start, tokens; /* start: in the cache before, by chunks or a hit */
    bool last;             /* the prompt is done: the request gets its first token */
};

struct matched_iteration {
    const struct logged_iteration *log;
    bool known;           /* else load and chunks may be wrong */
    bool idle_before;     /* no request of the run was there when it began */
    struct batch_load is; /* what it held; duration_s is NAN */
    size_t chunk;         /* its chunks: chunks[chunk] and on, is.chunks of them */
};

enum { ITERATION_NONE = -1 };

struct iteration_match {
    struct matched_iteration *of; /* [n] from the run's first to its last */
    size_t n, n_known;
    struct matched_chunk *chunks; /* [n_chunks] in their order */
    size_t n_chunks;
    /* Of each request of the run: index of the iteration of its first and last token;
     * ITERATION_NONE = not found. */
    int64_t *first, *last;
    size_t n_found;            /* requests with both */
    int64_t preemptions;       /* seen */
    int64_t hit_tokens;        /* of prompts, from the prefix cache */
    const char *first_unknown; /* where and why the first iteration is not known; NULL = none */
};

/* Everything lives in a; the run and the log are borrowed. spans: of the model that was served, for
 * the loads; NULL = none. */
enum st iteration_match(struct arena *a, const struct run *run, const struct iteration_log *log,
                        const struct key_spans *spans, struct iteration_match *out, struct err *e);

/* "3,433 iterations, 3,430 known (...)": one line for notes. */
const char *iteration_match_words(struct arena *a, const struct iteration_match *m);

#endif
