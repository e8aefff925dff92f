/* Any bytes as a Mooncake trace: requests in order of arrival with the ids their prompts need, or
 * an error that names the file. */
#include "folder.h"
#include "workload/workload.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new();
    struct err e = {0};
    struct workload w;
    const char *path = folder_put(a, "trace.jsonl", data, size);
    if (workload_load_mooncake(a, path, &w, &e) == ST_OK) {
        REQUIRE(w.n > 0);
        for (size_t i = 0; i < w.n; i++) {
            const struct workload_request *q = &w.requests[i];
            REQUIRE(q->num_prefill_tokens > 0 && q->num_decode_tokens > 0);
            REQUIRE(i == 0 || q->arrival_ns >= q[-1].arrival_ns);
            int64_t n = (q->num_prefill_tokens + MOONCAKE_BLOCK - 1) / MOONCAKE_BLOCK;
            REQUIRE(!q->hash_ids || (q->hash_ids[0] >= 0 && q->hash_ids[n - 1] >= 0));
        }
    } else {
        REQUIRE(e.st == ST_INPUT && strstr(err_cause(&e, 0), path));
    }
    arena_free(&a);
    return 0;
}
