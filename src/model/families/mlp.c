/* MLPs: dense, or experts of which each token goes through some. */
#include <string.h>

#include "model/families/family.h"

static const char expert_count[] = "num_experts|num_local_experts|n_routed_experts|"
                                   "moe_num_experts";
static const char expert_choice[] = "num_experts_per_tok|num_experts_per_token|experts_per_token|"
                                    "moe_k|moe_topk|top_k_experts|moe_top_k";

/* 0 = none: the key says so, or it is null, or it is not there and the class has none. */
static int64_t experts_of(struct reading *r)
{
    return read_int(r, expert_count, 0, MAX_EXPERTS, 0);
}

static int64_t norms(struct reading *r)
{
    return (1 - family_is(r, r->family->one_norm) + family_is(r, r->family->post_norms)) *
           family_norm_params(r);
}

static enum mlp_act act_of(const struct reading *r, bool gated)
{
    static const struct {
        const char *word;
        enum mlp_act act;
    } words[] = {
        {"silu", MLP_ACT_SILU},
        {"swish", MLP_ACT_SILU},
        {"gelu_pytorch_tanh", MLP_ACT_GELU_TANH},
        {"gelu_new", MLP_ACT_GELU_TANH},
        {"gelu_fast", MLP_ACT_GELU_TANH},
    };
    const char *const act = r->s->act;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(act, words[i].word) == 0)
            return words[i].act;
    return gated && !*act ? MLP_ACT_SILU : MLP_ACT_OTHER;
}

/* Constants of gpt-oss: alpha is in no configuration, the limit in most. */
static void set_act(struct reading *r, struct mlp *out)
{
    out->gated = !family_is(r, r->family->ungated);
    out->act = act_of(r, out->gated);
    out->out_norm = family_is(r, r->family->post_norms);
    if (!family_is(r, r->family->clamped))
        return;
    out->act = MLP_ACT_CLAMPED;
    out->act_alpha = 1.702;
    out->act_limit = read_double(r, "swiglu_limit", 0, 1e9, 7);
}

static void add_dense(struct reading *r, const char *const module[3], int64_t intermediate,
                      struct mlp *out)
{
    const int64_t hidden = r->s->hidden;
    const bool bias = family_is(r, r->family->mlp_bias);
    if (out->gated)
        projections_add(&out->weights, module[0], CUT_ROWS, intermediate, hidden, 1, bias);
    projections_add(&out->weights, module[1], CUT_ROWS, intermediate, hidden, 1, bias);
    projections_add(&out->weights, module[2], CUT_COLUMNS, hidden, intermediate, 1, bias);
}

void mlp_dense(struct reading *r, int64_t intermediate, struct mlp *out)
{
    static const char *const modules[] = {"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"};
    memset(out, 0, sizeof *out);
    out->intermediate = intermediate;
    set_act(r, out);
    add_dense(r, modules, intermediate, out);
    out->weights.vectors = norms(r);
}

void mlp_experts(struct reading *r, int64_t intermediate, int64_t shared, struct mlp *out)
{
    static const char *const modules[] = {"mlp.shared_experts.gate_proj",
                                          "mlp.shared_experts.up_proj",
                                          "mlp.shared_experts.down_proj"};
    const struct family *f = r->family;
    const int64_t hidden = r->s->hidden;
    const bool bias = family_is(r, f->expert_bias);
    memset(out, 0, sizeof *out);
    struct projections *w = &out->weights;
    out->intermediate = intermediate;
    out->experts = experts_of(r);
    out->experts_per_token = read_int(r, expert_choice, 1, out->experts, READ_REQUIRED);
    if (intermediate * out->experts > MAX_INTERMEDIATE)
        reading_fail(r, read_node(r, expert_count),
                     "num_experts: %lld experts of %lld are more than %d wide together",
                     (long long)out->experts, (long long)intermediate, MAX_INTERMEDIATE);
    out->shared = shared;
    set_act(r, out);
    out->router = f->router;
    out->norm_topk = family_is(r, f->norm_topk);
    out->router_bias = family_is(r, f->router_bias);
    out->expert_bias = bias;
    projections_add(w, "mlp.gate", CUT_NONE, out->experts, hidden, 1, out->router_bias);
    if (out->gated)
        projections_add(w, "mlp.experts.gate_proj", CUT_EXPERT_ROWS, intermediate, hidden,
                        out->experts, bias);
    projections_add(w, "mlp.experts.up_proj", CUT_EXPERT_ROWS, intermediate, hidden, out->experts,
                    bias);
    projections_add(w, "mlp.experts.down_proj", CUT_EXPERT_COLUMNS, hidden, intermediate,
                    out->experts, bias);
    if (shared) {
        add_dense(r, modules, shared, out);
        if (family_is(r, f->shared_gate))
            projections_add(w, "mlp.shared_expert_gate", CUT_NONE, 1, hidden, 1, false);
    }
    w->vectors = norms(r);
}

void mlp_narrow_experts(struct reading *r, int64_t latent, struct mlp *out)
{
    for (int32_t i = 0; i < out->weights.n; i++) {
        struct projection *w = &out->weights.w[i];
        if (w->cut == CUT_EXPERT_ROWS)
            w->columns = latent;
        if (w->cut == CUT_EXPERT_COLUMNS)
            w->rows = latent;
    }
    projections_add(&out->weights, "mlp.latent_down_proj", CUT_NONE, latent, r->s->hidden, 1,
                    false);
    projections_add(&out->weights, "mlp.latent_up_proj", CUT_NONE, r->s->hidden, latent, 1, false);
}

/* ---- which layers have experts --------------------------------------------------------------- */

static const bool *by_words(struct reading *r)
{
    const char *const *words = read_layer_words(r, "mlp_layer_types");
    if (!words)
        return NULL;
    bool *out = arena_array(r->a, bool, r->s->layers);
    for (int64_t i = 0; i < r->s->layers; i++)
        out[i] = strcmp(words[i], "dense") != 0;
    return out;
}

struct layer_span {
    int64_t first, end, step, offset;
};

static const bool *by_span(struct reading *r, struct layer_span s)
{
    bool *out = arena_array(r->a, bool, r->s->layers);
    for (int64_t i = s.first; i < r->s->layers && i < s.end; i++)
        out[i] = (i + s.offset) % s.step == 0;
    return out;
}

static const bool *without(struct reading *r, const bool *sparse, const bool *dense)
{
    bool *out = arena_array(r->a, bool, r->s->layers);
    for (int64_t i = 0; i < r->s->layers; i++)
        out[i] = sparse[i] && !(dense && dense[i]);
    return out;
}

const bool *mlp_sparse_layers(struct reading *r)
{
    const int64_t layers = r->s->layers;
    const int64_t dense = read_int(r, "first_k_dense_replace|num_dense_layers", 0, MAX_LAYERS, 0);
    if (experts_of(r) == 0) {
        read_ignore(r, expert_choice);
        return NULL;
    }
    if (read_has(r, "mlp_layer_types")) {
        read_ignore(r, "moe_layer_freq|moe_layers|interleave_moe_layer_step");
        return by_words(r);
    }
    const struct node *freq = read_node(r, "moe_layer_freq");
    if (freq && freq->kind == NODE_LIST)
        return read_layer_flags(r, "moe_layer_freq");
    if (read_has(r, "moe_layers") && read_node(r, "moe_layers")->n > 0) {
        read_ignore(r, "interleave_moe_layer_step");
        return read_layer_ids(r, "moe_layers", 0);
    }
    if (read_knows(r, "expert_layer_period")) {
        const int64_t period = read_int(r, "expert_layer_period", 1, MAX_LAYERS, 1);
        const int64_t offset = read_int(r, "expert_layer_offset", 0, MAX_LAYERS, 0);
        return by_span(r, (struct layer_span){0, layers, period, period - offset % period});
    }
    if (read_knows(r, "moe_layer_start_index")) {
        const int64_t first = read_int(r, "moe_layer_start_index", 0, MAX_LAYERS, 0);
        const int64_t last = read_int(r, "moe_layer_end_index", -1, MAX_LAYERS, layers - 1);
        const int64_t step = read_int(r, "moe_layer_interval", 1, MAX_LAYERS, 1);
        return by_span(r, (struct layer_span){first, last < 0 ? layers : last + 1, step, 1});
    }
    const int64_t step = read_int(r, "moe_layer_freq|decoder_sparse_step|interleave_moe_layer_step",
                                  1, MAX_LAYERS, 1);
    const bool counts_from_one = read_has(r, "decoder_sparse_step|interleave_moe_layer_step");
    return without(r, by_span(r, (struct layer_span){dense, layers, step, counts_from_one}),
                   read_layer_ids(r, "mlp_only_layers", 0));
}

/* ---- of decoders ----------------------------------------------------------------------------- */

static int64_t shared_width(struct reading *r, int64_t expert)
{
    const struct family *f = r->family;
    const char *const width = f->shared_interior ? f->shared_interior
                                                 : "shared_expert_intermediate_size|"
                                                   "moe_shared_expert_intermediate_size|"
                                                   "shared_intermediate_size|share_expert_dim";
    const char *const count = "n_shared_experts|num_shared_experts|moe_num_shared_experts";
    if (f->shared_dense)
        return expert;
    const int64_t one = read_int(r, width, 0, MAX_INTERMEDIATE, 0);
    return read_int(r, count, 0, MAX_EXPERTS, one ? 1 : 0) * (one ? one : expert);
}

static int64_t dense_width(struct reading *r)
{
    const struct family *f = r->family;
    const char *const names =
        f->interior ? f->interior : "intermediate_size|ffn_dim|n_inner|ffn_hidden_size";
    const int64_t times = f->interior_times * r->s->hidden;
    const bool own = f->dense_interior && read_has(r, f->dense_interior);
    return read_int(r, own ? f->dense_interior : names, 1, MAX_INTERMEDIATE,
                    times ? times : READ_REQUIRED);
}

/* Of one expert; of models that have a key for it alone, else of the dense MLP's. */
static int64_t expert_width(struct reading *r)
{
    const char *const names = r->family->expert_interior
                                  ? r->family->expert_interior
                                  : "moe_intermediate_size|expert_intermediate_size";
    if (read_knows(r, names))
        return read_int(r, names, 1, MAX_INTERMEDIATE, READ_REQUIRED);
    return r->family->dense_interior
               ? read_int(r, "intermediate_size", 1, MAX_INTERMEDIATE, READ_REQUIRED)
               : dense_width(r);
}

void mlp_decoder(struct reading *r, const struct layers *l, int64_t layer, struct mlp *out)
{
    read_ignore(r, "intermediate_size");
    if (r->family->dense_interior)
        read_ignore(r, r->family->dense_interior);
    if (l->sparse && l->sparse[layer]) {
        const int64_t width = expert_width(r);
        mlp_experts(r, width, shared_width(r, width), out);
        return;
    }
    mlp_dense(r, dense_width(r), out);
    if (!l->sparse)
        read_ignore(r, "moe_intermediate_size|expert_intermediate_size");
}
