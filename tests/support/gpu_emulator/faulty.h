/* Kernels with faults that the emulator must find, by number; args: struct faulty_args. */
#ifndef SUPPORT_GPU_EMULATOR_FAULTY_H
#define SUPPORT_GPU_EMULATOR_FAULTY_H

struct faulty_args {
    unsigned *out;            /* [threads] */
    const unsigned *in;       /* [4 threads + 4], 16-byte aligned */
    unsigned long long *word; /* 0 */
    unsigned *sums;           /* [threads] of `orders`, whose out is [blocks, threads] */
    int *counter;             /* 0 */
};

#ifdef __cplusplus
extern "C" {
#endif
/* Without a fault: out[i] = in[4 i] of the next thread, by way of an asynchronous copy. */
void faulty_none(const void *args);
void faulty_barrier(const void *args);        /* half of the block leaves before __syncthreads */
void faulty_barrier_counts(const void *args); /* one barrier for 32 and for 64 threads */
void faulty_lane_left(const void *args);      /* lane 5 leaves before a shuffle of all */
void faulty_lanes_differ(const void *args);   /* even lanes shuffle, the others vote */
void faulty_word(const void *args);           /* waits for a word that nobody writes */
void faulty_race(const void *args);           /* as none, without the barrier */
void faulty_wait(const void *args);           /* as none, without waiting for the copy */
void faulty_mbarrier(const void *args);       /* arrives at one that was not initialized */
void faulty_shared(const void *args);         /* a copy past dynamic shared memory */
void faulty_alignment(const void *args);      /* a copy from an address that is not aligned */
/* Without a fault, by everything that orders, of which each is needed: out = in[4 i] of the next
 * thread + in of its neighbour's next + in of the next once more; sums[i] = those of the thread
 * behind i of all blocks, by the last of them. shared_bytes: 16 threads + 16. */
void faulty_orders(const void *args);
void faulty_shuffle(
    const void *args); /* lanes exchange by shared memory, and only shuffle between */
void faulty_blocks(const void *args); /* every block writes its number to out[0] */
void faulty_same(const void *args);   /* every block writes 7 there: none */
void faulty_plain(const void *args);  /* one thread adds to the counter atomically, one plainly */
#ifdef __cplusplus
}
#endif
#endif
