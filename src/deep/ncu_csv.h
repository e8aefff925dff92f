/* Tables that Nsight Compute wrote as CSV, of any version, GPU and locale, or that a spreadsheet
 * kept.
 *
 * Three layouts: long, a row per metric of a launch (--page details, --metrics), its summary
 * (--print-summary: a row per metric of a kernel, with how often it was launched and the average),
 * and wide, a row per launch with a column per metric and a row of units under the header (--page
 * raw), or units in the header ("Duration [us]"). They may stand in one file, and several tables
 * after each other; columns and rows in any order, separated by commas, semicolons or tabs, in
 * UTF-8 or UTF-16. What is not the table is skipped: lines of the tool that begin with "==", what
 * the program printed.
 *
 * Numbers may have thousands separators (comma, point, apostrophe, spaces) and a decimal comma or
 * point. Which is which is found from all numbers of the file: two different separators in a
 * number, one that repeats, one that is not followed by three digits, or three digits behind one in
 * what can only be a whole number (a sum of bytes, of instructions) decide; without any such number
 * the comma separates thousands, which is noted where a number could be read the other way. Values
 * are brought to base units (ns, byte, hz, %), and titles of the details page to the names of their
 * metrics. "n/a", "no data" and empty cells are no values.
 *
 * Rows with values and without a launch's ID or kernel are left out and noted.
 *
 * Files are untrusted: a cut last row is left out and noted, too long rows are errors by place. */
#ifndef DEEP_NCU_CSV_H
#define DEEP_NCU_CSV_H

#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"

enum { NCU_CSV_MAX_BYTES = 1 << 30 };

struct ncu_value {
    uint32_t metric; /* place in ncu_table.metrics */
    uint32_t order;  /* in the file: of two values of a metric the first counts */
    double v;        /* in base units; a rate's unit is per second */
};

struct ncu_launch {
    const char *kernel; /* as ncu named it: mangled, demangled or the function alone */
    const char *process_name, *host;
    const char *ranges; /* of NVTX around the launch, as ncu wrote them; "" = none or not noted */
    const char *device_name; /* "NVIDIA H200"; NULL = not said */
    int64_t id, pid, device;
    int64_t count;             /* launches that the values are the mean of; 1 but in summaries */
    int64_t grid[3], block[3]; /* 0 = not said */
    double cc;                 /* compute capability, 9.0; 0 = not said */
    uint32_t file;             /* number of the file it came from */
    struct ncu_value *values;  /* [n_values] by metric, then order */
    size_t n_values;
};

struct ncu_table {
    struct arena *a;
    VEC(struct ncu_launch) launches; /* in the order of the files */
    struct map metrics;              /* name -> number */
    VEC(const char *) notes;         /* what was left out, and why */
    uint32_t n_files;
};

void ncu_table_init(struct ncu_table *t, struct arena *a);
void ncu_table_free(struct ncu_table *t);

/* Adds the launches of a file, or of text. ST_INPUT naming file and line: no table is in it (with
 * what the tool said instead, where it said something). */
enum st ncu_csv_read(struct ncu_table *t, const char *path, struct err *e);
enum st ncu_csv_parse(struct ncu_table *t, const char *source, struct sv text, struct err *e);

/* NAN = the launch has no such value. */
double ncu_value(const struct ncu_table *t, const struct ncu_launch *l, const char *metric);
/* A push/pop or start/end range of that name (a pattern with '*' and '?') is around the launch. */
bool ncu_inside(const struct ncu_launch *l, const char *pattern);

/* '*' and '?' against a whole text. */
bool deep_matches(const char *pattern, struct sv text);

/* ---- parts, for tests ---- */

struct ncu_locale {
    char decimal; /* '.' or ',' */
};
/* Counts what speaks for a decimal point (> 0) or comma (< 0) in the text of a number. whole: it
 * can have no fraction. */
int ncu_locale_hint(struct sv text, bool whole);
/* A sum of things that are counted one by one, in its base unit. */
bool ncu_is_count(struct sv metric, struct sv unit);
/* The metric of a name, which may be a title of the details page, and its unit where that stands
 * behind the name in brackets and *unit is empty. */
struct sv ncu_metric_of(struct sv name, struct sv *unit);
bool ncu_number(struct sv text, struct ncu_locale l, double *out);
/* The factor that brings a value of this unit to its base unit; 1 for units without one. */
double ncu_unit_factor(struct sv unit);

#endif
