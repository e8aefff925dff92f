/* The speed of what reads and converts traces. See README.md beside this file.
 *
 *     bench_trace_read spool FILE STEPS       make a spool of 3 kernels a step
 *     bench_trace_read ranges FILE STEPS      the same with 3 NVTX ranges every sixth step
 *     bench_trace_read kineto FILE FROM N     make a JSON of the events of FROM, N times
 *     bench_trace_read read FILE              time of reading it into memory
 *     bench_trace_read sqlite FILE TO         time of converting it, and of a bare insert loop */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "kernels/kernels.h"
#include "support/fake_spool.h"
#include "text/gz.h"

static double since(int64_t start_ns)
{
    return ns_to_s(clock_mono_ns() - start_ns);
}

static int fail(struct err *e)
{
    err_print(e, "bench_trace_read", stderr);
    return 1;
}

static int make(char **args, bool ranges)
{
    int64_t steps;
    if (!str_int64(sv_of(args[1]), &steps))
        return 2;
    fake_spool_write(
        args[0], &(struct fake_spool){
                     .steps = steps, .only_kernels = !ranges, .no_copies = ranges, .ranged = 6});
    return 0;
}

static int make_spool(char **args)
{
    return make(args, false);
}

static int make_ranges(char **args)
{
    return make(args, true);
}

/* The text between the brackets of "traceEvents" stands in the file N times. */
static int make_kineto(char **args)
{
    struct arena *a = arena_new();
    struct err e = {0};
    struct sv text;
    int64_t n;
    if (!str_int64(sv_of(args[2]), &n))
        return 2;
    if (gz_read(a, args[1], (size_t)1 << 30, &text, &e) != ST_OK)
        return fail(&e);
    static const char key[] = "\"traceEvents\": [";
    const char *events = strstr(text.p, key), *end = strrchr(text.p, ']');
    FILE *f = fopen(args[0], "wb");
    if (!events || !end || !f)
        return 1;
    events += sizeof key - 1;
    fwrite(text.p, 1, (size_t)(events - text.p), f);
    for (int64_t i = 0; i < n; i++) {
        if (i)
            fputc(',', f);
        fwrite(events, 1, (size_t)(end - events), f);
    }
    fputs(end, f);
    arena_free(&a);
    return fclose(f) == 0 ? 0 : 1;
}

static double file_mb(const char *path)
{
    FILE *f = fopen(path, "rb");
    long n = f && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : 0;
    if (f)
        fclose(f);
    return (double)n / 1e6;
}

static int read_trace(char **args)
{
    struct trace t;
    struct err e = {0};
    int64_t start = clock_mono_ns(), cpu = clock_cpu_ns();
    if (trace_load(&t, args[0], NULL, &e) != ST_OK)
        return fail(&e);
    double s = since(start);
    printf("read: %.3f s, %.3f s of CPU, %.0f MB/s, %zu operations, %zu calls, %zu ranges\n", s,
           ns_to_s(clock_cpu_ns() - cpu), file_mb(args[0]) / s, t.ops.n, t.calls.n, t.n_ranges);
    trace_free(&t);
    return 0;
}

/* ---- the bare loop ---- */

static void prepare(sqlite3 *db, const char *table, int columns, sqlite3_stmt **out)
{
    char create[2000], insert[300];
    int n = snprintf(create, sizeof create, "CREATE TABLE %s (", table);
    int m = snprintf(insert, sizeof insert, "INSERT INTO %s VALUES (", table);
    for (int i = 0; i < columns; i++) {
        const char *gap = i ? ", " : "";
        n += snprintf(create + n, sizeof create - (size_t)n, "%sc%d INTEGER", gap, i);
        m += snprintf(insert + m, sizeof insert - (size_t)m, "%s?", gap);
    }
    snprintf(create + n, sizeof create - (size_t)n, ")");
    snprintf(insert + m, sizeof insert - (size_t)m, ")");
    if (sqlite3_exec(db, create, NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(db, insert, -1, out, NULL) != SQLITE_OK)
        abort();
}

static void insert(sqlite3_stmt *s, const int64_t *row, int columns)
{
    for (int i = 0; i < columns; i++)
        if (row[i] == INT64_MIN)
            sqlite3_bind_null(s, i + 1);
        else
            sqlite3_bind_int64(s, i + 1, row[i]);
    if (sqlite3_step(s) != SQLITE_DONE)
        abort();
    sqlite3_reset(s);
}

/* Rows of the same columns and values as the exporter writes for the fake spool, in the order in
 * which the spool has them, from a loop that does nothing else. */
static double bare_loop(const char *path, size_t kernels, size_t calls)
{
    sqlite3 *db;
    sqlite3_stmt *kernel, *call;
    unlink(path);
    int64_t start = clock_mono_ns();
    if (sqlite3_open(path, &db) != SQLITE_OK ||
        sqlite3_exec(db,
                     "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA "
                     "locking_mode=EXCLUSIVE; PRAGMA cache_size=-65536; BEGIN",
                     NULL, NULL, NULL) != SQLITE_OK)
        abort();
    prepare(db, "k", 28, &kernel);
    prepare(db, "r", 8, &call);
    int64_t pid = (int64_t)getpid() << 24;
    enum { KERNELS = 2048, CALLS = 2730 }; /* of one block of the spool */
    for (size_t i = 0, j = 0; i < kernels || j < calls;) {
        for (size_t end = j + CALLS < calls ? j + CALLS : calls; j < end; j++) {
            int64_t at = FAKE_START_NS + (int64_t)j * 33333;
            insert(call, (int64_t[]){at, at + 2000, 1, pid + 101, (int64_t)j + 1, 12, 0, INT64_MIN},
                   8);
        }
        for (size_t end = i + KERNELS < kernels ? i + KERNELS : kernels; i < end; i++) {
            int64_t at = FAKE_START_NS + (int64_t)i * 33333 + 5000;
            insert(kernel,
                   (int64_t[]){at,
                               at + 4000,
                               0,
                               1,
                               INT64_MIN,
                               7,
                               (int64_t)i + 1,
                               pid,
                               1 << 30,
                               (1 << 30) + 1,
                               11,
                               0,
                               0,
                               40,
                               64,
                               1,
                               1,
                               128,
                               1,
                               1,
                               0,
                               1024,
                               0,
                               0,
                               (int64_t)i + 1,
                               0,
                               INT64_MIN,
                               0},
                   28);
        }
    }
    sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    sqlite3_finalize(kernel);
    sqlite3_finalize(call);
    sqlite3_close(db);
    double s = since(start);
    unlink(path);
    return s;
}

static double convert(const char *from, const char *to, struct err *e)
{
    unlink(to);
    int64_t start = clock_mono_ns();
    if (trace_convert(from, trace_format_named("sqlite"), to, NULL, e) != ST_OK)
        return -1;
    double s = since(start);
    unlink(to);
    return s;
}

static int to_sqlite(char **args)
{
    enum { PAIRS = 3 };
    struct trace t;
    struct err e = {0};
    if (trace_load(&t, args[0], NULL, &e) != ST_OK)
        return fail(&e);
    size_t kernels = t.ops.n, calls = t.calls.n;
    trace_free(&t);
    for (int i = 0; i < PAIRS; i++) {
        double bare = bare_loop(args[1], kernels, calls), ours = convert(args[0], args[1], &e);
        if (ours < 0)
            return fail(&e);
        printf("spool to sqlite: %.3f s, bare loop %.3f s: %.0f %% of its speed (%zu + %zu rows)\n",
               ours, bare, 100 * bare / ours, kernels, calls);
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int n_args;
        int (*run)(char **args);
    } modes[] = {{"spool", 2, make_spool},
                 {"ranges", 2, make_ranges},
                 {"kineto", 3, make_kineto},
                 {"read", 1, read_trace},
                 {"sqlite", 2, to_sqlite}};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (argc > 1 && strcmp(argv[1], modes[i].name) == 0 && argc == 2 + modes[i].n_args)
            return modes[i].run(argv + 2);
    fputs("usage: bench_trace_read spool FILE STEPS | kineto FILE FROM N | read FILE | sqlite FILE "
          "TO\n",
          stderr);
    return 2;
}
