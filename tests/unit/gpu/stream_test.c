/* Order and time: streams, events, graphs, on the fake device. */
#include "gpu/stream.h"

#include "support/fake_gpu/script.h"
#include "support/support.h"

struct stage {
    struct gpu g;
    CUstream one, two;
    CUevent start, end;
    CUdeviceptr a, b; /* 1 MiB */
};

static void stage_open(struct test *t, struct stage *s, const char *script)
{
    fake_gpu_play(script);
    assert_ok(gpu_open(0, &s->g, &t->e), t);
    assert_ok(gpu_stream_open(&s->g, &s->one, &t->e), t);
    assert_ok(gpu_stream_open(&s->g, &s->two, &t->e), t);
    assert_ok(gpu_event_open(&s->g, true, &s->start, &t->e), t);
    assert_ok(gpu_event_open(&s->g, true, &s->end, &t->e), t);
    assert_ok(gpu_alloc(&s->g, 1 << 20, "a", &s->a, &t->e), t);
    assert_ok(gpu_alloc(&s->g, 1 << 20, "b", &s->b, &t->e), t);
}

static void stage_close(struct stage *s)
{
    gpu_event_close(&s->g, &s->start);
    gpu_event_close(&s->g, &s->end);
    gpu_stream_close(&s->g, &s->one);
    gpu_stream_close(&s->g, &s->two);
    gpu_free(&s->g, &s->a);
    gpu_free(&s->g, &s->b);
    gpu_close(&s->g);
}

static char first_byte(struct test *t, struct stage *s, CUdeviceptr at, CUstream stream)
{
    char c = 0;
    assert_ok(gpu_download(&s->g, &c, at, 1, stream, &t->e), t);
    assert_ok(gpu_stream_wait(&s->g, stream, &t->e), t);
    return c;
}

static void streams_are_ordered_by_events_alone(void **state)
{
    struct test *t = *state;
    struct stage s;
    stage_open(t, &s, "");
    assert_ok(gpu_fill(&s.g, s.a, 'a', 1, s.one, &t->e), t);
    assert_ok(gpu_event_record(&s.g, s.end, s.one, &t->e), t);
    assert_int_equal((unsigned char)first_byte(t, &s, s.a, s.two), 0xcd); /* nobody waited */
    assert_ok(gpu_stream_after(&s.g, s.two, s.end, &t->e), t);
    assert_int_equal(first_byte(t, &s, s.a, s.two), 'a');
    stage_close(&s);
}

static void time_passes_between_events(void **state)
{
    struct test *t = *state;
    struct stage s;
    double seconds = 0;
    bool done = true;
    stage_open(t, &s, "");
    assert_ok(gpu_event_record(&s.g, s.start, s.one, &t->e), t);
    assert_ok(gpu_copy(&s.g, s.b, s.a, 1000000, s.one, &t->e), t);
    assert_ok(gpu_event_record(&s.g, s.end, s.one, &t->e), t);
    assert_ok(gpu_event_query(&s.g, s.end, &done, &t->e), t);
    assert_false(done);
    for (int i = 0; i < 9 && !done; i++)
        assert_ok(gpu_event_query(&s.g, s.end, &done, &t->e), t);
    assert_true(done);
    assert_ok(gpu_event_wait(&s.g, s.end, &t->e), t);
    assert_ok(gpu_event_s(&s.g, s.start, s.end, &seconds, &t->e), t);
    assert_near(seconds, 1e-5, 1e-9); /* 100 GB/s */
    stage_close(&s);
}

static void a_graph_runs_when_it_is_launched(void **state)
{
    struct test *t = *state;
    struct stage s;
    CUgraphExec graph;
    size_t nodes = 0;
    stage_open(t, &s, "");
    assert_ok(gpu_fill(&s.g, s.a, 'o', 1, s.one, &t->e), t);
    assert_ok(gpu_fill(&s.g, s.b, 'o', 1, s.one, &t->e), t);
    assert_ok(gpu_capture_begin(&s.g, s.one, &t->e), t);
    assert_ok(gpu_fill(&s.g, s.a, 'n', 1, s.one, &t->e), t);
    assert_ok(gpu_copy(&s.g, s.b, s.a, 1, s.one, &t->e), t);
    assert_ok(gpu_capture_end(&s.g, s.one, &graph, &nodes, &t->e), t);
    assert_int_equal(nodes, 2);
    assert_int_equal(first_byte(t, &s, s.b, s.one), 'o');
    for (int i = 0; i < 2; i++) {
        assert_ok(gpu_fill(&s.g, s.b, 'o', 1, s.one, &t->e), t);
        assert_ok(gpu_graph_launch(&s.g, graph, s.one, &t->e), t);
        assert_int_equal(first_byte(t, &s, s.b, s.one), 'n');
    }
    gpu_graph_close(&s.g, &graph);
    assert_null(graph);
    gpu_graph_close(&s.g, &graph);
    stage_close(&s);
}

static void branches_of_a_graph_must_come_back(void **state)
{
    struct test *t = *state;
    struct stage s;
    CUgraphExec graph;
    for (int comes_back = 0; comes_back < 2; comes_back++) {
        stage_open(t, &s, "");
        assert_ok(gpu_capture_begin(&s.g, s.one, &t->e), t);
        assert_ok(gpu_event_record(&s.g, s.start, s.one, &t->e), t);
        assert_ok(gpu_stream_after(&s.g, s.two, s.start, &t->e), t);
        assert_ok(gpu_fill(&s.g, s.a, 'b', 1, s.two, &t->e), t);
        assert_ok(gpu_event_record(&s.g, s.end, s.two, &t->e), t);
        if (comes_back)
            assert_ok(gpu_stream_after(&s.g, s.one, s.end, &t->e), t);
        err_clear(&t->e);
        if (comes_back)
            assert_ok(gpu_capture_end(&s.g, s.one, &graph, NULL, &t->e), t);
        else
            assert_err(gpu_capture_end(&s.g, s.one, &graph, NULL, &t->e), ST_DEVICE, t,
                       "cuStreamEndCapture: CUDA_ERROR_STREAM_CAPTURE_UNJOINED (904)");
        gpu_graph_close(&s.g, &graph);
        stage_close(&s);
    }
}

static void a_capture_in_which_one_waits_is_spoilt(void **state)
{
    struct test *t = *state;
    struct stage s;
    CUgraphExec graph;
    stage_open(t, &s, "");
    assert_ok(gpu_capture_begin(&s.g, s.one, &t->e), t);
    assert_err(gpu_stream_wait(&s.g, s.one, &t->e), ST_DEVICE, t,
               "cuStreamSynchronize: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)");
    err_clear(&t->e);
    assert_err(gpu_capture_end(&s.g, s.one, &graph, NULL, &t->e), ST_DEVICE, t,
               "cuStreamEndCapture: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901)");
    assert_null(graph);
    assert_int_equal(first_byte(t, &s, s.a, s.one) != 0, 1); /* the stream works again */
    stage_close(&s);
}

static void refusals_are_reported(void **state)
{
    struct test *t = *state;
    struct stage s;
    CUgraphExec graph;
    stage_open(t, &s,
               "fail cuGraphInstantiateWithFlags 1 2;fail cuGraphLaunch 1 719;fail cuEventRecord 1 "
               "999");
    assert_ok(gpu_capture_begin(&s.g, s.one, &t->e), t);
    assert_int_equal(gpu_capture_end(&s.g, s.one, &graph, NULL, &t->e), ST_DEVICE);
    assert_string_equal(err_cause(&t->e, 0),
                        "cuGraphInstantiateWithFlags: CUDA_ERROR_OUT_OF_MEMORY (2)");
    assert_int_equal(gpu_event_record(&s.g, s.start, s.one, &t->e), ST_DEVICE);
    assert_string_equal(err_cause(&t->e, 0), "cuEventRecord: CUDA_ERROR_UNKNOWN (999)");
    assert_ok(gpu_capture_begin(&s.g, s.one, &t->e), t);
    assert_ok(gpu_capture_end(&s.g, s.one, &graph, NULL, &t->e), t);
    assert_int_equal(gpu_graph_launch(&s.g, graph, s.one, &t->e), ST_DEVICE);
    assert_string_equal(err_cause(&t->e, 0), "cuGraphLaunch: CUDA_ERROR_LAUNCH_FAILED (719)");
    gpu_graph_close(&s.g, &graph);
    stage_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(streams_are_ordered_by_events_alone),    TEST(time_passes_between_events),
        TEST(a_graph_runs_when_it_is_launched),       TEST(branches_of_a_graph_must_come_back),
        TEST(a_capture_in_which_one_waits_is_spoilt), TEST(refusals_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
