#include "engine/engine.h"
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

enum st job_cpu_engine(const struct plan *p, const struct job_model *m,
                       const struct serve_params *serve, const struct job_cpu *how,
                       const struct serve_clock *clock, struct executor *out, struct err *e)
{
    struct cpu_engine_params ep = {
        .model = &m->m,
        .weights_dir = m->weights_dir,
        .weights_seed = m->weights_seed,
        .threads = (int)p->engine.threads,
        .block_size = serve->block_size,
        .num_blocks = serve->num_blocks,
        .busy_blocks = how->blocks,
        .ready_later = how->later,
        .max_batch_tokens = serve_max_batch_tokens(serve, how->longest),
        .max_rows = serve->batch_cap,
        .sample_vocab = sample_vocab(m, how->tokenizer),
        .ignore_eos = how->ignore_eos,
        .spin = clock->spin,
        .clock = clock,
    };
    return cpu_engine_open(&ep, out, e);
}
