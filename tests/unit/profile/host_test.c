#include "profile/host.h"

#include "support/fake_executor.h"
#include "support/support.h"

static const struct model m = {.act = ACT_SILU_GATED,
                               .layers = 2,
                               .hidden = 64,
                               .heads = 4,
                               .kv_heads = 2,
                               .head_dim = 16,
                               .intermediate = 128,
                               .vocab = FAKE_VOCAB};

static void longest_chunk(void *self, const struct batch *b)
{
    int64_t *longest = self;
    for (int32_t i = 0; i < b->n_chunks; i++)
        if (b->chunks[i].tokens > *longest)
            *longest = b->chunks[i].tokens;
}

/* Tokens of the prompts of runs with that many sequences. */
static int64_t prompts_of(int32_t in_flight, int64_t batch, int64_t max_kv, int64_t num_blocks)
{
    struct arena *a = arena_new();
    struct tmp tmp = tmp_new();
    struct err e = {0};
    struct journal j = {0};
    struct serve_clock clock = clock_virtual();
    int64_t longest = 0;
    const struct fake_params fake = {.computes = true,
                                     .max_in_flight = in_flight,
                                     .batch_s = 1e-3,
                                     .block_size = 16,
                                     .num_blocks = num_blocks,
                                     .seen = longest_chunk,
                                     .seen_self = &longest};
    const struct profile_params p = {.model = &m,
                                     .block_size = 16,
                                     .num_blocks = num_blocks,
                                     .max_tokens = 512,
                                     .max_batch = 64,
                                     .max_kv = max_kv,
                                     .clock = &clock};
    struct executor ex = fake_executor(&fake);
    assert_ok(journal_open(a, tmp.dir, "key", 1, &j, &e), &e);
    assert_ok(host_measure(&p, ex, batch, 6, NULL, &j, &e), &e);
    assert_true(j.host.n > 0);
    journal_close(&j);
    ex.ops->close(ex.self);
    tmp_free(&tmp);
    arena_free(&a);
    return longest;
}

/* A GPU's engine launches other kernels for few tokens than for a prompt. */
static void prompts_are_longer_where_kernels_are_launched_ahead(void **state)
{
    (void)state;
    assert_int_equal(prompts_of(1, 4, 2048, 4096), 8);
    assert_int_equal(prompts_of(2, 1, 2048, 4096), 128);
    assert_int_equal(prompts_of(2, 16, 2048, 4096), 128);
    assert_int_equal(prompts_of(2, 4, 100, 4096), 32);  /* half of the longest sequence */
    assert_int_equal(prompts_of(2, 16, 2048, 128), 64); /* of the cache's share: 128 tokens */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_are_longer_where_kernels_are_launched_ahead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
