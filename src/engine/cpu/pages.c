#define _GNU_SOURCE /* MADV_POPULATE_WRITE */
#include "engine/cpu/pages.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/cpu/kernels.h"
#include "engine/cpu/pool.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

enum { PIECE_BYTES = 1 << 21, STEP_BYTES = 4096 };

enum st pages_alloc(struct pages *p, size_t floats, const char *what, struct err *e)
{
    const size_t bytes = (floats + KERNELS_SLACK) * sizeof(float);
    const size_t whole = (bytes + PIECE_BYTES - 1) / PIECE_BYTES * PIECE_BYTES;
    void *base = MAP_FAILED;
    if (floats < SIZE_MAX / 8)
        base = mmap(NULL, bytes < PIECE_BYTES ? bytes : whole, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return err_set(e, ST_USAGE, "%s: the system refuses %.1f GiB of memory", what,
                       (double)bytes / (double)(1 << 30));
    p->base = base;
    p->bytes = bytes < PIECE_BYTES ? bytes : whole;
    madvise(base, p->bytes, MADV_HUGEPAGE); /* best effort: small pages work too */
    return ST_OK;
}

void pages_free(struct pages *p)
{
    if (p->base)
        munmap(p->base, p->bytes);
    *p = (struct pages){0};
}

bool pages_populate(void *from, size_t bytes)
{
    const uintptr_t begin = (uintptr_t)from / STEP_BYTES * STEP_BYTES;
    const uintptr_t end = (uintptr_t)from + bytes;
    return madvise((char *)from - ((uintptr_t)from - begin), end - begin, MADV_POPULATE_WRITE) == 0;
}

/* Touches pages with one system call: a fault per page would dominate the cost. */
static void touch(void *ctx, int64_t item, int thread)
{
    (void)thread;
    const struct pages *p = ctx;
    const size_t first = (size_t)item * PIECE_BYTES;
    const size_t n = p->bytes - first < PIECE_BYTES ? p->bytes - first : PIECE_BYTES;
    volatile char *bytes = p->base;
    if (pages_populate((char *)p->base + first, n))
        return;
    for (size_t i = first; i < first + n; i += STEP_BYTES)
        bytes[i] = 0;
}

void pages_touch(const struct pages *p, struct pool *pool)
{
    struct pages copy = *p;
    pool_run(pool, (int64_t)((p->bytes + PIECE_BYTES - 1) / PIECE_BYTES), touch, &copy);
}

void pages_touch_part(const struct pages *p, size_t first, size_t floats, struct pool *pool)
{
    struct pages part = {(float *)p->base + first, floats * sizeof(float)};
    pages_touch(&part, pool);
}

/* The number after `key` in a file of "key number" lines, or (key "") its first number. */
static bool number_in(const char *path, const char *key, unsigned long long *out)
{
    char line[256];
    bool found = false;
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    while (!found && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0)
            found = sscanf(line + strlen(key), "%llu", out) == 1;
    fclose(f);
    return found;
}

size_t pages_available_bytes(void)
{
    unsigned long long kib, limit, used;
    size_t best = SIZE_MAX;
    if (number_in("/proc/meminfo", "MemAvailable:", &kib))
        best = (size_t)kib * 1024;
    if (number_in("/sys/fs/cgroup/memory.max", "", &limit) &&
        number_in("/sys/fs/cgroup/memory.current", "", &used) && used < limit &&
        limit - used < best)
        best = (size_t)(limit - used);
    return best;
}
