/* The capsule: one region of a CUDA program, complete enough to run it again without the program.
 *
 * This header is the format's manual. Guest (inject/capture.h, which records) and host (capsule.h,
 * which reads) share it and file.h; both need libc only. A capsule is a folder:
 *
 *     manifest.json         what it is, for people (docs/formats.md)
 *     launches.bin          everything below
 *     modules/NNNN.cubin    images, as the driver loaded them; NNNN is the module's index
 *     memory.zst            memory as it was when the region began (CAPSULE_PAGES)
 *     after.zst             pieces that differed when it ended (CAPSULE_AFTER)
 *
 * The recorder leaves memory.raw and after.raw in the place of the .zst files and no manifest; the
 * host packs, adds times and ranges (seal.h) and writes the manifest last.
 *
 * launches.bin. Little endian, 8-byte aligned:
 *
 *     struct capsule_header
 *     struct capsule_section [n_sections]
 *     the sections' records
 *
 * A section holds the records of one kind; kinds that are absent have none. A later version may
 * append fields to a record: a reader uses the smaller of its own and the file's record size;
 * missing fields are 0. Unknown kinds are skipped. Texts and bytes are spans of CAPSULE_BYTES.
 * An index of another section is CAPSULE_NONE where there is nothing to refer to.
 *
 * Times: int64 ns from the region's start; CAPSULE_NO_TIME where not known.
 *
 * Addresses are those of the captured process. They are to be the same when the region runs again:
 * parameters, tensor maps in them and pointers in memory then stay true. What moves is what a
 * module brings: its functions, found again by (module, mangled name), and its globals, whose
 * values are set again (CAPSULE_GLOBALS). A parameter that points into a global is a word in
 * [address, address + bytes) of that global, aligned to 8 bytes, and must be moved with it.
 *
 * Order of operations. CAPSULE_OPS are in the order of the program's calls. Operation i must wait
 * for
 *   1. the operations before it in its stream;
 *   2. operations that a CAPSULE_WAIT before it in its stream names; one of a graph launch stands
 *      for the whole launch, and any for all that it waits for itself;
 *   3. everything that a CAPSULE_SYNC before it waited for, whatever its stream;
 *   4. with the legacy default stream (CAPSULE_STREAM_LEGACY): an operation there waits for all
 *      earlier ones in streams that are not CAPSULE_STREAM_NON_BLOCKING, and those wait for it.
 * Operations of a graph launch carry its number in `graph` (equal, neighbouring, 1 .. n_graphs):
 * the launch as a whole takes the place in its stream; inside, an operation waits for its edges
 * alone, which name earlier operations of the same graph launch. */
#ifndef CAPSULE_FORMAT_H
#define CAPSULE_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define CAPSULE_MAGIC       "TWCAPSL\n"
#define CAPSULE_FILE        "launches.bin"
#define CAPSULE_MANIFEST    "manifest.json"
#define CAPSULE_IMAGES      "modules"
#define CAPSULE_MEMORY      "memory.zst"
#define CAPSULE_MEMORY_RAW  "memory.raw"
#define CAPSULE_CHANGED     "after.zst"
#define CAPSULE_CHANGED_RAW "after.raw"
#define CAPSULE_RECORDED_SUFFIX \
    ".capsule"                        /* of the recorder's folder, beside the process's spool */
#define CAPSULE_REFUSED "refused.txt" /* there: why there is no capsule, a line each */
#define CAPSULE_LAUNCHED                                                                        \
    "launched.txt"                    /* there: of a region of launches of CUDA graphs that did \
                                       * not come or did not end: "before 2" or "inside 4",     \
                                       * and how many the process launched */
#define CAPSULE_REFUSED_HINT "hint: " /* begins a line behind it that says what would help */
#define CAPSULE_NONE         UINT32_MAX
#define CAPSULE_NO_TIME      INT64_MIN

enum {
    CAPSULE_VERSION = 1,
    CAPSULE_PAGE_BYTES = 2 << 20, /* no piece of memory crosses a multiple of it */
    CAPSULE_ATTRIBUTE_BYTES = 64,
    CAPSULE_PARAMS_MAX_BYTES = 32764, /* of one launch */
    CAPSULE_MODULES_MAX = 10000,
    CAPSULE_STREAMS_MAX = 4096,
    CAPSULE_RECORDS_MAX = 1 << 24,     /* of a kind, bytes apart */
    CAPSULE_IMAGE_MAX_BYTES = 1 << 30, /* of a module */
};
#define CAPSULE_ADDRESS_END (UINT64_C(1) << 47) /* of all captured memory */

struct capsule_header { /* 64 bytes */
    char magic[8];
    uint32_t version, header_bytes;
    uint32_t n_sections, page_bytes;
    uint64_t file_bytes;
    uint64_t checksum; /* capsule_hash of the table of sections */
    uint64_t reserved[3];
};

struct capsule_section { /* 40 bytes */
    uint32_t kind, record_bytes;
    uint64_t count, at, bytes; /* count * record_bytes, from the start of the file */
    uint64_t checksum;         /* capsule_hash of them */
};

/* Number, kind, name, record. */
/* clang-format off */
#define CAPSULE_SECTION_TABLE(X) \
    X(1, BYTES, bytes, unsigned char) \
    X(2, FACTS, facts, struct capsule_facts) \
    X(3, MODULES, modules, struct capsule_module) \
    X(4, FUNCTIONS, functions, struct capsule_function) \
    X(5, PARAMS, params, struct capsule_param) \
    X(6, GLOBALS, globals, struct capsule_global) \
    X(7, ALLOCATIONS, allocations, struct capsule_allocation) \
    X(8, STREAMS, streams, struct capsule_stream) \
    X(9, OPS, ops, struct capsule_op) \
    X(10, EDGES, edges, struct capsule_edge) \
    X(11, LAUNCHES, launches, struct capsule_launch) \
    X(12, ATTRIBUTES, attributes, struct capsule_attribute) \
    X(13, COPIES, copies, struct capsule_copy) \
    X(14, SETS, sets, struct capsule_set) \
    X(15, PAGES, pages, struct capsule_page) \
    X(16, AFTER, after, struct capsule_page) \
    X(17, RANGES, ranges, struct capsule_range) \
    X(18, WALLS, walls, struct capsule_wall)
/* clang-format on */
enum capsule_kind {
#define X(number, kind, name, type) CAPSULE_##kind = number,
    CAPSULE_SECTION_TABLE(X)
#undef X
        CAPSULE_KINDS
};

struct capsule_span { /* of CAPSULE_BYTES; texts have no NUL */
    uint64_t at, bytes;
};

/* ---- what it was captured from ---- */

struct capsule_facts {          /* one record */
    struct capsule_span region; /* as it was asked for: "decode#3", "profiler#1" */
    struct capsule_span command, host, gpu;
    unsigned char uuid[16];                      /* of the GPU */
    uint32_t pid, device;                        /* device: CUDA ordinal in that process */
    uint32_t major, minor;                       /* compute capability */
    uint32_t sms, driver_version, cupti_version; /* 13000 = CUDA 13.0; CUPTI's API version */
    uint32_t occurrence;                         /* of the region, from 1 */
    uint64_t memory_bytes, l2_bytes;             /* of the GPU */
    int64_t start_ns;                            /* CLOCK_MONOTONIC when the region began */
    int64_t start_wall_ns;                       /* the wall clock then */
    int64_t wall_ns;     /* the region, from its start (GPU idle) until the GPU was idle again */
    int64_t snapshot_ns; /* how long the program was stopped, before and after */
    uint64_t live_bytes; /* allocated when the region began */
    uint64_t globals_unread; /* variables of modules whose values could not be read: static ones */
    uint32_t n_graphs;       /* graph launches */
    uint32_t packed;         /* memory is in .zst (1) or .raw (0) files */
};

/* ---- code ---- */

struct capsule_module {
    uint64_t bytes, hash; /* of the image */
};

struct capsule_function {
    struct capsule_span name; /* mangled */
    uint32_t module;
    uint32_t first_param, n_params;
    uint32_t params_bytes;    /* end of the last parameter */
    int32_t dynamic_shared;   /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
    int32_t shared_carveout;  /* ..._PREFERRED_SHARED_MEMORY_CARVEOUT; -1 = default */
    int32_t any_cluster_size; /* ..._NON_PORTABLE_CLUSTER_SIZE_ALLOWED */
    int32_t registers, static_shared, local_bytes; /* per thread, block, thread */
};

struct capsule_param { /* of a function, by rising offset, not overlapping */
    uint32_t offset, bytes;
};

struct capsule_global { /* a variable in device or constant memory, with its value at the start */
    struct capsule_span name, value;
    uint64_t address;
    uint32_t module;
    uint32_t reserved;
};

/* ---- memory ---- */

enum capsule_memory {
    CAPSULE_DEVICE = 1, /* cuMemAlloc */
    CAPSULE_POOL,       /* cuMemAllocAsync and pools */
    CAPSULE_VIRTUAL,    /* cuMemMap of a physical allocation */
    CAPSULE_PINNED,     /* page-locked host memory, mapped for the device at the same address */
    CAPSULE_REGISTERED, /* the program's own memory, page-locked by cuMemHostRegister; the same */
};
enum capsule_allocation_flag {
    CAPSULE_BORN = 1, /* allocated inside the region: contents at its start are undefined */
    CAPSULE_GONE = 2, /* freed inside the region: not compared after it */
};

/* Sorted by address. Those that were live at the start do not overlap each other; others may lie
 * over them or over each other, once the earlier owner was gone. */
struct capsule_allocation {
    uint64_t address, bytes;
    uint32_t memory; /* enum capsule_memory */
    uint32_t flags;
};

enum capsule_page_flag {
    CAPSULE_ZERO = 1, /* all bytes are 0: nothing is stored */
};

/* A piece of memory: within one page, within allocations (neighbouring ones may share a piece).
 * Sorted by address, not overlapping. CAPSULE_PAGES cover all that was live at the start,
 * CAPSULE_AFTER what differed at the end (of memory that was live at both ends or was born inside).
 * Of host memory, which the program writes too, it has what the region's copies and sets wrote, and
 * pages of allocations that its kernels reach. */
struct capsule_page {
    uint64_t address;
    uint32_t bytes, flags;
    uint64_t hash;           /* capsule_hash of the content */
    uint64_t at, file_bytes; /* in the file: a zstd frame of its own, or the bytes themselves */
};

/* ---- operations ---- */

enum capsule_stream_flag {
    CAPSULE_STREAM_LEGACY = 1, /* the legacy default stream; at most one */
    CAPSULE_STREAM_NON_BLOCKING = 2,
};
struct capsule_stream {
    uint32_t flags;
    int32_t priority;
};

enum capsule_op_kind {
    CAPSULE_LAUNCH = 1, /* item: CAPSULE_LAUNCHES */
    CAPSULE_COPY,       /* item: CAPSULE_COPIES */
    CAPSULE_SET,        /* item: CAPSULE_SETS */
    CAPSULE_WAIT,       /* cuStreamWaitEvent; item: the last operation before the event's record in
                         * its stream (it and all before it there), an earlier one */
    CAPSULE_SYNC,       /* the program waited; item: a stream, CAPSULE_NONE = for everything */
    CAPSULE_SYNC_OP,    /* the program waited for an event; item: as of CAPSULE_WAIT */
    CAPSULE_EMPTY,      /* does nothing, in its place; item: CAPSULE_NONE */
};

struct capsule_op { /* 72 bytes */
    uint32_t kind;  /* enum capsule_op_kind */
    uint32_t item;
    uint32_t stream;              /* CAPSULE_STREAMS; of a graph launch: where it was launched */
    uint32_t graph;               /* number of the graph launch, 0 = none */
    uint32_t first_edge, n_edges; /* in a graph */
    uint32_t range;               /* innermost range around the call, CAPSULE_RANGES */
    uint32_t correlation;         /* CUPTI's; all operations of a graph launch share one */
    uint64_t graph_node;          /* CUPTI's id of the node, 0 = not known */
    int64_t call_ns, return_ns;   /* on the host */
    int64_t start_ns, end_ns;     /* on the GPU, by CUPTI: in the program, inside the region */
};

struct capsule_edge {
    uint32_t op;                                /* waits for it */
    uint8_t type, from_port, to_port, reserved; /* as CUgraphEdgeData; all 0 = full dependency */
};

struct capsule_launch {
    uint32_t function;
    uint32_t grid[3], block[3];
    uint32_t shared_bytes;      /* dynamic */
    struct capsule_span params; /* params_bytes of the function, each parameter at its offset */
    uint32_t first_attribute, n_attributes;
};

/* CUlaunchAttribute; of a graph's node those of the node. Of ids that capsule_keeps_attribute has.
 */
struct capsule_attribute {
    uint32_t id, reserved;
    unsigned char value[CAPSULE_ATTRIBUTE_BYTES];
};

enum capsule_place {
    CAPSULE_ON_DEVICE = 1,
    CAPSULE_IN_PINNED, /* in a captured allocation of host memory */
    CAPSULE_ON_HOST,   /* elsewhere in host memory: the address means nothing */
};

/* depth slices of height rows of width bytes; plain copies have height = depth = 1 and pitches that
 * mean nothing (0). Row y of slice z begins at + z * slice + y * pitch. */
struct capsule_copy {
    uint64_t to, from;
    uint64_t width, height, depth;
    uint64_t to_pitch, to_slice, from_pitch, from_slice; /* bytes */
    uint32_t to_place, from_place;                       /* enum capsule_place */
    /* The source where it is not on the device, rows packed: width * height * depth bytes, as it
     * was when the copy read it; empty otherwise. */
    struct capsule_span source;
};

struct capsule_set {
    uint64_t to, width, height, pitch; /* width in units; height rows pitch bytes apart */
    uint32_t value, unit_bytes;        /* 1, 2, 4 */
};

/* ---- what was around it ---- */

struct capsule_range { /* NVTX, inside the region or around it; sorted by start */
    struct capsule_span name, domain;
    int64_t start_ns, end_ns; /* CAPSULE_NO_TIME: began before, ended after the record */
    uint32_t depth, thread;
};

struct capsule_wall { /* occurrences of the region that the program ran, in order */
    uint32_t occurrence;
    uint32_t captured; /* this one: the capture was at work in it */
    int64_t wall_ns;   /* on the host: without waiting for the GPU */
    int64_t busy_ns;   /* GPU times of its kernels, copies and sets, summed */
    uint32_t kernels, others;
};

#endif
