#include "calibrate/read_experiment.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "text/fields.h"
#include "text/json.h"

enum { MOST_STAGES = 1000 };

/* ---- members --------------------------------------------------------------------------------- */

/* As the file has them. Of optional numbers 0 (max_model_len and the like) or NAN = not stated. */
struct stated {
    const char *model, *gpu, *arrivals, *engine, *dtype, *quantization, *kv_cache_dtype;
    int64_t tensor_parallel, pipeline_parallel, data_parallel;
    int64_t max_num_batched_tokens, max_num_seqs, max_model_len, num_gpu_blocks, block_size;
    double gpu_memory_utilization;
    struct prompts prompts;
    struct planned_stage *stages;
    size_t n_stages;
};

static const struct field stage_rows[] = {
    FIELD(struct planned_stage, rate, .min = 1e-6, .max = 1e6),
    FIELD(struct planned_stage, duration, .min = 1e-3, .max = 1e8),
};
static const struct fields stage_fields = FIELDS(struct planned_stage, stage_rows);

#define LENGTH .min = 0, .max = 1 << 30, .optional = true
#define COUNT  .min = 1, .max = 1 << 20, .optional = true
static const struct field prompts_rows[] = {
    FIELD(struct prompts, groups, COUNT),
    FIELD(struct prompts, prompts_per_group, COUNT, .otherwise = 1),
    FIELD(struct prompts, system_prompt_tokens, LENGTH),
    FIELD(struct prompts, question_tokens, LENGTH, .otherwise = -1),
    FIELD(struct prompts, output_tokens_asked, .min = 1, .max = 1 << 30, .optional = true),
};
static const struct fields prompts_fields = FIELDS(struct prompts, prompts_rows);

#define DEVICES .min = 1, .max = 1024
static const struct field stated_rows[] = {
    FIELD(struct stated, model),
    FIELD(struct stated, gpu),
    FIELD(struct stated, arrivals),
    FIELD(struct stated, engine, .optional = true),
    FIELD(struct stated, dtype, .optional = true),
    FIELD(struct stated, quantization, .optional = true),
    FIELD(struct stated, kv_cache_dtype, .optional = true),
    FIELD(struct stated, tensor_parallel, DEVICES),
    FIELD(struct stated, pipeline_parallel, DEVICES, .optional = true),
    FIELD(struct stated, data_parallel, DEVICES, .optional = true),
    FIELD(struct stated, max_num_batched_tokens, .min = 1, .max = 1 << 24, .optional = true),
    FIELD(struct stated, max_num_seqs, .min = 1, .max = 1 << 20, .optional = true),
    FIELD(struct stated, max_model_len, .min = 1, .max = 1 << 30, .optional = true),
    FIELD(struct stated, num_gpu_blocks, .min = 1, .max = 1 << 30, .optional = true),
    FIELD(struct stated, block_size, .min = 1, .max = 4096, .optional = true),
    FIELD(struct stated, gpu_memory_utilization, .min = 0.01, .max = 1, .optional = true),
    FIELD_MAP(struct stated, prompts, "prompts", &prompts_fields),
    FIELD_MAPS(struct stated, stages, n_stages, "stages", &stage_fields),
};
static const struct fields stated_fields =
    FIELDS(struct stated, stated_rows,
           .remedy = "experiment.json says what was sent, and the limits of the server: "
                     "docs/formats.md");

/* Members that are read by hand, as they may be of several kinds. */
static const char *const switches[] = {"ignore_eos", "enable_prefix_caching",
                                       "enable_chunked_prefill", "expert_parallel"};
/* Members that say nothing of the server or of what was sent. */
static const char *const remarks[] = {"engine_settings_stated",
                                      "note",
                                      "notes",
                                      "comment",
                                      "description",
                                      "name",
                                      "id",
                                      "source",
                                      "url",
                                      "date",
                                      "workload"};

/* ---- other names ----------------------------------------------------------------------------- */

/* Those of vLLM's options and of inference-perf's configuration. */
struct option_alias {
    const char *other, *name;
};
static const struct option_alias experiment_aliases[] = {
    {"tensor_parallelism", "tensor_parallel"},
    {"tensor_parallel_size", "tensor_parallel"},
    {"tp", "tensor_parallel"},
    {"pipeline_parallelism", "pipeline_parallel"},
    {"pipeline_parallel_size", "pipeline_parallel"},
    {"pp", "pipeline_parallel"},
    {"data_parallelism", "data_parallel"},
    {"data_parallel_size", "data_parallel"},
    {"dp", "data_parallel"},
    {"enable_expert_parallel", "expert_parallel"},
    {"prefix_caching", "enable_prefix_caching"},
    {"chunked_prefill", "enable_chunked_prefill"},
    {"num_gpu_blocks_override", "num_gpu_blocks"},
    {"total_kv_blocks", "num_gpu_blocks"},
    {"model_name", "model"},
    {"hardware", "gpu"},
};
static const struct option_alias prompts_aliases[] = {
    {"num_groups", "groups"},
    {"num_unique_system_prompts", "groups"},
    {"num_prompts_per_group", "prompts_per_group"},
    {"num_users_per_system_prompt", "prompts_per_group"},
    {"system_prompt_len", "system_prompt_tokens"},
    {"question_len", "question_tokens"},
    {"output_len", "output_tokens_asked"},
};
#define N(list) (sizeof(list) / sizeof *(list))

static bool stands(const struct node *n)
{
    return n && n->kind != NODE_NULL;
}

static bool same_scalar(struct arena *a, const struct node *x, const struct node *y)
{
    const char *one = node_scalar_text(a, x), *other = node_scalar_text(a, y);
    return one && other && strcmp(one, other) == 0;
}

/* ST_INPUT where both names stand, with different values. */
static enum st rename_all(struct arena *a, struct node *map, const struct option_alias *list,
                          size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        struct node *other = node_find(map, list[i].other);
        const struct node *have = node_find(map, list[i].name);
        if (!stands(other))
            continue;
        if (!stands(have))
            node_put(a, map, list[i].name, other);
        else if (!same_scalar(a, have, other))
            return node_err(other, ST_INPUT, e, "%s and %s say different things", list[i].other,
                            list[i].name);
    }
    return ST_OK;
}

/* ---- doubts ---------------------------------------------------------------------------------- */

void experiment_doubt(struct arena *a, struct experiment *x, const char *fmt, ...)
{
    va_list ap;
    const char **list = arena_array(a, const char *, x->n_doubts + 1);
    if (x->n_doubts)
        memcpy(list, x->doubts, x->n_doubts * sizeof *list);
    va_start(ap, fmt);
    list[x->n_doubts++] = arena_vprintf(a, fmt, ap);
    va_end(ap);
    x->doubts = list;
}

static bool in_list(const char *key, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(key, list[i]) == 0)
            return true;
    return false;
}

static bool in_fields(const char *key, const struct fields *f)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->rows[i].key && strcmp(key, f->rows[i].key) == 0)
            return true;
    return false;
}

static bool in_aliases(const char *key, const struct option_alias *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(key, list[i].other) == 0)
            return true;
    return false;
}

static void doubt_unknown(struct arena *a, const struct node *map, const struct fields *f,
                          const struct option_alias *aliases, size_t n, const char *of,
                          struct experiment *x)
{
    for (uint32_t i = 0; i < map->n; i++) {
        const char *key = map->pairs[i].key.p;
        if (!stands(map->pairs[i].value) || in_fields(key, f) || in_aliases(key, aliases, n) ||
            in_list(key, remarks, N(remarks)) || in_list(key, switches, N(switches)))
            continue;
        experiment_doubt(a, x, "%s%s is not read: predictions hold without it", of, key);
    }
}

static void doubt_missing(struct arena *a, const struct stated *s, struct experiment *x)
{
    const struct {
        const char *name;
        bool stated;
        const char *assumed;
    } rows[] = {
        {"engine", s->engine != NULL, "vLLM"},
        {"max_num_seqs", s->max_num_seqs > 0, "what vLLM takes on this GPU"},
        {"max_num_batched_tokens", s->max_num_batched_tokens > 0, "what vLLM takes on this GPU"},
        {"max_model_len", s->max_model_len > 0, "that of the model"},
    };
    for (size_t i = 0; i < N(rows); i++)
        if (!rows[i].stated)
            experiment_doubt(a, x, "%s is not stated: taken to be %s", rows[i].name,
                             rows[i].assumed);
    if (!s->prompts.groups)
        experiment_doubt(a, x, "prompts.groups is not stated: prompts are taken to share nothing");
}

/* ---- words ----------------------------------------------------------------------------------- */

static enum st arrivals_of(const struct node *map, const char *said, enum arrival_spacing *out,
                           struct err *e)
{
    static const struct {
        const char *begins;
        enum arrival_spacing kind;
    } known[] = {{"constant", POISSON}, {"evenly", EVEN}, {"fixed", EVEN}, {"poisson", POISSON}};
    for (size_t i = 0; i < N(known); i++) {
        if (strncasecmp(said, known[i].begins, strlen(known[i].begins)) == 0) {
            *out = known[i].kind;
            return ST_OK;
        }
    }
    node_err(node_find(map, "arrivals"), ST_INPUT, e, "arrivals: '%s' is not known here", said);
    return err_hint(e, "arrivals begin with \"constant\" or \"poisson\"");
}

/* One of the words, or NULL = as it is (*known). */
struct format_word {
    const char *word, *format;
};
static const struct format_word dtype_words[] = {
    {"auto", NULL}, {"bfloat16", NULL}, {"bf16", NULL},      {"float16", NULL}, {"half", NULL},
    {"fp16", NULL}, {"fp8", "fp8"},     {"float32", "fp32"}, {"float", "fp32"}, {"fp32", "fp32"},
};
static const struct format_word weight_words[] = {
    {"none", NULL},          {"fp8", "fp8"},          {"fbgemm_fp8", "fp8"},
    {"modelopt", "fp8"},     {"modelopt_fp4", "fp4"}, {"nvfp4", "fp4"},
    {"fp4", "fp4"},          {"w8a8", "int8"},        {"int8", "int8"},
    {"awq", "int4"},         {"awq_marlin", "int4"},  {"gptq", "int4"},
    {"gptq_marlin", "int4"}, {"w4a16", "int4"},       {"int4", "int4"},
    {"w4a16_awq", "int4"},   {"w4a16_gptq", "int4"},  {"fp8_block_scales", "fp8"},
    {"auto", NULL},
};
static const struct format_word kv_words[] = {
    {"auto", NULL}, {"bfloat16", NULL},  {"bf16", NULL},      {"float16", NULL},  {"fp16", NULL},
    {"fp8", "fp8"}, {"fp8_e4m3", "fp8"}, {"fp8_e5m2", "fp8"}, {"fp8_inc", "fp8"},
};

static enum st format_of(const struct node *map, const char *key, const char *said,
                         const struct format_word *words, size_t n, const char **out, struct err *e)
{
    for (size_t i = 0; said && i < n; i++) {
        if (strcasecmp(said, words[i].word) != 0)
            continue;
        *out = words[i].format ? words[i].format : *out;
        return ST_OK;
    }
    if (!said)
        return ST_OK;
    node_err(node_find(map, key), ST_INPUT, e, "%s: '%s' is not known here", key, said);
    return err_hint(e,
                    "it is one of vLLM's words: fp8, awq, gptq, modelopt_fp4, auto and the like");
}

static const char *word_at(const struct node *map, const char *key)
{
    const struct node *n = node_find(map, key);
    return n && n->kind == NODE_STR && n->s.n ? n->s.p : NULL;
}

enum st experiment_formats(const struct node *map, const char *weights, const char *kv,
                           struct observed_settings *out, struct err *e)
{
    TRY(format_of(map, weights, word_at(map, weights), weight_words, N(weight_words), &out->weights,
                  e));
    return format_of(map, kv, word_at(map, kv), kv_words, N(kv_words), &out->kv, e);
}

/* A part of the name such as FP8: between '-', '.' and '_'. */
static const char *format_in_name(const char *model)
{
    static const struct format_word parts[] = {
        {"fp8", "fp8"},  {"nvfp4", "fp4"}, {"w8a8", "int8"},  {"int8", "int8"},
        {"awq", "int4"}, {"gptq", "int4"}, {"w4a16", "int4"}, {"int4", "int4"}};
    const char *name = strrchr(model, '/') ? strrchr(model, '/') + 1 : model;
    for (const char *p = name; *p;) {
        const size_t part = strcspn(p, "-._");
        for (size_t i = 0; i < N(parts); i++)
            if (part == strlen(parts[i].word) && strncasecmp(p, parts[i].word, part) == 0)
                return parts[i].format;
        p += part + (p[part] != 0);
    }
    return NULL;
}

/* true, false, 0 or 1; of expert_parallel also a degree, of which 1 is off. otherwise = where it
 * does not stand. */
static enum st switch_of(const struct node *map, const char *key, int otherwise, int *out,
                         struct err *e)
{
    const struct node *n = node_find(map, key);
    *out = otherwise;
    if (!stands(n))
        return ST_OK;
    if (n->kind == NODE_BOOL) {
        *out = n->b;
        return ST_OK;
    }
    const bool degree = strcmp(key, "expert_parallel") == 0;
    if (n->kind != NODE_INT || n->i < 0 || (n->i > 1 && !degree))
        return node_err(n, ST_INPUT, e, "%s: expected true or false", key);
    *out = degree ? n->i > 1 : n->i == 1;
    return ST_OK;
}

/* ---- all ------------------------------------------------------------------------------------- */

/* "vLLM (V1)" is "vllm". */
static const char *engine_of(struct arena *a, const char *said)
{
    char *name = said ? arena_strn(a, said, strcspn(said, " (,:/")) : NULL;
    for (char *p = name; p && *p; p++)
        *p = (char)tolower((unsigned char)*p);
    return name;
}

static enum st settings_of(struct arena *a, const struct node *map, const struct stated *s,
                           struct observed_settings *out, struct err *e)
{
    int experts, caching;
    TRY(switch_of(map, "enable_prefix_caching", -1, &caching, e));
    TRY(switch_of(map, "expert_parallel", 0, &experts, e));
    *out = (struct observed_settings){
        .model = s->model,
        .gpu = s->gpu,
        .engine = engine_of(a, s->engine),
        .tp = s->tensor_parallel,
        .pp = s->pipeline_parallel,
        .ep = experts ? s->tensor_parallel : 0,
        .token_budget = s->max_num_batched_tokens,
        .batch_cap = s->max_num_seqs,
        .max_model_len = s->max_model_len,
        .num_blocks = s->num_gpu_blocks,
        .block_size = s->block_size,
        .gpu_memory_utilization = s->gpu_memory_utilization,
        .prefix_caching = caching,
        .weights = format_in_name(s->model),
    };
    TRY(format_of(map, "dtype", s->dtype, dtype_words, N(dtype_words), &out->weights, e));
    TRY(format_of(map, "quantization", s->quantization, weight_words, N(weight_words),
                  &out->weights, e));
    return format_of(map, "kv_cache_dtype", s->kv_cache_dtype, kv_words, N(kv_words), &out->kv, e);
}

/* What is simulated is one replica of a vLLM V1 server with chunked prefill. */
static enum st check_server(struct arena *a, const struct node *map, const struct stated *s,
                            struct experiment *x, struct err *e)
{
    int chunked;
    if (s->data_parallel > 1) {
        node_err(node_find(map, "data_parallel"), ST_INPUT, e,
                 "data_parallel: %lld replicas, and one is simulated", (long long)s->data_parallel);
        return err_hint(e, "state one replica (data_parallel 1), with its share of the rate");
    }
    TRY(observed_check_speculation(map, e));
    TRY(switch_of(map, "enable_chunked_prefill", 1, &chunked, e));
    if (!chunked)
        experiment_doubt(
            a, x, "enable_chunked_prefill false is not simulated: prompts are computed in chunks");
    if (s->engine && strncasecmp(s->engine, "vllm", 4) != 0)
        experiment_doubt(
            a, x, "engine '%s': vLLM's scheduler stands in for its own (scheduler= takes another)",
            s->engine);
    else if (s->engine && observed_says(s->engine, "V0"))
        experiment_doubt(a, x,
                         "engine '%s': V1 is simulated, which computes prompts beside decode steps",
                         s->engine);
    return ST_OK;
}

enum st experiment_read(struct arena *a, const char *dir, struct experiment *x, struct err *e)
{
    const char *path = fs_join(a, dir, "experiment.json");
    struct node *map, *prompts;
    struct stated s;
    int ignore_eos;
    *x = (struct experiment){.path = path};
    if (!fs_exists(path))
        return experiment_of_config(a, dir, x, e);
    TRY(json_load(a, path, NULL, &map, e));
    TRY(rename_all(a, map, experiment_aliases, N(experiment_aliases), e));
    prompts = node_find(map, "prompts");
    if (prompts && prompts->kind == NODE_MAP)
        TRY(rename_all(a, prompts, prompts_aliases, N(prompts_aliases), e));
    TRY(fields_read(a, &stated_fields, map, &s, e));
    if (s.n_stages == 0 || s.n_stages > MOST_STAGES)
        return node_err(node_find(map, "stages"), ST_INPUT, e, "stages: expected 1 to %d",
                        (int)MOST_STAGES);
    TRY(arrivals_of(map, s.arrivals, &x->arrivals, e));
    TRY(settings_of(a, map, &s, &x->settings, e));
    TRY(check_server(a, map, &s, x, e));
    TRY(switch_of(map, "ignore_eos", -1, &ignore_eos, e));
    if (ignore_eos < 0)
        experiment_doubt(a, x,
                         "ignore_eos is not stated: taken to be true, as inference-perf has it");
    doubt_missing(a, &s, x);
    doubt_unknown(a, map, &stated_fields, experiment_aliases, N(experiment_aliases), "", x);
    doubt_unknown(a, prompts, &prompts_fields, prompts_aliases, N(prompts_aliases), "prompts.", x);
    x->ignore_eos = ignore_eos != 0;
    x->prompts = s.prompts;
    x->stages = s.stages;
    x->n_stages = s.n_stages;
    return ST_OK;
}
