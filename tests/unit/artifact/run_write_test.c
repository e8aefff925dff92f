#include <stdlib.h>
#include <string.h>

#include "artifact/columns.h"
#include "base/rng.h"
#include "support/support.h"

struct fixture {
    struct tmp tmp;
    struct arena *a;
    struct err e;
    struct artifact art;
    struct run_writer *w;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->tmp = tmp_new();
    f->a = arena_new();
    assert_ok(artifact_begin(f->a, fs_join(f->a, f->tmp.dir, "r"), "run_meta.json", &f->art, &f->e),
              &f->e);
    assert_ok(run_writer_open(&f->art, true, true, &f->w, &f->e), &f->e);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    run_writer_discard(&f->w);
    arena_free(&f->a);
    tmp_free(&f->tmp);
    free(f);
    return 0;
}

static const char *written(struct fixture *f, const char *name)
{
    struct sv text;
    assert_ok(fs_read(f->a, artifact_path(f->a, &f->art, name), 1 << 30, &text, &f->e), &f->e);
    return text.p;
}

static struct run_request request(int64_t id)
{
    return (struct run_request){.request_id = id,
                                .arrival_ns = 1000,
                                .sent_ns = RUN_NONE,
                                .scheduled_ns = RUN_NONE,
                                .first_token_ns = RUN_NONE,
                                .completion_ns = RUN_NONE,
                                .num_prefill_tokens = 10,
                                .num_decode_tokens = 5,
                                .preemptions = RUN_NONE};
}

#define HEADER                                                                                \
    "request_id,arrival_time_ns,first_token_time_ns,ttft_ns,completion_time_ns,"              \
    "num_prefill_tokens,num_decode_tokens,num_decode_tokens_actual,status,scheduled_time_ns," \
    "sent_time_ns,ttft_sent_ns,preemptions,backend,prompt_id,error_type,error_msg,warmup\n"

static void writes_the_contract(void **state)
{
    struct fixture *f = *state;
    struct run_request r = request(0);
    r.first_token_ns = 3000;
    r.completion_ns = INT64_MAX;
    r.num_decode_tokens_actual = 4;
    r.scheduled_ns = 0;
    r.sent_ns = 1200;
    r.preemptions = 0;
    r.backend = "cpu";
    r.prompt_id = "p1";
    r.warmup = true;
    run_write_request(f->w, &r);
    r = request(1);
    r.status = RUN_ERROR;
    r.error_type = "http";
    r.error_msg = "line one\nsays \"no\", and more";
    run_write_request(f->w, &r);
    run_write_token(f->w, &(struct run_token){0, 0, 3000, 0, RUN_NONE});
    run_write_token(f->w, &(struct run_token){0, 1, 12345678901, 12345675901, 42});
    run_write_batch(f->w, &(struct run_batch){.iteration = 9,
                                              .replica = 1,
                                              .stage = 2,
                                              .start_ns = 100,
                                              .duration_ns = 99,
                                              .host_ns = 9,
                                              .device_ns = RUN_NONE,
                                              .num_prefill_tokens = 10,
                                              .batch_size = 1,
                                              .kv_blocks = 3});
    assert_ok(run_writer_close(&f->w, &f->e), &f->e);
    assert_null(f->w);
    assert_string_equal(written(f, "request_metrics.csv"),
                        HEADER "0,1000,3000,2000,9223372036854775807,10,5,4,ok,0,1200,1800,0,cpu,"
                               "p1,,,1\n"
                               "1,1000,,,,10,5,0,error,,,,,,,http,\"line one\nsays \"\"no\"\", and "
                               "more\",0\n");
    assert_string_equal(written(f, "token_metrics.csv"),
                        "request_id,token_index,token_time_ns,token_latency_ns,token_id\n"
                        "0,0,3000,0,\n0,1,12345678901,12345675901,42\n");
    assert_string_equal(written(f, "batches.csv"),
                        "iteration,replica,stage,start_ns,duration_ns,host_ns,device_ns,"
                        "num_prefill_tokens,num_decode_tokens,batch_size,kv_blocks\n"
                        "9,1,2,100,99,9,,10,0,1,3\n");
}

static void leaves_out_files_not_wanted(void **state)
{
    struct fixture *f = *state;
    run_writer_discard(&f->w);
    artifact_discard(&f->art);
    assert_ok(
        artifact_begin(f->a, fs_join(f->a, f->tmp.dir, "r2"), "run_meta.json", &f->art, &f->e),
        &f->e);
    assert_ok(run_writer_open(&f->art, false, false, &f->w, &f->e), &f->e);
    run_write_token(f->w, &(struct run_token){0});
    run_write_batch(f->w, &(struct run_batch){0});
    assert_ok(run_writer_close(&f->w, &f->e), &f->e);
    const char **names;
    size_t n;
    assert_ok(fs_list(f->a, f->art.partial.path, &names, &n, &f->e), &f->e);
    assert_int_equal(n, 1);
    assert_string_equal(written(f, "request_metrics.csv"), HEADER);
}

/* Asked for, energy_j is the last column; 0 is not known. */
static void writes_energy(void **state)
{
    struct fixture *f = *state;
    run_writer_discard(&f->w);
    artifact_discard(&f->art);
    assert_ok(
        artifact_begin(f->a, fs_join(f->a, f->tmp.dir, "r3"), "run_meta.json", &f->art, &f->e),
        &f->e);
    assert_ok(run_writer_open_with(&f->art, RUN_WITH_ENERGY, &f->w, &f->e), &f->e);
    struct run_request r = request(1);
    r.energy_j = 12.5;
    run_write_request(f->w, &r); /* waits for row 0 */
    r = request(0);
    run_write_request(f->w, &r);
    assert_ok(run_writer_close(&f->w, &f->e), &f->e);
    const char *text = written(f, "request_metrics.csv"), *line = strchr(text, '\n');
    assert_int_equal(strncmp(line - 16, ",warmup,energy_j", 16), 0);
    line = strchr(line + 1, '\n');
    assert_int_equal(strncmp(line - 3, ",0,", 3), 0);
    line = strchr(line + 1, '\n');
    assert_int_equal(strncmp(line - 7, ",0,12.5", 7), 0);
}

static void writes_sessions(void **state)
{
    struct fixture *f = *state;
    run_writer_discard(&f->w);
    artifact_discard(&f->art);
    assert_ok(
        artifact_begin(f->a, fs_join(f->a, f->tmp.dir, "r4"), "run_meta.json", &f->art, &f->e),
        &f->e);
    assert_ok(run_writer_open_with(&f->art, RUN_WITH_SESSIONS, &f->w, &f->e), &f->e);
    struct run_request r = request(0);
    r.session_id = r.turn = RUN_NONE;
    run_write_request(f->w, &r);
    r = request(1);
    r.session_id = 7;
    r.turn = 2;
    run_write_request(f->w, &r);
    assert_ok(run_writer_close(&f->w, &f->e), &f->e);
    const char *text = written(f, "request_metrics.csv");
    assert_non_null(strstr(text, ",warmup,session_id,turn\n"));
    assert_non_null(strstr(text, ",0,,\n1,"));
    assert_non_null(strstr(text, ",0,7,2\n"));
}

/* Texts come from servers: whatever they hold, the file stays readable. */
static void cleans_texts(void **state)
{
    struct fixture *f = *state;
    struct run_request r = request(0);
    r.error_msg = "bad \xff\xc3 byte";
    r.backend = "a,b";
    run_write_request(f->w, &r);
    assert_ok(run_writer_close(&f->w, &f->e), &f->e);
    const char *text = written(f, "request_metrics.csv");
    assert_string_equal(text + strlen(HEADER),
                        "0,1000,,,,10,5,0,ok,,,,,\"a,b\",,,bad \xEF\xBF\xBD\xEF\xBF\xBD byte,0\n");
}

/* In whatever order rows come, and with gaps and other first ids, the file is sorted. */
static void sorts_requests(void **state)
{
    struct fixture *f = *state;
    enum { N = 5000 };
    static int64_t ids[N];
    for (int64_t i = 0; i < N; i++)
        ids[i] = i < N / 2 ? i : i * 3;
    struct rng rng = rng_stream(3, "run_write_test.shuffle");
    for (size_t i = N; i > 1; i--) {
        size_t k = rng_below(&rng, i);
        int64_t t = ids[i - 1];
        ids[i - 1] = ids[k];
        ids[k] = t;
    }
    for (int i = 0; i < N; i++) {
        struct run_request r = request(ids[i]);
        run_write_request(f->w, &r);
    }
    assert_ok(run_writer_close(&f->w, &f->e), &f->e);
    const char *p = strchr(written(f, "request_metrics.csv"), '\n') + 1;
    for (int64_t i = 0; i < N; i++, p = strchr(p, '\n') + 1)
        assert_int_equal(strtoll(p, NULL, 10), i < N / 2 ? i : i * 3);
    assert_int_equal(*p, 0);
}

static void a_request_twice_is_an_error(void **state)
{
    struct fixture *f = *state;
    const int64_t ids[] = {0, 1, 2, 1, 3};
    for (int i = 0; i < 5; i++) {
        struct run_request r = request(ids[i]);
        run_write_request(f->w, &r);
    }
    assert_int_equal(run_writer_close(&f->w, &f->e), ST_INPUT);
    assert_cause(&f->e, "request_id 1 has more than one result");
    assert_null(f->w);
}

/* Every power of ten and its neighbours, against the C library. */
static void formats_integers(void **state)
{
    struct fixture *f = *state;
    struct buf want = {0};
    buf_puts(&want, "request_id,token_index,token_time_ns,token_latency_ns,token_id\n");
    int64_t power = 1;
    for (int i = 0; i < 19; i++) {
        for (int64_t v = power - 1; v <= power + 1; v++) {
            run_write_token(f->w, &(struct run_token){v, v, v, v, v});
            buf_printf(&want, "%lld,%lld,%lld,%lld,%lld\n", (long long)v, (long long)v,
                       (long long)v, (long long)v, (long long)v);
        }
        power = i < 18 ? power * 10 : 0;
    }
    assert_ok(run_writer_close(&f->w, &f->e), &f->e);
    assert_string_equal(written(f, "token_metrics.csv"), buf_str(&want));
    buf_free(&want);
}

static void names_every_status(void **state)
{
    (void)state;
    enum run_status s;
    for (int i = RUN_OK; i <= RUN_CANCELLED; i++) {
        assert_true(run_status_parse(sv_of(run_status_name((enum run_status)i)), &s));
        assert_int_equal(s, i);
    }
    assert_false(run_status_parse(SV("OK"), &s));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(writes_the_contract),
        CASE(leaves_out_files_not_wanted),
        CASE(writes_energy),
        CASE(writes_sessions),
        CASE(cleans_texts),
        CASE(sorts_requests),
        CASE(a_request_twice_is_an_error),
        CASE(formats_integers),
        cmocka_unit_test(names_every_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
