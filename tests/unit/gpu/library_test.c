/* Libraries by script: dlopen and dlsym are this file's (see tests/CMakeLists.txt), so that a
 * machine with a GPU and one without give the same. */
#include "gpu/library.h"

#include <stdio.h>

#include "gpu/places.h"
#include "support/support.h"

/* ---- the loader ---- */

static struct library {
    const char *path;     /* as given to dlopen; NULL ends the list */
    const char *lacks[8]; /* every other function is there */
} libraries[4];
static char asked[4096]; /* names given to dlopen, a line each */

static int init_result, version_result;
static const char *error_text;

static int answer_init(unsigned flags)
{
    return (int)flags + init_result;
}
static int answer_nvml_init(void)
{
    return init_result;
}
static int answer_error_string(int result, const char **text)
{
    (void)result;
    *text = error_text;
    return 0;
}
static int answer_version(int *version)
{
    *version = 13010;
    return version_result;
}
static int answer_nccl_version(int *version)
{
    *version = 22703;
    return version_result;
}
static int answer_cupti_version(uint32_t *version)
{
    *version = 130001;
    return version_result;
}
static int answer_nvrtc_version(int *major, int *minor)
{
    *major = 13;
    *minor = 1;
    return version_result;
}
static size_t answer_size(void)
{
    return 91002;
}
static int answer_nothing(void)
{
    return 0;
}

static const struct {
    const char *name;
    void (*at)(void);
} functions[] = {
    {"cuInit", (void (*)(void))answer_init},
    {"nvmlInit_v2", (void (*)(void))answer_nvml_init},
    {"cuGetErrorString", (void (*)(void))answer_error_string},
    {"cuDriverGetVersion", (void (*)(void))answer_version},
    {"ncclGetVersion", (void (*)(void))answer_nccl_version},
    {"cuptiGetVersion", (void (*)(void))answer_cupti_version},
    {"nvrtcVersion", (void (*)(void))answer_nvrtc_version},
    {"cudnnGetVersion", (void (*)(void))answer_size},
    {"cublasLtGetVersion", (void (*)(void))answer_size},
};

void *__wrap_dlopen(const char *path, int flags);
void *__wrap_dlopen(const char *path, int flags)
{
    size_t n = strlen(asked);
    (void)flags;
    snprintf(asked + n, sizeof asked - n, "%s\n", path);
    for (struct library *l = libraries; l->path; l++)
        if (strcmp(l->path, path) == 0)
            return l;
    return NULL;
}

void *__wrap_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name)
{
    const struct library *l = handle;
    void (*at)(void) = (void (*)(void))answer_nothing;
    void *out;
    for (size_t i = 0; l->lacks[i]; i++)
        if (strcmp(l->lacks[i], name) == 0)
            return NULL;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0)
            at = functions[i].at;
    memcpy(&out, &at, sizeof out);
    return out;
}

/* The folders of this machine, by script too. */
static const char *places[4];

void __wrap_gpu_places_find(struct arena *a, struct gpu_places *out);
void __wrap_gpu_places_find(struct arena *a, struct gpu_places *out)
{
    (void)a;
    *out = (struct gpu_places){places, 0};
    while (places[out->n])
        out->n++;
}

static void install(struct library one)
{
    memset(libraries, 0, sizeof libraries);
    libraries[0] = one;
    init_result = version_result = 0;
    error_text = NULL;
    asked[0] = 0;
}

/* ---- opening ---- */

static void no_driver_is_an_error_with_a_remedy(void **state)
{
    struct test *t = *state;
    struct gpu_cuda cuda;
    struct gpu_nvml nvml;
    install((struct library){0});
    assert_err(gpu_cuda_open(&cuda, &t->e), ST_DEVICE, t,
               "libcuda.so.1 is not on this machine\n"
               "hint: install the NVIDIA driver, or start the container with GPUs (--gpus all); "
               "twinfer doctor looks further");
    err_clear(&t->e);
    assert_err(gpu_nvml_open(&nvml, &t->e), ST_DEVICE, t,
               "libnvidia-ml.so.1 is not on this machine\n"
               "hint: install the NVIDIA driver, or start the container with GPUs (--gpus all); "
               "twinfer doctor looks further");
    assert_string_equal(asked, "libcuda.so.1\nlibnvidia-ml.so.1\n");
}

static void an_old_driver_is_refused_by_what_it_lacks(void **state)
{
    struct test *t = *state;
    struct gpu_cuda cuda;
    struct gpu_nvml nvml;
    install((struct library){"libcuda.so.1", {"cuGraphLaunch", "cuDeviceTotalMem_v2"}});
    assert_err(gpu_cuda_open(&cuda, &t->e), ST_DEVICE, t,
               "libcuda.so.1 lacks cuDeviceTotalMem_v2\n"
               "hint: the driver is too old: CUDA 12.0 (driver 525) or newer is needed");
    install((struct library){"libnvidia-ml.so.1", {"nvmlDeviceGetUUID"}});
    err_clear(&t->e);
    assert_err(gpu_nvml_open(&nvml, &t->e), ST_DEVICE, t,
               "libnvidia-ml.so.1 lacks nvmlDeviceGetUUID");
}

static void optional_functions_may_be_absent(void **state)
{
    struct test *t = *state;
    struct gpu_cuda cuda;
    struct gpu_nvml nvml;
    install((struct library){"libcuda.so.1", {"cuGraphLaunch", "cuFuncGetName"}});
    assert_ok(gpu_cuda_open(&cuda, &t->e), t);
    assert_null(cuda.cuGraphLaunch);
    assert_null(cuda.cuFuncGetName);
    assert_non_null(cuda.cuDeviceGet);
    install((struct library){"libnvidia-ml.so.1", {"nvmlDeviceGetTemperature"}});
    assert_ok(gpu_nvml_open(&nvml, &t->e), t);
    assert_null(nvml.nvmlDeviceGetTemperature);
}

static void a_driver_that_does_not_start_gives_its_reason(void **state)
{
    struct test *t = *state;
    struct gpu_cuda cuda;
    struct gpu_nvml nvml;
    const char *hint = "nvidia-smi tells whether the driver sees a GPU; CUDA_VISIBLE_DEVICES may "
                       "hide all of them";
    install((struct library){"libcuda.so.1", {0}});
    init_result = 100;
    error_text = "no CUDA-capable device is detected";
    assert_err(
        gpu_cuda_open(&cuda, &t->e), ST_DEVICE, t,
        arena_printf(t->a, "cuInit: no CUDA-capable device is detected (100)\nhint: %s", hint));
    install((struct library){"libcuda.so.1", {"cuGetErrorString"}});
    init_result = 999;
    err_clear(&t->e);
    assert_err(gpu_cuda_open(&cuda, &t->e), ST_DEVICE, t,
               arena_printf(t->a, "cuInit: an error (999)\nhint: %s", hint));
    install((struct library){"libnvidia-ml.so.1", {0}});
    init_result = 9;
    err_clear(&t->e);
    assert_err(gpu_nvml_open(&nvml, &t->e), ST_DEVICE, t, "nvmlInit: error 9");
}

/* ---- looking ---- */

static void names_and_folders_are_tried_best_first(void **state)
{
    struct test *t = *state;
    struct gpu_library l;
    const char *second = test_write(t, "b/libcupti.so.12", "");
    test_write(t, "b/libcupti.so.13", "");
    test_write(t, "a/libcupti.so.12", "");
    places[0] = test_path(t, "a");
    places[1] = test_path(t, "b");
    install((struct library){second, {0}});
    gpu_library_look(t->a, GPU_LIB_CUPTI, &l);
    assert_string_equal(asked, arena_printf(t->a,
                                            "libcupti.so.13\n"
                                            "%s/b/libcupti.so.13\n"
                                            "libcupti.so.12\n"
                                            "%s/a/libcupti.so.12\n"
                                            "%s/b/libcupti.so.12\n",
                                            test_dir(t), test_dir(t), test_dir(t)));
    memset(places, 0, sizeof places);
    assert_string_equal(l.name, second);
    assert_string_equal(l.version, "API 130001");
    assert_non_null(l.path);
    assert_null(l.missing);
    assert_null(l.absent);
}

static void a_library_newer_than_the_driver_is_passed_over(void **state)
{
    struct test *t = *state;
    struct gpu_nvrtc nvrtc;
    struct gpu_cublaslt lt;
    install((struct library){"libnvrtc.so.13", {0}});
    libraries[1] = (struct library){"libnvrtc.so.12", {0}}; /* says 13.1 as well */
    assert_ok(gpu_nvrtc_open(t->a, 13000, &nvrtc, &t->e), t);
    assert_int_equal(nvrtc.major, 13);
    assert_err(gpu_nvrtc_open(t->a, 12080, &nvrtc, &t->e), ST_DEVICE, t,
               "libnvrtc.so.12 is newer than the driver, which speaks CUDA 12.8\n"
               "hint: pip install nvidia-cuda-nvrtc-cu12, or a newer driver");
    install((struct library){"libcublasLt.so.12", {0}}); /* 9.10.2 by its number */
    err_clear(&t->e);
    assert_ok(gpu_cublaslt_open(t->a, 12080, &lt, &t->e), t);
    assert_int_equal(lt.version, 91002);
    install((struct library){"libcublasLt.so.12", {"cublasLtMatmul"}});
    assert_int_equal(gpu_cublaslt_open(t->a, 0, &lt, &t->e), ST_DEVICE);
    assert_string_equal(err_hint_text(&t->e), "the library of CUDA 12.0 or a newer one is needed");
    install((struct library){0});
    err_clear(&t->e);
    assert_err(gpu_cublaslt_open(t->a, 0, &lt, &t->e), ST_DEVICE, t,
               "libcublasLt.so.13 was not found\n"
               "hint: pip install nvidia-cublas; a folder of its own can be named in "
               "TWINFER_GPU_LIBRARIES");
}

static void a_library_that_is_not_there_has_a_name_alone(void **state)
{
    struct test *t = *state;
    install((struct library){0});
    for (int id = 0; id < GPU_LIBS; id++) {
        struct gpu_library l;
        gpu_library_look(t->a, (enum gpu_library_id)id, &l);
        assert_non_null(l.name);
        assert_null(l.path);
        assert_null(l.version);
        assert_null(l.missing);
        assert_null(l.absent);
    }
}

static void missing_and_absent_functions_are_named(void **state)
{
    struct test *t = *state;
    struct gpu_library l;
    install((struct library){"libcuda.so.1",
                             {"cuFuncGetName", "cuGraphLaunch", "cuInit", "cuDeviceGet"}});
    gpu_library_look(t->a, GPU_LIB_CUDA, &l);
    assert_string_equal(l.missing, "cuInit");
    assert_string_equal(l.absent, "cuFuncGetName, cuGraphLaunch");
}

static void each_library_has_its_way_to_give_a_version(void **state)
{
    static const struct {
        enum gpu_library_id id;
        const char *file, *version;
    } rows[] = {
        {GPU_LIB_CUDA, "libcuda.so.1", "CUDA 13.1"},      {GPU_LIB_NVML, "libnvidia-ml.so.1", NULL},
        {GPU_LIB_CUBLASLT, "libcublasLt.so.13", "91002"}, {GPU_LIB_CUDNN, "libcudnn.so.9", "91002"},
        {GPU_LIB_NVRTC, "libnvrtc.so.13", "13.1"},        {GPU_LIB_NCCL, "libnccl.so.2", "2.27.3"},
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gpu_library l;
        install((struct library){rows[i].file, {0}});
        gpu_library_look(t->a, rows[i].id, &l);
        if (rows[i].version)
            assert_string_equal(l.version, rows[i].version);
        else
            assert_null(l.version);
        version_result = 1; /* of those that can fail */
        gpu_library_look(t->a, rows[i].id, &l);
        if (rows[i].id != GPU_LIB_CUBLASLT && rows[i].id != GPU_LIB_CUDNN)
            assert_null(l.version);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_driver_is_an_error_with_a_remedy),
        TEST(an_old_driver_is_refused_by_what_it_lacks),
        TEST(optional_functions_may_be_absent),
        TEST(a_driver_that_does_not_start_gives_its_reason),
        TEST(names_and_folders_are_tried_best_first),
        TEST(a_library_newer_than_the_driver_is_passed_over),
        TEST(a_library_that_is_not_there_has_a_name_alone),
        TEST(missing_and_absent_functions_are_named),
        TEST(each_library_has_its_way_to_give_a_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
