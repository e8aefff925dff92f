/* Proxies that the environment names, as curl and Python's clients read it. The client uses none:
 * its time would be measured. A result says which one was left aside. */
#ifndef CLIENT_PROXY_H
#define CLIENT_PROXY_H

/* The variable whose proxy such clients would use for the URL: http_proxy, https_proxy or
 * all_proxy, or the same in capitals, unless no_proxy names the host. NULL = none. */
const char *proxy_of_environment(const char *url);

#endif
