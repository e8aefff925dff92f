#include "profile/grid.h"

#include "support/support.h"

static const struct grid_limits wide = {
    .max_tokens = 4096, .max_batch = 48, .max_kv = 3000, .block_size = 16, .num_blocks = 1 << 20};

static const struct point *find(const struct point_list *l, enum point_kind kind, int64_t x,
                                int64_t kv)
{
    for (int64_t i = 0; i < l->n; i++)
        if (l->p[i].kind == kind && l->p[i].x == x && l->p[i].kv == kv)
            return &l->p[i];
    return NULL;
}

static void limits_and_powers_are_on_their_levels(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct point_list l;
    profile_grid(a, &wide, &l);
    assert_int_equal(l.dropped, 0);
    assert_int_equal(find(&l, POINT_DECODE, 1, 1)->level, 0);
    assert_int_equal(find(&l, POINT_DECODE, 48, 2999)->level, 0); /* both limits */
    assert_int_equal(find(&l, POINT_DECODE, 16, 256)->level, 0);
    assert_int_equal(find(&l, POINT_DECODE, 8, 256)->level, 1);
    assert_int_equal(find(&l, POINT_DECODE, 24, 256)->level, 2);
    assert_int_equal(find(&l, POINT_DECODE, 24, 384)->level, 2);
    assert_int_equal(find(&l, POINT_PREFILL, 3000, 0)->level, 0);
    assert_int_equal(find(&l, POINT_PREFILL, 1024, 1976)->level, 0); /* the triangle's edge */
    assert_int_equal(find(&l, POINT_PREFILL, 1024, 1024)->level, 0);
    assert_int_equal(find(&l, POINT_PREFILL, 512, 64)->level, 1);
    assert_null(find(&l, POINT_PREFILL, 1024, 2048));
    assert_int_equal(find(&l, POINT_TOKENS, 4096, 0)->level, 0); /* no chunk is that long */
    for (int64_t t = 5; t <= 8; t++) /* every count up to 8, here or as a chunk */
        assert_true(find(&l, POINT_TOKENS, t, 0) || find(&l, POINT_PREFILL, t, 0));
    assert_non_null(find(&l, POINT_TOKENS, 20, 0));
    assert_null(find(&l, POINT_TOKENS, 16, 0)); /* measured as a chunk */
    arena_free(&a);
}

static void points_are_distinct_ordered_and_inside_the_limits(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct point_list l;
    profile_grid(a, &wide, &l);
    for (int64_t i = 0; i < l.n; i++) {
        const struct point *p = &l.p[i];
        assert_true(p->x >= 1 && p->kv >= 0);
        assert_true(point_tokens(p) <= wide.max_tokens);
        assert_true(point_rows(p, &wide) <= wide.max_batch);
        assert_true(p->kind == POINT_TOKENS ||
                    p->kv + (p->kind == POINT_DECODE ? 1 : p->x) <= wide.max_kv);
        for (int64_t k = 0; k < i; k++)
            assert_false(l.p[k].kind == p->kind && l.p[k].x == p->x && l.p[k].kv == p->kv);
        assert_true(i == 0 || l.p[i - 1].level <= p->level);
    }
    arena_free(&a);
}

static void what_the_cache_cannot_hold_is_dropped(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct grid_limits small = wide;
    small.num_blocks = 48 * 4; /* 64 tokens for each of 48 sequences, or 3,072 for one */
    struct point_list all, l;
    profile_grid(a, &wide, &all);
    profile_grid(a, &small, &l);
    assert_int_equal(l.n + l.dropped, all.n);
    assert_null(find(&l, POINT_DECODE, 48, 64)); /* its new token is the 65th */
    assert_non_null(find(&l, POINT_DECODE, 48, 48));
    assert_non_null(find(&l, POINT_DECODE, 1, 2999));
    assert_null(find(&l, POINT_TOKENS, 4096, 0));
    arena_free(&a);
}

static void long_prompts_are_spread_over_sequences(void **state)
{
    (void)state;
    struct point p = {POINT_TOKENS, 4096, 0, 0};
    assert_int_equal(point_chunks(&p, &wide), 2);
    assert_int_equal(point_rows(&p, &wide), 2);
    assert_int_equal(point_blocks(&p, &wide), 188); /* 3,000 tokens */
    struct point d = {POINT_DECODE, 7, 31, 0};
    assert_int_equal(point_chunks(&d, &wide), 0);
    assert_int_equal(point_rows(&d, &wide), 7);
    assert_int_equal(point_blocks(&d, &wide), 2);
}

static void the_smallest_limits_give_a_grid(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct grid_limits one = {1, 1, 1, 16, 1};
    struct point_list l;
    profile_grid(a, &one, &l);
    assert_true(l.n >= 1);
    struct grid_limits none = {1, 1, 1, 16, 0};
    profile_grid(a, &none, &l);
    assert_int_equal(l.n, 0);
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_and_powers_are_on_their_levels),
        cmocka_unit_test(points_are_distinct_ordered_and_inside_the_limits),
        cmocka_unit_test(what_the_cache_cannot_hold_is_dropped),
        cmocka_unit_test(long_prompts_are_spread_over_sequences),
        cmocka_unit_test(the_smallest_limits_give_a_grid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
