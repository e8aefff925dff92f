/* An OpenAI-compatible HTTP server in front of the serving core.
 *
 *     POST /v1/completions        prompt: a text or token ids; stream or not
 *     POST /v1/chat/completions   messages, formatted by the chat template
 *     POST /v1/responses          input: a text or messages; server/responses.h
 *     GET  /v1/models             the one model
 *     GET  /v1/models/NAME        the same alone
 *     GET  /metrics               Prometheus
 *     GET  /health                200 {"status":"ok"}, 503 while draining
 *
 * Requests that a web page of somebody else may have made are refused: 403 for another Host, 415
 * for a body that is not said to be JSON (server/origin.h).
 *
 * Threads: libmicrohttpd's accept requests, tokenize and write streams; the caller's runs serve_run
 * with the source and sink given here. They share a table of live requests under one lock; the
 * loop's part per token is an append and, for a suspended stream, a wake-up.
 *
 * Bounds. A request is refused with 429 and Retry-After when max_pending are already accepted, with
 * 413 when its body is above max_body_bytes, with 431 when its headers do not fit max_header_bytes.
 * A connection above max_connections, or above max_per_address of one client's, takes the place of
 * one that awaits its request (server/connections.h); when none does, it gets 503, or /health. A
 * connection is closed when its request,
 * headers and body, is not complete idle_timeout_s after it was opened or last answered, and when
 * it is idle that long. A stream whose client does not read is ended, and its connection closed,
 * when max_unread_tokens wait beyond the sockets' buffers. The request of a disconnected client is
 * removed from the queue, or ended at its next token. */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include "config/option.h"
#include "serve/serve.h"
#include "server/http_request.h"
#include "server/keys.h"

/* Rows: server/options.c. What they do not fill is of the run. */
struct server_params {
    const char *host; /* numeric address, or localhost */
    int64_t port;     /* 0 = any free one */
    struct http_request_rules rules;
    const int64_t *eos_ids; /* [n_eos] */
    int64_t n_eos;
    uint64_t seed;     /* of sampled requests without a seed */
    int64_t kv_blocks; /* of all replicas, for /metrics */
    int64_t max_pending, max_connections, max_per_address, max_unread_tokens;
    struct texts hosts; /* more names that Host may have; "*" = any */
    int64_t max_body_bytes, max_header_bytes;
    int64_t max_held_bytes;                 /* of all bodies that are not read yet */
    const char *api_key_env, *api_key_file; /* what fills keys */
    struct keys keys;                       /* for /v1/; empty: none is required */
    double idle_timeout_s;
    double drain_s; /* time for running requests after server_stop */
    int64_t threads;
};

extern const struct option_section server_options;

struct server;

/* Listens from here on; requests are answered once the loop runs. The params are borrowed.
 * ST_DEVICE when the address cannot be bound. */
enum st server_open(const struct server_params *p, struct server **out, struct err *e);
int server_port(const struct server *s);

/* For serve_run: `sink` gets every row after the server itself (NULL = none). Token rows are
 * needed: emit_tokens. *stop != 0 drains: 503 for new requests and for /health, running ones
 * continue for drain_s; then *abort is set, which is serve_run's stop. */
struct request_source server_source(struct server *s, const struct serve_clock *clock,
                                    const volatile sig_atomic_t *stop,
                                    volatile sig_atomic_t *abort);
struct serve_sink server_sink(struct server *s, const struct serve_sink *sink);

/* After serve_run: lets clients read finished streams to their end, then closes everything. Clears
 * *s; NULL is fine. */
void server_close(struct server **s);

/* Whether host is a loopback address. */
bool server_is_loopback(const char *host);

#endif
