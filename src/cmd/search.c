#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "cmd/commands.h"
#include "job/search.h"
#include "text/document.h"

enum { TABLE_ROWS = 20 };

/* What all configurations that can be simulated have alike, of their setup; NULL = they differ. */
static const char *common(const struct search_result *r, const char *key)
{
    const char *all = NULL;
    for (size_t i = 0; i < r->n; i++) {
        const struct node *own = r->configs[i].setup ? node_find(r->configs[i].setup, key) : NULL;
        if (!own || own->kind != NODE_STR)
            continue;
        if (all && strcmp(all, own->s.p) != 0)
            return NULL;
        all = own->s.p;
    }
    return all;
}

static struct node *meta_node(struct job_context *c, const char *id, const struct artifact *art,
                              const struct search_result *r)
{
    struct node *extra = node_new(c->a, NODE_MAP);
    const char *root =
        c->plan->predictor.tables ? c->plan->predictor.tables : c->plan->profile.root;
    node_set(c->a, extra, SV("profiling_root"), node_str(c->a, root));
    struct run_meta meta = job_meta(c, art, id, "search");
    meta.model = common(r, "model");
    meta.hardware_id = common(r, "hardware");
    meta.extra = extra;
    return run_meta_node(c->a, &meta);
}

/* Each setup once. */
static void print_setups(struct arena *a, struct buf *out, const struct search_result *r)
{
    struct map seen;
    struct err ignored = {0};
    map_init(&seen, a);
    for (size_t i = 0; i < r->n; i++) {
        struct job_setup setup = {0};
        bool is_new;
        if (!r->configs[i].setup ||
            fields_read(a, &job_setup_fields, r->configs[i].setup, &setup, &ignored) != ST_OK)
            continue;
        const char *words = job_setup_words(a, &setup);
        map_put(&seen, words, strlen(words), &is_new);
        if (is_new)
            buf_printf(out, "setup: %s\n", words);
    }
    err_clear(&ignored);
}

static void print_result(const struct job_search *s, const char *dir, const struct search_result *r)
{
    struct job_context *c = s->c;
    struct node *map = search_node(c->a, r);
    struct buf out = {0};
    node_set(c->a, map, SV("out"), node_str(c->a, dir));
    const struct search_result shown = search_shown(c->a, r);
    document_text(&out, search_document(c->a, &shown, "Search", common(r, "model"), TABLE_ROWS));
    buf_puts(&out, s->met ? "\n" : "\nno configuration meets the objective at any rate\n");
    print_setups(c->a, &out, r);
    buf_printf(&out, "result: %s\n", dir);
    job_result(c, map, buf_str(&out));
    buf_free(&out);
}

static enum st write_result(struct job_search *s, const char *id, const char *dir, struct err *e)
{
    struct job_context *c = s->c;
    struct search_result r;
    struct artifact art;
    TRY(job_search_collect(s, &r, e));
    TRY(artifact_begin(c->a, dir, "run_meta.json", &art, e));
    enum st st = search_write(&art, &r, e);
    if (st == ST_OK)
        st = job_snapshot(c, &art, e);
    if (st == ST_OK)
        st = artifact_commit(&art, meta_node(c, id, &art, &r), e);
    if (st != ST_OK) {
        artifact_discard(&art);
        return st;
    }
    print_result(s, dir, &r);
    return ST_OK;
}

static enum st prepare(struct job_search *s, const char *dir, struct err *e)
{
    if (fs_exists(dir)) {
        err_set(e, ST_USAGE, "out: %s already exists", dir);
        return err_hint(e, "choose another out=");
    }
    return job_search_resume(s, dir, e);
}

/* The leading process's part besides the jobs. */
static enum st lead(struct job_search *s, const struct launcher_ops *launcher, struct err *e)
{
    const char *id, *dir = job_out_dir(s->c, "search", &id);
    enum st st = prepare(s, dir, e);
    if (st != ST_OK) {
        struct err ignored = {0};
        struct launch_work nothing = {.self = s};
        launcher->run(&nothing, &ignored);
        return st;
    }
    progress_begin(&s->progress, "search", "configurations", (int64_t)s->candidates.n);
    st = job_search_run(s, launcher, e);
    progress_end(&s->progress);
    if (st == ST_OK)
        st = write_result(s, id, dir, e);
    if (st == ST_INTERRUPTED)
        err_hint(e, "%zu of %zu configurations are done; the same command goes on from there",
                 s->journal.done, s->candidates.n);
    search_journal_close(&s->journal, st == ST_OK || st == ST_INPUT || st == ST_USAGE);
    return st;
}

static enum st search(struct job_context *c, struct job_search *s, struct err *e)
{
    const struct plan *p = c->plan;
    const struct launcher_ops *launcher;
    bool leads;
    TRY(launcher_find(p->launcher, &launcher, e));
    TRY(launcher->open(&leads, e));
    enum st st = job_search_open(c, s, e);
    if (st == ST_OK) {
        job_catch_signals();
        st = leads ? lead(s, launcher, e) : job_search_run(s, launcher, e);
    }
    launcher->close();
    if (!leads) {
        err_clear(e); /* the leading process reports it */
        s->met = true;
    }
    return leads ? st : ST_OK;
}

static int run_search(struct job_context *c, struct err *e)
{
    struct job_search s = {0};
    enum st st = search(c, &s, e);
    job_search_close(&s);
    if (st != ST_OK)
        err_add(e, "search");
    if (e->st != ST_OK)
        return err_exit_code(e->st);
    return s.met ? 0 : 1;
}

const struct cmd cmd_search = {
    .id = COMMAND_SEARCH,
    .summary = "find the best configurations of a space",
    .about =
        "Takes every combination of the values in search.space, finds its capacity, looks at "
        "it "
        "under several loads, and writes the table of all and the Pareto front of tokens per "
        "second per user, tokens per second per GPU and, where bundles have energy, joules per "
        "token. Interrupted, the same command goes on where it stopped. Exit code 1 when no "
        "configuration meets the objective.",
    .example = "twinfer search +search.space.scheduler.group=[vllm,sarathi] "
               "+search.space.scheduler.batch_cap=[32,128]",
    .run = run_search,
};
