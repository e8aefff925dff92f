#include "server/origin.h"

#include "support/support.h"

static void host_names_this_server(void **state)
{
    static const char *const more[] = {"models.example.org"}, *const any[] = {"*"};
    static const struct {
        const char *value, *listens;
        bool ok;
    } rows[] = {
        {NULL, "127.0.0.1", true}, /* HTTP/1.0 */
        {"localhost:8000", "127.0.0.1", true},
        {"LocalHost.", "127.0.0.1", true},
        {"a.localhost", "127.0.0.1", true},
        {"127.0.0.1:8000", "127.0.0.1", true},
        {"127.9.9.9", "127.0.0.1", true},
        {"[::1]:8000", "127.0.0.1", true},
        {"10.0.0.7:80", "10.0.0.7", true},
        {"Models.Example.org:80", "127.0.0.1", true},
        {"10.0.0.7", "0.0.0.0", true}, /* a name is what leads here by DNS */
        {"[fd00::1]", "::", true},
        {"", "127.0.0.1", false},
        {"evil.example", "127.0.0.1", false},
        {"evil.example", "0.0.0.0", false},
        {"localhost.evil.example", "127.0.0.1", false},
        {"127.0.0.1.evil.example", "127.0.0.1", false},
        {"notlocalhost", "127.0.0.1", false},
        {"10.0.0.7", "127.0.0.1", false},
        {"0.0.0.0", "127.0.0.1", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(origin_host_ok(rows[i].value, rows[i].listens, (struct texts){more, 1}),
                         rows[i].ok);
        assert_true(origin_host_ok(rows[i].value, rows[i].listens, (struct texts){any, 1}));
    }
}

static void json_is_said_to_be_json(void **state)
{
    (void)state;
    assert_true(origin_is_json("application/json"));
    assert_true(origin_is_json("Application/JSON ; charset=utf-8"));
    assert_false(origin_is_json(NULL));
    assert_false(origin_is_json(""));
    assert_false(origin_is_json("text/plain"));
    assert_false(origin_is_json("text/plain; application/json"));
    assert_false(origin_is_json("application/jsonx"));
    assert_false(origin_is_json("application/x-www-form-urlencoded"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(host_names_this_server), TEST(json_is_said_to_be_json)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
