/* What the serving loop itself costs: iterations per second with an executor that answers at once.
 *
 *     serve_loop [policy [sequences [iterations [tokens]]]]
 *
 * "steady": that many sequences decode together for that many iterations, nothing else happens.
 * "churn": 200,000 requests of mixed length (means 1155 and 211 tokens) arrive by a Poisson process
 * that keeps about 40 of them running: admissions, chunks, completions. With `tokens` rows of
 * tokens are handed out too. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "serve/serve.h"

struct instant {
    double end_s;
    uint64_t ticket;
    bool out;
};

static int32_t instant_max_in_flight(void *self)
{
    (void)self;
    return 1;
}

static enum st instant_submit(void *self, const struct batch *b, uint64_t *ticket, struct err *e)
{
    struct instant *x = self;
    (void)e;
    x->end_s = b->submit_s + 0.02;
    x->out = true;
    *ticket = ++x->ticket;
    return ST_OK;
}

static enum st instant_next(void *self, double deadline_s, struct completion *out, struct err *e)
{
    struct instant *x = self;
    (void)e;
    if (!x->out || x->end_s > deadline_s)
        return ST_END;
    x->out = false;
    *out = (struct completion){
        .ticket = x->ticket, .start_s = x->end_s - 0.02, .end_s = x->end_s, .device_s = 0.02};
    return ST_OK;
}

static void instant_close(void *self)
{
    (void)self;
}

static const struct executor_ops instant_ops = {
    .name = "instant",
    .help = "every batch takes 20 ms",
    .version = EXECUTOR_VERSION,
    .caps = EXEC_VIRTUAL,
    .max_in_flight = instant_max_in_flight,
    .submit = instant_submit,
    .next = instant_next,
    .close = instant_close,
};

struct source {
    struct rng rng;
    int64_t left, id, decode;
    double now_s;
    bool churn;
};

static enum st source_next(void *self, struct workload_request *out, struct err *e)
{
    struct source *s = self;
    (void)e;
    if (s->left-- == 0)
        return ST_END;
    *out = (struct workload_request){
        .request_id = s->id++, .num_prefill_tokens = 1, .num_decode_tokens = s->decode};
    if (s->churn) {
        s->now_s += rng_exponential(&s->rng) / 9;
        out->arrival_s = s->now_s;
        out->num_prefill_tokens = 1 + (int64_t)rng_below(&s->rng, 2310);
        out->num_decode_tokens = 1 + (int64_t)rng_below(&s->rng, 420);
    }
    return ST_OK;
}

static int64_t token_rows;

static void sink_token(void *self, const struct run_token *t)
{
    (void)self;
    token_rows += t->token_index >= 0;
}

static void measure(const char *what, const struct serve_params *p, struct source s)
{
    struct instant x = {0};
    struct executor ex = {&instant_ops, &x};
    struct serve_clock clock = clock_virtual();
    struct request_source source = {&s, source_next, NULL, NULL};
    struct serve_sink sink = {.token = p->emit_tokens ? sink_token : NULL};
    struct serve_counters n;
    struct err e = {0};
    if (serve_run(p, &clock, &ex, &source, &sink, NULL, &n, &e) != ST_OK) {
        err_print(&e, "serve_loop", stderr);
        exit(1);
    }
    printf("%-12s %-7s %10lld iterations %8.3f s %7.2f M iterations/s %8.1f ns each, %lld tokens\n",
           p->policy, what, (long long)n.iterations, n.loop_seconds,
           (double)n.iterations / n.loop_seconds / 1e6, n.loop_seconds / (double)n.iterations * 1e9,
           (long long)n.tokens);
}

int main(int argc, char **argv)
{
    const char *policy = argc > 1 ? argv[1] : "vllm_v1";
    int64_t sequences = argc > 2 ? strtoll(argv[2], NULL, 10) : 128;
    int64_t iterations = argc > 3 ? strtoll(argv[3], NULL, 10) : 5000000;
    struct serve_params p = {.policy = policy,
                             .replicas = 1,
                             .batch_cap = sequences,
                             .block_size = 16,
                             .num_blocks = sequences * (iterations / 16 + 2),
                             .emit_tokens = argc > 4};
    struct source s = {.rng = rng_stream(1, "bench"), .left = sequences, .decode = iterations};
    measure("steady", &p, s);
    p.num_blocks = 27904;
    s.left = 200000;
    s.churn = true;
    measure("churn", &p, s);
    return 0;
}
