#include "serve/router.h"

#include "support/support.h"

static int32_t pick(const char *name, struct router_state *s, const struct replica *r, int32_t n,
                    const struct request *q)
{
    return router_find(name)->pick(s, r, n, q);
}

static void round_robin_takes_turns(void **state)
{
    (void)state;
    struct router_state s = {0};
    for (; s.routed < 9; s.routed++)
        assert_int_equal(pick("round_robin", &s, NULL, 3, NULL), s.routed % 3);
}

static void random_is_even_and_seeded(void **state)
{
    (void)state;
    struct serve_params p = {.seed = 5}, other = {.seed = 6};
    struct router_state s = router_begin(&p), t = router_begin(&p), u = router_begin(&other);
    int64_t count[3] = {0}, differs = 0;
    for (int i = 0; i < 9000; i++) {
        int32_t k = pick("random", &s, NULL, 3, NULL);
        assert_int_equal(pick("random", &t, NULL, 3, NULL), k);
        differs += pick("random", &u, NULL, 3, NULL) != k;
        count[k]++;
    }
    for (int k = 0; k < 3; k++)
        assert_true(count[k] > 2800 && count[k] < 3200);
    assert_true(differs > 5000);
}

/* lor sees the queues alone, least_outstanding what runs too; of equal ones the first. */
static void the_least_loaded_gets_it(void **state)
{
    (void)state;
    struct replica r[3] = {{.waiting = {.n = 2}, .active = 0},
                           {.waiting = {.n = 1}, .active = 9},
                           {.waiting = {.n = 1}, .active = 3}};
    struct router_state s = {0};
    assert_int_equal(pick("lor", &s, r, 3, NULL), 1);
    assert_int_equal(pick("least_outstanding", &s, r, 3, NULL), 0);
    r[0].active = 2;
    assert_int_equal(pick("least_outstanding", &s, r, 3, NULL), 0);
    r[0].active = 3;
    assert_int_equal(pick("least_outstanding", &s, r, 3, NULL), 2);
}

/* Ids count as far as the prefix goes; without ids the prompt's name does; without both the turn.
 */
static void equal_prefixes_meet(void **state)
{
    (void)state;
    struct serve_params p = {.prefix_tokens = 4};
    struct router_state s = router_begin(&p);
    int64_t moved = 0, named = 0;
    for (int32_t i = 0; i < 100; i++) {
        int32_t one[6] = {i, 1, 2, 3, 4, 5}, two[6] = {i, 1, 2, 3, 9, 9}, three[6] = {i, 1, 2, 4};
        struct request a = {.ids = one, .w = {.num_prefill_tokens = 6}};
        struct request b = {.ids = two, .w = {.num_prefill_tokens = 6}};
        struct request c = {.ids = three, .w = {.num_prefill_tokens = 6}};
        int32_t k = pick("prefix_aware", &s, NULL, 8, &a);
        assert_true(k >= 0 && k < 8);
        assert_int_equal(pick("prefix_aware", &s, NULL, 8, &b), k);
        moved += pick("prefix_aware", &s, NULL, 8, &c) != k;
        char name[16], same[16];
        snprintf(name, sizeof name, "p%d", i);
        snprintf(same, sizeof same, "p%d", i);
        struct request d = {.w = {.num_prefill_tokens = 6, .prompt_id = name}};
        struct request e = {.w = {.num_prefill_tokens = 9, .prompt_id = same}};
        k = pick("prefix_aware", &s, NULL, 8, &d);
        assert_int_equal(pick("prefix_aware", &s, NULL, 8, &e), k);
        named += k == 0;
        s.routed = i;
        struct request none = {.w = {.num_prefill_tokens = 6}};
        assert_int_equal(pick("prefix_aware", &s, NULL, 8, &none), i % 8);
    }
    assert_true(moved > 60);
    assert_true(named > 2 && named < 30);
}

static void short_prompts_count_whole(void **state)
{
    (void)state;
    struct serve_params p = {0};
    struct router_state s = router_begin(&p);
    int32_t ids[2] = {7, 8}, more[2] = {7, 9};
    struct request one = {.ids = ids, .w = {.num_prefill_tokens = 1}};
    struct request two = {.ids = more, .w = {.num_prefill_tokens = 1}};
    assert_int_equal(pick("prefix_aware", &s, NULL, 1000, &one),
                     pick("prefix_aware", &s, NULL, 1000, &two));
}

/* With caches it is the blocks to do: those of the prompt not found, the prompts waiting, those in
 * use. */
static void what_is_cached_waits_and_runs_is_weighed(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct router_state s = {0};
    struct replica r[2] = {0};
    for (int i = 0; i < 2; i++) {
        kv_init(&r[i].kv, a, 16, 20, 0, false);
        kv_cache_prefixes(&r[i].kv, a, false);
    }
    struct request q = {.prefix = request_prefix_new(),
                        .prefill = 65,
                        .w = {.num_prefill_tokens = 65, .prompt_id = "one"}};
    struct request before = q;
    before.prefix = request_prefix_new();
    assert_int_equal(pick("prefix_aware", &s, r, 2, &q), 0);
    r[0].waiting_tokens = 33; /* 3 blocks */
    assert_int_equal(pick("prefix_aware", &s, r, 2, &q), 1);
    kv_take(&r[1].kv, &before, 4);
    assert_int_equal(pick("prefix_aware", &s, r, 2, &q), 0);
    prefix_name_blocks(r[1].kv.cache, &before, 64); /* 4 blocks in use, and of the prompt */
    assert_int_equal(pick("prefix_aware", &s, r, 2, &q), 1);
    r[0].waiting_tokens = 0;
    assert_int_equal(pick("prefix_aware", &s, r, 2, &q), 0);
    kv_give(&r[1].kv, &before); /* in the cache still */
    assert_int_equal(pick("prefix_aware", &s, r, 2, &q), 1);
    request_prefix_free(&q.prefix);
    request_prefix_free(&before.prefix);
    mem_free(before.blocks);
    arena_free(&a);
}

static void registry_is_whole(void **state)
{
    (void)state;
    for (int i = 0; router_registry[i]; i++) {
        assert_int_equal(router_registry[i]->version, ROUTER_VERSION);
        assert_non_null(router_registry[i]->help);
        assert_ptr_equal(router_find(router_registry[i]->name), router_registry[i]);
    }
    assert_ptr_equal(router_find(NULL), router_find("round_robin"));
    assert_null(router_find("nearest"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(round_robin_takes_turns),   TEST(random_is_even_and_seeded),
        TEST(the_least_loaded_gets_it),  TEST(equal_prefixes_meet),
        TEST(short_prompts_count_whole), TEST(what_is_cached_waits_and_runs_is_weighed),
        TEST(registry_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
