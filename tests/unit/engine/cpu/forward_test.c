/* The engine against Hugging Face transformers (tests/golden/README.md says what the files hold).
 */
#include "engine/cpu/forward.h"

#include <math.h>
#include <string.h>

#include "base/fs.h"
#include "model/weights.h"
#include "support/sequences.h"
#include "support/support.h"
#include "text/json.h"

enum { PROMPT = 40, DECODES = 32, VOCAB = 256 };

struct golden {
    struct arena *a;
    struct model model;
    const char *dir;
    int32_t prompt[PROMPT], decoded[DECODES];
    float prefill[PROMPT * VOCAB], decode[DECODES * VOCAB];
};

static void read_ids(const struct weights *w, const char *name, int32_t *out, size_t n)
{
    const struct tensor *t = weights_find(w, name);
    assert_non_null(t);
    assert_int_equal(t->bytes, n * sizeof(int64_t));
    for (size_t i = 0; i < n; i++) {
        int64_t id;
        memcpy(&id, (const char *)t->data + i * sizeof id, sizeof id);
        out[i] = (int32_t)id;
    }
}

static struct golden *golden_open(const char *name, const char *reference)
{
    struct err e = {0};
    struct weights *w = NULL;
    struct golden *g = mem_alloc(sizeof *g);
    g->a = arena_new();
    g->dir = arena_printf(g->a, "%s/tests/golden/models/%s", TW_SOURCE_DIR, name);
    assert_ok(model_load(g->a, g->dir, &g->model, &e), &e);
    const char *path = arena_printf(g->a, "%s/tests/golden/models/%s/reference.safetensors",
                                    TW_SOURCE_DIR, reference);
    assert_ok(weights_open(path, &w, &e), &e);
    read_ids(w, "input_ids", g->prompt, PROMPT);
    read_ids(w, "decode_ids", g->decoded, DECODES);
    tensor_to_f32(weights_find(w, "prefill_logits"), 0, PROMPT * VOCAB, g->prefill);
    tensor_to_f32(weights_find(w, "decode_logits"), 0, DECODES * VOCAB, g->decode);
    weights_close(&w);
    return g;
}

static void golden_close(struct golden *g)
{
    arena_free(&g->a);
    mem_free(g);
}

static struct cpu_engine_params params_of(const struct golden *g, int threads, int64_t block_size)
{
    return (struct cpu_engine_params){.model = &g->model,
                                      .weights_dir = g->dir,
                                      .threads = threads,
                                      .block_size = block_size,
                                      .num_blocks = 400 / block_size,
                                      .max_batch_tokens = 200,
                                      .max_rows = 100,
                                      .ignore_eos = true};
}

static double largest(const float *x, size_t n)
{
    double top = 0;
    for (size_t i = 0; i < n; i++)
        top = fabs((double)x[i]) > top ? fabs((double)x[i]) : top;
    return top;
}

/* Largest difference relative to the reference's largest logit. */
static double relative_error(const float *got, const float *want, size_t n)
{
    double top = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = fabs((double)got[i] - (double)want[i]);
        top = d > top ? d : top;
    }
    return top / largest(want, n);
}

static const double tolerance = 1e-4;

/* The prompt in chunks of those sizes (0 = the rest), then 32 decode steps. */
static double run_golden(const struct golden *g, int threads, int64_t block_size,
                         const int64_t *sizes)
{
    struct sequences *s = sequences_open(params_of(g, threads, block_size));
    const int32_t slot = 3;
    double worst = 0;
    sequence_start(s, slot, g->prompt, PROMPT);
    for (int i = 0; s->slots[slot].kv_tokens < PROMPT; i++) {
        const int64_t left = PROMPT - s->slots[slot].kv_tokens;
        struct chunk c = {.slot = slot, .tokens = sizes[i] && sizes[i] < left ? sizes[i] : left};
        sequences_step(s, &c, 1, NULL, 0);
    }
    worst = relative_error(sequences_logits(s, 0), g->prefill + (PROMPT - 1) * VOCAB, VOCAB);
    for (int i = 0; i < DECODES; i++) {
        assert_int_equal(s->slots[slot].ids[PROMPT + i], g->decoded[i]);
        sequences_step(s, NULL, 0, &slot, 1);
        const double error = relative_error(sequences_logits(s, 0), g->decode + i * VOCAB, VOCAB);
        worst = error > worst ? error : worst;
    }
    sequences_close(&s);
    return worst;
}

/* Of the last row of the prompt. */
static double prefill_error(const struct golden *g)
{
    struct sequences *s = sequences_open(params_of(g, 1, 16));
    struct chunk c = {.slot = 0, .tokens = PROMPT};
    sequence_start(s, 0, g->prompt, PROMPT);
    sequences_step(s, &c, 1, NULL, 0);
    const double error =
        relative_error(sequences_logits(s, 0), g->prefill + (PROMPT - 1) * VOCAB, VOCAB);
    sequences_close(&s);
    return error;
}

/* Each token of the prompt as a chunk of its own sequence shows every row of the prefill. */
static double run_prefixes(const struct golden *g)
{
    struct sequences *s = sequences_open(params_of(g, 1, 4));
    double worst = 0;
    for (int64_t n = 1; n <= PROMPT; n++) {
        struct chunk c = {.slot = 0, .tokens = n};
        sequence_start(s, 0, g->prompt, n);
        sequences_step(s, &c, 1, NULL, 0);
        const double error =
            relative_error(sequences_logits(s, 0), g->prefill + (n - 1) * VOCAB, VOCAB);
        worst = error > worst ? error : worst;
        sequence_drop(s, 0);
    }
    sequences_close(&s);
    return worst;
}

static void check_model(const char *name, const char *reference)
{
    static const int64_t whole[] = {0}, odd[] = {7, 1, 13, 2, 0}, single[PROMPT] = {[0] = 1};
    struct golden *g = golden_open(name, reference);
    assert_near(run_golden(g, 1, 16, whole), 0, tolerance);
    assert_near(run_golden(g, 2, 5, odd), 0, tolerance);
    assert_near(run_golden(g, 2, 32, single), 0, tolerance);
    assert_near(run_prefixes(g), 0, tolerance);
    golden_close(g);
}

static void test_qwen3(void **state)
{
    (void)state;
    check_model("qwen3", "qwen3");
}

static void test_qwen3_sharded(void **state)
{
    (void)state;
    check_model("qwen3_sharded", "qwen3");
}

static void test_llama(void **state)
{
    (void)state;
    check_model("llama", "llama");
}

static void test_bloom(void **state)
{
    (void)state;
    check_model("bloom", "bloom");
}

static void test_bloom_h6(void **state)
{
    (void)state;
    check_model("bloom_h6", "bloom_h6");
}

/* Angles that llama3 changes; head_dim more than hidden / heads. */
static void test_llama3(void **state)
{
    (void)state;
    check_model("llama3", "llama3");
}

/* Biases of q, k and v. */
static void test_qwen2(void **state)
{
    (void)state;
    check_model("qwen2", "qwen2");
}

/* Every layer slides. */
static void test_mistral(void **state)
{
    (void)state;
    check_model("mistral", "mistral");
}

static void test_mixtral(void **state)
{
    (void)state;
    check_model("mixtral", "mixtral");
}

/* One layer is dense, and wider; weights of the experts do not sum to 1. */
static void test_qwen3_moe(void **state)
{
    (void)state;
    check_model("qwen3_moe", "qwen3_moe");
}

static void test_qwen3_moe_norm(void **state)
{
    (void)state;
    check_model("qwen3_moe_norm", "qwen3_moe_norm");
}

/* Windows in turn, sinks, biases everywhere, yarn, clamped activation, experts in one tensor. */
static void test_gpt_oss(void **state)
{
    (void)state;
    check_model("gpt_oss", "gpt_oss");
}

/* q, k and v in one tensor, gate and up in another. */
static void test_phi3(void **state)
{
    (void)state;
    check_model("phi3", "phi3");
}

/* Windows, angles of two kinds, norms with an offset in front and behind. */
static void test_gemma3(void **state)
{
    (void)state;
    check_model("gemma3", "gemma3");
}

/* Every key that changes numbers does: with another value the engine is far from the reference. */
static void test_keys_count(void **state)
{
    (void)state;
    static const struct {
        const char *model, *key, *value;
    } cases[] = {
        {"mistral", "sliding_window", "12"},
        {"mistral", "sliding_window", "10"},
        {"gpt_oss", "sliding_window", "8"},
        {"gpt_oss", "swiglu_limit", "1e9"},
        {"gpt_oss", "rope_scaling", "{\"rope_type\": \"default\"}"},
        {"gpt_oss", "layer_types",
         "[\"full_attention\", \"full_attention\", \"sliding_attention\"]"},
        {"gemma3", "sliding_window", "11"},
        {"gemma3", "query_pre_attn_scalar", "24"},
        {"gemma3", "rope_local_base_freq", "1e6"},
        {"gemma3", "rope_scaling", "null"},
        {"gemma3", "sliding_window_pattern", "2"},
        {"qwen3_moe", "norm_topk_prob", "true"},
        {"qwen3_moe_norm", "norm_topk_prob", "false"},
        {"llama3", "rope_parameters", "{\"rope_type\": \"default\", \"rope_theta\": 1e4}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err e = {0};
        struct node *config, *value;
        struct golden *g = golden_open(cases[i].model, cases[i].model);
        const char *path = arena_printf(g->a, "%s/config.json", g->dir);
        assert_ok(json_load(g->a, path, NULL, &config, &e), &e);
        assert_ok(json_parse(g->a, "value", sv_of(cases[i].value), NULL, &value, &e), &e);
        node_set(g->a, config, sv_of(cases[i].key), value);
        assert_ok(model_from_config(g->a, cases[i].model, config, &g->model, &e), &e);
        if (!(prefill_error(g) > 5e-4))
            fail_msg("%s: %s=%s changes nothing", cases[i].model, cases[i].key, cases[i].value);
        golden_close(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_qwen3),    cmocka_unit_test(test_qwen3_sharded),
        cmocka_unit_test(test_llama),    cmocka_unit_test(test_bloom),
        cmocka_unit_test(test_bloom_h6), cmocka_unit_test(test_llama3),
        cmocka_unit_test(test_qwen2),    cmocka_unit_test(test_mistral),
        cmocka_unit_test(test_mixtral),  cmocka_unit_test(test_qwen3_moe),
        cmocka_unit_test(test_gpt_oss),  cmocka_unit_test(test_qwen3_moe_norm),
        cmocka_unit_test(test_gemma3),   cmocka_unit_test(test_keys_count),
        cmocka_unit_test(test_phi3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
