/* inject/handlers.c alone: the table, and what is switched on when. */
#include "inject/handlers.h"

#include "inject/cupti.h"
#include "support/support.h"

enum { IDS = 1024 };

struct guest guest;
__thread struct guest_thread guest_thread;
static int enabled[4][IDS]; /* on less off */
static int switches;
static bool launches_wanted, profiler_wanted, captures_wanted;
static struct {
    int launches, profiler, work, first_work, memory, images;
    CUpti_CallbackId id;
    int busy;
} seen;

void inject_cupti_callback(CUpti_CallbackDomain domain, uint32_t id, bool on)
{
    assert_true((unsigned)domain < 4 && id < IDS);
    enabled[domain][id] += on ? 1 : -1;
    assert_in_range(enabled[domain][id], 0, 1); /* no function stands in two rows */
    switches++;
}

static bool wants_launches(void)
{
    return launches_wanted;
}
static bool wants_profiler(void)
{
    return profiler_wanted;
}
static void launch_called(struct guest_thread *me, const CUpti_CallbackData *d, CUpti_CallbackId id)
{
    (void)d;
    seen.launches++;
    seen.id = id;
    seen.busy = me->busy;
}
static void profiler_called(struct guest_thread *me, const CUpti_CallbackData *d,
                            CUpti_CallbackId id)
{
    (void)me, (void)d;
    seen.profiler++;
    seen.id = id;
}
const struct handler inject_handler_launch = {WHILE_RECORDING, wants_launches, launch_called, NULL};
const struct handler inject_handler_profiler = {WHILE_SUBSCRIBED, wants_profiler, profiler_called,
                                                NULL};

static bool wants_captures(void)
{
    return captures_wanted;
}
static void work_called(struct guest_thread *me, const CUpti_CallbackData *d, CUpti_CallbackId id)
{
    (void)me, (void)d, (void)id;
    seen.first_work += seen.work == seen.launches;
    seen.work++;
}
static void memory_called(struct guest_thread *me, const CUpti_CallbackData *d, CUpti_CallbackId id)
{
    (void)me, (void)d, (void)id;
    seen.memory++;
}
static void image_called(struct guest_thread *me, const CUpti_CallbackData *d, CUpti_CallbackId id)
{
    (void)me, (void)d, (void)id;
    seen.images++;
}
const struct handler inject_handler_capture_work = {WHILE_RECORDING, wants_captures, work_called,
                                                    NULL};
const struct handler inject_handler_capture_launched = {WHILE_SUBSCRIBED, wants_captures,
                                                        work_called, NULL};
const struct handler inject_handler_capture_memory = {WHILE_SUBSCRIBED, wants_captures,
                                                      memory_called, NULL};
const struct handler inject_handler_capture_module = {WHILE_SUBSCRIBED, wants_captures,
                                                      memory_called, NULL};
const struct handler inject_handler_capture_graph = {WHILE_SUBSCRIBED, wants_captures,
                                                     memory_called, NULL};
const struct handler inject_handler_capture_younger = {WHILE_RECORDING, wants_captures,
                                                       memory_called, NULL};
const struct handler inject_handler_capture_image = {WHILE_SUBSCRIBED, wants_captures, image_called,
                                                     NULL};

static int fresh(void **state)
{
    (void)state;
    inject_handlers_forget();
    memset(enabled, 0, sizeof enabled);
    memset(&seen, 0, sizeof seen);
    switches = 0;
    launches_wanted = profiler_wanted = true;
    captures_wanted = false;
    atomic_store(&guest.state, GUEST_ON);
    return 0;
}

#define DRIVER(name)  enabled[CUPTI_CB_DOMAIN_DRIVER_API][CUPTI_DRIVER_TRACE_CBID_##name]
#define RUNTIME(name) enabled[CUPTI_CB_DOMAIN_RUNTIME_API][CUPTI_RUNTIME_TRACE_CBID_##name]

static void each_span_switches_its_own(void **state)
{
    (void)state;
    inject_handlers_switch(WHILE_SUBSCRIBED, true);
    assert_true(DRIVER(cuProfilerStart) && DRIVER(cuProfilerStop));
    assert_true(RUNTIME(cudaProfilerStart_v4000) && RUNTIME(cudaProfilerStop_v4000));
    assert_int_equal(switches, 4);
    inject_handlers_switch(WHILE_RECORDING, true);
    assert_true(DRIVER(cuLaunchKernel) && DRIVER(cuLaunchKernelEx_ptsz) && DRIVER(cuGraphLaunch));
    int all = switches;
    inject_handlers_switch(WHILE_RECORDING, true);
    assert_int_equal(switches, all);
    inject_handlers_switch(WHILE_RECORDING, false);
    assert_int_equal(switches, 2 * all - 4);
    assert_true(!DRIVER(cuLaunchKernel) && DRIVER(cuProfilerStart));
}

static void what_the_settings_do_not_ask_for_stays_off(void **state)
{
    (void)state;
    launches_wanted = profiler_wanted = false;
    inject_handlers_switch(WHILE_SUBSCRIBED, true);
    inject_handlers_switch(WHILE_RECORDING, true);
    assert_int_equal(switches, 0);
    launches_wanted = true;
    inject_handlers_switch(WHILE_RECORDING, true);
    assert_true(DRIVER(cuLaunchKernel));
    launches_wanted = false; /* the settings change meanwhile */
    inject_handlers_switch(WHILE_RECORDING, false);
    assert_false(DRIVER(cuLaunchKernel));
}

static void what_cupti_switched_off_is_switched_on_again(void **state)
{
    (void)state;
    inject_handlers_switch(WHILE_RECORDING, true);
    int all = switches;
    inject_handlers_forget();
    memset(enabled, 0, sizeof enabled);
    inject_handlers_switch(WHILE_RECORDING, true);
    assert_int_equal(switches, 2 * all);
}

static void a_call_finds_its_handler(void **state)
{
    (void)state;
    inject_handlers_switch(WHILE_SUBSCRIBED, true);
    inject_handlers_switch(WHILE_RECORDING, true);
    inject_handlers_call(NULL, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
                         NULL);
    assert_true(seen.launches == 1 && seen.id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel);
    assert_int_equal(seen.busy, 1);
    inject_handlers_call(NULL, CUPTI_CB_DOMAIN_RUNTIME_API,
                         CUPTI_RUNTIME_TRACE_CBID_cudaProfilerStop_v4000, NULL);
    assert_int_equal(seen.profiler, 1);
    assert_int_equal(guest_thread.busy, 0);
    inject_handlers_call(NULL, CUPTI_CB_DOMAIN_DRIVER_API, 1, NULL); /* in no row */
    inject_handlers_call(NULL, CUPTI_CB_DOMAIN_DRIVER_API, 5000, NULL);
    inject_handlers_call(NULL, (CUpti_CallbackDomain)7, 307, NULL);
    guest_thread.busy = 1; /* our own call of CUDA */
    inject_handlers_call(NULL, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
                         NULL);
    guest_thread.busy = 0;
    atomic_store(&guest.state, GUEST_ENDED);
    inject_handlers_call(NULL, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
                         NULL);
    assert_true(seen.launches == 1 && seen.profiler == 1);
}

/* A function in both tables is switched on once; at its return the recorder's handler is first. */
static void a_capture_sees_the_same_calls(void **state)
{
    (void)state;
    captures_wanted = true;
    inject_handlers_switch(WHILE_SUBSCRIBED, true);
    assert_true(DRIVER(cuMemAlloc_v2) && DRIVER(cuGraphInstantiateWithFlags) &&
                DRIVER(cuModuleLoadDataEx) && !DRIVER(cuLaunchKernel));
    assert_true(enabled[CUPTI_CB_DOMAIN_RESOURCE][CUPTI_CBID_RESOURCE_MODULE_LOADED]);
    inject_handlers_switch(WHILE_RECORDING, true);
    assert_int_equal(DRIVER(cuLaunchKernel), 1);
    assert_true(DRIVER(cuStreamSynchronize) && DRIVER(cuEventQuery) && DRIVER(cuMemcpyBatchAsync));
    CUpti_CallbackData d = {.callbackSite = CUPTI_API_ENTER};
    const CUpti_CallbackId id = CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel;
    inject_handlers_call(NULL, CUPTI_CB_DOMAIN_DRIVER_API, id, &d);
    assert_true(seen.work == 1 && seen.first_work == 1 && seen.launches == 1);
    d.callbackSite = CUPTI_API_EXIT;
    inject_handlers_call(NULL, CUPTI_CB_DOMAIN_DRIVER_API, id, &d);
    assert_true(seen.work == 2 && seen.first_work == 1 && seen.launches == 2);
    guest_thread.busy = 1; /* a call of this library that loads a module of the program's */
    CUpti_ResourceData r = {0};
    inject_handlers_call(NULL, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_MODULE_LOADED, &r);
    guest_thread.busy = 0;
    assert_int_equal(seen.images, 1);
    inject_handlers_switch(WHILE_RECORDING, false);
    assert_int_equal(DRIVER(cuLaunchKernel), 0);
    launches_wanted = false; /* the capture still needs it */
    inject_handlers_switch(WHILE_RECORDING, true);
    assert_int_equal(DRIVER(cuLaunchKernel), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_span_switches_its_own, fresh),
        cmocka_unit_test_setup(what_the_settings_do_not_ask_for_stays_off, fresh),
        cmocka_unit_test_setup(what_cupti_switched_off_is_switched_on_again, fresh),
        cmocka_unit_test_setup(a_call_finds_its_handler, fresh),
        cmocka_unit_test_setup(a_capture_sees_the_same_calls, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
