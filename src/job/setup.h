/* What every result names, so that nobody reads figures of another system than the one meant: the
 * model, the hardware, the degrees of parallelism, and what each GPU holds. Commands print it, with
 * --json too, and runs keep it as `setup` of run_meta.json. */
#ifndef JOB_SETUP_H
#define JOB_SETUP_H

#include "engine/registry.h"
#include "job/context.h"

struct job_setup {
    const char *model;
    const char *source;           /* of it: model.h; NULL = not of the hub's cache */
    bool stand_in;                /* nobody named the model (config/stand_in.h) */
    const char *hardware;         /* NULL = not known */
    int64_t tp, pp, ep, replicas; /* 0 = another program's, not known */
    double weight_bytes;          /* of the GPU that holds most; NAN = not known */
    double kv_tokens;             /* room for keys and values, of a replica; NAN = not known */
};

/* Of the serving loop. engine NULL: simulated; plan: of job_serve_params, as serve is. */
struct job_setup job_setup_of(const struct job_context *c, const struct model *m,
                              const struct engine *engine, const struct engine_plan *plan,
                              const struct serve_params *serve);
/* Of a system that batches by itself. The hardware is known where it was named. */
struct job_setup job_setup_outside(const struct job_context *c, const char *model);

extern const struct fields job_setup_fields;
struct node *job_setup_node(struct arena *a, const struct job_setup *s);
/* "qwen3_8b on h200: tp 1, pp 1, ep 1, 1 replica; 15.3 GiB of weights a GPU, 812,336 KV tokens" */
const char *job_setup_words(struct arena *a, const struct job_setup *s);

/* What a limit of tokens above the model's own means; NULL = it is not above. */
const char *job_setup_too_long(struct arena *a, const struct model *m, int64_t max_model_len);

#endif
