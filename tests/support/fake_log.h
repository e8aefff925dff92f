/* Iterations that a server may log, without a server: requests come one by one, in groups that end
 * before the next group comes, and each batch holds what vLLM's policy would make of them. Times
 * are the caller's. */
#ifndef SUPPORT_FAKE_LOG_H
#define SUPPORT_FAKE_LOG_H

#include "metrics/iteration_match.h"

enum { FAKE_LOG_REQUESTS = 120, FAKE_LOG_GROUP = 30, FAKE_LOG_ANSWER = 9 };

struct fake_log {
    struct run run;
    struct iteration_log log;
    struct run_request requests[FAKE_LOG_REQUESTS];
    struct logged_iteration of[FAKE_LOG_REQUESTS * (FAKE_LOG_ANSWER + 4)];
    size_t first[FAKE_LOG_REQUESTS]; /* iteration of a request's first token; its last one's is
                                        FAKE_LOG_ANSWER - 1 further */
};

/* Prompts of 100 to 1,000 tokens. first_token_ns is in the order of the requests, all other times
 * are 0. */
void fake_log_compose(struct fake_log *s);

#endif
