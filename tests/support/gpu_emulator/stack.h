/* Stacks that threads of one host thread take turns on; a guard page below each. On x86-64 a switch
 * keeps the registers that a call must keep, some nanoseconds; elsewhere it is swapcontext's. */
#ifndef SUPPORT_GPU_EMULATOR_STACK_H
#define SUPPORT_GPU_EMULATOR_STACK_H

#include <stddef.h>

/* Room for n stacks. They are kept, for the next time. */
void stacks_open(size_t n);
/* Where stack i stands when `run` is about to be called on it; run never returns. */
void *stack_begin(size_t i, void (*run)(void));
/* Leaves the stack that runs, *from is where it stands, for one that stands at `to`. */
void stack_switch(void **from, void *to);
/* To be called when stacks were given up halfway: AddressSanitizer forgets what stood on them. */
void stacks_forget(void);

#endif
