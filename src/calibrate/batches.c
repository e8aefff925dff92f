#include "calibrate/batches.h"

#include <math.h>
#include <string.h>

#include "base/solve.h"
#include "base/stats.h"
#include "calibrate/settle.h"
#include "sim/first_use.h"

/* Weights of residuals, in scales: full up to CLIP, then as of CLIP (Huber), none beyond STALL. */
static const double CLIP = 3, STALL = 9;
enum { ROUNDS = 30, BLOCKS_LEAST = 8 };

struct batch_problem {
    const struct theta_prior *prior;
    struct iteration_terms *terms; /* [n] */
    double *measured, *predicted, *weight;
    bool *prompt, *first; /* with chunks; of a shape that was not seen before */
    double first_use_s, first_use_sd_s;
    double *slope; /* [n][ITERATION_PARAMS]: by the logarithms */
    size_t n;
    double scale, information; /* of the residuals; of a batch */
    double inside;             /* information of a batch, of what differs inside a block */
    size_t block;              /* of batches that are alike */
};

static void gather(struct arena *a, const struct calibrate_params *p,
                   const struct calibrate_input *in, struct batch_problem *x)
{
    const struct observed *last = NULL;
    size_t most = 0;
    for (size_t i = 0; i < in->n; i++)
        most += in->stages[i].run->n_batches;
    x->terms = arena_array(a, struct iteration_terms, most);
    x->measured = arena_array(a, double, most);
    x->predicted = arena_array(a, double, most);
    x->weight = arena_array(a, double, most);
    x->prompt = arena_array(a, bool, most);
    x->first = arena_array(a, bool, most);
    x->slope = arena_array(a, double, most *ITERATION_PARAMS);
    for (size_t i = 0; i < in->n; i++) {
        const struct observed *run = in->stages[i].run;
        struct shapes seen = {0};
        for (size_t k = 0; run != last && k < run->n_batches; k++) {
            const struct batch_load *b = &run->batches[k];
            const struct iteration_batch batch = {.load = b->load, .chunks = b->chunks};
            if (!(b->duration_s > 0))
                continue;
            iteration_terms(p->shape, &batch, 0, &x->terms[x->n]);
            const struct shape shape = {.chunks = b->chunks,
                                        .chunk_tokens = b->load.tokens - b->load.seqs,
                                        .sequences = b->load.seqs,
                                        .kv_tokens = b->load.kv_tokens,
                                        .longest = b->longest};
            x->first[x->n] = !shapes_seen(a, &seen, &shape);
            x->measured[x->n] = b->duration_s;
            x->prompt[x->n++] = b->chunks > 0;
        }
        last = run;
    }
}

static void predict_all(struct batch_problem *x, const struct theta *t)
{
    const struct iteration_params params = theta_iteration(t);
    for (size_t i = 0; i < x->n; i++) {
        double *slope = x->slope + i * ITERATION_PARAMS;
        struct iteration_time s = iteration_time(&params, &x->terms[i], slope);
        x->predicted[i] = s.host_s + s.device_s + (x->first[i] ? x->first_use_s : 0);
        for (int k = 0; k < ITERATION_PARAMS; k++)
            slope[k] *= params.v[k];
    }
}

static double median(struct arena *scratch, const double *v, size_t n)
{
    return stats_median(arena_copy(scratch, v, n * sizeof *v), n);
}

double batches_correlated(double *v, size_t n, size_t *block)
{
    double mean = 0, alone = 0, most = 1;
    for (size_t i = 0; i < n; i++)
        mean += v[i] / (double)n;
    *block = 1;
    for (size_t length = 1; n >= BLOCKS_LEAST; length *= 2, n /= 2) {
        double squares = 0;
        for (size_t i = 0; i < n; i++)
            squares += (v[i] - mean) * (v[i] - mean);
        const double variance = squares / (double)(n - 1);
        alone = length == 1 ? variance : alone;
        if (variance * (double)length > most * alone) {
            most = variance * (double)length / alone;
            *block = length;
        }
        for (size_t i = 0; i + 1 < n; i += 2)
            v[i / 2] = (v[i] + v[i + 1]) / 2;
    }
    return most;
}

static size_t block_end(const struct batch_problem *x, size_t from)
{
    return from + x->block < x->n ? from + x->block : x->n;
}

/* Sum of the weights of a block's batches; *off: predicted less measured, their weighted mean. */
static double block_mean(const struct batch_problem *x, size_t from, double *off)
{
    double weights = 0, sum = 0;
    for (size_t k = from; k < block_end(x, from); k++) {
        weights += x->weight[k];
        sum += x->weight[k] * (x->predicted[k] - x->measured[k]);
    }
    *off = weights > 0 ? sum / weights : 0;
    return weights;
}

/* What a batch says of differences inside a block, where residuals have a scale of their own. */
static double information_inside(struct arena *scratch, const struct batch_problem *x)
{
    double *off = arena_array(scratch, double, x->n), mean;
    for (size_t from = 0; from < x->n; from += x->block) {
        block_mean(x, from, &mean);
        for (size_t k = from; k < block_end(x, from); k++)
            off[k] = fabs(x->predicted[k] - x->measured[k] - mean);
    }
    const double scale =
        fmax(STATS_NORMAL_MAD * median(scratch, off, x->n), 1e-4 * x->predicted[0]);
    return 1 / (scale * scale);
}

/* Scale of the residuals of batches with chunks, or of those without; of few, `otherwise`. */
static double scale_of(struct arena *scratch, const struct batch_problem *x, bool prompt,
                       double otherwise)
{
    double *off = arena_array(scratch, double, x->n);
    size_t n = 0;
    for (size_t i = 0; i < x->n; i++)
        if (x->prompt[i] == prompt)
            off[n++] = fabs(x->measured[i] - x->predicted[i]);
    return n < BATCHES_LEAST
               ? otherwise
               : fmax(STATS_NORMAL_MAD * median(scratch, off, n), 1e-4 * x->predicted[0]);
}

/* Scales of the residuals, weights, and what a batch says. Prompts that take five decode steps'
 * time and vary by more than one would all be stalls beside these: each kind has a scale. */
static void weigh(struct arena *scratch, struct batch_problem *x)
{
    double *off = arena_array(scratch, double, x->n);
    for (size_t i = 0; i < x->n; i++)
        off[i] = fabs(x->measured[i] - x->predicted[i]);
    x->scale = fmax(STATS_NORMAL_MAD * median(scratch, off, x->n), 1e-4 * x->predicted[0]);
    const double scale[] = {scale_of(scratch, x, false, x->scale),
                            scale_of(scratch, x, true, x->scale)};
    for (size_t i = 0; i < x->n; i++) {
        const double own = scale[x->prompt[i]], u = off[i] / own;
        x->weight[i] = (u <= CLIP    ? 1
                        : u <= STALL ? CLIP / u
                                     : 0) *
                       (x->scale / own) * (x->scale / own);
        off[i] = x->weight[i] * (x->measured[i] - x->predicted[i]);
    }
    const double worth = batches_correlated(off, x->n, &x->block);
    x->information = 1 / (worth * x->scale * x->scale);
    x->inside = x->block > 1 ? information_inside(scratch, x) : 0;
    arena_reset(scratch);
}

/* Median of the residuals of batches that are the first of their shape, or are not, without what
 * first batches take more; its error from their median absolute deviation. */
static double median_left(struct arena *scratch, const struct batch_problem *x, bool first,
                          size_t *n, double *error)
{
    static const double OF_MEDIAN = 1.2533; /* standard error of a median over that of a mean */
    double *off = arena_array(scratch, double, x->n);
    *n = 0;
    for (size_t i = 0; i < x->n; i++)
        if (x->first[i] == first)
            off[(*n)++] = x->measured[i] - x->predicted[i] + (first ? x->first_use_s : 0);
    *error = (double)INFINITY;
    if (*n < BATCHES_LEAST)
        return 0;
    const double middle = median(scratch, off, *n);
    for (size_t i = 0; i < *n; i++)
        off[i] = fabs(off[i] - middle);
    *error = OF_MEDIAN * STATS_NORMAL_MAD * median(scratch, off, *n) / sqrt((double)*n);
    return middle;
}

/* What first batches take more; 0 where it does not show. */
static void find_first_use(struct arena *scratch, struct batch_problem *x, const struct theta *t)
{
    size_t n[2];
    double error[2];
    predict_all(x, t);
    const double other = median_left(scratch, x, false, &n[0], &error[0]);
    const double first = median_left(scratch, x, true, &n[1], &error[1]);
    const double sd = sqrt(error[0] * error[0] + error[1] * error[1]);
    const bool shows = first - other > 3 * sd;
    x->first_use_s = shows ? first - other : 0;
    x->first_use_sd_s = shows ? sd : 0;
    arena_reset(scratch);
}

/* What the median batch takes more than predicted, of all or of those with chunks; 0: less. */
static double median_more(struct arena *scratch, struct batch_problem *x, const struct theta *t,
                          bool prompts)
{
    double *off = arena_array(scratch, double, x->n);
    size_t n = 0;
    predict_all(x, t);
    for (size_t i = 0; i < x->n; i++)
        if (x->prompt[i] || !prompts)
            off[n++] = x->measured[i] - x->predicted[i];
    return n ? fmax(median(scratch, off, n), 0) : 0;
}

/* Engines in Python take tens of ms where the prior expects few, and prompts five times that where
 * decode steps alone are compiled: the iteration's constant begins where the median batch fits, a
 * chunk's where the median prompt does. */
static void begin_at_medians(struct arena *scratch, struct batch_problem *x, struct theta *t)
{
    t->ln[ITERATION_ITERATION_S] =
        log(exp(t->ln[ITERATION_ITERATION_S]) + median_more(scratch, x, t, false));
    t->ln[ITERATION_CHUNK_S] =
        log(exp(t->ln[ITERATION_CHUNK_S]) + median_more(scratch, x, t, true));
    arena_reset(scratch);
}

enum { GROUP = SETTLE_GROUP };

/* How many of the first batches belong to the time in which the run had not settled yet (kernels
 * were compiled, memory was taken, clocks went up): MSER-5 (settle.h). */
static size_t unsettled(struct arena *scratch, const struct batch_problem *x)
{
    const size_t n = x->n / GROUP;
    double *means = arena_array(scratch, double, n);
    for (size_t i = 0; i < n; i++) {
        double weights = 0, off = 0;
        for (size_t k = i * GROUP; k < (i + 1) * GROUP; k++) {
            weights += x->weight[k];
            off += x->weight[k] * (x->measured[k] - x->predicted[k]);
        }
        means[i] = weights > 0 ? off / weights : 0;
    }
    const size_t cut = GROUP * settle_mser(means, n);
    arena_reset(scratch);
    return cut;
}

static void drop_first(struct batch_problem *x, size_t n)
{
    x->terms += n;
    x->measured += n;
    x->predicted += n;
    x->weight += n;
    x->prompt += n;
    x->first += n;
    x->slope += n * ITERATION_PARAMS;
    x->n -= n;
}

/* Adds w (slope slope', slope off) to the equations. */
static void add_row(const struct theta_prior *prior, double w, const double slope[ITERATION_PARAMS],
                    double off, double hessian[THETAS][THETAS], double gradient[THETAS])
{
    for (int i = 0; i < ITERATION_PARAMS; i++) {
        if (prior->held[i])
            continue;
        gradient[i] += w * slope[i] * off;
        for (int j = 0; j < ITERATION_PARAMS; j++)
            hessian[i][j] += prior->held[j] ? 0 : w * slope[i] * slope[j];
    }
}

/* A block of batches that are alike: its mean, known as blocks are, and what differs inside it,
 * known as independent samples are. */
static void add_block(const struct batch_problem *x, size_t from, double hessian[THETAS][THETAS],
                      double gradient[THETAS])
{
    double mean[ITERATION_PARAMS] = {0}, off;
    const double weights = block_mean(x, from, &off);
    if (!(weights > 0))
        return;
    for (size_t k = from; k < block_end(x, from); k++)
        for (int i = 0; i < ITERATION_PARAMS; i++)
            mean[i] += x->weight[k] / weights * x->slope[k * ITERATION_PARAMS + (size_t)i];
    add_row(x->prior, weights * x->information, mean, off, hessian, gradient);
    for (size_t k = from; k < block_end(x, from); k++) {
        double slope[ITERATION_PARAMS];
        for (int i = 0; i < ITERATION_PARAMS; i++)
            slope[i] = x->slope[k * ITERATION_PARAMS + (size_t)i] - mean[i];
        add_row(x->prior, x->weight[k] * x->inside, slope, x->predicted[k] - x->measured[k] - off,
                hessian, gradient);
    }
}

static void equations(const struct batch_problem *x, const struct theta *t,
                      double hessian[THETAS][THETAS], double gradient[THETAS])
{
    theta_prior_equations(x->prior, t, hessian, gradient);
    for (size_t from = 0; from < x->n; from += x->block)
        add_block(x, from, hessian, gradient);
}

/* Measured / predicted of the batches that counted. */
static void keep_unevenness(struct arena *a, const struct batch_problem *x,
                            struct calibrate_fit *out)
{
    double *ratio = arena_array(a, double, x->n), squares = 0;
    bool *prompt = arena_array(a, bool, x->n);
    for (size_t i = 0; i < x->n; i++) {
        if (!(x->weight[i] > 0))
            continue;
        ratio[out->n_unevenness] = x->measured[i] / x->predicted[i];
        prompt[out->n_unevenness++] = x->prompt[i];
        squares += (x->measured[i] / x->predicted[i] - 1) * (x->measured[i] / x->predicted[i] - 1);
    }
    out->unevenness = ratio;
    out->bout = (double)x->block;
    out->uneven_prompt = prompt;
    if (out->n_unevenness)
        out->theta.ln[THETA_SPREAD] =
            log(fmin(fmax(sqrt(squares / (double)out->n_unevenness), 1e-4), 0.5));
}

/* What is left between a batch's end and its tokens' way to the client. */
static void set_overheads(const struct calibrate_input *in, struct calibrate_fit *out)
{
    for (size_t i = 0; i < in->n; i++) {
        const double lag = in->stages[i].run->first_token_lag_s;
        if (!(lag >= 0))
            continue;
        out->theta.ln[THETA_FRONT] = log(1e-9);
        out->theta.ln[THETA_FIRST_TOKEN] = log(fmax(lag, 1e-6));
        out->theta.ln[THETA_PROMPT_TOKEN] = log(1e-9);
        out->theta.ln[THETA_COMPLETION] = log(1e-6);
        out->theta.ln[THETA_STREAM] = log(1e-8);
        return;
    }
}

static void judge(struct arena *a, const struct batch_problem *x, size_t all,
                  struct calibrate_fit *out)
{
    size_t left_out = 0;
    double measured = 0, predicted = 0, weights = 0;
    for (size_t i = 0; i < x->n; i++) {
        left_out += !(x->weight[i] > 0);
        measured += x->weight[i] * x->measured[i];
        predicted += x->weight[i] * x->predicted[i];
        weights += x->weight[i];
    }
    const char **notes = arena_array(a, const char *, 4);
    if (x->first_use_s > 0)
        notes[out->n_notes++] = arena_printf(
            a,
            "the first batch of a shape takes %.3g ms longer (+- %.2g): the engine prepares "
            "something for each",
            1e3 * x->first_use_s, 1.96e3 * x->first_use_sd_s);
    notes[out->n_notes++] =
        arena_printf(a,
                     "%zu batches, residuals of %.3g ms (of %.3g ms); %zu left out "
                     "as stalls or warm-up",
                     x->n, 1e3 * x->scale, 1e3 * predicted / weights, left_out);
    if (x->n < all)
        notes[out->n_notes++] = arena_printf(
            a,
            "the first %zu of its %zu batches do not count: the rest is steadier without "
            "them (MSER-5)",
            all - x->n, all);
    out->fits = fabs(predicted / measured - 1) < 0.05 && left_out * 4 < x->n;
    if (!out->fits)
        notes[out->n_notes++] = arena_printf(
            a,
            "does not fit: the batches that count take %.1f %% more than fitted, %zu of %zu do not",
            100 * (measured / predicted - 1), left_out, x->n);
    out->notes = notes;
}

/* Engines in Python take 30 times the host time of those that the prior is of. Batches tell it, so
 * an iteration and a prompt need not be held to that. */
static void let_host_go(struct theta_prior *prior)
{
    static const int host[] = {ITERATION_ITERATION_S, ITERATION_CHUNK_S};
    for (size_t i = 0; i < sizeof host / sizeof *host; i++)
        for (int k = 0; k < THETAS; k++) {
            prior->precision[host[i]][k] *= 0.1;
            prior->precision[k][host[i]] *= 0.1;
        }
}

/* Theta and Hessian from where *t stands. */
static enum st iterate(struct arena *scratch, struct batch_problem *x, struct theta *t,
                       double hessian[THETAS][THETAS], int64_t *steps, struct err *e)
{
    double gradient[THETAS], step[THETAS], moved = 1;
    for (int round = 0; round < ROUNDS && moved > 1e-4; round++, ++*steps) {
        find_first_use(scratch, x, t);
        predict_all(x, t);
        weigh(scratch, x);
        equations(x, t, hessian, gradient);
        if (!solve(THETAS, THETAS, hessian[0], x->prior->held, gradient, step))
            return err_set(e, ST_REJECTED, "the batches' times depend on no parameter");
        moved = 0;
        for (int i = 0; i < THETAS; i++)
            moved = fmax(moved, fabs(step[i]));
        const double scale = moved > 0.7 ? 0.7 / moved : 1;
        for (int i = 0; i < THETAS; i++)
            if (!x->prior->held[i])
                t->ln[i] -= scale * step[i];
        theta_clamp(t);
    }
    return ST_OK;
}

enum st batches_fit(struct arena *a, const struct calibrate_params *p,
                    const struct calibrate_input *in, struct calibrate_fit *out, struct err *e)
{
    struct theta_prior prior = *p->prior;
    struct batch_problem x = {.prior = &prior};
    double hessian[THETAS][THETAS];
    let_host_go(&prior);
    gather(a, p, in, &x);
    if (x.n < BATCHES_LEAST)
        return err_set(e, ST_REJECTED, "%zu batches are too few for a fit: %d are needed", x.n,
                       (int)BATCHES_LEAST);
    struct arena *scratch = arena_new();
    begin_at_medians(scratch, &x, &out->theta);
    enum st st = iterate(scratch, &x, &out->theta, hessian, &out->steps, e);
    const size_t all = x.n;
    const size_t cut = st == ST_OK && x.n >= 2 * BATCHES_LEAST ? unsettled(scratch, &x) : 0;
    if (cut) {
        drop_first(&x, cut);
        st = iterate(scratch, &x, &out->theta, hessian, &out->steps, e);
    }
    arena_free(&scratch);
    TRY(st);
    if (!solve_inverse(THETAS, THETAS, hessian[0], prior.held, out->covariance[0]))
        return err_set(e, ST_REJECTED, "the batches' times depend on no parameter");
    predict_all(&x, &out->theta);
    out->first_use_s = x.first_use_s;
    out->first_use_sd_s = x.first_use_sd_s;
    keep_unevenness(a, &x, out);
    set_overheads(in, out);
    judge(a, &x, all, out);
    return ST_OK;
}
