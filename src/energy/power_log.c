#include "energy/power_log.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/vec.h"
#include "energy/power_columns.h"
#include "energy/power_gpus.h"
#include "energy/power_text.h"
#include "energy/stamp.h"
#include "text/csv.h"

enum { MAX_LOG_BYTES = 1 << 30 };
#define MAX_POWER_W 1e7
/* More than one GPU draws: the largest modules take under 3 kW. NVML's milliwatts of a GPU of a
 * data centre are above it, idle too. */
#define MAX_GPU_W    5000.0
#define MAX_ENERGY_J 1e15

struct power_log_reading {
    struct arena *a;
    struct csv_reader *r;
    struct power_columns columns;
    struct power_column power; /* the one that is read */
    struct power_gpus gpus;
    int64_t want; /* in gpus.list */
    VEC(struct power_sample) samples;
    struct power_log *out;
    bool any;   /* a row was read: out->zoned is known */
    int digits; /* most decimals of a second */
};

/* ---- rows ------------------------------------------------------------------------------------ */

/* "[N/A]", "[Not Supported]", "ERR!", "": the sensor had nothing to say. */
static bool unknown(struct sv s)
{
    static const char *const words[] = {"n/a",
                                        "na",
                                        "nan",
                                        "none",
                                        "null",
                                        "-",
                                        "--",
                                        "err!",
                                        "err",
                                        "error",
                                        "unknown",
                                        "unknown error",
                                        "not supported",
                                        "not available",
                                        "not found",
                                        "no data",
                                        "gpu is lost",
                                        "reset required",
                                        "gpu requires reset",
                                        "insufficient permissions",
                                        "timeout",
                                        "failed"};
    if (s.n == 0 || s.p[0] == '[')
        return true;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (s.n == strlen(words[i]) && strncasecmp(s.p, words[i], s.n) == 0)
            return true;
    return false;
}

static enum st bad_number(const struct power_log_reading *d, int column, struct sv s, struct err *e)
{
    return csv_err(d->r, column, e, "expected a number, got '%.*s'", (int)(s.n < 40 ? s.n : 40),
                   s.p);
}

/* Watts: a cell's own unit counts before that of its column. */
static enum st read_power(struct power_log_reading *d, double *out, struct err *e)
{
    struct sv s = sv_trim(csv_cell(d->r, d->power.column));
    const struct sv cell = s;
    double watts = d->power.watts;
    *out = NAN;
    if (unknown(s)) {
        if (!d->out->no_power && s.n)
            d->out->no_power = arena_strn(d->a, s.p, s.n < 40 ? s.n : 40);
        return ST_OK;
    }
    size_t at = s.n;
    while (at > 0 && s.p[at - 1] != ' ')
        at--;
    if (at > 0) {
        watts = power_unit_watts((struct sv){s.p + at, s.n - at});
        s = sv_trim((struct sv){s.p, at});
    }
    if (watts <= 0 || !str_double(s, out))
        return bad_number(d, d->power.column, cell, e);
    *out *= watts;
    if (*out < 0 || *out > MAX_POWER_W)
        return csv_err(d->r, d->power.column, e, "%g is not within 0 and %g", *out, MAX_POWER_W);
    if (*out <= MAX_GPU_W || d->columns.meter)
        return ST_OK;
    csv_err(d->r, d->power.column, e, "%g W is more than a GPU draws", *out);
    return err_hint(e, "milliwatts, as NVML has them, belong in a column power_mw; the sum of "
                       "several GPUs in time,sum");
}

static enum st read_energy(const struct power_log_reading *d, double *out, struct err *e)
{
    const struct sv s = sv_trim(csv_cell(d->r, d->columns.energy));
    *out = NAN;
    if (unknown(s))
        return ST_OK;
    if (!str_double(s, out))
        return bad_number(d, d->columns.energy, s, e);
    return *out >= 0 && *out <= MAX_ENERGY_J
               ? ST_OK
               : csv_err(d->r, d->columns.energy, e, "%g is not within 0 and %g", *out,
                         MAX_ENERGY_J);
}

static bool parse_time(const struct power_log_reading *d, struct sv s, struct stamp *out)
{
    if (d->columns.date >= 0) {
        char both[64];
        const struct sv date = sv_trim(csv_cell(d->r, d->columns.date));
        if (date.n + s.n + 2 < sizeof both) {
            const int n =
                snprintf(both, sizeof both, "%.*s %.*s", (int)date.n, date.p, (int)s.n, s.p);
            if (stamp_parse((struct sv){both, (size_t)n}, out))
                return true;
        }
    }
    return stamp_parse_unit(s, d->columns.time_unit_ns, out);
}

static enum st no_time(const struct power_log_reading *d, struct sv s, struct err *e)
{
    csv_err(d->r, d->columns.time, e, "expected a time of day with its date, got '%.*s'",
            (int)(s.n < 40 ? s.n : 40), s.p);
    return err_hint(e, "as 2026-11-21 16:30:05.123, or seconds since 1970");
}

static enum st read_time(struct power_log_reading *d, int64_t *ns, struct err *e)
{
    const struct sv s = sv_trim(csv_cell(d->r, d->columns.time));
    struct stamp at;
    if (!parse_time(d, s, &at))
        return no_time(d, s, e);
    if (d->any && at.zoned != d->out->zoned)
        return csv_err(d->r, d->columns.time, e, "some times have a zone and some have none");
    d->any = true;
    d->out->zoned = at.zoned;
    d->digits = at.digits > d->digits ? at.digits : d->digits;
    *ns = at.ns;
    return ST_OK;
}

static enum st read_row(struct power_log_reading *d, struct err *e)
{
    struct power_sample s = {.energy_j = NAN};
    int64_t which = d->want;
    if (d->columns.n_id > 0 && d->columns.n_power == 1)
        TRY(power_gpus_row(&d->gpus, d->r, &which, e));
    if (which != d->want) {
        d->out->missing += which < 0; /* of nobody knows which */
        return ST_OK;
    }
    TRY(read_time(d, &s.ns, e));
    TRY(read_power(d, &s.power_w, e));
    if (d->columns.energy >= 0)
        TRY(read_energy(d, &s.energy_j, e));
    if (isnan(s.power_w)) {
        d->out->missing++;
        if (isnan(s.energy_j))
            return ST_OK;
    }
    if (d->samples.n > 0 && s.ns < vec_last(&d->samples).ns) {
        csv_err(d->r, d->columns.time, e, "the time is %.3f s before that of the row above",
                (double)(vec_last(&d->samples).ns - s.ns) / 1e9);
        return err_hint(e, "the clock was set, daylight saving ended, or two logs were joined: cut "
                           "the file there");
    }
    vec_push(&d->samples, s);
    return ST_OK;
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

/* The GPUs of all rows, before any is read. */
static enum st find_gpus(struct power_log_reading *d, const char *source, struct sv bytes,
                         struct err *e)
{
    struct csv_reader *r;
    int64_t which;
    TRY(csv_open_bytes(&r, source, bytes, e));
    enum st st;
    while ((st = csv_next(r, e)) == ST_OK && (st = power_gpus_row(&d->gpus, r, &which, e)) == ST_OK)
        continue;
    csv_close(&r);
    return st == ST_END ? ST_OK : st;
}

/* A column for each GPU. */
static enum st pick_column(struct power_log_reading *d, const char *source, int64_t gpu,
                           struct err *e)
{
    struct buf list = {0};
    for (int i = 0; i < d->columns.n_power; i++) {
        if (d->columns.power[i].gpu == gpu || (gpu < 0 && d->columns.n_power == 1)) {
            d->power = d->columns.power[i];
            d->out->gpu = d->power.gpu;
            buf_free(&list);
            return ST_OK;
        }
        buf_printf(&list, "%s%d", i ? ", " : "", d->columns.power[i].gpu);
    }
    if (gpu < 0)
        err_set(e, ST_INPUT, "%s has the powers of %d GPUs, and gpu= is not set", source,
                d->columns.n_power);
    else
        err_set(e, ST_INPUT, "%s has no column of GPU %lld", source, (long long)gpu);
    err_hint(e, "it has columns of %s: gpu= picks one", buf_str(&list));
    buf_free(&list);
    return ST_INPUT;
}

static enum st pick_gpu(struct power_log_reading *d, const char *source, struct sv bytes,
                        int64_t gpu, struct err *e)
{
    d->power = d->columns.power[0];
    d->out->meter = d->columns.meter;
    d->out->averaged = d->columns.averaged;
    d->out->gpu = gpu < 0 ? 0 : gpu;
    d->out->what = "the meter's sum";
    if (d->columns.meter)
        return ST_OK;
    if (d->power.gpu >= 0) {
        TRY(pick_column(d, source, gpu, e));
        d->columns.n_id = 0; /* the columns tell */
    } else if (d->columns.n_id > 0) {
        TRY(find_gpus(d, source, bytes, e));
        if (d->gpus.list.n == 0) /* no cell of them says anything */
            d->columns.n_id = 0;
        else
            TRY(power_gpus_pick(&d->gpus, source, gpu, &d->want, e));
        const bool numbered = d->gpus.list.n && d->gpus.list.p[d->want].number >= 0;
        d->out->counted = d->gpus.list.n > 1 && !numbered;
        if (numbered)
            d->out->gpu = d->gpus.list.p[d->want].number;
    }
    d->out->what = power_gpus_what(&d->gpus, d->want, d->out->gpu);
    return ST_OK;
}

/* Whether a column says which GPU it is, not only of what product. */
static bool named(const struct power_log_reading *d)
{
    if (d->columns.meter || d->power.gpu >= 0)
        return true;
    for (int i = 0; i < d->columns.n_id && d->gpus.list.n; i++)
        if (d->columns.id[i].kind < ID_HOST && d->gpus.list.p[d->want].id[i])
            return true;
    return false;
}

/* Rows of several GPUs among each other would be taken for one whose power swings. */
static enum st check_mixed(struct power_log_reading *d, const char *source, struct err *e)
{
    const enum power_mix mix =
        named(d) ? POWER_ONE : power_gpus_mixed(d->samples.p, d->samples.n, d->digits);
    d->out->doubtful = mix == POWER_DOUBTFUL;
    if (mix != POWER_MIXED)
        return ST_OK;
    err_set(e, ST_INPUT,
            "%s: its rows come together or share their times, as those of several GPUs do, and no "
            "column says which GPU they are of",
            source);
    return err_hint(e, "log index too: nvidia-smi --query-gpu=timestamp,index,power.draw.instant");
}

static enum st nothing(const struct power_log_reading *d, const char *source, struct err *e)
{
    return err_set(e, ST_INPUT, "%s has no row with a power%s", source,
                   d->out->missing ? ": the sensor is not supported, or not permitted" : "");
}

void power_log_ticks(struct power_sample *p, size_t n)
{
    double last_j = NAN;
    for (size_t i = 0; i < n; i++)
        if (p[i].energy_j == last_j)
            p[i].energy_j = NAN;
        else if (!isnan(p[i].energy_j))
            last_j = p[i].energy_j;
}

/* Samples without power whose reading of the counter repeated say nothing: left out. */
static size_t keep_telling(struct power_sample *p, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (!isnan(p[i].power_w) || !isnan(p[i].energy_j))
            p[kept++] = p[i];
    return kept;
}

enum st power_log_parse(struct arena *a, const char *source, struct sv bytes, int64_t gpu,
                        struct power_log *out, struct err *e)
{
    struct power_log_reading d = {.a = a, .out = out};
    struct power_text text;
    *out = (struct power_log){.source = arena_str(a, source)};
    d.gpus = (struct power_gpus){.a = a, .columns = &d.columns};
    TRY(power_text_make(a, source, bytes, &text, e));
    out->cut = text.cut;
    out->headers = text.headers;
    out->missing = text.messages;
    TRY(csv_open_bytes(&d.r, source, text.bytes, e));
    enum st st = power_columns_find(a, d.r, source, &d.columns, e);
    if (st == ST_OK)
        st = pick_gpu(&d, source, text.bytes, gpu, e);
    while (st == ST_OK && (st = csv_next(d.r, e)) == ST_OK)
        st = read_row(&d, e);
    if (st == ST_END)
        st = d.samples.n == 0 ? nothing(&d, source, e) : check_mixed(&d, source, e);
    if (st == ST_OK) {
        power_log_ticks(d.samples.p, d.samples.n);
        d.samples.n = keep_telling(d.samples.p, d.samples.n);
        out->p = arena_copy(a, d.samples.p, d.samples.n * sizeof *d.samples.p);
        out->n = d.samples.n;
    }
    vec_free(&d.samples);
    vec_free(&d.gpus.list);
    csv_close(&d.r);
    return st;
}

enum st power_log_read(struct arena *a, const char *path, int64_t gpu, struct power_log *out,
                       struct err *e)
{
    struct sv bytes;
    if (fs_read(a, path, MAX_LOG_BYTES, &bytes, e) != ST_OK ||
        power_log_parse(a, path, bytes, gpu, out, e) != ST_OK)
        return err_add(e, "cannot read the power log");
    return ST_OK;
}

static bool has_counter(const struct power_log *logs, size_t n)
{
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < logs[k].n; i++)
            if (!isnan(logs[k].p[i].energy_j))
                return true;
    return false;
}

static void write_header(struct csv_writer *w, bool meter, bool counter)
{
    csv_put_str(w, meter ? "time" : "timestamp");
    if (!meter)
        csv_put_str(w, "gpu");
    csv_put_str(w, meter ? "sum" : "power_w");
    if (counter)
        csv_put_str(w, "energy_j");
    csv_end_row(w);
}

/* The log whose next sample is the earliest; NULL = all are at their ends. at: [n], of the next. */
static const struct power_log *next_log(const struct power_log *logs, const size_t *at, size_t n)
{
    const struct power_log *first = NULL;
    for (size_t k = 0; k < n; k++)
        if (at[k] < logs[k].n && (!first || logs[k].p[at[k]].ns < first->p[at[first - logs]].ns))
            first = &logs[k];
    return first;
}

static void write_logs(FILE *f, const struct power_log *logs, size_t n, int64_t utc_offset_s,
                       const char *zone)
{
    struct csv_writer w = {.f = f};
    char stamp[STAMP_MAX], cell[STAMP_MAX + 2];
    const bool counter = has_counter(logs, n);
    size_t *at = mem_alloc(n * sizeof *at);
    memset(at, 0, n * sizeof *at);
    write_header(&w, logs->meter, counter);
    for (const struct power_log *log; (log = next_log(logs, at, n));) {
        const struct power_sample *s = &log->p[at[log - logs]++];
        stamp_text(s->ns, utc_offset_s, stamp);
        snprintf(cell, sizeof cell, "%s%s", stamp, zone);
        csv_put_str(&w, cell);
        if (!log->meter)
            csv_put_int(&w, log->gpu);
        csv_put_double(&w, s->power_w);
        if (counter)
            csv_put_double(&w, s->energy_j);
        csv_end_row(&w);
    }
    mem_free(at);
}

static void write_log(FILE *f, const struct power_log *log, int64_t gpu, int64_t utc_offset_s,
                      const char *zone)
{
    struct power_log one = *log;
    one.gpu = gpu;
    write_logs(f, &one, 1, utc_offset_s, zone);
}

void power_log_write(FILE *f, const struct power_log *log, int64_t gpu, int64_t utc_offset_s)
{
    write_log(f, log, gpu, log->zoned ? utc_offset_s : 0, "");
}

void power_log_write_all(FILE *f, const struct power_log *logs, size_t n, int64_t utc_offset_s)
{
    ASSERT(n > 0);
    write_logs(f, logs, n, logs->zoned ? utc_offset_s : 0, "");
}

void power_log_write_zoned(FILE *f, const struct power_log *log, int64_t gpu)
{
    write_log(f, log, gpu, 0, "Z");
}
