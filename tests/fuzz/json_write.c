/* A tree that was read, written and read again is the same tree, in either style. */
#include "fuzz.h"

#include "text/json.h"
#include "trees.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new();
    struct node *n, *again;
    struct err e = {0};
    if (json_parse(a, "fuzz", (struct sv){(const char *)data, size}, NULL, &n, &e) == ST_OK) {
        for (int indent = 0; indent <= 2; indent += 2) {
            struct buf text = {0}, second = {0};
            json_write(&text, n, indent, false);
            REQUIRE(json_parse(a, "again", (struct sv){text.p, text.n}, NULL, &again, &e) == ST_OK);
            REQUIRE(trees_equal(n, again, true));
            json_write(&second, again, indent, false);
            REQUIRE(text.n == second.n && memcmp(text.p, second.p, text.n) == 0);
            buf_clear(&second);
            json_write(&second, n, indent, true);
            REQUIRE(text.n == second.n);
            buf_free(&text);
            buf_free(&second);
        }
    }
    arena_free(&a);
    return 0;
}
