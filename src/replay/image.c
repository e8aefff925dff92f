#include "replay/image.h"

#include <elf.h>
#include <string.h>

#define FAT_BINARY_MAGIC UINT32_C(0xba55ed50)

struct fat_header { /* of CUDA's fat binaries */
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t files_bytes;
};

static bool within(struct sv image, uint64_t at, uint64_t bytes)
{
    return at <= image.n && bytes <= image.n - at;
}

static bool sections_fit(struct sv image, const Elf64_Ehdr *h)
{
    if (h->e_shnum && (h->e_shentsize != sizeof(Elf64_Shdr) ||
                       !within(image, h->e_shoff, (uint64_t)h->e_shnum * sizeof(Elf64_Shdr))))
        return false;
    for (size_t i = 0; i < h->e_shnum; i++) {
        Elf64_Shdr s;
        memcpy(&s, image.p + h->e_shoff + i * sizeof s, sizeof s);
        if (s.sh_type != SHT_NOBITS && s.sh_type != SHT_NULL && s.sh_type < SHT_LOPROC &&
            !within(image, s.sh_offset, s.sh_size))
            return false;
    }
    return h->e_shnum == 0 || h->e_shstrndx < h->e_shnum;
}

static bool segments_fit(struct sv image, const Elf64_Ehdr *h)
{
    if (h->e_phnum && (h->e_phentsize != sizeof(Elf64_Phdr) ||
                       !within(image, h->e_phoff, (uint64_t)h->e_phnum * sizeof(Elf64_Phdr))))
        return false;
    for (size_t i = 0; i < h->e_phnum; i++) {
        Elf64_Phdr s;
        memcpy(&s, image.p + h->e_phoff + i * sizeof s, sizeof s);
        if (!within(image, s.p_offset, s.p_filesz))
            return false;
    }
    return true;
}

static bool elf_fits(struct sv image)
{
    Elf64_Ehdr h;
    if (image.n < sizeof h)
        return false;
    memcpy(&h, image.p, sizeof h);
    return h.e_ident[EI_CLASS] == ELFCLASS64 && sections_fit(image, &h) && segments_fit(image, &h);
}

static bool fat_binary_fits(struct sv image)
{
    struct fat_header h;
    if (image.n < sizeof h)
        return false;
    memcpy(&h, image.p, sizeof h);
    return h.header_bytes >= sizeof h && within(image, h.header_bytes, h.files_bytes);
}

enum st image_check(struct sv image, const char *name, struct err *e)
{
    const uint32_t fat = FAT_BINARY_MAGIC;
    const bool ok = image.n >= SELFMAG && memcmp(image.p, ELFMAG, SELFMAG) == 0 ? elf_fits(image)
                    : image.n >= sizeof fat && memcmp(image.p, &fat, sizeof fat) == 0
                        ? fat_binary_fits(image)
                        : image.n > 0;
    if (ok)
        return ST_OK;
    err_set(e, ST_INPUT, "%s of the capsule is no whole module: %zu bytes", name, image.n);
    return err_hint(e, "capture the region again");
}
