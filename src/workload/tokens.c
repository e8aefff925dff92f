#include <string.h>

#include "base/rng.h"
#include "workload/workload.h"

enum st workload_count_tokens(struct arena *a, const struct tokenizer *t, const struct prompt *p,
                              size_t n, int64_t **counts, struct err *e)
{
    *counts = arena_array(a, int64_t, n);
    struct arena *scratch = arena_new();
    enum st st = ST_OK;
    for (size_t i = 0; i < n && st == ST_OK; i++) {
        int32_t *ids;
        size_t n_ids = 0;
        arena_reset(scratch);
        st = tokenizer_encode(scratch, t, sv_of(p[i].text), true, &ids, &n_ids, e);
        if (st == ST_OK && n_ids == 0)
            st = err_set(e, ST_INPUT, "the text gives no tokens");
        if (st != ST_OK)
            err_add(e, "cannot tokenize prompt '%.200s'", p[i].id);
        (*counts)[i] = (int64_t)n_ids;
    }
    arena_free(&scratch);
    return st;
}

static void draw_ids(uint64_t seed, const char *kind, int64_t id, int64_t vocab, int32_t *out,
                     int64_t n)
{
    char stream[64];
    snprintf(stream, sizeof stream, "workload.%s.%lld", kind, (long long)id);
    struct rng rng = rng_stream(seed, stream);
    for (int64_t i = 0; i < n; i++)
        out[i] = (int32_t)rng_below(&rng, (uint64_t)vocab);
}

static void random_ids(const struct workload_request *r, int64_t vocab, uint64_t seed, int32_t *out)
{
    int64_t n = r->num_prefill_tokens;
    if (!r->hash_ids) {
        draw_ids(seed, "prompt_ids", r->request_id, vocab, out, n);
        return;
    }
    for (int64_t at = 0, i = 0; at < n; at += r->hash_tokens, i++)
        draw_ids(seed, "hash_ids", r->hash_ids[i], vocab, out + at,
                 n - at < r->hash_tokens ? n - at : r->hash_tokens);
}

enum st workload_prompt_ids(struct arena *scratch, const struct workload_request *r,
                            const char *text, const struct tokenizer *tok, int64_t vocab,
                            uint64_t seed, int32_t *out, struct err *e)
{
    ASSERT(vocab > 0 && vocab <= INT32_MAX);
    if (!text) {
        random_ids(r, vocab, seed, out);
        return ST_OK;
    }
    if (!tok)
        return err_set(e, ST_USAGE, "request %lld has a prompt, but the model has no tokenizer",
                       (long long)r->request_id);
    int32_t *ids;
    size_t n = 0;
    TRY(tokenizer_encode(scratch, tok, sv_of(text), true, &ids, &n, e));
    if (n == 0)
        return err_set(e, ST_INPUT, "the prompt of request %lld gives no tokens",
                       (long long)r->request_id);
    for (int64_t i = 0; i < r->num_prefill_tokens; i++) {
        int32_t id = ids[(size_t)i % n];
        if (id < 0 || id >= vocab) {
            err_set(e, ST_INPUT,
                    "token id %d of request %lld is not below the model's vocabulary %lld", id,
                    (long long)r->request_id, (long long)vocab);
            return err_hint(e, "is the tokenizer the model's own?");
        }
        out[i] = id;
    }
    return ST_OK;
}
