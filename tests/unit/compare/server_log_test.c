/* Settings of a simulation that the log of the real run's server contradicts. */
#include "compare/intern.h"
#include "support/support.h"
#include "text/json.h"

#define ENGINE "INFO Initializing a V1 LLM engine (v0.24.0) with config: "

/* The note of a run whose server wrote `log`, beside a simulation of that meta; NULL = none. */
static const char *told(struct test *t, const char *log, const char *meta)
{
    struct comparison c = {.real.dir = test_dir(t)};
    struct notes notes = {.a = t->a};
    struct node *doc;
    const char *const *all;
    test_write(t, "server.log", log);
    assert_ok(json_parse(t->a, "run_meta.json", sv_of(meta), NULL, &doc, &t->e), t);
    c.sim.meta = doc;
    assert_ok(compare_tell_server_log(t->a, &c, &notes, &t->e), t);
    const size_t n = compare_notes_end(&notes, &all);
    assert_true(n <= 1);
    return n ? all[0] : NULL;
}

static void contradictions_are_told_with_their_lines(void **state)
{
    struct test *t = *state;
    static const char log[] =
        "INFO non-default args: {'max_num_seqs': 64}\n" ENGINE
        "tensor_parallel_size=2, data_parallel_size=2, max_seq_len=2048, "
        "enable_prefix_caching=True, x=()\nINFO Asynchronous scheduling is disabled.\n";
    static const char meta[] =
        "{\"params\": {\"parallel\": {\"tp\": 2}, \"cluster\": {\"replicas\": 1}, \"scheduler\": "
        "{\"batch_cap\": 32, \"max_model_len\": 2048, \"prefix_caching\": false, "
        "\"async_scheduling\": \"overlap\"}}}";
    assert_string_equal(
        told(t, log, meta),
        arena_printf(t->a,
                     "The other run has settings that %s contradicts: cluster.replicas=1 (line 2: "
                     "data_parallel_size 2), scheduler.batch_cap=32 (line 1: max_num_seqs 64), "
                     "scheduler.prefix_caching=false (line 2: enable_prefix_caching true), "
                     "scheduler.async_scheduling=overlap (line 3: async_scheduling false).",
                     test_path(t, "server.log")));
}

static void what_agrees_or_is_open_is_not_told(void **state)
{
    struct test *t = *state;
    static const char log[] = ENGINE "tensor_parallel_size=2, x=()\n"
                                     "INFO Asynchronous scheduling is enabled.\n"
                                     "INFO Chunked prefill is enabled with "
                                     "max_num_batched_tokens=2048.\n";
    assert_null(told(t, log,
                     "{\"params\": {\"parallel\": {\"tp\": 2}, \"scheduler\": {\"token_budget\": "
                     "0, \"async_scheduling\": \"serial\"}}}"));
    assert_null(told(t, log, "{\"params\": {}}"));
    assert_null(told(t, "INFO no engine\n", "{\"params\": {\"parallel\": {\"tp\": 4}}}"));
}

/* scheduler.cuda_graphs=auto is what the run_meta.json says was simulated. */
static void graphs_are_those_that_were_simulated(void **state)
{
    struct test *t = *state;
    static const char meta[] = "{\"params\": {\"scheduler\": {\"cuda_graphs\": \"auto\"}}, "
                               "\"iteration_model\": {\"cuda_graphs\": \"full_and_piecewise\"}}";
    static const char graphs[] = "compilation_config={'cudagraph_mode': <CUDAGraphMode.%s: 1>}\n";
    const char *path = test_path(t, "server.log");
    const char *log = arena_printf(t->a, ENGINE "%s", arena_printf(t->a, graphs, "PIECEWISE"));
    assert_string_equal(told(t, log, meta),
                        arena_printf(t->a,
                                     "The other run has settings that %s contradicts: "
                                     "scheduler.cuda_graphs=full_and_piecewise (line 1: "
                                     "cudagraph_mode piecewise).",
                                     path));
    log = arena_printf(t->a, ENGINE "enforce_eager=True, %s",
                       arena_printf(t->a, graphs, "FULL_AND_PIECEWISE"));
    assert_string_equal(told(t, log, meta),
                        arena_printf(t->a,
                                     "The other run has settings that %s contradicts: "
                                     "scheduler.cuda_graphs=full_and_piecewise (line 1: "
                                     "cudagraph_mode none).",
                                     path));
    log = arena_printf(t->a, ENGINE "%s", arena_printf(t->a, graphs, "FULL_AND_PIECEWISE"));
    assert_null(told(t, log, meta));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(contradictions_are_told_with_their_lines),
        TEST(what_agrees_or_is_open_is_not_told),
        TEST(graphs_are_those_that_were_simulated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
