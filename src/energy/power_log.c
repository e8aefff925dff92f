#include "energy/power_log.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/map.h"
#include "base/vec.h"
#include "energy/stamp.h"
#include "text/csv.h"

enum { MAX_LOG_BYTES = 1 << 30 };
#define MAX_POWER_W  1e7
#define MAX_ENERGY_J 1e15

/* ---- columns --------------------------------------------------------------------------------- */

/* A header: ours, a meter's, nvidia-smi's. Names in a file may have blanks around them, and
 * nvidia-smi's a unit behind. */
static const struct shape {
    const char *time, *gpu, *power, *energy; /* NULL = none */
    bool gpu_needed, averaged;
} shapes[] = {
    {"timestamp", "gpu", "power_w", "energy_j", true, false},
    {"time", NULL, "sum", NULL, false, false},
    {"timestamp", "index", "power.draw.instant", NULL, false, false},
    {"timestamp", "index", "power.draw.average", NULL, false, true},
    {"timestamp", "index", "power.draw", NULL, false, true},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

struct reading {
    struct arena *a;
    struct csv_reader *r;
    const struct shape *shape;
    int time, gpu, power, energy; /* columns; -1 = none */
    int id;               /* of nvidia-smi without index: what tells GPUs apart; -1 = none */
    const char *first_id; /* of the first row; NULL = none yet */
    int64_t want;
    struct map others; /* GPUs of rows that are not wanted */
    VEC(struct power_sample) samples;
    struct power_log *out;
    bool any; /* a row was read: out->zoned is known */
};

static int find_column(const struct csv_reader *r, const char *want)
{
    const size_t n = want ? strlen(want) : 0;
    for (int i = 0; want && i < csv_columns(r); i++) {
        const struct sv name = sv_trim(sv_of(csv_column_name(r, i)));
        const bool unit = name.n > n + 2 && memcmp(name.p + n, " [", 2) == 0;
        if ((name.n == n || unit) && memcmp(name.p, want, n) == 0)
            return i;
    }
    return -1;
}

/* Queries of nvidia-smi that differ from GPU to GPU. */
static const char *const identities[] = {"uuid",       "gpu_uuid", "pci.bus_id", "gpu_bus_id",
                                         "gpu_serial", "serial",   "gpu_name",   "name"};
enum { IDENTITIES = sizeof identities / sizeof *identities };

static enum st find_shape(struct reading *d, const char *source, struct err *e)
{
    for (int i = 0; i < SHAPES; i++) {
        const struct shape *s = &shapes[i];
        d->time = find_column(d->r, s->time);
        d->gpu = find_column(d->r, s->gpu);
        d->power = find_column(d->r, s->power);
        d->energy = find_column(d->r, s->energy);
        if (d->time < 0 || d->power < 0 || (s->gpu_needed && d->gpu < 0))
            continue;
        d->id = -1;
        for (int k = 0; s->gpu && d->gpu < 0 && d->id < 0 && k < IDENTITIES; k++)
            d->id = find_column(d->r, identities[k]);
        d->shape = s;
        d->out->averaged = s->averaged;
        return ST_OK;
    }
    err_at(e, ST_INPUT, source, 1, 0, "this header is of no power log");
    return err_hint(e, "known are timestamp,gpu,power_w; time,sum; and what nvidia-smi "
                       "--query-gpu=timestamp,index,power.draw --format=csv writes");
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* "[N/A]", "[Not Supported]", "N/A", "": the sensor had nothing to say. */
static bool unknown(struct sv s)
{
    return s.n == 0 || s.p[0] == '[' || sv_eq(s, "N/A") || sv_eq(s, "nan");
}

static enum st number(const struct reading *d, int column, double max, double *out, struct err *e)
{
    struct sv s = sv_trim(csv_cell(d->r, column));
    if (s.n > 2 && memcmp(s.p + s.n - 2, " W", 2) == 0)
        s.n -= 2;
    *out = NAN;
    if (unknown(s))
        return ST_OK;
    if (!str_double(s, out))
        return csv_err(d->r, column, e, "expected a number, got '%.*s'", (int)(s.n < 40 ? s.n : 40),
                       s.p);
    if (*out < 0 || *out > max)
        return csv_err(d->r, column, e, "%g is not within 0 and %g", *out, max);
    return ST_OK;
}

static enum st read_time(struct reading *d, int64_t *ns, struct err *e)
{
    const struct sv s = csv_cell(d->r, d->time);
    struct stamp at;
    if (!stamp_parse(s, &at)) {
        csv_err(d->r, d->time, e, "expected a time of day with its date, got '%.*s'",
                (int)(s.n < 40 ? s.n : 40), s.p);
        return err_hint(e, "as 2026-11-21 16:30:05.123, or seconds since 1970");
    }
    if (d->any && at.zoned != d->out->zoned)
        return csv_err(d->r, d->time, e, "some times have a zone and some have none");
    d->any = true;
    d->out->zoned = at.zoned;
    *ns = at.ns;
    return ST_OK;
}

/* Whether the row is of the GPU that is wanted. */
static enum st wanted(struct reading *d, bool *yes, struct err *e)
{
    *yes = true;
    if (d->gpu < 0)
        return ST_OK;
    const struct sv s = sv_trim(csv_cell(d->r, d->gpu));
    int64_t gpu;
    if (!str_int64(s, &gpu) || gpu < 0)
        return csv_err(d->r, d->gpu, e, "expected the number of a GPU, got '%.*s'",
                       (int)(s.n < 40 ? s.n : 40), s.p);
    *yes = gpu == d->want;
    if (!*yes && d->others.n < 64) {
        char text[24];
        const int n = snprintf(text, sizeof text, "%lld", (long long)gpu);
        map_put(&d->others, text, (size_t)n, NULL);
    }
    return ST_OK;
}

static enum st no_index(const struct reading *d, int column, struct err *e, const char *what)
{
    csv_err(d->r, column, e, "%s: the powers of several GPUs cannot be told apart", what);
    return err_hint(e, "log index too: nvidia-smi --query-gpu=timestamp,index,power.draw.instant");
}

/* Rows of several GPUs among each other, without their numbers, would be taken for one that swings.
 */
static enum st check_one_gpu(struct reading *d, struct err *e)
{
    if (d->id < 0)
        return ST_OK;
    const struct sv id = sv_trim(csv_cell(d->r, d->id));
    if (!d->first_id)
        d->first_id = arena_strn(d->a, id.p, id.n);
    return sv_eq(id, d->first_id) ? ST_OK
                                  : no_index(d, d->id, e, "another GPU than in the rows above");
}

/* Whether nvidia-smi, asked without index, told two powers at a time: it takes ms to the next. */
static bool two_at_once(const struct reading *d, const struct power_sample *s)
{
    return d->shape->gpu && d->gpu < 0 && d->samples.n > 0 && s->ns == vec_last(&d->samples).ns &&
           s->power_w != vec_last(&d->samples).power_w;
}

static enum st read_row(struct reading *d, struct err *e)
{
    struct power_sample s = {.energy_j = NAN};
    bool yes;
    TRY(wanted(d, &yes, e));
    TRY(check_one_gpu(d, e));
    if (!yes)
        return ST_OK;
    TRY(read_time(d, &s.ns, e));
    TRY(number(d, d->power, MAX_POWER_W, &s.power_w, e));
    if (d->energy >= 0)
        TRY(number(d, d->energy, MAX_ENERGY_J, &s.energy_j, e));
    if (isnan(s.power_w)) {
        d->out->missing++;
        if (isnan(s.energy_j))
            return ST_OK;
    }
    if (d->samples.n > 0 && s.ns < vec_last(&d->samples).ns) {
        csv_err(d->r, d->time, e, "the time is %.3f s before that of the row above",
                (double)(vec_last(&d->samples).ns - s.ns) / 1e9);
        return err_hint(e, "the clock was set, daylight saving ended, or two logs were joined: cut "
                           "the file there");
    }
    if (two_at_once(d, &s))
        return no_index(d, d->power, e, "two powers at one time");
    vec_push(&d->samples, s);
    return ST_OK;
}

static enum st nothing(const struct reading *d, const char *source, struct err *e)
{
    struct buf others = {0};
    for (uint32_t i = 0; i < d->others.n; i++)
        buf_printf(&others, "%s%s", i ? ", " : "", d->others.entries[i].key);
    if (d->others.n) {
        err_set(e, ST_INPUT, "%s has no row of GPU %lld", source, (long long)d->want);
        err_hint(e, "it has rows of %s: gpu= picks one", buf_str(&others));
    } else {
        err_set(e, ST_INPUT, "%s has no row with a power%s", source,
                d->out->missing ? ": the sensor is not supported, or not permitted" : "");
    }
    buf_free(&others);
    return ST_INPUT;
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

/* Where a comma is the decimal mark, cells end with a semicolon. No cell of a log holds either for
 * another reason, so the text is brought into the common form, each byte at its place. */
static struct sv with_commas(struct arena *a, struct sv bytes)
{
    const char *end = memchr(bytes.p, '\n', bytes.n);
    const size_t header = end ? (size_t)(end - bytes.p) : bytes.n;
    if (!memchr(bytes.p, ';', header) || memchr(bytes.p, ',', header))
        return bytes;
    char *p = arena_copy(a, bytes.p, bytes.n);
    for (size_t i = 0; i < bytes.n; i++)
        p[i] = p[i] == ';' ? ',' : p[i] == ',' ? '.' : p[i];
    return (struct sv){p, bytes.n};
}

static bool is_utf16(struct sv s)
{
    return s.n >= 2 && (memcmp(s.p, "\xff\xfe", 2) == 0 || memcmp(s.p, "\xfe\xff", 2) == 0);
}

enum st power_log_parse(struct arena *a, const char *source, struct sv bytes, int64_t gpu,
                        struct power_log *out, struct err *e)
{
    struct reading d = {.a = a, .want = gpu, .out = out};
    size_t whole = bytes.n; /* up to the last line's end */
    *out = (struct power_log){.source = arena_str(a, source)};
    while (whole > 0 && bytes.p[whole - 1] != '\n')
        whole--;
    out->cut = whole > 0 && whole < bytes.n;
    bytes.n = out->cut ? whole : bytes.n;
    map_init(&d.others, a);
    if (is_utf16(bytes)) {
        err_set(e, ST_INPUT, "%s is UTF-16", source);
        return err_hint(
            e, "PowerShell's > writes that: nvidia-smi -f FILE, or Out-File -Encoding utf8");
    }
    if (bytes.n > 0)
        bytes = with_commas(a, bytes);
    TRY(csv_open_bytes(&d.r, source, bytes, e));
    enum st st = find_shape(&d, source, e);
    while (st == ST_OK && (st = csv_next(d.r, e)) == ST_OK)
        st = read_row(&d, e);
    if (st == ST_END && d.samples.n == 0)
        st = nothing(&d, source, e);
    if (st == ST_END) {
        power_log_ticks(d.samples.p, d.samples.n);
        d.samples.n = keep_telling(d.samples.p, d.samples.n);
        out->p = arena_copy(a, d.samples.p, d.samples.n * sizeof *d.samples.p);
        out->n = d.samples.n;
        out->what = d.shape->gpu ? arena_printf(a, "GPU %lld", (long long)gpu) : "the meter's sum";
        st = ST_OK;
    }
    vec_free(&d.samples);
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

static void write_log(FILE *f, const struct power_log *log, int64_t gpu, int64_t utc_offset_s,
                      const char *zone)
{
    struct csv_writer w = {.f = f};
    char at[STAMP_MAX], cell[STAMP_MAX + 2];
    bool counter = false;
    for (size_t i = 0; i < log->n && !counter; i++)
        counter = !isnan(log->p[i].energy_j);
    csv_put_str(&w, "timestamp");
    csv_put_str(&w, "gpu");
    csv_put_str(&w, "power_w");
    if (counter)
        csv_put_str(&w, "energy_j");
    csv_end_row(&w);
    for (size_t i = 0; i < log->n; i++) {
        stamp_text(log->p[i].ns, utc_offset_s, at);
        snprintf(cell, sizeof cell, "%s%s", at, zone);
        csv_put_str(&w, cell);
        csv_put_int(&w, gpu);
        csv_put_double(&w, log->p[i].power_w);
        if (counter)
            csv_put_double(&w, log->p[i].energy_j);
        csv_end_row(&w);
    }
}

void power_log_write(FILE *f, const struct power_log *log, int64_t gpu, int64_t utc_offset_s)
{
    write_log(f, log, gpu, log->zoned ? utc_offset_s : 0, "");
}

void power_log_write_zoned(FILE *f, const struct power_log *log, int64_t gpu)
{
    write_log(f, log, gpu, 0, "Z");
}
