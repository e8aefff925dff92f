/* Vidur's own runs, held against ours in three ways:
 *
 *   replayed   the same arrivals, batches that take the times Vidur logged;
 *   watched    from trace.csv and config.json alone, times predicted from Vidur's tables;
 *   measured   the same through the path that simulates, with all request metrics.
 *
 * Each batch must hold the same requests with the same tokens, come in the same order and start at
 * the same time; predicted times must be equal to the last bit; each metric of a request must agree
 * within 2 ns. Reference data: data/vidur beside the repository; skipped without it. The orca case
 * was made with tables that are not there: they are put together from the terms in its log. */
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "artifact/vidur_metrics.h"
#include "base/clock.h"
#include "base/vec.h"
#include "serve/memory.h"
#include "serve/sched/sched.h"
#include "sim/sim.h"
#include "text/json.h"

enum { MAX_STAGES = 2, MAX_REPLICAS = 4, LINE = 1 << 16 };

struct part {
    int32_t request;
    int64_t tokens;
};

struct logged {
    size_t id; /* in order of creation, all replicas */
    double start_s[MAX_STAGES], total_s[MAX_STAGES];
    size_t first, n; /* into parts */
};

struct replay;

/* One replica as an executor: stages in a row, one batch in each. */
struct stages {
    struct replay *x;
    struct executor inner;      /* predicts; ops NULL = the log's times */
    VEC(struct logged) batches; /* in order of creation */
    size_t submitted, delivered;
    double free_s[MAX_STAGES];
    VEC(int32_t) sets[MAX_STAGES];
    struct slot_source source;
    struct {
        double end_s;
        VEC(struct emitted) tokens;
    } out[MAX_STAGES];
};

struct replay {
    int32_t n_stages;
    size_t created;  /* batches, all replicas */
    bool other_sums; /* predictions may differ in the last bits */
    VEC(struct part) parts;
    struct stages replicas[MAX_REPLICAS];
    VEC(struct workload_request) requests;
    size_t pulled;
    VEC(struct run_request) rows;
};

/* ---- reading ---- */

static FILE *unpack(const char *path)
{
    char command[1000];
    snprintf(command, sizeof command, "gzip -dc '%s'", path);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    return f;
}

static void read_trace(struct replay *x, const char *path)
{
    FILE *f = fopen(path, "r");
    double at;
    long long prefill, decode;
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*[^\n]"), 0);
    for (int64_t id = 0; fscanf(f, "%lf,%lld,%lld", &at, &prefill, &decode) == 3; id++)
        vec_push(&x->requests, (struct workload_request){.request_id = id,
                                                         .arrival_s = at,
                                                         .arrival_ns = ns_from_s(at),
                                                         .num_prefill_tokens = prefill,
                                                         .num_decode_tokens = decode});
    fclose(f);
}

static int by_request(const void *a, const void *b)
{
    return ((const struct part *)a)->request - ((const struct part *)b)->request;
}

static void read_parts(struct replay *x, struct logged *b, const char *text)
{
    b->first = x->parts.n;
    for (char *end; *text && *text != '\n'; text = *end == ';' ? end + 1 : end) {
        struct part p = {.request = (int32_t)strtol(text, &end, 10)};
        p.tokens = strtoll(end + 1, &end, 10);
        vec_push(&x->parts, p);
    }
    b->n = x->parts.n - b->first;
    qsort(x->parts.p + b->first, b->n, sizeof *x->parts.p, by_request);
}

/* batch_id,replica_id,stage_id,start_time_s,...(26 more)...,total_time_s,request_id_tokens. Rows of
 * the first stage come in the order of creation. */
static void read_batches(struct replay *x, const char *path)
{
    FILE *f = unpack(path);
    char *line = malloc(LINE);
    VEC(size_t) place = {0}; /* batch id -> index in its replica */
    assert_non_null(fgets(line, LINE, f));
    while (fgets(line, LINE, f)) {
        const char *cell[31] = {line};
        int n = 1;
        for (char *c = line; *c && n < 31; c++)
            if (*c == ',')
                cell[n++] = c + 1;
        assert_int_equal(n, 31);
        size_t id = (size_t)strtoul(cell[0], NULL, 10);
        struct stages *r = &x->replicas[strtol(cell[1], NULL, 10)];
        long stage = strtol(cell[2], NULL, 10);
        if (stage == 0) {
            assert_int_equal(id, place.n);
            vec_push(&place, r->batches.n);
            vec_push(&r->batches, (struct logged){.id = id});
            read_parts(x, &vec_last(&r->batches), cell[30]);
        }
        struct logged *b = &r->batches.p[place.p[id]];
        b->start_s[stage] = strtod(cell[3], NULL);
        b->total_s[stage] = strtod(cell[29], NULL);
    }
    vec_free(&place);
    free(line);
    assert_int_equal(pclose(f), 0);
}

/* ---- executor ---- */

static int32_t stages_out(void *self)
{
    return ((struct stages *)self)->x->n_stages;
}

static void change_set(struct stages *s, const struct batch *b)
{
    for (int32_t i = 0; i < b->n_left; i++) {
        size_t k = 0;
        while (s->sets[b->lane].p[k] != b->left[i])
            k++;
        s->sets[b->lane].p[k] = vec_pop(&s->sets[b->lane]);
    }
    for (int32_t i = 0; i < b->n_entered; i++)
        vec_push(&s->sets[b->lane], b->entered[i]);
}

/* The first id of every prompt is its request. */
static int32_t request_of_slot(const struct stages *s, int32_t slot)
{
    return s->source.view(s->source.self, slot).ids[0];
}

static enum st same_rows(struct stages *s, const struct batch *b, const struct logged *want,
                         struct err *e)
{
    VEC(struct part) got = {0};
    for (int32_t i = 0; i < b->n_decodes; i++)
        vec_push(&got, (struct part){request_of_slot(s, s->sets[b->lane].p[i]), 1});
    for (int32_t i = 0; i < b->n_chunks; i++)
        vec_push(&got, (struct part){request_of_slot(s, b->chunks[i].slot), b->chunks[i].tokens});
    qsort(got.p, got.n, sizeof *got.p, by_request);
    const struct part *p = s->x->parts.p + want->first;
    size_t i = 0;
    while (i < got.n && i < want->n && got.p[i].request == p[i].request &&
           got.p[i].tokens == p[i].tokens)
        i++;
    bool same = i == got.n && i == want->n;
    if (!same)
        err_set(e, ST_DEVICE,
                "replica %d batch %lld: %zu rows, Vidur has %zu; first difference in row %zu: "
                "request %d with %lld tokens, not %d with %lld",
                b->replica, (long long)b->iteration, got.n, want->n, i,
                i < got.n ? got.p[i].request : -1, (long long)(i < got.n ? got.p[i].tokens : 0),
                i < want->n ? p[i].request : -1, (long long)(i < want->n ? p[i].tokens : 0));
    vec_free(&got);
    return same ? ST_OK : ST_DEVICE;
}

static void emit_all(struct stages *s, const struct batch *b)
{
    s->out[b->lane].tokens.n = 0;
    for (int32_t i = 0; i < b->n_decodes; i++)
        vec_push(&s->out[b->lane].tokens, (struct emitted){s->sets[b->lane].p[i], 1});
    for (int32_t i = 0; i < b->n_chunks; i++)
        if (b->chunks[i].last)
            vec_push(&s->out[b->lane].tokens, (struct emitted){b->chunks[i].slot, 1});
}

/* The prediction, stage by stage, is what Vidur logged. */
static enum st watch(struct stages *s, const struct batch *b, const struct logged *want,
                     struct err *e)
{
    uint64_t ticket;
    struct completion c;
    TRY(s->inner.ops->submit(s->inner.self, b, &ticket, e));
    TRY(s->inner.ops->next(s->inner.self, INFINITY, &c, e));
    struct stage_span one = {c.start_s, c.host_s, c.device_s};
    const struct stage_span *got = c.stages ? c.stages : &one;
    for (int32_t i = 0; i < s->x->n_stages; i++) {
        if (fabs(got[i].start_s - want->start_s[i]) > 1e-9)
            return err_set(e, ST_DEVICE, "replica %d batch %lld stage %d starts at %.9f, not %.9f",
                           b->replica, (long long)b->iteration, i, got[i].start_s,
                           want->start_s[i]);
        double off = got[i].device_s - want->total_s[i];
        if (off != 0 && !(s->x->other_sums && fabs(off) < 1e-15))
            return err_set(e, ST_DEVICE, "replica %d batch %lld stage %d takes %.17g, not %.17g",
                           b->replica, (long long)b->iteration, i, got[i].device_s,
                           want->total_s[i]);
    }
    s->out[b->lane].end_s = c.end_s;
    return ST_OK;
}

static enum st stages_submit(void *self, const struct batch *b, uint64_t *ticket, struct err *e)
{
    struct stages *s = self;
    change_set(s, b);
    if (s->submitted == s->batches.n)
        return err_set(e, ST_DEVICE, "more batches than Vidur's %zu", s->batches.n);
    const struct logged *want = &s->batches.p[s->submitted++];
    TRY(same_rows(s, b, want, e));
    emit_all(s, b);
    if (want->id != s->x->created++)
        return err_set(e, ST_DEVICE, "batch %zu comes as number %zu", want->id, s->x->created - 1);
    *ticket = (uint64_t)b->lane;
    if (s->inner.ops)
        return watch(s, b, want, e);
    double t = b->submit_s;
    for (int32_t i = 0; i < s->x->n_stages; i++) {
        double start = t > s->free_s[i] ? t : s->free_s[i];
        if (fabs(start - want->start_s[i]) > 1e-9)
            return err_set(e, ST_DEVICE, "replica %d batch %lld stage %d starts at %.9f, not %.9f",
                           b->replica, (long long)b->iteration, i, start, want->start_s[i]);
        t = s->free_s[i] = start + want->total_s[i];
    }
    s->out[b->lane].end_s = t;
    return ST_OK;
}

static enum st stages_next(void *self, double deadline_s, struct completion *out, struct err *e)
{
    struct stages *s = self;
    (void)e;
    (void)deadline_s;
    int32_t lane = 0; /* the loop asks after each submit: what is new has the latest end */
    for (int32_t i = 1; i < s->x->n_stages; i++)
        if (s->out[i].end_s > s->out[lane].end_s)
            lane = i;
    *out = (struct completion){.ticket = (uint64_t)lane,
                               .end_s = s->out[lane].end_s,
                               .tokens = s->out[lane].tokens.p,
                               .n_tokens = (int32_t)s->out[lane].tokens.n};
    return ST_OK;
}

static void stages_close(void *self)
{
    struct stages *s = self;
    for (int32_t i = 0; i < MAX_STAGES; i++) {
        vec_free(&s->sets[i]);
        vec_free(&s->out[i].tokens);
    }
    vec_free(&s->batches);
}

static void stages_bind(void *self, struct slot_source source)
{
    ((struct stages *)self)->source = source;
}

static const struct executor_ops stages_ops = {
    .name = "replay",
    .help = "Vidur's log",
    .version = EXECUTOR_VERSION,
    .caps = EXEC_VIRTUAL | EXEC_COMPUTES,
    .max_in_flight = stages_out,
    .submit = stages_submit,
    .next = stages_next,
    .close = stages_close,
    .bind = stages_bind,
    .lanes = stages_out,
};

/* ---- source, sink, cases ---- */

static enum st next_request(void *self, struct workload_request *out, struct err *e)
{
    struct replay *x = self;
    (void)e;
    if (x->pulled == x->requests.n)
        return ST_END;
    *out = x->requests.p[x->pulled++];
    return ST_OK;
}

static enum st prompt_ids(void *self, const struct workload_request *r, int32_t *ids, struct err *e)
{
    (void)self;
    (void)e;
    memset(ids, 0, (size_t)r->num_prefill_tokens * sizeof *ids);
    ids[0] = (int32_t)r->request_id;
    return ST_OK;
}

static void keep_row(void *self, const struct run_request *r)
{
    struct replay *x = self;
    while (x->rows.n < x->requests.n)
        vec_push(&x->rows, (struct run_request){0});
    x->rows.p[r->request_id] = *r;
}

/* Request Id, request_e2e_time, ... (column 11: prefill_e2e_time), ... (20: request_num_restarts)
 */
static void check_requests(const struct replay *x, const char *path)
{
    FILE *f = unpack(path);
    char line[2000];
    size_t n = 0;
    assert_non_null(fgets(line, sizeof line, f));
    for (; fgets(line, sizeof line, f); n++) {
        double v[21] = {0};
        char *at = line;
        for (int i = 0; i < 21; i++) {
            v[i] = strtod(at, &at);
            at += *at == ',';
        }
        const struct run_request *r = &x->rows.p[(size_t)v[0]];
        int64_t arrival = r->arrival_ns;
        assert_true(llabs(r->completion_ns - arrival - ns_from_s(v[1])) <= 2);
        assert_true(llabs(r->first_token_ns - arrival - ns_from_s(v[11])) <= 2);
        assert_int_equal(r->preemptions, (int64_t)v[20]);
    }
    assert_int_equal(n, x->requests.n);
    assert_int_equal(pclose(f), 0);
}

static void run_and_compare(struct test *t, struct replay *x, const char *name,
                            const struct serve_params *p)
{
    struct executor ex[MAX_REPLICAS];
    char path[300];
    for (int32_t i = 0; i < p->replicas; i++) {
        x->replicas[i].x = x;
        ex[i] = (struct executor){&stages_ops, &x->replicas[i]};
    }
    struct serve_clock clock = clock_virtual();
    struct request_source source = {x, next_request, prompt_ids, NULL};
    struct serve_sink sink = {.self = x, .request = keep_row};
    struct serve_counters n;
    assert_ok(serve_run(p, &clock, ex, &source, &sink, NULL, &n, &t->e), t);
    for (int32_t i = 0; i < p->replicas; i++)
        assert_int_equal(x->replicas[i].submitted, x->replicas[i].batches.n);
    snprintf(path, sizeof path, "vidur/reference/%s/request_metrics.csv.gz", name);
    check_requests(x, test_data(t, path));
    for (int32_t i = 0; i < p->replicas; i++)
        stages_close(&x->replicas[i]);
    vec_free(&x->parts);
    vec_free(&x->requests);
    vec_free(&x->rows);
}

static void replay(struct test *t, const char *name, int32_t n_stages, struct serve_params p)
{
    struct replay x = {.n_stages = n_stages};
    char path[300];
    snprintf(path, sizeof path, "vidur/reference/%s/trace.csv", name);
    read_trace(&x, test_data(t, path));
    snprintf(path, sizeof path, "vidur/reference/%s/batch_log.csv.gz", name);
    read_batches(&x, test_data(t, path));
    p.block_size = 16;
    run_and_compare(t, &x, name, &p);
}

static void sarathi(void **state)
{
    replay(*state, "cl34_sarathi512_conv_q2.5_1k", 1,
           (struct serve_params){.policy = "sarathi",
                                 .replicas = 1,
                                 .batch_cap = 128,
                                 .num_blocks = 27904,
                                 .watermark = 0.01});
}

static void sarathi_on_4_replicas(void **state)
{
    replay(*state, "cl34_sarathi512_conv_4rep_round_robin_q10_2k", 1,
           (struct serve_params){.policy = "sarathi",
                                 .replicas = 4,
                                 .batch_cap = 128,
                                 .num_blocks = 27904,
                                 .watermark = 0.01});
}

static void sarathi_in_2_stages(void **state)
{
    replay(*state, "cl34_sarathi512_pp2_conv_q4_1k", 2,
           (struct serve_params){.policy = "sarathi",
                                 .replicas = 1,
                                 .batch_cap = 128,
                                 .num_blocks = 60000,
                                 .watermark = 0.01});
}

static void vllm(void **state)
{
    replay(*state, "cl34_vllm_conv_blocks2500_q2.5_1k", 1,
           (struct serve_params){.policy = "vllm",
                                 .replicas = 1,
                                 .batch_cap = 128,
                                 .num_blocks = 2500,
                                 .watermark = 0.01});
}

static void orca(void **state)
{
    replay(*state, "cl34g_orca_conv_q2.5_1k", 1,
           (struct serve_params){.policy = "orca",
                                 .replicas = 1,
                                 .batch_cap = 109,
                                 .num_blocks = 27904,
                                 .max_model_len = 4096});
}

static void faster_transformer(void **state)
{
    replay(*state, "cl34_ft_fixed_q1_512", 1,
           (struct serve_params){.policy = "faster_transformer",
                                 .replicas = 1,
                                 .batch_cap = 8,
                                 .num_blocks = 27904,
                                 .max_model_len = 4096});
}

/* ---- from trace.csv and config.json alone ---------------------------------------------------- */

struct setting {
    struct model model;
    struct serve_params p;
    int64_t tp, pp;
    struct workload w;
    char dir[300];
};

static const struct node *under(const struct node *n, const char *path)
{
    n = node_path(n, path);
    assert_non_null(n);
    return n;
}

static int64_t int_at(const struct node *n, const char *path)
{
    n = under(n, path);
    assert_int_equal(n->kind, NODE_INT);
    return n->i;
}

static const char *text_at(const struct node *n, const char *path)
{
    return under(n, path)->s.p;
}

static int64_t optional_int(const struct node *n, const char *path)
{
    const struct node *v = node_path(n, path);
    return v && v->kind == NODE_INT ? v->i : 0;
}

static struct setting read_setting(struct test *t, const char *name)
{
    struct setting s = {.model = {.name = "codellama_34b", .family = MODEL_LLAMA}};
    struct node *config;
    snprintf(s.dir, sizeof s.dir, "vidur/reference/%s", name);
    const char *dir = test_data(t, s.dir);
    snprintf(s.dir, sizeof s.dir, "%s", dir);
    assert_ok(json_load(t->a, fs_join(t->a, s.dir, "config.json"), NULL, &config, &t->e), t);
    assert_ok(workload_load_trace(t->a, fs_join(t->a, s.dir, "trace.csv"), &s.w, &t->e), t);
    const struct node *cluster = under(config, "cluster_config");
    const struct node *replica = under(cluster, "replica_config");
    const struct node *m = under(replica, "model_config");
    const struct node *sched = under(cluster, "replica_scheduler_config");
    s.model.layers = int_at(m, "num_layers");
    s.model.heads = int_at(m, "num_q_heads");
    s.model.kv_heads = int_at(m, "num_kv_heads");
    s.model.hidden = int_at(m, "embedding_dim");
    s.model.head_dim = s.model.hidden / s.model.heads;
    s.model.intermediate = int_at(m, "mlp_hidden_dim");
    s.model.act = ACT_SILU_GATED;
    s.tp = int_at(replica, "tensor_parallel_size");
    s.pp = int_at(replica, "num_pipeline_stages");
    s.p = (struct serve_params){.policy = text_at(sched, "name"),
                                .router = text_at(cluster, "global_scheduler_config.name"),
                                .replicas = (int32_t)int_at(cluster, "num_replicas"),
                                .batch_cap = int_at(sched, "batch_size_cap"),
                                .block_size = int_at(sched, "block_size"),
                                .num_blocks = optional_int(sched, "num_blocks"),
                                .chunk_size = optional_int(sched, "chunk_size"),
                                .max_tokens_in_batch = optional_int(sched, "max_tokens_in_batch"),
                                .max_model_len =
                                    int_at(config, "request_generator_config.max_tokens")};
    const struct sched_ops *ops = sched_find(s.p.policy);
    if (ops->knobs & KNOB_WATERMARK)
        s.p.watermark = under(sched, "watermark_blocks_fraction")->f;
    struct memory_facts facts = {.memory_gb =
                                     (double)int_at(replica, "device_config.total_memory_gb"),
                                 .margin = under(replica, "memory_margin_fraction")->f,
                                 .model = &s.model,
                                 .tp = s.tp,
                                 .pp = s.pp,
                                 .block_size = s.p.block_size,
                                 .request_tokens = s.p.max_model_len};
    struct memory_plan plan;
    assert_ok(memory_plan(&facts, &plan, &t->e), t);
    if (!s.p.num_blocks)
        s.p.num_blocks = plan.num_blocks;
    if (ops->traits & SCHED_PLANNED_BATCH && plan.max_batch < s.p.batch_cap)
        s.p.batch_cap = plan.max_batch;
    return s;
}

struct collected {
    const struct setting *s;
    size_t pulled;
    struct run_request *rows; /* by id */
    int64_t batch_rows;
};

static enum st next_of_workload(void *self, struct workload_request *out, struct err *e)
{
    struct collected *x = self;
    (void)e;
    if (x->pulled == x->s->w.n)
        return ST_END;
    *out = x->s->w.requests[x->pulled++];
    return ST_OK;
}

static void collect_row(void *self, const struct run_request *r)
{
    ((struct collected *)self)->rows[r->request_id] = *r;
}

static void collect_batch(void *self, const struct run_batch *b, const struct completion *c)
{
    struct collected *x = self;
    assert_true(b->stage < x->s->pp && b->host_ns <= 1); /* rounding */
    assert_int_equal(c->n_stages, x->s->pp);
    x->batch_rows++;
}

/* All columns of Vidur's file: times within 2 ns, per token too, counts exact. */
static void same_metrics(const struct collected *x, const char *path)
{
    FILE *f = unpack(path);
    char line[2000];
    size_t n = 0;
    assert_non_null(fgets(line, sizeof line, f));
    line[strcspn(line, "\r\n")] = 0;
    char *name = line;
    for (int i = 0; i < VIDUR_COLUMNS; i++) {
        size_t len = strcspn(name, ",");
        assert_int_equal(len, strlen(vidur_metrics_columns[i]));
        assert_memory_equal(name, vidur_metrics_columns[i], len);
        name += len + 1;
    }
    for (; fgets(line, sizeof line, f); n++) {
        double got[VIDUR_COLUMNS];
        char *at = line;
        vidur_metrics_row(&x->rows[strtol(at, NULL, 10)], got);
        for (int i = 0; i < VIDUR_COLUMNS; i++) {
            char *end;
            double want = strtod(at, &end);
            if (end == at ? !isnan(got[i]) : !(fabs(got[i] - want) <= 2e-9))
                fail_msg("request %.0f %s: %.12g, Vidur has %.12g", got[0],
                         vidur_metrics_columns[i], got[i], want);
            at = end + (*end == ',');
        }
    }
    assert_int_equal(n, x->s->w.n);
    assert_int_equal(pclose(f), 0);
}

static void simulate(struct test *t, const struct setting *s, const struct predictor *predictor)
{
    struct collected x = {.s = s, .rows = arena_array(t->a, struct run_request, s->w.n)};
    struct executor ex[MAX_REPLICAS];
    for (int32_t i = 0; i < s->p.replicas; i++)
        ex[i] = sim_executor(t->a, predictor, ASYNC_OFF);
    struct serve_clock clock = clock_virtual();
    struct request_source source = {&x, next_of_workload, NULL, NULL};
    struct serve_sink sink = {.self = &x, .request = collect_row, .batch = collect_batch};
    struct serve_counters n;
    assert_ok(serve_run(&s->p, &clock, ex, &source, &sink, NULL, &n, &t->e), t);
    assert_int_equal(x.batch_rows, n.iterations * s->pp);
    same_metrics(&x, fs_join(t->a, s->dir, "request_metrics.csv.gz"));
}

static void watch_run(struct test *t, const char *name, const struct setting *s,
                      const struct predictor *predictor, bool other_sums)
{
    struct replay x = {.n_stages = (int32_t)s->pp, .other_sums = other_sums};
    read_trace(&x, fs_join(t->a, s->dir, "trace.csv"));
    read_batches(&x, fs_join(t->a, s->dir, "batch_log.csv.gz"));
    for (int32_t i = 0; i < s->p.replicas; i++)
        x.replicas[i].inner = sim_executor(t->a, predictor, ASYNC_OFF);
    run_and_compare(t, &x, name, &s->p);
}

static void reproduce(struct test *t, const char *name, const char *tables, bool other_sums)
{
    struct setting s = read_setting(t, name);
    struct predictor_params params = {.model = &s.model, .tp = s.tp, .pp = s.pp, .tables = tables};
    struct predictor predictor;
    assert_ok(predictor_open(t->a, &predictor_vidur_tables, &params, &predictor, &t->e), t);
    simulate(t, &s, &predictor);
    watch_run(t, name, &s, &predictor, other_sums);
}

static const char *cl34(struct test *t)
{
    return arena_str(t->a, test_data(t, "vidur/tables/cl34"));
}

static void sarathi_reproduced(void **state)
{
    reproduce(*state, "cl34_sarathi512_conv_q2.5_1k", cl34(*state), false);
}

static void sarathi_on_4_replicas_reproduced(void **state)
{
    reproduce(*state, "cl34_sarathi512_conv_4rep_round_robin_q10_2k", cl34(*state), false);
}

static void sarathi_in_2_stages_reproduced(void **state)
{
    reproduce(*state, "cl34_sarathi512_pp2_conv_q4_1k", cl34(*state), false);
}

static void vllm_reproduced(void **state)
{
    reproduce(*state, "cl34_vllm_conv_blocks2500_q2.5_1k", cl34(*state), false);
}

static void faster_transformer_reproduced(void **state)
{
    reproduce(*state, "cl34_ft_fixed_q1_512", cl34(*state), false);
}

/* ---- tables from the terms in a log ---- */

struct term {
    const char *table;
    int column; /* of the log */
};

static const struct term by_rounded[] = {
    {"attn_pre_proj", 12},
    {"attn_post_proj", 13},
    {"attn_rope", 14},
    {"input_layernorm", 18},
    {"mlp_up_proj", 19},
    {"mlp_act", 20},
    {"mlp_down_proj", 21},
    {"add", 23},
    {"post_attention_layernorm", 22},
    {"all_reduce", 24},
};
enum { N_ROUNDED = sizeof by_rounded / sizeof *by_rounded, LOG_COLUMNS = 31 };

struct log_tables {
    struct buf rounded[N_ROUNDED], save, decode, prefill;
};

/* "kv:chunk;kv:chunk" */
static void prefill_key(const char *text, int64_t *kv, int64_t *square, int *n)
{
    *kv = *square = *n = 0;
    for (char *end; *text >= '0' && *text <= '9'; text = *end == ';' ? end + 1 : end) {
        *kv += strtoll(text, &end, 10);
        int64_t chunk = strtoll(end + 1, &end, 10);
        *square += chunk * chunk;
        ++*n;
    }
    int64_t root = llround(sqrt((double)*square));
    *square = root * root;
}

static void add_terms(struct log_tables *t, const char *const cell[LOG_COLUMNS])
{
    double v[LOG_COLUMNS];
    for (int i = 0; i < LOG_COLUMNS; i++)
        v[i] = strtod(cell[i], NULL);
    v[24] -= 0.02;
    for (int i = 0; i < N_ROUNDED; i++)
        buf_printf(&t->rounded[i], "%.0f,%.17g\n", v[8], v[by_rounded[i].column]);
    buf_printf(&t->save, "%.0f,%.17g\n", v[5], v[15]);
    if (v[9] > 0)
        buf_printf(&t->decode, "%.0f,%.0f,%.17g\n", v[9], v[10], v[9] > 1 ? v[17] / 1.1 : v[17]);
    int64_t kv, square;
    int n;
    prefill_key(cell[11], &kv, &square, &n);
    if (n > 0)
        buf_printf(&t->prefill, "%lld,%lld,%.17g\n", (long long)kv, (long long)square,
                   n > 1 ? v[16] / 1.1 : v[16]);
}

static void put_table(struct test *t, const char *name, struct buf *rows, const char *header)
{
    struct buf all = {0};
    buf_printf(&all, "%s\n%s", header, buf_str(rows));
    test_write(t, arena_printf(t->a, "tables/%s.csv", name), buf_str(&all));
    buf_free(&all);
    buf_free(rows);
}

static const char *tables_of_log(struct test *t, const char *path)
{
    struct log_tables x = {0};
    FILE *f = unpack(path);
    char *line = malloc(LINE);
    assert_non_null(fgets(line, LINE, f));
    while (fgets(line, LINE, f)) {
        const char *cell[LOG_COLUMNS] = {line};
        int n = 1;
        for (char *c = line; *c && n < LOG_COLUMNS; c++)
            if (*c == ',')
                cell[n++] = c + 1;
        assert_int_equal(n, LOG_COLUMNS);
        add_terms(&x, cell);
    }
    free(line);
    assert_int_equal(pclose(f), 0);
    for (int i = 0; i < N_ROUNDED; i++)
        put_table(t, by_rounded[i].table, &x.rounded[i], "num_tokens,prediction");
    put_table(t, "attn_kv_cache_save", &x.save, "num_tokens,prediction");
    put_table(t, "attn_decode", &x.decode, "batch_size,kv_cache_size,prediction");
    put_table(t, "attn_prefill", &x.prefill, "kv_cache_size,prefill_chunk_size_squared,prediction");
    return test_path(t, "tables");
}

static void orca_reproduced(void **state)
{
    static const char name[] = "cl34g_orca_conv_q2.5_1k";
    struct test *t = *state;
    const char *log = test_data(t, "vidur/reference/cl34g_orca_conv_q2.5_1k/batch_log.csv.gz");
    const char *tables = arena_str(t->a, tables_of_log(t, log));
    reproduce(t, name, tables, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sarathi),
        TEST(sarathi_on_4_replicas),
        TEST(sarathi_in_2_stages),
        TEST(vllm),
        TEST(orca),
        TEST(faster_transformer),
        TEST(sarathi_reproduced),
        TEST(sarathi_on_4_replicas_reproduced),
        TEST(sarathi_in_2_stages_reproduced),
        TEST(vllm_reproduced),
        TEST(orca_reproduced),
        TEST(faster_transformer_reproduced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
