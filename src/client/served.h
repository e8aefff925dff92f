/* The name under which a server knows the model that it serves. */
#ifndef CLIENT_SERVED_H
#define CLIENT_SERVED_H

#include "client/client.h"

/* Asks url (".../v1/models"). Of several models the one that is called own[0] .. own[n_own - 1],
 * names under which it may be known, the last of them what messages call it; the server's only one
 * whatever it is called. A server that does not say what it serves, as many do, is asked for own[0]
 * later, with a warning. ST_USAGE: none of several is ours. ST_DEVICE: no answer, or a key is
 * missing, which key_env would name. */
enum st client_find_served(struct arena *a, const struct client_params *p, const char *url,
                           const char *const *own, size_t n_own, const char *key_env,
                           const char **out, struct err *e);

#endif
