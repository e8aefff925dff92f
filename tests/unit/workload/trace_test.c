#include "base/fs.h"
#include "support/support.h"
#include "workload/workload.h"

#define HEADER "arrived_at,num_prefill_tokens,num_decode_tokens\n"

/* python3: 4.314579, 0.1 + 0.2 and 12345678.987654321 as Python reads them; ns rounded. */
static void seconds_are_read_exactly(void **state)
{
    struct test *t = *state;
    struct workload w;
    const char *path = test_write(t, "trace.csv",
                                  "num_decode_tokens,arrived_at,x,num_prefill_tokens\n"
                                  "1,0.30000000000000004,,2.0\n3,4.314579,,4\n"
                                  "5,12345678.987654321,a,6\n");
    assert_ok(workload_load_trace(t->a, path, &w, &t->e), t);
    assert_int_equal(w.n, 3);
    assert_null(w.dir);
    assert_null(w.requests[0].prompt_id);
    assert_true(w.requests[0].arrival_s == 0x1.3333333333334p-2);
    assert_true(w.requests[1].arrival_s == 0x1.14220ff540896p+2);
    assert_true(w.requests[2].arrival_s == 0x1.78c29df9add3cp+23);
    assert_int_equal(w.requests[0].arrival_ns, 300000000);
    assert_int_equal(w.requests[1].arrival_ns, 4314579000);
    assert_int_equal(w.requests[2].arrival_ns, 12345678987654320);
    assert_int_equal(w.requests[0].num_prefill_tokens, 2);
    assert_int_equal(w.requests[2].num_decode_tokens, 5);
    assert_int_equal(w.requests[2].request_id, 2);
}

static const struct bad {
    const char *text, *error;
} bads[] = {
    {"", "DIR/t.csv: empty, expected a header line"},
    {HEADER, "DIR/t.csv: has a header and no rows"},
    {"arrived,num_prefill_tokens,num_decode_tokens\n",
     "DIR/t.csv:1: no column 'arrived_at' among: arrived, num_prefill_tokens, num_decode_tokens\n"
     "hint: did you mean 'arrived'?"},
    {HEADER "nan,1,1\n", "DIR/t.csv:2:1: arrived_at: expected a number, got 'nan'"},
    {HEADER "-0.5,1,1\n", "DIR/t.csv:2:1: arrived_at: -0.5 is below the minimum 0"},
    {HEADER "1e12,1,1\n", "DIR/t.csv:2:1: arrived_at: 1e+12 is above the maximum 9.2e+09"},
    {HEADER ",1,1\n", "DIR/t.csv:2:1: arrived_at: expected a number, the cell is empty"},
    {HEADER "0,0,1\n", "DIR/t.csv:2:2: num_prefill_tokens: 0 is below the minimum 1"},
    {HEADER "0,1.5,1\n", "DIR/t.csv:2:2: num_prefill_tokens: expected an integer, got '1.5'"},
    {HEADER "0,1,1\n2.5,1,1\n2.25,1,1\n",
     "DIR/t.csv:4:1: arrived_at: 2.25 is before the row above it\n"
     "hint: sort the trace by arrived_at"},
    {HEADER "0,1,1\n1,1", "DIR/t.csv:3: 2 cells where the header has 3"},
    {HEADER "0,1,\xff\n", "DIR/t.csv:2:3: num_decode_tokens: bytes that are not UTF-8"},
};

static void names_every_fault(void **state)
{
    struct test *t = *state;
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        struct workload w;
        const char *path = test_write(t, "t.csv", bads[i].text);
        assert_err(workload_load_trace(t->a, path, &w, &t->e), ST_INPUT, t, bads[i].error);
    }
}

static void reads_published_traces(void **state)
{
    struct test *t = *state;
    struct workload w;
    const char *dir = test_data(t, "vidur/data/processed_traces");
    assert_ok(workload_load_trace(t->a, fs_join(t->a, dir, "splitwise_conv.csv"), &w, &t->e), t);
    assert_int_equal(w.n, 19366);
    assert_int_equal(w.requests[1].arrival_ns, 4314579000);
    assert_int_equal(w.requests[1].num_prefill_tokens, 396);
    assert_int_equal(w.requests[1].num_decode_tokens, 109);
    assert_ok(workload_load_trace(t->a, fs_join(t->a, dir, "splitwise_code.csv"), &w, &t->e), t);
    assert_int_equal(w.n, 8819);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(seconds_are_read_exactly),
        TEST(names_every_fault),
        TEST(reads_published_traces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
