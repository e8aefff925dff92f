/* Provenance of a result: environment, repository, host, program. */
#include <gnu/libc-version.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "artifact/artifact.h"
#include "base/build.h"
#include "base/clock.h"
#include "base/cpu_cache.h"
#include "base/process.h"
#include "base/vec.h"

extern char **environ;

/* ---- environment ------------------------------------------------------------------------- */

/* Variables that affect speed or results. A name ending in '*' is a prefix. */
static const char *const env_names[] = {
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDA_VISIBLE_DEVICES",
    "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY",
    "LD_PRELOAD",
    "MALLOC_ARENA_MAX",
    "NCCL_*",
    "OMP_*",
    "OPENBLAS_*",
    "TWINFER_*",
};
static const char *const secret_words[] = {"KEY", "TOKEN", "SECRET", "PASS", "AUTH", "CREDENTIAL"};

static bool env_allowed(const char *name, size_t n)
{
    bool listed = false;
    for (size_t i = 0; i < sizeof env_names / sizeof *env_names && !listed; i++) {
        size_t len = strlen(env_names[i]);
        bool prefix = env_names[i][len - 1] == '*';
        listed = prefix ? n >= len - 1 && memcmp(name, env_names[i], len - 1) == 0
                        : n == len && memcmp(name, env_names[i], len) == 0;
    }
    char copy[128];
    if (!listed || n >= sizeof copy)
        return false;
    memcpy(copy, name, n);
    copy[n] = 0;
    for (size_t i = 0; i < sizeof secret_words / sizeof *secret_words; i++)
        if (strstr(copy, secret_words[i]))
            return false;
    return true;
}

struct node *artifact_env(struct arena *a)
{
    struct node *map = node_new(a, NODE_MAP);
    for (char **p = environ; p && *p; p++) {
        const char *eq = strchr(*p, '=');
        if (eq && env_allowed(*p, (size_t)(eq - *p)))
            node_set(a, map, (struct sv){*p, (size_t)(eq - *p)}, node_str(a, eq + 1));
    }
    return map;
}

/* ---- git --------------------------------------------------------------------------------- */

enum { GIT_TIMEOUT_MS = 2000, GIT_OUTPUT_BYTES = 1 << 16 };

/* "# branch.oid <hex>" names the commit; every line without '#' is a changed file. */
static struct git_facts parse_status(struct arena *a, const char *text)
{
    struct git_facts g = {0};
    static const char oid[] = "# branch.oid ";
    for (const char *line = text; *line;) {
        size_t n = strcspn(line, "\n");
        size_t skip = sizeof oid - 1;
        if (line[0] != '#')
            g.dirty = true;
        else if (n > skip && memcmp(line, oid, skip) == 0 && line[skip] != '(')
            g.commit = arena_strn(a, line + skip, n - skip);
        line += n + (line[n] == '\n');
    }
    g.known_dirty = g.commit != NULL;
    return g;
}

struct git_facts artifact_git(struct arena *a)
{
    static const char *const git[] = {
        "git", "status", "--porcelain=v2", "--branch", "--untracked-files=no", NULL};
    static const char *const env[] = {"GIT_OPTIONAL_LOCKS=0", /* do not write the index */
                                      "GIT_TERMINAL_PROMPT=0", NULL};
    const struct process_params p = {
        .argv = git, .env = env, .in = PROCESS_NULL, .err = PROCESS_NULL, .dies_with_us = true};
    struct git_facts g = {0};
    struct buf b = {0};
    int status;
    enum process_fate fate =
        process_capture(&p, GIT_OUTPUT_BYTES, GIT_TIMEOUT_MS * NS_PER_MS, &b, &status);
    bool cut = fate == PROCESS_TOO_MUCH; /* many changed files: certainly dirty */
    if (cut || (fate == PROCESS_WHOLE && status == 0))
        g = parse_status(a, buf_str(&b));
    buf_free(&b);
    return g;
}

struct node *artifact_working_directory_git(struct arena *a)
{
    struct git_facts git = artifact_git(a);
    struct node *n = node_new(a, NODE_MAP);
    node_set(a, n, SV("commit"), node_str_or_null(a, git.commit));
    node_set(a, n, SV("dirty"), git.known_dirty ? node_bool(a, git.dirty) : node_new(a, NODE_NULL));
    return n;
}

/* ---- host and program -------------------------------------------------------------------- */

static struct node *cpu_model(struct arena *a)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[512];
    struct node *found = NULL;
    while (f && !found && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (colon && (strncmp(line, "model name", 10) == 0 || strncmp(line, "Model", 5) == 0)) {
            struct sv v = sv_trim(sv_of(colon + 1));
            found = node_str(a, arena_strn(a, v.p, v.n));
        }
    }
    if (f)
        fclose(f);
    return found ? found : node_new(a, NODE_NULL);
}

static struct node *cache_bytes(struct arena *a, int level)
{
    const int64_t bytes = cpu_cache_bytes(level);
    return bytes > 0 ? node_int(a, bytes) : node_new(a, NODE_NULL);
}

/* "580.82.07"; null without NVIDIA's kernel module. */
static struct node *nvidia_driver(struct arena *a)
{
    char text[64] = "";
    FILE *f = fopen("/sys/module/nvidia/version", "re");
    bool read = f && fgets(text, sizeof text, f);
    if (f)
        fclose(f);
    text[strcspn(text, "\n")] = 0;
    return read && text[0] ? node_str(a, text) : node_new(a, NODE_NULL);
}

struct node *artifact_host(struct arena *a)
{
    struct node *h = node_new(a, NODE_MAP);
    struct utsname u;
    bool named = uname(&u) == 0;
    int64_t memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    node_set(a, h, SV("cpu"), cpu_model(a));
    node_set(a, h, SV("cores"), node_int(a, sysconf(_SC_NPROCESSORS_ONLN)));
    node_set(a, h, SV("l2_cache_bytes"), cache_bytes(a, 2));
    node_set(a, h, SV("l3_cache_bytes"), cache_bytes(a, 3));
    node_set(a, h, SV("memory_bytes"), node_int(a, memory));
    node_set(a, h, SV("kernel"),
             named ? node_str(a, arena_printf(a, "%s %s %s", u.sysname, u.release, u.machine))
                   : node_new(a, NODE_NULL));
    node_set(a, h, SV("nvidia_driver"), nvidia_driver(a));
    node_set(a, h, SV("libc"), node_str(a, arena_printf(a, "glibc %s", gnu_get_libc_version())));
    return h;
}

struct node *artifact_tool(struct arena *a)
{
#ifdef __clang__
    const char *compiler = __VERSION__; /* already begins with "Clang" */
#else
    const char *compiler = "gcc " __VERSION__;
#endif
    size_t hex = strspn(build_commit, "0123456789abcdef");
    bool known = hex > 0;
    struct node *t = node_new(a, NODE_MAP);
    node_set(a, t, SV("version"), node_str(a, TW_VERSION));
    node_set(a, t, SV("commit"),
             known ? node_str(a, arena_strn(a, build_commit, hex)) : node_new(a, NODE_NULL));
    node_set(a, t, SV("dirty"),
             known ? node_bool(a, build_commit[hex] != 0) : node_new(a, NODE_NULL));
    node_set(a, t, SV("compiler"), node_str(a, compiler));
    return t;
}

struct node *artifact_time(struct arena *a, int64_t wall_ns)
{
    char text[CLOCK_ISO_MAX];
    clock_iso8601(wall_ns, text);
    return node_str(a, text);
}

/* ---- run_meta.json ----------------------------------------------------------------------- */

static struct node *pair(struct arena *a, const char *k1, struct node *v1, const char *k2,
                         struct node *v2)
{
    struct node *m = node_new(a, NODE_MAP);
    node_set(a, m, sv_of(k1), v1);
    node_set(a, m, sv_of(k2), v2);
    return m;
}

struct node *run_meta_node(struct arena *a, const struct run_meta *m)
{
    struct node *n = node_new(a, NODE_MAP);
    const struct {
        const char *key;
        struct node *value;
    } members[] = {
        {"schema_version", node_int(a, 1)},
        {"run_id", node_str_or_null(a, m->run_id)},
        {"run_type", node_str_or_null(a, m->run_type)},
        {"model", node_str_or_null(a, m->model)},
        {"hardware", pair(a, "hardware_id", node_str_or_null(a, m->hardware_id), "device",
                          node_str_or_null(a, m->device))},
        {"started_at", artifact_time(a, m->started_wall_ns)},
        {"ended_at", artifact_time(a, m->ended_wall_ns)},
        {"env", artifact_env(a)},
        {"params", m->params ? node_copy(a, m->params) : node_new(a, NODE_MAP)},
        {"hydra", pair(a, "config_path", node_str_or_null(a, m->hydra_config_path), "config_name",
                       node_str_or_null(a, m->hydra_config_name))},
        {"host", artifact_host(a)},
        {"tool", artifact_tool(a)},
        {"working_directory_git", artifact_working_directory_git(a)},
    };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        node_set(a, n, sv_of(members[i].key), members[i].value);
    for (uint32_t i = 0; m->extra && i < m->extra->n; i++)
        node_set(a, n, m->extra->pairs[i].key, node_copy(a, m->extra->pairs[i].value));
    return n;
}

struct node *contention_node(struct arena *a, const struct contention *c)
{
    struct node *n = node_new(a, NODE_MAP);
    node_set(a, n, SV("waiting"),
             isnan(c->waiting) ? node_new(a, NODE_NULL) : node_float(a, c->waiting));
    node_set(a, n, SV("stolen"),
             isnan(c->stolen) ? node_new(a, NODE_NULL) : node_float(a, c->stolen));
    return n;
}

static double share_of(const struct node *map, const char *key)
{
    const struct node *n = map ? node_path(map, key) : NULL;
    return n && n->kind == NODE_FLOAT ? n->f
           : n && n->kind == NODE_INT ? (double)n->i
                                      : (double)NAN;
}

struct contention contention_of(const struct node *meta, const char *key)
{
    const struct node *map = meta ? node_path(meta, key) : NULL;
    return (struct contention){share_of(map, "waiting"), share_of(map, "stolen")};
}
