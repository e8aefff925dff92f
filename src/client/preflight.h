/* One short request before the clock starts: whether the server serves requests at all, and which
 * members of a request it takes.
 *
 * Servers that call themselves OpenAI-compatible differ in what they refuse. A refusal (status 4xx)
 * that names a member below is answered by asking again without it, and the run then goes without
 * it too:
 *
 *     max_completion_tokens, max_tokens   the other one is sent instead (not where the user chose);
 *                                         also where the answer is longer than what was asked for,
 *                                         which is how a server that ignores the name shows itself
 *     ignore_eos                          answers may end early
 *     stream_options                      no usage: output tokens are counted by other means
 *     temperature                         the server's own
 *
 * Any other failure is what every request of the run would meet, and is an error with its cause.
 * A server that is busy (429, 503) is asked nothing: `asked` stays false. */
#ifndef CLIENT_PREFLIGHT_H
#define CLIENT_PREFLIGHT_H

#include "client/body.h"
#include "client/client.h"

enum {
    PREFLIGHT_TOKENS = 4,      /* output tokens that are asked for */
    PREFLIGHT_MOST_CHUNKS = 64 /* an answer of more is cut: it ignores the limit */
};

struct preflight {
    bool asked;            /* it was answered; else the rest says nothing */
    bool unlimited;        /* the answer was longer than asked for, whatever the limit was called */
    bool has_usage;        /* the answer said how many tokens it has */
    bool one_chunk;        /* all of several tokens came in one chunk */
    bool changed;          /* *body is another than was given */
    int requests;          /* sent */
    enum body_limit limit; /* what took effect */
    bool no_ignore_eos, no_usage, no_temperature; /* refused */
};

/* *body is what the run would send, and is changed to what the server takes. ST_DEVICE with the
 * cause and, where there is one, a hint; ST_INTERRUPTED. */
enum st preflight_ask(struct arena *a, const struct client_params *client, struct body_params *body,
                      const struct body_prompt *prompt, const volatile sig_atomic_t *stop,
                      struct preflight *out, struct err *e);

#endif
