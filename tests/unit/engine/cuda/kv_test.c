/* The paged KV cache, on the fake device. */
#include "engine/cuda/kv.h"

#include "support/fake_gpu/script.h"
#include "support/support.h"

static const struct model m = {.layers = 3, .kv_heads = 2, .head_dim = 5};

static void every_layer_has_its_own_halves(void **state)
{
    struct test *t = *state;
    struct gpu g;
    struct cuda_kv kv;
    fake_gpu_play("");
    const int64_t before = fake_gpu_allocations();
    assert_ok(gpu_open(0, &g, &t->e), t);
    assert_int_equal(cuda_kv_block_bytes(&m, DTYPE_BF16, 16), 2 * 3 * 2 * 5 * 16 * 2);
    assert_ok(cuda_kv_open(&g, &m, DTYPE_BF16, 16, 7, &kv, &t->e), t);
    const size_t half = 7 * 2 * 16 * 5 * 2; /* bytes of the keys of a layer */
    CUdeviceptr last = kv.base;
    for (int64_t i = 0; i < 6; i++) {
        const CUdeviceptr at = i % 2 ? cuda_kv_values(&kv, i / 2) : cuda_kv_keys(&kv, i / 2);
        assert_int_equal(at % 256, 0);
        assert_true(i == 0 ? at == last : at >= last + half);
        assert_ok(gpu_fill(&g, at, (unsigned char)i, half, NULL, &t->e), t);
        last = at;
    }
    assert_true(last + half <= kv.base + kv.bytes);
    assert_ok(gpu_wait(&g, &t->e), t); /* all of it is ours */
    cuda_kv_close(&g, &kv);
    assert_int_equal(kv.base, 0);
    cuda_kv_close(&g, &kv);
    assert_int_equal(fake_gpu_allocations(), before);
    gpu_close(&g);
}

static void too_many_blocks_say_how_many_fit(void **state)
{
    struct test *t = *state;
    struct gpu g;
    struct cuda_kv kv;
    fake_gpu_play("memory=1");
    assert_ok(gpu_open(0, &g, &t->e), t);
    assert_err(cuda_kv_open(&g, &m, DTYPE_F32, 16, 1000, &kv, &t->e), ST_DEVICE, t,
               "1000 KV blocks of 16 tokens do not fit beside the weights: there is room for 273\n"
               "cannot allocate the KV cache, 3.7 MiB\n"
               "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2): 1.0 MiB of 1.0 MiB are free on GPU 0\n"
               "hint: other processes may hold its memory: nvidia-smi lists them");
    assert_int_equal(kv.base, 0);
    gpu_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_layer_has_its_own_halves),
        TEST(too_many_blocks_say_how_many_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
