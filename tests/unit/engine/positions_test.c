#include "engine/positions.h"

#include <math.h>

#include "support/models.h"

#define ROPE(parameters, positions)                                                    \
    "{\"model_type\": \"llama\", \"vocab_size\": 9, \"hidden_size\": 128, "            \
    "\"intermediate_size\": 8, \"num_hidden_layers\": 1, \"num_attention_heads\": 1, " \
    "\"max_position_embeddings\": " positions ", \"rope_parameters\": {" parameters "}}"

/* Frequencies of transformers 5.17 (modeling_rope_utils.py), as float32, of pairs of a head of 128:
 * Llama 3.1, gpt-oss's with a head of 128, Qwen2.5's yarn, with mscale, linear. */
static void frequencies_are_transformers(void **state)
{
    struct test *t = *state;
    enum { PAIRS = 6 };
    static const int at[PAIRS] = {0, 16, 25, 32, 42, 63};
    static const struct {
        const char *config;
        double attention, f[PAIRS];
    } cases[] = {
        {ROPE("\"rope_type\": \"llama3\", \"rope_theta\": 500000, \"factor\": 8, "
              "\"low_freq_factor\": 1, \"high_freq_factor\": 4, "
              "\"original_max_position_embeddings\": 8192",
              "131072"),
         1,
         {1.0, 0.03760603070259094, 0.005940730683505535, 0.0005248460220173001,
          2.2748929040972143e-05, 3.068925877869333e-07}},
        {ROPE("\"rope_type\": \"yarn\", \"rope_theta\": 1000000, \"factor\": 4, "
              "\"original_max_position_embeddings\": 32768",
              "131072"),
         1.138629436111989,
         {1.0, 0.03162277862429619, 0.004131738096475601, 0.0006029411451891065,
          2.8869548259535804e-05, 3.102344408034696e-07}},
        {ROPE("\"rope_type\": \"yarn\", \"rope_theta\": 10000, \"factor\": 40, "
              "\"original_max_position_embeddings\": 4096, \"mscale\": 0.707, "
              "\"mscale_all_dim\": 1",
              "163840"),
         0.9210423553163399,
         {1.0, 0.10000000149011612, 0.022249659523367882, 0.005500000435858965,
          0.0004149904125370085, 2.886954689529375e-06}},
        {ROPE("\"rope_type\": \"linear\", \"rope_theta\": 1000000, \"factor\": 8", "131072"),
         1,
         {0.125, 0.0039528473280370235, 0.0005664479685947299, 0.0001250000059371814,
          1.4434774129767902e-05, 1.551172204017348e-07}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct model m = model_of_json(t, cases[i].config);
        assert_ok(model_check_computed(&m, &t->e), &t->e);
        const struct rope rope = model_rope(&m, 0);
        float cosine[2 * 64], sine[2 * 64];
        assert_near(rope.attention, cases[i].attention, 1e-12);
        positions_rotation(&rope, 128, 2, cosine, sine);
        for (int k = 0; k < PAIRS; k++) {
            const double want = sin(cases[i].f[k]) * rope.attention;
            assert_near((double)cosine[at[k]], rope.attention, 1e-7); /* position 0 */
            assert_near((double)sine[64 + at[k]] / want, 1, 1e-6);
        }
    }
}

/* gpt-oss: the ramp's ends stay between pairs. */
static void yarn_may_not_round(void **state)
{
    (void)state;
    static const int at[] = {0, 8, 12, 16, 21, 31};
    static const double f[] = {1.0,
                               0.05081327259540558,
                               0.006794959306716919,
                               0.0004564839182421565,
                               1.253256959898863e-05,
                               3.023511396804679e-07};
    const struct rope rope = {.type = ROPE_YARN,
                              .theta = 150000,
                              .factor = 32,
                              .original = 4096,
                              .low = 1,
                              .high = 32,
                              .attention = 1};
    float cosine[2 * 32], sine[2 * 32];
    positions_rotation(&rope, 64, 2, cosine, sine);
    for (size_t k = 0; k < sizeof at / sizeof *at; k++)
        assert_near((double)sine[32 + at[k]] / sin(f[k]), 1, 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(frequencies_are_transformers),
                                       TEST(yarn_may_not_round)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
