#include "workload/stream.h"

#include "support/support.h"

#define META                                                                                       \
    "{\"schema_version\": 1, \"workload_id\": \"w\", \"paths\": {\"prompts\": \"prompts.jsonl\", " \
    "\"trace_lengths\": \"l.csv\", \"trace_intervals\": \"i.csv\"}}"

static struct workload_params params(int64_t n)
{
    return (struct workload_params){.seed = 7,
                                    .num_requests = n,
                                    .arrival_kind = ARRIVAL_POISSON,
                                    .rate = 4,
                                    .lengths_kind = LENGTHS_ZIPF,
                                    .min_tokens = 16,
                                    .max_tokens = 4096,
                                    .zipf_theta = 0.6,
                                    .prefill_decode_ratio = 4};
}

static void assert_same(struct test *t, struct workload_stream *s, const struct workload *w)
{
    struct workload_request r;
    assert_int_equal(workload_stream_total(s), w->n);
    for (size_t i = 0; i < w->n; i++) {
        const struct workload_request *want = &w->requests[i];
        assert_ok(workload_stream_next(s, &r, &t->e), t);
        assert_int_equal(r.request_id, want->request_id);
        assert_int_equal(r.arrival_ns, want->arrival_ns);
        assert_true(r.arrival_s == want->arrival_s);
        assert_int_equal(r.num_prefill_tokens, want->num_prefill_tokens);
        assert_int_equal(r.num_decode_tokens, want->num_decode_tokens);
        if (want->prompt_id)
            assert_string_equal(r.prompt_id, want->prompt_id);
        else
            assert_null(r.prompt_id);
    }
    assert_int_equal(workload_stream_next(s, &r, &t->e), ST_END);
    assert_int_equal(workload_stream_next(s, &r, &t->e), ST_END);
}

/* More requests than are read ahead: the stream goes on where it stopped. */
static void a_long_stream_gives_what_the_array_holds(void **state)
{
    struct test *t = *state;
    struct workload_params p = params(40000);
    struct workload_stream *s;
    struct workload w;
    assert_ok(workload_make(t->a, &p, &w, &t->e), t);
    assert_ok(workload_stream_make(&p, &s, &t->e), t);
    assert_same(t, s, &w);
    workload_stream_close(&s);
    assert_null(s);
    workload_stream_close(&s);
}

static void a_trace_streams(void **state)
{
    struct test *t = *state;
    struct workload_stream *s;
    struct workload w;
    struct buf text = {0};
    buf_puts(&text, "arrived_at,num_prefill_tokens,num_decode_tokens\n");
    for (int i = 0; i < 20000; i++)
        buf_printf(&text, "%d.25,%d,%d\n", i, i % 91 + 1, i % 13 + 1);
    const char *path = test_write(t, "t.csv", buf_str(&text));
    buf_free(&text);
    assert_ok(workload_load_trace(t->a, path, &w, &t->e), t);
    assert_ok(workload_stream_trace(path, &s, &t->e), t);
    assert_int_equal(w.n, 20000);
    assert_int_equal(w.requests[19999].arrival_ns, INT64_C(19999250000000));
    assert_same(t, s, &w);
    workload_stream_close(&s);
}

/* The last line is wrong: told before the first request is given. */
static void faults_are_told_when_it_opens(void **state)
{
    struct test *t = *state;
    struct workload_stream *s;
    struct buf text = {0};
    buf_puts(&text, "arrived_at,num_prefill_tokens,num_decode_tokens\n");
    for (int i = 0; i < 20000; i++)
        buf_puts(&text, "1,1,1\n");
    buf_puts(&text, "0.5,1,1\n");
    const char *path = test_write(t, "t.csv", buf_str(&text));
    buf_free(&text);
    assert_err(workload_stream_trace(path, &s, &t->e), ST_INPUT, t,
               "DIR/t.csv:20002:1: arrived_at: 0.5 is before the row above it\n"
               "hint: sort the trace by arrived_at");
    assert_null(s);
}

static void a_file_that_changes_is_told(void **state)
{
    struct test *t = *state;
    struct workload_stream *s;
    struct workload_request r;
    struct buf text = {0};
    buf_puts(&text, "arrived_at,num_prefill_tokens,num_decode_tokens\n");
    for (int i = 0; i < 100000; i++)
        buf_puts(&text, "1,1,1\n");
    const char *path = test_write(t, "t.csv", buf_str(&text));
    assert_ok(workload_stream_trace(path, &s, &t->e), t);
    text.p[text.n / 2 - 1] = '\0'; /* half of it, in the same file */
    FILE *f = fopen(path, "w");
    fputs(text.p, f);
    fclose(f);
    buf_free(&text);
    enum st st;
    while ((st = workload_stream_next(s, &r, &t->e)) == ST_OK)
        ;
    assert_err(st, ST_INPUT, t, "DIR/t.csv changed while it was read");
    workload_stream_close(&s);
}

static const char *write_dir(struct test *t, const char *lengths, const char *intervals)
{
    test_write(t, "w/workload_meta.json", META);
    test_write(t, "w/prompts.jsonl", "");
    test_write(t, "w/l.csv", lengths);
    test_write(t, "w/i.csv", intervals);
    return test_path(t, "w");
}

static void a_directory_streams_in_any_order_of_its_tables(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *lengths, *intervals;
    } cases[] = {
        {"request_id,prompt_id,num_prefill_tokens,num_decode_tokens\n3,a,5,1\n4,,6,2\n9,a,7,3\n",
         "request_id,inter_arrival_ns,arrival_time_ns\n3,10,10\n4,0,10\n9,5,15\n"},
        {"num_decode_tokens,num_prefill_tokens,request_id\n1,5,9\n2,6,4\n3,7,3\n",
         "request_id,inter_arrival_ns,arrival_time_ns\n9,10,10\n3,0,10\n4,5,15\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct workload_stream *s;
        struct workload w;
        const char *dir = write_dir(t, cases[i].lengths, cases[i].intervals);
        assert_ok(workload_load(t->a, dir, &w, &t->e), t);
        assert_int_equal(w.n, 3);
        assert_ok(workload_stream_dir(dir, &s, &t->e), t);
        assert_same(t, s, &w);
        workload_stream_close(&s);
    }
}

static void faults_of_a_directory_are_worded_as_ever(void **state)
{
    struct test *t = *state;
    struct workload_stream *s;
    const char *dir =
        write_dir(t, "request_id,num_prefill_tokens,num_decode_tokens\n1,5,1\n2,6,2\n",
                  "request_id,inter_arrival_ns,arrival_time_ns\n1,10,10\n2,3,12\n");
    assert_err(workload_stream_dir(dir, &s, &t->e), ST_INPUT, t,
               "DIR/w/i.csv:3:3: arrival_time_ns: 12 is not the sum of the gaps: 10 before and "
               "inter_arrival_ns 3");
    dir = write_dir(t, "request_id,num_prefill_tokens,num_decode_tokens\n1,5,1\n2,6,2\n",
                    "request_id,inter_arrival_ns,arrival_time_ns\n1,10,10\n");
    assert_err(workload_stream_dir(dir, &s, &t->e), ST_INPUT, t,
               "DIR/w/i.csv: request_id 2 of DIR/w/l.csv has no row here");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_long_stream_gives_what_the_array_holds),
        TEST(a_trace_streams),
        TEST(faults_are_told_when_it_opens),
        TEST(a_file_that_changes_is_told),
        TEST(a_directory_streams_in_any_order_of_its_tables),
        TEST(faults_of_a_directory_are_worded_as_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
