#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/bench.h"

static int usage(void)
{
    fprintf(stderr,
            "usage: gpu_bench check|twins [row|all [dtype|all [n]]] | rows|steps|fused|unequal "
            "[quick] | uploads\n");
    return 2;
}

int main(int argc, char **argv)
{
    struct dev g;
    setvbuf(stdout, NULL, _IOLBF, 0); /* what was found before a fault is not lost */
    const char *what = argc > 1 ? argv[1] : "";
    struct check_scope scope = {.every = argc > 4 ? (int)strtol(argv[4], NULL, 10) : 1};
    if (argc > 3 && strcmp(argv[3], "all") != 0)
        scope.dtype = argv[3];
    if (argc > 2 && strcmp(argv[2], "all") != 0)
        scope.only = argv[2];
    if (strcmp(what, "twins") == 0)
        return check_all(NULL, &scope) > 0;
    if (strcmp(what, "uploads") == 0)
        return time_uploads();
    const bool fused = strcmp(what, "fused") == 0, unequal = strcmp(what, "unequal") == 0;
    if (strcmp(what, "check") != 0 && strcmp(what, "rows") != 0 && strcmp(what, "steps") != 0 &&
        !fused && !unequal)
        return usage();
    const bool quick = argc > 2 && strcmp(argv[2], "quick") == 0;
    if (!dev_open(&g))
        return 4;
    printf("%s, sm_%d, %d multiprocessors\n", g.name, g.arch, g.sms);
    int failed = 0;
    if (strcmp(what, "check") == 0)
        failed = check_all(&g, &scope);
    else if (unequal)
        failed = time_unequal(&g, quick);
    else if (strcmp(what, "rows") == 0)
        time_rows(&g, quick);
    else
        time_steps(&g, quick, fused);
    const struct gpu_compile_stats stats = gpu_compile_stats(g.compiler);
    printf("%lld programs compiled in %.2f s\n", (long long)stats.compiled, stats.compile_s);
    dev_close(&g);
    return failed > 0;
}
