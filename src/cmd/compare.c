#include "compare/compare.h"

#include "base/clock.h"
#include "cmd/commands.h"
#include "config/override.h"
#include "job/job.h"
#include "report/report.h"
#include "text/document.h"

/* Result of either kind of comparison. */
struct compare_result {
    struct comparison *pair; /* NULL = runs */
    struct ab *runs;
};

static enum verdict verdict_of(const struct compare_result *r)
{
    return r->pair ? r->pair->verdict : r->runs->verdict;
}

static struct node *strings(struct arena *a, const char *const *s, size_t n)
{
    struct node *list = node_new(a, NODE_LIST);
    for (size_t i = 0; i < n; i++)
        node_push(a, list, node_str(a, s[i]));
    return list;
}

static struct node *meta_node(struct job_context *c, const char *id, const struct compare_result *r,
                              const struct artifact *art)
{
    struct arena *a = c->a;
    struct node *extra = node_new(a, NODE_MAP);
    const struct run *first = r->pair ? &r->pair->real : &r->runs->runs[0].run;
    const struct compare_reason *reason = r->pair ? r->pair->reasons : r->runs->reasons;
    if (r->pair) {
        node_set(a, extra, SV("real_run_dir"), node_str(a, r->pair->params.real_dir));
        node_set(a, extra, SV("sim_run_dir"), node_str(a, r->pair->params.sim_dir));
    } else {
        node_set(a, extra, SV("runs"), strings(a, r->runs->params.dirs, r->runs->params.n));
    }
    node_set(a, extra, SV("verdict"), node_str(a, verdict_name(verdict_of(r))));
    if (verdict_of(r) == VERDICT_INCONCLUSIVE)
        node_set(a, extra, SV("cause"), node_str(a, cause_id(reason[0].cause)));
    const struct node *model = node_find(first->meta, "model");
    struct run_meta meta = job_meta(c, art, id, "compare");
    meta.model = model && model->kind == NODE_STR ? model->s.p : NULL;
    meta.extra = extra;
    return run_meta_node(a, &meta);
}

/* "next: open DIR/report.html" */
static void add_open(struct buf *out, const char *dir)
{
    struct arena *a = arena_new();
    buf_puts(out, "next: open ");
    buf_word(out, fs_join(a, dir, "report.html"));
    arena_free(&a);
}

/* Adds the next step after the verdict. */
static void add_next(struct buf *out, const char *dir, const struct comparison *x)
{
    if (x->verdict == VERDICT_INCONCLUSIVE)
        buf_printf(out, "next: %s\n", cause_remedy(x->reasons[0].cause));
    else if (x->verdict != VERDICT_PASS && x->params.n_spread == 0)
        buf_puts(out, "next: run the real side again (repeat=1, repeat=2) and add "
                      "spread=[DIR,DIR]: is the difference more than it varies by itself?\n");
    else {
        const char *const pages[] = {dir, x->params.real_dir, x->params.sim_dir};
        add_open(out, dir);
        buf_puts(out, "; twinfer report ");
        override_list_word(out, "report.inputs", pages, 3);
        buf_puts(out, " out=DIR has both runs on one page with it\n");
    }
}

static void print(struct job_context *c, struct node *map, const char *dir, struct buf *text)
{
    node_set(c->a, map, SV("out"), node_str(c->a, dir));
    job_result(c, map, buf_str(text));
    buf_free(text);
}

static void print_pair(struct job_context *c, const char *dir, const struct comparison *x)
{
    struct buf text = {0};
    table_text(&text, compare_table(c->a, x));
    for (size_t i = 0; i < x->n_notes; i++)
        buf_printf(&text, "note: %s\n", x->notes[i]);
    for (size_t i = 0; i < x->path.n_lines; i++)
        buf_printf(&text, "http path: %s\n", x->path.lines[i]);
    for (size_t i = 0; i < x->energy.n_lines; i++)
        buf_printf(&text, "energy: %s\n", x->energy.lines[i]);
    for (size_t i = 0; i < x->n_findings; i++)
        buf_printf(&text, "finding: %s\n", x->findings[i]);
    buf_printf(&text, "requests compared: %zu\nreport: %s/report.html\n", x->n_aligned, dir);
    add_next(&text, dir, x);
    buf_printf(&text, "verdict: %s\n", compare_outcome(c->a, x));
    print(c, compare_node(c->a, x), dir, &text);
}

static void print_runs(struct job_context *c, const char *dir, const struct ab *x)
{
    struct buf text = {0};
    const struct ab shown = ab_shown(c->a, x);
    document_text(&text, ab_document(c->a, &shown, "Comparison of runs"));
    buf_putc(&text, '\n');
    buf_printf(&text, "report: %s/report.html\n", dir);
    if (x->verdict == VERDICT_INCONCLUSIVE)
        buf_printf(&text, "next: %s\n", cause_remedy(x->reasons[0].cause));
    else {
        add_open(&text, dir);
        buf_puts(&text, ": the runs laid over each other\n");
    }
    buf_printf(&text, "%s: %s\n", x->params.gate == AB_GATE_NONE ? "result" : "verdict",
               x->outcome);
    print(c, ab_node(c->a, x), dir, &text);
}

static enum st compare_pair(struct job_context *c, struct comparison *x, struct err *e)
{
    const struct plan *p = c->plan;
    const struct compare_params params = {
        .real_dir = p->compare.real_run_dir,
        .sim_dir = p->compare.sim_run_dir,
        .iteration_log = p->compare.iteration_log,
        .spread_dirs = p->compare.spread.items,
        .n_spread = p->compare.spread.n,
        .include_token0 = p->compare.token0 == 1,
        .core_only = p->compare.cells == 0,
        .pass_percent = p->compare.pass_percent,
        .warn_percent = p->compare.warn_percent,
    };
    return compare_runs(c->a, &params, x, e);
}

static enum st compare_ab(struct job_context *c, const char *const *dirs, size_t n, struct ab *x,
                          struct err *e)
{
    const struct plan *p = c->plan;
    const struct ab_params params = {
        .dirs = dirs,
        .n = n,
        .spread_dirs = p->compare.spread.items,
        .n_spread = p->compare.spread.n,
        .include_token0 = p->compare.token0 == 1,
        .core_only = p->compare.cells == 0,
        .gate = p->compare.gate == 1 ? AB_GATE_SLOWER : AB_GATE_NONE,
        .pass_percent = p->compare.pass_percent,
        .warn_percent = p->compare.warn_percent,
    };
    return ab_compare(c->a, &params, x, e);
}

static enum st hint_at_runs(struct err *e)
{
    return err_hint(e, "a run is a folder that twinfer bench or simulate wrote: out=, or below "
                       "runs/real and runs/sim");
}

/* Compares runs=, or two folders: a real run and its simulation, or two of a kind. */
static enum st compare_what(struct job_context *c, struct compare_result *r, struct err *e)
{
    const struct plan *p = c->plan;
    const char *real = p->compare.real_run_dir, *sim = p->compare.sim_run_dir;
    enum compare_pair pair;
    if (p->compare.runs.n) {
        const struct texts *runs = &p->compare.runs;
        r->pair = NULL;
        enum st st = compare_ab(c, runs->items, runs->n, r->runs, e);
        for (size_t i = 0; st == ST_INPUT && i < runs->n; i++)
            if (!fs_exists(runs->items[i]))
                return hint_at_runs(e);
        return st;
    }
    if (!real || !sim) {
        err_set(e, ST_USAGE, "%s is not set", real ? "sim_run_dir" : "real_run_dir");
        return err_hint(e, "compare takes two run directories: real_run_dir= and sim_run_dir=");
    }
    if (compare_sides(c->a, real, sim, &pair, e) != ST_OK)
        return fs_exists(real) && fs_exists(sim) ? e->st : hint_at_runs(e);
    if (pair == PAIR_RUNS) {
        const char **dirs = arena_array(c->a, const char *, 2);
        dirs[0] = real, dirs[1] = sim;
        r->pair = NULL;
        return compare_ab(c, dirs, 2, r->runs, e);
    }
    if (p->compare.gate) {
        err_set(e, ST_USAGE, "compare.gate judges runs of one kind, and these are not");
        return err_hint(e, "a simulation is judged without it");
    }
    return compare_pair(c, r->pair, e);
}

static enum st write_all(const struct artifact *art, const struct compare_result *r,
                         const struct node *meta, struct err *e)
{
    struct buf html = {0};
    enum st st;
    if (r->pair) {
        report_comparison(art->a, &html, r->pair, meta);
        st = compare_write(art, r->pair, e);
    } else {
        report_runs(art->a, &html, r->runs, meta);
        st = ab_write(art, r->runs, e);
    }
    if (st == ST_OK)
        st = artifact_write(art, "report.html", &html, e);
    buf_free(&html);
    return st;
}

static enum st compare(struct job_context *c, struct compare_result *r, struct err *e)
{
    TRY(compare_what(c, r, e));
    const char *id, *dir = job_out_dir(c, "comparisons", &id);
    struct artifact art;
    TRY(artifact_begin(c->a, dir, "run_meta.json", &art, e));
    struct node *meta = meta_node(c, id, r, &art);
    enum st st = write_all(&art, r, meta, e);
    if (st == ST_OK)
        st = job_snapshot(c, &art, e);
    if (st == ST_OK)
        st = artifact_commit(&art, meta, e);
    if (st != ST_OK) {
        artifact_discard(&art);
        return st;
    }
    if (r->pair)
        print_pair(c, dir, r->pair);
    else
        print_runs(c, dir, r->runs);
    return ST_OK;
}

static int run_compare(struct job_context *c, struct err *e)
{
    struct compare_result r = {arena_one(c->a, struct comparison), arena_one(c->a, struct ab)};
    if (compare(c, &r, e) != ST_OK) {
        err_add(e, "compare");
        return err_exit_code(e->st);
    }
    return verdict_exit_code(verdict_of(&r));
}

const struct cmd cmd_compare = {
    .id = COMMAND_COMPARE,
    .columns = "verdict",
    .summary = "say how far a simulated run is from the real one, or runs from each other",
    .about = "Percentiles of TTFT, per-token latency, TPOT and E2E side by side. A simulation of a "
             "real run gets a verdict: exit code 1 when it is fail, 5 when it is inconclusive. Two "
             "runs of one kind, or those of runs=, get differences with 95 % intervals instead, "
             "and a verdict only with compare.gate.",
    .example = "twinfer compare real_run_dir=runs/real/a sim_run_dir=runs/sim/b",
    .run = run_compare,
};
