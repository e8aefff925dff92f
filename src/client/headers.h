/* Headers of every request, from settings. Secret values come from the environment, are written to
 * no file, and are listed for redaction. */
#ifndef CLIENT_HEADERS_H
#define CLIENT_HEADERS_H

#include "text/node.h"

struct client_headers {
    const char **list; /* [n] "Name: value", secrets in clear */
    size_t n;
    const char **secrets; /* [n_secrets] values that must not be shown */
    size_t n_secrets;
    struct node *shown; /* map of headers to show: "redacted" for a secret */
};

/* given[n]: "Name: value", or "Name: $VARIABLE", which takes it from the environment. key_env names
 * the variable with the API key; NULL, unset or empty: none. url: their destination; warns of a key
 * sent unencrypted. ST_USAGE: not a header, a secret in clear, no such variable. */
enum st client_headers_make(struct arena *a, const char *const *given, size_t n,
                            const char *key_env, const char *url, struct client_headers *out,
                            struct err *e);

/* Whether the url leads to this machine. */
bool client_stays_here(const char *url);

#endif
