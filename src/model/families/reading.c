#include "model/families/reading.h"

#include <stdarg.h>
#include <string.h>

#include "model/families/family.h"

void reading_init(struct reading *r, struct arena *a, const struct node *c,
                  const struct family *family, struct structure *s, struct err *e)
{
    *r = (struct reading){.a = a,
                          .c = c,
                          .used = arena_array(a, bool, c->n),
                          .family = family,
                          .sizes = family_class_sizes(s->family),
                          .s = s,
                          .st = ST_OK,
                          .e = e};
}

void reading_fail(struct reading *r, const struct node *at, const char *fmt, ...)
{
    if (r->st != ST_OK)
        return;
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(r->a, fmt, ap);
    va_end(ap);
    r->st = node_err(at ? at : r->c, ST_INPUT, r->e, "%s", text);
}

/* ---- single values --------------------------------------------------------------------------- */

static bool is_name(const char *names, struct sv key)
{
    for (const char *p = names; *p;) {
        size_t n = strcspn(p, "|");
        if (n == key.n && memcmp(p, key.p, n) == 0)
            return true;
        p += n + (p[n] == '|');
    }
    return false;
}

/* All of the names count as read; the first in the order of `names` that says something counts. */
static const struct node_pair *find(struct reading *r, const char *names)
{
    const struct node_pair *found = NULL;
    for (const char *p = names; *p;) {
        size_t n = strcspn(p, "|");
        for (uint32_t i = 0; i < r->c->n; i++) {
            const struct node_pair *pair = &r->c->pairs[i];
            if (pair->key.n != n || memcmp(pair->key.p, p, n) != 0)
                continue;
            r->used[i] = true;
            if (!found && pair->value->kind != NODE_NULL)
                found = pair;
        }
        p += n + (p[n] == '|');
    }
    return found;
}

const struct node *read_node(struct reading *r, const char *names)
{
    const struct node_pair *p = find(r, names);
    return p ? p->value : NULL;
}

bool read_has(struct reading *r, const char *names)
{
    return find(r, names) != NULL;
}

bool read_stands(const struct reading *r, const char *names)
{
    for (uint32_t i = 0; i < r->c->n; i++)
        if (is_name(names, r->c->pairs[i].key))
            return true;
    return false;
}

/* Of the class, where the configuration is silent. */
static bool of_class(const struct reading *r, const char *names, int64_t *out)
{
    return !read_stands(r, names) && family_class_size(r->sizes, names, out);
}

bool read_knows(struct reading *r, const char *names)
{
    int64_t v;
    return read_has(r, names) || of_class(r, names, &v);
}

void read_ignore(struct reading *r, const char *names)
{
    (void)find(r, names);
}

static void missing(struct reading *r, const char *names)
{
    reading_fail(r, r->c, "%.*s: missing", (int)strcspn(names, "|"), names);
}

int64_t read_int(struct reading *r, const char *names, int64_t min, int64_t max, int64_t fallback)
{
    if (r->st != ST_OK)
        return 1;
    const struct node_pair *p = find(r, names);
    int64_t v = fallback;
    if (p)
        r->st = node_to_int(p->value, p->key.p, min, max, &v, r->e);
    else if (!of_class(r, names, &v) && fallback == READ_REQUIRED)
        missing(r, names);
    return r->st == ST_OK ? v : 1;
}

double read_double(struct reading *r, const char *names, double min, double max, double fallback)
{
    if (r->st != ST_OK)
        return 1;
    const struct node_pair *p = find(r, names);
    double v = fallback;
    if (p)
        r->st = node_to_double(p->value, p->key.p, min, max, &v, r->e);
    return r->st == ST_OK ? v : 1;
}

bool read_flag(struct reading *r, const char *names, bool fallback)
{
    const struct node_pair *p = find(r, names);
    int64_t own = fallback;
    if (!p)
        return of_class(r, names, &own) ? own != 0 : fallback;
    if (p->value->kind != NODE_BOOL)
        reading_fail(r, p->value, "%s: expected true or false, got %s", p->key.p,
                     node_kind_name(p->value->kind));
    return p->value->kind == NODE_BOOL && p->value->b;
}

const char *read_word(struct reading *r, const char *names, const char *fallback)
{
    const struct node_pair *p = find(r, names);
    const char *word = fallback;
    if (p && r->st == ST_OK)
        r->st = node_to_str(p->value, p->key.p, &word, r->e);
    return r->st == ST_OK && word ? word : "";
}

void read_only(struct reading *r, const char *names, const char *want)
{
    const struct node_pair *p = find(r, names);
    if (!p)
        return;
    const char *text = node_scalar_text(r->a, p->value);
    if (!text || strcmp(text, want) != 0)
        reading_fail(r, p->value, "%s: only %s is supported for %s, got %s", p->key.p, want,
                     r->s->family, text ? text : node_kind_name(p->value->kind));
}

/* ---- an entry a layer ------------------------------------------------------------------------ */

static const struct node *layer_list(struct reading *r, const char *names)
{
    const struct node_pair *p = find(r, names);
    if (!p || r->st != ST_OK)
        return NULL;
    const struct node *list = p->value;
    if (list->kind != NODE_LIST) {
        reading_fail(r, list, "%s: expected a list, got %s", p->key.p, node_kind_name(list->kind));
        return NULL;
    }
    if (list->n < r->s->layers) {
        reading_fail(r, list, "%s: %u entries for %lld layers", p->key.p, list->n,
                     (long long)r->s->layers);
        return NULL;
    }
    return list;
}

const int64_t *read_layer_ints(struct reading *r, const char *names, int64_t max)
{
    const struct node *list = layer_list(r, names);
    if (!list)
        return NULL;
    int64_t *out = arena_array(r->a, int64_t, r->s->layers);
    for (int64_t i = 0; i < r->s->layers && r->st == ST_OK; i++)
        r->st = node_to_int(list->items[i], names, 0, max, &out[i], r->e);
    return r->st == ST_OK ? out : NULL;
}

const bool *read_layer_flags(struct reading *r, const char *names)
{
    const struct node *list = layer_list(r, names);
    if (!list)
        return NULL;
    bool *out = arena_array(r->a, bool, r->s->layers);
    for (int64_t i = 0; i < r->s->layers; i++) {
        const struct node *v = list->items[i];
        if (v->kind != NODE_BOOL && v->kind != NODE_INT)
            reading_fail(r, v, "%s: expected 0 or 1, got %s", names, node_kind_name(v->kind));
        else
            out[i] = v->kind == NODE_BOOL ? v->b : v->i != 0;
    }
    return out;
}

const bool *read_layer_ids(struct reading *r, const char *names, int64_t first)
{
    const struct node_pair *p = find(r, names);
    if (!p || r->st != ST_OK)
        return NULL;
    bool *out = arena_array(r->a, bool, r->s->layers);
    if (p->value->kind != NODE_LIST) {
        reading_fail(r, p->value, "%s: expected a list, got %s", p->key.p,
                     node_kind_name(p->value->kind));
        return NULL;
    }
    for (uint32_t i = 0; i < p->value->n && r->st == ST_OK; i++) {
        int64_t id = first;
        r->st = node_to_int(p->value->items[i], p->key.p, first, first + MAX_LAYERS, &id, r->e);
        if (id - first < r->s->layers)
            out[id - first] = true;
    }
    return out;
}

const char *const *read_layer_words(struct reading *r, const char *names)
{
    const struct node *list = layer_list(r, names);
    if (!list)
        return NULL;
    const char **out = arena_array(r->a, const char *, r->s->layers);
    for (int64_t i = 0; i < r->s->layers; i++) {
        out[i] = "";
        if (r->st == ST_OK)
            r->st = node_to_str(list->items[i], names, &out[i], r->e);
    }
    return out;
}

int64_t read_of_layer(struct reading *r, int64_t layer, const char *key, int64_t fallback)
{
    const struct node *map = read_node(r, "per_layer_config");
    const struct node *one =
        map ? node_find(map, arena_printf(r->a, "%02lld", (long long)layer)) : NULL;
    if (map && !one)
        one = node_find(map, arena_printf(r->a, "%lld", (long long)layer));
    int64_t v = fallback;
    if (one && node_find(one, key) && r->st == ST_OK)
        r->st = node_get_int(one, key, 1, MAX_WIDTH, &v, r->e);
    return v;
}

/* ---- keys that nobody read ------------------------------------------------------------------- */

/* They change neither shapes nor what is cached nor what is computed: names of tokens, training,
 * generation, what every family reads, and what files and programs are called. */
static const char harmless[] =
    "architectures|auto_map|model_type|torch_dtype|dtype|transformers_version|_name_or_path|"
    "use_cache|cache_implementation|id2label|label2id|problem_type|is_decoder|is_encoder_decoder|"
    "pruned_heads|"
    "return_dict|output_attentions|output_hidden_states|torchscript|use_bfloat16|"
    "chunk_size_feed_forward|tokenizer_class|prefix|task_specific_params|finetuning_task|"
    "quantization_config|compression_config|max_position_embeddings|n_positions|n_ctx|seq_length|"
    "max_seq_len|model_max_length|max_length|min_length|do_sample|temperature|top_k|top_p|"
    "early_stopping|num_beams|num_beam_groups|diversity_penalty|length_penalty|typical_p|"
    "repetition_penalty|num_return_sequences|return_dict_in_generate|output_scores|bad_words_ids|"
    "begin_suppress_tokens|suppress_tokens|exponential_decay_length_penalty|"
    "encoder_no_repeat_ngram_size|no_repeat_ngram_size|forced_bos_token_id|forced_eos_token_id|"
    "remove_invalid_values|tf_legacy_loss|tie_encoder_decoder|decoder_start_token_id|"
    "sep_token_id|rope_theta|rope_scaling|rope_parameters|rotary_emb_base|rotary_base|"
    "original_max_position_embeddings|initial_context_length|partial_rotary_factor|rotary_pct|"
    "rotary_dim|rotary|position_embedding_type|max_window_layers|rms_norm_eps|norm_eps|layer_norm_"
    "eps|layer_norm_epsilon|"
    "layernorm_epsilon|eps|hc_eps|norm_epsilon|embedding_initializer_range|"
    "final_w_init_variance_scale|w_init_variance_scale|attention_dropout|attn_pdrop|embd_pdrop|"
    "resid_pdrop|embed_dropout|hidden_dropout|classifier_dropout|emb_dropout_prob|"
    "attn_dropout_prob|dropout|activation_dropout|layerdrop|resid_dropout|embedding_dropout|"
    "residual_dropout|summary_first_dropout|initializer_range|initializer_factor|init_std|"
    "initialization|router_aux_loss_coef|output_router_logits|router_z_loss_coef|"
    "router_jitter_noise|input_jitter_noise|aux_loss_alpha|aux_loss_coef|seq_aux|"
    "z_loss_coefficient|pretraining_tp|rescale_prenorm_residual|residual_in_fp32|"
    "moe_z_loss_coeff|moe_router_dtype|router_bias_update_rate|hidden_act|hidden_activation|"
    "activation_function|activation|reorder_and_upcast_attn|attention_softmax_in_fp32|"
    "scale_attention_softmax_in_fp32|summary_activation|summary_proj_to_labels|summary_type|"
    "summary_use_proj|time_step_floor|time_step_max|time_step_min|time_step_scale|"
    "time_step_init_scheme|mamba_ssm_dtype|mamba_ssm_cache_dtype|mamba_chunk_size|chunk_size|"
    "use_mamba_kernels|use_mambapy|use_associative_scan|num_logits_to_keep|slow_but_exact|"
    "use_flash_attn|use_flash_attention|flash_attn|fp16|bf16|fp32|use_cache_quantization|"
    "use_cache_kernel|softmax_in_fp32|no_bias|onnx_safe|ep_size|enable_moe_fp32_combine|"
    "enable_attention_fp32_softmax|enable_lm_head_fp32|base_model_ep_plan|base_model_tp_plan|"
    "base_model_pp_plan|bos_token|eos_token|pad_token|unk_token|language|languages|license|"
    "version|name|num_reward_heads|_attn_implementation|attn_implementation|attn_config_impl|"
    "_attn_implementation_autoset|hidden_size_per_layer_is_fixed|num_key_value_heads_is_default";

/* Shapes stay as they are, numbers do not: predicted all the same, and computed where the family
 * reads them. */
static const char changes_numbers[] =
    "rope_local_base_freq|swa_rope_theta|local_rope_theta|layer_rope_theta|compress_rope_theta|"
    "rope_interleave|rope_interleaved|rope_ratio|original_rope|partial_rotary_factors|use_mrope|"
    "mrope_section|no_rope_layers|no_rope_layer_interval|use_rope|"
    "indexer_rope_interleave|post_norm_eps|mixer_rms_eps|rms_norm_eps_moe_gate|moe_norm_min|"
    "scoring_func|score_function|topk_method|topk_group|n_group|num_expert_group|norm_topk_prob|"
    "moe_renormalize|routed_scaling_factor|router_scaling_factor|moe_routed_scaling_factor|"
    "moe_router_scaling_factor|route_scale|route_norm|norm_expert_weight|"
    "moe_router_activation_func|use_grouped_topk|expert_selection_fn|"
    "shared_expert_combination_strategy|moe_apply_router_weight_on_input|"
    "moe_router_logit_softcapping|act_fn|mlp_hidden_act|mamba_hidden_act|swiglu_limit|"
    "swiglu_alpha|swiglu_limits|activation_situ_beta|activation_situ_linear_beta|"
    "activation_sparsity_pattern|output_gate_type|attention_multiplier|embedding_multiplier|"
    "residual_multiplier|logits_scaling|logit_scale|embedding_scale|scale_emb|scale_depth|"
    "dim_model_base|lm_head_multiplier|key_multiplier|attention_in_multiplier|"
    "attention_out_multiplier|ssm_in_multiplier|ssm_out_multiplier|ssm_multipliers|"
    "mlp_multipliers|output_multiplier|attn_scale|attn_temperature_tuning|floor_scale|"
    "query_pre_attn_scalar|attn_logit_softcapping|final_logit_softcapping|scale_attn_weights|"
    "scale_attn_by_inverse_layer_idx|attention_value_scale|qk_scale_factor|"
    "logits_mup_width_multiplier|mup_enabled|clip_qkv|qkv_clip|use_attention_scale|"
    "lambda_std_dev|softmax_scale|logits_soft_cap|time_step_limit|gate_lower_bound|"
    "linear_lower_bound|hc_sinkhorn_iters|hc_magnitude|use_dynamic_ntk|use_logn_attn";

static bool ends_with(struct sv key, const char *end)
{
    size_t n = strlen(end);
    return key.n >= n && memcmp(key.p + key.n - n, end, n) == 0;
}

static bool is_harmless(struct sv key)
{
    return is_name(harmless, key) || ends_with(key, "_token_id") ||
           ends_with(key, "_token_index") || ends_with(key, "_token_ids");
}

/* null, false, 0, "" and empty lists and maps ask for nothing. */
static bool says_nothing(const struct node *v)
{
    switch (v->kind) {
    case NODE_NULL:
        return true;
    case NODE_BOOL:
        return !v->b;
    case NODE_INT:
        return v->i == 0;
    case NODE_FLOAT:
        return !(v->f < 0) && !(v->f > 0);
    case NODE_STR:
        return v->s.n == 0;
    case NODE_LIST:
    case NODE_MAP:
        return v->n == 0;
    }
    return false;
}

enum st reading_done(struct reading *r)
{
    for (uint32_t i = 0; i < r->c->n && r->st == ST_OK; i++) {
        const struct node_pair *p = &r->c->pairs[i];
        if (r->used[i] || is_harmless(p->key) || says_nothing(p->value))
            continue;
        if (is_name(changes_numbers, p->key)) {
            if (!r->s->uncomputed)
                r->s->uncomputed = arena_strn(r->a, p->key.p, p->key.n);
            continue;
        }
        reading_fail(r, p->value, "%s: is not known for %s, and may change its shapes", p->key.p,
                     r->s->family);
        err_hint(
            r->e,
            "remove it where it does not; model.weights_gb and model.kv_bytes_per_token describe a "
            "model by its sizes");
    }
    return r->st;
}
