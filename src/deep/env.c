#include "deep/env.h"

#include <string.h>
#include <sys/stat.h>

#include "artifact/artifact.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "gpu/cuda.h"
#include "gpu/library.h"

/* ---- GPUs ---- */

static const struct query {
    const char *field; /* of nvidia-smi */
    const char *key;   /* in env.json */
    bool number;
} queries[] = {
    {"index", "index", true},
    {"name", "name", false},
    {"uuid", "uuid", false},
    {"driver_version", "driver", false},
    {"memory.total", "memory_mib", true},
    {"clocks.sm", "sm_mhz", true},
    {"clocks.max.sm", "max_sm_mhz", true},
    {"clocks.mem", "memory_mhz", true},
    {"power.limit", "power_limit_w", true},
    {"persistence_mode", "persistence", false},
    {"mig.mode.current", "mig", false},
    {"compute_cap", "compute_capability", false}, /* since driver 510 */
};
/* Of a field that it does not know nvidia-smi refuses the whole query: the last ones are left out
 * then. */
enum { QUERIES = sizeof queries / sizeof *queries, QUERIES_LEAST = QUERIES - 2 };

static struct node *gpu_node(struct arena *a, const char *line, size_t n, int asked)
{
    struct node *gpu = node_new(a, NODE_MAP);
    for (int i = 0; i < asked; i++) {
        const char *comma = memchr(line, ',', n);
        struct sv text = sv_trim((struct sv){line, comma ? (size_t)(comma - line) : n});
        double v;
        bool missing = !text.n || text.p[0] == '[';
        struct node *value = missing ? node_new(a, NODE_NULL)
                             : queries[i].number && str_double(text, &v)
                                 ? node_number(a, v)
                                 : node_str(a, arena_strn(a, text.p, text.n));
        node_put(a, gpu, queries[i].key, value);
        n = comma ? n - (size_t)(comma - line) - 1 : 0;
        line = comma ? comma + 1 : line;
    }
    return gpu;
}

/* Its answer when it did not come in time is noted. */
static struct tool_answer noted(struct env_silence *silence, struct tool_answer answer)
{
    if (answer.hung && silence->n_hung < ENV_ASKED) {
        silence->hung[silence->n_hung++] = answer.why;
        log_warn("%s", answer.why);
    }
    return answer;
}

/* False: it answered, but refused the query. */
static bool query_gpus(struct arena *a, const struct tool_limits *limits, int asked,
                       struct node *gpus, struct env_silence *silence)
{
    struct buf fields = {0};
    buf_puts(&fields, "--query-gpu=");
    for (int i = 0; i < asked; i++)
        buf_printf(&fields, "%s%s", i ? "," : "", queries[i].field);
    const char *const argv[] = {"nvidia-smi", buf_str(&fields), "--format=csv,noheader,nounits",
                                NULL};
    const struct tool_answer answer = noted(silence, tool_ask(a, argv, limits));
    for (const char *p = answer.text; p && answer.code == 0 && *p;) {
        size_t n = strcspn(p, "\n");
        if (n)
            node_push(a, gpus, gpu_node(a, p, n, asked));
        p += n + (p[n] == '\n');
    }
    buf_free(&fields);
    return !answer.text || answer.code == 0;
}

static struct node *gpus_node(struct arena *a, const struct tool_limits *limits,
                              struct env_silence *silence)
{
    struct node *gpus = node_new(a, NODE_LIST);
    for (int asked = QUERIES;
         asked >= QUERIES_LEAST && !query_gpus(a, limits, asked, gpus, silence); asked--)
        ;
    return gpus;
}

/* "13.0"; NULL without a driver. */
static const char *cuda_version(struct arena *a)
{
    struct gpu_cuda cuda;
    struct err ignored = {0};
    int v = 0;
    if (gpu_cuda_open(&cuda, &ignored) != ST_OK || cuda.cuDriverGetVersion(&v) != 0 || v <= 0)
        return NULL;
    return arena_printf(a, "%d.%d", v / 1000, v % 1000 / 10);
}

struct node *env_node(struct arena *a, const struct env_tools *tools, struct env_silence *silence)
{
    const struct tool_limits *limits = &tools->limits;
    *silence = (struct env_silence){0};
    struct node *env = node_new(a, NODE_MAP), *versions = node_new(a, NODE_MAP);
    node_put(a, env, "schema_version", node_int(a, DEEP_SCHEMA));
    node_put(a, env, "started_at", artifact_time(a, clock_wall_ns()));
    node_put(a, env, "host", artifact_host(a));
    node_put(a, env, "gpus", gpus_node(a, limits, silence));
    node_put(a, env, "cuda_driver", node_str_or_null(a, cuda_version(a)));
    silence->ncu = noted(silence, tool_version(a, tools->ncu, limits));
    node_put(a, versions, "ncu", node_str_or_null(a, silence->ncu.text));
    node_put(a, versions, "nsys",
             node_str_or_null(a, noted(silence, tool_version(a, tools->nsys, limits)).text));
    node_put(a, env, "tools", versions);
    node_put(a, env, "tool", artifact_tool(a));
    node_put(a, env, "env", artifact_env(a));
    return env;
}

static const char *text_at(struct arena *a, const struct node *root, const char *path)
{
    const struct node *n = node_path(root, path);
    return n ? node_scalar_text(a, n) : NULL;
}

static void add(struct deep_fact *facts, size_t *n, const char *title, const char *text)
{
    if (text && *text)
        facts[(*n)++] = (struct deep_fact){title, text};
}

static const char *gpu_words(struct arena *a, const struct node *gpu)
{
    struct buf out = {0};
    static const struct {
        const char *key, *before, *after;
    } parts[] = {{"name", "", ""},
                 {"memory_mib", ", ", " MiB"},
                 {"max_sm_mhz", ", SM up to ", " MHz"},
                 {"memory_mhz", ", memory ", " MHz"},
                 {"power_limit_w", ", power cap ", " W"},
                 {"driver", ", driver ", ""}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *text = text_at(a, gpu, parts[i].key);
        if (text)
            buf_printf(&out, "%s%s%s", parts[i].before, text, parts[i].after);
    }
    const char *words = arena_str(a, buf_str(&out));
    buf_free(&out);
    return words;
}

struct deep_fact *env_facts(struct arena *a, const struct node *env, size_t *n)
{
    const struct node *gpus = node_find(env, "gpus");
    uint32_t n_gpus = gpus ? gpus->n : 0;
    struct deep_fact *facts = arena_array(a, struct deep_fact, n_gpus + 8);
    *n = 0;
    for (uint32_t i = 0; i < n_gpus; i++)
        add(facts, n, arena_printf(a, "GPU %u", i), gpu_words(a, gpus->items[i]));
    if (!n_gpus)
        add(facts, n, "GPU", "none that nvidia-smi knows");
    add(facts, n, "CUDA of the driver", text_at(a, env, "cuda_driver"));
    const char *cores = text_at(a, env, "host.cores"), *cpu = text_at(a, env, "host.cpu");
    if (cpu)
        add(facts, n, "Processor", cores ? arena_printf(a, "%s, %s cores", cpu, cores) : cpu);
    add(facts, n, "Kernel", text_at(a, env, "host.kernel"));
    const char *ncu = text_at(a, env, "tools.ncu"), *nsys = text_at(a, env, "tools.nsys");
    add(facts, n, "Nsight Compute", ncu ? ncu : "not there");
    add(facts, n, "Nsight Systems", nsys ? nsys : "not there");
    add(facts, n, "Recorded at", text_at(a, env, "started_at"));
    return facts;
}

/* ---- inputs ---- */

enum { HASHED_BYTES = 1 << 30 };

/* Bytes and number of the files of a folder, without those of its folders. */
static int64_t measure_folder(struct arena *a, const char *path, const char *const *names, size_t n,
                              int64_t *files)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        struct stat s;
        if (stat(fs_join(a, path, names[i]), &s) == 0 && S_ISREG(s.st_mode)) {
            ++*files;
            bytes += s.st_size;
        }
    }
    return bytes;
}

/* False: it cannot be read. */
static bool hash_file(const char *path, char hex[HASH_SHA256_HEX + 1])
{
    struct err ignored = {0};
    struct fs_map map = {0};
    if (fs_map(path, &map, &ignored) != ST_OK)
        return false;
    hash_sha256(map.p ? map.p : "", map.n, hex);
    fs_unmap(&map);
    return true;
}

/* Of the lines "<sha256>  <name>", as sha256sum prints them, by name. */
static const char *hash_folder(struct arena *a, const char *path, const char *const *names,
                               size_t n)
{
    struct buf lines = {0};
    char hex[HASH_SHA256_HEX + 1] = "";
    bool whole = true;
    for (size_t i = 0; i < n && whole; i++) {
        struct stat s;
        const char *file = fs_join(a, path, names[i]);
        if (stat(file, &s) != 0 || !S_ISREG(s.st_mode))
            continue;
        whole = hash_file(file, hex);
        buf_printf(&lines, "%s  %s\n", hex, names[i]);
    }
    hash_sha256(buf_str(&lines), lines.n, hex);
    buf_free(&lines);
    return whole ? arena_str(a, hex) : NULL;
}

static struct node *folder_node(struct arena *a, const char *path)
{
    struct err ignored = {0};
    const char **names;
    size_t n = 0;
    int64_t files = 0;
    bool listed = fs_list(a, path, &names, &n, &ignored) == ST_OK;
    int64_t bytes = measure_folder(a, path, names, listed ? n : 0, &files);
    struct node *out = node_new(a, NODE_MAP);
    node_put(a, out, "path", node_str(a, path));
    node_put(a, out, "files", node_int(a, files));
    node_put(a, out, "bytes", node_int(a, bytes));
    node_put(a, out, "sha256",
             node_str_or_null(a, listed && bytes <= HASHED_BYTES ? hash_folder(a, path, names, n)
                                                                 : NULL));
    return out;
}

static struct node *file_node(struct arena *a, const char *path, int64_t bytes)
{
    char hex[HASH_SHA256_HEX + 1] = "";
    bool hashed = bytes <= HASHED_BYTES && hash_file(path, hex);
    struct node *out = node_new(a, NODE_MAP);
    node_put(a, out, "path", node_str(a, path));
    node_put(a, out, "bytes", node_int(a, bytes));
    node_put(a, out, "sha256", node_str_or_null(a, hashed ? hex : NULL));
    return out;
}

static void add_input(struct arena *a, struct node *list, const char *path)
{
    struct stat s;
    if (stat(path, &s) != 0)
        return;
    if (S_ISREG(s.st_mode))
        node_push(a, list, file_node(a, path, s.st_size));
    else if (S_ISDIR(s.st_mode))
        node_push(a, list, folder_node(a, path));
}

void env_inputs_add(struct arena *a, struct node *inputs, struct texts paths)
{
    struct node *list = node_find(inputs, "inputs");
    for (size_t i = 0; list && list->kind == NODE_LIST && i < paths.n; i++)
        add_input(a, list, paths.items[i]);
}

struct node *env_inputs(struct arena *a, struct texts command, struct texts more)
{
    struct node *out = node_new(a, NODE_MAP), *words = node_new(a, NODE_LIST),
                *files = node_new(a, NODE_LIST);
    for (size_t i = 0; i < command.n; i++) {
        const char *word = command.items[i], *value = strchr(word, '=');
        node_push(a, words, node_str(a, word));
        add_input(a, files, word);
        if (value && value[1]) /* key=path, --option=path */
            add_input(a, files, value + 1);
    }
    node_put(a, out, "command", words);
    node_put(a, out, "inputs", files);
    env_inputs_add(a, out, more);
    return out;
}
