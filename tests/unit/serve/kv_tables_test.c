/* What must hold of block tables whatever the workload; that they are vLLM's, batch by batch, is
 * what tests/vllm compares. */
#include "serve/kv_tables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "serve/sched/sched.h"
#include "support/random_case.h"
#include "support/support.h"

enum { SEEDS = 40, BLOCK = 4 };

/* Groups of one spec each but for the windows, which have two. */
static struct kv_groups groups_of(const char *kinds, bool caching)
{
    struct kv_groups g = {.lcm_tokens = BLOCK, .hash_tokens = BLOCK};
    for (; *kinds; kinds++) {
        struct kv_group *x = &g.g[g.n++];
        x->block_size = BLOCK;
        x->kind = *kinds == 'f'   ? KV_FULL
                  : *kinds == 'w' ? KV_WINDOW
                  : *kinds == 'c' ? KV_CHUNKED
                                  : KV_STATE;
        x->spec = (int32_t)x->kind;
        x->span = 2 * BLOCK + 1 - (x->kind == KV_CHUNKED);
        x->aligned = x->kind == KV_STATE && caching;
        x->checkpoint = x->aligned;
        if (x->kind == KV_STATE && !caching)
            x->block_size = 1 << 20;
    }
    return g;
}

/* As few blocks as the longest request is taken with. */
static int64_t fewest(const struct harness *h, const struct sched_ops *sched)
{
    const int64_t in_flight = h->fake.max_in_flight * sched->max_batch_tokens(&h->p, 0);
    int64_t most = 1, spare = 0;
    for (int32_t i = 0; i < h->p.kv_groups.n; i++)
        spare += h->p.kv_groups.g[i].aligned ? h->fake.max_in_flight - 1 : 0;
    for (size_t i = 0; i < h->n_requests; i++) {
        const struct workload_request *w = &h->requests[i];
        const int64_t n = kv_groups_needed(
            &h->p.kv_groups, w->num_prefill_tokens + w->num_decode_tokens - 1, in_flight);
        most = n > most ? n : most;
    }
    return most + spare;
}

static void run(const char *policy, const char *kinds, bool caching, int32_t lanes,
                int32_t per_lane)
{
    const struct sched_ops *sched = sched_find(policy);
    struct workload_request w[RANDOM_REQUESTS];
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct harness h = random_case(sched, seed, w);
        h.p.block_size = strchr(kinds, 'f') ? BLOCK : 4096; /* what the fake holds rows to */
        h.p.prefix_caching = caching;
        h.p.kv_groups = groups_of(kinds, caching);
        h.fake.lanes = lanes;
        h.fake.max_in_flight = lanes * per_lane;
        h.p.num_blocks = fewest(&h, sched);
        if (seed % 2)
            h.p.num_blocks *= 2;
        harness_run(&h); /* ends with every block free, or it asserts */
        harness_check(&h);
        harness_free(&h);
    }
}

static void every_kind_alone_and_together(void **state)
{
    static const char *const kinds[] = {"w", "s", "wf", "wwf", "cf", "ssf", "wsf"};
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        run("vllm_0_33", kinds[i], false, 1, 1);
        run("vllm_0_33", kinds[i], true, 1, 1);
        run("vllm_v1", kinds[i], true, 1, 1);
        run("vllm_0_33", kinds[i], i % 2, 1, 2); /* built before the tokens are known */
    }
}

static void with_stages(void **state)
{
    (void)state;
    run("vllm_0_33", "wwf", true, 3, 1);
    run("vllm_0_33", "ssf", true, 2, 1);
    run("vllm_v1", "wf", false, 2, 1);
    run("vllm_0_33", "wsf", true, 2, 2);
}

/* One full group is what one table of blocks is. */
static void one_full_group_is_as_none(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct workload_request w[RANDOM_REQUESTS];
        struct harness h[2];
        for (int i = 0; i < 2; i++) {
            h[i] = random_case(sched_find("vllm_0_33"), seed, w);
            h[i].p.prefix_caching = seed % 2;
            h[i].no_prompt_ids = true;
            if (i == 1) {
                h[i].p.kv_groups = groups_of("f", false);
                h[i].p.kv_groups.g[0].block_size = h[i].p.kv_groups.lcm_tokens =
                    h[i].p.kv_groups.hash_tokens = h[i].p.block_size;
            }
            harness_run(&h[i]);
        }
        assert_int_equal(h[0].lines.n, h[1].lines.n);
        for (size_t i = 0; i < h[0].lines.n; i++)
            assert_string_equal(h[0].lines.p[i], h[1].lines.p[i]);
        assert_int_equal(h[0].n.preemptions, h[1].n.preemptions);
        assert_int_equal(h[0].n.prefix_hit_tokens, h[1].n.prefix_hit_tokens);
        harness_free(&h[0]);
        harness_free(&h[1]);
    }
}

static void policies_with_one_table_refuse_groups(void **state)
{
    (void)state;
    struct harness h = harness_default();
    struct err e = {0};
    h.p.policy = "sarathi";
    h.p.token_budget = 0;
    h.p.kv_groups = groups_of("wf", false);
    assert_int_equal(serve_check_params(&h.p, &e), ST_USAGE);
    assert_string_equal(err_cause(&e, 0),
                        "scheduler.policy: sarathi has one table of KV blocks for "
                        "all layers, and the model's keep different things");
    h.p.policy = "vllm_v1";
    h.p.token_budget = 64;
    h.p.draft_tokens = 2;
    h.p.acceptance = 0.5;
    assert_int_equal(serve_check_params(&h.p, &e), ST_USAGE);
    assert_non_null(strstr(err_cause(&e, 0), "speculation.draft_tokens"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_alone_and_together),
        cmocka_unit_test(with_stages),
        cmocka_unit_test(one_full_group_is_as_none),
        cmocka_unit_test(policies_with_one_table_refuse_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
