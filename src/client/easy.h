/* libcurl settings common to all transfers of a run. */
#ifndef CLIENT_EASY_H
#define CLIENT_EASY_H

#include <curl/curl.h>

#include "client/client.h"

struct curl_slist *easy_headers(const struct client_params *p, bool post);
/* A handle for p->url with TLS, limits and headers set; NULL when there is no memory. */
CURL *easy_new(const struct client_params *p, const char *url, struct curl_slist *headers);
/* https: opens a connection and drops it, so that certificates are read and the server's name is
 * looked up before a clock runs. A failure is left for the requests to report. */
void easy_touch(CURLM *m, const struct client_params *p, const volatile sig_atomic_t *stop);
/* The status, short name and text for a transfer that libcurl gave up; RUN_OK for one it did not.
 */
enum run_status easy_failure(CURLcode code, const char **type);
/* Once per process. */
enum st easy_global(struct err *e);

#endif
