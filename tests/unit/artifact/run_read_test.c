#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "artifact/run.h"
#include "support/support.h"

struct fixture {
    struct tmp tmp;
    struct arena *a;
    struct err e;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->tmp = tmp_new();
    f->a = arena_new();
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    arena_free(&f->a);
    tmp_free(&f->tmp);
    free(f);
    return 0;
}

/* A run directory with these files; NULL = not there. */
static void put_run(struct fixture *f, const char *requests, const char *tokens,
                    const char *batches)
{
    const char *const files[][2] = {
        {"request_metrics.csv", requests},
        {"token_metrics.csv", tokens},
        {"batches.csv", batches},
        {"run_meta.json", "{\"schema_version\": 1, \"run_type\": \"real\"}"}};
    for (size_t i = 0; i < 4; i++) {
        remove(fs_join(f->a, f->tmp.dir, files[i][0]));
        if (files[i][1])
            tmp_file(&f->tmp, files[i][0], files[i][1], strlen(files[i][1]));
    }
}

#define REQUESTS                                                                 \
    "request_id,arrival_time_ns,first_token_time_ns,ttft_ns,completion_time_ns," \
    "num_prefill_tokens,num_decode_tokens,num_decode_tokens_actual,status\n"
#define TWO    REQUESTS "0,0,10,10,30,4,3,3,ok\n1,5,25,20,25,4,1,1,ok\n"
#define TOKENS "request_id,token_index,token_time_ns,token_latency_ns\n"
#define BATCHES                                                                          \
    "iteration,replica,stage,start_ns,duration_ns,host_ns,device_ns,num_prefill_tokens," \
    "num_decode_tokens,batch_size,kv_blocks\n"

static void reads_what_was_written(void **state)
{
    struct fixture *f = *state;
    struct artifact art;
    struct run_writer *w;
    struct run run;
    assert_ok(artifact_begin(f->a, fs_join(f->a, f->tmp.dir, "r"), "run_meta.json", &art, &f->e),
              &f->e);
    assert_ok(run_writer_open(&art, true, true, &w, &f->e), &f->e);
    const struct run_request r[] = {
        {.request_id = 0,
         .prompt_id = "p, \"1\"",
         .arrival_ns = 5,
         .sent_ns = 6,
         .scheduled_ns = 7,
         .first_token_ns = 8,
         .completion_ns = 9,
         .num_prefill_tokens = 3,
         .num_decode_tokens = 4,
         .num_decode_tokens_actual = 2,
         .preemptions = 1,
         .status = RUN_OK,
         .warmup = true,
         .backend = "cpu"},
        {.request_id = 1,
         .arrival_ns = 6,
         .sent_ns = RUN_NONE,
         .scheduled_ns = RUN_NONE,
         .first_token_ns = RUN_NONE,
         .completion_ns = RUN_NONE,
         .num_prefill_tokens = 3,
         .num_decode_tokens = 4,
         .preemptions = RUN_NONE,
         .status = RUN_REJECTED,
         .backend = "cpu",
         .error_type = "too_long",
         .error_msg = "3\n+ 4"},
    };
    run_write_request(w, &r[1]);
    run_write_request(w, &r[0]);
    run_write_token(w, &(struct run_token){0, 0, 8, 0, 77});
    run_write_token(w, &(struct run_token){0, 1, 9, 1, RUN_NONE});
    const struct run_batch b = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    run_write_batch(w, &b);
    assert_ok(run_writer_close(&w, &f->e), &f->e);
    struct node *meta = node_new(f->a, NODE_MAP);
    node_set(f->a, meta, SV("run_type"), node_str(f->a, "vidur"));
    assert_ok(artifact_commit(&art, meta, &f->e), &f->e);

    assert_ok(run_load(f->a, art.final_dir, NULL, &run, &f->e), &f->e);
    assert_int_equal(run.n_requests, 2);
    for (int i = 0; i < 2; i++) {
        const struct run_request *g = &run.requests[i], *h = &r[i];
        assert_true(
            g->request_id == h->request_id && g->arrival_ns == h->arrival_ns &&
            g->sent_ns == h->sent_ns && g->scheduled_ns == h->scheduled_ns &&
            g->first_token_ns == h->first_token_ns && g->completion_ns == h->completion_ns &&
            g->num_prefill_tokens == h->num_prefill_tokens &&
            g->num_decode_tokens == h->num_decode_tokens &&
            g->num_decode_tokens_actual == h->num_decode_tokens_actual &&
            g->preemptions == h->preemptions && g->status == h->status && g->warmup == h->warmup);
        assert_string_equal(g->backend, "cpu");
    }
    assert_string_equal(run.requests[0].prompt_id, "p, \"1\"");
    assert_null(run.requests[0].error_msg);
    assert_null(run.requests[1].prompt_id);
    assert_string_equal(run.requests[1].error_type, "too_long");
    assert_string_equal(run.requests[1].error_msg, "3\n+ 4");
    assert_int_equal(run.n_tokens, 2);
    assert_int_equal(run.tokens[0].token_id, 77);
    assert_int_equal(run.tokens[1].token_id, RUN_NONE);
    assert_int_equal(run.tokens[1].token_time_ns, 9);
    assert_int_equal(run.first_token[1], 2);
    assert_int_equal(run.first_token[2], 2);
    assert_int_equal(run.n_batches, 1);
    assert_memory_equal(&run.batches[0], &b, sizeof b);
    assert_int_equal(run.n_contradictions, 0);
    assert_int_equal(run_load(f->a, art.final_dir, "real", &run, &f->e), ST_INPUT);
}

static void files_of_tokens_and_batches_may_be_missing(void **state)
{
    struct fixture *f = *state;
    struct run run;
    put_run(f, TWO, NULL, NULL);
    assert_ok(run_load(f->a, f->tmp.dir, "real", &run, &f->e), &f->e);
    assert_null(run.tokens);
    assert_null(run.first_token);
    assert_null(run.batches);
    assert_int_equal(run.requests[0].preemptions, RUN_NONE); /* missing is not zero */
    assert_int_equal(run.requests[0].sent_ns, RUN_NONE);
    assert_null(run.requests[0].backend);
    assert_false(run.requests[0].warmup);
}

static void sorts_foreign_files(void **state)
{
    struct fixture *f = *state;
    struct run run;
    put_run(f, REQUESTS "7,5,25.0,20,25,4,1,1,ok\r\n2,0,10,10,30,4,3,3,ok\r\n",
            TOKENS "2,2,30,10\n7,0,25,0\n2,0,10,0\n\n2,1,20,10\n", NULL);
    assert_ok(run_load(f->a, f->tmp.dir, NULL, &run, &f->e), &f->e);
    assert_int_equal(run.requests[0].request_id, 2);
    assert_int_equal(run.requests[1].request_id, 7);
    assert_int_equal(run.requests[1].first_token_ns, 25);
    assert_int_equal(run.first_token[1], 3);
    const int64_t times[] = {10, 20, 30, 25};
    for (int i = 0; i < 4; i++)
        assert_int_equal(run.tokens[i].token_time_ns, times[i]);
    assert_int_equal(run.n_contradictions, 0);
}

static void takes_completion_from_tokens(void **state)
{
    static const char requests[] =
        "status,request_id,arrival_time_ns,first_token_time_ns,ttft_ns,num_prefill_tokens,"
        "num_decode_tokens,num_decode_tokens_actual,more\n"
        "ok,0,0,10,10,4,3,3,x\nok,1,5,25,20,4,1,1,y\n";
    struct fixture *f = *state;
    struct run run;
    put_run(f, requests, TOKENS "0,0,10,0\n0,1,17,7\n", NULL);
    assert_ok(run_load(f->a, f->tmp.dir, NULL, &run, &f->e), &f->e);
    assert_int_equal(run.requests[0].completion_ns, 17);
    assert_int_equal(run.requests[1].completion_ns, RUN_NONE); /* no tokens: missing */
    put_run(f, requests, TOKENS "1,0,6,0\n", NULL); /* contradicts first_token_time_ns 25 */
    assert_ok(run_load(f->a, f->tmp.dir, NULL, &run, &f->e), &f->e);
    assert_int_equal(run.requests[1].completion_ns, 25);
    put_run(f, requests, NULL, NULL);
    assert_ok(run_load(f->a, f->tmp.dir, NULL, &run, &f->e), &f->e);
    assert_int_equal(run.requests[0].completion_ns, RUN_NONE);
}

/* A run of schema "v1": a text, no completion, numbers with a fraction of 0, token ids spelled
 * null or left empty, further columns and members. */
static void put_v1(struct fixture *f, const char *requests, const char *tokens)
{
    static const char meta[] = "{\"schema_version\": \"v1\", \"run_type\": \"real\", "
                               "\"tool\": \"other\", \"hardware\": \"h100\", \"more\": [1.5]}";
    put_run(f, requests, tokens, NULL);
    tmp_file(&f->tmp, "run_meta.json", meta, strlen(meta));
}

static void reads_the_older_system_s_runs(void **state)
{
    struct fixture *f = *state;
    struct run run;
    put_v1(f,
           "request_id,arrival_time_ns,first_token_time_ns,ttft_ns,num_prefill_tokens,"
           "num_decode_tokens,num_decode_tokens_actual,status,note\n"
           "0,0.0,10.0,10.0,4,3,3.0,ok,null\n1,5,None,nan,4,1,0,error,\n",
           "request_id,token_index,token_time_ns,token_latency_ns,token_id\n"
           "0,0,10,null,null\n0,1,17.0,7,\n0,2,27,1e1,None\n");
    assert_ok(run_load(f->a, f->tmp.dir, "real", &run, &f->e), &f->e);
    assert_int_equal(run.n_requests, 2);
    assert_int_equal(run.requests[0].completion_ns, 27);
    assert_int_equal(run.requests[1].first_token_ns, RUN_NONE);
    assert_int_equal(run.requests[1].completion_ns, RUN_NONE);
    assert_int_equal(run.n_tokens, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(run.tokens[i].token_id, RUN_NONE);
    assert_int_equal(run.n_contradictions, 0);

    put_v1(f, /* derived columns left out, the completion there and empty */
           "request_id,arrival_time_ns,first_token_time_ns,completion_time_ns,num_prefill_tokens,"
           "num_decode_tokens,num_decode_tokens_actual,status\n0,0,10,,4,2,2,ok\n",
           "request_id,token_index,token_time_ns\n0,0,10\n0,1,17\n");
    assert_ok(run_load(f->a, f->tmp.dir, "real", &run, &f->e), &f->e);
    assert_int_equal(run.requests[0].completion_ns, 17);
}

/* What a run is counted by stays exact. */
static void the_older_system_s_faults_are_named(void **state)
{
    static const struct {
        const char *requests, *error;
    } cases[] = {
        {REQUESTS "0,null,10,10,30,4,3,3,ok\n",
         "request_metrics.csv:2:2: arrival_time_ns: is empty, but every row needs it"},
        {REQUESTS "0,0,10.5,10,30,4,3,3,ok\n",
         "request_metrics.csv:2:3: first_token_time_ns: expected an integer, got '10.5'"},
        {REQUESTS "0,0,10,10,30,4,3,3,fine\n",
         "request_metrics.csv:2:9: status: 'fine' is not one of ok, error, timeout, rejected, "
         "cancelled"},
    };
    struct fixture *f = *state;
    struct run run;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_v1(f, cases[i].requests, NULL);
        assert_int_equal(run_load(f->a, f->tmp.dir, NULL, &run, &f->e), ST_INPUT);
        assert_cause(&f->e, fs_join(f->a, f->tmp.dir, cases[i].error));
    }
    put_run(f, REQUESTS "0,0,None,10,30,4,3,3,ok\n", NULL, NULL); /* schema 1 spells it empty */
    assert_int_equal(run_load(f->a, f->tmp.dir, NULL, &run, &f->e), ST_INPUT);
    assert_cause(&f->e, fs_join(f->a, f->tmp.dir,
                                "request_metrics.csv:2:3: first_token_time_ns: expected an integer,"
                                " got 'None'"));
}

static void counts_cells_that_contradict_their_times(void **state)
{
    struct fixture *f = *state;
    struct run run;
    put_run(f,
            REQUESTS "0,0,5000,6000,90000,4,3,3,ok\n" /* 1 us off: rounding */
                     "1,0,5000,6001,90000,4,3,3,ok\n" /* more */
                     "2,0,,7,90000,4,3,0,error\n",    /* of nothing */
            TOKENS "0,0,5000,0\n0,1,9000,4000\n"      /* fine */
                   "1,0,7000,0\n1,1,9000,9000\n",     /* first token elsewhere, wrong gap */
            NULL);
    assert_ok(run_load(f->a, f->tmp.dir, NULL, &run, &f->e), &f->e);
    assert_int_equal(run.n_contradictions, 4);
}

/* Of our own runs every token has a row. */
static void a_token_file_cut_between_rows_is_refused(void **state)
{
    static const char meta[] =
        "{\"schema_version\": 1, \"run_type\": \"real\", \"tool\": {\"version\": \"1\"}}";
    struct fixture *f = *state;
    struct run run;
    char want[400];
    put_run(f, TWO, TOKENS "0,0,10,0\n0,1,20,10\n0,2,30,10\n", NULL);
    assert_ok(run_load(f->a, f->tmp.dir, NULL, &run, &f->e), &f->e);
    tmp_file(&f->tmp, "run_meta.json", meta, strlen(meta));
    assert_int_equal(run_load(f->a, f->tmp.dir, NULL, &run, &f->e), ST_INPUT);
    snprintf(want, sizeof want,
             "%s/token_metrics.csv: request 1 has 0 rows, but it generated 1 tokens", f->tmp.dir);
    assert_cause(&f->e, want);
}

/* file 0: requests, 1: tokens, 2: batches. The text follows "<dir>/". */
static const struct bad {
    int file;
    const char *text, *error;
} bads[] = {
    {0, "", "request_metrics.csv: empty, expected a header line"},
    {0, "request_id,status\n",
     "request_metrics.csv:1: no column 'arrival_time_ns' among: request_id, status"},
    {0, REQUESTS "x,0,10,10,30,4,3,3,ok\n",
     "request_metrics.csv:2:1: request_id: expected an integer, got 'x'"},
    {0, REQUESTS "0,0,10,10,30,4,3,3,ok\n1,0,10,10,30,-4,3,3,ok\n",
     "request_metrics.csv:3:6: num_prefill_tokens: -4 is below the minimum 0"},
    {0, REQUESTS "0,nan,10,10,30,4,3,3,ok\n",
     "request_metrics.csv:2:2: arrival_time_ns: expected an integer, got 'nan'"},
    {0, REQUESTS "0,0,10,10,30,4,1e400,3,ok\n",
     "request_metrics.csv:2:7: num_decode_tokens: expected an integer, got '1e400'"},
    {0, REQUESTS "0,0,10,10,30,4,3,2147483648,ok\n",
     "request_metrics.csv:2:8: num_decode_tokens_actual: 2147483648 is above the maximum "
     "2147483647"},
    {0, REQUESTS "0,0,10,10,99999999999999999999,4,3,3,ok\n",
     "request_metrics.csv:2:5: completion_time_ns: expected an integer, got "
     "'99999999999999999999'"},
    {0, REQUESTS "0,0,10,10,30,4,3,3,fine\n",
     "request_metrics.csv:2:9: status: 'fine' is not one of ok, error, timeout, rejected, "
     "cancelled"},
    {0, REQUESTS ",0,10,10,30,4,3,3,ok\n",
     "request_metrics.csv:2:1: request_id: is empty, but every row needs it"},
    {0, REQUESTS "0,0,10,10,30,4,3,3,ok\n0,0,10,10,3",
     "request_metrics.csv:3: 5 cells where the header has 9"},
    {0, REQUESTS "5,0,10,10,30,4,3,3,ok\n1,0,10,10,30,4,3,3,ok\n5,0,10,10,30,4,3,3,ok\n",
     "request_metrics.csv:4:1: request_id: 5 stands in line 2 already"},
    {0, REQUESTS "0,20,10,10,30,4,3,3,ok\n",
     "request_metrics.csv:2:3: first_token_time_ns: 10 is before arrival_time_ns 20"},
    {0, REQUESTS "0,0,10,10,9,4,3,3,ok\n",
     "request_metrics.csv:2:5: completion_time_ns: 9 is before first_token_time_ns 10"},
    {0, REQUESTS "0,20,,,19,4,3,0,error\n",
     "request_metrics.csv:2:5: completion_time_ns: 19 is before arrival_time_ns 20"},
    {0, REQUESTS "0,0,10,10,30,4,3,3,\xff\n",
     "request_metrics.csv:2:9: status: bytes that are not UTF-8"},
    {1, TOKENS "9,0,10,0\n", "token_metrics.csv:2:1: request_id: 9 is not in request_metrics.csv"},
    {1, TOKENS "0,0,10,0\n0,2,12,2\n",
     "token_metrics.csv:3:2: token_index: 2, but request 0 has 2 tokens: indices run from 0 "
     "without gaps"},
    {1, TOKENS "0,0,10,0\n\n0,0,12,2\n",
     "token_metrics.csv:4:2: token_index: 0 of request 0 comes twice"},
    {1, TOKENS "0,1,9,0\n0,0,10,0\n",
     "token_metrics.csv:2:3: token_time_ns: 9 is before the request's token 0 (10)"},
    {1, TOKENS "1,0,4,0\n",
     "token_metrics.csv:2:3: token_time_ns: 4 is before the request's arrival_time_ns 5"},
    {1, TOKENS "0,-1,9,0\n", "token_metrics.csv:2:2: token_index: -1 is below the minimum 0"},
    {1, "request_id,token_index,token_time_ns\n",
     "token_metrics.csv:1: no column 'token_latency_ns' among: request_id, token_index, "
     "token_time_ns"},
    {2, BATCHES "0,0,0,0,-1,0,0,0,0,0,0\n",
     "batches.csv:2:5: duration_ns: -1 is below the minimum 0"},
    {2, BATCHES "0,2147483648,0,0,1,0,0,0,0,0,0\n",
     "batches.csv:2:2: replica: 2147483648 is above the maximum 2147483647"},
};

static void names_every_fault(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        const struct bad *b = &bads[i];
        struct run run;
        put_run(f, b->file == 0 ? b->text : TWO, b->file == 1 ? b->text : NULL,
                b->file == 2 ? b->text : NULL);
        assert_int_equal(run_load(f->a, f->tmp.dir, NULL, &run, &f->e), ST_INPUT);
        assert_cause(&f->e, fs_join(f->a, f->tmp.dir, b->error));
    }
}

static void a_million_columns_are_refused(void **state)
{
    struct fixture *f = *state;
    struct run run;
    struct buf text = {0};
    buf_puts(&text, "request_id");
    for (int i = 0; i < 1000000; i++)
        buf_puts(&text, ",x");
    put_run(f, buf_str(&text), NULL, NULL);
    buf_free(&text);
    assert_int_equal(run_load(f->a, f->tmp.dir, NULL, &run, &f->e), ST_INPUT);
    assert_cause(&f->e, fs_join(f->a, f->tmp.dir, "request_metrics.csv:1: more than 4096 columns"));
}

/* 16 MB of blank lines: rows would take 2.4 GB if every line were one. */
static void blank_lines_cost_no_memory(void **state)
{
    struct fixture *f = *state;
    struct run run;
    put_run(f, TWO, NULL, NULL);
    char *path = fs_join(f->a, f->tmp.dir, "request_metrics.csv");
    FILE *file = fopen(path, "a");
    static char blank[1 << 20];
    memset(blank, '\n', sizeof blank);
    for (int i = 0; i < 16; i++)
        fwrite(blank, 1, sizeof blank, file);
    fclose(file);
    assert_ok(run_load(f->a, f->tmp.dir, NULL, &run, &f->e), &f->e);
    assert_int_equal(run.n_requests, 2);
    assert_true(arena_used(f->a) < (size_t)1 << 30);
}

static void needs_request_metrics(void **state)
{
    struct fixture *f = *state;
    struct run run;
    put_run(f, NULL, NULL, NULL);
    assert_int_equal(run_load(f->a, f->tmp.dir, NULL, &run, &f->e), ST_INPUT);
    assert_cause(&f->e, arena_printf(f->a,
                                     "cannot open %s/request_metrics.csv: No such file or "
                                     "directory",
                                     f->tmp.dir));
    char *path = fs_join(f->a, f->tmp.dir, "request_metrics.csv");
    assert_int_equal(mkfifo(path, 0600), 0); /* must not hang */
    assert_int_equal(run_load(f->a, f->tmp.dir, NULL, &run, &f->e), ST_INPUT);
    assert_cause(&f->e, arena_printf(f->a, "%s is not a regular file", path));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(reads_what_was_written),
        CASE(files_of_tokens_and_batches_may_be_missing),
        CASE(sorts_foreign_files),
        CASE(takes_completion_from_tokens),
        CASE(reads_the_older_system_s_runs),
        CASE(the_older_system_s_faults_are_named),
        CASE(counts_cells_that_contradict_their_times),
        CASE(a_token_file_cut_between_rows_is_refused),
        CASE(names_every_fault),
        CASE(a_million_columns_are_refused),
        CASE(blank_lines_cost_no_memory),
        CASE(needs_request_metrics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
