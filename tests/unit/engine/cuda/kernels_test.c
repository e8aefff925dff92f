#include "engine/cuda/kernels.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
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
        .tokens = 130, .rows = 5, .chunks = 3, .decodes = 4, .runs = 7, .sms = 132};
    const struct cuda_attention_args a = {
        .heads = 16, .kv_heads = 1, .head_dim = 128, .block_size = 16};
    struct cuda_launch l;
    cuda_kernels[CUDA_ATTENTION_PREFILL].launch(&a, CUDA_BF16, &most, &l);
    assert_int_equal(l.grid[0], 3 + 3); /* tiles of 64 tokens, and one more a chunk */
    assert_int_equal(l.grid[1], 16);
    assert_int_equal(l.shared_bytes, 5 * 64 * 128 * 2);
    cuda_kernels[CUDA_ATTENTION_DECODE].launch(&a, CUDA_BF16, &most, &l);
    assert_int_equal(l.grid[0], 2); /* 16 heads of one KV head: two tiles of 8 */
    assert_int_equal(l.grid[1], 7);
    assert_int_equal(l.grid[2], 1);
    const struct cuda_matmul_args m = {.in = 1024, .outs = 1000};
    cuda_kernels[CUDA_MATMUL_FEW].launch(&m, CUDA_BF16, &most, &l);
    assert_int_equal(l.grid[0], 125);
    cuda_kernels[CUDA_MATMUL_ONE].launch(&m, CUDA_F32, &most, &l);
    assert_int_equal(l.grid[0], 63); /* two features a warp */
    assert_int_equal(l.shared_bytes, 4096);
    cuda_kernels[CUDA_DECODE_STEP].launch(&(struct cuda_decode_step_args){0}, CUDA_BF16, &most, &l);
    assert_int_equal(l.grid[0], 132);            /* one a multiprocessor */
    const struct cuda_sizes none = {.sms = 132}; /* an empty grid cannot be launched */
    cuda_kernels[CUDA_ROPE].launch(&(struct cuda_rope_args){.heads = 1, .kv_heads = 1}, CUDA_BF16,
                                   &none, &l);
    assert_int_equal(l.grid[0], 1);
}

static enum cuda_kernel_id picked(int rows, int in, int outs, int act)
{
    const struct cuda_matmul_args a = {.in = in, .outs = outs, .act = act};
    return cuda_matmul_pick(&a, rows, CUDA_BF16, 132);
}

static void products_pick_their_rows(void **state)
{
    (void)state;
    assert_int_equal(picked(1, 4096, 2112, CUDA_ACT_NONE), CUDA_MATMUL_ONE);
    assert_int_equal(picked(1, 4096, 2111, CUDA_ACT_NONE), CUDA_MATMUL_FEW_WIDE);
    assert_int_equal(picked(1, 4096, 1056, CUDA_ACT_SILU_GATED), CUDA_MATMUL_ONE_GATED);
    assert_int_equal(picked(1, 4096, 1055, CUDA_ACT_SILU_GATED), CUDA_MATMUL_FEW_GATED);
    assert_int_equal(picked(1, 24576, 8192, CUDA_ACT_NONE), CUDA_MATMUL_ONE); /* 48 KiB */
    assert_int_equal(picked(1, 24584, 8192, CUDA_ACT_NONE), CUDA_MATMUL_FEW_WIDE);
    assert_int_equal(picked(2, 4096, 8192, CUDA_ACT_NONE), CUDA_MATMUL_FEW_WIDE);
    assert_int_equal(picked(1, 2048, 1024, CUDA_ACT_NONE), CUDA_MATMUL_FEW);
    assert_int_equal(picked(8, 1024, 151936, CUDA_ACT_NONE), CUDA_MATMUL_FEW_WIDE);
    assert_int_equal(picked(9, 1024, 3072, CUDA_ACT_SILU_GATED), CUDA_MATMUL_SOME_GATED);
    assert_int_equal(picked(16, 3072, 1024, CUDA_ACT_NONE), CUDA_MATMUL_SOME);
}

static void shapes_pick_their_rows(void **state)
{
    (void)state;
    assert_true(cuda_attention_fits(CUDA_BF16, 128, 16));
    assert_true(cuda_attention_fits(CUDA_F16, 64, 32));
    assert_false(cuda_attention_fits(CUDA_F32, 128, 16));
    assert_false(cuda_attention_fits(CUDA_BF16, 80, 16));
    assert_false(cuda_attention_fits(CUDA_BF16, 128, 8));
    struct cuda_decode_step_args qwen = {
        .attention = {.heads = 16, .kv_heads = 8, .head_dim = 128, .block_size = 16},
        .hidden = 1024,
        .intermediate = 3072};
    struct cuda_decode_step_args llama = {
        .attention = {.heads = 32, .kv_heads = 32, .head_dim = 128, .block_size = 16},
        .hidden = 4096,
        .intermediate = 11008};
    assert_int_equal(cuda_decode_step_rows(&qwen, CUDA_BF16, 132), 4);
    assert_int_equal(cuda_decode_step_rows(&qwen, CUDA_BF16, 16), 2); /* a KV head a block */
    assert_int_equal(cuda_decode_step_rows(&qwen, CUDA_F32, 132), 0);
    assert_int_equal(cuda_decode_step_rows(&llama, CUDA_F16, 132), 2); /* 11,008 inputs twice */
    assert_int_equal(cuda_decode_step_parts(1, 16, 8, 132), 16);
    assert_int_equal(cuda_decode_step_parts(4, 16, 8, 132), 4);
    assert_int_equal(cuda_decode_step_parts(2, 64, 64, 100), 1);
    /* one row: qkv, 16 parts of 16 heads; copies of x twice, act and the parts' shares */
    assert_int_equal(cuda_decode_step_words(&qwen, 1, 132),
                     (4096 + 16 * 16 * 128) / 2 + 4 * (1024 + 3072 / 2 + 16 * 16));
    assert_int_equal(cuda_decode_step_stamps(28), 142);
    assert_string_equal(cuda_decode_step_phase(28, 0), "qkv");
    assert_string_equal(cuda_decode_step_phase(28, 139), "down");
    assert_string_equal(cuda_decode_step_phase(28, 140), "head");
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

/* One program for one architecture; what NVRTC said of it, warnings included. */
struct job {
    const char *source, *text, *arch;
    enum cuda_dtype dtype;
    int head_dim;
    char *log;
    bool failed;
};

struct jobs {
    const struct nvrtc *nvrtc;
    struct job all[256];
    int n;
    atomic_int next;
};

static void compile(const struct nvrtc *n, struct job *j)
{
    char arch[64];
    snprintf(arch, sizeof arch, "--gpu-architecture=%s", j->arch);
    const char *options[] = {arch, "-std=c++17"};
    void *program;
    size_t bytes = 0;
    j->failed = n->create(&program, j->text, j->source, 0, NULL, NULL) != 0;
    if (j->failed)
        return;
    j->failed = n->compile(program, 2, options) != 0;
    if (n->log_bytes(program, &bytes) == 0 && bytes > 1) {
        j->log = mem_alloc(bytes + 1);
        n->log(program, j->log);
    }
    n->destroy(&program);
}

static void *compile_some(void *ctx)
{
    struct jobs *x = ctx;
    for (int i; (i = atomic_fetch_add(&x->next, 1)) < x->n;)
        compile(x->nvrtc, &x->all[i]);
    return NULL;
}

/* Every program of every dtype and head_dim. */
static void add_jobs(struct test *t, struct jobs *x, const char *arch)
{
    for (int i = 0; i < CUDA_KERNELS; i++) {
        const struct cuda_kernel *k = &cuda_kernels[i];
        bool seen = strtol(arch + 3, NULL, 10) < k->min_arch; /* "sm_80" */
        for (int j = 0; j < i; j++)
            seen |= strcmp(cuda_kernels[j].source, k->source) == 0;
        for (int d = 0; d < CUDA_DTYPES && !seen; d++)
            for (int head_dim = k->head_dim ? 64 : 0; has(k, d) && head_dim <= 128;
                 head_dim += head_dim ? 64 : 1000) {
                assert_true(x->n < 256);
                x->all[x->n++] = (struct job){
                    .source = k->source,
                    .text = cuda_program(t->a, k->source, (enum cuda_dtype)d, head_dim),
                    .arch = arch,
                    .dtype = (enum cuda_dtype)d,
                    .head_dim = head_dim};
            }
    }
}

static void programs_compile(void **state)
{
    static const struct {
        int number;
        const char *name;
    } archs[] = {{80, "sm_80"}, {90, "sm_90a"}, {100, "sm_100"}};
    enum { THREADS = 4 };
    struct test *t = *state;
    struct nvrtc n = {0};
    struct jobs x = {.nvrtc = &n};
    pthread_t threads[THREADS];
    if (!nvrtc_open(&n)) {
        print_message("skipped: libnvrtc is not on this machine\n");
        skip();
    }
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        if (knows(&n, archs[i].number))
            add_jobs(t, &x, archs[i].name);
        else
            print_message("skipped: this NVRTC does not know %s\n", archs[i].name);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, compile_some, &x), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_true(x.n > 0);
    for (int i = 0; i < x.n; i++) {
        const struct job *j = &x.all[i];
        if (j->failed || j->log) /* warnings are faults */
            fail_msg("%s, %s, head_dim %d, %s:\n%s", j->source, cuda_dtype_name(j->dtype),
                     j->head_dim, j->arch, j->log ? j->log : "NVRTC takes it not");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(entries_are_found_again),  TEST(rows_are_whole),
        TEST(programs_include_nothing), TEST(grids_cover_the_largest_step),
        TEST(shapes_pick_their_rows),   TEST(products_pick_their_rows),
        TEST(programs_compile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
