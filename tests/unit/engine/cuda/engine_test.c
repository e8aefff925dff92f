/* The whole engine on the fake GPU, whose kernels are the twins: against the CPU engine. */
#include "engine/cuda/engine.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "engine/cuda/fault.h"
#include "serve/serve.h"
#include "support/fake_gpu/fake_gpu.h"
#include "support/sequences.h"
#include "support/support.h"

enum { BLOCK = 8, BLOCKS = 200, TOKENS = 56, ROWS = 24 };

static struct model model_of(struct test *t, const char *name, const char **dir)
{
    struct model m;
    *dir = arena_printf(t->a, "%s/tests/golden/models/%s", TW_SOURCE_DIR, name);
    assert_ok(model_load(t->a, *dir, &m, &t->e), t);
    return m;
}

static struct cuda_engine_params params_of(struct test *t, const struct model *m, const char *dir)
{
    setenv("XDG_CACHE_HOME", test_dir(t), 1);
    unsetenv("FAKE_GPU");
    fake_gpu_reset();
    return (struct cuda_engine_params){.model = m,
                                       .weights_dir = dir,
                                       .weights_seed = 3,
                                       .dtype = CUDA_F32,
                                       .block_size = BLOCK,
                                       .num_blocks = BLOCKS,
                                       .max_batch_tokens = TOKENS,
                                       .max_rows = ROWS,
                                       .ignore_eos = true};
}

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
                                                     .weights_dir = p->weights_dir,
                                                     .weights_seed = p->weights_seed,
                                                     .threads = 1,
                                                     .block_size = p->block_size,
                                                     .num_blocks = p->num_blocks,
                                                     .max_batch_tokens = p->max_batch_tokens,
                                                     .max_rows = p->max_rows,
                                                     .ignore_eos = true});
}

/* ---- the CPU engine's tokens ----------------------------------------------------------------- */

struct step {
    struct chunk chunks[ROWS];
    int32_t decodes[ROWS], n_chunks, n_decodes;
};

/* Chunks of random size mixed with decodes, some decode sets at rest; of what both have alike. */
static void draw_step(struct rng *r, const struct sequences *s, int n, int64_t most, struct step *x)
{
    int64_t left_tokens = TOKENS;
    const bool rest = rng_below(r, 6) == 0;
    x->n_chunks = x->n_decodes = 0;
    for (int32_t i = 0; i < n; i++) {
        const struct sequence *q = &s->slots[i];
        const int64_t left = q->n_ids - q->kv_tokens;
        if (q->n_ids >= most)
            continue;
        if (left == 1 && q->kv_tokens > 0) {
            if (!rest)
                x->decodes[x->n_decodes++] = i;
        } else if (rng_below(r, 3) != 0 && left_tokens > ROWS) {
            int64_t tokens = 1 + (int64_t)rng_below(r, (uint64_t)left);
            tokens = tokens < left_tokens - ROWS ? tokens : left_tokens - ROWS;
            left_tokens -= tokens;
            x->chunks[x->n_chunks++] = (struct chunk){.slot = i, .tokens = tokens};
        }
    }
}

/* Largest difference of a row's logits to the CPU's, over the largest of them. */
static double difference(struct test *t, struct sequences *cuda, const struct sequences *cpu,
                         int64_t rows)
{
    const int64_t n = rows * cpu->vocab;
    float *logits = arena_array(t->a, float, n);
    double most = 0, scale = 0;
    assert_ok(cuda_engine_logits(&cuda->ex, rows, logits, &t->e), t);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < cpu->vocab; i++) {
            const double want = (double)sequences_logits(cpu, r)[i];
            most = fmax(most, fabs((double)logits[r * cpu->vocab + i] - want));
            scale = fmax(scale, fabs(want));
        }
    return most / scale;
}

/* Drives both engines through the same batches; `follow`: the CPU's tokens go on in both. Returns
 * the largest difference of logits. */
static double drive_both(struct test *t, struct sequences *cuda, struct sequences *cpu, int n,
                         int steps, uint64_t seed, bool follow)
{
    enum { LONGEST = 60 };
    struct rng r = rng_stream(seed, "cuda.engine");
    double most = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t prompt[LONGEST];
        const int64_t length = 1 + (int64_t)rng_below(&r, 40);
        for (int64_t k = 0; k < length; k++)
            prompt[k] = (int32_t)rng_below(&r, (uint64_t)cpu->vocab);
        sequence_start(cuda, i, prompt, length);
        sequence_start(cpu, i, prompt, length);
    }
    for (int i = 0; i < steps; i++) {
        struct step x, again;
        draw_step(&r, cpu, n, LONGEST - 5, &x);
        if (x.n_chunks + x.n_decodes == 0)
            continue;
        again = x;
        sequences_step(cpu, x.chunks, x.n_chunks, x.decodes, x.n_decodes);
        sequences_step(cuda, again.chunks, again.n_chunks, again.decodes, again.n_decodes);
        most = fmax(most, difference(t, cuda, cpu, cpu->done.n_tokens));
        for (int k = 0; k < cpu->done.n_tokens; k++) {
            const int32_t slot = cpu->done.tokens[k].slot;
            struct sequence *a = &cuda->slots[slot], *b = &cpu->slots[slot];
            assert_int_equal(a->n_ids, b->n_ids);
            if (follow)
                a->ids[a->n_ids - 1] = b->ids[b->n_ids - 1];
            else
                assert_int_equal(a->ids[a->n_ids - 1], b->ids[b->n_ids - 1]);
        }
    }
    for (int32_t i = 0; i < n; i++) {
        sequence_drop(cuda, i);
        sequence_drop(cpu, i);
    }
    return most;
}

static void float32_gives_the_cpu_engines_tokens(void **state)
{
    struct test *t = *state;
    static const char *const names[] = {"qwen3",   "llama",  "bloom_h6",      "qwen2",
                                        "mistral", "llama3", "mixtral",       "qwen3_moe",
                                        "gpt_oss", "gemma3", "qwen3_moe_norm"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int random = 0; random < 2; random++) {
            const char *dir;
            const struct model m = model_of(t, names[i], &dir);
            const struct cuda_engine_params p = params_of(t, &m, random ? NULL : dir);
            struct sequences *cuda = open_cuda(t, p), *cpu = open_cpu(&p);
            for (int sequences = 5; sequences <= 20; sequences += 15)
                assert_true(drive_both(t, cuda, cpu, sequences, 30, i, false) < 1e-4);
            sequences_close(&cuda);
            sequences_close(&cpu);
        }
    assert_int_equal(fake_gpu_allocations(), 0);
}

/* Biases everywhere, as InternLM has them. */
static void biases_are_added(void **state)
{
    struct test *t = *state;
    const char *dir;
    struct model m = model_of(t, "llama", &dir);
    m.attn_bias = m.mlp_bias = true;
    const struct cuda_engine_params p = params_of(t, &m, NULL);
    struct sequences *cuda = open_cuda(t, p), *cpu = open_cpu(&p);
    assert_true(drive_both(t, cuda, cpu, 20, 20, 1, false) < 1e-4);
    sequences_close(&cuda);
    sequences_close(&cpu);
}

/* With heads of that size and MLPs whose width is a multiple of 8. */
static void resize(struct test *t, struct model *m, int64_t head_dim)
{
    struct structure *s = arena_copy(t->a, m->structure, sizeof *s);
    m->head_dim = head_dim;
    for (int32_t i = 0; i < s->n_attentions; i++)
        s->attention[i].k_dim = s->attention[i].v_dim = s->attention[i].rotary_dim = head_dim;
    for (int32_t i = 0; i < s->n_mlps; i++)
        s->mlp[i].intermediate = s->mlp[i].intermediate / 8 * 8;
    m->intermediate = m->intermediate / 8 * 8;
    m->structure = s;
}

/* The shapes for which attention has its own kernels, in 16 bits: near the CPU's logits. */
static void half_precision_is_near(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *name;
        double times; /* norms of random weights double what they norm: sharp scores */
    } models[] = {{"qwen3", 1}, {"mixtral", 1}, {"gpt_oss", 1}, {"gemma3", 5}};
    enum { MODELS = sizeof models / sizeof *models };
    static const struct {
        enum cuda_dtype dtype;
        double most;
    } types[] = {{CUDA_BF16, 0.05}, {CUDA_F16, 0.01}};
    const char *dir;
    for (int k = 0; k < 2 * MODELS; k++)
        for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
            struct model m = model_of(t, models[k / 2].name, &dir);
            const int fits = k % 2;
            resize(t, &m, fits ? 64 : 32);
            struct cuda_engine_params p = params_of(t, &m, NULL);
            p.dtype = types[i].dtype;
            p.block_size = fits ? 16 : BLOCK;
            struct sequences *cuda = open_cuda(t, p), *cpu = open_cpu(&p);
            const double far = drive_both(t, cuda, cpu, 18, 8, 5, true);
            assert_true(far < models[k / 2].times * types[i].most);
            assert_true(far > 0);
            const char *type = cuda_dtype_name(p.dtype);
            assert_int_equal(fake_gpu_launches(arena_printf(t->a, "attention_decode_%s", type)) > 0,
                             fits);
            assert_int_equal(fake_gpu_launches(arena_printf(t->a, "attention_any_%s", type)) > 0,
                             !fits);
            sequences_close(&cuda);
            sequences_close(&cpu);
        }
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* Starts n sequences and computes their prompts. */
static void start_all(struct sequences *s, int32_t n, struct step *x)
{
    *x = (struct step){0};
    for (int32_t i = 0; i < n; i++) {
        const int32_t prompt[] = {i + 1, i + 2, i + 3};
        sequence_start(s, i, prompt, 3);
        x->chunks[x->n_chunks++] = (struct chunk){.slot = i, .tokens = 3};
        x->decodes[x->n_decodes++] = i;
    }
    sequences_step(s, x->chunks, x->n_chunks, NULL, 0);
}

static void decode_batches_are_graphs(void **state)
{
    struct test *t = *state;
    const char *dir;
    const struct model m = model_of(t, "qwen3", &dir);
    struct sequences *s = open_cuda(t, params_of(t, &m, dir));
    struct step x;
    struct cuda_engine_counts n = cuda_engine_counts(&s->ex);
    assert_int_equal(n.graphs_captured, 6); /* 1, 2, 4, 8, 16, 24 rows */
    assert_int_equal(n.graphs_launched, 0);
    start_all(s, 9, &x);
    assert_int_equal(cuda_engine_counts(&s->ex).passes, 1);
    for (int i = 0; i < 3; i++)
        sequences_step(s, NULL, 0, x.decodes, x.n_decodes);
    n = cuda_engine_counts(&s->ex);
    assert_int_equal(n.passes, 1);
    assert_int_equal(n.graphs_launched, 3);
    assert_int_equal(n.graphs_captured, 6);

    /* A drawn row wants another graph, once. */
    const struct sampling hot = {.temperature = 2, .top_p = 1, .seed = 7};
    s->slots[4].sampling = &hot;
    for (int i = 0; i < 2; i++)
        sequences_step(s, NULL, 0, x.decodes, x.n_decodes);
    n = cuda_engine_counts(&s->ex);
    assert_int_equal(n.graphs_captured, 7);
    assert_int_equal(n.graphs_launched, 5);
    sequences_close(&s);
}

/* Steps of few decode rows are one kernel, and give what the kernels of the single operators give;
 * larger ones, other head sizes, other families and engine.check=true keep those. The fake GPU has
 * 4 multiprocessors, and each attends to one of two KV heads: two rows. */
static void few_decode_rows_are_one_kernel(void **state)
{
    struct test *t = *state;
    static const enum cuda_dtype types[] = {CUDA_BF16, CUDA_F16};
    static const int rows[] = {1, 2, 3, 1};
    enum { SEQUENCES = 3 };
    const char *dir;
    struct model m = model_of(t, "qwen3", &dir);
    m.head_dim = 64;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct sequences *both[2];
        struct step x;
        float *logits[2];
        struct cuda_engine_params p = params_of(t, &m, NULL);
        const char *entry = arena_printf(t->a, "decode_step_%s", cuda_dtype_name(types[i]));
        p.dtype = types[i];
        p.block_size = 16;
        for (int fused = 0; fused < 2; fused++) {
            p.fused = fused;
            both[fused] = open_cuda(t, p);
            logits[fused] = arena_array(t->a, float, SEQUENCES *m.vocab);
            start_all(both[fused], SEQUENCES, &x);
        }
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
            const int64_t before = fake_gpu_launches(entry);
            for (int fused = 0; fused < 2; fused++) {
                sequences_step(both[fused], NULL, 0, x.decodes, rows[k]);
                assert_ok(cuda_engine_logits(&both[fused]->ex, rows[k], logits[fused], &t->e), t);
            }
            assert_int_equal(fake_gpu_launches(entry) - before, rows[k] <= 2);
            assert_memory_equal(logits[0], logits[1],
                                (size_t)(rows[k] * m.vocab) * sizeof *logits[0]);
        }
        for (int32_t k = 0; k < SEQUENCES; k++)
            assert_memory_equal(both[0]->slots[k].ids, both[1]->slots[k].ids,
                                (size_t)both[0]->slots[k].n_ids * sizeof *both[0]->slots[k].ids);
        sequences_close(&both[0]);
        sequences_close(&both[1]);
    }
    static const struct {
        const char *model;
        int64_t head_dim;
        bool check;
    } others[] = {{"qwen3", 32, false}, {"bloom", 64, false}, {"qwen3", 64, true}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct step x;
        m = model_of(t, others[i].model, &dir);
        m.head_dim = others[i].head_dim;
        struct cuda_engine_params p = params_of(t, &m, NULL);
        p.dtype = CUDA_BF16;
        p.block_size = 16;
        p.fused = true;
        p.check = others[i].check;
        struct sequences *s = open_cuda(t, p);
        start_all(s, 1, &x);
        sequences_step(s, NULL, 0, x.decodes, 1);
        assert_int_equal(fake_gpu_launches("decode_step_bf16"), 0);
        sequences_close(&s);
    }
}

/* ---- sampling -------------------------------------------------------------------------------- */

/* Of 12 equal sequences all but the first draw; equal seeds draw alike, the greedy row is that of a
 * greedy batch. */
static void rows_are_drawn_by_their_own_settings(void **state)
{
    struct test *t = *state;
    const char *dir;
    const struct model m = model_of(t, "qwen3", &dir);
    struct sequences *s = open_cuda(t, params_of(t, &m, dir));
    struct sampling how[12];
    struct chunk chunks[12];
    const int32_t prompt[] = {1, 2, 3, 4};
    int others = 0;
    for (int32_t i = 0; i < 12; i++) {
        how[i] = (struct sampling){.temperature = 30, .top_p = 1, .seed = (uint64_t)(i / 2)};
        sequence_start(s, i, prompt, 4);
        s->slots[i].sampling = i ? &how[i] : NULL;
        chunks[i] = (struct chunk){.slot = i, .tokens = 4};
    }
    sequences_step(s, chunks, 12, NULL, 0);
    for (int32_t i = 2; i < 12; i += 2)
        assert_int_equal(s->slots[i].ids[4], s->slots[i + 1].ids[4]);
    for (int32_t i = 1; i < 12; i++)
        others += s->slots[i].ids[4] != s->slots[0].ids[4];
    assert_true(others > 6);

    struct sequences *cpu = open_cpu(&(struct cuda_engine_params){.model = &m,
                                                                  .weights_dir = dir,
                                                                  .block_size = BLOCK,
                                                                  .num_blocks = BLOCKS,
                                                                  .max_batch_tokens = TOKENS,
                                                                  .max_rows = ROWS});
    sequence_start(cpu, 0, prompt, 4);
    sequences_step(cpu, chunks, 1, NULL, 0);
    assert_int_equal(s->slots[0].ids[4], cpu->slots[0].ids[4]);
    sequences_close(&cpu);
    sequences_close(&s);
}

/* ---- two in flight, preemption --------------------------------------------------------------- */

enum { REQUESTS = 14 };

struct watched {
    struct executor inner; /* watched */
    int out, most_out;
    int pulled;
    const char *at_decode; /* script from the third batch in a row without chunks on */
    int decodes;           /* batches of such a row so far */
    int32_t tokens[REQUESTS][64];
    int n[REQUESTS];
};

static enum st watch_submit(void *self, const struct batch *b, uint64_t *ticket, struct err *e)
{
    struct watched *x = self;
    x->decodes = b->n_chunks == 0 ? x->decodes + 1 : 0;
    if (x->at_decode && x->decodes == 3) {
        setenv("FAKE_GPU", x->at_decode, 1);
        x->at_decode = NULL;
    }
    x->out++;
    x->most_out = x->out > x->most_out ? x->out : x->most_out;
    return x->inner.ops->submit(x->inner.self, b, ticket, e);
}

static enum st watch_next(void *self, double deadline_s, struct completion *out, struct err *e)
{
    struct watched *x = self;
    const enum st st = x->inner.ops->next(x->inner.self, deadline_s, out, e);
    x->out -= st == ST_OK;
    return st;
}

static int32_t watch_in_flight(void *self)
{
    struct watched *x = self;
    return x->inner.ops->max_in_flight(x->inner.self);
}

static void watch_bind(void *self, struct slot_source source)
{
    struct watched *x = self;
    x->inner.ops->bind(x->inner.self, source);
}

static void watch_close(void *self)
{
    struct watched *x = self;
    x->inner.ops->close(x->inner.self);
}

static enum st next_request(void *self, struct workload_request *out, struct err *e)
{
    struct watched *x = self;
    (void)e;
    if (x->pulled == REQUESTS)
        return ST_END;
    const int i = x->pulled++;
    *out = (struct workload_request){.request_id = i,
                                     .num_prefill_tokens = 3 + 11 * i % 23,
                                     .num_decode_tokens = 10 + 7 * i % 17};
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
    struct watched *x = self;
    x->tokens[t->request_id][x->n[t->request_id]++] = (int32_t)t->token_id;
}

static enum st serve_all(struct watched *x, struct serve_clock *clock, int64_t blocks,
                         struct serve_counters *n, struct err *e)
{
    const struct executor_ops ops = {.name = "watched",
                                     .version = EXECUTOR_VERSION,
                                     .caps = EXEC_COMPUTES,
                                     .max_in_flight = watch_in_flight,
                                     .submit = watch_submit,
                                     .next = watch_next,
                                     .close = watch_close,
                                     .bind = watch_bind};
    struct executor ex = {&ops, x};
    const struct serve_params p = {.policy = "vllm_v1",
                                   .replicas = 1,
                                   .batch_cap = 8,
                                   .token_budget = 32,
                                   .block_size = BLOCK,
                                   .num_blocks = blocks,
                                   .max_model_len = 64,
                                   .emit_tokens = true};
    struct request_source source = {x, next_request, prompt_ids, NULL};
    struct serve_sink sink = {.self = x, .token = on_token};
    return serve_run(&p, clock, &ex, &source, &sink, NULL, n, e);
}

/* With so few blocks that sequences lose theirs while batches are out, every token is that of the
 * CPU engine, which has one batch out. */
static void two_in_flight_and_preemption(void **state)
{
    struct test *t = *state;
    enum { FEW = 14 };
    const char *dir;
    const struct model m = model_of(t, "llama", &dir);
    struct watched *cuda = arena_one(t->a, struct watched), *cpu = arena_one(t->a, struct watched);
    struct cuda_engine_params p = params_of(t, &m, dir);
    struct serve_counters n;
    struct serve_clock clock = clock_real();
    p.num_blocks = FEW;
    p.clock = &clock;
    assert_ok(cuda_engine_open(&p, &cuda->inner, &t->e), t);
    assert_ok(serve_all(cuda, &clock, FEW, &n, &t->e), t);
    assert_true(n.preemptions > 0);
    assert_int_equal(cuda->most_out, 2);

    const struct cpu_engine_params host = {.model = &m,
                                           .weights_dir = dir,
                                           .threads = 1,
                                           .block_size = BLOCK,
                                           .num_blocks = FEW,
                                           .max_batch_tokens = TOKENS,
                                           .max_rows = ROWS,
                                           .ignore_eos = true,
                                           .clock = &clock};
    assert_ok(cpu_engine_open(&host, &cpu->inner, &t->e), t);
    assert_ok(serve_all(cpu, &clock, FEW, &n, &t->e), t);
    for (int i = 0; i < REQUESTS; i++) {
        assert_int_equal(cuda->n[i], cpu->n[i]);
        assert_int_equal(cuda->n[i], 10 + 7 * i % 17);
        assert_memory_equal(cuda->tokens[i], cpu->tokens[i],
                            (size_t)cpu->n[i] * sizeof cpu->tokens[i][0]);
    }
    watch_close(cuda);
    watch_close(cpu);
    assert_int_equal(fake_gpu_allocations(), 0);
}

/* ---- failures -------------------------------------------------------------------------------- */

static const char *whole_text(struct test *t, const struct err *e)
{
    const char *text = "";
    for (int i = 0; err_cause(e, i); i++)
        text = arena_printf(t->a, "%s%s\n", text, err_cause(e, i));
    return arena_printf(t->a, "%shint: %s", text, err_hint_text(e) ? err_hint_text(e) : "");
}

#define assert_says(text, words)                          \
    do {                                                  \
        if (!strstr(text, words))                         \
            fail_msg("'%s' is not in:\n%s", words, text); \
    } while (0)

static void memory_that_is_missing_is_named(void **state)
{
    struct test *t = *state;
    const char *dir;
    const struct model m = model_of(t, "qwen3", &dir);
    const struct serve_clock clock = clock_real();
    struct cuda_engine_params p = params_of(t, &m, dir);
    struct executor ex = {0};
    p.clock = &clock;
    setenv("FAKE_GPU", "memory=32", 1);
    assert_int_equal(cuda_engine_open(&p, &ex, &t->e), ST_USAGE);
    const char *text = whole_text(t, &t->e);
    assert_says(text, "planned: weights ");
    assert_says(text, "a KV cache of 200 blocks of 8 tokens");
    assert_says(text, "of 32.0 MiB are free on GPU 0");
    assert_says(text, "hint: lower scheduler.num_blocks");

    /* Free when asked, and gone when it is taken. */
    for (int call = 1; call < 12; call++) {
        char script[64];
        snprintf(script, sizeof script, "fail cuMemAlloc_v2 %d 2", call);
        setenv("FAKE_GPU", script, 1);
        err_clear(&t->e);
        const enum st st = cuda_engine_open(&p, &ex, &t->e);
        if (st == ST_OK) { /* fewer allocations than that */
            ex.ops->close(ex.self);
            assert_true(call > 3);
            break;
        }
        assert_int_equal(st, ST_DEVICE);
        text = whole_text(t, &t->e);
        assert_says(text, "CUDA_ERROR_OUT_OF_MEMORY");
        assert_says(text, "planned: weights ");
    }
    assert_int_equal(fake_gpu_allocations(), 0);
}

/* Runs until something fails; the error's text. The script begins with the first batch, or where
 * all that is out are graphs. */
static const char *fault_in(struct test *t, const struct cuda_engine_params *given,
                            const char *script, bool at_decode)
{
    struct cuda_engine_params p = *given;
    const struct serve_clock clock = clock_real();
    struct serve_clock loop = clock;
    struct watched *x = arena_one(t->a, struct watched);
    struct serve_counters n;
    struct err again = {0};
    struct completion c;
    p.clock = &clock;
    fake_gpu_reset();
    unsetenv("FAKE_GPU");
    err_clear(&t->e);
    assert_ok(cuda_engine_open(&p, &x->inner, &t->e), t);
    if (at_decode)
        x->at_decode = script;
    else
        setenv("FAKE_GPU", script, 1);
    assert_int_equal(serve_all(x, &loop, BLOCKS, &n, &t->e), ST_DEVICE);
    /* and nothing goes on after that */
    const enum st st = x->inner.ops->next(x->inner.self, INFINITY, &c, &again);
    assert_true(st == ST_DEVICE || st == ST_END);
    watch_close(x);
    unsetenv("FAKE_GPU");
    fake_gpu_reset();
    assert_int_equal(fake_gpu_allocations(), 0);
    return whole_text(t, &t->e);
}

static const char *fault_of(struct test *t, const struct cuda_engine_params *p, const char *script)
{
    return fault_in(t, p, script, false);
}

static void faults_name_batch_operator_and_kernel(void **state)
{
    struct test *t = *state;
    const char *dir, *text;
    const struct model m = model_of(t, "llama", &dir);
    struct cuda_engine_params p = params_of(t, &m, dir);

    /* refused at the launch: all is known */
    text = fault_of(t, &p, "fail cuLaunchKernel 3 701");
    assert_says(text, "batch 0 (");
    assert_says(text, "operator attn_rope + attn_kv_cache_save of layer 0");
    assert_says(text, "cannot launch kernel rope_f32");
    assert_says(text, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)");

    text = fault_of(t, &p, "fail cublasLtMatmul 2 13");
    assert_says(text, "operator attn_post_proj + add of layer 0");
    assert_says(text, "a product of 32 rows with a matrix of 48 x 48");

    /* while it runs, and there is no program to find the kernel: how to learn more */
    p.rerun = "/nowhere/twinfer";
    text = fault_of(t, &p, "fail kernel:rope_f32 5 700");
    assert_says(text, "batch 1 (");
    assert_says(text, "CUDA_ERROR_ILLEGAL_ADDRESS (700)");
    assert_says(text, "a kernel failed; engine.check=true");

    p.check = true;
    text = fault_of(t, &p, "fail kernel:rope_f32 5 700");
    assert_says(text, "batch 1 (");
    assert_says(text, "kernel rope_f32");
    assert_says(text, "operator attn_rope + attn_kv_cache_save of layer 1");

    /* in a graph, and a device that is lost */
    p.check = false;
    text = fault_of(t, &p, "fail cuGraphLaunch 2 719");
    assert_says(text, "CUDA graph of ");
    text = fault_of(t, &p, "fail cuMemcpyHtoDAsync_v2 4+ 999");
    assert_says(text, "CUDA_ERROR_UNKNOWN (999)");
}

/* Another process computes the batch again; it counts launches from its start. */
static void faults_of_kernels_are_found(void **state)
{
    struct test *t = *state;
    const char *dir, *text;
    const struct model m = model_of(t, "llama", &dir);
    struct cuda_engine_params p = params_of(t, &m, dir);
    p.rerun = "/proc/self/exe"; /* main below */
    text = fault_of(t, &p, "fail kernel:rope_f32 2 700");
    assert_says(text, "batch 0 (");
    assert_says(text, "CUDA_ERROR_ILLEGAL_ADDRESS (700)");
    assert_says(text,
                "kernel rope_f32, operator attn_rope + attn_kv_cache_save of layer 1: the batch "
                "fails there");

    text = fault_in(t, &p, "fail kernel:attention_any_f32 1+ 719", true);
    assert_says(text, "CUDA graph of ");
    assert_says(text, "kernel attention_any_f32, operator attn_");
    assert_says(text, "of layer 0: the batch fails there");

    /* what it cannot find */
    text = fault_of(t, &p, "fail kernel:rope_f32 9 700");
    assert_says(text, "a kernel failed, and does not when its batch alone is computed again; "
                      "engine.check=true");
}

/* The other process knows the layers of a model whose layers differ: windows, experts. */
static void faults_in_layers_that_differ_are_found(void **state)
{
    struct test *t = *state;
    static const char *const models[] = {"gpt_oss", "gemma3"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const char *dir;
        const struct model m = model_of(t, models[i], &dir);
        struct cuda_engine_params p = params_of(t, &m, dir);
        p.rerun = "/proc/self/exe";
        const char *text = fault_of(t, &p, "fail kernel:rope_f32 2 700");
        assert_says(text, "attn_rope + attn_kv_cache_save of layer 1: the batch fails there");
    }
}

/* No kernel's fault: nothing is computed again. */
static void some_faults_are_no_kernels(void **state)
{
    struct test *t = *state;
    err_set(&t->e, ST_DEVICE, "cuEventQuery: CUDA_ERROR_ECC_UNCORRECTABLE (214)");
    assert_false(cuda_fault_is_kernels(&t->e));
    err_clear(&t->e);
    err_set(&t->e, ST_DEVICE, "cuStreamSynchronize: CUDA_ERROR_LAUNCH_FAILED (719)");
    err_add(&t->e, "a batch");
    assert_true(cuda_fault_is_kernels(&t->e));
}

static const char *refusal_of(struct test *t, const struct cuda_engine_params *p, enum st want)
{
    struct executor ex;
    err_clear(&t->e);
    assert_int_equal(cuda_engine_open(p, &ex, &t->e), want);
    return whole_text(t, &t->e);
}

static void what_it_cannot_run_is_refused(void **state)
{
    struct test *t = *state;
    const char *dir;
    struct model m = model_of(t, "qwen3", &dir);
    struct cuda_engine_params p = params_of(t, &m, NULL);
    m.intermediate = 82;
    assert_says(refusal_of(t, &p, ST_USAGE),
                "engine=cuda takes multiples of 4 for intermediate_size in f32: qwen3 has 82");
    m = model_of(t, "gpt_oss", &dir);
    struct structure *s = arena_copy(t->a, m.structure, sizeof *s);
    m.structure = s;
    for (int32_t i = 2; i <= CUDA_SPANS; i++) {
        s->attention[i] = s->attention[0];
        s->attention[i].window = 100 + i;
    }
    s->n_attentions = CUDA_SPANS + 1;
    assert_says(refusal_of(t, &p, ST_USAGE),
                "engine=cuda does not compute windows of so many sizes: gpt_oss");
    s->n_attentions = 2;
    s->mlp[0].experts = CUDA_EXPERTS_MOST + 1;
    assert_says(refusal_of(t, &p, ST_USAGE), "engine=cuda does not compute so many experts");
    m = model_of(t, "qwen3", &dir);
    m.intermediate = 84;
    p.num_blocks = INT32_MAX;
    assert_says(refusal_of(t, &p, ST_USAGE), "num_blocks: 2147483647 is not between 1 and");
    p.num_blocks = BLOCKS;
    p.ordinal = 1;
    assert_says(refusal_of(t, &p, ST_DEVICE), "there is no GPU 1");
    p.ordinal = 0;
    setenv("FAKE_GPU", "sm=75", 1);
    assert_says(refusal_of(t, &p, ST_DEVICE), "compute capability 7.5");
    unsetenv("FAKE_GPU");
    assert_int_equal(fake_gpu_allocations(), 0);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], CUDA_FAULT_WORD) == 0) /* started by cuda_fault_find */
        return cuda_fault_main(argv[2]);
    const struct CMUnitTest tests[] = {
        TEST(float32_gives_the_cpu_engines_tokens),
        TEST(biases_are_added),
        TEST(half_precision_is_near),
        TEST(decode_batches_are_graphs),
        TEST(few_decode_rows_are_one_kernel),
        TEST(rows_are_drawn_by_their_own_settings),
        TEST(two_in_flight_and_preemption),
        TEST(memory_that_is_missing_is_named),
        TEST(faults_name_batch_operator_and_kernel),
        TEST(faults_of_kernels_are_found),
        TEST(faults_in_layers_that_differ_are_found),
        TEST(some_faults_are_no_kernels),
        TEST(what_it_cannot_run_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
