/* The simulator: the serving core with a predicting executor and the virtual clock. */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include "serve/serve.h"
#include "sim/predictor.h"

/* An executor whose batches pass the predictor's pipeline stages one after the other: on a stage,
 * start = the later of submit_s (then: end on the stage before) and the end of the stage's batch
 * before, end = start + host + device. One batch in flight per stage, a lane each; sequences never
 * end early (no EOS); completions carry no tokens: every row emits one. No allocation per batch.
 * Lives in the arena; close() frees nothing. The predictor may be shared between executors.
 *
 * Asynchronous: one batch more in flight than there are stages. A batch that was built before the
 * tokens of its lane's one before were known starts on the first stage when these have left the
 * last one. With ASYNC_OVERLAP the host works at a batch from submit_s, or from when it was done
 * with the one before; of that, the batch takes only what reaches beyond its start, so batches
 * follow each other in max(host, device). Without, the device works beside launch_s all the same.
 * On the first stage the device may begin launch_s before
 * the host is done, and ends no earlier than that; the tokens are there answer_s after the last
 * stage, which holds no other batch up. The thread that launches takes arrivals and tokens too,
 * where the predictor says so (completion.host_until_s): the loop sees those that come
 * meanwhile when it is done. */
struct executor sim_executor(struct arena *a, const struct predictor *p, enum serve_async async);

#endif
