#include "capsule/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(struct capsule_header) == 64, "header");
_Static_assert(sizeof(struct capsule_section) == 40, "section");
_Static_assert(sizeof(struct capsule_op) == 72, "op");
#define X(number, kind, name, type) \
    _Static_assert(sizeof(type) % 4 == 0 || sizeof(type) == 1, #kind);
CAPSULE_SECTION_TABLE(X)
#undef X

static const struct {
    const char *name;
    size_t bytes;
} kinds[CAPSULE_KINDS] = {
#define X(number, kind, name, type) [CAPSULE_##kind] = {#name, sizeof(type)},
    CAPSULE_SECTION_TABLE(X)
#undef X
};

size_t capsule_record_bytes(uint32_t kind)
{
    return kind < CAPSULE_KINDS ? kinds[kind].bytes : 0;
}

const char *capsule_kind_name(uint32_t kind)
{
    return kind < CAPSULE_KINDS ? kinds[kind].name : NULL;
}

/* Four lanes, so that the products of one word do not wait for those of another. */
uint64_t capsule_hash(const void *p, size_t bytes)
{
    static const uint64_t odd[4] = {UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0xc2b2ae3d27d4eb4f),
                                    UINT64_C(0xff51afd7ed558ccd), UINT64_C(0x94d049bb133111eb)};
    const unsigned char *at = p;
    uint64_t lane[4] = {1, 2, 3, 4}, h = (uint64_t)bytes * odd[0];
    for (; bytes >= 32; bytes -= 32, at += 32) {
        uint64_t word[4];
        memcpy(word, at, sizeof word);
        for (int i = 0; i < 4; i++) {
            lane[i] = (lane[i] ^ word[i]) * odd[i];
            lane[i] ^= lane[i] >> 32;
        }
    }
    for (; bytes > 0;) {
        uint64_t word = 0;
        size_t n = bytes < 8 ? bytes : 8;
        memcpy(&word, at, n);
        h = (h ^ word) * odd[1];
        h ^= h >> 29;
        at += n;
        bytes -= n;
    }
    for (int i = 0; i < 4; i++) {
        h = (h ^ lane[i]) * odd[i];
        h ^= h >> 31;
    }
    return h;
}

bool capsule_is_zero(const void *p, size_t bytes)
{
    static const unsigned char none[64];
    const unsigned char *at = p;
    if (bytes <= sizeof none)
        return memcmp(at, none, bytes) == 0;
    return memcmp(at, none, sizeof none) == 0 &&
           memcmp(at, at + sizeof none, bytes - sizeof none) == 0;
}

bool capsule_keeps_attribute(uint32_t id)
{
    /* 1 access policy window, 2 cooperative, 3 synchronization policy, 4 to 6 cluster dimension,
     * cluster scheduling, programmatic stream serialization, 8 to 11 priority, memory
     * synchronization domains, preferred cluster, 14 shared memory carveout */
    return (id >= 1 && id <= 6) || (id >= 8 && id <= 11) || id == 14;
}

static int put(int fd, const void *p, uint64_t bytes)
{
    const unsigned char *at = p;
    while (bytes > 0) {
        ssize_t n = write(fd, at, bytes < (1u << 30) ? (size_t)bytes : 1u << 30);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : EIO;
        at += n;
        bytes -= (uint64_t)n;
    }
    return 0;
}

static uint64_t padded(uint64_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

static int put_sections(int fd, const struct capsule_part parts[CAPSULE_KINDS],
                        const struct capsule_section *table, uint32_t n)
{
    static const unsigned char padding[8];
    int error = 0;
    for (uint32_t i = 0; i < n && !error; i++) {
        error = put(fd, parts[table[i].kind].p, table[i].bytes);
        if (!error)
            error = put(fd, padding, padded(table[i].bytes) - table[i].bytes);
    }
    return error;
}

int capsule_file_write(const char *path, const struct capsule_part parts[CAPSULE_KINDS])
{
    struct capsule_section table[CAPSULE_KINDS];
    struct capsule_header h = {
        .version = CAPSULE_VERSION, .header_bytes = sizeof h, .page_bytes = CAPSULE_PAGE_BYTES};
    for (uint32_t kind = 1; kind < CAPSULE_KINDS; kind++)
        h.n_sections += parts[kind].count > 0;
    uint64_t at = sizeof h + h.n_sections * sizeof *table;
    uint32_t n = 0;
    for (uint32_t kind = 1; kind < CAPSULE_KINDS; kind++) {
        const struct capsule_part *p = &parts[kind];
        if (p->count == 0)
            continue;
        uint64_t bytes = p->count * kinds[kind].bytes;
        table[n++] = (struct capsule_section){.kind = kind,
                                              .record_bytes = (uint32_t)kinds[kind].bytes,
                                              .count = p->count,
                                              .at = at,
                                              .bytes = bytes,
                                              .checksum = capsule_hash(p->p, (size_t)bytes)};
        at += padded(bytes);
    }
    memcpy(h.magic, CAPSULE_MAGIC, sizeof h.magic);
    h.file_bytes = at;
    h.checksum = capsule_hash(table, n * sizeof *table);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return errno;
    int error = put(fd, &h, sizeof h);
    if (!error)
        error = put(fd, table, n * sizeof *table);
    if (!error)
        error = put_sections(fd, parts, table, n);
    if (close(fd) != 0 && !error)
        error = errno;
    return error;
}
