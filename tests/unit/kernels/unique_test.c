#include "kernels/kernels.h"

#include "support/support.h"

/* Grids and registers that the trace does not say are no zeros. */
static void what_is_not_known_is_null(void **state)
{
    struct test *t = *state;
    const char *path =
        test_write(t, "t.json",
                   "{\"traceEvents\": [\n"
                   "  {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"bare\", \"pid\": 0,\n"
                   "   \"tid\": 7, \"ts\": 5, \"dur\": 2, \"args\": {\"device\": 0, "
                   "\"stream\": 7}},\n"
                   "  {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"full\", \"pid\": 0,\n"
                   "   \"tid\": 7, \"ts\": 8, \"dur\": 2, \"args\": {\"device\": 0,\n"
                   "   \"stream\": 7, \"registers per thread\": 40, \"grid\": [4, 2, 1],\n"
                   "   \"block\": [128, 1, 1]}}]}\n");
    struct trace x;
    struct kernels k;
    struct buf text = {0};
    assert_ok(trace_load(&x, path, NULL, &t->e), t);
    kernels_open(&k, &x, NULL);
    kernels_unique_jsonl(&text, &k);
    assert_non_null(strstr(buf_str(&text), "\"grid\": null, \"block\": null, \"shared memory\": 0, "
                                           "\"name\": \"bare\"}"));
    assert_non_null(strstr(buf_str(&text), "\"registers per thread\": null"));
    assert_non_null(strstr(buf_str(&text), "\"grid\": [4, 2, 1], \"block\": [128, 1, 1], "
                                           "\"registers per thread\": 40"));
    buf_clear(&text);
    const struct kernels_timeline figures = kernels_timeline_of(t->a, &k);
    kernels_timeline_json(&text, &figures); /* one gap between two kernels, and no launch */
    assert_non_null(strstr(buf_str(&text), "\"launch_call\": null"));
    buf_free(&text);
    kernels_close(&k);
    trace_free(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(what_is_not_known_is_null)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
