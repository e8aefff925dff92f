/* Finds the server's name of the model that it serves. */
#ifndef CLIENT_SERVED_H
#define CLIENT_SERVED_H

#include "client/client.h"

/* Reads url (".../v1/models"). Of several models picks one named own[0] .. own[n_own - 1] (possible
 * names, the last one used in messages); of one, that one. For a server without the list own[0] is
 * used, with a warning. ST_USAGE: none of several matches. ST_DEVICE: no answer, or a missing key,
 * to be named by key_env. */
enum st client_find_served(struct arena *a, const struct client_params *p, const char *url,
                           const char *const *own, size_t n_own, const char *key_env,
                           const char **out, struct err *e);

#endif
