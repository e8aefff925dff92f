#include "support/golden_bundle.h"

#include "text/json.h"

struct bundle *golden_bundle(struct test *t, struct model *m)
{
    struct node *config;
    struct bundle *b;
    assert_ok(json_load(t->a, "data/models/tiny_qwen3/config.json", NULL, &config, &t->e), t);
    assert_ok(model_from_config(t->a, "tiny_qwen3", config, m, &t->e), t);
    struct bundle_key key = {.root = "tests/golden/bundle",
                             .hardware = "cpu",
                             .model_name = "tiny_qwen3",
                             .model = m,
                             .tp = 1,
                             .pp = 1,
                             .block_size = 16};
    assert_ok(bundle_load(t->a, &key, &b, &t->e), t);
    return b;
}
