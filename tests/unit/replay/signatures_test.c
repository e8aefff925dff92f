/* Times by signatures on the fake device, whose times are known (tests/support/fake_gpu). */
#include "replay/replay.h"

#include "base/fs.h"
#include "support/fake_gpu/device.h"
#include "support/fake_gpu/script.h"
#include "support/support.h"

static const char *const memory = "memory=8;";

static enum st replay(struct test *t, const char *script, const char *kernels, bool cold,
                      struct replay_outcome *out)
{
    const struct replay_params p = {.timer = {.samples = 5, .sample_s = 1e-6, .warm_up_s = 1e-6},
                                    .cold = cold};
    const char *path = test_path(t, "signatures.json");
    const char *text = arena_printf(t->a, "{\"summary\": {}, \"kernels\": [%s]}", kernels);
    struct replay_signatures s;
    *out = (struct replay_outcome){0};
    fake_gpu_play(arena_printf(t->a, "%s%s", memory, script));
    TRY(fs_write_atomic(path, text, strlen(text), &t->e));
    TRY(replay_signatures_read(t->a, path, &s, &t->e));
    return replay_signatures(t->a, &s, &p, out, &t->e);
}

#define COPY(name, bytes)                                                           \
    "{\"name\":\"" name "\",\"tier\":1,\"count\":3,\"signature\":{\"bytes\":" bytes \
    "},\"params\":{}}"
#define PRODUCT(params) \
    "{\"name\":\"nvjet\",\"tier\":2,\"count\":2,\"signature\":{},\"params\":{" params "}}"

static void copies_and_sets_take_their_time(void **state)
{
    static const struct {
        const char *kernel;
        double s;
    } rows[] = {
        {COPY("Memcpy HtoD (Pageable -> Device)", "12500"), 1e-6},
        {COPY("[CUDA memcpy Device-to-Host]", "125000"), 1e-5},
        {COPY("Memcpy DtoD (Device -> Device)", "100000"), 1e-6},
        {COPY("Memset (Device)", "200000"), 2e-6},
    };
    struct test *t = *state;
    const int64_t before = fake_gpu_allocations();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct replay_outcome r;
        assert_ok(replay(t, "", rows[i].kernel, true, &r), t);
        const struct replay_kernel *k = &r.kernels.p[0];
        assert_null(k->why);
        assert_int_equal(k->warm.n, 5);
        assert_true(k->warm.runs >= 5);
        assert_near_rel(k->warm.median_s, rows[i].s, 1e-3);
        /* what overwrites the cache takes 21 us, and is taken off */
        assert_near_rel(k->cold.median_s, rows[i].s, 1e-2);
        assert_true(k->warm.start_wall_ns > 0 && k->warm.end_wall_ns >= k->warm.start_wall_ns);
        assert_int_equal(k->count, 3);
        assert_near_rel(replay_sum_s(&r.kernels), 3 * rows[i].s, 1e-3);
    }
    assert_int_equal(fake_gpu_allocations(), before);
}

static void products_take_their_time(void **state)
{
    struct test *t = *state;
    struct replay_outcome r;
    assert_ok(
        replay(t, "",
               PRODUCT("\"M\":16,\"N\":8,\"K\":16,\"dtype\":\"c10::BFloat16\"") "," PRODUCT(
                   "\"products\":[{\"M\":16,\"N\":8,\"K\":16,\"dtype\":\"float\",\"count\":3},"
                   "{\"M\":16,\"N\":8,\"K\":32,\"dtype\":\"c10::Half\",\"count\":1}]"),
               false, &r),
        t);
    const double one_s = 2.0 * 16 * 8 * 16 / 3e12;
    assert_null(r.kernels.p[0].why);
    assert_near_rel(r.kernels.p[0].warm.median_s, one_s, 0.01);
    assert_int_equal(r.kernels.p[0].cold.n, 0);
    assert_near_rel(r.kernels.p[1].warm.median_s, (3 * one_s + 2 * one_s) / 4, 0.01);
    assert_int_equal(replay_measured(&r.kernels, 2), 2);
}

static void what_is_not_known_is_not_measured(void **state)
{
    static const struct {
        const char *kernel, *why;
    } rows[] = {
        {COPY("Memcpy PtoP", "64"), "the direction of the copy is not known from its name"},
        {COPY("Memset (Device)", "null"), "its size is not known"},
        {COPY("Memset (Device)", "4194304"),
         "it needs 8.0 MiB of device memory, and 8.0 MiB are free"},
        {PRODUCT(""), "the shape of its product is not known"},
        {PRODUCT("\"M\":4,\"N\":4,\"K\":4"), "its type is not known"},
        {PRODUCT("\"M\":4,\"N\":4,\"K\":4,\"dtype\":\"double\""),
         "products of type double are not measured"},
        {PRODUCT("\"M\":4,\"N\":4,\"K\":4,\"batch\":12,\"dtype\":\"float\""),
         "products in batches are not measured"},
        {PRODUCT("\"M\":9000000,\"N\":9000000,\"K\":9000000,\"dtype\":\"float\""),
         "it needs 884 TiB of device memory, and 8.0 MiB are free"},
        {"{\"name\":\"mine\",\"tier\":3,\"count\":7}",
         "what a kernel of tier 3 computes is not in its signature"},
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct replay_outcome r;
        assert_ok(replay(t, "", rows[i].kernel, true, &r), t);
        assert_string_equal(r.kernels.p[0].why, rows[i].why);
        assert_int_equal(r.kernels.p[0].warm.n, 0);
        assert_int_equal(replay_measured(&r.kernels, 0), 0);
    }
}

static void a_wrong_file_is_refused(void **state)
{
    static const struct {
        const char *kernel, *why;
    } rows[] = {
        {"3", "signatures.json:1:29: expected a map, got an integer"},
        {"{\"tier\":1}", "signatures.json:1:29: name: missing"},
        {"{\"name\":\"x\",\"tier\":4,\"count\":1}", "tier: 4 is above the maximum 3"},
        {"{\"name\":\"x\",\"tier\":1,\"count\":1,\"params\":{\"bytes\":-1}}",
         "bytes: -1 is below the minimum 0"},
        {PRODUCT("\"products\":{}"), "products: expected a list, got a map"},
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct replay_outcome r;
        assert_int_equal(replay(t, "", rows[i].kernel, true, &r), ST_INPUT);
        if (!strstr(err_cause(&t->e, 1), rows[i].why))
            fail_msg("%s", err_cause(&t->e, 1));
        err_clear(&t->e);
    }
}

static void no_gpu_is_an_error(void **state)
{
    struct test *t = *state;
    struct replay_outcome r;
    assert_int_equal(replay(t, "devices=0", COPY("Memset", "64"), true, &r), ST_DEVICE);
}

static void failures_are_errors(void **state)
{
    struct test *t = *state;
    struct replay_outcome r;
    const int64_t before = fake_gpu_allocations();
    assert_int_equal(replay(t, "fail cuMemsetD8Async 1+ 719", COPY("Memset", "64"), true, &r),
                     ST_DEVICE);
    assert_string_equal(r.kernels.p[0].why, "the GPU failed");
    assert_int_equal(r.kernels.p[0].warm.n, 0);
    assert_int_equal(fake_gpu_allocations(), before);
    err_clear(&t->e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_gpu_is_an_error), /* first: cuInit succeeds once and for all */
        TEST(copies_and_sets_take_their_time),
        TEST(products_take_their_time),
        TEST(what_is_not_known_is_not_measured),
        TEST(a_wrong_file_is_refused),
        TEST(failures_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
