#include "client/headers.h"

#include <stdlib.h>
#include <string.h>

#include "support/support.h"
#include "text/json.h"

static const char here[] = "http://127.0.0.1:8000/v1";

static void values_come_from_the_environment_and_are_not_shown(void **state)
{
    struct test *t = *state;
    const char *const given[] = {"X-Plain: a b", "X-Api-Key: $TW_TEST_KEY"};
    struct client_headers h;
    struct buf shown = {0};
    setenv("TW_TEST_KEY", "Bearer sesame", 1);
    setenv("TW_TEST_API", "open", 1);
    assert_ok(client_headers_make(t->a, given, 2, "TW_TEST_API", here, &h, &t->e), t);
    assert_int_equal(h.n, 3);
    assert_string_equal(h.list[0], "Authorization: Bearer open");
    assert_string_equal(h.list[1], "X-Plain: a b");
    assert_string_equal(h.list[2], "X-Api-Key: Bearer sesame");
    assert_int_equal(h.n_secrets, 3); /* the value with its scheme, and without */
    assert_string_equal(h.secrets[0], "open");
    assert_string_equal(h.secrets[1], "Bearer sesame");
    assert_string_equal(h.secrets[2], "sesame");
    json_write(&shown, h.shown, 0, true);
    assert_null(strstr(buf_str(&shown), "sesame"));
    assert_null(strstr(buf_str(&shown), "open"));
    assert_non_null(strstr(buf_str(&shown), "redacted"));
    buf_free(&shown);
}

static void no_key_is_no_header(void **state)
{
    struct test *t = *state;
    struct client_headers h;
    unsetenv("TW_TEST_API");
    assert_ok(client_headers_make(t->a, NULL, 0, "TW_TEST_API", here, &h, &t->e), t);
    assert_int_equal(h.n + h.n_secrets, 0);
    assert_ok(client_headers_make(t->a, NULL, 0, NULL, here, &h, &t->e), t);
    assert_int_equal(h.n + h.n_secrets, 0);
}

static void what_cannot_be_sent_is_refused(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *given, *error;
    } rows[] = {
        {"no colon", "client.headers: 'no colon': expected Name: value"},
        {": nameless", "client.headers: ': nameless': expected Name: value"},
        {"A: b\r\nC: d", "client.headers: 'A: b??C: d': expected Name: value"},
        {"A: $TW_TEST_NONE", "client.headers: A: the environment has no TW_TEST_NONE"},
        {"X-Secret: abc",
         "client.headers: X-Secret: a secret here would end up in every artifact\n"
         "hint: client.headers=[\"X-Secret: $VARIABLE\"] takes it from the environment"},
    };
    unsetenv("TW_TEST_NONE");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct client_headers h;
        err_clear(&t->e);
        assert_err(client_headers_make(t->a, &rows[i].given, 1, NULL, here, &h, &t->e), ST_USAGE, t,
                   rows[i].error);
    }
    setenv("TW_TEST_API", "two\nlines", 1);
    err_clear(&t->e);
    struct client_headers h;
    assert_err(client_headers_make(t->a, NULL, 0, "TW_TEST_API", here, &h, &t->e), ST_USAGE, t,
               "client.api_key_env: TW_TEST_API holds more than one line");
}

static void an_own_server_is_told_by_its_url(void **state)
{
    (void)state;
    assert_true(client_stays_here("http://127.0.0.1:8000/v1/completions"));
    assert_true(client_stays_here("http://localhost:8000"));
    assert_true(client_stays_here("http://[::1]:8000"));
    assert_false(client_stays_here("http://10.0.0.7:8000"));
    assert_false(client_stays_here("https://api.example.com/v1/completions"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(values_come_from_the_environment_and_are_not_shown),
        TEST(no_key_is_no_header),
        TEST(what_cannot_be_sent_is_refused),
        TEST(an_own_server_is_told_by_its_url),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
