#include "client/easy.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

/* The largest are metrics: vLLM's are 0.1 MB for each engine behind one address. */
enum { MAX_DOCUMENT = 16 << 20, GET_TIMEOUT_MS = 10000 };

enum st easy_global(struct err *e)
{
    static bool ready; /* main thread only */
    if (!ready && curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return err_set(e, ST_DEVICE, "libcurl does not start");
    ready = true;
    return ST_OK;
}

struct curl_slist *easy_headers(const struct client_params *p, bool post)
{
    struct curl_slist *list = NULL;
    if (post) {
        list = curl_slist_append(list, "Content-Type: application/json");
        list = curl_slist_append(list, "Accept: text/event-stream");
        list = curl_slist_append(
            list, "Expect:"); /* never wait for "100 Continue" before sending the body */
    }
    for (size_t i = 0; i < p->n_headers; i++)
        list = curl_slist_append(list, p->headers[i]);
    return list;
}

/* Whether libcurl's own file of certificates is there, so that the folder of the same certificates
 * is not needed: with a folder set, libcurl reads and parses the whole file for every connection
 * (20 ms of the one thread), without one it keeps what it has read. */
static bool has_bundle(CURL *c)
{
    const char *file = NULL;
#if LIBCURL_VERSION_NUM >= 0x075700 /* 7.87.0, which keeps it */
    curl_easy_getinfo(c, CURLINFO_CAINFO, &file);
#else
    (void)c;
#endif
    return file && access(file, R_OK) == 0;
}

CURL *easy_new(const struct client_params *p, const char *url, struct curl_slist *headers)
{
    CURL *c = curl_easy_init();
    if (!c)
        return NULL;
    curl_easy_setopt(c, CURLOPT_URL, url);
#if LIBCURL_VERSION_NUM >= 0x075500 /* 7.85.0; Ubuntu 22.04 has 7.81 */
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(c, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "twinfer/" TW_VERSION);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(c, CURLOPT_DNS_CACHE_TIMEOUT, -1L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)ceil(p->connect_timeout_s * 1e3));
    curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, p->tls_verify ? 1L : 0L);
    curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, p->tls_verify ? 2L : 0L);
    if (p->ca_file)
        curl_easy_setopt(c, CURLOPT_CAINFO, p->ca_file);
    if (p->ca_file || has_bundle(c))
        curl_easy_setopt(c, CURLOPT_CAPATH, NULL);
    return c;
}

void easy_touch(CURLM *m, const struct client_params *p, const volatile sig_atomic_t *stop)
{
    /* older than 7.87.0 it keeps no certificates, and this connection open to the end */
    const bool keeps = LIBCURL_VERSION_NUM >= 0x075700;
    CURL *c = keeps && strncmp(p->url, "https://", 8) == 0 ? easy_new(p, p->url, NULL) : NULL;
    int running = 1;
    if (!c)
        return;
    curl_easy_setopt(c, CURLOPT_CONNECT_ONLY, 1L);
    curl_multi_add_handle(m, c);
    while (running && !(stop && *stop)) {
        curl_multi_perform(m, &running);
        if (running)
            curl_multi_poll(m, NULL, 0, 100, NULL);
    }
    curl_multi_remove_handle(m, c);
    curl_easy_cleanup(c);
}

enum run_status easy_failure(CURLcode code, const char **type)
{
    static const struct {
        CURLcode code;
        const char *type;
        enum run_status status;
    } rows[] = {
        {CURLE_COULDNT_RESOLVE_HOST, "resolve", RUN_ERROR},
        {CURLE_COULDNT_CONNECT, "connect", RUN_ERROR},
        {CURLE_OPERATION_TIMEDOUT, "timeout", RUN_TIMEOUT}, /* connecting; ours are elsewhere */
        {CURLE_SSL_CONNECT_ERROR, "tls", RUN_ERROR},
        {CURLE_PEER_FAILED_VERIFICATION, "tls", RUN_ERROR},
        {CURLE_SSL_CACERT_BADFILE, "tls", RUN_ERROR},
        {CURLE_SSL_ISSUER_ERROR, "tls", RUN_ERROR},
        {CURLE_GOT_NOTHING, "connection", RUN_ERROR},
        {CURLE_PARTIAL_FILE, "truncated", RUN_ERROR},
        {CURLE_HTTP2_STREAM, "truncated", RUN_ERROR},
    };
    *type = "connection";
    if (code == CURLE_OK)
        return RUN_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].code == code) {
            *type = rows[i].type;
            return rows[i].status;
        }
    return RUN_ERROR;
}

static size_t keep(char *p, size_t size, size_t n, void *to)
{
    struct buf *b = to;
    if (b->n + size * n > MAX_DOCUMENT)
        return 0;
    buf_add(b, p, size * n);
    return size * n;
}

enum st client_get(struct arena *a, const struct client_params *p, const char *url, struct sv *body,
                   long *status, struct err *e)
{
    TRY(easy_global(e));
    struct curl_slist *headers = easy_headers(p, false);
    struct buf text = {0};
    char why[CURL_ERROR_SIZE] = "";
    CURL *c = easy_new(p, url, headers);
    CURLcode code = CURLE_OUT_OF_MEMORY;
    *status = 0;
    if (c) {
        curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, keep);
        curl_easy_setopt(c, CURLOPT_WRITEDATA, &text);
        curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)GET_TIMEOUT_MS);
        curl_easy_setopt(c, CURLOPT_ERRORBUFFER, why);
        code = curl_easy_perform(c);
        curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, status);
        curl_easy_cleanup(c);
    }
    curl_slist_free_all(headers);
    *body = (struct sv){arena_strn(a, buf_str(&text), text.n), text.n};
    buf_free(&text);
    if (code != CURLE_OK)
        return err_set(e, ST_DEVICE, "GET %s: %s", url, *why ? why : curl_easy_strerror(code));
    if (*status != 200)
        return err_set(e, ST_DEVICE, "GET %s: the server answers with status %ld", url, *status);
    return ST_OK;
}
