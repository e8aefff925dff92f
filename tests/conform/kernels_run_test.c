/* The CUDA engine on the fake GPU, whose kernels are here the sources on the emulator: what a whole
 * run launches, with the arguments that it launches them with, has no race and no other fault. */
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "support/fake_gpu/fake_gpu.h"
#include "support/gpu_emulator/check_row.h"

static long launches[CUDA_KERNELS];

static void run(const struct fake_twin *self, struct gpu_dim grid, struct gpu_dim block,
                void **params)
{
    const struct cuda_kernel *k = self->ctx;
    const enum cuda_dtype t = (enum cuda_dtype)self->tag;
    const bool odd = launches[k - cuda_kernels]++ % 2;
    const int head_dim =
        k->head_dim ? ((const struct cuda_attention_args *)params[0])->head_dim : 0;
    struct cuda_launch rule;
    k->launch(params[0], t, &(struct cuda_sizes){.sms = 1}, &rule); /* for its shared memory */
    const char *fault = emulator_run(
        &(struct emulator_launch){.kernel = emulator_entry(k->name, (int)t, head_dim)->kernel,
                                  .args = params[0],
                                  .grid = {grid.x, grid.y, grid.z},
                                  .block = block.x,
                                  .shared_bytes = rule.shared_bytes,
                                  .together = k == &cuda_kernels[CUDA_DECODE_STEP]},
        (struct emulator_order){.falling = odd, .late = odd, .races = true});
    if (!fault)
        return;
    fprintf(stderr, "%s_%s: %s\n", k->name, cuda_dtype_name(t), fault);
    _exit(1);
}

static bool find(const char *kernel, struct fake_twin *out)
{
    enum cuda_dtype t;
    const struct cuda_kernel *k = cuda_kernel_find(kernel, &t);
    if (!k)
        return false;
    *out = (struct fake_twin){
        .run = run, .ctx = k, .tag = (int)t, .one = {(uint16_t)k->args_bytes, 0}};
    return true;
}

/* A run of short requests; launches are counted anew. */
static void run_engine(const char *model, const char *dtype)
{
    struct tmp tmp = tmp_new();
    char out[300], of_model[300], of_type[64], *argv[16];
    snprintf(out, sizeof out, "out=%s/run", tmp.dir);
    snprintf(of_model, sizeof of_model, "%s", model);
    snprintf(of_type, sizeof of_type, "engine.dtype=%s", dtype);
    const char *args[] = {"twinfer",
                          "bench",
                          "engine=cuda",
                          of_model,
                          of_type,
                          "workload=synthetic",
                          "workload.num_requests=10",
                          "workload.arrival.kind=static",
                          "workload.lengths.kind=uniform",
                          "workload.lengths.min_tokens=4",
                          "workload.lengths.max_tokens=12",
                          "scheduler.num_blocks=160",
                          "scheduler.token_budget=24",
                          "scheduler.batch_cap=16",
                          "scheduler.max_model_len=64",
                          out};
    enum { ARGS = sizeof args / sizeof *args };
    for (int i = 0; i < ARGS; i++)
        argv[i] = (char *)(uintptr_t)args[i];
    memset(launches, 0, sizeof launches);
    assert_int_equal(cmd_main(ARGS, argv), 0);
    tmp_free(&tmp);
}

static void check_launched(const enum cuda_kernel_id *wanted, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (launches[wanted[i]] < 2) /* an order each */
            fail_msg("%s was launched %ld times", cuda_kernels[wanted[i]].name,
                     launches[wanted[i]]);
}

/* Products of up to 16 rows are kernels too, those of more are the library's: batches are small.
 * With arguments: of twinfer, in place of these ("conform.kernels_run bench engine=cuda ..."). */
static void a_run_of_the_engine_has_no_race(void **state)
{
    static const enum cuda_kernel_id wanted[] = {CUDA_EMBED,
                                                 CUDA_NORM,
                                                 CUDA_ROPE,
                                                 CUDA_ATTENTION_ANY,
                                                 CUDA_MATMUL_FEW_WIDE,
                                                 CUDA_MATMUL_FEW_GATED,
                                                 CUDA_MATMUL_SOME_WIDE,
                                                 CUDA_MATMUL_SOME_GATED,
                                                 CUDA_ARGMAX,
                                                 CUDA_RANDOM};
    (void)state;
    run_engine("model=tiny_qwen3", "bfloat16");
    check_launched(wanted, sizeof wanted / sizeof *wanted);
}

static void nor_has_one_with_experts(void **state)
{
    static const enum cuda_kernel_id wanted[] = {CUDA_ROUTE, CUDA_GROUP, CUDA_EXPERTS_FEW,
                                                 CUDA_COMBINE};
    (void)state;
    run_engine("model.ref=" TW_SOURCE_DIR "/tests/golden/models/qwen3_moe", "bfloat16");
    check_launched(wanted, sizeof wanted / sizeof *wanted);
    run_engine("model.ref=" TW_SOURCE_DIR "/tests/golden/models/gpt_oss", "float32");
    check_launched(wanted, sizeof wanted / sizeof *wanted);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {TEST(a_run_of_the_engine_has_no_race),
                                       TEST(nor_has_one_with_experts)};
    fake_gpu_twins(find);
    const int code = argc > 1 ? cmd_main(argc, argv) : cmocka_run_group_tests(tests, NULL, NULL);
    for (int i = 0; i < CUDA_KERNELS; i++)
        if (launches[i])
            printf("%-18s launched %ld times\n", cuda_kernels[i].name, launches[i]);
    return code;
}
