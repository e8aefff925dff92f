/* Tables of Nsight Systems' SQLite export, as far as they are written and read here. SQL is
 * confined to trace/. */
#ifndef TRACE_SQLITE_SCHEMA_H
#define TRACE_SQLITE_SCHEMA_H

enum sql_table {
    SQL_STRINGS,
    SQL_KERNEL,
    SQL_MEMCPY,
    SQL_MEMSET,
    SQL_GRAPH,
    SQL_RUNTIME,
    SQL_SYNC,
    SQL_NVTX,
    SQL_PROCESSES,
    SQL_THREADS,
    SQL_GPU,
    SQL_CUDA_DEVICE, /* which GPU a process calls what; only read */
    SQL_SYSTEM,
    SQL_META,
    SQL_MEMCPY_OPER,
    SQL_MEM_KIND,
    SQL_EVENT_TYPE,
    SQL_TABLES
};

struct sql_table_def {
    const char *name;
    const char *const *columns; /* ends with NULL; '$' in front: type TEXT, '.' in front: REAL */
};
extern const struct sql_table_def trace_sql_tables[SQL_TABLES];

/* The name of a column without its mark. */
static inline const char *trace_sql_column(const char *column)
{
    return column + (column[0] == '$' || column[0] == '.');
}

/* Nsight Systems' numbers. */
enum { NSYS_MARK = 34, NSYS_PUSH_POP = 59, NSYS_START_END = 60, NSYS_DOMAIN = 75 };

/* Its memory kinds start with pageable, and unknown is the last; CUPTI's start with unknown. */
static inline int trace_nsys_memory_kind(int cupti)
{
    return (cupti + 7) % 8;
}
static inline int trace_nsys_memory_kind_back(int nsys)
{
    return (nsys + 1) % 8;
}

/* Domains for ranges that are not NVTX's. */
#define SQL_OPERATOR_DOMAIN   "PyTorch operators"
#define SQL_ANNOTATION_DOMAIN "PyTorch annotations"

#endif
