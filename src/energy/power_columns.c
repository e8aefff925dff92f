#include "energy/power_columns.h"

#include <ctype.h>
#include <string.h>

#include "base/clock.h"
#include "energy/stamp.h"

/* ---- tables ---------------------------------------------------------------------------------- */

static const struct power_unit {
    const char *text; /* behind '_', in brackets or parentheses, in lower case */
    double watts;     /* 0 = none of power */
    int64_t ns;       /* 0 = none of time */
} units[] = {
    {"w", 1, 0},
    {"watt", 1, 0},
    {"watts", 1, 0},
    {"mw", 1e-3, 0},
    {"milliwatt", 1e-3, 0},
    {"milliwatts", 1e-3, 0},
    {"uw", 1e-6, 0},
    {"microwatts", 1e-6, 0},
    {"kw", 1e3, 0},
    {"kilowatts", 1e3, 0},
    {"s", 0, NS_PER_S},
    {"sec", 0, NS_PER_S},
    {"secs", 0, NS_PER_S},
    {"seconds", 0, NS_PER_S},
    {"ms", 0, NS_PER_MS},
    {"msec", 0, NS_PER_MS},
    {"millis", 0, NS_PER_MS},
    {"milliseconds", 0, NS_PER_MS},
    {"us", 0, 1000},
    {"usec", 0, 1000},
    {"micros", 0, 1000},
    {"microseconds", 0, 1000},
    {"ns", 0, 1},
    {"nsec", 0, 1},
    {"nanos", 0, 1},
    {"nanoseconds", 0, 1},
};
enum { UNITS = sizeof units / sizeof *units };

static const char *const times[] = {"timestamp", "time",      "datetime",  "date_time",
                                    "ts",        "epoch",     "unix_time", "unix_timestamp",
                                    "wall_time", "unix_epoch"};
enum { TIMES = sizeof times / sizeof *times };

/* The first of these that a file has. */
static const struct power_name {
    const char *name;
    bool averaged, meter;
} powers[] = {
    {"power_draw_instant", false, false},
    {"power_draw_average", true, false},
    {"power_draw", true, false},
    {"power", false, false},
    {"power_usage", false, false},
    {"pwr", true, false}, /* of nvidia-smi dmon: power.draw */
    {"gpu_power", false, false},
    {"gpu_power_draw", false, false},
    {"gpu_power_usage", false, false},
    {"dcgm_fi_dev_power_usage", false, false},
    {"dcgm_fi_dev_power_usage_instant", false, false},
    {"socket_power", false, false},
    {"current_socket_power", false, false},
    {"current_socket_graphics_package_power", false, false},
    {"average_socket_power", true, false},
    {"average_graphics_package_power", true, false},
    {"sum", false, true},
    {"total_power", false, true},
};
enum { POWERS = sizeof powers / sizeof *powers };

static const struct identity_name {
    const char *name;
    enum identity_kind kind;
} identities[] = {
    {"gpu", ID_NUMBER},
    {"index", ID_NUMBER},
    {"gpu_id", ID_LABEL},
    {"gpu_index", ID_LABEL},
    {"gpu_idx", ID_LABEL},
    {"gpuid", ID_LABEL},
    {"gpu_number", ID_LABEL},
    {"device", ID_LABEL},
    {"device_id", ID_LABEL},
    {"device_index", ID_LABEL},
    {"device_idx", ID_LABEL},
    {"card", ID_LABEL},
    {"idx", ID_LABEL},
    {"entity", ID_LABEL},
    {"cuda_device", ID_LABEL},
    {"minor_number", ID_LABEL},
    {"deviceid", ID_LABEL},
    {"gpu_num", ID_LABEL},
    {"gpu_no", ID_LABEL},
    {"ordinal", ID_LABEL},
    {"rank", ID_LABEL},
    {"local_rank", ID_LABEL},
    {"pci_address", ID_BUS},
    {"uuid", ID_BOARD},
    {"gpu_uuid", ID_BOARD},
    {"device_uuid", ID_BOARD},
    {"serial", ID_BOARD},
    {"gpu_serial", ID_BOARD},
    {"serial_number", ID_BOARD},
    {"pci_domain", ID_BUS},
    {"pci_bus", ID_BUS},
    {"pci_bus_id", ID_BUS},
    {"gpu_bus_id", ID_BUS},
    {"bus_id", ID_BUS},
    {"busid", ID_BUS},
    {"pci_busid", ID_BUS},
    {"bdf", ID_BUS},
    {"gpu_bdf", ID_BUS},
    {"host", ID_HOST},
    {"hostname", ID_HOST},
    {"node", ID_HOST},
    {"node_name", ID_HOST},
    {"nodename", ID_HOST},
    {"name", ID_NAME},
    {"gpu_name", ID_NAME},
    {"device_name", ID_NAME},
};
enum { IDENTITIES = sizeof identities / sizeof *identities };

/* ---- names ----------------------------------------------------------------------------------- */

struct header {
    char name[96];                  /* in the common form */
    char unit[24];                  /* "" = none, else as in brackets */
    const struct power_unit *known; /* NULL = none, or of no kind we know */
};

static const struct power_unit *find_unit(const char *text)
{
    for (int i = 0; i < UNITS; i++)
        if (strcmp(units[i].text, text) == 0)
            return &units[i];
    return NULL;
}

static void lower(struct sv s, char *out, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n && n + 1 < size; i++)
        out[n++] = (char)tolower((unsigned char)s.p[i]);
    out[n] = '\0';
}

/* "power.draw [W]": the name before the bracket, and what is in it. */
static struct sv take_bracket(struct sv s, struct header *h)
{
    const char close = s.n ? s.p[s.n - 1] : 0;
    const char open = close == ']' ? '[' : close == ')' ? '(' : 0;
    size_t at = s.n;
    while (open && at > 0 && s.p[at - 1] != open)
        at--;
    if (!open || at == 0)
        return s;
    lower(sv_trim((struct sv){s.p + at, s.n - 1 - at}), h->unit, sizeof h->unit);
    return sv_trim((struct sv){s.p, at - 1});
}

static void common_form(struct sv s, char *out, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n && n + 1 < size; i++) {
        const unsigned char c = (unsigned char)s.p[i];
        if (c >= 0x80 || isalnum(c))
            out[n++] = (char)tolower(c);
        else if (n > 0 && out[n - 1] != '_')
            out[n++] = '_';
    }
    while (n > 0 && out[n - 1] == '_')
        n--;
    out[n] = '\0';
}

/* "power_draw_mw": the unit behind the last '_'. */
static void take_suffix(struct header *h)
{
    char *last = strrchr(h->name, '_');
    if (!last || h->unit[0] || !find_unit(last + 1))
        return;
    snprintf(h->unit, sizeof h->unit, "%.20s", last + 1);
    *last = '\0';
}

static struct header header_of(struct sv name)
{
    struct header h = {0};
    name = sv_trim(name);
    if (name.n && name.p[0] == '#')
        name = sv_trim((struct sv){name.p + 1, name.n - 1});
    common_form(take_bracket(name, &h), h.name, sizeof h.name);
    take_suffix(&h);
    h.known = h.unit[0] ? find_unit(h.unit) : NULL;
    return h;
}

static const struct power_name *find_power(const char *name)
{
    for (int i = 0; i < POWERS; i++)
        if (strcmp(powers[i].name, name) == 0)
            return &powers[i];
    return NULL;
}

/* "gpu0_power", "power_gpu_0": the power of one GPU by its number. */
static const struct power_name *find_wide(const char *name, int *gpu)
{
    char rest[96];
    const char *at = strstr(name, "gpu");
    const char *digits = at ? at + 3 + (at[3] == '_') : NULL;
    int64_t number = 0;
    size_t n = digits ? strspn(digits, "0123456789") : 0;
    if (n == 0 || !str_int64((struct sv){digits, n}, &number) || number >= MAX_WIDE)
        return NULL;
    snprintf(rest, sizeof rest, "%.*s%s", (int)(at - name), name, digits + n);
    char clean[96];
    common_form(sv_of(rest), clean, sizeof clean);
    *gpu = (int)number;
    return find_power(clean);
}

bool power_columns_is_power(struct sv name)
{
    const struct header h = header_of(name);
    int gpu;
    return find_power(h.name) || find_wide(h.name, &gpu);
}

double power_unit_watts(struct sv unit)
{
    char text[16];
    lower(unit, text, sizeof text);
    const struct power_unit *u = find_unit(text);
    return u ? u->watts : 0;
}

/* ---- columns --------------------------------------------------------------------------------- */

static enum st unit_refused(const struct csv_reader *r, int column, const char *source,
                            struct err *e)
{
    err_at(e, ST_INPUT, source, 1, column + 1, "'%.60s' is in no unit of power",
           csv_column_name(r, column));
    return err_hint(e, "known are W, mW, uW and kW, in brackets or behind '_'");
}

static enum st add_power(const struct csv_reader *r, int column, int gpu, const char *source,
                         struct power_columns *out, struct err *e)
{
    const struct header h = header_of(sv_of(csv_column_name(r, column)));
    const double watts = h.known ? h.known->watts : h.unit[0] ? 0 : 1;
    if (watts <= 0)
        return unit_refused(r, column, source, e);
    int at = 0;
    while (at < out->n_power && (gpu < 0 || out->power[at].gpu != gpu))
        at++;
    if (at < MAX_WIDE)
        out->power[at] = (struct power_column){column, watts, gpu};
    out->n_power += at == out->n_power && at < MAX_WIDE;
    return ST_OK;
}

/* Columns of GPUs by number, for each the first of `powers` that it has; else the first of these.
 */
static enum st find_powers(const struct csv_reader *r, const char *source,
                           struct power_columns *out, struct err *e)
{
    const struct power_name *best = NULL, *of[MAX_WIDE] = {NULL};
    int column = -1, gpu;
    for (int i = 0; i < csv_columns(r); i++) {
        const struct header h = header_of(sv_of(csv_column_name(r, i)));
        const struct power_name *p = find_power(h.name), *wide = p ? NULL : find_wide(h.name, &gpu);
        if (wide && (!of[gpu] || wide < of[gpu])) {
            TRY(add_power(r, i, gpu, source, out, e));
            of[gpu] = wide;
        } else if (p && (!best || p < best)) {
            best = p;
            column = i;
        }
    }
    for (int i = 0; i < MAX_WIDE; i++)
        out->averaged |= of[i] && of[i]->averaged;
    if (out->n_power > 0 || !best)
        return ST_OK;
    out->averaged = best->averaged;
    out->meter = best->meter;
    return add_power(r, column, -1, source, out, e);
}

static void find_times(const struct csv_reader *r, struct power_columns *out)
{
    int best = TIMES;
    out->time = out->date = -1;
    for (int i = 0; i < csv_columns(r); i++) {
        const struct header h = header_of(sv_of(csv_column_name(r, i)));
        if (strcmp(h.name, "date") == 0)
            out->date = i;
        for (int k = 0; k < best; k++)
            if (strcmp(h.name, times[k]) == 0) {
                best = k;
                out->time = i;
                out->time_unit_ns = h.known ? h.known->ns : 0;
            }
    }
    if (out->time < 0) { /* "date" alone holds both */
        out->time = out->date;
        out->date = -1;
    } else if (out->date >= 0 && strcmp(times[best], "time") != 0) {
        out->date = -1;
    }
}

static void find_identities(struct arena *a, const struct csv_reader *r, struct power_columns *out)
{
    for (int k = 0; k < IDENTITIES; k++)
        for (int i = 0; i < csv_columns(r) && out->n_id < MAX_IDENTITIES; i++) {
            const struct header h = header_of(sv_of(csv_column_name(r, i)));
            const struct sv name = sv_trim(sv_of(csv_column_name(r, i)));
            if (strcmp(h.name, identities[k].name) == 0)
                out->id[out->n_id++] =
                    (struct identity_column){i, identities[k].kind, arena_strn(a, name.p, name.n)};
        }
    out->only_hosts = out->n_id > 0;
    for (int i = 0; i < out->n_id; i++)
        out->only_hosts &= out->id[i].kind == ID_HOST;
}

static bool has_column(const struct csv_reader *r, const char *name)
{
    for (int i = 0; i < csv_columns(r); i++)
        if (strcmp(header_of(sv_of(csv_column_name(r, i))).name, name) == 0)
            return true;
    return false;
}

static enum st not_a_log(const struct csv_reader *r, const char *source, struct err *e)
{
    struct stamp at;
    for (int i = 0; i < csv_columns(r); i++)
        if (stamp_parse(sv_of(csv_column_name(r, i)), &at)) {
            err_at(e, ST_INPUT, source, 1, 0, "the first line is a reading, not a header");
            return err_hint(e, "log without noheader, or put the names of the columns above it: "
                               "timestamp, index, power.draw [W]");
        }
    err_at(e, ST_INPUT, source, 1, 0, "this header is of no power log");
    return err_hint(e, "known are timestamp,gpu,power_w; time,sum; and what nvidia-smi "
                       "--query-gpu=timestamp,index,power.draw --format=csv writes");
}

enum st power_columns_find(struct arena *a, const struct csv_reader *r, const char *source,
                           struct power_columns *out, struct err *e)
{
    *out = (struct power_columns){.time = -1};
    TRY(find_powers(r, source, out, e));
    find_times(r, out);
    if (out->n_power == 0)
        return not_a_log(r, source, e);
    if (has_column(r, "emissions")) {
        err_at(e, ST_INPUT, source, 1, 0, "codecarbon's emissions are no power over time");
        return err_hint(e, "its gpu_power is the mean of a whole run over all GPUs: log power "
                           "with twinfer energy log, or nvidia-smi --query-gpu");
    }
    if (out->time < 0) {
        err_at(e, ST_INPUT, source, 1, 0, "the log has powers, and no column of times");
        return err_hint(e, "nvidia-smi dmon -o DT writes them; else put a column timestamp in "
                           "front, as 2026-11-21 16:30:05.123");
    }
    if (!out->meter)
        find_identities(a, r, out);
    out->energy = csv_find(r, "energy_j");
    return ST_OK;
}
