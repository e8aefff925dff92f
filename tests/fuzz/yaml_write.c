/* A tree read from YAML or JSON, written as YAML and read again is the same tree. */
#include "fuzz.h"

#include "text/json.h"
#include "text/yaml.h"
#include "trees.h"

static void round_trip(struct arena *a, const struct node *n)
{
    struct buf text = {0}, second = {0};
    struct node *again;
    struct err e = {0};
    yaml_write(&text, n);
    if (text.n <= YAML_MAX_BYTES) {
        REQUIRE(yaml_parse(a, "again", (struct sv){text.p, text.n}, &again, &e) == ST_OK);
        REQUIRE(trees_equal(n, again, false));
        yaml_write(&second, again);
        REQUIRE(text.n == second.n && memcmp(text.p, second.p, text.n) == 0);
    }
    buf_free(&text);
    buf_free(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new();
    struct sv text = {(const char *)data, size};
    struct node *n;
    struct err e = {0};
    if (yaml_parse(a, "fuzz", text, &n, &e) == ST_OK)
        round_trip(a, n);
    if (json_parse(a, "fuzz", text, NULL, &n, &e) == ST_OK)
        round_trip(a, n);
    arena_free(&a);
    return 0;
}
