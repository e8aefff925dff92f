/* Weights on the (fake) device: each row where its operator looks for it, in the engine's type. */
#include "engine/cuda/weights.h"

#include <stdio.h>

#include "model/random.h"
#include "support/fake_gpu/script.h"
#include "support/support.h"

static struct model small(enum model_family family)
{
    struct model m = {.name = "small",
                      .family = family,
                      .layers = 2,
                      .hidden = 64,
                      .heads = 4,
                      .kv_heads = 2,
                      .head_dim = 16,
                      .intermediate = 20,
                      .vocab = 33,
                      .max_positions = 64,
                      .rope_theta = 10000,
                      .norm_eps = 1e-5,
                      .bos_id = -1};
    if (family == MODEL_BLOOM) {
        m.kv_heads = m.heads;
        m.norm = NORM_LAYER;
        m.act = ACT_GELU_TANH;
        m.position = POSITION_ALIBI;
        m.attn_bias = m.mlp_bias = m.emb_norm = m.tied = true;
    }
    return m;
}

/* Element i of tensor t is t + i / 4096. */
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

struct stage {
    struct test *t;
    struct gpu g;
    struct cuda_weights w;
    struct tensor *tensors;
    size_t n;
};

static const struct tensor *named(const struct stage *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->tensors[i].name, name) == 0)
            return &s->tensors[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

/* At `at` stand n elements of the tensor from `first` on. */
static void check(struct stage *s, CUdeviceptr at, const char *name, int64_t first, int64_t n)
{
    char got[4096 * 4], want[4096 * 4];
    const size_t bytes = (size_t)n * dtype_bytes(s->w.dtype);
    assert_true(n <= 4096);
    assert_ok(gpu_download(&s->g, got, at, bytes, NULL, &s->t->e), s->t);
    assert_ok(gpu_wait(&s->g, &s->t->e), s->t);
    tensor_convert(named(s, name), (size_t)first, (size_t)n, s->w.dtype, want);
    assert_memory_equal(got, want, bytes);
}

static void check_row(struct stage *s, const struct weight_matrix *w, int64_t row, const char *name,
                      int64_t from)
{
    const size_t bytes = (size_t)w->k * dtype_bytes(s->w.dtype);
    check(s, w->data + (size_t)row * bytes, name, from * w->k, w->k);
}

static void check_llama(struct stage *s)
{
    const struct weight_layer *l = &s->w.layers[1];
    for (int64_t r = 0; r < 64; r++)
        check_row(s, &l->qkv, r, "model.layers.1.self_attn.q_proj.weight", r);
    for (int64_t r = 0; r < 32; r++) {
        check_row(s, &l->qkv, 64 + r, "model.layers.1.self_attn.k_proj.weight", r);
        check_row(s, &l->qkv, 96 + r, "model.layers.1.self_attn.v_proj.weight", r);
        check_row(s, &s->w.lm_head, r + 1, "lm_head.weight", r + 1);
    }
    for (int64_t r = 0; r < 20; r++) {
        check_row(s, &l->up, r, "model.layers.1.mlp.gate_proj.weight", r);
        check_row(s, &l->up, 20 + r, "model.layers.1.mlp.up_proj.weight", r);
    }
    check_row(s, &l->down, 63, "model.layers.1.mlp.down_proj.weight", 63);
    check_row(s, &l->out, 5, "model.layers.1.self_attn.o_proj.weight", 5);
    check(s, s->w.embedding, "model.embed_tokens.weight", 0, 33 * 64);
    check(s, s->w.final_norm.w, "model.norm.weight", 0, 64);
    check(s, l->post_norm.w, "model.layers.1.post_attention_layernorm.weight", 0, 64);
    assert_int_equal(l->qkv.bias, 0);
    assert_int_equal(l->q_norm, 0);
    assert_int_equal(s->w.emb_norm.w, 0);
    assert_int_equal(l->input_norm.b, 0);
}

/* Rows [head][q, k, v][head_dim] become [q heads | k heads | v heads]; biases move with them. */
static void check_bloom(struct stage *s)
{
    static const char weight[] = "transformer.h.0.self_attention.query_key_value.weight";
    static const char bias[] = "transformer.h.0.self_attention.query_key_value.bias";
    const struct weight_matrix *qkv = &s->w.layers[0].qkv;
    for (int64_t r = 0; r < 192; r++) {
        const int64_t which = r / 64, head = r % 64 / 16, from = (head * 3 + which) * 16 + r % 16;
        check_row(s, qkv, r, weight, from);
        check(s, qkv->bias + (size_t)r * dtype_bytes(s->w.dtype), bias, from, 1);
    }
    check_row(s, &s->w.lm_head, 7, "transformer.word_embeddings.weight", 7);
    assert_int_equal(s->w.embedding, s->w.lm_head.data);
    check(s, s->w.emb_norm.b, "transformer.word_embeddings_layernorm.bias", 0, 64);
    check(s, s->w.layers[1].down.bias, "transformer.h.1.mlp.dense_4h_to_h.bias", 0, 64);
}

static const enum dtype engine_types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
static const struct {
    enum model_family family;
    void (*check)(struct stage *s);
} families[] = {{MODEL_LLAMA, check_llama}, {MODEL_BLOOM, check_bloom}};

static void files_go_to_their_places(void **state)
{
    struct test *t = *state;
    for (size_t f = 0; f < 2; f++)
        for (size_t d = 0; d < 3; d++) {
            const struct model m = small(families[f].family);
            struct stage s = {.t = t};
            fake_gpu_play("");
            const int64_t before = fake_gpu_allocations();
            s.tensors = numbered(t->a, &m, &s.n);
            assert_ok(weights_write(test_path(t, "model.safetensors"), s.tensors, s.n, &t->e), t);
            assert_ok(gpu_open(0, &s.g, &t->e), t);
            const struct cuda_weights_params p = {
                .g = &s.g, .model = &m, .dtype = engine_types[d], .dir = test_dir(t), .threads = 2};
            assert_ok(cuda_weights_load(&p, &s.w, &t->e), t);
            assert_int_equal(s.w.bytes, cuda_weights_bytes(&m, engine_types[d]));
            assert_int_equal(fake_gpu_allocations(), before + 1); /* nothing of the way stays */
            families[f].check(&s);
            cuda_weights_free(&s.g, &s.w);
            assert_int_equal(fake_gpu_allocations(), before);
            gpu_close(&s.g);
        }
}

/* Stands in for the kernel: the values of model/random.h. */
struct maker {
    struct gpu *g;
    struct arena *a;
    int made;
};

static enum st make(void *self, const struct tensor *t, uint64_t seed, enum dtype dtype,
                    const struct cuda_random_piece *piece, CUstream stream, struct err *e)
{
    struct maker *k = self;
    struct tensor made = *t;
    const size_t n = (size_t)tensor_elements(t);
    float *f = arena_alloc(k->a, n * sizeof *f);
    char *out = arena_alloc(k->a, n * sizeof *f);
    model_random_tensor(t, seed, f);
    made.data = f;
    tensor_convert(&made, 0, n, dtype, out);
    k->made++;
    assert_true(piece->first == 0 && piece->n == (int64_t)n && piece->width == 0);
    return gpu_upload(k->g, piece->to, out, n * dtype_bytes(dtype), stream, e);
}

static void random_ones_too(void **state)
{
    struct test *t = *state;
    for (size_t f = 0; f < 2; f++)
        for (size_t d = 0; d < 3; d++) {
            const struct model m = small(families[f].family);
            struct stage s = {.t = t};
            fake_gpu_play("");
            s.tensors = numbered(t->a, &m, &s.n);
            for (size_t i = 0; i < s.n; i++) {
                float *values = arena_alloc(t->a, s.tensors[i].bytes);
                model_random_tensor(&s.tensors[i], 17, values);
                s.tensors[i].data = values;
            }
            assert_ok(gpu_open(0, &s.g, &t->e), t);
            struct maker k = {&s.g, t->a, 0};
            const struct cuda_random random = {make, &k};
            const struct cuda_weights_params p = {
                .g = &s.g, .model = &m, .dtype = engine_types[d], .seed = 17, .random = &random};
            assert_ok(cuda_weights_load(&p, &s.w, &t->e), t);
            assert_int_equal(k.made, s.n);
            families[f].check(&s);
            cuda_weights_free(&s.g, &s.w);
            gpu_close(&s.g);
        }
}

static void what_goes_wrong_is_named_and_nothing_stays(void **state)
{
    static const struct {
        const char *script, *cause;
    } rows[] = {
        {"fail cuMemAlloc_v2 1 2", "cannot allocate the weights, 144 KiB"},
        {"fail cuMemHostAlloc 2 2",
         "cannot allocate a buffer for weights, 32.0 MiB of page-locked host memory"},
        {"fail cuMemcpyHtoDAsync_v2 5 719", "cuMemcpyHtoDAsync_v2: CUDA_ERROR_LAUNCH_FAILED (719)"},
        {"fail cuEventSynchronize 4 700", "cuEventSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700)"},
    };
    struct test *t = *state;
    const struct model m = small(MODEL_LLAMA);
    struct stage s = {.t = t};
    s.tensors = numbered(t->a, &m, &s.n);
    assert_ok(weights_write(test_path(t, "model.safetensors"), s.tensors, s.n, &t->e), t);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fake_gpu_play(rows[i].script);
        const int64_t before = fake_gpu_allocations();
        assert_ok(gpu_open(0, &s.g, &t->e), t);
        const struct cuda_weights_params p = {
            .g = &s.g, .model = &m, .dtype = DTYPE_F32, .dir = test_dir(t), .threads = 1};
        assert_int_equal(cuda_weights_load(&p, &s.w, &t->e), ST_DEVICE);
        assert_string_equal(err_cause(&t->e, 0),
                            arena_printf(t->a, "cannot load the weights in %s", test_dir(t)));
        assert_string_equal(err_cause(&t->e, 1), rows[i].cause);
        assert_int_equal(fake_gpu_allocations(), before);
        gpu_close(&s.g);
        err_clear(&t->e);
    }
    fake_gpu_play("");
    assert_ok(gpu_open(0, &s.g, &t->e), t);
    assert_ok(weights_write(test_path(t, "model.safetensors"), s.tensors, s.n - 1, &t->e), t);
    const struct cuda_weights_params p = {
        .g = &s.g, .model = &m, .dtype = DTYPE_F32, .dir = test_dir(t), .threads = 1};
    assert_int_equal(cuda_weights_load(&p, &s.w, &t->e), ST_INPUT);
    assert_string_equal(err_cause(&t->e, 1),
                        arena_printf(t->a, "%s: tensor 'lm_head.weight' is missing", test_dir(t)));
    gpu_close(&s.g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(files_go_to_their_places),
        TEST(random_ones_too),
        TEST(what_goes_wrong_is_named_and_nothing_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
