/* Files in pieces: plain, gzip and zstd give the same bytes; cut, damaged and bloated ones are
 * refused by name. */
#include "trace/stream.h"

#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

#include "support/support.h"

enum packing { PLAIN, GZIP, ZSTD, PACKINGS };

static struct sv packed(struct test *t, struct sv plain, enum packing how)
{
    size_t cap = plain.n + (plain.n >> 3) + 4096;
    char *out = arena_alloc(t->a, cap);
    if (how == PLAIN)
        return plain;
    if (how == ZSTD) {
        size_t n = ZSTD_compress(out, cap, plain.p, plain.n, 1);
        assert_false(ZSTD_isError(n));
        return (struct sv){out, n};
    }
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)plain.p;
    z.avail_in = (uInt)plain.n;
    z.next_out = (Bytef *)out;
    z.avail_out = (uInt)cap;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t n = cap - z.avail_out;
    deflateEnd(&z);
    return (struct sv){out, n};
}

/* Bytes that do not shrink much, so that pieces are filled more than once. */
static struct sv noise(struct test *t, size_t n)
{
    char *p = arena_alloc(t->a, n);
    uint32_t x = 1;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525 + 1013904223;
        p[i] = (char)(x >> 24);
    }
    return (struct sv){p, n};
}

/* Reads all of it in pieces of `piece` bytes and compares; the status of the last call. */
static enum st read_all(struct test *t, const char *path, size_t piece, struct buf *out)
{
    struct trace_stream *s;
    enum st st = trace_stream_open(&s, path, &t->e);
    if (st != ST_OK)
        return st;
    char *p = mem_alloc(piece);
    size_t n = 1;
    while (st == ST_OK && n) {
        st = trace_stream_read(s, p, piece, &n, &t->e);
        if (st == ST_OK)
            buf_add(out, p, n);
    }
    mem_free(p);
    trace_stream_close(&s);
    assert_null(s);
    trace_stream_close(&s);
    return st;
}

static struct sv joined(struct test *t, struct sv a, struct sv b)
{
    char *p = arena_alloc(t->a, a.n + b.n);
    memcpy(p, a.p, a.n);
    memcpy(p + a.n, b.p, b.n);
    return (struct sv){p, a.n + b.n};
}

static void all_packings_give_the_same_bytes(void **state)
{
    static const size_t pieces[] = {1 << 20, 4096, 777};
    struct test *t = *state;
    struct sv plain = noise(t, 700001);
    for (int how = 0; how < PACKINGS; how++) {
        const char *path = test_write_bytes(t, "f", packed(t, plain, (enum packing)how));
        for (size_t i = 0; i < 3; i++) {
            struct buf got = {0};
            assert_ok(read_all(t, path, pieces[i], &got), t);
            assert_int_equal(got.n, plain.n);
            assert_memory_equal(got.p, plain.p, plain.n);
            buf_free(&got);
        }
    }
}

static void members_follow_one_another(void **state)
{
    struct test *t = *state;
    for (int how = GZIP; how < PACKINGS; how++) {
        struct sv one = packed(t, SV("first "), (enum packing)how);
        struct sv two = packed(t, SV("second"), (enum packing)how);
        struct buf got = {0};
        assert_ok(read_all(t, test_write_bytes(t, "f", joined(t, one, two)), 64, &got), t);
        assert_string_equal(buf_str(&got), "first second");
        buf_free(&got);
    }
}

static void small_files(void **state)
{
    struct test *t = *state;
    struct buf got = {0};
    assert_ok(read_all(t, test_write(t, "empty", ""), 64, &got), t);
    assert_int_equal(got.n, 0);
    assert_ok(read_all(t, test_write(t, "one", "x"), 64, &got), t);
    assert_string_equal(buf_str(&got), "x");
    buf_free(&got);
    assert_err(read_all(t, test_path(t, "none"), 64, &got), ST_INPUT, t,
               "cannot open DIR/none: No such file or directory");
    err_clear(&t->e);
    assert_err(read_all(t, test_dir(t), 64, &got), ST_INPUT, t, "DIR is a folder");
}

static void cut_streams_are_refused(void **state)
{
    struct test *t = *state;
    struct sv plain = noise(t, 300000);
    const char *const names[] = {NULL, "gzip", "zstd"};
    for (int how = GZIP; how < PACKINGS; how++) {
        struct sv whole = packed(t, plain, (enum packing)how);
        const size_t cuts[] = {5, 20, 4000, whole.n / 2, whole.n - 1};
        for (size_t i = 0; i < 5; i++) {
            struct buf got = {0};
            const char *path = test_write_bytes(t, "cut", (struct sv){whole.p, cuts[i]});
            err_clear(&t->e);
            assert_err(read_all(t, path, 4096, &got), ST_INPUT, t,
                       arena_printf(t->a, "DIR/cut: the %s stream is cut short", names[how]));
            assert_true(got.n <= plain.n);
            assert_int_equal(memcmp(buf_str(&got), plain.p, got.n), 0);
            buf_free(&got);
        }
    }
}

static void damaged_streams_are_refused(void **state)
{
    struct test *t = *state;
    struct sv plain = SV("aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbbbbbbbbbb");
    struct sv gzip = packed(t, plain, GZIP), zstd = packed(t, plain, ZSTD);
    struct buf got = {0};
    char *bytes = arena_copy(t->a, gzip.p, gzip.n);
    bytes[gzip.n - 6] ^= 1; /* of the checksum */
    assert_err(read_all(t, test_write_bytes(t, "g", (struct sv){bytes, gzip.n}), 4096, &got),
               ST_INPUT, t, "DIR/g: the gzip stream is damaged");
    err_clear(&t->e);
    bytes = arena_copy(t->a, zstd.p, zstd.n);
    memset(bytes + 4, 0xff, 3);
    assert_err(read_all(t, test_write_bytes(t, "z", (struct sv){bytes, zstd.n}), 4096, &got),
               ST_INPUT, t, "DIR/z: the zstd stream is damaged");
    err_clear(&t->e);
    assert_err(read_all(t, test_write_bytes(t, "j", joined(t, gzip, SV("no member"))), 4096, &got),
               ST_INPUT, t, "DIR/j: the gzip stream is damaged");
    buf_free(&got);
}

static void files_that_unpack_to_too_much_are_refused(void **state)
{
    struct test *t = *state;
    struct trace_stream *s;
    size_t plain_bytes = (size_t)80 << 20, n = 1, got = 0;
    char *zeros = mem_alloc(plain_bytes);
    struct sv bomb = packed(t, (struct sv){zeros, plain_bytes}, ZSTD);
    mem_free(zeros);
    assert_true(bomb.n * TRACE_STREAM_MAX_RATIO < plain_bytes);
    assert_ok(trace_stream_open(&s, test_write_bytes(t, "bomb", bomb), &t->e), t);
    char *p = mem_alloc(1 << 20);
    enum st st = ST_OK;
    while (st == ST_OK && n) {
        st = trace_stream_read(s, p, 1 << 20, &n, &t->e);
        got += n;
    }
    assert_err(st, ST_INPUT, t, "DIR/bomb: unpacks to more than 400 times its size");
    assert_true(got <= (size_t)66 << 20);
    mem_free(p);
    trace_stream_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_packings_give_the_same_bytes),
        TEST(members_follow_one_another),
        TEST(small_files),
        TEST(cut_streams_are_refused),
        TEST(damaged_streams_are_refused),
        TEST(files_that_unpack_to_too_much_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
