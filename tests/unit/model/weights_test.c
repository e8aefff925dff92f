#include "model/weights.h"

#include <string.h>
#include <unistd.h>

#include "base/fs.h"
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

/* Every tensor that the model needs is there, under HF's names, in every golden folder. */
static void golden_folders(void **state)
{
    (void)state;
    static const char *const dirs[] = {
        "qwen3",   "qwen3_sharded", "llama",     "bloom",  "bloom_h6", "llama3",         "qwen2",
        "mistral", "mixtral",       "qwen3_moe", "gemma3", "gpt_oss",  "qwen3_moe_norm", "phi3"};
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) {
        const char *dir = fs_join(a, "tests/golden/models", dirs[i]);
        struct model m;
        struct weights *w;
        struct err e = {0};
        size_t n;
        assert_ok(model_load(a, dir, &m, &e), &e);
        assert_ok(weights_open(dir, &w, &e), &e);
        const struct tensor *want = model_tensors(a, &m, NULL, &n);
        assert_int_equal(weights_count(w), n);
        int64_t params = 0;
        for (size_t j = 0; j < n; j++) {
            const struct tensor *t;
            assert_ok(weights_require(w, &want[j], &t, &e), &e);
            assert_int_equal(t->dtype, DTYPE_F32);
            assert_int_equal(t->bytes, want[j].bytes);
            params += tensor_elements(t);
        }
        assert_int_equal(params, model_params(&m));
        weights_close(&w);
        assert_null(w);
    }
}

/* Every row of every operator's weight and biases is held by one tensor. */
static void places_of_tensors(void **state)
{
    (void)state;
    static const char *const dirs[] = {"qwen3", "llama", "bloom", "bloom_h6"};
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) {
        struct model m;
        struct err e = {0};
        struct weight_place *places;
        struct op_list l;
        size_t n;
        assert_ok(model_load(a, fs_join(a, "tests/golden/models", dirs[i]), &m, &e), &e);
        const struct tensor *t = model_tensors(a, &m, &places, &n);
        model_ops(&m, &l);
        for (int k = 0; k < l.n; k++)
            for (int bias = 0; bias < 2; bias++) {
                const struct op *op = &l.ops[k];
                const int64_t layer = op->where == OP_IN_LAYER ? m.layers - 1 : -1;
                int64_t rows = 0;
                bool *held = arena_array(a, bool, op->m + 1);
                for (size_t j = 0; j < n && op->m; j++) {
                    if (places[j].op != op->kind || places[j].layer != layer ||
                        places[j].bias != bias)
                        continue;
                    rows += t[j].dims[0];
                    assert_int_equal(t[j].n_dims, bias ? 1 : 2);
                    assert_true(bias || t[j].dims[1] == op->k);
                    for (int64_t r = 0; r < t[j].dims[0]; r++) {
                        const int64_t to = weight_row(&m, &places[j], r);
                        assert_true(to >= 0 && to < op->m && !held[to]);
                        held[to] = true;
                    }
                }
                const bool there =
                    !bias ? !(op->kind == OP_LM_HEAD && m.tied) : op->weight_params > op->m * op->k;
                assert_int_equal(rows, there ? op->m : 0);
            }
    }
}

static void shards_hold_the_same(void **state)
{
    (void)state;
    struct weights *one, *many;
    struct err e = {0};
    assert_ok(weights_open("tests/golden/models/qwen3", &one, &e), &e);
    assert_ok(
        weights_open("tests/golden/models/qwen3_sharded/model.safetensors.index.json", &many, &e),
        &e);
    for (size_t i = 0; i < weights_count(one); i++) {
        const struct tensor *x = weights_at(one, i), *y = weights_find(many, x->name);
        assert_non_null(y);
        assert_int_equal(x->bytes, y->bytes);
        assert_memory_equal(x->data, y->data, x->bytes);
    }
    weights_close(&one);
    weights_close(&many);
}

static void what_the_model_needs(void **state)
{
    (void)state;
    struct weights *w;
    struct err e = {0};
    assert_ok(weights_open("tests/golden/models/qwen3", &w, &e), &e);
    const struct tensor *t;
    const struct tensor absent = {.name = "model.norm.bias", .n_dims = 1, .dims = {48}};
    assert_int_equal(weights_require(w, &absent, &t, &e), ST_INPUT);
    assert_cause(&e, "tests/golden/models/qwen3: tensor 'model.norm.bias' is missing");
    assert_null(err_hint_text(&e));
    const struct tensor head = {.name = "lm_head.weight", .n_dims = 2, .dims = {256, 48}};
    assert_int_equal(weights_require(w, &head, &t, &e), ST_INPUT);
    assert_string_equal(err_hint_text(&e), "a model whose head is the embedding has "
                                           "tie_word_embeddings true in config.json");
    const struct tensor wide = {.name = "model.norm.weight", .n_dims = 2, .dims = {48, 2}};
    assert_int_equal(weights_require(w, &wide, &t, &e), ST_INPUT);
    assert_cause(&e,
                 "tests/golden/models/qwen3: tensor 'model.norm.weight' has the shape [48], the "
                 "model needs [48, 2]");
    weights_close(&w);
    assert_ok(weights_open("tests/golden/models/dtypes.safetensors", &w, &e), &e);
    const struct tensor ints = {.name = "small.i64", .n_dims = 2, .dims = {3, 5}};
    assert_int_equal(weights_require(w, &ints, &t, &e), ST_INPUT);
    assert_cause(&e,
                 "tests/golden/models/dtypes.safetensors: tensor 'small.i64' is I64; weights are "
                 "F64, F32, F16 or BF16");
    weights_close(&w);
}

/* Files of models that take images too have other names: Gemma 3 from 4B on. */
static void names_below_a_wrapper(void **state)
{
    (void)state;
    static const char *const below[] = {"language_model.model.", "model.language_model."};
    struct weights *w;
    struct err e = {0};
    assert_ok(weights_open("tests/golden/models/gemma3", &w, &e), &e);
    const size_t n = weights_count(w);
    for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
        struct tensor *renamed = arena_array(a, struct tensor, n);
        struct weights *other;
        struct tmp tmp = tmp_new();
        const char *path = arena_printf(a, "%s/model.safetensors", tmp.dir);
        for (size_t j = 0; j < n; j++) {
            renamed[j] = *weights_at(w, j);
            renamed[j].name = arena_printf(a, "%s%s", below[i], renamed[j].name + strlen("model."));
        }
        assert_ok(weights_write(path, renamed, n, &e), &e);
        assert_ok(weights_open(path, &other, &e), &e);
        for (size_t j = 0; j < n; j++) {
            const struct tensor *t;
            assert_ok(weights_require(other, weights_at(w, j), &t, &e), &e);
            assert_string_equal(t->name, renamed[j].name);
        }
        weights_close(&other);
        tmp_free(&tmp);
    }
    weights_close(&w);
}

static void opens_nothing(void **state)
{
    (void)state;
    struct tmp tmp = tmp_new();
    struct weights *w;
    struct err e = {0};
    assert_int_equal(weights_open(tmp.dir, &w, &e), ST_INPUT);
    assert_null(w);
    assert_cause(&e, arena_printf(a,
                                  "%s holds neither model.safetensors nor "
                                  "model.safetensors.index.json",
                                  tmp.dir));
    const char *path = tmp_file(&tmp, "model.safetensors", "", 0);
    assert_int_equal(weights_open(tmp.dir, &w, &e), ST_INPUT);
    assert_cause(&e, arena_printf(a,
                                  "%s: not a safetensors file: 0 bytes are less than the 8 of its "
                                  "length field",
                                  path));
    tmp_free(&tmp);
}

static void bad_index(void **state)
{
    (void)state;
    struct tmp tmp = tmp_new();
    const float one = 1;
    const struct tensor t = {
        .name = "a", .dtype = DTYPE_F32, .n_dims = 1, .dims = {1}, .data = &one};
    struct err e = {0};
    assert_ok(weights_write(fs_join(a, tmp.dir, "s1.safetensors"), &t, 1, &e), &e);
    assert_int_equal(symlink("/etc/passwd", fs_join(a, tmp.dir, "out.safetensors")), 0);
    const struct {
        const char *json, *cause, *innermost;
    } cases[] = {
        {"{}", NULL, "%I:1:1: weight_map: missing"},
        {"{\"weight_map\": {\"a\": 1}}", NULL,
         "%I:1:22: weight_map: expected a file name, got an integer"},
        {"{\"weight_map\": {\"a\": \"../x.safetensors\"}}", "%I:1:22: cannot use this shard",
         "file name '../x.safetensors' does not stay inside %D"},
        {"{\"weight_map\": {\"a\": \"/etc/passwd\"}}", "%I:1:22: cannot use this shard",
         "file name '/etc/passwd' does not stay inside %D"},
        {"{\"weight_map\": {\"a\": \"out.safetensors\"}}", "%I:1:22: cannot use this shard",
         "file name 'out.safetensors' is a link out of %D"},
        {"{\"weight_map\": {\"a\": \"s2.safetensors\"}}", NULL,
         "cannot open %D/s2.safetensors: No such file or directory"},
        {"{\"weight_map\": {\"a\": \"s1.safetensors\",\n\"b\": \"s1.safetensors\"}}", NULL,
         "%I:2:6: weight_map: tensor 'b' is not in s1.safetensors"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *json = cases[i].json;
        const char *index = tmp_file(&tmp, "model.safetensors.index.json", json, strlen(json));
        struct weights *w;
        assert_int_equal(weights_open(tmp.dir, &w, &e), ST_INPUT);
        const char *texts[] = {cases[i].cause, cases[i].innermost};
        for (int j = 0; j < 2; j++) {
            if (!texts[j])
                continue;
            struct buf want = {0};
            for (const char *p = texts[j]; *p; p++) {
                if (p[0] == '%' && (p[1] == 'I' || p[1] == 'D'))
                    buf_puts(&want, *++p == 'I' ? index : tmp.dir);
                else
                    buf_putc(&want, *p);
            }
            if (j == 0)
                assert_string_equal(err_cause(&e, 0), buf_str(&want));
            else
                assert_cause(&e, buf_str(&want));
            buf_free(&want);
        }
    }
    tmp_free(&tmp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_folders),
        cmocka_unit_test(places_of_tensors),
        cmocka_unit_test(shards_hold_the_same),
        cmocka_unit_test(what_the_model_needs),
        cmocka_unit_test(names_below_a_wrapper),
        cmocka_unit_test(opens_nothing),
        cmocka_unit_test(bad_index),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
