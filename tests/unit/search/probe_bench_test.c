#include "search/probe_bench.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "search/capacity_result.h"
#include "support/support.h"

/* A program in bench's place: one server, 10 ms a request, 100 requests at equal distances. So up
 * to 100 requests/s nobody waits, and above request i waits i (10 ms - 1 / rate). */
static const char server[] =
    "#!/bin/sh\n"
    "for word; do case $word in\n"
    "    out=*) out=${word#out=} ;;\n"
    "    workload.arrival.rate=*) rate=${word#*=} ;;\n"
    "    seed=*) seed=${word#*=} ;;\n"
    "esac done\n"
    "echo \"$rate $seed $*\" >>'CALLS'\n"
    "mkdir \"$out\"\n"
    "awk -v rate=\"$rate\" 'BEGIN {\n"
    "    print \"request_id,arrival_time_ns,first_token_time_ns,ttft_ns,completion_time_ns,\" \\\n"
    "          \"num_prefill_tokens,num_decode_tokens,num_decode_tokens_actual,status\"\n"
    "    for (i = 0; i < 100; i++) {\n"
    "        at = i / rate; begin = at > free ? at : free; free = begin + 0.01\n"
    "        printf \"%d,%.0f,%.0f,%.0f,%.0f,5,1,1,ok\\n\", i, at * 1e9, free * 1e9,\n"
    "               free * 1e9 - at * 1e9, free * 1e9\n"
    "    }\n"
    "}' >\"$out/request_metrics.csv\"\n"
    "echo '{\"schema_version\": 1, \"run_type\": \"real\"CLIENT}' >\"$out/run_meta.json\"\n"
    "exit CODE\n";

struct bench {
    struct slo slo;
    struct probe_bench_params p;
    struct rate_probe probe;
    int workloads; /* words() was asked */
    bool scratch;  /* it leaves something there */
};

static double span_s(void *self, uint64_t seed)
{
    (void)self, (void)seed;
    return 99;
}

static enum st words(void *self, struct arena *a, double rate, uint64_t seed, const char *scratch,
                     const char **out, size_t *n, struct err *e)
{
    (void)seed;
    struct bench *b = self;
    b->workloads++;
    if (b->scratch)
        TRY(fs_mkdirs(scratch, e));
    out[(*n)++] = arena_printf(a, "workload.arrival.rate=%.17g", rate);
    return ST_OK;
}

static const char *replaced(struct test *t, const char *text, const char *what, const char *by)
{
    const char *at = strstr(text, what);
    return at ? arena_printf(t->a, "%.*s%s%s", (int)(at - text), text, by, at + strlen(what))
              : text;
}

static void program(struct test *t, const char *text)
{
    text = replaced(t, text, "CALLS", test_path(t, "calls"));
    assert_int_equal(chmod(test_write(t, "bench", text), 0700), 0);
}

static struct bench *open_bench(struct test *t, const char *text)
{
    struct bench *b = arena_one(t->a, struct bench);
    program(t, text);
    b->slo = (struct slo){.fraction = 0.99};
    for (int i = 0; i < SLO_METRICS; i++)
        b->slo.limit_s[i] = (double)INFINITY;
    b->slo.limit_s[SLO_TTFT] = 0.05;
    b->p = (struct probe_bench_params){.engine = "made up",
                                       .program = test_path(t, "bench"),
                                       .config_dir = test_dir(t),
                                       .config_name = "probe",
                                       .config_text = "a: 1\n",
                                       .dir = test_path(t, "probes"),
                                       .timeout_s = 60,
                                       .slo = &b->slo,
                                       .span_s = span_s,
                                       .words = words,
                                       .self = b};
    assert_ok(fs_mkdirs(b->p.dir, &t->e), t);
    b->probe = probe_bench_open(&b->p);
    return b;
}

static enum st ask(struct bench *b, double rate, uint64_t seed, struct probe_result *r,
                   struct err *e)
{
    return b->probe.ops->run(b->probe.self, rate, seed, r, e);
}

static int calls(struct test *t)
{
    int n = 0;
    if (!fs_exists(test_path(t, "calls")))
        return 0;
    for (const char *s = test_read(t, test_path(t, "calls")); *s; s++)
        n += *s == '\n';
    return n;
}

static const char *plain(struct test *t)
{
    return replaced(t, replaced(t, server, "CLIENT", ""), "CODE", "0");
}

static void a_server_of_known_speed_has_that_capacity(void **state)
{
    struct test *t = *state;
    struct bench *b = open_bench(t, plain(t));
    struct capacity_params p = {
        .slo = b->slo, .tolerance = 0.01, .start_rate = 40, .seeds = 1, .seed = 3};
    struct capacity_seed s;
    assert_ok(capacity_bisect(t->a, &p, &b->probe, 3, &s, &t->e), t);
    /* 99 of 100 must have waited for 40 ms at most: 98 (10 ms - 1 / rate) <= 40 ms */
    double capacity = 1 / (0.01 - 0.04 / 98);
    assert_true(s.low <= capacity && s.high > capacity && s.high <= s.low * 1.01);
    assert_int_equal(s.end, CAPACITY_BROKEN);
    assert_true(isnan(s.flood_per_s)); /* nobody floods a real engine */
    assert_true(isnan(s.probes[0].r.client_delay_p99_s));
    assert_int_equal(calls(t), s.n);
    assert_string_equal(b->probe.ops->name, "made up");
    probe_bench_close(&b->probe);
}

static void the_command_line_says_what_differs(void **state)
{
    struct test *t = *state;
    struct bench *b = open_bench(t, plain(t));
    struct probe_result r;
    b->scratch = true;
    assert_ok(ask(b, 12.5, 7, &r, &t->e), t);
    assert_near(r.requests, 100, 0);
    assert_near(r.latency_s[SLO_TTFT][0], 0.01, 1e-9);
    assert_near(r.early_delay_s, 0.01, 1e-9); /* of TTFT: nobody says when a batch began */
    const char **names;
    size_t n;
    assert_ok(fs_list(t->a, b->p.dir, &names, &n, &t->e), t);
    assert_int_equal(n, 1); /* the run; what was made for it is gone */
    const char *want = arena_printf(t->a,
                                    "12.5 7 bench --config-dir %s --config-name probe out=%s/%s "
                                    "seed=7 workload.arrival.rate=12.5\n",
                                    test_dir(t), b->p.dir, names[0]);
    assert_string_equal(test_read(t, test_path(t, "calls")), want);
    probe_bench_close(&b->probe);
}

static void what_was_measured_is_not_measured_again(void **state)
{
    struct test *t = *state;
    struct bench *b = open_bench(t, plain(t));
    struct probe_result first, again;
    assert_ok(ask(b, 110, 1, &first, &t->e), t);
    assert_ok(ask(b, 110, 1, &again, &t->e), t);
    assert_int_equal(calls(t), 1);
    assert_memory_equal(&first.latency_s, &again.latency_s, sizeof first.latency_s);
    probe_bench_close(&b->probe);
    /* A later search, elsewhere, takes it along; one with other settings does not. */
    b->p.resume = b->p.dir;
    b->p.dir = test_path(t, "later");
    assert_ok(fs_mkdirs(b->p.dir, &t->e), t);
    b->p.config_text = "a: 2\n";
    b->probe = probe_bench_open(&b->p);
    assert_ok(ask(b, 110, 1, &again, &t->e), t);
    assert_int_equal(calls(t), 2);
    probe_bench_close(&b->probe);
    b->p.config_text = "a: 1\n";
    b->probe = probe_bench_open(&b->p);
    assert_ok(ask(b, 110, 1, &again, &t->e), t);
    assert_int_equal(calls(t), 2);
    assert_memory_equal(&first.latency_s, &again.latency_s, sizeof first.latency_s);
    assert_ok(ask(b, 110, 2, &again, &t->e), t);
    assert_int_equal(calls(t), 3);
    probe_bench_close(&b->probe);
}

static void a_busy_machine_is_told(void **state)
{
    struct test *t = *state;
    const char *busy =
        replaced(t, server, "CLIENT", ", \"contention\": {\"waiting\": 0.2, \"stolen\": 0.1}");
    struct bench *b = open_bench(t, replaced(t, busy, "CODE", "0"));
    struct capacity_probe p = {.rate = 20};
    assert_ok(ask(b, 20, 0, &p.r, &t->e), t);
    assert_near(p.r.contention, 0.3, 1e-12);
    struct capacity_seed s = {.low = 20, .high = 21, .probes = &p, .n = 1};
    struct capacity_result r = {.seeds = &s, .n_seeds = 1, .sum = {.rate = 20}};
    capacity_notes(t->a, &r, NULL, 0);
    assert_string_equal(r.notes[0],
                        "In 1 probes the machine was busy with something else (over 5 % "
                        "of the time a core was needed, there was none): what failed "
                        "there may not be the engine's.");
    probe_bench_close(&b->probe);
}

/* At 20 requests/s the server above answers in time; at 2000 most wait for longer than the limit.
 */
static void a_late_client_is_given_a_second_chance(void **state)
{
    struct test *t = *state;
    const char *text = replaced(t, server, "CLIENT",
                                ", \"client\": {\"verdict\": \"rejected\", "
                                "\"schedule_delay_p99_ms\": 31}");
    struct bench *b = open_bench(t, replaced(t, text, "CODE", "5"));
    struct probe_result r;
    assert_ok(ask(b, 20, 0, &r, &t->e), t);
    assert_int_equal(calls(t), 1); /* late, and the objective held all the same */
    assert_near(r.unhealthy, 1, 0);
    assert_near(r.client_delay_p99_s, 0.031, 1e-12);
    assert_near(r.good, 1, 0);
    assert_true(capacity_holds(&b->slo, &r));
    assert_ok(ask(b, 2000, 0, &r, &t->e), t);
    assert_int_equal(calls(t), 3);
    assert_near(r.unhealthy, 1, 0);
    assert_true(r.good < 0.99);
    assert_true(capacity_undecided(&b->slo, &r));
    probe_bench_close(&b->probe);
}

/* A search of minutes does not look as if it hung. */
static void a_probe_says_that_it_began(void **state)
{
    struct test *t = *state;
    struct bench *b = open_bench(t, plain(t));
    struct probe_result r;
    const char *path = test_path(t, "said");
    fflush(stderr);
    const int old = dup(STDERR_FILENO), file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(old >= 0 && file >= 0 && dup2(file, STDERR_FILENO) >= 0);
    const enum st st = ask(b, 20, 7, &r, &t->e);
    fflush(stderr);
    assert_true(dup2(old, STDERR_FILENO) >= 0);
    close(old);
    close(file);
    assert_ok(st, t);
    const char *said = test_read(t, path), *asked = strstr(said, "asked, for 5 s or more"),
               *holds = strstr(said, "20 requests/s, seed 7: holds, 100.0 % of 100 good");
    assert_true(asked && holds && asked < holds);
    probe_bench_close(&b->probe);
}

static void a_bench_that_fails_ends_the_search_with_its_words(void **state)
{
    struct test *t = *state;
    struct bench *b = open_bench(t, "#!/bin/sh\n"
                                    "echo 'twinfer: bench' >&2\n"
                                    "echo '  because: nobody answers' >&2\n"
                                    "echo '  hint: is it running?' >&2\n"
                                    "exit 4\n");
    struct probe_result r;
    assert_err(ask(b, 20, 0, &r, &t->e), ST_DEVICE, t,
               "bench at 20 requests/s ended with exit code 4\n"
               "nobody answers\n"
               "hint: is it running?");
    err_clear(&t->e);
    program(t, "#!/bin/sh\necho 'no memory' >&2\nkill -9 $$\n");
    assert_err(ask(b, 20, 0, &r, &t->e), ST_DEVICE, t,
               "bench at 20 requests/s was killed by signal 9\n"
               "no memory");
    probe_bench_close(&b->probe);
}

static void a_probe_has_a_time_limit(void **state)
{
    struct test *t = *state;
    struct bench *b = open_bench(t, "#!/bin/sh\nexec sleep 600\n");
    struct probe_result r;
    probe_bench_close(&b->probe);
    b->p.timeout_s = 0.3;
    b->probe = probe_bench_open(&b->p);
    assert_near(b->probe.ops->least_rate(b->probe.self, 0), 99 / 0.3, 1e-9);
    assert_ok(ask(b, 20, 0, &r, &t->e), t);
    assert_near(r.timed_out, 1, 0);
    assert_near(r.unhealthy, 0, 0);
    assert_true(isnan(r.good));
    assert_false(capacity_holds(&b->slo, &r));
    probe_bench_close(&b->probe);
}

static void a_signal_ends_the_child_too(void **state)
{
    struct test *t = *state;
    struct bench *b = open_bench(
        t, "#!/bin/sh\ntrap 'echo stopped >>\"CALLS\"; exit 130' TERM\nsleep 600 & wait\n");
    static const volatile sig_atomic_t stop = 1;
    struct probe_result r;
    probe_bench_close(&b->probe);
    b->p.stop = &stop;
    b->probe = probe_bench_open(&b->p);
    assert_err(ask(b, 20, 0, &r, &t->e), ST_INTERRUPTED, t, "interrupted at 20 requests/s");
    probe_bench_close(&b->probe);
}

static void a_delay_that_nobody_tells_is_no_limit(void **state)
{
    struct test *t = *state;
    struct bench *b = open_bench(t, plain(t));
    struct probe_result r;
    b->slo.limit_s[SLO_DELAY] = 5;
    assert_err(
        ask(b, 20, 0, &r, &t->e), ST_USAGE, t,
        "slo: engine made up does not say when the first batch of a request begins: delay is "
        "no limit here\n"
        "hint: slo=ttft:MS,tpot:MS");
    probe_bench_close(&b->probe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_server_of_known_speed_has_that_capacity),
        TEST(the_command_line_says_what_differs),
        TEST(what_was_measured_is_not_measured_again),
        TEST(a_busy_machine_is_told),
        TEST(a_late_client_is_given_a_second_chance),
        TEST(a_probe_says_that_it_began),
        TEST(a_bench_that_fails_ends_the_search_with_its_words),
        TEST(a_probe_has_a_time_limit),
        TEST(a_signal_ends_the_child_too),
        TEST(a_delay_that_nobody_tells_is_no_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
