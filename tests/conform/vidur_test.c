/* Vidur's own runs replayed: the same arrivals, batches that take the times Vidur logged. Each
 * batch must hold the same requests with the same tokens and start at the same time, and each
 * request end at the same time. Reference data: data/vidur beside the repository; skipped without
 * it. */
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/vec.h"
#include "serve/serve.h"

enum { MAX_STAGES = 2, MAX_REPLICAS = 4, LINE = 1 << 16 };

struct part {
    int32_t request;
    int64_t tokens;
};

struct logged {
    double start_s[MAX_STAGES], total_s[MAX_STAGES];
    size_t first, n; /* into parts */
};

struct replay;

/* One replica as an executor: stages in a row, one batch in each. */
struct stages {
    struct replay *x;
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
    int32_t n_stages, n_replicas;
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
            vec_push(&r->batches, (struct logged){0});
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

static enum st stages_submit(void *self, const struct batch *b, uint64_t *ticket, struct err *e)
{
    struct stages *s = self;
    change_set(s, b);
    if (s->submitted == s->batches.n)
        return err_set(e, ST_DEVICE, "more batches than Vidur's %zu", s->batches.n);
    const struct logged *want = &s->batches.p[s->submitted++];
    TRY(same_rows(s, b, want, e));
    emit_all(s, b);
    double t = b->submit_s;
    for (int32_t i = 0; i < s->x->n_stages; i++) {
        double start = t > s->free_s[i] ? t : s->free_s[i];
        if (fabs(start - want->start_s[i]) > 1e-9)
            return err_set(e, ST_DEVICE, "replica %d batch %lld stage %d starts at %.9f, not %.9f",
                           b->replica, (long long)b->iteration, i, start, want->start_s[i]);
        t = s->free_s[i] = start + want->total_s[i];
    }
    s->out[b->lane].end_s = t;
    *ticket = (uint64_t)b->lane;
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

static void replay(struct test *t, const char *name, int32_t n_stages, struct serve_params p)
{
    struct replay x = {.n_stages = n_stages, .n_replicas = p.replicas};
    char path[300];
    snprintf(path, sizeof path, "vidur/reference/%s/trace.csv", name);
    read_trace(&x, test_data(t, path));
    snprintf(path, sizeof path, "vidur/reference/%s/batch_log.csv.gz", name);
    read_batches(&x, test_data(t, path));
    struct executor ex[MAX_REPLICAS];
    for (int32_t i = 0; i < p.replicas; i++) {
        x.replicas[i].x = &x;
        ex[i] = (struct executor){&stages_ops, &x.replicas[i]};
    }
    p.block_size = 16;
    struct serve_clock clock = clock_virtual();
    struct request_source source = {&x, next_request, prompt_ids};
    struct serve_sink sink = {.self = &x, .request = keep_row};
    struct serve_counters n;
    assert_ok(serve_run(&p, &clock, ex, &source, &sink, NULL, &n, &t->e), t);
    for (int32_t i = 0; i < p.replicas; i++)
        assert_int_equal(x.replicas[i].submitted, x.replicas[i].batches.n);
    snprintf(path, sizeof path, "vidur/reference/%s/request_metrics.csv.gz", name);
    check_requests(&x, test_data(t, path));
    for (int32_t i = 0; i < p.replicas; i++)
        stages_close(&x.replicas[i]);
    vec_free(&x.parts);
    vec_free(&x.requests);
    vec_free(&x.rows);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sarathi), TEST(sarathi_on_4_replicas), TEST(sarathi_in_2_stages), TEST(vllm),
        TEST(orca),    TEST(faster_transformer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
