/* Figures against sums done by hand: two requests that end well, one that fails, one of warm-up. */
#include "client/outcome.h"

#include <math.h>

#include "support/support.h"
#include "text/json.h"

static const int64_t MS = 1000000;
enum { N = 4 };

struct made {
    struct workload_request w[N];
    struct client_result r[N];
    struct outcome o[N];
};

static void add_chunk(struct client_result *r, int64_t ms, int32_t tokens)
{
    vec_push(&r->chunks, (struct client_chunk){ms * MS, tokens, 1});
    r->end_ns = ms * MS;
}

static struct client_result result(int64_t planned_ms, int64_t sent_ms)
{
    return (struct client_result){.planned_ns = planned_ms * MS,
                                  .sent_ns = sent_ms * MS,
                                  .prompt_tokens = -1,
                                  .completion_tokens = -1};
}

/*                 planned  sent   tokens in a chunk @ ms        total says
 * 0  warm-up            0     0   1 @ 5
 * 1  ok                 0    10   ? @ 110, ? @ 120, ? @ 150     7
 * 2  ok               100   100   1 @ 300
 * 3  truncated        400   400   1 @ 500, fails @ 900 */
static void make(struct test *t, struct made *m)
{
    *m = (struct made){0};
    for (int i = 0; i < N; i++)
        m->w[i] = (struct workload_request){
            .request_id = i, .num_prefill_tokens = 100 + i, .num_decode_tokens = 7};
    m->r[0] = result(0, 0);
    add_chunk(&m->r[0], 5, 1);
    m->r[1] = result(0, 10);
    m->r[1].prompt_tokens = 50;
    m->r[1].completion_tokens = 7;
    add_chunk(&m->r[1], 110, 0);
    add_chunk(&m->r[1], 120, 0);
    add_chunk(&m->r[1], 150, 0);
    m->r[2] = result(100, 100);
    add_chunk(&m->r[2], 300, 1);
    m->r[3] = result(400, 400);
    m->r[3].status = RUN_ERROR;
    strcpy(m->r[3].error_msg, "cut off");
    add_chunk(&m->r[3], 500, 1);
    m->r[3].end_ns = 900 * MS;
    const struct workload w = {.requests = m->w, .n = N};
    outcomes_make(t->a, &w, m->r, NULL, 1, NULL, m->o);
}

static void drop(struct made *m)
{
    for (int i = 0; i < N; i++)
        client_result_free(&m->r[i]);
}

static void assert_stat(const struct outcome_stat *s, size_t n, double mean, double median,
                        double std, double p90, double p99)
{
    assert_int_equal(s->n, n);
    assert_near(s->mean, mean, 1e-9);
    assert_near(s->median, median, 1e-9);
    assert_near(s->std, std, 1e-9);
    assert_near(s->p[0], p90, 1e-9);
    assert_near(s->p[2], p99, 1e-9);
}

static void a_total_is_spread_over_the_chunks(void **state)
{
    struct test *t = *state;
    struct made m;
    make(t, &m);
    assert_int_equal(m.o[1].output_tokens, 7);
    assert_int_equal(m.o[1].count, COUNT_USAGE);
    assert_true(m.o[1].spread);
    assert_int_equal(m.o[1].chunk_tokens[0], 3);
    assert_int_equal(m.o[1].chunk_tokens[1], 2);
    assert_int_equal(m.o[1].chunk_tokens[2], 2);
    assert_int_equal(m.o[1].prompt_tokens, 50);
    assert_int_equal(m.o[2].prompt_tokens, 102); /* usage said nothing */
    assert_int_equal(m.o[2].count, COUNT_CHUNKS);
    assert_false(m.o[2].spread);
    drop(&m);
}

static void figures_are_those_done_by_hand(void **state)
{
    struct test *t = *state;
    struct made m;
    struct outcome_figures f;
    const struct outcome_limits limits = {true, 105, 10, INFINITY};
    make(t, &m);
    outcomes_figures(t->a, m.o, N, &limits, &f);
    assert_int_equal(f.completed, 2);
    assert_int_equal(f.failed, 1);
    assert_int_equal(f.warmup, 1);
    assert_near(f.duration_s, 0.9, 1e-9); /* what failed took its time too */
    assert_int_equal(f.input_tokens, 152);
    assert_int_equal(f.output_tokens, 8);
    assert_int_equal(f.chunks, 4);
    assert_int_equal(f.max_tokens_per_chunk, 3);
    assert_near(f.requests_per_s, 2 / 0.9, 1e-9);
    assert_near(f.output_tokens_per_s, 8 / 0.9, 1e-9);
    assert_near(f.total_tokens_per_s, 160 / 0.9, 1e-9);
    assert_stat(&f.ttft, 2, 155, 155, 45, 191, 199.1);
    assert_stat(&f.ttft_sent, 2, 150, 150, 50, 190, 199);
    assert_stat(&f.tpot, 1, 40 / 6.0, 40 / 6.0, 0, 40 / 6.0, 40 / 6.0);
    assert_stat(&f.itl, 2, 20, 20, 10, 28, 29.8);
    assert_stat(&f.e2el, 2, 175, 175, 25, 195, 199.5);
    assert_stat(&f.e2el_sent, 2, 170, 170, 30, 194, 199.4);
    assert_true(f.goodput == 0); /* 110 and 200 ms from the plan */
    assert_near(f.goodput_sent, 1 / 0.9, 1e-9);
    drop(&m);
}

/* What vLLM's tools read: its names, lists in seconds, figures in ms from the actual send. */
static void bench_json_is_what_vllm_writes(void **state)
{
    struct test *t = *state;
    struct made m;
    struct outcome_figures f;
    const struct client_health h = {.peak_concurrency = 2, .healthy = true};
    const struct outcome_limits limits = {false, INFINITY, INFINITY, INFINITY};
    const struct outcome_labels labels = {.endpoint = "completions",
                                          .model_id = "m",
                                          .request_rate = 5,
                                          .burstiness = 1,
                                          .max_concurrency = 0};
    struct buf text = {0};
    make(t, &m);
    outcomes_figures(t->a, m.o, N, &limits, &f);
    const struct node *n = outcomes_bench_json(t->a, m.o, N, &f, &h, &labels);
    static const char *const keys[] = {"input_lens",
                                       "output_lens",
                                       "ttfts",
                                       "itls",
                                       "errors",
                                       "start_times",
                                       "completed",
                                       "failed",
                                       "burstiness",
                                       "request_rate",
                                       "duration",
                                       "num_prompts",
                                       "tokenizer_id",
                                       "max_concurrency",
                                       "request_goodput",
                                       "total_input_tokens",
                                       "total_output_tokens",
                                       "max_output_tokens_per_s",
                                       "max_concurrent_requests",
                                       "mean_ttft_ms",
                                       "median_ttft_ms",
                                       "std_ttft_ms",
                                       "p99_ttft_ms",
                                       "mean_e2el_ms"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        buf_printf(&text, "%s ", keys[i]);
        assert_non_null(node_find(n, keys[i]));
        json_write(&text, node_find(n, keys[i]), 0, true);
        buf_putc(&text, '\n');
    }
    assert_string_equal(buf_str(&text), "input_lens [50,102,103]\n"
                                        "output_lens [7,1,0]\n"
                                        "ttfts [0.1,0.2,0.1]\n"
                                        "itls [[0.01,0.03],[],[]]\n"
                                        "errors [\"\",\"\",\"cut off\"]\n"
                                        "start_times [0.01,0.1,0.4]\n"
                                        "completed 2\n"
                                        "failed 1\n"
                                        "burstiness 1\n"
                                        "request_rate 5\n"
                                        "duration 0.9\n"
                                        "num_prompts 3\n"
                                        "tokenizer_id null\n"
                                        "max_concurrency null\n"
                                        "request_goodput null\n"
                                        "total_input_tokens 152\n"
                                        "total_output_tokens 8\n"
                                        "max_output_tokens_per_s 8\n"
                                        "max_concurrent_requests 2\n"
                                        "mean_ttft_ms 150\n"
                                        "median_ttft_ms 150\n"
                                        "std_ttft_ms 50\n"
                                        "p99_ttft_ms 199\n"
                                        "mean_e2el_ms 170\n");
    buf_free(&text);
    drop(&m);
}

/* Lengths against what was asked for (7), by where the count comes from. */
static void lengths_are_held_against_the_request(void **state)
{
    static const struct {
        int64_t usage;
        int chunks;
        const char *finish;
        enum length length;
    } rows[] = {
        {7, 3, "length", LENGTH_RIGHT},    {4, 3, "stop", LENGTH_SHORT},
        {4, 3, "length", LENGTH_SHORT},    {9, 3, "length", LENGTH_LONG},
        {-1, 7, "length", LENGTH_RIGHT},   {-1, 8, "length", LENGTH_LONG},
        {-1, 3, "length", LENGTH_UNKNOWN}, {-1, 3, "stop", LENGTH_SHORT},
    };
    struct test *t = *state;
    struct workload_request w = {.num_prefill_tokens = 1, .num_decode_tokens = 7};
    const struct workload one = {.requests = &w, .n = 1};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct client_result r = result(0, 0);
        struct outcome o;
        r.completion_tokens = rows[i].usage;
        strcpy(r.finish, rows[i].finish);
        for (int k = 0; k < rows[i].chunks; k++)
            add_chunk(&r, 10 + k, 0);
        outcomes_make(t->a, &one, &r, NULL, 0, NULL, &o);
        if (o.length != rows[i].length)
            fail_msg("row %zu: %s", i, length_name(o.length));
        client_result_free(&r);
    }
}

/* 24 tokens, 18 of them reasoning of which nothing came: 6 chunks, 14.8 ms apart. */
static void hidden_reasoning_is_no_time_per_token(void **state)
{
    struct test *t = *state;
    struct workload_request w = {.num_prefill_tokens = 1, .num_decode_tokens = 24};
    const struct workload one = {.requests = &w, .n = 1};
    const struct outcome_limits limits = {false, INFINITY, INFINITY, INFINITY};
    for (int reasoned = 0; reasoned < 2; reasoned++) {
        struct client_result r = result(0, 0);
        struct outcome o;
        struct outcome_figures f;
        r.completion_tokens = 24;
        r.reasoning_tokens = 18;
        r.reasoned = reasoned;
        buf_puts(&r.text, "a a a a a a");
        for (int k = 0; k < 6; k++) {
            add_chunk(&r, 0, 0);
            r.end_ns = vec_last(&r.chunks).time_ns = 500 * MS + k * 14800000;
        }
        outcomes_make(t->a, &one, &r, NULL, 0, NULL, &o);
        outcomes_figures(t->a, &o, 1, &limits, &f);
        assert_int_equal(o.output_tokens, reasoned ? 24 : 6);
        assert_int_equal(f.hidden_tokens, reasoned ? 0 : 18);
        assert_int_equal(f.output_tokens, 24);
        assert_int_equal(o.length, LENGTH_RIGHT);
        assert_near(f.tpot.mean, reasoned ? 5 * 14.8 / 23 : 14.8, 1e-9);
        client_result_free(&r);
    }
}

/* Reasoning that is counted and came as text like the answer: <think> in the content. */
static void reasoning_within_the_text_is_not_hidden(void **state)
{
    struct test *t = *state;
    struct workload_request w = {.num_prefill_tokens = 1, .num_decode_tokens = 24};
    const struct workload one = {.requests = &w, .n = 1};
    struct client_result r = result(0, 0);
    struct outcome o;
    r.completion_tokens = 24;
    r.reasoning_tokens = 18;
    buf_puts(&r.text, "<think> a </think> b");
    for (int k = 0; k < 24; k++)
        add_chunk(&r, 500 + k, 0);
    outcomes_make(t->a, &one, &r, NULL, 0, NULL, &o);
    assert_int_equal(o.output_tokens, 24);
    assert_int_equal(o.hidden_tokens, 0);
    client_result_free(&r);
}

static void prompts_are_held_against_the_plan(void **state)
{
    static const struct {
        struct outcome_prompts p;
        int64_t turn, planned, usage;
        enum length length;
    } rows[] = {
        {{.known = true}, 0, 100, 100, LENGTH_RIGHT},
        {{.known = true}, 0, 100, 101, LENGTH_RIGHT}, /* a begin token */
        {{.known = true}, 0, 768, 1075, LENGTH_LONG},
        {{.known = true}, 0, 100, 300, LENGTH_LONG},
        {{.known = true}, 0, 100, 5, LENGTH_SHORT},
        {{.known = true}, 0, 100, -1, LENGTH_UNKNOWN},
        {{.known = false}, 0, 100, 300, LENGTH_UNKNOWN},
        {{.known = true, .template_tokens = 40}, 0, 100, 140, LENGTH_RIGHT},
        {{.known = true, .template_tokens = 297}, 0, 100, 300, LENGTH_LONG}, /* 300 of any prompt */
        {{.known = true}, 2, 100, 300, LENGTH_UNKNOWN},
        {{.known = true, .ids = true}, 2, 100, 300, LENGTH_LONG},
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct workload_request w = {
            .num_prefill_tokens = rows[i].planned, .num_decode_tokens = 1, .turn = rows[i].turn};
        const struct workload one = {.requests = &w, .n = 1};
        struct client_result r = result(0, 0);
        struct outcome o;
        r.prompt_tokens = rows[i].usage;
        add_chunk(&r, 1, 0);
        outcomes_make(t->a, &one, &r, NULL, 0, &rows[i].p, &o);
        if (o.prompt != rows[i].length)
            fail_msg("row %zu: %s", i, length_name(o.prompt));
        client_result_free(&r);
    }
}

static void wrong_lengths_are_a_share_of_what_ended_well(void **state)
{
    (void)state;
    const struct outcome_figures f = {
        .completed = 8, .lengths = {[LENGTH_RIGHT] = 5, [LENGTH_SHORT] = 2, [LENGTH_LONG] = 1}};
    const struct outcome_figures none = {0};
    assert_near(outcomes_wrong_lengths(&f, false), 3 / 8.0, 1e-12);
    assert_near(outcomes_wrong_lengths(&f, true), 1 / 8.0, 1e-12);
    assert_true(outcomes_wrong_lengths(&none, false) == 0);
}

/* Seven tokens in one chunk have no time per output token: 0 would be a wonder. */
static void an_answer_in_one_chunk_has_no_tpot(void **state)
{
    struct test *t = *state;
    struct workload_request w = {.num_prefill_tokens = 1, .num_decode_tokens = 7};
    const struct workload one = {.requests = &w, .n = 1};
    const struct outcome_limits limits = {false, INFINITY, INFINITY, INFINITY};
    struct client_result r = result(0, 0);
    struct outcome o;
    struct outcome_figures f;
    r.completion_tokens = 7;
    add_chunk(&r, 10, 0);
    outcomes_make(t->a, &one, &r, NULL, 0, NULL, &o);
    outcomes_figures(t->a, &o, 1, &limits, &f);
    assert_int_equal(f.at_once, 1);
    assert_int_equal(f.tpot.n, 0);
    assert_int_equal(f.ttft.n, 1);
    client_result_free(&r);
}

static void answers_are_json_lines(void **state)
{
    struct test *t = *state;
    struct made m;
    struct buf text = {0};
    make(t, &m);
    m.w[1].prompt_id = "p";
    strcpy(m.r[1].finish, "length");
    buf_puts(&m.r[1].text, "say \"hi\"\n\xff");
    outcomes_answers(&text, m.o, 2);
    assert_string_equal(
        buf_str(&text),
        "{\"request_id\":0,\"prompt_id\":null,\"status\":\"ok\",\"finish_reason\":null,"
        "\"output_tokens\":1,\"text\":\"\"}\n"
        "{\"request_id\":1,\"prompt_id\":\"p\",\"status\":\"ok\",\"finish_reason\":\"length\","
        "\"output_tokens\":7,\"text\":\"say \\\"hi\\\"\\n\xef\xbf\xbd\"}\n");
    buf_free(&text);
    drop(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_total_is_spread_over_the_chunks),
        TEST(figures_are_those_done_by_hand),
        TEST(bench_json_is_what_vllm_writes),
        TEST(lengths_are_held_against_the_request),
        TEST(hidden_reasoning_is_no_time_per_token),
        TEST(reasoning_within_the_text_is_not_hidden),
        TEST(prompts_are_held_against_the_plan),
        TEST(wrong_lengths_are_a_share_of_what_ended_well),
        TEST(an_answer_in_one_chunk_has_no_tpot),
        TEST(answers_are_json_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
