#include <string.h>

#include "base/map.h"
#include "base/vec.h"
#include "text/json.h"
#include "workload/workload.h"

/* prompt_id as text. Integers are what people write by hand, and mean the same. */
static enum st read_id(struct arena *a, const struct node *line, const char *path, long number,
                       const char **id, struct err *e)
{
    const struct node *n = node_find(line, "prompt_id");
    if (!n)
        return err_at(e, ST_INPUT, path, number, 0, "prompt_id is missing");
    if (n->kind == NODE_INT)
        *id = arena_printf(a, "%lld", (long long)n->i);
    else if (n->kind != NODE_STR)
        return err_at(e, ST_INPUT, path, number, n->column, "prompt_id: expected a string, got %s",
                      node_kind_name(n->kind));
    else if (n->s.n == 0)
        return err_at(e, ST_INPUT, path, number, n->column, "prompt_id is empty");
    else if (strlen(n->s.p) != n->s.n)
        return err_at(e, ST_INPUT, path, number, n->column, "prompt_id holds a NUL character");
    else
        *id = arena_str(a, n->s.p);
    return ST_OK;
}

static enum st read_text(struct arena *a, const struct node *line, const char *path, long number,
                         const char **text, struct err *e)
{
    const struct node *n = node_find(line, "text");
    if (!n)
        return err_at(e, ST_INPUT, path, number, 0, "text is missing");
    if (n->kind != NODE_STR)
        return err_at(e, ST_INPUT, path, number, n->column, "text: expected a string, got %s",
                      node_kind_name(n->kind));
    if (n->s.n == 0)
        return err_at(e, ST_INPUT, path, number, n->column, "text is empty");
    if (strlen(n->s.p) != n->s.n)
        return err_at(e, ST_INPUT, path, number, n->column, "text holds a NUL character");
    *text = arena_str(a, n->s.p);
    return ST_OK;
}

/* The JSON reader counts lines from 1; ours is line `number` of the file. Its place "1:<column>" in
 * the error's text is replaced. */
static enum st parse_line(struct arena *scratch, struct sv text, const char *path, long number,
                          struct node **out, struct err *e)
{
    static const struct json_limits limits = {.max_string_bytes = PROMPT_MAX_BYTES};
    struct err inner = {0};
    if (json_parse(scratch, "", text, &limits, out, &inner) == ST_OK)
        return ST_OK;
    const char *what = err_cause(&inner, 0); /* ":1:<column>: text" */
    long column = 0;
    if (what && what[0] == ':' && what[1] == '1' && what[2] == ':') {
        for (what += 3; *what >= '0' && *what <= '9'; what++)
            column = column * 10 + (*what - '0');
        what += strspn(what, ": ");
    }
    return err_at(e, inner.st, path, number, column, "%s", what);
}

static enum st read_line(struct arena *a, struct arena *scratch, struct sv text, const char *path,
                         long number, struct prompt *p, struct err *e)
{
    size_t bad = str_utf8_valid(text.p, text.n);
    if (bad < text.n)
        return err_at(e, ST_INPUT, path, number, (long)bad + 1, "byte 0x%02x is not valid UTF-8",
                      (unsigned char)text.p[bad]);
    struct node *line;
    TRY(parse_line(scratch, text, path, number, &line, e));
    if (line->kind != NODE_MAP)
        return err_at(e, ST_INPUT, path, number, 1, "expected an object, got %s",
                      node_kind_name(line->kind));
    TRY(read_id(a, line, path, number, &p->id, e));
    return read_text(a, line, path, number, &p->text, e);
}

typedef VEC(struct prompt) prompt_vec;

static enum st read_lines(struct arena *a, struct arena *scratch, struct sv all, const char *path,
                          prompt_vec *v, struct err *e)
{
    struct map seen; /* id -> line */
    struct arena *ids = arena_new();
    map_init(&seen, ids);
    enum st st = ST_OK;
    long number = 0;
    for (size_t at = 0; at < all.n && st == ST_OK;) {
        const char *end = memchr(all.p + at, '\n', all.n - at);
        struct sv line = {all.p + at, end ? (size_t)(end - all.p) - at : all.n - at};
        at += line.n + 1;
        number++;
        if (sv_trim(line).n == 0)
            continue;
        if (line.n > PROMPT_MAX_BYTES) {
            st = err_at(e, ST_INPUT, path, number, 0, "the line has %zu bytes; the limit is %d",
                        line.n, PROMPT_MAX_BYTES);
            break;
        }
        struct prompt p = {0};
        arena_reset(scratch);
        st = read_line(a, scratch, line, path, number, &p, e);
        if (st != ST_OK)
            break;
        bool is_new;
        struct map_entry *m = map_put(&seen, p.id, strlen(p.id), &is_new);
        if (is_new)
            m->i = number;
        else
            st = err_at(e, ST_INPUT, path, number, 0,
                        "prompt_id '%.200s' stands in line %lld already", p.id, (long long)m->i);
        vec_push(v, p);
    }
    arena_free(&ids);
    return st;
}

enum st prompts_load(struct arena *a, const char *path, struct prompt **out, size_t *n,
                     struct err *e)
{
    struct fs_map file;
    TRY(fs_map(path, &file, e));
    struct sv all = {file.p, file.n};
    if (all.n >= 3 && memcmp(all.p, "\xEF\xBB\xBF", 3) == 0) /* byte-order mark */
        all = (struct sv){all.p + 3, all.n - 3};
    struct arena *scratch = arena_new();
    prompt_vec v = {0};
    enum st st = read_lines(a, scratch, all, path, &v, e);
    *out = st == ST_OK ? arena_copy(a, v.p, v.n * sizeof *v.p) : NULL;
    *n = st == ST_OK ? v.n : 0;
    vec_free(&v);
    arena_free(&scratch);
    fs_unmap(&file);
    return st;
}
