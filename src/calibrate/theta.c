#include "calibrate/theta.h"

#include <math.h>
#include <string.h>

/* What requests pay, and how uneven machines are: value (0: of request_overheads_server), standard
 * deviation of its logarithm. */
static const struct {
    const char *name, *unit, *help;
    double value, sd, min, max;
} others[THETAS - ITERATION_PARAMS] = {
    {"front_s", "s", "of the server's front, before the engine sees the request", 0, 0.6, 1e-9, 10},
    {"first_token_s", "s", "outside the engine, before the first token", 0, 0.6, 1e-6, 10},
    {"prompt_token_s", "s", "the same, per prompt token", 0, 0.8, 1e-9, 1e-2},
    {"completion_s", "s", "outside the engine, after the last token", 0, 0.8, 1e-6, 10},
    {"stream_s", "s", "outside the engine, before the first token, per running request", 0, 0.8,
     1e-8, 1e-2},
    {"spread", "1", "unevenness of iterations over longer times", 0.02, 0.6, 1e-4, 0.5},
};

static double other_value(int i)
{
    const struct request_overheads *o = &request_overheads_server;
    switch (i) {
    case THETA_FRONT:
        return o->front_s;
    case THETA_FIRST_TOKEN:
        return o->first_token_s;
    case THETA_PROMPT_TOKEN:
        return o->prompt_token_s;
    case THETA_COMPLETION:
        return o->completion_s;
    case THETA_STREAM:
        return o->stream_s;
    default:
        return others[i - ITERATION_PARAMS].value;
    }
}

const char *theta_name(int i)
{
    return i < ITERATION_PARAMS ? iteration_param_table[i].name : others[i - ITERATION_PARAMS].name;
}

const char *theta_unit(int i)
{
    return i < ITERATION_PARAMS ? iteration_param_table[i].unit : others[i - ITERATION_PARAMS].unit;
}

/* A held parameter of value 0 has the logarithm -INFINITY. */
struct iteration_params theta_iteration(const struct theta *t)
{
    struct iteration_params p;
    for (int i = 0; i < ITERATION_PARAMS; i++)
        p.v[i] = exp(t->ln[i]);
    return p;
}

struct request_overheads theta_overheads(const struct theta *t)
{
    return (struct request_overheads){.front_s = exp(t->ln[THETA_FRONT]),
                                      .first_token_s = exp(t->ln[THETA_FIRST_TOKEN]),
                                      .prompt_token_s = exp(t->ln[THETA_PROMPT_TOKEN]),
                                      .completion_s = exp(t->ln[THETA_COMPLETION]),
                                      .stream_s = exp(t->ln[THETA_STREAM])};
}

double theta_spread(const struct theta *t)
{
    return exp(t->ln[THETA_SPREAD]);
}

/* Whether any batch of the model depends on the parameter. */
static bool counts(const struct iteration_shape *s, int i)
{
    if (iteration_param_is(i, ITERATION_OF_LINKS) && s->tp == 1 && s->groups == 1 && s->stages == 1)
        return false;
    if (iteration_param_is(i, ITERATION_OF_EXPERTS) && s->experts == 0)
        return false;
    if (i == ITERATION_PIECE_LAYER_S)
        return launching_has_pieces(&s->launching);
    return !iteration_param_is(i, ITERATION_OF_LAUNCHING) || s->launching.mode != LAUNCHING_UNTOLD;
}

/* Attention reads the keys of one head for all of its queries; where each query has a head of its
 * own the reads are long, and the regressions over grouped heads behind the default say too little.
 * Measured: Llama-2-7B on an H200, decode of 64 sequences against 1 at a context of 1,024
 * (torch.compile, SDPA): 33.8 GB more in 8.26 ms, of which row_layer_s is 0.2; 0.87 of 4.8 TB/s. */
static const struct {
    double value, sd;
} ungrouped_kv = {0.87, 0.15};

static void set_ungrouped(const struct model *m, struct theta_prior *out)
{
    const int k = ITERATION_KV_EFFICIENCY;
    if (m->kv_heads != m->heads)
        return;
    out->mean.ln[k] = log(ungrouped_kv.value);
    out->precision[k][k] = 1 / (ungrouped_kv.sd * ungrouped_kv.sd);
}

void theta_prior_roofline(const struct model *m, const struct iteration_shape *shape,
                          struct theta_prior *out)
{
    const struct iteration_params defaults = iteration_defaults_on(m->multiply, shape->host_speed);
    memset(out, 0, sizeof *out);
    out->source = "roofline";
    for (int i = 0; i < THETAS; i++) {
        bool ours = i >= ITERATION_PARAMS;
        double value = ours ? other_value(i) : defaults.v[i];
        double sd = ours ? others[i - ITERATION_PARAMS].sd : iteration_param_table[i].default_sd;
        out->mean.ln[i] = log(value);
        out->held[i] = !(value > 0) || (!ours && !counts(shape, i));
        out->precision[i][i] = out->held[i] ? 0 : 1 / (sd * sd);
    }
    set_ungrouped(m, out);
}

void theta_clamp(struct theta *t)
{
    for (int i = 0; i < THETAS; i++) {
        bool ours = i >= ITERATION_PARAMS;
        double min = ours ? others[i - ITERATION_PARAMS].min : iteration_param_table[i].min;
        double max = ours ? others[i - ITERATION_PARAMS].max : iteration_param_table[i].max;
        if (t->ln[i] > log(max))
            t->ln[i] = log(max);
        if (min > 0 && t->ln[i] < log(min))
            t->ln[i] = log(min);
    }
}

double theta_prior_loss(const struct theta_prior *p, const struct theta *t)
{
    double s = 0;
    for (int i = 0; i < THETAS; i++)
        for (int j = 0; j < THETAS; j++)
            if (!p->held[i] && !p->held[j])
                s += p->precision[i][j] * (t->ln[i] - p->mean.ln[i]) * (t->ln[j] - p->mean.ln[j]);
    return s / 2;
}

void theta_prior_equations(const struct theta_prior *p, const struct theta *t,
                           double hessian[THETAS][THETAS], double gradient[THETAS])
{
    for (int i = 0; i < THETAS; i++) {
        gradient[i] = 0;
        for (int j = 0; j < THETAS; j++) {
            const bool held = p->held[i] || p->held[j];
            hessian[i][j] = held ? 0 : p->precision[i][j];
            if (!held)
                gradient[i] += p->precision[i][j] * (t->ln[j] - p->mean.ln[j]);
        }
    }
}
