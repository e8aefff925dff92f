/* Fetches a server's own metrics around a run (metrics/server_metrics.h).
 *
 *     scrape_begin   before the first request of the run, after preflight and warm-up
 *     scrape_end     after the last answer: what the server counted in between
 *
 * A server notes a request a little after its answer is out. So scrape_begin takes a snapshot when
 * the count of ended requests repeats SCRAPE_PAUSE_MS later: none of before is still to be counted.
 * scrape_end asks until the server counted as many ends as there were good ones, at most
 * SCRAPE_WAIT_S long; that more or fewer were counted stands in server_metrics.why. Both take the
 * server's time only outside the run.
 *
 * What is missing stands in `why`. SCRAPE_REQUIRED: before the run that is an error; after it
 * client_bench_judge rejects the run. */
#ifndef CLIENT_SCRAPE_H
#define CLIENT_SCRAPE_H

#include "client/client.h"
#include "metrics/server_metrics.h"

/* Order of option client.server_metrics. */
enum scrape_mode { SCRAPE_AUTO, SCRAPE_NONE, SCRAPE_REQUIRED };

/* vLLM counts a request in the step of its loop that sends the last tokens, which is over within
 * milliseconds; processes of one server share counts by files that are written at once. */
enum { SCRAPE_PAUSE_MS = 50, SCRAPE_WAIT_S = 5 };

struct scrape {
    struct arena *a;
    const struct client_params *client;
    const char *url;
    enum scrape_mode mode;
    const volatile sig_atomic_t *stop; /* ends waiting; NULL = nothing does */
    struct prom_snapshot before;
    double ended;    /* requests that ended, by `before` */
    bool on;         /* there is a `before` */
    const char *why; /* there are no metrics; NULL while there are */
};

/* s->a, client, url, mode, stop are set. url NULL: as SCRAPE_NONE. */
enum st scrape_begin(struct scrape *s, struct err *e);

/* out is filled where s->why is NULL afterwards. */
void scrape_end(struct scrape *s, const struct client_side *sent, struct server_metrics *out);

/* Means over the results that ended well. */
struct client_side scrape_client_side(const struct client_result *results, size_t n);

#endif
