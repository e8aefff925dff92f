/* Every function of the driver against docs/driver-calls.md, and both against
 * the tables of a capture: none that loads code, launches or allocates is missed without a word.
 * driver_calls.txt is cupti_driver_cbid.h of CUDA 13.0 as "id name"; argv[1], when given, such a
 * header, whose functions must all be known. */
#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fs.h"
#include "inject/capture_handlers.h"
#include "inject/capture_rows.h"
#include "support/support.h"

static const char *header;

static const struct hook {
    bool of_driver;
    uint32_t first, last;
    const char *handler;
} hooks[] = {
#define X(domain, first, last, handler)                                      \
    {(int)CUPTI_CB_DOMAIN_##domain##_API == (int)CUPTI_CB_DOMAIN_DRIVER_API, \
     CUPTI_##domain##_TRACE_CBID_##first, CUPTI_##domain##_TRACE_CBID_##last, #handler},
    CAPTURE_HANDLER_TABLE(X)
#undef X
};

static const char *handler_of(uint32_t id)
{
    for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++)
        if (hooks[i].of_driver && id >= hooks[i].first && id <= hooks[i].last)
            return hooks[i].handler;
    return NULL;
}

static bool has_row(uint32_t id)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].id == id || (rows[i].id_per_thread && rows[i].id_per_thread == id))
            return true;
    return false;
}

struct rule {
    char kind[16], pattern[128];
};
static struct rule rules[1024];
static size_t n_rules;

/* Rows "| **kept** | `cuA*`, `cuB` |" of the page. */
static void read_rules(struct test *t)
{
    const char *text = test_read(t, TW_SOURCE_DIR "/docs/driver-calls.md");
    const char *at = text, *end = text + strlen(text);
    for (n_rules = 0; (at = strstr(at, "\n| **")) && at < end;) {
        at += 5;
        const char *stop = strstr(at, "**"), *line_end = strchr(at, '\n');
        for (const char *p = strchr(stop, '`'); p && p < line_end; p = strchr(p, '`')) {
            const char *close = strchr(p + 1, '`');
            struct rule *r = &rules[n_rules++];
            assert_true(close && close < line_end && n_rules < 1024);
            snprintf(r->kind, sizeof r->kind, "%.*s", (int)(stop - at), at);
            snprintf(r->pattern, sizeof r->pattern, "%.*s", (int)(close - p - 1), p + 1);
            p = close + 1;
        }
        at = line_end;
    }
}

/* The longest pattern that matches the name, or the name without the suffixes of its versions. */
static const struct rule *rule_of(const char *name)
{
    char base[128];
    const struct rule *found = NULL;
    snprintf(base, sizeof base, "%s", name);
    char *suffix = strstr(base, "_pt");
    if (suffix)
        *suffix = 0;
    const size_t n = strlen(base);
    if (n > 3 && base[n - 3] == '_' && base[n - 2] == 'v' && isdigit((unsigned char)base[n - 1]))
        base[n - 3] = 0;
    for (size_t i = 0; i < n_rules; i++) {
        const bool exact = strcmp(rules[i].pattern, name) == 0;
        if (exact)
            return &rules[i];
        if (fnmatch(rules[i].pattern, base, 0) == 0 &&
            (!found || strlen(rules[i].pattern) > strlen(found->pattern)))
            found = &rules[i];
    }
    return found;
}

struct call {
    uint32_t id;
    char name[100];
};
static struct call calls[2048];
static size_t n_calls;

static void read_calls(struct test *t)
{
    const char *p = test_read(t, TW_SOURCE_DIR "/tests/inject/driver_calls.txt");
    for (n_calls = 0; *p; p = strchr(p, '\n') + 1, n_calls++)
        assert_int_equal(sscanf(p, "%u %99s", &calls[n_calls].id, calls[n_calls].name), 2);
}

/* Of 32-bit addresses, for programs of CUDA 3.1 and older: no library of today calls them. */
static bool is_of_32_bits(const struct call *c)
{
    char later[110];
    snprintf(later, sizeof later, "%s_v2", c->name);
    for (size_t i = 0; i < n_calls && c->id < 235; i++)
        if (calls[i].id >= 235 && calls[i].id <= 294 && strcmp(calls[i].name, later) == 0)
            return true;
    return c->id < 235 && strncmp(c->name, "cu64", 4) == 0;
}

static bool is(const struct rule *r, const char *kind)
{
    return strcmp(r->kind, kind) == 0;
}

/* Whether the tables do what the page says. */
static bool holds(const struct call *c, const struct rule *r)
{
    const char *handler = handler_of(c->id);
    const bool work = handler && (strcmp(handler, "capture_work") == 0 ||
                                  strcmp(handler, "capture_launched") == 0);
    if (is(r, "kept"))
        return work && has_row(c->id);
    if (is(r, "refused"))
        return handler && !has_row(c->id);
    if (is(r, "followed"))
        return handler && !work;
    return !handler && is(r, "left");
}

static void every_call_is_known(void **state)
{
    struct test *t = *state;
    int bad = 0;
    read_rules(t);
    read_calls(t);
    assert_true(n_calls > 800 && n_rules > 200);
    for (size_t i = 0; i < n_calls; i++) {
        const struct call *c = &calls[i];
        const struct rule *r = rule_of(c->name);
        if (is_of_32_bits(c))
            continue;
        if (!r || !holds(c, r)) {
            print_error("%u %s: the page says %s by %s, the handler is %s%s\n", c->id, c->name,
                        r ? r->kind : "nothing", r ? r->pattern : "no pattern",
                        handler_of(c->id) ? handler_of(c->id) : "none",
                        has_row(c->id) ? ", kept" : "");
            bad++;
        }
    }
    assert_int_equal(bad, 0);
}

static void every_pattern_matches(void **state)
{
    struct test *t = *state;
    read_rules(t);
    read_calls(t);
    for (size_t i = 0; i < n_rules; i++) {
        bool used = false;
        for (size_t k = 0; k < n_calls && !used; k++)
            used = rule_of(calls[k].name) == &rules[i];
        if (!used)
            fail_msg("`%s` is the rule of no function", rules[i].pattern);
    }
}

/* What is younger than the list is refused by name when it is called: capture_younger. */
static void younger_ids_are_hooked(void **state)
{
    struct test *t = *state;
    uint32_t last = 0;
    read_calls(t);
    for (size_t i = 0; i < n_calls; i++)
        last = calls[i].id > last ? calls[i].id : last;
    assert_string_equal(handler_of(last + 1), "capture_younger");
    assert_string_equal(handler_of(1023), "capture_younger");
}

static void a_header_has_no_others(void **state)
{
    struct test *t = *state;
    if (!header)
        skip();
    static const char prefix[] = "CUPTI_DRIVER_TRACE_CBID_";
    const char *p = test_read(t, header);
    read_calls(t);
    while ((p = strstr(p, prefix))) {
        char name[100];
        uint32_t id;
        p += sizeof prefix - 1;
        if (sscanf(p, "%99[A-Za-z0-9_] = %u", name, &id) != 2 || strncmp(name, "cu", 2) != 0)
            continue;
        size_t i = 0;
        while (i < n_calls && (calls[i].id != id || strcmp(calls[i].name, name) != 0))
            i++;
        if (i == n_calls)
            fail_msg("%s has %s = %u: add it to driver_calls.txt and the page", header, name, id);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {TEST(every_call_is_known), TEST(every_pattern_matches),
                                       TEST(younger_ids_are_hooked), TEST(a_header_has_no_others)};
    header = argc > 1 && fs_exists(argv[1]) ? argv[1] : NULL;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
