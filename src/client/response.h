/* Parses one response: bytes with their time of arrival, into a client_result. No sockets here. */
#ifndef CLIENT_RESPONSE_H
#define CLIENT_RESPONSE_H

#include "client/client.h"
#include "client/sse.h"

struct response {
    struct sse sse;
    struct client_result *r; /* NULL = idle */
    bool usage_so_far;       /* every chunk with tokens so far came with usage */
    bool ids_so_far;         /* ... with token ids */
    bool failed;
    const char *const *secrets; /* [n_secrets] of client_params; response_begin leaves them */
    size_t n_secrets;
    struct client_sends sends; /* of client_params; likewise */
    struct err e;              /* scratch */
};

/* Begins a new attempt: clears what an earlier one left in r. */
void response_begin(struct response *s, struct client_result *r, size_t max_event_bytes);
void response_free(struct response *s);

/* More of the body, come at time_ns. False once it has failed: r has status and reason. */
bool response_bytes(struct response *s, int64_t time_ns, const char *p, size_t n);

/* The response ended properly by HTTP. */
void response_close(struct response *s, int64_t time_ns);

/* Ends the request with a failure, unless it failed before. msg is cut to what fits, after every
 * secret in it was replaced by "redacted". */
void response_fail(struct response *s, int64_t time_ns, enum run_status status, const char *type,
                   const char *fmt, ...) PRINTF_LIKE(5, 6);

#endif
