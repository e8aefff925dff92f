#include <unistd.h>

#include "base/clock.h"
#include "cmd/commands.h"
#include "job/job.h"
#include "workload/format.h"

/* lost: by an export; NULL elsewhere. */
static void print_result(struct job_context *c, const char *key, const char *path,
                         const struct workload *w, int64_t left_out, const char *lost)
{
    struct node *out = node_new(c->a, NODE_MAP);
    int64_t prefill = 0, decode = 0, sessions = 0;
    for (size_t i = 0; i < w->n; i++) {
        prefill += w->requests[i].num_prefill_tokens;
        decode += w->requests[i].num_decode_tokens;
        sessions += w->requests[i].turn == 1;
    }
    node_set(c->a, out, sv_of(key), node_str(c->a, path));
    node_set(c->a, out, SV("requests"), node_int(c->a, (int64_t)w->n));
    if (sessions)
        node_set(c->a, out, SV("sessions"), node_int(c->a, sessions));
    if (w->concurrency)
        node_set(c->a, out, SV("concurrency"),
                 node_str(c->a, concurrency_text(c->a, w->concurrency)));
    node_set(c->a, out, SV("last_arrival_s"),
             node_float(c->a, w->n ? ns_to_s(w->requests[w->n - 1].arrival_ns) : 0));
    node_set(c->a, out, SV("prefill_tokens"), node_int(c->a, prefill));
    node_set(c->a, out, SV("decode_tokens"), node_int(c->a, decode));
    if (c->plan->workload.import)
        node_set(c->a, out, SV("left_out"), node_int(c->a, left_out));
    if (lost)
        node_set(c->a, out, SV("lost"), node_str(c->a, *lost ? lost : "nothing"));
    job_result(c, out, NULL);
}

static enum st write_workload(struct job_context *c, const struct job_model *m,
                              const struct job_workload *w, int64_t left_out, struct err *e)
{
    const char *id, *dir = job_out_dir(c, "workloads", &id);
    struct artifact art;
    struct progress progress;
    const struct workload_watch watch = {&job_stop, &progress};
    job_catch_signals(); /* from here on an interrupted command leaves nothing behind */
    TRY(fs_need_space(dir, workload_disk_bytes(&w->w, w->prompts, w->n_prompts), e));
    TRY(artifact_begin(c->a, dir, WORKLOAD_META, &art, e));
    progress_begin(&progress, "workload", "rows", workload_rows(&w->w, w->n_prompts));
    enum st st = workload_write(&art, &w->w, w->prompts, w->n_prompts, &watch, e);
    progress_end(&progress);
    if (st == ST_OK)
        st = job_snapshot(c, &art, e);
    struct workload_meta meta = {.workload_id = id,
                                 .model = m->m.name,
                                 .tokenizer_ref = m->tokenizer,
                                 .seed = (uint64_t)c->plan->seed,
                                 .hydra = {c->config->config_path, c->config->config_name},
                                 .params = c->config->tree,
                                 .hash_ids = workload_has_hash_ids(&w->w),
                                 .sessions = workload_has_sessions(&w->w),
                                 .concurrency = w->w.concurrency};
    if (st == ST_OK)
        st = artifact_commit(&art, workload_meta_node(c->a, &meta), e);
    if (st != ST_OK) {
        artifact_discard(&art);
        return st;
    }
    print_result(c, "out", dir, &w->w, left_out, NULL);
    return ST_OK;
}

/* ---- traces of others -------------------------------------------------------------------- */

static enum st need_path(const struct job_context *c, const char *what, struct err *e)
{
    if (c->plan->workload.path)
        return ST_OK;
    return err_set(e, ST_USAGE, "%s needs path=FILE", what);
}

/* Of a format that may hold arrivals, a file that does. */
static enum st check_no_arrivals(const struct job_context *c, struct err *e)
{
    static const char *const keys[] = {
        "workload.arrival.kind",       "workload.arrival.rate",
        "workload.arrival.stages",     "workload.arrival.ramp_s",
        "workload.arrival.burstiness", "workload.arrival.inter_arrival_ns",
        "workload.arrival.trace"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (config_origin(c->config, keys[i]) == ORIGIN_COMMAND_LINE)
            return err_set(e, ST_USAGE, "%s is not read: %s has arrivals of its own", keys[i],
                           c->plan->workload.path);
    return ST_OK;
}

static enum st import(struct job_context *c, const struct job_model *m, struct job_workload *w,
                      struct err *e)
{
    const struct plan *p = c->plan;
    const struct workload_format *f;
    struct format_result r;
    TRY(workload_format_find(p->workload.import, false, &f, e));
    TRY(need_path(c, "import", e));
    bool texts = f->traits & FORMAT_TEXTS && (!f->has_texts || f->has_texts(p->workload.path));
    if (!texts)
        TRY(check_no_arrivals(c, e));
    /* Without num_requests on the command line the whole file is used, whatever a group sets. */
    bool limited = config_origin(c->config, "workload.num_requests") == ORIGIN_COMMAND_LINE;
    struct workload_params arrivals = job_arrivals(p);
    TRY(job_stages(c, &arrivals, e));
    struct format_params fp = {.path = p->workload.path,
                               .max_requests = limited ? p->workload.make.num_requests : 0,
                               .block_tokens = p->workload.block_tokens,
                               .time_unit = p->workload.time_unit,
                               .arrivals = &arrivals};
    if (texts)
        TRY(job_tokenizer(m, arena_printf(c->a, "import=%s", f->name), &w->tokenizer, e));
    fp.tokenizer = w->tokenizer;
    TRY(f->read(c->a, &fp, &r, e));
    w->w = r.w;
    w->prompts = r.prompts;
    w->n_prompts = r.n_prompts;
    return write_workload(c, m, w, r.left_out, e);
}

static enum st export_to(struct job_context *c, const struct job_model *m, struct job_workload *w,
                         struct err *e)
{
    const struct plan *p = c->plan;
    const struct workload_format *f;
    const char **texts;
    TRY(workload_format_find(p->workload.export, true, &f, e));
    TRY(need_path(c, "export", e));
    if (fs_exists(p->workload.path)) {
        err_set(e, ST_USAGE, "path: %s already exists", p->workload.path);
        return err_hint(e, "choose another path=");
    }
    TRY(job_workload(c, m, false, w, e));
    if (p->workload.dir)
        TRY(prompts_load(c->a, w->w.prompts, &w->prompts, &w->n_prompts, e));
    TRY(workload_texts(c->a, &w->w, w->prompts, w->n_prompts, &texts, e));
    struct buf bytes = {0};
    job_catch_signals(); /* from here on an interrupted command leaves nothing behind */
    enum st st = f->write(&bytes, &w->w, texts, e);
    if (st == ST_OK)
        st = fs_need_space(p->workload.path, (int64_t)bytes.n, e);
    if (st == ST_OK && !job_stop)
        st = fs_write_atomic(p->workload.path, bytes.p, bytes.n, e);
    buf_free(&bytes);
    if (st == ST_OK && job_stop) {
        unlink(p->workload.path);
        st = err_set(e, ST_INTERRUPTED, "interrupted; nothing is left of %s", p->workload.path);
    }
    if (st == ST_OK)
        print_result(c, "path", p->workload.path, &w->w, 0,
                     workload_format_lost(c->a, f, &w->w, texts));
    return st;
}

static enum st make(struct job_context *c, const struct job_model *m, struct job_workload *w,
                    struct err *e)
{
    const struct plan *p = c->plan;
    if (p->workload.dir || p->workload.trace)
        return err_set(e, ST_USAGE, "%s is a workload already; export=FORMAT reads it",
                       p->workload.dir ? "workload.dir" : "workload.trace");
    TRY(job_workload(c, m, false, w, e));
    return write_workload(c, m, w, 0, e);
}

static int run_workload(struct job_context *c, struct err *e)
{
    struct job_model m;
    struct job_workload w = {0};
    const struct plan *p = c->plan;
    enum st st = job_model(c, false, &m, e);
    if (st == ST_OK)
        st = (p->workload.import ? import : p->workload.export ? export_to : make)(c, &m, &w, e);
    job_workload_close(&w);
    if (st != ST_OK)
        err_add(e, "workload");
    return err_exit_code(e->st);
}

const struct cmd cmd_workload = {
    .id = COMMAND_WORKLOAD,
    .columns = "requests last_arrival_s prefill_tokens decode_tokens",
    .summary = "make a workload directory: who asks what, and when",
    .about = "Writes prompts.jsonl, trace_lengths.csv and trace_intervals.csv. The same settings "
             "and seed give the same bytes.",
    .example = "twinfer workload workload.num_requests=200 workload.arrival.rate=4",
    .run = run_workload,
};
