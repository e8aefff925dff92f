/* Files that other people's tools, versions and accidents made of a PyTorch trace. */
#include "trace/trace.h"

#include <string.h>

#include "support/support.h"
#include "text/json.h"

#define OPERATOR(name, pid, ts, id)                                                               \
    "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"" name "\", \"pid\": " pid ", \"tid\": 4, " \
    "\"ts\": " #ts ", \"dur\": 50, \"args\": {\"Ev Idx\": 9, \"External id\": " #id "}}"
#define CALL(category, pid, ts, correlation)                                         \
    "{\"ph\": \"X\", \"cat\": \"" category "\", \"name\": \"launch\", \"pid\": " pid \
    ", \"tid\": 4, "                                                                 \
    "\"ts\": " #ts ", \"dur\": 5, \"args\": {\"correlation\": " #correlation "}}"
#define WORK(name, pid, ts, args)                                                \
    "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"" name "\", \"pid\": " pid \
    ", \"tid\": 7, \"ts\": " #ts ", \"dur\": 20, \"args\": {" args "}}"
/* Arguments of work on GPU 0, by its call; of work whose call alone is said. */
#define ON_0(call) "\"device\": 0, \"correlation\": " #call
#define BY(call)   "\"correlation\": " #call
#define ONE_LAUNCH                \
    OPERATOR("mm", "10", 1000, 1) \
    ", " CALL("cuda_runtime", "10", 1010, 5) ", " WORK("k", "0", 1030, ON_0(5))

static void load(struct test *t, struct trace *x, const char *text)
{
    assert_ok(trace_load(x, test_write(t, "other.json", text), NULL, &t->e), t);
}

/* A bare list of these; NULL ends them. */
static void load_events(struct test *t, struct trace *x, const char *const *events)
{
    const char *text = events[0];
    while (*++events)
        text = arena_printf(t->a, "%s, %s", text, *events);
    load(t, x, arena_printf(t->a, "[%s]", text));
}

static bool has_note(const struct trace *x, const char *part)
{
    for (uint32_t i = 0; i < x->dict.n_notes; i++)
        if (strstr(x->dict.notes[i].text, part))
            return true;
    return false;
}

/* "mm" or "": the operator around the launch of the operation with that name, on its thread. */
static const char *operator_of(const struct trace *x, const char *kernel)
{
    for (size_t i = 0; i < x->ops.n; i++) {
        const struct trace_sig *sig = &x->dict.sigs[x->ops.sig[i]];
        uint32_t call = x->ops.call[i];
        if (strcmp(trace_text(&x->dict, sig->name), kernel) != 0)
            continue;
        if (call == TRACE_NONE && x->ops.range && x->ops.range[i] != TRACE_NONE)
            return trace_text(&x->dict, x->ranges[x->ops.range[i]].text);
        for (size_t k = 0; call != TRACE_NONE && k < x->n_ranges; k++)
            if (x->ranges[k].thread == x->calls.thread[call] &&
                x->ranges[k].start_ns <= x->calls.start_ns[call] &&
                x->ranges[k].end_ns >= x->calls.end_ns[call])
                return trace_text(&x->dict, x->ranges[k].text);
    }
    return "";
}

static uint32_t gpu_of(const struct trace *x, const char *kernel)
{
    for (size_t i = 0; i < x->ops.n; i++) {
        const struct trace_sig *sig = &x->dict.sigs[x->ops.sig[i]];
        if (strcmp(trace_text(&x->dict, sig->name), kernel) == 0)
            return sig->device;
    }
    return TRACE_NONE;
}

/* What cannot be read is skipped and told with its first place; all else counts. */
static void odd_places_are_skipped_and_told(void **state)
{
    static const struct {
        const char *text, *note;
        size_t operations;
    } rows[] = {
        {"{\"traceEvents\": [" ONE_LAUNCH ",]}", "expected a value behind ','", 1},
        {"{\"traceEvents\": [" ONE_LAUNCH "],}", "expected a value behind ','", 1},
        {"{\"traceEvents\": [" ONE_LAUNCH "], \"a\": }", "expected a value", 1},
        {"{\"traceEvents\": [\n 3, " ONE_LAUNCH "]}", "line 2, column 2: expected an event", 1},
        {"{\"traceEvents\": [{} " ONE_LAUNCH "]}", "line 1, column 21: expected ','", 1},
        {"[{\"a\" 3}, " ONE_LAUNCH "]", "line 1, column 7: expected ':'", 1},
        {"[{\"ts\": nullx}, " ONE_LAUNCH "]", "line 1, column 9: expected a number", 1},
        {"[{\"ts\": true}, " ONE_LAUNCH "]", "line 1, column 9: expected a number", 1},
        {"[" ONE_LAUNCH ", " WORK("o", "0", 1, "\"Process Group\": , \"stream\": 7") "]",
         "expected a value", 2},
        {"[" ONE_LAUNCH ", " WORK("o", "0", 1, "\"grid\": [1, 2]") "]",
         "expected a list of three numbers", 2},
        {"[" ONE_LAUNCH ", " WORK("o", "0", 1, "\"correlation\": \"abc\",") "]",
         "2 odd places were skipped", 2},
        {"[" ONE_LAUNCH
         ", " WORK("o", "0", 1, "\"registers per thread\": -1, \"grid\": [-1, 1, 1]") "]",
         "2 odd places were skipped", 2},
        {"[" ONE_LAUNCH ", " WORK("o", "18446744073709551615", 1, "") "]", "expected a number", 2},
        {"[" ONE_LAUNCH ", {\"ph\": \"X\", \"cat\": \"kernel\", \"pid\": 0, \"na,\n" ONE_LAUNCH "]",
         "the event does not end", 2},
        {"[" ONE_LAUNCH ",\n", "the text ends inside the trace, at line 2, column 1", 1},
        {"{\"traceEvents\": [" ONE_LAUNCH ", {\"ph\": \"X\", \"cat", "the text ends inside", 1},
        {"[" ONE_LAUNCH ", {\"ph\": \"X\", \"args\": {{\"ph\": \"X\"}, " ONE_LAUNCH "]",
         "the event does not end", 2},
        {"\xef\xbb\xbf[" ONE_LAUNCH "]", NULL, 1},
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct trace x;
        load(t, &x, rows[i].text);
        assert_int_equal(x.ops.n, rows[i].operations);
        assert_string_equal(operator_of(&x, "k"), "mm");
        if (rows[i].note)
            assert_true(has_note(&x, rows[i].note));
        else
            assert_int_equal(x.dict.n_notes, 0);
        trace_free(&x);
    }
}

/* Calls of any vendor's runtime; ids of 64 bits; handles in place of numbers; no GPU said. */
static void launches_of_other_runtimes_are_joined(void **state)
{
    static const char *const calls[] = {
        CALL("xpu_runtime", "10", 1010, 5), CALL("privateuse1_runtime", "10", 1010, 5),
        CALL("hip_runtime", "10", 1010, 5), CALL("privateuse1_driver", "10", 1010, 5)};
    static const char *const wide[] = {
        OPERATOR("mm", "10", 1000, 1),
        CALL("cuda_runtime", "10", 1010, 4294967400),
        CALL("cuda_runtime", "10", 1100, 104),
        WORK("k", "0", 1030, BY(4294967400) ", \"stream\": \"0x7f00aabbccdd\""),
        WORK("o", "0", 1130, BY(104) ", \"stream\": 18446744073709551615"),
        NULL};
    static const char *const nowhere[] = {
        CALL("cuda_runtime", "10", 1010, 5),
        WORK("k", "-1", 1030, BY(5) ", \"device\": -1, \"grid\": \"[8, 2, 1]\""), NULL};
    struct test *t = *state;
    struct trace x;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const char *const events[] = {OPERATOR("mm", "10", 1000, 1), calls[i],
                                      WORK("k", "0", 1030, ON_0(5)), NULL};
        load_events(t, &x, events);
        assert_string_equal(operator_of(&x, "k"), "mm");
        trace_free(&x);
    }
    load_events(t, &x, wide);
    assert_string_equal(operator_of(&x, "k"), "mm");
    assert_string_equal(operator_of(&x, "o"), "");
    assert_int_not_equal(x.dict.sigs[x.ops.sig[0]].stream, x.dict.sigs[x.ops.sig[1]].stream);
    assert_int_equal(x.dict.n_notes, 0);
    trace_free(&x);
    load_events(t, &x, nowhere);
    assert_int_equal(gpu_of(&x, "k"), 0);
    assert_int_equal(x.dict.sigs[x.ops.sig[0]].grid[1], 2);
    assert_true(has_note(&x, "1 operation says no GPU: counted for GPU 0"));
    trace_free(&x);
}

/* Whatever else has a pid comes first, the process is that of the calls. */
static void the_process_is_the_one_that_launches(void **state)
{
    static const char *const events[] = {
        "{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"Step\", \"pid\": 31, "
        "\"tid\": 31, \"ts\": 900, \"dur\": 500}",
        WORK("early", "0", 1040, BY(5)), ONE_LAUNCH, NULL};
    struct test *t = *state;
    struct trace x;
    load_events(t, &x, events);
    assert_string_equal(operator_of(&x, "k"), "mm");
    assert_string_equal(operator_of(&x, "early"), "mm");
    assert_int_equal(x.dict.processes[x.dict.sigs[x.ops.sig[0]].process].pid, 10);
    trace_free(&x);
}

/* ROCm without calls: GPUs by their pids, operators by External id. */
static void operators_are_found_by_their_ids(void **state)
{
    static const char *const events[] = {OPERATOR("copy", "10", 1000, 1),
                                         OPERATOR("mm", "10", 1100, 2),
                                         WORK("a", "2", 1130, "\"External id\": 1"),
                                         WORK("b", "3", 1140, "\"External id\": 2"),
                                         WORK("c", "3", 1170, "\"External id\": 3"),
                                         NULL};
    struct test *t = *state;
    struct trace x;
    load_events(t, &x, events);
    assert_string_equal(operator_of(&x, "a"), "copy");
    assert_string_equal(operator_of(&x, "b"), "mm");
    assert_string_equal(operator_of(&x, "c"), "");
    assert_int_equal(gpu_of(&x, "a"), 2);
    assert_int_equal(gpu_of(&x, "b"), 3);
    trace_free(&x);
}

/* An operator, its call and its work; `gpu` is a pid that ends with the number of the GPU. */
#define RANK(pid, gpu, shift, name)            \
    OPERATOR("op_" name, pid, 1##shift##00, 1) \
    ", " CALL("cuda_runtime", pid, 1##shift##10, 100) ", " WORK(name, gpu, 1##shift##30, BY(100))

/* A rank before each pid: the same ids mean others in each, and the GPU called 0 is another. */
static void ranks_of_a_merged_file_are_apart(void **state)
{
    static const char *const events[] = {RANK("\"[TP00] 1000\"", "\"[TP00] 0\"", 0, "a"),
                                         RANK("\"[TP01] 1000\"", "\"[TP01] 0\"", 0, "b"), NULL};
    struct test *t = *state;
    struct trace x;
    load_events(t, &x, events);
    assert_string_equal(operator_of(&x, "a"), "op_a");
    assert_string_equal(operator_of(&x, "b"), "op_b");
    assert_int_equal(gpu_of(&x, "a"), 0);
    assert_int_equal(gpu_of(&x, "b"), 1);
    assert_int_equal(x.dict.n_processes, 2);
    assert_int_equal(x.dict.processes[1].rank, 1);
    assert_int_equal(x.dict.processes[1].pid, 1000);
    trace_free(&x);
}

/* The number may stand before the rank, and work without calls is of its own rank. */
static void ranks_behind_pids_are_apart(void **state)
{
    static const char *const events[] = {RANK("\"1000 (rank 0)\"", "\"0 (rank 0)\"", 0, "a"),
                                         RANK("\"1000 (rank 1)\"", "\"0 (rank 1)\"", 0, "b"), NULL};
    static const char *const work[] = {WORK("a", "\"[TP00] 0\"", 1000, ON_0(5)),
                                       WORK("b", "\"[TP01] 0\"", 1000, ON_0(5)), NULL};
    struct test *t = *state;
    struct trace x;
    load_events(t, &x, events);
    assert_string_equal(operator_of(&x, "a"), "op_a");
    assert_string_equal(operator_of(&x, "b"), "op_b");
    assert_int_equal(gpu_of(&x, "b"), 1);
    assert_int_equal(x.dict.n_processes, 2);
    assert_int_equal(x.dict.processes[1].rank, 1);
    trace_free(&x);
    load_events(t, &x, work);
    assert_int_equal(x.dict.n_processes, 2);
    assert_int_equal(x.dict.processes[0].rank, 0);
    assert_int_equal(x.dict.processes[1].rank, 1);
    trace_free(&x);
}

#define THREAD(tid, name, at, call)                                                              \
    "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"" name "\", \"pid\": 10, \"tid\": \"" tid  \
    "\", \"ts\": 10" at "0, \"dur\": 50}, {\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": " \
    "\"launch\", \"pid\": 10, \"tid\": \"" tid "\", \"ts\": 10" at                               \
    "5, \"dur\": 2, \"args\": {\"correlation\": " #call "}}"

#define NOTE(pid, ts)                                                                   \
    "{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"step\", \"pid\": \"" pid \
    "\", \"tid\": 4, \"ts\": " #ts ", \"dur\": 90}"

/* Threads and processes that are texts are not taken for one: operators nest in a thread alone. */
static void texts_in_place_of_ids_are_apart(void **state)
{
    static const char *const threads[] = {
        THREAD("pool-0_0", "outer", "0", 5), THREAD("pool-1_0", "inner", "1", 6),
        WORK("a", "0", 1030, ON_0(5)), WORK("b", "0", 1060, ON_0(6)), NULL};
    static const char annotated[] = "{\"distributedInfo\": {\"rank\": 3}, \"traceEvents\": [" NOTE(
        "Spans", 990) ", " NOTE("main", 995) ", " CALL("cuda_runtime", "\"main\"", 1000,
                                                       5) ", " WORK("a", "0", 1030, ON_0(5)) "]}";
    static const char *const processes[] = {CALL("cuda_runtime", "\"main\"", 1000, 5),
                                            CALL("cuda_runtime", "\"worker\"", 1001, 6),
                                            WORK("a", "0", 1030, ON_0(5)), NULL};
    struct test *t = *state;
    struct trace x;
    load_events(t, &x, threads);
    assert_int_not_equal(x.ranges[0].thread, x.ranges[1].thread);
    assert_int_equal(x.calls.thread[0], x.ranges[0].thread);
    assert_int_equal(x.calls.thread[1], x.ranges[1].thread);
    assert_int_equal(x.dict.n_processes, 1);
    trace_free(&x);
    load(t, &x, annotated); /* an annotation is of the process with its text */
    assert_int_equal(x.dict.processes[x.dict.threads[x.calls.thread[0]].process].rank, 3);
    assert_int_equal(x.dict.processes[x.dict.threads[x.ranges[0].thread].process].rank, -1);
    assert_int_equal(x.ranges[1].thread, x.calls.thread[0]);
    assert_int_equal(x.ops.call[0], 0);
    assert_int_not_equal(x.ranges[0].thread, x.calls.thread[0]);
    assert_int_equal(x.dict.n_notes, 0);
    trace_free(&x);
    load_events(t, &x, processes);
    assert_int_equal(x.ops.call[0], TRACE_NONE);
    assert_true(has_note(&x, "several processes launch, and some operations are of none of them"));
    trace_free(&x);
}

/* In a container the process that launches may have a small number: no GPU's. */
static void a_process_is_no_gpu(void **state)
{
    static const char *const after[] = {CALL("cuda_runtime", "7", 1000, 5),
                                        WORK("a", "7", 1030, BY(5)), NULL};
    static const char *const before[] = {WORK("a", "7", 1030, BY(5)),
                                         CALL("cuda_runtime", "7", 1000, 5), NULL};
    struct test *t = *state;
    for (int i = 0; i < 2; i++) {
        struct trace x;
        load_events(t, &x, i ? before : after);
        assert_int_equal(gpu_of(&x, "a"), 0);
        assert_true(has_note(&x, "1 operation says no GPU"));
        trace_free(&x);
    }
}

/* Merged under plain pids that were shifted by rank: GPU 0 of both is two GPUs. */
static void gpus_under_shifted_pids_are_apart(void **state)
{
    static const char *const events[] = {
        CALL("cuda_runtime", "10", 1000, 5), CALL("cuda_runtime", "1000010", 1001, 6),
        WORK("a", "0", 1030, ON_0(5)),       WORK("b", "1000000", 1031, ON_0(6)),
        WORK("c", "10", 1060, ON_0(5)),      NULL};
    struct test *t = *state;
    struct trace x;
    load_events(t, &x, events);
    assert_int_equal(gpu_of(&x, "a"), 0);
    assert_int_equal(gpu_of(&x, "b"), 1);
    assert_int_equal(gpu_of(&x, "c"), 0); /* a process's own pid is no shifted one */
    assert_int_equal(x.dict.processes[x.dict.sigs[x.ops.sig[1]].process].pid, 1000010);
    trace_free(&x);
}

/* Plain pids: a correlation that one process alone has tells whose GPU it is; where none does, no
 * operator is guessed. */
static void processes_that_count_alike_are_not_guessed(void **state)
{
    static const char *const later[] = {RANK("10", "0", 0, "a"), RANK("20", "0", 1, "b"), NULL};
    static const char *const alike[] = {RANK("10", "0", 0, "a"), RANK("20", "0", 0, "b"), NULL};
    static const char *const owned[] = {RANK("10", "0", 0, "a"),
                                        RANK("20", "1", 0, "b"),
                                        CALL("cuda_runtime", "10", 5000, 201),
                                        WORK("c", "0", 5020, BY(201)),
                                        CALL("cuda_runtime", "20", 5000, 202),
                                        WORK("d", "1", 5020, BY(202)),
                                        NULL};
    struct test *t = *state;
    struct trace x;
    load_events(t, &x, later);
    assert_string_equal(operator_of(&x, "a"), "op_a"); /* the other call comes later */
    assert_string_equal(operator_of(&x, "b"), "");
    assert_true(has_note(&x, "1 operation does not say which of them did"));
    trace_free(&x);
    load_events(t, &x, owned);
    assert_string_equal(operator_of(&x, "a"), "op_a");
    assert_string_equal(operator_of(&x, "b"), "op_b");
    assert_int_equal(x.dict.n_notes, 0);
    trace_free(&x);
    load_events(t, &x, alike);
    assert_string_equal(operator_of(&x, "a"), "");
    assert_string_equal(operator_of(&x, "b"), "");
    assert_true(has_note(&x, "2 operations do not say which of them did"));
    trace_free(&x);
    assert_err(trace_convert(test_path(t, "other.json"), trace_format_named("kineto"),
                             test_path(t, "to.json"), NULL, &t->e),
               ST_INPUT, t,
               "cannot convert DIR/other.json to kineto\n"
               "DIR/other.json: several processes launch, and operations do not say which did: "
               "that is found by reading all of it, and is not written");
}

static void names_beyond_ascii_are_kept_apart(void **state)
{
    static const char *const events[] = {
        WORK("\\u9884\\u586b", "0", 1, ""), WORK("\\u89e3\\u7801", "0", 50, ""),
        WORK("\\ud83d\\ude00\\u00e9", "0", 99, ""), WORK("\\ud83d!", "0", 150, ""), NULL};
    struct test *t = *state;
    struct trace x;
    load_events(t, &x, events);
    static const char *const names[] = {"\xe9\xa2\x84\xe5\xa1\xab", "\xe8\xa7\xa3\xe7\xa0\x81",
                                        "\xf0\x9f\x98\x80\xc3\xa9", "\xef\xbf\xbd!"};
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(trace_text(&x.dict, x.dict.sigs[x.ops.sig[i]].name), names[i]);
    trace_free(&x);
}

/* Pretty-printed: the shapes are those of the compact file, and what is written again is JSON. */
static void shapes_lose_the_white_space_of_printers(void **state)
{
    static const char text[] =
        "[{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", \"pid\": 1, \"tid\": 1, "
        "\"ts\": 1, \"dur\": 2, \"args\": {\n\"Input Dims\": [\n [\n  4,\n  8\n ],\n\t[8,2], [ "
        "]\n],\n\"Input type\": [\n \"a b\",\"c\"\n]}}]";
    struct test *t = *state;
    struct trace x;
    struct node *root;
    load(t, &x, text);
    assert_string_equal(trace_text(&x.dict, x.ranges[0].shapes), "[[4, 8], [8, 2], []]");
    assert_string_equal(trace_text(&x.dict, x.ranges[0].types), "[\"a b\", \"c\"]");
    trace_free(&x);
    assert_ok(trace_convert(test_path(t, "other.json"), trace_format_named("kineto"),
                            test_path(t, "again.json"), NULL, &t->e),
              t);
    assert_ok(json_load(t->a, test_path(t, "again.json"), NULL, &root, &t->e), t);
    load(t, &x,
         "[{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", \"ts\": 1, \"dur\": 2, "
         "\"args\": {\"Input Dims\": [[4,], 5]}}]");
    assert_string_equal(trace_text(&x.dict, x.ranges[0].shapes), "");
    assert_true(has_note(&x, "1 shapes or types are no JSON lists"));
    trace_free(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(odd_places_are_skipped_and_told),
        TEST(launches_of_other_runtimes_are_joined),
        TEST(the_process_is_the_one_that_launches),
        TEST(operators_are_found_by_their_ids),
        TEST(ranks_of_a_merged_file_are_apart),
        TEST(ranks_behind_pids_are_apart),
        TEST(texts_in_place_of_ids_are_apart),
        TEST(a_process_is_no_gpu),
        TEST(gpus_under_shifted_pids_are_apart),
        TEST(processes_that_count_alike_are_not_guessed),
        TEST(names_beyond_ascii_are_kept_apart),
        TEST(shapes_lose_the_white_space_of_printers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
