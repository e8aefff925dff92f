/* The program that the tests trace: app STEP... does the steps in order. See the table. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fakes/fake_cupti.h"
#include "fakes/fake_nvtx.h"
#include "gpu/cuda.h"

int cuInit(unsigned flags);

static char **args;
static nvtxDomainHandle_t llm;

static void sleep_ms(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&t, &t) != 0 && errno == EINTR)
        ;
}

static void init(long n)
{
    (void)n;
    cuInit(0);
}

static void kernels(long n)
{
    for (long i = 0; i < n; i++)
        fake_launch(&(struct fake_kernel){
            .name = i % 2 ? "_Z4normPf" : "_Z4gemmPfS_S_", .grid = 8, .block = 256});
}

static void ops(long n) /* one of each */
{
    for (long i = 0; i < n; i++) {
        fake_copy(4096, 1);
        fake_set(64);
        fake_graph_launch(5, 3);
        fake_synchronize();
    }
}

static void graph(long n) /* launch CUDA graph n, of three kernels */
{
    fake_graph_launch((uint32_t)n, 3);
    fake_synchronize();
}

/* As NCCL: an operation of n bytes in a domain of its own, its numbers by a static schema; and the
 * range of an initialization, ended by the extension, which adds a number. */
static void payload(long n)
{
    enum { REDOP = NVTX_PAYLOAD_SCHEMA_ID_STATIC_START, ALL_REDUCE, INIT };
    struct all_reduce {
        uint64_t communicator;
        size_t bytes;
        int op;
        float share;
        char tag[8];
        const char *text;
    } all = {
        .communicator = 77, .bytes = (size_t)n, .op = 2, .share = 0.25F, .tag = "x", .text = "y"};
    static const nvtxPayloadSchemaEntry_t entries[] = {
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_UINT64, .name = "NCCL communicator ID"},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_SIZE, .name = "Message size [\"bytes\"]"},
        {.type = REDOP, .name = "Reduction operation", .offset = offsetof(struct all_reduce, op)},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_FLOAT, .name = "Share"},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_CHAR,
         .flags = NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE,
         .arrayOrUnionDetail = sizeof all.tag,
         .name = "tag"},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, .name = "text"},
    };
    static const nvtxPayloadSchemaEntry_t message[] = {
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, .flags = NVTX_PAYLOAD_ENTRY_FLAG_EVENT_MESSAGE},
        {.type = NVTX_PAYLOAD_ENTRY_TYPE_INT32, .name = "rank"},
    };
    enum {
        FIELDS = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
                 NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
                 NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID
    };
    nvtxPayloadEnumAttr_t redop = {.fieldMask = NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE |
                                                NVTX_PAYLOAD_ENUM_ATTR_FIELD_SCHEMA_ID,
                                   .sizeOfEnum = sizeof(int),
                                   .schemaId = REDOP};
    nvtxPayloadSchemaAttr_t schema = {.fieldMask = FIELDS,
                                      .type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC,
                                      .entries = entries,
                                      .numEntries = sizeof entries / sizeof *entries,
                                      .schemaId = ALL_REDUCE};
    nvtxDomainHandle_t nccl = nvtxDomainCreateA("NCCL");
    nvtxPayloadEnumRegister(nccl, &redop);
    nvtxPayloadSchemaRegister(nccl, &schema);
    schema.entries = message;
    schema.numEntries = sizeof message / sizeof *message;
    schema.schemaId = INIT;
    nvtxPayloadSchemaRegister(nccl, &schema);
    schema.fieldMask &= ~(uint64_t)NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID;
    uint64_t own = nvtxPayloadSchemaRegister(nccl, &schema);

    struct {
        const char *text;
        int32_t rank;
    } init = {"ncclCommInitRankConfig", -3};
    nvtxPayloadData_t data[] = {{INIT, sizeof init, &init}, {ALL_REDUCE, sizeof all, &all}};
    nvtxRangePushPayload(nccl, data, 1);
    nvtxRangePopPayload(nccl, &data[1], 1);

    nvtxEventAttributes_t a = {.version = NVTX_VERSION,
                               .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                               .messageType = NVTX_MESSAGE_TYPE_ASCII,
                               .message = {.ascii = "ncclAllReduce"},
                               .payloadType = NVTX_PAYLOAD_TYPE_EXT,
                               .reserved0 = 1,
                               .payload = {.ullValue = (uint64_t)(uintptr_t)&data[1]}};
    nvtxDomainRangePushEx(nccl, &a);
    kernels(1);
    nvtxDomainRangePop(nccl);

    data[0].schemaId = own;
    init.text = "started";
    nvtxRangeId_t id = nvtxRangeStartPayload(nccl, data, 1);
    double seconds = 1e-7;
    nvtxRangeEndPayload(
        nccl, id, &(nvtxPayloadData_t){NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE, sizeof seconds, &seconds},
        1);
    init.text = "marked";
    nvtxMarkPayload(nccl, data, 1);
    nvtxMarkPayload(nccl, &(nvtxPayloadData_t){12345, 8, &init}, 1); /* no schema of that id */
}

static void foreign(long n)
{
    (void)n;
    fake_foreign_buffer();
}

static void decode(long n) /* n steps, each a range with two kernels, one kernel between them */
{
    nvtxRangePushA("generate");
    for (long i = 0; i < n; i++) {
        nvtxRangePushA("decode");
        kernels(2);
        nvtxRangePop();
        kernels(1);
    }
    nvtxRangePop();
}

/* A rank of a model that is split: a barrier outside the steps, then n steps with an all-reduce. */
static void rank(long n)
{
    const struct fake_kernel reduce = {
        .name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", .grid = 16, .block = 512};
    fake_launch(&reduce);
    for (long i = 0; i < n; i++) {
        nvtxRangePushA(i ? "decode" : "prefill");
        kernels(1);
        fake_launch(&reduce);
        nvtxRangePop();
    }
}

static void domain(long n) /* the same in domain LLM, with a registered string */
{
    if (!llm)
        llm = nvtxDomainCreateA("LLM");
    nvtxStringHandle_t text = nvtxDomainRegisterStringA(llm, "decode_all");
    nvtxEventAttributes_t a = {.version = NVTX_VERSION,
                               .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                               .messageType = NVTX_MESSAGE_TYPE_REGISTERED,
                               .message = {.registered = text},
                               .payloadType = NVTX_PAYLOAD_TYPE_INT64,
                               .payload = {.llValue = n}};
    nvtxDomainRangePushEx(llm, &a);
    kernels(n);
    nvtxDomainRangePop(llm);
    nvtxRangeId_t id = nvtxDomainRangeStartEx(llm, &a);
    nvtxDomainRangeEnd(llm, id);
    nvtxMarkA("here");
}

static void ends(long n) /* of ranges that nobody started */
{
    for (long i = 0; i < n; i++)
        nvtxRangeEnd((nvtxRangeId_t)(1000000 + i) << 1);
}

static void open_range(long n)
{
    (void)n;
    nvtxRangePushA("outer");
}

static void profiler(long n)
{
    fake_profiler(n != 0);
}

static int guest_call(const char *name)
{
    int (*f)(void) = NULL;
    void *lib = dlopen(getenv("CUDA_INJECTION64_PATH"), RTLD_NOW | RTLD_NOLOAD);
    if (lib)
        *(void **)&f = dlsym(lib, name);
    return f ? f() : -1;
}

static void configure(long n) /* copies on or off, as a program under way asks for it */
{
    int (*f)(const char *const *) = NULL;
    void *lib = dlopen(getenv("CUDA_INJECTION64_PATH"), RTLD_NOW | RTLD_NOLOAD);
    if (lib)
        *(void **)&f = dlsym(lib, "tw_trace_configure");
    int ok =
        f ? f((const char *const[]){"copies", n ? "1" : "0", "launches", n ? "1" : "0", NULL}) : -1;
    printf("configured: %d, kernels %d, copies %d, launches %d\n", ok, fake_enabled(10),
           fake_enabled(1), fake_called(307));
}

static void level(long n) /* of graphs: 1 whole, 0 kernel by kernel; as a program under way asks */
{
    int (*f)(const char *const *) = NULL;
    void *lib = dlopen(getenv("CUDA_INJECTION64_PATH"), RTLD_NOW | RTLD_NOLOAD);
    if (lib)
        *(void **)&f = dlsym(lib, "tw_trace_configure");
    int ok = f ? f((const char *const[]){"graphs", n ? "graph" : "node", NULL}) : -1;
    printf("graphs: %d\n", ok);
}

static void attach(long n) /* load the recorder into a program that runs already */
{
    int (*f)(void) = NULL;
    void *lib = dlopen(getenv("LATE_INJECTION"), RTLD_NOW);
    if (lib)
        *(void **)&f = dlsym(lib, "InitializeInjection");
    printf("attached: %d\n", f ? f() : -1);
    (void)n;
}

static void pause_it(long n)
{
    (void)n;
    guest_call("tw_trace_pause");
    printf("paused: %d subscribers, kernels %d\n", fake_subscribers(), fake_enabled(10));
}

static void resume(long n)
{
    (void)n;
    int ok = guest_call("tw_trace_resume");
    printf("resumed: %d, %d subscribers, kernels %d\n", ok, fake_subscribers(), fake_enabled(10));
}

static void flush(long n)
{
    (void)n;
    guest_call("tw_trace_flush");
}

/* n million kernels a second for a quarter second, then a quarter's rest, four times. */
static void burst(long n)
{
    for (int round = 0; round < 4; round++) {
        struct timespec from, now;
        clock_gettime(CLOCK_MONOTONIC, &from);
        for (int i = 0; i < 250; i++) {
            fake_burst((uint64_t)n * 1000);
            do
                clock_gettime(CLOCK_MONOTONIC, &now);
            while ((now.tv_sec - from.tv_sec) * 1000 + (now.tv_nsec - from.tv_nsec) / 1000000 <= i);
        }
        sleep_ms(250);
    }
    printf("dropped %llu\n", (unsigned long long)fake_dropped());
}

static void *work(void *n)
{
    for (long i = 0; i < (long)n; i++) {
        nvtxRangePushA("thread");
        kernels(1);
        nvtxRangePop();
    }
    return NULL;
}

static void threads(long n) /* four, n kernels each */
{
    pthread_t t[4];
    nvtxInitialize(NULL); /* NVTX's own first call is not made for several threads at once */
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, work, (void *)n);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
}

static void *push_and_leave(void *n)
{
    nvtxRangePushA("decode");
    kernels((long)n);
    return NULL;
}

static void abandon(long n) /* a thread ends inside its range, after n kernels */
{
    pthread_t t;
    pthread_create(&t, NULL, push_and_leave, (void *)n);
    pthread_join(t, NULL);
}

/* AddressSanitizer does not expect a fork. Its allocator's locks stay taken in the child if another
 * thread held one, so the recorder's thread, which allocates as it starts, must be past that; and
 * its leak check would miss the threads that fork did not copy, so a child goes without. */
static int in_child;
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return in_child;
}

static void fork_it(long n) /* the child records ranges, the parent goes on */
{
    if (UNDER_ASAN)
        flush(0);
    pid_t child = fork();
    if (child == 0) {
        in_child = 1;
        nvtxRangePushA("child");
        nvtxRangePop();
        exit(n == 1 ? 0 : 3);
    }
    int status;
    waitpid(child, &status, 0);
}

static void exec_it(long n)
{
    static char init_word[] = "init", five[] = "kernels=5";
    (void)n;
    execv("/proc/self/exe", (char *[]){args[0], init_word, five, NULL});
}

static FILE *own[16];

static void close_all(long n) /* what daemons do, and then n files of its own */
{
    for (int fd = 3; fd < 256; fd++)
        close(fd);
    for (long i = 0; i < n && i < 16; i++) {
        own[i] = tmpfile();
        if (own[i] && (fputs("mine", own[i]) == EOF || fflush(own[i]) != 0))
            own[i] = NULL;
    }
}

static void count_own(long n)
{
    long whole = 0;
    for (long i = 0; i < n && i < 16; i++)
        whole += own[i] && fseek(own[i], 0, SEEK_END) == 0 && ftell(own[i]) == 4;
    printf("%ld files untouched\n", whole);
}

/* No handler of pthread_atfork runs: a lock that the recorder's thread holds at that moment (of the
 * allocator, of dlopen, of a sanitizer) would be taken in the child for ever, so that thread is let
 * go to sleep first. */
static void raw_fork(long n)
{
    (void)n;
    flush(0);
    sleep_ms(20);
    long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        in_child = 1;
        exit(0);
    }
    int status;
    waitpid((pid_t)child, &status, 0);
}

static void *work_on(void *n)
{
    sleep_ms(20);
    kernels((long)n);
    return NULL;
}

static void outlive(long n) /* the main thread ends, another goes on for n kernels */
{
    pthread_t t;
    pthread_create(&t, NULL, work_on, (void *)n);
    pthread_detach(t);
    pthread_exit(NULL);
}

static void quick(long n)
{
    quick_exit((int)n);
}

static void deep(long n)
{
    for (long i = 0; i < n; i++)
        nvtxRangePushA("deep");
    for (long i = 0; i < n; i++)
        nvtxRangePop();
}

static void small_disk(long n) /* no file may grow beyond n bytes */
{
    struct rlimit r;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &r);
    r.rlim_cur = (rlim_t)n;
    setrlimit(RLIMIT_FSIZE, &r);
}

static void kill_it(long n)
{
    raise((int)n);
}

static void leave(long n)
{
    _exit((int)n);
}

static void step_clock(long n)
{
    fake_step(n * 1000000);
}

static void take_clock(long n)
{
    (void)n;
    fake_take_clock();
}

static void lose(long n)
{
    fake_lose((uint64_t)n);
}

static void say(long n)
{
    printf("%ld\n", n);
}

static void env(long n)
{
    (void)n;
    const char *s = getenv("TWINFER_TRACE");
    printf("%s\n", s ? s : "no TWINFER_TRACE");
}

static const struct {
    const char *name;
    void (*run)(long n);
} steps[] = {
    {"rank", rank},       {"init", init},         {"kernels", kernels},
    {"ops", ops},         {"decode", decode},     {"domain", domain},
    {"open", open_range}, {"profiler", profiler}, {"pause", pause_it},
    {"resume", resume},   {"flush", flush},       {"burst", burst},
    {"threads", threads}, {"fork", fork_it},      {"exec", exec_it},
    {"disk", small_disk}, {"kill", kill_it},      {"_exit", leave},
    {"sleep", sleep_ms},  {"step", step_clock},   {"say", say},
    {"env", env},         {"clock", take_clock},  {"lose", lose},
    {"abandon", abandon}, {"ends", ends},         {"close", close_all},
    {"own", count_own},   {"rawfork", raw_fork},  {"outlive", outlive},
    {"quick", quick},     {"deep", deep},         {"configure", configure},
    {"graph", graph},     {"foreign", foreign},   {"level", level},
    {"attach", attach},   {"payload", payload},
};

int main(int argc, char **argv)
{
    args = argv;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i < argc; i++) {
        char name[32];
        size_t n = strcspn(argv[i], "=");
        snprintf(name, sizeof name, "%.*s", (int)n, argv[i]);
        long value = argv[i][n] ? strtol(argv[i] + n + 1, NULL, 10) : 1;
        bool known = false;
        for (size_t s = 0; s < sizeof steps / sizeof *steps; s++)
            if (strcmp(name, steps[s].name) == 0) {
                steps[s].run(value);
                known = true;
            }
        if (!known) {
            fprintf(stderr, "app: no step %s\n", name);
            return 2;
        }
    }
    return 0;
}
