/* The table of nsys' reports. */
#include "kernels/reports.h"

#define STATS_TIME   "Avg (ns)", "Med (ns)", "Min (ns)", "Max (ns)", "StdDev (ns)"
#define COLUMNS(...) ((const char *const[]){__VA_ARGS__, NULL})

const struct kernels_report kernels_reports[] = {
    {"cuda_gpu_kern_sum", "time of kernels by name",
     COLUMNS("Time (%)", "Total Time (ns)", "Instances", STATS_TIME, "Name"), kern_gpu_kern_sum},
    {"nvtx_kern_sum", "time of kernels by NVTX range and name",
     COLUMNS("NVTX Range", "Style", "PID", "TID", "NVTX Inst", "Kern Inst", "Total Time (ns)",
             STATS_TIME, "Kernel Name"),
     kern_nvtx_kern_sum},
    {"nvtx_gpu_proj_sum", "NVTX ranges projected on the GPU",
     COLUMNS("Range", "Style", "Total Proj Time (ns)", "Total Range Time (ns)", "Range Instances",
             "Proj Avg (ns)", "Proj Med (ns)", "Proj Min (ns)", "Proj Max (ns)", "Proj StdDev (ns)",
             "Total GPU Ops", "Avg GPU Ops", "Avg Range Lvl", "Avg Num Child"),
     kern_proj_sum},
    {"cuda_api_sum", "time of API calls by name",
     COLUMNS("Time (%)", "Total Time (ns)", "Num Calls", STATS_TIME, "Name"), kern_api_sum},
    {"cuda_kern_exec_sum", "launch, queue and execution times by kernel",
     COLUMNS("PID", "TID", "DevId", "Count", "QCount", "TAvg (ns)", "TMed (ns)", "TMin (ns)",
             "TMax (ns)", "TStdDev (ns)", "AAvg (ns)", "AMed (ns)", "AMin (ns)", "AMax (ns)",
             "AStdDev (ns)", "QAvg (ns)", "QMed (ns)", "QMin (ns)", "QMax (ns)", "QStdDev (ns)",
             "KAvg (ns)", "KMed (ns)", "KMin (ns)", "KMax (ns)", "KStdDev (ns)", "API Name",
             "Kernel Name"),
     kern_exec_sum},
    {"cuda_gpu_mem_time_sum", "time of copies and sets",
     COLUMNS("Time (%)", "Total Time (ns)", "Count", STATS_TIME, "Operation"), kern_mem_time_sum},
    {"cuda_gpu_mem_size_sum", "bytes of copies and sets",
     COLUMNS("Total (MB)", "Count", "Avg (MB)", "Med (MB)", "Min (MB)", "Max (MB)", "StdDev (MB)",
             "Operation"),
     kern_mem_size_sum},
    {"nvtx_sum", "time of NVTX ranges on the host",
     COLUMNS("Time (%)", "Total Time (ns)", "Instances", STATS_TIME, "Style", "Range"),
     kern_nvtx_sum},
    {0},
};

struct table *kernels_report_table(struct arena *a, const struct kernels *k,
                                   const struct kernels_report *r)
{
    int columns = 0;
    while (r->columns[columns])
        columns++;
    struct table *t = table_new(a, columns);
    for (int i = 0; i < columns; i++)
        table_cell(t, "%s", r->columns[i]);
    r->rows(k, t);
    return t;
}
