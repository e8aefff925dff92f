/* The command energy: what power a GPU draws, and what for. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "cmd/commands.h"
#include "cmd/energy.h"
#include "energy/meter.h"
#include "energy/probe.h"
#include "energy/stamp.h"

/* ---- common ---------------------------------------------------------------------------------- */

const char *energy_file(struct arena *a, const char *path, const char *name)
{
    return fs_is_dir(path) ? fs_join(a, path, name) : path;
}

int64_t energy_log_gpu(const struct job_context *c, const char *key, int64_t gpu)
{
    return config_origin(c->config, key) > ORIGIN_DEFAULT ? gpu : POWER_LOG_ONLY_GPU;
}

enum st energy_write_log(const struct artifact *art, const struct power_log *log, int64_t gpu,
                         int64_t utc_offset_s, bool keep_zone, struct err *e)
{
    FILE *f;
    TRY(artifact_create_file(art, "power.csv", &f, e));
    if (log->zoned && keep_zone)
        power_log_write_zoned(f, log, gpu);
    else
        power_log_write(f, log, gpu, utc_offset_s);
    return artifact_close_file(art, "power.csv", &f, e);
}

struct node *energy_meta(struct job_context *c, const char *id, const struct artifact *art,
                         const char *type, struct node *extra)
{
    struct run_meta meta = job_meta(c, art, id, type);
    meta.hardware_id = meta.device = meta.model = NULL; /* not those of the plan */
    meta.extra = extra;
    return run_meta_node(c->a, &meta);
}

/* ---- report ---------------------------------------------------------------------------------- */

struct energy_sources {
    struct power_log power;
    struct full_timing full;
    struct energy_application application;
    struct isolated_timing isolated;
    struct energy_inputs in;
};

static const char power_name[] = "power.csv", full_name[] = "full_model_timing.json";

enum st energy_read_application(struct job_context *c, struct energy_application *out,
                                struct err *e)
{
    const struct plan *p = c->plan;
    *out = (struct energy_application){0};
    if (!p->energy.application)
        return ST_OK;
    TRY(full_timing_read(c->a, energy_file(c->a, p->energy.application, full_name), &out->timing,
                         e));
    out->has_timing = &out->timing;
    if (!p->energy.application_power)
        return ST_OK;
    out->has_power = &out->power;
    return power_log_read(c->a, energy_file(c->a, p->energy.application_power, power_name),
                          energy_log_gpu(c, "gpu", p->energy.gpu), &out->power, e);
}

static enum st read_sources(struct job_context *c, struct energy_sources *s, struct err *e)
{
    const struct plan *p = c->plan;
    struct arena *a = c->a;
    if (!p->energy.power || !p->energy.full) {
        err_set(e, ST_USAGE, "%s is not set", p->energy.power ? "full" : "power");
        return err_hint(e, "twinfer energy report power=power.csv full=full_model_timing.json "
                           "isolated=isolated_kernels_timing.json");
    }
    s->in = (struct energy_inputs){.power = &s->power,
                                   .full = &s->full,
                                   .idle_w = p->energy.idle_power > 0 ? p->energy.idle_power
                                                                      : (double)NAN,
                                   .idle_half_w = NAN};
    TRY(full_timing_read(a, energy_file(a, p->energy.full, full_name), &s->full, e));
    if (p->energy.isolated) {
        s->in.isolated = &s->isolated;
        TRY(isolated_timing_read(a,
                                 energy_file(a, p->energy.isolated, "isolated_kernels_timing.json"),
                                 &s->isolated, e));
    }
    TRY(power_log_read(a, energy_file(a, p->energy.power, power_name),
                       energy_log_gpu(c, "gpu", p->energy.gpu), &s->power, e));
    TRY(energy_read_application(c, &s->application, e));
    s->in.application = s->application.has_timing;
    s->in.application_power = s->application.has_power;
    return ST_OK;
}

/* Figures for scripts and sweeps. */
static struct node *result_node(struct arena *a, const struct energy_report *r, const char *dir)
{
    struct node *n = node_new(a, NODE_MAP);
    node_put(a, n, "out", node_str(a, dir));
    node_put(a, n, "energy_per_inference_j", node_number(a, r->full.energy_per_inference_j));
    node_put(a, n, "predicted_energy_per_inference_j", node_number(a, r->predicted_j));
    node_put(a, n, "error_percent", node_number(a, r->predicted_error_percent));
    node_put(a, n, "in_context_energy_j", node_number(a, r->in_context_j));
    return n;
}

enum st energy_write_report(struct arena *a, const struct artifact *art,
                            const struct energy_report *r, struct err *e)
{
    struct buf text = {0};
    TRY(artifact_write_json(art, "gpu_energy_report.json", energy_report_node(a, r), e));
    energy_report_text(a, &text, r);
    const enum st st = artifact_write(art, "summary.txt", &text, e);
    buf_free(&text);
    return st;
}

void energy_print_report(struct job_context *c, const struct energy_report *r, const char *dir)
{
    struct node *result = result_node(c->a, r, dir);
    struct buf text = {0};
    energy_report_text(c->a, &text, r);
    buf_printf(&text, "%-24s %s\n", "out", dir);
    if (c->json) {
        const struct node *whole = energy_report_node(c->a, r);
        for (uint32_t i = 0; i < whole->n; i++)
            node_set(c->a, result, whole->pairs[i].key, whole->pairs[i].value);
    }
    job_result(c, result, buf_str(&text));
    buf_free(&text);
}

static enum st write_report(struct job_context *c, const struct energy_report *r,
                            const struct energy_sources *s, const char *id, struct artifact *art,
                            struct err *e)
{
    struct arena *a = c->a;
    struct node *extra = node_new(a, NODE_MAP), *from = node_new(a, NODE_MAP);
    node_put(a, from, "power", node_str(a, s->power.source));
    node_put(a, from, "full", node_str(a, s->full.source));
    node_put(a, from, "isolated", node_str_or_null(a, s->in.isolated ? s->isolated.source : NULL));
    node_put(a, extra, "sources", from);
    node_put(a, extra, "gpu", node_int(a, s->power.gpu));
    TRY(energy_write_report(a, art, r, e));
    TRY(energy_write_log(art, &s->power, s->power.gpu, 0, true, e));
    TRY(job_snapshot(c, art, e));
    return artifact_commit(art, energy_meta(c, id, art, "energy", extra), e);
}

static enum st report(struct job_context *c, struct err *e)
{
    struct energy_sources s = {0};
    struct energy_report r;
    struct artifact art;
    const char *id, *dir = job_out_dir(c, "energy", &id);
    TRY(read_sources(c, &s, e));
    TRY(energy_report_make(c->a, &s.in, &r, e));
    TRY(artifact_begin(c->a, dir, "run_meta.json", &art, e));
    if (write_report(c, &r, &s, id, &art, e) != ST_OK) {
        artifact_discard(&art);
        return e->st;
    }
    energy_print_report(c, &r, dir);
    return ST_OK;
}

/* ---- log ------------------------------------------------------------------------------------- */

struct node *energy_sensor_node(struct arena *a, const struct recorder_sensor *s)
{
    return recorder_sensor_node(a, s);
}

static struct node *log_extra(struct job_context *c, const struct board *b,
                              const struct recorder *r, const struct gpu_conditions *under,
                              int64_t utc_offset_s)
{
    struct arena *a = c->a;
    const struct recorder_counts n = recorder_counts(r);
    const struct recorder_sensor power = recorder_sensor(r, SAMPLER_POWER),
                                 counter = recorder_sensor(r, SAMPLER_ENERGY);
    struct node *extra = node_new(a, NODE_MAP);
    node_put(a, extra, "gpu", node_int(a, b->gpu));
    node_put(a, extra, "gpu_name", node_str_or_null(a, b->name[0] ? b->name : NULL));
    node_put(a, extra, "gpu_uuid", node_str_or_null(a, b->uuid[0] ? b->uuid : NULL));
    node_put(a, extra, "utc_offset_s", node_int(a, utc_offset_s));
    node_put(a, extra, "power_sensor", energy_sensor_node(a, &power));
    node_put(a, extra, "energy_sensor", energy_sensor_node(a, &counter));
    node_put(a, extra, "samples", node_int(a, n.samples));
    node_put(a, extra, "failed_readings", node_int(a, n.failed));
    node_put(a, extra, "late", node_int(a, n.late));
    node_put(a, extra, "under", gpu_conditions_node(a, under));
    return extra;
}

static void tell_sensor(const struct recorder *r, enum sampler_kind kind)
{
    const struct recorder_sensor s = recorder_sensor(r, kind);
    if (!s.ops)
        return;
    if (isnan(s.update_s))
        log_info("%s: %s; it did not change in the first seconds", s.ops->name, s.ops->what);
    else
        log_info("%s: %s, updated every %.0f ms, %s", s.ops->name, s.ops->what, s.update_s * 1e3,
                 s.ops->averages_s > 0 ? "an average over a second" : "not averaged");
}

/* Until a signal, or for duration_s. */
static void log_until(double duration_s)
{
    const int64_t end =
        duration_s > 0 ? clock_mono_ns() + ns_from_s(duration_s) : (int64_t)INT64_MAX;
    while (!job_stop && clock_mono_ns() < end) {
        const int64_t next = clock_mono_ns() + 20 * NS_PER_MS;
        clock_sleep_until_ns(next < end ? next : end);
    }
}

static enum st print_log(struct job_context *c, const struct power_log *log, const char *dir)
{
    struct node *n = node_new(c->a, NODE_MAP);
    const struct energy g = energy_of(log, log->p[0].ns, log->p[log->n - 1].ns);
    node_put(c->a, n, "out", node_str(c->a, dir));
    node_put(c->a, n, "samples", node_int(c->a, g.samples));
    node_put(c->a, n, "duration_s", node_number(c->a, g.duration_s));
    node_put(c->a, n, "energy_j", node_number(c->a, g.joules));
    node_put(c->a, n, "counter_energy_j", node_number(c->a, g.counter_j));
    node_put(c->a, n, "mean_power_w", node_number(c->a, g.joules / g.duration_s));
    node_put(c->a, n, "highest_power_w", node_number(c->a, g.high_w));
    job_result(c, n, NULL);
    return ST_OK;
}

static enum st log_sensors(struct job_context *c, struct recorder_params *rp, struct board *b,
                           struct err *e)
{
    const struct plan *p = c->plan;
    if (strcmp(p->energy.sampler, sampler_rapl.name) != 0)
        TRY(board_open((int)p->energy.gpu, b, e));
    rp->sampler.uuid = b->uuid;
    rp->interval_s = p->energy.interval_s;
    rp->learn_s = 2;
    return recorder_pick(c->a, p->energy.sampler, rp, e);
}

static enum st log_power(struct job_context *c, struct err *e)
{
    struct recorder_params rp = {0};
    struct board board = {0};
    struct recorder *r;
    struct gpu_watch *watch;
    struct power_log log;
    struct artifact art;
    const char *id, *dir = job_out_dir(c, "energy", &id);
    job_catch_signals();
    TRY(log_sensors(c, &rp, &board, e));
    TRY(artifact_begin(c->a, dir, "run_meta.json", &art, e));
    if (recorder_open(c->a, &rp, &r, e) != ST_OK) {
        artifact_discard(&art);
        return e->st;
    }
    const int64_t utc_offset_s = stamp_utc_offset_s(clock_wall_ns());
    gpu_watch_open(board.uuid, 500, &watch);
    tell_sensor(r, SAMPLER_POWER);
    tell_sensor(r, SAMPLER_ENERGY);
    log_until(c->plan->energy.duration_s);
    const struct gpu_conditions under = gpu_watch_take(watch);
    enum st st = recorder_stop(r, e);
    recorder_log(c->a, r, "GPU", &log);
    if (st == ST_OK)
        st = energy_write_log(&art, &log, board.gpu, utc_offset_s, false, e);
    if (st == ST_OK)
        st = artifact_commit(
            &art, energy_meta(c, id, &art, "power", log_extra(c, &board, r, &under, utc_offset_s)),
            e);
    if (st == ST_OK)
        st = print_log(c, &log, dir);
    else
        artifact_discard(&art);
    gpu_watch_close(&watch);
    recorder_close(&r);
    return st;
}

/* ---- probe, idle ----------------------------------------------------------------------------- */

static enum st probe(struct job_context *c, struct err *e)
{
    const struct probe_params params = {
        .gpu = (int)c->plan->energy.gpu, .percent = c->plan->energy.percent, .stop = &job_stop};
    struct probe p;
    struct buf text = {0};
    job_catch_signals();
    TRY(probe_run(c->a, &params, &p, e));
    probe_text(c->a, &text, &p);
    job_result(c, probe_node(c->a, &p), buf_str(&text));
    buf_free(&text);
    return ST_OK;
}

static enum st idle(struct job_context *c, struct err *e)
{
    const struct plan *p = c->plan;
    const struct idle_params params = {.gpu = (int)p->energy.gpu,
                                       .duration_s =
                                           p->energy.duration_s > 0 ? p->energy.duration_s : 5,
                                       .context = p->energy.context,
                                       .sampler = p->energy.sampler,
                                       .stop = &job_stop};
    struct idle i;
    struct buf text = {0};
    job_catch_signals();
    TRY(idle_run(c->a, &params, &i, e));
    idle_text(c->a, &text, &i);
    job_result(c, idle_node(c->a, &i), buf_str(&text));
    buf_free(&text);
    return ST_OK;
}

/* ---- the command ----------------------------------------------------------------------------- */

static const struct word {
    const char *name;
    enum st (*run)(struct job_context *c, struct err *e);
    const char *keys; /* settings of this command that it reads */
} words[] = {
    {"probe", probe, " gpu energy.percent "},
    {"idle", idle, " gpu energy.duration_s energy.context energy.sampler "},
    {"log", log_power, " out gpu interval_s energy.duration_s energy.sampler "},
    {"report", report, " out power full isolated application application_power gpu idle_power "},
    {"run", energy_run_capsule,
     " out capsule runs gpu interval_s energy.window_s energy.percent energy.duration_s "
     "energy.sampler replay.classes application application_power "},
};

/* The settings that only some words read. */
static const char *const keys[] = {"out",
                                   "capsule",
                                   "runs",
                                   "energy.window_s",
                                   "replay.classes",
                                   "power",
                                   "full",
                                   "isolated",
                                   "application",
                                   "application_power",
                                   "gpu",
                                   "idle_power",
                                   "interval_s",
                                   "energy.duration_s",
                                   "energy.percent",
                                   "energy.context",
                                   "energy.sampler"};

static enum st check_read(const struct job_context *c, const struct word *w, struct err *e)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *key = arena_printf(c->a, " %s ", keys[i]);
        if (strstr(w->keys, key) || config_origin(c->config, keys[i]) != ORIGIN_COMMAND_LINE)
            continue;
        err_set(e, ST_USAGE, "%s: energy %s does not read it", keys[i], w->name);
        return err_hint(e, "it reads%.*s", (int)strlen(w->keys) - 1, w->keys);
    }
    return ST_OK;
}

static enum st energy(struct job_context *c, struct err *e)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (c->n_words == 1 && strcmp(c->words[0], words[i].name) == 0) {
            TRY(check_read(c, &words[i], e));
            return words[i].run(c, e);
        }
    err_set(e, ST_USAGE, "energy needs one of: probe, idle, log, report, run");
    return err_hint(e, "twinfer energy probe says what the sensors of a GPU are worth");
}

static int run_energy(struct job_context *c, struct err *e)
{
    if (energy(c, e) != ST_OK)
        err_add(e, c->n_words == 1 ? "energy %s" : "energy", c->n_words == 1 ? c->words[0] : "");
    return err_exit_code(e->st);
}

const struct cmd cmd_energy = {
    .id = COMMAND_ENERGY,
    .columns = "energy_per_inference_j predicted_energy_per_inference_j error_percent "
               "in_context_energy_j",
    .summary = "power of a GPU, and the energy of a model and of its kernels",
    .about =
        "`probe` says what the sensors of a GPU are worth: how often they are updated, over how "
        "long they average, and how long something must run until its power is known; `idle` "
        "measures the idle power; `log` samples power until a signal comes; `report` "
        "integrates a power log, of anyone, over the times at which a model and each of its "
        "kernels ran, predicts the model's energy from its kernels and compares. Exit code 5 "
        "when another process used the GPU, or a window has no power.",
    .words = "probe|idle|log|report|run",
    .example = "twinfer energy report power=power.csv full=full_model_timing.json "
               "isolated=isolated_kernels_timing.json idle_power=126",
    .run = run_energy,
};
