/* What the records of a trace share: each thing once, hostile texts made harmless, times that
 * cannot be left out. */
#include "trace/dict.h"

#include <stdio.h>

#include "base/log.h"
#include "support/support.h"

static void each_text_has_one_id(void **state)
{
    enum { N = 5000 }; /* the table of ids grows several times */
    struct trace_dict d;
    (void)state;
    trace_dict_init(&d);
    assert_int_equal(trace_string(&d, (struct sv){NULL, 0}), 0);
    for (uint32_t round = 0; round < 2; round++)
        for (uint32_t i = 1; i <= N; i++) {
            char text[16];
            int n = snprintf(text, sizeof text, "kernel %u", i);
            assert_int_equal(trace_string(&d, (struct sv){text, (size_t)n}), i);
        }
    assert_int_equal(d.n_strings, N + 1);
    assert_string_equal(trace_text(&d, 4711), "kernel 4711");
    assert_string_equal(trace_text(&d, N + 1), "");
    assert_string_equal(trace_text(&d, TRACE_NONE), "");
    trace_dict_free(&d);
    trace_dict_free(&d);
}

static void texts_are_printable_utf8(void **state)
{
    static const struct {
        struct sv given;
        const char *kept;
    } rows[] = {
        {SV("\xc3\xa4\xe2\x82\xac"), "\xc3\xa4\xe2\x82\xac"},
        {SV("a\nb\tc\x7f"), "a?b?c?"},
        {SV("a\0b"), "a?b"},
        {SV("\xff x \xc3"), "? x ?"},
        {SV("\xed\xa0\x80"), "???"}, /* half of a surrogate pair */
    };
    struct trace_dict d;
    (void)state;
    trace_dict_init(&d);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t id = trace_string(&d, rows[i].given);
        assert_string_equal(trace_text(&d, id), rows[i].kept);
        assert_int_equal(trace_string(&d, sv_of(rows[i].kept)), id);
    }
    trace_note(&d, LOG_WARN, "of %s", "\x1b[31m\xff");
    assert_string_equal(d.notes[0].text, "of ?[31m?");
    trace_dict_free(&d);
}

static void notes_and_facts_are_bounded(void **state)
{
    struct test *t = *state;
    struct trace_dict d;
    trace_dict_init(&d);
    for (int i = 0; i < 2000; i++) {
        trace_note(&d, LOG_WARN, "note %d", i);
        trace_fact(&d, TRACE_PROCESSOR, sv_of(arena_printf(t->a, "processor %d", i)));
    }
    assert_int_equal(d.n_notes, 1000);
    assert_int_equal(d.n_facts, 200);
    char *long_text = arena_alloc(t->a, 1000);
    memset(long_text, 'x', 1000);
    trace_dict_free(&d);
    trace_dict_init(&d);
    trace_fact(&d, TRACE_HOST, (struct sv){long_text, 1000});
    assert_int_equal(strlen(d.facts[0].text), 200);
    trace_dict_free(&d);
}

static void facts_are_kept_once_and_read_by_people(void **state)
{
    struct test *t = *state;
    struct trace_dict d;
    trace_dict_init(&d);
    assert_null(trace_fact_words(t->a, &d, TRACE_HOST));
    trace_fact(&d, TRACE_HOST, SV("node1"));
    trace_fact(&d, TRACE_HOST, SV("node2"));
    trace_fact(&d, TRACE_HOST, SV("node1"));
    trace_fact(&d, TRACE_HOST, SV(""));
    trace_fact(&d, TRACE_CUPTI, SV("0"));
    trace_fact(&d, TRACE_CUDA_DRIVER, SV("12040"));
    trace_fact(&d, TRACE_CUDA_RUNTIME, SV("999"));
    assert_string_equal(trace_fact_words(t->a, &d, TRACE_HOST), "node1, node2");
    assert_null(trace_fact_words(t->a, &d, TRACE_CUPTI));
    assert_string_equal(trace_fact_words(t->a, &d, TRACE_CUDA_DRIVER), "12.4");
    assert_string_equal(trace_fact_words(t->a, &d, TRACE_CUDA_RUNTIME), "999");
    trace_dict_free(&d);
}

static void keys_are_all_that_differs(void **state)
{
    struct trace_dict d;
    (void)state;
    trace_dict_init(&d);
    uint32_t p = trace_process_of(&d, 10, 0), q = trace_process_of(&d, 10, 1);
    assert_int_not_equal(p, q);
    assert_int_equal(trace_process_of(&d, 10, 0), p);
    assert_int_equal(d.processes[p].rank, -1);
    assert_int_not_equal(trace_thread_of(&d, p, 1), trace_thread_of(&d, q, 1));
    assert_int_equal(trace_thread_of(&d, p, 1), trace_thread_of(&d, p, 1));
    struct trace_sig sig = {.name = 3};
    uint32_t id = trace_sig_id(&d, &sig);
    assert_int_equal(trace_sig_id(&d, &sig), id);
    sig.flags = 1;
    assert_int_not_equal(trace_sig_id(&d, &sig), id);
    trace_dict_free(&d);
}

/* Ranks see their GPU as device 0: the uuid makes two of them, and reports need two numbers. */
static void devices_are_known_by_uuid(void **state)
{
    struct trace_dict d;
    (void)state;
    trace_dict_init(&d);
    assert_int_equal(trace_device_of(&d, &(struct trace_device){.number = 0, .uuid = {1}}), 0);
    assert_int_equal(trace_device_of(&d, &(struct trace_device){.number = 0, .uuid = {2}}), 1);
    assert_int_equal(trace_device_of(&d, &(struct trace_device){.number = 5, .uuid = {1}}), 0);
    assert_int_equal(d.devices[0].number, 0);
    assert_int_equal(d.devices[1].number, 1);
    /* facts that come later fill what was unknown, and keep the number */
    struct trace_device facts = {.number = 7, .uuid = {2}, .sms = 132};
    assert_int_equal(trace_device_of(&d, &facts), 1);
    assert_int_equal(d.devices[1].number, 1);
    assert_int_equal(d.devices[1].sms, 132);
    facts.sms = 80;
    assert_int_equal(trace_device_of(&d, &facts), 1);
    assert_int_equal(d.devices[1].sms, 132);
    /* without a uuid the number decides */
    assert_int_equal(trace_device_of(&d, &(struct trace_device){.number = 1}), 1);
    assert_int_equal(trace_device_of(&d, &(struct trace_device){.number = 9}), 2);
    trace_dict_free(&d);
}

static void sums_of_times_stay_inside_64_bits(void **state)
{
    struct test *t = *state;
    struct trace_dict d;
    const int64_t most = TRACE_SPAN_MAX_NS;
    trace_dict_init(&d);
    assert_true(trace_times_ok(&d, TRACE_OP, -5, -5));
    assert_false(trace_times_ok(&d, TRACE_OP, 5, 4));
    assert_false(trace_times_ok(&d, TRACE_OP, INT64_MIN, 0));
    assert_false(trace_times_ok(&d, TRACE_OP, 0, INT64_MAX));
    assert_false(trace_times_ok(&d, TRACE_OP, 0, most + 1));
    assert_true(trace_times_ok(&d, TRACE_OP, 0, most)); /* all the time operations may take ... */
    assert_false(trace_times_ok(&d, TRACE_OP, 0, 1));   /* ... together */
    for (int i = 0; i < 8; i++)                         /* ranges nest */
        assert_true(trace_times_ok(&d, TRACE_RANGE, 0, most));
    assert_false(trace_times_ok(&d, TRACE_RANGE, 0, 1));
    assert_string_equal(trace_impossible(t->a, &d), "5 operations, 1 range");
    trace_dict_free(&d);
    trace_dict_init(&d);
    assert_null(trace_impossible(t->a, &d));
    trace_dict_free(&d);
}

static void kinds_of_copies_have_names(void **state)
{
    struct trace_dict d;
    (void)state;
    trace_dict_init(&d);
    for (uint8_t i = 1; i < TRACE_COPY_KINDS; i++)
        assert_int_equal(trace_copy_kind(sv_of(trace_copy_short(i))), i);
    for (uint8_t i = 1; i < TRACE_MEMORY_KINDS; i++)
        assert_int_equal(trace_memory_kind(sv_of(trace_memory_name(i))), i);
    assert_string_equal(trace_copy_name(99), "Unknown");
    assert_int_equal(trace_copy_kind(SV("XtoY")), 0);
    assert_int_equal(trace_memory_kind(SV("")), 0);
    struct trace_sig copy = {
        .kind = TRACE_COPY, .copy_kind = 1, .source_kind = 1, .target_kind = 200};
    assert_string_equal(trace_text(&d, trace_memory_op_name(&d, &copy)),
                        "Memcpy HtoD (Pageable -> Unknown)");
    trace_dict_free(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_text_has_one_id),
        TEST(texts_are_printable_utf8),
        TEST(notes_and_facts_are_bounded),
        TEST(facts_are_kept_once_and_read_by_people),
        TEST(keys_are_all_that_differs),
        TEST(devices_are_known_by_uuid),
        TEST(sums_of_times_stay_inside_64_bits),
        TEST(kinds_of_copies_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
