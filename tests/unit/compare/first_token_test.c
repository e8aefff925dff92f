/* First tokens of a real run beside those of a simulated one, by what the server counted. */
#include <string.h>

#include "compare/compare.h"
#include "metrics/server_metrics.h"
#include "support/fake_run.h"

#define STAT(name, count, mean)                                                           \
    "\"" name "\": {\"metric\": \"vllm:" name "\", \"count\": " count ", \"mean\": " mean \
    ", \"p50\": [0, 0.3], \"p90\": [0, 0.3]}"

static const char *file(struct test *t, const char *count, bool alone)
{
    return arena_printf(t->a,
                        "{\"schema_version\": 1, \"url\": \"u\", \"server\": \"vllm\", \"alone\": "
                        "%s, \"why\": null, \"client\": {\"requests\": 160, \"ttft_s\": 0.03, "
                        "\"e2e_s\": 1}, \"counters\": {}, \"histograms\": {%s, %s, %s}}",
                        alone ? "true" : "false",
                        arena_printf(t->a, STAT("ttft", "%s", "0.025"), count),
                        STAT("queue", "160", "0.001"), STAT("prefill", "160", "0.02"));
}

static struct compare_params two_runs(struct test *t)
{
    const struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    return (struct compare_params){.real_dir = fake_run_write(t, "real", &real),
                                   .sim_dir = fake_run_write(t, "sim", &sim),
                                   .pass_percent = 5,
                                   .warn_percent = 9};
}

static struct comparison compare_beside(struct test *t, const char *metrics)
{
    struct comparison c;
    const struct compare_params p = two_runs(t);
    if (metrics)
        test_write(t, "real/" SERVER_METRICS, metrics);
    assert_ok(compare_runs(t->a, &p, &c, &t->e), t);
    return c;
}

static const char *note_of(const struct comparison *c, const char *begin)
{
    for (size_t i = 0; i < c->n_notes; i++)
        if (strncmp(c->notes[i], begin, strlen(begin)) == 0)
            return c->notes[i];
    return NULL;
}

static void both_sides_are_told(void **state)
{
    struct test *t = *state;
    const struct comparison c = compare_beside(t, file(t, "160", true));
    assert_string_equal(note_of(&c, "First tokens"),
                        "First tokens of the real run by its server's own metrics "
                        "(server_metrics.json): 30.00 ms: queue 1.00, prefill 20.00, server's "
                        "front 4.00, outside the server 5.00; means of 160 requests.");
    const char *other = note_of(&c, "Those of the other run: ");
    assert_non_null(other);
    assert_non_null(strstr(other, "; means of 160 requests."));
}

static void counts_of_others_are_told(void **state)
{
    struct test *t = *state;
    const struct comparison c = compare_beside(t, file(t, "161", false));
    assert_string_equal(note_of(&c, "First tokens"),
                        "First tokens are not split by the server's own metrics: the server "
                        "counted other requests too.");
}

static void a_server_without_the_parts_is_passed_over(void **state)
{
    struct test *t = *state;
    const struct comparison c = compare_beside(t, file(t, "159", true));
    assert_null(note_of(&c, "First tokens"));
}

static void no_file_is_no_note(void **state)
{
    struct test *t = *state;
    const struct comparison c = compare_beside(t, NULL);
    assert_null(note_of(&c, "First tokens"));
}

static void a_damaged_file_is_named(void **state)
{
    struct test *t = *state;
    struct comparison c;
    const struct compare_params p = two_runs(t);
    test_write(t, "real/" SERVER_METRICS, "{\"url\": 3}");
    assert_err(compare_runs(t->a, &p, &c, &t->e), ST_INPUT, t,
               "DIR/real/server_metrics.json:1:9: url: expected a string, got an integer");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(both_sides_are_told),
        TEST(counts_of_others_are_told),
        TEST(a_server_without_the_parts_is_passed_over),
        TEST(no_file_is_no_note),
        TEST(a_damaged_file_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
