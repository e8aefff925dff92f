/* The script of the fake GPU, set by a test. */
#ifndef FAKE_GPU_SCRIPT_H
#define FAKE_GPU_SCRIPT_H

#include <stdio.h>
#include <stdlib.h>

#include "support/fake_gpu/fake_gpu.h"

/* From now on; counts begin anew, a fault is forgotten. "" = all goes well. */
static inline void fake_gpu_play(const char *script)
{
    static int serial;
    char text[1024]; /* a trailing blank makes the same script another one */
    snprintf(text, sizeof text, "%s;%*s", script, ++serial % 8 + 1, "");
    setenv("FAKE_GPU", text, 1);
    fake_gpu_reset();
}

/* Changes the script that fake_gpu_play_file began, while threads of the program ask the fake GPU:
 * the environment must not change under them. */
static inline void fake_gpu_change(const char *file, const char *script)
{
    char next[4096];
    snprintf(next, sizeof next, "%s.next", file);
    FILE *f = fopen(next, "we");
    if (!f || fputs(script, f) < 0 || fclose(f) != 0 || rename(next, file) != 0)
        abort();
}

/* The script in a file, from now on. */
static inline void fake_gpu_play_file(const char *file, const char *script)
{
    char at[512];
    fake_gpu_change(file, script);
    snprintf(at, sizeof at, "@%s", file);
    fake_gpu_play(at);
}

#endif
