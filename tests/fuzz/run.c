/* Any bytes, cut at two bytes 1e, as the three tables of a run: rows in order that are
 * read back as they were written, or an error that names the file. */
#include "artifact/run.h"
#include "folder.h"

static const char meta[] = "{\"schema_version\": 1, \"run_type\": \"real\"}";
static const char *const files[] = {"request_metrics.csv", "token_metrics.csv", "batches.csv"};

static void put_files(struct arena *a, const uint8_t *p, size_t n)
{
    struct err e = {0};
    folder_put(a, "run_meta.json", meta, sizeof meta - 1);
    for (int i = 0; i < 3; i++) {
        const uint8_t *cut = n && i < 2 ? memchr(p, 0x1e, n) : NULL;
        size_t part = cut ? (size_t)(cut - p) : n;
        if (i == 0 || part > 0)
            folder_put(a, files[i], p, part);
        else
            fs_remove_tree(fs_join(a, folder(), files[i]), &e);
        p += part + (cut != NULL);
        n -= part + (cut != NULL);
    }
}

static void check_order(const struct run *r)
{
    for (size_t i = 1; i < r->n_requests; i++)
        REQUIRE(r->requests[i - 1].request_id < r->requests[i].request_id);
    for (size_t i = 0; r->tokens && i < r->n_requests; i++)
        for (size_t k = r->first_token[i]; k < r->first_token[i + 1]; k++) {
            const struct run_token *t = &r->tokens[k];
            REQUIRE(t->request_id == r->requests[i].request_id);
            REQUIRE(t->token_index == (int64_t)(k - r->first_token[i]));
            REQUIRE(t->token_index == 0 || t->token_time_ns >= t[-1].token_time_ns);
        }
    REQUIRE(!r->tokens || r->first_token[r->n_requests] == r->n_tokens);
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static void check_same(const struct run_request *a, const struct run_request *b)
{
    REQUIRE(a->request_id == b->request_id && a->arrival_ns == b->arrival_ns);
    REQUIRE(a->sent_ns == b->sent_ns && a->scheduled_ns == b->scheduled_ns);
    REQUIRE(a->first_token_ns == b->first_token_ns && a->completion_ns == b->completion_ns);
    REQUIRE(a->num_prefill_tokens == b->num_prefill_tokens);
    REQUIRE(a->num_decode_tokens == b->num_decode_tokens);
    REQUIRE(a->num_decode_tokens_actual == b->num_decode_tokens_actual);
    REQUIRE(a->preemptions == b->preemptions && a->status == b->status && a->warmup == b->warmup);
    REQUIRE(same_text(a->prompt_id, b->prompt_id) && same_text(a->backend, b->backend));
    REQUIRE(same_text(a->error_type, b->error_type) && same_text(a->error_msg, b->error_msg));
}

static void check_round_trip(struct arena *a, const struct run *r)
{
    struct err e = {0};
    struct run_writer *w;
    struct run back;
    struct artifact art = {.a = a, .partial = {.path = folder(), .lock = -1}};
    for (int i = 0; i < 3; i++)
        fs_remove_tree(fs_join(a, folder(), files[i]), &e);
    REQUIRE(run_writer_open(&art, r->tokens, r->batches, &w, &e) == ST_OK);
    for (size_t i = r->n_requests; i > 0; i--)
        run_write_request(w, &r->requests[i - 1]);
    for (size_t i = 0; i < r->n_tokens; i++)
        run_write_token(w, &r->tokens[i]);
    for (size_t i = 0; i < r->n_batches; i++)
        run_write_batch(w, &r->batches[i]);
    REQUIRE(run_writer_close(&w, &e) == ST_OK);
    REQUIRE(run_load(a, folder(), "real", &back, &e) == ST_OK);
    REQUIRE(back.n_requests == r->n_requests && back.n_tokens == r->n_tokens &&
            back.n_batches == r->n_batches);
    for (size_t i = 0; i < r->n_requests; i++)
        check_same(&r->requests[i], &back.requests[i]);
    for (size_t i = 0; i < r->n_tokens; i++)
        REQUIRE(memcmp(&r->tokens[i], &back.tokens[i], sizeof *r->tokens) == 0);
    for (size_t i = 0; i < r->n_batches; i++)
        REQUIRE(memcmp(&r->batches[i], &back.batches[i], sizeof *r->batches) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new();
    struct err e = {0};
    struct run r;
    put_files(a, data, size);
    if (run_load(a, folder(), "real", &r, &e) == ST_OK) {
        check_order(&r);
        check_round_trip(a, &r);
    } else {
        REQUIRE(e.st == ST_INPUT && strstr(err_cause(&e, 0), folder()));
    }
    arena_free(&a);
    return 0;
}
