/* An HTTP server that misbehaves by script, for clients: it listens on a port of this machine,
 * reads a request whole, looks for `"fault":N` in its body and does what steps[N] say. A thread per
 * connection; connections are kept alive as long as the script leaves them whole. */
#ifndef SUPPORT_FAULT_SERVER_H
#define SUPPORT_FAULT_SERVER_H

#include <stdbool.h>
#include <stddef.h>

enum fault_do {
    FAULT_END,   /* of the script: the next request of the connection may come */
    FAULT_SEND,  /* text */
    FAULT_EVENT, /* text as one chunk of a chunked body: "data: <text>\n\n" */
    FAULT_FILL,  /* n bytes 'x' */
    FAULT_DRIP,  /* text, a byte every n ms */
    FAULT_WAIT,  /* n ms */
    FAULT_HOLD,  /* until the server is stopped */
    FAULT_CLOSE, /* the connection, as TCP wants it */
    FAULT_RESET, /* the connection, with RST */
};

struct fault_step {
    enum fault_do what;
    const char *text;
    int n;
};

enum { FAULT_ONS = 5 };

struct fault {
    const struct fault_step *steps; /* ends with FAULT_END, FAULT_HOLD, _CLOSE or _RESET */
    int times;                      /* 0 = always; after that many requests steps[then] */
    int then;
    struct {
        const char *text;
        int then;
    } on[FAULT_ONS]; /* a request that holds the text is one for that fault instead; first match */
};

struct fault_server;
struct fault_server *fault_server_start(const struct fault *faults, size_t n);
int fault_server_port(const struct fault_server *s);
/* Requests for that fault so far. */
int fault_server_seen(struct fault_server *s, size_t fault);
/* What stands in the last request whole: headers and body. Valid until stop. */
const char *fault_server_last(struct fault_server *s);
void fault_server_stop(struct fault_server **s);

/* A port of this machine on which nobody listens. */
int fault_closed_port(void);

#define FAULT_STREAM_HEAD                                                   \
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n" \
    "Transfer-Encoding: chunked\r\n\r\n"
#define FAULT_STREAM_TAIL "0\r\n\r\n"

#endif
