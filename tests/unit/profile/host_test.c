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

/* A fake executor that says what launching took: 1 ms with chunks, behind such a batch a second. */
static struct launches {
    struct executor of;
    double s[4]; /* of the batches in flight */
    uint64_t given, taken;
    bool chunks;
} launches;

static enum st launch(void *self, const struct batch *b, uint64_t *ticket, struct err *e)
{
    launches.s[launches.given++ % 4] = b->n_chunks == 0 ? 1e-5 : launches.chunks ? 1 : 1e-3;
    launches.chunks = b->n_chunks > 0;
    return launches.of.ops->submit(self, b, ticket, e);
}

static enum st launched(void *self, double deadline_s, struct completion *out, struct err *e)
{
    TRY(launches.of.ops->next(self, deadline_s, out, e));
    out->prepare_s = 1e-6;
    out->launch_s = launches.s[launches.taken++ % 4];
    return ST_OK;
}

/* Prompts of the beginning take several batches, those of replaced requests one each. */
static void launches_behind_kernels_do_not_count(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct tmp tmp = tmp_new();
    struct err e = {0};
    struct journal j = {0};
    struct serve_clock clock = clock_virtual();
    const struct fake_params fake = {.computes = true,
                                     .max_in_flight = 2,
                                     .batch_s = 1e-3,
                                     .block_size = 16,
                                     .num_blocks = 4096};
    const struct profile_params p = {.model = &m,
                                     .block_size = 16,
                                     .num_blocks = 4096,
                                     .max_tokens = 512,
                                     .max_batch = 64,
                                     .max_kv = 2048,
                                     .clock = &clock};
    launches = (struct launches){.of = fake_executor(&fake)};
    struct executor_ops ops = *launches.of.ops;
    ops.submit = launch;
    ops.next = launched;
    const struct executor ex = {.ops = &ops, .self = launches.of.self};
    assert_ok(journal_open(a, tmp.dir, "key", 1, &j, &e), &e);
    assert_ok(host_measure(&p, ex, 6, 12, NULL, &j, &e), &e);
    int prompts = 0;
    for (size_t i = 0; i < j.host.n; i++) {
        prompts += j.host.p[i].chunks > 0;
        assert_near(j.host.p[i].launch_s, j.host.p[i].chunks ? 1e-3 : 1e-5, 0);
    }
    assert_true(prompts > 0 && (size_t)prompts < j.host.n);
    journal_close(&j);
    ops.close(ex.self);
    tmp_free(&tmp);
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches_behind_kernels_do_not_count),
        cmocka_unit_test(prompts_are_longer_where_kernels_are_launched_ahead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
