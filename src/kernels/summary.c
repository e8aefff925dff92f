#include "kernels/summary.h"

#include <math.h>
#include <string.h>

#include "base/fs.h"
#include "text/json.h"

/* ---- members ------------------------------------------------------------------------------- */

/* Records of a table's rows have a row here for each column, in its order. */
#define NUMBER(T, m) FIELD(T, m, .optional = true)

#define T struct kernels_by_name
static const struct field name_rows[] = {
    NUMBER(T, share_percent), NUMBER(T, total_ns),  NUMBER(T, instances),
    NUMBER(T, mean_ns),       NUMBER(T, median_ns), NUMBER(T, min_ns),
    NUMBER(T, max_ns),        NUMBER(T, stddev_ns), FIELD(T, name),
};
static const struct fields name_fields = FIELDS(T, name_rows);
#undef T

#define T struct kernels_by_operator
static const struct field operator_rows[] = {
    FIELD(T, name),     NUMBER(T, total_ms),      NUMBER(T, calls),
    NUMBER(T, mean_ms), NUMBER(T, share_percent),
};
static const struct fields operator_fields = FIELDS(T, operator_rows);
#undef T

#define T struct kernels_by_region
static const struct field region_rows[] = {
    FIELD(T, name),          NUMBER(T, instances),    NUMBER(T, host_ms),
    NUMBER(T, inclusive_ms), NUMBER(T, exclusive_ms), NUMBER(T, operations),
};
static const struct fields region_fields = FIELDS(T, region_rows);
#undef T

#define T struct kernels_change
static const struct field change_rows[] = {
    FIELD(T, name),           FIELD(T, status),       NUMBER(T, before_ms),
    NUMBER(T, after_ms),      NUMBER(T, change_ms),   NUMBER(T, change_percent),
    NUMBER(T, calls_before),  NUMBER(T, calls_after), NUMBER(T, mean_before_ms),
    NUMBER(T, mean_after_ms),
};
static const struct fields change_fields = FIELDS(T, change_rows);
#undef T

static const struct field fact_rows[] = {
    FIELD(struct kernels_fact, title),
    FIELD(struct kernels_fact, text),
};
static const struct fields fact_fields = FIELDS(struct kernels_fact, fact_rows);

static const char *operator_kind(unsigned by_range)
{
    return by_range ? "NVTX range" : "PyTorch operator";
}

static const struct field summary_rows[] = {
#define T struct kernels_summary
    FIELD(T, schema_version, .min = 1, .max = KERNELS_SCHEMA),
    FIELD(T, trace),
    FIELD(T, trace_format),
    FIELD(T, recording, .optional = true),
    FIELD_AS(T, n_operations, "operations"),
    FIELD_LIST(T, notes, n_notes, "notes"),
    FIELD_MAPS(T, machine, n_machine, "machine", &fact_fields),
    FIELD_MAPS(T, kernels, n_kernels, "kernels", &name_fields),
    FIELD_MAPS(T, copies, n_copies, "copies", &name_fields, .optional = true),
    FIELD_ENUM(T, by_range, "operators_are", operator_kind, 2),
    FIELD_MAPS(T, operators, n_operators, "operators", &operator_fields),
    FIELD_MAPS(T, regions, n_regions, "regions", &region_fields),
    FIELD_MAP(T, timeline, "timeline", &kernels_timeline_fields),
    FIELD_MAP(T, gantt, "gantt", &kernels_gantt_fields),
    FIELD_MAPS(T, iterations, n_iterations, "iterations", &serving_sum_fields, .optional = true),
    FIELD(T, against, .optional = true),
    FIELD_MAPS(T, changes, n_changes, "changes", &change_fields),
#undef T
};
static const struct fields summary_fields =
    FIELDS(struct kernels_summary, summary_rows,
           .remedy = "run twinfer kernels again: its files were edited, or are of another version");

/* ---- from a trace -------------------------------------------------------------------------- */

static const struct table *report_table(struct arena *a, const struct kernels *k, const char *name)
{
    const struct kernels_report *r = kernels_reports;
    while (strcmp(r->name, name) != 0)
        r++;
    return kernels_report_table(a, k, r);
}

/* The rows of a table as records. */
static void *records_of(struct arena *a, const struct table *t, const struct fields *f, size_t *n)
{
    ASSERT((size_t)table_columns(t) == f->n);
    *n = (size_t)table_rows(t) - 1;
    char *all = arena_alloc_n(a, *n, f->bytes);
    for (size_t i = 0; i < *n; i++)
        for (size_t c = 0; c < f->n; c++) {
            const char *text = table_at(t, (int)i + 1, (int)c);
            void *member = all + i * f->bytes + f->rows[c].at;
            double v;
            if (f->rows[c].kind == FIELD_KIND_TEXT)
                *(const char **)member = arena_str(a, text);
            else
                *(double *)member = str_double(sv_of(text), &v) ? v : (double)NAN;
        }
    return all;
}

static const char *const *notes_of(struct arena *a, const struct trace_dict *d, size_t *n)
{
    const char **notes = arena_array(a, const char *, d->n_notes + 2);
    const char *impossible = trace_impossible(a, d);
    *n = 0;
    for (uint32_t i = 0; i < d->n_notes; i++)
        notes[(*n)++] = arena_str(a, d->notes[i].text);
    if (d->dropped)
        notes[(*n)++] = arena_printf(a, "The recorder lost %llu records: sums are too small.",
                                     (unsigned long long)d->dropped);
    if (impossible)
        notes[(*n)++] = arena_printf(a, "Left out for times that cannot be: %s.", impossible);
    return notes;
}

static const char *device_words(struct arena *a, const struct trace_dict *dict,
                                const struct trace_device *g)
{
    const char *name = trace_text(dict, g->name);
    const char *text = arena_str(a, *name ? name : "unknown");
    if (g->memory_bytes)
        text = arena_printf(a, "%s, %.0f GiB", text, (double)g->memory_bytes / (1 << 30));
    if (g->sms)
        text = arena_printf(a, "%s, %u SMs", text, g->sms);
    if (g->major)
        text = arena_printf(a, "%s, compute capability %u.%u", text, g->major, g->minor);
    return text;
}

static struct kernels_fact *machine_of(struct arena *a, const struct trace_dict *d, size_t *n)
{
    struct kernels_fact *facts = arena_array(a, struct kernels_fact, d->n_devices + TRACE_FACTS);
    *n = 0;
    for (uint32_t i = 0; i < d->n_devices; i++)
        facts[(*n)++] = (struct kernels_fact){arena_printf(a, "GPU %u", d->devices[i].number),
                                              device_words(a, d, &d->devices[i])};
    for (int i = 0; i < TRACE_FACTS; i++) {
        const char *text = trace_fact_words(a, d, (enum trace_fact_kind)i);
        if (text && *text)
            facts[(*n)++] = (struct kernels_fact){trace_fact_names[i].title, arena_str(a, text)};
    }
    return facts;
}

/* What the recording says of itself, where the trace is a folder that it left. One that cannot be
 * read costs the summary nothing but that. */
static const struct node *recording_of(struct arena *a, const char *trace)
{
    struct err ignored = {0};
    struct node *meta;
    const char *path = fs_join(a, trace, "run_meta.json");
    const struct node *type = fs_exists(path) && json_load(a, path, NULL, &meta, &ignored) == ST_OK
                                  ? node_find(meta, "run_type")
                                  : NULL;
    return type && type->kind == NODE_STR && sv_eq(type->s, "trace") ? meta : NULL;
}

void kernels_summary_of(struct arena *a, const struct kernels *k, const char *trace,
                        struct kernels_summary *out)
{
    const struct trace *t = k->t;
    const struct table *operators = kernels_operator_table(a, k);
    *out = (struct kernels_summary){.schema_version = KERNELS_SCHEMA,
                                    .trace = arena_str(a, trace),
                                    .trace_format = arena_str(a, t->format),
                                    .recording = recording_of(a, trace),
                                    .n_operations = t->ops.n,
                                    .by_range = strcmp(table_at(operators, 0, 0), "Range") == 0,
                                    .timeline = kernels_timeline_of(a, k),
                                    .gantt = kernels_gantt_of(a, k)};
    out->notes = notes_of(a, &t->dict, &out->n_notes);
    out->machine = machine_of(a, &t->dict, &out->n_machine);
    out->kernels =
        records_of(a, report_table(a, k, "cuda_gpu_kern_sum"), &name_fields, &out->n_kernels);
    out->copies =
        records_of(a, report_table(a, k, "cuda_gpu_mem_time_sum"), &name_fields, &out->n_copies);
    out->operators = records_of(a, operators, &operator_fields, &out->n_operators);
    out->regions = records_of(a, kernels_region_table(a, k), &region_fields, &out->n_regions);
}

void kernels_summary_changes(struct arena *a, struct kernels_summary *s, const char *against,
                             const struct table *diff)
{
    s->against = arena_str(a, against);
    s->changes = records_of(a, diff, &change_fields, &s->n_changes);
}

/* ---- the file ------------------------------------------------------------------------------ */

void kernels_summary_json(struct buf *out, const struct kernels_summary *s)
{
    struct arena *a = arena_new();
    json_write(out, fields_node(a, &summary_fields, s), 2, true);
    arena_free(&a);
}

enum st kernels_summary_load(struct arena *a, const char *path, struct kernels_summary *out,
                             struct err *e)
{
    static const struct json_limits limits = {.max_bytes = (size_t)512 << 20};
    struct node *tree;
    TRY(json_load(a, path, &limits, &tree, e));
    TRY(fields_read(a, &summary_fields, tree, out, e));
    if (kernels_gantt_ok(&out->gantt))
        return ST_OK;
    node_err(node_find(tree, "gantt"), ST_INPUT, e, "gantt: its columns are no picture");
    return err_hint(e, "%s", summary_fields.remedy);
}
