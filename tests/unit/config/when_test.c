#include "config/when.h"

#include "sim/predictor.h"
#include "unit/config/fixture.h"
#include "workload/format.h"

static enum st check(struct test *t, struct config_args args)
{
    struct config c = fixture_good(t, args);
    return config_check_read(&c, &t->e);
}

#define assert_read(...)         assert_ok(check(t, ARGS(__VA_ARGS__)), t)
#define assert_unread(text, ...) assert_err(check(t, ARGS(__VA_ARGS__)), ST_USAGE, t, text)

static void a_setting_of_the_command_line_is_read_or_refused(void **state)
{
    struct test *t = *state;
    const struct embed_file *files =
        FILES({"workload.yaml", "workload: {prompts: p, arrival: {rate: 4}}\n"}, {"bench.yaml", ""},
              {"kernels.yaml", ""});
    assert_read(WORKLOAD, files, "workload.arrival.kind=gamma", "workload.arrival.burstiness=2");
    assert_unread("command line: workload does not use workload.arrival.burstiness with "
                  "workload.arrival.kind=poisson\n"
                  "hint: it is used with workload.arrival.kind=gamma",
                  WORKLOAD, files, "workload.arrival.burstiness=2");
    assert_unread("command line: bench does not use output.perfetto with engine.kind=openai\n"
                  "hint: leave it out, or choose another engine.kind",
                  BENCH, files, "output.perfetto=true", "engine.kind=openai");
    assert_unread("command line: workload does not use path without import or export\n"
                  "hint: set import or export, or leave it out",
                  WORKLOAD, files, "path=x");
    assert_unread("command line: bench does not use workload.arrival.rate with workload.dir=w\n"
                  "hint: leave one of them out",
                  BENCH, files, "workload.dir=w", "workload.arrival.rate=4");
    assert_unread("command line: bench does not use workload.arrival.rate with "
                  "workload.arrival.stages\n"
                  "hint: leave one of them out",
                  BENCH, files, "workload.arrival.stages=[1:2]", "workload.arrival.rate=4");
    /* the condition's other side may stand in a file */
    assert_unread("command line: workload does not use workload.prefix.groups with "
                  "workload.prompts=p\n"
                  "hint: workload.prompts=null leaves that one out, which is set in "
                  "(built in)/workload.yaml",
                  WORKLOAD, files, "workload.prefix.groups=2");
    assert_read(WORKLOAD, files, "workload.prefix.groups=2", "workload.prompts=null");
}

/* Other jobs read what stands in a file; only where two values contradict each other it is said. */
static void files_may_hold_more_than_a_job_reads(void **state)
{
    struct test *t = *state;
    const struct embed_file *files =
        FILES({"bench.yaml", "url: u\nworkload:\n  dir: w\n  trace: t\n"},
              {"simulate.yaml", "workload: {arrival: {rate: 4, burstiness: 2}}\n"});
    assert_read(SIMULATE, files);
    assert_read(SIMULATE, files, "workload.dir=w");
    assert_unread("(built in)/bench.yaml:4:10: bench does not use workload.trace with "
                  "workload.dir=w\n"
                  "hint: workload.dir=null leaves that one out, which is set in "
                  "(built in)/bench.yaml",
                  BENCH, files);
}

static void what_was_taken_back_is_not_typed(void **state)
{
    struct test *t = *state;
    const struct embed_file *files = FILES({"bench.yaml", "workload: {arrival: {rate: 4}}\n"});
    assert_read(BENCH, files, "url=u", "url=null");
    assert_read(BENCH, files, "url=u", "~url");
    assert_read(BENCH, files, "workload.dir=w", "workload.arrival.burstiness=2",
                "~workload.arrival");
}

static void keys_below_a_map_are_its_own(void **state)
{
    struct test *t = *state;
    const struct embed_file *files = FILES({"bench.yaml", ""});
    assert_read(BENCH, files, "engine.kind=openai", "+client.body.top_p=0.9");
    assert_unread("command line: bench does not use client.body with engine.kind=cpu\n"
                  "hint: it is used with engine.kind=openai",
                  BENCH, files, "+client.body.top_p=0.9");
}

/* simulate has no engine.kind: the simulator's settings are always read there. */
static void a_condition_counts_where_the_command_uses_its_key(void **state)
{
    struct test *t = *state;
    const struct embed_file *files =
        FILES({"simulate.yaml", ""}, {"capacity.yaml", ""}, {"serve.yaml", ""});
    assert_read(SIMULATE, files, "cluster.replicas=2");
    assert_read(CAPACITY, files, "cluster.replicas=2"); /* where no engine is named either */
    assert_read(SERVE, files, "cluster.replicas=2", "engine.kind=sim");
    assert_unread("command line: serve does not use cluster.replicas with engine.kind=cpu\n"
                  "hint: it is used with engine.kind=sim",
                  SERVE, files, "cluster.replicas=2");
    assert_unread("command line: simulate does not use cores with sim.replicas_mc=0\n"
                  "hint: leave it out, or choose another sim.replicas_mc",
                  SIMULATE, files, "cores=2");
    assert_read(CAPACITY, files, "cores=2");
}

static void conditions_are_told(void **state)
{
    (void)state;
    struct buf b = {0};
    when_text(&b, option_find("workload.arrival.ramp_s"), CMD_BENCH);
    assert_string_equal(b.p, "only with workload.arrival.kind=fixed_interval, poisson or gamma; "
                             "only with workload.arrival.rate");
    buf_clear(&b);
    when_text(&b, option_find("workload.arrival.rate"), CMD_WORKLOAD);
    assert_string_equal(b.p,
                        "not with import=azure, bailian, burstgpt, mooncake or vidur; only with "
                        "workload.arrival.kind=fixed_interval, poisson or gamma");
    buf_clear(&b);
    when_text(&b, option_find("cluster.replicas"), CMD_SIMULATE);
    assert_int_equal(b.n, 0);
    buf_free(&b);
}

/* True: row allows it, or, for names that registries know, a file of the group has it. */
static bool is_a_value(struct test *t, const struct option *o, const char *value)
{
    const char *key = arena_str(t->a, o->key), *dot = strchr(key, '.');
    for (const char *p = o->allowed; p; p = strchr(p, '|'), p = p ? p + 1 : NULL)
        if (strncmp(p, value, strlen(value)) == 0 && strchr("|", p[strlen(value)]))
            return true;
    if (strcmp(key, "import") == 0)
        for (const struct workload_format *f = workload_formats; f->name; f++)
            if (strcmp(f->name, value) == 0)
                return true;
    if (o->type == OPT_BOOL)
        return strcmp(value, "true") == 0 || strcmp(value, "false") == 0;
    if (o->type == OPT_INT)
        return true;
    if (!dot || strcmp(dot, ".kind") != 0)
        return false;
    const char *group = arena_strn(t->a, key, (size_t)(dot - key));
    const char *file = arena_printf(t->a, "%s/%s.yaml", group, value);
    for (const struct embed_file *f = embed_cmd; f->path; f++)
        if (strcmp(f->path, file) == 0)
            return true;
    return false;
}

static void every_condition_is_of_keys_and_values_that_exist(void **state)
{
    struct test *t = *state;
    for (struct option_iter i = {0}; option_next(&i);)
        for (const struct option_when *w = i.o->when; w && w->key; w++) {
            bool valued = w->test == WHEN_IS || w->test == WHEN_NOT;
            assert_int_equal(valued, w->values != NULL);
            assert_true(!valued || !strchr(w->key, '|'));
            if (strcmp(w->key, "engine.kind") == 0) /* what it can do, not its name */
                assert_int_equal(*w->values, '@');
            for (const char *p = w->key; *p; p += strcspn(p, "|"), p += *p == '|') {
                const struct option *o = option_find(arena_strn(t->a, p, strcspn(p, "|")));
                if (!o || o == i.o || !(o->commands & i.o->commands))
                    fail_msg("%s depends on %s", i.o->key, w->key);
                const char *values = option_members(t->a, w->key, w->values);
                for (const char *v = values; v && *v; v += strcspn(v, "|"), v += *v == '|')
                    if (!is_a_value(t, o, arena_strn(t->a, v, strcspn(v, "|"))))
                        fail_msg("%s: %s is not %s", i.o->key, w->key, v);
            }
        }
}

/* What the registries of other folders say of their members is what the rows say. */
static void rows_agree_with_the_registries(void **state)
{
    struct test *t = *state;
    const struct embed_file *files = FILES({"workload.yaml", ""}, {"simulate.yaml", ""});
    for (const struct workload_format *f = workload_formats; f->name; f++) {
        const char *import = arena_printf(t->a, "import=%s", f->name);
        enum st st = check(t, ARGS(WORKLOAD, files, import, "workload.arrival.rate=4"));
        if ((st == ST_OK) != (f->read && f->traits & FORMAT_TEXTS) && f->read)
            fail_msg("%s and workload.arrival.rate", import);
        err_clear(&t->e);
    }
    for (int k = 0; predictor_registry[k]; k++) {
        const struct predictor_ops *ops = predictor_registry[k];
        const char *kind = arena_printf(t->a, "predictor.kind=%s", ops->name);
        enum st bundle = check(t, ARGS(SIMULATE, files, kind, "predictor.block_size=16"));
        err_clear(&t->e);
        enum st tables = check(t, ARGS(SIMULATE, files, kind, "predictor.tables=x"));
        err_clear(&t->e);
        assert_int_equal(bundle == ST_OK, ops->needs_bundle);
        assert_int_equal(tables == ST_OK, !ops->needs_bundle && !ops->uncalibrated);
        enum st parameters = check(t, ARGS(SIMULATE, files, kind, "+predictor.parameters.x=1"));
        err_clear(&t->e);
        assert_int_equal(parameters == ST_OK, ops->needs_bundle || ops->uncalibrated);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_setting_of_the_command_line_is_read_or_refused),
        TEST(files_may_hold_more_than_a_job_reads),
        TEST(what_was_taken_back_is_not_typed),
        TEST(keys_below_a_map_are_its_own),
        TEST(a_condition_counts_where_the_command_uses_its_key),
        TEST(conditions_are_told),
        TEST(every_condition_is_of_keys_and_values_that_exist),
        TEST(rows_agree_with_the_registries),
    };
    return cmocka_run_group_tests(tests, fixture_leave, NULL);
}
