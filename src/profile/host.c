#include "profile/host.h"

#include "base/clock.h"
#include "profile/calibration.h"
#include "serve/serve.h"

/* A GPU's batch of few tokens takes fewer kernels, and a short launch each: with prompts of 8
 * tokens launching took an H200's host 0.7 ms in batches of up to 16 tokens and 1.8 ms in those of
 * more, which prompts of a run have whatever their number. */
enum { PROMPT_TOKENS = 8, LONGER_PROMPT_TOKENS = 128, REPLACEMENTS = 6 };

int host_batches(int64_t max_batch, int64_t out[64])
{
    int n = 0;
    for (int64_t b = 1; b <= max_batch; b *= 2)
        out[n++] = b;
    if (out[n - 1] != max_batch)
        out[n++] = max_batch;
    return n;
}

struct host_feed {
    int64_t next, n, batch, prompt, decodes;
    int32_t vocab;
    bool kernels; /* the batch before was launched kernel by kernel */
    VEC(struct host_sample) got;
};

/* Staggers the lengths of the first requests, so that the waiting ones enter one at a time. */
static enum st feed_next(void *self, struct workload_request *out, struct err *e)
{
    struct host_feed *f = self;
    (void)e;
    if (f->next == f->n)
        return ST_END;
    int64_t decodes = f->decodes + (f->next < f->batch ? 2 * (f->next % REPLACEMENTS) : 0);
    *out = (struct workload_request){
        .request_id = f->next++, .num_prefill_tokens = f->prompt, .num_decode_tokens = decodes};
    return ST_OK;
}

static enum st feed_ids(void *self, const struct workload_request *r, int32_t *ids, struct err *e)
{
    const struct host_feed *f = self;
    (void)e;
    for (int64_t i = 0; i < r->num_prefill_tokens; i++)
        ids[i] = (int32_t)((r->request_id * 31 + i * 7) % f->vocab);
    return ST_OK;
}

static void on_batch(void *self, const struct run_batch *b, const struct completion *c)
{
    struct host_feed *f = self;
    int64_t chunks = b->batch_size - b->num_decode_tokens;
    const bool behind = f->kernels && chunks > 0;
    f->kernels = chunks > 0 && c->prepare_s > 0;
    /* skips the first iteration (idle ramp-up) and batches of other sizes, and launches that may
     * have waited for the batch before: a GPU's driver takes some thousand kernels, and behind
     * 4,096 tokens of Gemma 3 27B the host had 280 ms for what takes it 5 elsewhere */
    if (b->iteration == 0 || b->batch_size != f->batch || behind)
        return;
    double device = c->device_s;
    if (c->op_s) { /* sums operators as predictions do; device_s includes the gaps between them */
        device = 0;
        for (int k = 0; k < OP_ROWS; k++)
            device += c->op_s[k];
    }
    /* with several batches in flight the device hides host time: it is told apart */
    const bool told = c->prepare_s > 0;
    double host = told ? c->prepare_s + c->launch_s : ns_to_s(b->duration_ns) - device;
    vec_push(&f->got, (struct host_sample){.batch = b->batch_size,
                                           .chunks = chunks,
                                           .host_s = host > 0 ? host : 0,
                                           .executor_s = c->host_s,
                                           .device_s = device,
                                           .launch_s = c->launch_s,
                                           .answer_s = c->answer_s});
}

int64_t host_prompt_tokens(const struct profile_params *p, const struct executor *ex, int64_t batch)
{
    const int64_t room = p->num_blocks / batch * p->block_size;
    int64_t tokens = calibration_is_deep(ex) ? LONGER_PROMPT_TOKENS : PROMPT_TOKENS;
    while (tokens > PROMPT_TOKENS &&
           (2 * tokens > room || 2 * tokens > p->max_kv || tokens > p->max_tokens))
        tokens /= 2;
    return tokens;
}

enum st host_measure(const struct profile_params *p, struct executor ex, int64_t batch,
                     int64_t decodes, const volatile sig_atomic_t *stop, struct journal *j,
                     struct err *e)
{
    struct host_feed f = {.n = batch + REPLACEMENTS,
                          .batch = batch,
                          .prompt = host_prompt_tokens(p, &ex, batch),
                          .decodes = decodes,
                          .vocab = (int32_t)p->model->vocab};
    struct serve_params sp = {
        .policy = "vllm_v1",
        .replicas = 1,
        .batch_cap = batch,
        .token_budget = p->max_tokens > batch ? p->max_tokens : batch,
        .block_size = p->block_size,
        .num_blocks = p->num_blocks,
        .seed = p->seed,
        .op_times = true,
        .spans = model_spans(p->model),
    };
    struct request_source source = {&f, feed_next, feed_ids, NULL};
    struct serve_sink sink = {.self = &f, .batch = on_batch};
    struct serve_counters counters;
    if (!p->clock->is_virtual)
        clock_restart(p->clock);
    enum st st = serve_run(&sp, p->clock, &ex, &source, &sink, stop, &counters, e);
    if (st == ST_OK && j)
        st = journal_host_run(j, batch, f.got.p, f.got.n, e);
    vec_free(&f.got);
    return st;
}
