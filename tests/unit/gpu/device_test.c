/* A GPU that is opened, its memory and its errors, on the fake device. */
#include "gpu/device.h"

#include "gpu/library.h"
#include "support/fake_gpu/script.h"
#include "support/support.h"

static void a_gpu_is_opened_and_closed(void **state)
{
    struct test *t = *state;
    struct gpu g;
    fake_gpu_play("");
    assert_ok(gpu_open(0, &g, &t->e), t);
    assert_string_equal(g.facts.name, "Fake GPU 0");
    assert_int_equal(g.facts.major, 9);
    assert_int_equal(g.driver_version, 13000);
    assert_int_equal(g.total_bytes, 256 << 20);
    assert_int_equal(g.free_bytes, 256 << 20);
    gpu_close(&g);
    assert_null(g.context);
    gpu_close(&g);
}

static void what_cannot_be_opened_has_a_reason(void **state)
{
    static const struct {
        const char *script;
        int ordinal;
        const char *text;
    } rows[] = {
        {"devices=0", 0,
         "cannot open GPU 0\n"
         "cuInit: no CUDA-capable device is detected (100)\n"
         "hint: nvidia-smi tells whether the driver sees a GPU; CUDA_VISIBLE_DEVICES may hide all "
         "of them"},
        {"driver=11040", 0,
         "cannot open GPU 0\n"
         "the driver speaks CUDA 11.4\n"
         "hint: CUDA 12.0 (driver 525) or newer is needed"},
        {"devices=2", 2,
         "cannot open GPU 2\n"
         "there is no GPU 2: the driver shows 2\n"
         "hint: nvidia-smi -L lists the GPUs; they count from 0"},
        {"", -1,
         "cannot open GPU -1\n"
         "there is no GPU -1: the driver shows 1\n"
         "hint: nvidia-smi -L lists the GPUs; they count from 0"},
        {"fail cuDevicePrimaryCtxRetain 1 2", 0,
         "cannot open GPU 0\n"
         "cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY (2)\n"
         "hint: other processes may hold its memory: nvidia-smi lists them"},
        {"fail cuDevicePrimaryCtxRetain 1 802", 0,
         "cannot open GPU 0\n"
         "cuDevicePrimaryCtxRetain: CUDA_ERROR_SYSTEM_NOT_READY (802)\n"
         "hint: on machines with NVSwitch nvidia-fabricmanager must run: systemctl status "
         "nvidia-fabricmanager"},
        {"fail cuCtxSetCurrent 1 12345", 0,
         "cannot open GPU 0\n"
         "cuCtxSetCurrent: an error (12345)"},
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gpu g;
        fake_gpu_play(rows[i].script);
        err_clear(&t->e);
        assert_err(gpu_open(rows[i].ordinal, &g, &t->e), ST_DEVICE, t, rows[i].text);
        assert_null(g.context);
    }
}

static void memory_that_is_not_there_says_how_much_is(void **state)
{
    struct test *t = *state;
    struct gpu g;
    CUdeviceptr most, more = 1;
    void *host = t;
    fake_gpu_play("memory=64;fail cuMemHostAlloc 1 2");
    const int64_t before = fake_gpu_allocations();
    assert_ok(gpu_open(0, &g, &t->e), t);
    assert_ok(gpu_alloc(&g, 60 << 20, "the weights", &most, &t->e), t);
    assert_err(gpu_alloc(&g, 6 << 20, "the KV cache", &more, &t->e), ST_DEVICE, t,
               "cannot allocate the KV cache, 6.0 MiB\n"
               "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2): 4.0 MiB of 64.0 MiB are free on GPU 0\n"
               "hint: other processes may hold its memory: nvidia-smi lists them");
    assert_int_equal(more, 0);
    err_clear(&t->e);
    assert_err(gpu_host_alloc(&g, 1 << 20, "the logits", &host, &t->e), ST_DEVICE, t,
               "cannot allocate the logits, 1.0 MiB of page-locked host memory\n"
               "cuMemHostAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)\n"
               "hint: other processes may hold its memory: nvidia-smi lists them");
    assert_null(host);
    assert_ok(gpu_alloc(&g, 0, "nothing", &more, &t->e), t);
    assert_int_equal(more, 0);
    gpu_free(&g, &more);
    gpu_free(&g, &most);
    assert_int_equal(most, 0);
    assert_int_equal(fake_gpu_allocations(), before);
    gpu_close(&g);
}

static void bytes_go_to_the_device_and_back(void **state)
{
    struct test *t = *state;
    struct gpu g;
    CUdeviceptr a, b;
    void *pinned;
    char out[16], text[16] = "fifteen letters";
    fake_gpu_play("");
    assert_ok(gpu_open(0, &g, &t->e), t);
    assert_ok(gpu_alloc(&g, 16, "a", &a, &t->e), t);
    assert_ok(gpu_alloc(&g, 16, "b", &b, &t->e), t);
    assert_ok(gpu_host_alloc(&g, 16, "c", &pinned, &t->e), t);
    assert_ok(gpu_upload(&g, a, text, 16, NULL, &t->e), t);
    memset(text, 0, sizeof text); /* of pageable memory the bytes of the call count */
    assert_ok(gpu_copy(&g, b, a, 16, NULL, &t->e), t);
    assert_ok(gpu_fill(&g, b, 'x', 3, NULL, &t->e), t);
    memset(pinned, 0, 16);
    assert_ok(gpu_download(&g, pinned, b, 16, NULL, &t->e), t);
    assert_int_equal(*(char *)pinned, 0); /* the fake device is as lazy as may be */
    assert_ok(gpu_wait(&g, &t->e), t);
    assert_string_equal(pinned, "xxxteen letters");
    assert_ok(gpu_upload(&g, a, pinned, 16, NULL, &t->e), t);
    memset(pinned, 'y', 15); /* of page-locked memory those of the copy's time */
    assert_ok(gpu_download(&g, out, a, 16, NULL, &t->e), t);
    assert_ok(gpu_wait(&g, &t->e), t);
    assert_string_equal(out, "yyyyyyyyyyyyyyy");
    gpu_free(&g, &a);
    gpu_free(&g, &b);
    gpu_host_free(&g, &pinned);
    gpu_close(&g);
}

static void a_fault_stays(void **state)
{
    struct test *t = *state;
    struct gpu g;
    CUdeviceptr a;
    const char *text = "cuCtxSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700)\n"
                       "hint: a kernel read or wrote outside its buffers: compute-sanitizer finds "
                       "the place";
    fake_gpu_play("");
    assert_ok(gpu_open(0, &g, &t->e), t);
    assert_ok(gpu_alloc(&g, 16, "a", &a, &t->e), t);
    assert_ok(gpu_fill(&g, a + 1, 0, 16, NULL, &t->e), t);
    assert_err(gpu_wait(&g, &t->e), ST_DEVICE, t, text);
    err_clear(&t->e);
    assert_err(gpu_wait(&g, &t->e), ST_DEVICE, t, text);
    assert_int_equal(gpu_fill(&g, a, 0, 16, NULL, &t->e), ST_DEVICE);
    assert_true(gpu_is_fatal(CUDA_ERROR_ILLEGAL_ADDRESS));
    assert_false(gpu_is_fatal(CUDA_ERROR_OUT_OF_MEMORY));
    assert_false(gpu_is_fatal(CUDA_ERROR_INVALID_VALUE));
    fake_gpu_play("");
    gpu_free(&g, &a);
    gpu_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_cannot_be_opened_has_a_reason),
        TEST(a_gpu_is_opened_and_closed),
        TEST(memory_that_is_not_there_says_how_much_is),
        TEST(bytes_go_to_the_device_and_back),
        TEST(a_fault_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
