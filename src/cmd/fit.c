/* twinfer fit: a row for each combination of the values on the command line. */
#include <string.h>

#include "base/log.h"
#include "cmd/commands.h"
#include "config/override.h"
#include "job/fit.h"
#include "job/memory.h"
#include "model/formats.h"
#include "text/table.h"
#include "text/wrap.h"
#include "text/yaml.h"

enum { MOST_LENGTHS = 8 };
static const double GIB = 1024.0 * 1024 * 1024;
static const char usual_tp[] = "parallel.tp=1,2,4,8";

/* A model that rows share: reading one takes longer than planning it. */
struct read_model {
    struct read_model *next;
    const char *settings; /* the section `model` as YAML: all that it is made of */
    struct job_model m;
};

struct table_of_fit {
    struct arena *a;
    const char *const **words; /* [n] rows, [n_words] each */
    size_t n, n_words;
    struct fit_row *rows; /* [n] */
    const char **formats; /* [n] "bf16" */
    int64_t lengths[MOST_LENGTHS];
    size_t n_lengths;
    struct read_model *models;
    const char *told; /* the last warning; NULL = none yet */
};

static enum st read_lengths(const struct plan *p, struct table_of_fit *t, struct err *e)
{
    const struct texts *l = &p->fit.length;
    if (l->n > MOST_LENGTHS)
        return err_set(e, ST_USAGE, "fit.length: at most %d lengths, not %zu", MOST_LENGTHS, l->n);
    for (size_t i = 0; i < l->n; i++) {
        int64_t *v = &t->lengths[t->n_lengths++];
        if (!str_int64(sv_of(l->items[i]), v) || *v < 1 || *v > INT32_MAX)
            return err_set(e, ST_USAGE, "fit.length: '%s': expected a number of tokens",
                           l->items[i]);
    }
    return ST_OK;
}

/* ---- the rows -------------------------------------------------------------------------------- */

/* All combinations; the usual degrees of tensor parallelism where nobody set one. */
static enum st expand(const struct job_context *c, struct table_of_fit *t, struct err *e)
{
    struct config_args args = *c->args;
    const char **words = arena_array(c->a, const char *, args.n_overrides + 1);
    for (size_t i = 0; i < args.n_overrides; i++)
        words[i] = args.overrides[i];
    if (config_origin(c->config, "parallel.tp") <= ORIGIN_DEFAULT)
        words[args.n_overrides++] = usual_tp;
    args.overrides = words;
    t->n_words = args.n_overrides;
    return config_sweep(c->a, &args, &t->words, &t->n, e);
}

static enum st model_of(const struct job_context *row, struct table_of_fit *t,
                        const struct job_model **out, struct err *e)
{
    const struct node *section = node_find(row->config->tree, "model");
    struct buf text = {0};
    if (section)
        yaml_write(&text, section);
    struct read_model *x = t->models;
    while (x && strcmp(x->settings, buf_str(&text)) != 0)
        x = x->next;
    if (!x) {
        x = arena_one(t->a, struct read_model);
        *x = (struct read_model){.next = t->models, .settings = arena_str(t->a, buf_str(&text))};
        t->models = x;
        const enum st st = job_model(row, false, &x->m, e);
        if (st != ST_OK) {
            buf_free(&text);
            return st;
        }
    }
    buf_free(&text);
    *out = &x->m;
    return ST_OK;
}

static enum st make_row(const struct job_context *c, struct table_of_fit *t, size_t i,
                        struct err *e)
{
    struct config_args args = *c->args;
    struct config config;
    struct job_context row = *c;
    const struct job_model *m;
    args.overrides = t->words[i];
    args.n_overrides = t->n_words;
    TRY(config_load(c->a, &args, &config, e));
    TRY(config_check_read(&config, e));
    row.config = &config;
    row.plan = config.plan;
    TRY(model_of(&row, t, &m, e));
    t->formats[i] = formats_words(c->a, &m->m);
    const char *fp8 = job_memory_fp8(c->a, row.plan, &m->m);
    if (fp8 && (!t->told || strcmp(fp8, t->told) != 0))
        log_warn("%s", fp8);
    t->told = fp8 ? fp8 : t->told;
    return job_fit(&row, m, t->lengths, t->n_lengths, &t->rows[i], e);
}

/* ---- for people ------------------------------------------------------------------------------ */

/* Whether column i of the words differs between rows, and no column shows it. */
static bool varies(const struct table_of_fit *t, size_t i)
{
    const struct sv key = override_key_of(t->words[0][i]);
    for (size_t k = 1; k < t->n && !sv_eq(key, "hardware") && !sv_eq(key, "parallel.tp"); k++)
        if (strcmp(t->words[k][i], t->words[0][i]) != 0)
            return true;
    return false;
}

static void put_head(const struct table_of_fit *t, struct buf *out)
{
    const struct fit_row *r = &t->rows[0];
    bool model = false, pp = r->pp > 1, ep = r->ep > 1, formats = false;
    for (size_t i = 0; i < t->n; i++) {
        model = model || strcmp(t->rows[i].model, r->model) != 0;
        formats = formats || strcmp(t->formats[i], t->formats[0]) != 0;
    }
    if (!model)
        buf_printf(out, "%s%s%s", r->model, formats ? "" : ": ", formats ? "" : t->formats[0]);
    if (pp)
        buf_printf(out, ", %lld stages", (long long)r->pp);
    if (ep)
        buf_printf(out, ", experts on %lld GPUs", (long long)r->ep);
    buf_puts(out, model ? "" : "\n\n");
}

static void put_number(struct table *t, bool known, double v, int decimals)
{
    if (known)
        table_cell(t, "%.*f", decimals, v);
    else
        table_cell(t, "-");
}

static void put_row(const struct table_of_fit *t, size_t i, struct table *out)
{
    const struct fit_row *r = &t->rows[i];
    const bool planned = r->plan.weight_bytes > 0, fits = !r->why_not;
    for (size_t k = 0; k < t->n_words; k++)
        if (varies(t, k)) {
            table_cell(out, "%s", override_value_of(t->words[i][k]));
        }
    table_cell(out, "%s", r->hardware);
    table_cell(out, "%lld", (long long)r->tp);
    table_cell(out, "%lld", (long long)r->devices);
    put_number(out, planned, r->plan.weight_bytes / GIB, 1);
    put_number(out, planned && r->plan.usable_bytes > 0, r->plan.cache_bytes / GIB, 1);
    put_number(out, fits, (double)r->kv_tokens, 0);
    put_number(out, fits, (double)r->longest, 0);
    for (size_t k = 0; k < t->n_lengths; k++)
        put_number(out, fits && r->sequences[k] > 0, (double)r->sequences[k], 0);
}

static struct table *table_of(const struct table_of_fit *t)
{
    int columns = 7 + (int)t->n_lengths;
    for (size_t i = 0; i < t->n_words; i++)
        columns += varies(t, i);
    struct table *out = table_new(t->a, columns);
    for (size_t i = 0; i < t->n_words; i++)
        if (varies(t, i)) {
            const struct sv key = override_key_of(t->words[0][i]);
            const char *name = arena_strn(t->a, key.p, key.n), *dot = strrchr(name, '.');
            table_cell(out, "%s", dot ? dot + 1 : name);
        }
    static const char *const heads[] = {"hardware", "TP",        "GPUs",   "weights",
                                        "room",     "KV tokens", "longest"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(out, "%s", heads[i]);
    for (size_t i = 0; i < t->n_lengths; i++)
        table_cell(out, "%lld", (long long)t->lengths[i]);
    for (size_t i = 0; i < t->n; i++)
        put_row(t, i, out);
    return out;
}

/* What no number of the table says, each once. */
static void put_reasons(const struct table_of_fit *t, struct buf *out)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct fit_row *r = &t->rows[i];
        bool told = !r->why_not || r->plan.cache_bytes < 0; /* the room says it */
        for (size_t k = 0; k < i && !told; k++)
            told = t->rows[k].why_not && strcmp(t->rows[k].why_not, r->why_not) == 0;
        if (!told)
            wrap_text(out, arena_printf(t->a, "does not fit: %s", r->why_not), 2);
    }
}

static void put_over_nodes(const struct table_of_fit *t, struct buf *out)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct fit_row *r = &t->rows[i];
        bool told = !r->over_nodes;
        for (size_t k = 0; k < i && !told; k++)
            told = t->rows[k].over_nodes && t->rows[k].tp == r->tp &&
                   strcmp(t->rows[k].hardware, r->hardware) == 0;
        if (!told)
            wrap_text(out,
                      arena_printf(t->a,
                                   "%s, TP %lld: over nodes of %lld GPUs. Memory is planned; "
                                   "all-reduces between nodes are not modelled, and "
                                   "simulate refuses them.",
                                   r->hardware, (long long)r->tp, (long long)r->node_gpus),
                      2);
    }
}

static void put_text(const struct table_of_fit *t, struct buf *out)
{
    put_head(t, out);
    table_text(out, table_of(t));
    buf_puts(
        out,
        "\nweights, room: GiB of the GPU with the least room; room is for keys and values, below 0 "
        "what is\nmissing. longest: tokens of one request. Last columns: sequences of so many "
        "tokens at once.\n");
    put_reasons(t, out);
    put_over_nodes(t, out);
}

/* ---- as JSON --------------------------------------------------------------------------------- */

static struct node *node_of(const struct table_of_fit *t)
{
    struct node *out = node_new(t->a, NODE_MAP), *rows = node_new(t->a, NODE_LIST);
    for (size_t i = 0; i < t->n; i++) {
        struct node *row = job_fit_node(t->a, &t->rows[i], t->lengths, t->n_lengths);
        struct node *settings = node_new(t->a, NODE_MAP);
        node_set(t->a, row, SV("formats"), node_str(t->a, t->formats[i]));
        for (size_t k = 0; k < t->n_words; k++)
            if (varies(t, k))
                node_set(t->a, settings, override_key_of(t->words[i][k]),
                         node_str(t->a, override_value_of(t->words[i][k])));
        node_set(t->a, row, SV("settings"), settings);
        node_push(t->a, rows, row);
    }
    node_set(t->a, out, SV("rows"), rows);
    return out;
}

static enum st fit(struct job_context *c, bool *any, struct err *e)
{
    struct table_of_fit t = {.a = c->a};
    struct buf text = {0};
    TRY(read_lengths(c->plan, &t, e));
    TRY(expand(c, &t, e));
    t.rows = arena_array(c->a, struct fit_row, t.n);
    t.formats = arena_array(c->a, const char *, t.n);
    for (size_t i = 0; i < t.n; i++) {
        TRY(make_row(c, &t, i, e));
        *any = *any || !t.rows[i].why_not;
    }
    put_text(&t, &text);
    job_result(c, node_of(&t), buf_str(&text));
    buf_free(&text);
    return ST_OK;
}

static int run_fit(struct job_context *c, struct err *e)
{
    bool any = false;
    if (fit(c, &any, e) != ST_OK)
        err_add(e, "fit");
    return e->st != ST_OK ? err_exit_code(e->st) : any ? 0 : 1;
}

const struct cmd cmd_fit = {
    .id = COMMAND_FIT,
    .rows = true,
    .summary = "what a model takes of a GPU's memory, and what is left for requests",
    .about = "Weights, room for keys and values, the longest context and how many sequences of a "
             "given length there is room for, for each combination of the values on the command "
             "line: hardware=h100,h200 or hardware=all, parallel.tp=1,2,4,8 (which is taken where "
             "it is not given), model.kv_dtype=bf16,fp8. The plan is simulate's. Exit code 1 when "
             "nothing fits.",
    .example = "twinfer fit model=qwen3_32b hardware=h100,h200",
    .run = run_fit,
};
