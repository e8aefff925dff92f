/* Memory before and after the region: pieces of at most a page, read by a few threads, each with
 * pinned memory of its own. A piece that is all zero takes no space, so that what a program
 * reserves and does not use is free; how much space the rest takes is known once all was read. */
#define _GNU_SOURCE /* O_LARGEFILE and pwrite on old libcs */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "capsule/file.h"
#include "inject/capture.h"

enum { THREADS = 6 };

static struct page_reading {
    int fd;
    struct capsule_page *pages; /* to read */
    size_t n;
    bool after; /* keep those whose hash differs */
    _Atomic size_t next;
    _Atomic uint64_t at; /* end of the file, or where it would be */
    uint64_t most;       /* of it: the disk has no room for more */
    _Atomic int error;   /* errno of the file, or CUresult of a copy plus FIRST_OF_CUDA */
    _Atomic uint64_t failed_at;
    uint64_t hash_of_zeros; /* of a page */
    CUcontext context;
} r;
enum { FIRST_OF_CUDA = 100000 };

static void fail(int error, uint64_t address)
{
    int none = 0;
    if (atomic_compare_exchange_strong(&r.error, &none, error))
        atomic_store(&r.failed_at, address);
}

static bool put(const unsigned char *p, size_t bytes, uint64_t at)
{
    while (bytes > 0) {
        ssize_t n = pwrite(r.fd, p, bytes, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        at += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return true;
}

/* The content: in pinned memory where it stands, elsewhere copied to `room`. */
static const unsigned char *content(const struct capsule_page *p, unsigned char *room)
{
    uint32_t memory = capture_memory_of(p->address, p->bytes);
    if (memory == CAPSULE_PINNED || memory == CAPSULE_REGISTERED)
        return (const unsigned char *)(uintptr_t)p->address;
    CUresult result = capture.driver.cuMemcpyDtoH_v2(room, p->address, p->bytes);
    if (result != CUDA_SUCCESS)
        fail(FIRST_OF_CUDA + (int)result, p->address);
    return result == CUDA_SUCCESS ? room : NULL;
}

static uint64_t hash_of(const unsigned char *bytes, const struct capsule_page *p)
{
    const bool whole_zero = (p->flags & CAPSULE_ZERO) && p->bytes == CAPSULE_PAGE_BYTES;
    return whole_zero ? r.hash_of_zeros : capsule_hash(bytes, p->bytes);
}

static void read_piece(struct capsule_page *p, unsigned char *room)
{
    const unsigned char *bytes = content(p, room);
    if (!bytes)
        return;
    const bool differs_from = r.after && p->flags;
    p->flags = capsule_is_zero(bytes, p->bytes) ? CAPSULE_ZERO : 0;
    const uint64_t hash = hash_of(bytes, p);
    const bool keep = !differs_from || hash != p->hash;
    p->hash = hash;
    p->file_bytes = keep && !p->flags ? p->bytes : 0;
    p->at = atomic_fetch_add(&r.at, p->file_bytes);
    if (!keep)
        p->bytes = 0; /* to be left out */
    if (p->file_bytes > 0 && p->at + p->file_bytes <= r.most && !put(bytes, p->bytes, p->at))
        fail(errno ? errno : EIO, p->address);
}

static void *work(void *room)
{
    CUcontext context;
    guest_thread.busy = 1;
    if (capture.driver.cuCtxPushCurrent_v2(r.context) != CUDA_SUCCESS)
        fail(FIRST_OF_CUDA + CUDA_ERROR_INVALID_CONTEXT, 0);
    for (size_t i; atomic_load(&r.error) == 0 && (i = atomic_fetch_add(&r.next, 1)) < r.n;)
        read_piece(&r.pages[i], room);
    capture.driver.cuCtxPopCurrent_v2(&context);
    return NULL;
}

static bool read_all(unsigned char *rooms)
{
    pthread_t threads[THREADS];
    sigset_t all, old;
    int n = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (n < THREADS && (size_t)n < r.n &&
           pthread_create(&threads[n], NULL, work, rooms + (size_t)n * CAPSULE_PAGE_BYTES) == 0)
        n++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    if (n == 0 && r.n > 0)
        fail(EAGAIN, 0);
    int error = atomic_load(&r.error);
    uint64_t where = atomic_load(&r.failed_at);
    if (error >= FIRST_OF_CUDA) {
        capture_refuse("memory cannot be read: cuMemcpyDtoH: error %d at 0x%" PRIx64,
                       error - FIRST_OF_CUDA, where);
    } else if (error) {
        capture_refuse("cannot write memory into %s: errno %d", capture.dir, error);
    }
    return error == 0;
}

/* ---- space on the disk ---- */

/* A copy here, and the capsule that the host packs from it, which may be a tenth larger. `kept`:
 * bytes that are here already and are packed too. */
enum { TENTHS_COPIED = 10, TENTHS_PACKED = 11, SPARE_BYTES = 64 << 20 };

static uint64_t space_for(uint64_t bytes, uint64_t kept)
{
    return bytes / 10 * (TENTHS_COPIED + TENTHS_PACKED) + kept / 10 * TENTHS_PACKED + SPARE_BYTES;
}

static uint64_t space_there(void)
{
    struct statvfs s;
    return statvfs(capture.dir, &s) == 0 ? (uint64_t)s.f_bavail * s.f_frsize : UINT64_MAX;
}

/* How many bytes may be written there. */
static uint64_t most_bytes(uint64_t there, uint64_t kept)
{
    const uint64_t other = space_for(0, kept);
    return there <= other ? 0 : (there - other) / (TENTHS_COPIED + TENTHS_PACKED) * 10;
}

static uint64_t mib(uint64_t bytes)
{
    return (bytes + (1 << 20) - 1) >> 20;
}

/* `bytes` are not zero, and are the content of pages of `held` bytes. */
static bool had_space(uint64_t there, uint64_t bytes, uint64_t kept, uint64_t held)
{
    if (bytes <= r.most)
        return true;
    capture_refuse("%" PRIu64 " MiB of disk space are free, and %" PRIu64
                   " MiB are needed for the %" PRIu64
                   " MiB of memory that are not zero, of %" PRIu64 " MiB that the program holds"
                   "\n" CAPSULE_REFUSED_HINT "out= on a disk with more room, or a program that "
                   "fills less memory before the region",
                   there >> 20, mib(space_for(bytes, kept)), mib(bytes + kept), mib(held));
    return false;
}

/* kept, held: as above. */
static bool read_into(const char *name, struct capsule_page *pages, size_t n, bool after,
                      uint64_t kept, uint64_t held)
{
    const uint64_t there = space_there();
    char path[sizeof capture.dir + 32];
    void *rooms = NULL;
    int m = snprintf(path, sizeof path, "%s/%s", capture.dir, name);
    r.fd = m > 0 ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666) : -1;
    if (r.fd < 0) {
        capture_refuse("cannot create %s: errno %d", path, errno);
        return false;
    }
    r.pages = pages;
    r.n = n;
    r.after = after;
    r.context = atomic_load(&capture.context);
    atomic_store(&r.next, 0);
    atomic_store(&r.at, 0);
    atomic_store(&r.error, 0);
    r.most = most_bytes(there, kept);
    bool ok = capture.driver.cuMemHostAlloc(&rooms, (size_t)THREADS * CAPSULE_PAGE_BYTES, 0) ==
              CUDA_SUCCESS;
    if (!ok)
        capture_refuse("no pinned memory to read memory through");
    if (ok) {
        memset(rooms, 0, CAPSULE_PAGE_BYTES);
        r.hash_of_zeros = capsule_hash(rooms, CAPSULE_PAGE_BYTES);
        ok = read_all(rooms) && had_space(there, atomic_load(&r.at), kept, held);
    }
    if (rooms)
        capture.driver.cuMemFreeHost(rooms);
    close(r.fd);
    return ok;
}

/* Pieces of [from, to), within pages. */
static bool split(uint64_t from, uint64_t to, struct list *out)
{
    while (from < to) {
        uint64_t end = (from / CAPSULE_PAGE_BYTES + 1) * CAPSULE_PAGE_BYTES;
        end = end < to ? end : to;
        struct capsule_page p = {.address = from, .bytes = (uint32_t)(end - from)};
        if (!inject_list_append(out, &p, 1, sizeof p))
            return false;
        from = end;
    }
    return true;
}

bool capture_pages_before(uint64_t live_bytes)
{
    struct list *out = &capture.sections[CAPSULE_PAGES];
    if (!capture_memory_write())
        return false;
    const struct list *all = &capture.sections[CAPSULE_ALLOCATIONS];
    for (size_t i = 0; i < all->n; i++) {
        const struct capsule_allocation *a = LIST_AT(all, struct capsule_allocation, i);
        if (i > 0 && a[-1].address + a[-1].bytes > a->address) {
            capture_refuse("two allocations overlap at 0x%" PRIx64, a->address);
            return false;
        }
        if (!split(a->address, a->address + a->bytes, out)) {
            capture_refuse("no memory to list pages");
            return false;
        }
    }
    return read_into(CAPSULE_MEMORY_RAW, LIST_AT(out, struct capsule_page, 0), out->n, false, 0,
                     live_bytes);
}

/* ---- after ---- */

/* Flags bit of a piece that has a content to differ from. */
enum { HAD_CONTENT = 1 };

static bool was_live(const struct capsule_page *p)
{
    return capture_memory_of(p->address, p->bytes) != 0;
}

/* Page-locked memory is the program's as much as the GPU's: it fills buffers there while the region
 * runs. What counts as the region's is what its copies and sets wrote, and all of an allocation
 * that a kernel has a pointer into. */
static bool is_of_region(const struct capsule_page *p)
{
    bool reached;
    return was_live(p) && (!capture_memory_is_host(p->address, p->bytes, &reached) || reached);
}

struct page_stretch {
    uint64_t from, to;
};

static bool add_written(uint64_t at, uint64_t bytes, struct list *out)
{
    struct page_stretch s = {at, at + bytes};
    bool reached;
    return bytes == 0 || !capture_memory_is_host(at, bytes, &reached) || reached ||
           inject_list_append(out, &s, 1, sizeof s);
}

/* Into *out what copies and sets wrote to memory that is left out above, sorted; they may overlap.
 */
static bool written(struct list *out)
{
    for (uint32_t i = 0; i < CAPTURE_COUNT(COPIES); i++) {
        const struct capsule_copy *m = CAPTURE_AT(COPIES, copy, i);
        if (!add_written(m->to,
                         (m->depth - 1) * m->to_slice + (m->height - 1) * m->to_pitch + m->width,
                         out))
            return false;
    }
    for (uint32_t i = 0; i < CAPTURE_COUNT(SETS); i++) {
        const struct capsule_set *m = CAPTURE_AT(SETS, set, i);
        if (!add_written(m->to, (m->height - 1) * m->pitch + m->width * m->unit_bytes, out))
            return false;
    }
    struct page_stretch *v = LIST_AT(out, struct page_stretch, 0);
    for (size_t gap = out->n / 2; gap > 0; gap /= 2)
        for (size_t i = gap; i < out->n; i++) {
            const struct page_stretch x = v[i];
            size_t k = i;
            for (; k >= gap && x.from < v[k - gap].from; k -= gap)
                v[k] = v[k - gap];
            v[k] = x;
        }
    return true;
}

static bool candidates(struct list *out)
{
    const struct list *pages = &capture.sections[CAPSULE_PAGES];
    const struct list *all = &capture.sections[CAPSULE_ALLOCATIONS];
    struct list host = {0};
    bool ok = written(&host);
    for (size_t i = 0; i < pages->n && ok; i++) {
        struct capsule_page p = *LIST_AT(pages, struct capsule_page, i);
        p.flags = HAD_CONTENT;
        ok = !is_of_region(&p) || inject_list_append(out, &p, 1, sizeof p);
    }
    for (size_t i = 0; i < all->n && ok; i++) {
        const struct capsule_allocation *a = LIST_AT(all, struct capsule_allocation, i);
        bool reached;
        if (a->flags == CAPSULE_BORN &&
            (!capture_memory_is_host(a->address, a->bytes, &reached) || reached))
            ok = split(a->address, a->address + a->bytes, out);
    }
    uint64_t end = 0;
    for (size_t i = 0; i < host.n && ok; i++) {
        const struct page_stretch *s = LIST_AT(&host, struct page_stretch, i);
        ok = split(s->from > end ? s->from : end, s->to, out);
        end = s->to > end ? s->to : end;
    }
    inject_list_free(&host);
    return ok;
}

static void sort(struct capsule_page *v, size_t n)
{
    for (size_t gap = n / 2; gap > 0; gap /= 2)
        for (size_t i = gap; i < n; i++) {
            struct capsule_page x = v[i];
            size_t k = i;
            for (; k >= gap && x.address < v[k - gap].address; k -= gap)
                v[k] = v[k - gap];
            v[k] = x;
        }
}

bool capture_pages_after(void)
{
    struct list *out = &capture.sections[CAPSULE_AFTER];
    if (!capture_memory_write() || !candidates(out)) {
        capture_refuse("no memory to list pages");
        return false;
    }
    struct capsule_page *v = LIST_AT(out, struct capsule_page, 0);
    sort(v, out->n);
    uint64_t before = 0, held = 0;
    const struct list *pages = &capture.sections[CAPSULE_PAGES];
    for (size_t i = 0; i < pages->n; i++) {
        before += LIST_AT(pages, struct capsule_page, i)->file_bytes;
        held += LIST_AT(pages, struct capsule_page, i)->bytes;
    }
    if (!read_into(CAPSULE_CHANGED_RAW, v, out->n, true, before, held))
        return false;
    size_t kept = 0;
    for (size_t i = 0; i < out->n; i++) {
        uint64_t end = kept > 0 ? v[kept - 1].address + v[kept - 1].bytes : 0;
        if (v[i].bytes > 0 && v[i].address >= end) /* else: freed, and allocated again over it */
            v[kept++] = v[i];
    }
    out->n = kept;
    return true;
}
