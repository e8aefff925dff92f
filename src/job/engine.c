#include "base/log.h"
#include "job/job.h"

/* Ids below this one may be sampled; 0 = all of the model's. */
static int64_t sample_vocab(const struct job_model *m, const struct tokenizer *have)
{
    struct tokenizer *loaded = NULL;
    struct err e = {0};
    if (!have && m->tokenizer) {
        if (tokenizer_load(m->tokenizer, &loaded, &e) != ST_OK)
            log_warn("ids without text may be sampled: %s", err_cause(&e, 0));
        have = loaded;
    }
    const int64_t known = have ? tokenizer_vocab(have) : 0;
    tokenizer_free(&loaded);
    return known < m->m.vocab ? known : 0;
}

enum st job_engine_open(const struct job_context *c, const struct job_engine *how,
                        struct executor *out, struct err *e)
{
    const struct engine *x = how->engine;
    const struct engine_job job = {
        .settings = &c->plan->engine,
        .model = &how->m->m,
        .weights_dir = how->m->weights_dir,
        .weights_seed = how->m->weights_seed,
        .dtype = how->plan->dtype,
        .block_size = how->serve->block_size,
        .num_blocks = how->serve->num_blocks,
        .max_batch_tokens = serve_max_batch_tokens(how->serve, how->longest),
        .max_rows = how->serve->batch_cap,
        .sample_vocab = x->needs & ENGINE_WEIGHTS ? sample_vocab(how->m, how->tokenizer) : 0,
        .ready_blocks = how->ready_blocks,
        .ready_later = how->ready_later,
        .ignore_eos = how->ignore_eos,
        .clock = how->clock,
        .predictor = how->predictor,
        .late_s = how->late_s,
        .async = serve_async_of(how->serve),
        .a = c->a,
    };
    return x->open(&job, out, e);
}
