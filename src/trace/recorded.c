/* Summary of the spools of a folder, for its meta file and the log. */
#include <string.h>

#include "base/log.h"
#include "trace/record.h"
#include "trace/spool_scan.h"

static const struct {
    const char *name, *words;
} sources[SPOOL_SOURCES] = {{"newer", "a newer recorder had a reason of its own"},
#define X(number, source, name_, words_) [source] = {name_, words_},
                            SPOOL_SOURCE_TABLE(X)
#undef X
};

static struct node *dropped_node(struct arena *a, const struct spool_facts *f)
{
    struct node *n = node_new(a, NODE_MAP);
    for (int i = 0; i < SPOOL_SOURCES; i++)
        if (f->dropped_by[i])
            node_set(a, n, sv_of(sources[i].name), node_int(a, (int64_t)f->dropped_by[i]));
    return n;
}

static struct node *spool_node(struct arena *a, const char *name, const struct spool_facts *f)
{
    struct node *n = node_new(a, NODE_MAP);
    node_set(a, n, SV("spool"), node_str(a, name));
    node_set(a, n, SV("pid"), node_int(a, f->header.pid));
    node_set(a, n, SV("parent_pid"), node_int(a, f->header.parent_pid));
    if (f->rank >= 0)
        node_set(a, n, SV("rank"), node_int(a, f->rank));
    node_set(a, n, SV("command"), node_str(a, f->command));
    node_set(a, n, SV("start_mono_ns"), node_int(a, f->header.start_ns));
    node_set(a, n, SV("started_at"), artifact_time(a, f->header.start_wall_ns));
    node_set(a, n, SV("ended"), node_bool(a, f->ended));
    if (!f->ended && f->header.alive_ns >= f->header.flushed_ns && f->header.flushed_ns > 0)
        node_set(a, n, SV("alive_after_flush_ms"),
                 node_float(a, (double)(f->header.alive_ns - f->header.flushed_ns) / 1e6));
    node_set(a, n, SV("bytes"), node_int(a, (int64_t)f->bytes));
    node_set(a, n, SV("whole_bytes"), node_int(a, (int64_t)f->whole_bytes));
    if (f->skipped_bytes) {
        node_set(a, n, SV("skipped_blocks"), node_int(a, (int64_t)f->skipped_blocks));
        node_set(a, n, SV("skipped_bytes"), node_int(a, (int64_t)f->skipped_bytes));
    }
    struct node *records = node_set(a, n, SV("records"), node_new(a, NODE_MAP));
    for (int kind = SPOOL_KERNELS; kind <= SPOOL_APIS; kind++)
        if (f->counts[kind])
            node_set(a, records, sv_of(trace_spool_kind_name(kind)),
                     node_int(a, (int64_t)f->counts[kind]));
    node_set(a, n, SV("dropped"), node_int(a, (int64_t)f->dropped));
    if (f->dropped)
        node_set(a, n, SV("dropped_by"), dropped_node(a, f));
    struct node *cost = node_set(a, n, SV("cost"), node_new(a, NODE_MAP));
    const struct {
        const char *key;
        int64_t value;
    } costs[] = {{"callback_ns", f->cost.callback_ns},
                 {"writer_cpu_ns", f->cost.writer_cpu_ns},
                 {"memory_bytes", (int64_t)f->cost.memory_bytes}};
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) /* at_ns 0: not written */
        node_set(a, cost, sv_of(costs[i].key),
                 f->cost.at_ns ? node_int(a, costs[i].value) : node_new(a, NODE_NULL));
    struct node *notes = node_set(a, n, SV("notes"), node_new(a, NODE_LIST));
    for (size_t i = 0; i < f->n_notes; i++)
        node_push(a, notes, node_str(a, f->notes[i]));
    return n;
}

static bool is_spool(const char *name)
{
    size_t n = strlen(name), m = strlen(SPOOL_SUFFIX);
    return n > m && strcmp(name + n - m, SPOOL_SUFFIX) == 0;
}

static void tell_faults(const char *name, const struct spool_facts *f)
{
    for (size_t k = 0; k < f->n_notes; k++)
        log_warn("%s: %s", name, f->notes[k]);
    for (int k = 0; k < SPOOL_SOURCES; k++)
        if (f->dropped_by[k])
            log_warn("%s: %llu records are missing: %s", name, (unsigned long long)f->dropped_by[k],
                     sources[k].words);
    if (f->skipped_bytes)
        log_warn("%s: %llu blocks (%llu bytes) are damaged", name,
                 (unsigned long long)f->skipped_blocks, (unsigned long long)f->skipped_bytes);
    char since[SPOOL_SINCE_TEXT];
    if (!f->ended)
        log_warn("%s: the process did not end by itself: what it did after the last flush%s "
                 "(trace.flush_ms) is missing",
                 name, trace_spool_since_flush(&f->header, since));
}

/* Entry of an unreadable spool (its process was killed while creating the file); the others are
 * unaffected. */
static struct node *unreadable_node(struct arena *a, const char *name, const struct err *why)
{
    struct node *n = node_new(a, NODE_MAP);
    log_warn("%s: is left out: %s", name, err_cause(why, 0));
    node_set(a, n, SV("spool"), node_str(a, name));
    node_set(a, n, SV("error"), node_str(a, err_cause(why, 0)));
    return n;
}

enum st trace_recorded(struct arena *a, const char *dir, struct trace_recorded *out, struct err *e)
{
    const char **names;
    size_t n;
    *out = (struct trace_recorded){.processes = node_new(a, NODE_LIST)};
    TRY(fs_list(a, dir, &names, &n, e));
    for (size_t i = 0; i < n; i++) {
        struct spool_facts f;
        struct err why = {0};
        if (!is_spool(names[i]))
            continue;
        if (trace_spool_scan(a, fs_join(a, dir, names[i]), &f, &why) != ST_OK) {
            node_push(a, out->processes, unreadable_node(a, names[i], &why));
            continue;
        }
        node_push(a, out->processes, spool_node(a, names[i], &f));
        out->n++;
        out->kernels += (int64_t)f.counts[SPOOL_KERNELS];
        out->launches += (int64_t)f.counts[SPOOL_LAUNCHES];
        out->ranges += (int64_t)f.counts[SPOOL_RANGES];
        out->dropped += (int64_t)f.dropped;
        out->bytes += (int64_t)f.whole_bytes;
        tell_faults(names[i], &f);
    }
    return ST_OK;
}
