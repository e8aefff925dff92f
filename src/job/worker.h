/* Workers as the plan has them. */
#ifndef JOB_WORKER_H
#define JOB_WORKER_H

#include "engine/worker/worker.h"
#include "job/job.h"

/* max_tokens: the longest sequence that it is to hold. Borrows from c and m. */
struct worker_params job_worker_params(const struct job_context *c, const struct job_model *m,
                                       int64_t max_tokens);

#endif
