/* Overrides, one a line, as a sweep: jobs that are no sweeps themselves, or a named error. */
#include "fuzz.h"

#include <string.h>

#include "config/config.h"
#include "config/override.h"

enum { MAX_OVERRIDES = 8 };

static void check_job(struct arena *a, const char *const *overrides, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct err e = {0};
        struct override o;
        struct node *value;
        REQUIRE(override_parse(a, overrides[i], &o, &e) == ST_OK);
        if (o.kind != OVERRIDE_REMOVE && override_value(a, &o, VALUE_TYPED, &value, &e) != ST_OK)
            REQUIRE(e.st == ST_USAGE && err_cause(&e, 0));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new();
    const char *overrides[MAX_OVERRIDES];
    struct config_args args = {.command = COMMAND_BENCH, .overrides = overrides};
    for (char *line = arena_strn(a, (const char *)data, size); line;) {
        char *end = strchr(line, '\n');
        if (end)
            *end = 0;
        if (args.n_overrides < MAX_OVERRIDES)
            overrides[args.n_overrides++] = line;
        line = end ? end + 1 : NULL;
    }
    const char *const **jobs;
    size_t n;
    struct err e = {0};
    if (config_sweep(a, &args, &jobs, &n, &e) == ST_OK) {
        REQUIRE(n >= 1);
        for (size_t i = 0; i < n && i < 8; i++)
            check_job(a, jobs[i], args.n_overrides);
    } else {
        REQUIRE(e.st == ST_USAGE && err_cause(&e, 0));
    }
    arena_free(&a);
    return 0;
}
