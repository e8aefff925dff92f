/* A server that generates nothing: what is measured against it is the client.
 *
 * It reads a request's headers and passes over its body, takes max_tokens from the first bytes of
 * the body, and streams that many chunks: all at once, or one every gap_ns. One thread, epoll. */
#ifndef BENCH_CLIENT_NULL_SERVER_H
#define BENCH_CLIENT_NULL_SERVER_H

#include <stdint.h>

/* Runs in a process of its own on that core (-1 = anywhere) until null_server_stop. */
struct null_server {
    int pid, port;
};
struct null_server null_server_start(int core, int64_t gap_ns);
void null_server_stop(const struct null_server *s);

/* This thread to one core. */
void pin(int core);

#endif
