#include "job/range_energy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "support/support.h"

enum { RANGES = 6, SAMPLES = 101 };
static const int64_t SHIFT_NS = 1000 * NS_PER_S; /* the log's clock less the trace's */

/* 100 W until 5 s, 300 W from then on, a sample every 0.1 s. */
static struct power_log log_of(struct test *t)
{
    struct power_sample *p = arena_array(t->a, struct power_sample, SAMPLES);
    for (int i = 0; i < SAMPLES; i++)
        p[i] = (struct power_sample){SHIFT_NS + i * (NS_PER_S / 10), i < 50 ? 100 : 300, NAN};
    return (struct power_log){.p = p, .n = SAMPLES, .zoned = true};
}

static struct trace trace_of(struct test *t)
{
    static const char *const texts[] = {"", "decode", "prefill", "llm"};
    static const struct {
        uint32_t text, domain;
        double from_s, to_s;
    } rows[RANGES] = {{2, 0, 6, 8},      {1, 3, 1, 3},   {1, 3, 0.25, 0.5},
                      {1, 3, 3.5, 3.75}, {2, 0, 20, 30}, {1, 0, 0.5, 0.75}};
    struct trace x = {.n_ranges = RANGES};
    x.dict.strings = arena_array(t->a, struct sv, 4);
    x.ranges = arena_array(t->a, struct trace_range, RANGES);
    for (int i = 0; i < 4; i++)
        x.dict.strings[i] = (struct sv){texts[i], strlen(texts[i])};
    for (int i = 0; i < RANGES; i++)
        x.ranges[i] = (struct trace_range){.start_ns = ns_from_s(rows[i].from_s),
                                           .end_ns = ns_from_s(rows[i].to_s),
                                           .text = rows[i].text,
                                           .domain = rows[i].domain};
    return x;
}

static void long_ranges_have_energy_short_ones_the_reason(void **state)
{
    struct test *t = *state;
    const struct power_log log = log_of(t);
    const struct trace x = trace_of(t);
    size_t n;
    const struct range_energy *r = range_energy_of(t->a, &x, &log, SHIFT_NS, 1, &n);
    assert_int_equal(n, 5);
    assert_string_equal(r[0].range, "decode");
    assert_near(r[0].energy.joules, 200, 1e-6);
    assert_string_equal(r[1].range, "prefill");
    assert_near(r[1].energy.joules, 600, 1e-6);
    assert_int_equal(r[2].energy.how, ENERGY_EXCLUDED); /* behind the log */
    assert_string_equal(r[3].domain, "");
    assert_string_equal(r[4].domain, "llm");
    assert_int_equal(r[4].instances, 2);
    assert_near(r[4].duration_s, 0.5, 1e-9);
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    range_energy_write(f, r, n, 1);
    fclose(f);
    assert_string_equal(
        text, "range,domain,instances,start_ns,duration_s,energy_j,edge_j,counter_j,samples,"
              "mean_power_w,unknown_because\n"
              "decode,llm,1,1000000000,2,200,0,,21,100,\n"
              "prefill,,1,6000000000,2,600,0,,21,300,\n"
              "prefill,,1,20000000000,10,,,,0,,no sample of power\n"
              "decode,,1,500000000,0.25,,,,0,,\"shorter than 1 s, which the sensor needs\"\n"
              "decode,llm,2,250000000,0.5,,,,0,,\"shorter than 1 s, which the sensor needs\"\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(long_ranges_have_energy_short_ones_the_reason)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
