#include "capsule/check.h"

#include <string.h>

#include "capsule/file.h"

/* Ranges of addresses, sorted and merged. */
struct extents {
    struct extent {
        uint64_t from, to;
    } * v;
    size_t n;
};

struct check {
    const struct capsule *c;
    struct extents live, all, device, host; /* at the start; ever; ever, by where */
    struct err *e;
};

static bool is_host(uint32_t memory)
{
    return memory == CAPSULE_PINNED || memory == CAPSULE_REGISTERED;
}

static void extend(struct extents *x, uint64_t from, uint64_t bytes)
{
    uint64_t to = from + bytes;
    if (x->n > 0 && from <= x->v[x->n - 1].to) {
        if (to > x->v[x->n - 1].to)
            x->v[x->n - 1].to = to;
        return;
    }
    x->v[x->n++] = (struct extent){from, to};
}

static bool inside(const struct extents *x, uint64_t at, uint64_t bytes)
{
    size_t low = 0, high = x->n;
    while (low < high) { /* the last that begins at or before `at` */
        size_t middle = low + (high - low) / 2;
        if (x->v[middle].from <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && at <= x->v[low - 1].to && bytes <= x->v[low - 1].to - at;
}

/* a * b + c <= limit, without overflow. */
static bool product_fits(uint64_t a, uint64_t b, uint64_t c, uint64_t limit)
{
    return c <= limit && (a == 0 || b <= (limit - c) / a);
}

#define REFUSE(...) return err_set(k->e, ST_INPUT, __VA_ARGS__)

static bool in_bytes(const struct capsule *c, struct capsule_span s)
{
    return s.at <= c->n_bytes && s.bytes <= c->n_bytes - s.at;
}

/* The name of a kernel or variable: some bytes, no control characters among them, which a terminal
 * would obey. */
static bool is_name(const struct capsule *c, struct capsule_span s)
{
    enum { LONGEST = 1 << 16, DELETE = 0x7f };
    if (!in_bytes(c, s) || s.bytes == 0 || s.bytes > LONGEST)
        return false;
    for (uint64_t i = 0; i < s.bytes; i++)
        if (c->bytes[s.at + i] < ' ' || c->bytes[s.at + i] == DELETE)
            return false;
    return true;
}

static bool in_array(uint32_t first, uint32_t n, size_t of)
{
    return n == 0 || (first < of && n <= of - first);
}

/* ---- code ---- */

static enum st facts(const struct check *k)
{
    const struct capsule_facts *f = k->c->facts;
    const struct capsule_span texts[] = {f->region, f->command, f->host, f->gpu};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!in_bytes(k->c, texts[i]))
            REFUSE("facts: a text outside of the section bytes");
    if (f->packed > 1 || f->n_graphs > k->c->n_ops || f->wall_ns < 0 || f->snapshot_ns < 0)
        REFUSE("facts: a value out of range");
    return ST_OK;
}

static enum st modules(const struct check *k)
{
    if (k->c->n_modules > CAPSULE_MODULES_MAX)
        REFUSE("%zu modules; %d is the most", k->c->n_modules, CAPSULE_MODULES_MAX);
    for (size_t i = 0; i < k->c->n_modules; i++)
        if (k->c->modules[i].bytes == 0 || k->c->modules[i].bytes > CAPSULE_IMAGE_MAX_BYTES)
            REFUSE("modules[%zu]: an image of %llu bytes", i,
                   (unsigned long long)k->c->modules[i].bytes);
    return ST_OK;
}

static enum st function(const struct check *k, size_t i)
{
    const struct capsule *c = k->c;
    const struct capsule_function *f = &c->functions[i];
    if (f->module >= c->n_modules)
        REFUSE("functions[%zu]: module %u of %zu", i, f->module, c->n_modules);
    if (!is_name(c, f->name))
        REFUSE("functions[%zu]: it has no name", i);
    if (!in_array(f->first_param, f->n_params, c->n_params))
        REFUSE("functions[%zu]: its parameters", i);
    uint64_t end = 0;
    for (uint32_t p = 0; p < f->n_params; p++) {
        const struct capsule_param *at = &c->params[f->first_param + p];
        if (at->offset < end || at->bytes == 0)
            REFUSE("functions[%zu]: parameter %u", i, p);
        end = (uint64_t)at->offset + at->bytes;
    }
    if (end != f->params_bytes || end > CAPSULE_PARAMS_MAX_BYTES)
        REFUSE("functions[%zu]: %u bytes of parameters", i, f->params_bytes);
    return ST_OK;
}

static enum st global(const struct check *k, size_t i)
{
    const struct capsule_global *g = &k->c->globals[i];
    if (g->module >= k->c->n_modules || !is_name(k->c, g->name) || !in_bytes(k->c, g->value) ||
        g->value.bytes == 0 || g->address > CAPSULE_ADDRESS_END ||
        g->value.bytes > CAPSULE_ADDRESS_END - g->address)
        REFUSE("globals[%zu]: its module, name, place or value", i);
    return ST_OK;
}

static enum st code(const struct check *k)
{
    TRY(facts(k));
    TRY(modules(k));
    for (size_t i = 0; i < k->c->n_functions; i++)
        TRY(function(k, i));
    for (size_t i = 0; i < k->c->n_globals; i++)
        TRY(global(k, i));
    return ST_OK;
}

/* ---- memory ---- */

static enum st allocations(struct arena *a, struct check *k)
{
    const struct capsule *c = k->c;
    struct extents *all[] = {&k->live, &k->all, &k->device, &k->host};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        all[i]->v = arena_array(a, struct extent, c->n_allocations);
    uint64_t last = 0, live_end = 0;
    for (size_t i = 0; i < c->n_allocations; i++) {
        const struct capsule_allocation *m = &c->allocations[i];
        if (m->address == 0 || m->bytes == 0 || m->address >= CAPSULE_ADDRESS_END ||
            m->bytes > CAPSULE_ADDRESS_END - m->address || m->memory < CAPSULE_DEVICE ||
            m->memory > CAPSULE_REGISTERED || m->flags > (CAPSULE_BORN | CAPSULE_GONE))
            REFUSE("allocations[%zu]: its place or kind", i);
        if (m->address < last)
            REFUSE("allocations[%zu]: not sorted by address", i);
        last = m->address;
        extend(&k->all, m->address, m->bytes);
        extend(is_host(m->memory) ? &k->host : &k->device, m->address, m->bytes);
        if (m->flags & CAPSULE_BORN)
            continue;
        if (m->address < live_end)
            REFUSE("allocations[%zu]: overlaps another", i);
        live_end = m->address + m->bytes;
        extend(&k->live, m->address, m->bytes);
    }
    return ST_OK;
}

static enum st pieces(const struct check *k, const char *name, const struct capsule_page *v,
                      size_t n, const struct extents *of, uint64_t *total)
{
    uint64_t end = 0;
    *total = 0;
    for (size_t i = 0; i < n; i++) {
        const struct capsule_page *p = &v[i];
        if (p->bytes == 0 || p->bytes > CAPSULE_PAGE_BYTES - p->address % CAPSULE_PAGE_BYTES ||
            p->address < end)
            REFUSE("%s[%zu]: not sorted, or across pages", name, i);
        if (!inside(of, p->address, p->bytes))
            REFUSE("%s[%zu]: outside of the allocations", name, i);
        bool zero = p->flags & CAPSULE_ZERO;
        if (p->flags > CAPSULE_ZERO || zero != (p->file_bytes == 0) ||
            p->file_bytes > capsule_packed_bound(p->bytes) || p->at > INT64_MAX - p->file_bytes)
            REFUSE("%s[%zu]: its place in the file", name, i);
        end = p->address + p->bytes;
        *total += p->bytes;
    }
    return ST_OK;
}

static enum st memory(const struct check *k)
{
    const struct capsule *c = k->c;
    uint64_t total, live = 0;
    TRY(pieces(k, "after", c->after, c->n_after, &k->all, &total));
    TRY(pieces(k, "pages", c->pages, c->n_pages, &k->live, &total));
    for (size_t i = 0; i < k->live.n; i++)
        live += k->live.v[i].to - k->live.v[i].from;
    if (total != live)
        REFUSE("pages: %llu bytes of %llu that were allocated", (unsigned long long)total,
               (unsigned long long)live);
    return ST_OK;
}

/* ---- operations ---- */

static enum st launch(const struct check *k, size_t i)
{
    const struct capsule *c = k->c;
    const struct capsule_launch *l = &c->launches[i];
    if (l->function >= c->n_functions)
        REFUSE("launches[%zu]: function %u of %zu", i, l->function, c->n_functions);
    for (int d = 0; d < 3; d++)
        if (l->grid[d] == 0 || l->block[d] == 0 || l->grid[d] > INT32_MAX || l->block[d] > 1024)
            REFUSE("launches[%zu]: its grid or block", i);
    if (!in_bytes(c, l->params) || l->params.bytes != c->functions[l->function].params_bytes)
        REFUSE("launches[%zu]: its parameters", i);
    if (!in_array(l->first_attribute, l->n_attributes, c->n_attributes) || l->n_attributes > 64)
        REFUSE("launches[%zu]: its attributes", i);
    for (uint32_t x = 0; x < l->n_attributes; x++)
        if (!capsule_keeps_attribute(c->attributes[l->first_attribute + x].id))
            REFUSE("launches[%zu]: attribute %u", i, c->attributes[l->first_attribute + x].id);
    return ST_OK;
}

/* Bytes from the first to behind the last of a block of slices and rows; false = no such block. */
static bool span_of(uint64_t width, uint64_t height, uint64_t depth, uint64_t pitch, uint64_t slice,
                    uint64_t *out)
{
    uint64_t row = height > 1 ? pitch : width, plane = 0;
    if (width == 0 || height == 0 || depth == 0 || row < width ||
        !product_fits(height - 1, row, width, CAPSULE_ADDRESS_END))
        return false;
    plane = (height - 1) * row + width;
    uint64_t step = depth > 1 ? slice : plane;
    if (step < plane || !product_fits(depth - 1, step, plane, CAPSULE_ADDRESS_END))
        return false;
    *out = (depth - 1) * step + plane;
    return true;
}

static bool end_is_inside(const struct check *k, uint32_t place, uint64_t at, uint64_t bytes)
{
    switch (place) {
    case CAPSULE_ON_DEVICE:
        return inside(&k->device, at, bytes);
    case CAPSULE_IN_PINNED:
        return inside(&k->host, at, bytes);
    default:
        return place == CAPSULE_ON_HOST;
    }
}

static enum st copy(const struct check *k, size_t i)
{
    const struct capsule_copy *m = &k->c->copies[i];
    uint64_t to, from;
    if (!span_of(m->width, m->height, m->depth, m->to_pitch, m->to_slice, &to) ||
        !span_of(m->width, m->height, m->depth, m->from_pitch, m->from_slice, &from))
        REFUSE("copies[%zu]: its size", i);
    if (!end_is_inside(k, m->to_place, m->to, to) ||
        !end_is_inside(k, m->from_place, m->from, from))
        REFUSE("copies[%zu]: outside of the allocations", i);
    uint64_t kept = m->from_place == CAPSULE_ON_DEVICE ? 0 : m->width * m->height * m->depth;
    if (!in_bytes(k->c, m->source) || m->source.bytes != kept)
        REFUSE("copies[%zu]: %llu bytes of its source", i, (unsigned long long)m->source.bytes);
    return ST_OK;
}

static enum st set(const struct check *k, size_t i)
{
    const struct capsule_set *s = &k->c->sets[i];
    uint64_t bytes;
    if ((s->unit_bytes != 1 && s->unit_bytes != 2 && s->unit_bytes != 4) ||
        s->width > CAPSULE_ADDRESS_END ||
        !span_of(s->width * s->unit_bytes, s->height, 1, s->pitch, 0, &bytes))
        REFUSE("sets[%zu]: its size", i);
    if (!inside(&k->device, s->to, bytes) && !inside(&k->host, s->to, bytes))
        REFUSE("sets[%zu]: outside of the allocations", i);
    return ST_OK;
}

static bool item_is_valid(const struct capsule *c, size_t i)
{
    const struct capsule_op *o = &c->ops[i];
    switch ((enum capsule_op_kind)o->kind) {
    case CAPSULE_LAUNCH:
        return o->item < c->n_launches;
    case CAPSULE_COPY:
        return o->item < c->n_copies;
    case CAPSULE_SET:
        return o->item < c->n_sets;
    case CAPSULE_WAIT:
    case CAPSULE_SYNC_OP:
        return o->item < i && o->graph == 0;
    case CAPSULE_SYNC:
        return (o->item == CAPSULE_NONE || o->item < c->n_streams) && o->graph == 0;
    case CAPSULE_EMPTY:
        return o->item == CAPSULE_NONE;
    }
    return false;
}

/* *graphs: launches of graphs so far; *edges: edges so far. Each edge is one operation's. */
static enum st op(const struct check *k, size_t i, uint32_t *graphs, size_t *edges)
{
    const struct capsule *c = k->c;
    const struct capsule_op *o = &c->ops[i];
    if (!item_is_valid(c, i))
        REFUSE("ops[%zu]: kind %u, item %u", i, o->kind, o->item);
    if (o->stream >= c->n_streams || (o->range != CAPSULE_NONE && o->range >= c->n_ranges))
        REFUSE("ops[%zu]: its stream or range", i);
    if (o->graph > 0) {
        bool goes_on = i > 0 && c->ops[i - 1].graph == o->graph;
        if (goes_on ? c->ops[i - 1].stream != o->stream : o->graph != *graphs + 1)
            REFUSE("ops[%zu]: graph launch %u after %u", i, o->graph, *graphs);
        *graphs = o->graph;
    }
    if (!in_array(o->first_edge, o->n_edges, c->n_edges) || (o->n_edges > 0 && o->graph == 0))
        REFUSE("ops[%zu]: its edges", i);
    *edges += o->n_edges;
    if (*edges > c->n_edges)
        REFUSE("ops[%zu]: edges that are another's", i);
    for (uint32_t x = 0; x < o->n_edges; x++) {
        uint32_t of = c->edges[o->first_edge + x].op;
        if (of >= i || c->ops[of].graph != o->graph)
            REFUSE("ops[%zu]: waits for operation %u", i, of);
    }
    return ST_OK;
}

static enum st operations(const struct check *k)
{
    const struct capsule *c = k->c;
    uint32_t graphs = 0, legacy = 0;
    size_t edges = 0;
    if (c->n_streams > CAPSULE_STREAMS_MAX)
        REFUSE("%zu streams; %d is the most", c->n_streams, CAPSULE_STREAMS_MAX);
    for (size_t i = 0; i < c->n_streams; i++) {
        legacy += (c->streams[i].flags & CAPSULE_STREAM_LEGACY) != 0;
        if (c->streams[i].flags > CAPSULE_STREAM_NON_BLOCKING || legacy > 1)
            REFUSE("streams[%zu]: its flags", i);
    }
    for (size_t i = 0; i < c->n_launches; i++)
        TRY(launch(k, i));
    for (size_t i = 0; i < c->n_copies; i++)
        TRY(copy(k, i));
    for (size_t i = 0; i < c->n_sets; i++)
        TRY(set(k, i));
    for (size_t i = 0; i < c->n_ops; i++)
        TRY(op(k, i, &graphs, &edges));
    if (graphs != c->facts->n_graphs)
        REFUSE("ops: %u graph launches of %u", graphs, c->facts->n_graphs);
    return ST_OK;
}

static enum st ranges(const struct check *k)
{
    int64_t last = INT64_MIN;
    for (size_t i = 0; i < k->c->n_ranges; i++) {
        const struct capsule_range *r = &k->c->ranges[i];
        if (!in_bytes(k->c, r->name) || !in_bytes(k->c, r->domain) || r->start_ns < last)
            REFUSE("ranges[%zu]: its name or order", i);
        last = r->start_ns;
    }
    return ST_OK;
}

enum st capsule_check(struct arena *a, const struct capsule *c, struct err *e)
{
    struct check k = {.c = c, .e = e};
    TRY(code(&k));
    TRY(allocations(a, &k));
    TRY(memory(&k));
    TRY(operations(&k));
    return ranges(&k);
}
