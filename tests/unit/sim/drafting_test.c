/* verify + k c decode, on a predictor of known times. */
#include "sim/drafting.h"

#include <math.h>

#include "support/support.h"

/* 1 ms a batch and 0.1 ms a token on each of two stages, host 0.5 ms on the first. */
static enum st known_times(void *self, const struct batch *b, struct stage_time *stages,
                           struct err *e)
{
    (void)self;
    (void)e;
    double s = 1e-3 + 1e-4 * (double)(b->prefill_tokens + b->n_decodes * (1 + b->draft_tokens));
    stages[0] = (struct stage_time){.host_s = 5e-4, .device_s = s, .energy_j = 100 * s};
    stages[1] = (struct stage_time){.device_s = s, .energy_j = 100 * s};
    return ST_OK;
}

static const struct predictor_ops known = {.name = "known", .predict = known_times};

static void drafting_costs_k_decodes(void **state)
{
    struct test *t = *state;
    struct predictor inner = {.ops = &known, .stages = 2, .idle_w = 70};
    struct predictor p = predictor_drafting(t->a, &inner, 0.1);
    struct chunk c = {.tokens = 7};
    struct batch b = {
        .n_decodes = 5, .draft_tokens = 3, .chunks = &c, .n_chunks = 1, .prefill_tokens = 7};
    struct stage_time s[2];
    assert_string_equal(p.ops->name, "known");
    assert_ok(p.ops->predict(p.self, &b, s, &t->e), t);
    /* verify: 27 tokens; a decode batch of 5: 1.5 ms on each stage and 0.5 ms host = 3.5 ms */
    assert_near(s[0].device_s, 1e-3 + 27e-4 + 3 * 0.1 * 3.5e-3, 1e-12);
    assert_near(s[1].device_s, 1e-3 + 27e-4, 1e-12);
    assert_near(s[0].host_s, 5e-4, 1e-15);
    assert_near(s[0].energy_j, 100 * 3.7e-3 + 3 * 0.1 * 100 * 3e-3, 1e-9);
    assert_near(s[1].energy_j, 100 * 3.7e-3, 1e-9);
    assert_near(p.idle_w, 70, 0);
}

static void prefills_are_not_drafted(void **state)
{
    struct test *t = *state;
    struct predictor inner = {.ops = &known, .stages = 2};
    struct predictor p = predictor_drafting(t->a, &inner, 0.1);
    struct batch b = {.prefill_tokens = 7};
    struct stage_time s[2];
    assert_ok(p.ops->predict(p.self, &b, s, &t->e), t);
    assert_near(s[0].device_s, 1e-3 + 7e-4, 1e-15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(drafting_costs_k_decodes),
                                       TEST(prefills_are_not_drafted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
