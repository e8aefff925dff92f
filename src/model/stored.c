#include "model/stored.h"

#include <string.h>

#include "model/scheme.h"

/* ---- bytes ----------------------------------------------------------------------------------- */

static double divided_up(int64_t n, int64_t block)
{
    return block ? (double)((n + block - 1) / block) : 1;
}

/* Bytes of so many matrices of a format. */
static double bytes_of_matrices(const struct stored_format *f, int64_t rows, int64_t columns,
                                int64_t copies)
{
    const double elements = (double)rows * (double)columns;
    const double scales = divided_up(rows, f->block_rows) * divided_up(columns, f->block_columns);
    return (double)copies * (elements * f->bits / 8 + scales * f->scale_bytes + f->matrix_bytes +
                             (double)columns * f->column_bytes);
}

double stored_element_bytes(const struct stored_part *p)
{
    return p->bytes / (double)p->elements;
}

/* ---- which format ---------------------------------------------------------------------------- */

/* A router, or what else no quantiser takes unless it is named. */
static bool is_plain(const char *module)
{
    /* compressors of DeepSeek V4 and its index, mixing of residual streams, Griffin's gates */
    static const char *const plain[] = {
        "mlp.gate",
        "mlp.shared_expert_gate",
        "self_attn.indexer.weights_proj",
        "self_attn.compressor.kv_proj",
        "self_attn.compressor.gate_proj",
        "self_attn.indexer.kv_proj",
        "self_attn.indexer.gate_proj",
        "temporal_block.rg_lru",
        "altup.correction_coefs",
        "altup.prediction_coefs",
        "altup.modality_router",
    };
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(module, plain[i]) == 0)
            return true;
    return false;
}

static bool is_expert(const struct projection *w)
{
    return w->cut == CUT_EXPERT_ROWS || w->cut == CUT_EXPERT_COLUMNS;
}

struct applying {
    const struct structure *t;
    const struct scheme *s;
    struct stored *out;
};

/* Adds the copies of one layer, format by format. */
static void add_layer(const struct applying *x, struct stored_part *p,
                      const struct module_names *names, int64_t layer)
{
    const struct projection *w = p->w;
    const struct scheme *s = x->s;
    int64_t copies[STORED_FORMATS] = {0}, left = w->copies;
    struct module_match ignored, named;
    module_rules_find(s->ignored, names, layer, w->copies, &ignored);
    module_rules_find(s->named, names, layer, w->copies, &named);
    int64_t plain = ignored.value >= 0 ? left : ignored.numbered[SCHEME_PLAIN];
    plain = plain < left ? plain : left;
    copies[SCHEME_PLAIN] += plain;
    left -= plain;
    for (int32_t f = 0; f < s->n_formats; f++) {
        const int64_t n = named.numbered[f] < left ? named.numbered[f] : left;
        copies[f] += n;
        left -= n;
    }
    const bool quantised = p->of != STORED_OUTSIDE && !is_plain(w->module);
    copies[named.value >= 0 ? named.value
           : !quantised     ? SCHEME_PLAIN
           : is_expert(w)   ? s->experts
                            : s->linear] += left;
    for (int32_t f = 0; f < s->n_formats; f++) {
        p->copies[f] += copies[f];
        p->layers[f] += copies[f] > 0;
    }
}

static void apply_part(struct arena *a, const struct applying *x, struct stored_part *p)
{
    const struct structure *t = x->t;
    const uint8_t *kind_of = p->of == STORED_ATTENTION ? t->attention_of : t->mlp_of;
    struct module_names names;
    int64_t copies = 0;
    module_names_of(a, t->family, p->w->module, &names);
    if (p->of == STORED_OUTSIDE)
        add_layer(x, p, &names, -1);
    for (int64_t i = 0; i < t->layers && p->of != STORED_OUTSIDE; i++)
        if (kind_of[i] == p->kind)
            add_layer(x, p, &names, i);
    for (int32_t f = 0; f < x->s->n_formats; f++) {
        p->bytes += bytes_of_matrices(&x->s->formats[f], p->w->rows, p->w->columns, p->copies[f]);
        copies += p->copies[f];
    }
    p->elements = copies * p->w->rows * p->w->columns;
}

static void add_parts(struct stored *out, const struct projections *w, enum stored_of of,
                      int32_t kind)
{
    for (int32_t i = 0; i < w->n; i++)
        out->parts[out->n_parts++] = (struct stored_part){.of = of, .kind = kind, .w = &w->w[i]};
}

static void apply(struct arena *a, const struct structure *t, const struct scheme *s,
                  struct stored *out)
{
    const struct applying x = {t, s, out};
    int32_t n = t->outside.n;
    for (int32_t i = 0; i < t->n_attentions; i++)
        n += t->attention[i].weights.n;
    for (int32_t i = 0; i < t->n_mlps; i++)
        n += t->mlp[i].weights.n;
    *out = (struct stored){.n_formats = s->n_formats, .kv_stated = s->kv_stated, .kv = s->kv};
    memcpy(out->formats, s->formats, sizeof out->formats);
    out->parts = arena_array(a, struct stored_part, n);
    for (int32_t i = 0; i < t->n_attentions; i++)
        add_parts(out, &t->attention[i].weights, STORED_ATTENTION, i);
    for (int32_t i = 0; i < t->n_mlps; i++)
        add_parts(out, &t->mlp[i].weights, STORED_MLP, i);
    add_parts(out, &t->outside, STORED_OUTSIDE, 0);
    int64_t elements = 0;
    for (int32_t i = 0; i < n; i++) {
        apply_part(a, &x, &out->parts[i]);
        out->bytes += out->parts[i].bytes;
        elements += out->parts[i].elements;
    }
    out->bytes += (double)(structure_params(t) - elements) * s->formats[SCHEME_PLAIN].bits / 8;
}

/* ---- sources --------------------------------------------------------------------------------- */

/* The scheme that config.json states, and the map it stands in. */
static const struct node *scheme_of(const struct node *config, const struct node **in)
{
    static const char *const keys[] = {"quantization_config", "compression_config"};
    static const char *const parts[] = {NULL, "text_config", "llm_config", "language_config"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            *in = parts[i] ? config_key(config, parts[i]) : config;
            const struct node *q = config_key(*in, keys[k]);
            if (q)
                return q;
        }
    }
    *in = config;
    return NULL;
}

static enum st read_source(struct arena *a, const struct node *q, const struct node *in,
                           const struct structure *t, enum precision dtype, bool *modelopt,
                           struct stored *out, struct err *e)
{
    struct scheme s;
    scheme_init(&s, dtype);
    const enum st st = q ? scheme_read(q, in, &s, e) : ST_OK;
    if (st == ST_OK)
        apply(a, t, &s, out);
    *modelopt = s.modelopt;
    scheme_free(&s);
    return st;
}

/* Name of the format of most copies. */
static const char *format_of(const struct stored *s, const struct stored_part *p)
{
    int32_t best = 0;
    for (int32_t f = 1; f < s->n_formats; f++)
        if (p->copies[f] > p->copies[best])
            best = f;
    return s->formats[best].name;
}

/* Bytes of a file that excludes what another method covers are no statement. */
static const char *difference(struct arena *a, const struct stored *config,
                              const struct stored *side, bool modelopt)
{
    for (int32_t i = 0; i < side->n_parts; i++) {
        const struct stored_part *p = &config->parts[i], *q = &side->parts[i];
        const double off = p->bytes - q->bytes;
        if ((off < 1 && off > -1) || (!modelopt && q->copies[SCHEME_PLAIN] > 0))
            continue;
        return arena_printf(a,
                            "config.json counts: it stores %s as %s, %.2f bytes an element; "
                            "hf_quant_config.json as %s, %.2f",
                            p->w->module, format_of(config, p), stored_element_bytes(p),
                            format_of(side, q), stored_element_bytes(q));
    }
    if (config->kv_stated && side->kv_stated && config->kv != side->kv)
        return arena_printf(a,
                            "config.json counts: it keeps keys and values in %s, "
                            "hf_quant_config.json in %s",
                            precision_name(config->kv), precision_name(side->kv));
    return NULL;
}

enum st stored_read(struct arena *a, const struct node *config, const struct node *side,
                    const struct structure *t, enum precision dtype, struct stored *out,
                    struct err *e)
{
    const struct node *in, *q = scheme_of(config, &in);
    struct stored other;
    bool modelopt, of_side;
    TRY(read_source(a, q ? q : side, in, t, dtype, &modelopt, out, e));
    if (!q || !side)
        return ST_OK;
    TRY(read_source(a, side, NULL, t, dtype, &of_side, &other, e));
    out->note = difference(a, out, &other, modelopt);
    if (!out->kv_stated && other.kv_stated) {
        out->kv_stated = true;
        out->kv = other.kv;
    }
    return ST_OK;
}

/* ---- sums ------------------------------------------------------------------------------------ */

bool stored_quantised(const struct stored *s)
{
    for (int32_t i = 0; i < s->n_parts; i++)
        for (int32_t f = 1; f < s->n_formats; f++)
            if (s->parts[i].copies[f] > 0)
                return true;
    return false;
}

static bool is_counted(const struct stored_part *p)
{
    return p->of != STORED_OUTSIDE && !is_plain(p->w->module);
}

const struct stored_format *stored_main(const struct stored *s)
{
    double elements[STORED_FORMATS] = {0};
    int32_t best = 0;
    for (int32_t i = 0; i < s->n_parts; i++)
        for (int32_t f = 0; f < s->n_formats && is_counted(&s->parts[i]); f++)
            elements[f] += (double)s->parts[i].copies[f] * (double)s->parts[i].w->rows *
                           (double)s->parts[i].w->columns;
    for (int32_t f = 1; f < s->n_formats; f++)
        if (elements[f] > elements[best])
            best = f;
    return &s->formats[best];
}

bool stored_mixed(const struct stored *s)
{
    const struct stored_format *main = stored_main(s);
    for (int32_t i = 0; i < s->n_parts; i++) {
        const struct stored_part *p = &s->parts[i];
        for (int32_t f = 0; f < s->n_formats; f++)
            if (p->copies[f] > 0 && is_counted(p) ? &s->formats[f] != main
                                                  : f > 0 && p->copies[f] > 0)
                return true;
    }
    return false;
}

/* ---- shards ---------------------------------------------------------------------------------- */

struct stored_cut {
    const struct structure *t;
    const char *module;
    int64_t tp;
};

static enum st check_block(const struct stored_cut *c, const char *what, int64_t size,
                           int64_t block, struct err *e)
{
    static const char experts[] = "mlp.experts.";
    if (size % block == 0)
        return ST_OK;
    err_set(e, ST_USAGE,
            "parallel.tp: %lld shards leave %s of %s %lld %s features, which its fp8 weights' "
            "blocks of %lld do not divide",
            (long long)c->tp, c->module, c->t->name, (long long)size, what, (long long)block);
    return err_hint(e, "lower parallel.tp%s",
                    strncmp(c->module, experts, sizeof experts - 1) == 0
                        ? ", or share whole experts out with parallel.ep"
                        : "");
}

/* Linear layers of one matrix; vLLM lets the out features of merged ones, as q, k and v or gate and
 * up, end within a block. */
static bool is_alone(const struct projection *w)
{
    return strcmp(w->module, "self_attn.q_b_proj") == 0 ||
           strcmp(w->module, "self_attn.kv_b_proj") == 0;
}

static enum st check_part(const struct stored_format *f, const struct structure *t,
                          const struct projection *w, int64_t tp, struct err *e)
{
    const struct stored_cut c = {t, w->module, tp};
    if (w->cut == CUT_EXPERT_ROWS || (w->cut == CUT_ROWS && is_alone(w)))
        return check_block(&c, "out", w->rows / tp, f->block_rows, e);
    if (w->cut == CUT_EXPERT_COLUMNS || w->cut == CUT_COLUMNS)
        return check_block(&c, "in", w->columns / tp, f->block_columns, e);
    return ST_OK;
}

enum st stored_check_shards(const struct stored *s, const struct structure *t, int64_t tp,
                            bool whole_experts, struct err *e)
{
    for (int32_t i = 0; i < s->n_parts && tp > 1; i++) {
        const struct stored_part *p = &s->parts[i];
        if (p->of == STORED_OUTSIDE || (whole_experts && is_expert(p->w)))
            continue;
        for (int32_t f = 0; f < s->n_formats; f++)
            if (p->copies[f] > 0 && s->formats[f].block_rows > 1 && s->formats[f].block_columns > 1)
                TRY(check_part(&s->formats[f], t, p->w, tp, e));
    }
    return ST_OK;
}
