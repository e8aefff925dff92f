/* Energy counters of the processor packages: /sys/class/powercap/intel-rapl:N/energy_uj, on AMD
 * machines too. They wrap at max_energy_range_uj. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "energy/sampler.h"

enum { MAX_PACKAGES = 64 };

struct package {
    const char *path;
    double range_j, last_j, wrapped_j;
};
struct rapl {
    struct package packages[MAX_PACKAGES];
    int n;
};

static enum st read_uj(const char *path, double *joules, struct err *e)
{
    char text[64] = "";
    int64_t uj;
    FILE *f = fopen(path, "re");
    if (!f && errno == EACCES) {
        err_set(e, ST_DEVICE, "%s: not permitted", path);
        return err_hint(e, "only root reads it on most systems: run as root, or chmod a+r it");
    }
    if (!f || !fgets(text, sizeof text, f)) {
        const int why = errno;
        if (f)
            fclose(f);
        return err_set(e, ST_DEVICE, "%s: %s", path, strerror(why));
    }
    fclose(f);
    if (!str_int64(sv_trim(sv_of(text)), &uj) || uj < 0)
        return err_set(e, ST_DEVICE, "%s does not hold a number of microjoules", path);
    *joules = (double)uj / 1e6;
    return ST_OK;
}

static enum st open_rapl(struct arena *a, const struct sampler_params *p, void **self,
                         struct err *e)
{
    const char *root = p->path ? p->path : "/sys/class/powercap", **names;
    struct rapl *r = arena_one(a, struct rapl);
    size_t n = 0;
    struct err no = {0};
    *self = r;
    if (fs_list(a, root, &names, &n, &no) != ST_OK)
        n = 0;
    for (size_t i = 0; i < n && r->n < MAX_PACKAGES; i++) {
        /* "intel-rapl:0" is a package; "intel-rapl:0:1" a part of it, "intel-rapl-mmio:0" the same
         * once more. */
        const char *number = strncmp(names[i], "intel-rapl:", 11) == 0 ? names[i] + 11 : "";
        if (!*number || number[strspn(number, "0123456789")])
            continue;
        struct package *k = &r->packages[r->n++];
        const char *dir = fs_join(a, root, names[i]);
        k->path = fs_join(a, dir, "energy_uj");
        TRY(read_uj(k->path, &k->last_j, e));
        if (read_uj(fs_join(a, dir, "max_energy_range_uj"), &k->range_j, &no) != ST_OK)
            k->range_j = 0;
    }
    if (r->n > 0)
        return ST_OK;
    err_set(e, ST_DEVICE, "%s has no counter of a processor package", root);
    return err_hint(
        e, "virtual machines and containers have none; the kernel module is intel_rapl_msr");
}

static enum st read_rapl(void *self, double *joules, struct err *e)
{
    struct rapl *r = self;
    double sum = 0;
    for (int i = 0; i < r->n; i++) {
        struct package *k = &r->packages[i];
        double now;
        TRY(read_uj(k->path, &now, e));
        if (now < k->last_j)
            k->wrapped_j += k->range_j;
        k->last_j = now;
        sum += now + k->wrapped_j;
    }
    *joules = sum;
    return ST_OK;
}

const struct sampler_ops sampler_rapl = {.name = "rapl",
                                         .what = "energy counters of the processor packages",
                                         .kind = SAMPLER_ENERGY,
                                         .averages_s = 0,
                                         .needs = "readable counters in /sys/class/powercap",
                                         .open = open_rapl,
                                         .read = read_rapl};
