#include "deep/analysis.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "deep/collectives.h"

void deep_note(struct arena *a, struct deep_result *r, const char *fmt, ...)
{
    va_list ap;
    const char **notes = arena_array(a, const char *, r->n_notes + 1);
    if (r->n_notes)
        memcpy(notes, r->notes, r->n_notes * sizeof *notes);
    va_start(ap, fmt);
    notes[r->n_notes++] = arena_vprintf(a, fmt, ap);
    va_end(ap);
    r->notes = notes;
}

/* ---- rows of kernels ---- */

/* "tensor_bf16 98 %, fp32 2 %": the units by their part of the operations; NULL = none known. */
static const char *units_words(struct arena *a, const struct deep_figures *f)
{
    struct buf out = {0};
    double all = deep_flop(f);
    bool used[UNITS] = {0};
    for (int round = 0; round < UNITS && all > 0; round++) {
        int best = -1;
        for (int i = 0; i < UNITS; i++)
            if (!used[i] && f->flop[i] > 0 && (best < 0 || f->flop[i] > f->flop[best]))
                best = i;
        if (best < 0 || (round && f->flop[best] < 0.005 * all))
            break;
        used[best] = true;
        buf_printf(&out, "%s%s %.0f %%", out.n ? ", " : "", deep_unit_name((unsigned)best),
                   100 * f->flop[best] / all);
    }
    const char *words = out.n ? arena_str(a, buf_str(&out)) : NULL;
    buf_free(&out);
    return words;
}

static struct deep_kernel_row row_of(struct arena *a, const struct deep_kernel *k)
{
    const struct deep_figures *f = &k->figures;
    const struct deep_place *p = &k->place;
    struct deep_kernel_row r = {.name = arena_str(a, k->name), /* the trace is freed earlier */
                                .short_name = arena_str(a, k->short_name),
                                .label = arena_str(a, k->label),
                                .calls = (double)k->calls,
                                .total_ms = k->timed ? (double)k->total_ns / 1e6 : (double)NAN,
                                .running_ms = k->timed ? (double)k->running_ns / 1e6 : (double)NAN,
                                .mean_us = (double)k->total_ns / 1e3 / (double)k->timed,
                                .share_percent = k->timed ? 100 * k->share : (double)NAN,
                                .profiled = (double)k->profiled};
    double *unknown[] = {&r.ncu_us,
                         &r.app_us,
                         &r.clock_percent,
                         &r.gflop,
                         &r.dram_mb,
                         &r.l2_mb,
                         &r.intensity,
                         &r.l2_intensity,
                         &r.tflop_per_s,
                         &r.dram_gb_per_s,
                         &r.l2_gb_per_s,
                         &r.compute_percent,
                         &r.dram_percent,
                         &r.l2_percent,
                         &r.occupancy_percent,
                         &r.registers,
                         &r.shared_bytes,
                         &r.waves,
                         &r.occupancy_limit_percent};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        *unknown[i] = NAN;
    if (!k->profiled)
        return r;
    r.ncu_us = f->duration_ns / 1e3;
    r.app_us = k->app_ns / 1e3;
    r.clock_percent = 100 * (r.ncu_us / r.app_us - 1);
    r.gflop = deep_flop(f) / 1e9;
    r.dram_mb = f->dram_bytes / 1e6;
    r.l2_mb = f->l2_bytes / 1e6;
    r.intensity = p->intensity;
    r.l2_intensity = p->l2_intensity;
    r.tflop_per_s = p->flop_per_s / 1e12;
    r.dram_gb_per_s = p->dram_per_s / 1e9;
    r.l2_gb_per_s = p->l2_per_s / 1e9;
    r.compute_percent = 100 * p->compute;
    r.dram_percent = 100 * p->dram;
    r.l2_percent = 100 * p->l2;
    r.occupancy_percent = f->occupancy_percent;
    r.occupancy_limit_percent = f->occupancy_limit_percent;
    r.registers = f->registers;
    r.shared_bytes = f->shared_bytes;
    r.waves = f->waves;
    r.units = units_words(a, f);
    r.occupied = p->occupied;
    r.class = deep_class_name(p->class);
    r.why = p->why;
    return r;
}

/* ---- the scope of the summary ---- */

static struct deep_scope summary_scope(const struct deep_analysis *x)
{
    bool found = x->k && deep_stages_found(x->stages);
    return (struct deep_scope){.stages = found ? x->stages : NULL,
                               .stage = -1,
                               .any_stage = found,
                               .process = -1,
                               .device = -1};
}

const char *const *deep_top_kernels(struct arena *a, const struct deep_analysis *x, bool nccl,
                                    size_t *n, size_t *left_out)
{
    struct deep_join j = deep_join_make(a, x->k, NULL);
    struct deep_scope scope = summary_scope(x);
    size_t all;
    struct deep_kernel *k = deep_kernels_of(a, &j, &scope, x->roofs, &all, NULL);
    const char **names = arena_array(a, const char *, all + 1);
    *n = *left_out = 0;
    for (size_t i = 0; i < all && *n < (size_t)x->top; i++) {
        bool no = !nccl && kernels_communicates(k[i].kind, k[i].name, k[i].short_name);
        if (k[i].kind != TRACE_KERNEL)
            continue;
        *left_out += no;
        if (!no)
            names[(*n)++] = k[i].mangled;
    }
    return names;
}

/* A launcher that only asked how many GPUs there are is in the trace too. */
static double processes_that_worked(struct arena *a, const struct kernels *k)
{
    bool *worked = arena_array(a, bool, k->t->dict.n_processes + 1);
    double n = 0;
    for (size_t i = 0; i < k->t->ops.n; i++) {
        bool *it = &worked[k->t->dict.sigs[k->t->ops.sig[i]].process];
        n += !*it;
        *it = true;
    }
    return n;
}

/* Calls that launched the operations of the stages, or of all; NAN = not recorded. */
static double launches_of(const struct deep_analysis *x)
{
    const struct trace *t = x->k->t;
    bool found = deep_stages_found(x->stages), *seen = mem_alloc(t->calls.n + 1);
    double n = 0;
    memset(seen, 0, t->calls.n + 1);
    for (size_t i = 0; i < t->ops.n; i++) {
        uint32_t call = t->ops.call[i];
        if (call == TRACE_NONE || seen[call] || (found && deep_stage_of(x->stages, x->k, i) < 0))
            continue;
        seen[call] = true;
        n++;
    }
    mem_free(seen);
    return n > 0 ? n : (double)NAN;
}

static void add_totals(struct arena *a, const struct deep_analysis *x, struct deep_totals *t,
                       int64_t gpu_ns, size_t n_kernels)
{
    double ms = gpu_ns ? (double)gpu_ns / 1e6 : (double)NAN, launches = 0;
    for (size_t i = 0; x->ncu && i < x->ncu->launches.n; i++)
        launches += (double)x->ncu->launches.p[i].count;
    *t = (struct deep_totals){.scope = "profiled launches",
                              .elapsed_ms = ms,
                              .gpu_ms = ms,
                              .busy_ms = ms,
                              .operations = launches,
                              .kernels = (double)n_kernels,
                              .processes = NAN,
                              .devices = NAN,
                              .beside_ms = NAN,
                              .launches = NAN,
                              .launch_gap_us = NAN,
                              .launch_call_us = NAN};
    if (!x->k)
        return;
    struct kernels_timeline line = kernels_timeline_of(a, x->k);
    t->devices = (double)line.n_devices;
    t->processes = processes_that_worked(a, x->k);
    t->launches = launches_of(x);
    if (line.launch_gap.n)
        t->launch_gap_us = line.launch_gap.median / 1e3;
    if (line.launch_call.n)
        t->launch_call_us = line.launch_call.median / 1e3;
    if (deep_stages_found(x->stages)) {
        struct deep_stage_sum sum = deep_stages_total(x->stages);
        t->scope = "stages";
        t->elapsed_ms = (double)sum.elapsed_ns / 1e6;
        t->busy_ms = (double)sum.busy_ns / 1e6;
        t->operations = (double)sum.operations;
        t->gpu_ms = (double)sum.gpu_ns / 1e6;
        if (x->stages->ran_beside.operations)
            t->beside_ms = (double)x->stages->ran_beside.gpu_ns / 1e6;
        return;
    }
    t->scope = "trace";
    t->elapsed_ms = t->busy_ms = 0;
    for (size_t i = 0; i < line.n_devices; i++) {
        double span = (double)(line.devices[i].last_ns - line.devices[i].first_ns) / 1e6;
        t->elapsed_ms = fmax(t->elapsed_ms, span);
        t->busy_ms += (double)line.devices[i].busy_ns / 1e6;
    }
    t->operations = (double)x->k->t->ops.n;
}

static void note_work(struct arena *a, struct deep_result *out, const struct deep_work *w,
                      const char *what)
{
    if (w->operations)
        deep_note(a, out, "%lld operation%s (%.3f ms) %s", (long long)w->operations,
                  w->operations == 1 ? "" : "s", (double)w->gpu_ns / 1e6, what);
}

/* Work that no stage launched on its own thread. */
static void note_other_work(struct arena *a, const struct deep_stages *s, struct deep_result *out)
{
    note_work(a, out, &s->strays,
              "began on a thread without a stage while a stage was open on another (as PyTorch's "
              "backward pass does): that stage includes them.");
    note_work(a, out, &s->ran_beside,
              "ran in the time of the stages and were launched outside of them: busy time and "
              "bottlenecks include them, kernels and GPU time of the stages do not.");
    note_work(a, out, &s->outside,
              "ran before, between or after the stages: no figure of the stages includes them.");
    for (int i = 0; i < s->n; i++)
        if (s->p[i].parent < 0 && s->p[i].all.instances && !s->p[i].all.operations)
            deep_note(a, out, "Nothing was launched in stage %s: other processes may work for it.",
                      s->p[i].path);
}

static void add_stages(struct arena *a, const struct deep_analysis *x, struct deep_result *out)
{
    int n = x->k ? x->stages->n : 0;
    out->stages = arena_array(a, struct deep_stage_row, n + 1);
    for (int i = 0; i < n; i++) {
        const struct deep_stage *s = &x->stages->p[i];
        if (!s->all.instances) {
            deep_note(a, out, "No range %s%s%s: stage %s has no figures.", s->pattern,
                      s->parent >= 0 ? " inside " : "",
                      s->parent >= 0 ? x->stages->p[s->parent].path : "", s->path);
            continue;
        }
        double elapsed_ms = (double)s->all.elapsed_ns / 1e6, lanes = s->processes;
        out->stages[out->n_stages++] = (struct deep_stage_row){
            .path = s->path,
            .depth = s->depth,
            .processes = s->processes,
            .instances = (double)s->all.instances,
            .elapsed_ms = elapsed_ms,
            .per_instance_ms = elapsed_ms / (double)s->all.instances,
            .least_ms = (double)s->all.least_ns / 1e6,
            .most_ms = (double)s->all.most_ns / 1e6,
            .host_ms = (double)s->all.host_ns / 1e6,
            .gpu_ms = (double)s->all.gpu_ns / 1e6,
            .exclusive_ms = (double)s->all.exclusive_ns / 1e6,
            .busy_ms = (double)s->all.busy_ns / 1e6,
            .operations = (double)s->all.operations,
            .busy_percent = 100 * (double)s->all.busy_ns / 1e6 / (elapsed_ms * lanes),
            .share_percent = 100 * elapsed_ms / out->totals.elapsed_ms,
            .flop = s->flop,
            .bytes = s->bytes,
            .mfu_percent = 100 * s->mfu,
            .mfu_gpu_percent = 100 * s->mfu_gpu,
            .bandwidth_percent = 100 * s->bandwidth,
            .bandwidth_gpu_percent = 100 * s->bandwidth_gpu,
        };
    }
    if (x->k && out->n_stages)
        note_other_work(a, x->stages, out);
    if (x->k && x->stages->n && !out->n_stages)
        deep_note(a, out,
                  "No stage was found: totals are of the whole trace. deep.stages names the "
                  "program's NVTX ranges.");
}

/* The first device that a process used; NAN = none. */
static double device_of(const struct kernels *k, uint32_t process)
{
    const struct trace_dict *d = &k->t->dict;
    for (uint32_t i = 0; i < d->n_sigs; i++)
        if (d->sigs[i].process == process)
            return d->sigs[i].device;
    return NAN;
}

static void add_ranks(struct arena *a, const struct deep_analysis *x, struct deep_result *out)
{
    const struct deep_stages *s = x->stages;
    if (!x->k || !(out->totals.processes > 1))
        return;
    out->ranks = arena_array(a, struct deep_rank_row, (size_t)s->n * s->n_processes + 1);
    for (int i = 0; i < s->n; i++)
        for (uint32_t p = 0; p < s->n_processes; p++) {
            const struct deep_stage_sum *one = &s->p[i].by_process[p];
            if (!one->instances)
                continue;
            out->ranks[out->n_ranks++] = (struct deep_rank_row){
                .path = s->p[i].path,
                .process = x->k->t->dict.processes[p].pid,
                .device = device_of(x->k, p),
                .instances = (double)one->instances,
                .elapsed_ms = (double)one->elapsed_ns / 1e6,
                .gpu_ms = (double)one->gpu_ns / 1e6,
                .busy_ms = (double)one->busy_ns / 1e6,
                .busy_percent = 100 * (double)one->busy_ns / (double)one->elapsed_ns,
                .operations = (double)one->operations,
            };
        }
}

static double cell_number(const struct table *t, int row, int column)
{
    double v;
    return str_double(sv_of(table_at(t, row, column)), &v) ? v : (double)NAN;
}

static void add_operators(struct arena *a, const struct deep_analysis *x, struct deep_result *out)
{
    if (!x->k)
        return;
    struct table *t = kernels_operator_table(a, x->k);
    int n = table_rows(t) - 1;
    n = n < x->top ? n : (int)x->top;
    out->operators = arena_array(a, struct deep_operator_row, n + 1);
    for (int i = 0; i < n; i++)
        out->operators[out->n_operators++] = (struct deep_operator_row){
            arena_str(a, table_at(t, i + 1, 0)), cell_number(t, i + 1, 1), cell_number(t, i + 1, 2),
            cell_number(t, i + 1, 3), cell_number(t, i + 1, 4)};
}

static void add_roofs(struct arena *a, const struct deep_roofs *roofs, struct deep_result *out)
{
    out->roofs = roofs->source;
    out->l2_roof = roofs->l2_source;
    out->roofs_measured = roofs->measured;
    out->roof_rows = arena_array(a, struct deep_roof_row, UNITS + 2);
    if (!isnan(roofs->dram_per_s))
        out->roof_rows[out->n_roof_rows++] = (struct deep_roof_row){"dram", roofs->dram_per_s};
    if (!isnan(roofs->l2_per_s))
        out->roof_rows[out->n_roof_rows++] = (struct deep_roof_row){"l2", roofs->l2_per_s};
    for (unsigned i = 0; i < UNITS; i++)
        if (!isnan(roofs->flop_per_s[i]))
            out->roof_rows[out->n_roof_rows++] =
                (struct deep_roof_row){deep_unit_name(i), roofs->flop_per_s[i]};
}

static void add_gantt(struct arena *a, const struct deep_analysis *x, struct deep_result *out)
{
    const struct deep_stages *s = x->stages;
    out->gantt = arena_one(a, struct kernels_gantt);
    out->n_gantt = 1;
    *out->gantt = s->window_end_ns > s->window_start_ns
                      ? kernels_gantt_between(a, x->k, s->window_start_ns, s->window_end_ns)
                      : kernels_gantt_of(a, x->k);
}

void deep_analyse(struct arena *a, const struct deep_analysis *x, struct deep_result *out)
{
    struct deep_join j = deep_join_make(a, x->k, x->ncu);
    struct deep_scope scope = summary_scope(x);
    size_t n;
    int64_t gpu_ns;
    struct deep_kernel *k = deep_kernels_of(a, &j, &scope, x->roofs, &n, &gpu_ns);
    add_roofs(a, x->roofs, out);
    add_totals(a, x, &out->totals, gpu_ns, n);
    add_stages(a, x, out);
    add_ranks(a, x, out);
    add_operators(a, x, out);
    size_t top = n < (size_t)x->top ? n : (size_t)x->top;
    out->kernels = arena_array(a, struct deep_kernel_row, top + 1);
    for (size_t i = 0; i < top; i++)
        out->kernels[out->n_kernels++] = row_of(a, &k[i]);
    out->kernel_totals = arena_array(a, struct deep_kernel_total, n + 1);
    for (size_t i = 0; i < n; i++)
        if (k[i].timed && 100 * k[i].share >= DEEP_TOTALS_SHARE)
            out->kernel_totals[out->n_kernel_totals++] =
                (struct deep_kernel_total){arena_str(a, k[i].name), (double)k[i].calls,
                                           (double)k[i].total_ns / 1e6, 100 * k[i].share};
    size_t uneven = 0;
    if (x->k)
        out->collectives =
            deep_collectives_of(a, x->k, scope.stages, "nccl*", &out->n_collectives, &uneven);
    if (uneven)
        deep_note(a, out,
                  "%zu collective operation%s not split into waiting and moving: the processes do "
                  "not call %s equally often.",
                  uneven, uneven == 1 ? " is" : "s are", uneven == 1 ? "it" : "them");
    int64_t untimed = 0;
    for (size_t i = 0; i < n; i++)
        untimed += k[i].calls - k[i].timed;
    if (untimed)
        deep_note(a, out,
                  "%lld launch%s no duration (gpu__time_duration.sum was not collected): "
                  "totals and shares are without %s.",
                  (long long)untimed, untimed == 1 ? " has" : "es have",
                  untimed == 1 ? "it" : "them");
    if (j.unmatched)
        deep_note(a, out,
                  "%zu of %zu launches that Nsight Compute profiled are of kernels that the "
                  "timeline does not have.",
                  j.unmatched, x->ncu->launches.n);
    for (size_t i = 0; x->ncu && i < x->ncu->notes.n; i++)
        deep_note(a, out, "%s", x->ncu->notes.p[i]);
    deep_notes(a, out);
    if (x->k && x->k->t->ops.n)
        add_gantt(a, x, out);
    deep_bottlenecks(a, out);
}

/* ---- regions ---- */

struct region_rows {
    struct arena *a;
    const struct deep_analysis *x;
    struct deep_join join;
    VEC(struct deep_region_row) rows;
};

static void add_region(struct region_rows *r, const char *name, struct deep_scope scope, double pid)
{
    size_t n;
    int64_t gpu_ns;
    scope.include = r->x->include;
    scope.exclude = r->x->exclude;
    struct deep_kernel *k = deep_kernels_of(r->a, &r->join, &scope, r->x->roofs, &n, &gpu_ns);
    if (!n)
        return;
    size_t top = n < (size_t)r->x->top ? n : (size_t)r->x->top;
    struct deep_region_row row = {.region = name,
                                  .process = pid,
                                  .device = scope.device < 0 ? (double)NAN : (double)scope.device,
                                  .gpu_ms = (double)gpu_ns / 1e6,
                                  .kernels = arena_array(r->a, struct deep_kernel_row, top + 1)};
    for (size_t i = 0; i < n; i++) {
        row.operations += (double)k[i].calls;
        if (i < top)
            row.kernels[row.n_kernels++] = row_of(r->a, &k[i]);
    }
    vec_push(&r->rows, row);
}

/* Processes and devices that worked, of the trace, else of the tables: keys of two numbers. */
static void workers_of(const struct deep_analysis *x, struct map *out)
{
    const struct trace_dict *d = x->k ? &x->k->t->dict : NULL;
    for (uint32_t i = 0; d && i < d->n_sigs; i++) {
        const int64_t key[] = {d->sigs[i].process, d->sigs[i].device};
        map_put(out, (const char *)key, sizeof key, NULL);
    }
    for (size_t i = 0; !d && x->ncu && i < x->ncu->launches.n; i++) {
        const int64_t key[] = {x->ncu->launches.p[i].pid, x->ncu->launches.p[i].device};
        map_put(out, (const char *)key, sizeof key, NULL);
    }
}

/* Merged, then of each process and device where there are several that worked. */
static void add_everywhere(struct region_rows *r, const char *name, struct deep_scope scope)
{
    const struct kernels *k = r->x->k;
    struct map seen;
    scope.process = scope.device = -1;
    add_region(r, name, scope, NAN);
    map_init(&seen, r->a);
    workers_of(r->x, &seen);
    for (uint32_t i = 0; seen.n > 1 && i < seen.n; i++) {
        int64_t key[2];
        memcpy(key, seen.entries[i].key, sizeof key);
        scope.process = key[0];
        scope.device = key[1];
        add_region(r, name, scope, (double)(k ? k->t->dict.processes[key[0]].pid : key[0]));
    }
}

struct deep_region_row *deep_regions_of(struct arena *a, const struct deep_analysis *x, size_t *n)
{
    struct region_rows r = {.a = a, .x = x, .join = deep_join_make(a, x->k, x->ncu)};
    for (int i = 0; i < x->stages->n; i++) {
        if (x->k && !x->stages->p[i].all.instances)
            continue;
        add_everywhere(&r, x->stages->p[i].path,
                       (struct deep_scope){.stages = x->stages, .stage = i});
    }
    for (size_t i = 0; i < x->regions.n; i++)
        add_everywhere(&r, x->regions.items[i],
                       (struct deep_scope){.pattern = x->regions.items[i], .stage = -1});
    if (!r.rows.n)
        add_everywhere(&r, "(all)", (struct deep_scope){.stage = -1});
    *n = r.rows.n;
    struct deep_region_row *out = arena_copy(a, r.rows.p, r.rows.n * sizeof *r.rows.p);
    vec_free(&r.rows);
    return out;
}
