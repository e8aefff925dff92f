#include "model/weights.h"

#include <math.h>
#include <string.h>

#include "support/support.h"

static void names(void **state)
{
    (void)state;
    for (int t = 0; t < DTYPES; t++) {
        enum dtype back;
        assert_true(dtype_from_name(sv_of(dtype_name((enum dtype)t)), &back));
        assert_int_equal(back, t);
    }
    enum dtype none;
    assert_false(dtype_from_name(SV("f32"), &none));
    assert_int_equal(dtype_bytes(DTYPE_BF16), 2);
}

/* Every float16 there is, against its definition. */
static void all_f16(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        uint16_t bits = (uint16_t)h;
        const struct tensor t = {
            .dtype = DTYPE_F16, .n_dims = 1, .dims = {1}, .data = &bits, .bytes = 2};
        float got;
        tensor_to_f32(&t, 0, 1, &got);
        int exponent = (int)(h >> 10 & 31), fraction = (int)(h & 0x3ff);
        if (exponent == 31) {
            assert_true(fraction ? isnan(got) : isinf(got));
            continue;
        }
        float want = exponent ? ldexpf((float)(1024 + fraction), exponent - 25)
                              : ldexpf((float)fraction, -24);
        assert_true(got == (h & 0x8000 ? -want : want));
        assert_true(!signbit(got) == !(h & 0x8000));
    }
}

/* Written by the safetensors library: small.* hold the same values in every dtype, edge.X.expected
 * what edge.X is as float32. */
static void against_reference(void **state)
{
    (void)state;
    struct weights *w;
    struct err e = {0};
    assert_ok(weights_open("tests/golden/models/dtypes.safetensors", &w, &e), &e);
    float want[15], got[15];
    const struct tensor *f32 = weights_find(w, "small.f32");
    assert_int_equal(tensor_elements(f32), 15);
    tensor_to_f32(f32, 0, 15, want);
    assert_true(want[14] == 127);
    int compared = 0;
    for (size_t i = 0; i < weights_count(w); i++) {
        const struct tensor *t = weights_at(w, i);
        if (strncmp(t->name, "small.", 6) != 0)
            continue;
        tensor_to_f32(t, 0, 15, got);
        assert_memory_equal(got, want, sizeof want);
        tensor_to_f32(t, 5, 3, got);
        assert_memory_equal(got, want + 5, 3 * sizeof *want);
        compared++;
    }
    assert_int_equal(compared, 8);
    static const char *const edges[] = {"edge.f16", "edge.bf16"};
    for (int i = 0; i < 2; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s.expected", edges[i]);
        const struct tensor *t = weights_find(w, edges[i]), *expected = weights_find(w, name);
        tensor_to_f32(t, 0, 9, got);
        assert_memory_equal(got, expected->data, expected->bytes);
    }
    const struct tensor *empty = weights_find(w, "empty.f32"),
                        *scalar = weights_find(w, "scalar.f32");
    assert_int_equal(tensor_elements(empty), 0);
    tensor_to_f32(empty, 0, 0, got);
    assert_int_equal(scalar->n_dims, 0);
    tensor_to_f32(scalar, 0, 1, got);
    assert_true(got[0] == 0.5f);
    weights_close(&w);
}

static uint16_t converted(float f, enum dtype to)
{
    const struct tensor t = {
        .dtype = DTYPE_F32, .n_dims = 1, .dims = {1}, .data = &f, .bytes = sizeof f};
    uint16_t out;
    tensor_convert(&t, 0, 1, to, &out);
    return out;
}

static float widened(uint16_t bits, enum dtype from)
{
    const struct tensor t = {.dtype = from, .n_dims = 1, .dims = {1}, .data = &bits, .bytes = 2};
    float out;
    tensor_to_f32(&t, 0, 1, &out);
    return out;
}

/* Every half that there is gives itself; what lies between two goes to the nearer, from the middle
 * to the even one. */
static void halves_are_the_nearest(void **state)
{
    static const struct {
        enum dtype type;
        uint16_t infinity;
    } rows[] = {{DTYPE_F16, 0x7c00}, {DTYPE_BF16, 0x7f80}};
    (void)state;
    for (int i = 0; i < 2; i++)
        for (uint32_t sign = 0; sign <= 0x8000; sign += 0x8000)
            for (uint32_t h = 0; h < rows[i].infinity; h++) {
                const uint16_t below = (uint16_t)(sign | h), above = (uint16_t)(below + 1);
                const float low = widened(below, rows[i].type);
                assert_int_equal(converted(low, rows[i].type), below);
                if (h + 1u == rows[i].infinity)
                    continue;
                const float high = widened(above, rows[i].type);
                const float middle = (float)(((double)low + (double)high) / 2);
                assert_int_equal(converted(middle, rows[i].type), h % 2 ? above : below);
                assert_int_equal(converted(nextafterf(middle, low), rows[i].type), below);
                assert_int_equal(converted(nextafterf(middle, high), rows[i].type), above);
            }
    assert_int_equal(converted(65519.996f, DTYPE_F16), 0x7bff);
    assert_int_equal(converted(65520, DTYPE_F16), 0x7c00);
    assert_int_equal(converted(-1e30f, DTYPE_F16), 0xfc00);
    assert_int_equal(converted(INFINITY, DTYPE_F16), 0x7c00);
    assert_int_equal(converted(3.4028235e38f, DTYPE_BF16), 0x7f80);
    assert_int_equal(converted(-INFINITY, DTYPE_BF16), 0xff80);
    assert_true(isnan(widened(converted(NAN, DTYPE_F16), DTYPE_F16)));
    assert_true(isnan(widened(converted(-NAN, DTYPE_BF16), DTYPE_BF16)));
}

/* Any piece of any type, from an unaligned place; the same type byte for byte. */
static void pieces_are_converted(void **state)
{
    enum { N = 10000 };
    static char memory[N * 4 + 1];
    static float want[N], got[N];
    static uint16_t halves[N];
    (void)state;
    for (int i = 0; i < N; i++) {
        const float f = (float)(i - N / 2) / 8;
        memcpy(memory + 1 + i * 4, &f, 4);
        want[i] = f;
    }
    const struct tensor t = {
        .dtype = DTYPE_F32, .n_dims = 1, .dims = {N}, .data = memory + 1, .bytes = N * 4};
    tensor_convert(&t, 3, N - 5, DTYPE_F32, got);
    assert_memory_equal(got, want + 3, (N - 5) * sizeof *got);
    tensor_convert(&t, 3, N - 5, DTYPE_BF16, halves);
    for (int i = 0; i < N - 5; i++)
        assert_int_equal(halves[i], converted(want[3 + i], DTYPE_BF16));
    const struct tensor b = {
        .dtype = DTYPE_BF16, .n_dims = 1, .dims = {N}, .data = halves, .bytes = N * 2};
    static uint16_t same[N];
    tensor_convert(&b, 1, N - 1, DTYPE_BF16, same);
    assert_memory_equal(same, halves + 1, (N - 1) * sizeof *same);
    tensor_convert(&b, N, 0, DTYPE_BF16, same);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(all_f16),
        cmocka_unit_test(against_reference),
        cmocka_unit_test(halves_are_the_nearest),
        cmocka_unit_test(pieces_are_converted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
