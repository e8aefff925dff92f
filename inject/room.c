#include "inject/room.h"

#include <string.h>

#include "inject/facts.h"

/* A number of bytes; `otherwise` where there is none ("max"). Not strtoull, of which compilers take
 * a version of their own glibc. */
static uint64_t number(const char *text, uint64_t otherwise)
{
    uint64_t v = 0;
    while (*text == ' ')
        text++;
    if (*text < '0' || *text > '9')
        return otherwise;
    for (; *text >= '0' && *text <= '9'; text++)
        v = v < UINT64_MAX / 16 ? v * 10 + (uint64_t)(*text - '0') : v;
    return v;
}

uint64_t inject_room_of(const char *meminfo, const char *limit, const char *used)
{
    static const char key[] = "MemAvailable:";
    const char *line = strstr(meminfo, key);
    uint64_t there = line ? number(line + sizeof key - 1, UINT64_MAX / 1024) * 1024 : UINT64_MAX;
    const uint64_t most = number(limit, UINT64_MAX), taken = number(used, 0);
    const uint64_t left = most == UINT64_MAX ? most : most > taken ? most - taken : 0;
    return there < left ? there : left;
}

uint64_t inject_room_bytes(void)
{
    static const char *const groups[][2] = {
        {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
        {"/sys/fs/cgroup/memory/memory.limit_in_bytes",
         "/sys/fs/cgroup/memory/memory.usage_in_bytes"}};
    char info[2048], limit[64] = "", used[64] = "";
    info[inject_facts_read("/proc/meminfo", info, sizeof info - 1)] = 0;
    for (int i = 0; i < 2 && !limit[0]; i++) {
        limit[inject_facts_read(groups[i][0], limit, sizeof limit - 1)] = 0;
        used[inject_facts_read(groups[i][1], used, sizeof used - 1)] = 0;
    }
    return inject_room_of(info, limit, used);
}
