/* Any bytes as every record of latencies; those of inference-perf cut at a byte 1e into its two
 * files. What was read holds requests in order and percentiles that are no nonsense. */
#include <math.h>

#include "calibrate/observed.h"
#include "folder.h"

static void check_stage(const struct observed_stage *s)
{
    REQUIRE(s->completed >= 0 && s->failed >= 0 && s->w.n > 0);
    REQUIRE(s->warmup >= 0 && s->warmup < (int64_t)s->w.n);
    for (size_t i = 0; i < s->w.n; i++) {
        const struct workload_request *q = &s->w.requests[i];
        REQUIRE(q->request_id == (int64_t)i);
        REQUIRE(q->num_prefill_tokens >= 1 && q->num_decode_tokens >= 1);
        REQUIRE(q->arrival_ns >= (i ? q[-1].arrival_ns : 0));
    }
    for (int m = 0; m < OBSERVED_METRICS; m++)
        for (int k = 0; k < OBSERVED_POINTS; k++)
            REQUIRE(isnan(s->of[m].at[k]) || (s->completed > 0 && s->of[m].at[k] >= 0));
}

static void try_path(struct arena *a, const char *path)
{
    struct observed o;
    struct err e = {0};
    enum st st = observed_load(a, path, &o, &e);
    REQUIRE(st == ST_OK || st == ST_INPUT);
    for (size_t i = 0; st == ST_OK && i < o.n_stages; i++)
        check_stage(&o.stages[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new();
    const uint8_t *cut = size ? memchr(data, 0x1e, size) : NULL;
    if (cut) {
        size_t part = (size_t)(cut - data);
        folder_put(a, "experiment.json", data, part);
        folder_put(a, "stage_0_lifecycle_metrics.json", cut + 1, size - part - 1);
        try_path(a, folder());
    } else {
        try_path(a, folder_put(a, "record.json", data, size));
        try_path(a, folder_put(a, "record.jsonl", data, size));
    }
    arena_free(&a);
    return 0;
}
