#include "model/formats.h"

#include <string.h>
#include <strings.h>

static const struct node *present(const struct node *map, const char *key)
{
    const struct node *n = map && map->kind == NODE_MAP ? node_find(map, key) : NULL;
    return n && n->kind != NODE_NULL ? n : NULL;
}

static bool is_word(const struct node *n, const char *word)
{
    return n && n->kind == NODE_STR && n->s.n == strlen(word) &&
           strncasecmp(n->s.p, word, n->s.n) == 0;
}

/* Weights and products in p. */
static void both_in(struct model *m, enum precision p, double scale_bytes)
{
    m->weights = m->multiply = p;
    m->scale_bytes = scale_bytes;
}

static void weights_in(struct model *m, enum precision p, double scale_bytes)
{
    m->weights = p;
    m->scale_bytes = scale_bytes;
}

/* ---- number of bits and type, as compressed-tensors has them --------------------------------- */

static enum st read_scheme(const struct node *map, enum precision *out, struct err *e)
{
    int64_t bits;
    const struct node *type = present(map, "type");
    TRY(node_get_int(map, "num_bits", 1, 64, &bits, e));
    bool integer = is_word(type, "int");
    if (bits == 8)
        *out = integer ? PRECISION_INT8 : PRECISION_FP8;
    else if (bits == 4)
        *out = integer ? PRECISION_INT4 : PRECISION_FP4;
    else
        return node_err(node_find(map, "num_bits"), ST_INPUT, e,
                        "num_bits: only 4 and 8 are supported, got %lld", (long long)bits);
    return ST_OK;
}

static enum st read_groups(const struct node *q, struct model *m, struct err *e)
{
    struct node *groups, *weights;
    TRY(node_get(q, "config_groups", NODE_MAP, &groups, e));
    if (groups->n == 0)
        return node_err(groups, ST_INPUT, e, "config_groups: there is none");
    const struct node *group = groups->pairs[0].value;
    TRY(node_get(group, "weights", NODE_MAP, &weights, e));
    enum precision stored, of;
    int64_t size = 0;
    TRY(read_scheme(weights, &stored, e));
    const struct node *given = present(weights, "group_size"), *input = NULL;
    if (given && given->kind == NODE_INT && given->i > 0)
        size = given->i;
    weights_in(m, stored, size == 0 ? 0 : (stored == PRECISION_FP4 ? 1 : 2) / (double)size);
    input = present(group, "input_activations");
    if (!input)
        return ST_OK;
    TRY(read_scheme(input, &of, e));
    if (of != PRECISION_INT4)
        m->multiply = of;
    return ST_OK;
}

/* ---- methods --------------------------------------------------------------------------------- */

static enum st read_fp8(const struct node *q, struct model *m, struct err *e)
{
    (void)q;
    (void)e;
    both_in(m, PRECISION_FP8, 0);
    return ST_OK;
}

static enum st read_mxfp4(const struct node *q, struct model *m, struct err *e)
{
    (void)q;
    (void)e;
    weights_in(m, PRECISION_FP4, 1.0 / 32);
    return ST_OK;
}

static enum st read_modelopt(const struct node *q, struct model *m, struct err *e)
{
    const struct node *inner = present(q, "quantization");
    const struct node *algo = present(inner ? inner : q, "quant_algo");
    if (is_word(algo, "FP8"))
        both_in(m, PRECISION_FP8, 0);
    else if (is_word(algo, "NVFP4"))
        both_in(m, PRECISION_FP4, 1.0 / 16);
    else
        return node_err(algo ? algo : q, ST_INPUT, e,
                        "quantization_config.quant_algo: only FP8 and NVFP4 are supported");
    return ST_OK;
}

static enum st read_groups_of_integers(const struct node *q, double scale_bytes, struct model *m,
                                       struct err *e)
{
    int64_t bits, size = 0;
    const struct node *given = present(q, "group_size");
    TRY(node_get_int(q, "bits", 1, 64, &bits, e));
    if (bits != 4 && bits != 8)
        return node_err(node_find(q, "bits"), ST_INPUT, e,
                        "quantization_config.bits: only 4 and 8 are supported, got %lld",
                        (long long)bits);
    if (given && given->kind == NODE_INT && given->i > 0)
        size = given->i;
    weights_in(m, bits == 4 ? PRECISION_INT4 : PRECISION_INT8,
               size ? scale_bytes / (double)size : 0);
    return ST_OK;
}

static enum st read_gptq(const struct node *q, struct model *m, struct err *e)
{
    return read_groups_of_integers(q, 2, m, e);
}

static enum st read_awq(const struct node *q, struct model *m, struct err *e)
{
    return read_groups_of_integers(q, 2.5, m, e);
}

static const struct {
    const char *name;
    enum st (*read)(const struct node *q, struct model *m, struct err *e);
} methods[] = {{"fp8", read_fp8},
               {"fbgemm_fp8", read_fp8},
               {"modelopt", read_modelopt},
               {"compressed-tensors", read_groups},
               {"mxfp4", read_mxfp4},
               {"gptq", read_gptq},
               {"awq", read_awq}};
enum { METHODS = sizeof methods / sizeof *methods };

static enum st read_kv(const struct node *q, struct model *m, struct err *e)
{
    const struct node *scheme = present(q, "kv_cache_scheme");
    const struct node *inner = present(q, "quantization");
    const struct node *algo = present(inner ? inner : q, "kv_cache_quant_algo");
    if (scheme)
        return read_scheme(scheme, &m->kv, e);
    if (is_word(algo, "FP8"))
        m->kv = PRECISION_FP8;
    else if (is_word(algo, "NVFP4"))
        m->kv = PRECISION_FP4;
    else if (algo)
        return node_err(
            algo, ST_INPUT, e,
            "quantization_config.kv_cache_quant_algo: only FP8 and NVFP4 are supported");
    return ST_OK;
}

static enum st read_quantisation(const struct node *q, struct model *m, struct err *e)
{
    const struct node *method = present(q, "quant_method");
    for (size_t i = 0; i < METHODS; i++) {
        if (!is_word(method, methods[i].name))
            continue;
        TRY(methods[i].read(q, m, e));
        return read_kv(q, m, e);
    }
    struct buf known = {0};
    for (size_t i = 0; i < METHODS; i++)
        buf_printf(&known, "%s%s", i == 0 ? "" : i + 1 < METHODS ? ", " : " and ", methods[i].name);
    bool text = method && method->kind == NODE_STR;
    node_err(method ? method : q, ST_INPUT, e,
             "quantization_config.quant_method: %s%.*s%s; %s are supported", text ? "'" : "",
             text ? (int)(method->s.n < 100 ? method->s.n : 100) : 7,
             text ? method->s.p : "missing", text ? "'" : "", buf_str(&known));
    buf_free(&known);
    return ST_INPUT;
}

enum st formats_from_config(const struct node *config, struct model *m, struct err *e)
{
    const struct node *dtype = present(config, "dtype");
    const struct node *q = present(config, "quantization_config");
    if (!dtype)
        dtype = present(config, "torch_dtype");
    if (is_word(dtype, "float16") || is_word(dtype, "float32"))
        m->dtype = m->weights = m->multiply = m->kv = PRECISION_FP16;
    return q ? read_quantisation(q, m, e) : ST_OK;
}

/* ---- given ----------------------------------------------------------------------------------- */

static enum st set_dtype(struct model *m, const char *word, struct err *e)
{
    enum precision p;
    if (!precision_from_name(sv_of(word), &p))
        return err_set(e, ST_USAGE, "model.dtype: there is no format '%s'", word);
    m->scale_bytes = 0;
    switch (p) {
    case PRECISION_BF16:
    case PRECISION_FP16:
    case PRECISION_FP32:
    case PRECISION_TF32:
        m->weights = m->multiply = p;
        m->dtype = p;
        if (m->kv == PRECISION_BF16 || m->kv == PRECISION_FP16)
            m->kv = p == PRECISION_TF32 ? PRECISION_FP32 : p;
        return ST_OK;
    case PRECISION_FP8:
    case PRECISION_INT8:
        both_in(m, p, 0);
        return ST_OK;
    case PRECISION_FP4:
        both_in(m, p, 1.0 / 16);
        return ST_OK;
    case PRECISION_INT4:
        weights_in(m, p, 2.0 / 128);
        m->multiply = m->dtype;
        return ST_OK;
    case PRECISIONS:
        break;
    }
    err_bug("format", __FILE__, __LINE__);
}

enum st formats_set(struct model *m, const char *dtype, const char *kv_dtype, struct err *e)
{
    if (dtype)
        TRY(set_dtype(m, dtype, e));
    if (kv_dtype && !precision_from_name(sv_of(kv_dtype), &m->kv))
        return err_set(e, ST_USAGE, "model.kv_dtype: there is no format '%s'", kv_dtype);
    return ST_OK;
}

bool formats_quantised(const struct model *m)
{
    return m->weights != m->dtype;
}

const char *formats_words(struct arena *a, const struct model *m)
{
    const char *weights = arena_printf(a, "%s weights", precision_name(m->weights));
    const char *kv = arena_printf(a, "%s KV cache", precision_name(m->kv));
    bool one = m->weights == m->dtype && m->kv == m->dtype;
    return one ? precision_name(m->dtype) : arena_printf(a, "%s, %s", weights, kv);
}
