#include "kernels/classes.h"

#include "support/support.h"

static void operators_are_known_by_name(void **state)
{
    static const struct {
        const char *name;
        enum kernels_operator is;
    } rows[] = {
        {"void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<"
         "flash::CollectiveMainloopFwdSm90<2, cute::tuple<int>>>>>(int)",
         CLASS_ATTENTION},
        {"void flash::prepare_varlen_num_blocks_kernel<1, true>(int)", CLASS_ATTENTION},
        {"void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>(int)", CLASS_ATTENTION},
        {"fmha_v2_flash_attention_bf16_64_128_S_q_k_v_128_causal_tma_ws_sm90_kernel",
         CLASS_ATTENTION},
        {"nvjet_tst_192x192_64x4_1x2_h_bz_coopB_TNT", CLASS_PRODUCTS},
        {"void cublasLt::splitKreduce_kernel<32, 16, int>(int)", CLASS_PRODUCTS},
        {"fused_moe_kernel", CLASS_EXPERTS},
        {"void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::"
         "GroupProblemShape<cute::tuple<int>>>>(int)",
         CLASS_EXPERTS},
        {"void vllm::moe::topkGating<8, 128, 4, 16, 32>(float const*)", CLASS_ROUTING},
        {"void vllm::moe::count_and_sort_expert_tokens_kernel<int>(int const*)", CLASS_ROUTING},
        {"void vllm::moe::moe_align_block_size_kernel<int>(int*)", CLASS_ROUTING},
        {"void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(int)", CLASS_NORMS},
        {"triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_2", CLASS_NORMS},
        {"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
         "at::native::ArgMaxOps<float>, unsigned int, long, 4, 4>>(int)",
         CLASS_SAMPLING},
        {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
         CLASS_COLLECTIVES},
        {"void vllm::act_and_mul_kernel<c10::BFloat16>(int)", CLASS_OTHER},
        {"triton_poi_fused_mul_silu_slice_1", CLASS_OTHER},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (kernels_class_of(TRACE_KERNEL, rows[i].name, rows[i].name) != rows[i].is)
            fail_msg(
                "%s: %s", rows[i].name,
                kernels_class_name(kernels_class_of(TRACE_KERNEL, rows[i].name, rows[i].name)));
    assert_int_equal(kernels_class_of(TRACE_SET, "Memset (Device)", "Memset (Device)"),
                     CLASS_COPIES);
    assert_null(kernels_class_name(KERNELS_CLASSES));
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(operators_are_known_by_name)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
