/* Where CUPTI is found; loader and loaded libraries by script, folders real. */
#define _GNU_SOURCE /* dl_iterate_phdr */
#include "inject/find.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/support.h"

/* ---- the loader ---- */

static const char *loader_has, *loaded[4];
static char opened[1024]; /* the path of the last library that was found */
static bool only_loaded;

void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags)
{
    if (!strchr(name, '/') && (!loader_has || strcmp(name, loader_has) != 0))
        return NULL;
    only_loaded = (flags & RTLD_NOLOAD) != 0;
    snprintf(opened, sizeof opened, "%s", name);
    return opened;
}

int __wrap_dl_iterate_phdr(int (*visit)(struct dl_phdr_info *, size_t, void *), void *user);
int __wrap_dl_iterate_phdr(int (*visit)(struct dl_phdr_info *, size_t, void *), void *user)
{
    int result = 0;
    for (size_t i = 0; i < 4 && loaded[i] && !result; i++)
        result = visit(&(struct dl_phdr_info){.dlpi_name = loaded[i]}, sizeof(struct dl_phdr_info),
                       user);
    return result;
}

/* Folders of the machine come behind all that these tests name. */
static void reset(void)
{
    static const char *const names[] = {
        "TWINFER_GPU_LIBRARIES", "CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV",
        "CONDA_PREFIX",          "PATH",      "HOME"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    memset(loaded, 0, sizeof loaded);
    loader_has = NULL;
    opened[0] = 0;
    only_loaded = false;
}

static void finds(const char *path)
{
    assert_ptr_equal(inject_find_cupti(""), opened);
    assert_string_equal(opened, path);
}

static void a_setting_decides(void **state)
{
    (void)state;
    reset();
    loaded[0] = "/loaded/libcupti.so.13";
    assert_ptr_equal(inject_find_cupti("/mine/libcupti.so"), opened);
    assert_string_equal(opened, "/mine/libcupti.so");
}

static void a_loaded_copy_comes_first(void **state)
{
    (void)state;
    reset();
    loader_has = "libcupti.so.13";
    loaded[0] = "";
    loaded[1] = "/lib/libc.so.6";
    loaded[2] = "/torch/lib/libcupti.so.12";
    finds("/torch/lib/libcupti.so.12");
    assert_true(only_loaded);
}

static void then_what_the_loader_finds(void **state)
{
    (void)state;
    reset();
    loader_has = "libcupti.so.12";
    finds("libcupti.so.12");
    assert_false(only_loaded);
}

/* Wheels of CUDA 12 have a folder each, those of CUDA 13 one for all. */
static void then_the_wheels_that_the_program_uses(void **state)
{
    struct test *t = *state;
    const char *of_12 = test_write(t, "a/nvidia/cuda_cupti/lib/libcupti.so.12", "");
    const char *of_13 = test_write(t, "b/nvidia/cu13/lib/libcupti.so.13", "");
    reset();
    setenv("TWINFER_GPU_LIBRARIES", "/", 1);
    loaded[0] = test_path(t, "a/nvidia/cuda_runtime/lib/libcudart.so.12");
    finds(of_12);
    loaded[0] = test_path(t, "b/nvidia/cu13/lib/libcudart.so.13");
    finds(of_13);
    loaded[0] = "/nvidia/lib/libx.so"; /* no wheel: nothing is above it */
    loaded[1] = "/lib/libx.so";
    setenv("TWINFER_GPU_LIBRARIES", test_path(t, "b/nvidia/cu13/lib"), 1);
    finds(of_13);
}

static void then_the_folders_of_the_program(void **state)
{
    struct test *t = *state;
    const char *toolkit = test_write(t, "toolkit/extras/CUPTI/lib64/libcupti.so.12", "");
    test_write(t, "own/libcupti.so.11", "");
    const char *own = test_write(t, "own/libcupti.so.13", "");
    reset();
    setenv("CUDA_HOME", test_path(t, "toolkit"), 1);
    finds(toolkit);
    setenv("TWINFER_GPU_LIBRARIES", arena_printf(t->a, "/absent:%s", test_path(t, "own")), 1);
    finds(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_setting_decides),
        TEST(a_loaded_copy_comes_first),
        TEST(then_what_the_loader_finds),
        TEST(then_the_wheels_that_the_program_uses),
        TEST(then_the_folders_of_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
