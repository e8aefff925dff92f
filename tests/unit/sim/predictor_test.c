#include "sim/predictor.h"

#include "support/support.h"

static void registry_is_whole(void **state)
{
    struct test *t = *state;
    const struct predictor_ops *ops;
    for (int i = 0; predictor_registry[i]; i++) {
        assert_ok(predictor_find(predictor_registry[i]->name, &ops, &t->e), t);
        assert_ptr_equal(ops, predictor_registry[i]);
        assert_int_equal(ops->version, PREDICTOR_VERSION);
        assert_non_null(ops->help);
        assert_true(ops->open && ops->predict);
    }
    assert_err(predictor_find("oracle", &ops, &t->e), ST_USAGE, t,
               "predictor.kind: there is none called 'oracle'\nhint: known: bundle, vidur_tables, "
               "roofline");
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(registry_is_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
