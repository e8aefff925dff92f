/* The engine's kernels, made and launched; random weights drawn by them. On the fake GPU, whose
 * NVRTC is a fake too; tests/unit/engine/cuda/kernels_test.c compiles them by a real one. */
#include "engine/cuda/programs.h"

#include "engine/cuda/random.h"
#include "gpu/library.h"
#include "gpu/stream.h"
#include "model/random.h"
#include "support/fake_gpu/script.h"
#include "support/support.h"

struct stage {
    struct gpu g;
    struct gpu_compiler *c;
    struct cuda_programs p;
    struct cuda_random_maker maker;
    CUstream stream;
};

static void stage_open(struct test *t, struct stage *s, const char *script)
{
    struct gpu_nvrtc nvrtc;
    *s = (struct stage){0};
    fake_gpu_play(script);
    assert_ok(gpu_open(0, &s->g, &t->e), t);
    assert_ok(gpu_nvrtc_open(t->a, s->g.driver_version, &nvrtc, &t->e), t);
    gpu_compiler_open(&nvrtc, NULL, &s->c);
    assert_ok(gpu_stream_open(&s->g, &s->stream, &t->e), t);
}

static void stage_close(struct stage *s)
{
    cuda_random_close(&s->maker);
    cuda_programs_close(&s->p);
    gpu_compiler_close(&s->c);
    gpu_stream_close(&s->g, &s->stream);
    gpu_close(&s->g);
}

static void every_entry_of_a_type_is_there(void **state)
{
    struct test *t = *state;
    for (int dtype = 0; dtype < CUDA_DTYPES; dtype++)
        for (int head_dim = 0; head_dim <= 128; head_dim += 32) {
            struct stage s;
            stage_open(t, &s, "");
            assert_ok(
                cuda_programs_open(&s.g, s.c, (enum cuda_dtype)dtype, head_dim, 2, &s.p, &t->e), t);
            for (int i = 0; i < CUDA_KERNELS; i++) {
                const struct cuda_kernel *k = &cuda_kernels[i];
                const bool want =
                    k->dtypes & 1U << dtype && (!k->head_dim || head_dim == 64 || head_dim == 128);
                assert_int_equal(s.p.kernel[i].function != NULL, want);
                if (want)
                    assert_int_equal(s.p.kernel[i].dynamic_shared_bytes, 227 << 10);
            }
            assert_true(s.p.ready_s > 0);
            stage_close(&s);
        }
}

static void what_cannot_be_made_is_named(void **state)
{
    static const struct {
        const char *script, *cause;
    } rows[] = {
        {"fail nvrtcCompileProgram 1+ 6", NULL},
        {"fail cuModuleLoadDataEx 3 209", NULL},
        {"fail cuModuleGetFunction 1 500", "cannot take kernel embed_bf16"},
        {"sm=70;archs=75", "NVRTC knows no GPU of compute capability 7.0"},
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct stage s;
        stage_open(t, &s, rows[i].script);
        err_clear(&t->e);
        assert_int_equal(cuda_programs_open(&s.g, s.c, CUDA_BF16, 128, 1, &s.p, &t->e), ST_DEVICE);
        assert_string_equal(err_cause(&t->e, 0), "cannot make the engine's kernels");
        if (rows[i].cause)
            assert_string_equal(err_cause(&t->e, 1), rows[i].cause);
        assert_null(s.p.arena);
        err_clear(&t->e);
        stage_close(&s);
    }
}

/* Sizes around the ends of draws and of the grid. */
static void random_tensors_are_those_of_the_host(void **state)
{
    static const int64_t sizes[] = {1, 7, 8, 9, 16, 2047, 2048, 2049, 300005};
    static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    struct test *t = *state;
    for (size_t d = 0; d < 3; d++) {
        struct stage s;
        stage_open(t, &s, "");
        assert_ok(cuda_programs_open(&s.g, s.c, cuda_dtype_of(types[d]), 0, 1, &s.p, &t->e), t);
        assert_ok(cuda_random_open(&s.p, &s.maker, &t->e), t);
        const struct cuda_random random = cuda_random_of(&s.maker);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int named = 0; named < 3; named++) {
                static const char *const names[] = {"a.weight", "b.norm.weight", "c.bias"};
                const int64_t n = sizes[i];
                const size_t bytes = (size_t)n * dtype_bytes(types[d]);
                struct tensor x = {.name = names[named],
                                   .dtype = DTYPE_F32,
                                   .n_dims = 2,
                                   .dims = {n, 1},
                                   .bytes = (size_t)n * 4};
                if (named > 0) /* constants are vectors */
                    x.n_dims = 1;
                float *values = arena_alloc(t->a, (size_t)n * 4);
                char *want = arena_alloc(t->a, bytes), *got = arena_alloc(t->a, bytes);
                CUdeviceptr at;
                model_random_tensor(&x, 42, values);
                x.data = values;
                tensor_convert(&x, 0, (size_t)n, types[d], want);
                assert_ok(gpu_alloc(&s.g, bytes, "a tensor", &at, &t->e), t);
                const struct cuda_random_piece all = {.to = at, .n = n};
                assert_ok(random.make(random.self, &x, 42, types[d], &all, s.stream, &t->e), t);
                assert_ok(gpu_download(&s.g, got, at, bytes, s.stream, &t->e), t);
                assert_ok(gpu_stream_wait(&s.g, s.stream, &t->e), t);
                assert_memory_equal(got, want, bytes);
                gpu_free(&s.g, &at);
            }
        stage_close(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_entry_of_a_type_is_there),
        TEST(what_cannot_be_made_is_named),
        TEST(random_tensors_are_those_of_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
