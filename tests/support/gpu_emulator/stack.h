/* Stacks that threads of one host thread take turns on; a guard page below each. On x86-64 a switch
 * keeps the registers that a call must keep, some nanoseconds; elsewhere it is swapcontext's. */
#ifndef SUPPORT_GPU_EMULATOR_STACK_H
#define SUPPORT_GPU_EMULATOR_STACK_H

#include <stdbool.h>
#include <stddef.h>

enum { STACK_TOP_BYTES = 64 };

/* Room for n stacks. They are kept, for the next time. */
void stacks_open(size_t n);
/* Where stack i stands when `run` is about to be called on it; run never returns. */
void *stack_begin(size_t i, void (*run)(void));
/* STACK_TOP_BYTES of it that it does not use, 16-byte aligned. */
void *stack_top(size_t i);
bool stacks_hold(const void *p);
/* Leaves the stack that runs, *from is where it stands, for one that stands at `to`. */
void stack_switch(void **from, void *to);
/* To be called when stacks were given up halfway: AddressSanitizer forgets what stood on them. */
void stacks_forget(void);

#endif
