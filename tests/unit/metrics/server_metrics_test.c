/* Names of servers, the run's own part, the file, and the split of first tokens. */
#include <math.h>

#include "metrics/server_metrics.h"
#include "support/support.h"
#include "text/gz.h"
#include "text/json.h"

static struct prom_snapshot snapshot(struct test *t, const char *text)
{
    struct prom_snapshot s;
    assert_ok(prom_parse(t->a, "http://h/metrics", sv_of(text), &s, &t->e), t);
    return s;
}

/* n observations below `edge` that sum to `sum`. */
static const char *histogram(struct test *t, const char *name, double edge, int n, double sum)
{
    return arena_printf(t->a,
                        "# TYPE %s histogram\n"
                        "%s_bucket{engine=\"0\",le=\"%g\",model_name=\"m\"} %d\n"
                        "%s_bucket{engine=\"0\",le=\"+Inf\",model_name=\"m\"} %d\n"
                        "%s_count{engine=\"0\",model_name=\"m\"} %d\n"
                        "%s_sum{engine=\"0\",model_name=\"m\"} %.17g\n",
                        name, name, edge, n, name, n, name, n, name, sum);
}

/* vLLM after n requests, with the sums of its histograms. Old: of a version before 0.9. */
static struct prom_snapshot vllm(struct test *t, bool old, int n, double ttft, double queue,
                                 double prefill)
{
    const char *gap =
        old ? "vllm:time_per_output_token_seconds" : "vllm:inter_token_latency_seconds";
    const char *cache = old ? "vllm:gpu_prefix_cache" : "vllm:prefix_cache";
    return snapshot(t,
                    arena_printf(t->a,
                                 "%s%s%s%s%s%s_queries_total{engine=\"0\"} %d\n"
                                 "%s_hits_total{engine=\"0\"} %d\n",
                                 histogram(t, "vllm:time_to_first_token_seconds", 0.04, n, ttft),
                                 histogram(t, "vllm:request_queue_time_seconds", 0.3, n, queue),
                                 histogram(t, "vllm:request_prefill_time_seconds", 0.3, n, prefill),
                                 histogram(t, "vllm:e2e_request_latency_seconds", 2.5, n, n),
                                 histogram(t, gap, 0.01, 10 * n, 10 * n * 0.007), cache, 512 * n,
                                 cache, 16 * n));
}

/* Of ten requests, after five that were slow. */
static void make(struct test *t, bool old, int64_t requests, struct server_metrics *m)
{
    const struct prom_snapshot one = vllm(t, old, 5, 4.5, 4.5, 4.5);
    const struct prom_snapshot two = vllm(t, old, 15, 4.75, 4.51, 4.7);
    *m = (struct server_metrics){
        .url = "http://h/metrics", .client = {requests, 0.030, 1.0}, .waited_s = 0.1};
    assert_ok(server_metrics_make(t->a, &one, &two, m, &t->e), t);
}

static void names_of_versions_have_one_meaning(void **state)
{
    struct test *t = *state;
    struct server_metrics m;
    for (int old = 0; old < 2; old++) {
        make(t, old, 10, &m);
        assert_string_equal(m.server, "vllm");
        assert_string_equal(m.of[SERVER_ITL].metric, old ? "vllm:time_per_output_token_seconds"
                                                         : "vllm:inter_token_latency_seconds");
        assert_near(m.of[SERVER_ITL].count, 100, 0);
        assert_near(m.of[SERVER_ITL].mean, 0.007, 1e-12);
        assert_near(m.counters[SERVER_CACHE_QUERIES].value, 5120, 0);
        assert_near(m.counters[SERVER_CACHE_HITS].value, 160, 0);
        assert_null(m.counters[SERVER_PREEMPTIONS].metric);
        assert_null(m.of[SERVER_DECODE].metric);
        assert_near(m.of[SERVER_TTFT].mean, 0.025, 1e-12);
        assert_near(m.of[SERVER_TTFT].p50_low, 0, 0);
        assert_near(m.of[SERVER_TTFT].p50_high, 0.04, 0);
        assert_true(m.alone && !m.why);
    }
    const struct prom_snapshot sglang =
        snapshot(t, histogram(t, "sglang:e2e_request_latency_seconds", 1, 3, 2));
    assert_string_equal(server_metrics_known(&sglang), "sglang");
    const struct prom_snapshot other = snapshot(t, "tgi_queue_size 5\n");
    assert_null(server_metrics_known(&other));
    assert_int_equal(server_metrics_make(t->a, &other, &other, &m, &t->e), ST_INPUT);
    assert_cause(&t->e, "http://h/metrics: no metrics of a server that is known");
}

static void first_tokens_are_split(void **state)
{
    struct test *t = *state;
    struct server_metrics m;
    struct first_token_split s;
    const char *why;
    make(t, false, 10, &m);
    assert_true(first_token_split(t->a, &m, &s, &why));
    assert_near(s.queue_s, 0.001, 1e-12);
    assert_near(s.prefill_s, 0.020, 1e-12);
    assert_near(s.front_s, 0.004, 1e-12);
    assert_near(s.outside_s, 0.005, 1e-12);
    assert_near(s.queue_s + s.prefill_s + s.front_s + s.outside_s, s.client_s, 1e-12);
    assert_string_equal(first_token_words(t->a, &s),
                        "30.00 ms: queue 1.00, prefill 20.00, server's front 4.00, outside the "
                        "server 5.00; means of 10 requests");
}

static void requests_of_others_are_told(void **state)
{
    struct test *t = *state;
    struct server_metrics m;
    struct first_token_split s;
    const char *why;
    make(t, false, 9, &m);
    assert_false(m.alone);
    assert_false(first_token_split(t->a, &m, &s, &why));
    assert_string_equal(why, "the server counted 10 requests that ended, the client 9 that ended "
                             "well");
}

static void a_missing_part_is_told(void **state)
{
    struct test *t = *state;
    struct server_metrics m;
    struct first_token_split s;
    const char *why;
    make(t, false, 10, &m);
    m.of[SERVER_PREFILL].metric = NULL;
    assert_false(first_token_split(t->a, &m, &s, &why));
    assert_string_equal(why, "vllm has no metric of prefill");
    make(t, false, 10, &m);
    m.of[SERVER_QUEUE].count = 8;
    assert_false(first_token_split(t->a, &m, &s, &why));
    assert_string_equal(why, "vllm:request_queue_time_seconds counts 8 requests, the client 10");
}

static void the_file_reads_back(void **state)
{
    struct test *t = *state;
    struct server_metrics m;
    const struct server_metrics *back;
    struct first_token_split s;
    struct buf text = {0};
    const char *why;
    make(t, false, 10, &m);
    assert_ok(server_metrics_load(t->a, test_dir(t), &back, &t->e), t);
    assert_null(back);
    const struct node *doc = server_metrics_node(t->a, &m);
    assert_near(node_path(doc, "first_token.prefill_s")->f, 0.020, 1e-12);
    assert_near(node_path(doc, "histograms.ttft.p90")->items[1]->f, 0.04, 0);
    assert_int_equal(node_path(doc, "histograms.decode.metric")->kind, NODE_NULL);
    json_write(&text, doc, 2, true);
    test_write(t, SERVER_METRICS, buf_str(&text));
    assert_ok(server_metrics_load(t->a, test_dir(t), &back, &t->e), t);
    assert_non_null(back);
    assert_true(first_token_split(t->a, back, &s, &why));
    assert_near(s.front_s, 0.004, 1e-12);
    assert_null(back->of[SERVER_DECODE].metric);
    assert_true(isnan(back->of[SERVER_DECODE].mean));
    buf_free(&text);
    test_write(t, SERVER_METRICS, "{\"url\": \"u\", \"server\": \"vllm\", \"alone\": true}");
    assert_int_equal(server_metrics_load(t->a, test_dir(t), &back, &t->e), ST_INPUT);
}

static struct prom_snapshot recorded(struct test *t, const char *name)
{
    static const char dir[] = "data/vllm_h200/runs/Llama-3.1-8B_a3";
    struct gz_file f;
    assert_ok(gz_open(arena_printf(t->a, "%s/%s", dir, name), &f, &t->e), t);
    const struct prom_snapshot s = snapshot(t, arena_strn(t->a, f.text.p, f.text.n));
    gz_close(&f);
    return s;
}

/* What a real vLLM 0.24 wrote around 150 requests and one that the client asked before them. */
static void a_real_server_is_read(void **state)
{
    struct test *t = *state;
    const struct prom_snapshot before = recorded(t, "metrics_before.txt.gz"),
                               after = recorded(t, "metrics_after.txt.gz");
    struct server_metrics m = {.url = "http://h/metrics", .client = {151, 0.0251, 1.0}};
    struct first_token_split split;
    const char *why;
    assert_ok(server_metrics_make(t->a, &before, &after, &m, &t->e), t);
    assert_string_equal(m.server, "vllm");
    assert_true(m.alone);
    for (int i = 0; i < SERVER_STATS; i++)
        assert_non_null(m.of[i].metric);
    for (int i = 0; i < SERVER_COUNTERS; i++)
        assert_non_null(m.counters[i].metric);
    assert_near(m.of[SERVER_TTFT].mean, 23.00e-3, 5e-6);
    assert_true(m.of[SERVER_TTFT].p50_low >= 0.02 && m.of[SERVER_TTFT].p50_high <= 0.04);
    assert_true(first_token_split(t->a, &m, &split, &why));
    assert_near(split.prefill_s, 18.63e-3, 5e-6);
    assert_near(split.queue_s, 0.01e-3, 5e-6);
    assert_near(split.outside_s, 2.10e-3, 5e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(names_of_versions_have_one_meaning),
        TEST(first_tokens_are_split),
        TEST(requests_of_others_are_told),
        TEST(a_missing_part_is_told),
        TEST(the_file_reads_back),
        TEST(a_real_server_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
