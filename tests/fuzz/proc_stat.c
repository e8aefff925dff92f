/* Any bytes as /proc/PID/stat: a process with a pid of its own, or nothing; written again as the
 * system would, the same process. */
#include "fuzz.h"

#include "base/proc_tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct proc_stat s, again;
    struct buf text = {0};
    if (!proc_stat_parse((struct sv){(const char *)data, size}, &s))
        return 0;
    REQUIRE(s.pid > 0 && s.parent >= 0 && s.state != ' ');
    buf_printf(&text, "%lld (a) b) %c %lld", (long long)s.pid, s.state, (long long)s.parent);
    for (int field = 5; field < 22; field++)
        buf_puts(&text, " 0");
    buf_printf(&text, " %llu 0\n", (unsigned long long)s.start);
    REQUIRE(proc_stat_parse((struct sv){text.p, text.n}, &again));
    REQUIRE(again.pid == s.pid && again.parent == s.parent && again.start == s.start);
    REQUIRE(again.state == s.state);
    buf_free(&text);
    return 0;
}
