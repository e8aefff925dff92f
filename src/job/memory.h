/* The KV blocks of a job: those that the plan asks for, else what the engine's plan
 * (engine/registry.h) finds room for. */
#ifndef JOB_MEMORY_H
#define JOB_MEMORY_H

#include "engine/registry.h"
#include "job/context.h"
#include "profile/read/bundle.h"
#include "serve/serve.h"

/* Sets num_blocks and kv_groups of *s, the former without the null block where the policy has one,
 * and lowers batch_cap to what memory holds where the policy reserves whole requests, or where a
 * request keeps states that blocks do not count. The rest of *s is read. engine NULL: simulated. */
enum st job_memory(const struct plan *p, const struct model *m, const struct engine *engine,
                   struct serve_params *s, struct engine_plan *plan, struct err *e);
/* Requests of so many tokens that `blocks` KV blocks hold, of params that job_memory has set: as
 * many as serving lets run at once, fractions included. Batches are out at once one for each
 * pipeline stage, and with asynchronous scheduling one more; states of their chunks have blocks of
 * their own (kv_groups_spare). Below 1 serving rejects such a request. */
double job_requests_held(const struct plan *p, const struct serve_params *s, int64_t blocks,
                         int64_t tokens);
/* Tokens that a replica's blocks hold; with KV groups, whose blocks are not all of a token's, those
 * of requests of the longest length (vLLM's get_kv_cache_capacity, less blocks that are spare). */
int64_t job_kv_tokens(const struct plan *p, const struct serve_params *s);
/* Remark for results: vLLM keeps keys and values in FP8 where they are of another format here.
 * NULL = it does not, or the policy is not vLLM's. */
const char *job_memory_fp8(struct arena *a, const struct plan *p, const struct model *m);
/* A simulation takes what the CPU engine keeps in the host's memory (hardware.kv_cache_gb of the
 * group cpu) only for what ran there: hardware.id cpu, or a bundle that was profiled on a CPU.
 * ST_USAGE: another device, whose memory no setting says. bundle may be NULL. */
enum st job_memory_known(const struct job_context *c, const struct bundle *bundle, struct err *e);
/* Member memory_plan of run_meta.json. None where blocks were not planned from a device's memory.
 */
void job_memory_meta(struct arena *a, const struct plan *p, const struct memory_plan *m,
                     struct node *extra);

#endif
