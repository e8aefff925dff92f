/* Batches of a real run from the log of its server's iterations. */
#include <math.h>
#include <string.h>

#include "compare/compare.h"
#include "support/fake_run.h"

/* What a server that made these batches would log, which waits for all but a fifth of each. */
static const char *log_of_batches(struct test *t, const char *dir)
{
    struct run r;
    struct buf text = {0};
    assert_ok(run_load(t->a, dir, NULL, &r, &t->e), t);
    for (size_t i = 0; i < r.n_batches; i++) {
        const struct run_batch *b = &r.batches[i];
        buf_printf(&text,
                   "INFO 11-27 10:11:12 [core.py:345] Iteration(%zu): %lld context requests, %lld "
                   "context tokens, %lld generation requests, %lld generation tokens, iteration "
                   "elapsed time: %.2f ms\n",
                   i, (long long)(b->batch_size - b->num_decode_tokens),
                   (long long)b->num_prefill_tokens, (long long)b->num_decode_tokens,
                   (long long)b->num_decode_tokens, 0.8e-6 * (double)b->duration_ns);
    }
    const char *copy = arena_str(t->a, buf_str(&text));
    buf_free(&text);
    return copy;
}

struct fixture {
    const char *real, *sim, *log; /* runs, and the log's text */
};

static struct fixture two_runs(struct test *t)
{
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    sim.base_s *= 1.3;
    const struct fixture f = {
        .log = log_of_batches(t, fake_run_write(t, "with_batches", &real)),
        .sim = fake_run_write(t, "sim", &sim),
    };
    real.no_batches = real.no_tokens = true;
    return (struct fixture){fake_run_write(t, "real", &real), f.sim, f.log};
}

static enum st compare_two(struct test *t, const struct fixture *f, const char *log,
                           struct comparison *c)
{
    const struct compare_params p = {.real_dir = f->real,
                                     .sim_dir = f->sim,
                                     .iteration_log = log,
                                     .pass_percent = 5,
                                     .warn_percent = 9};
    err_clear(&t->e);
    return compare_runs(t->a, &p, c, &t->e);
}

static bool has_note(const struct comparison *c, const char *begin)
{
    for (size_t i = 0; i < c->n_notes; i++)
        if (strncmp(c->notes[i], begin, strlen(begin)) == 0)
            return true;
    return false;
}

static void check_batches(const struct comparison *c)
{
    assert_true(has_note(c, "Batches of the real run are of "));
    assert_true(has_note(c, "Times of these batches: the server scheduled synchronously; "));
    assert_true(has_note(c, "Batches: "));
    assert_true(c->diagnosed && c->n_parts > 3);
    const struct compare_part *decode = c->parts;
    while (strcmp(decode->name, "decode batches") != 0)
        decode++;
    assert_true(decode->real_n > 100 && decode->real_s > 0);
    assert_true(isnan(decode->real_host_s) && isnan(decode->real_device_s));
    assert_true(decode->sim_s > decode->real_s * 1.1 && decode->sim_s < decode->real_s * 1.4);
    for (size_t i = 0; i < c->n_findings; i++)
        assert_null(strstr(c->findings[i], "time between batches"));
}

static void a_log_stands_for_batches(void **state)
{
    struct test *t = *state;
    struct comparison *c = arena_one(t->a, struct comparison);
    const struct fixture f = two_runs(t);
    const char *log = test_write(t, "server.log", f.log);
    assert_ok(compare_two(t, &f, log, c), t);
    check_batches(c);
    test_write(t, "real/iterations.log", f.log); /* beside the run it is found */
    assert_ok(compare_two(t, &f, NULL, c), t);
    check_batches(c);
}

static void wrong_logs_are_refused(void **state)
{
    struct test *t = *state;
    struct comparison *c = arena_one(t->a, struct comparison);
    struct fake_run other = fake_run_default("real");
    struct fixture f = two_runs(t);
    other.workload_seed++;
    const char *log =
        test_write(t, "other.log", log_of_batches(t, fake_run_write(t, "other", &other)));
    assert_int_equal(compare_two(t, &f, log, c), ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 0), "other.log does not belong to the run "));
    f.real = test_path(t, "with_batches");
    assert_int_equal(compare_two(t, &f, log, c), ST_USAGE);
    assert_non_null(strstr(err_cause(&t->e, 0), "has its batches in batches.csv"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_log_stands_for_batches),
        TEST(wrong_logs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
