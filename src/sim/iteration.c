#include "profile/read/iteration.h"

#include <math.h>

#include "sim/groups.h"
#include "sim/predictor.h"

/* ---- roofline and calibrated: the iteration model -------------------------------------------- */

struct modelled {
    struct iteration_shape shape;
    struct iteration_params params;
    const struct bundle *bundle; /* of calibrated; NULL = none */
    struct groups groups;        /* n 1: one */
    bool host;
    int64_t first_launch;    /* of launching's unevenness, in which the run begins */
    const double *host_pace; /* of predictor_params */
};

static enum st open_modelled(struct arena *a, const struct predictor_params *p,
                             const struct iteration_hardware *hw,
                             const struct iteration_params *params, void **self, struct err *e)
{
    struct modelled *x = arena_one(a, struct modelled);
    const struct iteration_degrees degrees = {.tp = p->tp,
                                              .pp = p->pp,
                                              .ep = p->ep,
                                              .expert_skew = p->expert_skew,
                                              .launching = p->launching};
    TRY(iteration_shape(a, p->model, hw, &degrees, &x->shape, e));
    x->groups = groups_new(a, x->shape.groups, model_spans(p->model));
    x->params = *params;
    x->host = p->host_overhead;
    x->first_launch = p->first_launch;
    x->host_pace = p->host_pace;
    *self = x;
    return ST_OK;
}

static enum st open_roofline(struct arena *a, const struct predictor_params *p, void **self,
                             struct err *e)
{
    const struct iteration_hardware none = {0};
    const struct iteration_hardware *hw = p->hardware ? p->hardware : &none;
    const struct iteration_params defaults =
        iteration_defaults_on(p->model->multiply, hw->host_speed);
    return open_modelled(a, p, hw, p->parameters ? p->parameters : &defaults, self, e);
}

static enum st open_calibrated(struct arena *a, const struct predictor_params *p, void **self,
                               struct err *e)
{
    const struct calibrated *c = bundle_calibrated(p->bundle);
    const struct iteration_params params = calibrated_params(c);
    struct modelled *x;
    TRY(open_modelled(a, p, &c->hardware, p->parameters ? p->parameters : &params, self, e));
    x = *self;
    x->bundle = p->bundle;
    return ST_OK;
}

/* Of stage i. The first one's host stands before the device; a later one launches as soon as the
 * batch is built, and what shows of that is what takes longer than its device. */
static struct stage_time time_of(const struct modelled *x, int64_t i, int64_t iteration,
                                 const struct iteration_time *t, double ratio)
{
    if (!x->host)
        return (struct stage_time){.device_s = t->device_s * ratio};
    const double pace = x->host_pace ? x->host_pace[iteration] : 1;
    const double uneven = t->launch_s > 0 || t->cold_s > 0
                              ? launching_unevenness(x->params.v[ITERATION_LAUNCH_SPREAD],
                                                     x->first_launch + iteration)
                              : 1;
    const double launch_s = t->launch_s * uneven, host_s = t->host_s - t->launch_s + launch_s;
    if (i > 0)
        return (struct stage_time){.device_s = fmax(t->device_s, launch_s * pace) * ratio};
    return (struct stage_time){.host_s = host_s * pace * ratio,
                               .launch_s = launch_s * pace * ratio,
                               .cold_s = t->cold_s * uneven * pace * ratio,
                               .answer_s = t->answer_s * pace * ratio,
                               .device_s = t->device_s * ratio,
                               .one_thread = x->shape.launching.mode != LAUNCHING_UNTOLD};
}

/* Device time of all stages. */
static double device_s(const struct modelled *x, const struct iteration_batch *b)
{
    struct iteration_terms terms;
    double s = 0;
    for (int64_t i = 0; i < x->shape.stages; i++) {
        iteration_terms(&x->shape, b, i, &terms);
        s += iteration_time(&x->params, &terms, NULL).device_s;
    }
    return s;
}

/* The load of the group that takes longest. */
static const struct op_load *slowest(struct modelled *x, const struct batch *b,
                                     const struct iteration_batch *batch,
                                     struct group_part parts[GROUP_PARTS])
{
    const int n = groups_busiest(&x->groups, b, parts);
    int worst = 0;
    double most = 0;
    for (int i = 0; i < n && n > 1; i++) {
        struct iteration_batch of = *batch;
        of.group = &parts[i].load;
        const double s = device_s(x, &of);
        if (s > most)
            most = s, worst = i;
    }
    return &parts[worst].load;
}

static enum st predict_modelled(void *self, const struct batch *b, struct stage_time *stages,
                                struct err *e)
{
    struct modelled *x = self;
    struct iteration_batch batch = {
        .load = b->load, .chunks = b->n_chunks, .queries = 1 + (int64_t)b->draft_tokens};
    struct group_part parts[GROUP_PARTS];
    struct iteration_terms terms;
    if (x->shape.groups > 1)
        batch.group = slowest(x, b, &batch, parts);
    const int64_t size = (int64_t)b->prefill_tokens + b->n_decodes;
    const double ratio = x->bundle ? bundle_replayed(x->bundle, b->n_chunks > 0, size) : 1;
    (void)e;
    for (int64_t i = 0; i < x->shape.stages; i++) {
        iteration_terms(&x->shape, &batch, i, &terms);
        struct iteration_time t = iteration_time(&x->params, &terms, NULL);
        stages[i] = time_of(x, i, b->iteration, &t, ratio);
    }
    return ST_OK;
}

const struct predictor_ops predictor_roofline = {
    .name = "roofline",
    .help = "from the hardware's peaks and default efficiencies: no bundle, uncalibrated",
    .version = PREDICTOR_VERSION,
    .experts = true,
    .verifies = true,
    .uncalibrated = true,
    .open = open_roofline,
    .predict = predict_modelled,
};

const struct predictor_ops predictor_calibrated = {
    .name = "calibrated",
    .help = "the iteration model with the parameters of a calibration",
    .version = PREDICTOR_VERSION,
    .needs_bundle = true,
    .experts = true,
    .verifies = true,
    .open = open_calibrated,
    .predict = predict_modelled,
};

/* ---- iterations: measured whole -------------------------------------------------------------- */

static enum st open_iterations(struct arena *a, const struct predictor_params *p, void **self,
                               struct err *e)
{
    (void)e;
    *self = arena_copy(a, p, sizeof *p);
    return ST_OK;
}

static enum st predict_iterations(void *self, const struct batch *b, struct stage_time *stages,
                                  struct err *e)
{
    const struct predictor_params *p = self;
    const struct iterations_batch x =
        iterations_batch_of(&b->load, b->decode_kv_max, bundle_pads(p->bundle));
    const struct iterations_time t = bundle_iteration_s(p->bundle, &x);
    const int64_t tokens = b->prefill_tokens + b->n_decodes;
    const double scale = b->n_chunks ? bundle_prompt_scale(p->bundle, tokens, b->n_decodes > 0)
                                     : bundle_decode_scale(p->bundle, b->n_decodes, b->train);
    (void)e;
    stages[0] = (struct stage_time){.host_s = p->host_overhead ? t.host_s * scale : 0,
                                    .launch_s = p->host_overhead ? t.launch_s * scale : 0,
                                    .one_thread = p->host_overhead && t.launch_s > 0,
                                    .device_s = t.device_s * scale};
    return ST_OK;
}

static int iterations_wake_batches(void *self)
{
    const struct predictor_params *p = self;
    return p->host_overhead ? bundle_wake_iterations(p->bundle) : 0;
}

static struct stage_time iterations_wake(void *self, double pause_s, int k)
{
    const struct predictor_params *p = self;
    struct stage_time t = {0};
    bundle_wake_s(p->bundle, pause_s, k, &t.device_s, &t.host_s);
    return t;
}

const struct predictor_ops predictor_iterations = {
    .name = "iterations",
    .help = "measured times of whole iterations, interpolated",
    .version = PREDICTOR_VERSION,
    .needs_bundle = true,
    .experts_of_shards = true,
    .open = open_iterations,
    .predict = predict_iterations,
    .wake = iterations_wake,
    .wake_batches = iterations_wake_batches,
};
