#include "report/report.h"

#include "base/clock.h"
#include "cmd/commands.h"
#include "job/job.h"

static enum st report(struct job_context *c, struct err *e)
{
    const struct plan *p = c->plan;
    if (p->report.inputs.n == 0) {
        err_set(e, ST_USAGE, "report.inputs is not set");
        return err_hint(e, "report.inputs=[runs/real/a,comparisons/b] lists artifact directories");
    }
    for (size_t i = 0; i < p->report.inputs.n; i++)
        if (!fs_exists(p->report.inputs.items[i])) {
            err_set(e, ST_INPUT, "%s does not exist", p->report.inputs.items[i]);
            err_add(e, "cannot report on %s", p->report.inputs.items[i]);
            return err_hint(e,
                            "report.inputs= takes folders that twinfer wrote: runs, comparisons, "
                            "traces, bundles, workloads");
        }
    struct buf html = {0};
    enum st st = report_artifacts(c->a, p->report.inputs.items, p->report.inputs.n, &html, e);
    const char *id, *dir = p->out;
    if (!dir)
        dir = job_out_dir(c, "reports", &id);
    const char *path = arena_printf(c->a, "%s/report.html", dir);
    if (st == ST_OK && fs_exists(path)) {
        err_set(e, ST_USAGE, "out: %s already exists", path);
        st = err_hint(e, "choose another out=");
    }
    if (st == ST_OK)
        st = fs_mkdirs(dir, e);
    if (st == ST_OK)
        st = fs_write_atomic(path, buf_str(&html), html.n, e);
    buf_free(&html);
    TRY(st);
    struct node *out = node_new(c->a, NODE_MAP);
    node_set(c->a, out, SV("out"), node_str(c->a, dir));
    node_set(c->a, out, SV("report"), node_str(c->a, path));
    struct buf text = {0};
    job_lines(&text, out);
    buf_puts(&text, "next: open ");
    buf_word(&text, path);
    buf_puts(&text, " in a browser; it needs no other file\n");
    job_result(c, out, buf_str(&text));
    buf_free(&text);
    return ST_OK;
}

static int run_report(struct job_context *c, struct err *e)
{
    if (report(c, e) != ST_OK)
        err_add(e, "report");
    return err_exit_code(e->st);
}

const struct cmd cmd_report = {
    .id = COMMAND_REPORT,
    .summary = "one HTML page from any artifacts",
    .about = "The page needs nothing but itself: no network, no scripts.",
    .example = "twinfer report report.inputs=[comparisons/c1,runs/real/a] out=report",
    .run = run_report,
};
