/* `vllm bench sweep serve`: a folder of combinations of settings, SERVE-...-BENCH-..., each with a
 * result run=N.json for each run and summary.json, the list of these; summary.csv beside them has a
 * row for each run. Results carry the settings of server and benchmark that the sweep varied. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "calibrate/read_tree.h"
#include "calibrate/read_vllm.h"
#include "text/csv.h"
#include "text/gz.h"
#include "text/json.h"

#define SUMMARY_CSV  "summary.csv"
#define SUMMARY_JSON "summary.json"
static const size_t MOST_BYTES = (size_t)1 << 30;
enum { MOST_DEPTH = 3, MOST_FILES = 10000 };

typedef VEC(const char *) path_vec;

static bool begins(const char *s, const char *with)
{
    return strncmp(s, with, strlen(with)) == 0;
}

/* Results of runs below dir; warm-ups and failures are named otherwise. */
static void find_runs(struct arena *a, const char *dir, int depth, path_vec *out)
{
    const char **names;
    size_t n;
    struct err ignored = {0};
    if (fs_list(a, dir, &names, &n, &ignored) != ST_OK)
        return;
    for (size_t i = 0; i < n && out->n < MOST_FILES; i++) {
        const char *path = fs_join(a, dir, names[i]);
        if (begins(names[i], "run=") && read_tree_ends(names[i], ".json") &&
            !read_tree_ends(names[i], ".failure.json"))
            vec_push(out, path);
        else if (depth > 0 && names[i][0] != '.' && fs_is_dir(path))
            find_runs(a, path, depth - 1, out);
    }
}

static bool says(struct sv text, const char *word)
{
    const size_t n = strlen(word);
    for (size_t i = 0; i + n <= text.n; i++)
        if (text.p[i] == *word && memcmp(text.p + i, word, n) == 0)
            return true;
    return false;
}

/* A list, or a table, of results. */
static bool holds_results(const char *path)
{
    struct gz_file f;
    struct err ignored = {0};
    if (fs_is_dir(path) || !(read_tree_ends(path, ".csv") || read_tree_ends(path, ".json")) ||
        gz_open(path, &f, &ignored) != ST_OK)
        return false;
    const struct sv text = sv_trim(f.text);
    const char *line = memchr(text.p, '\n', text.n);
    const bool csv = read_tree_ends(path, ".csv");
    const size_t n = csv && line ? (size_t)(line - text.p) : text.n;
    const bool is =
        text.n && (csv || *text.p == '[') && says((struct sv){text.p, n}, "mean_ttft_ms");
    gz_close(&f);
    return is;
}

bool observed_is_sweep(struct arena *a, const char *path)
{
    if (!fs_is_dir(path))
        return holds_results(path);
    path_vec runs = {0};
    find_runs(a, path, MOST_DEPTH, &runs);
    const bool is = runs.n > 0 || holds_results(fs_join(a, path, SUMMARY_JSON)) ||
                    holds_results(fs_join(a, path, SUMMARY_CSV));
    vec_free(&runs);
    return is;
}

/* ---- one server ------------------------------------------------------------------------------ */

/* A member by its name with '_' or, as options are typed, '-'. */
static const struct node *setting(const struct node *map, const char *name)
{
    char dashed[64];
    const struct node *n = node_find(map, name);
    if (n)
        return n;
    snprintf(dashed, sizeof dashed, "%s", name);
    for (char *p = dashed; *p; p++)
        *p = *p == '_' ? '-' : *p;
    return node_find(map, dashed);
}

static enum st other_server(const struct node *at, const char *name, double one, double other,
                            struct err *e)
{
    node_err(at, ST_INPUT, e, "the sweep has servers of %s %g and %g", name, one, other);
    return err_hint(e, "one calibration holds for one server: give the folders SERVE-... of one");
}

/* What a result says of its server; ST_INPUT: another one than before. */
static enum st take_server(const struct node *map, struct observed_settings *s, bool first,
                           struct err *e)
{
    const struct {
        const char *name;
        int64_t *to;
    } rows[] = {{"tensor_parallel_size", &s->tp},
                {"pipeline_parallel_size", &s->pp},
                {"max_num_batched_tokens", &s->token_budget},
                {"max_num_seqs", &s->batch_cap},
                {"max_model_len", &s->max_model_len},
                {"num_gpu_blocks_override", &s->num_blocks},
                {"block_size", &s->block_size}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct node *n = setting(map, rows[i].name);
        const double v = !n                      ? 0
                         : n->kind == NODE_INT   ? (double)n->i
                         : n->kind == NODE_FLOAT ? n->f
                                                 : 0;
        const int64_t stated = v >= 1 && v < 1 << 30 ? (int64_t)v : 0;
        if (!first && stated != *rows[i].to)
            return other_server(n ? n : map, rows[i].name, (double)*rows[i].to, (double)stated, e);
        *rows[i].to = stated;
    }
    const struct node *caching = setting(map, "enable_prefix_caching");
    const int on = caching && caching->kind == NODE_BOOL ? caching->b : -1;
    if (!first && on != s->prefix_caching)
        return other_server(caching ? caching : map, "enable_prefix_caching", s->prefix_caching, on,
                            e);
    s->prefix_caching = on;
    return ST_OK;
}

static enum st take_result(struct arena *a, const char *path, const struct node *map,
                           struct observed *out, struct err *e)
{
    if (map->kind != NODE_MAP)
        return node_err(map, ST_INPUT, e, "expected an object, got %s", node_kind_name(map->kind));
    TRY(take_server(map, &out->settings, out->n_stages == 0, e));
    return vllm_read_result(a, path, map, out, e);
}

/* "SERVE-max_num_seqs=32-BENCH-request_rate=4": the part of the server. */
static size_t server_part(const char *path, const char **part)
{
    const char *at = strstr(path, "/SERVE-");
    if (!at)
        return 0;
    *part = at + 1;
    const char *bench = strstr(*part, "-BENCH-");
    return bench ? (size_t)(bench - *part) : strcspn(*part, "/");
}

/* By the folders' names: settings that are not known here count as well. */
static enum st check_servers(const path_vec *runs, struct err *e)
{
    const char *first = "", *part = "";
    const size_t n = runs->n ? server_part(runs->p[0], &first) : 0;
    for (size_t i = 1; i < runs->n; i++) {
        const size_t m = server_part(runs->p[i], &part);
        if (m == n && memcmp(first, part, n) == 0)
            continue;
        err_set(e, ST_INPUT, "the sweep has several servers: %.*s and %.*s", (int)n, first, (int)m,
                part);
        return err_hint(e, "one calibration holds for one server: give the folders of one");
    }
    return ST_OK;
}

/* ---- files ----------------------------------------------------------------------------------- */

static enum st read_json(struct arena *a, const char *path, struct observed *out, struct err *e)
{
    const struct json_limits limits = {.max_bytes = MOST_BYTES, .python = true};
    struct gz_file f;
    struct node *top;
    TRY(gz_open(path, &f, e));
    enum st st = json_parse(a, arena_str(a, path), f.text, &limits, &top, e);
    gz_close(&f);
    TRY(st);
    if (top->kind != NODE_LIST)
        return take_result(a, path, top, out, e);
    for (uint32_t i = 0; i < top->n; i++)
        TRY(take_result(a, path, top->items[i], out, e));
    return ST_OK;
}

/* A cell as JSON has it; NULL = empty, or a list, which the table has as text. */
static struct node *value_of(struct arena *a, struct sv cell)
{
    char *text = arena_strn(a, cell.p, cell.n), *end;
    if (cell.n == 0 || *text == '[')
        return NULL;
    if (strcmp(text, "True") == 0 || strcmp(text, "False") == 0)
        return node_bool(a, *text == 'T');
    const double v = strtod(text, &end);
    if (*end || isnan(v))
        return isnan(v) ? NULL : node_str(a, text);
    return v == floor(v) && fabs(v) < 1e15 ? node_int(a, (int64_t)v) : node_float(a, v);
}

static enum st read_csv(struct arena *a, const char *path, struct observed *out, struct err *e)
{
    struct csv_reader *r;
    enum st st;
    TRY(csv_open(&r, path, e));
    while ((st = csv_next(r, e)) == ST_OK) {
        struct node *map = node_new(a, NODE_MAP);
        map->source = arena_str(a, path);
        map->line = (uint32_t)csv_line(r);
        map->column = 1;
        for (int i = 0; i < csv_columns(r); i++) {
            struct node *v = value_of(a, csv_cell(r, i));
            if (v && *csv_column_name(r, i))
                node_put(a, map, arena_str(a, csv_column_name(r, i)), v);
        }
        if ((st = take_result(a, path, map, out, e)) != ST_OK)
            break;
    }
    csv_close(&r);
    return st == ST_END ? ST_OK : st;
}

static enum st read_runs(struct arena *a, const path_vec *runs, struct observed *out, struct err *e)
{
    TRY(check_servers(runs, e));
    for (size_t i = 0; i < runs->n; i++)
        TRY(read_json(a, runs->p[i], out, e));
    return ST_OK;
}

enum st observed_read_sweep(struct arena *a, const char *path, struct observed *out, struct err *e)
{
    path_vec runs = {0};
    const char *file = path;
    if (fs_is_dir(path)) {
        find_runs(a, path, MOST_DEPTH, &runs);
        file = fs_join(a, path, SUMMARY_JSON);
        if (!fs_exists(file))
            file = fs_join(a, path, SUMMARY_CSV);
    }
    enum st st = runs.n                         ? read_runs(a, &runs, out, e)
                 : read_tree_ends(file, ".csv") ? read_csv(a, file, out, e)
                                                : read_json(a, file, out, e);
    vec_free(&runs);
    if (st == ST_OK && out->n_stages == 0)
        return err_set(e, ST_INPUT, "%s has no results", path);
    return st;
}
