#include "trace/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"

_Static_assert(sizeof(struct spool_header) == 64, "header");
_Static_assert(sizeof(struct spool_block) == 32, "block");
_Static_assert(sizeof(struct spool_kernel) == 32, "kernel");
_Static_assert(sizeof(struct spool_launch) == 24, "launch");
_Static_assert(sizeof(struct spool_string) == 8, "string");
_Static_assert(sizeof(struct spool_kernel) + sizeof(struct spool_launch) <= 64, "a kernel's cost");
#define X(number, kind, name, type, first) _Static_assert(sizeof(type) % 8 == 0, #kind);
SPOOL_KIND_TABLE(X)
#undef X

struct record_kind {
    const char *name;
    uint16_t bytes;
    bool first;
};

static const struct record_kind kinds[SPOOL_KINDS] = {
#define X(number, kind, name_, type, first_) [kind] = {name_, sizeof(type), first_},
    SPOOL_KIND_TABLE(X)
#undef X
};

static bool known(int kind)
{
    return kind > 0 && kind < SPOOL_KINDS && kinds[kind].name;
}

size_t trace_spool_record_bytes(int kind)
{
    return known(kind) && kind != SPOOL_STRINGS ? kinds[kind].bytes : 0;
}

const char *trace_spool_kind_name(int kind)
{
    return known(kind) ? kinds[kind].name : NULL;
}

uint64_t trace_spool_checksum(uint64_t seed, const void *p, size_t bytes)
{
    const unsigned char *at = p;
    uint64_t h = seed;
    while (bytes > 0) {
        size_t n = bytes < 8 ? bytes : 8;
        uint64_t word = 0;
        memcpy(&word, at, n);
        h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
        at += n;
        bytes -= n;
    }
    return h;
}

/* The boot id: CLOCK_MONOTONIC starts with a boot. */
static uint64_t host_id(void)
{
    char text[64] = {0};
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text);
    close(fd);
    return n > 0 ? trace_spool_checksum(1, text, (size_t)n) : 0;
}

/* glibc before 2.33 has no function of that name to link to; on 64 bits the kernel's struct is its.
 */
static bool identity(int fd, struct stat *out)
{
    return fd >= 0 && syscall(SYS_fstat, fd, out) == 0;
}

static bool is_ours(const struct spool_writer *w, int fd)
{
    struct stat info;
    return identity(fd, &info) && (uint64_t)info.st_dev == w->device &&
           (uint64_t)info.st_ino == w->inode;
}

/* Reopens the file: daemons close all descriptors. */
static bool take_back(struct spool_writer *w)
{
    if (is_ours(w, w->fd))
        return true;
    int fd = w->path[0] ? open(w->path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (is_ours(w, fd) && lseek(fd, (off_t)w->bytes, SEEK_SET) >= 0) {
        w->fd = fd;
        return true;
    }
    if (fd >= 0)
        close(fd);
    w->error = EBADF;
    return false;
}

/* Writes all or nothing: truncates after a partial write. */
static bool put(struct spool_writer *w, struct iovec *v, int n)
{
    uint64_t total = 0;
    for (int i = 0; i < n; i++)
        total += v[i].iov_len;
    uint64_t done = 0;
    if (!take_back(w))
        return false;
    while (done < total) {
        ssize_t got = writev(w->fd, v, n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            w->error = got < 0 ? errno : ENOSPC;
            if (done > 0 && ftruncate(w->fd, (off_t)w->bytes) == 0)
                lseek(w->fd, (off_t)w->bytes, SEEK_SET);
            return false; /* readers handle a cut block */
        }
        done += (uint64_t)got;
        for (size_t left = (size_t)got; n > 0 && left > 0;) {
            size_t take = left < v->iov_len ? left : v->iov_len;
            v->iov_base = (char *)v->iov_base + take;
            v->iov_len -= take;
            left -= take;
            if (v->iov_len == 0)
                v++, n--;
        }
    }
    w->bytes += total;
    return true;
}

static bool put_block(struct spool_writer *w, int kind)
{
    if (w->pending[kind].used == 0)
        return w->error == 0;
    if (w->error) {
        w->lost += w->pending[kind].count;
        w->pending[kind].used = w->pending[kind].count = 0;
        return false;
    }
    struct spool_block b = {
        .magic = SPOOL_BLOCK_MAGIC,
        .kind = (uint16_t)kind,
        .record_bytes = (uint16_t)trace_spool_record_bytes(kind),
        .count = w->pending[kind].count,
        .bytes = w->pending[kind].used,
        .sequence = w->sequence,
    };
    b.checksum = trace_spool_checksum(0, &b, offsetof(struct spool_block, checksum));
    b.checksum = trace_spool_checksum(b.checksum, w->pending[kind].p, b.bytes);
    struct iovec v[2] = {{&b, sizeof b}, {w->pending[kind].p, b.bytes}};
    bool ok = put(w, v, 2);
    if (ok)
        w->sequence++;
    else
        w->lost += b.count;
    w->pending[kind].used = w->pending[kind].count = 0;
    return ok;
}

static void put_definitions(struct spool_writer *w)
{
    for (int kind = 1; kind < SPOOL_KINDS; kind++)
        if (kinds[kind].first)
            put_block(w, kind);
}

/* Room for `bytes` more of that kind; writes a full block, after those it refers to. */
static unsigned char *room(struct spool_writer *w, int kind, uint32_t bytes)
{
    if (w->fd < 0 || w->error) {
        w->lost++;
        return NULL;
    }
    if (w->pending[kind].used + bytes > SPOOL_BLOCK_MAX_BYTES) {
        put_definitions(w);
        put_block(w, kind);
        if (w->error) {
            w->lost++;
            return NULL;
        }
    }
    unsigned char *p = w->pending[kind].p + w->pending[kind].used;
    w->pending[kind].used += bytes;
    w->pending[kind].count++;
    w->counts[kind]++;
    return p;
}

int trace_spool_open(struct spool_writer *w, const char *path)
{
    *w = (struct spool_writer){.fd = -1};
    w->memory_bytes = (size_t)SPOOL_BLOCK_MAX_BYTES * SPOOL_KINDS;
    void *memory =
        mmap(NULL, w->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return errno;
    w->memory = memory;
    for (int kind = 0; kind < SPOOL_KINDS; kind++)
        w->pending[kind].p = w->memory + (size_t)kind * SPOOL_BLOCK_MAX_BYTES;
    w->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (w->fd < 0) {
        int error = errno;
        trace_spool_abandon(w);
        return error;
    }
    /* This program may outlive `twinfer trace`: the lock marks the folder as alive
     * (base/partial.h). Recording continues where locks are refused. */
    flock(w->fd, LOCK_SH | LOCK_NB);
    struct stat info = {0};
    size_t path_bytes = strlen(path) + 1;
    if (path_bytes <= sizeof w->path)
        memcpy(w->path, path, path_bytes);
    if (identity(w->fd, &info)) {
        w->device = (uint64_t)info.st_dev;
        w->inode = (uint64_t)info.st_ino;
    }
    struct spool_header h = {
        .magic = SPOOL_MAGIC,
        .version = SPOOL_VERSION,
        .header_bytes = sizeof h,
        .pid = (uint32_t)getpid(),
        .parent_pid = (uint32_t)getppid(),
        .start_ns = clock_mono_ns(),
        .start_wall_ns = clock_wall_ns(),
        .host_id = host_id(),
    };
    if (!put(w, &(struct iovec){&h, sizeof h}, 1)) {
        int error = w->error;
        trace_spool_abandon(w);
        unlink(path);
        return error;
    }
    return 0;
}

bool trace_spool_add(struct spool_writer *w, enum spool_kind kind, const void *record)
{
    size_t bytes = trace_spool_record_bytes((int)kind);
    unsigned char *p = bytes ? room(w, (int)kind, (uint32_t)bytes) : NULL;
    if (p)
        memcpy(p, record, bytes);
    return p != NULL;
}

bool trace_spool_add_string(struct spool_writer *w, uint32_t id, const char *text, size_t bytes)
{
    bool cut = bytes > SPOOL_STRING_MAX_BYTES;
    if (cut)
        bytes = SPOOL_STRING_MAX_BYTES;
    struct spool_string s = {.id = id, .bytes = (uint32_t)bytes};
    uint32_t padded = (uint32_t)((bytes + 7) / 8 * 8);
    unsigned char *p = room(w, SPOOL_STRINGS, (uint32_t)sizeof s + padded);
    if (!p)
        return false;
    memset(p + sizeof s + padded - (padded ? 8 : 0), 0, padded ? 8 : 0);
    memcpy(p, &s, sizeof s);
    memcpy(p + sizeof s, text, bytes);
    if (cut)
        memcpy(p + sizeof s + bytes - 3, "...", 3);
    return true;
}

bool trace_spool_flush(struct spool_writer *w)
{
    put_definitions(w);
    for (int kind = 1; kind < SPOOL_KINDS; kind++)
        put_block(w, kind);
    return w->error == 0;
}

void trace_spool_alive(struct spool_writer *w, int64_t flushed_ns, int64_t alive_ns)
{
    const int64_t times[2] = {flushed_ns, alive_ns};
    _Static_assert(offsetof(struct spool_header, alive_ns) ==
                       offsetof(struct spool_header, flushed_ns) + sizeof(int64_t),
                   "side by side");
    if (w->error == 0 && take_back(w)) {
        /* a raw call: nothing orders it with a program that closes our file at that moment, which
           the next one sees */
        long n = syscall(SYS_pwrite64, w->fd, times, sizeof times,
                         offsetof(struct spool_header, flushed_ns));
        (void)n; /* of the bytes that are there already */
    }
}

int trace_spool_close(struct spool_writer *w)
{
    if (w->fd < 0)
        return w->error;
    struct spool_end end = {
        .at_ns = clock_mono_ns(),
        .kernels = w->counts[SPOOL_KERNELS],
        .launches = w->counts[SPOOL_LAUNCHES],
        .ranges = w->counts[SPOOL_RANGES],
        .dropped = w->lost,
    };
    trace_spool_flush(w);
    int error = w->error;
    if (error) { /* these few bytes may still fit, and record what happened */
        struct spool_drop drop = {.at_ns = end.at_ns, .count = w->lost, .source = SPOOL_FROM_DISK};
        end.dropped = w->lost;
        w->error = 0;
        trace_spool_add(w, SPOOL_DROPS, &drop);
    }
    trace_spool_add(w, SPOOL_END, &end);
    trace_spool_flush(w);
    error = error ? error : w->error;
    trace_spool_abandon(w);
    w->error = error;
    return error;
}

void trace_spool_abandon(struct spool_writer *w)
{
    if (is_ours(w, w->fd))
        close(w->fd);
    w->fd = -1;
    if (w->memory)
        munmap(w->memory, w->memory_bytes);
    w->memory = NULL;
}
