#include "capsule/capsule.h"

#include <sys/stat.h>
#include <unistd.h>

#include <stdio.h>
#include <unistd.h>

#include "capsule/file.h"
#include "support/fake_capsule.h"
#include "support/support.h"

static const char *write_it(struct test *t, struct fake_capsule *f, const char *name)
{
    const char *dir = test_path(t, name);
    struct artifact art;
    struct capsule_source from = fake_capsule_source(f);
    assert_ok(artifact_begin(t->a, dir, CAPSULE_MANIFEST, &art, &t->e), t);
    struct node *extra = node_new(t->a, NODE_MAP);
    node_put(t->a, extra, "why", node_str(t->a, "a test"));
    assert_ok(capsule_write(t->a, &f->c, &from, &art, extra, &t->e), t);
    return dir;
}

static void check_memory(struct test *t, const struct capsule *c, bool after)
{
    const struct capsule_page *pages = after ? c->after : c->pages;
    const size_t n = after ? c->n_after : c->n_pages;
    unsigned char *bytes = mem_alloc(CAPSULE_PAGE_BYTES);
    struct capsule_memory_reader *r;
    assert_ok(capsule_memory_open(c, after, &r, &t->e), t);
    for (size_t i = n; i-- > 0;) { /* in any order */
        assert_ok(capsule_memory_read(r, &pages[i], bytes, &t->e), t);
        for (uint32_t b = 0; b < pages[i].bytes; b += 61)
            assert_int_equal(bytes[b], fake_capsule_byte(pages[i].address + b, after));
    }
    capsule_memory_close(&r);
    capsule_memory_close(&r);
    mem_free(bytes);
}

static void check_equal(const struct capsule *c, const struct capsule *want)
{
#define SAME(name)                                 \
    assert_int_equal(c->n_##name, want->n_##name); \
    assert_memory_equal(c->name, want->name, want->n_##name * sizeof *want->name);
    SAME(functions)
    SAME(params)
    SAME(globals)
    SAME(allocations)
    SAME(streams)
    SAME(ops)
    SAME(edges)
    SAME(launches)
    SAME(attributes)
    SAME(copies)
    SAME(sets)
    SAME(ranges)
    SAME(walls)
    SAME(modules)
    SAME(bytes)
#undef SAME
}

static void what_is_written_is_read(void **state)
{
    struct test *t = *state;
    struct fake_capsule f;
    struct capsule c;
    struct sv image;
    fake_capsule_make(&f);
    assert_ok(capsule_open(t->a, write_it(t, &f, "c"), &c, &t->e), t);
    check_equal(&c, &f.c);
    assert_int_equal(c.facts->packed, 1);
    assert_sv(capsule_text(&c, c.functions[1].name), "scale");
    check_memory(t, &c, false);
    check_memory(t, &c, true);
    assert_true(c.pages[1].flags & CAPSULE_ZERO);
    assert_int_equal(c.pages[1].file_bytes, 0);
    assert_ok(capsule_image(t->a, &c, 0, &image, &t->e), t);
    assert_sv(image, "fake image\nadd_one\nscale\n");
    assert_string_equal(node_find(c.manifest, "command")->s.p, "python3 generate.py");
    assert_string_equal(node_find(c.manifest, "why")->s.p, "a test");
    assert_int_equal(node_path(c.manifest, "counts.launches")->i, 3);
    assert_int_equal(node_path(c.manifest, "bytes.not_zero")->i, (3 << 20) + 100 + 4096);
    assert_string_equal(node_path(c.manifest, "gpu.uuid")->s.p,
                        "GPU-00000000-0000-0000-0000-000000000000");
    capsule_close(&c);
    capsule_close(&c);
}

static void a_recording_is_packed(void **state)
{
    struct test *t = *state;
    struct fake_capsule f;
    struct capsule raw, c;
    struct capsule_contents contents;
    struct artifact art;
    fake_capsule_make(&f);
    fake_capsule_record(&f, test_dir(t));
    assert_ok(capsule_open_recorded(t->a, test_dir(t), &raw, &t->e), t);
    check_memory(t, &raw, false);
    check_memory(t, &raw, true);
    assert_ok(capsule_contents_open(t->a, &raw, &contents, &t->e), t);
    struct capsule_source from = {capsule_contents_page, capsule_contents_image, &contents};
    assert_ok(artifact_begin(t->a, test_path(t, "packed"), CAPSULE_MANIFEST, &art, &t->e), t);
    assert_ok(capsule_write(t->a, &raw, &from, &art, NULL, &t->e), t);
    capsule_contents_close(&contents);
    assert_ok(capsule_open(t->a, test_path(t, "packed"), &c, &t->e), t);
    check_equal(&c, &raw);
    check_memory(t, &c, false);
    check_memory(t, &c, true);
    capsule_close(&c);
    capsule_close(&raw);
}

static void the_same_capsule_has_the_same_bytes(void **state)
{
    struct test *t = *state;
    struct fake_capsule f;
    fake_capsule_make(&f);
    write_it(t, &f, "a");
    write_it(t, &f, "b");
    static const char *const files[] = {CAPSULE_FILE, CAPSULE_MEMORY, CAPSULE_CHANGED,
                                        CAPSULE_MANIFEST};
    for (size_t i = 0; i < 4; i++) {
        struct sv a, b;
        assert_ok(
            fs_read(t->a, test_path(t, arena_printf(t->a, "a/%s", files[i])), 64u << 20, &a, &t->e),
            t);
        assert_ok(
            fs_read(t->a, test_path(t, arena_printf(t->a, "b/%s", files[i])), 64u << 20, &b, &t->e),
            t);
        assert_int_equal(a.n, b.n);
        assert_memory_equal(a.p, b.p, a.n);
    }
}

static enum st open_with(struct test *t, const char *launches, size_t n, struct capsule *c)
{
    err_clear(&t->e);
    test_write_bytes(t, "x/" CAPSULE_FILE, (struct sv){launches, n});
    return capsule_open_recorded(t->a, test_path(t, "x"), c, &t->e);
}

/* Byte by byte: cut anywhere, or changed anywhere but where nothing is, it is refused. */
static void damage_is_found(void **state)
{
    struct test *t = *state;
    struct fake_capsule f;
    struct capsule c;
    struct sv whole;
    fake_capsule_make(&f);
    const char *path = test_path(t, "good.bin");
    fake_capsule_put_launches(&f, path);
    assert_ok(fs_read(t->a, path, 1u << 20, &whole, &t->e), t);
    char *bytes = arena_copy(t->a, whole.p, whole.n);
    for (size_t n = 0; n < whole.n; n += n < 1000 ? 13 : 97)
        assert_int_equal(open_with(t, bytes, n, &c), ST_INPUT);
    size_t taken = 0;
    /* All of the header and the table of sections, and every third byte behind them. */
    for (size_t i = 0; i < whole.n; i += i < 1000 ? 1 : 3) {
        bytes[i] ^= 0x10;
        if (open_with(t, bytes, whole.n, &c) == ST_OK) {
            check_equal(&c, &f.c);
            capsule_close(&c);
            taken++;
        }
        bytes[i] ^= 0x10;
    }
    assert_true(taken < 24 + 7 * CAPSULE_KINDS); /* the header's reserve, padding */
}

static void truncation_and_version_are_named(void **state)
{
    struct test *t = *state;
    struct fake_capsule f;
    struct capsule c;
    struct sv whole;
    fake_capsule_make(&f);
    fake_capsule_put_launches(&f, test_path(t, "good.bin"));
    assert_ok(fs_read(t->a, test_path(t, "good.bin"), 1u << 20, &whole, &t->e), t);
    char *bytes = arena_copy(t->a, whole.p, whole.n);
    assert_int_equal(open_with(t, bytes, 1000, &c), ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 0), "is truncated: 1000 bytes of"));
    ((struct capsule_header *)(void *)bytes)->version = 9;
    assert_int_equal(open_with(t, bytes, whole.n, &c), ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 0), "has version 9; this twinfer reads version 1"));
    assert_int_equal(open_with(t, "PK", 2, &c), ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 0), "is not a capsule's launches.bin"));
}

static void an_incomplete_capsule_is_refused(void **state)
{
    struct test *t = *state;
    struct fake_capsule f;
    struct capsule c;
    fake_capsule_make(&f);
    const char *dir = write_it(t, &f, "c");
    unlink(fs_join(t->a, dir, CAPSULE_MANIFEST));
    assert_int_equal(capsule_open(t->a, dir, &c, &t->e), ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 0), "is incomplete"));
}

/* Of a later version: records with more fields, a kind that is not known. */
static void later_records_are_cut_and_later_kinds_skipped(void **state)
{
    struct test *t = *state;
    struct fake_capsule f;
    struct capsule c;
    struct sv whole;
    fake_capsule_make(&f);
    fake_capsule_put_launches(&f, test_path(t, "good.bin"));
    assert_ok(fs_read(t->a, test_path(t, "good.bin"), 1u << 20, &whole, &t->e), t);
    const struct capsule_header *h = (const void *)whole.p;
    const struct capsule_section *old = (const void *)(h + 1);
    enum { MORE = 16 };
    struct buf out = {0};
    struct capsule_header head = *h;
    struct capsule_section table[CAPSULE_KINDS + 1];
    size_t n = 0, at = sizeof *h + (h->n_sections + 1) * sizeof *table;
    struct buf body = {0};
    for (uint32_t i = 0; i < h->n_sections; i++) {
        const char *from = whole.p + old[i].at;
        bool longer = old[i].kind == CAPSULE_OPS || old[i].kind == CAPSULE_FACTS;
        size_t start = body.n;
        for (uint64_t r = 0; r < old[i].count; r++) {
            buf_add(&body, from + r * old[i].record_bytes, old[i].record_bytes);
            if (longer)
                buf_add(&body, "new field, new f", MORE);
        }
        table[n] = old[i];
        table[n].record_bytes += longer ? MORE : 0;
        table[n].at = at + start;
        table[n].bytes = body.n - start;
        table[n].checksum = capsule_hash(body.p + start, body.n - start);
        n++;
        while (body.n % 8)
            buf_putc(&body, 0);
    }
    table[n++] = (struct capsule_section){
        .kind = 99, .record_bytes = 8, .at = 1 << 30, .count = 5, .bytes = 40};
    head.n_sections = (uint32_t)n;
    head.checksum = capsule_hash(table, n * sizeof *table);
    head.file_bytes = at + body.n;
    buf_add(&out, &head, sizeof head);
    buf_add(&out, table, n * sizeof *table);
    buf_add(&out, body.p, body.n);
    assert_ok(open_with(t, out.p, out.n, &c), t);
    check_equal(&c, &f.c);
    assert_int_equal(c.facts->pid, 123);
    capsule_close(&c);
    buf_free(&out);
    buf_free(&body);
}

static void damaged_memory_is_named(void **state)
{
    struct test *t = *state;
    struct fake_capsule f;
    struct capsule c;
    struct capsule_memory_reader *r;
    struct sv packed;
    fake_capsule_make(&f);
    const char *dir = write_it(t, &f, "c"), *path = fs_join(t->a, dir, CAPSULE_MEMORY);
    assert_ok(capsule_open(t->a, dir, &c, &t->e), t);
    assert_ok(fs_read(t->a, path, 64u << 20, &packed, &t->e), t);
    char *bytes = arena_copy(t->a, packed.p, packed.n);
    unsigned char *to = mem_alloc(CAPSULE_PAGE_BYTES);
    for (size_t i = 0; i < c.pages[3].file_bytes; i++) {
        bytes[c.pages[3].at + i] ^= 4;
        test_write_bytes(t, "c/" CAPSULE_MEMORY, (struct sv){bytes, packed.n});
        assert_ok(capsule_memory_open(&c, false, &r, &t->e), t);
        assert_int_equal(capsule_memory_read(r, &c.pages[3], to, &t->e), ST_INPUT);
        assert_non_null(
            strstr(err_cause(&t->e, 0), "memory.zst is damaged: the memory at 0x30000600000"));
        capsule_memory_close(&r);
        err_clear(&t->e);
        bytes[c.pages[3].at + i] ^= 4;
    }
    test_write_bytes(t, "c/" CAPSULE_MEMORY, (struct sv){bytes, packed.n - 1});
    assert_int_equal(capsule_memory_open(&c, false, &r, &t->e), ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 0), "memory.zst is truncated: it ends before byte "));
    assert_null(r);
    err_clear(&t->e);
    assert_int_equal(truncate(fs_join(t->a, dir, CAPSULE_CHANGED), 10), 0);
    assert_int_equal(capsule_memory_open(&c, true, &r, &t->e), ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 0), "after.zst is truncated: it ends before byte "));
    err_clear(&t->e);
    test_write_bytes(t, "c/" CAPSULE_MEMORY, (struct sv){bytes, packed.n});
    assert_ok(capsule_memory_open(&c, false, &r, &t->e), t); /* and while it is read */
    assert_int_equal(truncate(path, 10), 0);
    assert_int_equal(capsule_memory_read(r, &c.pages[0], to, &t->e), ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 0), "memory.zst is truncated"));
    capsule_memory_close(&r);
    err_clear(&t->e);
    test_write(t, "c/modules/0000.cubin", "another image");
    struct sv image;
    assert_int_equal(capsule_image(t->a, &c, 0, &image, &t->e), ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 0), "not the image that was captured"));
    mem_free(to);
    capsule_close(&c);
}

/* ---- records that do not fit each other ---- */

#define MIB  (UINT64_C(1) << 20)
#define BASE (FAKE_CAPSULE_BASE_MIB * MIB)

static void inconsistent_records_are_named(void **state)
{
    struct test *t = *state;
    struct fake_capsule f;
    struct capsule c;
    const struct capsule_stream *many = arena_array(t->a, struct capsule_stream, 4097);
#define WRONG(text, ...)                                                                 \
    do {                                                                                 \
        fake_capsule_make(&f);                                                           \
        __VA_ARGS__;                                                                     \
        fake_capsule_put_launches(&f, test_path(t, CAPSULE_FILE));                       \
        assert_int_equal(capsule_open_recorded(t->a, test_dir(t), &c, &t->e), ST_INPUT); \
        assert_cause(&t->e, text);                                                       \
        err_clear(&t->e);                                                                \
    } while (0)
    WRONG("facts: a text outside of the section bytes", f.facts.command.bytes = 1u << 20);
    WRONG("facts: a text outside of the section bytes", f.facts.gpu.at = UINT64_MAX);
    WRONG("modules[0]: an image of 0 bytes", f.modules[0].bytes = 0);
    WRONG("functions[1]: module 1 of 1", f.functions[1].module = 1);
    WRONG("functions[0]: it has no name", f.functions[0].name.bytes = 0);
    WRONG("functions[0]: it has no name", f.bytes[f.functions[0].name.at] = 0);
    WRONG("functions[0]: it has no name", f.bytes[f.functions[0].name.at + 1] = 033);
    WRONG("globals[0]: its module, name, place or value", f.bytes[f.globals[0].name.at] = '\n');
    WRONG("functions[1]: its parameters", f.functions[1].n_params = 2);
    WRONG("functions[0]: parameter 1", f.params[1].offset = 7);
    WRONG("functions[0]: 12 bytes of parameters", f.params[1].bytes = 40000);
    WRONG("globals[0]: its module, name, place or value", f.globals[0].address = UINT64_MAX);
    WRONG("allocations[1]: overlaps another", f.allocations[0].bytes = 7 * MIB);
    WRONG("allocations[1]: not sorted by address", f.allocations[1].address = BASE - 1);
    WRONG("allocations[0]: its place or kind", f.allocations[0].bytes = UINT64_MAX - BASE);
    WRONG("allocations[0]: its place or kind", f.allocations[0].memory = 9);
    WRONG("pages[0]: not sorted, or across pages", f.pages[0].bytes = 2 * MIB + 1);
    WRONG("pages[1]: not sorted, or across pages", f.pages[1].address = BASE + MIB);
    WRONG("pages[3]: outside of the allocations", f.pages[3].bytes = 101);
    WRONG("pages[2]: outside of the allocations", f.pages[2].address = BASE + 8 * MIB;
          f.c.n_pages = 3);
    WRONG("pages[0]: its place in the file", f.pages[0].file_bytes = 1u << 30);
    WRONG("pages[0]: its place in the file", f.pages[0].flags = CAPSULE_ZERO);
    WRONG("pages[0]: its place in the file", f.pages[0].at = UINT64_MAX);
    WRONG("pages: 5242980 bytes of 5247076 that were allocated", f.c.n_pages = 4);
    WRONG("after[1]: outside of the allocations", f.after[1].address = BASE + 10 * MIB);
    WRONG("4097 streams; 4096 is the most", f.c.streams = many; f.c.n_streams = 4097);
    WRONG("streams[1]: its flags", f.streams[1].flags = CAPSULE_STREAM_LEGACY);
    WRONG("launches[2]: function 2 of 2", f.launches[2].function = 2);
    WRONG("launches[2]: its grid or block", f.launches[2].block[1] = 0);
    WRONG("launches[2]: its parameters", f.launches[2].params.bytes = 8);
    WRONG("launches[0]: its attributes", f.launches[0].n_attributes = 2);
    WRONG("launches[0]: attribute 7", f.attributes[0].id = 7);
    WRONG("copies[0]: its size", f.copies[0].width = 0);
    WRONG("copies[1]: its size", f.copies[1].to_pitch = 24);
    WRONG("copies[1]: its size", f.copies[1].height = UINT64_C(1) << 60);
    WRONG("copies[0]: outside of the allocations", f.copies[0].to = BASE + 5 * MIB - 15);
    WRONG("copies[1]: outside of the allocations", f.copies[1].to = BASE + 64 * MIB + 4040);
    WRONG("copies[1]: outside of the allocations", f.copies[1].to_place = CAPSULE_ON_DEVICE);
    WRONG("copies[0]: outside of the allocations", f.copies[0].from_place = 0);
    WRONG("copies[0]: 15 bytes of its source", f.copies[0].source.bytes = 15);
    WRONG("sets[0]: outside of the allocations", f.sets[0].width = 26);
    WRONG("sets[0]: its size", f.sets[0].unit_bytes = 3);
    WRONG("ops[2]: kind 1, item 3", f.ops[2].item = 3);
    WRONG("ops[3]: kind 4, item 3", f.ops[3].item = 3);
    WRONG("ops[0]: kind 99, item 0", f.ops[0].kind = 99);
    WRONG("ops[8]: kind 5, item 2", f.ops[8].item = 2);
    WRONG("ops[2]: its stream or range", f.ops[2].stream = 2);
    WRONG("ops[7]: its stream or range", f.ops[7].range = 1);
    WRONG("ops[4]: graph launch 2 after 0", f.ops[4].graph = 2);
    WRONG("ops[5]: graph launch 1 after 1", f.ops[5].stream = 0);
    WRONG("ops[6]: waits for operation 2", f.edges[1].op = 2);
    WRONG("ops[6]: waits for operation 6", f.edges[1].op = 6);
    WRONG("ops[6]: its edges", f.ops[6].first_edge = 2);
    WRONG("ops[8]: its edges", f.ops[8].n_edges = 1);
    WRONG("ops[6]: edges that are another's", f.ops[6].first_edge = 0; f.ops[6].n_edges = 2);
    WRONG("ops: 1 graph launches of 2", f.facts.n_graphs = 2);
    WRONG("ranges[0]: its name or order", f.ranges[0].name.at = 4096);
#undef WRONG
}

/* count * record_bytes is 2^64, which is 0 in 64 bits: the records would lie far outside. */
static void a_section_that_overflows_is_refused(void **state)
{
    struct test *t = *state;
    struct capsule c;
    const uint64_t bytes = UINT64_C(1) << 33;
    const struct capsule_section s = {.kind = CAPSULE_BYTES,
                                      .record_bytes = 1u << 31,
                                      .count = bytes,
                                      .at = 104,
                                      .bytes = 0,
                                      .checksum = capsule_hash("", 0)};
    struct capsule_header h = {.version = CAPSULE_VERSION,
                               .header_bytes = sizeof h,
                               .page_bytes = CAPSULE_PAGE_BYTES,
                               .n_sections = 1,
                               .file_bytes = bytes,
                               .checksum = capsule_hash(&s, sizeof s)};
    struct buf b = {0};
    memcpy(h.magic, CAPSULE_MAGIC, sizeof h.magic);
    buf_add(&b, &h, sizeof h);
    buf_add(&b, &s, sizeof s);
    test_write_bytes(t, CAPSULE_FILE, (struct sv){b.p, b.n});
    buf_free(&b);
    if (truncate(test_path(t, CAPSULE_FILE), (off_t)bytes) != 0) {
        print_message("skipped: a disk without holes, or too small for %lld bytes\n",
                      (long long)bytes);
        skip();
    }
    assert_int_equal(capsule_open_recorded(t->a, test_dir(t), &c, &t->e), ST_INPUT);
    if (!strstr(err_cause(&t->e, 0), "the place of its section bytes"))
        fail_msg("%s", err_cause(&t->e, 0));
}

static void memory_that_is_no_file_is_refused(void **state)
{
    struct test *t = *state;
    struct fake_capsule f;
    struct capsule c;
    struct capsule_memory_reader *r;
    fake_capsule_make(&f);
    const char *dir = write_it(t, &f, "c"), *path = fs_join(t->a, dir, CAPSULE_MEMORY);
    assert_ok(capsule_open(t->a, dir, &c, &t->e), t);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0); /* nobody ever writes to it */
    assert_int_equal(capsule_memory_open(&c, false, &r, &t->e), ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 0), "memory.zst is not a regular file"));
    capsule_close(&c);
}

static void the_hash_sees_every_byte(void **state)
{
    (void)state;
    unsigned char bytes[257] = {0};
    for (size_t n = 0; n <= sizeof bytes; n++) {
        uint64_t before = capsule_hash(bytes, n);
        assert_true(n == 0 || before != capsule_hash(bytes, n - 1));
        assert_true(capsule_is_zero(bytes, n));
        for (size_t i = 0; i < n; i++) {
            bytes[i] = 0x80;
            assert_true(capsule_hash(bytes, n) != before);
            assert_false(capsule_is_zero(bytes, n));
            bytes[i] = 0;
        }
    }
    assert_true(capsule_hash("capsule", 7) ==
                UINT64_C(0xa2cf6333f29102a5)); /* the format's, for ever */
}

static void a_later_manifest_is_refused(void **state)
{
    struct test *t = *state;
    struct fake_capsule f;
    struct capsule c;
    fake_capsule_make(&f);
    const char *dir = write_it(t, &f, "c"), *path = fs_join(t->a, dir, CAPSULE_MANIFEST);
    char *text = arena_str(t->a, test_read(t, path));
    char *version = strstr(text, "\"capsule_version\": 1");
    assert_non_null(version);
    version[strlen("\"capsule_version\": ")] = '9';
    assert_ok(fs_write_atomic(path, text, strlen(text), &t->e), t);
    assert_int_equal(capsule_open(t->a, dir, &c, &t->e), ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 0), "capsule_version: 9 is newer than 1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_later_manifest_is_refused),
        TEST(what_is_written_is_read),
        TEST(a_recording_is_packed),
        TEST(the_same_capsule_has_the_same_bytes),
        TEST(damage_is_found),
        TEST(truncation_and_version_are_named),
        TEST(an_incomplete_capsule_is_refused),
        TEST(later_records_are_cut_and_later_kinds_skipped),
        TEST(damaged_memory_is_named),
        TEST(inconsistent_records_are_named),
        TEST(a_section_that_overflows_is_refused),
        TEST(memory_that_is_no_file_is_refused),
        TEST(the_hash_sees_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
