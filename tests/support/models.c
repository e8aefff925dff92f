#include "support/models.h"

#include <string.h>

#include "base/fs.h"
#include "text/gz.h"
#include "text/json.h"

struct model model_of_json(struct test *t, const char *json)
{
    struct node *config;
    struct model m;
    assert_ok(json_parse(t->a, "config.json", sv_of(json), NULL, &config, &t->e), t);
    assert_ok(model_from_config(t->a, "test", config, &m, &t->e), t);
    return m;
}

bool golden_family_next(struct test *t, struct golden_family *f)
{
    static const char path[] = "tests/golden/families/families.jsonl";
    if (!f->begun)
        assert_ok(fs_read(t->a, path, 8 << 20, &f->left, &t->e), t);
    f->begun = true;
    if (f->left.n == 0)
        return false;
    const char *end = memchr(f->left.p, '\n', f->left.n);
    const struct sv line = {f->left.p, end ? (size_t)(end - f->left.p) : f->left.n};
    struct node *row, *config;
    assert_ok(json_parse(t->a, path, line, NULL, &row, &t->e), t);
    assert_ok(node_get_str(row, "family", &f->name, &t->e), t);
    assert_ok(node_get(row, "config", NODE_MAP, &config, &t->e), t);
    f->left = end ? (struct sv){end + 1, f->left.n - line.n - 1} : (struct sv){0};
    f->row = row;
    f->config = config;
    return true;
}

static const struct json_limits limits = {.max_bytes = 64 << 20, .python = true};

const struct node *served_models(struct test *t)
{
    struct node *all;
    struct sv text;
    const char *path = test_data(t, "models/configs.json.gz");
    assert_ok(gz_read(t->a, path, limits.max_bytes, &text, &t->e), t);
    assert_ok(json_parse(t->a, path, text, &limits, &all, &t->e), t);
    return all;
}

const struct node *served_file(struct test *t, const struct node *model, const char *name)
{
    const struct node *files = node_find(model, "files");
    const char *text;
    struct node *file;
    if (!node_find(files, name))
        return NULL;
    assert_ok(node_get_str(files, name, &text, &t->e), t);
    assert_ok(json_parse(t->a, name, sv_of(text), &limits, &file, &t->e), t);
    return file;
}
