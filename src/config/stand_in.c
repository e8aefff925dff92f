#include "config/stand_in.h"

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

enum st stand_in_by_hub(struct arena *a, const struct compose_args *args, const struct node **out,
                        struct err *e)
{
    const struct override *hub = NULL;
    struct node *name;
    size_t n;
    *out = NULL;
    for (size_t i = 0; i < args->n_overrides; i++)
        if (strcmp(args->overrides[i].key, "model.hub") == 0)
            hub = &args->overrides[i];
    if (!hub || hub->kind == OVERRIDE_REMOVE)
        return ST_OK;
    TRY(override_value(a, hub, VALUE_TEXT, &name, e));
    const char **files = sources_options(a, args->sources, "model", &n);
    for (size_t i = 0; i < n && !*out && name->kind == NODE_STR; i++) {
        struct source_file f;
        TRY(sources_load(a, args->sources, arena_printf(a, "model/%s", files[i]), &f, e));
        if (is_name(node_find(f.tree, "hub"), name->s.p))
            *out = node_str(a, files[i]);
    }
    return ST_OK;
}
