/* What -fsanitize=thread calls in front of every access of a kernel, in place of its own runtime:
 * races.h. Compilers differ in which of them they call. */
#include "support/gpu_emulator/races.h"

#include <string.h>

#if defined(EMULATOR_RACES)

#define PC __builtin_return_address(0)
#define HOOK(name, bytes, kind)         \
    void name(void *p);                 \
    void name(void *p)                  \
    {                                   \
        races_hook(p, bytes, kind, PC); \
    }
#define HOOKS(bytes)                                                 \
    HOOK(__tsan_read##bytes, bytes, RACES_READ)                      \
    HOOK(__tsan_write##bytes, bytes, RACES_WRITE)                    \
    HOOK(__tsan_unaligned_read##bytes, bytes, RACES_READ)            \
    HOOK(__tsan_unaligned_write##bytes, bytes, RACES_WRITE)          \
    HOOK(__tsan_volatile_read##bytes, bytes, RACES_ATOMIC)           \
    HOOK(__tsan_volatile_write##bytes, bytes, RACES_ATOMIC)          \
    HOOK(__tsan_unaligned_volatile_read##bytes, bytes, RACES_ATOMIC) \
    HOOK(__tsan_unaligned_volatile_write##bytes, bytes, RACES_ATOMIC)
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

void __tsan_read_range(void *p, size_t bytes);
void __tsan_read_range(void *p, size_t bytes)
{
    races_hook(p, bytes, RACES_READ, PC);
}

void __tsan_write_range(void *p, size_t bytes);
void __tsan_write_range(void *p, size_t bytes)
{
    races_hook(p, bytes, RACES_WRITE, PC);
}

/* Of clang from 15 on; before, and of gcc, a copy by memcpy is not seen. */
void *__tsan_memcpy(void *to, const void *from, size_t bytes);
void *__tsan_memcpy(void *to, const void *from, size_t bytes)
{
    races_hook(from, bytes, RACES_READ, PC);
    races_hook(to, bytes, RACES_WRITE, PC);
    return memcpy(to, from, bytes);
}

void *__tsan_memmove(void *to, const void *from, size_t bytes);
void *__tsan_memmove(void *to, const void *from, size_t bytes)
{
    races_hook(from, bytes, RACES_READ, PC);
    races_hook(to, bytes, RACES_WRITE, PC);
    return memmove(to, from, bytes);
}

void *__tsan_memset(void *to, int value, size_t bytes);
void *__tsan_memset(void *to, int value, size_t bytes)
{
    races_hook(to, bytes, RACES_WRITE, PC);
    return memset(to, value, bytes);
}

void __tsan_init(void);
void __tsan_init(void) {}

void __tsan_func_entry(void *caller);
void __tsan_func_entry(void *caller)
{
    (void)caller;
}

void __tsan_func_exit(void);
void __tsan_func_exit(void) {}

#endif
