/* Lines of a child within limits (replay/answers.h). */
#include "replay/answers.h"

#include "base/clock.h"
#include "support/support.h"

struct fixture {
    struct process p;
    struct answers a;
    int ticks;
};

static void count(void *self)
{
    ((struct fixture *)self)->ticks++;
}

static void start(struct fixture *f, const char *script)
{
    const char *argv[] = {"sh", "-c", script, NULL};
    const struct process_params params = {.argv = argv, .out = PROCESS_PIPE, .dies_with_us = true};
    *f = (struct fixture){0};
    f->a = (struct answers){
        .p = &f->p, .until_ns = INT64_MAX, .step_until_ns = INT64_MAX, .tick = count, .self = f};
    assert_int_equal(process_start(&f->p, &params), 0);
}

static void assert_line(struct fixture *f, const char *text)
{
    struct sv line;
    assert_int_equal(answers_next(&f->a, &line), ANSWER_LINE);
    assert_sv(line, text);
}

static void assert_over(struct fixture *f, enum answer how)
{
    struct sv line;
    assert_int_equal(answers_next(&f->a, &line), how);
    assert_int_equal(f->p.pid, 0); /* reaped */
    answers_close(&f->a);
    process_end(&f->p);
}

static void lines_come_whole(void **state)
{
    struct fixture f;
    (void)state;
    start(&f, "printf 'one\\n\\ntw'; sleep 0.3; printf 'o\\nlast'; exit 3");
    assert_line(&f, "one");
    assert_line(&f, "");
    assert_line(&f, "two");
    assert_line(&f, "last");
    assert_over(&f, ANSWER_END);
    assert_true(f.ticks > 0);
}

static void a_signal_is_heeded_whatever_the_child_does(void **state)
{
    const volatile sig_atomic_t stop = 1;
    struct fixture f;
    (void)state;
    start(&f, "trap '' TERM; echo one; while :; do sleep 0.1; done");
    assert_line(&f, "one");
    f.a.stop = &stop;
    assert_over(&f, ANSWER_STOPPED);
}

static void limits_end_what_does_not(void **state)
{
    struct fixture f;
    (void)state;
    start(&f, "trap '' TERM; echo one; while :; do sleep 0.1; done");
    assert_line(&f, "one");
    f.a.step_until_ns = clock_mono_ns() + 50 * NS_PER_MS;
    assert_over(&f, ANSWER_STEP_LATE);
    start(&f, "echo one; exec >&-; while :; do sleep 0.1; done"); /* it has no more to say */
    assert_line(&f, "one");
    f.a.until_ns = clock_mono_ns() + 50 * NS_PER_MS;
    assert_over(&f, ANSWER_LATE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(lines_come_whole),
        TEST(a_signal_is_heeded_whatever_the_child_does),
        TEST(limits_end_what_does_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
