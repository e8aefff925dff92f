#include "base/clock.h"
#include "base/fs.h"
#include "profile/read/bundle.h"
#include "profile/rehearsal.h"
#include "profile/whole.h"
#include "support/support.h"
#include "text/json.h"

/* An engine that computes one prompt, then decodes what it has, on a time line of its own. Passes
 * take what time_of says; in a run everything takes `slower` times as long, a decode step behind a
 * prompt `behind_s` more, a prompt behind a pause `cold_s`, the first batch of each prompt's length
 * `first_s`; between a decode step and a prompt go by leave_s, and tokens come late_s after their
 * batch, before the next. */
struct made {
    double slower, behind_s, cold_s, first_s, leave_s, late_s;
    bool pads;             /* all caches count as long as the longest */
    bool mute, liar, deaf; /* no batches; wrong counts; refuses requests */
    volatile sig_atomic_t stop;
    int stop_at;
    int64_t loops, most, requests, longest;
    double paused_s;
    bool seen[4096];
};

static double time_of(int64_t chunk, int64_t sequences, int64_t kv)
{
    return 1e-3 + 1e-5 * (double)(chunk + sequences) + 1e-8 * (double)kv;
}

struct seq {
    size_t request;
    int64_t tokens;
};

struct loop {
    struct made *m;
    const struct rehearsal_request *q;
    struct run *out;
    struct seq live[64];
    size_t n_live;
    double now_s;
    bool open;           /* requests come by themselves */
    bool rested, prompt; /* nothing ran before; the batch before was a prompt */
};

static void put(struct loop *l, double took_s, int64_t prefill, int64_t decodes)
{
    l->out->batches[l->out->n_batches++] =
        (struct run_batch){.start_ns = ns_from_s(l->now_s),
                           .duration_ns = ns_from_s(took_s),
                           .num_prefill_tokens = prefill + l->m->liar,
                           .num_decode_tokens = decodes};
    l->now_s = ns_to_s(ns_from_s(l->now_s) + ns_from_s(took_s + l->m->late_s));
}

static void end_token(struct loop *l, struct seq *s)
{
    struct run_request *r = &l->out->requests[s->request];
    if (s->tokens++ == 0)
        r->first_token_ns = ns_from_s(l->now_s);
    r->num_decode_tokens_actual = s->tokens;
    r->completion_ns = ns_from_s(l->now_s);
}

static void prompt(struct loop *l, size_t i)
{
    const int64_t tokens = l->q[i].prompt;
    double s = time_of(tokens, 0, 0) * l->m->slower;
    l->out->requests[i] =
        (struct run_request){.request_id = (int64_t)i,
                             .sent_ns = ns_from_s(l->open ? l->q[i].arrival_s : l->now_s),
                             .num_prefill_tokens = tokens,
                             .num_decode_tokens = l->q[i].output};
    l->now_s += l->n_live ? l->m->leave_s : 0;
    s += l->rested ? l->m->cold_s : 0;
    s += l->m->seen[tokens] ? 0 : l->m->first_s;
    l->m->seen[tokens] = true;
    put(l, s, tokens, 0);
    l->live[l->n_live] = (struct seq){i, 0};
    end_token(l, &l->live[l->n_live++]);
    l->rested = false;
    l->prompt = true;
}

static void decode(struct loop *l)
{
    int64_t kv = 0, longest = 0;
    for (size_t i = 0; i < l->n_live; i++) {
        const int64_t cached = l->q[l->live[i].request].prompt + l->live[i].tokens - 1;
        kv += cached;
        longest = cached > longest ? cached : longest;
    }
    kv = l->m->pads ? longest * (int64_t)l->n_live : kv;
    l->now_s += l->prompt ? l->m->behind_s : 0;
    put(l, time_of(0, (int64_t)l->n_live, kv) * l->m->slower, 0, (int64_t)l->n_live);
    l->prompt = false;
    size_t kept = 0;
    for (size_t i = 0; i < l->n_live; i++) {
        end_token(l, &l->live[i]);
        if (l->live[i].tokens < l->q[l->live[i].request].output)
            l->live[kept++] = l->live[i];
    }
    l->n_live = kept;
}

static enum st serve(void *self, struct arena *a, const struct rehearsal_request *q, size_t n,
                     int64_t sequences, double pause_s, struct run *out, const char **why,
                     struct err *e)
{
    struct made *m = self;
    struct loop l = {.m = m, .q = q, .out = out, .open = sequences == 0, .rested = pause_s > 0};
    size_t next = 0, batches = n;
    (void)e;
    assert_true(sequences >= 0 && sequences <= 64 && n >= 1);
    m->stop = ++m->loops == m->stop_at;
    m->most = sequences > m->most ? sequences : m->most;
    m->paused_s += pause_s;
    if (m->deaf) {
        *why = "no room";
        return ST_END;
    }
    for (size_t i = 0; i < n; i++) {
        assert_true(q[i].prompt >= 1 && q[i].output >= 1 && q[i].prompt + q[i].output <= 300);
        batches += (size_t)q[i].output;
        m->longest = q[i].prompt > m->longest ? q[i].prompt : m->longest;
    }
    *out = (struct run){.requests = arena_array(a, struct run_request, n), .n_requests = n};
    out->batches = arena_array(a, struct run_batch, batches);
    while (next < n || l.n_live) {
        if (l.open && !l.n_live && q[next].arrival_s > l.now_s) {
            l.now_s = q[next].arrival_s;
            l.rested = true;
        }
        if (next < n && (l.open ? q[next].arrival_s <= l.now_s : (int64_t)l.n_live < sequences))
            prompt(&l, next++);
        decode(&l);
    }
    m->requests += (int64_t)n;
    if (m->mute)
        out->batches = NULL;
    return ST_OK;
}

static struct rehearsal_params params(struct made *m)
{
    return (struct rehearsal_params){.max_tokens = 256,
                                     .max_batch = 16,
                                     .max_kv = 300,
                                     .prompt_s = 2e-3,
                                     .prompt_tokens = 100,
                                     .decode_s = 1e-3,
                                     .decode_most_s = 2e-3,
                                     .stop = &m->stop};
}

/* Iterations as the engine's passes are. */
static void whole(struct test *t, const char *hardware, struct rehearsal *r, const double first[2],
                  struct whole_result *out)
{
    struct whole_sample s[400];
    size_t n = 0;
    for (int64_t c = 8; c <= 256; c *= 2)
        for (int i = 0; i < WHOLE_LIKE; i++) {
            const double chunk = (double)c;
            s[n++] = (struct whole_sample){
                {chunk, chunk * (chunk + 1) / 2, 0, 0}, 0, time_of(c, 0, 0), 0};
        }
    for (int64_t seqs = 1; seqs <= 16; seqs *= 2)
        for (int64_t kv = 8; kv <= 512; kv *= 2)
            for (int i = 0; i < WHOLE_LIKE; i++)
                s[n++] = (struct whole_sample){
                    {0, 0, (double)seqs, (double)(seqs * kv)}, 0, time_of(0, seqs, seqs * kv), 0};
    const struct whole_params p = {.root = test_dir(t),
                                   .hardware = hardware,
                                   .model_name = "m",
                                   .tp = 1,
                                   .method = "passes",
                                   .loop = r,
                                   .first_use_s = {first[0], first[1]}};
    assert_true(n <= sizeof s / sizeof *s);
    assert_ok(whole_write(t->a, &p, s, n, out, &t->e), t);
}

static void batches_of_a_run_are_slower_than_passes(void **state)
{
    struct test *t = *state;
    struct made m = {
        .slower = 1.3, .behind_s = 4e-4, .cold_s = 7e-3, .first_s = 0.02, .late_s = 2e-6};
    const struct rehearsal_params p = params(&m);
    struct rehearsal r;
    struct whole_result w;
    struct node *meta;
    const char *why;
    assert_ok(rehearsal_run(t->a, &p, &(struct rehearsal_engine){&m, serve}, &r, &why, &t->e), t);
    assert_int_equal(r.rounds, REHEARSAL_ROUNDS);
    assert_int_equal(r.unknown, 0);
    assert_int_equal(m.most, 16);
    assert_near(m.paused_s, REHEARSAL_ROUNDS * wake_round_s(), 1e-9);
    assert_int_equal(r.wake.samples.n, REHEARSAL_ROUNDS * WAKE_LEVELS);
    for (size_t i = 0; i < r.wake.samples.n; i++) {
        assert_true(r.wake.samples.p[i].pause_s >= wake_pauses_s[r.wake.samples.p[i].level]);
        assert_near(r.wake.samples.p[i].device_s[0], 7e-3, 1e-8);
        assert_near(r.wake.samples.p[i].device_s[1], 0, 1e-8);
    }
    whole(t, "h", &r, (double[]){0, 0.02}, &w);
    assert_near(w.factor[true], 1.3, 0.01); /* without what first batches take */
    assert_ok(json_load(t->a, fs_join(t->a, w.dir, "bundle_meta.json"), NULL, &meta, &t->e), t);
    assert_int_equal(node_path(meta, "calibration_run.rounds")->i, REHEARSAL_ROUNDS);
    assert_int_equal(node_path(meta, "wake.pause_s")->n, WAKE_LEVELS);

    const struct model model = {.name = "m"};
    const struct bundle_key key = {
        .root = test_dir(t), .hardware = "h", .model = &model, .model_name = "m", .tp = 1};
    struct bundle *b;
    assert_ok(bundle_load(t->a, &key, &b, &t->e), t);
    assert_near(bundle_prompt_scale(b, 64, false), 1.3, 0.01);
    assert_near(bundle_decode_scale(b, 1, 9), 1.3, 0.01);
    assert_near(bundle_decode_scale(b, 1, 1), 1.3 + 4e-4 / 1.01e-3, 0.02);
    assert_true(bundle_is_uneven(b));
    double device_s, host_s;
    bundle_wake_s(b, 1, 0, &device_s, &host_s);
    assert_near(device_s, 7e-3, 1e-6);
    rehearsal_free(&r);
}

static void what_lies_between_two_batches_counts(void **state)
{
    struct test *t = *state;
    struct made m = {.slower = 1, .leave_s = 5e-4};
    const struct rehearsal_params p = params(&m);
    struct rehearsal r;
    struct whole_result w;
    const char *why;
    assert_ok(rehearsal_run(t->a, &p, &(struct rehearsal_engine){&m, serve}, &r, &why, &t->e), t);
    whole(t, "h", &r, (double[2]){0}, &w);
    assert_true(w.factor[true] > 1.1 && w.factor[true] < 1.4); /* not where one is alone */
    assert_near(w.factor[false], 1, 1e-3);
    rehearsal_free(&r);
}

/* By which of the two the times of batches of unequal caches are told. */
static void padding_shows(void **state)
{
    struct test *t = *state;
    for (int pads = 0; pads < 2; pads++) {
        struct made m = {.slower = 1.2, .pads = pads};
        const struct rehearsal_params p = params(&m);
        struct rehearsal r;
        struct whole_result w;
        struct rehearsal_result x;
        struct iterations *read;
        const char *why;
        assert_ok(rehearsal_run(t->a, &p, &(struct rehearsal_engine){&m, serve}, &r, &why, &t->e),
                  t);
        whole(t, pads ? "pads" : "none", &r, (double[2]){0}, &w);
        assert_ok(iterations_load(t->a, fs_join(t->a, w.dir, "iteration.csv"), 1, &read, &t->e), t);
        rehearsal_judge(t->a, &r, read, (double[2]){0}, &x);
        assert_int_equal(x.padded, pads);
        for (int c = 0; c < CALIBRATION_CLASSES; c++)
            if (x.scale[CALIBRATION_DECODE][c].n)
                assert_near(x.scale[CALIBRATION_DECODE][c].factor, 1.2, 0.02);
        vec_free(&x.rests.of);
        rehearsal_free(&r);
    }
}

static void an_engine_that_takes_no_requests_says_why(void **state)
{
    struct test *t = *state;
    struct made mute = {.slower = 1, .mute = true}, liar = {.slower = 1, .liar = true};
    struct made deaf = {.deaf = true};
    struct made *const of[] = {&mute, &liar, &deaf};
    static const char disagrees[] = "what it says of its batches does not agree with the requests";
    static const char *const said[] = {"it says nothing of its batches", disagrees, "no room"};
    for (size_t i = 0; i < 3; i++) {
        const struct rehearsal_params p = params(of[i]);
        struct rehearsal r;
        const char *why = NULL;
        assert_int_equal(
            rehearsal_run(t->a, &p, &(struct rehearsal_engine){of[i], serve}, &r, &why, &t->e),
            ST_END);
        assert_string_equal(why, said[i]);
        assert_int_equal(r.batches.batches.n, 0);
    }
    struct made m = {.slower = 1};
    struct rehearsal_params p = params(&m);
    struct rehearsal r;
    const char *why = NULL;
    p.max_kv = 20;
    assert_int_equal(
        rehearsal_run(t->a, &p, &(struct rehearsal_engine){&m, serve}, &r, &why, &t->e), ST_END);
    assert_string_equal(why, "the lengths that were asked for leave no room for requests");
    assert_int_equal(m.loops, 0);
}

static void it_can_be_interrupted(void **state)
{
    struct test *t = *state;
    struct made m = {.slower = 1, .stop_at = 4};
    const struct rehearsal_params p = params(&m);
    struct rehearsal r;
    const char *why = NULL;
    assert_err(rehearsal_run(t->a, &p, &(struct rehearsal_engine){&m, serve}, &r, &why, &t->e),
               ST_INTERRUPTED, t, "interrupted by a signal");
    assert_int_equal(m.loops, 4);
    assert_int_equal(r.batches.batches.n, 0);
}

/* Answers, prompts and sequences at a time are cut; two rounds there always are. */
static void little_time_is_little_of_all(void **state)
{
    struct test *t = *state;
    struct made m = {.slower = 1}, all = {.slower = 1};
    struct rehearsal_params p = params(&m);
    struct rehearsal r;
    const char *why = NULL;
    p.time_budget_s = 1e-9;
    assert_ok(rehearsal_run(t->a, &p, &(struct rehearsal_engine){&m, serve}, &r, &why, &t->e), t);
    assert_int_equal(r.rounds, REHEARSAL_ROUNDS_LEAST);
    assert_int_equal(m.most, 1);
    assert_true(m.longest < 128);
    rehearsal_free(&r);
    p.time_budget_s = 1000;
    assert_ok(rehearsal_run(t->a, &p, &(struct rehearsal_engine){&all, serve}, &r, &why, &t->e), t);
    assert_int_equal(r.rounds, REHEARSAL_ROUNDS);
    assert_int_equal(all.most, 16);
    assert_true(all.longest > 128);
    rehearsal_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(batches_of_a_run_are_slower_than_passes),
        TEST(what_lies_between_two_batches_counts),
        TEST(padding_shows),
        TEST(an_engine_that_takes_no_requests_says_why),
        TEST(it_can_be_interrupted),
        TEST(little_time_is_little_of_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
