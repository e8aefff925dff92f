/* Pieces of memory in a file: each a zstd frame of its own, so that they are read in any order. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "capsule/check.h"
#include "capsule/file.h"

struct capsule_memory_reader {
    char *path;
    int fd;
    bool packed;
    ZSTD_DCtx *zstd;
    char *frame;
};

uint64_t capsule_packed_bound(uint64_t n)
{
    return ZSTD_compressBound(n);
}

static enum st truncated(const struct capsule_memory_reader *r, uint64_t before, struct err *e)
{
    err_set(e, ST_INPUT, "%s is truncated: it ends before byte %llu", r->path,
            (unsigned long long)before);
    return err_hint(e, "copy it again, or capture the region again");
}

/* Where the last piece ends in the file. */
static uint64_t end_of(const struct capsule_page *p, size_t n)
{
    uint64_t end = 0;
    for (size_t i = 0; i < n; i++)
        if (p[i].at + p[i].file_bytes > end) /* capsule_check: they do not overflow */
            end = p[i].at + p[i].file_bytes;
    return end;
}

enum st capsule_memory_open(const struct capsule *c, bool after, struct capsule_memory_reader **out,
                            struct err *e)
{
    const bool packed = c->facts->packed;
    const char *name = packed ? (after ? CAPSULE_CHANGED : CAPSULE_MEMORY)
                              : (after ? CAPSULE_CHANGED_RAW : CAPSULE_MEMORY_RAW);
    struct capsule_memory_reader *r = mem_alloc(sizeof *r);
    size_t bytes = strlen(c->dir) + strlen(name) + 2;
    *out = NULL;
    *r = (struct capsule_memory_reader){.path = mem_alloc(bytes), .packed = packed};
    snprintf(r->path, bytes, "%s/%s", c->dir, name);
    r->frame = mem_alloc((size_t)capsule_packed_bound(CAPSULE_PAGE_BYTES));
    r->zstd = ZSTD_createDCtx();
    struct stat s;
    r->fd =
        open(r->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); /* a FIFO would hang us */
    *out = r;
    const bool regular = r->fd >= 0 && fstat(r->fd, &s) == 0 && S_ISREG(s.st_mode);
    const uint64_t end = after ? end_of(c->after, c->n_after) : end_of(c->pages, c->n_pages);
    const bool whole = regular && (uint64_t)s.st_size >= end;
    if (whole && r->zstd)
        return ST_OK;
    if (r->fd < 0)
        err_errno(e, true, "cannot read %s", r->path);
    else if (!regular)
        err_set(e, ST_INPUT, "%s is not a regular file", r->path);
    else if (!whole)
        truncated(r, end, e);
    else
        err_set(e, ST_IO, "%s: zstd does not start", r->path);
    capsule_memory_close(out);
    return e->st;
}

static enum st read_whole(struct capsule_memory_reader *r, uint64_t at, size_t bytes, char *to,
                          struct err *e)
{
    for (size_t n = 0; n < bytes;) {
        ssize_t got = pread(r->fd, to + n, bytes - n, (off_t)(at + n));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_errno(e, true, "cannot read %s", r->path);
        if (got == 0)
            return truncated(r, at + bytes, e);
        n += (size_t)got;
    }
    return ST_OK;
}

enum st capsule_memory_read(struct capsule_memory_reader *r, const struct capsule_page *p, void *to,
                            struct err *e)
{
    if (p->flags & CAPSULE_ZERO) {
        memset(to, 0, p->bytes);
        return ST_OK;
    }
    bool ok;
    if (r->packed) {
        TRY(read_whole(r, p->at, (size_t)p->file_bytes, r->frame, e));
        ok =
            ZSTD_decompressDCtx(r->zstd, to, p->bytes, r->frame, (size_t)p->file_bytes) == p->bytes;
    } else {
        ok = p->file_bytes == p->bytes;
        if (ok)
            TRY(read_whole(r, p->at, p->bytes, to, e));
    }
    if (ok && capsule_hash(to, p->bytes) == p->hash)
        return ST_OK;
    err_set(e, ST_INPUT, "%s is damaged: the memory at 0x%llx", r->path,
            (unsigned long long)p->address);
    return err_hint(e, "copy it again, or capture the region again");
}

void capsule_memory_close(struct capsule_memory_reader **r)
{
    if (!*r)
        return;
    if ((*r)->fd >= 0)
        close((*r)->fd);
    ZSTD_freeDCtx((*r)->zstd);
    mem_free((*r)->frame);
    mem_free((*r)->path);
    mem_free(*r);
    *r = NULL;
}

/* ---- a capsule's own contents ---- */

enum st capsule_contents_open(struct arena *a, const struct capsule *c,
                              struct capsule_contents *out, struct err *e)
{
    *out = (struct capsule_contents){.c = c, .a = a};
    enum st st = capsule_memory_open(c, false, &out->memory, e);
    if (st == ST_OK)
        st = capsule_memory_open(c, true, &out->after, e);
    if (st != ST_OK)
        capsule_contents_close(out);
    return st;
}

void capsule_contents_close(struct capsule_contents *s)
{
    capsule_memory_close(&s->memory);
    capsule_memory_close(&s->after);
}

enum st capsule_contents_page(void *contents, bool after, const struct capsule_page *p, void *to,
                              struct err *e)
{
    struct capsule_contents *s = contents;
    return capsule_memory_read(after ? s->after : s->memory, p, to, e);
}

enum st capsule_contents_image(void *contents, size_t module, struct sv *out, struct err *e)
{
    struct capsule_contents *s = contents;
    return capsule_image(s->a, s->c, module, out, e);
}
