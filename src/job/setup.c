#include "job/setup.h"

#include <math.h>
#include <string.h>

#include "job/memory.h"
#include "text/fields.h"

static const double GIB = 1024.0 * 1024 * 1024;

/* The formats that weights are held in: a simulated GPU's are the model's, an engine's its own. */
static struct model held(const struct job_context *c, const struct model *m,
                         const struct engine *engine, const struct engine_plan *plan)
{
    const struct plan *p = c->plan;
    const bool simulated = !engine || engine->needs & ENGINE_PREDICTOR;
    const bool gpu =
        p->hardware.memory_gb > 0 || (p->hardware.id && strcmp(p->hardware.id, "cpu") != 0);
    struct model as = *m;
    if (simulated && gpu)
        return as;
    as.dtype = plan->dtype == DTYPE_F32   ? PRECISION_FP32
               : plan->dtype == DTYPE_F16 ? PRECISION_FP16
                                          : PRECISION_BF16;
    as.weights = as.dtype;
    as.scale_bytes = 0;
    as.op_formats = NULL;
    return as;
}

struct job_setup job_setup_of(const struct job_context *c, const struct model *m,
                              const struct engine *engine, const struct engine_plan *plan,
                              const struct serve_params *serve)
{
    const struct plan *p = c->plan;
    const struct model as = held(c, m, engine, plan);
    struct job_setup s = {.model = m->name,
                          .source = m->source,
                          .stand_in = c->config->stand_in,
                          .hardware = p->hardware.id,
                          .tp = p->parallel.tp > 0 ? p->parallel.tp : 1,
                          .pp = p->parallel.pp > 0 ? p->parallel.pp : 1,
                          .ep = p->parallel.ep > 0 ? p->parallel.ep : 1,
                          .replicas = serve->replicas,
                          .kv_tokens = (double)job_kv_tokens(p, serve)};
    s.weight_bytes = memory_weight_bytes(&as, s.tp, s.pp, s.ep);
    return s;
}

/* The hardware of a shipped list is the CPU of this machine, not that of a server. */
static bool names_hardware(const struct job_context *c)
{
    static const char group[] = "hardware=";
    bool named = config_origin(c->config, "hardware.id") == ORIGIN_COMMAND_LINE;
    for (size_t i = 0; i < c->config->n_overrides; i++)
        named = named || strncmp(c->config->overrides[i], group, sizeof group - 1) == 0;
    return named;
}

struct job_setup job_setup_outside(const struct job_context *c, const char *model)
{
    return (struct job_setup){.model = model,
                              .hardware = names_hardware(c) ? c->plan->hardware.id : NULL,
                              .weight_bytes = (double)NAN,
                              .kv_tokens = (double)NAN};
}

static const struct field rows[] = {
    FIELD(struct job_setup, model, .optional = true),
    FIELD_AS(struct job_setup, source, "model_source", .omit = true),
    FIELD(struct job_setup, stand_in, .omit = true),
    FIELD(struct job_setup, hardware, .optional = true),
    FIELD(struct job_setup, tp, .omit = true),
    FIELD(struct job_setup, pp, .omit = true),
    FIELD(struct job_setup, ep, .omit = true),
    FIELD(struct job_setup, replicas, .omit = true),
    FIELD_AS(struct job_setup, weight_bytes, "weight_bytes_per_gpu", .optional = true),
    FIELD(struct job_setup, kv_tokens, .optional = true),
};
const struct fields job_setup_fields = FIELDS(struct job_setup, rows);

struct node *job_setup_node(struct arena *a, const struct job_setup *s)
{
    return fields_node(a, &job_setup_fields, s);
}

const char *job_setup_words(struct arena *a, const struct job_setup *s)
{
    struct buf b = {0};
    buf_printf(&b, "%s%s on %s", s->model ? s->model : "a model that is not known",
               s->stand_in ? " (none was named)" : "",
               s->hardware ? s->hardware : "hardware that was not named");
    if (s->tp)
        buf_printf(&b, ": tp %lld, pp %lld, ep %lld, %lld replica%s", (long long)s->tp,
                   (long long)s->pp, (long long)s->ep, (long long)s->replicas,
                   s->replicas == 1 ? "" : "s");
    if (isfinite(s->weight_bytes))
        buf_printf(&b, "; %.3g GiB of weights a device", s->weight_bytes / GIB);
    if (isfinite(s->kv_tokens))
        buf_printf(&b, ", %.0f KV tokens a replica", s->kv_tokens);
    const char *words = arena_str(a, buf_str(&b));
    buf_free(&b);
    return words;
}

const char *job_setup_too_long(struct arena *a, const struct model *m, int64_t max_model_len)
{
    if (m->max_positions <= 0 || max_model_len <= m->max_positions)
        return NULL;
    return arena_printf(a,
                        "scheduler.max_model_len=%lld is above the %lld positions of model %s: "
                        "vLLM refuses that, and answers beyond them are not the model's",
                        (long long)max_model_len, (long long)m->max_positions, m->name);
}
