#include "compare/compare.h"

#include "base/clock.h"
#include "cmd/commands.h"
#include "cmd/job.h"
#include "report/report.h"

static enum st write_file(const struct artifact *art, const char *name, const struct buf *text,
                          struct err *e)
{
    FILE *f;
    TRY(artifact_create_file(art, name, &f, e));
    fwrite(buf_str(text), 1, text->n, f);
    return artifact_close_file(art, name, &f, e);
}

static struct node *meta_node(struct cmd_context *c, const char *id, const struct comparison *x,
                              const struct artifact *art)
{
    struct arena *a = c->a;
    struct node *extra = node_new(a, NODE_MAP);
    node_set(a, extra, SV("real_run_dir"), node_str(a, c->plan->compare.real_run_dir));
    node_set(a, extra, SV("sim_run_dir"), node_str(a, c->plan->compare.sim_run_dir));
    node_set(a, extra, SV("verdict"), node_str(a, verdict_name(x->verdict)));
    const struct node *model = node_find(x->real.meta, "model");
    struct run_meta meta = job_meta(c, art, id, "compare");
    meta.model = model && model->kind == NODE_STR ? model->s.p : NULL;
    meta.extra = extra;
    return run_meta_node(a, &meta);
}

static void print_text(struct cmd_context *c, const char *dir, const struct comparison *x)
{
    struct buf text = {0};
    table_text(&text, compare_table(c->a, x));
    for (size_t i = 0; i < x->n_notes; i++)
        buf_printf(&text, "note: %s\n", x->notes[i]);
    for (size_t i = 0; i < x->path.n_lines; i++)
        buf_printf(&text, "http path: %s\n", x->path.lines[i]);
    for (size_t i = 0; i < x->n_findings; i++)
        buf_printf(&text, "finding: %s\n", x->findings[i]);
    buf_printf(&text, "requests compared: %zu\nverdict: %s\nreport: %s/report.html\n", x->n_aligned,
               verdict_name(x->verdict), dir);
    fputs(buf_str(&text), stdout);
    buf_free(&text);
}

static enum st compare(struct cmd_context *c, struct comparison *x, struct err *e)
{
    const struct plan *p = c->plan;
    if (!p->compare.real_run_dir || !p->compare.sim_run_dir) {
        err_set(e, ST_USAGE, "%s is not set",
                p->compare.real_run_dir ? "sim_run_dir" : "real_run_dir");
        return err_hint(e, "compare takes two run directories: real_run_dir= and sim_run_dir=");
    }
    struct compare_params params = {
        .real_dir = p->compare.real_run_dir,
        .sim_dir = p->compare.sim_run_dir,
        .spread_dirs = p->compare.spread.items,
        .n_spread = p->compare.spread.n,
        .include_token0 = p->compare.token0 == 1,
        .core_only = p->compare.cells == 0,
        .pass_percent = p->compare.pass_percent,
        .warn_percent = p->compare.warn_percent,
    };
    TRY(compare_runs(c->a, &params, x, e));
    const char *id, *dir = job_out_dir(c, "comparisons", &id);
    struct artifact art;
    TRY(artifact_begin(c->a, dir, "run_meta.json", &art, e));
    struct node *meta = meta_node(c, id, x, &art);
    struct buf html = {0};
    report_comparison(c->a, &html, x, meta);
    enum st st = compare_write(&art, x, e);
    if (st == ST_OK)
        st = write_file(&art, "report.html", &html, e);
    buf_free(&html);
    if (st == ST_OK)
        st = job_snapshot(c, &art, e);
    if (st == ST_OK)
        st = artifact_commit(&art, meta, e);
    if (st != ST_OK) {
        artifact_discard(&art);
        return st;
    }
    if (c->json) {
        job_print(c, compare_node(c->a, x));
    } else {
        print_text(c, dir, x);
    }
    return ST_OK;
}

int cmd_compare(struct cmd_context *c, struct err *e)
{
    struct comparison *x = arena_one(c->a, struct comparison);
    if (compare(c, x, e) != ST_OK) {
        err_add(e, "compare");
        return err_exit_code(e->st);
    }
    return verdict_exit_code(x->verdict);
}
