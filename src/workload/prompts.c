#include <string.h>

#include "base/map.h"
#include "base/vec.h"
#include "workload/jsonl.h"
#include "workload/workload.h"

/* prompt_id as text; hand-written files have integers. */
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

typedef VEC(struct prompt) prompt_vec;

static enum st read_lines(struct arena *a, struct jsonl *j, prompt_vec *v, struct err *e)
{
    struct map seen; /* id -> line */
    struct arena *ids = arena_new();
    map_init(&seen, ids);
    struct node *line;
    enum st st;
    while ((st = jsonl_next(j, &line, e)) == ST_OK) {
        struct prompt p = {0};
        st = read_id(a, line, j->path, j->line, &p.id, e);
        if (st == ST_OK)
            st = read_text(a, line, j->path, j->line, &p.text, e);
        if (st != ST_OK)
            break;
        bool is_new;
        struct map_entry *m = map_put(&seen, p.id, strlen(p.id), &is_new);
        if (!is_new) {
            st = err_at(e, ST_INPUT, j->path, j->line, 0,
                        "prompt_id '%.200s' stands in line %lld already", p.id, (long long)m->i);
            break;
        }
        m->i = j->line;
        vec_push(v, p);
    }
    arena_free(&ids);
    return st == ST_END ? ST_OK : st;
}

enum st prompts_load(struct arena *a, const char *path, struct prompt **out, size_t *n,
                     struct err *e)
{
    struct jsonl j;
    prompt_vec v = {0};
    enum st st = jsonl_open(&j, path, PROMPT_MAX_BYTES, e);
    if (st == ST_OK)
        st = read_lines(a, &j, &v, e);
    jsonl_close(&j);
    *out = st == ST_OK ? arena_copy(a, v.p, v.n * sizeof *v.p) : NULL;
    *n = st == ST_OK ? v.n : 0;
    vec_free(&v);
    return st;
}
