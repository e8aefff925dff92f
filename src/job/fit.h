/* What a model takes of a GPU's memory: a row of `twinfer fit`.
 *
 * Everything is asked of the planner that simulate takes (job_serve_params), with the same
 * settings, so the two cannot differ: `simulate` with scheduler.max_model_len=<longest> has
 * num_blocks blocks; with one token more it is refused, or, where the policy keeps a block that
 * holds nothing, serves no request as long.
 *
 * How much room there is depends a little on the longest request, which may decide how large a
 * batch can be. Where one of the model's own length has no room the longest that has is looked for,
 * and the row holds for that. */
#ifndef JOB_FIT_H
#define JOB_FIT_H

#include "job/job.h"

struct fit_row {
    const char *model, *hardware;
    int64_t tp, pp, ep;      /* ep 0 = not given */
    int64_t devices;         /* of a replica */
    int64_t node_gpus;       /* of a node; 0 = not known */
    bool over_nodes;         /* shards stand in several nodes: simulate refuses that */
    struct memory_plan plan; /* of the GPU with the least room. weight_bytes 0 = not planned; where
                                nothing fits that of a request of one token */
    int64_t block_size, num_blocks;
    int64_t kv_tokens;   /* of a replica; with groups, of requests of the longest length */
    int64_t longest;     /* tokens of the longest request: of the memory, the model, or what
                            scheduler.max_model_len says */
    int64_t *sequences;  /* [n] of each length, at once */
    const char *why_not; /* nothing fits; NULL = something does */
    const char *remedy;  /* NULL = none is known */
};

/* A row for the plan and n lengths, in c->a. An error is one of settings, whatever memory there is.
 */
enum st job_fit(const struct job_context *c, const struct job_model *m, const int64_t *lengths,
                size_t n, struct fit_row *out, struct err *e);

/* {model, hardware, tp, pp, ep, gpus, over_nodes, fits, bytes of the plan, block_size, num_blocks,
 * kv_tokens, longest_context, sequences[{length, sequences}], why_not, remedy}; null = not known.
 */
struct node *job_fit_node(struct arena *a, const struct fit_row *r, const int64_t *lengths,
                          size_t n);

#endif
