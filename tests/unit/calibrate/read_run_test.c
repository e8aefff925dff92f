/* The batches of a run directory: what is in each, and how long its sequences waited for it. */
#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "calibrate/observed.h"
#include "support/support.h"

static void put(const struct tmp *tmp, const char *name, const char *text)
{
    tmp_file(tmp, name, text, strlen(text));
}

/* The second request comes while the first decodes, the third when the engine is idle. batches.csv
 * leaves out what the engine does between two batches: 5 ms before the first decode step, 50 before
 * the second, which follows a prompt. */
static void put_run(const struct tmp *tmp)
{
    put(tmp, "run_meta.json", "{\"schema_version\": 1, \"run_type\": \"real\"}");
    put(tmp, "request_metrics.csv",
        "request_id,arrival_time_ns,first_token_time_ns,ttft_ns,completion_time_ns,"
        "num_prefill_tokens,num_decode_tokens,num_decode_tokens_actual,status\n"
        "0,0,101000000,101000000,475000000,4,3,3,ok\n"
        "1,160000000,305000000,145000000,475000000,7,2,2,ok\n"
        "2,900000000,1000000000,100000000,1000000000,5,1,1,ok\n");
    put(tmp, "token_metrics.csv",
        "request_id,token_index,token_time_ns,token_latency_ns\n"
        "0,0,101000000,101000000\n0,1,205000000,104000000\n0,2,475000000,270000000\n"
        "1,0,305000000,145000000\n1,1,475000000,170000000\n2,0,1000000000,100000000\n");
    put(tmp, "batches.csv",
        "iteration,replica,stage,start_ns,duration_ns,host_ns,device_ns,num_prefill_tokens,"
        "num_decode_tokens,batch_size,kv_blocks\n"
        "0,0,0,1000000,99000000,,,4,0,1,\n"
        "1,0,0,105000000,100000000,,,0,1,1,\n"
        "2,0,0,206000000,98000000,,,7,0,1,\n"
        "3,0,0,354000000,120000000,,,0,2,2,\n"
        "4,0,0,901000000,99000000,,,5,0,1,\n");
}

static void check_batches(struct test *t, const struct tmp *tmp)
{
    struct observed run = {.path = tmp->dir, .name = "r"};
    assert_ok(observed_read_run(t->a, tmp->dir, &run, &t->e), t);
    static const struct {
        double duration_s; /* prompts: their own; decode steps: with what was before them */
        int64_t chunks, seqs, kv_tokens, longest;
    } want[] = {
        {0.099, 1, 0, 0, 0}, {0.105, 0, 1, 5, 5}, {0.098, 1, 0, 0, 0},
        {0.17, 0, 2, 14, 8}, {0.099, 1, 0, 0, 0},
    };
    assert_int_equal(run.n_batches, 5);
    for (size_t i = 0; i < 5; i++) {
        const struct batch_load *b = &run.batches[i];
        assert_near(b->duration_s, want[i].duration_s, 1e-12);
        assert_int_equal(b->chunks, want[i].chunks);
        assert_int_equal(b->load.seqs, want[i].seqs);
        assert_int_equal(b->load.kv_tokens, want[i].kv_tokens);
        assert_int_equal(b->longest, want[i].longest);
    }
    assert_near(run.first_token_lag_s, 0.001, 1e-12);
}

static void sequences_wait_from_the_batch_before(void **state)
{
    struct test *t = *state;
    struct tmp tmp = tmp_new();
    put_run(&tmp);
    check_batches(t, &tmp);
    tmp_free(&tmp);
}

/* output.tokens=none: which sequences a batch decoded follows from when they began and ended. */
static void batches_are_known_without_rows_of_tokens(void **state)
{
    struct test *t = *state;
    struct tmp tmp = tmp_new();
    struct observed run = {.path = tmp.dir, .name = "r"};
    put_run(&tmp);
    assert_int_equal(remove(fs_join(t->a, tmp.dir, "token_metrics.csv")), 0);
    check_batches(t, &tmp);
    /* the first request has a token more than there are batches that decode, so of four in five it
     * is not known what they read: too few are left */
    put(&tmp, "request_metrics.csv",
        "request_id,arrival_time_ns,first_token_time_ns,ttft_ns,completion_time_ns,"
        "num_prefill_tokens,num_decode_tokens,num_decode_tokens_actual,status\n"
        "0,0,101000000,101000000,475000000,4,4,4,ok\n"
        "1,160000000,305000000,145000000,475000000,7,2,2,ok\n"
        "2,900000000,1000000000,100000000,1000000000,5,1,1,ok\n");
    assert_ok(observed_read_run(t->a, tmp.dir, &run, &t->e), t);
    assert_true(run.n_batches == 0 && run.batches == NULL);
    tmp_free(&tmp);
}

/* A request of 121 tokens, `each` of them at a time. */
static enum st load_server(struct test *t, const struct tmp *tmp, int each)
{
    enum { N = 121 };
    struct observed run = {.path = tmp->dir, .name = "r"};
    struct buf b = {0};
    put(tmp, "run_meta.json",
        "{\"schema_version\": 1, \"run_type\": \"real\", \"params\": {\"engine\": {\"kind\": "
        "\"openai\"}}}");
    put(tmp, "request_metrics.csv",
        "request_id,arrival_time_ns,first_token_time_ns,ttft_ns,completion_time_ns,"
        "num_prefill_tokens,num_decode_tokens,num_decode_tokens_actual,status\n"
        "0,0,1000,1000,121000,4,121,121,ok\n");
    buf_puts(&b, "request_id,token_index,token_time_ns,token_latency_ns\n");
    for (int k = 0, before = 0; k < N; k++) {
        const int now = 1 + (k + each - 1) / each * each;
        buf_printf(&b, "0,%d,%d000,%d000\n", k, now, now - before);
        before = now;
    }
    put(tmp, "token_metrics.csv", buf_str(&b));
    buf_free(&b);
    return observed_read_run(t->a, tmp->dir, &run, &t->e);
}

static void a_server_of_several_tokens_a_message_is_refused(void **state)
{
    struct test *t = *state;
    struct tmp tmp = tmp_new();
    assert_ok(load_server(t, &tmp, 1), t);
    assert_int_equal(load_server(t, &tmp, 3), ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 0), "its messages brought 3 tokens each"));
    tmp_free(&tmp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(sequences_wait_from_the_batch_before),
                                       TEST(batches_are_known_without_rows_of_tokens),
                                       TEST(a_server_of_several_tokens_a_message_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
