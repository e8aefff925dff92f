/* Any bytes as a YAML document: an answer or a named error. */
#include "fuzz.h"

#include "text/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new();
    struct sv text = {(const char *)data, size};
    struct node *n;
    struct err e = {0};
    if (yaml_parse(a, "fuzz", text, &n, &e) != ST_OK)
        REQUIRE(e.st == ST_INPUT && err_cause(&e, 0));
    arena_free(&a);
    return 0;
}
