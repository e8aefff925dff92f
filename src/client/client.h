/* An HTTP client that measures: OpenAI-style streaming requests sent at planned moments.
 *
 * One thread, libcurl's multi interface on sockets and one timer, HTTP/1.1 with a connection per
 * stream, kept alive and used again. What is sent when follows workload/release.h: in an open loop
 * each request at its arrival, whatever the server does, unless max_concurrency holds it back; in a
 * closed loop, and the later turns of a session, after an end. A request has ended for what follows
 * it when its response is over, or no more than 20 ms after [DONE] where the server keeps the
 * response open.
 *
 * Times. All are ns from the start of the run on the monotonic clock. `sent` is the moment the
 * client started on the request; opening a connection, where none was free, counts as latency. A
 * chunk's time is taken in the receive callback, before anything is parsed, and parsing waits until
 * all sockets that were ready have been read. So all events of one read share its time.
 *
 * Tokens. A chunk carries tokens when it has token ids, else when it has text, else when its usage
 * reports more. A token may have no text (end of sequence that is ignored, half a character):
 * chunks without text carry one each where that makes exactly the total (of usage; of the request,
 * where there is none and finish_reason is length), as with servers that send a chunk a token; the
 * one that begins a chat only where there are others. How many tokens a chunk holds is known from
 * its ids or from usage in every chunk; client/outcome.h decides on the counts of a finished
 * request.
 *
 * Ends. [DONE], or a finish_reason followed by a clean end of the response, is a good end; without
 * [DONE] only where the server is not known to send it. What
 * comes after [DONE] is counted and ignored, and a response that is not closed after it is dropped
 * a second later. Every other end has a status and a short name (client_result.error_type):
 *
 *     connect, resolve, tls   no connection                                   error
 *     connection              reset, or closed before a response came         error
 *     truncated               the stream ended without [DONE] or finish_reason   error
 *     http_<code>             an answer other than 200; 429 and 503: rejected, all others error
 *     content_type            not text/event-stream, or compressed            error
 *     malformed               not JSON, or of another shape                   error
 *     too_large               an event or a line above max_event_bytes        error
 *     server                  the server sent an error in the stream (chunk.h, sse.h), or
 *                             finish_reason abort or error                    error
 *     incomplete              [DONE] without a finish_reason or without usage, where the server is
 *                             known to send them (client_params.sends)        error
 *     no_tokens               a good end without a token                      error
 *     too_long                more than max_chunks chunks; without that limit, far more chunks or
 *                             bytes than the tokens asked for can have (inflight.c)   error
 *     timeout, stall          timeout_s since it was sent; stall_timeout_s without a byte
 *                             (before the body: without a line of headers)    timeout
 *     cancelled               the run was stopped                             cancelled
 *
 * Redirects are not followed and proxies of the environment are not used (proxy.h): both would be
 * measured.
 * libcurl itself sends a request once more when a connection it used again turns out dead before
 * any byte came back; nothing else is repeated except by `retries`. */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include <signal.h>

#include "artifact/run.h"
#include "base/vec.h"
#include "client/chunk.h"
#include "workload/concurrency.h"

struct client_turns;

/* What a server was seen to send in every stream: an answer without it is not whole. */
struct client_sends {
    bool done, finish, usage;
};

struct client_params {
    const char *url;            /* that requests are posted to; http or https */
    const char *const *headers; /* [n_headers] "Name: value", secrets in clear */
    size_t n_headers;
    /* [n_secrets] texts replaced by "redacted" in all messages, since a server may echo them. Texts
     * shorter than SECRET_LEAST bytes are no secrets. */
    const char *const *secrets;
    size_t n_secrets;
    int64_t max_concurrency; /* requests in flight at once; 0 = no limit */
    double timeout_s;        /* of a request since it was sent; 0 = none */
    double stall_timeout_s;  /* without a byte; 0 = none */
    double connect_timeout_s;
    /* Attempts after the first, for connect, connection, 429 and 503, while no token has come. The
     * first of them waits retry_delay_s, each further one twice as long, none shorter than the
     * answer's Retry-After (seconds or a date); where that is longer than timeout_s there is none.
     */
    int64_t retries;
    double retry_delay_s;
    double duration_s; /* no first attempt is made later; 0 = no limit; not with sessions */
    const struct concurrency *concurrency; /* closed loop; NULL = open */
    const struct client_turns *turns;      /* NULL: bodies are as given */
    /* Number of failures in a row that end the run, of kinds that cannot improve: connect, resolve,
     * tls, http_401, _403, _404, _405. 0 = never. */
    int64_t give_up_after;
    int64_t max_chunks;     /* of an answer, which is then cut and fails; 0 = by its max_tokens */
    bool tls_verify;        /* the server's certificate */
    const char *ca_file;    /* certificates to trust instead of the system's; NULL */
    size_t max_event_bytes; /* 0 = SSE_MAX_BYTES */
    bool spin;              /* busy-wait for the next event */
    struct client_sends sends;
};

enum { SECRET_LEAST = 4 };

struct client_request {
    int64_t at_ns;                      /* arrival; non-decreasing. Not used in a closed loop */
    int64_t session_id, turn, think_ns; /* as in workload/workload.h; turn 0 = of no session */
    struct sv body;                     /* JSON, borrowed for the run */
    int64_t max_tokens;                 /* output tokens requested; 0 = unknown */
};

struct client_result;

/* Makes the body of a later turn when it is sent, from what came for the one before, whose results
 * are complete; *out lives until the end of the run. Instead of client_request.body. */
struct client_turns {
    void *self;
    enum st (*body)(void *self, size_t i, const struct client_result *before, struct sv *out,
                    struct err *e);
};

/* A message of the answer. Those that one read brought are a nanosecond apart, so that a busy
 * client is not taken for a server that sends several tokens in a message, which have one time. */
struct client_chunk {
    int64_t time_ns;
    int32_t tokens;     /* known count, or 0 = at least one, unknown */
    int32_t text_bytes; /* of client_result.text */
};

/* A chunk without text, ids or more usage: a token perhaps. */
struct client_empty {
    int64_t time_ns;
    size_t at; /* chunks before it */
    bool role, finish;
};

struct client_result {
    enum run_status status;
    char error_type[16], error_msg[232]; /* "" when ok */
    int64_t planned_ns;                  /* of a request never released: its arrival */
    int64_t sent_ns;                     /* last attempt; RUN_NONE = never sent */
    int64_t delay_ns; /* lateness of sending, after it was planned, freed by max_concurrency, or due
                         for retry */
    int64_t first_byte_ns; /* of the response's body; RUN_NONE */
    int64_t end_ns;        /* last chunk with tokens, or the failure; RUN_NONE */
    struct {
        struct client_chunk *p; /* that carry tokens */
        size_t n, cap;
    } chunks;
    struct {
        struct client_empty *p;
        size_t n, cap;
    } empties; /* those found to be tokens are in chunks too */
    struct buf text;
    struct chunk_ids ids;
    int64_t prompt_tokens, completion_tokens; /* of usage; -1 */
    int64_t reasoning_tokens;                 /* of the completion tokens */
    bool reasoned;                            /* some of the text is reasoning */
    int64_t max_tokens;                       /* of the request */
    char finish[32];                          /* finish_reason */
    int32_t http_status;                      /* 0 = no answer */
    int32_t attempts;
    bool held;          /* by max_concurrency */
    bool done;          /* [DONE] came */
    int32_t after_done; /* events ignored after it */
};

/* Health of the client's measurement. A run with delay_p99_ns above CLIENT_MAX_DELAY_NS, or with
 * requests that were never sent, is not to be used. */
enum { CLIENT_MAX_DELAY_NS = 10000000 };

struct client_health {
    int64_t delay_p50_ns, delay_p90_ns, delay_p99_ns, delay_max_ns; /* over requests sent */
    int64_t sent;                                                   /* requests sent */
    int64_t late;     /* those with a delay above CLIENT_MAX_DELAY_NS */
    int64_t dropped;  /* never sent */
    int64_t left_out; /* last requests, not sent within duration_s: they are no part of the run */
    int64_t held;     /* held back by max_concurrency; not counted as delay */
    int64_t retried;  /* attempts after the first */
    int64_t peak_concurrency; /* most requests in flight at once */
    bool follows;             /* planned moments followed from ends */
    double concurrency_mean; /* requests between planned moment and end, over time; NAN = unknown */
    int64_t sessions;
    int64_t connections; /* connections opened */
    int64_t bytes_received, chunks;
    double wall_s;        /* duration of the run */
    double cpu_s;         /* CPU time of the process */
    double busy_fraction; /* of the loop: not waiting for events */
    bool healthy;
    bool gave_up; /* by give_up_after */
};

/* Progress of the run, a few times a second. */
struct client_so_far {
    int64_t finished, running, failed;
    double ttft_p50_ms, ttft_p99_ms, itl_p50_ms, itl_p99_ms; /* NAN = none; within 1.6 % */
};

struct client_watch {
    void *self;
    void (*progress)(void *self, const struct client_so_far *s); /* NULL = none */
};

/* Runs all n requests to their end, but for the last health->left_out. results[n] are filled in
 * every case; client_result_free each. *stop != 0 cancels requests in flight and drops the rest:
 * ST_INTERRUPTED. So does a server that is gone (give_up_after): ST_DEVICE with its cause,
 * health->gave_up. ST_DEVICE too: curl, epoll or timers refuse. */
enum st client_run(const struct client_params *p, const struct client_request *requests, size_t n,
                   const volatile sig_atomic_t *stop, const struct client_watch *watch,
                   struct client_result *results, struct client_health *health, struct err *e);
void client_result_free(struct client_result *r);

/* GET a small document (at most 16 MiB) with the same headers and TLS settings; path is added to
 * base. ST_DEVICE with the reason and the URL when it does not answer with 200; *status is its HTTP
 * status, 0 without an answer. */
enum st client_get(struct arena *a, const struct client_params *p, const char *url, struct sv *body,
                   long *status, struct err *e);

#endif
