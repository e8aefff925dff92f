#include "profile/cells.h"

#include "support/support.h"

static const struct model m = {.act = ACT_SILU_GATED,
                               .layers = 2,
                               .hidden = 64,
                               .heads = 4,
                               .kv_heads = 2,
                               .head_dim = 16,
                               .intermediate = 128,
                               .vocab = 500};

static const struct op *find(const struct op_list *ops, enum op_kind k)
{
    for (int i = 0; i < ops->n; i++)
        if (ops->ops[i].kind == k)
            return &ops->ops[i];
    fail_msg("no operator %d", (int)k);
    return NULL;
}

/* A decode of 6 sequences and a prompt of 4 tokens, each a sample of all operators. */
static void batches_with_chunks_have_tables_of_their_own(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct tmp tmp = tmp_new();
    struct err e = {0};
    struct point p[] = {{POINT_DECODE, 6, 16, 0}, {POINT_PREFILL, 4, 0, 0}};
    const struct point_list points = {.p = p, .n = 2};
    const struct grid_limits limits = {
        .max_tokens = 8, .max_batch = 6, .max_kv = 32, .block_size = 16, .num_blocks = 100};
    const struct profile_params params = {.model = &m, .tp = 1, .block_size = 16};
    struct journal j = {0};
    assert_ok(journal_open(a, tmp.dir, "key", 2, &j, &e), &e);
    double decode[OP_ROWS] = {0}, prompt[OP_ROWS] = {0};
    for (int k = 0; k < OP_KINDS; k++) {
        decode[k] = 2e-6;
        prompt[k] = 8e-6;
    }
    assert_ok(journal_sample(&j, 0, decode, &e), &e);
    assert_ok(journal_sample(&j, 1, prompt, &e), &e);
    struct profile_result r = {
        .p = &params, .limits = &limits, .points = &points, .journal = &j, .split = true};
    struct op_list ops;
    profile_ops(&r, &ops);
    const struct op *up = find(&ops, OP_MLP_UP_PROJ), *head = find(&ops, OP_LM_HEAD);
    assert_int_equal(cell_1d(a, &r, up, CELL_MAIN, 4).n, 1);
    assert_near(cell_1d(a, &r, up, CELL_MAIN, 4).median, 4e-6, 1e-15); /* of 2 layers */
    assert_int_equal(cell_1d(a, &r, up, CELL_MAIN, 6).n, 0);
    assert_near(cell_1d(a, &r, up, CELL_DECODES, 6).median, 1e-6, 1e-15);
    assert_int_equal(cell_1d(a, &r, up, CELL_DECODES, 4).n, 0);
    /* an operator over rows is the same in both: prompts have few rows */
    assert_near(cell_1d(a, &r, head, CELL_MAIN, 1).median, 8e-6, 1e-15);
    assert_near(cell_1d(a, &r, head, CELL_MAIN, 6).median, 2e-6, 1e-15);
    r.split = false; /* not told apart */
    assert_near(cell_1d(a, &r, up, CELL_MAIN, 6).median, 1e-6, 1e-15);
    journal_close(&j);
    tmp_free(&tmp);
    arena_free(&a);
}

/* Two decodes of as many rows, of which one read twice as many experts: attention takes what is
 * left in each. Prompts count for experts alone and with nothing cached. */
static void experts_are_those_of_their_pass(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    struct tmp tmp = tmp_new();
    struct err e = {0};
    struct model experts = m;
    experts.experts = 8;
    experts.experts_per_token = 2;
    struct point p[] = {{POINT_DECODE, 6, 16, 0},
                        {POINT_DECODE, 6, 24, 0},
                        {POINT_PREFILL, 4, 0, 0},
                        {POINT_PREFILL, 4, 8, 0},
                        {POINT_PROMPTS, 4, 2, 0}};
    enum { POINTS = sizeof p / sizeof *p };
    const struct point_list points = {.p = p, .n = POINTS};
    const struct grid_limits limits = {
        .max_tokens = 8, .max_batch = 6, .max_kv = 32, .block_size = 16, .num_blocks = 100};
    const struct profile_params params = {.model = &experts, .tp = 1, .block_size = 16};
    struct journal j = {0};
    assert_ok(journal_open(a, tmp.dir, "key", POINTS, &j, &e), &e);
    for (int i = 0; i < POINTS; i++) {
        double s[OP_ROWS] = {0};
        s[OP_MOE_ROUTER] = 1e-6;
        s[OP_MOE_UP_PROJ] = i == 1 ? 40e-6 : 20e-6 + i * 1e-6;
        s[i < 2 ? OP_ATTN_DECODE : OP_ATTN_PREFILL] = 4e-6;
        assert_ok(journal_sample(&j, i, s, &e), &e);
    }
    struct profile_result r = {
        .p = &params, .limits = &limits, .points = &points, .journal = &j, .split = true};
    struct op_list ops;
    profile_ops(&r, &ops);
    const struct op *up = find(&ops, OP_MOE_UP_PROJ), *decode = find(&ops, OP_ATTN_DECODE),
                    *router = find(&ops, OP_MOE_ROUTER);
    for (int i = 0; i < 2; i++)
        assert_near(cell_point(a, &r, decode, i).median, 2e-6, 1e-15); /* of 2 layers */
    assert_near(cell_1d(a, &r, up, CELL_DECODES, 6).median, 15e-6, 1e-15);
    assert_int_equal(cell_1d(a, &r, up, CELL_MAIN, 4).n, 1);
    assert_near(cell_1d(a, &r, up, CELL_MAIN, 4).median, 11e-6, 1e-15);
    assert_int_equal(cell_1d(a, &r, router, CELL_MAIN, 4).n, 3);
    journal_close(&j);
    tmp_free(&tmp);
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_are_those_of_their_pass),
        cmocka_unit_test(batches_with_chunks_have_tables_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
