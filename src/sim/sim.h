/* The simulator: the serving core with a predicting executor and the virtual clock. */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include "serve/serve.h"
#include "sim/predictor.h"

/* An executor whose batches pass the predictor's pipeline stages one after the other: on a stage,
 * start = the later of submit_s (then: end on the stage before) and the end of the stage's batch
 * before, end = start + host + device. One batch in flight per stage, a lane each; sequences never
 * end early (no EOS); completions carry no tokens: every row emits one. No allocation per batch.
 * Lives in the arena; close() frees nothing. The predictor may be shared between executors. */
struct executor sim_executor(struct arena *a, const struct predictor *p);

/* The same in real time, for a server: each batch's completion is held back until its predicted end
 * has come, and every emitting row has a token id, those of its prompt over and over. It answers as
 * a computing executor does, so tokens are known as they come. Predicted ends count, not the
 * moments the thread woke up: what one batch is late does not delay the next. *late_s (may be NULL)
 * keeps the longest time by which one was late: a machine that cannot keep up shows there. slots is
 * the scheduler's batch_cap. */
struct executor sim_paced_executor(struct arena *a, const struct predictor *p, int32_t slots,
                                   const struct serve_clock *clock, double *late_s);

#endif
