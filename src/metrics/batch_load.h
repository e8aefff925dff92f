/* What each batch of a run held, of which batches.csv has only counts: whose prompts it computed,
 * which sequences it decoded, how long their caches were. By the times of their tokens or, where
 * these were not kept, as sequences that are there have a token in each batch that decodes.
 *
 * A batch is known where its counts agree with what the requests say of it: not one of chunks of
 * prompts, of preempted sequences, of a request that ended early. */
#ifndef METRICS_BATCH_LOAD_H
#define METRICS_BATCH_LOAD_H

#include "artifact/run.h"
#include "model/model.h"

struct batch_load {
    struct op_load load;
    int64_t chunks;
    int64_t longest;   /* tokens of the longest sequence that decodes; 0 = none does */
    double duration_s; /* to its end, for sequences that decode from that of the batch before */
    bool known;        /* else load, chunks and longest may be wrong */
};

/* One of each batch of the run, [r->n_batches]. Requests, batches, and tokens where there are some,
 * are all that is read of the run. NULL: it has no batches, or they are not in the order in which
 * they began. Batches of other replicas and stages than the first are not known. spans: of the
 * model that was served; NULL = none. */
struct batch_load *batch_loads(struct arena *a, const struct run *r, const struct key_spans *spans);

/* Median from the end of the batch that made it to the moment when a first token was handed on;
 * NAN = unknown. Of a run that has batch_loads. */
double batch_first_token_lag_s(struct arena *a, const struct run *r);

#endif
