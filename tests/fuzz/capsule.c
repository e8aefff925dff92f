/* Any bytes as a capsule's launches.bin. Checksums would keep nearly all of them out, so they are
 * made right, except where a section's own says otherwise. What opens keeps every promise of
 * capsule.h, and reading its contents stays inside what was asked for. A replay of it would write
 * nowhere but in what it reserves, and its program names nothing that is not there. */
#include "capsule/capsule.h"

#include <sys/stat.h>
#include <unistd.h>

#include "capsule/file.h"
#include "folder.h"
#include "replay/place.h"
#include "replay/program.h"

static void mend(uint8_t *p, size_t size)
{
    struct capsule_header h;
    if (size < sizeof h)
        return;
    memcpy(&h, p, sizeof h);
    memcpy(h.magic, CAPSULE_MAGIC, sizeof h.magic);
    h.version = CAPSULE_VERSION;
    h.header_bytes = sizeof h;
    h.page_bytes = CAPSULE_PAGE_BYTES;
    h.file_bytes = size;
    if (h.n_sections > (size - sizeof h) / sizeof(struct capsule_section))
        h.n_sections = (uint32_t)((size - sizeof h) / sizeof(struct capsule_section));
    for (uint32_t i = 0; i < h.n_sections; i++) {
        struct capsule_section s;
        uint8_t *at = p + sizeof h + i * sizeof s;
        memcpy(&s, at, sizeof s);
        if (s.at <= size && s.bytes <= size - s.at && s.checksum != 1)
            s.checksum = capsule_hash(p + s.at, (size_t)s.bytes);
        memcpy(at, &s, sizeof s);
    }
    h.checksum = capsule_hash(p + sizeof h, h.n_sections * sizeof(struct capsule_section));
    memcpy(p, &h, sizeof h);
}

static bool in_some(const struct capsule *c, uint64_t at, uint64_t bytes)
{
    uint64_t end = at + bytes; /* allocations are sorted by address */
    for (size_t i = 0; i < c->n_allocations && at < end; i++)
        if (c->allocations[i].address <= at &&
            c->allocations[i].address + c->allocations[i].bytes > at)
            at = c->allocations[i].address + c->allocations[i].bytes;
    return at >= end;
}

static void sum(const struct capsule *c, struct capsule_span s)
{
    volatile unsigned total = 0; /* each byte is read */
    const struct sv text = capsule_text(c, s);
    for (size_t i = 0; i < text.n; i++)
        total = total + (unsigned char)text.p[i];
}

static void walk(const struct capsule *c)
{
    for (size_t i = 0; i < c->n_functions; i++) {
        REQUIRE(c->functions[i].module < c->n_modules);
        sum(c, c->functions[i].name);
        for (uint32_t p = 0; p < c->functions[i].n_params; p++)
            REQUIRE((uint64_t)c->params[c->functions[i].first_param + p].offset +
                        c->params[c->functions[i].first_param + p].bytes <=
                    c->functions[i].params_bytes);
    }
    for (size_t i = 0; i < c->n_globals; i++)
        sum(c, c->globals[i].value);
    for (size_t i = 0; i < c->n_ops; i++) {
        const struct capsule_op *o = &c->ops[i];
        REQUIRE(o->stream < c->n_streams);
        if (o->kind == CAPSULE_LAUNCH) {
            const struct capsule_launch *l = &c->launches[o->item];
            REQUIRE(l->params.bytes == c->functions[l->function].params_bytes);
            sum(c, l->params);
        } else if (o->kind == CAPSULE_COPY) {
            const struct capsule_copy *m = &c->copies[o->item];
            sum(c, m->source);
            REQUIRE(m->to_place == CAPSULE_ON_HOST || in_some(c, m->to, m->width));
        } else if (o->kind == CAPSULE_SET) {
            const struct capsule_set *s = &c->sets[o->item];
            REQUIRE(in_some(c, s->to, s->width * s->unit_bytes));
        }
    }
    for (size_t i = 0; i < c->n_pages; i++)
        REQUIRE(in_some(c, c->pages[i].address, c->pages[i].bytes));
    for (size_t i = 0; i < c->n_after; i++)
        REQUIRE(in_some(c, c->after[i].address, c->after[i].bytes));
}

/* A piece, or an end of a copy, lies whole in device memory or whole in host memory. */
static void placed(const struct place *p, uint64_t at, uint64_t bytes)
{
    REQUIRE(place_contains(&p->mapped, at, bytes) || place_contains(&p->host, at, bytes) ||
            place_contains(&p->host_inside, at, bytes));
}

static void plan(struct arena *a, const struct capsule *c)
{
    struct place place;
    struct program program;
    struct err e = {0};
    if (place_plan(a, c, &place, &e) != ST_OK) {
        REQUIRE(e.st == ST_INPUT);
        return;
    }
    for (size_t i = 0; i < place.mapped.n; i++)
        REQUIRE(place_contains(&place.reserved, place.mapped.p[i].at, place.mapped.p[i].bytes));
    for (size_t i = 0; i < c->n_pages; i++)
        placed(&place, c->pages[i].address, c->pages[i].bytes);
    for (size_t i = 0; i < c->n_after; i++)
        placed(&place, c->after[i].address, c->after[i].bytes);
    for (size_t i = 0; i < c->n_allocations; i++)
        placed(&place, c->allocations[i].address, c->allocations[i].bytes);
    for (size_t i = 0; i < c->n_sets; i++)
        placed(&place, c->sets[i].to, c->sets[i].width * c->sets[i].unit_bytes);
    program_build(a, c, 0, c->n_ops, &program);
    for (size_t i = 0; i < program.n; i++) {
        const struct program_step *s = &program.steps[i];
        REQUIRE(s->lane < program.n_lanes);
        REQUIRE(s->event == CAPSULE_NONE || s->event < program.n_events);
        REQUIRE(s->kind != PROGRAM_OP || s->item < c->n_ops);
        REQUIRE(s->kind != PROGRAM_WAIT ||
                (s->item < i && program.steps[s->item].event != CAPSULE_NONE));
    }
}

/* Files that are as long as their pieces say, zeros behind the input; where that is too much for a
 * file they stay short, and are refused. */
static void lengthen(const struct capsule *c, bool after, const struct capsule_page *p, size_t n)
{
    static const char *const names[2][2] = {{CAPSULE_MEMORY_RAW, CAPSULE_MEMORY},
                                            {CAPSULE_CHANGED_RAW, CAPSULE_CHANGED}};
    char path[400];
    struct stat s;
    off_t end = 0;
    for (size_t i = 0; i < n; i++)
        if ((off_t)(p[i].at + p[i].file_bytes) > end)
            end = (off_t)(p[i].at + p[i].file_bytes);
    snprintf(path, sizeof path, "%s/%s", folder(), names[after][c->facts->packed ? 1 : 0]);
    if (end < (off_t)1 << 30 && stat(path, &s) == 0 && s.st_size < end)
        REQUIRE(truncate(path, end) == 0);
}

static void read_memory(const struct capsule *c)
{
    struct capsule_memory_reader *r;
    struct err e = {0};
    for (int after = 0; after < 2; after++) {
        const struct capsule_page *pages = after ? c->after : c->pages;
        const size_t n = after ? c->n_after : c->n_pages;
        lengthen(c, after, pages, n);
        if (capsule_memory_open(c, after, &r, &e) != ST_OK) {
            REQUIRE(e.st == ST_INPUT && !r);
            err_clear(&e);
            continue;
        }
        for (size_t i = 0; i < n && i < 8; i++) {
            char *to = malloc(pages[i].bytes); /* exactly: what lies behind is a sanitizer's */
            REQUIRE(to);
            if (capsule_memory_read(r, &pages[i], to, &e) != ST_OK) {
                REQUIRE(e.st == ST_INPUT);
                err_clear(&e);
            }
            free(to);
        }
        capsule_memory_close(&r);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new();
    struct err e = {0};
    struct capsule c;
    struct sv image;
    uint8_t *copy = arena_copy(a, data, size);
    mend(copy, size);
    static const char *const names[] = {CAPSULE_FILE, CAPSULE_MEMORY, CAPSULE_MEMORY_RAW,
                                        CAPSULE_CHANGED, CAPSULE_CHANGED_RAW};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        folder_put(a, names[i], copy, size);
    if (capsule_open_recorded(a, folder(), &c, &e) == ST_OK) {
        walk(&c);
        plan(a, &c);
        read_memory(&c);
        for (size_t i = 0; i < c.n_modules && i < 4; i++)
            REQUIRE(capsule_image(a, &c, i, &image, &e) == ST_INPUT);
        capsule_close(&c);
    } else {
        REQUIRE(e.st == ST_INPUT && err_cause(&e, 0));
    }
    arena_free(&a);
    return 0;
}
