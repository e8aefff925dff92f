#include "replay/program.h"

#include <string.h>

#include "base/vec.h"
#include "gpu/abi/cuda.h"

/* A step whose end others may wait for. count: number of the step in its lane, from 1. */
struct step_mark {
    uint32_t step, lane, count; /* count 0 = nothing to wait for */
};

struct program_builder {
    const struct capsule *c;
    size_t from;
    VEC(struct program_step) steps;
    uint32_t n_lanes, n_events, lanes; /* in use; room */
    uint32_t *count;                   /* [lanes] steps so far */
    uint32_t *known;                   /* [lanes * lanes] of [waiter][waited for] */
    struct step_mark *outside;         /* [n_ops] when an operation is done, as seen from outside */
    struct step_mark *inside;          /* [n_ops] of its own step */
    struct step_mark *tail, *synced;   /* [n_streams] */
    uint32_t legacy;                   /* stream, CAPSULE_NONE = none */
    /* the graph launch at hand */
    uint32_t graph_lanes[PROGRAM_BRANCHES + 1], n_graph_lanes;
    uint32_t last_op[PROGRAM_BRANCHES + 1]; /* in each of them; CAPSULE_NONE = none */
};

bool program_is_work(const struct capsule_op *op)
{
    return op->kind == CAPSULE_LAUNCH || op->kind == CAPSULE_COPY || op->kind == CAPSULE_SET;
}

static struct step_mark push(struct program_builder *b, enum program_kind kind, uint32_t lane,
                             uint32_t item)
{
    const uint32_t step = (uint32_t)b->steps.n;
    vec_push(&b->steps, (struct program_step){
                            .kind = kind, .lane = lane, .item = item, .event = CAPSULE_NONE});
    return (struct step_mark){step, lane, ++b->count[lane]};
}

static void wait_for(struct program_builder *b, uint32_t lane, struct step_mark m)
{
    uint32_t *known = &b->known[lane * b->lanes + m.lane];
    if (m.count == 0 || m.lane == lane || *known >= m.count)
        return;
    if (b->steps.p[m.step].event == CAPSULE_NONE)
        b->steps.p[m.step].event = b->n_events++;
    push(b, PROGRAM_WAIT, lane, m.step);
    *known = m.count;
}

static bool is_blocking(const struct program_builder *b, uint32_t stream)
{
    return !(b->c->streams[stream].flags & CAPSULE_STREAM_NON_BLOCKING);
}

/* What every operation of a stream waits for besides that stream. */
static void wait_in_order(struct program_builder *b, uint32_t stream)
{
    for (uint32_t t = 0; t < b->c->n_streams; t++) {
        wait_for(b, stream, b->synced[t]);
        if (stream == b->legacy && t != stream && is_blocking(b, t))
            wait_for(b, stream, b->tail[t]);
    }
    if (b->legacy != CAPSULE_NONE && stream != b->legacy && is_blocking(b, stream))
        wait_for(b, stream, b->tail[b->legacy]);
}

static struct step_mark point(struct program_builder *b, uint32_t lane)
{
    return push(b, PROGRAM_POINT, lane, CAPSULE_NONE);
}

static void keep_newer(struct step_mark *m, struct step_mark other)
{
    if (other.count > m->count)
        *m = other;
}

static void sync_with(struct program_builder *b, const struct capsule_op *op)
{
    if (op->kind == CAPSULE_SYNC_OP) {
        if (op->item >= b->from && op->item != CAPSULE_NONE)
            keep_newer(&b->synced[b->c->ops[op->item].stream], b->outside[op->item]);
        return;
    }
    for (uint32_t t = 0; t < b->c->n_streams; t++)
        if (op->item == CAPSULE_NONE || op->item == t)
            keep_newer(&b->synced[t], b->tail[t]);
}

static bool starts_early(const struct capsule *c, const struct capsule_op *op)
{
    if (op->kind != CAPSULE_LAUNCH)
        return false;
    const struct capsule_launch *l = &c->launches[op->item];
    for (uint32_t i = 0; i < l->n_attributes; i++) {
        const struct capsule_attribute *x = &c->attributes[l->first_attribute + i];
        int value;
        memcpy(&value, x->value, sizeof value);
        if (x->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION && value)
            return true;
    }
    return false;
}

static void add_plain(struct program_builder *b, size_t i)
{
    const struct capsule_op *op = &b->c->ops[i];
    if (op->kind == CAPSULE_SYNC || op->kind == CAPSULE_SYNC_OP) {
        sync_with(b, op);
        b->outside[i] = b->tail[op->stream];
        return;
    }
    const uint32_t s = op->stream;
    wait_in_order(b, s);
    if (op->kind == CAPSULE_WAIT && op->item != CAPSULE_NONE && op->item >= b->from)
        wait_for(b, s, b->outside[op->item]);
    if (program_is_work(op)) {
        b->outside[i] = push(b, PROGRAM_OP, s, (uint32_t)i);
        b->steps.p[b->outside[i].step].early = starts_early(b->c, op);
    } else {
        b->outside[i] = point(b, s);
    }
    b->inside[i] = b->tail[s] = b->outside[i];
}

/* ---- graph launches -------------------------------------------------------------------------- */

/* The lane, by its number in graph_lanes, whose last operation is one that i waits for; preferably
 * one after which it may start early. */
static uint32_t lane_to_go_on(const struct program_builder *b, const struct capsule_op *op,
                              bool *early)
{
    uint32_t found = CAPSULE_NONE;
    *early = false;
    for (uint32_t k = 0; k < op->n_edges; k++) {
        const struct capsule_edge *edge = &b->c->edges[op->first_edge + k];
        for (uint32_t l = 0; l < b->n_graph_lanes; l++) {
            if (b->last_op[l] != edge->op)
                continue;
            if (edge->type)
                *early = true;
            if (edge->type || found == CAPSULE_NONE)
                found = l;
        }
    }
    return found;
}

static uint32_t new_lane(struct program_builder *b)
{
    const uint32_t extra = b->n_graph_lanes - 1; /* the first is the stream's */
    if (extra == PROGRAM_BRANCHES)
        return 0;
    const uint32_t lane = (uint32_t)b->c->n_streams + extra;
    if (lane >= b->n_lanes)
        b->n_lanes = lane + 1;
    b->graph_lanes[b->n_graph_lanes] = lane;
    b->last_op[b->n_graph_lanes] = CAPSULE_NONE;
    return b->n_graph_lanes++;
}

static void add_node(struct program_builder *b, size_t i, struct step_mark entry)
{
    const struct capsule_op *op = &b->c->ops[i];
    bool early;
    uint32_t l = lane_to_go_on(b, op, &early);
    if (l == CAPSULE_NONE)
        l = b->last_op[0] == CAPSULE_NONE ? 0 : new_lane(b);
    const uint32_t lane = b->graph_lanes[l];
    wait_for(b, lane, entry);
    for (uint32_t k = 0; k < op->n_edges; k++)
        if (b->c->edges[op->first_edge + k].op >= b->from)
            wait_for(b, lane, b->inside[b->c->edges[op->first_edge + k].op]);
    b->inside[i] = program_is_work(op) ? push(b, PROGRAM_OP, lane, (uint32_t)i) : point(b, lane);
    b->steps.p[b->inside[i].step].early = early && op->kind == CAPSULE_LAUNCH;
    b->last_op[l] = (uint32_t)i;
}

/* Returns the operation after the launch. */
static size_t add_graph(struct program_builder *b, size_t i, size_t to)
{
    const uint32_t graph = b->c->ops[i].graph, s = b->c->ops[i].stream;
    const size_t first = i;
    b->graph_lanes[0] = s;
    b->last_op[0] = CAPSULE_NONE;
    b->n_graph_lanes = 1;
    wait_in_order(b, s);
    const struct step_mark entry = point(b, s);
    for (; i < to && b->c->ops[i].graph == graph; i++)
        add_node(b, i, entry);
    for (uint32_t l = 1; l < b->n_graph_lanes; l++) {
        const uint32_t last = b->last_op[l];
        if (last != CAPSULE_NONE)
            wait_for(b, s, b->inside[last]);
    }
    b->tail[s] = point(b, s);
    for (size_t k = first; k < i; k++)
        b->outside[k] = b->tail[s];
    return i;
}

/* ---- all ------------------------------------------------------------------------------------- */

static void prepare(struct program_builder *b, struct arena *a)
{
    const size_t streams = b->c->n_streams, ops = b->c->n_ops;
    b->n_lanes = (uint32_t)streams;
    b->lanes = (uint32_t)streams + PROGRAM_BRANCHES;
    b->count = arena_array(a, uint32_t, b->lanes);
    b->known = arena_array(a, uint32_t, (size_t)b->lanes * b->lanes);
    b->outside = arena_array(a, struct step_mark, ops);
    b->inside = arena_array(a, struct step_mark, ops);
    b->tail = arena_array(a, struct step_mark, streams);
    b->synced = arena_array(a, struct step_mark, streams);
    b->legacy = CAPSULE_NONE;
    for (uint32_t t = 0; t < streams; t++)
        if (b->c->streams[t].flags & CAPSULE_STREAM_LEGACY)
            b->legacy = t;
}

void program_build(struct arena *a, const struct capsule *c, size_t from, size_t to,
                   struct program *out)
{
    struct arena *scratch = arena_new();
    struct program_builder b = {.c = c, .from = from};
    prepare(&b, scratch);
    for (size_t i = from; i < to;)
        if (c->ops[i].graph)
            i = add_graph(&b, i, to);
        else
            add_plain(&b, i++);
    *out = (struct program){.n = b.steps.n, .n_lanes = b.n_lanes, .n_events = b.n_events};
    out->steps = arena_copy(a, b.steps.p, b.steps.n * sizeof *b.steps.p);
    out->priority = arena_array(a, int32_t, b.n_lanes);
    for (uint32_t t = 0; t < c->n_streams; t++)
        out->priority[t] = c->streams[t].priority;
    for (size_t i = 0; i < out->n; i++)
        out->n_ops += out->steps[i].kind == PROGRAM_OP;
    vec_free(&b.steps);
    arena_free(&scratch);
}
