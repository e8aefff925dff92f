/* The script of the fake GPU, set by a test. */
#ifndef FAKE_GPU_SCRIPT_H
#define FAKE_GPU_SCRIPT_H

#include <stdlib.h>

#include "support/fake_gpu/fake_gpu.h"

/* From now on; counts begin anew, a fault is forgotten. "" = all goes well. */
static inline void fake_gpu_play(const char *script)
{
    static int serial;
    char text[512]; /* a trailing blank makes the same script another one */
    snprintf(text, sizeof text, "%s;%*s", script, ++serial % 8 + 1, "");
    setenv("FAKE_GPU", text, 1);
    fake_gpu_reset();
}

#endif
