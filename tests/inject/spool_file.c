#include "inject/spool_file.h"

#include "base/fs.h"

static void add_strings(struct test *t, struct spool_file *f, const struct spool_block *b)
{
    const char *p = (const char *)(b + 1);
    for (uint32_t i = 0; i < b->count; i++) {
        struct spool_string s;
        memcpy(&s, p, sizeof s);
        assert_true(p + sizeof s + s.bytes <= (const char *)(b + 1) + b->bytes);
        if (s.id >= f->n_strings) {
            const char **more = arena_array(t->a, const char *, s.id * 2 + 16);
            for (size_t k = 0; k < s.id * 2 + 16; k++)
                more[k] = k < f->n_strings ? f->strings[k] : NULL;
            f->strings = more;
            f->n_strings = s.id * 2 + 16;
        }
        assert_null(f->strings[s.id]); /* each id once */
        f->strings[s.id] = arena_strn(t->a, p + sizeof s, s.bytes);
        p += sizeof s + (s.bytes + 7) / 8 * 8;
    }
}

static void add_records(struct spool_file *f, const struct spool_block *b)
{
    size_t bytes = trace_spool_record_bytes(b->kind);
    assert_int_equal(b->record_bytes, bytes);
    assert_int_equal(b->bytes, bytes * b->count);
    memcpy(f->records[b->kind] + bytes * f->n[b->kind], b + 1, b->bytes);
    f->n[b->kind] += b->count;
}

static const struct spool_block *block(struct sv file, size_t at)
{
    const struct spool_block *b = (const void *)(file.p + at);
    if (file.n - at < sizeof *b || b->magic != SPOOL_BLOCK_MAGIC ||
        file.n - at - sizeof *b < b->bytes)
        return NULL;
    uint64_t sum = trace_spool_checksum(0, b, offsetof(struct spool_block, checksum));
    return trace_spool_checksum(sum, b + 1, b->bytes) == b->checksum ? b : NULL;
}

static bool defined(const struct spool_file *f, uint32_t string)
{
    return string == 0 || (string < f->n_strings && f->strings[string]);
}

/* Threads are defined in the order in which the writer visits their rings, not by id. */
static bool thread_defined(const struct spool_file *f, uint32_t thread)
{
    const struct spool_thread *known = spool_records(f, SPOOL_THREADS, spool_thread);
    for (size_t i = 0; i < f->n[SPOOL_THREADS]; i++)
        if (known[i].id == thread)
            return true;
    return false;
}

static void check_references(const struct spool_file *f, const struct spool_block *b)
{
    for (uint32_t i = 0; i < b->count; i++) {
        if (b->kind == SPOOL_KERNELS) {
            uint32_t shape = ((const struct spool_kernel *)(const void *)(b + 1))[i].shape;
            assert_true(shape >= 1 && shape <= f->n[SPOOL_SHAPES]);
        } else if (b->kind == SPOOL_SHAPES) {
            assert_true(defined(f, ((const struct spool_shape *)(const void *)(b + 1))[i].name));
        } else if (b->kind == SPOOL_RANGES) {
            const struct spool_range *r = (const struct spool_range *)(const void *)(b + 1) + i;
            assert_true(defined(f, r->text) && defined(f, r->domain));
        } else if (b->kind == SPOOL_LAUNCHES) {
            assert_true(
                thread_defined(f, ((const struct spool_launch *)(const void *)(b + 1))[i].thread));
        }
    }
}

static void make_room(struct test *t, struct spool_file *f, struct sv file)
{
    size_t bytes[SPOOL_KINDS] = {0};
    const struct spool_block *b;
    for (size_t at = f->header.header_bytes; (b = block(file, at)); at += sizeof *b + b->bytes) {
        assert_true(b->kind > 0 && b->kind < SPOOL_KINDS);
        bytes[b->kind] += b->bytes;
    }
    for (int kind = 0; kind < SPOOL_KINDS; kind++)
        f->records[kind] = arena_alloc(t->a, bytes[kind]);
}

struct spool_file *spool_file(struct test *t, const char *path)
{
    struct spool_file *f = arena_one(t->a, struct spool_file);
    struct sv file;
    assert_ok(fs_read(t->a, path, 256u << 20, &file, &t->e), t);
    assert_true(file.n >= sizeof f->header);
    memcpy(&f->header, file.p, sizeof f->header);
    assert_memory_equal(f->header.magic, SPOOL_MAGIC, 8);
    f->bytes = file.n;
    make_room(t, f, file);
    f->whole_bytes = f->header.header_bytes;
    const struct spool_block *b;
    for (uint32_t n = 0; (b = block(file, f->whole_bytes)); n++) {
        assert_int_equal(b->sequence, n);
        check_references(f, b);
        if (b->kind == SPOOL_STRINGS)
            add_strings(t, f, b);
        else
            add_records(f, b);
        f->whole_bytes += sizeof *b + b->bytes;
    }
    return f;
}

const char *spool_text(const struct spool_file *f, uint32_t id)
{
    return id && id < f->n_strings && f->strings[id] ? f->strings[id] : "";
}

bool spool_noted(const struct spool_file *f, const char *text)
{
    for (size_t i = 0; i < f->n[SPOOL_NOTES]; i++)
        if (strstr(spool_text(f, spool_records(f, SPOOL_NOTES, spool_note)[i].text), text))
            return true;
    return false;
}

uint64_t spool_dropped(const struct spool_file *f, enum spool_source source)
{
    uint64_t n = 0;
    for (size_t i = 0; i < f->n[SPOOL_DROPS]; i++)
        if (spool_records(f, SPOOL_DROPS, spool_drop)[i].source == source)
            n += spool_records(f, SPOOL_DROPS, spool_drop)[i].count;
    return n;
}
