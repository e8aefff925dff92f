/* The order of a region's operations as steps on lanes: every dependency that capsule/format.h
 * states is there, by the steps' own rules. */
#include "replay/program.h"

#include "gpu/abi/cuda.h"
#include "support/support.h"

enum { MOST = 64 };

struct region {
    struct capsule c;
    struct capsule_op ops[MOST];
    struct capsule_edge edges[2 * MOST];
    struct capsule_stream streams[4];
    struct capsule_launch launches[1];
    struct capsule_attribute attributes[1];
};

static struct region *region(struct test *t, size_t streams)
{
    struct region *r = arena_one(t->a, struct region);
    r->c = (struct capsule){.ops = r->ops,
                            .edges = r->edges,
                            .streams = r->streams,
                            .n_streams = streams,
                            .launches = r->launches,
                            .n_launches = 1,
                            .attributes = r->attributes,
                            .n_attributes = 1};
    for (size_t i = 0; i < streams; i++)
        r->streams[i].flags = CAPSULE_STREAM_NON_BLOCKING;
    return r;
}

static struct capsule_op *add(struct region *r, uint32_t kind, uint32_t stream)
{
    struct capsule_op *op = &r->ops[r->c.n_ops++];
    *op = (struct capsule_op){.kind = kind, .stream = stream};
    return op;
}

static void edge(struct region *r, struct capsule_op *op, uint32_t from, uint8_t type)
{
    if (op->n_edges++ == 0)
        op->first_edge = (uint32_t)r->c.n_edges;
    r->edges[r->c.n_edges++] = (struct capsule_edge){.op = from, .type = type};
}

/* before[i][j]: step j is sure to have ended when step i begins, by lanes and events alone. */
static void order(const struct program *p, bool before[4 * MOST][4 * MOST])
{
    for (size_t i = 0; i < p->n; i++) {
        for (size_t j = 0; j < i; j++)
            before[i][j] = p->steps[j].lane == p->steps[i].lane;
        if (p->steps[i].kind == PROGRAM_WAIT) {
            assert_true(p->steps[i].item < i); /* recorded before it is waited for */
            assert_int_not_equal(p->steps[p->steps[i].item].event, CAPSULE_NONE);
            before[i][p->steps[i].item] = true;
        }
        for (size_t j = 0; j < i; j++)
            for (size_t k = 0; before[i][j] && k < j; k++)
                before[i][k] = before[i][k] || before[j][k];
    }
}

static size_t step_of(const struct program *p, uint32_t op)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->steps[i].kind == PROGRAM_OP && p->steps[i].item == op)
            return i;
    fail_msg("operation %u is not in the program", op);
    return 0;
}

/* waits: pairs "later>earlier", "later|earlier" for two that must not wait for each other. */
static struct program check(struct test *t, const struct region *r, const char *pairs)
{
    static bool before[4 * MOST][4 * MOST];
    struct program p;
    unsigned later, earlier;
    char how;
    int used;
    memset(before, 0, sizeof before);
    program_build(t->a, &r->c, 0, r->c.n_ops, &p);
    assert_true(p.n <= 4 * MOST);
    order(&p, before);
    for (; sscanf(pairs, " %u%c%u%n", &later, &how, &earlier, &used) == 3; pairs += used) {
        const bool waits = before[step_of(&p, later)][step_of(&p, earlier)];
        if (waits != (how == '>'))
            fail_msg("%u%c%u", later, how, earlier);
    }
    return p;
}

static void streams_are_in_order_and_apart(void **state)
{
    struct test *t = *state;
    struct region *r = region(t, 2);
    add(r, CAPSULE_LAUNCH, 0);
    add(r, CAPSULE_LAUNCH, 1);
    add(r, CAPSULE_SET, 0);
    add(r, CAPSULE_COPY, 1);
    check(t, r, "2>0 3>1 1|0 2|1 3|0 3|2");
}

static void events_are_kept(void **state)
{
    struct test *t = *state;
    struct region *r = region(t, 3);
    add(r, CAPSULE_LAUNCH, 0);
    add(r, CAPSULE_LAUNCH, 0);
    add(r, CAPSULE_WAIT, 1)->item = 0;
    add(r, CAPSULE_LAUNCH, 1);
    add(r, CAPSULE_WAIT, 2)->item = 2; /* for a wait: what that waited for */
    add(r, CAPSULE_LAUNCH, 2);
    add(r, CAPSULE_LAUNCH, 0);
    add(r, CAPSULE_WAIT, 1)->item = 0; /* known already */
    add(r, CAPSULE_LAUNCH, 1);
    const struct program p = check(t, r, "3>0 3|1 5>0 5|1 5|3 6|3 8>3 8|1");
    assert_int_equal(p.n_events, 2);
}

static void the_program_waited(void **state)
{
    struct test *t = *state;
    struct region *r = region(t, 3);
    add(r, CAPSULE_LAUNCH, 0);
    add(r, CAPSULE_LAUNCH, 1);
    add(r, CAPSULE_SYNC, 0)->item = 0;
    add(r, CAPSULE_LAUNCH, 2);
    add(r, CAPSULE_SYNC, 0)->item = CAPSULE_NONE;
    add(r, CAPSULE_LAUNCH, 2);
    add(r, CAPSULE_LAUNCH, 0);
    add(r, CAPSULE_SYNC_OP, 2)->item = 5;
    add(r, CAPSULE_LAUNCH, 1);
    check(t, r, "3>0 3|1 5>0 5>1 6>1 6>3 6|5 8>5 8|6");
}

static void the_legacy_stream_waits_for_all_that_block(void **state)
{
    struct test *t = *state;
    struct region *r = region(t, 3);
    r->streams[0].flags = CAPSULE_STREAM_LEGACY;
    r->streams[1].flags = 0;
    add(r, CAPSULE_LAUNCH, 1);
    add(r, CAPSULE_LAUNCH, 2);
    add(r, CAPSULE_LAUNCH, 0);
    add(r, CAPSULE_LAUNCH, 1);
    add(r, CAPSULE_LAUNCH, 2);
    check(t, r, "2>0 2|1 3>2 4|2 4|3");
}

static void graphs_are_kept(void **state)
{
    struct test *t = *state;
    struct region *r = region(t, 2);
    add(r, CAPSULE_LAUNCH, 0);
    for (int i = 1; i <= 6; i++)
        add(r, i == 4 ? CAPSULE_EMPTY : CAPSULE_LAUNCH, 0)->graph = 1;
    edge(r, &r->ops[2], 1, 0);
    edge(r, &r->ops[3], 1, 0);
    edge(r, &r->ops[4], 2, 0);
    edge(r, &r->ops[4], 3, 0);
    edge(r, &r->ops[5], 4, 0);
    add(r, CAPSULE_LAUNCH, 0);            /* 7, after the graph */
    add(r, CAPSULE_WAIT, 1)->item = 2;    /* for the whole launch */
    add(r, CAPSULE_LAUNCH, 1);            /* 9 */
    add(r, CAPSULE_LAUNCH, 0)->graph = 2; /* 10 */
    check(t, r, "1>0 6>0 2>1 3>1 3|2 5>2 5>3 6|1 6|5 7>5 7>6 7>3 9>6 9>5 9|7 10>7");
}

static void more_branches_than_lanes_are_in_some_order(void **state)
{
    struct test *t = *state;
    struct region *r = region(t, 1);
    add(r, CAPSULE_LAUNCH, 0)->graph = 1;
    for (uint32_t i = 1; i < 50; i++) {
        struct capsule_op *op = add(r, CAPSULE_LAUNCH, 0);
        op->graph = 1;
        edge(r, op, 0, 0);
    }
    struct capsule_op *last = add(r, CAPSULE_LAUNCH, 0);
    last->graph = 1;
    for (uint32_t i = 1; i < 50; i++)
        edge(r, last, i, 0);
    const struct program p = check(t, r, "1>0 49>0 50>1 50>25 50>49 2|1 20|3");
    assert_int_equal(p.n_lanes, 1 + PROGRAM_BRANCHES);
    assert_int_equal(p.n_ops, 51);
}

static void launches_start_early_where_they_did(void **state)
{
    struct test *t = *state;
    struct region *r = region(t, 1);
    r->launches[0].n_attributes = 1;
    r->attributes[0].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    r->attributes[0].value[0] = 1;
    add(r, CAPSULE_LAUNCH, 0);
    add(r, CAPSULE_SET, 0);
    add(r, CAPSULE_LAUNCH, 0)->graph = 1; /* in a graph edges say it */
    add(r, CAPSULE_LAUNCH, 0)->graph = 1;
    add(r, CAPSULE_LAUNCH, 0)->graph = 1;
    edge(r, &r->ops[3], 2, 1);
    edge(r, &r->ops[4], 3, 0);
    const struct program p = check(t, r, "3>2 4>3");
    assert_true(p.steps[step_of(&p, 0)].early);
    assert_false(p.steps[step_of(&p, 1)].early);
    assert_false(p.steps[step_of(&p, 2)].early);
    assert_true(p.steps[step_of(&p, 3)].early);
    assert_false(p.steps[step_of(&p, 4)].early);
}

static void a_part_waits_for_nothing_before_it(void **state)
{
    struct test *t = *state;
    struct region *r = region(t, 2);
    struct program p;
    add(r, CAPSULE_LAUNCH, 0);
    add(r, CAPSULE_WAIT, 1)->item = 0;
    add(r, CAPSULE_LAUNCH, 1)->graph = 1;
    struct capsule_op *op = add(r, CAPSULE_LAUNCH, 1);
    op->graph = 1;
    edge(r, op, 2, 0);
    program_build(t->a, &r->c, 3, 4, &p);
    assert_int_equal(p.n_ops, 1);
    assert_int_equal(p.n_events, 0);
    program_build(t->a, &r->c, 0, 3, &p);
    assert_int_equal(p.n_ops, 2);
    program_build(t->a, &r->c, 0, 0, &p);
    assert_int_equal(p.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(streams_are_in_order_and_apart),
        TEST(events_are_kept),
        TEST(the_program_waited),
        TEST(the_legacy_stream_waits_for_all_that_block),
        TEST(graphs_are_kept),
        TEST(more_branches_than_lanes_are_in_some_order),
        TEST(launches_start_early_where_they_did),
        TEST(a_part_waits_for_nothing_before_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
