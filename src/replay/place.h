/* Captured addresses, found free and taken again.
 *
 * A capsule's pointers are true only where its memory lies at the addresses it had. The driver
 * gives a wanted range of addresses where nothing is mapped, in whole multiples of 32 MiB, and the
 * kernel maps host memory likewise; both fail where this process has something there already. So:
 *
 *   1. place_randomise(false) in the process that starts the replayer: the mappings of its children
 *      then lie at the ends of the address space. A program that was captured in such a process has
 * its memory there too, and containers may forbid it; otherwise each child draws another layout,
 * and the parent may try again.
 *   2. place_check before libcuda is loaded. (Holding the ranges until they are needed does not do:
 * on an H200 with driver 580 the driver gives no addresses that were mapped when it was started.)
 *
 * Page-locked host memory often lies between device memory, in the same 32 MiB; there it is memory
 * of the host that the driver maps into its own range, in pages of 2 MiB. */
#ifndef REPLAY_PLACE_H
#define REPLAY_PLACE_H

#include "capsule/capsule.h"

enum { PLACE_MAP_BYTES = 2 << 20, PLACE_RESERVE_BYTES = 32 << 20 };

struct place_span {
    uint64_t at, bytes;
};

struct place_spans {
    struct place_span *p;
    size_t n;
};

/* All sorted by address, none overlapping another of its list. */
struct place {
    struct place_spans reserved;    /* addresses that the driver reserves, multiples of 32 MiB */
    struct place_spans mapped;      /* what of them has device memory behind it */
    struct place_spans host_inside; /* and what host memory, in pages of 2 MiB */
    struct place_spans host;        /* pages of host memory elsewhere */
    uint64_t taken; /* by place_check or later: an address that cannot be had; 0 = none */
};

/* ST_INPUT: host memory lies in one page of 2 MiB with the device's. */
enum st place_plan(struct arena *a, const struct capsule *c, struct place *out, struct err *e);

/* Whether processes started from now on have their mappings at random addresses. False: the system
 * does not permit to set it. */
bool place_randomise(bool on);
/* Nothing of this process lies in any of the ranges. ST_DEVICE, with p->taken, otherwise. */
enum st place_check(struct place *p, struct err *e);

/* Inside one of the spans. */
bool place_contains(const struct place_spans *s, uint64_t at, uint64_t bytes);

#endif
