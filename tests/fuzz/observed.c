/* Any bytes as every record of latencies, under the names that formats are known by; those of
 * inference-perf cut at a byte 1e into its two files, or at 1f with its own configuration. What was
 * read holds requests in order and percentiles that are no nonsense. */
#include <math.h>
#include <unistd.h>

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

static void try_folder(struct arena *a, const char *plan, const uint8_t *data, const uint8_t *cut,
                       size_t size)
{
    const size_t part = (size_t)(cut - data);
    unlink(fs_join(a, folder(), "experiment.json"));
    folder_put(a, plan, data, part);
    folder_put(a, "stage_0_lifecycle_metrics.json", cut + 1, size - part - 1);
    try_path(a, folder());
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"record.json",  "record.jsonl", "record.csv",
                                        "summary.json", "summary.csv",  "a_summary.json"};
    struct arena *a = arena_new();
    const uint8_t *cut = size ? memchr(data, 0x1e, size) : NULL;
    const uint8_t *own = size ? memchr(data, 0x1f, size) : NULL;
    if (cut)
        try_folder(a, "experiment.json", data, cut, size);
    else if (own)
        try_folder(a, "config.yaml", data, own, size);
    for (size_t i = 0; !cut && !own && i < sizeof names / sizeof *names; i++) {
        const char *path = folder_put(a, names[i], data, size);
        try_path(a, path);
        unlink(path);
    }
    arena_free(&a);
    return 0;
}
