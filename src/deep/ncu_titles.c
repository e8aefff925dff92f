/* Names of metrics: titles of the details page, and units that stand in a name. */
#include <string.h>

#include "deep/ncu_csv.h"

/* One of two metrics of the same title goes by its unit. Titles before Nsight Compute 2021 too. */
static const struct title {
    const char *text, *metric;
    const char *unit; /* part of it; NULL = any */
} titles[] = {
    {"Duration", "gpu__time_duration.sum", NULL},
    {"Elapsed Cycles", "gpc__cycles_elapsed.max", NULL},
    {"SM Frequency", "sm__cycles_elapsed.avg.per_second", NULL},
    {"DRAM Frequency", "dram__cycles_elapsed.avg.per_second", NULL},
    {"Memory Frequency", "dram__cycles_elapsed.avg.per_second", NULL},
    {"Memory Throughput", "dram__bytes.sum.per_second", "byte"},
    {"Memory Throughput", "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", "%"},
    {"Memory [%]", "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", NULL},
    {"SOL Memory", "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", NULL},
    {"DRAM Throughput", "dram__throughput.avg.pct_of_peak_sustained_elapsed", NULL},
    {"SOL DRAM", "dram__throughput.avg.pct_of_peak_sustained_elapsed", NULL},
    {"SOL FB", "dram__throughput.avg.pct_of_peak_sustained_elapsed", NULL},
    {"L2 Cache Throughput", "lts__throughput.avg.pct_of_peak_sustained_elapsed", NULL},
    {"SOL L2", "lts__throughput.avg.pct_of_peak_sustained_elapsed", NULL},
    {"L1/TEX Cache Throughput", "l1tex__throughput.avg.pct_of_peak_sustained_active", NULL},
    {"Compute (SM) Throughput", "sm__throughput.avg.pct_of_peak_sustained_elapsed", NULL},
    {"Compute Throughput", "sm__throughput.avg.pct_of_peak_sustained_elapsed", NULL},
    {"SM [%]", "sm__throughput.avg.pct_of_peak_sustained_elapsed", NULL},
    {"SOL SM", "sm__throughput.avg.pct_of_peak_sustained_elapsed", NULL},
    {"L2 Hit Rate", "lts__t_sector_hit_rate.pct", NULL},
    {"Registers Per Thread", "launch__registers_per_thread", NULL},
    {"# Registers", "launch__registers_per_thread", NULL},
    {"Theoretical Occupancy", "sm__maximum_warps_per_active_cycle_pct", NULL},
    {"Achieved Occupancy", "sm__warps_active.avg.pct_of_peak_sustained_active", NULL},
    {"Block Limit SM", "launch__occupancy_limit_blocks", NULL},
    {"Block Limit Registers", "launch__occupancy_limit_registers", NULL},
    {"Block Limit Shared Mem", "launch__occupancy_limit_shared_mem", NULL},
    {"Block Limit Warps", "launch__occupancy_limit_warps", NULL},
    {"Block Limit Barriers", "launch__occupancy_limit_barriers", NULL},
    {"Dynamic Shared Memory Per Block", "launch__shared_mem_per_block_dynamic", NULL},
    {"Static Shared Memory Per Block", "launch__shared_mem_per_block_static", NULL},
    {"Waves Per SM", "launch__waves_per_multiprocessor", NULL},
};

static bool has_part(struct sv s, const char *part)
{
    size_t n = strlen(part);
    for (size_t i = 0; i + n <= s.n; i++)
        if (memcmp(s.p + i, part, n) == 0)
            return true;
    return false;
}

static bool known(struct sv name, struct sv unit, struct sv *out)
{
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        if (sv_eq(name, titles[i].text) && (!titles[i].unit || has_part(unit, titles[i].unit))) {
            *out = sv_of(titles[i].metric);
            return true;
        }
    return false;
}

struct sv ncu_metric_of(struct sv name, struct sv *unit)
{
    struct sv out;
    name = sv_trim(name);
    if (known(name, *unit, &out))
        return out;
    for (size_t i = name.n; !unit->n && i-- > 2 && name.p[name.n - 1] == ']';)
        if (name.p[i] == '[' && name.p[i - 1] == ' ') { /* "Duration [us]" */
            *unit = (struct sv){name.p + i + 1, name.n - i - 2};
            name.n = i - 1;
            break;
        }
    return known(name, *unit, &out) ? out : name;
}
