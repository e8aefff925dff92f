/* Provenance of a result: environment, repository, host, program. */
#include <gnu/libc-version.h>
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

static const struct field git_rows[] = {
    FIELD(struct git_facts, commit),
    FIELD(struct git_facts, dirty, FIELD_IF(struct git_facts, known_dirty)),
};
static const struct fields git_fields = FIELDS(struct git_facts, git_rows);

struct node *artifact_working_directory_git(struct arena *a)
{
    const struct git_facts git = artifact_git(a);
    return fields_node(a, &git_fields, &git);
}

/* ---- host and program -------------------------------------------------------------------- */

static const char *cpu_model(struct arena *a)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[512];
    const char *found = NULL;
    while (f && !found && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (colon && (strncmp(line, "model name", 10) == 0 || strncmp(line, "Model", 5) == 0)) {
            struct sv v = sv_trim(sv_of(colon + 1));
            found = arena_strn(a, v.p, v.n);
        }
    }
    if (f)
        fclose(f);
    return found;
}

/* "580.82.07"; NULL without NVIDIA's kernel module. */
static const char *nvidia_driver(struct arena *a)
{
    char text[64] = "";
    FILE *f = fopen("/sys/module/nvidia/version", "re");
    bool read = f && fgets(text, sizeof text, f);
    if (f)
        fclose(f);
    text[strcspn(text, "\n")] = 0;
    return read && text[0] ? arena_str(a, text) : NULL;
}

struct host {
    const char *cpu, *kernel, *nvidia_driver, *libc;
    int64_t cores, l2_cache_bytes, l3_cache_bytes, memory_bytes;
};

static const struct field host_rows[] = {
    FIELD(struct host, cpu),
    FIELD(struct host, cores),
    FIELD(struct host, l2_cache_bytes, .zero_is_null = true),
    FIELD(struct host, l3_cache_bytes, .zero_is_null = true),
    FIELD(struct host, memory_bytes),
    FIELD(struct host, kernel),
    FIELD(struct host, nvidia_driver),
    FIELD(struct host, libc),
};
static const struct fields host_fields = FIELDS(struct host, host_rows);

struct node *artifact_host(struct arena *a)
{
    struct utsname u;
    struct host h = {
        .cpu = cpu_model(a),
        .cores = sysconf(_SC_NPROCESSORS_ONLN),
        .l2_cache_bytes = cpu_cache_bytes(2),
        .l3_cache_bytes = cpu_cache_bytes(3),
        .memory_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE),
        .nvidia_driver = nvidia_driver(a),
        .libc = arena_printf(a, "glibc %s", gnu_get_libc_version()),
    };
    if (uname(&u) == 0)
        h.kernel = arena_printf(a, "%s %s %s", u.sysname, u.release, u.machine);
    return fields_node(a, &host_fields, &h);
}

struct tool {
    const char *version, *compiler;
    struct git_facts built_from;
};

static const struct field tool_rows[] = {
    FIELD(struct tool, version),
    FIELD(struct tool, compiler),
    FIELD_MAP(struct tool, built_from, NULL, &git_fields),
};
static const struct fields tool_fields = FIELDS(struct tool, tool_rows);

struct node *artifact_tool(struct arena *a)
{
    struct tool t = {.version = TW_VERSION};
#ifdef __clang__
    t.compiler = __VERSION__; /* already begins with "Clang" */
#else
    t.compiler = "gcc " __VERSION__;
#endif
    const size_t hex = strspn(build_commit, "0123456789abcdef");
    if (hex > 0)
        t.built_from = (struct git_facts){.commit = arena_strn(a, build_commit, hex),
                                          .known_dirty = true,
                                          .dirty = build_commit[hex] != 0};
    return fields_node(a, &tool_fields, &t);
}

struct node *artifact_time(struct arena *a, int64_t wall_ns)
{
    char text[CLOCK_ISO_MAX];
    clock_iso8601(wall_ns, text);
    return node_str(a, text);
}

/* ---- run_meta.json ----------------------------------------------------------------------- */

static const struct field hardware_rows[] = {
    FIELD(struct run_meta, hardware_id),
    FIELD(struct run_meta, device),
};
static const struct fields hardware_fields = FIELDS(struct run_meta, hardware_rows);

static const struct field hydra_rows[] = {
    FIELD(struct hydra, config_path),
    FIELD(struct hydra, config_name),
};
const struct fields hydra_fields = FIELDS(struct hydra, hydra_rows);

static const struct field run_rows[] = {
    FIELD(struct run_meta, run_id),
    FIELD(struct run_meta, run_type),
    FIELD(struct run_meta, model),
    FIELD_PART("hardware", &hardware_fields),
    FIELD_MAP(struct run_meta, hydra, "hydra", &hydra_fields),
};
static const struct fields run_fields = FIELDS(struct run_meta, run_rows);

struct node *run_meta_node(struct arena *a, const struct run_meta *m)
{
    struct node *n = fields_node(a, &run_fields, m);
    const struct {
        const char *key;
        struct node *value;
    } members[] = {
        {"schema_version", node_int(a, 1)},
        {"started_at", artifact_time(a, m->started_wall_ns)},
        {"ended_at", artifact_time(a, m->ended_wall_ns)},
        {"env", artifact_env(a)},
        {"params", m->params ? node_copy(a, m->params) : node_new(a, NODE_MAP)},
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

static const struct field contention_rows[] = {
    FIELD(struct contention, waiting),
    FIELD(struct contention, stolen),
    FIELD(struct contention, pressure, .optional = true),
};
const struct fields contention_fields = FIELDS(struct contention, contention_rows);

struct contention contention_of(const struct node *meta, const char *key)
{
    struct contention c;
    fields_read_loose(NULL, &contention_fields, meta ? node_path(meta, key) : NULL, &c);
    return c;
}
