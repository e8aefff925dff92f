#include "model/formats.h"

#include <string.h>

#include "base/fs.h"
#include "model/scheme.h"
#include "text/json.h"

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

/* ---- by operator ----------------------------------------------------------------------------- */

/* As layered_ops.c shares matrices out. */
static enum op_kind operator_of(const struct stored_part *p)
{
    const struct projection *w = p->w;
    if (p->of == STORED_OUTSIDE)
        return strcmp(w->module, "lm_head") == 0        ? OP_LM_HEAD
               : strcmp(w->module, "embed_tokens") == 0 ? OP_EMB
                                                        : OP_KINDS;
    if (p->of == STORED_ATTENTION)
        return w->cut == CUT_COLUMNS ? OP_ATTN_POST_PROJ : OP_ATTN_PRE_PROJ;
    if (strcmp(w->module, "mlp.gate") == 0)
        return OP_MOE_ROUTER;
    switch (w->cut) {
    case CUT_EXPERT_ROWS:
        return OP_MOE_UP_PROJ;
    case CUT_EXPERT_COLUMNS:
        return OP_MOE_DOWN_PROJ;
    case CUT_COLUMNS:
        return OP_MLP_DOWN_PROJ;
    case CUT_NONE:
    case CUT_ROWS:
    case CUT_KV:
        break;
    }
    return OP_MLP_UP_PROJ;
}

/* Means over all matrices of an operator; products are in what most of them multiply in. */
static const struct op_format *formats_by_operator(struct arena *a, const struct model *m)
{
    struct op_format *out = arena_array(a, struct op_format, OP_KINDS);
    double elements[OP_KINDS] = {0}, bytes[OP_KINDS] = {0}, by[OP_KINDS][PRECISIONS] = {{0}};
    const struct stored *s = m->stored;
    for (int32_t i = 0; i < s->n_parts; i++) {
        const struct stored_part *p = &s->parts[i];
        const double one = (double)p->w->rows * (double)p->w->columns;
        const enum op_kind k = operator_of(p);
        if (k == OP_KINDS)
            continue;
        elements[k] += (double)p->elements;
        bytes[k] += p->bytes;
        for (int32_t f = 0; f < s->n_formats; f++)
            by[k][s->formats[f].multiply] += one * (double)p->copies[f];
    }
    if (m->tied) { /* it reads the embedding */
        elements[OP_LM_HEAD] = elements[OP_EMB];
        bytes[OP_LM_HEAD] = bytes[OP_EMB];
        memcpy(by[OP_LM_HEAD], by[OP_EMB], sizeof by[OP_EMB]);
    }
    for (int k = 0; k < OP_KINDS; k++) {
        int best = 0;
        for (int p = 1; p < PRECISIONS; p++)
            if (by[k][p] > by[k][best])
                best = p;
        if (elements[k] > 0)
            out[k] = (struct op_format){bytes[k] / elements[k], (enum precision)best};
    }
    return out;
}

static const struct node *dtype_of(const struct node *config)
{
    static const char *const keys[] = {"dtype", "torch_dtype"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (config_key(config, keys[i]))
            return config_key(config, keys[i]);
    return NULL;
}

enum st formats_from_config(struct arena *a, const struct node *config, const struct node *side,
                            struct model *m, struct err *e)
{
    const struct node *dtype = dtype_of(config);
    struct stored *stored = arena_one(a, struct stored);
    if (!dtype)
        dtype = dtype_of(config_key(config, "text_config"));
    if (config_word(dtype, "float16") || config_word(dtype, "float32"))
        m->dtype = PRECISION_FP16;
    TRY(stored_read(a, config, side, m->structure, m->dtype, stored, e));
    const struct stored_format *most = stored_main(stored);
    m->stored = stored;
    m->weights = most->weights;
    m->multiply = most->multiply;
    m->scale_bytes = most->block_rows == 1 && most->block_columns
                         ? most->scale_bytes / (double)most->block_columns
                         : 0;
    m->kv = stored->kv_stated ? stored->kv : m->dtype;
    if (stored_mixed(stored) || (m->layered && stored_quantised(stored)))
        m->op_formats = formats_by_operator(a, m);
    return ST_OK;
}

enum st formats_load_side(struct arena *a, const char *dir, struct node **out, struct err *e)
{
    const char *path = fs_join(a, dir, "hf_quant_config.json");
    const struct json_limits limits = {.python = true};
    *out = NULL;
    return fs_exists(path) ? json_load(a, path, &limits, out, e) : ST_OK;
}

/* ---- given ----------------------------------------------------------------------------------- */

static enum st set_dtype(struct model *m, const char *word, struct err *e)
{
    enum precision p;
    if (!precision_from_name(sv_of(word), &p))
        return err_set(e, ST_USAGE, "model.dtype: there is no format '%s'", word);
    m->scale_bytes = 0;
    m->op_formats = NULL;
    m->stored = NULL;
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
    return m->weights != m->dtype || (m->stored && stored_quantised(m->stored));
}

const char *formats_words(struct arena *a, const struct model *m)
{
    if (m->opaque)
        return "sizes as given";
    const char *weights = m->op_formats ? stored_words(a, m->stored)
                                        : arena_printf(a, "%s weights", precision_name(m->weights));
    const char *kv = arena_printf(a, "%s KV cache", precision_name(m->kv));
    bool one = !formats_quantised(m) && m->weights == m->dtype && m->kv == m->dtype;
    return one ? precision_name(m->dtype) : arena_printf(a, "%s, %s", weights, kv);
}
