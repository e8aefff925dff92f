#include "report/report.h"

#include "support/fake_run.h"
#include "support/fake_spool.h"
#include "text/json.h"
#include "trace/spool.h"

#define HOSTILE "</style><script>x()</script><img src=x onerror=\"y('&')\">"

static struct compare_params *params_of(struct test *t, const char *real, const char *sim)
{
    struct compare_params *p = arena_one(t->a, struct compare_params);
    *p = (struct compare_params){
        .real_dir = real, .sim_dir = sim, .pass_percent = 5, .warn_percent = 9};
    return p;
}

static struct node *compare_meta(struct test *t, const char *id)
{
    struct node *meta = node_new(t->a, NODE_MAP);
    node_set(t->a, meta, SV("run_type"), node_str(t->a, "compare"));
    node_set(t->a, meta, SV("run_id"), node_str(t->a, id));
    return meta;
}

/* Compares two fakes into the folder "cmp" and returns the page made on the way. */
static const char *make_comparison(struct test *t, const struct fake_run *real,
                                   const struct fake_run *sim, const char *id)
{
    struct comparison c;
    struct artifact art;
    struct buf html = {0};
    const struct compare_params *p =
        params_of(t, fake_run_write(t, "real", real), fake_run_write(t, "sim", sim));
    assert_ok(compare_runs(t->a, p, &c, &t->e), t);
    assert_ok(artifact_begin(t->a, test_path(t, "cmp"), "run_meta.json", &art, &t->e), t);
    assert_ok(compare_write(&art, &c, &t->e), t);
    report_comparison(t->a, &html, &c, compare_meta(t, id));
    assert_ok(artifact_commit(&art, compare_meta(t, id), &t->e), t);
    const char *page = arena_str(t->a, buf_str(&html));
    buf_free(&html);
    return page;
}

static const char *report_on(struct test *t, const char *const *dirs, size_t n)
{
    struct buf html = {0};
    assert_ok(report_artifacts(t->a, dirs, n, &html, &t->e), t);
    const char *page = arena_str(t->a, buf_str(&html));
    buf_free(&html);
    return page;
}

/* Every tag of the page is one that page code writes; none carries what runs or loads something. */
static void check_tags(const char *html)
{
    static const char *const allowed[] = {
        "!DOCTYPE", "html",   "head",    "meta",   "title",   "style",   "body",
        "main",     "nav",    "ol",      "ul",     "li",      "a",       "small",
        "article",  "header", "section", "p",      "h1",      "h2",      "span",
        "b",        "dl",     "dt",      "dd",     "div",     "table",   "caption",
        "thead",    "tbody",  "tr",      "th",     "td",      "svg",     "path",
        "rect",     "circle", "text",    "figure", "details", "summary", "footer"};
    for (const char *p = html; (p = strchr(p, '<')); p++) {
        const char *name = p + 1 + (p[1] == '/');
        size_t n = strcspn(name, " >\n"), i = 0;
        while (i < sizeof allowed / sizeof *allowed &&
               (strlen(allowed[i]) != n || strncmp(allowed[i], name, n) != 0))
            i++;
        if (i == sizeof allowed / sizeof *allowed)
            fail_msg("the page has <%.*s", (int)n + 40, name);
        const char *end = strchr(p, '>');
        assert_non_null(end);
        for (const char *q = p; q < end; q++)
            if (strncmp(q, " on", 3) == 0 || strncmp(q, " style=", 7) == 0 ||
                strncmp(q, " src=", 5) == 0)
                fail_msg("a tag has%.30s", q);
    }
}

static void hostile_names_stay_text(void **state)
{
    struct test *t = *state;
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    real.run_id = real.model = real.prompt_id = HOSTILE;
    sim.model = HOSTILE;
    sim.base_s *= 1.5;
    const char *fresh = make_comparison(t, &real, &sim, HOSTILE);
    const char *dirs[] = {test_path(t, "cmp"), test_path(t, "real"), test_path(t, "sim")};
    const char *again = report_on(t, dirs, 3);
    check_tags(fresh);
    check_tags(again);
    assert_non_null(strstr(fresh, "&lt;/style&gt;&lt;script&gt;x()"));
    assert_non_null(strstr(again, "&lt;/style&gt;&lt;script&gt;x()"));
}

/* A compare.json from elsewhere may say anything anywhere. */
static void a_hostile_comparison_stays_text(void **state)
{
    struct test *t = *state;
    test_write(t, "cmp/run_meta.json",
               "{\"schema_version\": 1, \"run_type\": \"compare\", \"run_id\": \"<script>\"}");
    test_write(t, "cmp/compare.json",
               "{\"alignment\": {\"aligned\": 1e300}, \"limits\": {\"pass_percent\": \"<script>\"},"
               " \"verdict\": \"<script>\", \"notes\": [\"<script>\", 7, null],"
               " \"spread_runs\": [\"<script>\"], \"sim\": {\"meta\": [1]},"
               " \"metrics\": {\"ttft\": {\"real_n\": -1e300, \"percentiles\": {\"p50\":"
               " {\"verdict\": \"pass\", \"why\": \"<script>\", \"real_ns\": 1e308, \"sim_ns\": 1,"
               " \"error_percent\": -1e308, \"real_interval_ns\": [1e308, \"<script>\"]}}}},"
               " \"diagnosis\": {\"findings\": [\"<script>\"], \"parts\": [{\"name\": \"<script>\","
               " \"share\": \"<script>\", \"real\": 5}]},"
               " \"real\": {\"meta\": {\"<script>\": \"<script>\", \"model\": \"<script>\"}}}");
    const char *dir = test_path(t, "cmp");
    check_tags(report_on(t, &dir, 1));
}

static void the_page_allows_no_scripts(void **state)
{
    struct test *t = *state;
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    const char *page = make_comparison(t, &real, &sim, "cmp_1");
    assert_non_null(strstr(page, "http-equiv=\"Content-Security-Policy\" content=\"default-src "
                                 "'none';"));
    assert_non_null(strstr(page, "name=\"viewport\""));
    assert_non_null(strstr(page, "The simulation matches the real run"));
    assert_non_null(strstr(page, "160 requests, 1,000 needed"));
}

/* The runs are gone, the folder has moved: the page is the same to the byte. */
static void a_moved_comparison_reports_the_same(void **state)
{
    struct test *t = *state;
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    sim.sequence_s *= 1.5;
    const char *fresh = make_comparison(t, &real, &sim, "cmp_1");
    assert_ok(fs_remove_tree(test_path(t, "real"), &t->e), t);
    assert_ok(fs_remove_tree(test_path(t, "sim"), &t->e), t);
    assert_int_equal(rename(test_path(t, "cmp"), test_path(t, "moved")), 0);
    const char *dir = test_path(t, "moved");
    const char *again = report_on(t, &dir, 1);
    size_t same = 0;
    while (again[same] && again[same] == fresh[same])
        same++;
    if (again[same] != fresh[same])
        fail_msg("the pages differ: fresh %.200s\n--- again %.200s", fresh + same, again + same);
}

static void several_artifacts_get_a_table_of_contents(void **state)
{
    struct test *t = *state;
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    real.run_id = "real_1";
    make_comparison(t, &real, &sim, "cmp_1");
    const char *dirs[] = {test_path(t, "real"), test_path(t, "cmp")};
    const char *page = report_on(t, dirs, 2);
    assert_non_null(strstr(page, "<li><a href=\"#part-1\">Run real_1</a> <small>real, 160 "
                                 "requests</small></li>\n"
                                 "<li><a href=\"#part-2\">Comparison cmp_1</a> <small>pass, 160 "
                                 "requests</small></li>\n"));
    assert_non_null(strstr(page, "<article id=\"part-2\">"));
}

static void a_bundle_shows_its_operators(void **state)
{
    struct test *t = *state;
    test_write(t, "tiny/bundle_meta.json",
               "{\"schema_version\": 1, \"run_type\": \"vidur_profile\", \"model\": \"tiny\","
               " \"operators\": {\"mlp_up\": {\"points\": 64, \"samples\": 5120, \"loo_error\":"
               " 0.021, \"loo_error_p90\": null}}}");
    const char *dir = test_path(t, "tiny");
    assert_non_null(
        strstr(report_on(t, &dir, 1),
               "<tr><th>mlp_up</th><td class=\"num\">64</td><td class=\"num\">5,120</td>"
               "<td class=\"num\">2.1 %</td><td class=\"num\">n/a</td></tr>"));
}

/* What time_series.csv and batches.csv tell, and nothing of it where they are absent. */
static void a_run_shows_its_load(void **state)
{
    struct test *t = *state;
    struct fake_run many = fake_run_default("vidur"), one = many, none = many;
    many.series_replicas = 3;
    one.series_replicas = 1;
    none.no_batches = true;
    const char *dirs[] = {fake_run_write(t, "many", &many), fake_run_write(t, "one", &one),
                          fake_run_write(t, "none", &none)};
    const char *pages[3];
    for (int i = 0; i < 3; i++) {
        pages[i] = report_on(t, &dirs[i], 1);
        check_tags(pages[i]);
    }
    static const struct {
        const char *text;
        bool many, one, none;
    } wants[] = {
        {"<h2>Over time</h2>", true, true, false},
        {"Requests running, by replica", true, false, false},
        {">replica 2<", true, false, false},
        {"longest queue of one", true, false, false},
        {"% of the blocks", true, true, false},
        {">Tokens computed<", true, true, false},
        {">Power<", true, true, false},
        {">Busy<", true, true, false},
        {"of 3 replicas together", true, false, false},
        {"<h2>Iterations</h2>", true, true, false},
        {"<th>Scheduling delay</th>", true, true, true},
        {"<dd>75 %</dd><dd class=\"small\">150 of 200 blocks</dd>", true, true, true},
    };
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
        const bool want[] = {wants[i].many, wants[i].one, wants[i].none};
        for (int k = 0; k < 3; k++)
            if ((strstr(pages[k], wants[i].text) != NULL) != want[k])
                fail_msg("'%s' is%s on page %d", wants[i].text, want[k] ? " not" : "", k);
    }
}

static void a_trace_shows_kernels_regions_and_gaps(void **state)
{
    static const char *const wants[] = {
        "<h2>Kernels</h2>",
        "<th class=\"wide\">void flash::fwd_kernel&lt;128&gt;(float*)</th><td class=\"num\">50.0 %",
        "<h2>Regions</h2>",
        "&lt;/style&gt;&lt;script&gt;",
        "<h2>Busy and idle</h2>",
        "<h2>Launch gaps</h2>",
        "class=\"chart gantt\"",
        "the process was killed, or still runs",
        "Left out for times that cannot be: 1 range",
    };
    struct test *t = *state;
    struct buf html = {0};
    const char *dir = test_path(t, "trace");
    struct spool_writer w;
    test_write(t, "trace/run_meta.json",
               "{\"schema_version\": 1, \"run_type\": \"trace\", \"run_id\": \"trace_1\", "
               "\"command\": [\"python3\", \"<b>\"]}");
    fake_spool_write(test_path(t, "trace/h-1.spool"),
                     &(struct fake_spool){.steps = 3, .killed = true, .range = HOSTILE});
    assert_int_equal(spool_open(&w, test_path(t, "trace/h-2.spool")), 0);
    spool_add(&w, SPOOL_RANGES,
              &(struct spool_range){.start_ns = 10, .end_ns = 9, .kind = SPOOL_PUSH_POP});
    assert_int_equal(spool_close(&w), 0);
    assert_ok(report_artifacts(t->a, &dir, 1, &html, &t->e), t);
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++)
        if (!strstr(buf_str(&html), wants[i]))
            fail_msg("not on the page: %s", wants[i]);
    assert_null(strstr(buf_str(&html), "<script"));
    assert_null(strstr(buf_str(&html), "<b>"));
    buf_free(&html);
}

static void a_damaged_series_is_named(void **state)
{
    struct test *t = *state;
    struct buf html = {0};
    const struct fake_run run = fake_run_default("real");
    const char *dir = fake_run_write(t, "run", &run);
    test_write(t, "run/time_series.csv", "time_ns\n1\n");
    assert_int_equal(report_artifacts(t->a, &dir, 1, &html, &t->e), ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 1), "time_series.csv:1: no column 'duration_ns'"));
}

static void what_cannot_be_reported_is_named(void **state)
{
    struct test *t = *state;
    struct buf html = {0};
    const struct {
        const char *file, *text, *want;
    } cases[] = {
        {"a/run_meta.json", "{\"schema_version\": 1, \"run_type\": \"capture\"}",
         "cannot report on DIR/a\n"
         "DIR/a: there is no page for a \"capture\" artifact\n"
         "hint: report takes comparisons, real and simulated runs, capacities, searches, traces, "
         "runs of kernels, workloads and bundles"},
        {"a/run_meta.json", "{\"schema_version\": 1, \"run_type\": \"trace\"}",
         "cannot report on DIR/a\n"
         "cannot read the trace DIR/a\n"
         "DIR/a: no trace in this folder"},
        {"a/run_meta.json",
         "{\"schema_version\": 1, \"run_type\": \"kernels\", \"trace\": \"/nonexistent/trace\"}",
         "cannot report on DIR/a\n"
         "DIR/a: the page is made from the trace that its run_meta.json names\n"
         "cannot read the trace /nonexistent/trace\n"
         "cannot open /nonexistent/trace: No such file or directory\n"
         "hint: run the report in the folder where twinfer kernels ran"},
        {"a/run_meta.json", "{\"schema_version\": 1, \"run_type\": \"compare\"}",
         "cannot report on DIR/a\n"
         "cannot open DIR/a/compare.json: No such file or directory"},
        {"a/compare.json", "{\"metrics\": {}, \"alignment\": []}",
         "cannot report on DIR/a\n"
         "DIR/a/compare.json:1:30: alignment: expected a map, got a list"},
        {"a/compare.json", "{\"alignment\": {}}",
         "cannot report on DIR/a\n"
         "DIR/a/compare.json:1:1: limits: missing"},
        {"a/run_meta.json", "{\"schema_version\": 1, \"run_type\": \"real\"}",
         "cannot report on DIR/a\n"
         "cannot open DIR/a/request_metrics.csv: No such file or directory"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_write(t, cases[i].file, cases[i].text);
        const char *dir = test_path(t, "a");
        err_clear(&t->e);
        assert_err(report_artifacts(t->a, &dir, 1, &html, &t->e), ST_INPUT, t, cases[i].want);
        assert_int_equal(html.n, 0);
    }
    err_clear(&t->e); /* "DIR" in this hint is meant as it stands: no assert_err */
    assert_int_equal(report_artifacts(t->a, NULL, 0, &html, &t->e), ST_USAGE);
    assert_string_equal(err_cause(&t->e, 0), "report: no artifact directory given");
    assert_string_equal(err_hint_text(&t->e), "name them in report.inputs=DIR[,DIR...]");
}

static void missing_and_incomplete_directories_are_named(void **state)
{
    struct test *t = *state;
    struct buf html = {0};
    const char *dir = test_path(t, "nowhere");
    assert_int_equal(report_artifacts(t->a, &dir, 1, &html, &t->e), ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 1), "nowhere"));
    test_write(t, "half/request_metrics.csv", "x\n");
    dir = test_path(t, "half");
    err_clear(&t->e);
    assert_int_equal(report_artifacts(t->a, &dir, 1, &html, &t->e), ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 1), "half"));
    assert_non_null(strstr(err_cause(&t->e, 1), "incomplete"));
    assert_int_equal(html.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(hostile_names_stay_text),
        TEST(a_hostile_comparison_stays_text),
        TEST(the_page_allows_no_scripts),
        TEST(a_moved_comparison_reports_the_same),
        TEST(several_artifacts_get_a_table_of_contents),
        TEST(a_bundle_shows_its_operators),
        TEST(a_run_shows_its_load),
        TEST(a_trace_shows_kernels_regions_and_gaps),
        TEST(a_damaged_series_is_named),
        TEST(what_cannot_be_reported_is_named),
        TEST(missing_and_incomplete_directories_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
