#include "model/tokenizer.h"

#include <string.h>

#include "base/fs.h"
#include "model/tokenizer/parts.h"
#include "text/json.h"

/* The largest known files, Gemma 3's and NLLB's, have 33 MB. */
enum { FILE_MAX_BYTES = 64 << 20, TEXT_MAX_BYTES = 256 << 20 };

/* ---- a tokenizer's life ---------------------------------------------------------------------- */

enum st tokenizer_load_bytes(const char *source, struct sv text, struct tokenizer **out,
                             struct err *e)
{
    const struct json_limits limits = {.max_depth = 32, .max_bytes = FILE_MAX_BYTES};
    struct arena *scratch = arena_new();
    struct node *root;
    struct tokenizer *t = mem_alloc(sizeof *t);
    *t = (struct tokenizer){.a = arena_new()};
    enum st st = json_parse(scratch, source, text, &limits, &root, e);
    if (st == ST_OK)
        st = tokenizer_read(t, root, e);
    if (st != ST_OK) {
        err_add(e, "cannot use the tokenizer %s", source);
        tokenizer_free(&t);
    }
    arena_free(&scratch);
    *out = t;
    return st;
}

enum st tokenizer_load(const char *path, struct tokenizer **out, struct err *e)
{
    struct fs_map file;
    *out = NULL;
    TRY(fs_map(path, &file, e));
    enum st st = tokenizer_load_bytes(path, (struct sv){file.p ? file.p : "", file.n}, out, e);
    fs_unmap(&file);
    return st;
}

void tokenizer_free(struct tokenizer **t)
{
    if (!*t)
        return;
    for (size_t i = 0; i < (*t)->splitters.steps.n; i++)
        regex_free(&(*t)->splitters.steps.p[i].regex);
    vec_free(&(*t)->splitters.steps);
    vec_free(&(*t)->normalizers.steps);
    vec_free(&(*t)->decoders.steps);
    vec_free(&(*t)->before);
    vec_free(&(*t)->after);
    added_free(&(*t)->added);
    added_free(&(*t)->added_normalized);
    arena_free(&(*t)->a);
    mem_free(*t);
    *t = NULL;
}

int64_t tokenizer_vocab(const struct tokenizer *t)
{
    return t->n_ids;
}

/* ---- encoding -------------------------------------------------------------------------------- */

struct encoder {
    const struct tokenizer *t;
    struct buf normal, spare;
    struct split_pieces pieces;
    struct bpe_scratch bpe; /* receives the ids */
};

static void encoder_free(struct encoder *c)
{
    buf_free(&c->normal);
    buf_free(&c->spare);
    split_pieces_free(&c->pieces);
    bpe_scratch_free(&c->bpe);
}

/* Ordinary text, normalised. first: it begins where the whole text begins. */
static enum st encode_plain(struct encoder *c, struct sv text, bool first, struct err *e)
{
    TRY(tokenizer_split(&c->t->splitters, text, first, &c->pieces, e));
    for (size_t i = 0; i < c->pieces.list.n; i++) {
        struct piece p = c->pieces.list.p[i];
        bpe_encode(&c->t->bpe, &c->bpe, (struct sv){c->pieces.text.p + p.begin, p.end - p.begin});
    }
    return ST_OK;
}

static enum st encode_normalized(struct encoder *c, struct sv text, bool first, struct err *e)
{
    struct added_scan scan = {.trie = &c->t->added_normalized, .text = text};
    struct added_span s;
    while (added_next(&scan, &s)) {
        if (s.token)
            vec_push(&c->bpe.ids, s.token->id);
        else
            TRY(encode_plain(c, (struct sv){text.p + s.begin, s.end - s.begin},
                             first && s.begin == 0, e));
    }
    return ST_OK;
}

static enum st encode_text(struct encoder *c, struct sv text, struct err *e)
{
    struct added_scan scan = {.trie = &c->t->added, .text = text};
    struct added_span s;
    while (added_next(&scan, &s)) {
        struct sv part = {text.p + s.begin, s.end - s.begin};
        if (s.token) {
            vec_push(&c->bpe.ids, s.token->id);
            continue;
        }
        if (c->t->normalizers.steps.n > 0) {
            tokenizer_normalize(&c->t->normalizers, part, &c->normal, &c->spare);
            part = (struct sv){c->normal.p, c->normal.n};
        }
        TRY(encode_normalized(c, part, s.begin == 0, e));
    }
    return ST_OK;
}

static void add_ids(struct encoder *c, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        vec_push(&c->bpe.ids, ids[i]);
}

enum st tokenizer_encode(struct arena *a, const struct tokenizer *t, struct sv text,
                         bool add_special, int32_t **ids, size_t *n, struct err *e)
{
    if (text.n > TEXT_MAX_BYTES)
        return err_set(e, ST_INPUT, "a text of %zu bytes is over the limit of %d", text.n,
                       TEXT_MAX_BYTES);
    size_t good = text.n ? str_utf8_valid(text.p, text.n) : 0;
    if (good != text.n)
        return err_set(e, ST_INPUT, "the text is not valid UTF-8 at byte %zu", good);
    struct encoder c = {.t = t};
    if (add_special)
        add_ids(&c, t->before.p, t->before.n);
    enum st st = encode_text(&c, text, e);
    if (add_special)
        add_ids(&c, t->after.p, t->after.n);
    *n = st == ST_OK ? c.bpe.ids.n : 0;
    *ids = arena_copy(a, c.bpe.ids.p, *n * sizeof **ids);
    encoder_free(&c);
    return st;
}

/* ---- decoding -------------------------------------------------------------------------------- */

enum st tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n, bool skip_special,
                         struct buf *out, struct err *e)
{
    struct arena *a = arena_new();
    struct sv *texts = arena_array(a, struct sv, n);
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0) {
            arena_free(&a);
            return err_set(e, ST_INPUT, "token %zu has the id %d", i, ids[i]);
        }
        if (ids[i] >= t->n_ids)
            continue;
        const struct token *token = &t->tokens[ids[i]];
        if (token->text.p && !(skip_special && token->special))
            texts[count++] = token->text;
    }
    tokenizer_join(&t->decoders, a, texts, count, out);
    arena_free(&a);
    return ST_OK;
}
