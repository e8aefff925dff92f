/* Writing launches.bin and hashing its contents: libc only, shared with the guest library.
 *
 * Nothing here allocates. */
#ifndef CAPSULE_FILE_H
#define CAPSULE_FILE_H

#include <stdbool.h>

#include "capsule/format.h"

/* 64-bit hash of contents: finds damage, and pages that changed. Part of the format. */
uint64_t capsule_hash(const void *p, size_t bytes);
/* All bytes are 0. */
bool capsule_is_zero(const void *p, size_t bytes);

size_t capsule_record_bytes(uint32_t kind);   /* 0 = unknown kind */
const char *capsule_kind_name(uint32_t kind); /* "launches"; NULL = unknown */

/* Launch attributes that mean the same in another process: no events, no nodes of graphs. */
bool capsule_keeps_attribute(uint32_t id);

/* The records of one kind. */
struct capsule_part {
    const void *p;
    uint64_t count;
};

/* Creates path (must not exist) with parts[kind] for every kind. 0 or an errno; the file may be
 * half written then. */
int capsule_file_write(const char *path, const struct capsule_part parts[CAPSULE_KINDS]);

#endif
