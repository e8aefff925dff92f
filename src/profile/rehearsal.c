#include "profile/rehearsal.h"

#include <math.h>

#include "base/clock.h"
#include "base/rng.h"
#include "sim/first_use.h"

enum { SHORTEST = 8, LONGEST_LEAST = 64, WAKE_PROMPT = 24 }; /* tokens of prompts */
enum { OUTPUT_MOST = 32, OUTPUT_LEAST = 8 };                 /* mean tokens of answers */
enum { APART = 4, BY_THEMSELVES = 5, TRIPLE = 3 };           /* sequences; requests */
static const double BUSY = 0.6; /* for which the engine works where they come by themselves */

/* What a round is. */
struct round_plan {
    int64_t output;  /* mean tokens of an answer */
    int64_t longest; /* prompt */
    int64_t most;    /* sequences at a time */
};

struct rehearsal_session {
    struct arena *a, *scratch; /* scratch: of one loop */
    const struct rehearsal_params *p;
    const struct rehearsal_engine *engine;
    struct rehearsal *out;
    const char **why;
    struct rng rng;
    struct round_plan plan;
    struct shapes seen;
    int64_t began_ns;
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

/* Of prompts uniform over octaves, in the mean. */
static double prompt_s(const struct rehearsal_params *p, int64_t longest)
{
    const double span = (double)longest / SHORTEST;
    const double tokens = span > 1 ? (double)(longest - SHORTEST) / log(span) : (double)longest;
    const double s = p->prompt_tokens ? p->prompt_s * tokens / (double)p->prompt_tokens : 0;
    return fmax(s, p->decode_s);
}

static double decode_s(const struct rehearsal_params *p, int64_t sequences)
{
    const double part = (double)sequences / (double)p->max_batch;
    return p->decode_s + part * fmax(p->decode_most_s - p->decode_s, 0);
}

/* Between two requests that come by themselves, in the mean. */
static double gap_s(const struct rehearsal_params *p, const struct round_plan *x)
{
    return ((double)x->output * decode_s(p, 1) + prompt_s(p, x->longest)) / BUSY;
}

static double round_s(const struct rehearsal_params *p, const struct round_plan *x)
{
    const double each_s = prompt_s(p, x->longest);
    const double triple_s = TRIPLE * WAKE_ITERATIONS * decode_s(p, 1);
    double s = wake_round_s() + WAKE_LEVELS * triple_s + BY_THEMSELVES * gap_s(p, x);
    for (int64_t n = more_sequences(0, x->most); n <= x->most; n = more_sequences(n, x->most))
        s += (double)requests_of(n) * ((double)x->output / (double)n * decode_s(p, n) + each_s);
    return s;
}

/* Cuts one of them in two, sequences in four. False: there is nothing left to cut. */
static bool cut(const struct rehearsal_params *p, struct round_plan *x)
{
    if (x->output / 2 >= OUTPUT_LEAST)
        x->output /= 2;
    else if (x->longest / 2 >= LONGEST_LEAST && prompt_s(p, x->longest) > p->decode_s)
        x->longest /= 2;
    else if (x->most > 1)
        x->most /= APART;
    else
        return false;
    x->most = x->most > 0 ? x->most : 1;
    return true;
}

static struct round_plan plan_of(const struct rehearsal_params *p)
{
    struct round_plan x = {.output = least(OUTPUT_MOST, p->max_kv / 4), .most = p->max_batch};
    x.longest = least(p->max_kv - 2 * x.output, p->max_tokens);
    while (p->time_budget_s > 0 && REHEARSAL_ROUNDS_LEAST * round_s(p, &x) > p->time_budget_s &&
           cut(p, &x))
        ;
    return x;
}

/* ---- one loop ------------------------------------------------------------------------------- */

static enum st serve(struct rehearsal_session *s, const struct rehearsal_request *q, size_t n,
                     int64_t sequences, double pause_s, struct run *run, struct batch_load **loads,
                     struct err *e)
{
    if (s->p->stop && *s->p->stop)
        return err_set(e, ST_INTERRUPTED, "interrupted by a signal");
    arena_reset(s->scratch);
    TRY(s->engine->serve(s->engine->self, s->scratch, q, n, sequences, pause_s, run, s->why, e));
    *loads = batch_loads(s->scratch, run, NULL);
    if (*loads)
        return ST_OK;
    *s->why = "it says nothing of its batches";
    return ST_END;
}

static bool is_first(struct rehearsal_session *s, const struct batch_load *x)
{
    const struct shape shape = {.chunks = x->chunks,
                                .chunk_tokens = x->load.tokens - x->load.seqs,
                                .sequences = x->load.seqs,
                                .kv_tokens = x->load.kv_tokens,
                                .longest = x->longest};
    return !shapes_seen(s->a, &s->seen, &shape);
}

static void keep(struct rehearsal_session *s, const struct batch_load *x, double took_s,
                 int64_t train, bool first, int round)
{
    const struct op_load *l = &x->load;
    struct calibration_batch row = {.round = round, .device_s = took_s};
    row.b = (struct batch){.n_chunks = (int32_t)x->chunks,
                           .n_decodes = (int32_t)l->seqs,
                           .prefill_tokens = l->tokens - l->seqs,
                           .decode_kv_tokens = l->kv_tokens - l->seqs,
                           .decode_kv_max = x->longest - (x->longest > 0),
                           .train = train,
                           .load = *l};
    vec_push(&s->out->batches.batches, row);
    vec_push(&s->out->first, first);
}

static struct rehearsal_request request_of(struct rehearsal_session *s)
{
    const double octaves = log2((double)s->plan.longest / SHORTEST);
    const int64_t prompt = (int64_t)(SHORTEST * exp2(rng_unit(&s->rng) * fmax(octaves, 0)));
    const int64_t more = (int64_t)rng_below(&s->rng, (uint64_t)s->plan.output);
    return (struct rehearsal_request){.prompt = least(prompt, s->plan.longest),
                                      .output = s->plan.output / 2 + more + 1};
}

static int64_t end_ns(const struct run *run, size_t i)
{
    return run->batches[i].start_ns + run->batches[i].duration_ns;
}

/* Nothing was left to do between batch i of the run and the one before. */
static bool rested(const struct run *run, size_t i)
{
    const int64_t from_ns = i ? end_ns(run, i - 1) : 0, to_ns = run->batches[i].start_ns;
    for (size_t k = 0; k < run->n_requests; k++) /* a last token may be handed on a little later */
        if (run->requests[k].sent_ns <= from_ns && run->requests[k].completion_ns >= to_ns)
            return false;
    return true;
}

/* All batches of a run, in order. awake: how many ran since a rest of the engine, at its begin;
 * those right behind one are not kept. */
static void keep_all(struct rehearsal_session *s, const struct run *run,
                     const struct batch_load *loads, int64_t awake, int round)
{
    int64_t train = 0;
    for (size_t i = 0; i < run->n_batches; i++) {
        const bool rest = rested(run, i), known = loads[i].known;
        const bool first = known && is_first(s, &loads[i]);
        train = run->batches[i].num_prefill_tokens > 0 ? 0 : train + 1;
        awake = rest && i > 0 ? 1 : awake + 1;
        s->out->unknown += !known;
        if (known && awake > WAKE_ITERATIONS)
            keep(s, &loads[i],
                 rest || i == 0 ? loads[i].duration_s
                                : ns_to_s(end_ns(run, i) - end_ns(run, i - 1)),
                 train, first, round);
    }
}

static enum st loop(struct rehearsal_session *s, int64_t sequences, int round, struct err *e)
{
    const size_t n = (size_t)requests_of(sequences);
    struct rehearsal_request *q = arena_array(s->a, struct rehearsal_request, n);
    struct batch_load *loads;
    struct run run;
    double at_s = 0;
    for (size_t i = 0; i < n; i++) {
        q[i] = request_of(s);
        q[i].arrival_s = at_s;
        if (!sequences)
            at_s += gap_s(s->p, &s->plan) * rng_exponential(&s->rng);
    }
    TRY(serve(s, q, n, sequences, 0, &run, &loads, e));
    keep_all(s, &run, loads, sequences ? WAKE_ITERATIONS : 0, round);
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

/* level -1: for warming up. Requests one after another are also what one sequence at a time is. */
static enum st triple(struct rehearsal_session *s, int level, int round, struct err *e)
{
    const double pause_s = level < 0 ? 0 : wake_pauses_s[level];
    const size_t last = (size_t)(TRIPLE - 1) * WAKE_ITERATIONS;
    struct rehearsal_request q[TRIPLE];
    struct batch_load *loads;
    struct run run;
    for (int i = 0; i < TRIPLE; i++)
        q[i] = (struct rehearsal_request){.prompt = least(WAKE_PROMPT, s->plan.longest),
                                          .output = WAKE_ITERATIONS};
    TRY(serve(s, q, TRIPLE, 1, pause_s, &run, &loads, e));
    if (!is_triple(&run, loads))
        return ST_OK;
    for (size_t i = WAKE_ITERATIONS; i < run.n_batches; i++)
        keep(s, &loads[i], loads[i].duration_s, (int64_t)(i % WAKE_ITERATIONS),
             is_first(s, &loads[i]), round);
    const int64_t sent_ns = run.requests[0].sent_ns;
    struct wake_sample sample = {.level = level, .pause_s = pause_s + ns_to_s(sent_ns)};
    for (size_t k = 0; k < WAKE_ITERATIONS; k++)
        sample.device_s[k] = loads[k].duration_s - loads[last + k].duration_s;
    sample.device_s[0] += ns_to_s(run.batches[0].start_ns - sent_ns);
    if (level >= 0)
        vec_push(&s->out->wake.samples, sample);
    return ST_OK;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static enum st play_round(struct rehearsal_session *s, int round, struct err *e)
{
    const int64_t most = s->plan.most;
    for (int64_t n = 0; n <= most; n = more_sequences(n, most))
        TRY(loop(s, n, round, e));
    if (round == 0) /* its shape was never there */
        TRY(triple(s, -1, round, e));
    for (int level = 0; level < WAKE_LEVELS; level++)
        TRY(triple(s, level, round, e));
    return ST_OK;
}

static enum st play(struct rehearsal_session *s, struct err *e)
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
    struct rehearsal_session s = {.a = a, .p = p, .engine = engine, .out = out, .why = why};
    *out = (struct rehearsal){0};
    s.plan = plan_of(p);
    if (s.plan.output < 1 || s.plan.longest < 1 || p->max_kv < WAKE_PROMPT + WAKE_ITERATIONS) {
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
    vec_free(&r->first);
    vec_free(&r->wake.samples);
    *r = (struct rehearsal){0};
}

/* Of a first batch at least this part of its prediction is left: what firsts take more is a median,
 * and next to nothing left would be an error of a thousand per cent. */
static const double LEFT_LEAST = 0.25;

static void predict(struct arena *a, struct rehearsal *r, const double *took_s,
                    const struct iterations *t, const double first_use_s[2],
                    struct rehearsal_result *out)
{
    for (size_t i = 0; i < r->batches.batches.n; i++) {
        struct calibration_batch *row = &r->batches.batches.p[i];
        const struct iterations_batch b =
            iterations_batch_of(&row->b.load, row->b.decode_kv_max, out->padded);
        bool outside;
        const struct iterations_time s = iterations_at(t, &b, &outside);
        row->predicted_s = s.host_s + s.device_s;
        const double more_s = r->first.p[i] ? first_use_s[row->b.n_chunks > 0] : 0;
        row->device_s = fmax(took_s[i] - more_s, fmin(took_s[i], LEFT_LEAST * row->predicted_s));
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
    /* where lengths make no difference, chance makes this one */
    static const double CLEARLY = 0.97;
    struct rehearsal_result padded = {.padded = true};
    const size_t n = r->batches.batches.n;
    double *took_s = arena_array(a, double, n + 1);
    for (size_t i = 0; i < n; i++)
        took_s[i] = r->batches.batches.p[i].device_s;
    *out = (struct rehearsal_result){0};
    predict(a, r, took_s, t, first_use_s, &padded);
    predict(a, r, took_s, t, first_use_s, out);
    if (error_of(&padded) < CLEARLY * error_of(out)) {
        out->padded = true;
        predict(a, r, took_s, t, first_use_s, out);
    }
    calibration_rests(&r->batches, out->scale, &out->rests);
}
