/* Defaults lists, expanded as Hydra does it: the tree of files is walked from its end to its
 * beginning, so that an `override` met later in the list is known when an earlier entry is opened.
 * The first registered choice for a group wins: command line, then the outermost file. */
#include "config/defaults.h"

#include <string.h>

#include "base/vec.h"
#include "config/option.h"
#include "config/stand_in.h"

enum { MAX_DEPTH = 16, MAX_FILES = 256 };

/* A group's choice made outside its own entry. */
struct choice {
    struct choice *next;
    const char *key;             /* "model", "model@backup" */
    const struct override *from; /* of the command line, or NULL */
    const struct node *place;    /* of an `override` entry in a file */
    const struct node *value;    /* a string, a list of strings, null; NULL = removed */
    bool append, used;
};

struct seen_key {
    struct seen_key *next;
    const char *key;
};

struct file_link {
    struct file_link *next;
    struct defaults_file file;
};

/* The files being expanded, outermost last. */
struct chain {
    const struct chain *up;
    const char *path;
};

struct expansion {
    struct arena *a;
    const struct compose_args *args;
    struct choice *choices;
    struct seen_key *seen;
    struct file_link *files;
    size_t n_files;
    const char *dir;
    bool stand_in; /* was taken */
    struct err *e;
};

enum entry_kind { ENTRY_SELF, ENTRY_FILE, ENTRY_GROUP, ENTRY_OVERRIDE };

struct defaults_entry {
    enum entry_kind kind;
    bool optional;
    const char *group;    /* absolute, "" = top; of ENTRY_FILE: the path without the file name */
    const char *relative; /* the group as written, without a leading '/' */
    const char *package;  /* after '@', or NULL */
    const char *file;     /* ENTRY_FILE: absolute path */
    const struct node *value; /* ENTRY_GROUP, ENTRY_OVERRIDE */
    const struct node *place;
};

static const char *join(struct arena *a, const char *x, char sep, const char *y)
{
    if (!*x || !*y)
        return *x ? x : y;
    return arena_printf(a, "%s%c%s", x, sep, y);
}

static const char *dotted(struct arena *a, const char *path)
{
    char *s = arena_str(a, path);
    for (char *p = s; *p; p++)
        if (*p == '/')
            *p = '.';
    return s;
}

static const char *folder_of(struct arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? arena_strn(a, path, (size_t)(slash - path)) : "";
}

/* `part` below `parent`; whatever stands before _global_ is dropped. */
static const char *package_below(struct arena *a, const char *parent, const char *part)
{
    static const char global[] = "_global_";
    if (strcmp(part, "_here_") == 0)
        part = "";
    const char *all = join(a, parent, '.', part), *last = NULL;
    for (const char *p = all; (p = strstr(p, global)); p++)
        last = p;
    if (!last)
        return all;
    last += sizeof global - 1;
    return *last == '.' ? last + 1 : last;
}

static bool good_path(const char *s)
{
    if (!*s)
        return false;
    for (const char *p = s;; p++) {
        if (*p == '/' || !*p) {
            size_t n = (size_t)(p - s);
            if (n == 0 || (n == 2 && memcmp(s, "..", 2) == 0) || (n == 1 && *s == '.'))
                return false;
            s = p + 1;
        } else if ((unsigned char)*p < ' ' || *p == 127) {
            return false;
        }
        if (!*p)
            return true;
    }
}

/* ---- reading one list -------------------------------------------------------------------- */

static bool take_word(const char **text, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(*text, word, n) != 0 || (*text)[n] != ' ')
        return false;
    *text += n;
    *text += strspn(*text, " ");
    return true;
}

static enum st read_entry(struct expansion *x, const struct node *item, const char *here,
                          struct defaults_entry *out)
{
    static const char form[] = "an entry of a defaults list is a file name, _self_, or one "
                               "'group: option'";
    const struct node *named = item;
    *out = (struct defaults_entry){.place = item};
    struct sv text;
    if (item->kind == NODE_MAP && item->n == 1) {
        text = item->pairs[0].key;
        named = item->pairs[0].value;
        out->kind = ENTRY_GROUP;
        out->value = named;
    } else if (item->kind == NODE_STR) {
        text = item->s;
        out->kind = ENTRY_FILE;
    } else {
        return node_err(item, ST_INPUT, x->e, "%s", form);
    }
    if (memchr(text.p, 0, text.n))
        return node_err(item, ST_INPUT, x->e, "%s", form);
    const char *s = arena_strn(x->a, text.p, text.n);
    if (out->kind == ENTRY_FILE && strcmp(s, "_self_") == 0) {
        out->kind = ENTRY_SELF;
        return ST_OK;
    }
    if (out->kind == ENTRY_GROUP && take_word(&s, "override"))
        out->kind = ENTRY_OVERRIDE;
    else if (take_word(&s, "optional"))
        out->optional = true;
    if (strstr(s, "${") || (named->kind == NODE_STR && strstr(named->s.p, "${")))
        return node_err(named, ST_INPUT, x->e, "interpolation is not supported in a defaults list");
    char *path = arena_str(x->a, s), *at = strchr(path, '@');
    if (at) {
        *at = 0;
        out->package = at + 1;
    }
    bool absolute = *path == '/';
    out->relative = path + absolute;
    if (!good_path(out->relative))
        return node_err(item, ST_INPUT, x->e,
                        "'%s' is not a path below the folder of "
                        "configurations",
                        path);
    const char *full = absolute ? out->relative : join(x->a, here, '/', out->relative);
    if (out->kind == ENTRY_FILE) {
        out->file = full;
        out->group = folder_of(x->a, full);
        out->relative = folder_of(x->a, out->relative);
    } else {
        out->group = full;
    }
    return ST_OK;
}

static const char *choice_key(struct arena *a, const char *group, const char *package)
{
    return package && strcmp(package, dotted(a, group)) != 0
               ? arena_printf(a, "%s@%s", group, package)
               : group;
}

/* True: a key on the command line replaces the group's default file. */
static bool is_replaced(const struct expansion *x, const char *group)
{
    static const char *const keys[][2] = {
        {"model", "model.ref"}, {"workload", "workload.dir"}, {"workload", "workload.trace"}};
    for (size_t i = 0; i < x->args->n_overrides; i++) {
        const struct override *o = &x->args->overrides[i];
        if (o->kind == OVERRIDE_REMOVE || sv_eq(o->text, "null"))
            continue;
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            if (strcmp(keys[k][0], group) == 0 && strcmp(keys[k][1], o->key) == 0)
                return true;
    }
    return false;
}

static struct choice *find_choice(struct expansion *x, const char *key)
{
    for (struct choice *c = x->choices; c; c = c->next)
        if (!c->append && strcmp(c->key, key) == 0)
            return c;
    return NULL;
}

static void add_choice(struct expansion *x, struct choice c)
{
    struct choice **end = &x->choices;
    while (*end)
        end = &(*end)->next;
    *end = arena_copy(x->a, &c, sizeof c);
}

/* ---- expanding --------------------------------------------------------------------------- */

static enum st at_choice(struct expansion *x, const struct choice *c, const struct node *place,
                         const char *text)
{
    if (c && c->from)
        return err_set(x->e, ST_USAGE, "%s: %s", override_source, text);
    return node_err(c && c->place ? c->place : place, ST_INPUT, x->e, "%s", text);
}

/* The key that replaces a group's file. */
static const char *direct_key(const char *group)
{
    static const char *const keys[][2] = {
        {"hardware", "hardware.id=NAME"},
        {"model", "model.ref=DIRECTORY (with config.json)"},
        {"scheduler", "scheduler.policy=NAME"},
        {"engine", "engine.kind=NAME"},
        {"workload", "workload.dir=DIRECTORY, workload.trace=FILE or workload.prompts=FILE"},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i][0], group) == 0)
            return keys[i][1];
    return NULL;
}

static void add_options(struct expansion *x, struct buf *b, const char *group)
{
    size_t n;
    const char **names = sources_options(x->a, x->args->sources, group, &n);
    for (size_t i = 0; i < n; i++)
        buf_printf(b, "%s%s", i ? ", " : "", names[i]);
    if (n == 0)
        buf_puts(b, "none");
}

static enum st no_option(struct expansion *x, const struct choice *c, const struct node *place,
                         const char *group, const char *option)
{
    struct buf b = {0};
    buf_printf(&b, "%s: there is no '%s'; there are: ", group, option);
    add_options(x, &b, group);
    at_choice(x, c, place, buf_str(&b));
    buf_free(&b);
    const char *direct = direct_key(group);
    if (direct)
        err_hint(x->e, "to do without a file of the group, give %s", direct);
    return x->e->st;
}

static enum st not_chosen(struct expansion *x, const char *group)
{
    struct buf b = {0};
    add_options(x, &b, group);
    err_set(x->e, ST_USAGE, "%s: none is chosen; there are: %s", group, buf_str(&b));
    buf_free(&b);
    return err_hint(x->e, "choose with %s=NAME", group);
}

static enum st expand_file(struct expansion *x, const struct chain *up, const char *path,
                           const char *parent_package, const char *part, bool forced, bool *found);

static enum st open_option(struct expansion *x, const struct chain *up,
                           const struct defaults_entry *en, const struct choice *c,
                           const struct node *option, const char *parent_package)
{
    if (option->kind != NODE_STR)
        return at_choice(x, c, option,
                         arena_printf(x->a, "%s: expected the name of a file, got %s", en->group,
                                      node_kind_name(option->kind)));
    const char *name = option->s.p;
    if (strcmp(name, "???") == 0)
        return not_chosen(x, en->group);
    if (strlen(name) != option->s.n || !good_path(name))
        return at_choice(x, c, option,
                         arena_printf(x->a, "%s: '%s' is not the name of a file", en->group, name));
    const char *part = en->package ? en->package : dotted(x->a, en->relative);
    bool found;
    TRY(expand_file(x, up, join(x->a, en->group, '/', name), parent_package, part, en->package,
                    &found));
    return found || en->optional ? ST_OK : no_option(x, c, option, en->group, name);
}

static enum st stands_twice(struct expansion *x, const char *key, const struct node *place)
{
    const struct choice *c = x->choices;
    while (c && !(c->append && strcmp(c->key, key) == 0))
        c = c->next;
    at_choice(x, c, place, arena_printf(x->a, "%s stands twice in the defaults list", key));
    return c ? err_hint(x->e, "without the + it picks the group's file") : x->e->st;
}

static enum st expand_group(struct expansion *x, const struct chain *up,
                            const struct defaults_entry *en, struct choice *appended,
                            const char *parent_package)
{
    const char *package = en->package ? package_below(x->a, parent_package, en->package) : NULL;
    const char *key = choice_key(x->a, en->group, package);
    for (const struct seen_key *s = x->seen; s; s = s->next)
        if (strcmp(s->key, key) == 0)
            return stands_twice(x, key, en->place);
    struct seen_key *s = arena_one(x->a, struct seen_key);
    *s = (struct seen_key){.next = x->seen, .key = key};
    x->seen = s;

    struct choice *c = appended ? appended : find_choice(x, key);
    const struct node *value = en->value;
    if (c) {
        c->used = true;
        if (c->from && c->from->kind == OVERRIDE_REMOVE && c->from->has_value &&
            !(value->kind == NODE_STR && sv_eq(c->from->text, value->s.p)))
            return err_set(x->e, ST_USAGE, "%s: %s: the group is not set to that", override_source,
                           c->from->typed);
        value = c->value;
    }
    if (!value || value->kind == NODE_NULL || (!c && is_replaced(x, key)))
        return ST_OK;
    if (!c && stand_in_is(key, value)) {
        const struct choice *hardware = find_choice(x, "hardware");
        x->stand_in = (!hardware || stand_in_beside(hardware->value)) &&
                      stand_in_fits(x->args->overrides, x->args->n_overrides);
        if (!x->stand_in)
            TRY(stand_in_by_hub(x->a, x->args, &value, x->e));
        if (!value)
            return ST_OK;
    }
    if (value->kind != NODE_LIST)
        return open_option(x, up, en, c, value, parent_package);
    for (uint32_t i = value->n; i-- > 0;)
        TRY(open_option(x, up, en, c, value->items[i], parent_package));
    return ST_OK;
}

static void prepend(struct expansion *x, struct defaults_file f)
{
    struct file_link *l = arena_one(x->a, struct file_link);
    *l = (struct file_link){.next = x->files, .file = f};
    x->files = l;
    x->n_files++;
}

static enum st check_chain(struct expansion *x, const struct chain *up, const char *path)
{
    int depth = 0;
    bool cycle = false;
    for (const struct chain *c = up; c; c = c->up) {
        depth++;
        cycle = cycle || strcmp(c->path, path) == 0;
    }
    if (cycle) {
        const char *text = path;
        for (const struct chain *c = up; c; c = c->up) {
            text = arena_printf(x->a, "%s -> %s", c->path, text);
            if (strcmp(c->path, path) == 0)
                break;
        }
        return err_set(x->e, ST_INPUT, "a defaults list leads back to itself: %s", text);
    }
    if (depth >= MAX_DEPTH)
        return err_set(x->e, ST_INPUT, "%s: defaults lists are nested deeper than %d", path,
                       MAX_DEPTH);
    if (x->n_files >= MAX_FILES)
        return err_set(x->e, ST_INPUT, "%s: more than %d files in the defaults list", path,
                       MAX_FILES);
    return ST_OK;
}

/* The list's entries; _self_ is appended where it is missing, so that a file overrides its bases.
 */
static enum st read_list(struct expansion *x, const struct node *list, const char *here,
                         struct defaults_entry **out, size_t *n)
{
    if (list->kind != NODE_LIST)
        return node_err(list, ST_INPUT, x->e, "defaults: expected a list, got %s",
                        node_kind_name(list->kind));
    struct defaults_entry *v = arena_array(x->a, struct defaults_entry, list->n + 1);
    bool self = false;
    for (uint32_t i = 0; i < list->n; i++) {
        TRY(read_entry(x, list->items[i], here, &v[i]));
        if (v[i].kind == ENTRY_SELF && self)
            return node_err(list->items[i], ST_INPUT, x->e, "_self_ stands twice");
        self = self || v[i].kind == ENTRY_SELF;
    }
    *n = list->n;
    if (!self)
        v[(*n)++] = (struct defaults_entry){.kind = ENTRY_SELF};
    *out = v;
    return ST_OK;
}

static enum st expand_entry(struct expansion *x, const struct chain *here,
                            const struct defaults_entry *en, const char *package)
{
    bool found;
    switch (en->kind) {
    case ENTRY_GROUP:
        return expand_group(x, here, en, NULL, package);
    case ENTRY_FILE:
        TRY(expand_file(x, here, en->file, package,
                        en->package ? en->package : dotted(x->a, en->relative), en->package,
                        &found));
        if (!found && !en->optional)
            return node_err(en->place, ST_INPUT, x->e, "there is no file %s.yaml", en->file);
        return ST_OK;
    case ENTRY_SELF:
    case ENTRY_OVERRIDE:
        return ST_OK;
    }
    return ST_OK;
}

static enum st expand_appended(struct expansion *x, const struct chain *here)
{
    for (struct choice *c = x->choices; c; c = c->next) {
        if (!c->append)
            continue;
        struct defaults_entry en = {.kind = ENTRY_GROUP,
                                    .group = c->from->key,
                                    .relative = c->from->key,
                                    .package = c->from->package,
                                    .value = c->value,
                                    .place = c->value};
        TRY(expand_group(x, here, &en, c, ""));
    }
    return ST_OK;
}

static enum st expand_file(struct expansion *x, const struct chain *up, const char *path,
                           const char *parent_package, const char *part, bool forced, bool *found)
{
    struct source_file *f = arena_one(x->a, struct source_file);
    TRY(check_chain(x, up, path));
    enum st st = sources_load(x->a, x->args->sources, path, f, x->e);
    *found = st == ST_OK;
    if (st == ST_END)
        return ST_OK;
    TRY(st);
    const char *group = folder_of(x->a, path);
    if (f->package && !forced)
        part = f->package;
    const char *package = package_below(x->a, parent_package, part);
    struct defaults_file self = {.file = f, .path = path, .package = package};
    struct chain here = {.up = up, .path = path};
    if (!up)
        x->dir = f->dir;

    struct defaults_entry only_self = {.kind = ENTRY_SELF}, *entries = &only_self;
    size_t n = 1;
    const struct node *list = node_find(f->tree, "defaults");
    if (list) {
        TRY(read_list(x, list, group, &entries, &n));
        node_remove(f->tree, SV("defaults"));
    }
    for (size_t i = 0; i < n; i++)
        if (entries[i].kind == ENTRY_OVERRIDE) {
            const char *key = choice_key(x->a, entries[i].group, entries[i].package);
            if (!find_choice(x, key))
                add_choice(x, (struct choice){.key = key,
                                              .place = entries[i].place,
                                              .value = entries[i].value});
        }
    if (!up)
        TRY(expand_appended(x, &here));
    for (size_t i = n; i-- > 0;) {
        if (entries[i].kind == ENTRY_SELF)
            prepend(x, self);
        else
            TRY(expand_entry(x, &here, &entries[i], package));
    }
    return ST_OK;
}

/* ---- the command line -------------------------------------------------------------------- */

static enum st add_override(struct expansion *x, const struct override *o)
{
    if (!sources_has_group(x->args->sources, o->key))
        return err_set(x->e, ST_USAGE, "%s: %s: there is no group '%s'", override_source, o->typed,
                       o->key);
    if (o->kind == OVERRIDE_FORCE) {
        err_set(x->e, ST_USAGE, "%s: %s: ++ sets values, it picks no group's file", override_source,
                o->typed);
        return err_hint(x->e, "write %s", o->typed + 2);
    }
    struct choice c = {
        .key = choice_key(x->a, o->key, o->package), .from = o, .append = o->kind == OVERRIDE_ADD};
    if (o->kind != OVERRIDE_REMOVE) {
        struct node *value;
        TRY(override_value(x->a, o, VALUE_TEXT, &value, x->e));
        if (value->kind == NODE_NULL)
            value = node_str(x->a, "null"); /* a file of that name; ~group is how to have none */
        if (value->kind == NODE_STR && value->s.n == 0)
            return not_chosen(x, o->key);
        c.value = value;
    }
    struct choice *old = find_choice(x, c.key);
    if (old && !c.append)
        *old = (struct choice){
            .next = old->next, .key = c.key, .from = o, .value = c.value}; /* the last wins */
    else
        add_choice(x, c);
    return ST_OK;
}

static enum st check_used(struct expansion *x)
{
    for (const struct choice *c = x->choices; c; c = c->next) {
        if (c->used)
            continue;
        if (!c->from)
            return node_err(c->place, ST_INPUT, x->e,
                            "override %s: no defaults list before it has this group", c->key);
        if (c->from->kind == OVERRIDE_REMOVE)
            return err_set(x->e, ST_USAGE, "%s: %s: the defaults list has no such group",
                           override_source, c->from->typed);
        err_set(x->e, ST_USAGE, "%s: %s does not use the group %s", override_source,
                command_name(x->args->command), c->key);
        return err_hint(x->e, "+%s adds it to the defaults list all the same", c->from->typed);
    }
    return ST_OK;
}

bool defaults_is_group(const struct sources *s, const struct override *o)
{
    if (strchr(o->key, '.') || option_find(o->key))
        return false;
    if (o->package)
        return true;
    return sources_has_group(s, o->key) && !(o->text.n && o->text.p[0] == '{');
}

enum st defaults_expand(struct arena *a, const struct compose_args *args, struct defaults *out,
                        struct err *e)
{
    struct expansion x = {.a = a, .args = args, .e = e};
    for (size_t i = 0; i < args->n_overrides; i++)
        if (defaults_is_group(args->sources, &args->overrides[i]))
            TRY(add_override(&x, &args->overrides[i]));
    bool found;
    TRY(expand_file(&x, NULL, args->primary, "", "", false, &found));
    if (!found) {
        err_set(e, ST_USAGE, "there is no configuration %s.yaml", args->primary);
        return err_hint(e, "it is looked for in --config-dir, ./configs and the program itself");
    }
    TRY(check_used(&x));
    out->files = arena_array(a, struct defaults_file, x.n_files);
    out->n = 0;
    for (const struct file_link *l = x.files; l; l = l->next)
        out->files[out->n++] = l->file;
    out->dir = x.dir;
    out->stand_in = x.stand_in;
    return ST_OK;
}
