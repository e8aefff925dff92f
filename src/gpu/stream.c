#include "gpu/stream.h"

#define CHECK(g, call, ...) gpu_check(g, (g)->driver.call(__VA_ARGS__), #call, e)

enum st gpu_stream_open(const struct gpu *g, CUstream *out, struct err *e)
{
    *out = NULL;
    return CHECK(g, cuStreamCreate, out, CU_STREAM_NON_BLOCKING);
}

void gpu_stream_close(const struct gpu *g, CUstream *s)
{
    if (*s)
        g->driver.cuStreamDestroy_v2(*s);
    *s = NULL;
}

enum st gpu_stream_wait(const struct gpu *g, CUstream s, struct err *e)
{
    return CHECK(g, cuStreamSynchronize, s);
}

enum st gpu_stream_after(const struct gpu *g, CUstream s, CUevent event, struct err *e)
{
    return CHECK(g, cuStreamWaitEvent, s, event, 0);
}

enum st gpu_event_open(const struct gpu *g, bool timed, CUevent *out, struct err *e)
{
    *out = NULL;
    return CHECK(g, cuEventCreate, out, timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
}

void gpu_event_close(const struct gpu *g, CUevent *event)
{
    if (*event)
        g->driver.cuEventDestroy_v2(*event);
    *event = NULL;
}

enum st gpu_event_record(const struct gpu *g, CUevent event, CUstream s, struct err *e)
{
    return CHECK(g, cuEventRecord, event, s);
}

enum st gpu_event_wait(const struct gpu *g, CUevent event, struct err *e)
{
    return CHECK(g, cuEventSynchronize, event);
}

enum st gpu_event_query(const struct gpu *g, CUevent event, bool *done, struct err *e)
{
    const CUresult result = g->driver.cuEventQuery(event);
    *done = result == CUDA_SUCCESS;
    return result == CUDA_ERROR_NOT_READY ? ST_OK : gpu_check(g, result, "cuEventQuery", e);
}

enum st gpu_event_s(const struct gpu *g, CUevent start, CUevent end, double *s, struct err *e)
{
    float ms = 0;
    TRY(CHECK(g, cuEventElapsedTime, &ms, start, end));
    *s = (double)ms / 1e3;
    return ST_OK;
}

/* Thread-local: calls of other threads, of a profiler say, do not spoil the capture. */
enum st gpu_capture_begin(const struct gpu *g, CUstream s, struct err *e)
{
    return CHECK(g, cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

enum st gpu_capture_end(const struct gpu *g, CUstream s, CUgraphExec *out, size_t *n_nodes,
                        struct err *e)
{
    CUgraph graph = NULL;
    *out = NULL;
    if (CHECK(g, cuStreamEndCapture, s, &graph) != ST_OK)
        return e->st;
    enum st st = CHECK(g, cuGraphInstantiateWithFlags, out, graph, 0);
    if (st == ST_OK && n_nodes)
        st = CHECK(g, cuGraphGetNodes, graph, NULL, n_nodes);
    g->driver.cuGraphDestroy(graph);
    if (st != ST_OK)
        gpu_graph_close(g, out);
    return st;
}

enum st gpu_graph_launch(const struct gpu *g, CUgraphExec graph, CUstream s, struct err *e)
{
    return CHECK(g, cuGraphLaunch, graph, s);
}

void gpu_graph_close(const struct gpu *g, CUgraphExec *graph)
{
    if (*graph)
        g->driver.cuGraphExecDestroy(*graph);
    *graph = NULL;
}
