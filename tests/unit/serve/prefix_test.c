/* Prefix caching worked by hand: names, the queue of blocks nobody holds, hits of requests. */
#include "serve/prefix.h"

#include "serve/kv.h"
#include "support/serve_harness.h"
#include "support/support.h"

/* ---- blocks ---- */

static void the_block_longest_free_is_taken_first(void **state)
{
    struct test *t = *state;
    struct prefix_cache c;
    prefix_init(&c, t->a, 4, 3);
    for (int32_t i = 0; i < 3; i++)
        assert_int_equal(prefix_take(&c), i);
    assert_true(prefix_drop(&c, 1));
    assert_true(prefix_drop(&c, 0));
    assert_true(prefix_drop(&c, 2));
    assert_true(prefix_hold(&c, 0)); /* out of the middle */
    assert_int_equal(prefix_take(&c), 1);
    assert_int_equal(prefix_take(&c), 2);
    assert_int_equal(c.evictions, 0); /* none had a name */
}

static void a_name_lasts_until_the_block_is_taken(void **state)
{
    struct test *t = *state;
    struct prefix_cache c;
    prefix_init(&c, t->a, 4, 2);
    int32_t a = prefix_take(&c), b = prefix_take(&c);
    assert_int_equal(prefix_find(&c, 77), -1);
    prefix_name(&c, a, 77);
    prefix_name(&c, b, 77); /* two blocks of the same tokens */
    prefix_drop(&c, b);
    prefix_drop(&c, a);
    assert_int_equal(prefix_take(&c), b);
    assert_int_equal(prefix_find(&c, 77), a);
    assert_false(prefix_hold(&c, b));
    assert_true(prefix_hold(&c, a));
    prefix_drop(&c, a);
    assert_int_equal(prefix_take(&c), a);
    assert_int_equal(prefix_find(&c, 77), -1);
    assert_int_equal(c.evictions, 2);
}

/* ---- what a block is known by ---- */

static uint64_t name(struct prefix_cache *c, struct request q, int64_t block)
{
    q.prefix = request_prefix_new();
    q.prefill = q.w.num_prefill_tokens;
    prefix_hits(c, &q);
    assert_true(block < q.prefix->n);
    uint64_t x = q.prefix->names[block];
    request_prefix_free(&q.prefix);
    return x;
}

static void names_are_of_all_tokens_so_far(void **state)
{
    struct test *t = *state;
    struct prefix_cache c;
    prefix_init(&c, t->a, 2, 8);
    int32_t one[] = {1, 2, 3, 4, 5}, two[] = {9, 2, 3, 4, 5}, three[] = {1, 2, 3, 4, 6};
    struct request a = {.ids = one, .w = {.num_prefill_tokens = 5}};
    struct request b = {.ids = two, .w = {.num_prefill_tokens = 5}, .seq = 1};
    struct request d = {.ids = three, .w = {.num_prefill_tokens = 5}, .seq = 2};
    assert_int_equal(name(&c, a, 1), name(&c, d, 1));
    assert_true(name(&c, a, 1) != name(&c, b, 1)); /* the block is equal, its prefix is not */
}

/* Blocks of 4 tokens under hash ids of 6: the second block lies under both ids. */
static void hash_ids_name_the_blocks_they_cover(void **state)
{
    struct test *t = *state;
    struct prefix_cache c;
    prefix_init(&c, t->a, 4, 8);
    const int64_t one[] = {10, 11, 12}, two[] = {10, 77, 78};
    struct request a = {.w = {.num_prefill_tokens = 13, .hash_ids = one, .hash_tokens = 6}};
    struct request b = {.w = {.num_prefill_tokens = 13, .hash_ids = two, .hash_tokens = 6},
                        .seq = 1};
    assert_int_equal(name(&c, a, 0), name(&c, b, 0));
    assert_true(name(&c, a, 1) != name(&c, b, 1));
    assert_true(name(&c, a, 2) != name(&c, b, 2));
}

static void prompts_without_ids_are_known_by_their_name(void **state)
{
    struct test *t = *state;
    struct prefix_cache c;
    prefix_init(&c, t->a, 4, 8);
    struct request a = {.w = {.num_prefill_tokens = 9, .prompt_id = "p"}};
    struct request b = {.w = {.num_prefill_tokens = 9, .prompt_id = "p"}, .seq = 1};
    struct request d = {.w = {.num_prefill_tokens = 9, .prompt_id = "q"}, .seq = 2};
    struct request e = {.w = {.num_prefill_tokens = 9}, .seq = 3}, f = e;
    f.seq = 4;
    assert_int_equal(name(&c, a, 1), name(&c, b, 1));
    assert_true(name(&c, a, 0) != name(&c, a, 1));
    assert_true(name(&c, a, 1) != name(&c, d, 1));
    assert_true(name(&c, e, 0) != name(&c, f, 0));
}

/* ---- blocks of requests ---- */

static struct request request(int32_t *ids, int64_t n)
{
    return (struct request){
        .ids = ids, .prefill = n, .prefix = request_prefix_new(), .w = {.num_prefill_tokens = n}};
}

static void give(struct kv *kv, struct request *q)
{
    kv_give(kv, q);
    mem_free(q->blocks);
    request_prefix_free(&q->prefix);
}

/* 8 tokens in blocks of 2: the last block holds the token that has to be computed. */
static void a_request_shares_what_is_there(void **state)
{
    struct test *t = *state;
    struct kv kv;
    int32_t ids[] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct request a = request(ids, 8), b = request(ids, 8), d = request(ids, 5);
    kv_init(&kv, t->a, 2, 10, 0, false);
    kv_cache_prefixes(&kv, t->a, false);
    prefix_look(kv.cache, &a);
    assert_int_equal(a.kv, 0);
    kv_share(&kv, &a);
    kv_take(&kv, &a, 4);
    prefix_name_blocks(kv.cache, &a, 7); /* 7 tokens fill 3 blocks */
    prefix_look(kv.cache, &b);
    assert_int_equal(b.kv, 6);
    assert_int_equal(b.prefix->shared, 3);
    assert_int_equal(kv_admission(&kv, &b, 8), 1);
    kv_share(&kv, &b);
    kv_take(&kv, &b, 1);
    assert_int_equal(kv.free, 5);
    assert_int_equal(kv.peak, 5);
    give(&kv, &a);
    assert_int_equal(kv.free, 6); /* a's own last block alone */
    give(&kv, &b);
    assert_int_equal(kv.free, 10);
    prefix_look(kv.cache, &d);
    assert_int_equal(d.kv, 4);
    assert_int_equal(d.prefix->shared, 0); /* found, and free until d takes them */
    assert_int_equal(kv_admission(&kv, &d, 5), 3);
    assert_int_equal(kv.cache->looked_tokens, 16);
    assert_int_equal(kv.cache->hit_tokens, 6);
    give(&kv, &d);
}

/* vLLM's later rule: a block without a name is taken before named ones, and of blocks with equal
 * names the first is found. */
static void nameless_blocks_go_first(void **state)
{
    struct test *t = *state;
    struct prefix_cache c;
    prefix_init(&c, t->a, 2, 4);
    c.nameless_first = true;
    for (int32_t i = 0; i < 4; i++)
        assert_int_equal(prefix_take(&c), i);
    prefix_name(&c, 2, 7);
    prefix_name(&c, 0, 7);
    prefix_name(&c, 1, 8);
    assert_int_equal(prefix_find(&c, 7), 2);
    for (int32_t i = 0; i < 4; i++)
        assert_true(prefix_drop(&c, i));
    assert_int_equal(prefix_take(&c), 3);
    prefix_forget(&c, 2);
    assert_int_equal(prefix_find(&c, 8), -1);
    assert_int_equal(c.evictions, 2);
    assert_int_equal(prefix_take(&c), 0);
    assert_int_equal(prefix_take(&c), 1);
    assert_int_equal(prefix_find(&c, 7), 2);
    assert_int_equal(prefix_take(&c), 2);
    assert_int_equal(prefix_find(&c, 7), -1);
    assert_int_equal(c.evictions, 3);
}

/* Of a sequence let go, the end is given away first: what is left is still a beginning. */
static void beginnings_stay_longest(void **state)
{
    struct test *t = *state;
    struct kv kv;
    int32_t ids[] = {1, 2, 3, 4, 5, 6, 7, 8}, other[] = {9, 9, 9, 9};
    struct request a = request(ids, 8), b = request(ids, 8), d = request(other, 4);
    kv_init(&kv, t->a, 2, 4, 0, false);
    kv_cache_prefixes(&kv, t->a, false);
    prefix_look(kv.cache, &a);
    kv_share(&kv, &a);
    kv_take(&kv, &a, 4);
    prefix_name_blocks(kv.cache, &a, 8);
    give(&kv, &a);
    prefix_look(kv.cache, &d);
    kv_share(&kv, &d);
    kv_take(&kv, &d, 2);
    assert_int_equal(kv.cache->evictions, 2);
    prefix_look(kv.cache, &b);
    assert_int_equal(b.kv, 4);
    give(&kv, &b);
    give(&kv, &d);
}

/* ---- through the loop ---- */

/* The same prompt of 10 tokens, blocks of 4, three times, the second while the first runs: 8 of its
 * tokens are there, and the last is computed anyway. */
static void later_prompts_compute_the_rest(void **state)
{
    (void)state;
    static const int64_t hash_ids[] = {5, 6, 7};
    struct workload_request w[3];
    for (int i = 0; i < 3; i++)
        w[i] = (struct workload_request){.request_id = i,
                                         .arrival_s = i == 2 ? 50 : i,
                                         .num_prefill_tokens = i == 1 ? 8 : 10,
                                         .num_decode_tokens = 3,
                                         .hash_ids = hash_ids,
                                         .hash_tokens = 4};
    struct harness h = harness_default();
    h.requests = w;
    h.n_requests = 3;
    h.p.token_budget = 32;
    h.p.prefix_caching = true;
    h.no_prompt_ids = true;
    harness_run(&h);
    harness_check(&h);
    EXPECT_BATCHES(&h, "0: 0:10@0! | 0", "1: 1:4@4! +0 | 1", "2: +1 | 2", "3: -0 | 1",
                   "4: 1:2@8! -1 | 0", "5: +1 | 1", "6: | 1");
    assert_int_equal(h.n.prefill_tokens, 16);
    assert_int_equal(h.n.prefix_looked_tokens, 28);
    assert_int_equal(h.n.prefix_hit_tokens, 12);
    harness_free(&h);
}

/* Two replicas, one of which holds the prompt: prefix_aware goes there until more waits there than
 * the prompt costs elsewhere. */
static void the_router_weighs_hits_against_work(void **state)
{
    (void)state;
    static const int64_t hash_ids[] = {1, 2, 3, 4, 5}, others[] = {6, 7, 8, 9, 10};
    struct workload_request w[4];
    for (int i = 0; i < 4; i++)
        w[i] = (struct workload_request){.request_id = i,
                                         .arrival_s = i == 0 ? 0 : 100,
                                         .num_prefill_tokens = 20,
                                         .num_decode_tokens = 2,
                                         .hash_ids = i == 2 ? others : hash_ids,
                                         .hash_tokens = 4};
    struct harness h = harness_default();
    h.requests = w;
    h.n_requests = 4;
    h.p.token_budget = 32;
    h.p.replicas = 2;
    h.p.router = "prefix_aware";
    h.p.prefix_caching = true;
    h.no_prompt_ids = true;
    harness_run(&h);
    harness_check(&h);
    /* request 1: 1 block to do at replica 0, 5 at 1. Request 2, nothing in common: 5 + 5 waiting
     * at 0, 5 at 1. Request 3: 1 + 5 waiting at 0, 5 + 5 waiting at 1. */
    int64_t of[2] = {0, 0};
    for (size_t i = 0; i < h.batches.n; i++)
        of[h.batches.p[i].replica] += h.batches.p[i].num_prefill_tokens;
    assert_int_equal(of[0], 20 + 4 + 4);
    assert_int_equal(of[1], 20);
    harness_free(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_block_longest_free_is_taken_first),
        TEST(a_name_lasts_until_the_block_is_taken),
        TEST(names_are_of_all_tokens_so_far),
        TEST(hash_ids_name_the_blocks_they_cover),
        TEST(prompts_without_ids_are_known_by_their_name),
        TEST(a_request_shares_what_is_there),
        TEST(nameless_blocks_go_first),
        TEST(beginnings_stay_longest),
        TEST(later_prompts_compute_the_rest),
        TEST(the_router_weighs_hits_against_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
