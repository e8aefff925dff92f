#include "support/gpu_emulator/stack.h"

#include <stdint.h>
#include <sys/mman.h>

#include "base/arena.h"
#include "base/err.h"

enum { STACK_BYTES = 256 * 1024, GUARD_BYTES = 4096 };

static char *all;
static size_t n_all;

void stacks_open(size_t n)
{
    if (n <= n_all)
        return;
    if (all)
        munmap(all, n_all * STACK_BYTES);
    all = mmap(NULL, n * STACK_BYTES, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT(all != MAP_FAILED);
    for (size_t i = 0; i < n; i++)
        ASSERT(mprotect(all + i * STACK_BYTES, GUARD_BYTES, PROT_NONE) == 0);
    n_all = n;
}

void *stack_top(size_t i)
{
    return all + (i + 1) * STACK_BYTES - STACK_TOP_BYTES;
}

bool stacks_hold(const void *p)
{
    return (size_t)((const char *)p - all) < n_all * STACK_BYTES;
}

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif

#if defined(WITH_ASAN)
#include <sanitizer/asan_interface.h>
#endif

void stacks_forget(void)
{
#if defined(WITH_ASAN)
    ASAN_UNPOISON_MEMORY_REGION(all, n_all * STACK_BYTES);
#endif
}

#if defined(__x86_64__)

__asm__(".text\n"
        ".globl stack_switch\n"
        ".type stack_switch, @function\n"
        "stack_switch:\n"
        "    push %rbp\n    push %rbx\n    push %r12\n    push %r13\n    push %r14\n    push %r15\n"
        "    mov %rsp, (%rdi)\n"
        "    mov %rsi, %rsp\n"
        "    pop %r15\n    pop %r14\n    pop %r13\n    pop %r12\n    pop %rbx\n    pop %rbp\n"
        "    ret\n"
        ".size stack_switch, . - stack_switch\n");

void *stack_begin(size_t i, void (*run)(void))
{
    /* six registers, where to go on, and a return address that is none */
    void **sp = (void **)stack_top(i) - 10;
    for (int j = 0; j < 10; j++)
        sp[j] = NULL;
    sp[6] = (void *)(uintptr_t)run;
    return sp;
}

#else

#include <ucontext.h>

/* A place is a ucontext_t: at the end of a stack, or the scheduler's own. */
void *stack_begin(size_t i, void (*run)(void))
{
    ucontext_t *c = (ucontext_t *)stack_top(i) - 1;
    getcontext(c);
    c->uc_stack.ss_sp = all + i * STACK_BYTES;
    c->uc_stack.ss_size = (size_t)((char *)c - (all + i * STACK_BYTES));
    makecontext(c, run, 0);
    return c;
}

void stack_switch(void **from, void *to)
{
    static ucontext_t scheduler;
    if (!*from)
        *from = &scheduler;
    swapcontext(*from, to);
}

#endif
