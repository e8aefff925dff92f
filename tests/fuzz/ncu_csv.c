/* Any bytes as a table of Nsight Compute: launches whose texts are UTF-8 and whose values are
 * finite numbers of known metrics, or a named error. */
#include "fuzz.h"

#include <math.h>
#include <string.h>

#include "deep/figures.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new();
    struct ncu_table t;
    struct deep_roofs roofs;
    struct hardware rates = {0};
    struct err e = {0};
    ncu_table_init(&t, a);
    enum st st = ncu_csv_parse(&t, "fuzz", (struct sv){(const char *)data, size}, &e);
    REQUIRE(st == ST_OK || (st == ST_INPUT && err_cause(&e, 0)));
    struct err none = {0};
    REQUIRE(deep_roofs_make(a, NULL, &rates, &t, &roofs, &none) == ST_OK);
    for (size_t i = 0; i < t.launches.n; i++) {
        const struct ncu_launch *l = &t.launches.p[i];
        REQUIRE(str_utf8_valid(l->kernel, strlen(l->kernel)) == strlen(l->kernel));
        for (size_t k = 0; k < l->n_values; k++)
            REQUIRE(l->values[k].metric < t.metrics.n && isfinite(l->values[k].v));
        struct deep_figures f = deep_figures_of(&t, l);
        struct deep_place p = deep_place_of(a, &f, &roofs);
        REQUIRE(p.class < DEEP_CLASSES);
        ncu_inside(l, "a*b?");
    }
    ncu_table_free(&t);
    arena_free(&a);
    return 0;
}
