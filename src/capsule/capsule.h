/* Capsules (format.h) as data: opening and checking, memory pieces, images, writing.
 *
 * capsule_open checks everything once, so that users of struct capsule need no further checks:
 * every index and span is inside its section; names hold no NUL; memory is below
 * CAPSULE_ADDRESS_END; pieces are sorted, within one page and within allocations, and cover all
 * that was live; operations wait for earlier ones only; parameters fit their function; copies and
 * sets on the device, and host ends in pinned memory, stay within allocations; sizes are within
 * limits. What a checksum covers is compared with it. Nothing of a capsule is trusted before;
 * opening starts nothing, maps nothing at captured addresses and opens no file outside the folder.
 */
#ifndef CAPSULE_CAPSULE_H
#define CAPSULE_CAPSULE_H

#include "artifact/artifact.h"
#include "base/fs.h"
#include "capsule/format.h"

struct capsule {
    const char *dir;
    struct fs_map file;
    struct node *manifest; /* NULL: unsealed, as the recorder left it */
    const struct capsule_facts *facts;
    const unsigned char *bytes; /* [n_bytes]: spans point here */
    uint64_t n_bytes;
    /* modules [n_modules], functions [n_functions], ... : as CAPSULE_SECTION_TABLE has them */
#define CAPSULE_ARRAY(type, name)      \
    const struct capsule_##type *name; \
    size_t n_##name;
    CAPSULE_ARRAY(module, modules)
    CAPSULE_ARRAY(function, functions)
    CAPSULE_ARRAY(param, params)
    CAPSULE_ARRAY(global, globals)
    CAPSULE_ARRAY(allocation, allocations)
    CAPSULE_ARRAY(stream, streams)
    CAPSULE_ARRAY(op, ops)
    CAPSULE_ARRAY(edge, edges)
    CAPSULE_ARRAY(launch, launches)
    CAPSULE_ARRAY(attribute, attributes)
    CAPSULE_ARRAY(copy, copies)
    CAPSULE_ARRAY(set, sets)
    CAPSULE_ARRAY(page, pages)
    CAPSULE_ARRAY(page, after)
    CAPSULE_ARRAY(range, ranges)
    CAPSULE_ARRAY(wall, walls)
#undef CAPSULE_ARRAY
};

/* Opens a capsule's folder. ST_INPUT names what is wrong and where: no capsule, incomplete, of a
 * newer version, truncated, damaged, inconsistent. launches.bin stays mapped until capsule_close.
 */
enum st capsule_open(struct arena *a, const char *dir, struct capsule *out, struct err *e);
/* The same of a folder that the recorder left: no manifest, memory in .raw files. */
enum st capsule_open_recorded(struct arena *a, const char *dir, struct capsule *out, struct err *e);
void capsule_close(struct capsule *c); /* of one that was opened; a cleared one is fine */

/* The text or bytes of a span. */
struct sv capsule_text(const struct capsule *c, struct capsule_span s);

/* The image of module i, its size and hash compared. */
enum st capsule_image(struct arena *a, const struct capsule *c, size_t i, struct sv *out,
                      struct err *e);

/* ---- memory ---- */

/* Reads pieces of memory.zst (after = false) or after.zst. Handles are per thread: open one in
 * each. ST_INPUT: the file is none, or ends before its last piece does: a replay whose results are
 * equal by their hashes would not notice. */
struct capsule_memory_reader;
enum st capsule_memory_open(const struct capsule *c, bool after, struct capsule_memory_reader **out,
                            struct err *e);
/* The content of a piece of that section, p->bytes at `to`; its hash is compared. */
enum st capsule_memory_read(struct capsule_memory_reader *r, const struct capsule_page *p, void *to,
                            struct err *e);
void capsule_memory_close(struct capsule_memory_reader **r);

/* ---- writing ---- */

/* Where the contents of a capsule that is written come from. Both are called on the caller's
 * thread. */
struct capsule_source {
    /* p->bytes at `to`, of a row of c->pages or c->after */
    enum st (*page)(void *user, bool after, const struct capsule_page *p, void *to, struct err *e);
    enum st (*image)(void *user, size_t module, struct sv *out, struct err *e); /* borrowed */
    void *user;
};

/* Writes c, which a program composed (part of another, a recording, a test's), into art, an
 * artifact begun with CAPSULE_MANIFEST, and commits it. Hashes and places of pages, hashes of
 * images and facts->packed are computed; c->manifest, c->dir are not read. extra: members for the
 * manifest (a map or NULL). Contents are packed by as many threads as there are cores. */
enum st capsule_write(struct arena *a, const struct capsule *c, const struct capsule_source *from,
                      struct artifact *art, const struct node *extra, struct err *e);

/* A capsule's own contents as a source; user: one of these. */
struct capsule_contents {
    const struct capsule *c;
    struct arena *a; /* for images */
    struct capsule_memory_reader *memory, *after;
};
enum st capsule_contents_open(struct arena *a, const struct capsule *c,
                              struct capsule_contents *out, struct err *e);
void capsule_contents_close(struct capsule_contents *s);
enum st capsule_contents_page(void *contents, bool after, const struct capsule_page *p, void *to,
                              struct err *e);
enum st capsule_contents_image(void *contents, size_t module, struct sv *out, struct err *e);

#endif
