#include "base/fs.h"
#include "profile/passes.h"
#include "profile/read/bundle.h"
#include "support/support.h"
#include "text/csv.h"
#include "text/json.h"

/* An engine whose times are a formula; it may refuse, and tire of work. */
struct made {
    int64_t most;   /* sequences; more are refused */
    double first_s; /* more for the first pass of a prompt */
    bool device;    /* tells its device's time */
    int64_t runs, passes, stop_at;
    volatile sig_atomic_t stop;
    uint32_t seen; /* kinds */
    struct passes_point points[100];
    int n_seen;
};

/* The batch was there before. */
static bool seen_before(struct made *m, const struct passes_point *p)
{
    for (int i = 0; i < m->n_seen; i++)
        if (m->points[i].decodes == p->decodes && m->points[i].kv == p->kv &&
            m->points[i].chunk == p->chunk)
            return true;
    assert_true(m->n_seen < 100);
    m->points[m->n_seen++] = *p;
    return false;
}

static double time_of(const struct passes_point *p)
{
    return 1e-3 + 1e-5 * (double)(p->chunk + p->decodes) + 1e-8 * (double)(p->decodes * p->kv);
}

static enum st run(void *self, const struct passes_point *p, int64_t warmup, int64_t n,
                   double *total_s, double *device_s, const char **why, struct err *e)
{
    struct made *m = self;
    (void)e;
    assert_true(n >= 1 && n <= PASSES_VISIT && warmup >= 0);
    m->seen |= passes_kind_of(p);
    m->passes += n;
    m->stop = ++m->runs == m->stop_at;
    if (p->decodes > m->most) {
        *why = "too many";
        return ST_END;
    }
    for (int64_t i = 0; i < n; i++) {
        total_s[i] = time_of(p) * (n > 1 && i == 0 ? 1.5 : 1); /* the first of a visit is slow */
        total_s[i] += i == 0 && !warmup && p->chunk && !seen_before(m, p) ? m->first_s : 0;
        device_s[i] = m->device ? 0.75 * time_of(p) : -1;
    }
    return ST_OK;
}

static struct passes_params params(struct test *t, struct made *m)
{
    return (struct passes_params){.to = {.root = test_dir(t),
                                         .hardware = "h",
                                         .model_name = "m",
                                         .tp = 1,
                                         .method = "passes"},
                                  .limits = {256, 16, 300},
                                  .kinds = PASSES_DECODE | PASSES_PROMPT,
                                  .samples = 7,
                                  .warmup = 2,
                                  .stop = &m->stop};
}

static void the_grid_covers_its_limits(void **state)
{
    struct test *t = *state;
    const struct passes_limits l = {1024, 48, 2000};
    const uint32_t all = PASSES_DECODE | PASSES_PROMPT | PASSES_CHUNK | PASSES_MIXED;
    uint32_t seen = 0, coarse = 0;
    int64_t decodes = 0, kv = 0, chunk = 0, before = 0;
    size_t n;
    const struct passes_point *p = passes_grid(t->a, &l, all, &n);
    for (size_t i = 0; i < n; i++) {
        assert_true(i == 0 || p[i].level >= p[i - 1].level);
        assert_true(p[i].decodes <= 48 && p[i].chunk + p[i].decodes <= 1024);
        assert_true(p[i].kv < 2000 && p[i].chunk + p[i].chunk_kv <= 2000);
        assert_true(p[i].decodes + p[i].chunk > 0);
        seen |= passes_kind_of(&p[i]);
        coarse |= p[i].level == 0 ? passes_kind_of(&p[i]) : 0;
        decodes = p[i].decodes > decodes ? p[i].decodes : decodes;
        kv = p[i].kv > kv ? p[i].kv : kv;
        chunk = p[i].chunk > chunk ? p[i].chunk : chunk;
        before = p[i].chunk_kv > before ? p[i].chunk_kv : before;
    }
    assert_int_equal(seen, all);
    assert_int_equal(coarse, all);
    assert_int_equal(decodes, 48);
    assert_int_equal(kv, 1999);
    assert_int_equal(chunk, 1024);
    assert_true(before >= 1024);
    p = passes_grid(t->a, &l, PASSES_DECODE, &n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(passes_kind_of(&p[i]), PASSES_DECODE);
    (void)passes_grid(t->a, &(struct passes_limits){1, 1, 1}, all, &n);
    assert_int_equal(n, 1); /* a prompt of one token */
}

static void a_bundle_predicts_what_was_measured(void **state)
{
    struct test *t = *state;
    struct made m = {.most = 100, .device = true};
    const struct passes_params p = params(t, &m);
    struct passes_result r;
    struct iterations *read;
    bool outside;
    assert_ok(passes_profile(t->a, &p, &(struct passes_engine){.self = &m, .run = run}, &r, &t->e),
              t);
    assert_int_equal(r.left_out, 0);
    assert_int_equal(r.samples + r.points, m.passes); /* a first one of each besides */
    assert_int_equal(r.samples, 7 * r.points);
    assert_near(r.first_use_s[0] + r.first_use_s[1], 0, 0);
    assert_int_equal(r.bundle.rows, r.points);
    assert_int_equal(m.seen, PASSES_DECODE | PASSES_PROMPT);
    assert_ok(iterations_load(t->a, fs_join(t->a, r.bundle.dir, "iteration.csv"), 1, &read, &t->e),
              t);
    const struct passes_point at = {.decodes = 8, .kv = 128};
    const struct iterations_batch b = {0, 0, 8, 8 * 128};
    const struct iterations_time s = iterations_at(read, &b, &outside);
    assert_false(outside);
    assert_near(s.device_s, 0.75 * time_of(&at), 1e-5);
    assert_near(s.host_s, 0.25 * time_of(&at), 1e-5); /* a median: without the slow first ones */
    const struct iterations_batch chunk = {64, 64 * 32.5, 0, 0};
    const struct iterations_time c = iterations_at(read, &chunk, &outside);
    assert_near(c.device_s + c.host_s, time_of(&(struct passes_point){.chunk = 64}), 1e-5);
    /* two of seven were slow, which is how uneven this engine is */
    const char *uneven = test_read(t, fs_join(t->a, r.bundle.dir, "unevenness.csv"));
    int64_t slow = 0, rows = 0;
    for (const char *line = strchr(uneven, '\n') + 1; *line; line = strchr(line, '\n') + 1) {
        rows++;
        const char *end = strchr(line, '\n');
        slow += end - line > 4 && strncmp(end - 4, ",1.5", 4) == 0;
    }
    assert_int_equal(rows, r.samples);
    assert_int_equal(slow * 7, rows * 2);
}

static void a_device_that_is_not_told_apart_has_all_the_time(void **state)
{
    struct test *t = *state;
    struct made m = {.most = 100};
    const struct passes_params p = params(t, &m);
    struct passes_result r;
    struct iterations *read;
    bool outside;
    assert_ok(passes_profile(t->a, &p, &(struct passes_engine){.self = &m, .run = run}, &r, &t->e),
              t);
    assert_ok(iterations_load(t->a, fs_join(t->a, r.bundle.dir, "iteration.csv"), 1, &read, &t->e),
              t);
    const struct iterations_batch b = {0, 0, 4, 4 * 16};
    const struct iterations_time s = iterations_at(read, &b, &outside);
    assert_near(s.host_s, 0, 0);
    assert_near(s.device_s, time_of(&(struct passes_point){.decodes = 4, .kv = 16}), 1e-5);
}

static void what_is_refused_is_left_out(void **state)
{
    struct test *t = *state;
    struct made m = {.most = 4, .device = true};
    struct passes_params p = params(t, &m);
    struct passes_result r;
    struct node *meta;
    assert_ok(passes_profile(t->a, &p, &(struct passes_engine){.self = &m, .run = run}, &r, &t->e),
              t);
    assert_true(r.left_out > 0);
    assert_ok(json_load(t->a, fs_join(t->a, r.bundle.dir, "bundle_meta.json"), NULL, &meta, &t->e),
              t);
    assert_int_equal(node_path(meta, "grid.points_left_out")->i, r.left_out);
    assert_string_equal(node_path(meta, "grid.left_out_because")->s.p, "too many");
    m = (struct made){.most = 0};
    p.to.hardware = "other";
    assert_err(passes_profile(t->a, &p, &(struct passes_engine){.self = &m, .run = run}, &r, &t->e),
               ST_REJECTED, t, "no decode pass was carried out: too many");
    assert_false(fs_exists(test_path(t, "data/profiling/compute/other/m")));
}

static enum st give_up(void *self, struct arena *a, const struct rehearsal_request *q, size_t n,
                       int64_t sequences, double pause_s, struct run *out, const char **why,
                       struct err *e)
{
    struct made *m = self;
    (void)a, (void)q, (void)n, (void)sequences, (void)pause_s, (void)out, (void)why;
    return m->stop_at ? err_set(e, ST_INTERRUPTED, "interrupted by a signal")
                      : err_set(e, ST_DEVICE, "the worker gave up: CUDA out of memory");
}

static void passes_are_kept_when_requests_fail(void **state)
{
    struct test *t = *state;
    struct made m = {.most = 100, .device = true};
    const struct passes_params p = params(t, &m);
    const struct rehearsal_engine loop = {&m, give_up};
    const struct passes_engine engine = {.self = &m, .run = run, .loop = &loop};
    struct passes_result r;
    struct node *meta;
    assert_ok(passes_profile(t->a, &p, &engine, &r, &t->e), t);
    assert_string_equal(r.why_no_loop, "the worker gave up: CUDA out of memory");
    assert_ok(json_load(t->a, fs_join(t->a, r.bundle.dir, "bundle_meta.json"), NULL, &meta, &t->e),
              t);
    assert_string_equal(node_path(meta, "no_calibration_run")->s.p, r.why_no_loop);
    assert_null(node_path(meta, "iteration"));
}

static void an_interrupted_profile_leaves_nothing(void **state)
{
    struct test *t = *state;
    struct made m = {.most = 100, .stop_at = 6};
    const struct passes_params p = params(t, &m);
    struct passes_result r;
    assert_err(passes_profile(t->a, &p, &(struct passes_engine){.self = &m, .run = run}, &r, &t->e),
               ST_INTERRUPTED, t, "interrupted by a signal");
    assert_int_equal(m.runs, 6);
    assert_false(fs_exists(test_path(t, "data")));
}

static void a_bundle_is_never_overwritten(void **state)
{
    struct test *t = *state;
    struct made m = {.most = 100};
    const struct passes_params p = params(t, &m);
    struct passes_result r;
    assert_ok(passes_profile(t->a, &p, &(struct passes_engine){.self = &m, .run = run}, &r, &t->e),
              t);
    m.runs = 0;
    assert_int_equal(
        passes_profile(t->a, &p, &(struct passes_engine){.self = &m, .run = run}, &r, &t->e),
        ST_USAGE);
    assert_non_null(strstr(err_cause(&t->e, 0), "already exists"));
    assert_int_equal(m.runs, 0);
}

static void first_passes_are_told_apart(void **state)
{
    struct test *t = *state;
    struct made m = {.most = 100, .device = true, .first_s = 0.03};
    const struct passes_params p = params(t, &m);
    struct passes_result r;
    struct node *meta;
    assert_ok(passes_profile(t->a, &p, &(struct passes_engine){.self = &m, .run = run}, &r, &t->e),
              t);
    assert_near(r.first_use_s[0], 0, 0);
    assert_near(r.first_use_s[1], 0.03, 1e-9);
    assert_ok(json_load(t->a, fs_join(t->a, r.bundle.dir, "bundle_meta.json"), NULL, &meta, &t->e),
              t);
    assert_near(node_path(meta, "first_use.prompt_s")->f, 0.03, 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_grid_covers_its_limits),
        TEST(a_bundle_predicts_what_was_measured),
        TEST(a_device_that_is_not_told_apart_has_all_the_time),
        TEST(what_is_refused_is_left_out),
        TEST(first_passes_are_told_apart),
        TEST(passes_are_kept_when_requests_fail),
        TEST(an_interrupted_profile_leaves_nothing),
        TEST(a_bundle_is_never_overwritten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
