#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "model/random.h"
#include "support/support.h"
#include "text/json.h"

#define HEADER                                                               \
    "{\"__metadata__\":{\"format\":\"pt\",\"random_weights_version\":\"2\"," \
    "\"random_weights_generator\":\"philox4x32-10\",\"random_weights_seed\":\"42\"},"

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

static struct node *tiny_config(void)
{
    static const char text[] =
        "{\"model_type\": \"qwen3\", \"vocab_size\": 300, \"hidden_size\": 32, \"head_dim\": 8,"
        " \"intermediate_size\": 40, \"num_hidden_layers\": 2, \"num_attention_heads\": 4,"
        " \"num_key_value_heads\": 2, \"tie_word_embeddings\": false, \"torch_dtype\": "
        "\"bfloat16\"}";
    struct node *n = NULL;
    struct err e = {0};
    assert_ok(json_parse(a, "tiny", sv_of(text), NULL, &n, &e), &e);
    return n;
}

static enum st make(const struct model *m, const struct node *config, const char *from_dir,
                    uint64_t seed, const char *dir, struct err *e)
{
    const struct model_init_params p = {
        .model = m, .config = config, .from_dir = from_dir, .seed = seed, .dir = dir};
    return model_init(&p, e);
}

static void round_trip(void **state)
{
    (void)state;
    struct tmp tmp = tmp_new();
    const struct node *config = tiny_config();
    const char *dir = fs_join(a, tmp.dir, "deep/model/");
    struct model m, back;
    struct err e = {0};
    assert_ok(model_from_config(a, "tiny", config, &m, &e), &e);
    mode_t before = umask(027);
    assert_ok(make(&m, config, "data/models/tiny_qwen3", 42, dir, &e), &e);
    umask(before);
    assert_ok(model_load(a, dir, &back, &e), &e);
    assert_int_equal(model_params(&back), model_params(&m));
    assert_true(fs_exists(fs_join(a, dir, "tokenizer.json")));
    struct node *written;
    assert_ok(json_load(a, fs_join(a, dir, "config.json"), NULL, &written, &e), &e);
    assert_true(sv_eq(node_find(written, "torch_dtype")->s, "float32"));

    struct fs_map file; /* its metadata say which weights they are */
    assert_ok(fs_map(fs_join(a, dir, "model.safetensors"), &file, &e), &e);
    assert_memory_equal((const char *)file.p + 8, HEADER, strlen(HEADER));
    fs_unmap(&file);

    struct weights *w;
    size_t n;
    const struct tensor *want = model_tensors(a, &m, NULL, &n);
    assert_ok(weights_open(dir, &w, &e), &e);
    assert_int_equal(weights_count(w), n);
    for (size_t i = 0; i < n; i++) {
        const struct tensor *t;
        float *x = arena_alloc(a, want[i].bytes);
        assert_ok(weights_require(w, &want[i], &t, &e), &e);
        model_random_tensor(&want[i], 42, x);
        assert_memory_equal(x, t->data, t->bytes);
    }
    weights_close(&w);

    const char **names;
    assert_ok(fs_list(a, fs_join(a, tmp.dir, "deep"), &names, &n, &e), &e);
    assert_int_equal(n, 1); /* no temporary folder is left */
    struct stat s;
    assert_int_equal(stat(dir, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0750);
    assert_int_equal(stat(fs_join(a, dir, "model.safetensors"), &s), 0);
    assert_int_equal(s.st_mode & 0777, 0640);
    tmp_free(&tmp);
}

static void existing_folders(void **state)
{
    (void)state;
    struct tmp tmp = tmp_new();
    const struct node *config = tiny_config();
    struct model m;
    struct err e = {0};
    assert_ok(model_from_config(a, "tiny", config, &m, &e), &e);
    assert_ok(make(&m, config, NULL, 1, tmp.dir, &e), &e); /* empty is fine */
    assert_int_equal(make(&m, config, NULL, 1, tmp.dir, &e), ST_USAGE);
    assert_cause(&e, arena_printf(a, "%s exists and is not empty", tmp.dir));
    const char *file = fs_join(a, tmp.dir, "config.json");
    assert_int_equal(make(&m, config, NULL, 1, file, &e), ST_USAGE);
    assert_cause(&e, arena_printf(a, "%s exists and is not a folder", file));
    tmp_free(&tmp);
}

static void a_stopped_one_leaves_nothing(void **state)
{
    (void)state;
    struct tmp tmp = tmp_new();
    const struct node *config = tiny_config();
    struct model m;
    struct err e = {0};
    volatile sig_atomic_t stop = 1;
    const struct model_init_params p = {
        .model = &m, .config = config, .dir = fs_join(a, tmp.dir, "x"), .stop = &stop};
    assert_ok(model_from_config(a, "tiny", config, &m, &e), &e);
    assert_int_equal(model_init(&p, &e), ST_INTERRUPTED);
    assert_cause(&e, arena_printf(a, "interrupted; nothing is left of %s/x", tmp.dir));
    const char **names;
    size_t n;
    assert_ok(fs_list(a, tmp.dir, &names, &n, &e), &e);
    assert_int_equal(n, 0);
    tmp_free(&tmp);
}

static void every_dtype_is_written(void **state)
{
    (void)state;
    struct tmp tmp = tmp_new();
    struct weights *in, *out;
    struct err e = {0};
    assert_ok(weights_open("tests/golden/models/dtypes.safetensors", &in, &e), &e);
    const char *path = fs_join(a, tmp.dir, "copy.safetensors");
    assert_ok(weights_write(path, weights_at(in, 0), weights_count(in), &e), &e);
    assert_ok(weights_open(path, &out, &e), &e);
    assert_int_equal(weights_count(out), weights_count(in));
    for (size_t i = 0; i < weights_count(in); i++) {
        const struct tensor *x = weights_at(in, i), *y = weights_find(out, x->name);
        assert_int_equal(x->dtype, y->dtype);
        assert_int_equal(x->n_dims, y->n_dims);
        assert_int_equal(x->bytes, y->bytes);
        if (x->bytes)
            assert_memory_equal(x->data, y->data, x->bytes);
    }
    weights_close(&in);
    weights_close(&out);
    assert_int_equal(weights_write("/nonexistent/x", NULL, 0, &e), ST_IO);
    tmp_free(&tmp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(existing_folders),
        cmocka_unit_test(a_stopped_one_leaves_nothing),
        cmocka_unit_test(every_dtype_is_written),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
