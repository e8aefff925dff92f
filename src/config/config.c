#include "config/config.h"

#include <string.h>

#include "base/vec.h"
#include "config/bind.h"
#include "config/compose.h"
#include "config/interpolate.h"
#include "config/stand_in.h"
#include "text/yaml.h"

static enum st parse_overrides(struct arena *a, const struct config_args *args,
                               struct override **out, struct err *e)
{
    *out = arena_array(a, struct override, args->n_overrides);
    for (size_t i = 0; i < args->n_overrides; i++)
        TRY(override_parse(a, args->overrides[i], &(*out)[i], e));
    return ST_OK;
}

static const char *primary_name(const struct config_args *args)
{
    return args->config_name ? args->config_name : command_name(args->command);
}

static enum st compose_args(struct arena *a, const struct config_args *args, struct composed *out,
                            struct err *e)
{
    struct sources sources;
    struct override *overrides;
    TRY(sources_init(a, &sources, args->config_dir, args->embedded, e));
    TRY(parse_overrides(a, args, &overrides, e));
    TRY(stand_in_model_words(a, &sources, overrides, args->n_overrides, e));
    struct compose_args c = {.sources = &sources,
                             .command = args->command,
                             .primary = primary_name(args),
                             .overrides = overrides,
                             .n_overrides = args->n_overrides};
    return compose(a, &c, out, e);
}

/* True: the record is about key or about a section or map around it. */
static bool concerns(const struct layer_set *s, const char *key)
{
    size_t n = strlen(s->key);
    return strncmp(key, s->key, n) == 0 && (key[n] == 0 || (!s->value && key[n] == '.'));
}

/* The newest layer that set the key or something below it; NULL = the default. */
static const struct layer_set *decider(const struct layer_set *sets, const char *key)
{
    for (const struct layer_set *s = sets; s; s = s->older)
        if (concerns(s, key) || option_is_below(s->key, key))
            return s;
    return NULL;
}

static enum st check_unasked(const struct config_args *args, const struct layer_set *sets,
                             struct err *e)
{
    for (struct option_iter i = {0}; option_next(&i);) {
        if (!i.o->starts || !(i.o->commands & command_bit(args->command)))
            continue;
        const struct layer_set *s = decider(sets, i.o->key);
        if (!s || !s->unasked || !s->value || s->value->kind == NODE_NULL)
            continue;
        node_err(
            s->value, ST_USAGE, e,
            "%s decides what program runs, and this folder of configurations was not asked for",
            s->key);
        return err_hint(
            e,
            "if the file is to be trusted: --config-dir configs, TWINFER_CONFIG_DIR=configs, "
            "or %s=... on the command line",
            s->key);
    }
    return ST_OK;
}

enum st config_load(struct arena *a, const struct config_args *args, struct config *out,
                    struct err *e)
{
    struct composed c;
    TRY(compose_args(a, args, &c, e));
    TRY(check_unasked(args, c.sets, e));
    TRY(config_interpolate(a, c.root, e));
    *out = (struct config){.command = args->command,
                           .tree = c.root,
                           .config_path = c.dir,
                           .config_name = primary_name(args),
                           .overrides = args->overrides,
                           .n_overrides = args->n_overrides,
                           .sets = c.sets,
                           .unasked = c.unasked,
                           .stand_in = c.stand_in};
    struct plan *plan = arena_alloc(a, option_table.plan_size);
    out->plan = plan;
    return config_bind(a, c.root, command_bit(args->command), plan, e);
}

enum config_origin config_origin(const struct config *c, const char *key)
{
    const struct node *n = node_path(c->tree, key);
    bool set = n && n->kind != NODE_NULL;
    for (const struct layer_set *s = c->sets; s && set; s = s->older) {
        if (!concerns(s, key))
            continue;
        if (!s->value)
            break;
        return s->layer == LAYER_COMMAND_LINE ? ORIGIN_COMMAND_LINE
               : s->layer == LAYER_FILE       ? ORIGIN_FILE
                                              : ORIGIN_DEFAULT;
    }
    const struct option *o = option_find(key);
    return o && option_default(o, command_bit(c->command)) ? ORIGIN_DEFAULT : ORIGIN_UNSET;
}

/* "${" gets the backslash that makes it literal, backslashes before it are doubled. */
static void escape_text(struct arena *a, struct node *n)
{
    struct buf b = {0};
    size_t slashes = 0;
    for (size_t i = 0; i < n->s.n; i++) {
        char ch = n->s.p[i];
        if (ch == '$' && i + 1 < n->s.n && n->s.p[i + 1] == '{')
            for (size_t k = 0; k < slashes + 1; k++)
                buf_putc(&b, '\\');
        slashes = ch == '\\' ? slashes + 1 : 0;
        buf_putc(&b, ch);
    }
    if (b.n > n->s.n)
        n->s = (struct sv){arena_strn(a, b.p, b.n), b.n};
    buf_free(&b);
}

static void escape(struct arena *a, struct node *n)
{
    if (n->kind == NODE_STR)
        escape_text(a, n);
    for (uint32_t i = 0; i < n->n && n->kind == NODE_LIST; i++)
        escape(a, n->items[i]);
    for (uint32_t i = 0; i < n->n && n->kind == NODE_MAP; i++)
        escape(a, n->pairs[i].value);
}

void config_print(struct buf *out, const struct config *c)
{
    struct arena *a = arena_new();
    struct node *copy = node_copy(a, c->tree);
    escape(a, copy);
    yaml_write(out, copy);
    arena_free(&a);
}

/* ---- sweeps ------------------------------------------------------------------------------ */

enum { MAX_JOBS = 10000 };

struct axis {
    struct override o;
    struct sv *pieces;
    size_t n;
};

static const char *job_override(struct arena *a, const struct axis *x, size_t i)
{
    size_t head = strcspn(x->o.typed, "=") + 1;
    return arena_printf(a, "%.*s%.*s", (int)head, x->o.typed, (int)x->pieces[i].n, x->pieces[i].p);
}

/* group=all: every file of the group, unless one has that name. */
static bool takes_all(struct arena *a, const struct sources *s, struct axis *x)
{
    if (!sv_eq(x->o.text, "all") || x->o.package || !defaults_is_group(s, &x->o))
        return false;
    const char **names = sources_options(a, s, x->o.key, &x->n);
    x->pieces = arena_array(a, struct sv, x->n);
    for (size_t i = 0; i < x->n; i++) {
        x->pieces[i] = sv_of(names[i]);
        if (strcmp(names[i], "all") == 0)
            return false;
    }
    return x->n > 0;
}

static enum st read_axis(struct arena *a, const struct sources *s, const char *typed,
                         struct axis *x, struct err *e)
{
    TRY(override_parse(a, typed, &x->o, e));
    if (x->o.kind != OVERRIDE_REMOVE && takes_all(a, s, x))
        return ST_OK;
    x->n = 1;
    x->pieces = NULL;
    if (x->o.kind == OVERRIDE_REMOVE)
        return ST_OK;
    const struct option *row = option_find(x->o.key);
    return override_pieces(a, &x->o, !row || row->type != OPT_LIST, &x->pieces, &x->n, e);
}

enum st config_sweep(struct arena *a, const struct config_args *args, const char *const ***jobs,
                     size_t *n_jobs, struct err *e)
{
    struct axis *axes = arena_array(a, struct axis, args->n_overrides);
    struct sources sources;
    size_t n = 1;
    TRY(sources_init(a, &sources, args->config_dir, args->embedded, e));
    for (size_t i = 0; i < args->n_overrides; i++) {
        TRY(read_axis(a, &sources, args->overrides[i], &axes[i], e));
        n *= axes[i].n;
        if (n > MAX_JOBS)
            return err_set(e, ST_USAGE, "%s: the sweep has more than %d jobs", override_source,
                           (int)MAX_JOBS);
    }
    *jobs = arena_array(a, const char *const *, n);
    for (size_t j = 0; j < n; j++) {
        const char **list = arena_array(a, const char *, args->n_overrides);
        size_t rest = j;
        for (size_t i = args->n_overrides; i-- > 0;) {
            const struct axis *x = &axes[i];
            list[i] = x->n == 1 && (!x->pieces || x->pieces[0].p == x->o.text.p)
                          ? args->overrides[i]
                          : job_override(a, x, rest % x->n);
            rest /= x->n;
        }
        (*jobs)[j] = list;
    }
    *n_jobs = n;
    return ST_OK;
}

/* ---- --explain --------------------------------------------------------------------------- */

/* The value on one line. */
static void add_value(struct buf *out, const struct node *n)
{
    struct buf yaml = {0};
    if (n->kind == NODE_LIST) {
        buf_putc(out, '[');
        for (uint32_t i = 0; i < n->n; i++) {
            buf_puts(out, i ? ", " : "");
            add_value(out, n->items[i]);
        }
        buf_putc(out, ']');
    } else if (n->kind == NODE_MAP) {
        buf_puts(out, n->n ? "{...}" : "{}");
    } else if (n->kind == NODE_STR && !n->quoted) {
        buf_add(out, n->s.p, n->s.n);
    } else {
        yaml_write(&yaml, n);
        struct sv text = sv_trim((struct sv){buf_str(&yaml), yaml.n});
        buf_add(out, text.p, text.n);
    }
    buf_free(&yaml);
}

static void explain_layer(struct buf *out, const struct layer_set *s)
{
    buf_puts(out, "  ");
    if (s->value)
        add_value(out, s->value);
    else
        buf_puts(out, "removed");
    if (s->layer == LAYER_COMMAND_LINE)
        buf_printf(out, "  <- command line: %s\n", s->what);
    else if (s->layer == LAYER_FILE && s->value->line)
        buf_printf(out, "  <- %s:%u:%u\n", s->value->source, s->value->line, s->value->column);
    else
        buf_printf(out, "  <- %s\n", s->what);
}

static void explain_key(struct buf *out, const struct composed *c, const char *key)
{
    const struct node *n = node_path(c->root, key);
    if (n && n->kind != NODE_NULL) {
        buf_printf(out, "%s = ", key);
        add_value(out, n);
        buf_putc(out, '\n');
    } else {
        buf_printf(out, "%s is not set\n", key);
    }
    for (const struct layer_set *s = c->sets; s; s = s->older)
        if (concerns(s, key))
            explain_layer(out, s);
}

/* Leaves of the tree below key, in tree order. */
static void explain_below(struct arena *a, struct buf *out, const struct composed *c,
                          const struct node *n, const char *key)
{
    if (n->kind != NODE_MAP || n->n == 0) {
        explain_key(out, c, key);
        return;
    }
    for (uint32_t i = 0; i < n->n; i++)
        explain_below(a, out, c, n->pairs[i].value,
                      arena_printf(a, "%s.%.*s", key, (int)n->pairs[i].key.n, n->pairs[i].key.p));
}

enum st config_explain(struct arena *a, const struct config_args *args, const char *key,
                       struct buf *out, struct err *e)
{
    if (!option_find(key) && !option_map_of(key) && !option_is_section(key)) {
        err_set(e, ST_USAGE, "--explain: unknown key '%s'", key);
        option_hint(key, command_bit(args->command), e);
        return ST_USAGE;
    }
    struct composed c;
    TRY(compose_args(a, args, &c, e));
    TRY(config_interpolate(a, c.root, e));
    const struct node *n = node_path(c.root, key);
    if (n)
        explain_below(a, out, &c, n, key);
    else
        explain_key(out, &c, key);
    return ST_OK;
}
