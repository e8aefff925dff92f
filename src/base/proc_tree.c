#include "base/proc_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/vec.h"

/* Name of the first pid namespace: PROC_PID_INIT_INO of Linux's proc_ns.h. */
#define FIRST_NAMESPACE "pid:[4026531836]"

enum { FIELD_STATE = 3, FIELD_PARENT = 4, FIELD_START = 22 }; /* of proc(5), from 1 */

struct proc_row {
    struct proc_stat s;
    bool ours;
};

typedef VEC(struct proc_row) proc_rows;

struct proc_tree {
    char *proc;
    proc_rows rows; /* all processes, by pid */
};

/* ---- one process ----------------------------------------------------------------------------- */

static struct sv take_word(struct sv *text)
{
    while (text->n && *text->p == ' ')
        text->p++, text->n--;
    struct sv word = {text->p, 0};
    while (word.n < text->n && text->p[word.n] != ' ' && text->p[word.n] != '\n')
        word.n++;
    text->p += word.n;
    text->n -= word.n;
    return word;
}

/* The name stands in parentheses and may hold blanks and parentheses itself. */
static bool skip_name(struct sv *text)
{
    size_t end = text->n;
    while (end && text->p[end - 1] != ')')
        end--;
    text->p += end;
    text->n -= end;
    return end > 0;
}

bool proc_stat_parse(struct sv text, struct proc_stat *out)
{
    int64_t start = 0;
    *out = (struct proc_stat){0};
    if (!str_int64(take_word(&text), &out->pid) || out->pid <= 0 || !skip_name(&text))
        return false;
    for (int field = FIELD_STATE; field <= FIELD_START; field++) {
        const struct sv word = take_word(&text);
        if (word.n == 0)
            return false;
        if (field == FIELD_STATE)
            out->state = *word.p;
        if (field == FIELD_PARENT && (!str_int64(word, &out->parent) || out->parent < 0))
            return false;
        if (field == FIELD_START && (!str_int64(word, &start) || start < 0))
            return false;
    }
    out->start = (uint64_t)start;
    return true;
}

/* At most `most` bytes of the file of a process; 0 = it cannot be read. */
static size_t read_file(const struct proc_tree *t, int64_t pid, const char *name, char *out,
                        size_t most)
{
    struct buf path = {0};
    buf_printf(&path, "%s/%lld/%s", t->proc, (long long)pid, name);
    const int fd = open(buf_str(&path), O_RDONLY | O_CLOEXEC);
    buf_free(&path);
    if (fd < 0)
        return 0;
    const ssize_t n = read(fd, out, most);
    close(fd);
    return n > 0 ? (size_t)n : 0;
}

static bool read_stat(const struct proc_tree *t, int64_t pid, struct proc_stat *out)
{
    char text[1024];
    const size_t n = read_file(t, pid, "stat", text, sizeof text);
    return n && proc_stat_parse((struct sv){text, n}, out) && out->pid == pid;
}

void proc_tree_name(const struct proc_tree *t, int64_t pid, char out[64])
{
    size_t n = read_file(t, pid, "comm", out, 63);
    while (n && out[n - 1] == '\n')
        n--;
    out[n] = 0;
    str_make_printable(out, n, false);
}

bool proc_is_contained(const char *proc)
{
    char name[64];
    struct buf path = {0};
    buf_printf(&path, "%s/self/ns/pid", proc ? proc : "/proc");
    const ssize_t n = readlink(buf_str(&path), name, sizeof name - 1);
    buf_free(&path);
    if (n <= 0)
        return false;
    name[n] = 0;
    return strcmp(name, FIRST_NAMESPACE) != 0;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static int by_pid(const void *a, const void *b)
{
    const struct proc_row *x = a, *y = b;
    return (x->s.pid > y->s.pid) - (x->s.pid < y->s.pid);
}

static struct proc_row *find_row(const proc_rows *rows, int64_t pid)
{
    const struct proc_row key = {.s.pid = pid};
    return rows->n ? bsearch(&key, rows->p, rows->n, sizeof key, by_pid) : NULL;
}

static void read_rows(const struct proc_tree *t, proc_rows *rows)
{
    DIR *dir = opendir(t->proc);
    if (!dir)
        return;
    for (struct dirent *at; (at = readdir(dir));) {
        struct proc_row row = {0};
        int64_t pid;
        if (str_int64(sv_of(at->d_name), &pid) && read_stat(t, pid, &row.s))
            vec_push(rows, row);
    }
    closedir(dir);
    if (rows->n)
        qsort(rows->p, rows->n, sizeof *rows->p, by_pid);
}

/* Ours before, by pid and start. */
static void mark_known(const struct proc_tree *t, proc_rows *rows)
{
    for (size_t i = 0; i < rows->n; i++) {
        const struct proc_row *before = find_row(&t->rows, rows->p[i].s.pid);
        rows->p[i].ours = before && before->ours && before->s.start == rows->p[i].s.start;
    }
}

static void mark_children(proc_rows *rows)
{
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < rows->n; i++) {
            struct proc_row *row = &rows->p[i];
            const struct proc_row *parent = row->ours ? NULL : find_row(rows, row->s.parent);
            row->ours = row->ours || (parent && parent->ours);
            more = more || (parent && parent->ours);
        }
    }
}

void proc_tree_walk(struct proc_tree *t)
{
    proc_rows rows = {0};
    read_rows(t, &rows);
    mark_known(t, &rows);
    mark_children(&rows);
    vec_free(&t->rows);
    t->rows = rows;
}

int64_t proc_tree_size(const struct proc_tree *t)
{
    int64_t n = 0;
    for (size_t i = 0; i < t->rows.n; i++)
        n += t->rows.p[i].ours;
    return n;
}

enum proc_whose proc_tree_whose(const struct proc_tree *t, int64_t pid)
{
    const struct proc_row *row = find_row(&t->rows, pid);
    return !row ? PROC_ABSENT : row->ours ? PROC_OF_TREE : PROC_OTHER;
}

enum st proc_tree_open(const char *proc, int64_t root, struct proc_tree **out, struct err *e)
{
    struct proc_tree *t = *out = mem_alloc(sizeof *t);
    struct proc_row row = {.ours = true};
    *t = (struct proc_tree){0};
    proc = proc ? proc : "/proc";
    t->proc = mem_alloc(strlen(proc) + 1);
    memcpy(t->proc, proc, strlen(proc) + 1);
    if (!read_stat(t, root, &row.s) || row.s.state == 'Z' || row.s.state == 'X')
        return err_set(e, ST_INPUT, "there is no process %lld", (long long)root);
    vec_push(&t->rows, row); /* the walk finds it known */
    proc_tree_walk(t);
    if (proc_tree_whose(t, getpid()) == PROC_OF_TREE)
        return err_set(e, ST_INPUT, "process %lld %s", (long long)root,
                       root == getpid() ? "is twinfer itself"
                                        : "is a parent of twinfer itself: whatever it started "
                                          "would be taken for it");
    return ST_OK;
}

void proc_tree_close(struct proc_tree **t)
{
    if (!*t)
        return;
    vec_free(&(*t)->rows);
    mem_free((*t)->proc);
    mem_free(*t);
    *t = NULL;
}
