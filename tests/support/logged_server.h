/* A policy's batches held against those that a real server logged of the same requests.
 *
 * The serving loop runs over the run's requests with two batches in flight on the virtual clock, as
 * vLLM's asynchronous scheduling does, and each batch it builds is compared with the logged
 * iteration of its number: context requests, their tokens, generation requests.
 *
 *     by order   every batch takes the same time; a request arrives just before the iteration that
 *                took it in was built: only what the policy makes of its queue is compared
 *     by clock   batches begin when the logged ones did (metrics/iteration_times.h), requests
 *                arrive when the client sent them and delay_s later at the engine */
#ifndef SUPPORT_LOGGED_SERVER_H
#define SUPPORT_LOGGED_SERVER_H

#include "metrics/iteration_times.h"
#include "serve/serve.h"

struct logged_server {
    const struct run *run;
    const struct iteration_match *match;
    const struct iteration_times *times; /* NULL = by order */
    double delay_s;
    struct serve_params params; /* checked */

    size_t equal, batches;
    char first[200]; /* what the first batch that differs holds; "" = none does */
};

enum st logged_server_run(struct arena *a, struct logged_server *s, struct err *e);

#endif
