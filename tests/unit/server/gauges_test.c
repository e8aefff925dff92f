/* The text of /metrics, read as Prometheus reads it. */
#include "server/gauges.h"

#include <stdlib.h>

#include "support/support.h"

/* What one pass over the text knows. */
struct scrape {
    char family[64], type[16]; /* of the last # TYPE */
    double bucket;             /* the last one's count */
    bool inf;                  /* the histogram had its last bucket */
    int families, samples;
};

static void take_type(struct scrape *s, char *line)
{
    const char *name = strtok(line + strlen("# TYPE "), " "), *type = strtok(NULL, " ");
    assert_true(name && type);
    assert_true(strcmp(type, "gauge") == 0 || strcmp(type, "counter") == 0 ||
                strcmp(type, "histogram") == 0);
    const size_t n = strlen(name);
    assert_true((strcmp(type, "counter") == 0) == (n > 6 && strcmp(name + n - 6, "_total") == 0));
    snprintf(s->family, sizeof s->family, "%s", name);
    snprintf(s->type, sizeof s->type, "%s", type);
    s->bucket = 0;
    s->inf = false;
    s->families++;
}

static void take_sample(struct scrape *s, const char *line)
{
    const size_t n = strcspn(line, "{ ");
    const char *value = strrchr(line, ' ');
    char *end;
    assert_true(value && n >= strlen(s->family));
    assert_memory_equal(line, s->family, strlen(s->family)); /* below its own # TYPE */
    const double v = strtod(value + 1, &end);
    assert_true(end > value + 1 && *end == 0);
    const char *suffix = line + strlen(s->family);
    if (strcmp(s->type, "histogram") != 0) {
        assert_true(*suffix == ' ' || *suffix == '{');
    } else if (strncmp(suffix, "_bucket{le=\"", 12) == 0) {
        assert_true(v >= s->bucket);
        s->bucket = v;
        s->inf |= strstr(suffix, "\"+Inf\"") != NULL;
    } else if (strncmp(suffix, "_count ", 7) == 0) {
        assert_true(s->inf && !(v < s->bucket) && !(v > s->bucket));
    } else {
        assert_int_equal(strncmp(suffix, "_sum ", 5), 0);
    }
    s->samples++;
}

static struct scrape scrape(struct buf *text)
{
    struct scrape s = {0};
    char *save = NULL;
    assert_true(text->n > 0 && text->p[text->n - 1] == '\n');
    for (char *line = strtok_r(text->p, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (strncmp(line, "# TYPE ", 7) == 0)
            take_type(&s, line);
        else if (strncmp(line, "# HELP ", 7) != 0)
            take_sample(&s, line);
    }
    return s;
}

static void prometheus_reads_it(void **state)
{
    (void)state;
    struct gauges g = {.kv_blocks = 8, .replicas = {.kv_blocks_used = 2}};
    const double times[] = {0, 0.001, 0.4, 61, 1e9};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        gauges_observe(&g.ttft, times[i]);
    struct buf text = {0};
    gauges_write(&text, &g, "a \"model\" of\\one\nline");
    assert_non_null(strstr(text.p, "\ntwinfer_info{model=\"a \\\"model\\\" of\\\\one line\","));
    const struct scrape s = scrape(&text);
    assert_int_equal(s.families, 23);
    assert_true(s.samples > 3 * (GAUGE_BUCKETS + 3));
    buf_free(&text);
}

static void the_kv_cache_is_seen(void **state)
{
    (void)state;
    const struct gauges g = {.kv_blocks = 200,
                             .replicas = {.kv_blocks_used = 50,
                                          .preemptions = 3,
                                          .prefix_looked_tokens = 70,
                                          .prefix_hit_tokens = 32}};
    struct buf text = {0};
    gauges_write(&text, &g, "m");
    assert_non_null(strstr(text.p, "\ntwinfer_kv_blocks 200\n"));
    assert_non_null(strstr(text.p, "\ntwinfer_kv_blocks_used 50\n"));
    assert_non_null(strstr(text.p, "\ntwinfer_kv_cache_usage_perc 0.25\n"));
    assert_non_null(strstr(text.p, "\ntwinfer_num_preemptions_total 3\n"));
    assert_non_null(strstr(text.p, "\ntwinfer_prefix_cache_queries_total 70\n"));
    assert_non_null(strstr(text.p, "\ntwinfer_prefix_cache_hits_total 32\n"));
    buf_free(&text);
}

/* A server that has run for long: what one request adds is not rounded away. */
static void sums_keep_a_millisecond_beside_months(void **state)
{
    (void)state;
    struct gauges g = {.kv_blocks = 8};
    struct buf text = {0};
    gauges_observe(&g.e2e, 1e7);
    gauges_observe(&g.e2e, 0.001);
    gauges_write(&text, &g, "m");
    assert_non_null(
        strstr(buf_str(&text), "twinfer_e2e_request_latency_seconds_sum 10000000.001\n"));
    buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(prometheus_reads_it), TEST(the_kv_cache_is_seen),
                                       TEST(sums_keep_a_millisecond_beside_months)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
