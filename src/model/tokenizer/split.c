#include "model/tokenizer/split.h"

#include <string.h>

#include "model/tokenizer/normalize.h"

void split_pieces_free(struct split_pieces *p)
{
    buf_free(&p->text);
    buf_free(&p->spare_text);
    vec_free(&p->list);
    vec_free(&p->spare);
    regex_match_free(&p->match);
}

static void keep(struct split_pieces *p, size_t begin, size_t end, bool first)
{
    if (begin < end)
        vec_push(&p->spare, (struct piece){begin, end, first});
}

static enum st by_regex(const struct splitter *s, struct piece in, struct split_pieces *p,
                        struct err *e)
{
    struct sv text = {p->text.p + in.begin, in.end - in.begin};
    size_t at = 0, begin, end;
    if (!p->match)
        p->match = regex_match_new();
    for (;;) {
        TRY(regex_find(s->regex, p->match, text, at, &begin, &end, e));
        if (!s->drop_gaps)
            keep(p, in.begin + at, in.begin + begin, in.first && at == 0);
        if (begin == end)
            return ST_OK;
        if (!s->drop_matches)
            keep(p, in.begin + begin, in.begin + end, in.first && begin == 0);
        at = end;
    }
}

static bool starts_with(struct sv text, struct sv with)
{
    return text.n >= with.n && memcmp(text.p, with.p, with.n) == 0;
}

/* Replaces a piece by its rewriting at the end of the spare text. */
static void rewritten(const struct splitter *s, struct piece in, struct split_pieces *p)
{
    struct sv text = {p->text.p + in.begin, in.end - in.begin};
    size_t begin = p->spare_text.n;
    if (s->kind == SPLIT_PREFIX) {
        if (!starts_with(text, SV(" ")))
            buf_putc(&p->spare_text, ' ');
        buf_add(&p->spare_text, text.p, text.n);
    } else {
        bool wanted = s->front == FRONT_ALWAYS || (s->front == FRONT_FIRST && in.first);
        if (wanted && !starts_with(text, SV(" ")) && !starts_with(text, s->space))
            buf_add(&p->spare_text, s->space.p, s->space.n);
        tokenizer_replace_all(&p->spare_text, text, SV(" "), s->space);
    }
    keep(p, begin, p->spare_text.n, in.first);
}

static void at_spaces(const struct splitter *s, struct piece in, struct split_pieces *p)
{
    size_t begin = in.begin;
    bool first = in.first;
    for (size_t i = in.begin + 1; i < in.end; i++) {
        if (!starts_with((struct sv){p->text.p + i, in.end - i}, s->space))
            continue;
        keep(p, begin, i, first);
        begin = i;
        first = false;
    }
    keep(p, begin, in.end, first);
}

#define SWAP(type, a, b) \
    do {                 \
        type t_ = a;     \
        a = b;           \
        b = t_;          \
    } while (0)

static enum st run(const struct splitter *s, struct split_pieces *p, struct err *e)
{
    bool rewrites = s->kind == SPLIT_PREFIX || s->kind == SPLIT_METASPACE;
    vec_clear(&p->spare);
    buf_clear(&p->spare_text);
    for (size_t i = 0; i < p->list.n; i++) {
        if (rewrites)
            rewritten(s, p->list.p[i], p);
        else if (s->kind == SPLIT_AT_METASPACE)
            at_spaces(s, p->list.p[i], p);
        else
            TRY(by_regex(s, p->list.p[i], p, e));
    }
    SWAP(struct piece *, p->list.p, p->spare.p);
    SWAP(size_t, p->list.n, p->spare.n);
    SWAP(size_t, p->list.cap, p->spare.cap);
    if (rewrites)
        SWAP(struct buf, p->text, p->spare_text);
    return ST_OK;
}

enum st tokenizer_split(const struct splitters *s, struct sv text, bool first,
                        struct split_pieces *p, struct err *e)
{
    buf_clear(&p->text);
    buf_add(&p->text, text.p, text.n);
    vec_clear(&p->list);
    if (text.n > 0)
        vec_push(&p->list, (struct piece){0, text.n, first});
    for (size_t i = 0; i < s->steps.n; i++)
        TRY(run(&s->steps.p[i], p, e));
    return ST_OK;
}
