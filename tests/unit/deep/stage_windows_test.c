/* Stages and work that others launch in their time. */
#include "deep/stages.h"

#include "support/support.h"
#include "text/yaml.h"

struct loaded {
    struct trace t;
    struct kernels k;
    struct deep_stages s;
};

/* Times in us; thread 10 has the ranges. */
#define RANGE(name, thread, ts, dur)                                  \
    "{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"" name \
    "\", \"pid\": 10, \"tid\": " #thread ", \"ts\": " #ts ", \"dur\": " #dur "}"
#define WORK(id, ts, dur)                                         \
    "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k" #id      \
    "\", \"pid\": 0, \"tid\": 7, \"ts\": " #ts ", \"dur\": " #dur \
    ", \"args\": {\"device\": 0, \"correlation\": " #id "}}"
#define LAUNCH(id, thread, at, ts, dur)                                                   \
    "{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"launch\", \"pid\": 10, "      \
    "\"tid\": " #thread ", \"ts\": " #at ", \"dur\": 5, \"args\": {\"correlation\": " #id \
    "}}, " WORK(id, ts, dur)

static struct loaded *load(struct test *t, const char *tree, const char *events)
{
    struct loaded *x = arena_one(t->a, struct loaded);
    struct node *root;
    const char *path = test_write(t, "t.json", arena_printf(t->a, "[%s]", events));
    assert_ok(yaml_parse(t->a, "t", sv_of(tree), &root, &t->e), t);
    assert_ok(deep_stages_read(t->a, root, &x->s, &t->e), t);
    assert_ok(trace_load(&x->t, path, NULL, &t->e), t);
    kernels_open(&x->k, &x->t, NULL);
    deep_stages_measure(t->a, &x->s, &x->k);
    return x;
}

static void unload(struct loaded *x)
{
    kernels_close(&x->k);
    trace_free(&x->t);
}

/* The backward pass of PyTorch: a thread without ranges launches while the step is open. */
static void work_of_another_thread_is_the_open_stages(void **state)
{
    struct test *t = *state;
    struct loaded *x =
        load(t, "step:\n  loss:\n",
             RANGE("step", 10, 1000, 1000) ", " RANGE("loss", 10, 1100, 50) ", " LAUNCH(
                 1, 10, 1010, 1020, 100) ", " LAUNCH(2, 11, 1120, 1130, 10) ", " LAUNCH(3, 11, 1200,
                                                                                        1210, 690));
    const struct deep_stage_sum *step = &x->s.p[0].all, *loss = &x->s.p[1].all;
    assert_int_equal(step->operations, 3);
    assert_int_equal(step->gpu_ns, 800000);
    assert_int_equal(step->exclusive_ns, 790000);
    assert_int_equal(step->busy_ns, 800000);
    assert_int_equal(step->elapsed_ns, 1000000);
    assert_int_equal(loss->operations, 1);
    assert_int_equal(loss->gpu_ns, 10000);
    assert_int_equal(loss->elapsed_ns, 50000);
    assert_int_equal(loss->busy_ns, 30000); /* the forward pass ran on */
    assert_int_equal(x->s.strays.operations, 2);
    assert_int_equal(x->s.strays.gpu_ns, 700000);
    unload(x);
}

/* A stage lasts until the last work that was launched in it, by any thread, is done. */
static void the_stage_lasts_until_that_work_is_done(void **state)
{
    struct test *t = *state;
    struct loaded *x = load(
        t, "step:\n",
        RANGE("step", 10, 1000, 100) ", " LAUNCH(1, 11, 1050, 1080, 70) ", " WORK(99, 1090, 30));
    assert_int_equal(x->s.p[0].all.elapsed_ns, 150000);
    assert_int_equal(x->s.p[0].all.operations, 2); /* the launch of the second is not known */
    assert_int_equal(x->s.p[0].all.busy_ns, 70000);
    unload(x);
}

/* Two threads with stages: each keeps its own work. */
static void threads_with_stages_keep_their_work(void **state)
{
    struct test *t = *state;
    struct loaded *x = load(t, "a:\nb:\n",
                            RANGE("a", 10, 1000, 500) ", " RANGE("b", 11, 1100, 100) ", " LAUNCH(
                                1, 11, 1110, 1120, 10) ", " LAUNCH(2, 10, 1130, 1140, 10));
    assert_int_equal(x->s.p[0].all.operations, 1);
    assert_int_equal(x->s.p[1].all.operations, 1);
    assert_int_equal(x->s.strays.operations, 0);
    assert_int_equal(x->s.p[0].all.busy_ns, 20000);
    unload(x);
}

/* What was launched before the stage is not its work, but keeps the GPU busy in its time. */
static void work_outside_is_counted_apart(void **state)
{
    struct test *t = *state;
    struct loaded *x =
        load(t, "step:\n",
             RANGE("step", 10, 1000, 100) ", " LAUNCH(1, 10, 900, 980, 40) ", " LAUNCH(
                 2, 10, 910, 1030, 30) ", " LAUNCH(3, 10, 1010, 1060, 40) ", " LAUNCH(4, 10, 1200,
                                                                                      1210, 5));
    const struct deep_stage_sum *step = &x->s.p[0].all;
    assert_int_equal(step->operations, 1);
    assert_int_equal(step->gpu_ns, 40000);
    assert_int_equal(step->busy_ns, 90000); /* 1000 to 1020, 1030 to 1100 */
    assert_int_equal(x->s.ran_beside.operations, 1);
    assert_int_equal(x->s.ran_beside.gpu_ns, 30000);
    assert_int_equal(x->s.outside.operations, 2);
    assert_int_equal(x->s.outside.gpu_ns, 45000);
    assert_int_equal(deep_stages_total(&x->s).gpu_ns, 40000);
    assert_int_equal(deep_stages_total(&x->s).busy_ns, 90000);
    unload(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(work_of_another_thread_is_the_open_stages),
        TEST(the_stage_lasts_until_that_work_is_done),
        TEST(threads_with_stages_keep_their_work),
        TEST(work_outside_is_counted_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
