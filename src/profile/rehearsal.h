/* The calibration run of an engine that is seen only whole.
 *
 * Passes on request (passes.h) follow each other inside the engine. In a run prompts and decode
 * steps take turns, requests come and go between two batches, and behind a pause everything is
 * cold: batches take longer, in Python by a third. So after its passes the engine serves requests
 * for a while, and its batches are compared with what the passes predict of them.
 *
 * A round is: requests that come by themselves, such that the engine rests for two fifths of the
 * time, as lightly loaded ones do; for 4, 16, ... and the most sequences at a time, a closed loop;
 * and for each pause of wake.h three requests one after another behind it, of which the first, from
 * when it was sent, is compared with the third, from when it began. Prompts are uniform over
 * octaves, answers vary, so that they do not end together.
 *
 * What comes of it is what calibration.h has for operators: factors by kind and size of batches and
 * by place in a train of decodes, with what is left of each batch in the order in which they ran,
 * and what the first iterations behind a pause take more. A batch's time is that to its end from
 * the end of the one before, unless the engine had nothing to do, so what it does in between is the
 * batch's. The first batches behind a pause count for waking up alone. */
#ifndef PROFILE_REHEARSAL_H
#define PROFILE_REHEARSAL_H

#include "metrics/batch_load.h"
#include "profile/calibration.h"
#include "profile/read/iterations.h"
#include "profile/wake.h"

struct rehearsal_request {
    double arrival_s;       /* where they come by themselves */
    int64_t prompt, output; /* tokens */
};

/* Serves requests after pause_s in which nothing is sent: `sequences` at a time, or with 0 each
 * when it arrives. Times count from the end of the pause. *run: requests and batches, and nothing
 * else; in the arena a. ST_END: the engine could not serve them, for *why. */
struct rehearsal_engine {
    void *self;
    enum st (*serve)(void *self, struct arena *a, const struct rehearsal_request *q, size_t n,
                     int64_t sequences, double pause_s, struct run *out, const char **why,
                     struct err *e);
};

struct rehearsal_params {
    int64_t max_tokens, max_batch, max_kv; /* as in passes.h */
    /* What passes took, for an estimate: a prompt of so many tokens; decode steps of one sequence
     * and of max_batch. 0 = unknown. */
    int64_t prompt_tokens;
    double prompt_s, decode_s, decode_most_s;
    double time_budget_s; /* 0 = none: all there is. Answers, prompts and sequences at a time are
                             cut, in this order, until REHEARSAL_ROUNDS_LEAST fit */
    uint64_t seed;
    const volatile sig_atomic_t *stop;
};

/* At least; with more time, up to. */
enum { REHEARSAL_ROUNDS_LEAST = 2, REHEARSAL_ROUNDS = 6 };

struct rehearsal {
    struct calibration batches; /* load, train and device_s of those that are known; no chunks */
    VEC(bool) first;            /* [batches.n] of its shape */
    struct wake wake;
    int rounds;
    int64_t unknown; /* batches whose counts do not agree with the requests */
    double took_s;
};
void rehearsal_free(struct rehearsal *r); /* zeroed is fine */

/* ST_END: the engine could not serve, for *why, and *out is empty. ST_INTERRUPTED: *stop was
 * raised. */
enum st rehearsal_run(struct arena *a, const struct rehearsal_params *p,
                      const struct rehearsal_engine *engine, struct rehearsal *out,
                      const char **why, struct err *e);

struct rehearsal_result {
    bool padded; /* batches are told better by the longest of their caches than by the sum */
    struct calibration_scale scale[CALIBRATION_KINDS][CALIBRATION_CLASSES];
    struct calibration_rests rests; /* of.p is the caller's to free */
};
/* Against the iterations that were measured. first_use_s: what the first batch of a shape takes
 * more, without chunks and with; it is in no factor. */
void rehearsal_judge(struct arena *a, struct rehearsal *r, const struct iterations *t,
                     const double first_use_s[2], struct rehearsal_result *out);

#endif
