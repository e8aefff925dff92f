#include "workload/jsonl.h"

#include <string.h>

#include "text/json.h"

enum st jsonl_open(struct jsonl *j, const char *path, size_t max_line_bytes, struct err *e)
{
    *j = (struct jsonl){.path = path, .max_line_bytes = max_line_bytes};
    TRY(gz_open(path, &j->file, e));
    j->left = j->file.text;
    j->scratch = arena_new();
    return ST_OK;
}

void jsonl_close(struct jsonl *j)
{
    arena_free(&j->scratch);
    gz_close(&j->file);
    *j = (struct jsonl){0};
}

/* Sets the line of every node: the JSON reader counts from 1, the text is line j->line of the file.
 */
static void place(const struct jsonl *j, struct node *n)
{
    n->line = (uint32_t)j->line;
    if (n->kind == NODE_LIST)
        for (uint32_t i = 0; i < n->n; i++)
            place(j, n->items[i]);
    if (n->kind == NODE_MAP)
        for (uint32_t i = 0; i < n->n; i++) {
            n->pairs[i].line = (uint32_t)j->line;
            place(j, n->pairs[i].value);
        }
}

/* The place "1:<column>" in an error's text is replaced. */
static enum st parse_line(const struct jsonl *j, struct sv text, struct node **out, struct err *e)
{
    const struct json_limits limits = {.max_string_bytes = j->max_line_bytes};
    struct err inner = {0};
    size_t skip = strlen(j->path);
    if (json_parse(j->scratch, j->path, text, &limits, out, &inner) == ST_OK) {
        place(j, *out);
        return ST_OK;
    }
    const char *what = err_cause(&inner, 0); /* "path:1:<column>: text" */
    long column = 0;
    if (what && strncmp(what, j->path, skip) == 0 && strncmp(what + skip, ":1:", 3) == 0) {
        for (what += skip + 3; *what >= '0' && *what <= '9'; what++)
            column = column * 10 + (*what - '0');
        what += strspn(what, ": ");
    }
    return err_at(e, inner.st, j->path, j->line, column, "%s", what);
}

/* The next line that is not blank. */
static bool next_line(struct jsonl *j, struct sv *line)
{
    while (j->left.n) {
        const char *end = memchr(j->left.p, '\n', j->left.n);
        *line = (struct sv){j->left.p, end ? (size_t)(end - j->left.p) : j->left.n};
        size_t used = line->n + (end ? 1 : 0);
        j->left = (struct sv){j->left.p + used, j->left.n - used};
        j->line++;
        if (sv_trim(*line).n)
            return true;
    }
    return false;
}

enum st jsonl_next(struct jsonl *j, struct node **out, struct err *e)
{
    struct sv line;
    if (!next_line(j, &line))
        return ST_END;
    if (line.n > j->max_line_bytes)
        return err_at(e, ST_INPUT, j->path, j->line, 0, "the line has %zu bytes; the limit is %zu",
                      line.n, j->max_line_bytes);
    size_t bad = str_utf8_valid(line.p, line.n);
    if (bad < line.n)
        return err_at(e, ST_INPUT, j->path, j->line, (long)bad + 1,
                      "byte 0x%02x is not valid UTF-8", (unsigned char)line.p[bad]);
    arena_reset(j->scratch);
    TRY(parse_line(j, line, out, e));
    if ((*out)->kind == NODE_MAP)
        return ST_OK;
    return err_at(e, ST_INPUT, j->path, j->line, 1, "expected an object, got %s",
                  node_kind_name((*out)->kind));
}
