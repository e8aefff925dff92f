/* Kernels: from text to a launch, on the fake device. */
#include "gpu/module.h"

#include "gpu/compile.h"
#include "gpu/library.h"
#include "gpu/stream.h"
#include "support/fake_gpu/script.h"
#include "support/support.h"

static const char text[] =
    "extern \"C\" __global__ void __launch_bounds__(128) add(float *x, float by, int n)\n"
    "{\n"
    "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n)\n"
    "        x[i] += by;\n"
    "}\n"
    "extern \"C\" __global__ void without_twin(void) {}\n";

static void add(const struct fake_twin *self, struct gpu_dim grid, struct gpu_dim block,
                void **params)
{
    float *x = *(float **)params[0], by = *(float *)params[1];
    int n = *(int *)params[2];
    (void)self;
    assert_true((int)(grid.x * block.x) >= n);
    for (int i = 0; i < n; i++)
        x[i] += by;
}

static bool find_twin(const char *kernel, struct fake_twin *out)
{
    static const uint16_t bytes[] = {8, 4, 4, 0};
    *out = (struct fake_twin){.run = add, .param_bytes = bytes};
    return strcmp(kernel, "add") == 0;
}

struct stage {
    struct gpu g;
    struct gpu_compiler *c;
    struct sv image;
    CUmodule m;
};

static void stage_open(struct test *t, struct stage *s, const char *script)
{
    struct gpu_nvrtc nvrtc;
    const struct gpu_source source = {.name = "add.cu", .text = text};
    fake_gpu_play(script);
    fake_gpu_twins(find_twin);
    assert_ok(gpu_open(0, &s->g, &t->e), t);
    assert_ok(gpu_nvrtc_open(t->a, s->g.driver_version, &nvrtc, &t->e), t);
    gpu_compiler_open(&nvrtc, NULL, &s->c);
    assert_ok(gpu_compile(s->c, t->a, &source, "sm_90", &s->image, &t->e), t);
}

static void stage_close(struct stage *s)
{
    gpu_module_close(&s->g, &s->m);
    gpu_compiler_close(&s->c);
    gpu_close(&s->g);
}

static void a_kernel_is_launched(void **state)
{
    struct test *t = *state;
    struct stage s = {0};
    struct gpu_kernel k;
    CUgraphExec graph;
    CUstream stream;
    CUdeviceptr x;
    float values[3] = {1, 2, 3}, by = 0.5f;
    int n = 3;
    stage_open(t, &s, "");
    assert_ok(gpu_module_load(&s.g, s.image, "add.cu", &s.m, &t->e), t);
    assert_ok(gpu_kernel_find(&s.g, s.m, "add", 100 << 10, &k, &t->e), t);
    assert_int_equal(k.registers, 32);
    assert_ok(gpu_stream_open(&s.g, &stream, &t->e), t);
    assert_ok(gpu_alloc(&s.g, sizeof values, "x", &x, &t->e), t);
    assert_ok(gpu_upload(&s.g, x, values, sizeof values, stream, &t->e), t);
    void *params[] = {&x, &by, &n};
    const struct gpu_launch l = {.grid.x = 1, .block.x = 128, .shared_bytes = 100 << 10};
    assert_ok(gpu_launch(&s.g, &k, &l, params, stream, &t->e), t);
    by = 100; /* arguments count as they were */
    const struct gpu_launch early = {.grid.x = 1, .block.x = 128, .early = true};
    assert_ok(gpu_launch(&s.g, &k, &early, params, stream, &t->e), t);
    assert_ok(gpu_capture_begin(&s.g, stream, &t->e), t);
    by = 1000;
    assert_ok(gpu_launch(&s.g, &k, &early, params, stream, &t->e), t);
    assert_ok(gpu_capture_end(&s.g, stream, &graph, NULL, &t->e), t);
    by = 0;
    assert_ok(gpu_graph_launch(&s.g, graph, stream, &t->e), t);
    assert_ok(gpu_graph_launch(&s.g, graph, stream, &t->e), t);
    assert_ok(gpu_download(&s.g, values, x, sizeof values, stream, &t->e), t);
    assert_int_equal(fake_gpu_launches("add"), 0);
    assert_ok(gpu_stream_wait(&s.g, stream, &t->e), t);
    assert_int_equal(fake_gpu_launches("add"), 4);
    assert_near(values[2], 3 + 0.5 + 100 + 2000, 0);
    gpu_graph_close(&s.g, &graph);
    gpu_stream_close(&s.g, &stream);
    gpu_free(&s.g, &x);
    stage_close(&s);
}

static void how_many_blocks_fit_is_known(void **state)
{
    struct test *t = *state;
    struct stage s = {0};
    struct gpu_kernel k;
    int blocks = 0;
    stage_open(t, &s, "");
    assert_ok(gpu_module_load(&s.g, s.image, "add.cu", &s.m, &t->e), t);
    assert_ok(gpu_kernel_find(&s.g, s.m, "add", 0, &k, &t->e), t);
    assert_ok(gpu_kernel_blocks(&s.g, &k, 128, 0, &blocks, &t->e), t);
    assert_int_equal(blocks, 16);
    stage_close(&s);
}

static void what_cannot_be_loaded_is_named(void **state)
{
    struct test *t = *state;
    struct stage s = {0};
    struct gpu_kernel k;
    stage_open(t, &s, "");
    assert_err(gpu_module_load(&s.g, SV("no image at all"), "add.cu", &s.m, &t->e), ST_DEVICE, t,
               "cannot load the kernels of add.cu onto Fake GPU 0\n"
               "cuModuleLoadDataEx: CUDA_ERROR_INVALID_IMAGE (200)\n"
               "hint: the kernel was compiled for another GPU or by a compiler that the driver "
               "does not know; remove ~/.cache/twinfer/kernels and try again");
    assert_null(s.m);
    err_clear(&t->e);
    assert_ok(gpu_module_load(&s.g, s.image, "add.cu", &s.m, &t->e), t);
    assert_err(gpu_kernel_find(&s.g, s.m, "subtract", 0, &k, &t->e), ST_DEVICE, t,
               "cannot take kernel subtract\n"
               "cuModuleGetFunction: CUDA_ERROR_NOT_FOUND (500)");
    err_clear(&t->e);
    assert_int_equal(gpu_kernel_find(&s.g, s.m, "without_twin", 0, &k, &t->e), ST_DEVICE);
    assert_err(gpu_kernel_find(&s.g, s.m, "add", 1 << 20, &k, &t->e), ST_DEVICE, t,
               "cannot take kernel add\n"
               "cuFuncSetAttribute: CUDA_ERROR_INVALID_VALUE (1)");
    stage_close(&s);
}

static void a_launch_that_cannot_be_shows_its_shape(void **state)
{
    struct test *t = *state;
    struct stage s = {0};
    struct gpu_kernel k;
    CUdeviceptr x = 0;
    float by = 0;
    int n = 0;
    void *params[] = {&x, &by, &n};
    const struct gpu_launch large = {.grid = {2, 3, 1}, .block.x = 2048};
    const struct gpu_launch l = {.grid.x = 1, .block.x = 128};
    stage_open(t, &s, "fail kernel:add 2 700");
    assert_ok(gpu_module_load(&s.g, s.image, "add.cu", &s.m, &t->e), t);
    assert_ok(gpu_kernel_find(&s.g, s.m, "add", 0, &k, &t->e), t);
    assert_err(gpu_launch(&s.g, &k, &large, params, NULL, &t->e), ST_DEVICE, t,
               "cannot launch kernel add on 2 x 3 x 1 blocks of 2048 x 1 x 1 threads\n"
               "cuLaunchKernel: CUDA_ERROR_INVALID_VALUE (1)");
    assert_ok(gpu_launch(&s.g, &k, &l, params, NULL, &t->e), t);
    assert_ok(gpu_launch(&s.g, &k, &l, params, NULL, &t->e), t);
    assert_int_equal(gpu_wait(&s.g, &t->e), ST_DEVICE); /* the second one faults as it runs */
    assert_string_equal(err_cause(&t->e, 0), "cuCtxSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700)");
    assert_int_equal(fake_gpu_launches(NULL), 1);
    fake_gpu_play("");
    stage_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_kernel_is_launched),
        TEST(how_many_blocks_fit_is_known),
        TEST(what_cannot_be_loaded_is_named),
        TEST(a_launch_that_cannot_be_shows_its_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
