/* Work of states, and their kernels against measured times. */
#include "model/state_ops.h"

#include "support/support.h"

/* NVIDIA's AIConfigurator 0.12.0, H200, vLLM 0.24.0's chunk_gated_delta_rule_flashinfer and
 * flashkda_fwd: sequences, tokens of each, heads of [128, 128], microseconds. */
static const struct {
    bool kda;
    double sequences, tokens, heads, us;
} measured[] = {
    {false, 1, 512, 32, 33},     {false, 1, 2048, 4, 104},   {false, 1, 2048, 64, 108},
    {false, 1, 32768, 32, 1564}, {false, 4, 2048, 32, 112},  {false, 4, 8192, 64, 851},
    {false, 16, 2048, 64, 855},  {false, 16, 512, 32, 136},  {false, 64, 2048, 16, 870},
    {true, 1, 16384, 12, 1165},  {true, 1, 4096, 12, 310},   {true, 1, 16384, 96, 1747},
    {true, 4, 4096, 96, 1424},   {true, 4, 16384, 48, 3087}, {true, 16, 2048, 96, 2894},
    {true, 16, 8192, 96, 12197}, {true, 4, 512, 96, 246},
};

static void kernels_take_what_was_measured(void **state)
{
    static const double peak = 989e12;
    (void)state;
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        const int64_t heads = (int64_t)measured[i].heads;
        const struct sequence_state s = {.type = STATE_DELTA,
                                         .heads = heads,
                                         .key_heads = heads,
                                         .decays = measured[i].kda ? 128 * heads : heads,
                                         .k_dim = 128,
                                         .v_dim = 128,
                                         .chunk = 64};
        const struct state_kernel k = state_kernel_of(&s);
        /* without what stands around the recurrence */
        const double flop = state_work_of(&s).prompt_flop - 9.0 * 128 * measured[i].heads;
        const double work =
            flop * measured[i].sequences * measured[i].tokens / (k.efficiency * peak);
        const double pieces = k.piece_s * measured[i].tokens / 64;
        const double ratio = (work > pieces ? work : pieces) * 1e6 / measured[i].us;
        print_message("%s %g x %g tokens, %g heads: %.2f of the measured time\n",
                      measured[i].kda ? "kda" : "gdn", measured[i].sequences, measured[i].tokens,
                      measured[i].heads, ratio);
        assert_true(ratio > 0.68 && ratio < 1.15);
    }
}

/* A state is read once and written once for each sequence, and once more for each draft: 96 heads
 * of Kimi delta attention, decode of 256 sequences in 802 us, steps of 2, 4 and 8 queries in 1269,
 * 2060 and 3849 us; 4.8 TB/s. */
static void states_move_as_measured(void **state)
{
    static const double us[] = {802, 1269, 2060, 3849};
    static const int queries[] = {1, 2, 4, 8};
    (void)state;
    for (int i = 0; i < 4; i++) {
        const double bytes = 256.0 * 96 * 128 * 128 * 4 * (1 + queries[i]);
        const double reached = bytes / (us[i] * 1e-6 * 4.8e12);
        assert_true(reached > 0.76 && reached < 0.85); /* kv_efficiency is 0.80 */
    }
}

static void others_are_as_attention(void **state)
{
    const struct sequence_state mamba2 = {.type = STATE_MAMBA2, .heads = 8, .k_dim = 8, .v_dim = 4};
    (void)state;
    assert_true(state_kernel_of(&mamba2).efficiency == 0);
    assert_true(state_work_of(&(struct sequence_state){0}).decode_flop == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(kernels_take_what_was_measured),
        TEST(states_move_as_measured),
        TEST(others_are_as_attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
