/* The roofs of a GPU, on the fake device, whose rates are known (tests/support/fake_gpu). */
#include "doctor/roofs.h"

#include <math.h>

#include "support/fake_gpu/device.h"
#include "support/fake_gpu/script.h"
#include "support/support.h"
#include "text/json.h"

/* 1 MiB: products of 64 x 64, which plain C does in no time. */
static const char small[] = "memory=1;";

static enum st measure(struct test *t, const char *script, const volatile sig_atomic_t *stop,
                       struct roofs *out)
{
    const struct roofs_params p = {
        .cache = test_path(t, "cache"), .stop = stop, .warm_up_s = 1e-3, .sample_s = 1e-4};
    fake_gpu_play(arena_printf(t->a, "%s%s", small, script));
    roofs_begin(out);
    return roofs_measure_gpu(t->a, &p, out, &t->e);
}

static void every_roof_is_found(void **state)
{
    static const struct {
        enum roof_id id;
        double value;
    } rows[] = {
        {ROOF_GPU_READ, 400e9},     {ROOF_GPU_WRITE, 200e9},    {ROOF_GPU_COPY, 200e9},
        {ROOF_GPU_READ_L2, 800e9},  {ROOF_GPU_FMA_F64, 1e12},   {ROOF_GPU_FMA_F32, 2e12},
        {ROOF_GPU_FMA_F16, 4e12},   {ROOF_GPU_GEMM_BF16, 3e12}, {ROOF_GPU_GEMM_F16, 3e12},
        {ROOF_GPU_GEMM_TF32, 3e12}, {ROOF_GPU_GEMM_F32, 3e12},  {ROOF_GPU_TO_DEVICE, 12.5e9},
        {ROOF_GPU_TO_HOST, 12.5e9}, {ROOF_GPU_LAUNCH, 12e-6},   {ROOF_GPU_GRAPH_NODE, 12e-6}};
    struct test *t = *state;
    struct roofs r;
    const int64_t before = fake_gpu_allocations();
    assert_ok(measure(t, "", NULL, &r), t);
    assert_true(r.has_gpu);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct roof *f = &r.roof[rows[i].id];
        assert_int_equal(f->n, ROOF_SAMPLES);
        assert_near_rel(f->median, rows[i].value, 1e-3);
        assert_near_rel(f->low, rows[i].value, 1e-3);
        assert_near_rel(f->high, rows[i].value, 1e-3);
        assert_null(f->why);
    }
    assert_int_equal(r.roof[ROOF_GPU_LAUNCH_HOST].n, ROOF_SAMPLES);
    assert_true(r.roof[ROOF_GPU_LAUNCH_HOST].median > 0);
    assert_true(r.roof[ROOF_GPU_GRAPH_LAUNCH].median > 0);
    assert_near(r.roof[ROOF_GPU_READ].buffer_bytes, 1 << 18, 0); /* a quarter of what is free */
    assert_near(r.roof[ROOF_GPU_READ_L2].buffer_bytes, 1 << 18, 0);
    assert_near(r.roof[ROOF_GPU_GEMM_BF16].size, 64, 0);
    assert_int_equal(r.roof[ROOF_GPU_GEMM_BF16].under.reasons, NVML_REASON_POWER_CAP);
    assert_near(r.roof[ROOF_GPU_GEMM_BF16].under.sm_mhz, 1755, 0);
    assert_string_equal(r.gpu.name, "Fake GPU 0");
    assert_string_equal(r.gpu.driver, "580.00.01");
    assert_int_equal(r.gpu.kernels_compiled, 1);
    assert_int_equal(fake_gpu_allocations(), before);
    assert_ok(measure(t, "", NULL, &r), t); /* a later start */
    assert_int_equal(r.gpu.kernels_compiled, 0);
    assert_int_equal(r.gpu.kernels_from_cache, 1);
}

static void the_file_says_it_all(void **state)
{
    struct test *t = *state;
    struct roofs r;
    struct node *n;
    const char *path = test_path(t, "deep/roofs.json");
    assert_ok(measure(t, "", NULL, &r), t);
    assert_ok(roofs_write(path, &r, &t->e), t);
    assert_ok(roofs_write(path, &r, &t->e), t); /* over the one that is there */
    assert_ok(json_load(t->a, path, NULL, &n, &t->e), t);
    assert_string_equal(node_path(n, "kind")->s.p, "roofs");
    assert_string_equal(node_path(n, "gpu.uuid")->s.p, "GPU-00102030-4050-6070-8090-a0b0c0d0e0f0");
    assert_near_rel(node_path(n, "roofs.gpu_read.median")->f, 400e9, 1e-3);
    assert_string_equal(node_path(n, "roofs.gpu_read.unit")->s.p, "B/s");
    assert_string_equal(node_path(n, "roofs.gpu_gemm_f32.under.clock_limits")->s.p, "power cap");
    assert_near_rel(node_path(n, "hardware.peak_tflops.bf16")->f, 3, 1e-3);
    assert_near_rel(node_path(n, "hardware.dram_gb_per_s")->f, 400, 1e-3);
    assert_null(node_path(n, "roofs.host_read")); /* was not measured */
    assert_non_null(node_path(n, "tool.version"));
    assert_non_null(node_path(n, "host.cores"));
}

static void samples_of_a_hot_gpu_do_not_count(void **state)
{
    struct test *t = *state;
    struct roofs r;
    assert_ok(measure(t, "reasons=0x64", NULL, &r), t);
    assert_int_equal(r.roof[ROOF_GPU_READ].n, 0);
    assert_int_equal(r.roof[ROOF_GPU_READ].rejected, 3 * ROOF_SAMPLES);
    assert_string_equal(r.roof[ROOF_GPU_READ].why,
                        "clocks were held down: power cap, software thermal slowdown, hardware "
                        "thermal slowdown");
    const struct node *n = roofs_node(t->a, &r);
    assert_null(node_path(n, "hardware.dram_gb_per_s"));
    assert_int_equal(node_path(n, "roofs.gpu_read.median")->kind, NODE_NULL);
}

static void no_gpu_is_no_error_here(void **state)
{
    struct test *t = *state;
    struct roofs r;
    assert_ok(measure(t, "devices=0", NULL, &r), t);
    assert_false(r.has_gpu);
    assert_string_equal(r.no_gpu, "cuInit: no CUDA-capable device is detected (100)");
    assert_int_equal(node_path(roofs_node(t->a, &r), "gpu")->kind, NODE_NULL);
}

static void without_cublaslt_the_rest_is_measured(void **state)
{
    struct test *t = *state;
    struct roofs r;
    assert_ok(measure(t, "driver=12080;nvrtc=1208", NULL, &r), t);
    assert_int_equal(r.roof[ROOF_GPU_GEMM_BF16].n, 0);
    assert_non_null(strstr(r.roof[ROOF_GPU_GEMM_BF16].why, "is newer than the driver"));
    assert_int_equal(r.roof[ROOF_GPU_TO_HOST].n, ROOF_SAMPLES);
    assert_null(r.gpu.cublaslt);
}

static void faults_are_errors_with_the_kernel_out_of_the_way(void **state)
{
    static const struct {
        const char *script, *cause;
    } rows[] = {
        {"fail kernel:roof_write 2 700", "cuEventSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700)"},
        {"fail nvrtcCompileProgram 1 6", "roofs.cu does not compile for sm_90a"},
        {"fail cuMemAlloc_v2 2 2", "cannot allocate the buffer to copy to, 256 KiB"},
        {"fail cuMemHostAlloc 1 2",
         "cannot allocate the buffer of copies, 128 KiB of page-locked host memory"},
        {"fail cuStreamEndCapture 1 901",
         "cuStreamEndCapture: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901)"},
        {"archs=70;sm=60", "NVRTC 13.0 knows no GPU of compute capability 6.0"},
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct roofs r;
        const struct roofs_params p = {.warm_up_s = 1e-3, .sample_s = 1e-4};
        const int64_t before = fake_gpu_allocations();
        fake_gpu_play(arena_printf(t->a, "%s%s", small, rows[i].script));
        roofs_begin(&r);
        err_clear(&t->e);
        assert_int_equal(roofs_measure_gpu(t->a, &p, &r, &t->e), ST_DEVICE);
        assert_string_equal(err_cause(&t->e, 0), "cannot measure GPU 0");
        assert_string_equal(err_cause(&t->e, 1), rows[i].cause);
        assert_int_equal(fake_gpu_allocations(), before);
    }
}

static void forget(const struct fake_twin *self, struct gpu_dim grid, struct gpu_dim block,
                   void **params)
{
    (void)self, (void)grid, (void)block, (void)params;
}

static bool broken;
static bool find_broken(const char *kernel, struct fake_twin *out)
{
    static const uint16_t bytes[] = {8, 4, 0};
    *out = (struct fake_twin){.run = forget, .param_bytes = bytes};
    return broken && strcmp(kernel, "roof_write") == 0;
}

static void a_kernel_that_does_nothing_is_not_fast(void **state)
{
    struct test *t = *state;
    struct roofs r;
    fake_gpu_twins(find_broken);
    broken = true;
    assert_int_equal(measure(t, "", NULL, &r), ST_DEVICE);
    broken = false;
    assert_non_null(strstr(err_cause(&t->e, 1), "gpu_write: the words add up to"));
}

static void it_can_be_interrupted(void **state)
{
    struct test *t = *state;
    struct roofs r;
    const volatile sig_atomic_t stop = 1;
    assert_int_equal(measure(t, "", &stop, &r), ST_INTERRUPTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_gpu_is_no_error_here), /* first: cuInit succeeds once and for all */
        TEST(every_roof_is_found),
        TEST(the_file_says_it_all),
        TEST(samples_of_a_hot_gpu_do_not_count),
        TEST(without_cublaslt_the_rest_is_measured),
        TEST(faults_are_errors_with_the_kernel_out_of_the_way),
        TEST(a_kernel_that_does_nothing_is_not_fast),
        TEST(it_can_be_interrupted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
