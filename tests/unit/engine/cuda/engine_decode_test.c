/* Decode batches of the whole engine on the fake GPU, in 16 bits: rows of unequal lengths, whose
 * attention is cut into parts, and steps in one kernel while sequences lose their blocks. */
#include <math.h>
#include <stdlib.h>

#include "engine/cuda/engine.h"
#include "engine/cuda/parts.h"
#include "serve/serve.h"
#include "support/fake_gpu/fake_gpu.h"
#include "support/sequences.h"
#include "support/support.h"

enum { BLOCK = 16 };

static const struct {
    enum cuda_dtype dtype;
    double most; /* of the logits' difference to the CPU engine's float32 ones */
} types[] = {{CUDA_BF16, 0.05}, {CUDA_F16, 0.01}};
enum { TYPES = 2 };

static struct model model_of(struct test *t, const char *name)
{
    struct model m;
    const char *dir = arena_printf(t->a, "%s/tests/golden/models/%s", TW_SOURCE_DIR, name);
    assert_ok(model_load(t->a, dir, &m, &t->e), t);
    m.head_dim = 64;
    return m;
}

static struct cuda_engine_params params_of(struct test *t, const struct model *m,
                                           enum cuda_dtype dtype)
{
    setenv("XDG_CACHE_HOME", test_dir(t), 1);
    unsetenv("FAKE_GPU");
    fake_gpu_reset();
    return (struct cuda_engine_params){.model = m,
                                       .weights_seed = 3,
                                       .dtype = dtype,
                                       .block_size = BLOCK,
                                       .num_blocks = 200,
                                       .max_batch_tokens = 400,
                                       .max_rows = 40,
                                       .ignore_eos = true};
}

/* ---- unequal lengths ------------------------------------------------------------------------- */

enum { ROWS = 34, LONG = 140, STEPS = 2 };

static struct sequences *open_cuda(struct test *t, struct cuda_engine_params p)
{
    struct sequences *s = sequences_new(p.block_size, p.num_blocks, p.model->vocab);
    p.clock = &s->clock;
    assert_ok(cuda_engine_open(&p, &s->ex, &t->e), t);
    sequences_bind(s);
    return s;
}

static struct sequences *open_cpu(const struct cuda_engine_params *p)
{
    return sequences_open((struct cpu_engine_params){.model = p->model,
                                                     .weights_seed = p->weights_seed,
                                                     .threads = 1,
                                                     .block_size = p->block_size,
                                                     .num_blocks = p->num_blocks,
                                                     .max_batch_tokens = p->max_batch_tokens,
                                                     .max_rows = p->max_rows,
                                                     .ignore_eos = true});
}

/* Every twelfth prompt is long, the others are of 2 to 19 tokens. */
static void start_unequal(struct sequences *s)
{
    for (int32_t i = 0; i < ROWS; i++) {
        int32_t prompt[LONG];
        const int n = i % 12 == 5 ? LONG - i : 2 + i % 18;
        for (int k = 0; k < n; k++)
            prompt[k] = (i * 31 + k * 7 + 1) % 250;
        sequence_start(s, i, prompt, n);
        sequences_step(s, &(struct chunk){.slot = i, .tokens = n}, 1, NULL, 0);
    }
}

static void decode_all(struct sequences *s)
{
    int32_t rows[ROWS];
    for (int32_t i = 0; i < ROWS; i++)
        rows[i] = i;
    sequences_step(s, NULL, 0, rows, ROWS);
}

/* Of each row's logits to the CPU's, over the largest of all. */
static double difference(const float *logits, const struct sequences *cpu)
{
    double most = 0, scale = 0;
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t i = 0; i < cpu->vocab; i++) {
            const double want = (double)sequences_logits(cpu, r)[i];
            most = fmax(most, fabs((double)logits[r * cpu->vocab + i] - want));
            scale = fmax(scale, fabs(want));
        }
    return most / scale;
}

/* The same batches in two engines give the same bytes, near the CPU engine's. */
static void unequal_rows_are_near(void **state)
{
    struct test *t = *state;
    const struct model m = model_of(t, "qwen3");
    const int64_t n = ROWS * m.vocab;
    float *logits[2] = {arena_array(t->a, float, n), arena_array(t->a, float, n)};
    for (int i = 0; i < TYPES; i++) {
        const struct cuda_engine_params p = params_of(t, &m, types[i].dtype);
        struct sequences *cuda[2] = {open_cuda(t, p), open_cuda(t, p)}, *cpu = open_cpu(&p);
        for (int k = 0; k < 2; k++)
            start_unequal(cuda[k]);
        start_unequal(cpu);
        for (int step = 0; step < STEPS; step++) {
            for (int32_t r = 0; r < ROWS; r++) /* all go on with the CPU's tokens */
                for (int k = 0; k < 2; k++)
                    cuda[k]->slots[r].ids[cuda[k]->slots[r].n_ids - 1] =
                        cpu->slots[r].ids[cpu->slots[r].n_ids - 1];
            decode_all(cpu);
            for (int k = 0; k < 2; k++) {
                decode_all(cuda[k]);
                assert_ok(cuda_engine_logits(&cuda[k]->ex, ROWS, logits[k], &t->e), t);
            }
            const double far = difference(logits[0], cpu);
            assert_true(far > 0 && far < types[i].most);
            assert_memory_equal(logits[0], logits[1], (size_t)n * sizeof *logits[0]);
        }
        const char *entry = arena_printf(t->a, "attention_decode_%s", cuda_dtype_name(p.dtype));
        assert_int_equal(fake_gpu_launches(entry), 2 * STEPS * m.layers);
        for (int k = 0; k < 2; k++)
            sequences_close(&cuda[k]);
        sequences_close(&cpu);
    }
    assert_int_equal(fake_gpu_allocations(), 0);
}

/* ---- one kernel a step ----------------------------------------------------------------------- */

enum { REQUESTS = 8, FEW_BLOCKS = 4, MOST_OUT = 40 };

struct served {
    int pulled;
    int32_t tokens[REQUESTS][MOST_OUT];
    int n[REQUESTS];
    int64_t preemptions, steps;
};

static int tokens_of(int request)
{
    return 12 + 7 * request % 17;
}

static enum st next_request(void *self, struct workload_request *out, struct err *e)
{
    struct served *x = self;
    (void)e;
    if (x->pulled == REQUESTS)
        return ST_END;
    const int i = x->pulled++;
    *out = (struct workload_request){
        .request_id = i, .num_prefill_tokens = 3 + 11 * i % 23, .num_decode_tokens = tokens_of(i)};
    return ST_OK;
}

static enum st prompt_ids(void *self, const struct workload_request *r, int32_t *ids, struct err *e)
{
    (void)self;
    (void)e;
    for (int64_t i = 0; i < r->num_prefill_tokens; i++)
        ids[i] = (int32_t)((r->request_id * 31 + i * 7 + 1) % 250);
    return ST_OK;
}

static void on_token(void *self, const struct run_token *t)
{
    struct served *x = self;
    x->tokens[t->request_id][x->n[t->request_id]++] = (int32_t)t->token_id;
}

/* All requests are there at once and nothing looks at the time, so the batches are the same. */
static void serve_all(struct test *t, struct cuda_engine_params p, struct served *x)
{
    struct serve_clock clock = clock_real();
    struct executor ex;
    struct serve_counters n;
    const struct serve_params how = {.policy = "vllm_v1",
                                     .replicas = 1,
                                     .batch_cap = 2,
                                     .token_budget = 32,
                                     .block_size = BLOCK,
                                     .num_blocks = FEW_BLOCKS,
                                     .max_model_len = 64,
                                     .emit_tokens = true};
    const struct request_source source = {x, next_request, prompt_ids, NULL};
    const struct serve_sink sink = {.self = x, .token = on_token};
    const char *entry = arena_printf(t->a, "decode_step_%s", cuda_dtype_name(p.dtype));
    *x = (struct served){0};
    p.num_blocks = FEW_BLOCKS;
    p.clock = &clock;
    const int64_t before = fake_gpu_launches(entry);
    assert_ok(cuda_engine_open(&p, &ex, &t->e), t);
    assert_ok(serve_run(&how, &clock, &ex, &source, &sink, NULL, &n, &t->e), t);
    ex.ops->close(ex.self);
    x->preemptions = n.preemptions;
    x->steps = fake_gpu_launches(entry) - before;
}

/* Phases of the last step in one kernel: kept when asked for, and there was one. The twin takes a
 * microsecond for each. */
static void phases_are_kept(void **state)
{
    struct test *t = *state;
    const struct model m = model_of(t, "qwen3");
    const int32_t prompt[] = {1, 2, 3}, row = 0;
    for (int stamps = 0; stamps < 2; stamps++) {
        struct cuda_engine_params p = params_of(t, &m, CUDA_BF16);
        double s[CUDA_STEP_PHASES];
        p.fused = true;
        p.stamps = stamps;
        struct sequences *cuda = open_cuda(t, p);
        sequence_start(cuda, 0, prompt, 3);
        sequences_step(cuda, &(struct chunk){.slot = 0, .tokens = 3}, 1, NULL, 0);
        assert_false(cuda_engine_phases(&cuda->ex, s));
        sequences_step(cuda, NULL, 0, &row, 1);
        assert_int_equal(cuda_engine_phases(&cuda->ex, s), stamps);
        for (int i = 0; stamps && i < CUDA_STEP_PHASES; i++)
            assert_near(s[i], (i == CUDA_STEP_PHASES - 1 ? 1 : (double)m.layers) * 1e-6, 1e-12);
        sequences_close(&cuda);
    }
    assert_int_equal(fake_gpu_allocations(), 0);
}

/* With blocks for less than two of the longer requests, and two batches in flight: every token is
 * that of the kernels of the single operators. */
static void fused_steps_survive_preemption(void **state)
{
    struct test *t = *state;
    const struct model m = model_of(t, "qwen3");
    for (int i = 0; i < TYPES; i++) {
        struct served *both = arena_array(t->a, struct served, 2);
        struct cuda_engine_params p = params_of(t, &m, types[i].dtype);
        for (int fused = 0; fused < 2; fused++) {
            p.fused = fused;
            serve_all(t, p, &both[fused]);
            assert_true(both[fused].preemptions > 0);
            assert_int_equal(both[fused].steps > 20, fused);
            for (int r = 0; r < REQUESTS; r++)
                assert_int_equal(both[fused].n[r], tokens_of(r));
        }
        assert_memory_equal(both[0].tokens, both[1].tokens, sizeof both[0].tokens);
    }
    assert_int_equal(fake_gpu_allocations(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(unequal_rows_are_near),
        TEST(phases_are_kept),
        TEST(fused_steps_survive_preemption),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
