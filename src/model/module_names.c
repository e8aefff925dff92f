#define PCRE2_CODE_UNIT_WIDTH 8
#include "model/module_names.h"

#include <fnmatch.h>
#include <pcre2.h>
#include <string.h>

#include "base/map.h"
#include "base/vec.h"

/* ---- names of a projection ------------------------------------------------------------------- */

/* First row whose family and prefix fit; `names` take the prefix's place. */
struct module_alias {
    const char *family; /* NULL = any; "a|b" */
    const char *module, *names;
};

static const struct module_alias blocks[] = {
    {"gemma4_text|gemma4_unified_text", "mlp.experts", "experts|moe.experts|moe"},
    {"gemma4_text|gemma4_unified_text", "mlp.shared_experts", "mlp"},
    {"gemma4_text|gemma4_unified_text", "mlp.gate", "router.proj"},
    {"step3p7", "mlp.experts", "moe|mlp.experts"},
    {NULL, "mlp.experts",
     "mlp.experts|block_sparse_moe.experts|ffn.experts|feed_forward.experts|mixer.experts|"
     "moe.experts|experts"},
    {NULL, "mlp.shared_experts",
     "mlp.shared_experts|mlp.shared_expert|block_sparse_moe.shared_experts|ffn.shared_experts|"
     "feed_forward.shared_expert|feed_forward.shared_experts|mixer.shared_experts|share_expert|"
     "moe.shared_experts|mlp.shared_mlp|shared_mlp"},
    {NULL, "mlp", "mlp|block_sparse_moe|ffn|feed_forward|mixer|moe"},
    {NULL, "self_attn", "self_attn|attn|attention|self_attention|mixer"},
    {NULL, "linear_attn", "linear_attn|mixer"},
    {NULL, "mamba", "mamba|mixer"},
    {NULL, "conv", "conv|short_conv"},
};

static const struct module_alias leaves[] = {
    {"qwen3_next|qwen3_5_text|qwen3_5_moe_text", "self_attn.gate_proj", "q_proj|qkv_proj"},
    {NULL, "self_attn.gate_proj", "gate_proj|g_proj"},
    {NULL, "gate_proj", "gate_proj|w1|gate_up_proj"},
    {NULL, "up_proj", "up_proj|w3|gate_up_proj|fc1|c_fc|fc_in|dense_h_to_4h"},
    {NULL, "down_proj", "down_proj|w2|fc2|c_proj|fc_out|dense_4h_to_h"},
    {NULL, "q_proj", "q_proj|wq|qkv_proj|query_key_value|c_attn|W_pack|Wqkv"},
    {NULL, "k_proj", "k_proj|wk|qkv_proj|query_key_value|c_attn|W_pack|Wqkv"},
    {NULL, "v_proj", "v_proj|wv|qkv_proj|query_key_value|c_attn|W_pack|Wqkv"},
    {NULL, "o_proj", "o_proj|out_proj|wo|dense|c_proj"},
    {NULL, "gate", "gate|router|router.proj|router.layer|gate.wg"},
    {NULL, "q_a_proj", "q_a_proj|wq_a|fused_qkv_a_proj"},
    {NULL, "q_b_proj", "q_b_proj|wq_b"},
    {NULL, "kv_a_proj_with_mqa", "kv_a_proj_with_mqa|wkv_a|fused_qkv_a_proj"},
    {NULL, "kv_b_proj", "kv_b_proj|wkv_b"},
    {NULL, "kv_proj", "kv_proj|wkv"},
    {NULL, "o_a_proj", "o_a_proj|wo_a"},
    {NULL, "o_b_proj", "o_b_proj|wo_b"},
    {NULL, "indexer.weights_proj", "indexer.weights_proj|indexers_proj"},
    {NULL, "indexer.q_proj", "indexer.q_proj|index_q_proj"},
    {NULL, "indexer.k_proj", "indexer.k_proj|index_k_proj"},
    {NULL, "indexer.q_b_proj", "indexer.q_b_proj|indexer.wq_b"},
    {NULL, "indexer.kv_proj", "indexer.kv_proj|indexer.compressor"},
    {NULL, "indexer.gate_proj", "indexer.gate_proj|indexer.compressor"},
    {NULL, "latent_down_proj", "latent_down_proj|fc1_latent_proj"},
    {NULL, "latent_up_proj", "latent_up_proj|fc2_latent_proj"},
    {NULL, "in_proj_qkv", "in_proj_qkv|in_proj_qkvz"},
    {NULL, "in_proj_z", "in_proj_z|in_proj_qkvz"},
    {NULL, "in_proj_b", "in_proj_b|in_proj_ba"},
    {NULL, "in_proj_a", "in_proj_a|in_proj_ba"},
    {NULL, "embed_tokens", "embed_tokens|embeddings|embed|wte|tok_embeddings|word_embeddings"},
    {NULL, "lm_head", "lm_head|head|output|embed_out"},
};

static bool is_of(const char *family, const char *families)
{
    for (const char *p = families; p && *p;) {
        const size_t n = strcspn(p, "|");
        if (strlen(family) == n && memcmp(family, p, n) == 0)
            return true;
        p += n + (p[n] == '|');
    }
    return families == NULL;
}

/* The row whose module starts `module`, up to a dot or the end. */
static const struct module_alias *find_block(const char *family, const char *module)
{
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        const size_t n = strlen(blocks[i].module);
        if (strncmp(module, blocks[i].module, n) == 0 && (module[n] == '.' || !module[n]) &&
            is_of(family, blocks[i].family))
            return &blocks[i];
    }
    return NULL;
}

static const char *leaf_names(const char *family, const char *module, const char *leaf)
{
    for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++)
        if ((strcmp(leaf, leaves[i].module) == 0 || strcmp(module, leaves[i].module) == 0) &&
            is_of(family, leaves[i].family))
            return leaves[i].names;
    return leaf;
}

static void add_tail(struct module_names *out, const char *tail)
{
    ASSERT(out->n < MODULE_TAILS);
    out->tail[out->n++] = tail;
}

static void add_leaves(struct arena *a, struct sv block, const char *leaf, const char *names,
                       bool experts, struct module_names *out)
{
    if (!*leaf) { /* the block itself */
        add_tail(out, arena_strn(a, block.p, block.n));
        return;
    }
    for (const char *p = names; *p;) {
        const int n = (int)strcspn(p, "|"), b = (int)block.n;
        const char *dot = b ? "." : "";
        if (experts)
            add_tail(out, arena_printf(a, "%.*s.#.%.*s", b, block.p, n, p));
        add_tail(out, arena_printf(a, "%.*s%s%.*s", b, block.p, dot, n, p));
        p += n + (p[n] == '|');
    }
}

void module_names_of(struct arena *a, const char *family, const char *module,
                     struct module_names *out)
{
    const struct module_alias *block = find_block(family, module);
    const char *leaf = block ? module + strlen(block->module) : module;
    leaf += *leaf == '.';
    const char *names = leaf_names(family, module, leaf);
    *out = (struct module_names){0};
    if (!block) {
        add_leaves(a, SV(""), leaf, names, false, out);
        return;
    }
    const bool experts = strcmp(block->module, "mlp.experts") == 0;
    for (const char *p = block->names; *p;) {
        const size_t n = strcspn(p, "|");
        add_leaves(a, (struct sv){p, n}, leaf, names, experts, out);
        p += n + (p[n] == '|');
    }
}

/* ---- entries --------------------------------------------------------------------------------- */

/* Of one name; several values where experts differ. */
struct name_entry {
    int32_t value;
    bool whole;       /* without an expert's number */
    int64_t numbered; /* experts */
    struct name_entry *next;
};

struct pattern {
    const char *text; /* of a wildcard */
    pcre2_code *code; /* of a regular expression, else NULL */
    bool floating;    /* may begin anywhere */
    bool experts;     /* may tell experts apart */
    bool negated;     /* says what a name must not have: only the first name is looked at */
    int32_t value;
};

struct module_rules {
    struct arena *a;
    struct map names; /* to struct name_entry */
    VEC(struct pattern) patterns;
    pcre2_match_data *data;
    pcre2_match_context *context;
};

enum { MATCH_LIMIT = 100000 }; /* steps of one match: names are short */

struct module_rules *module_rules_new(void)
{
    struct module_rules *r = mem_alloc(sizeof *r);
    *r = (struct module_rules){.a = arena_new()};
    map_init(&r->names, r->a);
    r->data = pcre2_match_data_create(1, NULL);
    r->context = pcre2_match_context_create(NULL);
    ASSERT(r->data && r->context);
    pcre2_set_match_limit(r->context, MATCH_LIMIT);
    return r;
}

void module_rules_free(struct module_rules **r)
{
    if (!*r)
        return;
    for (size_t i = 0; i < (*r)->patterns.n; i++)
        pcre2_code_free((*r)->patterns.p[i].code);
    vec_free(&(*r)->patterns);
    pcre2_match_data_free((*r)->data);
    pcre2_match_context_free((*r)->context);
    arena_free(&(*r)->a);
    mem_free(*r);
    *r = NULL;
}

bool module_rules_empty(const struct module_rules *r)
{
    return r->names.n == 0 && r->patterns.n == 0;
}

static bool starts(struct sv s, const char *word)
{
    const size_t n = strlen(word);
    return s.n >= n && memcmp(s.p, word, n) == 0;
}

static bool has_any(struct sv s, const char *set)
{
    for (size_t i = 0; i < s.n; i++)
        if (strchr(set, s.p[i]))
            return true;
    return false;
}

/* Without what leads to the text part; all of it where nothing else follows. */
static struct sv without_prefix(struct sv s)
{
    static const char *const prefixes[] = {"model.",    "language_model.", "text_model.",
                                           "backbone.", "transformer.",    "decoder.",
                                           "thinker."};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        const size_t n = strlen(prefixes[i]);
        if (starts(s, prefixes[i]) && s.n > n) {
            s = (struct sv){s.p + n, s.n - n};
            i = (size_t)-1;
        }
    }
    return s;
}

/* "layers.3.mlp.experts.17.up_proj" with # for 17. */
static const char *without_number(struct arena *a, struct sv s, bool *numbered)
{
    static const char word[] = "experts.";
    char *text = arena_strn(a, s.p, s.n);
    *numbered = false;
    for (char *p = strstr(text, word); p; p = strstr(p + 1, word)) {
        char *number = p + sizeof word - 1;
        const size_t n = strspn(number, "0123456789");
        if (n == 0 || (number[n] && number[n] != '.'))
            continue;
        *number = '#';
        memmove(number + 1, number + n, strlen(number + n) + 1);
        *numbered = true;
        break;
    }
    return text;
}

static void add_name(struct module_rules *r, struct sv s, int32_t value)
{
    bool numbered;
    while (s.n > 0 && s.p[s.n - 1] == '.') /* "mlp.gate." */
        s.n--;
    if (s.n == 0)
        return;
    const char *key = without_number(r->a, without_prefix(s), &numbered);
    struct map_entry *at = map_put(&r->names, key, strlen(key), NULL);
    struct name_entry *x = at->p;
    while (x && x->value != value)
        x = x->next;
    if (!x) {
        x = arena_one(r->a, struct name_entry);
        *x = (struct name_entry){.value = value, .next = at->p};
        at->p = x;
    }
    if (numbered)
        x->numbered++;
    else
        x->whole = true;
}

/* Whether a number or a choice of numbers stands where experts are counted. */
static bool tells_experts(const char *text)
{
    static const char word[] = "experts";
    for (const char *p = strstr(text, word); p; p = strstr(p + 1, word)) {
        const char *next = p + sizeof word - 1;
        const size_t n = strspn(next, "\\.");
        if (n > 0 && next[n] && strchr("0123456789([?", next[n]))
            return true;
    }
    return false;
}

static pcre2_code *compile(struct sv s, int *error)
{
    struct buf line = {0}; /* names are matched all at once, a line each */
    PCRE2_SIZE place;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    ASSERT(context);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    buf_printf(&line, "^(?:%.*s)", (int)s.n, s.p);
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)line.p, line.n, PCRE2_MULTILINE, error, &place, context);
    pcre2_compile_context_free(context);
    buf_free(&line);
    if (code)
        pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); /* slower without */
    return code;
}

static enum st add_regex(struct module_rules *r, const struct node *at, struct sv s, int32_t value,
                         struct err *e)
{
    int error;
    const char *text = arena_strn(r->a, s.p, s.n);
    pcre2_code *code = compile(s, &error);
    if (!code) {
        PCRE2_UCHAR why[128];
        pcre2_get_error_message(error, why, sizeof why);
        return node_err(at, ST_INPUT, e, "'%.100s' is no regular expression: %s", text,
                        (const char *)why);
    }
    vec_push(&r->patterns, (struct pattern){.code = code,
                                            .floating = starts(s, ".*"),
                                            .experts = tells_experts(text),
                                            .negated = strstr(text, "(?!") || strstr(text, "(?<!"),
                                            .value = value});
    return ST_OK;
}

enum st module_rules_add(struct module_rules *r, const struct node *at, struct sv s, int32_t value,
                         struct err *e)
{
    static const char regex[] = "re:";
    ASSERT(value >= 0 && value < MODULE_VALUES);
    if (starts(s, regex))
        return add_regex(r, at, (struct sv){s.p + 3, s.n - 3}, value, e);
    if (has_any(s, "\\^$(|+{") || starts(s, ".*"))
        return add_regex(r, at, s, value, e);
    if (!has_any(s, "*?[")) {
        add_name(r, s, value);
        return ST_OK;
    }
    const struct sv rest = without_prefix(s);
    const char *text = arena_strn(r->a, rest.p, rest.n);
    vec_push(&r->patterns, (struct pattern){.text = text,
                                            .floating = strchr("*?[", *text) != NULL,
                                            .experts = tells_experts(text),
                                            .value = value});
    return ST_OK;
}

/* ---- matching -------------------------------------------------------------------------------- */

enum { NAME_BYTES = 512, NAME_COMPONENTS = 16 };

static bool full_name(char out[NAME_BYTES], const char *prefix, int64_t layer, const char *tail,
                      int64_t expert)
{
    char numbered[NAME_BYTES];
    const char *mark = expert >= 0 ? strchr(tail, '#') : NULL;
    int n = mark ? snprintf(numbered, sizeof numbered, "%.*s%lld%s", (int)(mark - tail), tail,
                            (long long)expert, mark + 1)
                 : snprintf(numbered, sizeof numbered, "%s", tail);
    if (n < 0 || n >= NAME_BYTES)
        return false;
    n = layer >= 0
            ? snprintf(out, NAME_BYTES, "%slayers.%lld.%s", prefix, (long long)layer, numbered)
            : snprintf(out, NAME_BYTES, "%s%s", prefix, numbered);
    return n >= 0 && n < NAME_BYTES;
}

struct longest {
    size_t n;
    int32_t value;
};

static void take_name(const struct module_rules *r, const char *run, size_t n,
                      struct longest *longest, struct module_match *out)
{
    const struct map_entry *at = map_find(&r->names, run, n);
    for (const struct name_entry *x = at ? at->p : NULL; x; x = x->next) {
        if (x->numbered > out->numbered[x->value])
            out->numbered[x->value] = x->numbered;
        if (x->whole && n > longest->n)
            *longest = (struct longest){n, x->value};
    }
}

/* Every run of components: "layers.3.mlp", "mlp.gate", "gate". */
static void find_names(const struct module_rules *r, const struct module_names *names,
                       int64_t layer, struct longest *longest, struct module_match *out)
{
    char name[NAME_BYTES];
    for (int32_t i = 0; i < names->n; i++) {
        size_t from[NAME_COMPONENTS + 1], n = 0;
        if (!full_name(name, "", layer, names->tail[i], -1))
            continue;
        from[n++] = 0;
        for (const char *p = strchr(name, '.'); p && n < NAME_COMPONENTS; p = strchr(p + 1, '.'))
            from[n++] = (size_t)(p - name) + 1;
        from[n] = strlen(name) + 1;
        for (size_t b = 0; b < n; b++)
            for (size_t end = b + 1; end <= n; end++)
                take_name(r, name + from[b], from[end] - from[b] - 1, longest, out);
    }
}

static bool wildcard_fits(const struct pattern *p, char *name)
{
    for (;;) {
        if (fnmatch(p->text, name, FNM_NOESCAPE) == 0)
            return true;
        char *dot = strrchr(name, '.');
        if (!dot)
            return false;
        *dot = '\0';
    }
}

static bool wildcards_fit(const struct pattern *p, const struct module_names *names, int64_t layer,
                          int64_t expert)
{
    char name[NAME_BYTES];
    for (int32_t i = 0; i < names->n; i++)
        if (full_name(name, p->floating ? "model." : "", layer, names->tail[i], expert) &&
            wildcard_fits(p, name))
            return true;
    return false;
}

/* All names of a projection, a line each, for expressions; made when the first one asks. */
struct lines {
    const struct module_names *names;
    int64_t layer, expert;
    struct buf floating, rooted;
};

static void put_lines(const struct lines *l, bool floating, bool first, struct buf *out)
{
    static const char *const prefixes[] = {
        "model.language_model.", "language_model.model.", "model.", "", "backbone.",
        "transformer."};
    enum { PREFIXES = sizeof prefixes / sizeof *prefixes, OF_FLOATING = 2 };
    char name[NAME_BYTES];
    for (int32_t i = 0; i < (first ? 1 : l->names->n); i++)
        for (int k = 0; k < (floating ? OF_FLOATING : PREFIXES); k++)
            if (full_name(name, prefixes[k], l->layer, l->names->tail[i], l->expert))
                buf_printf(out, "%s\n", name);
}

static bool regex_fits(const struct module_rules *r, const struct pattern *p, struct lines *l)
{
    struct buf own = {0}, *text = p->negated ? &own : p->floating ? &l->floating : &l->rooted;
    if (!text->n)
        put_lines(l, p->floating, p->negated, text);
    const int n =
        pcre2_match(p->code, (PCRE2_SPTR)buf_str(text), text->n, 0, 0, r->data, r->context);
    buf_free(&own);
    return n >= 0;
}

static void lines_free(struct lines *l)
{
    buf_free(&l->floating);
    buf_free(&l->rooted);
}

/* Without a look at every name: the pattern begins with another layer's. */
static bool may_fit(const struct pattern *p, int64_t layer)
{
    static const char word[] = "layers.";
    if (p->code || strncmp(p->text, word, sizeof word - 1) != 0)
        return true;
    char number[32];
    const char *digits = p->text + sizeof word - 1;
    const size_t n = strspn(digits, "0123456789");
    if (layer < 0)
        return false;
    const int all = snprintf(number, sizeof number, "%lld", (long long)layer);
    if (digits[n] == '.' || !digits[n])
        return n == 0 || (n == (size_t)all && memcmp(digits, number, n) == 0);
    return n <= (size_t)all && memcmp(digits, number, n) == 0;
}

/* How many copies the pattern means; l: names of the first. */
static int64_t count_fits(const struct module_rules *r, const struct pattern *p, struct lines *l,
                          int64_t copies)
{
    int64_t n = 0;
    if (!p->experts || copies == 1)
        return (p->code ? regex_fits(r, p, l) : wildcards_fit(p, l->names, l->layer, l->expert))
                   ? copies
                   : 0;
    for (int64_t i = 0; i < copies; i++) {
        struct lines one = {.names = l->names, .layer = l->layer, .expert = i};
        n += p->code ? regex_fits(r, p, &one) : wildcards_fit(p, l->names, l->layer, i);
        lines_free(&one);
    }
    return n;
}

void module_rules_find(const struct module_rules *r, const struct module_names *names,
                       int64_t layer, int64_t copies, struct module_match *out)
{
    struct longest longest = {0, -1};
    struct lines lines = {.names = names, .layer = layer};
    *out = (struct module_match){.value = -1};
    if (r->names.n > 0)
        find_names(r, names, layer, &longest, out);
    out->value = longest.value;
    for (size_t i = 0; i < r->patterns.n && out->value < 0; i++) {
        const struct pattern *p = &r->patterns.p[i];
        const int64_t n = may_fit(p, layer) ? count_fits(r, p, &lines, copies) : 0;
        if (n == copies)
            out->value = p->value;
        else if (n > out->numbered[p->value])
            out->numbered[p->value] = n;
    }
    lines_free(&lines);
}
