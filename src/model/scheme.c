#include "model/scheme.h"

#include <string.h>
#include <strings.h>

const struct node *config_key(const struct node *map, const char *key)
{
    const struct node *n = map && map->kind == NODE_MAP ? node_find(map, key) : NULL;
    return n && n->kind != NODE_NULL ? n : NULL;
}

bool config_word(const struct node *n, const char *word)
{
    return n && n->kind == NODE_STR && n->s.n == strlen(word) &&
           strncasecmp(n->s.p, word, n->s.n) == 0;
}

/* ---- formats --------------------------------------------------------------------------------- */

void scheme_init(struct scheme *s, enum precision dtype)
{
    *s = (struct scheme){.n_formats = 1,
                         .ignored = module_rules_new(),
                         .named = module_rules_new(),
                         .linear = SCHEME_PLAIN,
                         .experts = SCHEME_PLAIN};
    s->formats[SCHEME_PLAIN] =
        (struct stored_format){.name = precision_name(dtype),
                               .weights = dtype,
                               .multiply = dtype,
                               .bits = (int32_t)(8 * precision_bytes(dtype))};
}

void scheme_free(struct scheme *s)
{
    module_rules_free(&s->ignored);
    module_rules_free(&s->named);
}

static bool is_same(const struct stored_format *a, const struct stored_format *b)
{
    return strcmp(a->name, b->name) == 0 && a->multiply == b->multiply && a->bits == b->bits &&
           a->block_rows == b->block_rows && a->block_columns == b->block_columns &&
           a->scale_bytes == b->scale_bytes && a->matrix_bytes == b->matrix_bytes &&
           a->column_bytes == b->column_bytes;
}

static enum st add_format(struct scheme *s, const struct node *at, struct stored_format f,
                          int32_t *out, struct err *e)
{
    for (*out = 0; *out < s->n_formats; ++*out)
        if (is_same(&s->formats[*out], &f))
            return ST_OK;
    if (s->n_formats == STORED_FORMATS)
        return node_err(at, ST_INPUT, e, "more than %d number formats in one model",
                        STORED_FORMATS);
    s->formats[s->n_formats++] = f;
    return ST_OK;
}

static struct stored_format fp8(int64_t block_rows, int64_t block_columns, double scale_bytes)
{
    return (struct stored_format){.name = "fp8",
                                  .weights = PRECISION_FP8,
                                  .multiply = PRECISION_FP8,
                                  .bits = 8,
                                  .block_rows = block_rows,
                                  .block_columns = block_columns,
                                  .scale_bytes = scale_bytes};
}

static struct stored_format nvfp4(int64_t group, enum precision multiply)
{
    return (struct stored_format){.name = "nvfp4",
                                  .weights = PRECISION_FP4,
                                  .multiply = multiply,
                                  .bits = 4,
                                  .block_rows = 1,
                                  .block_columns = group ? group : 16,
                                  .scale_bytes = 1,
                                  .matrix_bytes = sizeof(float)};
}

static struct stored_format mx(int32_t bits, enum precision multiply)
{
    return (struct stored_format){.name = bits == 4 ? "mxfp4" : "mxfp8",
                                  .weights = bits == 4 ? PRECISION_FP4 : PRECISION_FP8,
                                  .multiply = multiply,
                                  .bits = bits,
                                  .block_rows = 1,
                                  .block_columns = 32,
                                  .scale_bytes = 1};
}

/* group 0: one scale per row. */
static struct stored_format integers(int64_t bits, int64_t group, double scale_bytes,
                                     enum precision multiply)
{
    return (struct stored_format){.name = bits == 4 ? "int4" : "int8",
                                  .weights = bits == 4 ? PRECISION_INT4 : PRECISION_INT8,
                                  .multiply = multiply,
                                  .bits = (int32_t)bits,
                                  .block_rows = 1,
                                  .block_columns = group,
                                  .scale_bytes = scale_bytes};
}

/* A positive group_size; 0 where it is absent, null or -1. */
static enum st read_group(const struct node *map, int64_t *out, struct err *e)
{
    *out = 0;
    if (!config_key(map, "group_size"))
        return ST_OK;
    TRY(node_get_int(map, "group_size", -1, 1 << 20, out, e));
    if (*out < 0)
        *out = 0;
    return ST_OK;
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* A list of names and patterns; null and absent are empty. */
static enum st read_list(const struct node *list, const char *what, struct module_rules *rules,
                         int32_t value, struct err *e)
{
    if (!list)
        return ST_OK;
    if (list->kind != NODE_LIST)
        return node_err(list, ST_INPUT, e, "%s: expected a list, got %s", what,
                        node_kind_name(list->kind));
    for (uint32_t i = 0; i < list->n; i++) {
        const struct node *n = list->items[i];
        if (n->kind != NODE_STR)
            return node_err(n, ST_INPUT, e, "%s: expected names of modules, got %s", what,
                            node_kind_name(n->kind));
        if (module_rules_add(rules, n, n->s, value, e) != ST_OK)
            return err_add(e, "%s", what);
    }
    return ST_OK;
}

static enum st read_ignored(const struct node *q, const char *const *keys, size_t n_keys,
                            struct scheme *s, struct err *e)
{
    for (size_t i = 0; i < n_keys; i++)
        TRY(read_list(config_key(q, keys[i]), keys[i], s->ignored, SCHEME_PLAIN, e));
    return ST_OK;
}

static const char *const not_converted[] = {"modules_to_not_convert", "ignored_layers"};
static const char *const excluded[] = {"exclude_modules", "ignore"};
#define IGNORED(q, keys, s, e) read_ignored(q, keys, sizeof keys / sizeof *keys, s, e)

/* ---- ModelOpt -------------------------------------------------------------------------------- */

/* quant_algo of a whole model or of one layer; dtype: of activations that are not quantised. */
static enum st read_algo(const struct node *algo, const struct node *map, struct scheme *s,
                         int32_t *out, struct err *e)
{
    enum { BLOCK = 128 };
    const enum precision dtype = s->formats[SCHEME_PLAIN].weights;
    int64_t group;
    TRY(read_group(map, &group, e));
    const int64_t block = group ? group : BLOCK;
    const struct {
        const char *name;
        struct stored_format format;
    } algos[] = {
        {"FP8", fp8(0, 0, 4)},
        {"FP8_PER_CHANNEL_PER_TOKEN", fp8(1, 0, 4)},
        {"FP8_PB_WO", fp8(block, block, 4)},
        {"FP8_BLOCK_SCALES", fp8(block, block, 4)},
        {"NVFP4", nvfp4(group, PRECISION_FP4)},
        {"NVFP4_AWQ", nvfp4(group, PRECISION_FP4)},
        {"W4A16_NVFP4", nvfp4(group, dtype)},
        {"MXFP8", mx(8, PRECISION_FP8)},
        {"W4A16_MXFP4", mx(4, dtype)},
        {"W4A8_MXFP4_FP8", mx(4, PRECISION_FP8)},
        {"W4A16_AWQ", integers(4, block, 2, dtype)},
        {"W4A8_AWQ", integers(4, block, 2, PRECISION_FP8)},
    };
    struct buf known = {0};
    for (size_t i = 0; i < sizeof algos / sizeof *algos; i++) {
        if (config_word(algo, algos[i].name)) {
            buf_free(&known);
            return add_format(s, algo, algos[i].format, out, e);
        }
        buf_printf(&known, "%s, ", algos[i].name);
    }
    const bool text = algo && algo->kind == NODE_STR;
    node_err(algo ? algo : map, ST_INPUT, e,
             "quant_algo: %s%.*s%s is not supported; %sand "
             "MIXED_PRECISION are",
             text ? "'" : "", text ? (int)(algo->s.n < 100 ? algo->s.n : 100) : 4,
             text ? algo->s.p : "none", text ? "'" : "", buf_str(&known));
    buf_free(&known);
    return ST_INPUT;
}

static enum st read_quantized_layers(const struct node *layers, struct scheme *s, struct err *e)
{
    if (layers->kind != NODE_MAP)
        return node_err(layers, ST_INPUT, e, "quantized_layers: expected a map, got %s",
                        node_kind_name(layers->kind));
    for (uint32_t i = 0; i < layers->n; i++) {
        const struct node_pair *p = &layers->pairs[i];
        int32_t format;
        if (p->value->kind != NODE_MAP)
            return node_err(p->value, ST_INPUT, e, "quantized_layers: expected maps, got %s",
                            node_kind_name(p->value->kind));
        TRY(read_algo(config_key(p->value, "quant_algo"), p->value, s, &format, e));
        if (module_rules_add(s->named, p->value, p->key, format, e) != ST_OK)
            return err_add(e, "quantized_layers");
    }
    return ST_OK;
}

static enum st read_config_groups(const struct node *q, struct scheme *s, struct err *e);

static enum st read_modelopt(const struct node *q, const struct node *config, struct scheme *s,
                             struct err *e)
{
    const struct node *inner = config_key(q, "quantization");
    const struct node *from = inner ? inner : q;
    const struct node *algo = config_key(from, "quant_algo"),
                      *layers = config_key(from, "quantized_layers");
    (void)config;
    s->modelopt = true;
    TRY(IGNORED(from, excluded, s, e));
    if (!config_word(algo, "MIXED_PRECISION")) {
        TRY(read_algo(algo, from, s, &s->linear, e));
        s->experts = s->linear;
        return ST_OK;
    }
    if (layers)
        return read_quantized_layers(layers, s, e);
    if (config_key(from, "config_groups"))
        return read_config_groups(from, s, e);
    return node_err(algo, ST_INPUT, e, "quant_algo: MIXED_PRECISION without quantized_layers");
}

/* ---- fp8 ------------------------------------------------------------------------------------- */

static enum st read_block(const struct node *q, double scale_bytes, struct stored_format *out,
                          struct err *e)
{
    const struct node *block = config_key(q, "weight_block_size");
    int64_t rows, columns;
    *out = fp8(0, 0, sizeof(float));
    if (!block)
        return ST_OK;
    if (block->kind != NODE_LIST || block->n != 2)
        return node_err(block, ST_INPUT, e, "weight_block_size: expected two sizes");
    TRY(node_to_int(block->items[0], "weight_block_size", 1, 1 << 20, &rows, e));
    TRY(node_to_int(block->items[1], "weight_block_size", 1, 1 << 20, &columns, e));
    *out = fp8(rows, columns, scale_bytes);
    return ST_OK;
}

static enum st read_expert_dtype(const struct node *word, struct scheme *s, struct err *e)
{
    if (!word || config_word(word, "fp8"))
        return ST_OK;
    if (config_word(word, "fp4")) /* DeepSeek V4: products in fp8 */
        return add_format(s, word, mx(4, PRECISION_FP8), &s->experts, e);
    return node_err(word, ST_INPUT, e, "expert_dtype: only fp4 and fp8 are supported");
}

static enum st read_fp8(const struct node *q, const struct node *config, struct scheme *s,
                        struct err *e)
{
    const bool bytes = config_word(config_key(q, "scale_fmt"), "ue8m0");
    const struct node *experts = config_key(q, "expert_dtype");
    struct stored_format f;
    TRY(read_block(q, bytes ? 1 : sizeof(float), &f, e));
    TRY(add_format(s, q, f, &s->linear, e));
    s->experts = s->linear;
    TRY(read_expert_dtype(experts ? experts : config_key(config, "expert_dtype"), s, e));
    TRY(IGNORED(q, not_converted, s, e));
    const struct node *layers = config_key(q, "quantized_layers");
    return layers ? read_quantized_layers(layers, s, e) : ST_OK;
}

static enum st read_fbgemm(const struct node *q, const struct node *config, struct scheme *s,
                           struct err *e)
{
    (void)config;
    TRY(add_format(s, q, fp8(1, 0, sizeof(float)), &s->linear, e));
    s->experts = s->linear;
    return IGNORED(q, not_converted, s, e);
}

static enum st read_mxfp4(const struct node *q, const struct node *config, struct scheme *s,
                          struct err *e)
{
    (void)config;
    TRY(add_format(s, q, mx(4, s->formats[SCHEME_PLAIN].weights), &s->experts, e));
    return IGNORED(q, not_converted, s, e);
}

/* ---- gptq, awq ------------------------------------------------------------------------------- */

static enum st read_bits(const struct node *map, const struct node *q, struct scheme *s,
                         int32_t *out, struct err *e)
{
    int64_t bits, group;
    const struct node *given = config_key(map, "bits") ? map : q;
    TRY(node_get_int(given, "bits", 1, 64, &bits, e));
    if (bits != 4 && bits != 8)
        return node_err(node_find(given, "bits"), ST_INPUT, e,
                        "quantization_config.bits: only 4 and 8 are supported, got %lld",
                        (long long)bits);
    TRY(read_group(config_key(map, "group_size") ? map : q, &group, e));
    /* a 16-bit scale, and a zero point of as many bits as an element */
    return add_format(s, q,
                      integers(bits, group, 2 + (double)bits / 8, s->formats[SCHEME_PLAIN].weights),
                      out, e);
}

/* dynamic: {"-:.*attn.*": {}, "+:.*down_proj": {"bits": 8}}: the first that fits. */
static enum st read_dynamic(const struct node *q, struct scheme *s, struct err *e)
{
    const struct node *rules = config_key(q, "dynamic");
    if (!rules || rules->kind == NODE_BOOL)
        return ST_OK;
    if (rules->kind != NODE_MAP)
        return node_err(rules, ST_INPUT, e, "dynamic: expected a map, got %s",
                        node_kind_name(rules->kind));
    for (uint32_t i = 0; i < rules->n; i++) {
        const struct node_pair *p = &rules->pairs[i];
        struct sv text = p->key;
        const bool signed_ = text.n > 2 && text.p[1] == ':' && strchr("+-", text.p[0]) != NULL;
        int32_t format = SCHEME_PLAIN;
        if (!(signed_ && text.p[0] == '-'))
            TRY(read_bits(p->value, q, s, &format, e));
        if (signed_)
            text = (struct sv){text.p + 2, text.n - 2};
        struct buf regex = {0};
        buf_printf(&regex, "re:%.*s", (int)text.n, text.p);
        const enum st st =
            module_rules_add(s->named, p->value, (struct sv){regex.p, regex.n}, format, e);
        buf_free(&regex);
        if (st != ST_OK)
            return err_add(e, "dynamic");
    }
    return ST_OK;
}

static enum st read_integers(const struct node *q, const struct node *config, struct scheme *s,
                             struct err *e)
{
    bool head = false;
    (void)config;
    TRY(read_bits(q, q, s, &s->linear, e));
    s->experts = s->linear;
    TRY(read_dynamic(q, s, e));
    const struct node *lm_head = config_key(q, "lm_head");
    head = lm_head && lm_head->kind == NODE_BOOL && lm_head->b;
    if (head)
        TRY(module_rules_add(s->named, lm_head, SV("lm_head"), s->linear, e));
    /* [["self_attn.q_proj", ..], ["mlp.up_proj", ..]]: these alone */
    const struct node *blocks = config_key(q, "modules_in_block_to_quantize");
    if (blocks && blocks->kind == NODE_LIST && blocks->n > 0) {
        for (uint32_t i = 0; i < blocks->n; i++) {
            const struct node *one = blocks->items[i];
            if (one->kind == NODE_STR)
                TRY(module_rules_add(s->named, one, one->s, s->linear, e));
            else
                TRY(read_list(one, "modules_in_block_to_quantize", s->named, s->linear, e));
        }
        s->linear = s->experts = SCHEME_PLAIN;
    }
    return IGNORED(q, not_converted, s, e);
}

/* ---- compressed-tensors ---------------------------------------------------------------------- */

/* num_bits and type of weights or activations. */
static enum st read_number(const struct node *map, const struct node **bits_at, int64_t *bits,
                           bool *integer, struct err *e)
{
    if (map->kind != NODE_MAP)
        return node_err(map, ST_INPUT, e, "expected a map, got %s", node_kind_name(map->kind));
    TRY(node_get_int(map, "num_bits", 1, 64, bits, e));
    *bits_at = node_find(map, "num_bits");
    *integer = config_word(config_key(map, "type"), "int");
    if (*bits != 4 && *bits != 8)
        return node_err(*bits_at, ST_INPUT, e, "num_bits: only 4 and 8 are supported, got %lld",
                        (long long)*bits);
    return ST_OK;
}

static enum precision precision_of(int64_t bits, bool integer)
{
    if (bits == 8)
        return integer ? PRECISION_INT8 : PRECISION_FP8;
    return integer ? PRECISION_INT4 : PRECISION_FP4;
}

/* Scales of a row, a tensor or a block are of the model's type. */
static enum st read_float8(const struct node *weights, int64_t group, double scale_bytes,
                           struct stored_format *out, struct err *e)
{
    const struct node *strategy = config_key(weights, "strategy");
    const struct node *block = config_key(weights, "block_structure");
    if (group) { /* mxfp8 alone has 32 to a one-byte scale */
        *out = group == 32 ? mx(8, PRECISION_FP8) : fp8(1, group, scale_bytes);
        return ST_OK;
    }
    *out = fp8(config_word(strategy, "channel") ? 1 : 0, 0, scale_bytes);
    if (!block)
        return ST_OK;
    if (block->kind != NODE_LIST || block->n != 2)
        return node_err(block, ST_INPUT, e, "block_structure: expected two sizes");
    int64_t rows, columns;
    TRY(node_to_int(block->items[0], "block_structure", 1, 1 << 20, &rows, e));
    TRY(node_to_int(block->items[1], "block_structure", 1, 1 << 20, &columns, e));
    *out = fp8(rows, columns, scale_bytes);
    return ST_OK;
}

static enum st read_group_format(const struct node *group, struct scheme *s, int32_t *out,
                                 struct err *e)
{
    const enum precision dtype = s->formats[SCHEME_PLAIN].weights;
    const double scale = precision_bytes(dtype);
    struct node *weights;
    const struct node *at, *input = config_key(group, "input_activations");
    int64_t bits, size, input_bits;
    bool integer, input_integer;
    struct stored_format f;
    TRY(node_get(group, "weights", NODE_MAP, &weights, e));
    TRY(read_number(weights, &at, &bits, &integer, e));
    TRY(read_group(weights, &size, e));
    if (integer) {
        const struct node *symmetric = config_key(weights, "symmetric");
        const bool zeros = symmetric && symmetric->kind == NODE_BOOL && !symmetric->b;
        f = integers(bits, size, scale + (zeros ? (double)bits / 8 : 0), dtype);
        if (!size && !config_word(config_key(weights, "strategy"), "channel"))
            f.block_rows = 0;
    } else if (bits == 4) {
        f = size == 32 ? mx(4, dtype) : nvfp4(size, dtype);
    } else {
        TRY(read_float8(weights, size, scale, &f, e));
        f.multiply = dtype;
    }
    if (input) {
        TRY(read_number(input, &at, &input_bits, &input_integer, e));
        const enum precision p = precision_of(input_bits, input_integer);
        f.multiply = p == PRECISION_INT4 ? dtype : p;
    }
    return add_format(s, weights, f, out, e);
}

/* Classes: "Linear" is all matrices; of others it is not known which they are. */
static bool is_class(struct sv name)
{
    for (size_t i = 0; i < name.n; i++)
        if (name.p[i] == '.' || name.p[i] == '_' || name.p[i] == '*' || name.p[i] == ':')
            return false;
    return name.n > 0 && name.p[0] >= 'A' && name.p[0] <= 'Z';
}

static enum st read_targets(const struct node *targets, int32_t format, struct scheme *s,
                            struct err *e)
{
    if (!targets) {
        s->linear = s->experts = format;
        return ST_OK;
    }
    if (targets->kind != NODE_LIST)
        return node_err(targets, ST_INPUT, e, "targets: expected a list, got %s",
                        node_kind_name(targets->kind));
    for (uint32_t i = 0; i < targets->n; i++) {
        const struct node *n = targets->items[i];
        if (n->kind == NODE_STR && sv_eq(n->s, "Linear")) {
            if (s->linear == SCHEME_PLAIN)
                s->linear = s->experts = format;
        } else if (n->kind == NODE_STR && is_class(n->s)) {
            return node_err(n, ST_INPUT, e,
                            "targets: '%.*s' is a class of modules; only Linear is supported",
                            (int)(n->s.n < 100 ? n->s.n : 100), n->s.p);
        } else if (n->kind != NODE_STR) {
            return node_err(n, ST_INPUT, e, "targets: expected names of modules, got %s",
                            node_kind_name(n->kind));
        } else if (module_rules_add(s->named, n, n->s, format, e) != ST_OK) {
            return err_add(e, "targets");
        }
    }
    return ST_OK;
}

static enum st read_config_groups(const struct node *q, struct scheme *s, struct err *e)
{
    struct node *groups;
    TRY(node_get(q, "config_groups", NODE_MAP, &groups, e));
    if (groups->n == 0)
        return node_err(groups, ST_INPUT, e, "config_groups: there is none");
    for (uint32_t i = 0; i < groups->n; i++) {
        const struct node *group = groups->pairs[i].value;
        int32_t format;
        if (group->kind != NODE_MAP)
            return node_err(group, ST_INPUT, e, "config_groups: expected maps, got %s",
                            node_kind_name(group->kind));
        if (!config_key(group, "weights")) /* activations or the cache alone */
            continue;
        TRY(read_group_format(group, s, &format, e));
        TRY(read_targets(config_key(group, "targets"), format, s, e));
    }
    return ST_OK;
}

static enum st read_compressed(const struct node *q, const struct node *config, struct scheme *s,
                               struct err *e)
{
    const struct node *sparse = config_key(config_key(q, "sparsity_config"), "format");
    (void)config;
    if (sparse && !config_word(sparse, "dense"))
        return node_err(sparse, ST_INPUT, e,
                        "sparsity_config.format: only dense weights are supported");
    TRY(IGNORED(q, excluded, s, e));
    return read_config_groups(q, s, e);
}

/* ---- keys and values ------------------------------------------------------------------------- */

static enum st read_kv(const struct node *q, struct scheme *s, struct err *e)
{
    const struct node *inner = config_key(q, "quantization"), *from = inner ? inner : q, *at;
    const struct node *scheme = config_key(from, "kv_cache_scheme");
    const struct node *algo = config_key(from, "kv_cache_quant_algo");
    int64_t bits;
    bool integer;
    if (scheme && scheme->kind == NODE_MAP) {
        TRY(read_number(scheme, &at, &bits, &integer, e));
        s->kv = precision_of(bits, integer);
        s->kv_stated = true;
        return ST_OK;
    }
    const struct node *word = scheme ? scheme : algo;
    if (!word || config_word(word, "none") || config_word(word, "auto") || config_word(word, ""))
        return ST_OK;
    s->kv_stated = true;
    s->kv = PRECISION_FP8;
    if (config_word(word, "NVFP4") || config_word(word, "fp4"))
        s->kv = PRECISION_FP4;
    else if (config_word(word, "INT8"))
        s->kv = PRECISION_INT8;
    else if (!config_word(word, "FP8") && !config_word(word, "fp8_e4m3"))
        return node_err(word, ST_INPUT, e,
                        "quantization_config.%s: only FP8, INT8 and NVFP4 are supported",
                        scheme ? "kv_cache_scheme" : "kv_cache_quant_algo");
    return ST_OK;
}

/* ---- methods --------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum st (*read)(const struct node *q, const struct node *config, struct scheme *s,
                    struct err *e);
} methods[] = {{"fp8", read_fp8},           {"fbgemm_fp8", read_fbgemm},
               {"modelopt", read_modelopt}, {"compressed-tensors", read_compressed},
               {"mxfp4", read_mxfp4},       {"gptq", read_integers},
               {"awq", read_integers}};
enum { METHODS = sizeof methods / sizeof *methods };

/* quant_method; ModelOpt's exports lack it in hf_quant_config.json, and early ones everywhere.
 * "modelopt_fp4" and the like are ModelOpt's too. */
static bool is_method(const struct node *q, const char *name)
{
    static const char modelopt[] = "modelopt";
    const struct node *method = config_key(q, "quant_method");
    if (config_word(method, name))
        return true;
    if (strcmp(name, "compressed-tensors") == 0) /* the first compression_config */
        return config_word(method, "sparseml") ||
               (!method && config_key(q, "config_groups") && !config_key(q, "quant_algo"));
    if (strcmp(name, modelopt) != 0)
        return false;
    if (!method)
        return config_key(q, "quant_algo") ||
               config_key(config_key(q, "quantization"), "quant_algo");
    return method->kind == NODE_STR && method->s.n >= sizeof modelopt - 1 &&
           strncasecmp(method->s.p, modelopt, sizeof modelopt - 1) == 0;
}

enum st scheme_read(const struct node *q, const struct node *config, struct scheme *s,
                    struct err *e)
{
    if (q->kind != NODE_MAP)
        return node_err(q, ST_INPUT, e, "quantization_config: expected a map, got %s",
                        node_kind_name(q->kind));
    for (size_t i = 0; i < METHODS; i++) {
        if (!is_method(q, methods[i].name))
            continue;
        TRY(methods[i].read(q, config, s, e));
        return read_kv(q, s, e);
    }
    const struct node *method = config_key(q, "quant_method");
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
