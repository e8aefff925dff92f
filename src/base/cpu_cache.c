#include "base/cpu_cache.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Copies the file's first word to out; false where there is no such file. */
static bool word_of(const char *sys, int index, const char *name, char out[16])
{
    char path[512];
    snprintf(path, sizeof path, "%s/devices/system/cpu/cpu0/cache/index%d/%s", sys, index, name);
    FILE *f = fopen(path, "re");
    const bool read = f && fscanf(f, "%15s", out) == 1;
    if (f)
        fclose(f);
    return read;
}

/* "32768K" */
static int64_t bytes_of(const char *size)
{
    long long n = 0;
    char unit = 0;
    if (sscanf(size, "%lld%c", &n, &unit) < 1 || n <= 0)
        return 0;
    return (int64_t)n << (unit == 'K' ? 10 : unit == 'M' ? 20 : unit == 'G' ? 30 : 0);
}

int64_t cpu_cache_bytes_below(const char *sys, int level)
{
    const char want[2] = {(char)('0' + level)};
    char is[16], type[16], size[16];
    for (int i = 0; word_of(sys, i, "level", is); i++)
        if (strcmp(is, want) == 0 && word_of(sys, i, "type", type) &&
            strcmp(type, "Instruction") != 0 && word_of(sys, i, "size", size))
            return bytes_of(size);
    return 0;
}

int64_t cpu_cache_bytes(int level)
{
    const int64_t told = cpu_cache_bytes_below("/sys", level);
    const int64_t guessed = sysconf(level == 2 ? _SC_LEVEL2_CACHE_SIZE : _SC_LEVEL3_CACHE_SIZE);
    return told > 0 ? told : guessed > 0 ? guessed : 0;
}
