#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "support/fake_tokenizer.h"
#include "support/support.h"
#include "text/json.h"
#include "workload/workload.h"

static const struct prompt prompts[] = {
    {"p1", "plain"},
    {"p,2", "quotes \" and \\ and\nlines"},
    {"\xE2\x82\xAC", "\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E \xF0\x9F\x98\x80"},
};

static struct workload_params params(void)
{
    return (struct workload_params){.seed = 42,
                                    .num_requests = 20,
                                    .arrival_kind = ARRIVAL_GAMMA,
                                    .rate = 4,
                                    .burstiness = 0.5,
                                    .lengths_kind = LENGTHS_ZIPF,
                                    .min_tokens = 10,
                                    .max_tokens = 4000,
                                    .zipf_theta = 0.6,
                                    .prefill_decode_ratio = 3,
                                    .prompts = prompts,
                                    .n_prompts = 3};
}

/* Makes and commits a workload as <test folder>/name. */
static const char *write_workload(struct test *t, const char *name, const struct workload_params *p,
                                  struct workload *made)
{
    struct artifact art;
    const char *dir = test_path(t, name);
    assert_ok(workload_make(t->a, p, made, &t->e), t);
    assert_ok(artifact_begin(t->a, dir, WORKLOAD_META, &art, &t->e), t);
    assert_ok(workload_write(&art, made, p->prompts, p->n_prompts, NULL, &t->e), t);
    struct node *meta = workload_meta_node(
        t->a, &(struct workload_meta){.workload_id = name, .model = "tiny", .seed = p->seed});
    assert_ok(artifact_commit(&art, meta, &t->e), t);
    return dir;
}

/* The three data files are the same for ever, on every machine and compiler. */
static void bytes_are_deterministic(void **state)
{
    struct test *t = *state;
    static const char *const files[] = {"prompts.jsonl", "trace_lengths.csv",
                                        "trace_intervals.csv"};
    struct workload_params p = params();
    struct workload w;
    struct buf all = {0};
    const char *dir = write_workload(t, "w", &p, &w);
    for (int i = 0; i < 3; i++)
        buf_printf(&all, "== %s\n%s", files[i], test_read(t, fs_join(t->a, dir, files[i])));
    assert_golden(t, "workload/gamma_zipf.txt", ((struct sv){all.p, all.n}));
    buf_free(&all);
}

static void reads_what_was_written(void **state)
{
    struct test *t = *state;
    struct workload_params p = params();
    struct workload made, back;
    const char *dir = write_workload(t, "w", &p, &made);
    assert_ok(workload_load(t->a, dir, &back, &t->e), t);
    assert_string_equal(back.id, "w");
    assert_string_equal(back.dir, dir);
    assert_string_equal(back.model, "tiny");
    assert_int_equal(back.n, made.n);
    struct prompt *read;
    size_t n;
    const char **texts;
    assert_ok(prompts_load(t->a, back.prompts, &read, &n, &t->e), t);
    assert_ok(workload_texts(t->a, &back, read, n, &texts, &t->e), t);
    for (size_t i = 0; i < made.n; i++) {
        const struct workload_request *a = &made.requests[i], *b = &back.requests[i];
        assert_true(a->request_id == b->request_id && a->arrival_ns == b->arrival_ns &&
                    a->arrival_s == b->arrival_s &&
                    a->num_prefill_tokens == b->num_prefill_tokens &&
                    a->num_decode_tokens == b->num_decode_tokens);
        assert_string_equal(b->prompt_id, prompts[i % 3].id);
        assert_string_equal(texts[i], prompts[i % 3].text);
    }
}

static void a_workload_needs_no_prompts(void **state)
{
    struct test *t = *state;
    struct workload_params p = params();
    p.prompts = NULL;
    p.n_prompts = 0;
    struct workload made, back;
    const char *dir = write_workload(t, "w", &p, &made), **texts;
    assert_string_equal(test_read(t, fs_join(t->a, dir, "prompts.jsonl")), "");
    assert_ok(workload_load(t->a, dir, &back, &t->e), t);
    assert_null(back.requests[0].prompt_id);
    assert_ok(workload_texts(t->a, &back, NULL, 0, &texts, &t->e), t);
    assert_null(texts[0]);
}

static void the_meta_says_where_it_came_from(void **state)
{
    struct test *t = *state;
    struct node *n = workload_meta_node(t->a, &(struct workload_meta){.workload_id = "w_1",
                                                                      .model = "tiny",
                                                                      .tokenizer_ref = "data/tok",
                                                                      .seed = 7,
                                                                      .hydra.config_name = "w"});
    static const char *const keys[] = {
        "workload_id",           "model", "seed",  "tokenizer_ref", "created_at",
        "working_directory_git", "paths", "hydra", "params",        "tool"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        assert_non_null(node_find(n, keys[i]));
    assert_int_equal(n->n, sizeof keys / sizeof *keys);
    assert_string_equal(node_path(n, "paths.prompts")->s.p, "prompts.jsonl");
    assert_string_equal(node_path(n, "paths.trace_lengths")->s.p, "trace_lengths.csv");
    assert_string_equal(node_path(n, "paths.trace_intervals")->s.p, "trace_intervals.csv");
    assert_string_equal(node_path(n, "tokenizer_ref")->s.p, "data/tok");
    assert_int_equal(node_path(n, "seed")->i, 7);
    assert_int_equal(node_path(n, "hydra.config_path")->kind, NODE_NULL);
}

/* ---- bad directories --------------------------------------------------------------------- */

#define LENGTHS   "request_id,prompt_id,num_prefill_tokens,num_decode_tokens\n"
#define INTERVALS "request_id,inter_arrival_ns,arrival_time_ns\n"
#define META                                                                                  \
    "{\"schema_version\": 1, \"paths\": {\"prompts\": \"prompts.jsonl\", \"trace_lengths\": " \
    "\"trace_lengths.csv\", \"trace_intervals\": \"trace_intervals.csv\"}}"

static const struct bad {
    const char *meta, *lengths, *intervals, *error;
} bads[] = {
    {META, "", INTERVALS, "DIR/trace_lengths.csv: empty, expected a header line"},
    {META, LENGTHS, INTERVALS, "DIR/trace_lengths.csv: has a header and no rows"},
    {META, LENGTHS "0,,0,1\n", INTERVALS,
     "DIR/trace_lengths.csv:2:3: num_prefill_tokens: 0 is below the minimum 1"},
    {META, LENGTHS "0,,1,inf\n", INTERVALS,
     "DIR/trace_lengths.csv:2:4: num_decode_tokens: expected an integer, got 'inf'"},
    {META, LENGTHS "0,,1,3000000000\n", INTERVALS,
     "DIR/trace_lengths.csv:2:4: num_decode_tokens: 3000000000 is above the maximum 2147483647"},
    {META, LENGTHS "3,,1,1\n0,,1,1\n3,,1,1\n", INTERVALS,
     "DIR/trace_lengths.csv:4: request_id: 3 stands in line 2 already"},
    {META, "request_id,num_decode_tokens\n", INTERVALS,
     "DIR/trace_lengths.csv:1: no column 'num_prefill_tokens' among: request_id, "
     "num_decode_tokens\nhint: did you mean 'num_decode_tokens'?"},
    {META, LENGTHS "0,,1,1\n1,,1,1\n", INTERVALS "0,5,5\n",
     "DIR/trace_intervals.csv: request_id 1 of DIR/trace_lengths.csv has no row here"},
    {META, LENGTHS "0,,1,1\n", INTERVALS "0,5,5\n1,5,10\n",
     "DIR/trace_intervals.csv:3:1: request_id: 1 is not in DIR/trace_lengths.csv"},
    {META, LENGTHS "0,,1,1\n", INTERVALS "0,5,5\n0,5,10\n",
     "DIR/trace_intervals.csv:3:1: request_id: 0 comes twice"},
    {META, LENGTHS "0,,1,1\n1,,1,1\n", INTERVALS "0,5,5\n1,5,11\n",
     "DIR/trace_intervals.csv:3:3: arrival_time_ns: 11 is not the sum of the gaps: 5 before and "
     "inter_arrival_ns 5"},
    {META, LENGTHS "0,,1,1\n", INTERVALS "0,-5,5\n",
     "DIR/trace_intervals.csv:2:2: inter_arrival_ns: -5 is below the minimum 0"},
    {META, LENGTHS "0,,1,1\n1,,1,1\n",
     INTERVALS "0,9223372036854775807,9223372036854775807\n1,1,9223372036854775807\n",
     "DIR/trace_intervals.csv:3:3: arrival_time_ns: 9223372036854775807 is not the sum of the "
     "gaps: 9223372036854775807 before and inter_arrival_ns 1"},
    {"{\"schema_version\": 1}", LENGTHS, INTERVALS, "DIR/workload_meta.json:1:1: paths: missing"},
    {"{\"schema_version\": 1, \"paths\": {\"prompts\": \"p\", \"trace_lengths\": 5}}", LENGTHS,
     INTERVALS,
     "DIR/workload_meta.json:1:66: paths.trace_lengths: expected a string, got an integer"},
    {"{\"schema_version\": 1, \"paths\": {\"prompts\": \"..\", \"trace_lengths\": \"l\", "
     "\"trace_intervals\": \"i\"}}",
     LENGTHS, INTERVALS, "paths.prompts of the workload\nfile name '..' does not stay inside DIR"},
};

static void names_every_fault(void **state)
{
    struct test *t = *state;
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        struct workload w;
        test_write(t, "workload_meta.json", bads[i].meta);
        test_write(t, "trace_lengths.csv", bads[i].lengths);
        test_write(t, "trace_intervals.csv", bads[i].intervals);
        assert_err(workload_load(t->a, test_dir(t), &w, &t->e), ST_INPUT, t, bads[i].error);
    }
}

/* Meta files of the system this replaces hold whole paths; the files stand in the folder. */
static void only_the_name_of_a_path_counts(void **state)
{
    struct test *t = *state;
    struct workload w;
    test_write(t, "workload_meta.json",
               "{\"schema_version\": 1, \"paths\": {\"prompts\": \"/tmp/x/prompts.jsonl\", "
               "\"trace_lengths\": \"runs/a/trace_lengths.csv\", \"trace_intervals\": "
               "\"../trace_intervals.csv\"}}");
    test_write(t, "trace_lengths.csv", LENGTHS "7,,2,3\n4,,1,1\n");
    test_write(t, "trace_intervals.csv", INTERVALS "4,0,0\n7,5,5\n");
    assert_ok(workload_load(t->a, test_dir(t), &w, &t->e), t);
    assert_int_equal(w.requests[1].request_id, 7);
    assert_int_equal(w.requests[1].num_decode_tokens, 3);
}

static void a_link_out_of_the_folder_is_refused(void **state)
{
    struct test *t = *state;
    struct workload w;
    test_write(t, "workload_meta.json", META);
    test_write(t, "trace_intervals.csv", INTERVALS);
    assert_int_equal(symlink("/etc/passwd", test_path(t, "trace_lengths.csv")), 0);
    assert_err(workload_load(t->a, test_dir(t), &w, &t->e), ST_INPUT, t,
               "paths.trace_lengths of the workload\n"
               "file name 'trace_lengths.csv' is a link out of DIR");
}

static void missing_prompts_are_named(void **state)
{
    struct test *t = *state;
    struct workload w;
    const char **texts;
    test_write(t, "workload_meta.json", META);
    test_write(t, "trace_lengths.csv", LENGTHS "0,p1,1,1\n1,p2,1,1\n");
    test_write(t, "trace_intervals.csv", INTERVALS "0,0,0\n1,0,0\n");
    test_write(t, "prompts.jsonl", "{\"prompt_id\": \"p1\", \"text\": \"x\"}\n");
    assert_ok(workload_load(t->a, test_dir(t), &w, &t->e), t);
    struct prompt *read;
    size_t n;
    assert_ok(prompts_load(t->a, w.prompts, &read, &n, &t->e), t);
    assert_err(workload_texts(t->a, &w, read, n, &texts, &t->e), ST_INPUT, t,
               "prompt_id 'p2' of request 1 is not in DIR/prompts.jsonl");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bytes_are_deterministic),
        TEST(reads_what_was_written),
        TEST(a_workload_needs_no_prompts),
        TEST(the_meta_says_where_it_came_from),
        TEST(names_every_fault),
        TEST(only_the_name_of_a_path_counts),
        TEST(a_link_out_of_the_folder_is_refused),
        TEST(missing_prompts_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
