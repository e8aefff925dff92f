/* What JSON says of what a trace does not say. That it is read back: conform/trace_format_test.c.
 */
#include "support/support.h"
#include "trace/trace.h"

/* A kernel and a call without arguments, on a GPU of which the name alone is known. */
static const char bare[] =
    "{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0, \"name\": \"G\"}],\n"
    " \"traceEvents\": [\n"
    "  {\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"f\", \"pid\": 7, \"tid\": 8,\n"
    "   \"ts\": 1, \"dur\": 1},\n"
    "  {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", \"pid\": 0, \"tid\": 7,\n"
    "   \"ts\": 5, \"dur\": 2, \"args\": {\"device\": 0, \"stream\": 7}}]}\n";

static void what_is_not_known_is_null(void **state)
{
    struct test *t = *state;
    const char *from = test_write(t, "bare.json", bare);
    static const char *const want[] = {
        "\"correlation\": null, \"registers per thread\": null, \"shared memory\": 0, "
        "\"grid\": null, \"block\": null",
        "\"cat\": \"cuda_runtime\", \"name\": \"f\", \"ts\": 1.000, \"dur\": 1.000, \"pid\": 7, "
        "\"tid\": 8, \"args\": {}}",
        "{\"id\": 0, \"name\": \"G\", \"totalGlobalMem\": null, \"computeMajor\": null, "
        "\"computeMinor\": null, \"maxThreadsPerMultiprocessor\": null, \"numSms\": null}"};
    static const char *const formats[] = {"kineto", "perfetto"};
    for (size_t i = 0; i < 2; i++) {
        struct trace x;
        const char *to = test_path(t, formats[i]);
        assert_ok(trace_convert(from, trace_format_named(formats[i]), to, NULL, &t->e), t);
        for (size_t k = 0; k < sizeof want / sizeof *want; k++)
            if (!strstr(test_read(t, to), want[k]))
                fail_msg("%s: no %s in\n%s", formats[i], want[k], test_read(t, to));
        assert_ok(trace_load(&x, to, NULL, &t->e), t);
        assert_int_equal(x.ops.n, 1);
        assert_int_equal(x.dict.devices[0].sms, 0);
        trace_free(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(what_is_not_known_is_null)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
