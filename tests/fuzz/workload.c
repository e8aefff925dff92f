/* Any bytes as trace.csv, and, cut at a byte 1e, as the two tables of a workload directory. */
#include "workload/workload.h"
#include "folder.h"

static const char meta[] = "{\"schema_version\": 1, \"paths\": {\"prompts\": \"prompts.jsonl\", "
                           "\"trace_lengths\": \"trace_lengths.csv\", \"trace_intervals\": "
                           "\"trace_intervals.csv\"}}";

static void check(enum st st, const struct workload *w, const struct err *e)
{
    if (st != ST_OK) {
        REQUIRE(st == ST_INPUT && strstr(err_cause(e, 0), folder()));
        return;
    }
    REQUIRE(w->n > 0);
    for (size_t i = 0; i < w->n; i++) {
        const struct workload_request *r = &w->requests[i];
        REQUIRE(r->request_id >= 0 && r->num_prefill_tokens >= 1 && r->num_decode_tokens >= 1);
        REQUIRE(r->arrival_ns >= (i ? r[-1].arrival_ns : 0));
        REQUIRE(r->arrival_s >= (i ? r[-1].arrival_s : 0));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new();
    struct err e = {0};
    struct workload w;
    const char *trace = folder_put(a, "trace.csv", data, size);
    check(workload_load_trace(a, trace, &w, &e), &w, &e);

    const uint8_t *cut = size ? memchr(data, 0x1e, size) : NULL;
    size_t lengths = cut ? (size_t)(cut - data) : size;
    folder_put(a, "workload_meta.json", meta, sizeof meta - 1);
    folder_put(a, "trace_lengths.csv", data, lengths);
    folder_put(a, "trace_intervals.csv", data + lengths + (cut != NULL),
               size - lengths - (cut != NULL));
    check(workload_load(a, folder(), &w, &e), &w, &e);
    arena_free(&a);
    return 0;
}
