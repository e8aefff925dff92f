/* CUDA graphs: their nodes are kept when a graph is instantiated, since the program may destroy the
 * graph then, and take the place of each launch inside the region. */
#include <inttypes.h>
#include <string.h>

#include "inject/capture.h"

/* Of an executable graph: records as in a capsule, indices within the lists. */
struct expanded {
    CUgraphExec exec;
    const char *wrong; /* why it cannot be captured; NULL = it can */
    struct list ops, edges, launches, attributes, copies, sets, bytes;
};
static struct list graphs;  /* of struct expanded; lock `work` */
static uint32_t n_launched; /* graph launches in the region */

static void release(struct expanded *x)
{
    struct list *all[] = {&x->ops,    &x->edges, &x->launches, &x->attributes,
                          &x->copies, &x->sets,  &x->bytes};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        inject_list_free(all[i]);
    *x = (struct expanded){0};
}

void capture_graph_reset(void)
{
    for (size_t i = 0; i < graphs.n; i++)
        release(LIST_AT(&graphs, struct expanded, i));
    inject_list_free(&graphs);
    n_launched = 0;
}

static struct expanded *find(CUgraphExec exec)
{
    for (size_t i = 0; i < graphs.n; i++)
        if (LIST_AT(&graphs, struct expanded, i)->exec == exec)
            return LIST_AT(&graphs, struct expanded, i);
    return NULL;
}

/* ---- nodes ---- */

static bool no_memory(struct expanded *x)
{
    x->wrong = "no memory for its nodes";
    return false;
}

static void node_attributes(struct expanded *x, CUgraphNode node, struct capsule_launch *l)
{
    enum {
        COOPERATIVE = 2,
        CLUSTER = 4,
        CLUSTER_POLICY = 5,
        PRIORITY = 8,
        PREFERRED_CLUSTER = 11,
        UPDATABLE = 13,
        CARVEOUT = 14
    };
    static const int ids[] = {COOPERATIVE, CLUSTER,           CLUSTER_POLICY,
                              PRIORITY,    PREFERRED_CLUSTER, CARVEOUT};
    CUlaunchAttributeValue updatable;
    memset(&updatable, 0, sizeof updatable);
    if (capture.driver.cuGraphKernelNodeGetAttribute(node, (CUlaunchAttributeID)UPDATABLE,
                                                     &updatable) == CUDA_SUCCESS &&
        updatable.pad[0])
        x->wrong = "a kernel node that kernels may change";
    static const unsigned char none[CAPSULE_ATTRIBUTE_BYTES];
    l->first_attribute = (uint32_t)x->attributes.n;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        struct capsule_attribute a = {.id = (uint32_t)ids[i]};
        CUlaunchAttributeValue value;
        memset(&value, 0, sizeof value);
        _Static_assert(sizeof value == sizeof a.value, "a launch attribute");
        if (capture.driver.cuGraphKernelNodeGetAttribute(node, (CUlaunchAttributeID)ids[i],
                                                         &value) != CUDA_SUCCESS ||
            memcmp(&value, none, sizeof none) == 0)
            continue;
        memcpy(a.value, &value, sizeof a.value);
        if (!inject_list_append(&x->attributes, &a, 1, sizeof a))
            no_memory(x);
        l->n_attributes++;
    }
}

static bool kernel_node(struct expanded *x, CUgraphNode node, struct capsule_op *o)
{
    CUDA_KERNEL_NODE_PARAMS p;
    memset(&p, 0, sizeof p);
    if (capture.driver.cuGraphKernelNodeGetParams_v2(node, &p) != CUDA_SUCCESS) {
        x->wrong = "a kernel node whose parameters the driver does not tell";
        return false;
    }
    const struct capture_function *f =
        capture_function_of(p.func ? (const void *)p.func : (const void *)p.kern);
    if (!f)
        return false;
    struct capsule_launch l = {.function = capture_function_index(f),
                               .grid = {p.gridDimX, p.gridDimY, p.gridDimZ},
                               .block = {p.blockDimX, p.blockDimY, p.blockDimZ},
                               .shared_bytes = p.sharedMemBytes,
                               .params = {x->bytes.n, f->params_bytes}};
    node_attributes(x, node, &l);
    if (x->wrong)
        return false;
    unsigned char *to = inject_list_grow(&x->bytes, f->params_bytes, 1);
    if (!to || !inject_list_append(&x->launches, &l, 1, sizeof l))
        return no_memory(x);
    o->kind = CAPSULE_LAUNCH;
    o->item = (uint32_t)x->launches.n - 1;
    return capture_params(f, p.kernelParams, p.extra, to);
}

static bool copy_node(struct expanded *x, CUgraphNode node, struct capsule_op *o)
{
    CUDA_MEMCPY3D p;
    struct capsule_copy m;
    if (capture.driver.cuGraphMemcpyNodeGetParams(node, &p) != CUDA_SUCCESS ||
        !capture_copy_of_3d(&p, &m)) {
        x->wrong = "a copy of an array, or of memory that the driver does not tell";
        return false;
    }
    if (!inject_list_append(&x->copies, &m, 1, sizeof m))
        return no_memory(x);
    o->kind = CAPSULE_COPY;
    o->item = (uint32_t)x->copies.n - 1;
    return true;
}

static bool set_node(struct expanded *x, CUgraphNode node, struct capsule_op *o)
{
    CUDA_MEMSET_NODE_PARAMS p;
    if (capture.driver.cuGraphMemsetNodeGetParams(node, &p) != CUDA_SUCCESS) {
        x->wrong = "a set whose parameters the driver does not tell";
        return false;
    }
    struct capsule_set s = {p.dst,   p.width, p.height ? p.height : 1,
                            p.pitch, p.value, p.elementSize};
    if (!inject_list_append(&x->sets, &s, 1, sizeof s))
        return no_memory(x);
    o->kind = CAPSULE_SET;
    o->item = (uint32_t)x->sets.n - 1;
    return true;
}

static const char *unsupported(CUgraphNodeType type)
{
    switch ((int)type) {
    case CU_GRAPH_NODE_TYPE_HOST:
        return "a host function";
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return "an allocation inside the graph";
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        return "a conditional node";
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return "an event of the program";
    default:
        return "a node of unknown kind";
    }
}

/* ---- graphs ---- */

enum { DEEPEST = 8 };
static bool expand(struct expanded *x, CUgraph graph, uint32_t entry, int depth);

struct graph_node {
    CUgraphNode node;
    uint32_t op; /* the operation that stands for it, CAPSULE_NONE = not yet */
};

static bool add_edge(struct expanded *x, struct capsule_op *o, uint32_t on,
                     const CUgraphEdgeData *data)
{
    struct capsule_edge edge = {.op = on};
    if (data) {
        edge.type = data->type;
        edge.from_port = data->from_port;
        edge.to_port = data->to_port;
    }
    o->n_edges++;
    return inject_list_append(&x->edges, &edge, 1, sizeof edge) || no_memory(x);
}

static bool add_op(struct expanded *x, const struct capsule_op *o, uint32_t *at)
{
    *at = (uint32_t)x->ops.n;
    return inject_list_append(&x->ops, o, 1, sizeof *o) || no_memory(x);
}

/* The edges of a node into x->edges. 1 = all it waits for is there, 0 = not yet, -1 = an error. */
static int add_edges(struct expanded *x, CUgraphNode node, const struct graph_node *nodes, size_t n,
                     uint32_t entry, struct capsule_op *o)
{
    enum { MOST = 4096 };
    static CUgraphNode on[MOST]; /* lock `work` held */
    static CUgraphEdgeData data[MOST];
    size_t n_on = MOST, first = x->edges.n;
    if (capture.driver.cuGraphNodeGetDependencies_v2(node, NULL, NULL, &n_on) != CUDA_SUCCESS ||
        n_on > MOST) {
        x->wrong = "a node with more than 4096 dependencies";
        return -1;
    }
    memset(data, 0, sizeof *data * n_on);
    if (n_on > 0 &&
        capture.driver.cuGraphNodeGetDependencies_v2(node, on, data, &n_on) != CUDA_SUCCESS) {
        x->wrong = "a node whose dependencies the driver does not tell";
        return -1;
    }
    o->first_edge = (uint32_t)first;
    for (size_t i = 0; i < n_on; i++) {
        size_t k = 0;
        while (k < n && nodes[k].node != on[i])
            k++;
        if (k == n || nodes[k].op == CAPSULE_NONE) {
            x->edges.n = first;
            o->n_edges = 0;
            return 0;
        }
        if (!add_edge(x, o, nodes[k].op, &data[i]))
            return -1;
    }
    if (n_on == 0 && entry != CAPSULE_NONE && !add_edge(x, o, entry, NULL))
        return -1;
    return 1;
}

/* A graph in the graph: an empty operation before its nodes, and one behind them all. */
static bool child_node(struct expanded *x, CUgraphNode node, struct capsule_op *o, uint32_t *at,
                       int depth)
{
    CUgraph child;
    uint32_t entry;
    if (depth == DEEPEST ||
        capture.driver.cuGraphChildGraphNodeGetGraph(node, &child) != CUDA_SUCCESS) {
        x->wrong = "graphs in graphs, too deep";
        return false;
    }
    if (!add_op(x, o, &entry) || !expand(x, child, entry, depth + 1))
        return false;
    struct capsule_op last = {
        .kind = CAPSULE_EMPTY, .item = CAPSULE_NONE, .first_edge = (uint32_t)x->edges.n};
    for (uint32_t i = entry; i < x->ops.n; i++)
        if (!add_edge(x, &last, i, NULL))
            return false;
    return add_op(x, &last, at);
}

static bool add_node(struct expanded *x, struct graph_node *node, struct capsule_op *o, int depth)
{
    CUgraphNodeType type;
    o->kind = CAPSULE_EMPTY;
    o->item = CAPSULE_NONE;
    if (capture.driver.cuGraphNodeGetType(node->node, &type) != CUDA_SUCCESS) {
        x->wrong = "a node whose type the driver does not tell";
        return false;
    }
    bool ok = true;
    if (type == CU_GRAPH_NODE_TYPE_GRAPH)
        return child_node(x, node->node, o, &node->op, depth);
    if (type == CU_GRAPH_NODE_TYPE_KERNEL)
        ok = kernel_node(x, node->node, o);
    else if (type == CU_GRAPH_NODE_TYPE_MEMCPY)
        ok = copy_node(x, node->node, o);
    else if (type == CU_GRAPH_NODE_TYPE_MEMSET)
        ok = set_node(x, node->node, o);
    else if (type != CU_GRAPH_NODE_TYPE_EMPTY) {
        x->wrong = unsupported(type);
        ok = false;
    }
    return ok && add_op(x, o, &node->op);
}

/* Every node behind those it waits for. */
static bool expand_nodes(struct expanded *x, struct graph_node *nodes, size_t n, uint32_t entry,
                         int depth)
{
    for (size_t done = 0; done < n;) {
        size_t before = done;
        for (size_t i = 0; i < n; i++) {
            struct capsule_op o = {0};
            if (nodes[i].op != CAPSULE_NONE)
                continue;
            int ready = add_edges(x, nodes[i].node, nodes, n, entry, &o);
            if (ready < 0 || (ready > 0 && !add_node(x, &nodes[i], &o, depth)))
                return false;
            done += ready > 0;
        }
        if (done == before) {
            x->wrong = "nodes that wait for each other";
            return false;
        }
    }
    return true;
}

static bool expand(struct expanded *x, CUgraph graph, uint32_t entry, int depth)
{
    size_t n = 0;
    struct list handles = {0}, nodes = {0};
    bool ok = capture.driver.cuGraphGetNodes(graph, NULL, &n) == CUDA_SUCCESS;
    if (ok && n > 0) {
        ok = inject_list_grow(&handles, n, sizeof(CUgraphNode)) &&
             inject_list_grow(&nodes, n, sizeof(struct graph_node)) &&
             capture.driver.cuGraphGetNodes(graph, LIST_AT(&handles, CUgraphNode, 0), &n) ==
                 CUDA_SUCCESS;
    }
    if (!ok)
        x->wrong = "nodes that the driver does not tell";
    for (size_t i = 0; ok && i < n; i++)
        *LIST_AT(&nodes, struct graph_node, i) =
            (struct graph_node){*LIST_AT(&handles, CUgraphNode, i), CAPSULE_NONE};
    ok = ok && (n == 0 || expand_nodes(x, LIST_AT(&nodes, struct graph_node, 0), n, entry, depth));
    inject_list_free(&handles);
    inject_list_free(&nodes);
    return ok;
}

static void instantiated(CUgraphExec exec, CUgraph graph)
{
    struct expanded *x = find(exec), *unused = find(NULL);
    if (!x)
        x = unused ? unused : inject_list_grow(&graphs, 1, sizeof *x);
    if (!x || !capture_bind()) {
        capture_refuse("no memory to list graphs");
        return;
    }
    release(x);
    x->exec = exec;
    if (!expand(x, graph, CAPSULE_NONE, 0) && !x->wrong)
        x->wrong = "a node that cannot be captured";
}

/* ---- the calls ---- */

static bool wanted(void)
{
    return inject_capture_wanted();
}

static bool is_instantiate(CUpti_CallbackId id)
{
    return id == CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiate ||
           id == CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiate_v2 ||
           id == CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithFlags ||
           id == CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithParams ||
           id == CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithParams_ptsz;
}

static bool launches_from_device(CUpti_CallbackId id, const uint64_t *v)
{
    enum { DEVICE_LAUNCH = 4 }; /* CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH */
    switch (id) {
    case CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithFlags:
        return (v[2] & DEVICE_LAUNCH) != 0;
    case CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithParams:
    case CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithParams_ptsz:
        return (*(const uint64_t *)(uintptr_t)v[2] & DEVICE_LAUNCH) != 0; /* its first member */
    default:
        return false;
    }
}

static void make_wrong(CUgraphExec exec, const char *why)
{
    struct expanded *x = find(exec);
    if (x && !x->wrong)
        x->wrong = why;
}

static int capture_step(CUpti_CallbackId id)
{
    switch (id) {
    case CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture:
    case CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_ptsz:
    case CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2:
    case CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2_ptsz:
    case CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCaptureToGraph:
    case CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCaptureToGraph_ptsz:
        return 1;
    case CUPTI_DRIVER_TRACE_CBID_cuStreamEndCapture:
    case CUPTI_DRIVER_TRACE_CBID_cuStreamEndCapture_ptsz:
        return -1;
    default:
        return 0;
    }
}

/* A capture that was invalidated ends too; another error of cuStreamEndCapture ended none. */
static bool ended_invalid(const CUpti_CallbackData *d)
{
    const int result = d->functionReturnValue ? *(const int *)d->functionReturnValue : 0;
    return result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
           result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
}

static void called(struct guest_thread *me, const CUpti_CallbackData *d, CUpti_CallbackId id)
{
    (void)me;
    const uint64_t *v = d->functionParams;
    int step = capture_step(id);
    bool at_exit = d->callbackSite == CUPTI_API_EXIT;
    bool ok =
        at_exit && d->functionReturnValue && *(const int *)d->functionReturnValue == CUDA_SUCCESS;
    if (capture_is(CAPTURE_OFF) || !v)
        return;
    if (step) {
        if (at_exit && (ok || (step < 0 && ended_invalid(d))))
            atomic_fetch_add(&capture.capturing, step);
        return;
    }
    pthread_mutex_lock(&capture.work);
    if (is_instantiate(id)) {
        if (ok)
            instantiated(*(CUgraphExec *)(uintptr_t)v[0], (CUgraph)(uintptr_t)v[1]);
        if (ok && launches_from_device(id, v))
            make_wrong(*(CUgraphExec *)(uintptr_t)v[0], "launches by kernels");
    } else if (id == CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate ||
               id == CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate_v2) {
        if (ok)
            instantiated((CUgraphExec)(uintptr_t)v[0], (CUgraph)(uintptr_t)v[1]);
    } else if (at_exit || id == CUPTI_DRIVER_TRACE_CBID_cuGraphExecDestroy) {
        struct expanded *x = find((CUgraphExec)(uintptr_t)v[0]);
        if (x && id == CUPTI_DRIVER_TRACE_CBID_cuGraphExecDestroy)
            release(x);
        else if (x && ok)
            x->wrong = d->functionName ? d->functionName : "nodes that were changed later";
    }
    pthread_mutex_unlock(&capture.work);
}

const struct handler inject_handler_capture_graph = {WHILE_SUBSCRIBED, wanted, called, NULL};

/* ---- a launch ---- */

struct bases {
    uint32_t op, edge, launch, attribute, copy, set;
};

static bool add_launches(const struct expanded *x, uint32_t attributes)
{
    for (size_t i = 0; i < x->launches.n; i++) {
        struct capsule_launch l = *LIST_AT(&x->launches, struct capsule_launch, i);
        const unsigned char *params = x->bytes.p + l.params.at;
        struct capture_function *f = capture_function_at(l.function);
        if (!capture_params_check(f, params))
            return false;
        l.params = capture_bytes(params, l.params.bytes);
        l.function = capture_function_use(f);
        l.first_attribute += attributes;
        if (capture_add(CAPSULE_LAUNCHES, &l) == CAPSULE_NONE)
            return false;
    }
    return true;
}

static uint64_t end_of(uint64_t at, const struct capsule_copy *m, uint64_t pitch, uint64_t slice)
{
    return at + (m->depth - 1) * slice + (m->height - 1) * pitch + m->width;
}

/* A source on the host is kept as it is at the launch: nothing in the graph may write it first. */
static bool is_written_in(const struct expanded *x, const struct capsule_copy *m)
{
    const uint64_t end = end_of(m->from, m, m->from_pitch, m->from_slice);
    for (size_t i = 0; i < x->copies.n; i++) {
        const struct capsule_copy *w = LIST_AT(&x->copies, struct capsule_copy, i);
        if (w->to < end && m->from < end_of(w->to, w, w->to_pitch, w->to_slice))
            return true;
    }
    return false;
}

static bool add_copies(const struct expanded *x, CUstream handle)
{
    for (size_t i = 0; i < x->copies.n; i++) {
        struct capsule_copy m = *LIST_AT(&x->copies, struct capsule_copy, i);
        bool reached;
        if (capture_memory_is_host(m.from, m.width, &reached) && is_written_in(x, &m)) {
            capture_refuse("not captured: a CUDA graph that copies from host memory which it "
                           "writes, at 0x%" PRIx64,
                           m.from);
            return false;
        }
        if (!capture_copy_drain(&m, handle) || !capture_copy_finish(&m) ||
            capture_add(CAPSULE_COPIES, &m) == CAPSULE_NONE)
            return false;
    }
    return true;
}

void capture_graph_launch(CUgraphExec exec, CUstream handle, uint32_t stream)
{
    struct expanded *x = find(exec);
    if (!x || x->wrong) {
        capture_refuse("not captured: a CUDA graph with %s",
                       x ? x->wrong : "nodes that were not seen");
        return;
    }
    const struct bases b = {CAPTURE_COUNT(OPS),      CAPTURE_COUNT(EDGES),
                            CAPTURE_COUNT(LAUNCHES), CAPTURE_COUNT(ATTRIBUTES),
                            CAPTURE_COUNT(COPIES),   CAPTURE_COUNT(SETS)};
    capture_add_many(CAPSULE_ATTRIBUTES, x->attributes.p, x->attributes.n);
    capture_add_many(CAPSULE_SETS, x->sets.p, x->sets.n);
    if (!add_launches(x, b.attribute) || !add_copies(x, handle))
        return;
    for (size_t i = 0; i < x->edges.n; i++) {
        struct capsule_edge edge = *LIST_AT(&x->edges, struct capsule_edge, i);
        edge.op += b.op;
        capture_add(CAPSULE_EDGES, &edge);
    }
    n_launched += x->ops.n > 0;
    for (size_t i = 0; i < x->ops.n; i++) {
        const struct capsule_op *from = LIST_AT(&x->ops, struct capsule_op, i);
        uint32_t base = from->kind == CAPSULE_LAUNCH ? b.launch
                        : from->kind == CAPSULE_COPY ? b.copy
                        : from->kind == CAPSULE_SET  ? b.set
                                                     : 0;
        struct capsule_op o =
            capture_op((enum capsule_op_kind)from->kind, from->item + base, stream);
        o.graph = n_launched;
        o.first_edge = from->first_edge + b.edge;
        o.n_edges = from->n_edges;
        capture_add(CAPSULE_OPS, &o);
    }
}
