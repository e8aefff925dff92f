#include "serve/router.h"

#include "support/support.h"

static void round_robin_takes_turns(void **state)
{
    (void)state;
    const struct router_ops *r = router_find("round_robin");
    struct router_state s = {0};
    for (; s.routed < 9; s.routed++)
        assert_int_equal(r->pick(&s, NULL, 3, NULL), s.routed % 3);
}

static void registry_is_whole(void **state)
{
    (void)state;
    for (int i = 0; router_registry[i]; i++) {
        assert_int_equal(router_registry[i]->version, ROUTER_VERSION);
        assert_non_null(router_registry[i]->help);
        assert_ptr_equal(router_find(router_registry[i]->name), router_registry[i]);
    }
    assert_ptr_equal(router_find(NULL), router_find("round_robin"));
    assert_null(router_find("nearest"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(round_robin_takes_turns), TEST(registry_is_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
