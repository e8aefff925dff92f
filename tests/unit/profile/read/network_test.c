#include "profile/read/network.h"

#include "support/support.h"

static const char header[] = "time_stats.all_reduce.median,time_stats.send_recv.median,rank,"
                             "num_workers,size,collective,devices_per_node,max_devices_per_node\n";

static const char *table(struct test *t)
{
    struct buf b = {0};
    buf_puts(&b, header);
    for (int size = 2048; size <= 8192; size *= 2) {
        buf_printf(&b, "%d,9,0,2,%d,x,2,4\n", size / 1024, size); /* a pair in a node */
        buf_printf(&b, "%d,7,0,2,%d,x,1,4\n", size / 512, size);  /* a pair over two nodes */
        buf_printf(&b, "%d,9,0,8,%d,x,4,4\n", size / 256, size);  /* eight over two nodes */
    }
    const char *path = arena_str(t->a, test_write(t, "net.csv", buf_str(&b)));
    buf_free(&b);
    return path;
}

/* With 256 wide activations 2048 bytes are 4 tokens. */
static void sizes_become_tokens(void **state)
{
    struct test *t = *state;
    const char *path = table(t);
    struct op_table n;
    bool outside = false;
    struct network_key key = {.tp = 2, .pp = 1, .hidden = 256};
    assert_ok(read_all_reduce(t->a, path, &key, &n, &t->e), t);
    assert_near_rel(curve_at(&n.curve, 4, &outside), 2e-3, 1e-12);
    assert_near_rel(curve_at(&n.curve, 12, &outside), 6e-3, 1e-12);
    assert_false(outside);
    key.tp = 8;
    assert_ok(read_all_reduce(t->a, path, &key, &n, &t->e), t);
    assert_near_rel(curve_at(&n.curve, 16, &outside), 32e-3, 1e-12);
    key = (struct network_key){.tp = 2, .pp = 2, .hidden = 256};
    assert_ok(read_send_recv(t->a, path, &key, &n, &t->e), t);
    assert_near_rel(curve_at(&n.curve, 4, &outside), 9e-3, 1e-12);
    key.tp = 4; /* 8 devices do not share a node of 4 */
    assert_ok(read_send_recv(t->a, path, &key, &n, &t->e), t);
    assert_near_rel(curve_at(&n.curve, 4, &outside), 7e-3, 1e-12);
}

/* all_to_all.csv: the rows of ep devices; 2048 bytes that each sends are 4 tokens. */
static void all_to_all_is_of_the_experts_devices(void **state)
{
    struct test *t = *state;
    const char *text = "time_stats.all_to_all.median,num_workers,size,devices_per_node,"
                       "max_devices_per_node\n5,4,2048,4,4\n9,8,2048,4,4\n";
    const char *path = test_write(t, "a2a.csv", text);
    struct op_table n;
    bool outside = false;
    struct network_key key = {.tp = 2, .pp = 1, .ep = 8, .hidden = 256};
    assert_ok(read_all_to_all(t->a, path, &key, &n, &t->e), t);
    assert_near_rel(curve_at(&n.curve, 4, &outside), 9e-3, 1e-12);
    key.ep = 16;
    assert_err(read_all_to_all(t->a, path, &key, &n, &t->e), ST_INPUT, t,
               "parallel.ep=16 needs the network's table\n"
               "DIR/a2a.csv: no rows for num_workers 16, devices_per_node 4; the nearest rows have "
               "num_workers 8");
}

static void what_is_not_there(void **state)
{
    struct test *t = *state;
    struct op_table n;
    struct network_key key = {.tp = 4, .pp = 1, .hidden = 256};
    assert_err(read_all_reduce(t->a, table(t), &key, &n, &t->e), ST_INPUT, t,
               "parallel.tp=4 needs the network's table\n"
               "DIR/net.csv: no rows for num_workers 4, devices_per_node 4; the nearest rows have "
               "num_workers 8");
    assert_err(read_send_recv(t->a, test_path(t, "none.csv"), &key, &n, &t->e), ST_INPUT, t,
               "parallel.pp=1 needs the network's table\n"
               "cannot open DIR/none.csv: No such file or directory");
    assert_err(read_all_reduce(t->a, test_write(t, "empty.csv", header), &key, &n, &t->e), ST_INPUT,
               t, "parallel.tp=4 needs the network's table\nDIR/empty.csv has no rows");
    const char *text = "time_stats.all_reduce.median,num_workers,size,devices_per_node,"
                       "max_devices_per_node\n-1,4,2048,4,4\n";
    assert_err(read_all_reduce(t->a, test_write(t, "bad.csv", text), &key, &n, &t->e), ST_INPUT, t,
               "parallel.tp=4 needs the network's table\n"
               "DIR/bad.csv:2:1: time_stats.all_reduce.median: -1 is below the minimum 0");
}

/* Vidur's own tables of A100 pairs: 4 tokens of 8192 in float16 are 64 KiB. */
static void vidurs_tables(void **state)
{
    struct test *t = *state;
    const char *dir = test_data(t, "vidur/data/profiling/network/a100_pairwise_nvlink");
    struct network_key key = {.tp = 2, .pp = 2, .hidden = 8192};
    struct op_table n;
    bool outside = false;
    assert_ok(read_all_reduce(t->a, arena_printf(t->a, "%s/all_reduce.csv", dir), &key, &n, &t->e),
              t);
    double ms = curve_at(&n.curve, 4096, &outside) * 1e3;
    assert_true(!outside && ms > 0.3 && ms < 0.6);
    assert_ok(read_send_recv(t->a, arena_printf(t->a, "%s/send_recv.csv", dir), &key, &n, &t->e),
              t);
    assert_true(curve_at(&n.curve, 4096, &outside) > curve_at(&n.curve, 8, &outside));
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(sizes_become_tokens),
                                       TEST(all_to_all_is_of_the_experts_devices),
                                       TEST(what_is_not_there), TEST(vidurs_tables)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
