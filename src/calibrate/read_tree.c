#include "calibrate/read_tree.h"

#include <math.h>
#include <string.h>

#include "text/gz.h"
#include "text/json.h"

static const size_t MOST_BYTES = (size_t)1 << 30;
enum { NAME_MAX_BYTES = 64 };

enum st read_tree(struct arena *a, const char *path, struct node **out, struct err *e)
{
    struct gz_file f;
    TRY(gz_open(path, &f, e));
    const struct json_limits limits = {.max_bytes = MOST_BYTES, .python = true};
    enum st st = json_parse(a, arena_str(a, path), f.text, &limits, out, e);
    if (st == ST_OK && (*out)->kind != NODE_MAP)
        st =
            node_err(*out, ST_INPUT, e, "expected an object, got %s", node_kind_name((*out)->kind));
    gz_close(&f);
    return st;
}

/* Whether name is one of "a|b". */
static bool is_one(struct sv name, const char *names)
{
    for (const char *p = names; *p;) {
        size_t n = strcspn(p, "|");
        if (n == name.n && memcmp(p, name.p, n) == 0)
            return true;
        p += n + (p[n] == '|');
    }
    return false;
}

bool read_tree_has(const char *path, const char *keys)
{
    struct gz_file f;
    struct err ignored = {0};
    bool found = false;
    if (fs_is_dir(path) || gz_open(path, &f, &ignored) != ST_OK)
        return false;
    struct json_reader *r = json_reader_new(path, &(struct json_limits){.python = true});
    json_feed(r, f.text.p, f.text.n);
    json_finish(r);
    int depth = 0;
    for (bool on = true; on && !found;) {
        switch (json_next(r, &ignored)) {
        case JSON_MAP_BEGIN:
        case JSON_LIST_BEGIN:
            depth++;
            break;
        case JSON_MAP_END:
        case JSON_LIST_END:
            depth--;
            break;
        case JSON_KEY:
            found = depth == 1 && is_one(json_text(r), keys);
            break;
        case JSON_END:
        case JSON_MORE:
        case JSON_ERROR:
            on = false;
            break;
        case JSON_NULL:
        case JSON_TRUE:
        case JSON_FALSE:
        case JSON_INT:
        case JSON_FLOAT:
        case JSON_STRING:
            on = depth > 0;
            break;
        }
    }
    json_reader_free(&r);
    gz_close(&f);
    return found;
}

static const struct node *first_of(const struct node *map, const char *names, char name[])
{
    for (const char *p = names; *p;) {
        size_t n = strcspn(p, "|");
        ASSERT(n < NAME_MAX_BYTES);
        memcpy(name, p, n);
        name[n] = 0;
        const struct node *v = node_find(map, name);
        if (v && v->kind != NODE_NULL)
            return v;
        p += n + (p[n] == '|');
    }
    return NULL;
}

enum st read_tree_number(const struct node *map, const char *names, double min, double max,
                         double *out, struct err *e)
{
    char name[NAME_MAX_BYTES];
    const struct node *v = first_of(map, names, name);
    *out = NAN;
    return v ? node_to_double(v, name, min, max, out, e) : ST_OK;
}

enum st read_tree_count(const struct node *map, const char *names, int64_t *out, struct err *e)
{
    double v;
    TRY(read_tree_number(map, names, 0, 1e9, &v, e));
    *out = isnan(v) ? 0 : (int64_t)(v + 0.5);
    return ST_OK;
}

int64_t read_tree_whole(double v)
{
    return v >= 1 && v < 1 << 30 ? (int64_t)(v + 0.5) : 0;
}

bool read_tree_ends(const char *path, const char *end)
{
    const size_t n = strlen(path), m = strlen(end);
    return n >= m && strcmp(path + n - m, end) == 0;
}
