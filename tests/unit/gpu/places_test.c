/* Where libraries may be, by the environment. */
#include "gpu/places.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "support/support.h"

static int place_of(const struct gpu_places *p, const char *folder)
{
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->folders[i], folder) == 0)
            return (int)i;
    return -1;
}

static void the_environment_names_folders(void **state)
{
    struct test *t = *state;
    static const char *const files[] = {
        "own/libx.so",
        "toolkit/lib64/libx.so",
        "toolkit/extras/CUPTI/lib64/libx.so",
        "venv/lib/python3.11/site-packages/nvidia/cu13/lib/libx.so",
        "conda/lib/python3.12/site-packages/nvidia/cublas/lib/libx.so",
        "python/bin/python3",
        "python/lib/python3.9/site-packages/nvidia/cuda_nvrtc/lib/libx.so",
        "home/.local/lib/python3.10/site-packages/nvidia/nvrtc/lib/libx.so",
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        test_write(t, files[i], "");
    assert_int_equal(chmod(test_path(t, "python/bin/python3"), 0755), 0);
    setenv("TWINFER_GPU_LIBRARIES",
           arena_printf(t->a, "%s::%s", test_path(t, "own"), test_path(t, "absent")), 1);
    setenv("CUDA_HOME", test_path(t, "toolkit"), 1);
    setenv("CUDA_PATH", test_path(t, "toolkit"), 1);
    setenv("VIRTUAL_ENV", test_path(t, "venv"), 1);
    setenv("CONDA_PREFIX", test_path(t, "conda"), 1);
    setenv("PATH", arena_printf(t->a, "/nowhere:%s", test_path(t, "python/bin")), 1);
    setenv("HOME", test_path(t, "home"), 1);
    struct gpu_places p;
    gpu_places_find(t->a, &p);
    assert_int_equal(place_of(&p, test_path(t, "own")), 0);
    assert_int_equal(place_of(&p, test_path(t, "toolkit/lib64")), 1);
    assert_int_equal(place_of(&p, test_path(t, "toolkit/extras/CUPTI/lib64")), 2);
    int last = 2;
    static const char *const wheels[] = {
        "venv/lib/python3.11/site-packages/nvidia/cu13/lib",
        "conda/lib/python3.12/site-packages/nvidia/cublas/lib",
        "python/lib/python3.9/site-packages/nvidia/cuda_nvrtc/lib",
        "home/.local/lib/python3.10/site-packages/nvidia/nvrtc/lib"};
    for (int i = 0; i < 4; i++) {
        const int at = place_of(&p, test_path(t, wheels[i]));
        assert_true(at > last);
        last = at;
    }
    for (size_t i = 0; i < p.n; i++)
        for (size_t j = i + 1; j < p.n; j++)
            assert_string_not_equal(p.folders[i], p.folders[j]);
}

static void nothing_is_named_by_an_empty_environment(void **state)
{
    static const char *const names[] = {
        "TWINFER_GPU_LIBRARIES", "CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV",
        "CONDA_PREFIX",          "PATH",      "HOME"};
    struct test *t = *state;
    struct gpu_places p;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    gpu_places_find(t->a, &p);
    for (size_t i = 0; i < p.n; i++)
        assert_true(p.folders[i][0] == '/');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_environment_names_folders),
        TEST(nothing_is_named_by_an_empty_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
