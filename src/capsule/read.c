/* Opening: the file's frame. What its records say is checked in check.c. */
#include <string.h>

#include "capsule/check.h"
#include "capsule/file.h"

static enum st damaged(const char *path, const char *what, struct err *e)
{
    err_set(e, ST_INPUT, "%s is damaged: %s", path, what);
    return err_hint(e, "capture the region again");
}

static enum st header(const char *path, const struct fs_map *f, struct err *e)
{
    const struct capsule_header *h = (const void *)f->p;
    if (f->n < sizeof *h || memcmp(h->magic, CAPSULE_MAGIC, sizeof h->magic) != 0)
        return err_set(e, ST_INPUT, "%s is not a capsule's %s", path, CAPSULE_FILE);
    if (h->version != CAPSULE_VERSION) {
        err_set(e, ST_INPUT, "%s has version %u; this twinfer reads version %d", path, h->version,
                CAPSULE_VERSION);
        return err_hint(e, "use the twinfer that captured it, or a newer one");
    }
    if (h->file_bytes != f->n) {
        err_set(e, ST_INPUT, "%s is truncated: %zu bytes of %llu", path, f->n,
                (unsigned long long)h->file_bytes);
        return err_hint(e, "copy it again, or capture the region again");
    }
    if (h->header_bytes != sizeof *h || h->page_bytes != CAPSULE_PAGE_BYTES)
        return damaged(path, "its header", e);
    if (h->n_sections > (f->n - sizeof *h) / sizeof(struct capsule_section) ||
        capsule_hash(h + 1, h->n_sections * sizeof(struct capsule_section)) != h->checksum)
        return damaged(path, "its table of sections", e);
    return ST_OK;
}

/* Records in the layout of this version; longer ones of a later version are cut. */
static const void *records(struct arena *a, const char *from, const struct capsule_section *s)
{
    size_t bytes = capsule_record_bytes(s->kind);
    if (s->record_bytes == bytes)
        return from;
    char *out = arena_alloc_n(a, (size_t)s->count, bytes);
    for (size_t i = 0; i < s->count; i++)
        memcpy(out + i * bytes, from + i * s->record_bytes, bytes);
    return out;
}

static enum st section(struct arena *a, const char *path, struct capsule *c,
                       const struct capsule_section *s, bool *seen, struct err *e)
{
    const char *name = capsule_kind_name(s->kind);
    if (!name) /* of a later version */
        return ST_OK;
    const uint64_t most = s->kind == CAPSULE_BYTES ? c->file.n : CAPSULE_RECORDS_MAX;
    if (*seen || s->record_bytes < capsule_record_bytes(s->kind) /* above 0 */ || s->count > most ||
        s->at % 8 != 0 || s->at > c->file.n || s->bytes > c->file.n - s->at ||
        s->count > c->file.n / s->record_bytes || s->bytes != s->count * s->record_bytes ||
        (s->record_bytes % 4 != 0 && s->record_bytes != 1))
        return damaged(path, arena_printf(a, "the place of its section %s", name), e);
    *seen = true;
    const char *from = c->file.p + s->at;
    if (capsule_hash(from, (size_t)s->bytes) != s->checksum)
        return damaged(path, arena_printf(a, "its section %s", name), e);
    const void *p = records(a, from, s);
    switch ((enum capsule_kind)s->kind) {
    case CAPSULE_BYTES:
        c->bytes = p;
        c->n_bytes = s->count;
        break;
    case CAPSULE_FACTS:
        c->facts = s->count == 1 ? p : NULL;
        break;
#define ARRAY(KIND, name)               \
    case CAPSULE_##KIND:                \
        c->name = p;                    \
        c->n_##name = (size_t)s->count; \
        break;
        ARRAY(MODULES, modules)
        ARRAY(FUNCTIONS, functions)
        ARRAY(PARAMS, params)
        ARRAY(GLOBALS, globals)
        ARRAY(ALLOCATIONS, allocations)
        ARRAY(STREAMS, streams)
        ARRAY(OPS, ops)
        ARRAY(EDGES, edges)
        ARRAY(LAUNCHES, launches)
        ARRAY(ATTRIBUTES, attributes)
        ARRAY(COPIES, copies)
        ARRAY(SETS, sets)
        ARRAY(PAGES, pages)
        ARRAY(AFTER, after)
        ARRAY(RANGES, ranges)
        ARRAY(WALLS, walls)
#undef ARRAY
    case CAPSULE_KINDS:
        break;
    }
    return ST_OK;
}

static enum st load(struct arena *a, const char *path, struct capsule *c, struct err *e)
{
    bool seen[CAPSULE_KINDS] = {false};
    TRY(header(path, &c->file, e));
    const struct capsule_header *h = (const void *)c->file.p;
    const struct capsule_section *table = (const void *)(h + 1);
    for (uint32_t i = 0; i < h->n_sections; i++)
        TRY(section(a, path, c, &table[i], &seen[table[i].kind < CAPSULE_KINDS ? table[i].kind : 0],
                    e));
    if (!c->facts)
        return damaged(path, "it has no facts", e);
    enum st st = capsule_check(a, c, e);
    return st == ST_OK ? ST_OK : err_add(e, "%s cannot be used", path);
}

static enum st open_file(struct arena *a, struct capsule *c, struct err *e)
{
    const char *path = fs_join(a, c->dir, CAPSULE_FILE);
    TRY(fs_map(path, &c->file, e));
    enum st st = load(a, path, c, e);
    if (st != ST_OK)
        capsule_close(c);
    return st;
}

enum st capsule_open(struct arena *a, const char *dir, struct capsule *out, struct err *e)
{
    *out = (struct capsule){.dir = arena_str(a, dir)};
    struct node *manifest;
    TRY(artifact_open(a, dir, CAPSULE_MANIFEST, "capsule", &manifest, e));
    TRY(node_check_version(manifest, "capsule_version", CAPSULE_VERSION, e));
    TRY(open_file(a, out, e));
    out->manifest = manifest;
    if (out->facts->packed)
        return ST_OK;
    capsule_close(out);
    return damaged(dir, "its memory is not packed", e);
}

enum st capsule_open_recorded(struct arena *a, const char *dir, struct capsule *out, struct err *e)
{
    *out = (struct capsule){.dir = arena_str(a, dir)};
    return open_file(a, out, e);
}

void capsule_close(struct capsule *c)
{
    fs_unmap(&c->file);
    *c = (struct capsule){0};
}

struct sv capsule_text(const struct capsule *c, struct capsule_span s)
{
    return (struct sv){s.bytes ? (const char *)c->bytes + s.at : "", (size_t)s.bytes};
}

enum st capsule_image(struct arena *a, const struct capsule *c, size_t i, struct sv *out,
                      struct err *e)
{
    const struct capsule_module *m = &c->modules[i];
    char *path = arena_printf(a, "%s/" CAPSULE_IMAGES "/%04zu.cubin", c->dir, i);
    TRY(fs_read(a, path, CAPSULE_IMAGE_MAX_BYTES, out, e));
    if (out->n == m->bytes && capsule_hash(out->p, out->n) == m->hash)
        return ST_OK;
    return damaged(path, "not the image that was captured", e);
}
