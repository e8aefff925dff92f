/* What CUPTI's graph-level records (GRAPH_TRACE) bear, without any of our code: each case is a
 * sequence of steps in a process of its own; a line tells how it ended and what was recorded.
 * With an argument, that case runs in this process. Built and run by late_graphs.sh.
 *
 *   i  initialize the driver, make a context    S U  subscribe, unsubscribe
 *   K k  kernel records on, off                 G g  graph-level records on, off
 *   N  instantiate one more CUDA graph of two kernels          D  destroy all of them
 *   L  launch every graph there is, wait        P  launch a kernel without a graph, wait
 *   F  flush, forced                            =  forget what was counted so far
 *   X  cuptiFinalize, as PyTorch's profiler with TEARDOWN_CUPTI=1, and register buffers again
 *   Z  from here on CUPTI is given no buffers (z: it is) */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda.h>
#include <cupti.h>

static unsigned long kernels, in_graphs, graphs;
static _Atomic int starved;
static CUgraphExec execs[16];
static int n_execs;
static CUfunction function;
static CUstream stream;
static CUpti_SubscriberHandle subscriber;

static const char source[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                             ".visible .entry nothing()\n{\n    ret;\n}\n";

static void check(int error, const char *what)
{
    if (error) {
        printf("%s: error %d", what, error);
        fflush(stdout);
        _exit(1);
    }
}
#define CHECK(call) check((int)(call), #call)

static void CUPTIAPI request(uint8_t **buffer, size_t *bytes, size_t *most)
{
    *most = 0;
    *bytes = starved ? 0 : 1 << 20;
    *buffer = starved ? NULL : aligned_alloc(4096, *bytes);
}

static void CUPTIAPI completed(CUcontext context, uint32_t id, uint8_t *buffer, size_t bytes,
                               size_t valid)
{
    (void)context, (void)id, (void)bytes;
    CUpti_Activity *record = NULL;
    while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
        if (record->kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE)
            graphs++;
        else if (((CUpti_ActivityKernel10 *)record)->graphId)
            in_graphs++;
        else
            kernels++;
    }
    free(buffer);
}

static void CUPTIAPI called(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                            const void *data)
{
    (void)user, (void)domain, (void)id, (void)data;
}

static void initialize(void)
{
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, source));
    CHECK(cuModuleGetFunction(&function, module, "nothing"));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

static void instantiate(void)
{
    CUgraph graph;
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (int i = 0; i < 2; i++)
        CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&execs[n_execs++], graph, 0));
}

static void step(char what)
{
    switch (what) {
    case 'i':
        initialize();
        break;
    case 'S':
        CHECK(cuptiSubscribe(&subscriber, called, NULL));
        break;
    case 'U':
        CHECK(cuptiUnsubscribe(subscriber));
        break;
    case 'K':
        CHECK(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
        break;
    case 'k':
        CHECK(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
        break;
    case 'G':
        CHECK(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE));
        break;
    case 'g':
        CHECK(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE));
        break;
    case 'N':
        instantiate();
        break;
    case 'D':
        while (n_execs > 0)
            CHECK(cuGraphExecDestroy(execs[--n_execs]));
        break;
    case 'L':
        for (int i = 0; i < n_execs; i++)
            CHECK(cuGraphLaunch(execs[i], stream));
        CHECK(cuStreamSynchronize(stream));
        break;
    case 'P':
        CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
        CHECK(cuStreamSynchronize(stream));
        break;
    case 'F':
        CHECK(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
        break;
    case 'X':
        CHECK(cuptiFinalize());
        CHECK(cuptiActivityRegisterCallbacks(request, completed));
        break;
    case 'Z':
    case 'z':
        starved = what == 'Z';
        break;
    case '=':
        CHECK(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
        kernels = in_graphs = graphs = 0;
        break;
    default:
        break;
    }
}

static int run(const char *steps)
{
    CHECK(cuptiActivityRegisterCallbacks(request, completed));
    for (const char *s = steps; *s; s++)
        step(*s);
    CHECK(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
    printf("kernels %lu, in graphs %lu, graphs %lu", kernels, in_graphs, graphs);
    fflush(stdout);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return run(argv[1]);
    static const char *const cases[] = {
        "G i NL L",
        "i G NL L",
        "i NL G L",
        "i N G L",
        "i NL G NL",
        "i NL D G NL",
        "i K NL G L",
        "i K N L k G K L",
        "G i N L g L G L",
        "G i N L g G L",
        "G i g N L G L",
        "S G i NL g U S G L",
        "S G i NL g U NL S G L",
        "S G i NL U L = NL S L",
        "G i NL K PL = PNL k PL",
        "i NL K = PL NL",
        "i NL S K = PL NL",
        "K i NL k = L K = PL",
        "G K i NL g = PL NL",
        "G K i NL g k NL = K PL",
        "G K i NL k = PL",
        "S K i NL U k L = S K PL",
        "S i G NL L",
        "S K G i NL g K = PL = G PL",
        "G i P g P NL = K PL NL",
        "G K i PNL g k NL = g K PL",
        "S G K i NL k U Z NL L z S K = PL NL",
        "G K i NL k X K = PL NL",
        "G K i NL k X NL K = PL",
        "K i NL k X K = PL NL",
        "G K i NL k X G K = PL",
        "S G K i NL k U K = PL k X S K = PL NL",
        "K i NL k X L",
        "i NL K PL k X L",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        printf("%-28s ", cases[i]);
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            execl("/proc/self/exe", argv[0], cases[i], NULL);
            _exit(127);
        }
        int status = 0;
        waitpid(pid, &status, 0);
        if (WIFSIGNALED(status))
            printf("SIGNAL %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
        printf("\n");
    }
    return 0;
}
