#include <unistd.h>

#include "base/clock.h"
#include "job/context.h"

volatile sig_atomic_t job_stop;

/* One request to stop may come as two signals: timeout(1) and batch systems signal the child and
 * its group. So an immediate second signal is ignored. */
static void on_signal(int sig)
{
    static const int64_t AT_ONCE_NS = NS_PER_S / 2;
    static volatile int64_t first_ns;
    (void)sig;
    if (job_stop && clock_mono_ns() - first_ns > AT_ONCE_NS)
        _exit(130);
    if (!job_stop)
        first_ns = clock_mono_ns();
    job_stop = 1;
}

void job_catch_signals(void)
{
    struct sigaction sa = {.sa_handler = on_signal};
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    /* a terminal that was closed; nohup has it ignored */
    struct sigaction hangup;
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &sa, NULL);
}
