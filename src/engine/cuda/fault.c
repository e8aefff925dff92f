#include "engine/cuda/fault.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/process.h"
#include "gpu/abi/cuda.h"
#include "model/structure_bytes.h"

static const int64_t timeout_ns = INT64_C(60) * 1000 * 1000 * 1000;
static const char not_again[] = "not again", fault_at[] = "batch ";

bool cuda_fault_is_kernels(const struct err *e)
{
    static const CUresult results[] = {
        CUDA_ERROR_ILLEGAL_ADDRESS,     CUDA_ERROR_LAUNCH_TIMEOUT,     CUDA_ERROR_ASSERT,
        CUDA_ERROR_ILLEGAL_INSTRUCTION, CUDA_ERROR_MISALIGNED_ADDRESS, CUDA_ERROR_LAUNCH_FAILED};
    for (int i = 0; err_cause(e, i); i++)
        for (size_t k = 0; k < sizeof results / sizeof *results; k++) {
            char number[16];
            snprintf(number, sizeof number, " (%d)", (int)results[k]);
            if (strstr(err_cause(e, i), number))
                return true;
        }
    return false;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Written and read by the same program: its structs as they stand in memory, pointers apart. Behind
 * the head: the model's name, its structure where it has one, batches. */
struct head {
    struct cuda_engine_params p;
    struct model m;
    size_t name_bytes;
    bool structure;
    int n;
};

static void write_case(const struct cuda_engine_params *p, const struct cuda_fault_batch *batches,
                       int n, struct buf *out)
{
    const struct model *m = p->model;
    struct head h = {.p = *p,
                     .m = *m,
                     .name_bytes = strlen(m->name) + 1,
                     .structure = m->structure != NULL,
                     .n = n};
    buf_add(out, (const char *)&h, sizeof h);
    buf_add(out, m->name, h.name_bytes);
    if (h.structure)
        structure_write(m->structure, out);
    for (int i = 0; i < n; i++) {
        buf_add(out, (const char *)&batches[i], sizeof batches[i]);
        buf_add(out, batches[i].step, batches[i].bytes);
    }
}

static bool take(struct sv *left, void *to, size_t n)
{
    if (left->n < n)
        return false;
    memcpy(to, left->p, n);
    *left = (struct sv){left->p + n, left->n - n};
    return true;
}

static bool read_case(struct arena *a, struct sv file, struct head *h,
                      struct cuda_fault_batch **out)
{
    if (!take(&file, h, sizeof *h) || h->name_bytes > file.n || h->n < 0 || h->n > 64)
        return false;
    char *name = arena_alloc(a, h->name_bytes);
    struct cuda_fault_batch *b = arena_array(a, struct cuda_fault_batch, h->n);
    struct structure *s = h->structure ? arena_one(a, struct structure) : NULL;
    if (!take(&file, name, h->name_bytes) || (s && !structure_read(a, &file, s)))
        return false;
    for (int i = 0; i < h->n; i++) {
        if (!take(&file, &b[i], sizeof b[i]) || b[i].bytes > file.n)
            return false;
        b[i].step = arena_alloc(a, b[i].bytes);
        take(&file, b[i].step, b[i].bytes);
    }
    h->m.name = name;
    h->m.structure = s;
    h->m.source = NULL;
    h->m.opaque = NULL;
    h->m.stored = NULL; /* what is computed has one format */
    h->m.op_formats = NULL;
    h->p.model = &h->m;
    h->p.weights_dir = h->p.rerun = NULL;
    h->p.clock = NULL;
    *out = b;
    return file.n == 0;
}

/* NULL: it cannot be written. */
static char *temporary(struct arena *a, const struct buf *bytes)
{
    const char *dir = getenv("TMPDIR");
    char *path = fs_join(a, dir && *dir ? dir : "/tmp", "twinfer-fault-XXXXXX");
    const int fd = mkstemp(path);
    size_t at = 0;
    if (fd < 0)
        return NULL;
    while (at < bytes->n) {
        const ssize_t put = write(fd, bytes->p + at, bytes->n - at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            break;
        at += (size_t)put;
    }
    close(fd);
    if (at == bytes->n)
        return path;
    unlink(path);
    return NULL;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static bool begins(struct sv s, const char *with)
{
    return s.n >= strlen(with) && memcmp(s.p, with, strlen(with)) == 0;
}

/* "batch 1\nkernel rope_f32, operator attn_rope of layer 3\n" */
static struct cuda_fault read_answer(struct arena *a, struct sv text, int n)
{
    struct cuda_fault f = {.found = CUDA_FAULT_UNKNOWN};
    const size_t digits = sizeof fault_at - 1;
    if (begins(text, not_again))
        f.found = CUDA_FAULT_NOT_AGAIN;
    const char *end = memchr(text.p, '\n', text.n);
    if (!begins(text, fault_at) || !end || text.n <= digits)
        return f;
    f.batch = text.p[digits] - '0';
    const struct sv rest = {end + 1, text.n - (size_t)(end + 1 - text.p)};
    const char *stop = memchr(rest.p, '\n', rest.n);
    if (f.batch < 0 || f.batch >= n || !stop)
        return f;
    f.where = arena_strn(a, rest.p, (size_t)(stop - rest.p));
    f.found = CUDA_FAULT_FOUND;
    return f;
}

struct cuda_fault cuda_fault_find(struct arena *a, const struct cuda_engine_params *p,
                                  const struct cuda_fault_batch *batches, int n)
{
    enum { MOST = 1 << 16 };
    struct cuda_fault f = {.found = CUDA_FAULT_UNKNOWN};
    struct buf bytes = {0}, answer = {0};
    int status = 0;
    write_case(p, batches, n, &bytes);
    char *file = temporary(a, &bytes);
    buf_free(&bytes);
    if (!file)
        return f;
    const char *const argv[] = {p->rerun, CUDA_FAULT_WORD, file, NULL};
    const struct process_params params = {.argv = argv,
                                          .in = PROCESS_NULL,
                                          .err = PROCESS_NULL,
                                          .group = true,
                                          .dies_with_us = true,
                                          .default_signals = true};
    if (process_capture(&params, MOST, timeout_ns, &answer, &status) == PROCESS_WHOLE && !status)
        f = read_answer(a, (struct sv){answer.p, answer.n}, n);
    unlink(file);
    buf_free(&answer);
    return f;
}

/* ---- the other process ----------------------------------------------------------------------- */

/* The causes but for the driver's own, the kernel first. */
static void print_where(const struct err *e)
{
    int n = 0;
    while (err_cause(e, n))
        n++;
    for (int i = n - 2; i >= 0; i--)
        printf("%s%s", err_cause(e, i), i ? ", " : "\n");
    if (n < 2)
        printf("%s\n", n ? err_cause(e, 0) : "");
}

int cuda_fault_main(const char *file)
{
    struct err e = {0};
    struct arena *a = arena_new();
    struct sv bytes;
    struct head h;
    struct cuda_fault_batch *batches = NULL;
    int failed = -1;
    enum st st = fs_read(a, file, (size_t)1 << 30, &bytes, &e);
    if (st == ST_OK && !read_case(a, bytes, &h, &batches))
        st = err_set(&e, ST_INPUT, "%s is no batch of this program", file);
    if (st == ST_OK)
        st = cuda_engine_rerun(&h.p, batches, h.n, &failed, &e);
    if (failed >= 0) {
        printf("%s%d\n", fault_at, failed);
        print_where(&e);
        st = ST_OK;
    } else if (st == ST_OK) {
        printf("%s\n", not_again);
    } else {
        err_print(&e, "a fault of the GPU", stderr);
    }
    arena_free(&a);
    return err_exit_code(st);
}
