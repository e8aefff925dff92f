/* A config.json: a model whose operators, layers and tensors agree on the parameters, or a named
 * error. */
#include "fuzz.h"

#include "model/describe.h"
#include "model/shard.h"
#include "model/weights.h"
#include "text/json.h"

enum { MANY_LAYERS = 64, MANY_EXPERTS = 64 };

/* Layers that differ: what is printed of them, and the rows of what is modelled. */
/* What engines compute: every parameter is in a tensor, and layers have steps. */
static void check_computed(struct arena *a, const struct model *m)
{
    struct model_steps *steps = arena_one(a, struct model_steps);
    int64_t sum = 0;
    size_t n;
    if (m->layers > MANY_LAYERS || m->experts > MANY_EXPERTS ||
        model_check_computed(m, &(struct err){0}) != ST_OK)
        return;
    const struct tensor *t = model_tensors(a, m, NULL, &n);
    for (size_t i = 0; i < n; i++)
        sum += tensor_elements(&t[i]);
    REQUIRE(sum == model_params(m));
    model_steps(m, steps);
    for (int64_t i = 0; i < m->layers; i++)
        REQUIRE(model_layer_steps(steps, m, i)->n > 2);
}

static void check_layers(struct arena *a, const struct model *m)
{
    struct buf text = {0};
    struct op_list ops;
    int64_t sum = 0;
    REQUIRE(structure_params(m->structure) > 0);
    REQUIRE(structure_active_params(m->structure) <= structure_params(m->structure));
    model_describe(a, m, &(struct describe_params){0}, &text);
    (void)model_describe_node(a, m, &(struct describe_params){0});
    buf_free(&text);
    if (model_check_modelled(m, &(struct err){0}) != ST_OK)
        return;
    model_ops(m, &ops);
    for (int i = 0; i < ops.n; i++)
        sum += ops.ops[i].repeat * ops.ops[i].weight_params;
    REQUIRE(sum - (m->tied ? m->vocab * m->hidden : 0) == model_params(m));
    for (int64_t tp = 1; tp <= 4; tp++)
        if (shard_check(m, tp, 1, 1, &(struct err){0}) == ST_OK)
            shard_ops(m, tp, &ops);
    check_computed(a, m);
}

static void check_model(struct arena *a, const struct model *m)
{
    struct buf text = {0};
    const int64_t params = model_params(m);
    if (m->layered) {
        check_layers(a, m);
        return;
    }
    REQUIRE(params > 0 && m->heads % m->kv_heads == 0 && m->head_dim > 0);
    REQUIRE(model_kv_bytes_per_token(m, 4) > 0);
    model_describe(a, m, &(struct describe_params){0}, &text);
    buf_free(&text);
    check_computed(a, m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new();
    struct node *config;
    struct model m;
    struct err e = {0};
    if (json_parse(a, "config.json", (struct sv){(const char *)data, size}, NULL, &config, &e) ==
        ST_OK) {
        if (model_from_config(a, "fuzz", config, &m, &e) == ST_OK)
            check_model(a, &m);
        else
            REQUIRE(e.st == ST_INPUT && err_cause(&e, 0));
    }
    arena_free(&a);
    return 0;
}
