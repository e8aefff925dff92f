/* Disaggregation worked by hand: 8 tokens of 100 bytes over links of 400 bytes/s and 0.5 s; batches
 * take 1 s. */
#include "serve/transfer.h"

#include "base/clock.h"
#include "support/serve_harness.h"
#include "support/support.h"

static const struct workload_request two[] = {
    {.request_id = 0, .num_prefill_tokens = 8, .num_decode_tokens = 3},
    {.request_id = 1, .num_prefill_tokens = 8, .num_decode_tokens = 2},
};

static struct harness parted(size_t n, int32_t replicas, int32_t prefill_replicas)
{
    struct harness h = harness_default();
    h.requests = two;
    h.n_requests = n;
    h.p.token_budget = 32;
    h.p.replicas = replicas;
    h.p.prefill_replicas = prefill_replicas;
    h.p.kv_bandwidth_gb_s = 400e-9;
    h.p.kv_latency_s = 0.5;
    h.p.kv_bytes_per_token = 100;
    return h;
}

static void completes(const struct harness *h, int64_t id, double first_s, double completion_s)
{
    const struct run_request *r = harness_row(h, id);
    assert_int_equal(r->first_token_ns, ns_from_s(first_s));
    assert_int_equal(r->completion_ns, ns_from_s(completion_s));
}

/* Prefill to 1 s, transfer 2 + 0.5 s, two decode batches. */
static void the_second_token_waits_for_the_transfer(void **state)
{
    (void)state;
    struct harness h = parted(1, 2, 1);
    harness_run(&h);
    harness_check(&h);
    EXPECT_BATCHES(&h, "0: 0:8@0! | 0", "0: +0 | 1", "1: | 1");
    assert_int_equal(h.batches.p[1].replica, 1);
    assert_int_equal(h.batches.p[1].start_ns, ns_from_s(3.5));
    completes(&h, 0, 1, 5.5);
    assert_int_equal(h.n.kv_transfers, 1);
    assert_int_equal(h.n.kv_transfer_bytes, 800);
    assert_near(h.n.kv_transfer_s, 2.5, 1e-12);
    assert_near(h.n.kv_transfer_wait_s, 0, 0);
    harness_free(&h);
}

/* Both leave replica 0 at 1 s: its link sends one after the other, wherever they go. */
static void a_link_sends_one_at_a_time(void **state)
{
    (void)state;
    for (int32_t replicas = 2; replicas <= 3; replicas++) {
        struct harness h = parted(2, replicas, 1);
        harness_run(&h);
        harness_check(&h);
        completes(&h, 0, 1, 5.5);
        completes(&h, 1, 1, 6.5); /* sent from 3 to 5, there at 5.5 */
        assert_near(h.n.kv_transfer_wait_s, 2, 1e-12);
        harness_free(&h);
    }
}

/* Two senders: in parallel to two decode replicas, one after the other to one. */
static void a_link_receives_one_at_a_time(void **state)
{
    (void)state;
    struct harness h = parted(2, 4, 2);
    harness_run(&h);
    harness_check(&h);
    completes(&h, 0, 1, 5.5);
    completes(&h, 1, 1, 4.5);
    harness_free(&h);
    h = parted(2, 3, 2);
    harness_run(&h);
    harness_check(&h);
    completes(&h, 0, 1, 5.5);
    completes(&h, 1, 1, 6.5);
    harness_free(&h);
}

/* 3 blocks of 4 tokens: the second prompt starts when the first has left, at 3.5 s. */
static void blocks_are_held_until_they_are_sent(void **state)
{
    (void)state;
    struct harness h = parted(2, 2, 1);
    h.p.num_blocks = 3;
    harness_run(&h);
    harness_check(&h);
    completes(&h, 0, 1, 5.5);
    completes(&h, 1, 4.5, 8); /* sent from 4.5 to 6.5, there at 7 */
    harness_free(&h);
}

/* A decode replica with room for one: the second sequence comes in when the first is done. */
static void what_has_come_waits_for_blocks(void **state)
{
    (void)state;
    struct harness h = parted(2, 3, 2);
    h.p.batch_cap = 1;
    h.p.kv_bandwidth_gb_s = 1e6;
    harness_run(&h);
    harness_check(&h);
    completes(&h, 0, 1, 3.5);
    completes(&h, 1, 1, 4.5);
    harness_free(&h);
}

/* One token asked for: nothing to send. */
static void a_prefill_may_be_all(void **state)
{
    (void)state;
    const struct workload_request one = {.num_prefill_tokens = 8, .num_decode_tokens = 1};
    struct harness h = parted(1, 2, 1);
    h.requests = &one;
    harness_run(&h);
    harness_check(&h);
    completes(&h, 0, 1, 1);
    assert_int_equal(h.n.kv_transfers, 0);
    harness_free(&h);
}

/* Stopped at any batch: every request has one row, those on their way too. */
static void interrupted_on_the_way(void **state)
{
    (void)state;
    struct workload_request w[8];
    for (int i = 0; i < 8; i++)
        w[i] = (struct workload_request){
            .request_id = i, .arrival_s = 0.7 * i, .num_prefill_tokens = 8, .num_decode_tokens = 5};
    for (int64_t at = 1; at < 14; at++) {
        struct harness h = parted(8, 3, 1);
        h.requests = w;
        h.p.batch_cap = 2;
        h.stop_at_batch = at;
        harness_run(&h);
        assert_int_equal(h.st, ST_INTERRUPTED);
        assert_int_equal(h.rows.n, h.n.requests);
        harness_free(&h);
    }
}

/* ---- refusals ---- */

static void refused(struct serve_params p, const char *text)
{
    struct err e = {0};
    assert_int_equal(serve_check_params(&p, &e), ST_USAGE);
    assert_cause(&e, text);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    struct harness h = parted(1, 2, 1);
    struct serve_params p = h.p;
    p.prefill_replicas = 2;
    refused(p, "cluster.prefill_replicas: 2 of 2 replicas leave none to decode");
    p = h.p;
    p.kv_bandwidth_gb_s = 0;
    refused(p, "cluster.prefill_replicas: the links need a bandwidth");
    p = h.p;
    p.policy = "orca";
    p.token_budget = 0;
    refused(p, "cluster.prefill_replicas: policy orca is not modelled in two parts");
    p = h.p;
    p.prefill_replicas = 0;
    refused(p,
            "cluster.kv_bandwidth_gb_s: without cluster.prefill_replicas nothing is transferred");
    p.kv_bandwidth_gb_s = 0;
    refused(p, "cluster.kv_latency_s: without cluster.prefill_replicas nothing is transferred");
}

static void engines_move_no_kv(void **state)
{
    (void)state;
    struct harness h = parted(1, 2, 1);
    h.fake.computes = true;
    harness_run(&h);
    assert_int_equal(h.st, ST_USAGE);
    assert_cause(&h.e, "cluster.prefill_replicas: executor fake moves no KV, only predictions do");
    harness_free(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_second_token_waits_for_the_transfer),
        TEST(a_link_sends_one_at_a_time),
        TEST(a_link_receives_one_at_a_time),
        TEST(blocks_are_held_until_they_are_sent),
        TEST(what_has_come_waits_for_blocks),
        TEST(a_prefill_may_be_all),
        TEST(interrupted_on_the_way),
        TEST(what_makes_no_sense_is_refused),
        TEST(engines_move_no_kv),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
