#include "client/proxy.h"

#include <stdlib.h>

#include "support/support.h"

static const char *const names[] = {"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY",
                                    "all_proxy",  "ALL_PROXY",  "no_proxy",    "NO_PROXY"};

static void a_proxy_is_one_for_its_scheme_and_host(void **state)
{
    static const struct {
        const char *set[2][2], *url, *want;
    } rows[] = {
        {{{"http_proxy", "http://p:1"}}, "http://a.org:8000/v1", "http_proxy"},
        {{{"http_proxy", ""}}, "http://a.org/v1", NULL},
        {{{"http_proxy", "p"}}, "https://a.org/v1", NULL},
        {{{"HTTPS_PROXY", "p"}}, "https://a.org/v1", "HTTPS_PROXY"},
        {{{"all_proxy", "socks5://p"}}, "http://a.org/v1", "all_proxy"},
        {{{"ALL_PROXY", "p"}, {"NO_PROXY", "*"}}, "http://a.org/v1", NULL},
        {{{"http_proxy", "p"}, {"no_proxy", "localhost,127.0.0.1"}}, "http://127.0.0.1:1/v1", NULL},
        {{{"http_proxy", "p"}, {"no_proxy", "b.org, .a.org"}}, "http://gpu.a.org/v1", NULL},
        {{{"http_proxy", "p"}, {"no_proxy", "a.org"}}, "http://ba.org/v1", "http_proxy"},
        {{{"http_proxy", "p"}, {"no_proxy", "::1"}}, "http://[::1]:80/v1", NULL},
        {{{"http_proxy", "p"}, {"no_proxy", "*.A.org"}}, "http://x.a.ORG", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            unsetenv(names[k]);
        for (size_t k = 0; k < 2 && rows[i].set[k][0]; k++)
            setenv(rows[i].set[k][0], rows[i].set[k][1], 1);
        const char *got = proxy_of_environment(rows[i].url);
        if (rows[i].want ? !got || strcmp(got, rows[i].want) != 0 : got != NULL)
            fail_msg("row %zu: %s", i, got ? got : "none");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_proxy_is_one_for_its_scheme_and_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
