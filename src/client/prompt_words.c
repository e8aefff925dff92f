#include "client/prompt_words.h"

#include <string.h>

#include "base/vec.h"

/* More do not make prompts more different. */
enum { MOST = 4096 };
enum { TRIES = 64 };

struct prompt_words {
    const struct tokenizer *t;
    int32_t *ids; /* [n] */
    size_t n;
    int64_t special; /* tokens that the tokenizer adds */
};

/* n lower-case letters at least one, up to the end or a space. */
static size_t letters(struct sv s, size_t at)
{
    size_t n = 0;
    while (at + n < s.n && s.p[at + n] >= 'a' && s.p[at + n] <= 'z')
        n++;
    return n;
}

/* "word word", with or without a space before. */
static bool is_pair(struct sv s)
{
    const size_t from = s.n > 0 && s.p[0] == ' ';
    const size_t n = letters(s, from);
    return n > 0 && s.n == from + 2 * n + 1 && s.p[from + n] == ' ' &&
           memcmp(s.p + from, s.p + from + n + 1, n) == 0;
}

/* Whether two of the token in a row are the text of two words, and that text the two tokens. */
static enum st is_word(struct arena *scratch, const struct tokenizer *t, int32_t id,
                       struct buf *text, bool *is, struct err *e)
{
    const int32_t pair[] = {id, id};
    int32_t *ids;
    size_t n = 0;
    *is = false;
    buf_clear(text);
    TRY(tokenizer_decode(t, pair, 2, true, text, e));
    if (!is_pair((struct sv){buf_str(text), text->n}))
        return ST_OK;
    TRY(tokenizer_encode(scratch, t, (struct sv){buf_str(text), text->n}, false, &ids, &n, e));
    *is = n == 2 && ids[0] == id && ids[1] == id;
    return ST_OK;
}

enum st prompt_words_find(struct arena *a, const struct tokenizer *t, struct prompt_words **out,
                          struct err *e)
{
    struct prompt_words *w = *out = arena_one(a, struct prompt_words);
    struct arena *scratch = arena_new();
    struct buf text = {0};
    enum st st;
    *w = (struct prompt_words){.t = t, .ids = arena_array(a, int32_t, MOST)};
    st = prompt_words_count(w, SV(""), true, &w->special, e);
    for (int64_t id = 0; id < tokenizer_vocab(t) && w->n < MOST && st == ST_OK; id++) {
        bool is;
        st = is_word(scratch, t, (int32_t)id, &text, &is, e);
        if (st == ST_OK && is)
            w->ids[w->n++] = (int32_t)id;
        arena_reset(scratch);
    }
    buf_free(&text);
    arena_free(&scratch);
    return st;
}

bool prompt_words_draw(const struct prompt_words *w, int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n && w->n > 0; i++)
        ids[i] = w->ids[(size_t)ids[i] % w->n];
    return w->n > 0;
}

enum st prompt_words_count(const struct prompt_words *w, struct sv text, bool special, int64_t *n,
                           struct err *e)
{
    struct arena *scratch = arena_new();
    int32_t *ids;
    size_t count = 0;
    enum st st = tokenizer_encode(scratch, w->t, text, special, &ids, &count, e);
    arena_free(&scratch);
    *n = (int64_t)count;
    return st;
}

/* The text of ids[0, keep) and of `fill` words after them; *got its tokens. */
static enum st try_text(const struct prompt_words *w, const int32_t *ids, size_t n, size_t keep,
                        size_t fill, bool special, struct buf *text, int64_t *got, struct err *e)
{
    int32_t *all = mem_alloc((keep + fill + 1) * sizeof *all);
    memcpy(all, ids, keep * sizeof *all);
    for (size_t i = 0; i < fill; i++)
        all[keep + i] = w->ids[(size_t)ids[(keep + i) % n] % w->n];
    buf_clear(text);
    enum st st = tokenizer_decode(w->t, all, keep + fill, true, text, e);
    mem_free(all);
    if (st == ST_OK)
        st = prompt_words_count(w, (struct sv){buf_str(text), text->n}, special, got, e);
    return st;
}

enum st prompt_words_text(struct arena *a, const struct prompt_words *w, const int32_t *ids,
                          size_t n, int64_t want, bool special, struct sv *out, int64_t *got,
                          struct err *e)
{
    struct buf text = {0};
    const int64_t room = want - (special ? w->special : 0);
    size_t keep = room < 0 ? 0 : room < (int64_t)n ? (size_t)room : n, fill = 0;
    enum st st = ST_OK;
    for (int i = 0; i < TRIES; i++) {
        st = try_text(w, ids, n, keep, fill, special, &text, got, e);
        if (st != ST_OK || *got == want || (keep == 0 && (fill > 0 || *got > want)))
            break;
        if (*got < want && fill == 0 && w->n > 0) { /* fill up what is missing */
            fill = (size_t)(want - *got);
            continue;
        }
        /* one token fewer, or as many as the text is too long by in proportion */
        const int64_t over = *got > want && fill == 0 ? (*got - want) * (int64_t)keep / *got : 0;
        keep -= over > 1 ? (size_t)over : keep > 0;
        fill = 0;
    }
    *out = (struct sv){arena_strn(a, buf_str(&text), text.n), text.n};
    buf_free(&text);
    return st;
}
