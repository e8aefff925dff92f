/* What recording costs a program that does nothing but launch, per launch and mode.
 *
 *     twinfer trace out=DIR -- launch_bound [work_ns=N] [seconds=N] [json=FILE]
 *
 * A step is 784 launches of small kernels in 28 layers, with NVTX ranges around step, layer and
 * operator (141), and a synchronization. Between launches the host does work_ns of dependent loads
 * in 1 MiB, as a framework that dispatches would. A round measures every mode once, in an order
 * drawn anew, through the recorder's pause and resume; only modes that record ranges make the NVTX
 * calls. Per mode and round: wall time of the steps, CPU time of the launching thread in them, and
 * CPU time of the whole process until all records were taken. Differences are paired by round;
 * the table has their medians with bootstrap intervals (95 %).
 *
 * Built where it runs: cc -O2 -ICUDA/include launch_bound.c bare_cupti.c -ldl -lpthread */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <nvtx3/nvToolsExt.h>

int bare_start(const char *library);
int bare_subscribe(void);
void bare_flush(void);
uint64_t bare_stop(void);

enum { LAYERS = 28, OPS = 4, PER_OP = 7, LAUNCHES = LAYERS * OPS * PER_OP, STEPS = 5 };
enum { KERNELS = 4, ROUNDS_MAX = 2000, RESAMPLES = 2000, WORK_CELLS = 1 << 18 };

static void fail(const char *what, int error)
{
    fprintf(stderr, "launch_bound: %s: %d\n", what, error);
    exit(1);
}

static int64_t now_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static uint64_t random_state = 1;
static uint64_t random_next(void)
{
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* ---- the GPU's side ---- */

static struct {
    int (*cuInit)(unsigned);
    int (*cuDevicePrimaryCtxRetain)(void **, int);
    int (*cuCtxSetCurrent)(void *);
    int (*cuModuleLoadData)(void **, const void *);
    int (*cuModuleGetFunction)(void **, void *, const char *);
    int (*cuMemAlloc_v2)(uint64_t *, size_t);
    int (*cuCtxSynchronize)(void);
    int (*cuLaunchKernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                          unsigned, void *, void **, void **);
} cu;

static const char *const kernel_names[KERNELS] = {
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_3addEEEviT0_T1_",
    "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_4mulEEEviT1_",
    "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpEEEvT1_",
    "_ZN7cutlass7Kernel2I9gemm_bf16EEvNT_6ParamsE"};

/* x[i] = x[i] * 0.5 + c, four times under names as long as those of PyTorch. */
static char *ptx(void)
{
    static const char head[] = ".version 7.0\n.target sm_80\n.address_size 64\n";
    static const char body[] = "(.param .u64 p, .param .u32 n, .param .align 8 .b8 more[64])\n"
                               "{\n.reg .pred %q;\n.reg .b32 %r<6>;\n.reg .b64 %d<4>;\n"
                               ".reg .f32 %f<3>;\nld.param.u64 %d1, [p];\nld.param.u32 %r1, [n];\n"
                               "mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\n"
                               "mov.u32 %r4, %tid.x;\nmad.lo.s32 %r5, %r2, %r3, %r4;\n"
                               "setp.ge.u32 %q, %r5, %r1;\n@%q bra done;\n"
                               "cvta.to.global.u64 %d1, %d1;\nmul.wide.u32 %d2, %r5, 4;\n"
                               "add.s64 %d3, %d1, %d2;\nld.global.f32 %f1, [%d3];\n"
                               "fma.rn.f32 %f2, %f1, 0f3f000000, 0f3f000000;\n"
                               "st.global.f32 [%d3], %f2;\ndone:\nret;\n}\n";
    char *text = malloc(sizeof head + KERNELS * (sizeof body + 128));
    size_t n = (size_t)sprintf(text, "%s", head);
    for (int i = 0; i < KERNELS; i++)
        n += (size_t)sprintf(text + n, ".visible .entry %s%s", kernel_names[i], body);
    return text;
}

static void *functions[KERNELS];
static uint64_t memory;

static void open_gpu(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW);
    if (!lib)
        fail("no libcuda.so.1", 0);
#define BIND(name)                                 \
    if (!(*(void **)&cu.name = dlsym(lib, #name))) \
    fail("libcuda lacks " #name, 0)
    BIND(cuInit);
    BIND(cuDevicePrimaryCtxRetain);
    BIND(cuCtxSetCurrent);
    BIND(cuModuleLoadData);
    BIND(cuModuleGetFunction);
    BIND(cuMemAlloc_v2);
    BIND(cuCtxSynchronize);
    BIND(cuLaunchKernel);
#undef BIND
    void *context, *module;
    int error;
    char *text = ptx();
    if ((error = cu.cuInit(0)) || (error = cu.cuDevicePrimaryCtxRetain(&context, 0)) ||
        (error = cu.cuCtxSetCurrent(context)) || (error = cu.cuModuleLoadData(&module, text)) ||
        (error = cu.cuMemAlloc_v2(&memory, 1 << 20)))
        fail("CUDA", error);
    for (int i = 0; i < KERNELS; i++)
        if ((error = cu.cuModuleGetFunction(&functions[i], module, kernel_names[i])))
            fail(kernel_names[i], error);
    free(text);
}

/* ---- the host's side ---- */

static uint32_t *cells, cell;
static int64_t loads; /* between two launches */

static void work(int64_t n)
{
    for (; n > 0; n--)
        cell = cells[cell];
}

/* One cycle through all cells in random order (Sattolo). */
static void make_work(int64_t work_ns)
{
    cells = malloc(sizeof *cells * WORK_CELLS);
    for (uint32_t i = 0; i < WORK_CELLS; i++)
        cells[i] = i;
    for (uint32_t i = WORK_CELLS - 1; i > 0; i--) {
        uint32_t j = (uint32_t)(random_next() % i), kept = cells[i];
        cells[i] = cells[j];
        cells[j] = kept;
    }
    work(WORK_CELLS);
    int64_t t = now_ns(CLOCK_MONOTONIC);
    work(1 << 20);
    t = now_ns(CLOCK_MONOTONIC) - t;
    loads = work_ns * (1 << 20) / (t > 0 ? t : 1);
}

static void op(int which)
{
    char more[64] = {0};
    unsigned n = 1024;
    void *params[] = {&memory, &n, more};
    for (int k = 0; k < PER_OP; k++) {
        int error = cu.cuLaunchKernel(functions[(which + k) % KERNELS], 1u + (unsigned)k % 3, 1, 1,
                                      128, 1, 1, 0, NULL, params, NULL);
        if (error)
            fail("cuLaunchKernel", error);
        work(loads);
    }
}

static void step(bool ranges)
{
    static const char *const ops[OPS] = {"aten::rms_norm", "aten::scaled_dot_product_attention",
                                         "aten::linear", "aten::silu"};
    static char layers[LAYERS][32];
    if (ranges)
        nvtxRangePushA("forward");
    for (int l = 0; l < LAYERS; l++) {
        if (!layers[l][0])
            snprintf(layers[l], sizeof layers[l], "model.layers.%d", l);
        if (ranges)
            nvtxRangePushA(layers[l]);
        for (int o = 0; o < OPS; o++) {
            if (ranges)
                nvtxRangePushA(ops[o]);
            op(o);
            if (ranges)
                nvtxRangePop();
        }
        if (ranges)
            nvtxRangePop();
    }
    if (ranges)
        nvtxRangePop();
    cu.cuCtxSynchronize();
}

/* ---- modes ---- */

static struct {
    int (*pause)(void), (*resume)(void), (*flush)(void);
    int (*configure)(const char *const *);
} guest;
static char cupti[1024]; /* the library that the process has loaded */

static void open_guest(void)
{
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *lib = path ? dlopen(path, RTLD_NOW) : NULL;
    if (!lib)
        fail("run it under twinfer trace", 0);
    *(void **)&guest.pause = dlsym(lib, "tw_trace_pause");
    *(void **)&guest.resume = dlsym(lib, "tw_trace_resume");
    *(void **)&guest.flush = dlsym(lib, "tw_trace_flush");
    *(void **)&guest.configure = dlsym(lib, "tw_trace_configure");
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[1200];
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, "libcupti.so"))
            snprintf(cupti, sizeof cupti, "%.*s", (int)strcspn(strchr(line, '/'), "\n"),
                     strchr(line, '/'));
    if (maps)
        fclose(maps);
    if (!cupti[0])
        fail("no libcupti in this process (trace.cupti=)", 0);
}

enum kind { NONE, BARE, BARE_CALLBACKS, OURS };
enum { M_NONE, M_BARE };
static const struct mode {
    const char *name;
    enum kind kind;
    const char *copies, *nvtx, *launches;
} modes[] = {
    {"none", NONE, "", "0", ""},
    {"bare CUPTI kernel records", BARE, "", "0", ""},
    {"bare + empty launch callbacks", BARE_CALLBACKS, "", "0", ""},
    {"ours: kernels", OURS, "0", "0", "0"},
    {"ours: kernels + NVTX", OURS, "0", "1", "0"},
    {"ours: kernels + NVTX + launch times", OURS, "0", "1", "1"},
    {"ours: all (default)", OURS, "1", "1", "1"},
};
enum { MODES = sizeof modes / sizeof *modes };

static void start(const struct mode *m)
{
    int error = 0;
    if (m->kind == BARE || m->kind == BARE_CALLBACKS) {
        if ((error = bare_start(cupti)) ||
            (m->kind == BARE_CALLBACKS && (error = bare_subscribe())))
            fail("bare CUPTI", error);
    } else if (m->kind == OURS) {
        const char *const pairs[] = {"copies", m->copies,  "sync",      m->copies, "nvtx",
                                     m->nvtx,  "launches", m->launches, NULL};
        if (!guest.configure(pairs) || guest.resume() != 1)
            fail(m->name, 0);
    }
}

static void take_all(const struct mode *m)
{
    if (m->kind == BARE || m->kind == BARE_CALLBACKS)
        bare_flush();
    else if (m->kind == OURS)
        guest.flush();
}

static uint64_t bare_records;

static void stop(const struct mode *m)
{
    if (m->kind == BARE || m->kind == BARE_CALLBACKS)
        bare_records += bare_stop();
    else if (m->kind == OURS)
        guest.pause();
}

enum { WALL, THREAD, PROCESS, MEASURES };
static double ns[MODES][MEASURES][ROUNDS_MAX]; /* per launch */

static void measure(int which, int round)
{
    const struct mode *m = &modes[which];
    bool ranges = m->nvtx[0] == '1';
    start(m);
    step(ranges);
    int64_t wall = now_ns(CLOCK_MONOTONIC), thread = now_ns(CLOCK_THREAD_CPUTIME_ID),
            process = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < STEPS; i++)
        step(ranges);
    wall = now_ns(CLOCK_MONOTONIC) - wall;
    thread = now_ns(CLOCK_THREAD_CPUTIME_ID) - thread;
    take_all(m);
    process = now_ns(CLOCK_PROCESS_CPUTIME_ID) - process;
    stop(m);
    double n = (double)STEPS * LAUNCHES;
    ns[which][WALL][round] = (double)wall / n;
    ns[which][THREAD][round] = (double)thread / n;
    ns[which][PROCESS][round] = (double)process / n;
}

static int rounds(double seconds)
{
    int64_t end = now_ns(CLOCK_MONOTONIC) + (int64_t)(seconds * 1e9);
    int n = 0;
    while (n < ROUNDS_MAX && (n < 7 || now_ns(CLOCK_MONOTONIC) < end)) {
        int order[MODES];
        for (int i = 0; i < MODES; i++)
            order[i] = i;
        for (int i = MODES - 1; i > 0; i--) {
            int j = (int)(random_next() % (uint64_t)(i + 1)), kept = order[i];
            order[i] = order[j];
            order[j] = kept;
        }
        for (int i = 0; i < MODES; i++)
            measure(order[i], n);
        n++;
    }
    return n;
}

/* ---- the table ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

struct estimate {
    double middle, low, high;
};

/* The median of v with its bootstrap interval. v is sorted first, so a resample is sorted when it
 * is put down by rank. */
static struct estimate estimate(double *v, int n)
{
    static double medians[RESAMPLES], draw[ROUNDS_MAX];
    struct estimate e = {.middle = median(v, n)};
    for (int r = 0; r < RESAMPLES; r++) {
        static int hits[ROUNDS_MAX];
        memset(hits, 0, sizeof *hits * (size_t)n);
        for (int i = 0; i < n; i++)
            hits[random_next() % (uint64_t)n]++;
        int k = 0;
        for (int i = 0; i < n; i++)
            for (int h = 0; h < hits[i]; h++)
                draw[k++] = v[i];
        medians[r] = n % 2 ? draw[n / 2] : (draw[n / 2 - 1] + draw[n / 2]) / 2;
    }
    median(medians, RESAMPLES);
    e.low = medians[RESAMPLES / 40];
    e.high = medians[RESAMPLES - 1 - RESAMPLES / 40];
    return e;
}

/* Mode against another, by round: in ns a launch, or in per cent of the round's time without
 * recording. */
static struct estimate against(int mode, int other, int measure, bool percent, int n)
{
    static double d[ROUNDS_MAX];
    for (int i = 0; i < n; i++) {
        d[i] = ns[mode][measure][i] - ns[other][measure][i];
        if (percent)
            d[i] *= 100 / ns[M_NONE][measure][i];
    }
    return estimate(d, n);
}

static void table(int n, int64_t work_ns)
{
    static const char *const measures[] = {"wall time", "CPU time of the launching thread",
                                           "CPU time of the process, records taken"};
    printf("\n%d rounds of %d steps of %d launches and %d ranges, %" PRId64
           " ns of host work a launch; "
           "bare CUPTI saw %" PRIu64 " kernels\n",
           n, STEPS, LAUNCHES, 1 + LAYERS * (1 + OPS), work_ns, bare_records);
    for (int m = 0; m < MEASURES; m++) {
        printf("\n%s, ns a launch (median of rounds; paired differences; 95 %% intervals)\n"
               "| mode | ns | above none, ns | %% of none | above bare, ns | points above bare |\n"
               "|---|---|---|---|---|---|\n",
               measures[m]);
        for (int i = 0; i < MODES; i++) {
            static double copy[ROUNDS_MAX];
            memcpy(copy, ns[i][m], sizeof copy);
            printf("| %s | %.0f |", modes[i].name, median(copy, n));
            for (int c = 0; c < 4; c++) {
                struct estimate e = against(i, c < 2 ? M_NONE : M_BARE, m, c % 2 == 1, n);
                printf(c % 2 ? " %+.2f (%+.2f .. %+.2f) |" : " %+.0f (%+.0f .. %+.0f) |", e.middle,
                       e.low, e.high);
            }
            printf("\n");
        }
    }
}

static void write_json(const char *path, int n, int64_t work_ns)
{
    static const char *const measures[] = {"wall", "thread_cpu", "process_cpu"};
    FILE *f = fopen(path, "w");
    if (!f)
        fail(path, 0);
    fprintf(f, "{\"work_ns\": %" PRId64 ", \"launches\": %d, \"steps\": %d, \"ns_a_launch\": {",
            work_ns, LAUNCHES, STEPS);
    for (int i = 0; i < MODES; i++) {
        fprintf(f, "%s\n\"%s\": {", i ? "," : "", modes[i].name);
        for (int m = 0; m < MEASURES; m++) {
            fprintf(f, "%s\"%s\": [", m ? ", " : "", measures[m]);
            for (int r = 0; r < n; r++)
                fprintf(f, "%s%.1f", r ? "," : "", ns[i][m][r]);
            fprintf(f, "]");
        }
        fprintf(f, "}");
    }
    fprintf(f, "}}\n");
    fclose(f);
}

int main(int argc, char **argv)
{
    int64_t work_ns = 0;
    double seconds = 60;
    const char *json = NULL;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "work_ns=", 8) == 0)
            work_ns = strtoll(argv[i] + 8, NULL, 10);
        else if (strncmp(argv[i], "seconds=", 8) == 0)
            seconds = strtod(argv[i] + 8, NULL);
        else if (strncmp(argv[i], "json=", 5) == 0)
            json = argv[i] + 5;
        else
            fail("unknown word", i);
    }
    open_gpu();
    open_guest();
    guest.pause();
    make_work(work_ns);
    for (int i = 0; i < 5; i++)
        step(false);
    for (int i = 0; i < MODES; i++) /* a first round, cold, that does not count */
        measure(i, 0);
    bare_records = 0;
    int n = rounds(seconds);
    table(n, work_ns);
    if (json)
        write_json(json, n, work_ns);
    return 0;
}
