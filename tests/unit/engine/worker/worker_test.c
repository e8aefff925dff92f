#include "base/clock.h"
#include "base/fs.h"
#include "engine/worker/worker.h"
#include "support/support.h"
#include "text/json.h"

/* ---- a run with the fake worker, its rows in memory ---- */

static const char *fake_worker(struct test *t)
{
    return fs_join(t->a, fs_self_dir(t->a), "fake_worker");
}

enum { LONG_S = 600 }; /* limits that nothing here is to run into */
enum { N = 6, DECODE = 4, PREFILL = 3, LONGEST = PREFILL + N * (DECODE + 2), MAX_ROWS = 64 };

struct seen {
    struct run_request requests[MAX_ROWS];
    struct run_token tokens[MAX_ROWS];
    struct run_batch batches[MAX_ROWS];
    char message[MAX_ROWS][200];
    int n_requests, n_tokens, n_batches;
    int stop_at;
    volatile sig_atomic_t stop;
};

static void see_request(void *self, const struct run_request *r)
{
    struct seen *s = self;
    assert_true(s->n_requests < MAX_ROWS);
    snprintf(s->message[s->n_requests], sizeof s->message[0], "%s: %s",
             r->error_type ? r->error_type : "", r->error_msg ? r->error_msg : "");
    s->requests[s->n_requests++] = *r;
    if (s->n_requests == s->stop_at)
        s->stop = 1;
}

static void see_token(void *self, const struct run_token *t)
{
    struct seen *s = self;
    assert_true(s->n_tokens < MAX_ROWS);
    s->tokens[s->n_tokens++] = *t;
}

static void see_batch(void *self, const struct run_batch *b, const struct completion *c)
{
    struct seen *s = self;
    assert_null(c);
    assert_true(s->n_batches < MAX_ROWS);
    s->batches[s->n_batches++] = *b;
}

struct setup {
    const char *args[4];
    double silence_s, request_s;
    bool text;
    int64_t first_id; /* of the first request; they go up by 10 when it is not 0 */
    int stop_at;
    const struct concurrency *concurrency;
    int64_t turns; /* of each session; 0 = none */
};

static enum st run(struct test *t, const struct setup *u, struct seen *seen,
                   struct worker_counters *n, struct node **meta)
{
    const char *command[6] = {fake_worker(t)};
    size_t n_command = 1;
    while (n_command < 5 && u->args[n_command - 1]) {
        command[n_command] = u->args[n_command - 1];
        n_command++;
    }
    memset(seen, 0, sizeof *seen);
    seen->stop_at = u->stop_at;
    struct worker_params p = {.command = {command, n_command},
                              .greeting = {.model_name = "m", .device = "cpu"},
                              .start_timeout_s = LONG_S,
                              .load_timeout_s = LONG_S,
                              .silence_timeout_s = u->silence_s > 0 ? u->silence_s : LONG_S,
                              .request_timeout_s = u->request_s,
                              .stop_timeout_s = u->stop_at ? 0.1 : LONG_S,
                              .clock_rounds = 8,
                              .prompt = u->text ? WORKER_TEXT : WORKER_IDS,
                              .stop = &seen->stop};
    struct workload_request requests[N];
    int32_t ids[PREFILL] = {1, 2, 3}, *all_ids[N], longer[LONGEST] = {1, 2, 3};
    for (int i = PREFILL; i < LONGEST; i++)
        longer[i] = 500 + i;
    const char *texts[N];
    for (int i = 0; i < N; i++) {
        requests[i] =
            (struct workload_request){.request_id = u->first_id ? u->first_id - 10 * i : i,
                                      .prompt_id = "p",
                                      .arrival_ns = i * NS_PER_MS,
                                      .num_prefill_tokens = PREFILL,
                                      .num_decode_tokens = DECODE};
        if (u->turns) {
            requests[i].session_id = i / u->turns;
            requests[i].turn = i % u->turns + 1;
            requests[i].think_ns = requests[i].turn > 1 ? NS_PER_MS : 0;
            requests[i].arrival_ns = 0;
            requests[i].num_prefill_tokens = PREFILL + (requests[i].turn - 1) * (DECODE + 2);
        }
        all_ids[i] = u->turns ? longer : ids;
        texts[i] = "text";
    }
    struct worker_work work = {.requests = requests,
                               .n = N,
                               .concurrency = u->concurrency,
                               .ids = all_ids,
                               .texts = texts,
                               .warmup_requests = 1};
    struct serve_sink sink = {
        .self = seen, .request = see_request, .token = see_token, .batch = see_batch};
    struct worker *w;
    TRY(worker_open(&p, &w, &t->e));
    enum st st = worker_run(w, &work, &sink, n, &t->e);
    if (meta)
        *meta = worker_meta(t->a, w);
    worker_close(&w);
    assert_null(w);
    return st;
}

/* ---- what goes well ---- */

static void check_rows(const struct seen *s)
{
    assert_int_equal(s->n_requests, N);
    assert_int_equal(s->n_tokens, N * DECODE);
    for (int i = 0; i < N; i++) {
        const struct run_request *r = &s->requests[i];
        assert_int_equal(r->status, RUN_OK);
        assert_int_equal(r->num_decode_tokens_actual, DECODE);
        assert_true(r->arrival_ns <= r->sent_ns && r->sent_ns <= r->first_token_ns &&
                    r->first_token_ns <= r->completion_ns);
        assert_int_equal(r->warmup, r->arrival_ns == 0);
        const struct run_token *k = &s->tokens[i * DECODE];
        assert_int_equal(k->token_time_ns, r->first_token_ns);
        for (int j = 0; j < DECODE; j++) {
            assert_int_equal(k[j].request_id, r->request_id);
            assert_int_equal(k[j].token_index, j);
            assert_int_equal(k[j].token_id, 100 * r->request_id + j);
            assert_int_equal(k[j].token_latency_ns,
                             j ? k[j].token_time_ns - k[j - 1].token_time_ns : 0);
        }
        assert_int_equal(k[DECODE - 1].token_time_ns, r->completion_ns);
    }
}

static int64_t meta_int(const struct node *meta, const char *path)
{
    const struct node *n = node_path(meta, path);
    assert_non_null(n);
    assert_int_equal(n->kind, NODE_INT);
    return n->i;
}

/* Its clock differs from ours by skew_ns: the offset is found to a fraction of a millisecond, and
 * no time on the run's line shows any of it. */
static void check_another_clock(struct test *t, int64_t skew_ns)
{
    struct seen s;
    struct worker_counters n;
    struct node *meta;
    char skew[40];
    snprintf(skew, sizeof skew, "skew=%lld", (long long)skew_ns);
    struct setup u = {.args = {skew, "batches=1", "boot=1"}};
    assert_ok(run(t, &u, &s, &n, &meta), t);
    check_rows(&s);
    int64_t low = meta_int(meta, "clock.before.low_ns"),
            high = meta_int(meta, "clock.before.high_ns");
    assert_true(low <= skew_ns && high >= skew_ns);
    assert_int_equal(meta_int(meta, "clock.before.rounds"), 8);
    assert_int_equal(meta_int(meta, "clock.after.rounds"), 8);
    assert_int_equal(meta_int(meta, "clock.drift_ns"), 0);
    assert_false(node_path(meta, "clock.same_clock")->b);
    assert_true(meta_int(meta, "clock.used_offset_ns") >= low &&
                meta_int(meta, "clock.used_offset_ns") <= high);
    assert_int_equal(n.tokens, N * DECODE);
    assert_int_equal(n.batches, N * DECODE);
    assert_int_equal(s.n_batches, N * DECODE);
    assert_int_equal(s.batches[0].num_prefill_tokens, 7);
    assert_int_equal(s.batches[0].device_ns, 1);
    assert_int_equal(s.batches[0].host_ns + 1, s.batches[0].duration_ns);
    assert_string_equal(node_path(meta, "hello.name")->s.p, "fake");
    assert_string_equal(node_path(meta, "hello.info.libraries.libc")->s.p, "a");
    assert_true(meta_int(meta, "send_delay_ns.max") >= meta_int(meta, "send_delay_ns.p50"));
}

static void a_clock_ahead_is_moved_to_ours(void **state)
{
    check_another_clock(*state, 3600 * NS_PER_S);
}

/* No clock says a time before its start, and ours may have started seconds ago. */
static void a_clock_behind_is_moved_to_ours(void **state)
{
    check_another_clock(*state, -clock_mono_ns() / 2);
}

static void the_same_clock_needs_no_moving(void **state)
{
    struct test *t = *state;
    struct seen s;
    struct worker_counters n;
    struct node *meta;
    struct setup u = {.args = {"boot=1"}, .first_id = 1000};
    assert_ok(run(t, &u, &s, &n, &meta), t);
    check_rows(&s);
    assert_int_equal(s.requests[1].request_id, 990);
    assert_int_equal(meta_int(meta, "clock.used_offset_ns"), 0);
    assert_true(node_path(meta, "clock.same_clock")->b);
    assert_int_equal(n.moved_times, 0);
}

static void tokens_without_ids_have_none(void **state)
{
    struct test *t = *state;
    struct seen s;
    struct worker_counters n;
    struct setup u = {.args = {"ids=0", "takes=text"}, .text = true};
    assert_ok(run(t, &u, &s, &n, NULL), t);
    assert_int_equal(s.tokens[0].token_id, RUN_NONE);
}

/* One request goes wrong, the others do not notice. */
static void a_failed_request_is_one_row(void **state)
{
    static const struct {
        struct setup u;
        enum run_status status;
        int64_t tokens;
        const char *message;
    } rows[] = {
        {{.args = {"refuse=2"}}, RUN_ERROR, 0, "taste: prompt too rude"},
        {{.args = {"short=2"}}, RUN_ERROR, 1, "short: ended after 1 of 4 tokens"},
        {{.args = {"stop=2"}}, RUN_OK, 1, ": "},
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct seen s;
        struct worker_counters n;
        assert_ok(run(t, &rows[i].u, &s, &n, NULL), t);
        assert_int_equal(s.n_requests, N);
        for (int k = 0; k < N; k++) {
            const struct run_request *r = &s.requests[k];
            bool it = r->request_id == 1;
            assert_int_equal(r->status, it ? rows[i].status : RUN_OK);
            assert_int_equal(r->num_decode_tokens_actual, it ? rows[i].tokens : DECODE);
            assert_string_equal(s.message[k], it ? rows[i].message : ": ");
            assert_true(r->completion_ns >= r->sent_ns);
        }
    }
}

/* The limit counts from the arrival and is longer than the others take: on a slow machine that is
 * more than 2 s. */
static void a_request_that_is_not_answered_ends_at_its_limit(void **state)
{
    struct test *t = *state;
    struct setup u = {.args = {"mute=2"}, .request_s = 1};
    int others;
    do {
        struct seen s;
        struct worker_counters n;
        others = 0;
        u.request_s *= 2;
        const char *message = arena_printf(t->a, "timeout: not over after %g s", u.request_s);
        assert_ok(run(t, &u, &s, &n, NULL), t);
        assert_int_equal(s.n_requests, N);
        for (int k = 0; k < N; k++) {
            const struct run_request *r = &s.requests[k];
            if (r->request_id == 1) {
                assert_int_equal(r->status, RUN_TIMEOUT);
                assert_int_equal(r->num_decode_tokens_actual, 0);
                assert_string_equal(s.message[k], message);
                assert_true(r->completion_ns - r->arrival_ns >= ns_from_s(u.request_s));
            } else {
                others += r->status != RUN_OK;
            }
        }
    } while (others);
}

static void too_long_requests_are_not_sent(void **state)
{
    struct test *t = *state;
    struct seen s;
    struct worker_counters n;
    struct setup u = {.args = {"max_model_len=6"}};
    assert_ok(run(t, &u, &s, &n, NULL), t);
    assert_int_equal(n.rejected, N);
    assert_int_equal(s.requests[0].status, RUN_REJECTED);
    assert_int_equal(s.requests[0].sent_ns, RUN_NONE);
    assert_string_equal(s.message[0],
                        "max_model_len: prompt and output of 7 tokens exceed max_model_len 6");
}

/* ---- what goes wrong ---- */

static const struct fault {
    struct setup u;
    enum st st;
    const char *error;
} faults[] = {
    {{.args = {"crash=1"}},
     ST_DEVICE,
     "the worker exited with status 3 while # running\n"
     "hint: its last words: RuntimeError: out of luck"},
    {{.args = {"kill=1"}}, ST_DEVICE, "the worker was killed by signal 9 (Killed) while # running"},
    {{.args = {"hang=1"}, .silence_s = 0.2},
     ST_DEVICE,
     "the worker said nothing for 0.2 s while # running\n"
     "hint: worker.silence_timeout_s sets the limit"},
    {{.args = {"give_up=1"}}, ST_DEVICE, "the worker gave up while # running: CUDA out of memory"},
    {{.args = {"garbage=1"}}, ST_INPUT, "worker:11:1: expected a value, got 'Loading'"},
    {{.args = {"cut=1"}}, ST_INPUT, "worker:11: the output ends inside a line"},
    {{.args = {"long=1"}}, ST_INPUT, "worker:11: the line has more than 1048576 bytes"},
    {{.args = {"stranger=1"}}, ST_INPUT, "worker:11: tokens: request 4711 was never sent"},
    {{.args = {"over=1"}}, ST_INPUT, "worker:16: tokens: request 0 is over"},
    {{.args = {"more=1"}}, ST_INPUT, "worker:15: tokens: request 0 has more than its 4 tokens"},
    {{.args = {"fewer=1"}}, ST_INPUT, "worker:12: finished: request 0 has 4 tokens, 1 came"},
    {{.args = {"back=1"}},
     ST_INPUT,
     "worker:12: tokens: t_ns: 1 ns before the token before of request 0"},
    {{.args = {"ready_again=1"}}, ST_INPUT, "worker:11: ready: not expected while # running"},
    {{.args = {"ids=0", "takes=ids"}, .text = true},
     ST_USAGE,
     "the worker fake takes no texts\nhint: worker.prompt=ids"},
    {{.args = {"takes=text"}},
     ST_USAGE,
     "the worker fake takes no token ids\nhint: worker.prompt=text"},
    {{.args = {"version=2"}},
     ST_DEVICE,
     "the worker speaks protocol 2, this is version 1\n"
     "hint: take worker and twinfer of one release; docs/worker-protocol.md"},
    {{.args = {"dies"}},
     ST_DEVICE,
     "the worker exited with status 9 while it loaded its model\n"
     "hint: its last words: no such device"},
    {{.args = {"refuses"}},
     ST_DEVICE,
     "the worker gave up while it loaded its model: no GPU\n"
     "hint: plug one in"},
    {{.args = {"old_clock"}}, ST_INPUT, "worker:3: clock: seq 77 answers seq 0"},
};

/* How many requests ran by then depends on the machine: "# running" stands for any number. */
static void blur_count(struct err *e)
{
    char *at = strstr(e->text + 1, "while ");
    if (!at || at[6] < '0' || at[6] > '9')
        return;
    char *rest = strstr(at, " running");
    assert_non_null(rest);
    at[6] = '#';
    memmove(at + 7, rest, strlen(rest) + 1);
}

static void every_fault_is_told(void **state)
{
    struct test *t = *state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct seen s;
        struct worker_counters n;
        err_clear(&t->e);
        enum st st = run(t, &faults[i].u, &s, &n, NULL);
        blur_count(&t->e);
        assert_err(st, faults[i].st, t, faults[i].error);
        for (int k = 0; k < s.n_requests; k++) {
            assert_true(s.requests[k].status == RUN_ERROR || s.requests[k].status == RUN_OK);
            if (s.requests[k].status == RUN_ERROR)
                assert_int_equal(strncmp(s.message[k], "worker: ", 8), 0);
        }
    }
}

/* Times that cannot be: how far off they are is the machine's affair. */
static void impossible_times_are_told(void **state)
{
    struct test *t = *state;
    struct seen s;
    struct worker_counters n;
    assert_int_equal(run(t, &(struct setup){.args = {"past=1"}}, &s, &n, NULL), ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 0), " ns before the submit of request 0"));
    assert_int_equal(run(t, &(struct setup){.args = {"future=1"}}, &s, &n, NULL), ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 0), " ns after the line was read"));
    assert_int_equal(run(t, &(struct setup){.args = {"bad_clock"}}, &s, &n, NULL), ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 0), "the worker's clock times contradict each other"));
}

static void what_was_measured_before_a_crash_is_handed_over(void **state)
{
    struct test *t = *state;
    struct seen s;
    struct worker_counters n;
    struct setup u = {.args = {"crash=4", "gap=2000"}};
    assert_int_equal(run(t, &u, &s, &n, NULL), ST_DEVICE);
    assert_true(s.n_requests >= 4);
    for (int i = 0; i < 3; i++)
        assert_int_equal(s.requests[i].status, RUN_OK);
    assert_int_equal(s.requests[3].status, RUN_ERROR);
    assert_int_equal(s.requests[3].num_decode_tokens_actual, 1);
    assert_int_equal(s.n_tokens, 3 * DECODE + 1);
}

static void an_interrupted_run_has_a_row_for_each(void **state)
{
    struct test *t = *state;
    struct seen s;
    struct worker_counters n;
    struct setup u = {.args = {"hang=3"}, .stop_at = 2};
    u.silence_s = 60;
    u.request_s = 0;
    assert_err(run(t, &u, &s, &n, NULL), ST_INTERRUPTED, t, "interrupted by a signal");
    assert_int_equal(s.n_requests, N);
    assert_int_equal(s.requests[N - 1].status, RUN_CANCELLED);
}

/* ---- passes on request ---- */

static enum st open_passes(struct test *t, const char *args[3], double silence_s, struct worker **w)
{
    const char *command[] = {fake_worker(t), args[0], args[1], args[2]};
    struct worker_params p = {.command = {command, args[1] ? args[2] ? 4 : 3 : 2},
                              .greeting = {.model_name = "m", .device = "cpu"},
                              .start_timeout_s = LONG_S,
                              .load_timeout_s = LONG_S,
                              .silence_timeout_s = silence_s,
                              .stop_timeout_s = silence_s,
                              .clock_rounds = 1,
                              .only_passes = true};
    return worker_open(&p, w, &t->e);
}

static const struct worker_pass three = {
    .decode_sequences = 2, .cached_tokens = 50, .chunk_tokens = 7, .warmup = 1, .repeats = 3};

static void passes_are_carried_out(void **state)
{
    struct test *t = *state;
    struct worker *w;
    struct worker_times times;
    const char *why = NULL;
    assert_ok(
        open_passes(t, (const char *[3]){"passes", "takes=text", "passes_most=4"}, LONG_S, &w), t);
    assert_int_equal(worker_facts(w)->passes, WORKER_PASS_DECODE | WORKER_PASS_PROMPT |
                                                  WORKER_PASS_CHUNK | WORKER_PASS_MIXED);
    for (int i = 0; i < 2; i++) {
        assert_ok(worker_passes(w, t->a, three, &times, &why, &t->e), t);
        assert_int_equal(times.n, 3);
        for (int k = 0; k < 3; k++) {
            const int64_t ns = 100000 + 9000 + 100;
            assert_int_equal(times.total_ns[k], ns + k * ns / 100);
            assert_int_equal(times.device_ns[k], ns / 2 + k * (ns / 2) / 100);
        }
    }
    struct worker_pass more = three;
    more.decode_sequences = 5;
    assert_int_equal(worker_passes(w, t->a, more, &times, &why, &t->e), ST_END);
    assert_string_equal(why, "no room for 5");
    assert_ok(worker_passes(w, t->a, three, &times, &why, &t->e), t); /* it goes on */
    worker_close(&w);
}

/* Passes, then runs; the last batch of each comes when its clocks have been compared. */
static void several_runs_follow_passes(void **state)
{
    struct test *t = *state;
    struct worker *w;
    struct worker_times times;
    const char *why = NULL;
    int32_t ids[PREFILL] = {1, 2, 3}, *all_ids[2] = {ids, ids};
    assert_ok(open_passes(t, (const char *[3]){"passes", "batches", "trails"}, LONG_S, &w), t);
    assert_ok(worker_passes(w, t->a, three, &times, &why, &t->e), t);
    for (int64_t k = 0; k < 3; k++) {
        struct seen seen = {0};
        struct worker_counters n;
        struct workload_request q[2];
        for (int i = 0; i < 2; i++)
            q[i] = (struct workload_request){.request_id = 2 * k + i,
                                             .num_prefill_tokens = PREFILL,
                                             .num_decode_tokens = DECODE};
        const struct worker_work work = {.requests = q,
                                         .n = 2,
                                         .concurrency = concurrency_of(t->a, 1, 0),
                                         .ids = all_ids,
                                         .more_follows = true};
        const struct serve_sink sink = {
            .self = &seen, .request = see_request, .token = see_token, .batch = see_batch};
        assert_ok(worker_run(w, &work, &sink, &n, &t->e), t);
        assert_int_equal(seen.n_requests, 2);
        assert_int_equal(seen.requests[1].request_id, 2 * k + 1);
        assert_int_equal(seen.requests[1].status, RUN_OK);
        assert_int_equal(seen.n_batches, 2 * DECODE);
        assert_int_equal(n.requests, 2);
        assert_int_equal(n.batches, 2 * DECODE);
    }
    worker_close(&w);
}

static void a_device_that_is_not_told_apart_is_unknown(void **state)
{
    struct test *t = *state;
    struct worker *w;
    struct worker_times times;
    const char *why;
    assert_ok(open_passes(t, (const char *[3]){"passes_decode", "passes_device=0"}, LONG_S, &w), t);
    assert_int_equal(worker_facts(w)->passes, WORKER_PASS_DECODE);
    assert_ok(worker_passes(w, t->a, three, &times, &why, &t->e), t);
    assert_null(times.device_ns);
    worker_close(&w);
}

static void every_fault_of_a_pass_is_told(void **state)
{
    static const struct {
        const char *fault;
        enum st st;
        const char *error;
    } rows[] = {
        {"pass_crash=2", ST_DEVICE, "the worker exited with status 3 while passes were measured"},
        {"pass_hang=1", ST_DEVICE,
         "the worker said nothing for 0.2 s while passes were measured\n"
         "hint: worker.silence_timeout_s sets the limit"},
        {"pass_give_up=2", ST_DEVICE,
         "the worker gave up while passes were measured: CUDA out of memory"},
        {"pass_garbage=2", ST_INPUT, "worker:5:1: total_ns: missing"},
        {"pass_token=2", ST_INPUT, "worker:5: tokens: not expected while passes were measured"},
        {"pass_other=2", ST_INPUT, "worker:5: passed: another pass than was asked for"},
        {"pass_fewer=2", ST_INPUT,
         "worker:5: passed: total_ns: another number of passes than was asked for"},
        {"pass_long=2", ST_INPUT, "worker:5: passed: total_ns: more time than went by"},
        {"pass_device=2", ST_INPUT, "worker:5:80: device_ns: is above total_ns"},
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct worker *w;
        struct worker_times times;
        const char *why, *args[3] = {"passes", rows[i].fault};
        const bool hangs = strstr(rows[i].fault, "hang");
        assert_ok(open_passes(t, args, hangs ? 0.2 : LONG_S, &w), t);
        if (!hangs) /* which is not in time on every machine */
            assert_ok(worker_passes(w, t->a, three, &times, &why, &t->e), t);
        assert_err(worker_passes(w, t->a, three, &times, &why, &t->e), rows[i].st, t,
                   rows[i].error);
        err_clear(&t->e);
        worker_close(&w);
    }
}

static void unknown_kinds_of_passes_are_refused(void **state)
{
    struct test *t = *state;
    struct worker *w;
    enum st st = open_passes(t, (const char *[3]){"passes_wrong"}, LONG_S, &w);
    assert_int_equal(st, ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 0), "passes: expected decode, prompt, chunk or mixed"));
}

/* ---- before anything runs ---- */

static enum st open_it(struct test *t, const char *program, const char *arg, double start_s,
                       double load_s)
{
    const char *command[] = {program, arg};
    struct worker_params p = {.command = {command, program ? 2 : 0},
                              .start_timeout_s = start_s,
                              .load_timeout_s = load_s,
                              .clock_rounds = 1};
    struct worker *w;
    enum st st = worker_open(&p, &w, &t->e);
    assert_null(w);
    return st;
}

static void a_worker_that_does_not_start_is_told(void **state)
{
    struct test *t = *state;
    assert_err(open_it(t, NULL, NULL, LONG_S, LONG_S), ST_USAGE, t,
               "worker.command is not set\nhint: worker.command=[program,argument,...]");
    assert_err(open_it(t, "/nonexistent/worker", "", LONG_S, LONG_S), ST_DEVICE, t,
               "worker.command\ncannot start /nonexistent/worker: No such file or directory");
    assert_err(open_it(t, fake_worker(t), "no_hello", 0.2, LONG_S), ST_DEVICE, t,
               "the worker said no hello within 0.2 s");
    assert_err(open_it(t, fake_worker(t), "no_ready", LONG_S, 0.2), ST_DEVICE, t,
               "the worker was not ready within 0.2 s");
    assert_err(open_it(t, "false", "x", LONG_S, LONG_S), ST_DEVICE, t,
               "the worker exited with status 1 before it said hello");
    assert_err(open_it(t, "echo", "hello", LONG_S, LONG_S), ST_INPUT, t,
               "worker:1:1: expected a value, got 'hello'");
}

/* ---- closed loop, sessions ---- */

static const struct run_request *row_of(const struct seen *s, int64_t id)
{
    for (int i = 0; i < s->n_requests; i++)
        if (s->requests[i].request_id == id)
            return &s->requests[i];
    return NULL;
}

static void a_closed_loop_submits_one_when_one_ends(void **state)
{
    struct test *t = *state;
    struct worker_counters n;
    struct seen s;
    const struct setup u = {.concurrency = concurrency_of(t->a, 1, 0)};
    assert_ok(run(t, &u, &s, &n, NULL), t);
    assert_int_equal(s.n_requests, N);
    for (int i = 0; i < N; i++) {
        assert_int_equal(s.requests[i].request_id, i);
        assert_int_equal(s.requests[i].status, RUN_OK);
        if (i)
            assert_true(s.requests[i].arrival_ns >= s.requests[i - 1].completion_ns);
    }
    assert_int_equal(s.requests[0].arrival_ns, 0);
    assert_int_equal(n.concurrency_peak, 1);
    assert_true(n.follows);
}

static void a_turn_is_submitted_after_its_think_time(void **state)
{
    struct test *t = *state;
    struct worker_counters n;
    struct seen s;
    const struct setup u = {.turns = 3};
    assert_ok(run(t, &u, &s, &n, NULL), t);
    assert_int_equal(n.sessions, 2);
    for (int64_t i = 0; i < N; i++) {
        const struct run_request *r = row_of(&s, i);
        assert_non_null(r);
        assert_int_equal(r->turn, i % 3 + 1);
        assert_int_equal(r->session_id, i / 3);
        if (i % 3)
            assert_true(r->arrival_ns >= row_of(&s, i - 1)->completion_ns + NS_PER_MS);
        else
            assert_int_equal(r->arrival_ns, 0);
    }
}

/* The worker's tokens weigh its prompt: in a later turn the answers before stand in it, where their
 * ids are known, and the workload's tokens where they are not. */
static void a_prompt_holds_the_answers_that_came(void **state)
{
    struct test *t = *state;
    for (int known = 0; known < 2; known++) {
        struct worker_counters n;
        struct seen s;
        const struct setup u = {.args = {"weigh", known ? NULL : "ids=0"}, .turns = 3};
        int32_t prompt[LONGEST] = {1, 2, 3};
        assert_ok(run(t, &u, &s, &n, NULL), t);
        for (int i = PREFILL; i < LONGEST; i++)
            prompt[i] = 500 + i;
        for (int turn = 0, at = PREFILL; turn < 3; turn++, at += DECODE + 2) {
            int64_t weight = 0;
            for (int i = 0; i < at; i++)
                weight += (i + 1) * prompt[i];
            for (int k = 0; k < DECODE; k++) {
                int64_t want = known ? weight % 1000 + k : RUN_NONE;
                bool found = false;
                for (int i = 0; i < s.n_tokens; i++)
                    if (s.tokens[i].request_id == turn && s.tokens[i].token_index == k)
                        found = s.tokens[i].token_id == want;
                assert_true(found);
                prompt[at + k] = known ? (int32_t)want : prompt[at + k];
            }
        }
    }
}

/* Requests that are refused or fail have ended. */
static void what_fails_is_followed(void **state)
{
    struct test *t = *state;
    struct worker_counters n;
    struct seen s;
    const struct setup u = {.args = {"max_model_len=5"}, .concurrency = concurrency_of(t->a, 1, 0)};
    assert_ok(run(t, &u, &s, &n, NULL), t);
    assert_int_equal(s.n_requests, N);
    for (int i = 0; i < N; i++)
        assert_int_equal(s.requests[i].status, RUN_REJECTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_clock_ahead_is_moved_to_ours),
        TEST(a_clock_behind_is_moved_to_ours),
        TEST(the_same_clock_needs_no_moving),
        TEST(tokens_without_ids_have_none),
        TEST(a_failed_request_is_one_row),
        TEST(a_request_that_is_not_answered_ends_at_its_limit),
        TEST(too_long_requests_are_not_sent),
        TEST(a_closed_loop_submits_one_when_one_ends),
        TEST(a_turn_is_submitted_after_its_think_time),
        TEST(a_prompt_holds_the_answers_that_came),
        TEST(what_fails_is_followed),
        TEST(every_fault_is_told),
        TEST(impossible_times_are_told),
        TEST(what_was_measured_before_a_crash_is_handed_over),
        TEST(an_interrupted_run_has_a_row_for_each),
        TEST(passes_are_carried_out),
        TEST(several_runs_follow_passes),
        TEST(a_device_that_is_not_told_apart_is_unknown),
        TEST(every_fault_of_a_pass_is_told),
        TEST(unknown_kinds_of_passes_are_refused),
        TEST(a_worker_that_does_not_start_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
