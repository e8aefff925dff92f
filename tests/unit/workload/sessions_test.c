#include <math.h>

#include "support/support.h"
#include "workload/make.h"
#include "workload/stream.h"

static struct workload_params of(int64_t turns, int64_t max_turns)
{
    return (struct workload_params){.seed = 3,
                                    .num_requests = 300,
                                    .arrival_kind = ARRIVAL_POISSON,
                                    .rate = 2,
                                    .lengths_kind = LENGTHS_UNIFORM,
                                    .min_tokens = 20,
                                    .max_tokens = 200,
                                    .prefill_decode_ratio = 3,
                                    .session_turns = turns,
                                    .session_max_turns = max_turns,
                                    .think_s = 4};
}

static int64_t pieces(const struct workload_request *q)
{
    return hash_ids_pieces(q, q->hash_tokens);
}

/* The prompt of a turn is that of the turn before, its answer, and the length drawn for it. */
static void a_prompt_holds_the_turns_before(void **state)
{
    struct test *t = *state;
    struct workload w, alone;
    struct workload_params p = of(2, 5), without = of(0, 0);
    assert_ok(workload_make(t->a, &p, &w, &t->e), t);
    assert_ok(workload_make(t->a, &without, &alone, &t->e), t);
    assert_true(workload_has_sessions(&w) && workload_has_hash_ids(&w));
    assert_false(workload_has_sessions(&alone));
    int64_t sessions = 0, of_turns[6] = {0};
    for (size_t i = 0; i < w.n; i++) {
        const struct workload_request *q = &w.requests[i], *before = q - 1;
        assert_int_equal(q->request_id, i);
        int64_t added = q->num_prefill_tokens;
        if (q->turn == 1) {
            sessions++;
            assert_int_equal(q->think_ns, 0);
            assert_true(i == 0 || q->arrival_ns > before->arrival_ns);
        } else {
            assert_int_equal(q->turn, before->turn + 1);
            assert_int_equal(q->arrival_ns, before->arrival_ns);
            assert_int_equal(q->think_ns, 4000000000);
            added -= before->num_prefill_tokens + before->num_decode_tokens;
            /* what stood in the prompt before stands there still */
            assert_memory_equal(q->hash_ids, before->hash_ids,
                                (size_t)pieces(before) * sizeof *q->hash_ids);
        }
        assert_int_equal(q->session_id, sessions - 1);
        assert_int_equal(added, alone.requests[i].num_prefill_tokens);
        assert_int_equal(q->num_decode_tokens, alone.requests[i].num_decode_tokens);
        bool last = i + 1 == w.n || q[1].turn == 1;
        of_turns[q->turn] += last;
        assert_int_equal(q->hash_covers, last ? 0 : q[1].num_prefill_tokens);
    }
    for (int64_t n = 2; n <= 5; n++)
        assert_true(of_turns[n] > 10);
    /* sessions do not share what they hold */
    for (size_t i = 0; i < w.n; i++)
        for (size_t k = 0; k < i; k++)
            if (w.requests[i].session_id != w.requests[k].session_id)
                assert_true(w.requests[i].hash_ids[0] != w.requests[k].hash_ids[0]);
}

static void a_prefix_is_that_of_a_group(void **state)
{
    struct test *t = *state;
    struct workload w;
    struct workload_params p = of(3, 0);
    p.prefix_tokens = 64;
    p.prefix_groups = 2;
    assert_ok(workload_make(t->a, &p, &w, &t->e), t);
    int64_t of_group[2] = {0};
    for (size_t i = 0; i < w.n; i++) {
        const struct workload_request *q = &w.requests[i];
        assert_int_equal(q->hash_tokens, 64);
        assert_in_range(q->hash_ids[0], 0, 1);
        assert_int_equal(q->hash_ids[0], w.requests[i - i % 3].hash_ids[0]);
        of_group[q->hash_ids[0]]++;
        if (pieces(q) > 1)
            assert_true(q->hash_ids[1] >= 2);
    }
    assert_true(of_group[0] > 90 && of_group[1] > 90);
}

static void think_times_have_their_mean(void **state)
{
    struct test *t = *state;
    static const int kinds[] = {THINK_EXPONENTIAL, THINK_LOGNORMAL};
    static const double deviation[] = {4, 2};
    for (int k = 0; k < 2; k++) {
        struct workload w;
        struct workload_params p = of(101, 0);
        p.num_requests = 10100;
        p.lengths_kind = LENGTHS_FIXED;
        p.prefill_tokens = p.decode_tokens = 1;
        p.think_kind = kinds[k];
        p.think_stddev_s = 2;
        double sum = 0, squares = 0, n = 10000;
        assert_ok(workload_make(t->a, &p, &w, &t->e), t);
        for (size_t i = 0; i < w.n; i++) {
            sum += (double)w.requests[i].think_ns / 1e9;
            squares += pow((double)w.requests[i].think_ns / 1e9, 2);
        }
        double sd = sqrt(squares / n - pow(sum / n, 2));
        assert_near(sum / n, 4, 4 * deviation[k] / sqrt(n));
        assert_near(sd / deviation[k], 1, 0.1);
    }
}

static void a_time_counts_their_turns(void **state)
{
    struct test *t = *state;
    struct workload w;
    struct workload_params p = of(2, 4);
    p.num_requests = 0;
    p.duration_s = 60;
    assert_ok(workload_make(t->a, &p, &w, &t->e), t);
    const struct workload_request *last = &w.requests[w.n - 1];
    assert_true(last->arrival_s < 60 && last->turn >= 2);
    p.duration_s = 0;
    p.num_requests = (int64_t)w.n + 1;
    struct workload more;
    assert_ok(workload_make(t->a, &p, &more, &t->e), t);
    assert_true(more.requests[w.n].turn == 1 && more.requests[w.n].arrival_s >= 60);
}

static void what_does_not_go_together_is_refused(void **state)
{
    struct test *t = *state;
    struct workload w;
    struct workload_params p = of(4, 3);
    assert_err(workload_make(t->a, &p, &w, &t->e), ST_USAGE, t,
               "workload.session.max_turns=3 is below turns=4");
    err_clear(&t->e);
    p = of(2, 0);
    p.think_s = 0;
    p.think_kind = THINK_EXPONENTIAL;
    assert_err(workload_make(t->a, &p, &w, &t->e), ST_USAGE, t,
               "workload.session.think_kind needs workload.session.think_s");
    err_clear(&t->e);
    p = of(10000, 0);
    p.num_requests = 10000;
    p.lengths_kind = LENGTHS_FIXED;
    p.prefill_tokens = p.decode_tokens = 200000;
    assert_err(workload_make(t->a, &p, &w, &t->e), ST_USAGE, t,
               "workload.session.turns: turn 5369 has 2147600000 tokens\nhint: at most 2147483647, "
               "all earlier turns included");
}

/* ---- files --------------------------------------------------------------------------------- */

static const char *write_workload(struct test *t, const struct concurrency *c)
{
    const struct workload_request requests[] = {
        {.request_id = 0, .num_prefill_tokens = 4, .num_decode_tokens = 1},
        {.request_id = 1,
         .num_prefill_tokens = 4,
         .num_decode_tokens = 2,
         .session_id = 9,
         .turn = 1},
        {.request_id = 2,
         .num_prefill_tokens = 8,
         .num_decode_tokens = 2,
         .session_id = 9,
         .turn = 2,
         .think_ns = 1500000000},
        {.request_id = 3,
         .num_prefill_tokens = 4,
         .num_decode_tokens = 2,
         .arrival_ns = 5,
         .session_id = 4,
         .turn = 1},
    };
    struct workload w = {.n = 4};
    w.requests = arena_copy(t->a, requests, sizeof requests);
    struct artifact art;
    const char *dir = test_path(t, c ? "closed" : "w");
    assert_ok(artifact_begin(t->a, dir, WORKLOAD_META, &art, &t->e), t);
    assert_ok(workload_write(&art, &w, NULL, 0, NULL, &t->e), t);
    const struct workload_meta meta = {.workload_id = "w", .sessions = true, .concurrency = c};
    assert_ok(artifact_commit(&art, workload_meta_node(t->a, &meta), &t->e), t);
    return dir;
}

static void a_workload_keeps_them(void **state)
{
    struct test *t = *state;
    struct workload w;
    const char *dir = write_workload(t, NULL);
    assert_string_equal(
        test_read(t, test_path(t, "w/sessions.csv")),
        "request_id,session_id,turn,think_ns\n1,9,1,0\n2,9,2,1500000000\n3,4,1,0\n");
    assert_ok(workload_load(t->a, dir, &w, &t->e), t);
    assert_null(w.concurrency);
    assert_int_equal(w.requests[0].turn, 0);
    assert_int_equal(w.requests[2].turn, 2);
    assert_int_equal(w.requests[2].session_id, 9);
    assert_int_equal(w.requests[2].think_ns, 1500000000);
    struct workload_stream *s;
    struct workload_request q;
    assert_ok(workload_stream_dir(write_workload(t, concurrency_of(t->a, 3, 0)), &s, &t->e), t);
    assert_true(workload_stream_has_sessions(s));
    assert_string_equal(concurrency_text(t->a, workload_stream_concurrency(s)), "3");
    for (int i = 0; i < 3; i++)
        assert_ok(workload_stream_next(s, &q, &t->e), t);
    assert_int_equal(q.turn, 2);
    workload_stream_close(&s);
}

/* hash_ids go on through an answer where the next prompt says that it holds it. */
static void answers_are_known_by_the_next_prompt(void **state)
{
    struct test *t = *state;
    static const int64_t one[] = {1, 2, 3}, other[] = {1, 9, 3};
    struct workload_request q[] = {
        {.num_prefill_tokens = 9, .num_decode_tokens = 2, .turn = 1, .hash_tokens = 8},
        {.num_prefill_tokens = 20, .num_decode_tokens = 2, .turn = 2, .hash_tokens = 8},
        {.num_prefill_tokens = 30, .num_decode_tokens = 2, .turn = 1, .hash_tokens = 8}};
    struct workload w = {.requests = q, .n = 3};
    (void)t;
    q[0].hash_ids = q[1].hash_ids = q[2].hash_ids = one;
    sessions_join(&w);
    assert_int_equal(q[0].hash_covers, 20);
    assert_int_equal(q[1].hash_covers, 0); /* another session */
    q[0].hash_covers = 0;
    q[1].num_prefill_tokens = 10; /* too short for the answer */
    sessions_join(&w);
    assert_int_equal(q[0].hash_covers, 0);
    q[1].num_prefill_tokens = 20;
    q[1].hash_ids = other;
    sessions_join(&w);
    assert_int_equal(q[0].hash_covers, 0);
}

/* Programs that know schema 1 only must not send everything at its arrival. */
static void older_programs_refuse_them(void **state)
{
    struct test *t = *state;
    write_workload(t, NULL);
    assert_non_null(
        strstr(test_read(t, test_path(t, "w/workload_meta.json")), "\"schema_version\": 2"));
}

static const struct bad {
    const char *text, *error;
} bads[] = {
    {"request_id,session_id,turn\n",
     "DIR/w/sessions.csv:1: no column 'think_ns' among: request_id, session_id, turn"},
    {"request_id,session_id,turn,think_ns\n7,1,1,0\n",
     "DIR/w/sessions.csv:2:1: request_id: 7 is not in the workload, or does not stand in its "
     "order"},
    {"request_id,session_id,turn,think_ns\n1,1,1,0\n0,2,1,0\n",
     "DIR/w/sessions.csv:3:1: request_id: 0 is not in the workload, or does not stand in its "
     "order"},
    {"request_id,session_id,turn,think_ns\n1,1,1,0\n3,1,2,0\n",
     "DIR/w/sessions.csv:3:3: turn: turn 2 of session 1 does not stand right behind the turn "
     "before "
     "it"},
    {"request_id,session_id,turn,think_ns\n1,1,0,0\n",
     "DIR/w/sessions.csv:2:3: turn: 0 is below the minimum 1"},
    {"request_id,session_id,turn,think_ns\n1,1,1,0\n2,1,2,-1\n",
     "DIR/w/sessions.csv:3:4: think_ns: -1 is below the minimum 0"},
    {"request_id,session_id,turn,think_ns\n1,1,1,0\n2,1,1,0\n",
     "DIR/w/sessions.csv:3: session_id: 1 begins in line 2 already"},
};

static void every_fault_is_named(void **state)
{
    struct test *t = *state;
    const char *dir = write_workload(t, NULL);
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        struct workload w;
        test_write(t, "w/sessions.csv", bads[i].text);
        err_clear(&t->e);
        enum st st = workload_load(t->a, dir, &w, &t->e);
        assert_int_equal(st, ST_INPUT);
        const char *want = arena_printf(t->a, "%s%s", test_dir(t), bads[i].error + 3);
        if (strncmp(err_cause(&t->e, 0), want, strlen(want)) != 0)
            fail_msg("'%s' instead of '%s'", err_cause(&t->e, 0), want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_prompt_holds_the_turns_before),
        TEST(a_prefix_is_that_of_a_group),
        TEST(think_times_have_their_mean),
        TEST(a_time_counts_their_turns),
        TEST(what_does_not_go_together_is_refused),
        TEST(a_workload_keeps_them),
        TEST(answers_are_known_by_the_next_prompt),
        TEST(older_programs_refuse_them),
        TEST(every_fault_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
