#include "inject/elf.h"

#include <elf.h>
#include <string.h>

struct elf {
    const unsigned char *p;
    size_t bytes;
    const unsigned char *sections; /* not aligned: cuBLASLt's are at odd places */
    size_t n;
    const char *names;
    size_t names_bytes;
};

static const void *within(const struct elf *f, uint64_t at, uint64_t bytes)
{
    return at <= f->bytes && bytes <= f->bytes - at ? f->p + at : NULL;
}

static Elf64_Shdr section(const struct elf *f, size_t i)
{
    Elf64_Shdr s;
    memcpy(&s, f->sections + i * sizeof s, sizeof s);
    return s;
}

/* A string table ends with NUL, so that every name in it does. */
static const char *strings(const struct elf *f, size_t i, size_t *bytes)
{
    const Elf64_Shdr s = section(f, i);
    const char *p = within(f, s.sh_offset, s.sh_size);
    *bytes = (size_t)s.sh_size;
    return p && *bytes > 0 && p[*bytes - 1] == 0 ? p : NULL;
}

static bool open_image(const void *image, size_t bytes, struct elf *f)
{
    *f = (struct elf){.p = image, .bytes = bytes};
    Elf64_Ehdr h;
    if (bytes < sizeof h)
        return false;
    memcpy(&h, image, sizeof h);
    if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64 ||
        h.e_shentsize != sizeof(Elf64_Shdr) || h.e_shstrndx >= h.e_shnum)
        return false;
    f->n = h.e_shnum;
    f->sections = within(f, h.e_shoff, (uint64_t)f->n * sizeof(Elf64_Shdr));
    if (!f->sections)
        return false;
    f->names = strings(f, h.e_shstrndx, &f->names_bytes);
    return f->names != NULL;
}

static const char *name_of(const struct elf *f, size_t i)
{
    const Elf64_Shdr s = section(f, i);
    return s.sh_name < f->names_bytes ? f->names + s.sh_name : "";
}

static bool is_named(const char *text, const char *prefix, const char *name)
{
    size_t n = strlen(prefix);
    return strncmp(text, prefix, n) == 0 && strcmp(text + n, name) == 0;
}

bool inject_elf_kernel(const void *image, size_t bytes, const char *name, struct elf_kernel *out)
{
    struct elf f;
    bool found = false;
    *out = (struct elf_kernel){0};
    for (size_t i = 0; open_image(image, bytes, &f) && i < f.n; i++) {
        const char *text = name_of(&f, i);
        if (is_named(text, ".text.", name)) {
            const Elf64_Shdr s = section(&f, i);
            out->registers = s.sh_info >> 24;
            out->code = within(&f, s.sh_offset, s.sh_size);
            out->code_bytes = out->code ? (size_t)s.sh_size : 0;
            found = true;
        } else if (is_named(text, ".nv.shared.", name)) {
            out->static_shared = (uint32_t)section(&f, i).sh_size;
        }
    }
    return found;
}

static bool holds_variables(const struct elf *f, size_t i)
{
    static const char global[] = ".nv.global", constant[] = ".nv.constant3";
    const char *name = i < f->n ? name_of(f, i) : "";
    return strncmp(name, global, sizeof global - 1) == 0 || strcmp(name, constant) == 0;
}

static void symbols(const struct elf *f, const Elf64_Shdr *s,
                    void (*each)(void *user, const char *name), void *user)
{
    size_t names_bytes, n = (size_t)s->sh_size / sizeof(Elf64_Sym);
    const unsigned char *p = within(f, s->sh_offset, s->sh_size);
    const char *names = s->sh_link < f->n ? strings(f, s->sh_link, &names_bytes) : NULL;
    for (size_t i = 0; p && names && i < n; i++) {
        Elf64_Sym v;
        memcpy(&v, p + i * sizeof v, sizeof v);
        if (ELF64_ST_TYPE(v.st_info) == STT_OBJECT && v.st_size > 0 && v.st_name > 0 &&
            v.st_name < names_bytes && holds_variables(f, v.st_shndx))
            each(user, names + v.st_name);
    }
}

void inject_elf_variables(const void *image, size_t bytes,
                          void (*each)(void *user, const char *name), void *user)
{
    struct elf f;
    if (!open_image(image, bytes, &f))
        return;
    for (size_t i = 0; i < f.n; i++) {
        const Elf64_Shdr s = section(&f, i);
        if (s.sh_type == SHT_SYMTAB)
            symbols(&f, &s, each, user);
    }
}
