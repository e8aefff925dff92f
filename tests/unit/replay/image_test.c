/* Images of modules: whole ones pass, those that point outside of themselves do not. */
#include "replay/image.h"

#include <elf.h>
#include <string.h>

#include "support/support.h"

struct small {
    Elf64_Ehdr h;
    Elf64_Phdr segment;
    Elf64_Shdr sections[3];
    char text[32];
};

static struct small make(void)
{
    struct small s = {.h = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB},
                            .e_machine = 190,
                            .e_shoff = offsetof(struct small, sections),
                            .e_shentsize = sizeof(Elf64_Shdr),
                            .e_shnum = 3,
                            .e_shstrndx = 1,
                            .e_phoff = offsetof(struct small, segment),
                            .e_phentsize = sizeof(Elf64_Phdr),
                            .e_phnum = 1}};
    s.segment = (Elf64_Phdr){.p_offset = offsetof(struct small, text), .p_filesz = sizeof s.text};
    s.sections[1] = (Elf64_Shdr){
        .sh_type = SHT_STRTAB, .sh_offset = offsetof(struct small, text), .sh_size = sizeof s.text};
    s.sections[2] = (Elf64_Shdr){.sh_type = SHT_NOBITS, .sh_size = UINT64_C(1) << 40};
    return s;
}

static void images_are_whole_or_refused(void **state)
{
    struct test *t = *state;
#define CHECK_IMAGE(expected, ...)                                                                \
    do {                                                                                          \
        struct small s = make();                                                                  \
        __VA_ARGS__;                                                                              \
        err_clear(&t->e);                                                                         \
        assert_int_equal(image_check((struct sv){(const char *)&s, sizeof s}, "module 3", &t->e), \
                         expected);                                                               \
    } while (0)
    CHECK_IMAGE(ST_OK, (void)0);
    CHECK_IMAGE(ST_INPUT, s.h.e_ident[EI_CLASS] = ELFCLASS32);
    CHECK_IMAGE(ST_INPUT, s.h.e_shoff = sizeof s - sizeof s.sections + 1);
    CHECK_IMAGE(ST_INPUT, s.h.e_shoff = UINT64_MAX);
    CHECK_IMAGE(ST_INPUT, s.h.e_shnum = UINT16_MAX);
    CHECK_IMAGE(ST_INPUT, s.h.e_shentsize = 40);
    CHECK_IMAGE(ST_INPUT, s.h.e_shstrndx = 3);
    CHECK_IMAGE(ST_INPUT, s.sections[1].sh_size++);
    CHECK_IMAGE(ST_INPUT, s.sections[1].sh_offset = UINT64_MAX - 8);
    CHECK_IMAGE(ST_OK, s.sections[1].sh_type = SHT_LOPROC; s.sections[1].sh_size = 1 << 20);
    CHECK_IMAGE(ST_INPUT, s.segment.p_filesz = sizeof s);
    CHECK_IMAGE(ST_INPUT, s.h.e_phnum = 9);
    CHECK_IMAGE(ST_INPUT, s.h.e_phentsize = 0);
#undef CHECK_IMAGE
    struct small s = make();
    assert_err(
        image_check((struct sv){(const char *)&s, 20}, "module 3", &t->e), ST_INPUT, t,
        "module 3 of the capsule is no whole module: 20 bytes\nhint: capture the region again");
    err_clear(&t->e);
    assert_int_equal(image_check(sv_of(""), "module 0", &t->e), ST_INPUT);
    err_clear(&t->e);
    assert_ok(image_check(sv_of(".version 8.0\n"), "module 0", &t->e), t);
}

static void fat_binaries_say_how_long_they_are(void **state)
{
    struct test *t = *state;
    unsigned char fat[32] = {0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 16};
    const struct sv image = {(const char *)fat, sizeof fat};
    assert_ok(image_check(image, "module 0", &t->e), t);
    fat[8] = 17;
    assert_int_equal(image_check(image, "module 0", &t->e), ST_INPUT);
    err_clear(&t->e);
    fat[8] = 0;
    fat[6] = 8;
    assert_int_equal(image_check(image, "module 0", &t->e), ST_INPUT);
    err_clear(&t->e);
    assert_int_equal(image_check((struct sv){(const char *)fat, 12}, "module 0", &t->e), ST_INPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(images_are_whole_or_refused),
        TEST(fat_binaries_say_how_long_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
