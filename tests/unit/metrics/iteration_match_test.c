/* Iterations of small logs made by hand, and of two real ones, matched to the requests of a run. */
#include <stdio.h>

#include "metrics/iteration_match.h"
#include "support/support.h"

#define MS INT64_C(1000000)

/* A log of up to 32 iterations in memory. */
struct log_of {
    struct iteration_log log;
    struct logged_iteration of[32];
};

static void add(struct log_of *l, int64_t context, int64_t tokens, int64_t generate, int64_t more)
{
    const size_t i = l->log.n++;
    l->log.path = "server.log";
    l->log.engines = 1;
    l->log.of = l->of;
    l->of[i] = (struct logged_iteration){.index = 10 + (int64_t)i,
                                         .line = 1 + (long)i,
                                         .context_requests = context,
                                         .context_tokens = tokens,
                                         .generation_requests = generate,
                                         .generation_tokens = generate + more,
                                         .follows = i > 0};
}

/* Requests that ask for as many tokens as they get; first tokens a second apart. */
static struct run run_of(struct test *t, size_t n, const int64_t (*of)[2])
{
    struct run r = {.dir = "run", .n_requests = n};
    r.requests = arena_array(t->a, struct run_request, n);
    for (size_t i = 0; i < n; i++)
        r.requests[i] = (struct run_request){.request_id = (int64_t)i,
                                             .arrival_ns = (int64_t)i * MS,
                                             .first_token_ns = ((int64_t)i + 1) * 1000 * MS,
                                             .num_prefill_tokens = of[i][0],
                                             .num_decode_tokens = of[i][1],
                                             .num_decode_tokens_actual = of[i][1]};
    return r;
}

static struct iteration_match match(struct test *t, const struct run *r, const struct log_of *l)
{
    struct iteration_match m;
    assert_ok(iteration_match(t->a, r, &l->log, NULL, &m, &t->e), t);
    return m;
}

/* Two prompts in one iteration, one alone; before them the request of a client that checks whether
 * the server is up, behind them that of another run. */
static void prompts_are_followed_in_their_order(void **state)
{
    struct test *t = *state;
    const struct run r = run_of(t, 3, (const int64_t[][2]){{30, 3}, {50, 2}, {7, 1}});
    struct log_of l = {.log.n = 0};
    add(&l, 1, 4, 0, 0);
    add(&l, 0, 0, 1, 0);
    add(&l, 2, 80, 0, 0);
    add(&l, 0, 0, 2, 0);
    add(&l, 1, 7, 1, 0);
    add(&l, 1, 99, 0, 0);
    const struct iteration_match m = match(t, &r, &l);
    assert_int_equal(m.n, 3);
    assert_int_equal(m.n_known, 3);
    assert_int_equal(m.n_found, 3);
    assert_null(m.first_unknown);
    assert_true(m.of[0].idle_before && !m.of[1].idle_before && !m.of[2].idle_before);
    assert_int_equal(m.of[0].is.chunks, 2);
    assert_int_equal(m.of[0].is.load.tokens, 80);
    assert_int_equal(m.of[0].is.load.rows, 2);
    assert_int_equal(m.of[0].is.load.chunk_sq, 30 * 31 / 2 + 50 * 51 / 2);
    assert_int_equal(m.of[1].is.load.seqs, 2);
    assert_int_equal(m.of[1].is.load.kv_tokens, 31 + 51);
    assert_int_equal(m.of[1].is.longest, 51);
    assert_int_equal(m.of[2].is.load.kv_tokens, 32);
    assert_int_equal(m.of[2].is.load.tokens, 8);
    static const int64_t first[] = {0, 0, 2}, last[] = {2, 1, 2};
    assert_memory_equal(m.first, first, sizeof first);
    assert_memory_equal(m.last, last, sizeof last);
    assert_int_equal(m.chunks[m.of[2].chunk].request, 2);
}

/* The budget of 60 tokens ends inside the second prompt. */
static void long_prompts_go_on_in_chunks(void **state)
{
    struct test *t = *state;
    const struct run r = run_of(t, 2, (const int64_t[][2]){{40, 2}, {70, 2}});
    struct log_of l = {.log.n = 0};
    add(&l, 2, 60, 0, 0);
    add(&l, 1, 50, 1, 0);
    add(&l, 0, 0, 1, 0);
    const struct iteration_match m = match(t, &r, &l);
    assert_int_equal(m.n_known, 3);
    assert_int_equal(m.n_chunks, 3);
    assert_int_equal(m.chunks[1].tokens, 20);
    assert_false(m.chunks[1].last);
    assert_int_equal(m.chunks[2].start, 20);
    assert_int_equal(m.chunks[2].tokens, 50);
    assert_true(m.chunks[2].last);
    assert_int_equal(m.first[1], 1);
    assert_int_equal(m.of[1].is.load.kv_tokens_prefill, 50 * 20);
}

/* The second prompt has 32 tokens in the cache; of the two behind it, 16 are in the cache of one,
 * and it is not known of which. */
static void prefix_hits_are_seen(void **state)
{
    struct test *t = *state;
    const struct run r = run_of(t, 4, (const int64_t[][2]){{40, 5}, {40, 4}, {33, 2}, {37, 2}});
    struct log_of l = {.log.n = 0};
    add(&l, 1, 40, 0, 0);
    add(&l, 1, 8, 1, 0);
    add(&l, 2, 54, 2, 0);
    add(&l, 0, 0, 4, 0);
    add(&l, 0, 0, 2, 0);
    const struct iteration_match m = match(t, &r, &l);
    assert_int_equal(m.n, 5);
    assert_int_equal(m.n_known, 4);
    assert_int_equal(m.hit_tokens, 48);
    assert_int_equal(m.chunks[1].start, 32);
    assert_int_equal(m.chunks[1].tokens, 8);
    assert_false(m.of[2].known);
    assert_string_equal(m.first_unknown,
                        "server.log:3: 16 tokens of 2 prompts came from the prefix "
                        "cache, and it is not known of which");
    assert_int_equal(m.n_found, 4);
}

/* The request admitted last is preempted with two tokens and computed again. */
static void preemptions_are_followed(void **state)
{
    struct test *t = *state;
    const struct run r = run_of(t, 2, (const int64_t[][2]){{10, 6}, {20, 4}});
    struct log_of l = {.log.n = 0};
    add(&l, 2, 30, 0, 0);
    add(&l, 0, 0, 2, 0);
    add(&l, 0, 0, 1, 0);  /* without the second */
    add(&l, 0, 0, 2, 21); /* 22 tokens of it, one of the first */
    add(&l, 0, 0, 2, 0);
    add(&l, 0, 0, 1, 0);
    struct iteration_match m = match(t, &r, &l);
    assert_int_equal(m.n_known, 6);
    assert_int_equal(m.preemptions, 1);
    assert_int_equal(m.of[3].is.load.seqs, 1);
    assert_int_equal(m.of[3].is.load.tokens, 23);
    assert_int_equal(m.of[3].is.chunks, 1);
    assert_int_equal(m.last[1], 4);
    assert_int_equal(m.last[0], 5);

    l.of[3].generation_tokens--; /* as many as nobody has */
    m = match(t, &r, &l);
    assert_false(m.of[3].known);
    assert_string_equal(
        m.first_unknown,
        "server.log:4: 2 generation requests with 22 tokens; of the run 1 generate");
}

/* A request of someone else, 5 tokens and an answer of 2, does not lose those behind it. */
static void others_in_the_server_are_told(void **state)
{
    struct test *t = *state;
    const struct run r = run_of(t, 3, (const int64_t[][2]){{30, 4}, {50, 2}, {70, 3}});
    struct log_of l = {.log.n = 0};
    add(&l, 1, 30, 0, 0);
    add(&l, 1, 5, 1, 0);
    add(&l, 1, 50, 2, 0);
    add(&l, 1, 70, 2, 0);
    add(&l, 0, 0, 1, 0);
    add(&l, 0, 0, 1, 0);
    const struct iteration_match m = match(t, &r, &l);
    assert_int_equal(m.n, 6);
    assert_int_equal(m.n_known, 4);
    assert_false(m.of[1].known || m.of[2].known);
    assert_int_equal(m.n_found, 3);
    assert_string_equal(m.first_unknown, "server.log:2: 1 context requests with 5 tokens; the next "
                                         "prompts of the run have 50");
    assert_string_equal(iteration_match_words(t->a, &m),
                        "4 of 6 iterations are known, the first that is not: server.log:2: 1 "
                        "context requests with 5 tokens; the next prompts of the run have 50");
}

/* It asked for 9 tokens and ended with 2: the iteration behind was launched before that was seen.
 */
static void an_early_end_may_have_one_iteration_more(void **state)
{
    struct test *t = *state;
    struct run r = run_of(t, 2, (const int64_t[][2]){{10, 4}, {20, 2}});
    struct log_of l = {.log.n = 0};
    r.requests[1].num_decode_tokens = 9;
    add(&l, 2, 30, 0, 0);
    add(&l, 0, 0, 2, 0);
    add(&l, 0, 0, 2, 0);
    add(&l, 0, 0, 1, 0);
    const struct iteration_match m = match(t, &r, &l);
    assert_int_equal(m.n, 4);
    assert_int_equal(m.n_known, 4);
    assert_int_equal(m.of[2].is.load.seqs, 2);
    assert_int_equal(m.last[1], 1);
}

static void refused(struct test *t, const struct run *r, const struct log_of *l, const char *cause)
{
    struct iteration_match m;
    err_clear(&t->e);
    assert_int_equal(iteration_match(t->a, r, &l->log, NULL, &m, &t->e), ST_INPUT);
    assert_cause(&t->e, cause);
}

static void foreign_logs_are_refused(void **state)
{
    struct test *t = *state;
    const struct run r = run_of(t, 2, (const int64_t[][2]){{30, 3}, {50, 3}});
    struct log_of l = {.log.n = 0};
    add(&l, 1, 31, 0, 0);
    add(&l, 0, 0, 1, 0);
    refused(t, &r, &l,
            "server.log does not belong to the run run: no iteration begins with its first prompt, "
            "of 30 tokens");

    l.log.n = 0;
    add(&l, 1, 30, 0, 0);
    for (int i = 0; i < 6; i++)
        add(&l, 0, 0, 7, 0);
    add(&l, 1, 51, 0, 0);
    refused(t, &r, &l,
            "server.log does not belong to the run run: 1 of 8 iterations agree with its requests; "
            "server.log:2: 7 generation requests with 7 tokens; of the run 1 generate");

    l.log.n = 0;
    for (int i = 0; i < 2; i++) {
        add(&l, 2, 80, 0, 0);
        add(&l, 0, 0, 2, 0);
        add(&l, 0, 0, 2, 0);
    }
    refused(t, &r, &l,
            "server.log: the run run may begin at line 1 or at line 4: its requests were served "
            "several times");

    l.log.n = 3;
    l.of[2].follows = false;
    l.of[2].index = 40;
    refused(t, &r, &l,
            "server.log:3: iteration 40 does not follow 11 inside of the run run: lines are "
            "missing, or the server was started anew");

    l.log.engines = 2;
    refused(t, &r, &l,
            "server.log is of 2 engines (data parallelism), and which served a request of run is "
            "not known");

    l.log.n = 0;
    add(&l, 2, 80, 0, 0);
    add(&l, 0, 0, 2, 4);
    refused(t, &r, &l,
            "server.log: 1 of 1 iterations have several tokens a generation request: the server "
            "decodes speculatively");
}

/* vLLM 0.24.0 on an H100, one run of each model: every iteration agrees. */
static void real_logs_match_in_every_iteration(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *run;
        size_t n;
    } cases[] = {{"vllm_024/it_Llama-3.1-8B_a12", 3432}, {"vllm_024/it_Qwen3-30B-A3B_a12", 993}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *dir = test_data(t, cases[i].run);
        struct run r;
        struct iteration_log log;
        struct iteration_match m;
        assert_ok(run_load(t->a, dir, "real", &r, &t->e), t);
        assert_ok(iteration_log_read(t->a, iteration_log_beside(t->a, dir), &log, &t->e), t);
        assert_ok(iteration_match(t->a, &r, &log, NULL, &m, &t->e), t);
        print_message("%s: %s\n", cases[i].run, iteration_match_words(t->a, &m));
        assert_int_equal(m.n, cases[i].n);
        assert_int_equal(m.n_known, m.n);
        assert_int_equal(m.n_found, r.n_requests);
        assert_int_equal(m.preemptions, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(prompts_are_followed_in_their_order),
        TEST(long_prompts_go_on_in_chunks),
        TEST(prefix_hits_are_seen),
        TEST(preemptions_are_followed),
        TEST(others_in_the_server_are_told),
        TEST(an_early_end_may_have_one_iteration_more),
        TEST(foreign_logs_are_refused),
        TEST(real_logs_match_in_every_iteration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
