/* Whether the records of a capsule fit each other: what capsule_open promises (capsule.h). */
#ifndef CAPSULE_CHECK_H
#define CAPSULE_CHECK_H

#include "capsule/capsule.h"

/* Most bytes that a piece of n bytes takes in a file of memory. */
uint64_t capsule_packed_bound(uint64_t n);

/* ST_INPUT names the record: "launches[3]: function 17 of 12". */
enum st capsule_check(struct arena *a, const struct capsule *c, struct err *e);

#endif
