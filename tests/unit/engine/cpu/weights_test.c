#include "engine/cpu/weights.h"

#include <string.h>

#include "model/random.h"
#include "support/support.h"

static struct model small(enum model_family family)
{
    struct model m = {.name = "small",
                      .family = family,
                      .layers = 2,
                      .hidden = 64,
                      .heads = 2,
                      .kv_heads = 2,
                      .head_dim = 32,
                      .intermediate = 20,
                      .vocab = 33,
                      .max_positions = 64,
                      .rope_theta = 10000,
                      .norm_eps = 1e-5,
                      .bos_id = -1};
    if (family == MODEL_BLOOM) {
        m.norm = NORM_LAYER;
        m.act = ACT_GELU_TANH;
        m.position = POSITION_ALIBI;
        m.attn_bias = m.mlp_bias = m.emb_norm = m.tied = true;
    }
    return m;
}

/* The model's tensors with data of their own: element i of tensor t is t + i / 4096. */
static struct tensor *numbered(struct arena *a, const struct model *m, size_t *n)
{
    struct tensor *t = model_tensors(a, m, NULL, n);
    for (size_t i = 0; i < *n; i++) {
        float *f = arena_alloc(a, t[i].bytes);
        for (size_t k = 0; k < t[i].bytes / sizeof *f; k++)
            f[k] = (float)i + (float)k / 4096;
        t[i].data = f;
    }
    return t;
}

static enum st load(struct cpu_weights *w, const struct model *m, const char *dir, struct err *e)
{
    size_t n;
    struct pool *pool;
    assert_ok(pool_open(2, &pool, e), e);
    const enum st st = cpu_weights_load(w, kernels_usable(&n)[0], pool, m, dir, 17, e);
    pool_close(&pool);
    return st;
}

static struct tensor *named(struct tensor *t, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(t[i].name, name) == 0)
            return &t[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

/* Row j of w is row `from` of the named tensor. */
static void check_row(const struct matrix *w, int64_t j, struct tensor *t, size_t n,
                      const char *name, int64_t from)
{
    size_t sets;
    float row[64];
    gemm_get_row(kernels_usable(&sets)[0], w, j, row);
    const float *want = (const float *)named(t, n, name)->data + from * w->k;
    assert_memory_equal(row, want, (size_t)w->k * sizeof *row);
}

static void test_layout(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct err e = {0};
    struct tmp dir = tmp_new();
    struct cpu_weights w;
    size_t n;
    struct model m = small(MODEL_LLAMA);
    m.heads = 4;
    m.head_dim = 16;
    struct tensor *t = numbered(a, &m, &n);
    assert_ok(weights_write(arena_printf(a, "%s/model.safetensors", dir.dir), t, n, &e), &e);
    assert_ok(load(&w, &m, dir.dir, &e), &e);
    const struct cpu_layer *l = &w.layers[1];
    check_row(&l->qkv, 63, t, n, "model.layers.1.self_attn.q_proj.weight", 63);
    check_row(&l->qkv, 64, t, n, "model.layers.1.self_attn.k_proj.weight", 0);
    check_row(&l->qkv, 64 + 31, t, n, "model.layers.1.self_attn.k_proj.weight", 31);
    check_row(&l->qkv, 64 + 32, t, n, "model.layers.1.self_attn.v_proj.weight", 0);
    check_row(&l->up, 19, t, n, "model.layers.1.mlp.gate_proj.weight", 19);
    check_row(&l->up, 20, t, n, "model.layers.1.mlp.up_proj.weight", 0);
    check_row(&l->down, 63, t, n, "model.layers.1.mlp.down_proj.weight", 63);
    check_row(&l->out, 5, t, n, "model.layers.1.self_attn.o_proj.weight", 5);
    check_row(&w.lm_head, 32, t, n, "lm_head.weight", 32);
    assert_memory_equal(w.embedding, named(t, n, "model.embed_tokens.weight")->data, 33 * 64 * 4);
    assert_memory_equal(w.final_norm.w, named(t, n, "model.norm.weight")->data, 64 * 4);
    assert_memory_equal(l->post_norm.w,
                        named(t, n, "model.layers.1.post_attention_layernorm.weight")->data, 256);
    assert_null(l->qkv.bias);
    cpu_weights_free(&w);
    tmp_free(&dir);
    arena_free(&a);
}

/* Rows [head][q, k, v][head_dim] become [q heads | k heads | v heads]; biases move with them. */
static void test_bloom_rows(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct err e = {0};
    struct tmp dir = tmp_new();
    struct cpu_weights w;
    size_t n;
    const struct model m = small(MODEL_BLOOM);
    struct tensor *t = numbered(a, &m, &n);
    assert_ok(weights_write(arena_printf(a, "%s/model.safetensors", dir.dir), t, n, &e), &e);
    assert_ok(load(&w, &m, dir.dir, &e), &e);
    const char *const weight = "transformer.h.0.self_attention.query_key_value.weight";
    const float *bias = named(t, n, "transformer.h.0.self_attention.query_key_value.bias")->data;
    for (int64_t j = 0; j < 192; j++) {
        const int64_t which = j / 64, head = j % 64 / 32, from = (head * 3 + which) * 32 + j % 32;
        check_row(&w.layers[0].qkv, j, t, n, weight, from);
        assert_true(w.layers[0].qkv.bias[j] == bias[from]);
    }
    check_row(&w.lm_head, 7, t, n, "transformer.word_embeddings.weight", 7);
    assert_null(w.embedding);
    assert_memory_equal(w.emb_norm.b,
                        named(t, n, "transformer.word_embeddings_layernorm.bias")->data, 256);
    cpu_weights_free(&w);
    tmp_free(&dir);
    arena_free(&a);
}

/* Random weights are those that `model init` writes. */
static void test_random(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct err e = {0};
    struct cpu_weights w;
    struct model m = small(MODEL_QWEN3);
    size_t n;
    m.qk_norm = true;
    struct tensor *t = model_tensors(a, &m, NULL, &n);
    for (size_t i = 0; i < n; i++) {
        float *f = arena_alloc(a, t[i].bytes);
        model_random_tensor(&t[i], 17, f);
        t[i].data = f;
    }
    assert_ok(load(&w, &m, NULL, &e), &e);
    for (int64_t j = 0; j < 64; j++)
        check_row(&w.layers[1].qkv, 64 + j, t, n, "model.layers.1.self_attn.k_proj.weight", j);
    assert_memory_equal(w.embedding, named(t, n, "model.embed_tokens.weight")->data, 33 * 64 * 4);
    assert_true(w.layers[0].q_norm[3] == 1);
    cpu_weights_free(&w);
    arena_free(&a);
}

/* What a file may lack is tests/unit/model/weights_test.c's; here that it is said. */
static void test_missing_tensor(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct err e = {0};
    struct tmp dir = tmp_new();
    struct cpu_weights w;
    size_t n;
    const struct model m = small(MODEL_LLAMA);
    struct tensor *t = numbered(a, &m, &n);
    const char *name = "model.layers.1.mlp.up_proj.weight";
    *named(t, n, name) = t[n - 1];
    assert_ok(weights_write(arena_printf(a, "%s/model.safetensors", dir.dir), t, n - 1, &e), &e);
    assert_int_equal(load(&w, &m, dir.dir, &e), ST_INPUT);
    assert_string_equal(err_cause(&e, 0),
                        arena_printf(a, "cannot load the weights in %s", dir.dir));
    assert_string_equal(err_cause(&e, 1),
                        arena_printf(a, "%s: tensor '%s' is missing", dir.dir, name));
    cpu_weights_free(&w);
    tmp_free(&dir);
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_bloom_rows),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_missing_tensor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
