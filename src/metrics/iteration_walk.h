/* A walk through a log beside the requests that should explain it: the state behind an iteration,
 * and the next one. Private to iteration_match.c. */
#ifndef METRICS_ITERATION_WALK_H
#define METRICS_ITERATION_WALK_H

#include "base/vec.h"
#include "metrics/iteration_match.h"

/* A request of the queue, which is in the order of first tokens. */
struct queued {
    int64_t first_token_ns, arrival_ns;
    size_t request;
};

/* A request that has its first token and is not done. */
struct running_row {
    size_t request;
    int64_t made; /* tokens that it has */
    bool preempted;
    bool again; /* its token in this iteration comes of a chunk that computes all of it again */
    bool late;  /* ended early: may stand in one iteration more */
};

/* Where the walk through the log stands. */
struct walk_state {
    size_t head;              /* next in the queue, */
    int64_t done;             /* and what chunks computed of its prompt */
    struct running_row *rows; /* [n] by admission; room for the whole queue */
    size_t n;
    size_t preempted; /* of the rows */
};

struct iteration_walk {
    struct arena *a;
    const struct run *run;
    const struct iteration_log *log;
    const struct key_spans *spans;
    struct queued *queue; /* [n_queue] */
    size_t n_queue;
    struct walk_state s;
    struct iteration_match *out;      /* NULL = a trial, of which nothing is kept */
    VEC(struct matched_chunk) chunks; /* owned by whoever made the walk */
    int64_t unresolved; /* the iteration since which one is preempted; ITERATION_NONE */
};

/* The queue of w->run, and the state before the first iteration. */
void walk_init(struct iteration_walk *w);
/* Back to that state. */
void walk_rewind(struct iteration_walk *w);

/* Follows iteration i of the log; false: it does not agree. */
bool walk_follow(struct iteration_walk *w, size_t i);

/* Number of iterations with prompts that agree, from i on until one does not, up to `most`. The
 * walk goes on to there. */
int walk_agreeing(struct iteration_walk *w, size_t i, int most);

/* All requests are done. */
bool walk_over(const struct iteration_walk *w);

/* Tokens that the next n prompts have, for messages: "383, 519"; "none". */
const char *walk_wanted(const struct iteration_walk *w, int64_t n);

/* Keeps the place of the first iteration that is not known. */
void walk_tell_unknown(const struct iteration_walk *w, const struct logged_iteration *x,
                       const char *why);

#endif
