#include "profile/read/links.h"

#include "support/support.h"

/* As of an H100: eight on a node, 450 GB/s inside, 50 between nodes. */
static const struct links_hardware sxm = {
    .link_bytes_per_s = 450e9, .pcie_bytes_per_s = 64e9, .node_bytes_per_s = 50e9, .node_gpus = 8};
/* As of a card whose bridge joins two. */
static const struct links_hardware card = {
    .link_bytes_per_s = 300e9, .pcie_bytes_per_s = 64e9, .link_gpus = 2};

static struct links of(struct test *t, const struct links_hardware *hw, int64_t tp, int64_t pp,
                       int64_t groups)
{
    struct links l;
    assert_ok(links_of(hw, tp, pp, groups, &l, &t->e), t);
    return l;
}

static void shards_stay_in_a_node(void **state)
{
    struct test *t = *state;
    struct links l;
    assert_near_rel(1 / of(t, &sxm, 8, 1, 1).reduce_s, 450e9, 1e-12);
    assert_err(links_of(&sxm, 16, 1, 1, &l, &t->e), ST_USAGE, t,
               "parallel.tp: 16 shards are more than the 8 devices of a node, and all-reduces "
               "between nodes are not modelled\n"
               "hint: parallel.tp=8 with parallel.pp= of more stages; or hardware.gpus_per_node= "
               "where a node has more");
    assert_near_rel(1 / of(t, &card, 2, 1, 1).reduce_s, 300e9, 1e-12);
    assert_near_rel(1 / of(t, &card, 4, 1, 1).reduce_s, 64e9, 1e-12); /* two bridges: PCIe */
    struct links_hardware unstated = sxm;
    unstated.node_gpus = 0;
    assert_near_rel(1 / of(t, &unstated, 16, 1, 1).reduce_s, 450e9, 1e-12);
}

static void stages_send_by_what_joins_them(void **state)
{
    struct test *t = *state;
    struct links l = of(t, &sxm, 4, 4, 1); /* two stages on a node */
    assert_near_rel(1 / links_send_s(&l, 0), 450e9, 1e-12);
    assert_near_rel(1 / links_send_s(&l, 1), 50e9, 1e-12);
    assert_near_rel(1 / links_send_s(&l, 2), 450e9, 1e-12);
    l = of(t, &sxm, 8, 2, 1); /* each fills one */
    assert_near_rel(1 / links_send_s(&l, 0), 50e9, 1e-12);
    l = of(t, &sxm, 4, 2, 1); /* both on one */
    assert_near_rel(1 / links_send_s(&l, 0), 450e9, 1e-12);
    l = of(t, &card, 1, 4, 1); /* a bridge, PCIe, a bridge */
    assert_near_rel(1 / links_send_s(&l, 0), 300e9, 1e-12);
    assert_near_rel(1 / links_send_s(&l, 1), 64e9, 1e-12);
    assert_near_rel(1 / links_send_s(&l, 2), 300e9, 1e-12);
    l = of(t, &sxm, 1, 2, 16); /* a stage over two nodes */
    assert_near_rel(1 / links_send_s(&l, 0), 50e9, 1e-12);
}

static void experts_are_exchanged_over_nodes(void **state)
{
    struct test *t = *state;
    assert_near_rel(of(t, &sxm, 1, 1, 8).exchange_s, 7.0 / 8 / 450e9, 1e-12);
    assert_near_rel(of(t, &sxm, 1, 1, 16).exchange_s, 8.0 / 16 / 50e9, 1e-12); /* half leave */
    assert_near_rel(of(t, &sxm, 2, 1, 8).exchange_s, 8.0 / 16 / 50e9, 1e-12);
    struct links_hardware fast = sxm; /* inside takes longer than between */
    fast.node_bytes_per_s = 900e9;
    assert_near_rel(of(t, &fast, 1, 1, 16).exchange_s, 7.0 / 16 / 450e9, 1e-12);
}

static void rates_that_are_needed_are_named(void **state)
{
    struct test *t = *state;
    struct links l;
    struct links_hardware hw = sxm;
    hw.node_bytes_per_s = 0;
    assert_ok(links_of(&hw, 4, 2, 1, &l, &t->e), t);
    assert_err(
        links_of(&hw, 8, 2, 1, &l, &t->e), ST_USAGE, t,
        "hardware.node_gb_per_s: parallel.pp goes over nodes of 8 devices, with 16, and the "
        "rate between nodes of this hardware is unknown\n"
        "hint: hardware.node_gb_per_s= sets it, of one device; hardware.gpus_per_node= where "
        "a node has more");
    assert_err(
        links_of(&hw, 1, 1, 16, &l, &t->e), ST_USAGE, t,
        "hardware.node_gb_per_s: parallel.ep goes over nodes of 8 devices, with 16, and the "
        "rate between nodes of this hardware is unknown\n"
        "hint: hardware.node_gb_per_s= sets it, of one device; hardware.gpus_per_node= where "
        "a node has more");
    hw = card;
    hw.pcie_bytes_per_s = 0;
    assert_err(links_of(&hw, 4, 1, 1, &l, &t->e), ST_USAGE, t,
               "hardware.pcie_gb_per_s: the bandwidth to the host of this hardware is unknown\n"
               "hint: hardware.pcie_gb_per_s= sets it; hardware= takes a group that has it");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(shards_stay_in_a_node),
        TEST(stages_send_by_what_joins_them),
        TEST(experts_are_exchanged_over_nodes),
        TEST(rates_that_are_needed_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
