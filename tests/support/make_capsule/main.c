/* make_capsule DIR [wrong|astray|unknown|near|odd|plain|still|tiles|apart]... [image=FILE]: a
 * capsule for tests of the command line (support/replay_case.h). With an image, machine code of
 * src/doctor/kernels/roofs.cu and `extern "C" __device__ unsigned table[16384];`, it runs on a real
 * GPU of that kind. */
#include <stdio.h>
#include <string.h>

#include "support/replay_case.h"

int main(int argc, char **argv)
{
    static struct err e;
    struct arena *a = arena_new();
    struct sv image = {0};
    int faults = 0;
    enum st st = argc > 1 ? ST_OK : err_set(&e, ST_USAGE, "no folder is named");
    for (int i = 2; i < argc && st == ST_OK; i++)
        if (strncmp(argv[i], "image=", 6) == 0)
            st = fs_read(a, argv[i] + 6, 1 << 24, &image, &e);
        else
            faults |= strcmp(argv[i], "wrong") == 0     ? REPLAY_CASE_WRONG
                      : strcmp(argv[i], "astray") == 0  ? REPLAY_CASE_ASTRAY
                      : strcmp(argv[i], "unknown") == 0 ? REPLAY_CASE_UNKNOWN
                      : strcmp(argv[i], "near") == 0    ? REPLAY_CASE_NEAR
                      : strcmp(argv[i], "odd") == 0     ? REPLAY_CASE_ODD
                      : strcmp(argv[i], "still") == 0   ? REPLAY_CASE_STILL
                      : strcmp(argv[i], "plain") == 0   ? REPLAY_CASE_PLAIN
                      : strcmp(argv[i], "tiles") == 0   ? REPLAY_CASE_TILES
                      : strcmp(argv[i], "apart") == 0   ? REPLAY_CASE_APART
                                                        : 0;
    if (st == ST_OK)
        st = replay_case_write(argv[1], faults, image, &e);
    if (st != ST_OK)
        err_print(&e, "make_capsule", stderr);
    arena_free(&a);
    return st == ST_OK ? 0 : 1;
}
