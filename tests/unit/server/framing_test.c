#include "server/framing.h"

#include "support/support.h"

struct header {
    const char *name, *value;
};

static const char *fault_of(const struct header *h, bool http_1_0)
{
    struct framing f = {0};
    for (; h->name; h++)
        framing_add(&f, sv_of(h->name), sv_of(h->value));
    return framing_fault(&f, http_1_0);
}

static void one_end_is_fine(void **state)
{
    (void)state;
    assert_null(fault_of((struct header[]){{"Host", "x"}, {NULL, NULL}}, false));
    assert_null(fault_of((struct header[]){{"content-LENGTH", "0012"}, {NULL, NULL}}, true));
    assert_null(fault_of((struct header[]){{"Transfer-Encoding", "Chunked"}, {NULL, NULL}}, false));
    assert_null(fault_of((struct header[]){{"X-Odd_`Name", ""}, {NULL, NULL}}, false));
}

static void two_ends_are_not(void **state)
{
    (void)state;
    static const struct {
        struct header headers[3];
        bool http_1_0;
        const char *fault;
    } rows[] = {
        {{{"Content-Length", "5"}, {"Content-Length", "5"}},
         false,
         "Content-Length is there twice"},
        {{{"Content-Length", "5"}, {"CONTENT-LENGTH", "6"}},
         false,
         "Content-Length is there twice"},
        {{{"Content-Length", "5, 5"}}, false, "Content-Length is no number"},
        {{{"Content-Length", "+5"}}, false, "Content-Length is no number"},
        {{{"Content-Length", "0x5"}}, false, "Content-Length is no number"},
        {{{"Content-Length", ""}}, false, "Content-Length is no number"},
        {{{"Content-Length", "5"}, {"Transfer-Encoding", "chunked"}},
         false,
         "Content-Length and Transfer-Encoding exclude each other"},
        {{{"Transfer-Encoding", "chunked"}, {"Content-Length", "5"}},
         false,
         "Content-Length and Transfer-Encoding exclude each other"},
        {{{"Transfer-Encoding", "chunked"}, {"Transfer-Encoding", "chunked"}},
         false,
         "Transfer-Encoding is there twice"},
        {{{"Transfer-Encoding", "gzip, chunked"}}, false, "Transfer-Encoding is not chunked"},
        {{{"Transfer-Encoding", "identity"}}, false, "Transfer-Encoding is not chunked"},
        {{{"Transfer-Encoding", "chunked"}}, true, "HTTP/1.0 knows no Transfer-Encoding"},
        {{{"Transfer-Encoding ", "chunked"}},
         false,
         "the name of a header holds a character that is not allowed there"},
        {{{"Content\tLength", "5"}},
         false,
         "the name of a header holds a character that is not allowed there"},
        {{{"Transfer-Encodingchunked", ""}}, false, "a header goes on in another line"},
        {{{"", "5"}}, false, "the name of a header holds a character that is not allowed there"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(fault_of(rows[i].headers, rows[i].http_1_0), rows[i].fault);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(one_end_is_fine), TEST(two_ends_are_not)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
