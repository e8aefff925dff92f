/* A template is refused when it is read, with a text, or rendered, or refused then: within bounds
 * of time and memory. Up to the first newline of the input stand the variables, as JSON. */
#include "fuzz.h"

#include <string.h>

#include "text/jinja.h"
#include "text/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct json_limits limits = {.max_depth = 12, .max_bytes = 1 << 16};
    struct arena *a = arena_new();
    struct err e = {0};
    struct node *variables = NULL;
    struct jinja *program;
    struct buf out = {0};
    const char *text = (const char *)data, *end = size ? memchr(text, '\n', size) : NULL;
    const size_t head = end ? (size_t)(end - text) : 0;
    if (head == 0 || json_parse(a, "variables", (struct sv){text, head}, &limits, &variables, &e) ||
        variables->kind != NODE_MAP)
        variables = node_new(a, NODE_MAP);
    err_clear(&e);
    const struct sv template = {text + head, size - head};
    enum st st = jinja_parse(a, "t", template, &program, &e);
    if (st == ST_OK)
        st = jinja_render(a, program, variables, &out, &e);
    REQUIRE(st == ST_OK || (st == ST_INPUT && e.st == ST_INPUT));
    buf_free(&out);
    arena_free(&a);
    return 0;
}
