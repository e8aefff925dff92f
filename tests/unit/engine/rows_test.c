#include "engine/rows.h"

#include <string.h>

#include "base/rng.h"
#include "support/support.h"

enum { SLOTS = 200, BATCHES = 3000, BLOCK = 4, VOCAB = 1000 };

/* A slot holds ids slot, slot + 1, ...; its blocks are 10 slot, 10 slot + 1, ... */
struct slots {
    int32_t ids[64], blocks[16];
    int64_t kv[8];
    struct sampling hot;
};

static struct slot_view view(void *self, int32_t slot)
{
    struct slots *s = self;
    for (int i = 0; i < 64; i++)
        s->ids[i] = slot + i;
    for (int i = 0; i < 16; i++)
        s->blocks[i] = 10 * slot + i;
    return (struct slot_view){.ids = s->ids,
                              .blocks = s->blocks,
                              .kv_tokens = s->kv[slot],
                              .sampling = slot == 3 ? &s->hot : NULL};
}

static const struct model model = {.vocab = VOCAB, .eos_ids = {70, 71}, .n_eos = 2};

static struct rows open_rows(struct slots *s)
{
    struct rows r;
    rows_open(&r, &(struct rows_params){.model = &model,
                                        .block_size = BLOCK,
                                        .num_blocks = 100,
                                        .max_tokens = 12,
                                        .max_rows = 3,
                                        .max_position = 40});
    rows_bind(&r, (struct slot_source){s, view});
    return r;
}

static void close_rows(struct rows *r, struct row_batch *b)
{
    rows_close(r);
    row_batch_free(b);
}

/* ---- the decode set, without tokens ------------------------------------------------------- */

/* Random changes, some batches at rest, against a table of flags. */
static void test_random_changes(void **state)
{
    (void)state;
    struct rows r;
    struct row_batch out = {0};
    struct err e = {0};
    bool in[2][SLOTS] = {{0}};
    struct rng rng = rng_stream(7, "decode_set");
    rows_open(&r, &(struct rows_params){.lanes = 2});
    rows_bind(&r, (struct slot_source){0});
    for (int i = 0; i < BATCHES; i++) {
        int32_t left[SLOTS], entered[SLOTS], n = 0;
        struct batch b = {.lane = i % 2, .left = left, .entered = entered};
        bool *set = in[i % 2];
        for (int32_t slot = SLOTS - 1; slot >= 0; slot--) {
            if (rng_below(&rng, 10) != 0)
                continue;
            if (set[slot])
                left[b.n_left++] = slot;
            else
                entered[b.n_entered++] = slot;
            set[slot] = !set[slot];
        }
        for (int32_t slot = 0; slot < SLOTS; slot++)
            n += set[slot];
        b.n_decodes = rng_below(&rng, 5) == 0 ? 0 : n;
        assert_ok(rows_resolve(&r, &b, &out, &e), &e);
        assert_int_equal(out.n_rows, b.n_decodes);
        for (int32_t at = 0, slot = 0; slot < SLOTS && b.n_decodes; slot++)
            if (set[slot])
                assert_int_equal(out.row_slot[at++], slot);
    }
    close_rows(&r, &out);
}

/* A slot that was released and used again leaves and enters with one batch. */
static void test_left_is_applied_first(void **state)
{
    (void)state;
    struct rows r;
    struct row_batch out = {0};
    struct err e = {0};
    const int32_t five = 5;
    rows_open(&r, &(struct rows_params){0});
    rows_bind(&r, (struct slot_source){0});
    const struct batch first = {.entered = &five, .n_entered = 1, .n_decodes = 1};
    const struct batch both = {
        .left = &five, .n_left = 1, .entered = &five, .n_entered = 1, .n_decodes = 1};
    assert_ok(rows_resolve(&r, &first, &out, &e), &e);
    assert_ok(rows_resolve(&r, &both, &out, &e), &e);
    assert_int_equal(out.n_rows, 1);
    assert_int_equal(out.row_slot[0], 5);
    rows_bind(&r, (struct slot_source){0}); /* a new run: nothing leaves */
    assert_ok(rows_resolve(&r, &first, &out, &e), &e);
    close_rows(&r, &out);
}

/* ---- tokens -------------------------------------------------------------------------------- */

static void test_tokens_and_places(void **state)
{
    (void)state;
    struct slots s = {.kv = {[1] = 9, [3] = 5}};
    struct rows r = open_rows(&s);
    struct row_batch out = {0};
    struct err e = {0};
    const struct chunk chunks[] = {{0, 0, 3, false}, {2, 4, 6, true}};
    const int32_t entered[] = {3, 1};
    const struct batch b = {.chunks = chunks,
                            .n_chunks = 2,
                            .entered = entered,
                            .n_entered = 2,
                            .n_decodes = 2,
                            .n_last_chunks = 1,
                            .prefill_tokens = 9};
    assert_ok(rows_resolve(&r, &b, &out, &e), &e);
    static const int32_t ids[] = {0, 1, 2, 6, 7, 8, 9, 10, 11, 10, 8};
    static const int64_t positions[] = {0, 1, 2, 4, 5, 6, 7, 8, 9, 9, 5};
    static const int64_t kv_at[] = {0, 1, 2, 84, 85, 86, 87, 88, 89, 49, 125};
    static const struct segment segments[] = {
        {0, 3, 0, NULL}, {3, 6, 4, NULL}, {9, 1, 9, NULL}, {10, 1, 5, NULL}};
    assert_int_equal(out.n_tokens, 11);
    assert_int_equal(out.n_chunks, 2);
    assert_int_equal(out.n_decodes, 2);
    for (int i = 0; i < 11; i++) {
        assert_int_equal(out.ids[i], ids[i]);
        assert_int_equal(out.positions[i], positions[i]);
        assert_int_equal(out.kv_at[i], kv_at[i]);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(out.segments[i].first, segments[i].first);
        assert_int_equal(out.segments[i].tokens, segments[i].tokens);
        assert_int_equal(out.segments[i].kv_before, segments[i].kv_before);
        assert_ptr_equal(out.segments[i].blocks, s.blocks);
    }
    assert_int_equal(out.top_block, 31);
    static const int32_t slots[] = {2, 1, 3};
    static const int64_t tokens[] = {8, 9, 10};
    assert_int_equal(out.n_rows, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(out.row_slot[i], slots[i]);
        assert_int_equal(out.row_token[i], tokens[i]);
        assert_ptr_equal(out.row_sampling[i], slots[i] == 3 ? &s.hot : NULL);
    }
    assert_true(out.sampled);
    close_rows(&r, &out);
}

static void test_ends(void **state)
{
    (void)state;
    struct slots s = {0};
    struct rows r = open_rows(&s);
    struct row_batch out = {0};
    struct err e = {0};
    const struct chunk chunks[] = {{0, 0, 1, true}, {4, 0, 1, true}, {5, 0, 1, true}};
    const struct batch b = {
        .chunks = chunks, .n_chunks = 3, .n_last_chunks = 3, .prefill_tokens = 3};
    const int32_t ids[] = {71, 72, 70};
    for (int ignore = 0; ignore < 2; ignore++) {
        struct completion done = {.ticket = 7};
        r.p.ignore_eos = ignore;
        assert_ok(rows_resolve(&r, &b, &out, &e), &e);
        assert_false(out.sampled);
        rows_answer(&r, &out, ids, &done);
        assert_int_equal(done.ticket, 7);
        assert_int_equal(done.n_tokens, 3);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(done.tokens[i].slot, chunks[i].slot);
            assert_int_equal(done.tokens[i].token_id, ids[i]);
        }
        assert_int_equal(done.n_ended, ignore ? 0 : 2);
        if (!ignore) {
            assert_int_equal(done.ended[0], 0);
            assert_int_equal(done.ended[1], 5);
        }
    }
    close_rows(&r, &out);
}

/* Two batches of a lane in flight: the second feeds what the first has not told yet. */
static void test_tokens_that_are_out(void **state)
{
    (void)state;
    struct slots s = {.kv = {[6] = 3}};
    struct rows r = open_rows(&s);
    struct row_batch a = {0}, b = {0}, c = {0};
    struct completion done = {0};
    struct err e = {0};
    const struct chunk chunk = {6, 0, 3, true};
    const int32_t six = 6, id = 1;
    const struct batch prompt = {
        .chunks = &chunk, .n_chunks = 1, .n_last_chunks = 1, .prefill_tokens = 3};
    const struct batch enter = {.entered = &six, .n_entered = 1, .n_decodes = 1};
    const struct batch on = {.n_decodes = 1};
    assert_ok(rows_resolve(&r, &prompt, &a, &e), &e);
    assert_ok(rows_resolve(&r, &enter, &b, &e), &e);
    assert_int_equal(b.ids[0], ROW_TOKEN_OUT);
    assert_int_equal(b.positions[0], 3);
    rows_answer(&r, &a, &id, &done);
    s.kv[6]++;
    assert_ok(rows_resolve(&r, &on, &c, &e), &e);
    assert_int_equal(c.ids[0], ROW_TOKEN_OUT);
    rows_answer(&r, &b, &id, &done);
    rows_answer(&r, &c, &id, &done);
    s.kv[6]++;
    assert_ok(rows_resolve(&r, &on, &a, &e), &e);
    assert_int_equal(a.ids[0], 6 + 5);
    row_batch_free(&b);
    row_batch_free(&c);
    close_rows(&r, &a);
}

static void refused(struct rows *r, struct chunk c, const char *text)
{
    struct err e = {0};
    struct row_batch out = {0};
    const struct batch b = {
        .chunks = &c, .n_chunks = 1, .prefill_tokens = c.tokens, .n_last_chunks = c.last};
    assert_int_equal(rows_resolve(r, &b, &out, &e), ST_USAGE);
    assert_cause(&e, text);
    row_batch_free(&out);
}

static void test_refused(void **state)
{
    (void)state;
    struct slots s = {0};
    struct rows r = open_rows(&s);
    struct row_batch none = {0};
    refused(&r, (struct chunk){0, 0, 13, true},
            "a batch of 13 tokens: the engine was opened for 12");
    refused(&r, (struct chunk){0, 30, 11, true},
            "a sequence of 41 tokens: the model and its KV cache hold 40 at most");
    const struct model small = {.vocab = 5};
    r.p.model = &small;
    refused(&r, (struct chunk){4, 0, 2, true}, "token id 5: the model has 5");
    r.p.max_rows = 1;
    struct err e = {0};
    const struct batch b = {.n_last_chunks = 2};
    assert_int_equal(rows_resolve(&r, &b, &none, &e), ST_USAGE);
    assert_cause(&e, "a batch of 2 emitting rows: the engine was opened for 1");
    close_rows(&r, &none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_changes),      cmocka_unit_test(test_left_is_applied_first),
        cmocka_unit_test(test_tokens_and_places),   cmocka_unit_test(test_ends),
        cmocka_unit_test(test_tokens_that_are_out), cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
