#include <stdlib.h>
#include <string.h>

#include "artifact/columns.h"
#include "base/fs.h"
#include "support/support.h"

static const char *const needs[] = {
    [NEED_VALUE] = "yes",
    [NEED_COLUMN] = "yes, a cell may be empty",
    [NEED_OURS] = "written",
    [NEED_OPTIONAL] = "optional",
};

static void put_table(struct buf *out, const struct run_table *t)
{
    buf_puts(out, "| column | required | meaning |\n|---|---|---|\n");
    for (size_t i = 0; i < t->n; i++)
        buf_printf(out, "| `%s` | %s | %s |\n", t->columns[i].name, needs[t->columns[i].need],
                   t->columns[i].help);
}

/* Everything between the two comments of each table, made anew. */
static void put_page(struct buf *out, const char *page)
{
    for (int i = 0; i < RUN_FILES; i++) {
        char begin[80];
        snprintf(begin, sizeof begin, "<!-- columns of %s -->\n", run_tables[i].file);
        const char *from = strstr(page, begin);
        assert_non_null(from);
        from += strlen(begin);
        buf_add(out, page, (size_t)(from - page));
        put_table(out, &run_tables[i]);
        page = strstr(from, "<!-- end -->\n");
        assert_non_null(page);
    }
    buf_puts(out, page);
}

/* docs/formats.md lists the columns as they are; UPDATE=1 writes them. */
static void the_documentation_lists_the_columns(void **state)
{
    struct test *t = *state;
    const char *path = TW_SOURCE_DIR "/docs/formats.md", *page = test_read(t, path);
    struct buf want = {0};
    put_page(&want, page);
    if (getenv("UPDATE"))
        assert_ok(fs_write_atomic(path, want.p, want.n, &t->e), t);
    else
        assert_string_equal(page, buf_str(&want));
    buf_free(&want);
}

/* What the contract requires, by name; foreign readers rely on it. */
static void required_columns_are_the_contract(void **state)
{
    (void)state;
    static const char requests[] = "request_id arrival_time_ns first_token_time_ns ttft_ns "
                                   "completion_time_ns num_prefill_tokens num_decode_tokens "
                                   "num_decode_tokens_actual status ",
                      tokens[] = "request_id token_index token_time_ns token_latency_ns ",
                      batches[] = "iteration replica stage start_ns duration_ns host_ns device_ns "
                                  "num_prefill_tokens num_decode_tokens batch_size kv_blocks ";
    static const char *const want[RUN_FILES] = {
        [RUN_REQUESTS] = requests, [RUN_TOKENS] = tokens, [RUN_BATCHES] = batches};
    for (int i = 0; i < RUN_FILES; i++) {
        struct buf got = {0};
        for (size_t k = 0; k < run_tables[i].n; k++)
            if (run_tables[i].columns[k].need != NEED_OPTIONAL)
                buf_printf(&got, "%s ", run_tables[i].columns[k].name);
        assert_string_equal(buf_str(&got), want[i]);
        buf_free(&got);
    }
}

static void tables_fit_their_rows(void **state)
{
    (void)state;
    for (int i = 0; i < RUN_FILES; i++) {
        const struct run_table *t = &run_tables[i];
        assert_in_range(t->n, 1, RUN_MAX_COLUMNS);
        for (size_t k = 0; k < t->n; k++) {
            assert_true(t->columns[k].offset < t->row_bytes && t->columns[k].minus < t->row_bytes);
            for (size_t m = 0; m < k; m++)
                assert_string_not_equal(t->columns[k].name, t->columns[m].name);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_documentation_lists_the_columns),
        cmocka_unit_test(required_columns_are_the_contract),
        cmocka_unit_test(tables_fit_their_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
