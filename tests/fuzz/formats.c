/* Any bytes as every trace format; what was read is written and read again. */
#include "folder.h"
#include "workload/format.h"

static struct tokenizer *tokenizer(void)
{
    static const char text[] =
        "{\"version\": \"1.0\", \"added_tokens\": [], \"model\": {\"type\": \"BPE\", \"vocab\": "
        "{\"a\": 0}, \"merges\": [], \"byte_fallback\": false, \"unk_token\": \"a\"}}";
    static struct tokenizer *t;
    static bool tried;
    struct err e = {0};
    if (!tried) {
        struct arena *a = arena_new();
        tried = true;
        if (tokenizer_load(folder_put(a, "tokenizer.json", text, sizeof text - 1), &t, &e) != ST_OK)
            t = NULL;
        arena_free(&a);
    }
    return t;
}

static void check(const struct format_result *r)
{
    REQUIRE(r->w.n > 0 && r->left_out >= 0);
    for (size_t i = 0; i < r->w.n; i++) {
        const struct workload_request *q = &r->w.requests[i];
        REQUIRE(q->request_id == (int64_t)i);
        REQUIRE(q->num_prefill_tokens >= 1 && q->num_decode_tokens >= 1);
        REQUIRE(q->arrival_ns >= (i ? q[-1].arrival_ns : 0));
        REQUIRE(q->turn < 2 || (q[-1].turn == q->turn - 1 && q[-1].session_id == q->session_id));
    }
}

static void try_format(struct arena *a, const struct workload_format *f, const char *path)
{
    static const struct workload_params arrivals = {.arrival_kind = ARRIVAL_STATIC};
    struct format_params p = {.path = path, .arrivals = &arrivals, .tokenizer = tokenizer()};
    struct format_result r;
    struct err e = {0};
    if ((f->traits & FORMAT_TEXTS) && !p.tokenizer)
        return;
    enum st st = f->read(a, &p, &r, &e);
    if (st != ST_OK) {
        REQUIRE(st == ST_INPUT);
        return;
    }
    check(&r);
    const char **texts = arena_array(a, const char *, r.w.n);
    for (const struct workload_format *to = workload_formats; to->name; to++) {
        struct buf out = {0};
        if (to->write && to->write(&out, &r.w, texts, &e) == ST_OK) {
            struct format_result again;
            p.path = folder_put(a, "again", out.p, out.n);
            p.time_unit = "ms";
            REQUIRE(to->read(a, &p, &again, &e) == ST_OK && again.w.n == r.w.n);
            check(&again);
        }
        buf_free(&out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new();
    for (const struct workload_format *f = workload_formats; f->name; f++)
        try_format(a, f, folder_put(a, "trace", data, size));
    arena_free(&a);
    return 0;
}
