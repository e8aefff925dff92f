/* Any bytes as a file of `vllm bench forward`: cases whose sums agree, or a named error. */
#include "fuzz.h"

#include <math.h>

#include "calibrate/forward.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new();
    struct forward_bench b;
    struct err e = {0};
    const struct sv text = {(const char *)data, size};
    const enum st st = forward_parse(a, "fuzz", text, NULL, &b, &e);
    REQUIRE(st == ST_OK || (st == ST_INPUT && err_cause(&e, 0)));
    for (size_t i = 0; st == ST_OK && i < b.n; i++) {
        const struct forward_case *c = &b.of[i];
        REQUIRE(c->device_s > 0 && isfinite(c->device_s) && c->spread >= 0);
        REQUIRE(c->load.tokens >= c->load.seqs + c->chunks && c->load.seqs + c->chunks > 0);
        REQUIRE(c->load.kv_tokens >= c->load.seqs && c->load.rows == 0);
    }
    REQUIRE(st != ST_OK || (b.n > 0 && b.gpus > 0));
    arena_free(&a);
    return 0;
}
