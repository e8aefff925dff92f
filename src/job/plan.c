#include "job/plan.h"

#include "job/options/options.h"
#include "serve/sched/sched.h"
#include "sim/predictor.h"
#include "workload/format.h"

#define WHOLE(section)                             \
    {                                              \
        &section##_options, 0, sizeof(struct plan) \
    }
#define PART(section, field)                                                                 \
    {                                                                                        \
        &section##_options, offsetof(struct plan, field), sizeof((struct plan *)NULL)->field \
    }

static const struct option_place places[] = {
    WHOLE(job),
    PART(device, engine),
    PART(hardware, hardware),
    WHOLE(model),
    PART(workload, workload),
    PART(scheduler, serve),
    PART(cluster, serve),
    WHOLE(parallel),
    WHOLE(predictor),
    PART(engine, engine),
    WHOLE(url),
    PART(server, server),
    WHOLE(goodput),
    PART(client, client),
    PART(worker, worker),
    WHOLE(profile),
    WHOLE(sim),
    WHOLE(search),
    WHOLE(calibrate),
    WHOLE(fit),
    WHOLE(settings),
    WHOLE(compare),
    WHOLE(output),
    WHOLE(kernels),
    PART(trace, trace),
    PART(capture, capture),
    PART(trace_library, trace),
    PART(replay, replay),
    WHOLE(logits),
    WHOLE(energy),
    PART(deep, deep),
    WHOLE(doctor),
};

static const struct option_capability *const capabilities[] = {
    engine_capabilities, sched_capabilities, predictor_capabilities, format_capabilities, NULL,
};

const struct option_table option_table = {
    places,
    sizeof places / sizeof *places,
    sizeof(struct plan),
    capabilities,
};
