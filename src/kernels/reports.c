/* The table of nsys' reports. */
#include "kernels/reports.h"

#include <string.h>

#define STATS_TIME   "Avg (ns)", "Med (ns)", "Min (ns)", "Max (ns)", "StdDev (ns)"
#define COLUMNS(...) ((const char *const[]){__VA_ARGS__, NULL})

const struct kernels_report kernels_reports[] = {
    {"cuda_gpu_kern_sum", "time of kernels by name",
     COLUMNS("Time (%)", "Total Time (ns)", "Instances", STATS_TIME, "Name"), kernels_gpu_kern_sum},
    {"nvtx_kern_sum", "time of kernels by NVTX range and name",
     COLUMNS("NVTX Range", "Style", "PID", "TID", "NVTX Inst", "Kern Inst", "Total Time (ns)",
             STATS_TIME, "Kernel Name"),
     kernels_nvtx_kern_sum},
    {"nvtx_gpu_proj_sum", "NVTX ranges projected on the GPU",
     COLUMNS("Range", "Style", "Total Proj Time (ns)", "Total Range Time (ns)", "Range Instances",
             "Proj Avg (ns)", "Proj Med (ns)", "Proj Min (ns)", "Proj Max (ns)", "Proj StdDev (ns)",
             "Total GPU Ops", "Avg GPU Ops", "Avg Range Lvl", "Avg Num Child"),
     kernels_proj_sum},
    {"cuda_api_sum", "time of API calls by name",
     COLUMNS("Time (%)", "Total Time (ns)", "Num Calls", STATS_TIME, "Name"), kernels_api_sum},
    {"cuda_kern_exec_sum", "launch, queue and execution times by kernel",
     COLUMNS("PID", "TID", "DevId", "Count", "QCount", "TAvg (ns)", "TMed (ns)", "TMin (ns)",
             "TMax (ns)", "TStdDev (ns)", "AAvg (ns)", "AMed (ns)", "AMin (ns)", "AMax (ns)",
             "AStdDev (ns)", "QAvg (ns)", "QMed (ns)", "QMin (ns)", "QMax (ns)", "QStdDev (ns)",
             "KAvg (ns)", "KMed (ns)", "KMin (ns)", "KMax (ns)", "KStdDev (ns)", "API Name",
             "Kernel Name"),
     kernels_exec_sum},
    {"cuda_gpu_mem_time_sum", "time of copies and sets",
     COLUMNS("Time (%)", "Total Time (ns)", "Count", STATS_TIME, "Operation"),
     kernels_mem_time_sum},
    {"cuda_gpu_mem_size_sum", "bytes of copies and sets",
     COLUMNS("Total (MB)", "Count", "Avg (MB)", "Med (MB)", "Min (MB)", "Max (MB)", "StdDev (MB)",
             "Operation"),
     kernels_mem_size_sum},
    {"nvtx_sum", "time of NVTX ranges on the host",
     COLUMNS("Time (%)", "Total Time (ns)", "Instances", STATS_TIME, "Style", "Range"),
     kernels_nvtx_sum},
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

static bool is_text_column(const char *header)
{
    static const char *const headers[] = {"Name",  "Kernel Name", "API Name", "NVTX Range",
                                          "Range", "Style",       "Operation"};
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        if (strcmp(headers[i], header) == 0)
            return true;
    return false;
}

static struct node *cell_node(struct arena *a, const char *header, const char *cell)
{
    int64_t whole;
    double number;
    if (is_text_column(header))
        return node_str(a, cell);
    if (str_int64(sv_of(cell), &whole))
        return node_int(a, whole);
    return str_double(sv_of(cell), &number) ? node_float(a, number) : node_new(a, NODE_NULL);
}

struct node *kernels_report_node(struct arena *a, const struct table *t)
{
    struct node *list = node_new(a, NODE_LIST);
    for (int row = 1; row < table_rows(t); row++) {
        struct node *map = node_new(a, NODE_MAP);
        for (int i = 0; i < table_columns(t); i++) {
            const char *header = table_at(t, 0, i);
            node_set(a, map, sv_of(header), cell_node(a, header, table_at(t, row, i)));
        }
        node_push(a, list, map);
    }
    return list;
}
