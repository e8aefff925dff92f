/* One short request before the clock starts: checks that the server serves requests, and which
 * members it accepts.
 *
 * Servers that call themselves OpenAI-compatible differ in what they refuse. After a refusal
 * (status 4xx) that names a member below, the request is repeated without it, and the run omits it
 * too:
 *
 *     max_completion_tokens, max_tokens   the other one is sent instead (not where the user chose);
 *                                         also where the answer is longer than requested, as from
 *                                         a server that ignores the name
 *     ignore_eos                          answers may end early
 *     stream_options                      no usage: output tokens are counted by other means
 *     temperature                         the server's own
 *
 * Any other failure would hit every request of the run, and is an error with its cause. A busy
 * server (429, 503) is not probed further: `asked` stays false. */
#ifndef CLIENT_PREFLIGHT_H
#define CLIENT_PREFLIGHT_H

#include "client/body.h"
#include "client/client.h"

enum {
    PREFLIGHT_TOKENS = 4,      /* output tokens requested */
    PREFLIGHT_MOST_CHUNKS = 64 /* an answer of more is cut: it ignores the limit */
};

struct preflight {
    bool asked;     /* it was answered; else the rest is void */
    bool unlimited; /* the answer was too long under either name of the limit */
    bool has_usage; /* the answer had usage */
    bool has_done, has_finish;
    int64_t prompt_tokens;                        /* of its usage; -1 = not there */
    bool one_chunk;                               /* all of several tokens came in one chunk */
    bool changed;                                 /* *body was changed */
    int requests;                                 /* sent */
    enum body_limit limit;                        /* the name that took effect */
    bool no_ignore_eos, no_usage, no_temperature; /* refused */
};

/* *body is the run's request, and is changed to what the server accepts. ST_DEVICE with the cause
 * and, where there is one, a hint; ST_INTERRUPTED. */
enum st preflight_ask(struct arena *a, const struct client_params *client, struct body_params *body,
                      const struct body_prompt *prompt, const volatile sig_atomic_t *stop,
                      struct preflight *out, struct err *e);

#endif
