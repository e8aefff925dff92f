/* Compilation and its cache, with the fake NVRTC. */
#include "gpu/compile.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/fs.h"
#include "gpu/cache.h"
#include "gpu/library.h"
#include "support/fake_gpu/script.h"
#include "support/support.h"

static const char text[] = "extern \"C\" __global__ void one(int *x) {}\n";

static struct gpu_compiler *compiler(struct test *t, const char *cache, const char *script)
{
    struct gpu_nvrtc nvrtc;
    struct gpu_compiler *c;
    fake_gpu_play(script);
    assert_ok(gpu_nvrtc_open(t->a, 0, &nvrtc, &t->e), t);
    gpu_compiler_open(&nvrtc, cache, &c);
    return c;
}

static size_t n_files(struct test *t, const char *dir)
{
    const char **names;
    size_t n = 0;
    assert_ok(fs_list(t->a, dir, &names, &n, &t->e), t);
    return n;
}

static void assert_stats(struct gpu_compiler *c, int64_t compiled, int64_t from_cache,
                         int64_t stored, int64_t not_stored)
{
    const struct gpu_compile_stats s = gpu_compile_stats(c);
    assert_int_equal(s.compiled, compiled);
    assert_int_equal(s.from_cache, from_cache);
    assert_int_equal(s.stored, stored);
    assert_int_equal(s.not_stored, not_stored);
}

static void later_starts_compile_nothing(void **state)
{
    struct test *t = *state;
    const struct gpu_source s = {.name = "one.cu", .text = text};
    const char *cache = test_path(t, "deep/cache");
    struct sv first, second;
    struct gpu_compiler *c = compiler(t, cache, "");
    assert_false(fs_exists(cache));
    assert_ok(gpu_compile(c, t->a, &s, "sm_90a", &first, &t->e), t);
    assert_stats(c, 1, 0, 1, 0);
    gpu_compiler_close(&c);
    assert_null(c);
    c = compiler(t, cache, "fail nvrtcCompileProgram 1+ 1"); /* it would not work now */
    assert_ok(gpu_compile(c, t->a, &s, "sm_90a", &second, &t->e), t);
    assert_stats(c, 0, 1, 0, 0);
    assert_int_equal(first.n, second.n);
    assert_memory_equal(first.p, second.p, first.n);
    assert_int_equal(second.p[second.n], 0);
    gpu_compiler_close(&c);
}

static void all_that_an_image_depends_on_is_its_key(void **state)
{
    struct test *t = *state;
    static const char *const o_ab[] = {"-Da", "-Db", NULL}, *const o_a[] = {"-Da-Db", NULL};
    const struct {
        struct gpu_source source;
        const char *arch, *script;
    } rows[] = {
        {{"one.cu", text, NULL}, "sm_90a", ""},
        {{"one.cu", text, NULL}, "sm_90", ""},
        {{"one.cu", text, NULL}, "compute_90", ""},
        {{"two.cu", text, NULL}, "sm_90a", ""},
        {{"one.cu", text + 1, NULL}, "sm_90a", ""},
        {{"one.cu", text, o_ab}, "sm_90a", ""},
        {{"one.cu", text, o_a}, "sm_90a", ""},
        {{"one.cu", text, NULL}, "sm_90a", "nvrtc=1301"},
    };
    const char *cache = test_dir(t);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sv image;
        struct gpu_compiler *c = compiler(t, cache, rows[i].script);
        assert_ok(gpu_compile(c, t->a, &rows[i].source, rows[i].arch, &image, &t->e), t);
        assert_stats(c, 1, 0, 1, 0);
        gpu_compiler_close(&c);
        assert_int_equal(n_files(t, cache), i + 1);
    }
}

static void damaged_files_are_compiled_anew(void **state)
{
    struct test *t = *state;
    const struct gpu_source s = {.name = "one.cu", .text = text};
    const char **names;
    size_t n;
    struct sv image, file;
    const char *cache = test_dir(t);
    struct gpu_compiler *c = compiler(t, cache, "");
    assert_ok(gpu_compile(c, t->a, &s, "sm_90a", &image, &t->e), t);
    assert_ok(fs_list(t->a, cache, &names, &n, &t->e), t);
    const char *path = fs_join(t->a, cache, names[0]);
    assert_ok(fs_read(t->a, path, 1 << 20, &file, &t->e), t);
    const size_t cuts[] = {0, file.n / 3, file.n - 1, file.n};
    for (size_t i = 0; i < 4; i++) { /* the last keeps its length, and one byte is another */
        char *bytes = arena_copy(t->a, file.p, file.n);
        bytes[file.n - 1] ^= 1;
        assert_ok(fs_write_atomic(path, bytes, cuts[i], &t->e), t);
        for (int round = 0; round < 2; round++) {
            assert_ok(gpu_compile(c, t->a, &s, "sm_90a", &image, &t->e), t);
            assert_int_equal(gpu_compile_stats(c).compiled, 2 + (int)i);
        }
    }
    gpu_compiler_close(&c);
}

static void a_cache_that_cannot_be_written_is_no_error(void **state)
{
    struct test *t = *state;
    const struct gpu_source s = {.name = "one.cu", .text = text};
    struct sv image;
    const char *file = test_write(t, "file", "in the way");
    struct gpu_compiler *c = compiler(t, arena_printf(t->a, "%s/cache", file), "");
    assert_ok(gpu_compile(c, t->a, &s, "sm_90a", &image, &t->e), t);
    assert_ok(gpu_compile(c, t->a, &s, "sm_90a", &image, &t->e), t);
    assert_stats(c, 2, 0, 0, 2);
    assert_true(image.n > 0);
    gpu_compiler_close(&c);
    c = compiler(t, NULL, "");
    assert_ok(gpu_compile(c, t->a, &s, "sm_90a", &image, &t->e), t);
    assert_stats(c, 1, 0, 0, 0);
    gpu_compiler_close(&c);
}

static void the_compilers_words_are_the_error(void **state)
{
    struct test *t = *state;
    const struct gpu_source s = {.name = "bad.cu", .text = "#error\n"};
    const struct gpu_source good = {.name = "one.cu", .text = text};
    struct sv image;
    struct gpu_compiler *c = compiler(t, NULL, "fail nvrtcCreateProgram 2 1");
    assert_err(gpu_compile(c, t->a, &s, "sm_80", &image, &t->e), ST_DEVICE, t,
               "bad.cu does not compile for sm_80\n"
               "bad.cu(1): error: as asked for\n"
               "1 error detected in the compilation.");
    err_clear(&t->e);
    assert_err(gpu_compile(c, t->a, &good, "sm_80", &image, &t->e), ST_DEVICE, t,
               "one.cu does not compile for sm_80\n"
               "NVRTC gives error 1 and no log");
    gpu_compiler_close(&c);
}

static void several_are_compiled_at_once(void **state)
{
    struct test *t = *state;
    struct gpu_compile_job jobs[40];
    struct gpu_compiler *c = compiler(t, test_dir(t), "");
    for (int i = 0; i < 40; i++)
        jobs[i] = (struct gpu_compile_job){.source = {arena_printf(t->a, "%d.cu", i), text, NULL},
                                           .arch = "sm_90"};
    assert_ok(gpu_compile_all(c, t->a, jobs, 40, 4, &t->e), t);
    assert_stats(c, 40, 0, 40, 0);
    for (int i = 0; i < 40; i++)
        assert_true(jobs[i].image.n > 0);
    assert_ok(gpu_compile_all(c, t->a, jobs, 40, 1, &t->e), t);
    assert_stats(c, 40, 40, 40, 0);
    assert_ok(gpu_compile_all(c, t->a, jobs, 0, 4, &t->e), t);
    jobs[7].source.text = jobs[30].source.text = "#error";
    assert_err(gpu_compile_all(c, t->a, jobs, 40, 3, &t->e), ST_DEVICE, t,
               "7.cu does not compile for sm_90\n"
               "7.cu(1): error: as asked for\n"
               "1 error detected in the compilation.");
    gpu_compiler_close(&c);
}

static void the_architecture_follows_the_device(void **state)
{
    static const struct {
        const char *script;
        uint32_t major, minor;
        const char *arch; /* NULL = none */
    } rows[] = {{"", 9, 0, "sm_90a"},
                {"", 8, 0, "sm_80"},
                {"", 8, 9, "sm_89"},
                {"", 10, 0, "sm_100a"},
                {"archs=90", 10, 0, "compute_90"},
                {"archs=90", 12, 0, "compute_90"},
                {"", 7, 0, NULL}};
    struct test *t = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char arch[GPU_ARCH_MAX];
        struct gpu_compiler *c = compiler(t, NULL, rows[i].script);
        assert_int_equal(gpu_compile_arch(c, rows[i].major, rows[i].minor, arch),
                         rows[i].arch != NULL);
        if (rows[i].arch)
            assert_string_equal(arch, rows[i].arch);
        gpu_compiler_close(&c);
    }
}

static void the_cache_is_the_users(void **state)
{
    struct test *t = *state;
    setenv("XDG_CACHE_HOME", "/x/cache", 1);
    setenv("HOME", "/home/u", 1);
    assert_string_equal(gpu_cache_dir(t->a, "kernels"), "/x/cache/twinfer/kernels");
    setenv("XDG_CACHE_HOME", "relative", 1); /* ignored, as its specification says */
    assert_string_equal(gpu_cache_dir(t->a, "kernels"), "/home/u/.cache/twinfer/kernels");
    unsetenv("XDG_CACHE_HOME");
    assert_string_equal(gpu_cache_dir(t->a, "kernels"), "/home/u/.cache/twinfer/kernels");
    unsetenv("HOME");
    assert_null(gpu_cache_dir(t->a, "kernels"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(later_starts_compile_nothing),        TEST(all_that_an_image_depends_on_is_its_key),
        TEST(damaged_files_are_compiled_anew),     TEST(a_cache_that_cannot_be_written_is_no_error),
        TEST(the_compilers_words_are_the_error),   TEST(several_are_compiled_at_once),
        TEST(the_architecture_follows_the_device), TEST(the_cache_is_the_users),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
