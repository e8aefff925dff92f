/* A tokenizer.json, then after a line "%%" a text: ids that are tokens and decode to valid UTF-8,
 * or a named error. */
#include "fuzz.h"

#include <string.h>

#include "model/tokenizer.h"

enum { MAX_TEXT = 512 }; /* a pattern may be quadratic */

static void check_text(struct arena *a, const struct tokenizer *t, struct sv text)
{
    struct err e = {0};
    struct buf out = {0};
    int32_t *ids;
    size_t n;
    if (tokenizer_encode(a, t, text, true, &ids, &n, &e) != ST_OK) {
        REQUIRE(e.st == ST_INPUT && err_cause(&e, 0));
        return;
    }
    for (size_t i = 0; i < n; i++)
        REQUIRE(ids[i] >= 0 && ids[i] < tokenizer_vocab(t));
    REQUIRE(tokenizer_decode(t, ids, n, false, &out, &e) == ST_OK);
    REQUIRE(str_utf8_valid(buf_str(&out), out.n) == out.n);
    buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new();
    char *all = arena_strn(a, (const char *)data, size), *line = strstr(all, "\n%%\n");
    struct sv file = {all, line ? (size_t)(line - all) : size};
    struct sv text = line ? (struct sv){line + 4, size - (size_t)(line + 4 - all)} : SV("a b");
    struct tokenizer *t;
    struct err e = {0};
    if (text.n > MAX_TEXT)
        text.n = MAX_TEXT;
    if (tokenizer_load_bytes("tokenizer.json", file, &t, &e) == ST_OK)
        check_text(a, t, text);
    else
        REQUIRE(e.st == ST_INPUT && err_cause(&e, 0));
    tokenizer_free(&t);
    arena_free(&a);
    return 0;
}
