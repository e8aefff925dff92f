#include <string.h>

#include "model/tokenizer/parts.h"
#include "model/tokenizer/utf8.h"
#include "text/node.h"

/* Ids may have gaps; the limit bounds the table that a small file can demand. */
enum { MAX_ID = (1 << 22) - 1 };

static void grow_tokens(struct tokenizer *t, int64_t id)
{
    if (id < t->n_ids)
        return;
    struct token *more = arena_array(t->a, struct token, id + 1);
    if (t->n_ids)
        memcpy(more, t->tokens, (size_t)t->n_ids * sizeof *more);
    t->tokens = more;
    t->n_ids = id + 1;
}

/* ---- model.vocab ----------------------------------------------------------------------------- */

static enum st read_vocab(struct tokenizer *t, const struct node *vocab, struct err *e)
{
    int64_t largest = -1;
    for (uint32_t i = 0; i < vocab->n; i++) {
        const struct node *v = vocab->pairs[i].value;
        if (v->kind != NODE_INT || v->i < 0 || v->i > MAX_ID)
            return node_err(v, ST_INPUT, e, "vocab: an id is an integer from 0 to %d", MAX_ID);
        largest = v->i > largest ? v->i : largest;
    }
    if (largest < 0)
        return node_err(vocab, ST_INPUT, e, "vocab: is empty");
    grow_tokens(t, largest);
    map_init(&t->bpe.vocab, t->a);
    for (uint32_t i = 0; i < vocab->n; i++) {
        struct sv key = vocab->pairs[i].key;
        const struct node *v = vocab->pairs[i].value;
        struct map_entry *m = map_put(&t->bpe.vocab, key.p, key.n, NULL);
        if (t->tokens[v->i].text.p)
            return node_err(v, ST_INPUT, e, "vocab: two tokens have the id %lld", (long long)v->i);
        m->i = v->i;
        t->tokens[v->i].text = (struct sv){m->key, key.n};
    }
    return ST_OK;
}

static int32_t find_id(const struct bpe *b, const char *p, size_t n)
{
    const struct map_entry *m = map_find(&b->vocab, p, n);
    return m ? (int32_t)m->i : -1;
}

/* ---- model.merges ---------------------------------------------------------------------------- */

/* ["a", "b"] or "a b" */
static enum st get_pair(const struct node *row, struct sv pair[2], struct err *e)
{
    if (row->kind == NODE_LIST && row->n == 2 && row->items[0]->kind == NODE_STR &&
        row->items[1]->kind == NODE_STR) {
        pair[0] = row->items[0]->s;
        pair[1] = row->items[1]->s;
        return ST_OK;
    }
    const char *space = row->kind == NODE_STR ? memchr(row->s.p, ' ', row->s.n) : NULL;
    if (space) {
        size_t n = (size_t)(space - row->s.p);
        pair[0] = (struct sv){row->s.p, n};
        pair[1] = (struct sv){space + 1, row->s.n - n - 1};
        if (!memchr(pair[1].p, ' ', pair[1].n))
            return ST_OK;
    }
    return node_err(row, ST_INPUT, e, "merges: expected two tokens, as [\"a\", \"b\"] or \"a b\"");
}

/* U+2581 behind another character */
static bool has_inner_space(struct sv s)
{
    bool space = true;
    for (size_t i = 0; i < s.n; i += utf8_length(s.p[i])) {
        bool is_space = s.n - i >= 3 && memcmp(s.p + i, "\xe2\x96\x81", 3) == 0;
        if (is_space && !space)
            return true;
        space = is_space;
    }
    return false;
}

static enum st read_merge(struct tokenizer *t, const struct node *row, uint32_t rank,
                          struct buf *joined, struct err *e)
{
    struct sv pair[2];
    TRY(get_pair(row, pair, e));
    buf_clear(joined);
    buf_add(joined, pair[0].p, pair[0].n);
    buf_add(joined, pair[1].p, pair[1].n);
    const struct sv parts[] = {pair[0], pair[1], {joined->p, joined->n}};
    int32_t ids[3];
    for (int i = 0; i < 3; i++) {
        ids[i] = find_id(&t->bpe, parts[i].p, parts[i].n);
        if (ids[i] < 0)
            return node_err(row, ST_INPUT, e, "merges: '%.*s' is not in the vocabulary",
                            (int)(parts[i].n < 100 ? parts[i].n : 100), parts[i].p);
    }
    bpe_merges_put(&t->bpe, ids[0], ids[1], rank, ids[2]);
    if (has_inner_space(parts[2]))
        t->bpe.cut_at_space = false;
    return ST_OK;
}

static enum st read_merges(struct tokenizer *t, const struct node *merges, struct err *e)
{
    struct buf joined = {0};
    enum st st = ST_OK;
    bpe_merges_init(&t->bpe, t->a, merges->n);
    for (uint32_t i = 0; st == ST_OK && i < merges->n; i++)
        st = read_merge(t, merges->items[i], i, &joined, e);
    buf_free(&joined);
    return st;
}

/* ---- tables made from both ------------------------------------------------------------------- */

static void make_first(struct bpe *b)
{
    for (int i = 0; i < 256; i++)
        b->first[i] = -1;
    for (uint32_t c = 0; c < 0x144; c++) {
        int byte = b->byte_level ? tokenizer_byte_of(c) : c < 0x80 ? (int)c : -1;
        char text[2] = {(char)c, 0};
        size_t n = 1;
        if (byte < 0)
            continue;
        if (c >= 0x80) {
            text[0] = (char)(0xc0 | c >> 6);
            text[1] = (char)(0x80 | (c & 0x3f));
            n = 2;
        }
        b->first[byte] = find_id(b, text, n);
    }
}

static void make_fallback(struct bpe *b)
{
    for (int i = 0; i < 256; i++) {
        char name[8];
        int n = snprintf(name, sizeof name, "<0x%02X>", (unsigned)i & 0xff);
        b->fallback[i] = find_id(b, name, (size_t)n);
    }
}

/* The bytes that the pieces a token can equal are made of; false = no piece can. */
static bool piece_of(const struct bpe *b, struct sv token, struct buf *out)
{
    buf_clear(out);
    if (!b->byte_level) {
        buf_add(out, token.p, token.n);
        return true;
    }
    for (size_t i = 0, n; i < token.n; i += n) {
        int byte = tokenizer_byte_of(utf8_get(token.p + i, &n));
        if (byte < 0)
            return false;
        buf_putc(out, (char)byte);
    }
    return true;
}

static void make_words(struct tokenizer *t)
{
    struct buf piece = {0};
    map_init(&t->bpe.words, t->a);
    for (int64_t id = 0; id < t->n_ids; id++)
        if (t->tokens[id].text.p && piece_of(&t->bpe, t->tokens[id].text, &piece))
            map_put(&t->bpe.words, piece.p, piece.n, NULL)->i = id;
    buf_free(&piece);
}

/* ---- model ----------------------------------------------------------------------------------- */

static enum st refuse_options(const struct node *model, struct err *e)
{
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const struct node *type = tokenizer_member(model, "type");
    if (type && !(type->kind == NODE_STR && sv_eq(type->s, "BPE")))
        return node_err(type, ST_INPUT, e, "model: only the type BPE is supported");
    for (size_t i = 0; i < 2; i++) {
        const struct node *n = tokenizer_member(model, affixes[i]);
        if (n && !(n->kind == NODE_STR && n->s.n == 0))
            return node_err(n, ST_INPUT, e, "%s: is not supported", affixes[i]);
    }
    const struct node *dropout = tokenizer_member(model, "dropout");
    bool none = !dropout || (dropout->kind == NODE_INT && dropout->i == 0) ||
                (dropout->kind == NODE_FLOAT && dropout->f <= 0);
    if (!none)
        return node_err(dropout, ST_INPUT, e, "dropout: is not supported");
    return tokenizer_only_keys(
        model,
        "type|dropout|unk_token|continuing_subword_prefix|"
        "end_of_word_suffix|fuse_unk|byte_fallback|ignore_merges|vocab|merges",
        e);
}

static enum st read_unk(struct bpe *b, const struct node *model, struct err *e)
{
    const char *unk;
    b->unk = -1;
    if (!tokenizer_member(model, "unk_token"))
        return ST_OK;
    TRY(node_get_str(model, "unk_token", &unk, e));
    b->unk = find_id(b, unk, strlen(unk));
    if (b->unk < 0)
        return node_err(node_find(model, "unk_token"), ST_INPUT, e,
                        "unk_token: '%.60s' is not in the vocabulary", unk);
    return ST_OK;
}

enum st tokenizer_read_model(struct tokenizer *t, const struct node *model, bool byte_level,
                             struct err *e)
{
    struct bpe *b = &t->bpe;
    struct node *vocab, *merges;
    TRY(refuse_options(model, e));
    TRY(tokenizer_flag(model, "fuse_unk", false, &b->fuse_unk, e));
    TRY(tokenizer_flag(model, "byte_fallback", false, &b->byte_fallback, e));
    TRY(tokenizer_flag(model, "ignore_merges", false, &b->ignore_merges, e));
    TRY(node_get(model, "vocab", NODE_MAP, &vocab, e));
    TRY(node_get(model, "merges", NODE_LIST, &merges, e));
    b->byte_level = byte_level;
    if (byte_level && b->byte_fallback)
        return node_err(node_find(model, "byte_fallback"), ST_INPUT, e,
                        "byte_fallback: is not supported together with ByteLevel");
    TRY(read_vocab(t, vocab, e));
    b->cut_at_space = !byte_level && !b->ignore_merges && find_id(b, "\xe2\x96\x81", 3) >= 0;
    TRY(read_merges(t, merges, e));
    TRY(read_unk(b, model, e));
    make_first(b);
    make_fallback(b);
    if (b->ignore_merges)
        make_words(t);
    return ST_OK;
}

/* ---- added_tokens ---------------------------------------------------------------------------- */

static enum st check_id(const struct tokenizer *t, const struct node *row, struct sv content,
                        int64_t id, struct err *e)
{
    int32_t known = find_id(&t->bpe, content.p, content.n);
    if (known >= 0 && known != id)
        return node_err(row, ST_INPUT, e,
                        "added_tokens: '%s' has the id %lld, in the vocabulary %d", content.p,
                        (long long)id, known);
    const struct sv other = id < t->n_ids ? t->tokens[id].text : (struct sv){0};
    if (other.p && !(other.n == content.n && memcmp(other.p, content.p, other.n) == 0))
        return node_err(row, ST_INPUT, e, "added_tokens: the id %lld of '%s' is that of '%.*s'",
                        (long long)id, content.p, (int)other.n, other.p);
    return ST_OK;
}

static enum st read_flags(const struct node *row, struct added_token *a, struct err *e)
{
    TRY(tokenizer_flag(row, "special", false, &a->special, e));
    TRY(tokenizer_flag(row, "normalized", !a->special, &a->normalized, e));
    TRY(tokenizer_flag(row, "single_word", false, &a->single_word, e));
    TRY(tokenizer_flag(row, "lstrip", false, &a->lstrip, e));
    return tokenizer_flag(row, "rstrip", false, &a->rstrip, e);
}

/* A normalised token is matched and decoded in its normalised form: LLaMA's Prepend puts a space
 * before it. */
static void put_added(struct tokenizer *t, struct sv content, const struct added_token *a)
{
    if (a->normalized) {
        struct buf text = {0}, spare = {0};
        tokenizer_normalize(&t->normalizers, content, &text, &spare);
        content = (struct sv){arena_strn(t->a, buf_str(&text), text.n), text.n};
        buf_free(&text);
        buf_free(&spare);
    }
    added_put(a->normalized ? &t->added_normalized : &t->added, content, a);
    t->tokens[a->id] = (struct token){content, a->special};
}

enum st tokenizer_read_added(struct tokenizer *t, const struct node *list, struct err *e)
{
    enum { MOST_CONTENT = 1024 };
    int64_t largest = -1;
    struct added_token *rows = arena_array(t->a, struct added_token, list->n);
    for (uint32_t i = 0; i < list->n; i++) {
        int64_t id;
        TRY(tokenizer_only_keys(list->items[i],
                                "id|content|single_word|lstrip|rstrip|normalized|special", e));
        TRY(node_get_int(list->items[i], "id", 0, MAX_ID, &id, e));
        largest = id > largest ? id : largest;
    }
    grow_tokens(t, largest);
    for (uint32_t i = 0; i < list->n; i++) {
        const struct node *row = list->items[i];
        int64_t id;
        struct node *n;
        TRY(node_get_int(row, "id", 0, MAX_ID, &id, e));
        TRY(node_get(row, "content", NODE_STR, &n, e));
        TRY(read_flags(row, &rows[i], e));
        struct sv content = {arena_strn(t->a, n->s.p, n->s.n), n->s.n};
        if (content.n == 0)
            continue;                 /* the library ignores it too */
        if (content.n > MOST_CONTENT) /* it is looked for from every byte of a text */
            return node_err(n, ST_INPUT, e, "content: more than %d bytes", (int)MOST_CONTENT);
        TRY(check_id(t, row, content, id, e));
        rows[i].id = (int32_t)id;
        put_added(t, content, &rows[i]);
    }
    return ST_OK;
}
