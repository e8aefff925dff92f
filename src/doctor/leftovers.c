/* Folders left by killed processes. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/partial.h"
#include "doctor/doctor.h"

/* "2 h": the largest unit in which it is 1 or more. */
static const char *age_text(struct arena *a, int64_t since_wall_ns)
{
    static const struct {
        double s;
        const char *unit;
    } units[] = {{86400, "days"}, {3600, "h"}, {60, "min"}};
    double s = ns_to_s(clock_wall_ns() - since_wall_ns);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (s >= units[i].s)
            return arena_printf(a, "%.0f %s", floor(s / units[i].s), units[i].unit);
    return arena_printf(a, "%.0f s", s > 0 ? floor(s) : 0);
}

/* `twinfer trace` keeps a recording that could not be finished. */
static bool holds_recording(struct arena *a, const char *dir)
{
    struct err quiet = {0};
    const char **names;
    size_t n = 0;
    if (fs_list(a, dir, &names, &n, &quiet) != ST_OK)
        return false;
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(names[i]);
        if (len > 6 && strcmp(names[i] + len - 6, ".spool") == 0)
            return true;
    }
    return false;
}

static void tell_partial(struct doctor_findings *f, const struct partial_found *p, bool remove,
                         struct err *e)
{
    static const char what[] = "unfinished folder";
    struct arena *a = f->a;
    char size[STR_BYTES_MAX];
    str_from_bytes(size, p->bytes);
    const char *facts = arena_printf(
        a, "%s, %s, written %s ago%s", p->path, size, age_text(a, p->wrote_wall_ns),
        holds_recording(a, p->path) ? ", with a recording that twinfer kernels reads" : "");
    const char *writer = p->pid ? arena_printf(a, "process %ld", p->pid) : "its writer";
    struct err failed = {0};
    if (p->state == PARTIAL_LIVING) {
        doctor_add(f, DOCTOR_OK, what, arena_printf(a, "%s; being written", facts), NULL);
    } else if (p->state == PARTIAL_UNKNOWN) {
        doctor_add(f, DOCTOR_NOTE, what, arena_printf(a, "%s; %s", facts, p->why),
                   "not removed by doctor; remove it by hand once nothing writes to it");
    } else if (!remove) {
        doctor_add(f, DOCTOR_NOTE, what, arena_printf(a, "%s; %s is dead", facts, writer),
                   "twinfer doctor doctor.remove_partial=true removes it");
    } else if (partial_remove(p, &failed) == ST_OK) {
        doctor_add(f, DOCTOR_OK, what, arena_printf(a, "%s; %s is dead: removed", facts, writer),
                   NULL);
    } else {
        doctor_add(f, DOCTOR_NOTE, what, arena_printf(a, "%s; %s is dead", facts, writer),
                   arena_str(a, err_cause(&failed, 0)));
        if (e->st == ST_OK && failed.st != ST_REJECTED)
            *e = failed;
    }
}

void doctor_leftovers(struct doctor_findings *f, const char *const *folders, size_t n, bool remove,
                      struct err *e)
{
    enum { ALL_LEVELS = 32 };
    static const char *const here[] = {".", "runs"};
    bool asked = n > 0;
    if (!asked)
        n = sizeof here / sizeof *here;
    for (size_t i = 0; i < n; i++) {
        const char *dir = asked ? folders[i] : here[i];
        if (asked && !fs_is_dir(dir) && e->st == ST_OK) {
            err_set(e, ST_USAGE, "doctor.folders: %s is not a folder", dir);
            continue;
        }
        struct partial_list list = partial_find(f->a, dir, asked || i > 0 ? ALL_LEVELS : 0);
        for (size_t k = 0; k < list.n; k++)
            tell_partial(f, &list.p[k], remove, e);
    }
}
