/* Models that tests read: one of a text, those of tests/golden/families, those that people serve.
 */
#ifndef SUPPORT_MODELS_H
#define SUPPORT_MODELS_H

#include "model/model.h"
#include "support/support.h"

/* "test", of a config.json, which must be one. */
struct model model_of_json(struct test *t, const char *json);

/* The lines of tests/golden/families/families.jsonl, by turns; {0} before the first. */
struct golden_family {
    struct sv left;
    bool begun;
    const char *name;
    const struct node *row, *config;
};
bool golden_family_next(struct test *t, struct golden_family *f);

/* The map of models/configs.json.gz of the test data: name to {files, parameters}. Skips the test
 * where there is none. */
const struct node *served_models(struct test *t);
/* A file of one of them, read; NULL = it has none of that name. */
const struct node *served_file(struct test *t, const struct node *model, const char *name);

#endif
