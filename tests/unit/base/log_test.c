#include "support/support.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

/* What f writes to stderr. */
static const char *captured(struct test *t, void (*f)(void))
{
    const char *path = test_path(t, "stderr");
    fflush(stderr);
    int saved = dup(STDERR_FILENO);
    FILE *to = fopen(path, "wb");
    assert_non_null(to);
    dup2(fileno(to), STDERR_FILENO);
    f();
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    fclose(to);
    return test_read(t, path);
}

static void all_levels(void)
{
    log_write(LOG_ERROR, "e %d", 1);
    log_warn("w");
    log_info("i");
    log_debug("d");
}

static void lines_carry_their_level(void **state)
{
    struct test *t = *state;
    assert_string_equal(captured(t, all_levels), "twinfer: error: e 1\n"
                                                 "twinfer: warning: w\n"
                                                 "twinfer: i\n");
}

static void the_level_decides(void **state)
{
    struct test *t = *state;
    log_set_level(LOG_DEBUG);
    assert_non_null(strstr(captured(t, all_levels), "twinfer: debug: d\n"));
    log_set_level(LOG_ERROR);
    assert_string_equal(captured(t, all_levels), "twinfer: error: e 1\n");
    log_set_level(LOG_INFO);
}

static void progress(void)
{
    struct progress p;
    progress_begin(&p, "bench", "requests", 400);
    progress_at(&p, 1, NULL); /* too early */
    p.start_ns -= 12 * NS_PER_S;
    p.last_ns -= 12 * NS_PER_S;
    progress_at(&p, 120, NULL);
    p.last_ns -= 12 * NS_PER_S;
    progress_at(&p, 200, "p50 3 ms");
    progress_end(&p);
}

static void progress_off_a_terminal_is_a_line_now_and_then(void **state)
{
    struct test *t = *state;
    assert_string_equal(captured(t, progress),
                        "bench: 120/400 requests, 12 s, about 28 s left\n"
                        "bench: 200/400 requests, 12 s, about 12 s left, p50 3 ms\n");
}

static void foreign(void)
{
    log_warn("of %s", "h\x1b[31m\xc2\x9b");
}

static void escape_codes_do_not_pass(void **state)
{
    struct test *t = *state;
    assert_string_equal(captured(t, foreign), "twinfer: warning: of h?[31m??\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(escape_codes_do_not_pass),
        TEST(lines_carry_their_level),
        TEST(the_level_decides),
        TEST(progress_off_a_terminal_is_a_line_now_and_then),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
