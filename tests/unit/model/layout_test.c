#include "model/layout.h"

#include "support/support.h"

static struct model small(bool bloom)
{
    struct model m = {.name = "small",
                      .layers = 2,
                      .hidden = 64,
                      .heads = 4,
                      .kv_heads = bloom ? 4 : 2,
                      .head_dim = 16,
                      .intermediate = 20,
                      .vocab = 33,
                      .max_positions = 64,
                      .rope_theta = 10000,
                      .norm_eps = 1e-5,
                      .bos_id = -1,
                      .qk_norm = !bloom,
                      .family = bloom ? MODEL_BLOOM : MODEL_QWEN3};
    if (bloom) {
        m.norm = NORM_LAYER;
        m.act = ACT_GELU_TANH;
        m.position = POSITION_ALIBI;
        m.attn_bias = m.mlp_bias = m.emb_norm = m.tied = true;
    }
    return m;
}

/* Marks the bytes of row r of a piece, or of a transposed one of its column r. */
static uint64_t take(const struct model *m, const struct weight_target *x,
                     const struct weight_place *p, int64_t r, unsigned char *taken, uint64_t base)
{
    const bool row = x->matrix.m != 0;
    const int64_t to = row ? weight_row(m, p, r) : r;
    const int64_t width = p->transposed ? x->rows : x->width;
    const uint64_t at = x->at - base + (uint64_t)(to * width * 2);
    assert_true(!row || (to < x->matrix.m && (p->bias || width == x->matrix.k)));
    for (uint64_t b = at; b < at + (uint64_t)width * 2; b++)
        assert_int_equal(taken[b]++, 0);
    return (uint64_t)width * 2;
}

/* Every row of every tensor has a place of its own, none is outside, and what is left over is less
 * than the alignment of each piece. */
static void rows_fill_the_memory(const struct model *m, struct arena *a)
{
    enum { BASE = 4096, ALIGN = 128 };
    const struct weight_sizes s = {.element = 2, .align = ALIGN};
    struct weight_layout l;
    struct weight_place *places;
    size_t n;
    const struct tensor *t = model_tensors(a, m, &places, &n);
    weight_layout_make(a, m, &s, BASE, &l);
    assert_int_equal(l.bytes, weight_layout_bytes(m, &s));
    unsigned char *taken = arena_alloc(a, l.bytes);
    memset(taken, 0, l.bytes);
    uint64_t used = 0, pieces = 0, elements = 0;
    for (size_t i = 0; i < n; i++) {
        for (int64_t e = 0; e < places[i].pieces; e++, pieces++) {
            struct weight_place p;
            int64_t first;
            const struct tensor one = weight_piece(&t[i], &places[i], e, &p, &first);
            const struct weight_target x = weight_target_of(&l, &one, &p);
            assert_int_equal(x.rows * x.width, tensor_elements(&one));
            assert_int_equal(first, e * tensor_elements(&one));
            assert_int_equal((x.at - BASE) % ALIGN, 0);
            elements += (uint64_t)tensor_elements(&one);
            for (int64_t r = 0; r < (p.transposed ? x.width : x.rows); r++)
                used += take(m, &x, &p, r, taken, BASE);
        }
    }
    assert_int_equal(used, 2 * elements);
    assert_int_equal(elements, model_params(m));
    assert_true(l.bytes - used < pieces * ALIGN);
}

/* Kinds of layers, experts in one tensor and in many. */
static void every_family_has_a_place(void **state)
{
    struct test *t = *state;
    static const char *const names[] = {"gpt_oss", "mixtral", "qwen3_moe", "gemma3",
                                        "mistral", "qwen2",   "phi3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct model m;
        const char *dir = arena_printf(t->a, "%s/tests/golden/models/%s", TW_SOURCE_DIR, names[i]);
        assert_ok(model_load(t->a, dir, &m, &t->e), &t->e);
        assert_ok(model_check_computed(&m, &t->e), &t->e);
        rows_fill_the_memory(&m, t->a);
    }
}

static void every_tensor_has_a_place(void **state)
{
    struct test *t = *state;
    const struct model qwen = small(false), bloom = small(true);
    struct model tied = qwen;
    tied.tied = true;
    rows_fill_the_memory(&qwen, t->a);
    rows_fill_the_memory(&bloom, t->a);
    rows_fill_the_memory(&tied, t->a);
    struct model qwen2 = qwen; /* biases of q, k and v, none of o */
    qwen2.family = MODEL_LLAMA;
    qwen2.qk_norm = false;
    qwen2.qkv_bias = true;
    rows_fill_the_memory(&qwen2, t->a);
}

static void what_a_model_lacks_is_0(void **state)
{
    struct test *t = *state;
    const struct weight_sizes s = {.element = 4, .align = 64};
    const struct model qwen = small(false), bloom = small(true);
    struct weight_layout l;
    weight_layout_make(t->a, &qwen, &s, 64, &l);
    assert_true(l.layers[1].qkv.bias == 0 && l.layers[0].input_norm.b == 0 && l.emb_norm.w == 0);
    assert_true(l.layers[1].q_norm != 0 && l.embedding == 64 && l.lm_head.data != 64);
    weight_layout_make(t->a, &bloom, &s, 64, &l);
    assert_true(l.layers[1].q_norm == 0 && l.emb_norm.b != 0 && l.layers[1].down.bias != 0);
    assert_int_equal(l.embedding, l.lm_head.data);
    struct model qwen2 = qwen;
    qwen2.qkv_bias = true;
    weight_layout_make(t->a, &qwen2, &s, 64, &l);
    assert_true(l.layers[1].qkv.bias != 0 && l.layers[1].out.bias == 0);
}

/* An engine that packs its matrices asks for more. */
static size_t rows_of_8(const void *ctx, int64_t m, int64_t k)
{
    (void)ctx;
    return (size_t)((m + 7) / 8 * 8 * k);
}

static void an_engine_says_what_a_matrix_takes(void **state)
{
    struct test *t = *state;
    const struct model m = small(false);
    const struct weight_sizes s = {.element = 4, .align = 64, .matrix = rows_of_8};
    struct weight_layout l;
    weight_layout_make(t->a, &m, &s, 64, &l);
    assert_int_equal(l.layers[0].down.data - l.layers[0].up.data, 40 * 64 * 4);
    assert_int_equal(l.bytes + 64 - l.lm_head.data, 40 * 64 * 4); /* 33 rows */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_tensor_has_a_place), TEST(every_family_has_a_place),
        TEST(what_a_model_lacks_is_0), TEST(an_engine_says_what_a_matrix_takes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
