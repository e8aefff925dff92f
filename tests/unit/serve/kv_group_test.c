#include "serve/kv_group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "support/support.h"

static struct structure shape;

enum { FULL, WINDOW, CHUNKED, LATENT, STATE, WIDE };

/* An attention of 2 KV heads of 32, a window or pieces of 100; a latent vector of 80; a state of
 * 1,536 elements in float32; or of 1 KV head of 128. */
static struct attention attention_of(int kind)
{
    static const enum attention_type types[] = {ATTENTION_FULL,    ATTENTION_WINDOW,
                                                ATTENTION_CHUNKED, ATTENTION_LATENT,
                                                ATTENTION_STATE,   ATTENTION_FULL};
    struct attention t;
    memset(&t, 0, sizeof t);
    t.type = types[kind];
    t.heads = 8;
    t.kv_heads = kind == WIDE ? 1 : 2;
    t.k_dim = t.v_dim = kind == WIDE ? 128 : 32;
    t.window = kind == WINDOW || kind == CHUNKED ? 100 : 0;
    if (kind == LATENT)
        attention_cache(
            &t, (struct cache){.elements = 80, .whole = true, .packed_fp8 = 100, .packed_fp4 = 56});
    else if (kind == STATE)
        t.state.float32 = 1536;
    else
        attention_cache(&t, (struct cache){.elements = t.kv_heads * (t.k_dim + t.v_dim)});
    return t;
}

static void make(struct test *t, const char *layers)
{
    const int64_t n = (int64_t)strlen(layers);
    const struct mlp none = {0};
    memset(&shape, 0, sizeof shape);
    structure_init(&shape, t->a, n);
    for (int64_t i = 0; i < n; i++) {
        const struct attention kind = attention_of((int)(strchr("fwclsW", layers[i]) - "fwclsW"));
        assert_true(structure_set_layer(&shape, i, &kind, &none));
    }
}

static const struct kv_settings usual = {
    .block_size = 16, .element_bytes = 2, .state_bytes = 2, .max_model_len = 4096, .hybrid = true};

static struct kv_groups groups_of(struct test *t, const char *layers, struct kv_settings set)
{
    struct kv_groups g;
    make(t, layers);
    assert_ok(kv_groups_make(t->a, "test", &shape, &set, &g, &t->e), t);
    return g;
}

static void expect(const struct kv_groups *g, int32_t i, enum kv_kind kind, int64_t block,
                   int64_t layers, int64_t page)
{
    assert_int_equal(g->g[i].kind, kind);
    assert_int_equal(g->g[i].block_size, block);
    assert_int_equal(g->g[i].layers, layers);
    assert_int_equal(g->g[i].page_bytes, page);
}

/* A page of full attention: 16 tokens of 128 elements of 2 bytes. */
enum { PAGE = 16 * 128 * 2 };

static void layers_alike_are_one_group(void **state)
{
    struct test *t = *state;
    struct kv_groups g = groups_of(t, "fff", usual);
    assert_int_equal(g.n, 1);
    expect(&g, 0, KV_FULL, 16, 3, 3 * PAGE);
    assert_true(kv_groups_plain(&g));
    g = groups_of(t, "ww", usual);
    assert_int_equal(g.n, 1);
    expect(&g, 0, KV_WINDOW, 16, 2, 2 * PAGE);
    assert_false(kv_groups_plain(&g));
    g = groups_of(t, "fW", usual); /* full ones need no equal pages */
    assert_int_equal(g.n, 1);
    expect(&g, 0, KV_FULL, 16, 2, 3 * PAGE);
}

static void the_smallest_bucket_says_the_size(void **state)
{
    struct test *t = *state;
    struct kv_groups g = groups_of(t, "wwfwwf", usual); /* 4 windows, 2 full */
    assert_int_equal(g.n, 3);
    expect(&g, 0, KV_WINDOW, 16, 2, 2 * PAGE);
    expect(&g, 1, KV_WINDOW, 16, 2, 2 * PAGE);
    expect(&g, 2, KV_FULL, 16, 2, 2 * PAGE);
    assert_int_equal(g.g[0].spec, g.g[1].spec);
    assert_int_equal(g.block_bytes, 2 * PAGE);
    g = groups_of(t, "wwwwwfwfwfwf", usual); /* 8 and 4: groups of 4 */
    assert_int_equal(g.n, 3);
    g = groups_of(t, "wfwfwfwff", usual); /* 4 and 5: one each, of the larger */
    assert_int_equal(g.n, 2);
    assert_int_equal(g.block_bytes, 5 * PAGE);
    /* layers of a bucket are dealt out, so that stages have equal parts of each group */
    g = groups_of(t, "wwfwwf", usual);
    assert_int_equal(kv_groups_stage_bytes(&g, 0, 3), PAGE);
    assert_int_equal(kv_groups_stage_bytes(&g, 3, 6), PAGE);
}

static void smaller_pages_get_more_tokens(void **state)
{
    struct test *t = *state;
    const struct kv_groups g = groups_of(t, "wW", usual);
    assert_int_equal(g.n, 2);
    expect(&g, 0, KV_WINDOW, 32, 1, 2 * PAGE);
    expect(&g, 1, KV_FULL, 16, 1, 2 * PAGE);
    assert_int_equal(g.lcm_tokens, 32);
    assert_int_equal(g.hash_tokens, 16);
}

static void blocks_hold_a_state(void **state)
{
    struct test *t = *state;
    struct kv_settings set = usual;
    /* 6,144 bytes: 24 tokens of 256 bytes, in steps of 16 */
    struct kv_groups g = groups_of(t, "sssf", set);
    assert_int_equal(g.n, 4);
    expect(&g, 0, KV_STATE, 4096, 1, 2 * PAGE);
    expect(&g, 3, KV_FULL, 32, 1, 2 * PAGE);
    assert_int_equal(g.g[0].state_bytes, 6144);
    set.prefix_caching = true;
    g = groups_of(t, "sssf", set);
    expect(&g, 0, KV_STATE, 32, 1, 2 * PAGE);
    assert_true(g.g[0].aligned);
    g = groups_of(t, "sl", set); /* 128 tokens of 160 bytes */
    expect(&g, 1, KV_FULL, 128, 1, 128 * 160);
}

static void windows_are_kept_where_that_is_asked(void **state)
{
    struct test *t = *state;
    struct kv_settings set = usual;
    struct kv_groups g = groups_of(t, "cccf", set); /* vLLM's default for pieces */
    assert_true(kv_groups_plain(&g));
    assert_int_equal(g.block_bytes, 4 * PAGE);
    set.chunked = true;
    g = groups_of(t, "cccf", set);
    assert_int_equal(g.n, 4);
    set.hybrid = false;
    g = groups_of(t, "wf", set);
    assert_true(kv_groups_plain(&g));
    g = groups_of(t, "ww", set); /* nothing to promote them to */
    assert_false(kv_groups_plain(&g));
    set.keeps_all = true;
    g = groups_of(t, "ww", set);
    assert_true(kv_groups_plain(&g));
}

static void latent_vectors_are_not_padded(void **state)
{
    struct test *t = *state;
    struct kv_groups g = groups_of(t, "lw", usual); /* pages of 2,560 and 4,096 */
    assert_int_equal(g.n, 1);
    expect(&g, 0, KV_FULL, 16, 2, 2560 + PAGE);
    struct kv_settings set = usual;
    set.chunked = true;
    make(t, "lc");
    assert_int_equal(kv_groups_make(t->a, "test", &shape, &set, &g, &t->e), ST_INPUT);
    assert_string_equal(err_cause(&t->e, 0), "model test: KV blocks of pages that cannot be made "
                                             "equal are not modelled");
}

static void blocks_of_a_request(void **state)
{
    struct test *t = *state;
    struct kv_groups g = groups_of(t, "wf", usual);
    assert_int_equal(kv_groups_needed(&g, 1000, 64), 63 + 12); /* 163 tokens, and one that is cut */
    assert_int_equal(kv_groups_needed(&g, 50, 64), 4 + 4);
    assert_int_equal(kv_group_cap(&g.g[1], 64, 4096), INT64_MAX);
    assert_int_equal(kv_group_cap(&g.g[0], 64, 100), 8);
    g = groups_of(t, "sf", usual);
    assert_int_equal(kv_groups_needed(&g, 1000, 64), 1 + 32);
}

/* Of a latent vector of 80 elements: 100 bytes in FP8, where kernels keep it so, 56 in FP4. */
static void latent_vectors_are_packed(void **state)
{
    struct test *t = *state;
    const struct {
        double element_bytes;
        enum kv_packing packing;
        int64_t token;
    } cases[] = {
        {2, KV_PACK_QUANTIZED, 160}, {1, KV_PACK_QUANTIZED, 100}, {0.5, KV_PACK_QUANTIZED, 56},
        {2, KV_PACK_FP4, 160},       {1, KV_PACK_FP4, 80},        {0.5, KV_PACK_FP4, 56},
        {2, KV_PACK_ALWAYS, 100},    {1, KV_PACK_ALWAYS, 100},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kv_settings set = usual;
        set.element_bytes = cases[i].element_bytes;
        set.packing = cases[i].packing;
        const struct kv_groups g = groups_of(t, "lll", set);
        assert_int_equal(g.n, 1);
        assert_int_equal(g.block_bytes, 3 * 16 * cases[i].token);
    }
}

/* DeepSeek V4's layers by hand: of two with entries of 4 tokens and one of 128, beside one that
 * keeps the window alone. vLLM's groups of the real models are in tests/vllm/groups.txt. */
static void pages_stand_side_by_side(void **state)
{
    struct test *t = *state;
    const struct mlp none = {0};
    struct kv_groups g;
    memset(&shape, 0, sizeof shape);
    structure_init(&shape, t->a, 4);
    for (int64_t i = 0; i < 4; i++) {
        static const int64_t ratios[] = {0, 4, 128, 4};
        struct attention a;
        memset(&a, 0, sizeof a);
        a.type = ratios[i] ? ATTENTION_FULL : ATTENTION_WINDOW;
        a.heads = 8;
        a.kv_heads = 1;
        a.k_dim = a.v_dim = 512;
        a.window = ratios[i] ? 0 : 128;
        attention_cache(
            &a, (struct cache){.elements = 512, .window = 128, .whole = true, .packed_fp8 = 584});
        if (ratios[i])
            attention_cache(
                &a, (struct cache){
                        .elements = 512, .ratio = ratios[i], .whole = true, .packed_fp8 = 584});
        if (ratios[i] == 4) {
            attention_cache(&a, (struct cache){.bytes = 132, .ratio = 4, .whole = true});
            projections_add(&a.weights, "self_attn.indexer.q_b_proj", CUT_NONE, 256, 64, 1, false);
        }
        assert_true(structure_set_layer(&shape, i, &a, &none));
    }
    assert_ok(kv_groups_make(t->a, "test", &shape, &usual, &g, &t->e), t);
    static const struct {
        enum kv_kind kind;
        int64_t block, span, layers, page;
    } want[] = {
        /* pages of 64 x 584, up to a multiple of 576; of 64 and 2 entries and 64 x 132 */
        {KV_WINDOW, 64, 128, 2, 2 * 37440},
        {KV_WINDOW, 64, 128, 2, 2 * 37440},
        {KV_FULL, 256, 0, 3, 2 * 37440 + 1728 + 2 * 8640},
        /* 4 x 2 x 2 x 512 floats, and x 128; 8 x 2 x 512 */
        {KV_WINDOW, 4, 8, 2, 2 * 32832 + 2 * 8640},
        {KV_WINDOW, 8, 128, 1, 32832},
    };
    assert_int_equal(g.n, sizeof want / sizeof *want);
    for (int32_t i = 0; i < g.n; i++) {
        assert_int_equal(g.g[i].kind, want[i].kind);
        assert_int_equal(g.g[i].block_size, want[i].block);
        assert_int_equal(g.g[i].span, want[i].span);
        assert_int_equal(g.g[i].layers, want[i].layers);
        assert_int_equal(g.g[i].page_bytes, want[i].page);
    }
    assert_int_equal(g.block_bytes, want[2].page);
    assert_int_equal(g.hash_tokens, 4);
    struct kv_settings one = usual;
    one.keeps_all = true; /* one table for all */
    assert_int_equal(kv_groups_make(t->a, "test", &shape, &one, &g, &t->e), ST_INPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(layers_alike_are_one_group),
        TEST(the_smallest_bucket_says_the_size),
        TEST(smaller_pages_get_more_tokens),
        TEST(blocks_hold_a_state),
        TEST(windows_are_kept_where_that_is_asked),
        TEST(latent_vectors_are_not_padded),
        TEST(blocks_of_a_request),
        TEST(latent_vectors_are_packed),
        TEST(pages_stand_side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
