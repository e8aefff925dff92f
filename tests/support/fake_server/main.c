/* fake_server NAME: one of support/known_servers.h on a port of this machine. Its address goes to
 * stdout; it ends with SIGTERM. */
#include <signal.h>
#include <stdio.h>

#include "support/known_servers.h"

int main(int argc, char **argv)
{
    size_t n = 0;
    const struct fault *faults = argc == 2 ? known_server(argv[1], &n) : NULL;
    sigset_t end;
    int got;
    if (!faults) {
        fprintf(stderr, "fake_server: expected the name of a server\n");
        return 2;
    }
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    sigprocmask(SIG_BLOCK, &end, NULL); /* before there are threads */
    struct fault_server *s = fault_server_start(faults, n);
    printf("http://127.0.0.1:%d\n", fault_server_port(s));
    fflush(stdout);
    sigwait(&end, &got);
    fault_server_stop(&s);
    return 0;
}
