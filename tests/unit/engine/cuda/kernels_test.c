#include "engine/cuda/kernels.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "support/support.h"

static bool has(const struct cuda_kernel *k, int t)
{
    return k->dtypes >> t & 1;
}

static void entries_are_found_again(void **state)
{
    struct test *t = *state;
    for (int i = 0; i < CUDA_KERNELS; i++)
        for (int d = 0; d < CUDA_DTYPES; d++) {
            enum cuda_dtype found = CUDA_DTYPES;
            const char *entry = cuda_kernel_entry(t->a, &cuda_kernels[i], (enum cuda_dtype)d);
            const struct cuda_kernel *k = cuda_kernel_find(entry, &found);
            if (has(&cuda_kernels[i], d)) {
                assert_ptr_equal(k, &cuda_kernels[i]);
                assert_int_equal(found, d);
            } else {
                assert_null(k);
            }
        }
    enum cuda_dtype d;
    assert_null(cuda_kernel_find("norm", &d));
    assert_null(cuda_kernel_find("norm_f64", &d));
    assert_null(cuda_kernel_find("nor_bf16", &d));
    assert_null(cuda_kernel_find("", &d));
}

static void rows_are_whole(void **state)
{
    struct test *t = *state;
    for (int i = 0; i < CUDA_KERNELS; i++) {
        const struct cuda_kernel *k = &cuda_kernels[i];
        assert_non_null(k->name);
        assert_non_null(k->help);
        assert_true(k->launch && k->twin && k->floor);
        assert_true(k->dtypes != 0 && k->args_bytes > 0 && k->min_arch >= 80);
        assert_non_null(strstr(cuda_program(t->a, k->source, CUDA_BF16, 128), k->name));
    }
    assert_null(cuda_program(t->a, "none.cu", CUDA_F32, 0));
}

/* A host with a driver and NVRTC has no headers. */
static void programs_include_nothing(void **state)
{
    struct test *t = *state;
    for (int i = 0; i < CUDA_KERNELS; i++)
        assert_null(strstr(cuda_program(t->a, cuda_kernels[i].source, CUDA_F16, 64), "#include"));
}

static void grids_cover_the_largest_step(void **state)
{
    (void)state;
    const struct cuda_sizes most = {
        .tokens = 130, .rows = 5, .chunks = 3, .decodes = 4, .sms = 132};
    const struct cuda_attention_args a = {
        .heads = 16, .kv_heads = 1, .head_dim = 128, .block_size = 16, .splits = 7};
    struct cuda_launch l;
    cuda_kernels[CUDA_ATTENTION_PREFILL].launch(&a, CUDA_BF16, &most, &l);
    assert_int_equal(l.grid[0], 3 + 3); /* tiles of 64 tokens, and one more a chunk */
    assert_int_equal(l.grid[1], 16);
    assert_int_equal(l.shared_bytes, 5 * 64 * 128 * 2);
    cuda_kernels[CUDA_ATTENTION_DECODE].launch(&a, CUDA_BF16, &most, &l);
    assert_int_equal(l.grid[0], 7);
    assert_int_equal(l.grid[1], 2); /* 16 heads of one KV head: two tiles of 8 */
    assert_int_equal(l.grid[2], 4);
    const struct cuda_matmul_args m = {.in = 1024, .outs = 1000};
    cuda_kernels[CUDA_MATMUL_FEW].launch(&m, CUDA_BF16, &most, &l);
    assert_int_equal(l.grid[0], 125);
    const struct cuda_sizes none = {.sms = 132}; /* an empty grid cannot be launched */
    cuda_kernels[CUDA_ROPE].launch(&(struct cuda_rope_args){.heads = 1, .kv_heads = 1}, CUDA_BF16,
                                   &none, &l);
    assert_int_equal(l.grid[0], 1);
}

static void shapes_pick_their_rows(void **state)
{
    (void)state;
    assert_true(cuda_attention_fits(CUDA_BF16, 128, 16));
    assert_true(cuda_attention_fits(CUDA_F16, 64, 32));
    assert_false(cuda_attention_fits(CUDA_F32, 128, 16));
    assert_false(cuda_attention_fits(CUDA_BF16, 80, 16));
    assert_false(cuda_attention_fits(CUDA_BF16, 128, 8));
    assert_int_equal(cuda_matmul_pick(1, 1024, CUDA_ACT_NONE, 132), CUDA_MATMUL_FEW);
    assert_int_equal(cuda_matmul_pick(8, 151936, CUDA_ACT_NONE, 132), CUDA_MATMUL_FEW_WIDE);
    assert_int_equal(cuda_matmul_pick(9, 3072, CUDA_ACT_SILU_GATED, 132), CUDA_MATMUL_SOME_GATED);
    assert_int_equal(cuda_matmul_pick(16, 1024, CUDA_ACT_NONE, 132), CUDA_MATMUL_SOME);
    assert_int_equal(cuda_attention_splits(1000, 32, 8, 132), 1);
    assert_true(cuda_attention_splits(1, 16, 8, 132) > 1);
}

/* ---- NVRTC ----------------------------------------------------------------------------------- */

struct nvrtc {
    int (*create)(void **, const char *, const char *, int, const char *const *,
                  const char *const *);
    int (*compile)(void *, int, const char *const *);
    int (*log_bytes)(void *, size_t *);
    int (*log)(void *, char *);
    int (*destroy)(void **);
    int (*n_archs)(int *);
    int (*archs)(int *);
};

static bool nvrtc_open(struct nvrtc *n)
{
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                                        "/usr/local/cuda/lib64/libnvrtc.so"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++)
        library = dlopen(names[i], RTLD_NOW);
    if (!library)
        return false;
    *(void **)&n->create = dlsym(library, "nvrtcCreateProgram");
    *(void **)&n->compile = dlsym(library, "nvrtcCompileProgram");
    *(void **)&n->log_bytes = dlsym(library, "nvrtcGetProgramLogSize");
    *(void **)&n->log = dlsym(library, "nvrtcGetProgramLog");
    *(void **)&n->destroy = dlsym(library, "nvrtcDestroyProgram");
    *(void **)&n->n_archs = dlsym(library, "nvrtcGetNumSupportedArchs");
    *(void **)&n->archs = dlsym(library, "nvrtcGetSupportedArchs");
    return n->create && n->compile && n->log_bytes && n->log && n->destroy && n->n_archs &&
           n->archs;
}

static bool knows(const struct nvrtc *n, int arch)
{
    int count = 0, all[64];
    assert_int_equal(n->n_archs(&count), 0);
    assert_true(count <= 64);
    assert_int_equal(n->archs(all), 0);
    for (int i = 0; i < count; i++)
        if (all[i] == arch)
            return true;
    return false;
}

static void compile(struct test *t, const struct nvrtc *n, const char *source, enum cuda_dtype d,
                    int head_dim, const char *arch)
{
    const char *options[] = {arch, "-std=c++17"};
    void *program;
    size_t bytes;
    assert_int_equal(
        n->create(&program, cuda_program(t->a, source, d, head_dim), source, 0, NULL, NULL), 0);
    const int failed = n->compile(program, 2, options);
    assert_int_equal(n->log_bytes(program, &bytes), 0);
    char *log = arena_alloc(t->a, bytes + 1);
    assert_int_equal(n->log(program, log), 0);
    if (failed || strlen(log) > 1) /* warnings are faults */
        fail_msg("%s, %s, head_dim %d, %s:\n%s", source, cuda_dtype_name(d), head_dim, arch, log);
    n->destroy(&program);
}

/* Every program of every dtype and head_dim. */
static void compile_all(struct test *t, int number, const char *arch)
{
    struct nvrtc n = {0};
    if (!nvrtc_open(&n)) {
        print_message("skipped: libnvrtc is not on this machine\n");
        skip();
    }
    if (!knows(&n, number)) {
        print_message("skipped: this NVRTC does not know sm_%d\n", number);
        skip();
    }
    for (int i = 0; i < CUDA_KERNELS; i++) {
        const struct cuda_kernel *k = &cuda_kernels[i];
        bool seen = false;
        for (int j = 0; j < i; j++)
            seen |= strcmp(cuda_kernels[j].source, k->source) == 0;
        for (int d = 0; d < CUDA_DTYPES && !seen; d++)
            for (int head_dim = k->head_dim ? 64 : 0; has(k, d) && head_dim <= 128;
                 head_dim += head_dim ? 64 : 1000)
                compile(t, &n, k->source, (enum cuda_dtype)d, head_dim, arch);
    }
}

static void programs_compile_for_sm_80(void **state)
{
    compile_all(*state, 80, "--gpu-architecture=sm_80");
}

static void programs_compile_for_sm_90a(void **state)
{
    compile_all(*state, 90, "--gpu-architecture=sm_90a");
}

static void programs_compile_for_sm_100(void **state)
{
    compile_all(*state, 100, "--gpu-architecture=sm_100");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(entries_are_found_again),     TEST(rows_are_whole),
        TEST(programs_include_nothing),    TEST(grids_cover_the_largest_step),
        TEST(shapes_pick_their_rows),      TEST(programs_compile_for_sm_80),
        TEST(programs_compile_for_sm_90a), TEST(programs_compile_for_sm_100),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
