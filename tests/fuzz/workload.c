/* Any bytes as trace.csv, and, cut at a byte 1e, as the two tables of a workload directory and, if
 * there is a third part, its sessions.csv; as a stream each is what it is as a whole. */
#include "folder.h"
#include "workload/stream.h"

#define META(version, more)                                             \
    "{\"schema_version\": " version                                     \
    ", \"paths\": {\"prompts\": \"prompts.jsonl\", \"trace_lengths\": " \
    "\"trace_lengths.csv\", \"trace_intervals\": \"trace_intervals.csv\"" more "}}"
static const char meta[] = META("1", ""),
                  sessions_meta[] = META("2", ", \"sessions\": \"sessions.csv\"");

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
        REQUIRE(r->turn < 2 || (i && r[-1].turn == r->turn - 1));
        REQUIRE(r->turn < 2 || r[-1].session_id == r->session_id);
    }
}

static void same(enum st st, const struct workload *w, enum st opened, struct workload_stream *s)
{
    REQUIRE(st == opened);
    if (st != ST_OK)
        return;
    REQUIRE(workload_stream_total(s) == (int64_t)w->n);
    struct workload_request r;
    struct err e = {0};
    for (size_t i = 0; i < w->n; i++) {
        const struct workload_request *want = &w->requests[i];
        REQUIRE(workload_stream_next(s, &r, &e) == ST_OK);
        REQUIRE(r.request_id == want->request_id && r.arrival_s == want->arrival_s);
        REQUIRE(r.session_id == want->session_id && r.turn == want->turn);
        REQUIRE(r.think_ns == want->think_ns);
        REQUIRE(r.num_prefill_tokens == want->num_prefill_tokens);
        REQUIRE(!r.prompt_id == !want->prompt_id);
        REQUIRE(!r.prompt_id || strcmp(r.prompt_id, want->prompt_id) == 0);
    }
    REQUIRE(workload_stream_next(s, &r, &e) == ST_END);
    workload_stream_close(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new();
    struct err e = {0};
    struct err e2 = {0};
    struct workload w;
    struct workload_stream *s;
    const char *trace = folder_put(a, "trace.csv", data, size);
    enum st st = workload_load_trace(a, trace, &w, &e);
    check(st, &w, &e);
    enum st opened = workload_stream_trace(trace, &s, &e2);
    same(st, &w, opened, s);

    const uint8_t *cut = size ? memchr(data, 0x1e, size) : NULL;
    size_t lengths = cut ? (size_t)(cut - data) : size;
    size_t second = lengths + (cut != NULL);
    const uint8_t *cut2 = second < size ? memchr(data + second, 0x1e, size - second) : NULL;
    size_t intervals = (cut2 ? (size_t)(cut2 - data) : size) - second;
    if (cut2) {
        folder_put(a, "workload_meta.json", sessions_meta, sizeof sessions_meta - 1);
        folder_put(a, "sessions.csv", cut2 + 1, size - (size_t)(cut2 - data) - 1);
    } else {
        folder_put(a, "workload_meta.json", meta, sizeof meta - 1);
    }
    folder_put(a, "trace_lengths.csv", data, lengths);
    folder_put(a, "trace_intervals.csv", data + second, intervals);
    st = workload_load(a, folder(), &w, &e);
    check(st, &w, &e);
    opened = workload_stream_dir(folder(), &s, &e2);
    same(st, &w, opened, s);
    arena_free(&a);
    return 0;
}
