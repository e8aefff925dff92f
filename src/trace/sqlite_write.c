/* Writer of the schema of `nsys export --type sqlite`, for scripts made for that. */
#include <sqlite3.h>
#include <string.h>

#include "base/fs.h"
#include "base/map.h"
#include "base/vec.h"
#include "trace/formats.h"
#include "trace/sqlite_schema.h"

enum { EXTRA_STRINGS = 1 << 30 }; /* ids of strings that the dictionary does not have */

struct kernel_names {
    int64_t demangled, brief, mangled; /* StringIds; mangled 0 = none */
};

struct nvtx_domain {
    uint32_t string, process; /* ids hold for a process */
};

struct trace_writer {
    sqlite3 *db;
    char *path;
    const struct trace_dict *d;
    sqlite3_stmt *insert[SQL_TABLES];
    struct arena *a;
    VEC(struct kernel_names) names; /* by the dictionary's string; demangled -1 = not made yet */
    VEC(const char *) extra;        /* strings EXTRA_STRINGS, EXTRA_STRINGS + 1, ... */
    struct map extra_ids;
    VEC(uint32_t) hosts;             /* strings, by the number in global ids */
    VEC(int64_t) process_ids;        /* globalPid by process */
    VEC(struct nvtx_domain) domains; /* domain id is the index */
    int64_t next_range, next_grid;
};

static enum st failed(struct trace_writer *w, struct err *e)
{
    return err_set(e, ST_IO, "%s: %s", w->path, sqlite3_errmsg(w->db));
}

static enum st execute(struct trace_writer *w, const char *sql, struct err *e)
{
    return sqlite3_exec(w->db, sql, NULL, NULL, NULL) == SQLITE_OK ? ST_OK : failed(w, e);
}

/* ---- statements ---- */

/* Creates a table with its first row: scripts test whether it exists. */
static enum st prepare(struct trace_writer *w, enum sql_table table, struct err *e)
{
    const struct sql_table_def *t = &trace_sql_tables[table];
    struct buf create = {0}, insert = {0};
    buf_printf(&create, "CREATE TABLE %s (", t->name);
    buf_printf(&insert, "INSERT INTO %s VALUES (", t->name);
    for (int i = 0; t->columns[i]; i++) {
        const char *name = trace_sql_column(t->columns[i]), *gap = i ? ", " : "";
        bool key = i == 0 && strcmp(name, "id") == 0;
        const char mark = t->columns[i][0];
        buf_printf(&create, "%s\"%s\" %s", gap, name,
                   mark == '$'   ? "TEXT"
                   : mark == '.' ? "REAL"
                   : key         ? "INTEGER NOT NULL PRIMARY KEY"
                                 : "INTEGER");
        buf_printf(&insert, "%s?", gap);
    }
    buf_puts(&create, ")");
    buf_puts(&insert, ")");
    enum st st = execute(w, buf_str(&create), e);
    if (st == ST_OK && sqlite3_prepare_v3(w->db, buf_str(&insert), -1, SQLITE_PREPARE_PERSISTENT,
                                          &w->insert[table], NULL) != SQLITE_OK)
        st = failed(w, e);
    buf_free(&create);
    buf_free(&insert);
    return st;
}

static enum st statement(struct trace_writer *w, enum sql_table table, sqlite3_stmt **out,
                         struct err *e)
{
    if (!w->insert[table])
        TRY(prepare(w, table, e));
    *out = w->insert[table];
    return ST_OK;
}

/* Executes the statement. Bindings persist: every row binds all its columns, or the same ones. */
static enum st step(struct trace_writer *w, sqlite3_stmt *s, struct err *e)
{
    int code = sqlite3_step(s);
    sqlite3_reset(s);
    return code == SQLITE_DONE ? ST_OK : failed(w, e);
}

static void put(sqlite3_stmt *s, int column, int64_t v)
{
    sqlite3_bind_int64(s, column, v);
}

static void put_known(sqlite3_stmt *s, int column, uint32_t v)
{
    if (v == TRACE_NONE)
        sqlite3_bind_null(s, column);
    else
        sqlite3_bind_int64(s, column, v);
}

static void put_nonzero(sqlite3_stmt *s, int column, uint64_t v)
{
    if (v)
        sqlite3_bind_int64(s, column, (int64_t)v);
    else
        sqlite3_bind_null(s, column);
}

/* ---- ids ---- */

/* Nsight Systems' global ids: host, virtual machine, process and thread in one number. Room for
 * 32512 hosts: 127 in the host's byte, the rest in the machine's. */
static int64_t global_pid(struct trace_writer *w, uint32_t process)
{
    const struct trace_process *all = w->d->processes;
    while (w->process_ids.n <= process) {
        uint32_t host = all[w->process_ids.n].host;
        size_t i = 0;
        while (i < w->hosts.n && w->hosts.p[i] != host)
            i++;
        if (i == w->hosts.n && i < 127 * 256)
            vec_push(&w->hosts, host);
        vec_push(&w->process_ids, (int64_t)(i % 127) << 56 | (int64_t)(i / 127 & 255) << 48);
    }
    return w->process_ids.p[process] | (int64_t)(all[process].pid & 0xffffff) << 24;
}

static int64_t global_tid(struct trace_writer *w, uint32_t thread)
{
    const struct trace_thread *t = &w->d->threads[thread];
    return global_pid(w, t->process) | (t->tid & 0xffffff);
}

static int64_t extra_string(struct trace_writer *w, const char *text)
{
    bool new;
    struct map_entry *m = map_put(&w->extra_ids, text, strlen(text), &new);
    if (new) {
        m->i = (int64_t)w->extra.n;
        vec_push(&w->extra, arena_str(w->a, text));
    }
    return EXTRA_STRINGS + m->i;
}

static const struct kernel_names *names_of(struct trace_writer *w, uint32_t string)
{
    while (w->names.n <= string)
        vec_push(&w->names, (struct kernel_names){-1, 0, 0});
    struct kernel_names *n = &w->names.p[string];
    if (n->demangled < 0) {
        const char *raw = trace_text(w->d, string);
        const char *full = trace_demangle(w->a, raw), *brief = trace_short_name(w->a, full);
        n->demangled = full == raw ? string : extra_string(w, full);
        n->mangled = full == raw ? 0 : string;
        n->brief = brief == raw ? string : extra_string(w, brief);
    }
    return n;
}

static int64_t domain_of(struct trace_writer *w, struct nvtx_domain d)
{
    for (size_t i = 0; i < w->domains.n; i++)
        if (w->domains.p[i].string == d.string && w->domains.p[i].process == d.process)
            return (int64_t)i;
    return -1;
}

/* ---- records ---- */

static void put_place(struct trace_writer *w, sqlite3_stmt *s, const struct trace_op *r,
                      const struct trace_sig *sig)
{
    put(s, 1, r->start_ns);
    put(s, 2, r->end_ns);
    put(s, 3, sig->device);
    put(s, 4, sig->context);
    put_known(s, 5, sig->green_context);
    put(s, 6, sig->stream);
    put_nonzero(s, 7, r->correlation);
    put(s, 8, global_pid(w, sig->process));
}

static enum st write_kernel(struct trace_writer *w, const struct trace_op *r,
                            const struct trace_sig *sig, struct err *e)
{
    sqlite3_stmt *s;
    TRY(statement(w, SQL_KERNEL, &s, e));
    const struct kernel_names *n = names_of(w, sig->name);
    put_place(w, s, r, sig);
    put(s, 9, n->demangled);
    put(s, 10, n->brief);
    put_nonzero(s, 11, (uint64_t)n->mangled);
    put(s, 12, sig->launch_type);
    put(s, 13, sig->cache_config);
    put(s, 14, sig->registers);
    for (int i = 0; i < 3; i++) {
        put(s, 15 + i, sig->grid[i]);
        put(s, 18 + i, sig->block[i]);
    }
    put(s, 21, sig->static_shared);
    put(s, 22, sig->dynamic_shared);
    put(s, 23, sig->local_per_thread);
    put(s, 24, (int64_t)(sig->local_bytes & INT64_MAX));
    put(s, 25, ++w->next_grid);
    put(s, 26, sig->executed_shared);
    put_nonzero(s, 27, r->graph_node);
    put(s, 28, sig->shared_limit);
    return step(w, s, e);
}

static enum st write_copy(struct trace_writer *w, const struct trace_op *r,
                          const struct trace_sig *sig, struct err *e)
{
    sqlite3_stmt *s;
    TRY(statement(w, SQL_MEMCPY, &s, e));
    put_place(w, s, r, sig);
    put(s, 9, sig->bytes);
    put(s, 10, sig->copy_kind);
    put(s, 12, trace_nsys_memory_kind(sig->source_kind));
    put(s, 13, trace_nsys_memory_kind(sig->target_kind));
    put_known(s, 14, sig->source_device);
    put_known(s, 16, sig->target_device);
    put_nonzero(s, 19, r->graph_node);
    put(s, 21, 1);
    return step(w, s, e);
}

static enum st write_set(struct trace_writer *w, const struct trace_op *r,
                         const struct trace_sig *sig, struct err *e)
{
    sqlite3_stmt *s;
    TRY(statement(w, SQL_MEMSET, &s, e));
    put_place(w, s, r, sig);
    put(s, 9, sig->value);
    put(s, 10, sig->bytes);
    put_nonzero(s, 11, r->graph_node);
    put(s, 12, trace_nsys_memory_kind(sig->target_kind));
    return step(w, s, e);
}

static enum st write_graph(struct trace_writer *w, const struct trace_op *r,
                           const struct trace_sig *sig, struct err *e)
{
    sqlite3_stmt *s;
    TRY(statement(w, SQL_GRAPH, &s, e));
    put_place(w, s, r, sig);
    put(s, 9, sig->graph);
    return step(w, s, e);
}

static enum st write_op(void *self, const struct trace_op *r, struct err *e)
{
    static enum st (*const writers[TRACE_KINDS])(struct trace_writer *, const struct trace_op *,
                                                 const struct trace_sig *, struct err *) = {
        write_kernel, write_copy, write_set, write_graph};
    struct trace_writer *w = self;
    const struct trace_sig *sig = &w->d->sigs[r->sig];
    return writers[sig->kind](w, r, sig, e);
}

static enum st write_call(void *self, const struct trace_call *r, struct err *e)
{
    struct trace_writer *w = self;
    sqlite3_stmt *s;
    TRY(statement(w, SQL_RUNTIME, &s, e));
    put(s, 1, r->start_ns);
    put(s, 2, r->end_ns);
    put(s, 3, r->driver);
    put(s, 4, global_tid(w, r->thread));
    put_nonzero(s, 5, r->correlation);
    put(s, 6, r->name);
    put(s, 7, r->result);
    return step(w, s, e);
}

static enum st write_domain(struct trace_writer *w, int64_t id, const char *name,
                            const struct trace_range *r, struct err *e)
{
    sqlite3_stmt *s;
    TRY(statement(w, SQL_NVTX, &s, e));
    sqlite3_clear_bindings(s);
    put(s, 1, r->start_ns);
    put(s, 3, NSYS_DOMAIN);
    sqlite3_bind_text(s, 7, name, -1, SQLITE_STATIC);
    put(s, 8, global_tid(w, r->thread));
    put(s, 11, id);
    return step(w, s, e);
}

/* The domain's id, with its row when it is new. Ranges that are not NVTX's get domains of their
 * own, with keys beyond those of strings. */
static enum st range_domain(struct trace_writer *w, const struct trace_range *r, int64_t *id,
                            struct err *e)
{
    static const char *const own[TRACE_STYLES] = {
        [TRACE_ANNOTATION] = SQL_ANNOTATION_DOMAIN, [TRACE_OPERATOR] = SQL_OPERATOR_DOMAIN};
    const char *name = own[r->style] ? own[r->style] : trace_text(w->d, r->domain);
    uint32_t string = own[r->style] ? TRACE_NONE - r->style : r->domain;
    struct nvtx_domain key = {string, w->d->threads[r->thread].process};
    if (w->domains.n == 0)
        vec_push(&w->domains, (struct nvtx_domain){0, TRACE_NONE});
    if (string == 0) { /* the default domain has no row */
        *id = 0;
        return ST_OK;
    }
    *id = domain_of(w, key);
    if (*id >= 0)
        return ST_OK;
    *id = (int64_t)w->domains.n;
    vec_push(&w->domains, key);
    return write_domain(w, *id, name, r, e);
}

static enum st write_range(void *self, const struct trace_range *r, struct err *e)
{
    struct trace_writer *w = self;
    sqlite3_stmt *s;
    int64_t domain;
    TRY(range_domain(w, r, &domain, e));
    TRY(statement(w, SQL_NVTX, &s, e));
    sqlite3_clear_bindings(s);
    put(s, 1, r->start_ns);
    if (!r->open) /* NULL, as nsys writes it */
        put(s, 2, r->end_ns);
    put(s, 3, r->style == TRACE_START_END ? NSYS_START_END : NSYS_PUSH_POP);
    if (r->style == TRACE_START_END)
        put(s, 4, ++w->next_range);
    put_nonzero(s, 5, r->category);
    put_nonzero(s, 6, r->color);
    put(s, 8, global_tid(w, r->thread));
    if (r->end_thread != r->thread)
        put(s, 9, global_tid(w, r->end_thread));
    put(s, 10, r->text);
    put(s, 11, domain);
    struct buf json = {0};
    if (r->shapes) {
        buf_printf(&json, "{\"Input Dims\":%s,\"Input type\":%s}", trace_text(w->d, r->shapes),
                   r->types ? trace_text(w->d, r->types) : "[]");
        sqlite3_bind_text(s, 19, buf_str(&json), (int)json.n, SQLITE_TRANSIENT);
    } else if (r->values) {
        sqlite3_bind_text(s, 19, trace_text(w->d, r->values), -1, SQLITE_TRANSIENT);
    }
    buf_free(&json);
    return step(w, s, e);
}

static enum st write_sync(void *self, const struct trace_sync *r, struct err *e)
{
    struct trace_writer *w = self;
    sqlite3_stmt *s;
    TRY(statement(w, SQL_SYNC, &s, e));
    put(s, 1, r->start_ns);
    put(s, 2, r->end_ns);
    put(s, 4, r->context);
    put_known(s, 6, r->stream);
    put_nonzero(s, 7, r->correlation);
    put(s, 8, global_pid(w, r->process));
    put(s, 9, r->kind);
    put_known(s, 10, r->event);
    return step(w, s, e);
}

/* ---- what is written at the end ---- */

static void put_text(sqlite3_stmt *s, int column, const char *text)
{
    sqlite3_bind_text(s, column, text, -1, SQLITE_STATIC);
}

static enum st write_strings(struct trace_writer *w, struct err *e)
{
    sqlite3_stmt *s;
    TRY(statement(w, SQL_STRINGS, &s, e));
    for (uint32_t i = 0; i < w->d->n_strings; i++) {
        put(s, 1, i);
        put_text(s, 2, w->d->strings[i].p);
        TRY(step(w, s, e));
    }
    for (size_t i = 0; i < w->extra.n; i++) {
        put(s, 1, EXTRA_STRINGS + (int64_t)i);
        put_text(s, 2, w->extra.p[i]);
        TRY(step(w, s, e));
    }
    return ST_OK;
}

static enum st write_people(struct trace_writer *w, struct err *e)
{
    sqlite3_stmt *s;
    for (uint32_t i = 0; i < w->d->n_processes; i++) {
        TRY(statement(w, SQL_PROCESSES, &s, e));
        put(s, 1, global_pid(w, i));
        put(s, 2, w->d->processes[i].pid);
        put_text(s, 3, trace_text(w->d, w->d->processes[i].name));
        TRY(step(w, s, e));
    }
    for (uint32_t i = 1; i < w->d->n_threads; i++) { /* unnamed ones get the process's name */
        const struct trace_thread *t = &w->d->threads[i];
        TRY(statement(w, SQL_THREADS, &s, e));
        put(s, 1, t->name ? t->name : w->d->processes[t->process].name);
        put(s, 3, global_tid(w, i));
        TRY(step(w, s, e));
    }
    return ST_OK;
}

static enum st write_devices(struct trace_writer *w, struct err *e)
{
    sqlite3_stmt *s;
    for (uint32_t i = 0; i < w->d->n_devices; i++) {
        const struct trace_device *g = &w->d->devices[i];
        char uuid[37] = {0};
        const uint8_t *u = g->uuid;
        snprintf(uuid, sizeof uuid,
                 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1],
                 u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14],
                 u[15]);
        TRY(statement(w, SQL_GPU, &s, e));
        put(s, 1, g->number); /* scripts join deviceId with it */
        put_text(s, 2, trace_text(w->d, g->name));
        put_nonzero(s, 3, g->l2_bytes);
        put_nonzero(s, 4, g->memory_bytes & INT64_MAX);
        put_nonzero(s, 5, g->bandwidth_bytes_per_s & INT64_MAX);
        put_nonzero(s, 6, (uint64_t)g->clock_khz * 1000);
        put_nonzero(s, 7, g->sms);
        put_text(s, 8, memcmp(u, (uint8_t[sizeof g->uuid]){0}, sizeof g->uuid) ? uuid : NULL);
        put(s, 9, g->number);
        sqlite3_bind_null(s, 11);
        put_nonzero(s, 10, g->major);
        if (g->major)
            put(s, 11, g->minor);
        put_nonzero(s, 12, g->max_threads_per_sm);
        TRY(step(w, s, e));
    }
    return ST_OK;
}

static enum st write_system(struct trace_writer *w, struct err *e)
{
    sqlite3_stmt *s;
    for (uint32_t i = 0; i < w->d->n_facts; i++) {
        const struct trace_fact *f = &w->d->facts[i];
        if (!trace_fact_names[f->kind].nsys)
            continue;
        TRY(statement(w, SQL_SYSTEM, &s, e));
        put_text(s, 1, trace_fact_names[f->kind].nsys);
        put_text(s, 2, f->text);
        TRY(step(w, s, e));
    }
    return ST_OK;
}

/* Writes the meaning of a number in another table. */
static enum st write_enum(struct trace_writer *w, enum sql_table table, int64_t id,
                          const char *name, const char *label, struct err *e)
{
    sqlite3_stmt *s;
    TRY(statement(w, table, &s, e));
    put(s, 1, id);
    put_text(s, 2, name);
    put_text(s, 3, label);
    return step(w, s, e);
}

/* The same where the name is made of a label's words: CUDA_..._KIND_DEVICE_STATIC. */
static enum st write_kind(struct trace_writer *w, enum sql_table table, int64_t id,
                          const char *prefix, const char *words, const char *label, struct err *e)
{
    char name[80];
    size_t n = 0;
    for (const char *p = prefix; *p && n + 1 < sizeof name; p++)
        name[n++] = *p;
    for (const char *p = words; *p && n + 1 < sizeof name; p++)
        name[n++] = *p == ' ' ? '_' : (char)(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
    name[n] = 0;
    return write_enum(w, table, id, name, label, e);
}

static enum st write_enums(struct trace_writer *w, struct err *e)
{
    static const struct {
        int64_t id;
        const char *name;
    } events[] = {{NSYS_MARK, "NvtxMark"},
                  {NSYS_PUSH_POP, "NvtxPushPopRange"},
                  {NSYS_START_END, "NvtxStartEndRange"},
                  {NSYS_DOMAIN, "NvtxDomainCreate"}};
    sqlite3_stmt *s;
    for (uint32_t i = 0; i < TRACE_COPY_KINDS; i++)
        TRY(write_kind(w, SQL_MEMCPY_OPER, i, "CUDA_MEMCPY_KIND_", trace_copy_short(i),
                       trace_copy_name(i), e));
    for (int i = 0; i < TRACE_MEMORY_KINDS; i++) {
        const char *label = trace_memory_name((uint32_t)trace_nsys_memory_kind_back(i));
        TRY(write_kind(w, SQL_MEM_KIND, i, "CUDA_MEMOPR_MEMORY_KIND_", label, label, e));
    }
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        TRY(write_enum(w, SQL_EVENT_TYPE, events[i].id, events[i].name, events[i].name, e));
    TRY(statement(w, SQL_META, &s, e));
    put_text(s, 1, "EXPORT_SCHEMA_VERSION");
    put_text(s, 2, "3.13.7");
    TRY(step(w, s, e));
    put_text(s, 1, "EXPORT_PRODUCER");
    put_text(s, 2, "twinfer " TW_VERSION);
    return step(w, s, e);
}

/* ---- open and close ---- */

static void sqlite_close_all(struct trace_writer **wp)
{
    struct trace_writer *w = *wp;
    for (int i = 0; i < SQL_TABLES; i++)
        sqlite3_finalize(w->insert[i]);
    sqlite3_close(w->db);
    mem_free(w->path);
    vec_free(&w->names);
    vec_free(&w->extra);
    vec_free(&w->hosts);
    vec_free(&w->process_ids);
    vec_free(&w->domains);
    arena_free(&w->a);
    mem_free(w);
    *wp = NULL;
}

/* One file, one transaction; no other reader, and a failed file is deleted. */
static enum st begin(struct trace_writer *w, struct err *e)
{
    if (sqlite3_open_v2(w->path, &w->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) !=
        SQLITE_OK)
        return failed(w, e);
    return execute(w,
                   "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE;"
                   "PRAGMA cache_size=-65536; BEGIN",
                   e);
}

static enum st sqlite_create(const char *path, const struct trace_dict *d,
                             struct trace_writer **out, struct trace_sink *sink, struct err *e)
{
    TRY(trace_create_file(path, e));
    struct trace_writer *w = mem_alloc(sizeof *w);
    size_t n = strlen(path) + 1;
    w->path = mem_alloc(n);
    memcpy(w->path, path, n);
    w->d = d;
    w->a = arena_new();
    map_init(&w->extra_ids, w->a);
    *out = w;
    enum st st = begin(w, e);
    if (st != ST_OK)
        sqlite_close_all(out);
    *sink = (struct trace_sink){w, write_op, write_call, write_range, write_sync};
    return st;
}

static enum st sqlite_finish(struct trace_writer **wp, struct err *e)
{
    struct trace_writer *w = *wp;
    enum st st = write_strings(w, e);
    if (st == ST_OK)
        st = write_people(w, e);
    if (st == ST_OK)
        st = write_devices(w, e);
    if (st == ST_OK)
        st = write_system(w, e);
    if (st == ST_OK)
        st = write_enums(w, e);
    if (st == ST_OK)
        st = execute(w, "COMMIT", e);
    sqlite_close_all(wp);
    return st;
}

static void sqlite_discard(struct trace_writer **wp)
{
    if (!wp || !*wp)
        return;
    char *path = (*wp)->path;
    (*wp)->path = NULL;
    sqlite_close_all(wp);
    struct err e = {0};
    (void)fs_remove_tree(path, &e);
    mem_free(path);
}

const struct trace_format trace_sqlite = {
    .name = "sqlite",
    .help = "Nsight Systems' SQLite export",
    .file = "trace.sqlite",
    .recognises = trace_sqlite_recognises,
    .read = trace_sqlite_read,
    .create = sqlite_create,
    .finish = sqlite_finish,
    .discard = sqlite_discard,
};
