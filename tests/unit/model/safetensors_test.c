#include "model/safetensors.h"

#include <string.h>

#include "support/support.h"

static struct arena *a;

static int setup(void **state)
{
    (void)state;
    a = arena_new();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_free(&a);
    return 0;
}

/* A file with that header and n bytes of data counting up from 0. */
static struct sv file_of(const char *header, size_t n)
{
    size_t h = strlen(header);
    char *p = arena_alloc(a, 8 + h + n);
    for (int i = 0; i < 8; i++)
        p[i] = (char)((uint64_t)h >> (8 * i));
    memcpy(p + 8, header, h);
    for (size_t i = 0; i < n; i++)
        p[8 + h + i] = (char)i;
    return (struct sv){p, 8 + h + n};
}

static enum st parse(struct sv file, struct tensor **t, size_t *n, struct err *e)
{
    return safetensors_parse(a, "x.safetensors", file, t, n, e);
}

static void reads(void **state)
{
    (void)state;
    struct tensor *t;
    size_t n;
    struct err e = {0};
    struct sv f = file_of("{\"b\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[6,14]},"
                          "\"__metadata__\":{\"format\":\"pt\"},"
                          "\"none\":{\"dtype\":\"F32\",\"shape\":[0,9],\"data_offsets\":[6,6]},"
                          "\"a\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[0,6]}}  ",
                          14);
    assert_ok(parse(f, &t, &n, &e), &e);
    assert_int_equal(n, 3);
    assert_string_equal(t[0].name, "a");
    assert_string_equal(t[1].name, "none");
    assert_string_equal(t[2].name, "b");
    assert_int_equal(t[2].dtype, DTYPE_F32);
    assert_int_equal(t[2].n_dims, 2);
    assert_int_equal(t[2].dims[0], 2);
    assert_int_equal(t[2].bytes, 8);
    assert_int_equal(*(const char *)t[2].data, 6);
    assert_ok(parse(file_of("{}", 0), &t, &n, &e), &e);
    assert_int_equal(n, 0);
}

#define T(dtype, shape, offsets) \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void bad_headers(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data;
        const char *error;
    } cases[] = {
        {"[]", 0, "x.safetensors:1:1: the header is a list, not a map"},
        {"{\"a\":" T("F32", "[2]", "[0,8]") "", 8,
         "x.safetensors:1:54: the text ends where ',' or '}' was expected"},
        {"{\"a\":1}", 0, "x.safetensors:1:6: tensor 'a': expected a map, got an integer"},
        {"{\"a\":{}}", 0, "x.safetensors:1:6: dtype: missing"},
        {"{\"a\":" T("Q4", "[2]", "[0,8]") "}", 8,
         "x.safetensors:1:15: tensor 'a': dtype 'Q4' is not supported"},
        {"{\"a\":" T("F32", "2", "[0,8]") "}", 8,
         "x.safetensors:1:29: shape: expected a list, got an integer"},
        {"{\"a\":" T("F32", "[-2]", "[0,8]") "}", 8,
         "x.safetensors:1:30: tensor 'a': a dimension is a non-negative integer"},
        {"{\"a\":" T("F32", "[2.0]", "[0,8]") "}", 8,
         "x.safetensors:1:30: tensor 'a': a dimension is a non-negative integer"},
        {"{\"a\":" T("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]") "}", 8,
         "x.safetensors:1:29: tensor 'a': 9 dimensions, at most 8 are supported"},
        {"{\"a\":" T("F32", "[4294967296,4294967296]", "[0,0]") "}", 0,
         "x.safetensors:1:41: tensor 'a': its size in bytes does not fit 63 bits"},
        {"{\"a\":" T("F32", "[0,9223372036854775807,9]", "[0,8]") "}", 8,
         "x.safetensors:1:32: tensor 'a': its size in bytes does not fit 63 bits"},
        {"{\"a\":" T("F32", "[2]", "[0,12]") "}", 8,
         "x.safetensors:1:48: tensor 'a': data ends at byte 12, the file holds 8 bytes of data"},
        {"{\"a\":" T("F32", "[2,3]", "[0,8]") "}", 8,
         "x.safetensors:1:50: tensor 'a': F32 [2, 3] takes 24 bytes, data_offsets give 8"},
        {"{\"a\":" T("F32", "[2]", "[8,0]") "}", 8,
         "x.safetensors:1:48: tensor 'a': data_offsets are two integers, begin <= end"},
        {"{\"a\":" T("F32", "[2]", "[0]") "}", 8,
         "x.safetensors:1:48: tensor 'a': data_offsets are two integers, begin <= end"},
        {"{\"a\":" T("F32", "[2]", "[0,8]") ",\"b\":" T("U8", "[3]", "[7,10]") "}", 10,
         "x.safetensors: the data of tensor 'b' overlaps that of 'a'"},
        {"{\"a\":" T("U8", "[2]", "[1,3]") "}", 3,
         "x.safetensors: 1 bytes before tensor 'a' belong to no tensor"},
        {"{\"a\":" T("U8", "[2]", "[0,2]") "}", 9,
         "x.safetensors: 7 bytes at the end belong to no tensor"},
        {"{\"a\":" T("U8", "[0]", "[0,0]") ",\"a\":" T("U8", "[0]", "[0,0]") "}", 0,
         "x.safetensors:1:54: the key 'a' appears twice in one map"},
        {"{\"a\\u0000b\":" T("U8", "[0]", "[0,0]") "}", 0,
         "x.safetensors:1:13: a tensor's name holds a NUL character"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err e = {0};
        struct tensor *t;
        size_t n;
        assert_int_equal(parse(file_of(cases[i].header, cases[i].data), &t, &n, &e), ST_INPUT);
        assert_cause(&e, cases[i].error);
    }
}

static void bad_lengths(void **state)
{
    (void)state;
    struct tensor *t;
    size_t n;
    struct err e = {0};
    assert_int_equal(parse(SV("1234567"), &t, &n, &e), ST_INPUT);
    assert_cause(&e, "x.safetensors: not a safetensors file: 7 bytes are less than the 8 of its "
                     "length field");
    assert_int_equal(parse((struct sv){NULL, 0}, &t, &n, &e), ST_INPUT);
    assert_int_equal(parse(SV("\x03\0\0\0\0\0\0\0{}"), &t, &n, &e), ST_INPUT);
    assert_cause(&e, "x.safetensors: truncated: the header has 3 bytes, only 2 follow the length "
                     "field");
    assert_int_equal(parse(SV("\xff\xff\xff\xff\xff\xff\xff\xff{}"), &t, &n, &e), ST_INPUT);
    assert_cause(&e,
                 "x.safetensors: not a safetensors file: a header of 18446744073709551615 bytes "
                 "is over the limit of 104857600");
}

/* Cut anywhere, a good file is refused and nothing outside the bytes is read (ASan looks). */
static void truncated_anywhere(void **state)
{
    (void)state;
    struct sv f = file_of("{\"a\":" T("F32", "[2]", "[0,8]") "}", 8);
    for (size_t n = 0; n < f.n; n++) {
        struct err e = {0};
        struct tensor *t;
        size_t count;
        char *copy = mem_alloc(n + 1);
        memcpy(copy, f.p, n);
        assert_int_equal(parse((struct sv){copy, n}, &t, &count, &e), ST_INPUT);
        mem_free(copy);
    }
}

static void writes(void **state)
{
    (void)state;
    const struct tensor in[] = {{.name = "x\"y", .dtype = DTYPE_F32, .n_dims = 2, .dims = {2, 3}},
                                {.name = "z", .dtype = DTYPE_U8}};
    struct buf b = {0};
    struct tensor *t;
    size_t n;
    struct err e = {0};
    safetensors_header(&b, NULL, in, 2);
    assert_int_equal(b.n % 8, 0);
    char data[25] = {0};
    buf_add(&b, data, sizeof data);
    assert_ok(parse((struct sv){b.p, b.n}, &t, &n, &e), &e);
    assert_int_equal(n, 2);
    assert_string_equal(t[0].name, "x\"y");
    assert_int_equal(t[0].dims[1], 3);
    assert_string_equal(t[1].name, "z");
    assert_int_equal(t[1].bytes, 1);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads),       cmocka_unit_test(bad_headers),
        cmocka_unit_test(bad_lengths), cmocka_unit_test(truncated_anywhere),
        cmocka_unit_test(writes),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
