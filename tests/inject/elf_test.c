/* inject/elf.c: a cubin as compilers write it, and anything else. */
#include "inject/elf.h"

#include <elf.h>

#include "support/support.h"

enum { SECTIONS = 7, SYMBOLS = 5 };
struct image {
    Elf64_Ehdr h;
    Elf64_Shdr s[SECTIONS];
    Elf64_Sym symbols[SYMBOLS];
    char names[160], strings[64];
};

static uint32_t put(char *to, uint32_t *at, const char *text)
{
    uint32_t was = *at;
    strcpy(to + was, text);
    *at += (uint32_t)strlen(text) + 1;
    return was;
}

/* A kernel of 40 registers and 256 bytes of shared memory; a variable in device memory, one in
 * constant memory, one of the kernel's own. */
static struct image make(void)
{
    struct image m = {0};
    uint32_t names = 1, strings = 1;
    memcpy(m.h.e_ident, ELFMAG, SELFMAG);
    m.h.e_ident[EI_CLASS] = ELFCLASS64;
    m.h.e_shoff = offsetof(struct image, s);
    m.h.e_shentsize = sizeof(Elf64_Shdr);
    m.h.e_shnum = SECTIONS;
    m.h.e_shstrndx = 1;
    static const char *const sections[SECTIONS] = {
        "",           ".shstrtab",    ".symtab", ".text._Z4gemmPf", ".nv.shared._Z4gemmPf",
        ".nv.global", ".nv.constant3"};
    for (int i = 1; i < SECTIONS; i++)
        m.s[i].sh_name = put(m.names, &names, sections[i]);
    m.s[1].sh_offset = offsetof(struct image, names);
    m.s[1].sh_size = names;
    m.s[0].sh_offset = offsetof(struct image, strings); /* the strings of the symbols */
    m.s[0].sh_size = sizeof m.strings;
    m.s[2].sh_type = SHT_SYMTAB;
    m.s[2].sh_offset = offsetof(struct image, symbols);
    m.s[2].sh_size = sizeof m.symbols;
    m.s[2].sh_link = 0;
    m.s[3].sh_info = 40u << 24 | 3;
    m.s[4].sh_size = 256;
    static const struct {
        const char *name;
        unsigned char type;
        uint16_t section;
        uint64_t bytes;
    } symbols[SYMBOLS] = {{"", 0, 0, 0},
                          {"_Z4gemmPf", STT_FUNC, 3, 128},
                          {"counter", STT_OBJECT, 5, 4},
                          {"table", STT_OBJECT, 6, 64},
                          {"tile", STT_OBJECT, 4, 256}};
    for (int i = 1; i < SYMBOLS; i++)
        m.symbols[i] = (Elf64_Sym){.st_name = put(m.strings, &strings, symbols[i].name),
                                   .st_info = ELF64_ST_INFO(STB_GLOBAL, symbols[i].type),
                                   .st_shndx = symbols[i].section,
                                   .st_size = symbols[i].bytes};
    return m;
}

static void keep(void *user, const char *name)
{
    struct buf *out = user;
    buf_printf(out, "%s ", name);
}

static void a_kernel_is_found_with_its_sizes(void **state)
{
    (void)state;
    _Alignas(8) struct image m = make();
    struct elf_kernel k;
    assert_true(inject_elf_kernel(&m, sizeof m, "_Z4gemmPf", &k));
    assert_true(k.registers == 40 && k.static_shared == 256);
    assert_false(inject_elf_kernel(&m, sizeof m, "_Z4gemm", &k));
    assert_false(inject_elf_kernel(&m, sizeof m, "_Z4gemmPfS_", &k));
}

/* cuBLASLt's images have their sections at odd places. */
static void nothing_needs_to_be_aligned(void **state)
{
    struct test *t = *state;
    struct image m = make();
    struct elf_kernel k;
    struct buf out = {0};
    enum { BY = 3 };
    char *moved = arena_alloc(t->a, sizeof m + BY);
    m.h.e_shoff += BY;
    for (int i = 0; i < SECTIONS; i++)
        m.s[i].sh_offset += BY;
    memcpy(moved, &m.h, sizeof m.h);
    memcpy(moved + sizeof m.h + BY, &m.s, sizeof m - sizeof m.h);
    assert_true(inject_elf_kernel(moved, sizeof m + BY, "_Z4gemmPf", &k));
    assert_int_equal(k.registers, 40);
    inject_elf_variables(moved, sizeof m + BY, keep, &out);
    assert_string_equal(buf_str(&out), "counter table ");
    buf_free(&out);
}

static void variables_are_those_of_device_and_constant_memory(void **state)
{
    (void)state;
    _Alignas(8) struct image m = make();
    struct buf out = {0};
    inject_elf_variables(&m, sizeof m, keep, &out);
    assert_string_equal(buf_str(&out), "counter table ");
    buf_free(&out);
}

/* Cut anywhere, or with any byte changed, it is read within its bounds: under a sanitizer. */
static void anything_is_read_within_its_bounds(void **state)
{
    struct test *t = *state;
    struct image m = make();
    struct elf_kernel k;
    struct buf out = {0};
    for (size_t n = 0; n < sizeof m; n++) {
        unsigned char *cut = mem_alloc(n + 8);
        memcpy(cut, &m, n);
        inject_elf_kernel(cut, n, "_Z4gemmPf", &k);
        inject_elf_variables(cut, n, keep, &out);
        mem_free(cut);
    }
    unsigned char *all = arena_copy(t->a, &m, sizeof m);
    for (size_t i = 0; i < sizeof m; i++)
        for (int x = 1; x < 256; x *= 2) {
            all[i] ^= (unsigned char)x;
            inject_elf_kernel(all, sizeof m, "_Z4gemmPf", &k);
            inject_elf_variables(all, sizeof m, keep, &out);
            buf_clear(&out);
            all[i] ^= (unsigned char)x;
        }
    assert_true(inject_elf_kernel(all, sizeof m, "_Z4gemmPf", &k));
    assert_false(inject_elf_kernel("fake image\n", 11, "x", &k));
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_kernel_is_found_with_its_sizes),
        TEST(nothing_needs_to_be_aligned),
        TEST(variables_are_those_of_device_and_constant_memory),
        TEST(anything_is_read_within_its_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
