#include "artifact/vidur_metrics.h"

#include "support/support.h"

/* 10 prompt tokens and 6 outputs, restarted after 2 of them, so 12 + 4; arrived at 1 s, first batch
 * built at 2 s and started at 2.5 s, first token at 4 s, over at 10 s; 5 s in batches. */
static const struct run_request restarted = {.request_id = 3,
                                             .arrival_ns = 1000000000,
                                             .arrival_before_ns = 250000000,
                                             .scheduled_ns = 2000000000,
                                             .first_start_ns = 2500000000,
                                             .first_token_ns = 4000000000,
                                             .completion_ns = 10000000000,
                                             .num_prefill_tokens = 10,
                                             .num_decode_tokens = 6,
                                             .num_decode_tokens_actual = 6,
                                             .last_prefill_tokens = 12,
                                             .preemptions = 1,
                                             .busy_s = 5,
                                             .device_s = 4};

static void definitions(void **state)
{
    (void)state;
    const double want[VIDUR_COLUMNS] = {3,   9,        9 / 4.0, 5, 5 / 4.0,  4,       1,    2.5, 1,
                                        7.5, 7.5 / 4,  3,       2, 2 / 12.0, 6 / 4.0, 0.75, 16,  10,
                                        6,   10 / 6.0, 1};
    double got[VIDUR_COLUMNS];
    vidur_metrics_row(&restarted, got);
    for (int i = 0; i < VIDUR_COLUMNS; i++)
        assert_near_rel(got[i], want[i], 1e-15);
}

static void file(void **state)
{
    struct test *t = *state;
    struct artifact art;
    struct vidur_metrics *w;
    struct run_request first = restarted, failed = restarted, waiting = restarted;
    const char *dir = arena_str(t->a, test_path(t, "run"));
    first.request_id = 0;
    first.arrival_before_ns = RUN_NONE;
    failed.status = RUN_ERROR;
    waiting.first_start_ns = RUN_NONE;
    assert_ok(artifact_begin(t->a, dir, "run_meta.json", &art, &t->e), t);
    assert_ok(vidur_metrics_open(&art, &w, &t->e), t);
    vidur_metrics_write(w, &restarted);
    vidur_metrics_write(w, &failed);
    vidur_metrics_write(w, &waiting);
    vidur_metrics_write(w, &first);
    const char *path = artifact_path(t->a, &art, VIDUR_METRICS);
    assert_ok(vidur_metrics_close(&w, &t->e), t);
    assert_null(w);
    assert_ok(vidur_metrics_close(&w, &t->e), t);
    const char *text = test_read(t, path), *rows = strchr(text, '\n');
    assert_int_equal(strncmp(text, "Request Id,request_e2e_time,", 28), 0);
    assert_string_equal(rows, "\n3,9,2.25,5,1.25,4,1,2.5,1,7.5,1.875,3,2,0.16666666666666666,1.5,"
                              "0.75,16,10,6,1.6666666666666667,1\n"
                              "0,9,2.25,5,1.25,4,1,2.5,1,7.5,1.875,3,2,0.16666666666666666,1.5,"
                              ",16,10,6,1.6666666666666667,1\n");
    artifact_discard(&art);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(definitions), TEST(file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
