#include "replay/extract.h"

#include <string.h>
#include <sys/stat.h>

#include "base/vec.h"
#include "capsule/file.h"
#include "replay/reach.h"

/* Contents of the allocations before and after the operation, on the host. */
struct snapshot {
    const struct capsule_allocation *allocation; /* of the old capsule */
    unsigned char *before, *after;
};

struct extractor {
    struct load *l;
    struct arena *a;
    VEC(struct snapshot) parts;
    struct capsule small;
    struct sv image;
    struct reach_sets sets; /* of the operation */
};

/* ---- what it reaches ------------------------------------------------------------------------- */

static void reach(struct extractor *x, uint64_t at)
{
    const struct capsule_allocation *found = reach_allocation(x->l->c, at);
    if (!found)
        return;
    size_t k = 0;
    while (k < x->parts.n && x->parts.p[k].allocation->address < found->address)
        k++;
    for (size_t i = 0; i < x->parts.n; i++)
        if (x->parts.p[i].allocation->address < found->address + found->bytes &&
            found->address < x->parts.p[i].allocation->address + x->parts.p[i].allocation->bytes)
            return;
    vec_push(&x->parts, (struct snapshot){0});
    memmove(&x->parts.p[k + 1], &x->parts.p[k], (x->parts.n - 1 - k) * sizeof *x->parts.p);
    x->parts.p[k] = (struct snapshot){.allocation = found};
}

static void reach_all(struct extractor *x, const struct capsule_op *op)
{
    const struct capsule *c = x->l->c;
    if (op->kind == CAPSULE_LAUNCH) {
        const struct sv params = capsule_text(c, c->launches[op->item].params);
        for (size_t i = 0; i + 8 <= params.n; i += 8) {
            uint64_t word;
            memcpy(&word, params.p + i, sizeof word);
            reach(x, word);
        }
    } else if (op->kind == CAPSULE_COPY) {
        reach(x, c->copies[op->item].to);
        if (c->copies[op->item].from_place == CAPSULE_ON_DEVICE)
            reach(x, c->copies[op->item].from);
    } else {
        reach(x, c->sets[op->item].to);
    }
}

static enum st take(struct extractor *x, bool after, struct err *e)
{
    for (size_t i = 0; i < x->parts.n; i++) {
        struct snapshot *s = &x->parts.p[i];
        unsigned char **to = after ? &s->after : &s->before;
        *to = mem_alloc(s->allocation->bytes);
        TRY(load_read(x->l, s->allocation->address, *to, s->allocation->bytes, e));
    }
    return ST_OK;
}

/* ---- the new capsule ------------------------------------------------------------------------- */

struct bytes {
    struct arena *a;
    struct buf b;
};

static struct capsule_span add_bytes(struct bytes *to, struct sv from)
{
    const struct capsule_span s = {to->b.n, from.n};
    buf_add(&to->b, from.p, from.n);
    return s;
}

static void set_memory(struct extractor *x)
{
    struct capsule *s = &x->small;
    size_t pieces = 0;
    for (size_t i = 0; i < x->parts.n; i++)
        pieces += (size_t)(x->parts.p[i].allocation->bytes / CAPSULE_PAGE_BYTES) + 2;
    struct capsule_allocation *allocations =
        arena_array(x->a, struct capsule_allocation, x->parts.n);
    struct capsule_page *pages = arena_array(x->a, struct capsule_page, pieces);
    struct capsule_page *after = arena_array(x->a, struct capsule_page, pieces);
    for (size_t i = 0; i < x->parts.n; i++) {
        const struct capsule_allocation *from = x->parts.p[i].allocation;
        allocations[i] = *from;
        allocations[i].flags = 0;
        for (uint64_t at = 0; at < from->bytes;) {
            const uint64_t room = CAPSULE_PAGE_BYTES - (from->address + at) % CAPSULE_PAGE_BYTES;
            const uint64_t left = from->bytes - at, n = left < room ? left : room;
            const struct capsule_page p = {.address = from->address + at, .bytes = (uint32_t)n};
            pages[s->n_pages++] = p;
            if (memcmp(x->parts.p[i].before + at, x->parts.p[i].after + at, n) != 0)
                after[s->n_after++] = p;
            at += n;
        }
    }
    s->allocations = allocations;
    s->n_allocations = x->parts.n;
    s->pages = pages;
    s->after = after;
}

static void set_code(struct extractor *x, const struct capsule_op *op, struct bytes *bytes)
{
    const struct capsule *c = x->l->c;
    struct capsule *s = &x->small;
    const struct capsule_launch *from = &c->launches[op->item];
    struct capsule_function *f = arena_copy(x->a, &c->functions[from->function], sizeof *f);
    struct capsule_launch *launch = arena_copy(x->a, from, sizeof *launch);
    struct capsule_global *globals = arena_array(x->a, struct capsule_global, c->n_globals);
    for (size_t i = 0; i < c->n_globals; i++) {
        if (c->globals[i].module != f->module)
            continue;
        globals[s->n_globals] = c->globals[i];
        globals[s->n_globals].module = 0;
        globals[s->n_globals].name = add_bytes(bytes, capsule_text(c, c->globals[i].name));
        globals[s->n_globals++].value = add_bytes(bytes, capsule_text(c, c->globals[i].value));
    }
    s->globals = globals;
    s->modules = &c->modules[f->module];
    s->n_modules = 1;
    f->module = 0;
    s->params = &c->params[f->first_param];
    s->n_params = f->n_params;
    f->first_param = 0;
    f->name = add_bytes(bytes, capsule_text(c, f->name));
    launch->function = 0;
    launch->params = add_bytes(bytes, capsule_text(c, from->params));
    s->attributes = &c->attributes[from->first_attribute];
    s->n_attributes = from->n_attributes;
    launch->first_attribute = 0;
    s->functions = f;
    s->n_functions = 1;
    s->launches = launch;
    s->n_launches = 1;
}

static void set_op(struct extractor *x, const struct capsule_op *op, struct bytes *bytes)
{
    const struct capsule *c = x->l->c;
    struct capsule *s = &x->small;
    struct capsule_op *new = arena_array(x->a, struct capsule_op, x->sets.n + 1);
    struct capsule_set *sets = arena_array(x->a, struct capsule_set, x->sets.n);
    struct capsule_stream *stream = arena_copy(x->a, &c->streams[op->stream], sizeof *stream);
    for (size_t i = 0; i <= x->sets.n; i++) {
        new[i] = i < x->sets.n ? c->ops[x->sets.ops[i]] : *op;
        if (i < x->sets.n)
            sets[i] = c->sets[new[i].item];
        new[i].item = i < x->sets.n ? (uint32_t)i : 0;
        new[i].stream = new[i].graph = new[i].first_edge = new[i].n_edges = 0;
        new[i].range = CAPSULE_NONE;
    }
    s->ops = new;
    s->n_ops = x->sets.n + 1;
    s->sets = sets;
    s->n_sets = x->sets.n;
    s->streams = stream;
    s->n_streams = 1;
    if (op->kind == CAPSULE_LAUNCH) {
        set_code(x, op, bytes);
    } else if (op->kind == CAPSULE_COPY) {
        struct capsule_copy *copy = arena_copy(x->a, &c->copies[op->item], sizeof *copy);
        copy->source = add_bytes(bytes, capsule_text(c, copy->source));
        s->copies = copy;
        s->n_copies = 1;
    } else {
        s->sets = &c->sets[op->item];
        s->n_sets = 1;
    }
}

static void set_facts(struct extractor *x, struct bytes *bytes)
{
    const struct capsule_facts *from = x->l->c->facts;
    struct capsule_facts *f = arena_copy(x->a, from, sizeof *f);
    f->region = add_bytes(bytes, capsule_text(x->l->c, from->region));
    f->command = add_bytes(bytes, capsule_text(x->l->c, from->command));
    f->host = add_bytes(bytes, capsule_text(x->l->c, from->host));
    f->gpu = add_bytes(bytes, capsule_text(x->l->c, from->gpu));
    f->n_graphs = 0;
    f->live_bytes = 0;
    for (size_t i = 0; i < x->parts.n; i++)
        f->live_bytes += x->parts.p[i].allocation->bytes;
    x->small.facts = f;
}

static enum st give_page(void *user, bool after, const struct capsule_page *p, void *to,
                         struct err *e)
{
    const struct extractor *x = user;
    (void)e;
    for (size_t i = 0; i < x->parts.n; i++) {
        const struct snapshot *s = &x->parts.p[i];
        const uint64_t at = p->address - s->allocation->address;
        if (p->address >= s->allocation->address && at < s->allocation->bytes)
            memcpy(to, (after ? s->after : s->before) + at, p->bytes);
    }
    return ST_OK;
}

static enum st give_image(void *user, size_t module, struct sv *out, struct err *e)
{
    struct extractor *x = user;
    const struct capsule *c = x->l->c;
    (void)module;
    return capsule_image(x->a, c, (size_t)(x->small.modules - c->modules), out, e);
}

static uint64_t folder_bytes(struct arena *a, const char *dir)
{
    const char *const files[] = {CAPSULE_MANIFEST, CAPSULE_FILE, CAPSULE_MEMORY, CAPSULE_CHANGED,
                                 CAPSULE_IMAGES "/0000.cubin"};
    uint64_t bytes = 0;
    struct stat st;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (stat(fs_join(a, dir, files[i]), &st) == 0)
            bytes += (uint64_t)st.st_size;
    return bytes;
}

static enum st write_small(struct extractor *x, const struct capsule_op *op, const char *dir,
                           struct err *e)
{
    struct artifact art;
    struct bytes bytes = {.a = x->a};
    const struct capsule_source from = {give_page, give_image, x};
    struct node *extra = node_new(x->a, NODE_MAP);
    set_memory(x);
    set_op(x, op, &bytes);
    set_facts(x, &bytes);
    x->small.bytes = (const unsigned char *)bytes.b.p;
    x->small.n_bytes = bytes.b.n;
    node_put(x->a, extra, "extracted_from", node_str(x->a, x->l->c->dir));
    node_put(x->a, extra, "dispatch", node_int(x->a, op - x->l->c->ops));
    enum st st = artifact_begin(x->a, dir, CAPSULE_MANIFEST, &art, e);
    if (st == ST_OK) {
        st = capsule_write(x->a, &x->small, &from, &art, extra, e);
        if (st != ST_OK)
            artifact_discard(&art);
    }
    buf_free(&bytes.b);
    return st;
}

static enum st extract(struct extractor *x, size_t op, const char *dir, struct extracted *out,
                       struct err *e)
{
    struct load *l = x->l;
    struct program before, alone;
    reach_all(x, &l->c->ops[op]);
    x->sets = reach_sets(x->a, l->c, op);
    program_build(x->a, l->c, 0, op, &before);
    program_build(x->a, l->c, op, op + 1, &alone);
    TRY(load_restore(l, 0, e));
    TRY(issue_serial(l, &before, NULL, NULL, e));
    TRY(take(x, false, e));
    TRY(issue_serial(l, &alone, NULL, NULL, e));
    TRY(take(x, true, e));
    TRY(write_small(x, &l->c->ops[op], dir, e));
    out->allocations = x->parts.n;
    out->sets = x->sets.n;
    out->memory_bytes = x->small.facts->live_bytes;
    out->file_bytes = folder_bytes(x->a, dir);
    return ST_OK;
}

enum st extract_op(struct load *l, size_t op, const char *dir, struct extracted *out, struct err *e)
{
    struct extractor x = {.l = l, .a = l->a};
    *out = (struct extracted){0};
    const enum st st = extract(&x, op, dir, out, e);
    for (size_t i = 0; i < x.parts.n; i++) {
        mem_free(x.parts.p[i].before);
        mem_free(x.parts.p[i].after);
    }
    vec_free(&x.parts);
    return st == ST_OK ? ST_OK : err_add(e, "cannot extract operation %zu", op);
}
