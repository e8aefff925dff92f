/* What a cubin's ELF file says of its kernels and variables. Bounded: the image may be anything. */
#ifndef INJECT_ELF_H
#define INJECT_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_kernel {
    uint32_t registers, static_shared;
    const void *code; /* inside the image; NULL = not there */
    size_t code_bytes;
};
/* Whether the image has a kernel of that mangled name. */
bool inject_elf_kernel(const void *image, size_t bytes, const char *name, struct elf_kernel *out);

/* Calls `each` with the name (NUL-terminated, inside the image) of every variable in device or
 * constant memory. */
void inject_elf_variables(const void *image, size_t bytes,
                          void (*each)(void *user, const char *name), void *user);

#endif
