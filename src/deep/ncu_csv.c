#include "deep/ncu_csv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "deep/ncu_text.h"
#include "deep/tool.h"

/* Valid UTF-8 without control characters. */
static const char *text_of(struct arena *a, struct sv s)
{
    char *out = arena_strn(a, s.p, s.n);
    for (size_t i = 0; i < s.n;) {
        i += str_utf8_valid(out + i, s.n - i);
        if (i < s.n)
            out[i++] = '?';
    }
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)out[i] < 0x20 || out[i] == 0x7f)
            out[i] = '?';
    return out;
}

static bool has_part(struct sv s, const char *part)
{
    size_t n = strlen(part);
    for (size_t i = 0; i + n <= s.n; i++)
        if (s.p[i] == part[0] && memcmp(s.p + i, part, n) == 0)
            return true;
    return false;
}

/* ---- columns ---- */

enum ncu_column {
    ID,
    PID,
    PROCESS,
    HOST,
    KERNEL,
    TIME,
    CONTEXT,
    STREAM,
    BLOCK,
    GRID,
    DEVICE,
    CC,
    SECTION,
    INVOCATIONS,
    METRIC,
    UNIT,
    VALUE,
    COLUMNS
};
/* By name; of several names the first that is there counts. */
static const struct {
    enum ncu_column id;
    const char *name;
} column_names[] = {
    {ID, "ID"},
    {PID, "Process ID"},
    {PROCESS, "Process Name"},
    {HOST, "Host Name"},
    {KERNEL, "Kernel Name"},
    {KERNEL, "Demangled Name"},
    {KERNEL, "Function Name"},
    {TIME, "Kernel Time"},
    {CONTEXT, "Context"},
    {STREAM, "Stream"},
    {BLOCK, "Block Size"},
    {GRID, "Grid Size"},
    {DEVICE, "Device"},
    {CC, "CC"},
    {SECTION, "Section Name"},
    {INVOCATIONS, "Invocations"},
    {METRIC, "Metric Name"},
    {UNIT, "Metric Unit"},
    {VALUE, "Metric Value"},
    {VALUE, "Average"},
};
enum { COLUMN_NAMES = sizeof column_names / sizeof *column_names };

static int find(const struct ncu_cells *names, const char *name)
{
    for (size_t i = 0; i < names->v.n; i++)
        if (sv_eq(sv_trim(names->v.p[i]), name))
            return (int)i;
    return -1;
}

static bool is_header(const struct ncu_cells *c)
{
    bool kernel = false, number = false;
    for (int i = 0; i < COLUMN_NAMES && c->v.n > 2; i++) {
        enum ncu_column id = column_names[i].id;
        bool there = (id == KERNEL || id == ID || id == METRIC || id == INVOCATIONS) &&
                     find(c, column_names[i].name) >= 0;
        kernel |= there && id == KERNEL;
        number |= there && id != KERNEL;
    }
    return kernel && number;
}

/* ---- a table ---- */

struct metric_entry { /* of the launches of one table, in the order of the file */
    uint32_t launch, metric;
    double v;
};

struct ncu_reader {
    struct ncu_table *t;
    struct arena *scratch;
    struct map texts;    /* kernel names and ranges repeat: each is kept once */
    struct map launches; /* of the table: key -> launch */
    struct ncu_locale locale;
    int64_t votes; /* for a decimal point */
    bool voting;   /* the first of two readings: only separators are looked at */
    struct ncu_cells names, units, row;
    char separator;
    int at[COLUMNS]; /* -1 = none */
    int ranges[2];
    bool *is_metric; /* [names] */
    bool found, wide, wants_units;
    size_t first_launch, damaged;
    size_t nameless; /* rows of no launch: without a number or a kernel */
    long nameless_at;
    const char *ambiguous; /* the first number that could be read both ways; NULL = none */
    VEC(struct metric_entry) entries;
};

static const char *intern(struct ncu_reader *r, struct sv s)
{
    bool is_new;
    struct map_entry *entry = map_put(&r->texts, s.p, s.n, &is_new);
    if (is_new)
        entry->cp = text_of(r->t->a, s);
    return entry->cp;
}

static struct sv get(const struct ncu_reader *r, enum ncu_column c)
{
    return ncu_cell(&r->row, r->at[c]);
}

static int by_metric(const void *x, const void *y)
{
    const struct ncu_value *a = x, *b = y;
    if (a->metric != b->metric)
        return a->metric < b->metric ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

/* Values to their launches, sorted for look-ups. */
static void end_table(struct ncu_reader *r)
{
    size_t first = r->first_launch, n = r->t->launches.n - first;
    if (n == 0)
        return; /* nor is there an entry */
    struct ncu_launch *l = r->t->launches.p + first;
    for (size_t i = 0; i < r->entries.n; i++)
        l[r->entries.p[i].launch - first].n_values++;
    for (size_t i = 0; i < n; i++) {
        l[i].values = arena_array(r->t->a, struct ncu_value, l[i].n_values + 1);
        l[i].n_values = 0;
    }
    for (size_t i = 0; i < r->entries.n; i++) {
        const struct metric_entry *from = &r->entries.p[i];
        struct ncu_launch *to = &l[from->launch - first];
        uint32_t order = (uint32_t)to->n_values++;
        to->values[order] = (struct ncu_value){from->metric, order, from->v};
    }
    for (size_t i = 0; i < n; i++) {
        bool sorted = true;
        for (size_t k = 1; k < l[i].n_values; k++)
            sorted &= by_metric(&l[i].values[k - 1], &l[i].values[k]) < 0;
        if (!sorted)
            qsort(l[i].values, l[i].n_values, sizeof *l[i].values, by_metric);
    }
    vec_clear(&r->entries);
    r->first_launch = r->t->launches.n;
}

static void begin_table(struct ncu_reader *r, char separator)
{
    end_table(r);
    const struct ncu_cells *names = &r->names;
    for (int i = 0; i < COLUMNS; i++)
        r->at[i] = -1;
    for (int i = 0; i < COLUMN_NAMES; i++)
        if (r->at[column_names[i].id] < 0)
            r->at[column_names[i].id] = find(names, column_names[i].name);
    r->found = true;
    r->separator = separator;
    r->wide = r->at[METRIC] < 0 || r->at[VALUE] < 0;
    r->wants_units = r->wide;
    r->ranges[0] = r->ranges[1] = -1;
    r->is_metric = arena_array(r->scratch, bool, names->v.n + 1);
    for (size_t i = 0; i < names->v.n; i++) {
        struct sv name = sv_trim(names->v.p[i]);
        int side = has_part(name, "Push/Pop_Range")     ? 0
                   : has_part(name, "Start/Stop_Range") ? 1
                                                        : -1;
        if (side >= 0)
            r->ranges[side] = (int)i;
        r->is_metric[i] = name.n && side < 0;
        for (int k = 0; k < COLUMN_NAMES; k++)
            r->is_metric[i] &= !sv_eq(name, column_names[k].name);
    }
    vec_clear(&r->units.v);
    map_init(&r->launches, r->scratch);
}

/* ---- launches ---- */

static int64_t integer(const struct ncu_reader *r, struct sv s)
{
    double v;
    return ncu_number(s, r->locale, &v) && fabs(v) < 9e15 ? (int64_t)v : 0;
}

/* "(128, 1, 1)", of older versions "128x1x1" and "128" */
static void dimensions(struct sv s, int64_t out[3])
{
    int n = 0;
    for (size_t i = 0; i < s.n && n < 3;) {
        int64_t v = 0;
        size_t from = i;
        for (; i < s.n && s.p[i] >= '0' && s.p[i] <= '9'; i++)
            v = v < INT64_MAX / 100 ? v * 10 + (s.p[i] - '0') : v;
        if (i > from)
            out[n++] = v;
        else
            i++;
    }
}

static uint32_t new_launch(struct ncu_reader *r)
{
    struct ncu_launch l = {.file = r->t->n_files, .count = 1};
    double cc;
    l.id = integer(r, get(r, ID));
    l.pid = integer(r, get(r, PID));
    l.device = integer(r, get(r, DEVICE));
    l.kernel = intern(r, sv_trim(get(r, KERNEL)));
    l.process_name = intern(r, get(r, PROCESS));
    l.host = intern(r, get(r, HOST));
    dimensions(get(r, GRID), l.grid);
    dimensions(get(r, BLOCK), l.block);
    struct sv point = get(r, CC);
    char text[16];
    if (point.n && point.n < sizeof text) { /* "9,0" where that is the decimal sign */
        memcpy(text, point.p, point.n);
        for (size_t i = 0; i < point.n; i++)
            text[i] = text[i] == ',' ? '.' : text[i];
        if (str_double((struct sv){text, point.n}, &cc) && cc > 0 && cc < 1000)
            l.cc = cc;
    }
    if (r->at[INVOCATIONS] >= 0)
        l.count = integer(r, get(r, INVOCATIONS));
    l.count = l.count > 0 ? l.count : 1;
    struct sv a = ncu_cell(&r->row, r->ranges[0]), b = ncu_cell(&r->row, r->ranges[1]);
    l.ranges = intern(r, a.n ? a : b);
    if (a.n && b.n)
        l.ranges =
            intern(r, sv_of(arena_printf(r->scratch, "%.*s %.*s", (int)a.n, a.p, (int)b.n, b.p)));
    vec_push(&r->t->launches, l);
    return (uint32_t)(r->t->launches.n - 1);
}

/* Rows of a launch need not follow each other: tables are sorted by hand, and processes write side
 * by side. */
static uint32_t launch_of_row(struct ncu_reader *r)
{
    static const enum ncu_column same[] = {ID,      PID,    HOST,  KERNEL, DEVICE,
                                           CONTEXT, STREAM, BLOCK, GRID};
    struct buf key = {0};
    bool is_new;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        struct sv s = get(r, same[i]);
        buf_add(&key, s.p, s.n);
        buf_putc(&key, '\1');
    }
    struct map_entry *entry = map_put(&r->launches, key.p, key.n, &is_new);
    buf_free(&key);
    if (is_new)
        entry->i = new_launch(r);
    return (uint32_t)entry->i;
}

static void put_value(struct ncu_reader *r, uint32_t launch, struct sv name, struct sv unit,
                      struct sv text)
{
    double v;
    bool is_new;
    text = sv_trim(text);
    for (size_t i = 1; i + 1 < text.n; i++) /* "10 (1; 2; 3; 4)": values of its instances */
        if (text.p[i] == '(' && text.p[i - 1] == ' ')
            text.n = i;
    struct sv metric_name = ncu_metric_of(name, &unit);
    if (!metric_name.n || !text.n)
        return;
    if (r->voting) {
        const int hint = ncu_locale_hint(text, ncu_is_count(metric_name, unit));
        r->votes += hint;
        if (hint == 0 && !r->ambiguous && (memchr(text.p, ',', text.n) || has_part(text, ".")) &&
            ncu_number(text, (struct ncu_locale){'.'}, &v))
            r->ambiguous = text_of(r->t->a, text);
        return;
    }
    if (!ncu_number(text, r->locale, &v))
        return;
    v *= ncu_unit_factor(unit);
    if (!isfinite(v))
        return;
    struct map_entry *metric = map_put(&r->t->metrics, metric_name.p, metric_name.n, &is_new);
    if (is_new)
        metric->i = (int64_t)r->t->metrics.n - 1;
    vec_push(&r->entries, (struct metric_entry){launch, (uint32_t)metric->i, v});
}

static void take_wide(struct ncu_reader *r)
{
    uint32_t launch = r->voting ? 0 : new_launch(r);
    for (size_t i = 0; i < r->names.v.n && i < r->row.v.n; i++) {
        struct sv name = r->names.v.p[i], text = r->row.v.p[i];
        if (!r->is_metric[i])
            continue;
        put_value(r, launch, name, ncu_cell(&r->units, (int)i), text);
        if (!r->voting && text.n && sv_eq(name, "device__attribute_display_name"))
            r->t->launches.p[launch].device_name = intern(r, text);
    }
}

static void take_long(struct ncu_reader *r)
{
    uint32_t launch = r->voting ? 0 : launch_of_row(r);
    struct sv name = get(r, METRIC), text = get(r, VALUE);
    put_value(r, launch, name, get(r, UNIT), text);
    if (!r->voting && text.n && sv_eq(name, "device__attribute_display_name"))
        r->t->launches.p[launch].device_name = intern(r, text);
}

/* ---- a file ---- */

/* Tables were kept by programs that use other separators. */
static bool try_header(struct ncu_reader *r, struct sv line)
{
    static const char separators[] = ",;\t";
    if (!has_part(line, "Kernel Name") && !has_part(line, "Function Name") &&
        !has_part(line, "Demangled Name"))
        return false;
    for (const char *s = separators; *s; s++)
        if (ncu_split(&r->row, line, *s) == NCU_ROW && is_header(&r->row)) {
            ncu_swap(&r->row, &r->names);
            begin_table(r, *s);
            return true;
        }
    return false;
}

/* A row of the table that is being read: enough cells, a kernel, and a number or nothing where the
 * launch's number belongs. */
static bool is_row(const struct ncu_reader *r)
{
    double v;
    if (r->row.v.n <= (size_t)r->at[KERNEL] || !sv_trim(get(r, KERNEL)).n)
        return false;
    const struct ncu_locale any = {'.'};
    return r->at[ID] < 0 || ncu_number(get(r, ID), any, &v);
}

static bool is_units(const struct ncu_reader *r)
{
    size_t said = 0;
    if (!r->wants_units || r->row.v.n < r->names.v.n || sv_trim(get(r, KERNEL)).n ||
        sv_trim(get(r, ID)).n)
        return false;
    for (size_t i = 0; i < r->row.v.n; i++)
        said += r->row.v.p[i].n > 0;
    return said > 0;
}

/* A row of values that names no launch: of a spreadsheet with merged cells. */
static bool is_nameless(const struct ncu_reader *r)
{
    double v;
    const struct ncu_locale any = {'.'};
    if (r->row.v.n != r->names.v.n || (sv_trim(get(r, KERNEL)).n && sv_trim(get(r, ID)).n))
        return false;
    if (!r->wide)
        return sv_trim(get(r, METRIC)).n && sv_trim(get(r, VALUE)).n;
    for (size_t i = 0; i < r->names.v.n; i++)
        if (r->is_metric[i] && ncu_number(r->row.v.p[i], any, &v))
            return true;
    return false;
}

static void take(struct ncu_reader *r, long line)
{
    if (is_units(r)) {
        ncu_swap(&r->row, &r->units);
        r->wants_units = false;
    } else if (is_row(r) && r->wide) {
        take_wide(r);
    } else if (is_row(r)) {
        take_long(r);
    } else if (is_nameless(r) && r->nameless++ == 0) {
        r->nameless_at = line;
    }
}

static void note(struct ncu_reader *r, const char *source, long line, const char *what)
{
    if (!r->voting)
        vec_push(&r->t->notes, arena_printf(r->t->a, "%s:%ld: %s",
                                            text_of(r->t->a, sv_of(fs_base(source))), line, what));
}

static bool begins_row(struct sv line)
{
    return line.n && (line.p[0] == '"' || (line.p[0] >= '0' && line.p[0] <= '9'));
}

static enum st read_rows(struct ncu_reader *r, const char *source, struct sv text, struct err *e)
{
    struct ncu_lines l = ncu_lines_of(text);
    struct sv line;
    r->found = false;
    while (ncu_line(&l, &line)) {
        if (!line.n || (line.n > 2 && line.p[0] == '=' && line.p[1] == '=') || try_header(r, line))
            continue;
        if (!r->found)
            continue; /* the tool's and the program's own output */
        switch (ncu_split(&r->row, line, r->separator)) {
        case NCU_WIDE:
            return err_at(e, ST_INPUT, source, l.at, 0, "more than %d columns", NCU_MAX_COLUMNS);
        case NCU_ROW: {
            bool last = l.p >= l.end && l.end[-1] != '\n';
            if (last && begins_row(line) && r->row.v.n < r->names.v.n && is_row(r) &&
                r->row.v.n <= (size_t)(r->wide ? r->names.v.n : (size_t)r->at[VALUE] + 1))
                note(r, source, l.at, "the file ends inside this row, which is left out");
            else
                take(r, l.at);
            break;
        }
        case NCU_OPEN:
            if (ncu_split_on(&r->row, &l, line, r->separator))
                take(r, l.at);
            else if (begins_row(line) && l.p >= l.end)
                note(r, source, l.at, "the file ends inside this row, which is left out");
            else if (begins_row(line) && r->damaged++ == 0)
                note(r, source, l.at, "a quote does not end in this row, which is left out");
            break;
        }
    }
    end_table(r);
    return ST_OK;
}

static void note_rest(struct ncu_reader *r, const char *source)
{
    struct arena *a = r->t->a;
    if (r->nameless)
        note(r, source, r->nameless_at,
             arena_printf(a,
                          "%zu row%s without an ID or a kernel, this first, %s left out: "
                          "whose values they are is not said",
                          r->nameless, r->nameless > 1 ? "s" : "",
                          r->nameless > 1 ? "were" : "was"));
    if (r->ambiguous && r->votes == 0)
        vec_push(&r->t->notes,
                 arena_printf(a,
                              "%s: no number tells which sign is the decimal one (as '%.40s'); "
                              "the point was taken for it: LC_ALL=C ncu writes it so",
                              text_of(a, sv_of(fs_base(source))), r->ambiguous));
}

/* The tool's first error, else its first warning or other line, for a file without a table. */
static const char *tool_said(struct arena *a, struct sv text)
{
    struct ncu_lines l = ncu_lines_of(text);
    struct sv row, first = {NULL, 0};
    bool warned = false;
    while (ncu_line(&l, &row)) {
        const bool warning = row.n > 11 && memcmp(row.p, "==WARNING==", 11) == 0;
        if (row.n > 2 && memcmp(row.p, "==", 2) == 0 && (!first.p || (warning && !warned)))
            first = row;
        warned |= warning;
        if (row.n > 9 && memcmp(row.p, "==ERROR==", 9) == 0) {
            first = row;
            break;
        }
    }
    return first.p ? text_of(a, (struct sv){first.p, first.n < 300 ? first.n : 300}) : NULL;
}

enum st ncu_csv_parse(struct ncu_table *t, const char *source, struct sv text, struct err *e)
{
    struct ncu_reader r = {.t = t,
                           .scratch = arena_new(),
                           .locale = {'.'},
                           .voting = true,
                           .first_launch = t->launches.n};
    text = ncu_utf8(r.scratch, text);
    r.names.a = r.units.a = r.row.a = r.scratch;
    map_init(&r.texts, r.scratch);
    enum st st = read_rows(&r, source, text, e);
    if (st == ST_OK && r.found) {
        r.voting = false;
        r.locale.decimal = r.votes < 0 ? ',' : '.';
        r.damaged = r.nameless = 0;
        st = read_rows(&r, source, text, e);
        note_rest(&r, source);
    } else if (st == ST_OK) {
        const char *said = tool_said(t->a, text);
        st = err_at(e, ST_INPUT, source, 0, 0, "there is no table of Nsight Compute in it%s%s",
                    said ? "; it says: " : "", said ? said : "");
        const char *remedy = said ? tool_explain(said).remedy : NULL;
        err_hint(e, "%s",
                 remedy ? remedy
                        : "ncu --csv --page raw --log-file FILE makes one; ncu --import REPORT "
                          "--csv --page raw too");
    }
    vec_free(&r.names.v);
    vec_free(&r.units.v);
    vec_free(&r.row.v);
    vec_free(&r.entries);
    arena_free(&r.scratch);
    t->n_files++;
    return st;
}

enum st ncu_csv_read(struct ncu_table *t, const char *path, struct err *e)
{
    struct fs_map file;
    TRY(fs_map(path, &file, e));
    enum st st;
    if (file.n > NCU_CSV_MAX_BYTES)
        st = err_at(e, ST_INPUT, path, 0, 0, "is larger than %d MiB", NCU_CSV_MAX_BYTES >> 20);
    else
        st = ncu_csv_parse(t, path, (struct sv){file.p ? file.p : "", file.n}, e);
    fs_unmap(&file);
    return st;
}
