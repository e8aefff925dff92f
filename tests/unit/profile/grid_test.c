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

/* Batches padded to 1, 2, 4, 8, 16, 24, 32, 40 and 48 rows. */
static void padded_batches_have_both_ends_of_each_step(void **state)
{
    (void)state;
    static const int64_t padded[] = {1, 2, 4, 8, 16, 24, 32, 40, 48};
    struct arena *a = arena_new();
    struct grid_limits l = wide;
    struct point_list p;
    l.padded = padded;
    l.n_padded = sizeof padded / sizeof *padded;
    profile_grid(a, &l, &p);
    for (int i = 0; i < l.n_padded; i++) {
        assert_int_equal(find(&p, POINT_DECODE, padded[i], 256)->level, 0);
        if (i > 0 && padded[i] > padded[i - 1] + 1)
            assert_int_equal(find(&p, POINT_DECODE, padded[i - 1] + 1, 256)->level, 0);
    }
    assert_int_equal(find(&p, POINT_DECODE, 17, 1024)->level, 1); /* lower ends: at two lengths */
    assert_null(find(&p, POINT_DECODE, 17, 512));
    assert_null(find(&p, POINT_DECODE, 20, 256)); /* inside a step */
    for (int64_t kv = 64; kv <= 1024; kv += 64) { /* few rows: where parts of attention change */
        assert_int_equal(find(&p, POINT_DECODE, 1, kv)->level, 0);
        assert_int_equal(find(&p, POINT_DECODE, 8, kv)->level, kv == 256 ? 0 : 1);
    }
    assert_null(find(&p, POINT_DECODE, 16, 320));
    assert_int_equal(find(&p, POINT_DECODE, 48, 2999)->level, 0);
    assert_int_equal(find(&p, POINT_TOKENS, 384, 0) ? find(&p, POINT_TOKENS, 384, 0)->level : -1,
                     0);
    assert_int_equal(find(&p, POINT_PREFILL, 1024, 1024)->level, 0); /* prompts as ever */
    for (int64_t i = 0; i < p.n; i++)
        for (int64_t k = 0; k < i; k++)
            assert_false(p.p[k].kind == p.p[i].kind && p.p[k].x == p.p[i].x &&
                         p.p[k].kv == p.p[i].kv);
    arena_free(&a);
}

/* Where batches are padded, sequences are of 0.5 to 1.5 of the mean, in whole blocks, no longer
 * than a sequence may be; tokens and blocks together are those of equal ones. */
static void padded_batches_have_unequal_lengths(void **state)
{
    (void)state;
    static const int64_t padded[] = {64}, rows[] = {1, 2, 3, 8, 33, 64},
                         lengths[] = {1, 15, 16, 64, 100, 1024, 2500, 2999};
    struct grid_limits l = wide;
    for (int unequal = 0; unequal < 2; unequal++) {
        l.padded = padded;
        l.n_padded = unequal;
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
                const struct point p = {POINT_DECODE, rows[i], lengths[k], 0};
                int64_t tokens = 0, blocks = 0, least = INT64_MAX, most = 0;
                for (int64_t r = 0; r < p.x; r++) {
                    const int64_t kv = point_row_kv(&p, &l, r);
                    tokens += kv;
                    blocks += (kv + l.block_size) / l.block_size;
                    least = kv < least ? kv : least;
                    most = kv > most ? kv : most;
                }
                assert_int_equal(tokens, p.x * p.kv);
                assert_int_equal(blocks, p.x * point_blocks(&p, &l));
                assert_true(2 * least >= p.kv && 2 * most <= 3 * p.kv && most <= l.max_kv - 1);
                if (!unequal)
                    assert_int_equal(least, most);
                if (unequal && p.x >= 8 && p.kv == 1024)
                    assert_true(least < 600 && most > 1450);
            }
    }
    const struct point prompt = {POINT_PREFILL, 64, 100, 0};
    assert_int_equal(point_row_kv(&prompt, &l, 0), 100);
}

/* Where batches are padded: both sides of the sizes at which kernels for prompts change, those of
 * 256 and more on the coarsest level; and equal prompts that fill a batch. */
static void padded_batches_have_steps_of_prompts_too(void **state)
{
    (void)state;
    static const int64_t padded[] = {1, 2, 4, 8, 16, 24, 32, 40, 48},
                         ends[] = {640, 768, 896, 1024, 1280, 1536, 1792, 2048, 3584};
    struct arena *a = arena_new();
    struct grid_limits l = wide;
    struct point_list p;
    profile_grid(a, &l, &p);
    assert_null(find(&p, POINT_TOKENS, 1281, 0));
    assert_null(find(&p, POINT_PREFILL, 1152, 1024));
    assert_null(find(&p, POINT_PROMPTS, 4096, 256));
    l.padded = padded;
    l.n_padded = sizeof padded / sizeof *padded;
    profile_grid(a, &l, &p);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const struct point *at = find(&p, POINT_TOKENS, ends[i], 0);
        at = at ? at : find(&p, POINT_PREFILL, ends[i], 0);
        assert_true(at && at->level == 0);
        assert_int_equal(find(&p, POINT_TOKENS, ends[i] + 1, 0)->level, 0);
    }
    assert_int_equal(find(&p, POINT_TOKENS, 161, 0)->level, 1);
    for (int64_t c = 288; c < 3000; c *= 2) /* one turn more of attention's blocks */
        assert_int_equal(find(&p, POINT_PREFILL, c, 256)->level, 1);
    assert_int_equal(find(&p, POINT_PREFILL, 1152, 1024)->level, 1);
    for (int i = 1; i < l.n_padded; i++) /* above 1: few tokens are all there */
        assert_true(find(&p, POINT_TOKENS, padded[i] + 1, 0) ||
                    find(&p, POINT_PREFILL, padded[i] + 1, 0));
    assert_int_equal(find(&p, POINT_PROMPTS, 4096, 256)->level, 0);
    assert_int_equal(find(&p, POINT_PROMPTS, 4096, 2048)->level, 1);
    assert_null(find(&p, POINT_PROMPTS, 768, 16)); /* 48 sequences of it are no full batch */
    assert_null(find(&p, POINT_PROMPTS, 1536, 32));
    const struct point *q = find(&p, POINT_PROMPTS, 48 * 64, 64);
    assert_int_equal(q->level, 0);
    assert_int_equal(point_tokens(q), 3072);
    assert_int_equal(point_chunks(q, &l), 48);
    assert_int_equal(point_rows(q, &l), 48);
    assert_int_equal(point_blocks(q, &l), 4);
    assert_int_equal(point_kv(q), 0);
    assert_int_equal(point_row_kv(q, &l, 47), 0);
    l.num_blocks = 100; /* of 16 tokens: 1,600 of them */
    profile_grid(a, &l, &p);
    for (int64_t i = 0; i < p.n; i++)
        assert_true(p.p[i].kind != POINT_PROMPTS);
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
    struct grid_limits one = {1, 1, 1, 16, 1, NULL, 0};
    struct point_list l;
    profile_grid(a, &one, &l);
    assert_true(l.n >= 1);
    struct grid_limits none = {1, 1, 1, 16, 0, NULL, 0};
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
        cmocka_unit_test(padded_batches_have_both_ends_of_each_step),
        cmocka_unit_test(padded_batches_have_unequal_lengths),
        cmocka_unit_test(padded_batches_have_steps_of_prompts_too),
        cmocka_unit_test(long_prompts_are_spread_over_sequences),
        cmocka_unit_test(the_smallest_limits_give_a_grid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
