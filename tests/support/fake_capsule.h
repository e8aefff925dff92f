/* A small capsule in memory, with all kinds of records, for tests of what reads or writes capsules.
 * It agrees with the fake GPU: kernels are twins there, addresses are free on a usual machine. */
#ifndef SUPPORT_FAKE_CAPSULE_H
#define SUPPORT_FAKE_CAPSULE_H

#include "capsule/capsule.h"

enum {
    FAKE_CAPSULE_BASE_MIB = 0x300000, /* the device memory begins at this times 1 MiB */
    FAKE_CAPSULE_MIB = 5, /* and has so much, in one allocation, and 100 bytes more in another */
};

struct fake_capsule {
    struct capsule c;
    /* The same arrays, to be changed by a test. */
    struct capsule_facts facts;
    struct capsule_function functions[2];
    struct capsule_param params[3];
    struct capsule_global globals[1];
    struct capsule_allocation allocations[4];
    struct capsule_stream streams[2];
    struct capsule_op ops[9];
    struct capsule_edge edges[2];
    struct capsule_launch launches[3];
    struct capsule_attribute attributes[1];
    struct capsule_copy copies[2];
    struct capsule_set sets[1];
    struct capsule_page pages[5], after[2];
    struct capsule_range ranges[1];
    struct capsule_wall walls[2];
    struct capsule_module modules[1];
    unsigned char bytes[512];
};

void fake_capsule_make(struct fake_capsule *f);
struct capsule_source fake_capsule_source(struct fake_capsule *f);
/* Byte i of memory at an address, at the start or the end of the region. */
unsigned char fake_capsule_byte(uint64_t address, bool after);

/* Writes it as a recorder does: launches.bin, modules and .raw files; or launches.bin alone. */
void fake_capsule_record(const struct fake_capsule *f, const char *dir);
void fake_capsule_put_launches(const struct fake_capsule *f, const char *path);

#endif
