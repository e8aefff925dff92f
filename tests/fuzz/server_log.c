/* Any bytes as a server's log: facts, or a named error. */
#include "fuzz.h"

#include <string.h>

#include "metrics/server_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new();
    struct server_log l;
    struct err e = {0};
    const struct sv text = {(const char *)data, size};
    const enum st st = server_log_parse(a, "fuzz", text, &l, &e);
    REQUIRE(st == ST_OK || (st == ST_INPUT && err_cause(&e, 0)));
    if (st == ST_OK) {
        const char *why;
        REQUIRE(server_log_states(text) && l.of[FACT_VERSION].value);
        REQUIRE(server_log_graph_tokens(&l) >= 0 && server_log_blocks(a, &l, 16, &why) >= 0);
        for (unsigned i = 0; i < FACTS; i++)
            REQUIRE(!l.of[i].value || l.of[i].line > 0);
    }
    arena_free(&a);
    return 0;
}
