/* Every executor, driven by the serving loop over the same workload: what the loop relies on. Each
 * row of the table of engines is one, on each of its devices; others are a line in `others`. */
#include <math.h>
#include <stdlib.h>

#include "base/vec.h"
#include "engine/engine.h"
#include "engine/registry.h"
#include "profile/read/read.h"
#include "serve/serve.h"
#include "sim/sim.h"
#include "support/fake_executor.h"
#include "support/support.h"

enum { N_REQUESTS = 12, BLOCK = 4, BLOCKS = 24, CAP = 5, BUDGET = 16, LONGEST = 40, VOCAB = 100 };

struct member {
    const char *name;
    bool real_clock;
    struct executor (*open)(struct test *t, const struct serve_clock *clock);
    const struct engine *engine; /* instead of open */
    const char *device;
};

static struct executor open_null(struct test *t, const struct serve_clock *clock)
{
    (void)t;
    return null_executor(0.0005, clock);
}

static struct executor fake(const struct serve_clock *clock, bool computes, int32_t in_flight)
{
    return fake_executor(&(struct fake_params){.computes = computes,
                                               .max_in_flight = in_flight,
                                               .batch_s = 0.0004,
                                               .host_s = 0.0001,
                                               .block_size = BLOCK,
                                               .num_blocks = BLOCKS,
                                               .batch_cap = CAP,
                                               .clock = clock});
}

static struct executor open_fake(struct test *t, const struct serve_clock *clock)
{
    (void)t;
    return fake(clock, false, 1);
}

static struct executor open_fake_computing(struct test *t, const struct serve_clock *clock)
{
    (void)t;
    return fake(clock, true, 1);
}

static struct executor open_fake_ahead(struct test *t, const struct serve_clock *clock)
{
    (void)t;
    return fake(clock, true, 3);
}

static struct predictor stages_predictor(struct test *t, int64_t stages)
{
    static const double tokens[] = {1, 4096}, host[] = {0.0001, 0.0002}, s[] = {0.001, 0.002};
    struct model *m = arena_one(t->a, struct model);
    struct bundle *b = arena_one(t->a, struct bundle);
    struct grid *g = grid_new(t->a, tokens, 2);
    assert_ok(model_load(t->a, TW_SOURCE_DIR "/tests/golden/models/qwen3", m, &t->e), t);
    b->tokens.n = b->rows.n = 1;
    b->tokens.curve[0] = b->rows.curve[0] = (struct curve){g, s};
    b->host.s = b->host_prefill.s = (struct curve){g, host};
    b->counts = arena_one(t->a, struct bundle_counts);
    const struct predictor_params p = {
        .model = m, .tp = 1, .pp = stages, .bundle = b, .host_overhead = true};
    struct predictor predictor;
    assert_ok(predictor_open(t->a, &predictor_bundle, &p, &predictor, &t->e), t);
    return predictor;
}

static struct executor sim_of_stages(struct test *t, int64_t stages, enum serve_async async)
{
    const struct predictor predictor = stages_predictor(t, stages);
    return sim_executor(t->a, &predictor, async);
}

static struct executor open_paced_in_2_stages(struct test *t, const struct serve_clock *clock)
{
    const struct predictor predictor = stages_predictor(t, 2);
    return paced_executor(t->a, &predictor, CAP, ASYNC_OFF, clock, NULL);
}

static struct executor open_paced_ahead(struct test *t, const struct serve_clock *clock)
{
    const struct predictor predictor = stages_predictor(t, 1);
    return paced_executor(t->a, &predictor, CAP, ASYNC_SERIAL, clock, NULL);
}

static struct executor open_paced_in_turns(struct test *t, const struct serve_clock *clock)
{
    const struct predictor predictor = stages_predictor(t, 2);
    return paced_executor(t->a, &predictor, CAP, ASYNC_OVERLAP, clock, NULL);
}

static struct executor open_sim_ahead(struct test *t, const struct serve_clock *clock)
{
    (void)clock;
    return sim_of_stages(t, 1, ASYNC_OVERLAP);
}

static struct executor open_sim_in_turns(struct test *t, const struct serve_clock *clock)
{
    (void)clock;
    return sim_of_stages(t, 2, ASYNC_SERIAL);
}

static struct executor open_sim(struct test *t, const struct serve_clock *clock)
{
    (void)clock;
    return sim_of_stages(t, 1, ASYNC_OFF);
}

static struct executor open_sim_in_2_stages(struct test *t, const struct serve_clock *clock)
{
    (void)clock;
    return sim_of_stages(t, 2, ASYNC_OFF);
}

enum { FLOAT32 = 2 }; /* engine.dtype: in 16 bits rounding may turn a token */

/* As a command opens it: planned, then opened. ops == NULL: this machine has no such device. */
static struct executor open_engine(struct test *t, const struct member *m,
                                   const struct serve_clock *clock)
{
    struct engine_settings *settings = arena_one(t->a, struct engine_settings);
    struct model *model = arena_one(t->a, struct model);
    struct predictor *predictor = arena_one(t->a, struct predictor);
    struct executor x = {0};
    struct engine_plan plan;
    *settings = (struct engine_settings){.device = m->device, .threads = 1, .dtype = FLOAT32};
    *predictor = stages_predictor(t, 1);
    assert_ok(model_load(t->a, TW_SOURCE_DIR "/tests/golden/models/qwen3", model, &t->e), t);
    const struct memory_facts facts = {.model = model,
                                       .tp = 1,
                                       .pp = 1,
                                       .block_size = BLOCK,
                                       .request_tokens = LONGEST,
                                       .batch_cap = CAP,
                                       .num_blocks = BLOCKS};
    assert_ok(m->engine->plan(settings, &facts, &plan, &t->e), t);
    const struct engine_job job = {.settings = settings,
                                   .model = model,
                                   .weights_seed = 1,
                                   .dtype = plan.dtype,
                                   .block_size = BLOCK,
                                   .num_blocks = plan.memory.num_blocks,
                                   .max_batch_tokens = LONGEST,
                                   .max_rows = CAP,
                                   .ignore_eos = true,
                                   .clock = clock,
                                   .predictor = predictor,
                                   .a = t->a};
    if (m->engine->open(&job, &x, &t->e) == ST_DEVICE) {
        print_message("%s: %s\n", m->name, err_cause(&t->e, 0));
        assert_null(getenv("TWINFER_EXPECTS_GPU"));
        t->e = (struct err){0};
        return (struct executor){0};
    }
    assert_ok(t->e.st, t);
    assert_string_equal(x.ops->name, m->engine->name);
    return x;
}

static struct executor open_member(struct test *t, const struct member *m,
                                   const struct serve_clock *clock)
{
    return m->engine ? open_engine(t, m, clock) : m->open(t, clock);
}

static const struct member others[] = {
    {"null, virtual", false, open_null, NULL, NULL},
    {"fake, real", true, open_fake, NULL, NULL},
    {"fake, virtual", false, open_fake, NULL, NULL},
    {"fake that computes, virtual", false, open_fake_computing, NULL, NULL},
    {"fake that computes, real", true, open_fake_computing, NULL, NULL},
    {"fake with 3 in flight, real", true, open_fake_ahead, NULL, NULL},
    {"sim", false, open_sim, NULL, NULL},
    {"sim in 2 stages", false, open_sim_in_2_stages, NULL, NULL},
    {"sim with 2 in flight", false, open_sim_ahead, NULL, NULL},
    {"sim in 2 stages, 3 in flight", false, open_sim_in_turns, NULL, NULL},
    {"sim in real time, 2 stages", true, open_paced_in_2_stages, NULL, NULL},
    {"sim in real time, 2 in flight", true, open_paced_ahead, NULL, NULL},
    {"sim in real time, 2 stages, 3 in flight", true, open_paced_in_turns, NULL, NULL},
};

/* The others and the table's, where their device is found. */
struct members {
    const struct member *p[64];
    size_t n;
};

static void add(struct members *all, const struct member *m)
{
    assert_true(all->n < sizeof all->p / sizeof *all->p);
    all->p[all->n++] = m;
}

static struct members all_members(struct test *t)
{
    static const char *const devices[] = {"cpu", "cuda"};
    struct members all = {0};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        add(&all, &others[i]);
    for (const struct engine *x = engine_registry; x->name; x++)
        for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
            struct member *m = arena_one(t->a, struct member);
            const struct serve_clock clock = clock_real();
            if (!(x->devices & engine_device(devices[d])))
                continue;
            *m = (struct member){arena_printf(t->a, "%s on %s", x->name, devices[d]), true, NULL, x,
                                 devices[d]};
            struct executor found = open_member(t, m, &clock);
            if (!found.ops)
                continue;
            found.ops->close(found.self);
            add(&all, m);
        }
    return all;
}

/* ---- one run through the loop ---- */

struct recorded {
    uint32_t caps;
    bool op_times; /* asked for */
    int32_t max_in_flight;
    struct workload_request requests[N_REQUESTS];
    int pulled;
    VEC(struct run_token) tokens;
    int64_t completions, rows;
    double last_end_s, last_op_s;
};

static enum st next_request(void *self, struct workload_request *out, struct err *e)
{
    struct recorded *x = self;
    (void)e;
    if (x->pulled == N_REQUESTS)
        return ST_END;
    int i = x->pulled++;
    *out = (struct workload_request){.request_id = i,
                                     .arrival_s = 0.0003 * i,
                                     .arrival_ns = 300000 * i,
                                     .num_prefill_tokens = 1 + 7 * i % 25,
                                     .num_decode_tokens = 1 + 5 * i % 13};
    x->requests[i] = *out;
    return ST_OK;
}

static enum st prompt_ids(void *self, const struct workload_request *r, int32_t *ids, struct err *e)
{
    (void)self;
    (void)e;
    for (int64_t i = 0; i < r->num_prefill_tokens; i++)
        ids[i] = (int32_t)((r->request_id * 31 + i * 7 + 1) % VOCAB);
    return ST_OK;
}

static void on_token(void *self, const struct run_token *t)
{
    struct recorded *x = self;
    vec_push(&x->tokens, *t);
    if (x->caps & EXEC_COMPUTES)
        assert_true(t->token_id >= 0);
    else
        assert_int_equal(t->token_id, RUN_NONE);
}

static void on_request(void *self, const struct run_request *r)
{
    struct recorded *x = self;
    assert_int_equal(r->status, RUN_OK);
    assert_int_equal(r->num_decode_tokens_actual, r->num_decode_tokens);
    x->rows++;
}

static void on_batch(void *self, const struct run_batch *b, const struct completion *c)
{
    struct recorded *x = self;
    const double eps = 1e-9;
    if (b->stage > 0) { /* a further row of the same batch */
        assert_true(c->stages && b->stage < c->n_stages);
        return;
    }
    x->completions++;
    assert_true(c->end_s >= x->last_end_s);
    assert_true(c->start_s <= c->end_s);
    assert_true(c->device_s >= 0 && c->host_s >= 0);
    assert_true(c->host_s + c->device_s <= c->end_s - c->start_s + eps);
    assert_true(b->duration_ns >= 0);
    assert_true(c->tokens || c->n_tokens == 0);
    assert_true(!c->tokens || (x->caps & EXEC_COMPUTES));
    assert_int_equal(c->op_s != NULL, x->op_times && (x->caps & EXEC_OP_TIMES));
    if (c->op_s) {
        double sum = 0;
        for (int k = 0; k < OP_ROWS; k++) {
            assert_true(c->op_s[k] >= 0);
            sum += c->op_s[k];
        }
        assert_true(sum <= c->device_s + eps);
    }
    x->last_end_s = c->end_s;
}

static struct recorded drive(struct test *t, const struct member *m, const char *policy,
                             bool op_times)
{
    struct serve_clock clock = m->real_clock ? clock_real() : clock_virtual();
    struct executor ex = open_member(t, m, &clock);
    struct serve_params p = {.policy = policy,
                             .replicas = 1,
                             .batch_cap = CAP,
                             .token_budget = BUDGET,
                             .block_size = BLOCK,
                             .num_blocks = BLOCKS,
                             .max_model_len = LONGEST,
                             .emit_tokens = true,
                             .op_times = op_times};
    struct recorded x = {.caps = ex.ops->caps, .op_times = op_times};
    struct request_source source = {&x, next_request, prompt_ids, NULL};
    struct serve_sink sink = {
        .self = &x, .request = on_request, .token = on_token, .batch = on_batch};
    struct serve_counters n;
    assert_ok(executor_check(&ex, &t->e), t);
    assert_int_equal(!(x.caps & EXEC_VIRTUAL), m->real_clock);
    assert_ok(serve_run(&p, &clock, &ex, &source, &sink, NULL, &n, &t->e), t);
    assert_int_equal(x.rows, N_REQUESTS);
    assert_int_equal(x.completions, n.iterations);
    ex.ops->close(ex.self);
    return x;
}

/* Ids of request `id` in order, -1 after the last. */
static void ids_of(const struct recorded *x, int64_t id, int64_t ids[LONGEST])
{
    size_t n = 0;
    for (size_t i = 0; i < x->tokens.n; i++)
        if (x->tokens.p[i].request_id == id)
            ids[n++] = x->tokens.p[i].token_id;
    ids[n] = -1;
}

/* Tokens do not depend on who shares the batch, on chunks or preemptions. */
static void batching_changes_no_token(void **state)
{
    struct test *t = *state;
    struct members all = all_members(t);
    for (size_t i = 0; i < all.n; i++) {
        const struct member *m = all.p[i];
        struct recorded together = drive(t, m, "vllm_v1", true);
        struct recorded alone = drive(t, m, "sequential", false);
        assert_int_equal(together.tokens.n, alone.tokens.n);
        for (int64_t id = 0; id < N_REQUESTS; id++) {
            int64_t a[LONGEST], b[LONGEST];
            ids_of(&together, id, a);
            ids_of(&alone, id, b);
            for (int k = 0; k == 0 || a[k - 1] != -1; k++)
                assert_int_equal(a[k], b[k]);
        }
        vec_free(&together.tokens);
        vec_free(&alone.tokens);
    }
}

static void virtual_runs_repeat(void **state)
{
    struct test *t = *state;
    struct members all = all_members(t);
    for (size_t i = 0; i < all.n; i++) {
        const struct member *m = all.p[i];
        if (m->real_clock)
            continue;
        struct recorded a = drive(t, m, "vllm_v1", false), b = drive(t, m, "vllm_v1", false);
        assert_int_equal(a.tokens.n, b.tokens.n);
        for (size_t k = 0; k < a.tokens.n; k++) {
            assert_int_equal(a.tokens.p[k].request_id, b.tokens.p[k].request_id);
            assert_int_equal(a.tokens.p[k].token_time_ns, b.tokens.p[k].token_time_ns);
        }
        vec_free(&a.tokens);
        vec_free(&b.tokens);
    }
}

/* ---- directly ---- */

static struct slot_view one_slot(void *self, int32_t slot)
{
    static const int32_t ids[] = {1, 2, 3}, blocks[] = {2};
    (void)self;
    (void)slot;
    return (struct slot_view){.ids = ids, .blocks = blocks, .n_blocks = 1};
}

static void nothing_out_nothing_back(void **state)
{
    struct test *t = *state;
    struct members all = all_members(t);
    for (size_t i = 0; i < all.n; i++) {
        const struct member *m = all.p[i];
        struct serve_clock clock = m->real_clock ? clock_real() : clock_virtual();
        struct executor ex = open_member(t, m, &clock);
        struct completion c;
        assert_int_equal(ex.ops->next(ex.self, INFINITY, &c, &t->e), ST_END);
        ex.ops->close(ex.self);
    }
}

/* A batch is delivered once, under its ticket; one that nobody waits for is dropped by close. */
static void delivers_once(void **state)
{
    struct test *t = *state;
    const struct chunk chunk = {.slot = 0, .tokens = 3, .last = true};
    const struct batch b = {.chunks = &chunk,
                            .n_chunks = 1,
                            .n_last_chunks = 1,
                            .prefill_tokens = 3,
                            .kv_blocks = 1,
                            .load = {.tokens = 3, .rows = 1, .chunk_sq = 6, .kv_read_tokens = 3}};
    struct members all = all_members(t);
    for (size_t i = 0; i < all.n; i++) {
        const struct member *m = all.p[i];
        struct serve_clock clock = m->real_clock ? clock_real() : clock_virtual();
        struct executor ex = open_member(t, m, &clock);
        struct completion c;
        uint64_t first, second;
        if (ex.ops->bind)
            ex.ops->bind(ex.self, (struct slot_source){NULL, one_slot});
        assert_ok(ex.ops->submit(ex.self, &b, &first, &t->e), t);
        assert_ok(ex.ops->next(ex.self, INFINITY, &c, &t->e), t);
        assert_int_equal(c.ticket, first);
        assert_int_equal(c.n_ended, 0);
        assert_int_equal(ex.ops->next(ex.self, INFINITY, &c, &t->e), ST_END);
        if (ex.ops->release)
            ex.ops->release(ex.self, 0);
        assert_ok(ex.ops->submit(ex.self, &b, &second, &t->e), t);
        assert_true(second != first);
        ex.ops->close(ex.self);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(batching_changes_no_token),
        TEST(virtual_runs_repeat),
        TEST(nothing_out_nothing_back),
        TEST(delivers_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
