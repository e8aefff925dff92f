#include "profile/rehearsal.h"

#include <math.h>

#include "base/clock.h"
#include "base/rng.h"
#include "sim/first_use.h"

enum { SHORTEST = 8, WAKE_PROMPT = 24, TRIPLE = 3 };    /* tokens, tokens, requests */
enum { OUTPUT_MOST = 32, OUTPUT_LEAST = 8, APART = 4 }; /* mean tokens of answers */
enum { BY_THEMSELVES = 5 };                             /* requests, */
static const double BUSY = 0.6;                         /* for which the engine works so much */

struct session {
    struct arena *a, *scratch; /* scratch: of one loop */
    const struct rehearsal_params *p;
    const struct rehearsal_engine *engine;
    struct rehearsal *out;
    const char **why;
    struct rng rng;
    int64_t output;  /* mean tokens of an answer */
    int64_t longest; /* prompt */
    int64_t began_ns, idle_since_ns;
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- how much ------------------------------------------------------------------------------- */

/* sequences 0: they come by themselves. */
static int64_t requests_of(int64_t sequences)
{
    return sequences ? sequences + (sequences + 1) / 2 + 1 : BY_THEMSELVES;
}

/* The next number of sequences at a time; above the most: none is left. */
static int64_t more_sequences(int64_t sequences, int64_t most)
{
    const int64_t next = sequences ? sequences * APART : APART;
    return sequences < most && most > 1 && next > most ? most : next;
}

/* Between two requests that come by themselves, in the mean. */
static double gap_s(const struct rehearsal_params *p, int64_t output)
{
    return ((double)output * p->decode_s + p->prompt_s) / BUSY;
}

static double round_s(const struct rehearsal_params *p, int64_t output)
{
    const double triple_s = TRIPLE * (p->prompt_s + (WAKE_ITERATIONS - 1) * p->decode_s);
    double s = wake_round_s() + WAKE_LEVELS * triple_s + BY_THEMSELVES * gap_s(p, output);
    for (int64_t n = more_sequences(0, p->max_batch); n <= p->max_batch;
         n = more_sequences(n, p->max_batch))
        s += (double)requests_of(n) * ((double)output / (double)n * p->decode_s + p->prompt_s);
    return s;
}

static int64_t output_of(const struct rehearsal_params *p)
{
    int64_t output = OUTPUT_MOST;
    while (output > OUTPUT_LEAST && p->time_budget_s > 0 &&
           REHEARSAL_ROUNDS_LEAST * round_s(p, output) > p->time_budget_s)
        output /= 2;
    return least(output, p->max_kv / 4);
}

/* ---- one loop ------------------------------------------------------------------------------- */

static enum st serve(struct session *s, const struct rehearsal_request *q, size_t n,
                     int64_t sequences, double pause_s, struct run *run, struct batch_load **loads,
                     struct err *e)
{
    if (s->p->stop && *s->p->stop)
        return err_set(e, ST_INTERRUPTED, "interrupted by a signal");
    arena_reset(s->scratch);
    TRY(s->engine->serve(s->engine->self, s->scratch, q, n, sequences, pause_s, run, s->why, e));
    *loads = batch_loads(s->scratch, run);
    if (*loads)
        return ST_OK;
    *s->why = "it says nothing of its batches";
    return ST_END;
}

static void keep(struct session *s, const struct batch_load *x, int64_t train, int round)
{
    const struct op_load *l = &x->load;
    struct calibration_batch row = {.round = round, .device_s = x->duration_s};
    row.b = (struct batch){.n_chunks = (int32_t)x->chunks,
                           .n_decodes = (int32_t)l->seqs,
                           .prefill_tokens = l->tokens - l->seqs,
                           .decode_kv_tokens = l->kv_tokens - l->seqs,
                           .decode_kv_max = x->longest - (x->longest > 0),
                           .train = train,
                           .load = *l};
    const struct shape shape = {.chunks = x->chunks,
                                .chunk_tokens = l->tokens - l->seqs,
                                .sequences = l->seqs,
                                .kv_tokens = l->kv_tokens,
                                .longest = x->longest};
    vec_push(&s->out->batches.batches, row);
    vec_push(&s->out->shapes, shape);
}

static struct rehearsal_request request_of(struct session *s)
{
    const double octaves = log2((double)s->longest / SHORTEST);
    const int64_t prompt = (int64_t)(SHORTEST * exp2(rng_unit(&s->rng) * fmax(octaves, 0)));
    const int64_t more = (int64_t)rng_below(&s->rng, (uint64_t)s->output);
    return (struct rehearsal_request){.prompt = least(prompt, s->longest),
                                      .output = s->output / 2 + more + 1};
}

/* Nothing was left to do when batch i of the run came. */
static bool rested(const struct run *run, size_t i)
{
    const struct run_batch *before = &run->batches[i - (i > 0)];
    const int64_t end_ns = i ? before->start_ns + before->duration_ns : 0;
    for (size_t k = 0; k < run->n_requests; k++)
        if (run->requests[k].sent_ns <= end_ns && run->requests[k].completion_ns > end_ns)
            return false;
    return true;
}

static enum st loop(struct session *s, int64_t sequences, int round, struct err *e)
{
    const size_t n = (size_t)requests_of(sequences);
    struct rehearsal_request *q = arena_array(s->a, struct rehearsal_request, n);
    struct batch_load *loads;
    struct run run;
    int64_t train = 0, awake = WAKE_ITERATIONS;
    double at_s = 0;
    for (size_t i = 0; i < n; i++) {
        q[i] = request_of(s);
        q[i].arrival_s = at_s;
        if (!sequences)
            at_s += gap_s(s->p, s->output) * rng_exponential(&s->rng);
    }
    TRY(serve(s, q, n, sequences, 0, &run, &loads, e));
    for (size_t i = 0; i < run.n_batches; i++) {
        train = run.batches[i].num_prefill_tokens > 0 ? 0 : train + 1;
        awake = !sequences && rested(&run, i) ? 1 : awake + 1;
        if (loads[i].known && awake > WAKE_ITERATIONS)
            keep(s, &loads[i], train, round);
        s->out->unknown += !loads[i].known;
    }
    return ST_OK;
}

/* ---- behind a pause ------------------------------------------------------------------------- */

/* Every request one prompt and its decode steps, one request after another. */
static bool is_triple(const struct run *run, const struct batch_load *loads)
{
    if (run->n_batches != (size_t)TRIPLE * WAKE_ITERATIONS || run->n_requests != TRIPLE)
        return false;
    for (size_t i = 0; i < run->n_batches; i++)
        if (!loads[i].known || (loads[i].chunks > 0) != (i % WAKE_ITERATIONS == 0))
            return false;
    return true;
}

/* level -1: for warming up. */
static enum st triple(struct session *s, int level, struct err *e)
{
    struct rehearsal_request q[TRIPLE];
    struct batch_load *loads;
    struct run run;
    for (int i = 0; i < TRIPLE; i++)
        q[i] = (struct rehearsal_request){.prompt = least(WAKE_PROMPT, s->longest),
                                          .output = WAKE_ITERATIONS};
    const double pause_s = level < 0 ? 0 : wake_pauses_s[level];
    const double idle_s = ns_to_s(clock_mono_ns() - s->idle_since_ns);
    enum st st = serve(s, q, TRIPLE, 1, pause_s, &run, &loads, e);
    s->idle_since_ns = clock_mono_ns();
    TRY(st);
    if (level < 0 || !is_triple(&run, loads))
        return ST_OK;
    const size_t last = (size_t)(TRIPLE - 1) * WAKE_ITERATIONS;
    const int64_t sent_ns = run.requests[0].sent_ns;
    struct wake_sample sample = {.level = level, .pause_s = idle_s + pause_s + ns_to_s(sent_ns)};
    for (size_t k = 0; k < WAKE_ITERATIONS; k++)
        sample.device_s[k] = loads[k].duration_s - loads[last + k].duration_s;
    sample.device_s[0] += ns_to_s(run.batches[0].start_ns - sent_ns);
    vec_push(&s->out->wake.samples, sample);
    return ST_OK;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static enum st play_round(struct session *s, int round, struct err *e)
{
    const int64_t most = s->p->max_batch;
    for (int64_t n = 0; n <= most; n = more_sequences(n, most))
        TRY(loop(s, n, round, e));
    s->idle_since_ns = clock_mono_ns();
    if (round == 0) /* its shape was never there */
        TRY(triple(s, -1, e));
    for (int level = 0; level < WAKE_LEVELS; level++)
        TRY(triple(s, level, e));
    return ST_OK;
}

static enum st play(struct session *s, struct err *e)
{
    const double budget_s = s->p->time_budget_s;
    for (int round = 0; round < REHEARSAL_ROUNDS; round++) {
        const double spent_s = ns_to_s(clock_mono_ns() - s->began_ns);
        if (round >= REHEARSAL_ROUNDS_LEAST && budget_s > 0 &&
            spent_s * (round + 1) > budget_s * round)
            break;
        TRY(play_round(s, round, e));
        s->out->rounds = round + 1;
    }
    s->out->took_s = ns_to_s(clock_mono_ns() - s->began_ns);
    return ST_OK;
}

enum st rehearsal_run(struct arena *a, const struct rehearsal_params *p,
                      const struct rehearsal_engine *engine, struct rehearsal *out,
                      const char **why, struct err *e)
{
    struct session s = {.a = a, .p = p, .engine = engine, .out = out, .why = why};
    *out = (struct rehearsal){0};
    s.output = output_of(p);
    s.longest = least(p->max_kv - 2 * s.output, p->max_tokens);
    if (s.output < 1 || s.longest < 1 || p->max_kv < WAKE_PROMPT + WAKE_ITERATIONS) {
        *why = "the lengths that were asked for leave no room for requests";
        return ST_END;
    }
    s.rng = rng_stream(p->seed, "profile.rehearsal");
    s.scratch = arena_new();
    s.began_ns = clock_mono_ns();
    enum st st = play(&s, e);
    arena_free(&s.scratch);
    if (st == ST_OK && out->batches.batches.n == 0) {
        *why = "what it says of its batches does not agree with the requests";
        st = ST_END;
    }
    if (st != ST_OK)
        rehearsal_free(out);
    return st;
}

void rehearsal_free(struct rehearsal *r)
{
    calibration_free(&r->batches);
    vec_free(&r->shapes);
    vec_free(&r->wake.samples);
    *r = (struct rehearsal){0};
}

/* What first batches of a shape take more is in no factor. */
static void take_first_use(struct arena *a, struct rehearsal *r, const double first_use_s[2])
{
    struct shapes seen = {0};
    for (size_t i = 0; i < r->batches.batches.n; i++) {
        struct calibration_batch *row = &r->batches.batches.p[i];
        if (!shapes_seen(a, &seen, &r->shapes.p[i])) /* not known: 0 */
            row->device_s = fmax(row->device_s - first_use_s[row->b.n_chunks > 0], 0);
    }
}

static void predict(struct arena *a, struct rehearsal *r, const struct iterations *t,
                    struct rehearsal_result *out)
{
    for (size_t i = 0; i < r->batches.batches.n; i++) {
        struct calibration_batch *row = &r->batches.batches.p[i];
        const struct iterations_batch b =
            iterations_batch_of(&row->b.load, row->b.decode_kv_max, out->padded);
        bool outside;
        const struct iterations_time s = iterations_at(t, &b, &outside);
        row->predicted_s = s.host_s + s.device_s;
    }
    for (unsigned k = 0; k < CALIBRATION_KINDS; k++)
        calibration_scales(a, &r->batches, (enum calibration_kind)k, out->scale[k]);
}

/* Mean error of what the factors leave. */
static double error_of(const struct rehearsal_result *x)
{
    double sum = 0;
    int64_t n = 0;
    for (unsigned k = 0; k < CALIBRATION_KINDS; k++)
        for (int c = 0; c < CALIBRATION_CLASSES; c++) {
            sum += x->scale[k][c].error * (double)x->scale[k][c].n;
            n += x->scale[k][c].n;
        }
    return n ? sum / (double)n : 0;
}

void rehearsal_judge(struct arena *a, struct rehearsal *r, const struct iterations *t,
                     const double first_use_s[2], struct rehearsal_result *out)
{
    static const double CLEARLY =
        0.97; /* lengths that make no difference make this one by chance */
    struct rehearsal_result padded = {.padded = true};
    *out = (struct rehearsal_result){0};
    take_first_use(a, r, first_use_s);
    predict(a, r, t, &padded);
    predict(a, r, t, out);
    if (error_of(&padded) < CLEARLY * error_of(out)) {
        out->padded = true;
        predict(a, r, t, out);
    }
    calibration_rests(&r->batches, out->scale, &out->rests);
}
