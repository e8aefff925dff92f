#include "kernels/kernels.h"

#include "support/support.h"

/* Grids and registers that the trace does not say are no zeros. */
static void what_is_not_known_is_null(void **state)
{
    struct test *t = *state;
    const char *path =
        test_write(t, "t.json",
                   "{\"traceEvents\": [\n"
                   "  {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"bare\", \"pid\": 0,\n"
                   "   \"tid\": 7, \"ts\": 5, \"dur\": 2, \"args\": {\"device\": 0, "
                   "\"stream\": 7}},\n"
                   "  {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"full\", \"pid\": 0,\n"
                   "   \"tid\": 7, \"ts\": 8, \"dur\": 2, \"args\": {\"device\": 0,\n"
                   "   \"stream\": 7, \"registers per thread\": 40, \"grid\": [4, 2, 1],\n"
                   "   \"block\": [128, 1, 1]}}]}\n");
    struct trace x;
    struct kernels k;
    struct buf text = {0};
    assert_ok(trace_load(&x, path, NULL, &t->e), t);
    kernels_open(&k, &x, NULL);
    kernels_unique_jsonl(&text, &k);
    assert_non_null(strstr(buf_str(&text), "\"grid\": null, \"block\": null, \"shared memory\": 0, "
                                           "\"name\": \"bare\"}"));
    assert_non_null(strstr(buf_str(&text), "\"registers per thread\": null"));
    assert_non_null(strstr(buf_str(&text), "\"grid\": [4, 2, 1], \"block\": [128, 1, 1], "
                                           "\"registers per thread\": 40"));
    buf_clear(&text);
    const struct kernels_timeline figures = kernels_timeline_of(t->a, &k);
    kernels_timeline_json(&text, &figures); /* one gap between two kernels, and no launch */
    assert_non_null(strstr(buf_str(&text), "\"launch_call\": null"));
    buf_free(&text);
    kernels_close(&k);
    trace_free(&x);
}

static void products_of_libraries_are_known_by_name(void **state)
{
    static const struct {
        const char *name;
        int tier;
    } rows[] = {
        {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", 2},
        {"Cijk_Ailk_Bljk_BBS_BH_Bias_AS_SAV_UserArgs_MT128x128x64", 2},
        {"Custom_Cijk_Alik_Bljk_HHS_BH_MT64x64", 2},
        {"void fbgemm_gpu::split_embedding_codegen_forward_kernel<float>(float*)", 3},
        {"fbgemm_quantize_kernel", 3},
        {"void fbgemm_gpu::gemm_rowwise<1>(float*)", 2}, /* says it beside the library's name */
        {"void cutlass::Kernel<fbgemm_gpu::Rowwise>(int)", 2},
        {"void flash_fwd_splitkv_gemm_kernel<1>(int)", 3},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(kernels_tier(TRACE_KERNEL, rows[i].name), rows[i].tier);
}

static void communication_is_known_by_name(void **state)
{
    static const char *const yes[] = {
        "ncclDevKernel_Generic_4(ncclArgs)",
        "ncclKernel_AllReduce_RING_LL_Sum_half(ncclWork)",
        "void rcclGenericKernel<1, false>(int)",
        "oneapi::ccl::allreduce_kernel(int)",
        "void vllm::cross_device_reduce_1stage<float, 2>(float*)",
        "void c10d::symmetric_memory::two_shot_all_reduce_kernel<__nv_bfloat16, 16, 8>(int)",
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<1>(int)",
        "void deep_ep::internode_ll::dispatch<true, 7168>(void*)"};
    static const char *const no[] = {"gemm", "void reduce_kernel<512, 1>(float*)",
                                     "my_ncclDevKernel_lookalike",
                                     "triton_poi_fused_add_all_reduce_mm_0"};
    struct test *t = *state;
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        assert_true(kernels_communicates(TRACE_KERNEL, yes[i], trace_short_name(t->a, yes[i])));
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        assert_false(kernels_communicates(TRACE_KERNEL, no[i], trace_short_name(t->a, no[i])));
    assert_false(kernels_communicates(TRACE_COPY, "nccl", "nccl"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(what_is_not_known_is_null),
                                       TEST(products_of_libraries_are_known_by_name),
                                       TEST(communication_is_known_by_name)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
