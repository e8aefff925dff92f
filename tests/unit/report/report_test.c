#include "report/report.h"

#include "support/fake_kernels.h"
#include "support/fake_run.h"
#include "support/fake_search.h"
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
        "!DOCTYPE", "html",  "head",  "meta",   "title",   "style",   "body",   "main",    "nav",
        "ol",       "ul",    "li",    "a",      "small",   "article", "header", "section", "p",
        "h1",       "h2",    "span",  "b",      "dl",      "dt",      "dd",     "div",     "table",
        "caption",  "thead", "tbody", "tr",     "th",      "td",      "svg",    "path",    "rect",
        "circle",   "line",  "text",  "figure", "details", "summary", "footer"};
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
    /* The scale of the error strips, from the limits. */
    assert_non_null(strstr(page, "twice the limit of warn, ±18 %;"));
}

/* Runs against runs, from elsewhere: whatever it holds stays text, also in attributes. */
static void hostile_runs_stay_text(void **state)
{
    struct test *t = *state;
    test_write(t, "cmp/run_meta.json", "{\"schema_version\": 1, \"run_type\": \"compare\"}");
    test_write(t, "cmp/compare.json",
               "{\"kind\": \"runs\", \"outcome\": \"<script>\", \"causes\": [3, {\"text\": [1]}],"
               " \"verdict\": \"<script>\", \"notes\": [\"<script>\", 7], \"spread_runs\": [1],"
               " \"settings\": [5, {\"name\": \"<script>\", \"a\": \"<script>\", \"b\": 1e300}],"
               " \"runs\": [{\"key\": \"a\", \"label\": \"\\\"><script>\", \"requests\": -1},"
               " {\"key\": \"b\", \"label\": \"b\", \"text\": [\"<script>\", null],"
               " \"metrics\": {\"ttft\": {\"percentiles\": {\"p50\": {\"value_ns\": \"<script>\","
               " \"interval_percent\": [\"<script>\", 1e308], \"verdict\": \"<script>\"}}}}},"
               " {\"key\": \"c\", \"label\": \"c\"}]}");
    const char *dir = test_path(t, "cmp");
    check_tags(report_on(t, &dir, 1));
    struct buf html = {0};
    test_write(t, "cmp/compare.json", "{\"kind\": \"runs\", \"runs\": [{}]}");
    assert_int_equal(report_artifacts(t->a, &dir, 1, &html, &t->e), ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 1), "runs: 1 of them, expected 2 to 8"));
}

/* As for a comparison with a simulation: the folder alone makes the same page. */
static void moved_runs_report_the_same(void **state)
{
    struct test *t = *state;
    struct ab x;
    struct artifact art;
    struct buf html = {0};
    struct fake_run a = fake_run_default("real"), b = a, c = a;
    b.base_s *= 1.2;
    c.no_tokens = c.no_batches = true;
    const char *dirs[] = {fake_run_write(t, "r1", &a), fake_run_write(t, "r2", &b),
                          fake_run_write(t, "r3", &c)};
    const struct ab_params p = {.dirs = dirs, .n = 3, .pass_percent = 5, .warn_percent = 9};
    assert_ok(ab_compare(t->a, &p, &x, &t->e), t);
    report_runs(t->a, &html, &x, compare_meta(t, "cmp_2"));
    assert_ok(artifact_begin(t->a, test_path(t, "cmp"), "run_meta.json", &art, &t->e), t);
    assert_ok(ab_write(&art, &x, &t->e), t);
    assert_ok(artifact_commit(&art, compare_meta(t, "cmp_2"), &t->e), t);
    assert_int_equal(rename(test_path(t, "cmp"), test_path(t, "moved")), 0);
    for (int i = 0; i < 3; i++)
        assert_ok(fs_remove_tree(dirs[i], &t->e), t);
    const char *dir = test_path(t, "moved");
    assert_string_equal(report_on(t, &dir, 1), buf_str(&html));
    assert_null(strstr(buf_str(&html), "simulation misses"));
    assert_non_null(strstr(buf_str(&html), "r2"));
    check_tags(buf_str(&html));
    buf_free(&html);
}

/* The headline of an inconclusive page is what stands in the way, and no other thing. */
static void the_headline_is_the_cause(void **state)
{
    struct test *t = *state;
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    real.waiting = 0.25;
    sim.base_s *= 1.5;
    const char *page = make_comparison(t, &real, &sim, "cmp_1");
    assert_non_null(strstr(page, "<h1>The machine was busy: the real run waited for cores 25 % of "
                                 "the time</h1>"));
    assert_null(strstr(page, "vary too much to tell"));
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
               "<tr><th class=\"wide\">mlp_up</th><td class=\"num\" data-head=\"points\">64</td>"
               "<td class=\"num\" data-head=\"samples\">5,120</td>"
               "<td class=\"num\" data-head=\"mean error\">2.1 %</td>"
               "<td class=\"num\" data-head=\"P90 error\">n/a</td></tr>"));
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
        {"<th class=\"wide\">Scheduling delay</th>", true, true, true},
        {"<dd>75 %</dd><dd class=\"small\">150 of 200 blocks</dd>", true, true, true},
    };
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
        const bool want[] = {wants[i].many, wants[i].one, wants[i].none};
        for (int k = 0; k < 3; k++)
            if ((strstr(pages[k], wants[i].text) != NULL) != want[k])
                fail_msg("'%s' is%s on page %d", wants[i].text, want[k] ? " not" : "", k);
    }
}

static void expect_on(const char *page, const char *const *wants)
{
    for (size_t i = 0; wants[i]; i++)
        if (!strstr(page, wants[i]))
            fail_msg("not on the page: %s", wants[i]);
}

/* Limits in the words of the objective, the percentile that it is about, the rate that was found.
 */
static void a_capacity_is_marked_in_its_plots(void **state)
{
    static const char *const wants[] = {">TTFT P90</text>",      ">E2E P90</text>",
                                        "class=\"y-label\">ms<", ">capacity 7.981</text>",
                                        ">asked for<",           "ttft &lt;= 500.0 ms",
                                        "<path class=\"mark\"",  NULL};
    struct test *t = *state;
    const char *dir = test_path(t, "cap");
    const struct fake_search f = {.id = "c", .model = "tiny", .text = HOSTILE};
    assert_ok(fake_capacity_write(t->a, dir, &f, &t->e), t);
    const char *page = report_on(t, &dir, 1);
    check_tags(page);
    expect_on(page, wants);
    assert_null(strstr(page, "P99</text>"));
    assert_null(strstr(page, "class=\"y-label\">s<"));
}

/* Configurations by their settings, and the front as the staircase that it is. */
static void a_search_names_configurations_by_settings(void **state)
{
    static const char *const wants[] = {">sarathi, tp 2</text>",
                                        ">sarathi, tp 1</text>",
                                        ">all others</text>",
                                        "<th class=\"wide\">sarathi, tp 2 <small>#4</small></th>",
                                        "<li>vllm, tp 3 and 1 more: ",
                                        "class=\"line s1 dot\"",
                                        NULL};
    struct test *t = *state;
    const char *dir = test_path(t, "search");
    const struct fake_search f = {.id = "s", .model = "tiny", .text = HOSTILE};
    assert_ok(fake_search_write(t->a, dir, &f, &t->e), t);
    const char *page = report_on(t, &dir, 1);
    check_tags(page);
    expect_on(page, wants);
    const char *front = strstr(strstr(page, "viewBox=\"0 0 400"), "<path class=\"line s0\" d=\"M");
    front = strstr(front + 1, "<path class=\"line s0\" d=\"M"); /* behind the legend's */
    assert_non_null(front);
    const char *path = strstr(front, " d=\"") + 4;
    assert_null(memchr(path, 'L', strcspn(path, "\"")));
    assert_non_null(memchr(path, 'V', strcspn(path, "\"")));
}

static void a_trace_shows_kernels_regions_and_gaps(void **state)
{
    static const char *const wants[] = {
        "<h2>Kernels</h2>",
        "<th class=\"wide\"><details class=\"name\"><summary>fwd_kernel</summary><span "
        "class=\"full\">"
        "void flash::fwd_kernel&lt;128&gt;(float*)</span></details></th>",
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
    assert_int_equal(trace_spool_open(&w, test_path(t, "trace/h-2.spool")), 0);
    trace_spool_add(&w, SPOOL_RANGES,
                    &(struct spool_range){.start_ns = 10, .end_ns = 9, .kind = SPOOL_PUSH_POP});
    assert_int_equal(trace_spool_close(&w), 0);
    assert_ok(report_artifacts(t->a, &dir, 1, &html, &t->e), t);
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++)
        if (!strstr(buf_str(&html), wants[i]))
            fail_msg("not on the page: %s", wants[i]);
    assert_null(strstr(buf_str(&html), "<script"));
    assert_null(strstr(buf_str(&html), "<b>"));
    buf_free(&html);
}

/* Where it went, how well its client kept its schedule, and what failed. */
static void a_run_over_http_shows_server_client_and_failures(void **state)
{
    static const char *const wants[] = {
        "Server: http://&lt;b&gt;:8000, which calls the model served",
        "<h2>The client</h2>",
        "</b> rejected</span> It did not keep its schedule",
        "<dd>12.50 ms</dd><dd class=\"small\">P50 210.0 µs, most 31.00 ms; limit 10.00 ms</dd>",
        "<dd class=\"small\">7 late, 0 dropped, 0 held back, 0 retried</dd>",
        "<h2>Failures</h2>",
        "12 of 160 requests did not end well",
        "<th class=\"wide\">http_503</th><td class=\"num\" data-head=\"requests\">12</td>",
        "&lt;/style&gt;&lt;script&gt;",
        NULL};
    struct test *t = *state;
    struct fake_run http = fake_run_default("real");
    const struct fake_run plain = fake_run_default("real");
    http.url = "http://<b>:8000";
    http.n_failed = 12;
    http.error_message = HOSTILE;
    const char *dirs[] = {fake_run_write(t, "http", &http), fake_run_write(t, "plain", &plain)};
    const char *page = report_on(t, dirs, 1), *without = report_on(t, dirs + 1, 1);
    check_tags(page);
    expect_on(page, wants);
    assert_null(strstr(without, "<h2>The client</h2>"));
    assert_null(strstr(without, "<h2>Failures</h2>"));
}

/* Names of metrics are a server's, and may be anything. */
static void a_servers_own_metrics_are_shown(void **state)
{
    static const char *const wants[] = {"<h2>The server&#39;s own metrics</h2>",
                                        "They are not of this run alone: &lt;/style&gt;",
                                        "First tokens are not split: &lt;/style&gt;",
                                        "<th class=\"wide\">TTFT</th>",
                                        "20.00 ms to 40.00 ms",
                                        "above 40.00 ms",
                                        "<th class=\"wide\">prompt tokens</th>",
                                        "100 to 200",
                                        "Prefix cache: 25 % of the prompts&#39; tokens were found.",
                                        "Preemptions: 3.",
                                        NULL};
    struct test *t = *state;
    const struct fake_run run = fake_run_default("real");
    const char *dir = fake_run_write(t, "real", &run);
    struct buf why = {0};
    json_quote(&why, SV(HOSTILE));
    test_write(
        t, "real/server_metrics.json",
        arena_printf(
            t->a,
            "{\"schema_version\": 1, \"url\": \"u\", \"server\": \"vllm\", \"alone\": false, "
            "\"why\": %s, \"client\": {\"requests\": 2, \"ttft_s\": 0.03, \"e2e_s\": 1}, "
            "\"histograms\": {\"ttft\": {\"metric\": %s, \"count\": 2, \"mean\": 0.025, "
            "\"p50\": [0.02, 0.04], \"p90\": [0.04, null]}, \"prompt_tokens\": {\"metric\": "
            "\"p\", \"count\": 2, \"mean\": 150.4, \"p50\": [100, 200], \"p90\": [100, 200]}}, "
            "\"counters\": {\"cache_queries\": {\"metric\": \"q\", \"value\": 400}, "
            "\"cache_hits\": {\"metric\": \"h\", \"value\": 100}, \"preemptions\": "
            "{\"metric\": \"x\", \"value\": 3}}}",
            buf_str(&why), buf_str(&why)));
    buf_free(&why);
    const char *page = report_on(t, &dir, 1);
    check_tags(page);
    expect_on(page, wants);
}

/* A run of `kernels` on a trace of node7, compared with one that is half as long; the traces are
 * gone. The folder's name. */
static const char *make_kernels(struct test *t)
{
    struct buf json = {0};
    test_write(t, "trace/run_meta.json",
               "{\"schema_version\": 1, \"run_type\": \"trace\", \"run_id\": \"t\", "
               "\"host\": {\"cpu\": \"EPYC\", \"nvidia_driver\": \"580.82.07\"}}");
    fake_spool_write(test_path(t, "trace/h-1.spool"),
                     &(struct fake_spool){.steps = 4, .host = "node7", .range = HOSTILE});
    test_write(t, "old/run_meta.json", "{}");
    fake_spool_write(test_path(t, "old/h-1.spool"), &(struct fake_spool){.steps = 2});
    assert_ok(fake_kernels(t->a, test_path(t, "trace"), test_path(t, "old"), &json, &t->e), t);
    test_write(t, "kernels/kernels.json", buf_str(&json));
    test_write(t, "kernels/run_meta.json",
               "{\"schema_version\": 1, \"run_type\": \"kernels\", \"host\": {\"cpu\": "
               "\"laptop\"}}");
    assert_ok(fs_remove_tree(test_path(t, "trace"), &t->e), t);
    assert_ok(fs_remove_tree(test_path(t, "old"), &t->e), t);
    buf_free(&json);
    return test_path(t, "kernels");
}

/* From kernels.json alone; the machine of the trace, not the one that read it. */
static void kernels_show_the_machine_that_was_recorded(void **state)
{
    static const char *const wants[] = {"<h2>The machine that was recorded</h2>",
                                        "<p>Recorded on node7: NVIDIA H200, 132 SMs</p>",
                                        "<th>Host</th><td>node7</td>",
                                        "<th>CUDA of the driver</th><td>13.0</td>",
                                        "<th>CUPTI</th><td>130001</td>",
                                        "<th>GPU 0</th><td>NVIDIA H200, 132 SMs</td>",
                                        "<th>NVIDIA driver</th><td>580.82.07</td>",
                                        "<th>Processor</th><td>EPYC</td>",
                                        "<h2>Operators</h2>",
                                        "<h2>Copies and sets</h2>",
                                        "[CUDA memcpy Host-to-Device]",
                                        "<h2>Before and after</h2>",
                                        "old. After: this trace.",
                                        "class=\"chart gantt\"",
                                        "<summary>fwd_kernel</summary><span class=\"full\">void "
                                        "flash::fwd_kernel&lt;128&gt;(float*)</span>",
                                        "50 %<svg class=\"bar\"",
                                        "width=\"50.0%\"",
                                        NULL};
    struct test *t = *state;
    const char *dir = make_kernels(t);
    const char *page = report_on(t, &dir, 1);
    check_tags(page);
    expect_on(page, wants);
    assert_null(strstr(page, "<th>Processor</th><td>laptop</td>"));
}

/* One member of kernels.json replaced. */
static void set_in_kernels(struct test *t, const char *path, const char *key, const char *value)
{
    struct node *tree, *v;
    struct buf json = {0};
    assert_ok(json_load(t->a, test_path(t, "kernels/kernels.json"), NULL, &tree, &t->e), t);
    assert_ok(json_parse(t->a, "v", sv_of(value), NULL, &v, &t->e), t);
    struct node *map = *path ? node_path(tree, path) : tree;
    node_set(t->a, map, sv_of(key), v);
    json_write(&json, tree, 2, true);
    test_write(t, "kernels/kernels.json", buf_str(&json));
    buf_free(&json);
}

/* What another program wrote stays text, and what is no picture is refused. */
static void a_kernels_json_from_elsewhere_does_no_harm(void **state)
{
    static const struct {
        const char *path, *key, *value, *error;
    } cases[] = {
        {"", "schema_version", "2", "schema_version: 2 is above the maximum 1"},
        {"", "kernels", "[{\"total_ns\": \"x\"}]",
         "kernels[0].total_ns: expected a number, got a string"},
        {"gantt", "lane", "[0]", "gantt: its columns are no picture"},
        {"gantt", "lanes", "[]", "gantt: its columns are no picture"},
        {"gantt", "span_ns", "0", "gantt.span_ns: 0 is below the minimum 1"},
    };
    struct test *t = *state;
    struct buf html = {0};
    const char *dir = make_kernels(t);
    set_in_kernels(t, "", "trace", "\"<script>\"");
    set_in_kernels(t, "", "notes", "[\"<script>\"]");
    set_in_kernels(t, "", "against", "\"<script>\"");
    set_in_kernels(t, "", "machine", "[{\"title\": \"<script>\", \"text\": \"<script>\"}]");
    set_in_kernels(t, "", "regions", "[{\"name\": \"<script>\", \"host_ms\": 1e308}]");
    set_in_kernels(t, "gantt", "lanes", "[\"<script>\", \"\", \"\", \"\", \"\", \"\"]");
    check_tags(report_on(t, &dir, 1));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_kernels(t);
        set_in_kernels(t, cases[i].path, cases[i].key, cases[i].value);
        err_clear(&t->e);
        assert_int_equal(report_artifacts(t->a, &dir, 1, &html, &t->e), ST_INPUT);
        if (!strstr(err_cause(&t->e, 1), cases[i].error))
            fail_msg("%s", err_cause(&t->e, 1));
        assert_non_null(strstr(err_hint_text(&t->e), "run twinfer kernels again"));
    }
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
         "runs of kernels, deep sessions, power logs and energies, workloads and bundles"},
        {"a/run_meta.json", "{\"schema_version\": 1, \"run_type\": \"trace\"}",
         "cannot report on DIR/a\n"
         "cannot read the trace DIR/a\n"
         "DIR/a: no trace in this folder\n"
         "hint: one of twinfer trace has *.spool files"},
        {"a/run_meta.json",
         "{\"schema_version\": 1, \"run_type\": \"kernels\", \"trace\": \"/nonexistent/trace\"}",
         "cannot report on DIR/a\n"
         "DIR/a: kernels.json is missing, which the page is made from\n"
         "hint: an earlier twinfer wrote the folder: run twinfer kernels again"},
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
        TEST(hostile_runs_stay_text),
        TEST(moved_runs_report_the_same),
        TEST(the_headline_is_the_cause),
        TEST(a_moved_comparison_reports_the_same),
        TEST(several_artifacts_get_a_table_of_contents),
        TEST(a_bundle_shows_its_operators),
        TEST(a_run_shows_its_load),
        TEST(a_capacity_is_marked_in_its_plots),
        TEST(a_search_names_configurations_by_settings),
        TEST(a_trace_shows_kernels_regions_and_gaps),
        TEST(a_servers_own_metrics_are_shown),
        TEST(a_run_over_http_shows_server_client_and_failures),
        TEST(kernels_show_the_machine_that_was_recorded),
        TEST(a_kernels_json_from_elsewhere_does_no_harm),
        TEST(a_damaged_series_is_named),
        TEST(what_cannot_be_reported_is_named),
        TEST(missing_and_incomplete_directories_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
