/* Folders and files of a bundle's root. */
#include <string.h>

#include "base/log.h"
#include "profile/read/read.h"

char *bundle_folder(struct arena *a, const struct bundle_key *key, const char *kind,
                    const char *device)
{
    const char *of = arena_printf(a, "%s/data/profiling/%s/%s", key->root, kind, device);
    char *own = fs_join(a, of, key->model_name);
    char *hub = key->hub_name ? fs_join(a, of, key->hub_name) : NULL;
    return hub && !fs_is_dir(own) && fs_is_dir(hub) ? hub : own;
}

void bundle_list_folders(struct arena *a, struct buf *list, const char *dir)
{
    const char **names;
    size_t n;
    struct err quiet = {0};
    if (fs_is_dir(dir) && fs_list(a, dir, &names, &n, &quiet) == ST_OK)
        for (size_t i = 0; i < n; i++)
            if (names[i][0] != '.')
                buf_printf(list, "%s%s", list->n ? ", " : "", names[i]);
}

const char *bundle_network_dir(struct arena *a, const struct bundle_key *key, const char *network)
{
    return arena_printf(a, "%s/data/profiling/network/%s", key->root, network);
}

static enum st no_network_device(struct arena *a, const struct bundle_key *key, struct err *e)
{
    struct buf list = {0};
    bundle_list_folders(a, &list, arena_printf(a, "%s/data/profiling/cpu_overhead", key->root));
    bundle_list_folders(a, &list, arena_printf(a, "%s/data/profiling/network", key->root));
    err_set(e, ST_INPUT,
            "network_device: %s/data/profiling has no folder %s, neither in cpu_overhead nor in "
            "network",
            key->root, key->network_device);
    if (list.n)
        err_hint(e, "there are: %s", buf_str(&list));
    buf_free(&list);
    return e->st;
}

enum st bundle_network_file(struct arena *a, const struct bundle_key *key, const char *dir,
                            const char *name, const char *setting, int64_t n, const char **out,
                            struct err *e)
{
    const char *networks = fs_dir(a, dir), **names;
    struct buf list = {0};
    size_t n_names = 0;
    struct err quiet = {0};
    *out = fs_join(a, dir, name);
    if (fs_exists(*out))
        return ST_OK;
    err_set(e, ST_INPUT, "%s=%lld needs the network's table: there is no %s", setting, (long long)n,
            *out);
    if (fs_is_dir(networks) && fs_list(a, networks, &names, &n_names, &quiet) == ST_OK)
        for (size_t i = 0; i < n_names; i++)
            if (fs_exists(fs_join(a, fs_join(a, networks, names[i]), name)))
                buf_printf(&list, "%s%s", list.n ? ", " : "", names[i]);
    if (list.n)
        err_hint(e, "network_device= names a network; with that file there are: %s",
                 buf_str(&list));
    else
        err_hint(e, "no network of %s has one", key->root);
    buf_free(&list);
    return e->st;
}

static bool has_network(struct arena *a, const struct bundle_key *key, const char *device)
{
    return fs_is_dir(arena_printf(a, "%s/data/profiling/cpu_overhead/%s", key->root, device)) ||
           fs_is_dir(bundle_network_dir(a, key, device));
}

const char *bundle_network_of(struct arena *a, const struct bundle_key *key)
{
    const char *device = key->network_device;
    if (!device)
        return key->hardware;
    const bool own =
        !key->network_chosen && !has_network(a, key, device) && has_network(a, key, key->hardware);
    return own ? key->hardware : device;
}

enum st bundle_network(struct arena *a, const struct bundle_key *key, const char **out,
                       struct err *e)
{
    *out = bundle_network_of(a, key);
    if (key->network_chosen && !has_network(a, key, *out))
        return no_network_device(a, key, e);
    if (key->network_device && *out == key->hardware && strcmp(*out, key->network_device) != 0)
        log_info("%s has no network %s: host times and collectives are those of %s", key->root,
                 key->network_device, *out);
    return ST_OK;
}

const char *bundle_host_file(struct arena *a, const struct bundle_key *key)
{
    return fs_join(a, bundle_folder(a, key, "cpu_overhead", bundle_network_of(a, key)),
                   "cpu_overheads.csv");
}
