#include "model/tokenizer/added.h"

#include "model/tokenizer/utf8.h"

struct added_node {
    unsigned char byte;
    uint32_t child, sibling; /* index into nodes, 0 = none */
    const struct added_token *token;
};

void added_put(struct added_trie *t, struct sv text, const struct added_token *token)
{
    if (t->nodes.n == 0)
        vec_push(&t->nodes, (struct added_node){0});
    uint32_t at = 0;
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        uint32_t child = t->nodes.p[at].child;
        while (child && t->nodes.p[child].byte != c)
            child = t->nodes.p[child].sibling;
        if (!child) {
            child = (uint32_t)t->nodes.n;
            vec_push(&t->nodes, (struct added_node){.byte = c, .sibling = t->nodes.p[at].child});
            t->nodes.p[at].child = child;
        }
        at = child;
    }
    if (at)
        t->nodes.p[at].token = token;
}

void added_free(struct added_trie *t)
{
    vec_free(&t->nodes);
}

static const struct added_token *longest_at(const struct added_trie *t, struct sv text, size_t from,
                                            size_t *end)
{
    const struct added_token *found = NULL;
    uint32_t at = 0;
    for (size_t i = from; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        at = t->nodes.p[at].child;
        while (at && t->nodes.p[at].byte != c)
            at = t->nodes.p[at].sibling;
        if (!at)
            break;
        if (t->nodes.p[at].token) {
            found = t->nodes.p[at].token;
            *end = i + 1;
        }
    }
    return found;
}

static bool word_around(struct sv text, size_t begin, size_t end)
{
    size_t n;
    if (begin > 0) {
        size_t last = utf8_back(text.p, begin);
        if (utf8_is_word(utf8_get(text.p + last, &n)))
            return true;
    }
    return end < text.n && utf8_is_word(utf8_get(text.p + end, &n));
}

static size_t skip_spaces_back(struct sv text, size_t end, size_t least)
{
    size_t n;
    while (end > least) {
        size_t last = utf8_back(text.p, end);
        if (!utf8_is_space(utf8_get(text.p + last, &n)))
            break;
        end = last;
    }
    return end > least ? end : least;
}

static size_t skip_spaces(struct sv text, size_t at)
{
    size_t n;
    while (at < text.n && utf8_is_space(utf8_get(text.p + at, &n)))
        at += n;
    return at;
}

/* The next token at or behind s->from, widened by the white space it strips. */
static bool find_token(struct added_scan *s, struct added_span *out)
{
    if (s->trie->nodes.n == 0)
        return false;
    while (s->from < s->text.n) {
        size_t begin = s->from, end = 0;
        const struct added_token *t = longest_at(s->trie, s->text, begin, &end);
        s->from = t ? end : begin + 1;
        if (!t || (t->single_word && word_around(s->text, begin, end)))
            continue;
        if (t->lstrip)
            begin = skip_spaces_back(s->text, begin, s->begin);
        if (t->rstrip)
            end = skip_spaces(s->text, end);
        *out = (struct added_span){begin, end, t};
        return true;
    }
    return false;
}

bool added_next(struct added_scan *s, struct added_span *out)
{
    if (s->held.token) {
        *out = s->held;
        s->held.token = NULL;
        return true;
    }
    struct added_span found;
    if (!find_token(s, &found)) {
        *out = (struct added_span){s->begin, s->text.n, NULL};
        s->begin = s->text.n;
        return out->begin < out->end;
    }
    size_t begin = s->begin;
    s->begin = found.end;
    if (begin >= found.begin) {
        *out = found;
        return true;
    }
    s->held = found;
    *out = (struct added_span){begin, found.begin, NULL};
    return true;
}
