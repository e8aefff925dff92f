#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "capsule/check.h"
#include "capsule/file.h"

enum {
    THREADS = 16,
    BATCH = 4 * THREADS,
    LEVEL = 1
}; /* weights hardly shrink: the fastest level */

/* ---- memory ---- */

/* A few pieces at a time: read on the caller's thread, packed by all, written in order. */
struct page_batch {
    struct capsule_page *pages;
    size_t n;
    char *plain[BATCH], *packed[BATCH];
    size_t packed_bytes[BATCH];
    _Atomic size_t next;
    _Atomic bool failed;
};

static void *pack(void *user)
{
    struct page_batch *b = user;
    ZSTD_CCtx *zstd = ZSTD_createCCtx();
    if (!zstd)
        b->failed = true;
    for (size_t i; zstd && (i = b->next++) < b->n;) {
        struct capsule_page *p = &b->pages[i];
        p->hash = capsule_hash(b->plain[i], p->bytes);
        p->flags = capsule_is_zero(b->plain[i], p->bytes) ? CAPSULE_ZERO : 0;
        b->packed_bytes[i] = 0;
        if (p->flags & CAPSULE_ZERO)
            continue;
        b->packed_bytes[i] =
            ZSTD_compressCCtx(zstd, b->packed[i], (size_t)capsule_packed_bound(CAPSULE_PAGE_BYTES),
                              b->plain[i], p->bytes, LEVEL);
        if (ZSTD_isError(b->packed_bytes[i]))
            b->failed = true;
    }
    ZSTD_freeCCtx(zstd);
    return NULL;
}

static void pack_all(struct page_batch *b)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    pthread_t threads[THREADS];
    int n = 0;
    b->next = 0;
    while (n + 1 < cores && n < THREADS && (size_t)n + 1 < b->n &&
           pthread_create(&threads[n], NULL, pack, b) == 0)
        n++;
    pack(b);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

struct packing {
    const struct artifact *art;
    const struct capsule_source *from;
    const char *name;
    bool after;
    FILE *f;
    uint64_t at;
};

static enum st put_batch(struct packing *k, struct page_batch *b, struct err *e)
{
    for (size_t i = 0; i < b->n; i++)
        TRY(k->from->page(k->from->user, k->after, &b->pages[i], b->plain[i], e));
    pack_all(b);
    if (b->failed)
        return err_set(e, ST_IO, "%s: zstd has no memory", k->name);
    for (size_t i = 0; i < b->n; i++) {
        b->pages[i].at = k->at;
        b->pages[i].file_bytes = b->packed_bytes[i];
        fwrite(b->packed[i], 1, b->packed_bytes[i], k->f); /* a full disk shows when it is closed */
        k->at += b->packed_bytes[i];
    }
    return ferror(k->f) ? artifact_close_file(k->art, k->name, &k->f, e) : ST_OK;
}

static enum st put_pieces(struct packing *k, struct capsule_page *pages, size_t n, struct err *e)
{
    struct page_batch b = {0};
    size_t room = n < BATCH ? n : BATCH;
    for (size_t i = 0; i < room; i++) {
        b.plain[i] = mem_alloc(CAPSULE_PAGE_BYTES);
        b.packed[i] = mem_alloc((size_t)capsule_packed_bound(CAPSULE_PAGE_BYTES));
    }
    enum st st = artifact_create_file(k->art, k->name, &k->f, e);
    for (size_t i = 0; i < n && st == ST_OK; i += b.n) {
        b.pages = pages + i;
        b.n = n - i < BATCH ? n - i : BATCH;
        st = put_batch(k, &b, e);
    }
    if (st == ST_OK)
        st = artifact_close_file(k->art, k->name, &k->f, e);
    else if (k->f)
        fclose(k->f);
    for (size_t i = 0; i < room; i++) {
        mem_free(b.plain[i]);
        mem_free(b.packed[i]);
    }
    return st;
}

/* ---- images ---- */

static enum st put_images(struct arena *a, struct capsule_module *modules, size_t n,
                          const struct capsule_source *from, const struct artifact *art,
                          struct err *e)
{
    const char *dir = artifact_path(a, art, CAPSULE_IMAGES);
    if (mkdir(dir, 0777) != 0)
        return err_errno(e, false, "cannot create %s", dir);
    for (size_t i = 0; i < n; i++) {
        struct sv image;
        TRY(from->image(from->user, i, &image, e));
        struct buf bytes = {.p = (char *)(uintptr_t)image.p, .n = image.n};
        TRY(artifact_write(art, arena_printf(a, CAPSULE_IMAGES "/%04zu.cubin", i), &bytes, e));
        modules[i] = (struct capsule_module){image.n, capsule_hash(image.p, image.n)};
    }
    return ST_OK;
}

/* ---- the manifest ---- */

static void put_text(struct arena *a, struct node *map, const char *key, const struct capsule *c,
                     struct capsule_span s)
{
    struct sv text = capsule_text(c, s);
    node_put(a, map, key, node_str(a, arena_strn(a, text.p, text.n)));
}

static struct node *gpu_node(struct arena *a, const struct capsule *c)
{
    const struct capsule_facts *f = c->facts;
    struct node *m = node_new(a, NODE_MAP);
    char uuid[33];
    for (int i = 0; i < 16; i++)
        snprintf(uuid + 2 * i, 3, "%02x", f->uuid[i]);
    put_text(a, m, "name", c, f->gpu);
    node_put(a, m, "uuid",
             node_str(a, arena_printf(a, "GPU-%.8s-%.4s-%.4s-%.4s-%s", uuid, uuid + 8, uuid + 12,
                                      uuid + 16, uuid + 20)));
    node_put(a, m, "compute_capability", node_str(a, arena_printf(a, "%u.%u", f->major, f->minor)));
    node_put(a, m, "multiprocessors", node_int(a, f->sms));
    node_put(a, m, "memory_bytes", node_int(a, (int64_t)f->memory_bytes));
    node_put(a, m, "l2_bytes", node_int(a, (int64_t)f->l2_bytes));
    node_put(a, m, "driver_cuda_version", node_int(a, f->driver_version));
    node_put(a, m, "cupti_version", node_int(a, f->cupti_version));
    return m;
}

static struct node *counts_node(struct arena *a, const struct capsule *c)
{
    struct node *m = node_new(a, NODE_MAP);
    size_t waits = 0;
    for (size_t i = 0; i < c->n_ops; i++)
        waits += c->ops[i].kind >= CAPSULE_WAIT;
    const struct {
        const char *key;
        size_t n;
    } rows[] = {{"allocations", c->n_allocations},
                {"copies", c->n_copies},
                {"functions", c->n_functions},
                {"globals", c->n_globals},
                {"graph_launches", c->facts->n_graphs},
                {"launches", c->n_launches},
                {"modules", c->n_modules},
                {"occurrences", c->n_walls},
                {"ranges", c->n_ranges},
                {"sets", c->n_sets},
                {"streams", c->n_streams},
                {"waits", waits}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        node_put(a, m, rows[i].key, node_int(a, (int64_t)rows[i].n));
    return m;
}

static struct node *bytes_node(struct arena *a, const struct capsule *c)
{
    uint64_t kept = 0, packed = 0, changed = 0, images = 0;
    for (size_t i = 0; i < c->n_pages; i++) {
        kept += c->pages[i].flags & CAPSULE_ZERO ? 0 : c->pages[i].bytes;
        packed += c->pages[i].file_bytes;
    }
    for (size_t i = 0; i < c->n_after; i++) {
        changed += c->after[i].bytes;
        packed += c->after[i].file_bytes;
    }
    for (size_t i = 0; i < c->n_modules; i++)
        images += c->modules[i].bytes;
    struct node *m = node_new(a, NODE_MAP);
    node_put(a, m, "live", node_int(a, (int64_t)c->facts->live_bytes));
    node_put(a, m, "not_zero", node_int(a, (int64_t)kept));
    node_put(a, m, "changed", node_int(a, (int64_t)changed));
    node_put(a, m, "packed", node_int(a, (int64_t)packed));
    node_put(a, m, "modules", node_int(a, (int64_t)images));
    return m;
}

static struct node *manifest(struct arena *a, const struct capsule *c, const struct node *extra)
{
    struct node *m = node_new(a, NODE_MAP), *region = node_new(a, NODE_MAP);
    node_put(a, m, "run_type", node_str(a, "capsule"));
    node_put(a, m, "capsule_version", node_int(a, CAPSULE_VERSION));
    put_text(a, region, "name", c, c->facts->region);
    node_put(a, region, "occurrence", node_int(a, c->facts->occurrence));
    node_put(a, region, "wall_ns", node_int(a, c->facts->wall_ns));
    node_put(a, region, "stopped_ns", node_int(a, c->facts->snapshot_ns));
    node_put(a, region, "started_at", artifact_time(a, c->facts->start_wall_ns));
    node_put(a, m, "region", region);
    put_text(a, m, "command", c, c->facts->command);
    put_text(a, m, "host", c, c->facts->host);
    node_put(a, m, "pid", node_int(a, c->facts->pid));
    node_put(a, m, "gpu", gpu_node(a, c));
    node_put(a, m, "counts", counts_node(a, c));
    node_put(a, m, "bytes", bytes_node(a, c));
    node_put(a, m, "globals_unread", node_int(a, (int64_t)c->facts->globals_unread));
    node_put(a, m, "tool", artifact_tool(a));
    for (uint32_t i = 0; extra && i < extra->n; i++)
        node_set(a, m, extra->pairs[i].key, extra->pairs[i].value);
    return m;
}

/* ---- all of it ---- */

static enum st put_launches(struct arena *a, const struct capsule *c, const struct artifact *art,
                            struct err *e)
{
    const struct capsule_part parts[CAPSULE_KINDS] = {
        [CAPSULE_BYTES] = {c->bytes, c->n_bytes},
        [CAPSULE_FACTS] = {c->facts, 1},
        [CAPSULE_MODULES] = {c->modules, c->n_modules},
        [CAPSULE_FUNCTIONS] = {c->functions, c->n_functions},
        [CAPSULE_PARAMS] = {c->params, c->n_params},
        [CAPSULE_GLOBALS] = {c->globals, c->n_globals},
        [CAPSULE_ALLOCATIONS] = {c->allocations, c->n_allocations},
        [CAPSULE_STREAMS] = {c->streams, c->n_streams},
        [CAPSULE_OPS] = {c->ops, c->n_ops},
        [CAPSULE_EDGES] = {c->edges, c->n_edges},
        [CAPSULE_LAUNCHES] = {c->launches, c->n_launches},
        [CAPSULE_ATTRIBUTES] = {c->attributes, c->n_attributes},
        [CAPSULE_COPIES] = {c->copies, c->n_copies},
        [CAPSULE_SETS] = {c->sets, c->n_sets},
        [CAPSULE_PAGES] = {c->pages, c->n_pages},
        [CAPSULE_AFTER] = {c->after, c->n_after},
        [CAPSULE_RANGES] = {c->ranges, c->n_ranges},
        [CAPSULE_WALLS] = {c->walls, c->n_walls},
    };
    const char *path = artifact_path(a, art, CAPSULE_FILE);
    errno = capsule_file_write(path, parts);
    if (errno == 0)
        return ST_OK;
    err_errno(e, false, "cannot write %s", path);
    return err_hint(e, "free space there, or choose another place with out=");
}

enum st capsule_write(struct arena *a, const struct capsule *c, const struct capsule_source *from,
                      struct artifact *art, const struct node *extra, struct err *e)
{
    struct capsule out = *c;
    struct capsule_facts facts = *c->facts;
    facts.packed = 1;
    out.facts = &facts;
    struct capsule_page *pages = arena_copy(a, c->pages, c->n_pages * sizeof *pages);
    struct capsule_page *after = arena_copy(a, c->after, c->n_after * sizeof *after);
    struct capsule_module *modules = arena_array(a, struct capsule_module, c->n_modules);
    struct packing memory = {.art = art, .from = from, .name = CAPSULE_MEMORY};
    struct packing changed = {.art = art, .from = from, .name = CAPSULE_CHANGED, .after = true};
    TRY(put_images(a, modules, c->n_modules, from, art, e));
    TRY(put_pieces(&memory, pages, c->n_pages, e));
    TRY(put_pieces(&changed, after, c->n_after, e));
    out.modules = modules;
    out.pages = pages;
    out.after = after;
    TRY(capsule_check(a, &out, e));
    TRY(put_launches(a, &out, art, e));
    return artifact_commit(art, manifest(a, &out, extra), e);
}
