/* Finds accesses of one launch that nothing orders: two threads touch the same bytes, one of them
 * writes, and no chain of barriers leads from one to the other. What is found does not depend on
 * the results, and hardly on the order in which the emulator runs the threads.
 *
 * CMakeLists.txt compiles the kernels with -fsanitize=thread and links no runtime of it: the calls
 * in front of every access come to hooks.c. emulator.c tells what orders. The rules are those of
 * PTX's memory model:
 *
 *   __syncthreads, bar.sync, __syncwarp: what each thread did in front of it comes before what any
 *     does behind it. Shuffles, votes and matrix instructions order nothing.
 *   mbarriers: what is in front of an arrival comes before what is behind a test that finds its
 *     phase complete.
 *   cp.async: until its thread waits for a copy, or the mbarrier that it arrives at completes the
 *     phase, an access to where it goes is a race, that of its own thread too.
 *   atomics, relaxed and volatile words: races with plain accesses only. They order where a
 *     __threadfence stands in front of the write and one behind the read; barriers may stand
 *     between fence and atomic, since __threadfence is fence.sc.
 *   A store that changes nothing is no race: blocks may write the same.
 *
 * A thread has an epoch, a number that grows whenever it hands on what it did, and a clock: behind
 * which epochs of its block's other threads it stands (Flanagan and Freund 2009, FastTrack), and
 * which fences of other blocks it has seen. Threads that left a barrier together share a clock.
 *
 * Two bytes are the least that is told apart. Of shared memory all readers since the last write are
 * known, of other memory the first and the last, so a read between them may be missed. Blocks that
 * the emulator runs one after the other count as running at once. The first race ends the launch.
 */
#ifndef SUPPORT_GPU_EMULATOR_RACES_H
#define SUPPORT_GPU_EMULATOR_RACES_H

#include "support/gpu_emulator/gpu_emulator.h"

struct racer; /* a thread of the grid */

/* Of what orders: those who come hand their clocks over, those who leave take them all. */
struct clock;
struct meeting {
    struct clock *now, *fenced, *seen;
    struct clock *last; /* that was added to `now` */
};

/* A launch; on false, or no hooks in the kernels: nothing below does anything. */
void races_begin(bool on, unsigned blocks_at_once, unsigned threads, size_t shared_bytes);
void races_end(void);
/* Block `number` of the grid begins in a place for one of blocks_at_once. */
void races_block(unsigned slot, unsigned number, const void *shared);
struct racer *races_thread(unsigned slot, unsigned thread);
void races_turn(struct racer *now); /* whose accesses follow; NULL: the emulator's own */

/* Whether what stands there orders: see emulator_without. */
bool races_counts(struct emulator_source at);
void races_come(struct meeting *m, struct racer *t);
void races_leave(const struct meeting *m, struct racer *t);
void races_forget(struct meeting *m);
void races_fence(struct racer *t);

/* Accesses; pc: where in the program. */
enum races_kind { RACES_READ, RACES_WRITE, RACES_ATOMIC };
void races_access(struct racer *t, const void *p, size_t bytes, enum races_kind kind,
                  const void *pc);
/* Before another thread's turn: the last store is done. */
void races_settle(void);
void races_hook(const void *p, size_t bytes, enum races_kind kind,
                const void *pc); /* whose turn it is */
/* An atomic access; whether it takes what was handed over there, and hands over. */
void races_atomic(struct racer *t, const void *p, size_t bytes, bool takes, bool gives,
                  const void *pc);

/* A copy of 16 bytes to shared memory begins. The first n that the thread began have been waited
 * for. */
void races_copy(struct racer *t, const void *to, const void *pc);
unsigned races_copies(const struct racer *t); /* begun so far */
void races_copied(struct racer *t, unsigned n);

/* Arrives; completes: the phase. Of a completed phase: what its arrivals gave. */
void races_mbarrier_arrive(struct racer *t, const void *mbarrier, bool counts, bool completes);
void races_mbarrier_passed(struct racer *t, const void *mbarrier, bool counts);

/* For shadow.c: whether what `t` does now is ordered behind that epoch of that thread. */
bool races_ordered(const struct racer *t, unsigned thread, uint32_t epoch);

#endif
