/* A request inside the HTTP side. Private to server/. */
#ifndef SERVER_VISIT_H
#define SERVER_VISIT_H

#include <microhttpd.h>

#include "server/intake.h"
#include "server/live.h"

typedef enum MHD_Result result;

struct visit;

struct route {
    const char *method, *path; /* a path that ends in / matches all below it */
    enum http_api api;         /* of a POST */
    /* Called when the request is complete, and again whenever its suspended connection resumes,
     * until a response is queued. */
    result (*answer)(struct server *s, struct MHD_Connection *c, struct visit *v);
};

/* Progress of reading the body of a completion or chat. */
enum body_reading { READING_NOT, READING_QUEUED, READING_DONE };

struct visit {
    struct server *server;
    const struct route *route;
    const char *path; /* while it is answered */
    struct buf body;
    size_t seen; /* bytes of the body received, kept or not */
    bool too_large, no_room;

    /* Written by the thread that reads the body, the connection's or intake's. */
    struct intake_job job;
    struct MHD_Connection *connection;
    enum body_reading reading; /* server.lock */
    bool read_aside;           /* counted in server.n_read_aside */
    struct arena *a;           /* of request; NULL = refused, or never read */
    struct http_request request;
    struct http_refusal refusal;
    struct err e;

    struct live_request *live; /* once it joined */
};

/* ---- visit.c: bodies within the limits, and answers that are whole ----------------------------*/

struct visit *visit_new(struct server *s, const struct route *route);
/* Called when the connection is done with the request. */
void visit_free(struct visit *v);
/* A piece of the body. False: close the connection. */
bool visit_take(struct visit *v, const char *data, size_t n);
/* Drops the body and releases its memory. */
void visit_drop_body(struct visit *v);

/* A refusal in OpenAI's format; its error type follows from the status. */
struct refusal {
    unsigned status;
    const char *message;
    const char *param, *code; /* NULL = null */
    const char *allow;        /* of a 405: the allowed methods */
    bool close;               /* the connection, too */
};
result visit_refuse(struct server *s, struct MHD_Connection *c, const struct refusal *r);
result visit_refuse_with(struct server *s, struct MHD_Connection *c, unsigned status,
                         const char *message);
result visit_respond(struct MHD_Connection *c, unsigned status, const char *type,
                     const struct buf *text);

/* ---- generate.c: completions and chats ------------------------------------------------------ */

result answer_generated(struct server *s, struct MHD_Connection *c, struct visit *v);

#endif
