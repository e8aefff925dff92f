#include <string.h>

#include "model/tokenizer/parts.h"
#include "text/node.h"

/* GPT-2's own pattern, ByteLevel's use_regex. */
static const char gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
static const char byte_level_keys[] = "type|add_prefix_space|trim_offsets|use_regex";

/* ---- members --------------------------------------------------------------------------------- */

const struct node *tokenizer_member(const struct node *map, const char *key)
{
    const struct node *n = node_find(map, key);
    return n && n->kind != NODE_NULL ? n : NULL;
}

enum st tokenizer_flag(const struct node *map, const char *key, bool fallback, bool *out,
                       struct err *e)
{
    *out = fallback;
    return tokenizer_member(map, key) ? node_get_bool(map, key, out, e) : ST_OK;
}

static bool is_one_of(struct sv name, const char *names)
{
    for (const char *p = names; *p;) {
        size_t n = strcspn(p, "|");
        if (name.n == n && memcmp(name.p, p, n) == 0)
            return true;
        p += n + (p[n] == '|');
    }
    return false;
}

enum st tokenizer_only_keys(const struct node *map, const char *keys, struct err *e)
{
    for (uint32_t i = 0; i < map->n; i++)
        if (!is_one_of(map->pairs[i].key, keys))
            return node_err(map->pairs[i].value, ST_INPUT, e, "unknown key '%.*s'; known are %s",
                            (int)map->pairs[i].key.n, map->pairs[i].key.p, keys);
    return ST_OK;
}

static enum st get_text(struct tokenizer *t, const struct node *map, const char *key, bool empty_ok,
                        struct sv *out, struct err *e)
{
    struct node *n;
    TRY(node_get(map, key, NODE_STR, &n, e));
    if (n->s.n == 0 && !empty_ok)
        return node_err(n, ST_INPUT, e, "%s: must not be empty", key);
    *out = (struct sv){arena_strn(t->a, n->s.p, n->s.n), n->s.n};
    return ST_OK;
}

/* {"String": "x"} */
static enum st get_string_pattern(struct tokenizer *t, const struct node *step, struct sv *out,
                                  struct err *e)
{
    struct node *p;
    TRY(node_get(step, "pattern", NODE_MAP, &p, e));
    if (!tokenizer_member(p, "String"))
        return node_err(p, ST_INPUT, e, "pattern: only a String is supported here");
    TRY(tokenizer_only_keys(p, "String", e));
    return get_text(t, p, "String", false, out, e);
}

/* ---- bounds ---------------------------------------------------------------------------------- */

/* What one file may ask for: known tokenizers have at most 8 steps, make 12 bytes of one (a text of
 * one space: prepended and replaced), and frame a text by 2 tokens. Without a bound, 20 steps that
 * replace a by ten of it ask for 10^20 bytes. */
enum { MOST_STEPS = 64, MOST_GROWTH = 64, MOST_FRAME_TOKENS = 64 };

/* n bytes take the place of `of` bytes, after the steps before. */
static enum st grow(const struct node *step, double *growth, size_t n, size_t of, struct err *e)
{
    if (n > of)
        *growth *= (double)n / (double)of;
    if (*growth <= MOST_GROWTH)
        return ST_OK;
    return node_err(step, ST_INPUT, e,
                    "up to here a text becomes up to %.3g times as long; the limit is %d", *growth,
                    (int)MOST_GROWTH);
}

/* ---- steps: one table for each of the four kinds --------------------------------------------- */

struct step_reader {
    const char *type, *keys;
    enum st (*read)(struct tokenizer *t, const struct node *step, struct err *e);
};

static enum st read_step(struct tokenizer *t, const struct node *step, const char *what,
                         const struct step_reader *table, struct err *e)
{
    const char *type;
    if (step->kind != NODE_MAP)
        return node_err(step, ST_INPUT, e, "%s: expected a map, got %s", what,
                        node_kind_name(step->kind));
    TRY(node_get_str(step, "type", &type, e));
    if (++t->n_steps > MOST_STEPS)
        return node_err(step, ST_INPUT, e, "%s: more than %d steps", what, (int)MOST_STEPS);
    for (; table->type; table++) {
        if (strcmp(table->type, type) == 0) {
            TRY(tokenizer_only_keys(step, table->keys, e));
            return table->read(t, step, e);
        }
    }
    return node_err(node_find(step, "type"), ST_INPUT, e, "%s: the type '%.60s' is not supported",
                    what, type);
}

static enum st read_list(struct tokenizer *t, const struct node *step, const char *key,
                         const char *what, const struct step_reader *table, struct err *e)
{
    struct node *list;
    TRY(node_get(step, key, NODE_LIST, &list, e));
    for (uint32_t i = 0; i < list->n; i++)
        TRY(read_step(t, list->items[i], what, table, e));
    return ST_OK;
}

static enum st read_nothing(struct tokenizer *t, const struct node *step, struct err *e)
{
    (void)t, (void)step, (void)e;
    return ST_OK;
}

/* ---- normalizer ------------------------------------------------------------------------------ */

static enum st read_nfc(struct tokenizer *t, const struct node *step, struct err *e)
{
    (void)step, (void)e;
    vec_push(&t->normalizers.steps, (struct normalizer){.kind = NORMALIZE_NFC});
    return ST_OK;
}

static enum st read_prepend(struct tokenizer *t, const struct node *step, struct err *e)
{
    struct normalizer n = {.kind = NORMALIZE_PREPEND};
    TRY(get_text(t, step, "prepend", true, &n.what, e));
    TRY(grow(step, &t->growth, 1 + n.what.n, 1, e));
    vec_push(&t->normalizers.steps, n);
    return ST_OK;
}

static enum st read_replace(struct tokenizer *t, const struct node *step, struct err *e)
{
    struct normalizer n = {.kind = NORMALIZE_REPLACE};
    TRY(get_string_pattern(t, step, &n.what, e));
    TRY(get_text(t, step, "content", true, &n.with, e));
    TRY(grow(step, &t->growth, n.with.n, n.what.n, e));
    vec_push(&t->normalizers.steps, n);
    return ST_OK;
}

static enum st read_normalizers(struct tokenizer *t, const struct node *step, struct err *e);

static const struct step_reader normalizer_table[] = {
    {"NFC", "type", read_nfc},
    {"Prepend", "type|prepend", read_prepend},
    {"Replace", "type|pattern|content", read_replace},
    {"Sequence", "type|normalizers", read_normalizers},
    {0},
};

static enum st read_normalizers(struct tokenizer *t, const struct node *step, struct err *e)
{
    return read_list(t, step, "normalizers", "normalizer", normalizer_table, e);
}

/* ---- pre-tokenizer --------------------------------------------------------------------------- */

static bool byte_level_came(const struct tokenizer *t)
{
    return t->bpe.byte_level;
}

static enum st compile(const struct node *at, struct sv pattern, struct splitter *s, struct err *e)
{
    struct err why = {0};
    if (regex_compile(pattern, &s->regex, &why) != ST_OK)
        return node_err(at, ST_INPUT, e, "pattern: %s", err_cause(&why, 0));
    return ST_OK;
}

static struct sv quoted(struct arena *a, struct sv literal)
{
    struct buf b = {0};
    for (size_t i = 0; i < literal.n; i++) {
        if (literal.p[i] && strchr("\\^$.[]|()?*+{}-#&~", literal.p[i]))
            buf_putc(&b, '\\');
        buf_putc(&b, literal.p[i]);
    }
    struct sv s = {arena_strn(a, buf_str(&b), b.n), b.n};
    buf_free(&b);
    return s;
}

static enum st read_split(struct tokenizer *t, const struct node *step, struct err *e)
{
    struct splitter s = {.kind = SPLIT_REGEX};
    struct node *pattern;
    struct sv text;
    const char *behavior;
    bool invert;
    if (byte_level_came(t))
        return node_err(step, ST_INPUT, e,
                        "pre_tokenizer: a step behind ByteLevel is not supported");
    TRY(node_get(step, "pattern", NODE_MAP, &pattern, e));
    TRY(node_get_str(step, "behavior", &behavior, e));
    TRY(tokenizer_flag(step, "invert", false, &invert, e));
    bool removed = strcmp(behavior, "Removed") == 0;
    if (!removed && strcmp(behavior, "Isolated") != 0)
        return node_err(node_find(step, "behavior"), ST_INPUT, e,
                        "behavior: '%.40s' is not supported; Isolated and Removed are", behavior);
    s.drop_matches = removed && !invert;
    s.drop_gaps = removed && invert;
    TRY(tokenizer_only_keys(pattern, "Regex|String", e));
    bool literal = tokenizer_member(pattern, "String") != NULL;
    TRY(get_text(t, pattern, literal ? "String" : "Regex", false, &text, e));
    TRY(compile(pattern, literal ? quoted(t->a, text) : text, &s, e));
    vec_push(&t->splitters.steps, s);
    return ST_OK;
}

static enum st read_byte_level(struct tokenizer *t, const struct node *step, struct err *e)
{
    bool prefix, use_regex;
    if (byte_level_came(t))
        return node_err(step, ST_INPUT, e,
                        "pre_tokenizer: a step behind ByteLevel is not supported");
    TRY(tokenizer_flag(step, "add_prefix_space", true, &prefix, e));
    TRY(tokenizer_flag(step, "use_regex", true, &use_regex, e));
    if (prefix)
        vec_push(&t->splitters.steps, (struct splitter){.kind = SPLIT_PREFIX});
    if (use_regex) {
        struct splitter s = {.kind = SPLIT_REGEX};
        TRY(compile(step, SV(gpt2_pattern), &s, e));
        vec_push(&t->splitters.steps, s);
    }
    t->bpe.byte_level = true;
    return ST_OK;
}

/* Old files have add_prefix_space, newer ones prepend_scheme. */
static enum st get_front(const struct node *step, enum split_front *front, struct err *e)
{
    static const char *const names[] = {
        [FRONT_NEVER] = "never", [FRONT_FIRST] = "first", [FRONT_ALWAYS] = "always"};
    const char *scheme;
    bool prefix;
    TRY(tokenizer_flag(step, "add_prefix_space", true, &prefix, e));
    *front = prefix ? FRONT_ALWAYS : FRONT_NEVER;
    if (!tokenizer_member(step, "prepend_scheme"))
        return ST_OK;
    TRY(node_get_str(step, "prepend_scheme", &scheme, e));
    for (int i = 0; i < 3; i++) {
        if (strcmp(scheme, names[i]) != 0)
            continue;
        if (!prefix && i != FRONT_NEVER)
            return node_err(node_find(step, "prepend_scheme"), ST_INPUT, e,
                            "prepend_scheme: '%s' contradicts add_prefix_space", scheme);
        *front = (enum split_front)i;
        return ST_OK;
    }
    return node_err(node_find(step, "prepend_scheme"), ST_INPUT, e,
                    "prepend_scheme: expected always, first or never, got '%.40s'", scheme);
}

static enum st read_metaspace(struct tokenizer *t, const struct node *step, struct err *e)
{
    struct splitter s = {.kind = SPLIT_METASPACE};
    bool splits;
    if (byte_level_came(t))
        return node_err(step, ST_INPUT, e,
                        "pre_tokenizer: a step behind ByteLevel is not supported");
    TRY(get_text(t, step, "replacement", false, &s.space, e));
    TRY(grow(step, &t->growth, 1 + s.space.n, 1, e));
    TRY(get_front(step, &s.front, e));
    TRY(tokenizer_flag(step, "split", true, &splits, e));
    vec_push(&t->splitters.steps, s);
    s.kind = SPLIT_AT_METASPACE;
    if (splits)
        vec_push(&t->splitters.steps, s);
    return ST_OK;
}

static enum st read_splitters(struct tokenizer *t, const struct node *step, struct err *e);

static const struct step_reader splitter_table[] = {
    {"Split", "type|pattern|behavior|invert", read_split},
    {"ByteLevel", byte_level_keys, read_byte_level},
    {"Metaspace", "type|replacement|str_rep|add_prefix_space|prepend_scheme|split", read_metaspace},
    {"Sequence", "type|pretokenizers", read_splitters},
    {0},
};

static enum st read_splitters(struct tokenizer *t, const struct node *step, struct err *e)
{
    return read_list(t, step, "pretokenizers", "pre_tokenizer", splitter_table, e);
}

/* ---- post-processor -------------------------------------------------------------------------- */

static enum st get_template_ids(const struct tokenizer *t, const struct node *special_tokens,
                                const struct node *item, const struct node **ids, struct err *e)
{
    const char *id;
    struct node *list;
    TRY(node_get_str(item, "id", &id, e));
    const struct node *token = node_find(special_tokens, id);
    if (!token)
        return node_err(item, ST_INPUT, e, "post_processor: '%.60s' is not among special_tokens",
                        id);
    TRY(node_get(token, "ids", NODE_LIST, &list, e));
    for (uint32_t i = 0; i < list->n; i++) {
        const struct node *v = list->items[i];
        if (v->kind != NODE_INT || v->i < 0 || v->i >= t->n_ids)
            return node_err(v, ST_INPUT, e, "post_processor: no token has this id");
    }
    *ids = list;
    return ST_OK;
}

/* single: [SpecialToken...] Sequence A [SpecialToken...] */
static enum st read_template(struct tokenizer *t, const struct node *step, struct err *e)
{
    struct node *single, *special_tokens;
    VEC(int32_t) outer = {0};
    bool after = false;
    enum st st = node_get(step, "single", NODE_LIST, &single, e);
    if (st == ST_OK)
        st = node_get(step, "special_tokens", NODE_MAP, &special_tokens, e);
    for (uint32_t i = 0; st == ST_OK && i < single->n; i++) {
        const struct node *item = single->items[i], *ids = NULL;
        const struct node *special = node_find(item, "SpecialToken");
        const struct node *a = node_path(item, "Sequence.id");
        if (a && a->kind == NODE_STR && sv_eq(a->s, "A") && !after) {
            after = true;
            continue;
        }
        if (!special) {
            st = node_err(item, ST_INPUT, e,
                          "post_processor: a template holds special tokens and sequence A once");
            break;
        }
        st = get_template_ids(t, special_tokens, special, &ids, e);
        for (uint32_t j = 0; st == ST_OK && j < ids->n; j++) {
            int32_t id = (int32_t)ids->items[j]->i;
            if (after)
                vec_push(&t->after, id);
            else
                vec_push(&outer, id);
            if (t->before.n + outer.n + t->after.n > MOST_FRAME_TOKENS)
                st =
                    node_err(item, ST_INPUT, e, "post_processor: more than %d tokens around a text",
                             (int)MOST_FRAME_TOKENS);
        }
    }
    if (st == ST_OK && !after)
        st = node_err(single, ST_INPUT, e, "post_processor: the template lacks sequence A");
    for (size_t i = 0; i < t->before.n; i++) /* an earlier step's tokens end up inside */
        vec_push(&outer, t->before.p[i]);
    vec_clear(&t->before);
    for (size_t i = 0; i < outer.n; i++)
        vec_push(&t->before, outer.p[i]);
    vec_free(&outer);
    return st;
}

static enum st read_processors(struct tokenizer *t, const struct node *step, struct err *e);

/* ByteLevel moves offsets only. */
static const struct step_reader processor_table[] = {
    {"ByteLevel", byte_level_keys, read_nothing},
    {"TemplateProcessing", "type|single|pair|special_tokens", read_template},
    {"Sequence", "type|processors", read_processors},
    {0},
};

static enum st read_processors(struct tokenizer *t, const struct node *step, struct err *e)
{
    return read_list(t, step, "processors", "post_processor", processor_table, e);
}

/* ---- decoder --------------------------------------------------------------------------------- */

static enum st push_decoder(struct tokenizer *t, enum decode_kind kind)
{
    vec_push(&t->decoders.steps, (struct decoder){.kind = kind});
    return ST_OK;
}

static enum st read_decode_bytes(struct tokenizer *t, const struct node *step, struct err *e)
{
    (void)step, (void)e;
    return push_decoder(t, DECODE_BYTE_LEVEL);
}

static enum st read_decode_fallback(struct tokenizer *t, const struct node *step, struct err *e)
{
    (void)step, (void)e;
    return push_decoder(t, DECODE_BYTE_FALLBACK);
}

static enum st read_decode_fuse(struct tokenizer *t, const struct node *step, struct err *e)
{
    (void)step, (void)e;
    return push_decoder(t, DECODE_FUSE);
}

static enum st read_decode_replace(struct tokenizer *t, const struct node *step, struct err *e)
{
    struct decoder d = {.kind = DECODE_REPLACE};
    TRY(get_string_pattern(t, step, &d.what, e));
    TRY(get_text(t, step, "content", true, &d.with, e));
    TRY(grow(step, &t->ungrowth, d.with.n, d.what.n, e));
    vec_push(&t->decoders.steps, d);
    return ST_OK;
}

static enum st read_decode_strip(struct tokenizer *t, const struct node *step, struct err *e)
{
    struct decoder d = {.kind = DECODE_STRIP};
    TRY(get_text(t, step, "content", false, &d.what, e));
    TRY(node_get_int(step, "start", 0, INT32_MAX, &d.start, e));
    TRY(node_get_int(step, "stop", 0, INT32_MAX, &d.stop, e));
    vec_push(&t->decoders.steps, d);
    return ST_OK;
}

static enum st read_decode_metaspace(struct tokenizer *t, const struct node *step, struct err *e)
{
    struct decoder d = {.kind = DECODE_METASPACE};
    enum split_front front;
    TRY(get_text(t, step, "replacement", false, &d.what, e));
    TRY(get_front(step, &front, e));
    d.drop_first = front != FRONT_NEVER;
    vec_push(&t->decoders.steps, d);
    return ST_OK;
}

static enum st read_decoders(struct tokenizer *t, const struct node *step, struct err *e);

static const struct step_reader decoder_table[] = {
    {"ByteLevel", byte_level_keys, read_decode_bytes},
    {"ByteFallback", "type", read_decode_fallback},
    {"Fuse", "type", read_decode_fuse},
    {"Replace", "type|pattern|content", read_decode_replace},
    {"Strip", "type|content|start|stop", read_decode_strip},
    {"Metaspace", "type|replacement|str_rep|add_prefix_space|prepend_scheme|split",
     read_decode_metaspace},
    {"Sequence", "type|decoders", read_decoders},
    {0},
};

static enum st read_decoders(struct tokenizer *t, const struct node *step, struct err *e)
{
    return read_list(t, step, "decoders", "decoder", decoder_table, e);
}

/* ---- the file -------------------------------------------------------------------------------- */

static enum st read_optional(struct tokenizer *t, const struct node *root, const char *key,
                             const struct step_reader *table, struct err *e)
{
    const struct node *step = tokenizer_member(root, key);
    return step ? read_step(t, step, key, table, e) : ST_OK;
}

/* The normaliser comes before the added tokens, which pass through it, and the pre-tokenizer before
 * the vocabulary, which is read as bytes or as characters. */
enum st tokenizer_read(struct tokenizer *t, const struct node *root, struct err *e)
{
    static const char *const unused[] = {"truncation", "padding"};
    struct node *model, *added;
    if (root->kind != NODE_MAP)
        return node_err(root, ST_INPUT, e, "expected a map, got %s", node_kind_name(root->kind));
    TRY(tokenizer_only_keys(root,
                            "version|truncation|padding|added_tokens|normalizer|pre_tokenizer|"
                            "post_processor|decoder|model",
                            e));
    for (size_t i = 0; i < 2; i++)
        if (tokenizer_member(root, unused[i]))
            return node_err(tokenizer_member(root, unused[i]), ST_INPUT, e,
                            "%s: is not supported; set it to null", unused[i]);
    t->growth = t->ungrowth = 1;
    TRY(read_optional(t, root, "normalizer", normalizer_table, e));
    TRY(read_optional(t, root, "pre_tokenizer", splitter_table, e));
    TRY(node_get(root, "model", NODE_MAP, &model, e));
    TRY(tokenizer_read_model(t, model, t->bpe.byte_level, e));
    if (tokenizer_member(root, "added_tokens")) {
        TRY(node_get(root, "added_tokens", NODE_LIST, &added, e));
        TRY(tokenizer_read_added(t, added, e));
    }
    TRY(read_optional(t, root, "post_processor", processor_table, e));
    return read_optional(t, root, "decoder", decoder_table, e);
}
