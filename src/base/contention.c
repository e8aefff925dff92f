#include "base/contention.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

enum { THREADS_KNOWN = 1, MACHINE_KNOWN = 2, PRESSURE_KNOWN = 4 };

static void add_thread(struct contention_mark *m, const char *tid)
{
    char path[64];
    unsigned long long run_ns, wait_ns;
    if (snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", tid) >= (int)sizeof path)
        return;
    FILE *f = fopen(path, "re");
    if (!f)
        return; /* the thread ended, or the kernel has no schedstat */
    if (fscanf(f, "%llu %llu", &run_ns, &wait_ns) == 2) {
        m->run_s += (double)run_ns / 1e9;
        m->wait_s += (double)wait_ns / 1e9;
        m->known |= THREADS_KNOWN;
    }
    fclose(f);
}

static void add_machine(struct contention_mark *m)
{
    FILE *f = fopen("/proc/stat", "re");
    if (!f)
        return;
    unsigned long long t[8]; /* user nice system idle iowait irq softirq steal */
    int n = fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2], &t[3],
                   &t[4], &t[5], &t[6], &t[7]);
    fclose(f);
    const double ticks = (double)sysconf(_SC_CLK_TCK);
    if (n != 8 || !(ticks > 0))
        return;
    for (int i = 0; i < 8; i++)
        m->capacity_s += (double)t[i] / ticks;
    m->stolen_s = (double)t[7] / ticks;
    m->known |= MACHINE_KNOWN;
}

static void add_pressure(struct contention_mark *m)
{
    FILE *f = fopen("/proc/pressure/cpu", "re");
    unsigned long long us;
    if (!f)
        return; /* a kernel without PSI, or one that was told psi=0 */
    if (fscanf(f, "some avg10=%*s avg60=%*s avg300=%*s total=%llu", &us) == 1) {
        m->pressure_s = (double)us / 1e6;
        m->at_s = ns_to_s(clock_mono_ns());
        m->known |= PRESSURE_KNOWN;
    }
    fclose(f);
}

struct contention_mark contention_mark(void)
{
    struct contention_mark m = {0};
    DIR *d = opendir("/proc/self/task");
    for (const struct dirent *f; d && (f = readdir(d));)
        if (f->d_name[0] != '.')
            add_thread(&m, f->d_name);
    if (d)
        closedir(d);
    add_machine(&m);
    add_pressure(&m);
    return m;
}

static double share(double part, double whole)
{
    return !(whole > 0) ? 0 : fmin(fmax(part / whole, 0), 1);
}

struct contention contention_since(const struct contention_mark *begin)
{
    const struct contention_mark now = contention_mark();
    const int known = begin->known & now.known;
    const double wait_s = now.wait_s - begin->wait_s;
    struct contention c = {(double)NAN, (double)NAN, (double)NAN};
    if (known & THREADS_KNOWN)
        c.waiting = share(wait_s, wait_s + now.run_s - begin->run_s);
    if (known & MACHINE_KNOWN)
        c.stolen = share(now.stolen_s - begin->stolen_s, now.capacity_s - begin->capacity_s);
    if (known & PRESSURE_KNOWN)
        c.pressure = share(now.pressure_s - begin->pressure_s, now.at_s - begin->at_s);
    return c;
}

double contention_share(const struct contention *c)
{
    if (isnan(c->waiting))
        return c->stolen;
    return isnan(c->stolen) ? c->waiting : c->waiting + c->stolen;
}

double contention_worst(const struct contention *c)
{
    return fmax(contention_share(c), c->pressure); /* of NAN and a number: the number */
}
