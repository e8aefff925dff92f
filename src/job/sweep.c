#include "job/sweep.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/map.h"
#include "config/override.h"
#include "text/json.h"
#include "text/table.h"

struct sweep_job {
    const char *const *overrides;
    const char *label; /* "a=1 b=x": settings that differ between the jobs */
    int code;
    bool ran;
    struct node *result; /* in the sweep's arena; NULL = none */
    struct err e;
};

struct jobs {
    const struct sweep *s;
    struct arena *a;
    struct sweep_job *p; /* [n] */
    size_t n;
    size_t *varies; /* [n_varies] places in the overrides */
    size_t n_varies;
};

/* ---- what a job is called ------------------------------------------------------------------ */

static void find_varying(struct jobs *j)
{
    j->varies = arena_array(j->a, size_t, j->s->args.n_overrides);
    for (size_t i = 0; i < j->s->args.n_overrides; i++) {
        bool varies = false;
        for (size_t k = 1; k < j->n; k++)
            varies = varies || strcmp(j->p[k].overrides[i], j->p[0].overrides[i]) != 0;
        if (varies)
            j->varies[j->n_varies++] = i;
    }
}

static const char *label_of(const struct jobs *j, const struct sweep_job *job)
{
    const char *text = "";
    for (size_t i = 0; i < j->n_varies; i++)
        text = arena_printf(j->a, "%s%s%s", text, i ? " " : "", job->overrides[j->varies[i]]);
    return text;
}

/* "job 2 of 3: a=1": on stdout above the job's output; logged with JSON, or where only stderr is a
 * terminal. */
static void announce(const struct jobs *j, size_t i)
{
    const char *label = j->p[i].label, *colon = *label ? ": " : "";
    if (j->s->json || (!isatty(STDOUT_FILENO) && isatty(STDERR_FILENO)))
        log_info("job %zu of %zu%s%s", i + 1, j->n, colon, label);
    if (j->s->json)
        return;
    printf("%sjob %zu of %zu%s%s\n", i ? "\n" : "", i + 1, j->n, colon, label);
    fflush(stdout); /* before the job writes to stderr */
}

/* ---- before the first job ------------------------------------------------------------------ */

/* A setting (not a group) that differs between the jobs, which out= can name. */
static struct sv setting_of(const struct jobs *j, size_t i, const struct config *config)
{
    for (size_t k = 0; k < j->n_varies; k++) {
        struct sv key = override_key_of(j->p[i].overrides[j->varies[k]]);
        const struct node *v = node_path(config->tree, arena_strn(j->a, key.p, key.n));
        if (v && v->kind != NODE_MAP && v->kind != NODE_LIST)
            return key;
    }
    return (struct sv){0};
}

static enum st check_out(struct jobs *j, struct map *seen, size_t i, const struct config *config,
                         struct err *e)
{
    const char *out = arena_str(j->a, config->plan->out);
    bool is_new;
    size_t n = strlen(out);
    while (n > 1 && out[n - 1] == '/')
        n--;
    struct map_entry *entry = map_put(seen, arena_strn(j->a, out, n), n, &is_new);
    if (is_new) {
        entry->i = (int64_t)i;
        return ST_OK;
    }
    err_set(e, ST_USAGE, "out: jobs %lld and %zu of the sweep would both write to %s",
            (long long)entry->i + 1, i + 1, out);
    struct sv key = setting_of(j, i, config);
    if (key.n == 0)
        return err_hint(e, "leave out= out: every job gets a folder named after its settings");
    return err_hint(e,
                    "out='%.*s-${%.*s}' gives each job its own; without out= they are named after "
                    "the settings",
                    (int)n, out, (int)key.n, key.p);
}

static enum st check_jobs(struct jobs *j, struct err *e)
{
    struct arena *scratch = arena_new();
    struct map seen;
    enum st st = ST_OK;
    map_init(&seen, j->a);
    for (size_t i = 0; i < j->n && st == ST_OK; i++) {
        struct config_args args = j->s->args;
        struct config config;
        args.overrides = j->p[i].overrides;
        st = config_load(scratch, &args, &config, e);
        if (st == ST_OK && config.plan->out)
            st = check_out(j, &seen, i, &config, e);
        else if (st != ST_OK && *j->p[i].label)
            err_add(e, "job %zu of %zu: %s", i + 1, j->n, j->p[i].label);
        arena_reset(scratch);
    }
    arena_free(&scratch);
    return st;
}

/* ---- the jobs ------------------------------------------------------------------------------ */

static void run_job(struct jobs *j, size_t i)
{
    struct arena *a = arena_new();
    struct sweep_job *job = &j->p[i];
    struct config_args args = j->s->args;
    const struct node *result = NULL;
    args.overrides = job->overrides;
    announce(j, i);
    job->code = j->s->job(j->s->self, a, &args, &result, &job->e);
    job->ran = true;
    if (result)
        job->result = node_copy(j->a, result);
    if (job->e.st != ST_OK) {
        err_add(&job->e, "job %zu of %zu%s%s", i + 1, j->n, *job->label ? ": " : "", job->label);
        fflush(stdout);
        err_print(&job->e, "twinfer", stderr);
    }
    arena_free(&a);
}

/* ---- the whole ----------------------------------------------------------------------------- */

static struct node *job_node(const struct jobs *j, size_t i)
{
    const struct sweep_job *job = &j->p[i];
    struct arena *a = j->a;
    struct node *n = node_new(a, NODE_MAP), *settings = node_new(a, NODE_MAP);
    for (size_t k = 0; k < j->n_varies; k++) {
        const char *o = job->overrides[j->varies[k]];
        struct sv key = override_key_of(o);
        node_set(a, settings, (struct sv){arena_strn(a, key.p, key.n), key.n},
                 node_str(a, override_value_of(o)));
    }
    node_set(a, n, SV("job"), node_int(a, (int64_t)i + 1));
    node_set(a, n, SV("settings"), settings);
    node_set(a, n, SV("exit_code"), node_int(a, job->code));
    node_set(a, n, SV("result"), job->result ? job->result : node_new(a, NODE_NULL));
    if (job->e.st == ST_OK)
        return n;
    struct node *causes = node_set(a, n, SV("error"), node_new(a, NODE_LIST));
    for (int k = 1; err_cause(&job->e, k); k++) /* 0 is the job's own label */
        node_push(a, causes, node_str(a, err_cause(&job->e, k)));
    if (err_hint_text(&job->e))
        node_set(a, n, SV("hint"), node_str(a, err_hint_text(&job->e)));
    return n;
}

static void print_json(const struct jobs *j, int code)
{
    struct node *doc = node_new(j->a, NODE_MAP);
    struct node *list = node_set(j->a, doc, SV("jobs"), node_new(j->a, NODE_LIST));
    struct buf text = {0};
    for (size_t i = 0; i < j->n; i++)
        if (j->p[i].ran)
            node_push(j->a, list, job_node(j, i));
    node_set(j->a, doc, SV("exit_code"), node_int(j->a, code));
    json_write(&text, doc, 2, true);
    log_result(&text);
    buf_free(&text);
}

static bool is_known(const struct node *v)
{
    return v && v->kind != NODE_NULL && (v->kind != NODE_FLOAT || isfinite(v->f));
}

/* Members that the command names and some job has, in the command's order; and `out`. */
static size_t find_columns(const struct jobs *j, const char **columns, size_t most)
{
    const char *p = j->s->columns ? j->s->columns : "";
    size_t n = 0;
    while (*p && n < most) {
        size_t len = strcspn(p, " ");
        const char *name = arena_strn(j->a, p, len);
        bool known = false;
        for (size_t i = 0; i < j->n; i++)
            known = known || (j->p[i].result && is_known(node_path(j->p[i].result, name)));
        if (known)
            columns[n++] = name;
        p += len + (p[len] == ' ');
    }
    return n;
}

static void add_cell(struct table *t, const struct node *v)
{
    if (!is_known(v))
        table_cell(t, "n/a");
    else if (v->kind == NODE_STR)
        table_cell(t, "%.*s", (int)v->s.n, v->s.p);
    else if (v->kind == NODE_INT)
        table_cell(t, "%lld", (long long)v->i);
    else if (v->kind == NODE_FLOAT)
        table_cell(t, "%.5g", v->f);
    else if (v->kind == NODE_BOOL)
        table_cell(t, "%s", v->b ? "true" : "false");
    else
        table_cell(t, "...");
}

static void print_table(const struct jobs *j)
{
    enum { MOST = 24 };
    const char *columns[MOST];
    size_t n = find_columns(j, columns, MOST);
    struct table *t = table_new(j->a, (int)(2 + j->n_varies + n));
    struct buf text = {0};
    VEC(const char *) dirs = {0};
    table_cell(t, "job");
    for (size_t k = 0; k < j->n_varies; k++) {
        struct sv key = override_key_of(j->p[0].overrides[j->varies[k]]);
        table_cell(t, "%.*s", (int)key.n, key.p);
    }
    table_cell(t, "exit");
    for (size_t k = 0; k < n; k++)
        table_cell(t, "%s", columns[k]);
    for (size_t i = 0; i < j->n; i++) {
        const struct sweep_job *job = &j->p[i];
        if (!job->ran)
            continue;
        table_cell(t, "%zu", i + 1);
        for (size_t k = 0; k < j->n_varies; k++)
            table_cell(t, "%s", override_value_of(job->overrides[j->varies[k]]));
        table_cell(t, "%d", job->code);
        for (size_t k = 0; k < n; k++)
            add_cell(t, job->result ? node_path(job->result, columns[k]) : NULL);
        const struct node *out = job->result ? node_find(job->result, "out") : NULL;
        if (out && out->kind == NODE_STR)
            vec_push(&dirs, out->s.p);
    }
    putchar('\n');
    table_text(&text, t);
    if (dirs.n && j->s->args.command != COMMAND_REPORT) {
        buf_puts(&text, "next: twinfer report ");
        override_list_word(&text, "report.inputs", dirs.p, dirs.n);
        buf_puts(&text, " out=DIR makes one page of them\n");
    }
    log_result(&text);
    vec_free(&dirs);
    buf_free(&text);
}

int sweep_run(const struct sweep *s, struct err *e)
{
    struct arena *a = arena_new();
    struct jobs j = {.s = s, .a = a};
    const char *const **overrides;
    size_t ran = 0;
    int code = 0;
    enum st st = config_sweep(a, &s->args, &overrides, &j.n, e);
    if (st == ST_OK) {
        j.p = arena_array(a, struct sweep_job, j.n);
        for (size_t i = 0; i < j.n; i++)
            j.p[i].overrides = overrides[i];
        find_varying(&j);
        for (size_t i = 0; i < j.n; i++)
            j.p[i].label = label_of(&j, &j.p[i]);
        st = check_jobs(&j, e);
    }
    while (st == ST_OK && ran < j.n && !job_stop) {
        run_job(&j, ran);
        code = j.p[ran].code > code ? j.p[ran].code : code;
        ran++;
    }
    if (st == ST_OK && s->json)
        print_json(&j, code);
    else if (st == ST_OK)
        print_table(&j);
    if (st == ST_OK && ran < j.n)
        err_set(e, ST_INTERRUPTED, "interrupted after job %zu of %zu", ran, j.n);
    arena_free(&a);
    return e->st != ST_OK ? err_exit_code(e->st) : code;
}
