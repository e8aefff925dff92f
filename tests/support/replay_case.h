/* A capsule whose region the fake GPU can carry out, with the memory that it really produces, for
 * tests of replay. Its kernels are twins that the fake libcuda brings
 * (tests/support/fake_gpu/twins.c).
 *
 *     operation 0  copy of 16 bytes from the host to A + 256 KiB
 *               1  roof_write(A, 3), 2 blocks: 128 KiB of words i * 3           stream 0
 *               2  stream 1 waits for it
 *               3  roof_read(A, S), 2 blocks: sums of 64 KiB each               stream 1, early
 *               4  set of 100 words in memory that was allocated inside the region
 *               5  the program waits for everything
 *               6  roof_read(table, S + 8), 1 block: the sum of a module's variable   stream 0
 *               7  copy of S to page-locked host memory
 *               8, 9, 10, 11  a graph launch in stream 1: roof_write(B, 5), then two roof_read of
 * it side by side, then roof_nothing after both 12  copy of 4 rows of 16 bytes within A
 *
 * With REPLAY_CASE_TILES also, in stream 1, 13, a set of a counter and what is behind it, 10 ns,
 * and 14, draw_tiles, which draws 6 tiles by it. */
#ifndef SUPPORT_REPLAY_CASE_H
#define SUPPORT_REPLAY_CASE_H

#include "capsule/capsule.h"

enum replay_case_fault {
    REPLAY_CASE_WRONG = 1,   /* 3 bytes of what operation 1 wrote are said to be others */
    REPLAY_CASE_ASTRAY = 2,  /* operation 6 reads memory that the capsule does not have */
    REPLAY_CASE_UNKNOWN = 4, /* a kernel that the module does not have */
    REPLAY_CASE_NEAR = 16,   /* the host memory lies between device memory */
    REPLAY_CASE_ODD = 8,     /* operation 11 is "odd_write(B)", for a test's own twin */
    REPLAY_CASE_TILES = 128, /* operations more */
    REPLAY_CASE_APART = 256, /* they, with a roof_nothing between the set and draw_tiles */
    REPLAY_CASE_PLAIN = 64,  /* operations 8 to 11 are launches of their own, no graph's */
    REPLAY_CASE_STILL = 32,  /* all memory is at the start as the region leaves it, none is
                              * allocated inside; word 1 of B is REPLAY_CASE_WORD with ODD */
};

enum { REPLAY_CASE_OPS = 13, REPLAY_CASE_CLASSES = 8, REPLAY_CASE_DRAWN = 6 };
#define REPLAY_CASE_BASE UINT64_C(0x300000000000)
#define REPLAY_CASE_WORD 0x41424344u

/* image: of the module; empty = the fake GPU's. */
enum st replay_case_write(const char *dir, int faults, struct sv image, struct err *e);

#endif
