/* A real NVRTC, where the machine has one: it needs no GPU. */
#include "gpu/nvrtc.h"

#include <stdlib.h>

#include "base/embed.h"
#include "gpu/compile.h"
#include "gpu/library.h"
#include "support/support.h"

static void the_real_compiler_makes_machine_code(void **state)
{
    static const char text[] = "extern \"C\" __global__ void add(float *x, float by, int n)\n"
                               "{\n"
                               "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                               "    if (i < n)\n"
                               "        x[i] += by * SCALE;\n"
                               "}\n";
    static const char *const options[] = {"-DSCALE=2.0f", NULL};
    struct test *t = *state;
    struct gpu_nvrtc nvrtc;
    struct gpu_compiler *c;
    struct sv image;
    struct err e = {0};
    char arch[GPU_ARCH_MAX];
    if (gpu_nvrtc_open(t->a, 0, &nvrtc, &e) != ST_OK) {
        print_message("skipped: %s\n", err_cause(&e, 0));
        skip();
    }
    assert_non_null(nvrtc.path);
    assert_true(nvrtc.major >= 12);
    const struct gpu_source s = {.name = "add.cu", .text = text, .options = options};
    gpu_compiler_open(&nvrtc, test_dir(t), &c);
    assert_true(gpu_compile_arch(c, 9, 0, arch));
    assert_string_equal(arch, "sm_90a");
    assert_ok(gpu_compile(c, t->a, &s, arch, &image, &t->e), t);
    assert_memory_equal(image.p, "\177ELF", 4);
    assert_ok(gpu_compile(c, t->a, &s, "compute_80", &image, &t->e), t);
    assert_non_null(strstr(image.p, ".target sm_80"));
    const struct gpu_source bad = {.name = "add.cu", .text = text};
    assert_int_equal(gpu_compile(c, t->a, &bad, arch, &image, &t->e), ST_DEVICE);
    assert_string_equal(err_cause(&t->e, 0), "add.cu does not compile for sm_90a");
    assert_string_equal(err_cause(&t->e, 1), "add.cu(5): error: identifier \"SCALE\" is undefined");
    gpu_compiler_close(&c);
}

/* Every architecture that it could be asked for. */
static void our_kernels_compile(void **state)
{
    static const char *const archs[] = {"sm_80",   "sm_86",   "sm_89",      "sm_90",     "sm_90a",
                                        "sm_100a", "sm_120a", "compute_80", "compute_90"};
    struct test *t = *state;
    struct gpu_nvrtc nvrtc;
    struct gpu_compiler *c;
    struct err e = {0};
    if (gpu_nvrtc_open(t->a, 0, &nvrtc, &e) != ST_OK) {
        print_message("skipped: %s\n", err_cause(&e, 0));
        skip();
    }
    gpu_compiler_open(&nvrtc, NULL, &c);
    for (const struct embed_file *f = embed_doctor; f->path; f++)
        for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
            const struct gpu_source s = {.name = f->path, .text = f->bytes};
            struct sv image;
            assert_ok(gpu_compile(c, t->a, &s, archs[i], &image, &t->e), t);
        }
    gpu_compiler_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(the_real_compiler_makes_machine_code),
                                       TEST(our_kernels_compile)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
