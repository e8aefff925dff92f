/* The commands of a session without running them. */
#include "deep/deep.h"

#include <string.h>

#include "deep/stages.h"
#include "deep/steps.h"

static void show(struct buf *out, const char *what, const struct argv *v)
{
    buf_printf(out, "%s# %s\n", out->n ? "\n" : "", what);
    argv_print(out, v);
}

static void show_nsys(struct arena *a, const struct deep_params *p, const char *dir,
                      struct buf *out)
{
    struct argv profile = {.a = a}, export = {.a = a}, stats = {.a = a};
    const char *output = arena_printf(a, "%s/nsys/run", dir);
    const char *recording = arena_printf(a, "%s.nsys-rep", output);
    nsys_profile(&profile, &p->nsys, p->mode == DEEP_LIGHT, output,
                 step_command(a, p, dir, "nsys"));
    nsys_export(&export, &p->nsys, recording, arena_printf(a, "%s.sqlite", output));
    show(out, "timeline, by Nsight Systems", &profile);
    show(out, "nsys export", &export);
    nsys_stats(&stats, &p->nsys, recording, output);
    if (p->nsys.reports.n)
        show(out, "nsys stats", &stats);
}

static void show_ncu(struct arena *a, const struct deep_params *p, const char *dir, struct buf *out,
                     const char *region, const char *range)
{
    struct argv v = {.a = a};
    const char *csv = ncu_csv_path(a, dir, region), *name = fs_base(csv);
    ncu_command(
        &v, &p->ncu, p->ncu.metrics, p->timeline == DEEP_TIMELINE_NONE ? NULL : "^(TOP_KERNELS)$",
        range, csv,
        step_command(a, p, dir, arena_printf(a, "ncu_%.*s", (int)(strlen(name) - 4), name)));
    show(out, region ? arena_printf(a, "ncu, region %s", region) : "ncu", &v);
}

static void show_all_ncu(struct arena *a, const struct deep_params *p, const char *dir,
                         struct buf *out)
{
    struct deep_stages stages;
    struct err ignored = {0};
    if (p->ncu_query && p->ncu.metrics.n)
        for (int launch = 0; launch < 2; launch++) {
            struct argv v = {.a = a};
            ncu_query(&v, &p->ncu, launch);
            show(out, launch ? "metrics of the launch that ncu knows" : "metrics that ncu knows",
                 &v);
        }
    if (!p->ncu_by_region) {
        show_ncu(a, p, dir, out, NULL, NULL);
        return;
    }
    if (deep_stages_read(a, p->stages, &stages, &ignored) == ST_OK)
        for (int i = 0; i < stages.n; i++)
            show_ncu(a, p, dir, out, stages.p[i].path, ncu_range(a, stages.p[i].pattern));
    for (size_t i = 0; i < p->regions.n; i++)
        show_ncu(a, p, dir, out, p->regions.items[i], ncu_range(a, p->regions.items[i]));
}

void deep_dry_run(struct arena *a, const struct deep_params *p, const char *dir, struct buf *out)
{
    struct argv v = {.a = a};
    if (!p->command.n)
        return;
    for (int i = p->warmup ? 0 : 1; p->baseline && i < 2; i++) {
        v = (struct argv){.a = a};
        argv_all(&v, step_command(a, p, dir, i ? "baseline" : "warm-up"));
        show(out, i ? "baseline" : "warm-up", &v);
    }
    v = (struct argv){.a = a};
    argv_all(&v, step_command(a, p, dir, "timeline"));
    if (p->timeline == DEEP_TIMELINE_TWINFER)
        show(out, "timeline, by twinfer's recorder", &v);
    if (p->timeline == DEEP_TIMELINE_NSYS)
        show_nsys(a, p, dir, out);
    if (p->ncu_enabled)
        show_all_ncu(a, p, dir, out);
}
