/* Reader of SQLite exports, Nsight Systems' or ours. The file is untrusted: only real tables are
 * read, by plain SELECTs. Columns that a version lacks count as NULL. */
#include <sqlite3.h>
#include <string.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/vec.h"
#include "trace/formats.h"
#include "trace/kineto_scan.h"
#include "trace/sqlite_schema.h"

/* A GPU of TARGET_INFO_GPU, or a part of one (MIG) that TARGET_INFO_CUDA_DEVICE tells. */
struct report_gpu {
    int64_t id;      /* gpuId */
    uint32_t uuid;   /* string, of TARGET_INFO_CUDA_DEVICE */
    uint32_t number; /* in reports; TRACE_NONE = nothing ran on it yet */
    uint32_t facts;  /* index into reader.facts; TRACE_NONE */
};

/* What a process calls a GPU. */
struct ordinal {
    int64_t pid, cuda;
    uint32_t gpu;
};

enum { MOST_GPUS = 4096 }; /* rows of a file that was made to have more are left out */

struct sqlite_reader {
    const char *path;
    sqlite3 *db;
    struct trace_dict *d;
    const struct trace_sink *sink;
    VEC(uint32_t) strings; /* by StringIds.id, for dense ids */
    struct {
        int64_t id;
        uint32_t string;
    } * sparse; /* by id, for the others */
    size_t n_sparse, sparse_cap;
    VEC(int64_t) domain_ids, domain_pids;
    VEC(uint32_t) domain_names;
    int64_t last_gpid, last_gtid;
    uint32_t last_process, last_thread;
    bool has_process, has_thread;
    VEC(struct trace_device) facts; /* of TARGET_INFO_GPU */
    VEC(int64_t) fact_ids;
    VEC(struct report_gpu) gpus;
    VEC(struct ordinal) ordinals; /* none: the export does not say what processes call GPUs */
    int64_t last_gpu_gpid, last_cuda;
    uint32_t last_number;
    bool has_number;
    bool untold; /* of a process the export does not say what it calls its GPU */
    uint64_t odd;
    int64_t nvtx_end_ns; /* of all its events */
};

static enum st failed(struct sqlite_reader *r, struct err *e)
{
    return err_set(e, ST_INPUT, "%s: %s", r->path, sqlite3_errmsg(r->db));
}

/* ---- tables and columns ---- */

static enum st has_table(struct sqlite_reader *r, const char *name, bool *out, struct err *e)
{
    sqlite3_stmt *s;
    if (sqlite3_prepare_v2(r->db,
                           "SELECT 1 FROM sqlite_schema WHERE name = ?1 AND type = 'table' AND "
                           "rootpage > 0",
                           -1, &s, NULL) != SQLITE_OK)
        return failed(r, e);
    sqlite3_bind_text(s, 1, name, -1, SQLITE_STATIC);
    int code = sqlite3_step(s);
    *out = code == SQLITE_ROW;
    sqlite3_finalize(s);
    return code == SQLITE_ROW || code == SQLITE_DONE ? ST_OK : failed(r, e);
}

static enum st has_column(struct sqlite_reader *r, const char *table, const char *column, bool *out,
                          struct err *e)
{
    sqlite3_stmt *s;
    if (sqlite3_prepare_v2(r->db, "SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2", -1, &s,
                           NULL) != SQLITE_OK)
        return failed(r, e);
    sqlite3_bind_text(s, 1, table, -1, SQLITE_STATIC);
    sqlite3_bind_text(s, 2, column, -1, SQLITE_STATIC);
    int code = sqlite3_step(s);
    *out = code == SQLITE_ROW;
    sqlite3_finalize(s);
    return code == SQLITE_ROW || code == SQLITE_DONE ? ST_OK : failed(r, e);
}

/* SELECT of the table's columns as trace_sql_tables lists them. *s = NULL when there is no such
 * table. */
static enum st select_from(struct sqlite_reader *r, enum sql_table table, sqlite3_stmt **s,
                           struct err *e)
{
    const struct sql_table_def *t = &trace_sql_tables[table];
    bool there;
    *s = NULL;
    TRY(has_table(r, t->name, &there, e));
    if (!there)
        return ST_OK;
    struct buf sql = {0};
    enum st st = ST_OK;
    buf_puts(&sql, "SELECT ");
    for (int i = 0; t->columns[i] && st == ST_OK; i++) {
        const char *name = trace_sql_column(t->columns[i]);
        st = has_column(r, t->name, name, &there, e);
        buf_printf(&sql, there ? "%s\"%s\"" : "%sNULL", i ? ", " : "", name);
    }
    buf_printf(&sql, " FROM %s", t->name);
    if (st == ST_OK && sqlite3_prepare_v2(r->db, buf_str(&sql), -1, s, NULL) != SQLITE_OK)
        st = failed(r, e);
    buf_free(&sql);
    return st;
}

typedef enum st row_fn(struct sqlite_reader *r, sqlite3_stmt *s, struct err *e);

static enum st each_row(struct sqlite_reader *r, enum sql_table table, row_fn *take, struct err *e)
{
    sqlite3_stmt *s;
    TRY(select_from(r, table, &s, e));
    if (!s)
        return ST_OK;
    enum st st = ST_OK;
    int code;
    while (st == ST_OK && (code = sqlite3_step(s)) == SQLITE_ROW)
        st = take(r, s, e);
    if (st == ST_OK && code != SQLITE_DONE)
        st = failed(r, e);
    sqlite3_finalize(s);
    return st;
}

/* ---- cells; columns count from 1, as in the writer ---- */

static int64_t int_at(sqlite3_stmt *s, int column)
{
    return sqlite3_column_int64(s, column - 1);
}

static uint32_t u32_at(sqlite3_stmt *s, int column)
{
    int64_t v = int_at(s, column);
    return v < 0 || v >= TRACE_NONE ? 0 : (uint32_t)v;
}

static uint8_t u8_at(sqlite3_stmt *s, int column)
{
    int64_t v = int_at(s, column);
    return v < 0 || v > UINT8_MAX ? 0 : (uint8_t)v;
}

static bool null_at(sqlite3_stmt *s, int column)
{
    return sqlite3_column_type(s, column - 1) == SQLITE_NULL;
}

static uint32_t known_at(sqlite3_stmt *s, int column)
{
    return null_at(s, column) ? TRACE_NONE : u32_at(s, column);
}

static uint8_t memory_kind_at(sqlite3_stmt *s, int column)
{
    uint8_t v = u8_at(s, column);
    return null_at(s, column) || v > 7 ? 0 : (uint8_t)trace_nsys_memory_kind_back(v);
}

static struct sv text_at(sqlite3_stmt *s, int column)
{
    const char *p = (const char *)sqlite3_column_text(s, column - 1);
    int n = sqlite3_column_bytes(s, column - 1);
    return p && n > 0 ? (struct sv){p, (size_t)n} : SV("");
}

static uint32_t string_at(struct sqlite_reader *r, sqlite3_stmt *s, int column)
{
    int64_t id = int_at(s, column);
    if (id >= 0 && (size_t)id < r->strings.n)
        return r->strings.p[id];
    size_t lo = 0, hi = r->n_sparse;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (r->sparse[mid].id < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < r->n_sparse && r->sparse[lo].id == id ? r->sparse[lo].string : 0;
}

/* ---- ids ---- */

static uint32_t process_of(struct sqlite_reader *r, int64_t global)
{
    if (r->has_process && r->last_gpid == global >> 24)
        return r->last_process;
    char host[24] = {0};
    uint64_t above = (uint64_t)global >> 48;
    if (above)
        snprintf(host, sizeof host, "%llu", (unsigned long long)above);
    r->has_process = true;
    r->last_gpid = global >> 24;
    r->last_process = trace_process_of(r->d, (uint32_t)((global >> 24) & 0xffffff),
                                       trace_string(r->d, sv_of(host)));
    return r->last_process;
}

static uint32_t thread_of(struct sqlite_reader *r, int64_t global)
{
    if (r->has_thread && r->last_gtid == global)
        return r->last_thread;
    r->has_thread = true;
    r->last_gtid = global;
    r->last_thread = trace_thread_of(r->d, process_of(r, global), (uint32_t)(global & 0xffffff));
    return r->last_thread;
}

static bool is_int(sqlite3_stmt *s, int column)
{
    return sqlite3_column_type(s, column - 1) == SQLITE_INTEGER;
}

static bool times_ok(struct sqlite_reader *r, enum trace_record_kind kind, sqlite3_stmt *s)
{
    bool odd = !is_int(s, 1) || !is_int(s, 2);
    r->odd += odd;
    return !odd && trace_times_ok(r->d, kind, int_at(s, 1), int_at(s, 2));
}

/* ---- rows ---- */

static enum st take_string(struct sqlite_reader *r, sqlite3_stmt *s, struct err *e)
{
    enum { DENSE = 1 << 22 };
    int64_t id = int_at(s, 1);
    (void)e;
    uint32_t string = trace_string(r->d, text_at(s, 2));
    if (id >= 0 && id < DENSE) {
        while (r->strings.n <= (size_t)id)
            vec_push(&r->strings, 0);
        r->strings.p[id] = string;
    } else if (r->n_sparse == 0 || r->sparse[r->n_sparse - 1].id < id) { /* the key's order */
        if (r->n_sparse == r->sparse_cap) {
            r->sparse_cap = r->sparse_cap ? 2 * r->sparse_cap : 64;
            r->sparse = mem_resize(r->sparse, r->sparse_cap * sizeof *r->sparse);
        }
        r->sparse[r->n_sparse].id = id;
        r->sparse[r->n_sparse++].string = string;
    } else {
        r->odd++;
    }
    return ST_OK;
}

/* The number in reports of what the process of `global` calls GPU `cuda`. */
static uint32_t gpu_number(struct sqlite_reader *r, int64_t global, uint32_t cuda)
{
    struct report_gpu *g = NULL;
    if (!r->ordinals.n || cuda == TRACE_NONE)
        return cuda;
    if (r->has_number && r->last_gpu_gpid == global >> 24 && r->last_cuda == cuda)
        return r->last_number;
    for (size_t i = 0; i < r->ordinals.n && !g; i++)
        if (r->ordinals.p[i].pid == ((global >> 24) & 0xffffff) && r->ordinals.p[i].cuda == cuda)
            g = &r->gpus.p[r->ordinals.p[i].gpu];
    if (g && g->number == TRACE_NONE) {
        g->number = trace_gpu_number(r->d, r->d->n_gpu_owners++, cuda, true);
        if (g->facts != TRACE_NONE) {
            struct trace_device facts = r->facts.p[g->facts];
            facts.number = g->number;
            trace_device_of(r->d, &facts);
        }
    }
    if (!g && !r->untold && r->facts.n > 1) {
        r->untold = true;
        trace_note(r->d, LOG_WARN,
                   "%s: which GPU process %u calls %u is not said: taken for GPU %u of the others",
                   fs_base(r->path), (unsigned)((global >> 24) & 0xffffff), cuda, cuda);
    }
    r->has_number = true;
    r->last_gpu_gpid = global >> 24;
    r->last_cuda = cuda;
    r->last_number = g ? g->number : cuda;
    return r->last_number;
}

static struct trace_sig place_of(struct sqlite_reader *r, sqlite3_stmt *s, enum trace_kind kind)
{
    return (struct trace_sig){.kind = kind,
                              .device = gpu_number(r, int_at(s, 8), u32_at(s, 3)),
                              .context = u32_at(s, 4),
                              .green_context = known_at(s, 5),
                              .stream = u32_at(s, 6),
                              .process = process_of(r, int_at(s, 8)),
                              .source_device = TRACE_NONE,
                              .target_device = TRACE_NONE};
}

static enum st put_op(struct sqlite_reader *r, sqlite3_stmt *s, const struct trace_sig *sig,
                      uint64_t node, struct err *e)
{
    if (!times_ok(r, TRACE_OP, s) || !r->sink->op)
        return ST_OK;
    struct trace_op op = {int_at(s, 1), int_at(s, 2), trace_sig_id(r->d, sig),
                          u32_at(s, 7), node,         0};
    return r->sink->op(r->sink->self, &op, e);
}

static enum st take_kernel(struct sqlite_reader *r, sqlite3_stmt *s, struct err *e)
{
    struct trace_sig sig = place_of(r, s, TRACE_KERNEL);
    sig.name = string_at(r, s, null_at(s, 11) ? 9 : 11);
    sig.launch_type = u8_at(s, 12);
    sig.cache_config = u8_at(s, 13);
    sig.registers = u32_at(s, 14);
    for (int i = 0; i < 3; i++) {
        sig.grid[i] = u32_at(s, 15 + i);
        sig.block[i] = u32_at(s, 18 + i);
    }
    sig.static_shared = u32_at(s, 21);
    sig.dynamic_shared = u32_at(s, 22);
    sig.local_per_thread = u32_at(s, 23);
    sig.local_bytes = (uint64_t)int_at(s, 24);
    sig.executed_shared = u32_at(s, 26);
    sig.shared_limit = u8_at(s, 28);
    return put_op(r, s, &sig, (uint64_t)int_at(s, 27), e);
}

static enum st take_copy(struct sqlite_reader *r, sqlite3_stmt *s, struct err *e)
{
    struct trace_sig sig = place_of(r, s, TRACE_COPY);
    sig.bytes = int_at(s, 9) < 0 ? 0 : int_at(s, 9);
    sig.copy_kind = u8_at(s, 10);
    sig.source_kind = memory_kind_at(s, 12);
    sig.target_kind = memory_kind_at(s, 13);
    sig.source_device = gpu_number(r, int_at(s, 8), known_at(s, 14));
    sig.target_device = gpu_number(r, int_at(s, 8), known_at(s, 16));
    sig.name = trace_memory_op_name(r->d, &sig);
    return put_op(r, s, &sig, (uint64_t)int_at(s, 19), e);
}

static enum st take_set(struct sqlite_reader *r, sqlite3_stmt *s, struct err *e)
{
    struct trace_sig sig = place_of(r, s, TRACE_SET);
    sig.value = u32_at(s, 9);
    sig.bytes = int_at(s, 10) < 0 ? 0 : int_at(s, 10);
    sig.target_kind = memory_kind_at(s, 12);
    sig.name = trace_memory_op_name(r->d, &sig);
    return put_op(r, s, &sig, (uint64_t)int_at(s, 11), e);
}

static enum st take_graph(struct sqlite_reader *r, sqlite3_stmt *s, struct err *e)
{
    struct trace_sig sig = place_of(r, s, TRACE_GRAPH);
    sig.graph = u32_at(s, 9);
    return put_op(r, s, &sig, 0, e);
}

/* Strips a version of four digits, as nsys does in its reports. */
static uint32_t call_name(struct sqlite_reader *r, uint32_t string)
{
    const char *text = trace_text(r->d, string);
    size_t n = strlen(text);
    if (n <= 6 || memcmp(text + n - 6, "_v", 2) != 0)
        return string;
    return trace_string(r->d, (struct sv){text, n - 6});
}

static enum st take_call(struct sqlite_reader *r, sqlite3_stmt *s, struct err *e)
{
    if (!times_ok(r, TRACE_CALL, s) || !r->sink->call)
        return ST_OK;
    struct trace_call c = {.start_ns = int_at(s, 1),
                           .end_ns = int_at(s, 2),
                           .driver = int_at(s, 3) == 1,
                           .thread = thread_of(r, int_at(s, 4)),
                           .correlation = u32_at(s, 5),
                           .name = call_name(r, string_at(r, s, 6)),
                           .result = u32_at(s, 7)};
    return r->sink->call(r->sink->self, &c, e);
}

static enum st take_sync(struct sqlite_reader *r, sqlite3_stmt *s, struct err *e)
{
    if (!times_ok(r, TRACE_SYNC, s) || !r->sink->sync)
        return ST_OK;
    struct trace_sync x = {.start_ns = int_at(s, 1),
                           .end_ns = int_at(s, 2),
                           .context = u32_at(s, 4),
                           .stream = known_at(s, 6),
                           .correlation = u32_at(s, 7),
                           .process = process_of(r, int_at(s, 8)),
                           .kind = u32_at(s, 9),
                           .event = known_at(s, 10)};
    return r->sink->sync(r->sink->self, &x, e);
}

static enum st take_domain(struct sqlite_reader *r, sqlite3_stmt *s, struct err *e)
{
    enum { MOST = 4096 };
    (void)e;
    if (int_at(s, 3) != NSYS_DOMAIN || r->domain_ids.n >= MOST)
        return ST_OK;
    vec_push(&r->domain_ids, int_at(s, 11));
    vec_push(&r->domain_pids, int_at(s, 8) >> 24);
    vec_push(&r->domain_names,
             null_at(s, 7) ? string_at(r, s, 10) : trace_string(r->d, text_at(s, 7)));
    return ST_OK;
}

/* The domain's name; each process numbers its domains from 1. */
static uint32_t domain_of(struct sqlite_reader *r, int64_t id, int64_t global)
{
    for (size_t i = 0; i < r->domain_ids.n; i++)
        if (r->domain_ids.p[i] == id && r->domain_pids.p[i] == global >> 24)
            return r->domain_names.p[i];
    return 0;
}

/* Reads {"Input Dims":[...],"Input type":[...]} of our writer, or the values of a payload. */
static void shapes_of(struct sqlite_reader *r, struct sv json, struct trace_range *out)
{
    static const char dims[] = "{\"Input Dims\":", types[] = ",\"Input type\":";
    const char *end = json.p + json.n;
    if (json.n < sizeof dims || memcmp(json.p, dims, sizeof dims - 1) != 0) {
        if (json.n > 2 && json.p[0] == '{' && end[-1] == '}')
            out->values = trace_string(r->d, json);
        return;
    }
    const char *from = json.p + sizeof dims - 1, *to = trace_scan_value_end(from, end);
    if (!to || (size_t)(end - to) < sizeof types || memcmp(to, types, sizeof types - 1) != 0)
        return;
    out->shapes = trace_string(r->d, (struct sv){from, (size_t)(to - from)});
    from = to + sizeof types - 1;
    to = trace_scan_value_end(from, end);
    if (to)
        out->types = trace_string(r->d, (struct sv){from, (size_t)(to - from)});
}

/* The latest time of NVTX: nsys ends ranges there that were open when recording ended. */
static enum st take_nvtx_end(struct sqlite_reader *r, sqlite3_stmt *s, struct err *e)
{
    (void)e;
    for (int column = 1; column <= 2; column++)
        if (is_int(s, column) && int_at(s, column) > r->nvtx_end_ns)
            r->nvtx_end_ns = int_at(s, column);
    return ST_OK;
}

static bool range_times(struct sqlite_reader *r, sqlite3_stmt *s, int64_t *start_ns,
                        int64_t *end_ns)
{
    bool open = null_at(s, 2);
    if (!open && !times_ok(r, TRACE_RANGE, s))
        return false;
    *start_ns = int_at(s, 1);
    *end_ns = open ? r->nvtx_end_ns : int_at(s, 2);
    if (!open)
        return true;
    r->odd += !is_int(s, 1);
    return is_int(s, 1) && trace_times_ok(r->d, TRACE_RANGE, *start_ns, *end_ns);
}

static enum st take_nvtx(struct sqlite_reader *r, sqlite3_stmt *s, struct err *e)
{
    int64_t type = int_at(s, 3), start_ns, end_ns;
    if ((type != NSYS_PUSH_POP && type != NSYS_START_END) || !r->sink->range ||
        !range_times(r, s, &start_ns, &end_ns))
        return ST_OK;
    struct trace_range x = {.start_ns = start_ns,
                            .end_ns = end_ns,
                            .category = u32_at(s, 5),
                            .color = u32_at(s, 6),
                            .domain = domain_of(r, int_at(s, 11), int_at(s, 8)),
                            .style = type == NSYS_START_END ? TRACE_START_END : TRACE_PUSH_POP,
                            .open = null_at(s, 2)};
    x.text = null_at(s, 7) ? string_at(r, s, 10) : trace_string(r->d, text_at(s, 7));
    x.thread = thread_of(r, int_at(s, 8));
    x.end_thread = null_at(s, 9) ? x.thread : thread_of(r, int_at(s, 9));
    const char *domain = trace_text(r->d, x.domain);
    if (strcmp(domain, SQL_OPERATOR_DOMAIN) == 0)
        x.style = TRACE_OPERATOR;
    else if (strcmp(domain, SQL_ANNOTATION_DOMAIN) == 0)
        x.style = TRACE_ANNOTATION;
    if (x.style >= TRACE_ANNOTATION)
        x.domain = 0;
    if (!null_at(s, 19))
        shapes_of(r, text_at(s, 19), &x);
    return r->sink->range(r->sink->self, &x, e);
}

static enum st take_process(struct sqlite_reader *r, sqlite3_stmt *s, struct err *e)
{
    (void)e;
    uint32_t name = trace_string(r->d, text_at(s, 3));
    uint32_t process = process_of(r, int_at(s, 1)); /* may move the array */
    r->d->processes[process].name = name;
    return ST_OK;
}

static enum st take_thread(struct sqlite_reader *r, sqlite3_stmt *s, struct err *e)
{
    (void)e;
    uint32_t name = string_at(r, s, 1);
    uint32_t thread = thread_of(r, int_at(s, 3));
    r->d->threads[thread].name = name;
    return ST_OK;
}

static void read_uuid(struct sv text, uint8_t out[16])
{
    int n = 0;
    for (size_t i = 0; i < text.n && n < 32; i++) {
        char c = text.p[i];
        int v = c >= '0' && c <= '9'                 ? c - '0'
                : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 87
                                                     : -1;
        if (v >= 0) {
            out[n / 2] = (uint8_t)(out[n / 2] << 4 | v);
            n++;
        }
    }
}

static enum st take_gpu(struct sqlite_reader *r, sqlite3_stmt *s, struct err *e)
{
    (void)e;
    struct trace_device d = {
        .number = null_at(s, 9) ? u32_at(s, 1) : u32_at(s, 9),
        .name = trace_string(r->d, text_at(s, 2)),
        .l2_bytes = u32_at(s, 3),
        .memory_bytes = (uint64_t)(int_at(s, 4) & INT64_MAX),
        .bandwidth_bytes_per_s = (uint64_t)(int_at(s, 5) & INT64_MAX),
        .clock_khz = (uint32_t)((uint64_t)(int_at(s, 6) & INT64_MAX) / 1000 & UINT32_MAX),
        .sms = u32_at(s, 7),
        .major = u32_at(s, 10),
        .minor = u32_at(s, 11),
        .max_threads_per_sm = u32_at(s, 12),
    };
    read_uuid(text_at(s, 8), d.uuid);
    if (r->facts.n < MOST_GPUS) {
        vec_push(&r->facts, d);
        vec_push(&r->fact_ids, int_at(s, 1));
    }
    return ST_OK;
}

static uint32_t gpu_of(struct sqlite_reader *r, int64_t id, uint32_t uuid)
{
    struct report_gpu g = {.id = id, .uuid = uuid, .number = TRACE_NONE, .facts = TRACE_NONE};
    for (size_t i = 0; i < r->gpus.n; i++)
        if (r->gpus.p[i].id == id && r->gpus.p[i].uuid == uuid)
            return (uint32_t)i;
    for (size_t i = 0; i < r->facts.n; i++)
        if (r->fact_ids.p[i] == id)
            g.facts = (uint32_t)i;
    vec_push(&r->gpus, g);
    return (uint32_t)r->gpus.n - 1;
}

static enum st take_ordinal(struct sqlite_reader *r, sqlite3_stmt *s, struct err *e)
{
    (void)e;
    if (is_int(s, 1) && is_int(s, 2) && is_int(s, 3) && r->ordinals.n < MOST_GPUS)
        vec_push(
            &r->ordinals,
            ((struct ordinal){.pid = int_at(s, 3),
                              .cuda = int_at(s, 2),
                              .gpu = gpu_of(r, int_at(s, 1), trace_string(r->d, text_at(s, 4)))}));
    return ST_OK;
}

/* Facts of GPUs; of those whose number processes tell, when something runs on them. */
static void put_facts(struct sqlite_reader *r)
{
    for (size_t i = 0; i < r->facts.n; i++) {
        bool told = false;
        for (size_t k = 0; k < r->gpus.n; k++)
            told = told || r->gpus.p[k].facts == i;
        if (!told)
            trace_device_of(r->d, &r->facts.p[i]);
    }
}

/* Takes only known facts of the machine: the table also has the environment of the traced process,
 * with its secrets. */
static enum st take_system(struct sqlite_reader *r, sqlite3_stmt *s, struct err *e)
{
    (void)e;
    for (int i = 0; i < TRACE_FACTS; i++)
        if (trace_fact_names[i].nsys && sv_eq(text_at(s, 1), trace_fact_names[i].nsys))
            trace_fact(r->d, (enum trace_fact_kind)i, text_at(s, 2));
    return ST_OK;
}

/* ---- all of it ---- */

static enum st open_untrusted(struct sqlite_reader *r, struct err *e)
{
    if (sqlite3_open_v2(r->path, &r->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) !=
        SQLITE_OK)
        return failed(r, e);
    sqlite3_db_config(r->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(r->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(r->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(r->db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_limit(r->db, SQLITE_LIMIT_LENGTH, 16 << 20);
    sqlite3_limit(r->db, SQLITE_LIMIT_SQL_LENGTH, 1 << 20);
    sqlite3_limit(r->db, SQLITE_LIMIT_COLUMN, 200);
    sqlite3_limit(r->db, SQLITE_LIMIT_EXPR_DEPTH, 50);
    sqlite3_limit(r->db, SQLITE_LIMIT_ATTACHED, 0);
    if (sqlite3_exec(r->db, "PRAGMA cell_size_check=ON; PRAGMA mmap_size=0", NULL, NULL, NULL) !=
        SQLITE_OK)
        return failed(r, e);
    return ST_OK;
}

static enum st read_tables(struct sqlite_reader *r, struct err *e)
{
    static const struct {
        enum sql_table table;
        row_fn *take;
    } steps[] = {
        {SQL_STRINGS, take_string},    {SQL_GPU, take_gpu},        {SQL_CUDA_DEVICE, take_ordinal},
        {SQL_PROCESSES, take_process}, {SQL_THREADS, take_thread}, {SQL_NVTX, take_domain},
        {SQL_NVTX, take_nvtx_end},     {SQL_NVTX, take_nvtx},      {SQL_RUNTIME, take_call},
        {SQL_KERNEL, take_kernel},     {SQL_MEMCPY, take_copy},    {SQL_MEMSET, take_set},
        {SQL_GRAPH, take_graph},       {SQL_SYNC, take_sync},      {SQL_SYSTEM, take_system},
    };
    bool known = false, nameless = false, there;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        TRY(has_table(r, trace_sql_tables[steps[i].table].name, &there, e));
        known = known || there;
        nameless = nameless || (steps[i].table == SQL_STRINGS && !there);
        TRY(each_row(r, steps[i].table, steps[i].take, e));
        if (steps[i].table == SQL_CUDA_DEVICE)
            put_facts(r);
    }
    for (size_t i = 0; i < r->gpus.n; i++) /* those on which nothing ran */
        if (r->gpus.p[i].number == TRACE_NONE && r->gpus.p[i].facts != TRACE_NONE)
            trace_device_of(r->d, &r->facts.p[r->gpus.p[i].facts]);
    if (!known) {
        err_set(e, ST_INPUT, "%s: has none of the tables of an Nsight Systems export", r->path);
        return err_hint(e, "make one with: nsys export --type sqlite report.nsys-rep");
    }
    if (nameless)
        trace_note(r->d, LOG_WARN, "%s: has no table StringIds, so kernels and calls have no names",
                   fs_base(r->path));
    if (r->odd)
        trace_note(r->d, LOG_WARN, "%s: %llu row%s without sense %s left out", fs_base(r->path),
                   (unsigned long long)r->odd, r->odd == 1 ? "" : "s",
                   r->odd == 1 ? "was" : "were");
    return ST_OK;
}

enum st trace_sqlite_read(const char *path, struct trace_dict *d, const struct trace_sink *sink,
                          struct err *e)
{
    struct sqlite_reader r = {.path = path, .d = d, .sink = sink};
    enum st st = open_untrusted(&r, e);
    if (st == ST_OK)
        st = read_tables(&r, e);
    sqlite3_close(r.db);
    vec_free(&r.strings);
    vec_free(&r.facts);
    vec_free(&r.fact_ids);
    vec_free(&r.gpus);
    vec_free(&r.ordinals);
    vec_free(&r.domain_ids);
    vec_free(&r.domain_pids);
    vec_free(&r.domain_names);
    mem_free(r.sparse);
    return st;
}

bool trace_sqlite_recognises(struct sv head)
{
    return head.n >= 16 && memcmp(head.p, "SQLite format 3", 16) == 0;
}
