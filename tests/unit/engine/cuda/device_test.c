/* The table of kernels through the device layer, on the fake GPU: programs compile, every entry is
 * found, and a launch does what its twin does. */
#include "engine/cuda/kernels.h"

#include "engine/cuda/twins.h"
#include "gpu/compile.h"
#include "gpu/library.h"
#include "gpu/module.h"
#include "gpu/stream.h"
#include "support/fake_gpu/script.h"
#include "support/support.h"

struct stage {
    struct gpu g;
    struct gpu_compiler *c;
    CUstream stream;
};

static void stage_open(struct test *t, struct stage *s)
{
    struct gpu_nvrtc nvrtc;
    fake_gpu_play("");
    assert_ok(gpu_open(0, &s->g, &t->e), t);
    assert_ok(gpu_nvrtc_open(t->a, s->g.driver_version, &nvrtc, &t->e), t);
    gpu_compiler_open(&nvrtc, NULL, &s->c);
    assert_ok(gpu_stream_open(&s->g, &s->stream, &t->e), t);
}

static void stage_close(struct stage *s)
{
    gpu_stream_close(&s->g, &s->stream);
    gpu_compiler_close(&s->c);
    gpu_close(&s->g);
}

static CUmodule load(struct test *t, struct stage *s, const struct cuda_kernel *k,
                     enum cuda_dtype d)
{
    const struct gpu_source source = {
        .name = k->source, .text = cuda_program(t->a, k->source, d, k->head_dim ? 128 : 0)};
    struct sv image;
    CUmodule m;
    assert_ok(gpu_compile(s->c, t->a, &source, "sm_90a", &image, &t->e), t);
    assert_ok(gpu_module_load(&s->g, image, k->source, &m, &t->e), t);
    return m;
}

static void every_entry_is_in_its_program(void **state)
{
    struct test *t = *state;
    struct stage s = {0};
    stage_open(t, &s);
    for (int i = 0; i < CUDA_KERNELS; i++)
        for (int d = 0; d < CUDA_DTYPES; d++) {
            const struct cuda_kernel *k = &cuda_kernels[i];
            struct gpu_kernel found;
            if (!(k->dtypes >> d & 1))
                continue;
            CUmodule m = load(t, &s, k, (enum cuda_dtype)d);
            const char *entry = cuda_kernel_entry(t->a, k, (enum cuda_dtype)d);
            assert_ok(gpu_kernel_find(&s.g, m, entry, 100 << 10, &found, &t->e), t);
            gpu_module_close(&s.g, &m);
        }
    stage_close(&s);
}

/* Sizes come from device memory: one captured graph serves steps of different sizes. */
static void a_captured_launch_follows_the_step(void **state)
{
    struct test *t = *state;
    enum { WIDTH = 8, MOST = 3 };
    struct stage s = {0};
    const struct cuda_kernel *k = &cuda_kernels[CUDA_ACT];
    struct gpu_kernel found;
    struct cuda_launch rule;
    CUgraphExec graph;
    CUdeviceptr count, up, out;
    float in[MOST * WIDTH], got[MOST * WIDTH], want[MOST * WIDTH], before[MOST * WIDTH];
    stage_open(t, &s);
    CUmodule m = load(t, &s, k, CUDA_F32);
    assert_ok(gpu_kernel_find(&s.g, m, "act_f32", 0, &found, &t->e), t);
    assert_ok(gpu_alloc(&s.g, sizeof(int), "count", &count, &t->e), t);
    assert_ok(gpu_alloc(&s.g, sizeof in, "up", &up, &t->e), t);
    assert_ok(gpu_alloc(&s.g, sizeof in, "out", &out, &t->e), t);
    for (int i = 0; i < MOST * WIDTH; i++)
        in[i] = (float)(i - 10) / 4;
    assert_ok(gpu_upload(&s.g, up, in, sizeof in, s.stream, &t->e), t);

    struct cuda_act_args a = {.count = (const int *)(uintptr_t)count,
                              .up = (const void *)(uintptr_t)up,
                              .out = (void *)(uintptr_t)out,
                              .width = WIDTH,
                              .act = CUDA_ACT_GELU_TANH};
    void *params[] = {&a};
    k->launch(&a, CUDA_F32, &(struct cuda_sizes){.tokens = MOST, .rows = MOST, .sms = 4}, &rule);
    const struct gpu_launch l = {.grid = {rule.grid[0], rule.grid[1], rule.grid[2]},
                                 .block.x = rule.block,
                                 .shared_bytes = rule.shared_bytes,
                                 .early = true};
    assert_ok(gpu_capture_begin(&s.g, s.stream, &t->e), t);
    assert_ok(gpu_launch(&s.g, &found, &l, params, s.stream, &t->e), t);
    assert_ok(gpu_capture_end(&s.g, s.stream, &graph, NULL, &t->e), t);
    for (int n = 0; n <= MOST; n++) {
        assert_ok(gpu_fill(&s.g, out, 0x55, sizeof got, s.stream, &t->e), t);
        assert_ok(gpu_upload(&s.g, count, &n, sizeof n, s.stream, &t->e), t);
        assert_ok(gpu_graph_launch(&s.g, graph, s.stream, &t->e), t);
        assert_ok(gpu_download(&s.g, got, out, sizeof got, s.stream, &t->e), t);
        assert_ok(gpu_stream_wait(&s.g, s.stream, &t->e), t);
        memset(want, 0x55, sizeof want);
        memcpy(before, want, sizeof want);
        struct cuda_act_args host = a;
        host.count = &n, host.up = in, host.out = want;
        twin_act(&host, CUDA_F32);
        assert_memory_equal(got, want, sizeof want);
        assert_int_equal(n > 0, memcmp(want, before, sizeof want) != 0);
    }
    assert_int_equal(fake_gpu_launches("act_f32"), MOST + 1);
    gpu_graph_close(&s.g, &graph);
    gpu_free(&s.g, &count);
    gpu_free(&s.g, &up);
    gpu_free(&s.g, &out);
    gpu_module_close(&s.g, &m);
    stage_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_entry_is_in_its_program),
        TEST(a_captured_launch_follows_the_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
