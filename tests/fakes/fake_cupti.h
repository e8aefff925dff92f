/* A stand-in for libcupti, and what a test program drives it with.
 *
 * Work is put on an imaginary GPU: every call below gets a correlation id, raises the driver-API
 * callbacks that the recorder asked for, and leaves an activity record when the kind is enabled.
 * Records wait until fake_complete (or a flush) gives them times and puts them into buffers; full
 * buffers are handed over at once. As in CUPTI, records find no room when the client gives no
 * buffer: they are dropped and counted. CUDA graphs are instantiated by their first launch; as with
 * CUPTI 13.0, the program ends with SIGSEGV when one is launched that was instantiated without
 * graph-level records and they are enabled, or were once and kernel records are enabled by then.
 *
 * Scripted failures are words of FAKE_CUPTI, separated by commas:
 *   version=N      what cuptiGetVersion says
 *   subscribe=N    error of cuptiSubscribe
 *   enable=K:N     error N of enabling activity kind K
 *   reverse        records are completed in reverse order
 *   nulltimes      every tenth kernel has no times
 *   lateclock      the clock that is registered is used from fake_take_clock on
 * Builds with FAKE_OLD lack the timestamp callback (their clock is the wall clock, which
 * fake_step moves); builds with FAKE_BROKEN lack cuptiActivityFlushAll. */
#ifndef FAKES_FAKE_CUPTI_H
#define FAKES_FAKE_CUPTI_H

#include <stddef.h>
#include <stdint.h>

struct fake_kernel {
    const char *name;
    uint32_t grid, block, stream, graph;
    uint64_t graph_node;
};

/* A call of another stand-in for the driver, with its arguments: support/fake_gpu/observe.c. */
struct fake_call {
    uint32_t cbid, correlation;
    const char *name;
    const void *params;
    void *context;
    int result;
    uint64_t data;
};
void fake_enter(struct fake_call *c);
void fake_leave(struct fake_call *c);
void fake_resource(uint32_t cbid, uint32_t module, const void *image, size_t bytes);
/* Records of work that the call put on the device. graph_node: 0 = none. */
void fake_kernel(const struct fake_call *c, const char *name, uint32_t grid, uint32_t block,
                 uint64_t graph_node);
void fake_transfer(const struct fake_call *c, int is_set, uint64_t bytes, uint64_t graph_node);

uint32_t fake_launch(const struct fake_kernel *k); /* returns the correlation id */
/* One cuGraphLaunch of n nodes, each a kernel of 1 us. */
uint32_t fake_graph_launch(uint32_t graph, int n);
uint32_t fake_copy(uint64_t bytes, uint8_t kind);
uint32_t fake_set(uint64_t bytes);
void fake_synchronize(void);
void fake_profiler(int start);
void fake_complete(void);
/* n kernels straight into the buffers, as the GPU side of graph launches: no callbacks. */
void fake_burst(uint64_t n);
void fake_step(int64_t ns);
void fake_take_clock(void);
void fake_lose(uint64_t n);     /* as if no buffer had been given for n records */
uint64_t fake_dropped(void);    /* in total */
void fake_foreign_buffer(void); /* completed, though the client never gave it */
int fake_subscribers(void);
int fake_enabled(int kind);
int fake_called(int cbid); /* is that function of the driver called back? */

#endif
