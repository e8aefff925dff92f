#include "energy/power_text.h"

#include <ctype.h>
#include <string.h>

#include "energy/power_columns.h"
#include "energy/stamp.h"

enum { MAX_CELLS = 256 };

/* ---- lines ----------------------------------------------------------------------------------- */

/* The next line without its end; *rest goes behind it. */
static bool next_line(struct sv *rest, struct sv *line)
{
    if (rest->n == 0)
        return false;
    const char *end = memchr(rest->p, '\n', rest->n);
    *line = (struct sv){rest->p, end ? (size_t)(end - rest->p) : rest->n};
    const size_t whole = line->n + (end != NULL);
    *rest = (struct sv){rest->p + whole, rest->n - whole};
    return true;
}

static bool starts(struct sv s, const char *with)
{
    const size_t n = strlen(with);
    return s.n >= n && memcmp(s.p, with, n) == 0;
}

static struct sv without_mark(struct sv s)
{
    return starts(s, "\xef\xbb\xbf") ? (struct sv){s.p + 3, s.n - 3} : s;
}

/* The same but for blanks. */
static bool same_line(struct sv a, struct sv b)
{
    size_t i = 0, k = 0;
    for (;;) {
        while (i < a.n && isspace((unsigned char)a.p[i]))
            i++;
        while (k < b.n && isspace((unsigned char)b.p[k]))
            k++;
        if (i == a.n || k == b.n)
            return i == a.n && k == b.n;
        if (a.p[i++] != b.p[k++])
            return false;
    }
}

/* nvidia-smi says so on stdout, between two rows of a loop. */
static bool is_message(struct sv line)
{
    static const char *const starts_with[] = {
        "NVIDIA-SMI has failed", "Unable to determine the device handle",
        "Failed to initialize NVML", "No devices were found", "WARNING: infoROM"};
    for (size_t i = 0; i < sizeof starts_with / sizeof *starts_with; i++)
        if (starts(line, starts_with[i]))
            return true;
    return false;
}

/* ---- cells ----------------------------------------------------------------------------------- */

/* Cells of a line without quotes; ' ' = parted by any number of blanks. */
static size_t split(struct sv line, char mark, struct sv cells[MAX_CELLS])
{
    size_t n = 0;
    if (!line.p)
        return 0;
    const char *p = line.p, *end = line.p + line.n;
    while (n < MAX_CELLS) {
        while (mark == ' ' && p < end && isspace((unsigned char)*p))
            p++;
        if (mark == ' ' && p == end)
            break;
        const char *from = p;
        while (p < end && (mark == ' ' ? !isspace((unsigned char)*p) : *p != mark))
            p++;
        cells[n++] = sv_trim((struct sv){from, (size_t)(p - from)});
        if (p++ >= end)
            break;
    }
    return n;
}

/* Blanks part the cells of a table that has no other mark. */
static char mark_of(struct sv header, char other)
{
    static const char marks[] = {',', ';', '\t'};
    for (size_t i = 0; i < sizeof marks; i++)
        if (memchr(header.p, marks[i], header.n))
            return marks[i];
    return other;
}

static bool names_power(struct sv line)
{
    struct sv cells[MAX_CELLS];
    const size_t n = split(line, mark_of(line, ' '), cells);
    for (size_t i = 0; i < n; i++)
        if (power_columns_is_power(cells[i]))
            return true;
    return false;
}

/* ---- tables with '#' ------------------------------------------------------------------------- */

struct power_text_table {
    struct sv header, units; /* without '#'; n = 0: none yet */
    char mark;
    bool ours; /* a '#' line is the header */
};

static struct sv without_hash(struct sv line)
{
    line = sv_trim(line);
    return line.n && *line.p == '#' ? (struct sv){line.p + 1, line.n - 1} : line;
}

/* The first '#' line that names a power, and the '#' line behind it. */
static struct power_text_table find_table(struct sv bytes)
{
    struct power_text_table t = {0};
    struct sv rest = bytes, line;
    while (next_line(&rest, &line) && (sv_trim(line).n == 0 || *sv_trim(line).p == '#'))
        if (t.ours && t.units.n == 0 && sv_trim(line).n) {
            t.units = without_hash(line);
            break;
        } else if (!t.ours && names_power(without_hash(line))) {
            t.header = without_hash(line);
            t.mark = mark_of(t.header, ' ');
            t.ours = true;
        }
    return t;
}

static void put_header(struct buf *out, const struct power_text_table *t)
{
    struct sv names[MAX_CELLS], units[MAX_CELLS];
    const size_t n = split(t->header, t->mark, names), m = split(t->units, t->mark, units);
    for (size_t i = 0; i < n; i++) {
        buf_printf(out, "%s%.*s", i ? "," : "", (int)names[i].n, names[i].p);
        if (n == m && power_unit_watts(units[i]) > 0)
            buf_printf(out, " [%.*s]", (int)units[i].n, units[i].p);
    }
}

static struct sv from_table(struct arena *a, const struct power_text_table *t, struct sv bytes,
                            struct power_text *out)
{
    struct buf text = {0};
    struct sv rest = bytes, line, cells[MAX_CELLS];
    bool begun = false;
    for (long at = 1; next_line(&rest, &line); at++) {
        const struct sv shown = sv_trim(line);
        if (shown.n && *shown.p == '#') {
            const bool header = same_line(without_hash(line), t->header);
            if (header && !begun)
                put_header(&text, t);
            else if (!header && begun && names_power(without_hash(line)))
                out->other_header = out->other_header ? out->other_header : at;
            out->headers += header && begun;
            begun |= header;
        } else if (is_message(shown)) {
            out->messages++;
        } else {
            const size_t n = split(shown, t->mark, cells);
            for (size_t i = 0; shown.n && i < n; i++)
                buf_printf(&text, "%s%.*s", i ? "," : "", (int)cells[i].n, cells[i].p);
        }
        buf_putc(&text, '\n');
    }
    const struct sv made = {arena_copy(a, text.p ? text.p : "", text.n), text.n};
    buf_free(&text);
    return made;
}

/* ---- CSV ------------------------------------------------------------------------------------- */

/* The cell of a row that goes on behind the comma: "15:51:25" and "606456789+00:00"; -1 = none.
 * Such a fraction has 3, 6 or 9 digits: others could be an index. */
static int split_stamp(struct sv line, size_t columns)
{
    struct sv cells[MAX_CELLS];
    struct stamp at;
    const size_t n = split(line, ',', cells);
    if (n != columns + 1 || memchr(line.p, '"', line.n))
        return -1;
    for (size_t i = 0; i + 1 < n; i++) {
        const struct sv next = cells[i + 1];
        size_t digits = 0;
        while (digits < next.n && isdigit((unsigned char)next.p[digits]))
            digits++;
        const struct sv whole = {cells[i].p, (size_t)(next.p + next.n - cells[i].p)};
        if (digits > 0 && digits <= 9 && digits % 3 == 0 && stamp_parse(cells[i], &at) &&
            !at.zoned && at.digits == 0 && stamp_parse(whole, &at) && at.digits > 0)
            return (int)i;
    }
    return -1;
}

/* The row with commas between cells, and none in them. */
static void put_row(struct buf *out, struct sv line, char mark, size_t columns)
{
    const int joined = mark == ',' ? split_stamp(line, columns) : -1;
    const size_t from = out->n;
    int cell = 0;
    buf_add(out, line.p, line.n);
    for (size_t i = from; i < out->n; i++) {
        const char c = out->p[i];
        if (c == mark)
            out->p[i] = cell++ == joined ? '.' : ',';
        else if (c == ',')
            out->p[i] = '.'; /* a decimal comma */
    }
}

static struct sv from_csv(struct arena *a, struct sv bytes, struct power_text *out)
{
    struct buf text = {0};
    struct sv rest = bytes, line, header = {0}, cells[MAX_CELLS];
    size_t columns = 0;
    char mark = ',';
    for (long at = 1; next_line(&rest, &line); at++) {
        const struct sv shown = sv_trim(without_mark(line));
        const bool said = header.n && same_line(shown, header);
        out->headers += said;
        out->messages += is_message(shown);
        if (shown.n && *shown.p != '#' && !said && !is_message(shown) && !starts(shown, "sep=")) {
            if (header.n == 0) {
                header = shown;
                mark = mark_of(header, ',');
                columns = split(header, mark, cells);
            } else if (isalpha((unsigned char)*shown.p) && !out->other_header && names_power(shown))
                out->other_header = at;
            put_row(&text, line, mark, columns);
        }
        if (line.p + line.n < bytes.p + bytes.n)
            buf_putc(&text, '\n');
    }
    const struct sv made = {arena_copy(a, text.p ? text.p : "", text.n), text.n};
    buf_free(&text);
    return made;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static bool is_utf16(struct sv s)
{
    return starts(s, "\xff\xfe") || starts(s, "\xfe\xff");
}

static bool is_report(struct sv s)
{
    return starts(s, "==============NVSMI LOG") || starts(s, "<?xml") || starts(s, "+----");
}

enum st power_text_make(struct arena *a, const char *source, struct sv bytes,
                        struct power_text *out, struct err *e)
{
    size_t whole = bytes.n; /* up to the last line's end */
    *out = (struct power_text){0};
    while (whole > 0 && bytes.p[whole - 1] != '\n')
        whole--;
    out->cut = whole > 0 && whole < bytes.n;
    bytes.n = out->cut ? whole : bytes.n;
    if (is_utf16(bytes)) {
        err_set(e, ST_INPUT, "%s is UTF-16", source);
        return err_hint(
            e, "PowerShell's > writes that: nvidia-smi -f FILE, or Out-File -Encoding utf8");
    }
    bytes = without_mark(bytes);
    if (is_report(sv_trim(bytes))) {
        err_set(e, ST_INPUT, "%s is a report of nvidia-smi, not a table", source);
        return err_hint(e, "nvidia-smi --query-gpu=timestamp,index,power.draw.instant "
                           "--format=csv -lms 100");
    }
    if (bytes.n == 0) {
        out->bytes = bytes;
        return ST_OK;
    }
    const struct power_text_table t = find_table(bytes);
    out->bytes = t.ours ? from_table(a, &t, bytes, out) : from_csv(a, bytes, out);
    if (!out->other_header)
        return ST_OK;
    err_at(e, ST_INPUT, source, out->other_header, 0,
           "another header than the first, of a log that was appended");
    return err_hint(e, "cut the file there");
}
