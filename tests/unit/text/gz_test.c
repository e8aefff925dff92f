#include "text/gz.h"

#include <stdlib.h>
#include <zlib.h>

#include "support/support.h"

/* "x" 300,000 times, packed. */
static struct sv packed(struct test *t)
{
    enum { N = 300000 };
    static char text[N];
    memset(text, 'x', N);
    const char *path = test_path(t, "x.gz");
    gzFile f = gzopen(test_write(t, "x.gz", ""), "wb");
    assert_int_equal(gzwrite(f, text, N), N);
    assert_int_equal(gzclose(f), Z_OK);
    FILE *in = fopen(path, "rb");
    char *bytes = arena_alloc(t->a, 10000);
    size_t n = fread(bytes, 1, 10000, in);
    fclose(in);
    return (struct sv){bytes, n};
}

static void packed_and_plain(void **state)
{
    struct test *t = *state;
    struct sv out;
    packed(t);
    assert_ok(gz_read(t->a, test_path(t, "x.gz"), 1 << 20, &out, &t->e), t);
    assert_int_equal(out.n, 300000);
    assert_true(out.p[0] == 'x' && out.p[299999] == 'x' && out.p[300000] == 0);
    assert_ok(gz_read(t->a, test_write(t, "plain", "a,b\n"), 4, &out, &t->e), t);
    assert_sv(out, "a,b\n");
    assert_ok(gz_read(t->a, test_write(t, "empty", ""), 4, &out, &t->e), t);
    assert_int_equal(out.n, 0);
}

static void bad_files(void **state)
{
    struct test *t = *state;
    struct sv out, whole = packed(t);
    assert_err(gz_read(t->a, test_path(t, "x.gz"), 299999, &out, &t->e), ST_INPUT, t,
               "DIR/x.gz: more than 299999 bytes");
    const char *cut = test_write_bytes(t, "cut.gz", (struct sv){whole.p, whole.n - 9});
    assert_int_equal(gz_read(t->a, cut, 1 << 20, &out, &t->e), ST_INPUT);
    err_clear(&t->e);
    char *bytes = (char *)(uintptr_t)whole.p;
    bytes[whole.n - 6] ^= 1; /* of the check sum */
    const char *bad = test_write_bytes(t, "bad.gz", whole);
    assert_int_equal(gz_read(t->a, bad, 1 << 20, &out, &t->e), ST_INPUT);
    err_clear(&t->e);
    assert_err(gz_read(t->a, test_path(t, "none"), 9, &out, &t->e), ST_INPUT, t,
               "cannot open DIR/none: No such file or directory");
}

static void opens_any_size_without_its_mark(void **state)
{
    struct test *t = *state;
    struct gz_file f;
    struct sv whole = packed(t);
    assert_ok(gz_open(test_path(t, "x.gz"), &f, &t->e), t);
    assert_int_equal(f.text.n, 300000);
    gz_close(&f);
    assert_ok(gz_open(test_write(t, "plain", "\xef\xbb\xbf{}"), &f, &t->e), t);
    assert_sv(f.text, "{}");
    gz_close(&f);
    assert_ok(gz_open(test_write(t, "empty", ""), &f, &t->e), t);
    assert_int_equal(f.text.n, 0);
    gz_close(&f);
    const char *cut = test_write_bytes(t, "cut.gz", (struct sv){whole.p, whole.n - 9});
    assert_int_equal(gz_open(cut, &f, &t->e), ST_INPUT);
    assert_true(!f.unpacked.p && !f.map.p); /* nothing is left for a caller to close */
}

/* 200 MB of zeros in 200 kB. */
static void refuses_what_unpacks_to_too_much(void **state)
{
    struct test *t = *state;
    struct gz_file f;
    static char zeros[1 << 20];
    gzFile out = gzopen(test_write(t, "bomb", ""), "wb");
    for (int i = 0; i < 200; i++)
        assert_int_equal(gzwrite(out, zeros, sizeof zeros), sizeof zeros);
    assert_int_equal(gzclose(out), Z_OK);
    assert_int_equal(gz_open(test_path(t, "bomb"), &f, &t->e), ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 0), "bomb: more than "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(packed_and_plain), TEST(bad_files),
                                       TEST(opens_any_size_without_its_mark),
                                       TEST(refuses_what_unpacks_to_too_much)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
