#include "config/stand_in.h"

#include <ctype.h>
#include <string.h>

static const char model[] = "tiny_qwen3", hardware_of_it[] = "cpu";

static bool is_name(const struct node *n, const char *name)
{
    return n && n->kind == NODE_STR && sv_eq(n->s, name);
}

bool stand_in_is(const char *group, const struct node *value)
{
    return strcmp(group, "model") == 0 && is_name(value, model);
}

bool stand_in_beside(const struct node *hardware)
{
    return is_name(hardware, hardware_of_it);
}

/* The word names another model, or describes another device. */
static bool asks_for_other(const struct override *o)
{
    static const char *const keys[] = {
        "model.ref",
        "model.hub",
        "model.name",
        "model.config",
        "model.weights_gb",
        "hardware.memory_gb",
        "hardware.dram_gb_per_s",
        "hardware.link_gb_per_s",
        "hardware.peak_tflops",
    };
    if (o->kind == OVERRIDE_REMOVE || sv_eq(o->text, "null"))
        return false;
    if (strcmp(o->key, "hardware.id") == 0)
        return !sv_eq(o->text, hardware_of_it);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const size_t n = strlen(keys[i]);
        if (strncmp(o->key, keys[i], n) == 0 && (!o->key[n] || o->key[n] == '.'))
            return true;
    }
    return false;
}

bool stand_in_fits(const struct override *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (asks_for_other(&words[i]))
            return false;
    return true;
}

/* The file of the group that has that hub name; NULL = none. */
static enum st file_of_hub(struct arena *a, const struct sources *s, struct sv hub,
                           const struct node **out, struct err *e)
{
    size_t n;
    const char **files = sources_options(a, s, "model", &n);
    *out = NULL;
    for (size_t i = 0; i < n && !*out; i++) {
        struct source_file f;
        TRY(sources_load(a, s, arena_printf(a, "model/%s", files[i]), &f, e));
        const struct node *its = node_find(f.tree, "hub");
        if (its && its->kind == NODE_STR && its->s.n == hub.n &&
            memcmp(its->s.p, hub.p, hub.n) == 0)
            *out = node_str(a, files[i]);
    }
    return ST_OK;
}

enum st stand_in_by_hub(struct arena *a, const struct compose_args *args, const struct node **out,
                        struct err *e)
{
    const struct override *hub = NULL;
    struct node *name;
    *out = NULL;
    for (size_t i = 0; i < args->n_overrides; i++)
        if (strcmp(args->overrides[i].key, "model.hub") == 0)
            hub = &args->overrides[i];
    if (!hub || hub->kind == OVERRIDE_REMOVE)
        return ST_OK;
    TRY(override_value(a, hub, VALUE_TEXT, &name, e));
    if (name->kind == NODE_STR)
        return file_of_hub(a, args->sources, name->s, out, e);
    return ST_OK;
}

/* "ORG/NAME", "ORG/NAME@REVISION"; what begins otherwise is a path, a list or a mistake. */
static bool is_hub_word(struct sv text)
{
    const char *at = memchr(text.p, '@', text.n);
    const size_t n = at ? (size_t)(at - text.p) : text.n;
    const char *slash = memchr(text.p, '/', n);
    return slash && isalnum((unsigned char)text.p[0]) &&
           !memchr(slash + 1, '/', n - (size_t)(slash + 1 - text.p));
}

enum st stand_in_model_words(struct arena *a, const struct sources *s, struct override *words,
                             size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        struct override *o = &words[i];
        const struct node *file;
        struct source_file f;
        if (strcmp(o->key, "model") != 0 || o->kind != OVERRIDE_SET || o->package ||
            !is_hub_word(o->text))
            continue;
        const char *name = arena_strn(a, o->text.p, o->text.n);
        const enum st st = sources_load(a, s, arena_printf(a, "model/%s", name), &f, e);
        if (st != ST_END)
            TRY(st);
        if (st == ST_OK)
            continue;
        TRY(file_of_hub(a, s, o->text, &file, e));
        if (file)
            o->text = file->s;
        else
            o->key = "model.ref";
    }
    return ST_OK;
}
