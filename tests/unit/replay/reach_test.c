/* Which sets belong to a kernel, in streams and graphs. */
#include "replay/reach.h"

#include <string.h>

#include "support/support.h"

enum { MOST = 8 };

/* Two allocations of 64 KiB; sets 0 and 1 write into the first and the second. Kernel 0 has a word
 * that is no address and one inside the first allocation; kernel 1 none. */
static const uint64_t params[] = {7, 0x310000, 0};
static const struct capsule_allocation allocations[] = {{0x300000, 0x20000, CAPSULE_DEVICE, 0},
                                                        {0x400000, 0x10000, CAPSULE_DEVICE, 0}};
static const struct capsule_set sets[] = {{.to = 0x300040, .width = 4, .height = 1},
                                          {.to = 0x400000, .width = 4, .height = 1}};
static const struct capsule_launch launches[] = {{.params = {0, 16}}, {.params = {16, 8}}};

/* "0" and "1" are launches, "a" and "b" sets, "c" a copy, "w" a wait, "e" nothing; in upper case
 * ("A", "B", "X" and "Y" the launches) of another stream. The last is asked for. waits: of each in
 * a graph, which it waits for, digits; NULL = not in one. */
static const struct {
    const char *ops;
    const char *waits[MOST];
    const char *sets; /* digits */
} rows[] = {
    {"a0", {NULL}, "0"},
    {"b0", {NULL}, ""}, /* into what it does not reach */
    {"a1", {NULL}, ""},
    {"ab0", {NULL}, "0"},
    {"aba0", {NULL}, "02"},
    {"acw0", {NULL}, "0"},
    {"a10", {NULL}, ""}, /* the other kernel's */
    {"aX0", {NULL}, "0"},
    {"A0", {NULL}, ""},
    {"a", {NULL}, ""},
    {"a0", {"", "0"}, "0"},
    {"a10", {"", "", "01"}, "0"}, /* beside the kernel before it */
    {"a10", {"", "0", "1"}, ""},  /* before it */
    {"aea0", {"", "0", "", "12"}, "02"},
    {"aa0", {"", "", "1"}, "1"},  /* nothing says when 0 is done */
    {"a10", {NULL, "", ""}, "0"}, /* before the graph, at whose start the kernel is */
    {"aa10", {NULL, NULL, "", "2"}, ""},
};

static void add(struct capsule *c, struct capsule_op *op, struct capsule_edge *edges, char letter,
                const char *waits)
{
    const char *lower = "01abcwe", *upper = "XYABCWE";
    const char *other = strchr(upper, letter);
    const uint32_t kinds[] = {CAPSULE_LAUNCH, CAPSULE_LAUNCH, CAPSULE_SET,  CAPSULE_SET,
                              CAPSULE_COPY,   CAPSULE_WAIT,   CAPSULE_EMPTY};
    const size_t k = other ? (size_t)(other - upper) : (size_t)(strchr(lower, letter) - lower);
    *op = (struct capsule_op){.kind = kinds[k],
                              .item = k < 4 ? (uint32_t)k % 2 : CAPSULE_NONE,
                              .stream = other != NULL,
                              .graph = waits != NULL,
                              .first_edge = (uint32_t)c->n_edges};
    for (; waits && *waits; waits++, op->n_edges++)
        edges[c->n_edges++] = (struct capsule_edge){.op = (uint32_t)(*waits - '0')};
    c->n_ops++;
}

static void sets_that_belong_to_a_kernel(void **state)
{
    struct test *t = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct capsule_op ops[MOST];
        struct capsule_edge edges[4 * MOST];
        struct capsule c = {.ops = ops,
                            .edges = edges,
                            .sets = sets,
                            .n_sets = 2,
                            .launches = launches,
                            .n_launches = 2,
                            .allocations = allocations,
                            .n_allocations = 2,
                            .bytes = (const unsigned char *)params,
                            .n_bytes = sizeof params};
        struct buf got = {0};
        for (size_t k = 0; rows[i].ops[k]; k++)
            add(&c, &ops[k], edges, rows[i].ops[k], rows[i].waits[k]);
        const struct reach_sets found = reach_sets(t->a, &c, c.n_ops - 1);
        for (size_t k = 0; k < found.n; k++)
            buf_printf(&got, "%u", found.ops[k]);
        if (strcmp(buf_str(&got), rows[i].sets) != 0)
            fail_msg("row %zu, %s: '%s'", i, rows[i].ops, buf_str(&got));
        buf_free(&got);
    }
}

/* Memory that was freed inside the region may have a later owner. */
static void the_latest_owner_of_an_address(void **state)
{
    static const struct capsule_allocation both[] = {{0x1000, 0x100, CAPSULE_POOL, CAPSULE_GONE},
                                                     {0x1000, 0x80, CAPSULE_POOL, CAPSULE_BORN}};
    const struct capsule c = {.allocations = both, .n_allocations = 2};
    (void)state;
    assert_ptr_equal(reach_allocation(&c, 0x1000), &both[1]);
    assert_ptr_equal(reach_allocation(&c, 0x107f), &both[1]);
    assert_ptr_equal(reach_allocation(&c, 0x1080), &both[0]);
    assert_null(reach_allocation(&c, 0x1100));
    assert_null(reach_allocation(&c, 0xfff));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sets_that_belong_to_a_kernel),
        TEST(the_latest_owner_of_an_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
