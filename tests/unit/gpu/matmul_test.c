/* Matrix products: shapes, types, the choice among algorithms and its cache, on the fake cuBLASLt.
 */
#include "gpu/matmul.h"

#include "base/fs.h"
#include "gpu/stream.h"
#include "support/fake_gpu/script.h"
#include "support/support.h"

enum { ROWS = 3, M = 5, K = 4 };

struct stage {
    struct gpu g;
    struct gpu_blas blas;
    struct gpu_matmul m;
    struct gpu_matmul_buffers at;
};

static void stage_open(struct test *t, struct stage *s, const char *cache, const char *script)
{
    *s = (struct stage){0};
    fake_gpu_play(script);
    assert_ok(gpu_open(0, &s->g, &t->e), t);
    assert_ok(gpu_blas_open(&s->g, cache, &s->blas, &t->e), t);
    assert_ok(gpu_alloc(&s->g, M * K * 4, "w", &s->at.w, &t->e), t);
    assert_ok(gpu_alloc(&s->g, ROWS * K * 4, "x", &s->at.x, &t->e), t);
    assert_ok(gpu_alloc(&s->g, ROWS * M * 4, "y", &s->at.y, &t->e), t);
    assert_ok(gpu_alloc(&s->g, M * 4, "bias", &s->at.bias, &t->e), t);
}

static void stage_close(struct stage *s)
{
    gpu_matmul_close(&s->blas, &s->m);
    gpu_free(&s->g, &s->at.w);
    gpu_free(&s->g, &s->at.x);
    gpu_free(&s->g, &s->at.y);
    gpu_free(&s->g, &s->at.bias);
    gpu_blas_close(&s->blas);
    gpu_close(&s->g);
}

/* Small whole numbers, exact in every type. */
static float w_of(int j, int i)
{
    return (float)(j + 2 * i - 3);
}
static float x_of(int r, int i)
{
    return (float)(3 * r - i);
}

static void put(void *p, int i, enum gpu_matmul_type t, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, 4);
    if (t == GPU_MATMUL_BF16) {
        ((uint16_t *)p)[i] = (uint16_t)(bits >> 16);
    } else if (t == GPU_MATMUL_F16) { /* whole numbers below 2048 */
        const uint32_t exponent = (bits >> 23 & 255) - 112;
        ((uint16_t *)p)[i] =
            (uint16_t)(v == 0 ? 0 : (bits >> 16 & 0x8000) | exponent << 10 | (bits >> 13 & 1023));
    } else {
        ((float *)p)[i] = v;
    }
}

static void upload_all(struct test *t, struct stage *s, enum gpu_matmul_type type, bool f32_bias)
{
    char w[M * K * 4], x[ROWS * K * 4], bias[M * 4];
    for (int j = 0; j < M; j++)
        for (int i = 0; i < K; i++)
            put(w, j * K + i, type, w_of(j, i));
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < K; i++)
            put(x, r * K + i, type, x_of(r, i));
    for (int j = 0; j < M; j++)
        put(bias, j, f32_bias ? GPU_MATMUL_F32 : type, (float)(100 * j));
    assert_ok(gpu_upload(&s->g, s->at.w, w, sizeof w, NULL, &t->e), t);
    assert_ok(gpu_upload(&s->g, s->at.x, x, sizeof x, NULL, &t->e), t);
    assert_ok(gpu_upload(&s->g, s->at.bias, bias, sizeof bias, NULL, &t->e), t);
}

static void assert_product(struct test *t, struct stage *s, enum gpu_matmul_type out, bool bias)
{
    char y[ROWS * M * 4], want[ROWS * M * 4];
    const size_t bytes = ROWS * M * gpu_matmul_type_bytes(out);
    assert_ok(gpu_download(&s->g, y, s->at.y, bytes, NULL, &t->e), t);
    assert_ok(gpu_wait(&s->g, &t->e), t);
    for (int r = 0; r < ROWS; r++)
        for (int j = 0; j < M; j++) {
            float sum = bias ? (float)(100 * j) : 0;
            for (int i = 0; i < K; i++)
                sum += x_of(r, i) * w_of(j, i);
            put(want, r * M + j, out, sum);
        }
    assert_memory_equal(y, want, bytes);
}

static void products_are_those_of_rows_and_weights(void **state)
{
    struct test *t = *state;
    for (int type = 0; type < GPU_MATMUL_TYPES; type++)
        for (int variant = 0; variant < 3; variant++) {
            struct stage s;
            const bool f32_out = variant == 2;
            const struct gpu_matmul_shape shape = {.rows = ROWS,
                                                   .m = M,
                                                   .k = K,
                                                   .type = (enum gpu_matmul_type)type,
                                                   .bias = variant > 0,
                                                   .f32_out = f32_out};
            stage_open(t, &s, NULL, "");
            upload_all(t, &s, shape.type, f32_out);
            assert_ok(gpu_matmul_open(&s.blas, &shape, &s.m, &t->e), t);
            assert_int_equal(s.m.n, 3);
            assert_false(s.m.chosen);
            assert_ok(gpu_matmul_run(&s.blas, &s.m, &s.at, NULL, &t->e), t);
            assert_product(t, &s, f32_out ? GPU_MATMUL_F32 : shape.type, shape.bias);
            stage_close(&s);
        }
}

static const struct gpu_matmul_shape shape = {.rows = ROWS, .m = M, .k = K};

static void the_fastest_is_chosen_once(void **state)
{
    struct test *t = *state;
    struct stage s;
    const char *cache = test_dir(t);
    stage_open(t, &s, cache, "");
    upload_all(t, &s, GPU_MATMUL_F32, false);
    assert_ok(gpu_matmul_open(&s.blas, &shape, &s.m, &t->e), t);
    assert_ok(gpu_matmul_tune(&s.blas, &s.m, &s.at, NULL, NULL, &t->e), t);
    assert_int_equal(s.m.candidates[s.m.best].algo.data[0], 2);
    assert_int_equal(s.blas.tuned, 1);
    assert_ok(gpu_matmul_tune(&s.blas, &s.m, &s.at, NULL, NULL, &t->e), t);
    assert_int_equal(s.blas.tuned, 1);
    stage_close(&s);

    stage_open(t, &s, cache, "fail cublasLtMatmulAlgoGetHeuristic 1 15"); /* another start */
    upload_all(t, &s, GPU_MATMUL_F32, false);
    assert_ok(gpu_matmul_open(&s.blas, &shape, &s.m, &t->e), t);
    assert_int_equal(s.blas.from_cache, 1);
    assert_ok(gpu_matmul_tune(&s.blas, &s.m, &s.at, NULL, NULL, &t->e), t);
    assert_int_equal(s.blas.tuned, 0);
    assert_int_equal(s.m.candidates[s.m.best].algo.data[0], 2);
    assert_ok(gpu_matmul_run(&s.blas, &s.m, &s.at, NULL, &t->e), t);
    assert_product(t, &s, GPU_MATMUL_F32, false);
    stage_close(&s);
}

/* y += product, with fewer and with more rows than the plan is made for; an algorithm that does not
 * take them gives way to a proposal for them. */
static void a_plan_serves_other_numbers_of_rows(void **state)
{
    struct test *t = *state;
    const struct gpu_matmul_shape of_one = {.rows = 1, .m = M, .k = K, .add = true};
    static const char *const scripts[] = {"", "fail cublasLtMatmulAlgoCheck 1+ 15"};
    for (int i = 0; i < 2; i++) {
        struct stage s;
        float y[ROWS * M];
        stage_open(t, &s, NULL, scripts[i]);
        upload_all(t, &s, GPU_MATMUL_F32, false);
        assert_ok(gpu_fill(&s.g, s.at.y, 0, sizeof y, NULL, &t->e), t);
        assert_ok(gpu_matmul_open(&s.blas, &of_one, &s.m, &t->e), t);
        for (int rows = 1; rows <= ROWS; rows += ROWS - 1)
            assert_ok(gpu_matmul_run_rows(&s.blas, &s.m, rows, &s.at, NULL, &t->e), t);
        assert_ok(gpu_download(&s.g, y, s.at.y, sizeof y, NULL, &t->e), t);
        assert_ok(gpu_wait(&s.g, &t->e), t);
        for (int r = 0; r < ROWS; r++)
            for (int j = 0; j < M; j++) {
                float sum = 0;
                for (int k = 0; k < K; k++)
                    sum += x_of(r, k) * w_of(j, k);
                assert_true(y[r * M + j] == (r ? 1 : 2) * sum);
            }
        stage_close(&s);
    }
}

/* The second candidate is the fastest, and a search of one takes the first. */
static void a_search_may_be_short(void **state)
{
    struct test *t = *state;
    struct stage s;
    const struct gpu_matmul_search quick = {.candidates = 1, .rounds = 1, .repeats = 1};
    stage_open(t, &s, NULL, "");
    assert_ok(gpu_matmul_open(&s.blas, &shape, &s.m, &t->e), t);
    assert_ok(gpu_matmul_tune(&s.blas, &s.m, &s.at, &quick, NULL, &t->e), t);
    assert_int_equal(s.m.best, 0);
    stage_close(&s);
}

static void choices_of_another_machine_do_not_count(void **state)
{
    static const char *const others[] = {"sm=80", "driver=13010", "cublaslt=130100",
                                         "memory=64" /* a smaller workspace */};
    struct test *t = *state;
    struct stage s;
    const char *cache = test_dir(t);
    for (int i = -1; i < 4; i++) {
        stage_open(t, &s, cache, i < 0 ? "" : others[i]);
        assert_ok(gpu_matmul_open(&s.blas, &shape, &s.m, &t->e), t);
        assert_int_equal(s.blas.from_cache, 0);
        assert_ok(gpu_matmul_tune(&s.blas, &s.m, &s.at, NULL, NULL, &t->e), t);
        stage_close(&s);
    }
    const char **names;
    size_t n;
    assert_ok(fs_list(t->a, cache, &names, &n, &t->e), t);
    assert_int_equal(n, 5);
}

static void algorithms_that_refuse_are_passed_over(void **state)
{
    struct test *t = *state;
    struct stage s;
    stage_open(t, &s, NULL, "fail cublasLtMatmul 22 15"); /* the second of three */
    assert_ok(gpu_matmul_open(&s.blas, &shape, &s.m, &t->e), t);
    assert_ok(gpu_matmul_tune(&s.blas, &s.m, &s.at, NULL, NULL, &t->e), t);
    assert_int_equal(s.m.candidates[s.m.best].algo.data[0], 1);
    stage_close(&s);
    stage_open(t, &s, NULL, "fail cublasLtMatmul 1+ 15");
    assert_ok(gpu_matmul_open(&s.blas, &shape, &s.m, &t->e), t);
    assert_err(gpu_matmul_tune(&s.blas, &s.m, &s.at, NULL, NULL, &t->e), ST_DEVICE, t,
               "cublasLtMatmul: CUBLAS_STATUS_INVALID_VALUE (15)");
    stage_close(&s);
}

static void refusals_name_the_product(void **state)
{
    struct test *t = *state;
    struct stage s;
    stage_open(t, &s, NULL, "fail cublasLtMatmulAlgoGetHeuristic 1 15");
    assert_err(gpu_matmul_open(&s.blas, &shape, &s.m, &t->e), ST_DEVICE, t,
               "cannot plan the f32 product [3, 4] x [4, 5]\n"
               "cublasLtMatmulAlgoGetHeuristic: CUBLAS_STATUS_INVALID_VALUE (15)");
    stage_close(&s);
    struct gpu g;
    struct gpu_blas blas;
    fake_gpu_play("fail cublasLtCreate 1 1");
    assert_ok(gpu_open(0, &g, &t->e), t);
    assert_int_equal(gpu_blas_open(&g, NULL, &blas, &t->e), ST_DEVICE);
    assert_string_equal(err_cause(&t->e, 0), "cublasLtCreate: CUBLAS_STATUS_INVALID_VALUE (1)");
    assert_non_null(strstr(err_hint_text(&t->e), "may not fit together"));
    gpu_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(products_are_those_of_rows_and_weights),
        TEST(the_fastest_is_chosen_once),
        TEST(a_plan_serves_other_numbers_of_rows),
        TEST(a_search_may_be_short),
        TEST(choices_of_another_machine_do_not_count),
        TEST(algorithms_that_refuse_are_passed_over),
        TEST(refusals_name_the_product),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
