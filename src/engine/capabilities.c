#include "engine/registry.h"

enum {
    ELSEWHERE = 1 << 0, /* batches are made by another program */
    SERVER = 1 << 1,    /* which takes HTTP */
    PROGRAM = 1 << 2,   /* which is started here */
    PREDICTS = 1 << 3,  /* times come from a predictor */
    THREADS = 1 << 4,   /* computes on cores of this machine */
    ON_GPU = 1 << 5,    /* computes on a GPU of this machine */
    IDLE = 1 << 6,      /* neither computes nor predicts */
};

static uint32_t abilities(const struct engine *x)
{
    const bool computes = x->needs & ENGINE_WEIGHTS;
    return (x->drive == ENGINE_EXECUTES ? 0u : ELSEWHERE) |
           (x->drive == ENGINE_PROGRAM ? PROGRAM : 0u) | (x->drive == ENGINE_SERVER ? SERVER : 0u) |
           (x->needs & ENGINE_PREDICTOR ? PREDICTS : 0u) |
           (computes && x->devices & ENGINE_ON_CPU ? THREADS : 0u) |
           (computes && x->devices & ENGINE_ON_CUDA ? ON_GPU : 0u) |
           (x->drive == ENGINE_EXECUTES && !x->needs ? IDLE : 0u);
}

static void with_abilities(struct buf *out, uint32_t bits)
{
    for (const struct engine *x = engine_registry; x->name; x++)
        if (abilities(x) & bits)
            option_name(out, x->name);
}

const struct option_capability engine_capabilities[] = {
    {"engine.kind", "elsewhere", with_abilities, ELSEWHERE},
    {"engine.kind", "server", with_abilities, SERVER},
    {"engine.kind", "program", with_abilities, PROGRAM},
    {"engine.kind", "predicts", with_abilities, PREDICTS},
    {"engine.kind", "threads", with_abilities, THREADS},
    {"engine.kind", "gpu", with_abilities, ON_GPU},
    {"engine.kind", "idle", with_abilities, IDLE},
    {0},
};
