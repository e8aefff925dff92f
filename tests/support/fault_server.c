#include "support/fault_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/str.h"

enum { MAX_CONNECTIONS = 256, MAX_FAULTS = 64, MAX_REQUEST = 1 << 20 };

struct fault_server {
    const struct fault *faults;
    size_t n;
    int listener, port;
    atomic_bool stop;
    pthread_t acceptor;
    pthread_mutex_t lock;
    struct connection {
        struct fault_server *s;
        pthread_t thread;
        int fd;
    } connections[MAX_CONNECTIONS];
    int n_connections;
    int seen[MAX_FAULTS];
    struct buf last;
};

static int bound_socket(int *port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &n) != 0)
        err_bug("no socket", __FILE__, __LINE__);
    *port = ntohs(at.sin_port);
    return fd;
}

/* Waits for input in short turns, so that a stopped server ends. False: it is stopped. */
static bool readable(struct fault_server *s, int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (!s->stop)
        if (poll(&p, 1, 20) > 0)
            return true;
    return false;
}

/* One request into buf; false at the end of the connection. */
static bool read_request(struct fault_server *s, int fd, struct buf *b)
{
    size_t want = 0;
    buf_clear(b);
    while (want == 0 || b->n < want) {
        char piece[65536];
        if (!readable(s, fd))
            return false;
        ssize_t n = recv(fd, piece, sizeof piece, 0);
        if (n <= 0 || b->n > MAX_REQUEST)
            return false;
        buf_add(b, piece, (size_t)n);
        const char *end = strstr(b->p, "\r\n\r\n"), *length = strstr(b->p, "Content-Length: ");
        if (end && want == 0)
            want = (size_t)(end + 4 - b->p) +
                   (length && length < end ? (size_t)strtol(length + 16, NULL, 10) : 0);
    }
    return true;
}

static bool send_all(struct fault_server *s, int fd, const char *p, size_t n)
{
    while (n > 0) {
        struct pollfd w = {.fd = fd, .events = POLLOUT};
        if (s->stop)
            return false;
        if (poll(&w, 1, 20) == 0)
            continue;
        ssize_t sent = send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EAGAIN)
            continue;
        if (sent <= 0)
            return false;
        p += sent;
        n -= (size_t)sent;
    }
    return true;
}

static bool fill(struct fault_server *s, int fd, size_t n)
{
    char piece[65536];
    memset(piece, 'x', sizeof piece);
    for (; n > 0; n -= n < sizeof piece ? n : sizeof piece)
        if (!send_all(s, fd, piece, n < sizeof piece ? n : sizeof piece))
            return false;
    return true;
}

static void wait_ms(struct fault_server *s, int ms)
{
    for (; ms > 0 && !s->stop; ms -= 20)
        poll(NULL, 0, ms < 20 ? ms : 20);
}

static bool event(struct fault_server *s, int fd, const char *text)
{
    char *whole = mem_alloc(strlen(text) + 64);
    int n = snprintf(whole, strlen(text) + 64, "%zx\r\ndata: %s\n\n\r\n", strlen(text) + 8, text);
    bool ok = send_all(s, fd, whole, (size_t)n);
    mem_free(whole);
    return ok;
}

static bool drip(struct fault_server *s, int fd, const char *text, int ms)
{
    for (; *text && !s->stop; text++) {
        if (!send_all(s, fd, text, 1))
            return false;
        poll(NULL, 0, ms);
    }
    return true;
}

/* False: the connection is over. */
static bool play(struct fault_server *s, int fd, const struct fault_step *x)
{
    static const struct linger now = {1, 0};
    for (;; x++)
        switch (x->what) {
        case FAULT_END:
            return true;
        case FAULT_SEND:
            if (!send_all(s, fd, x->text, strlen(x->text)))
                return false;
            break;
        case FAULT_EVENT:
            if (!event(s, fd, x->text))
                return false;
            break;
        case FAULT_FILL:
            if (!fill(s, fd, (size_t)x->n))
                return false;
            break;
        case FAULT_DRIP:
            if (!drip(s, fd, x->text, x->n))
                return false;
            break;
        case FAULT_WAIT:
            wait_ms(s, x->n);
            break;
        case FAULT_HOLD:
            while (!s->stop)
                wait_ms(s, 1000);
            return false;
        case FAULT_CLOSE:
            return false;
        case FAULT_RESET:
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
            return false;
        }
}

static const struct fault_step *choose(struct fault_server *s, const struct buf *request)
{
    const char *at = strstr(request->p, "\"fault\":");
    size_t k = at ? (size_t)strtol(at + 8, NULL, 10) : 0;
    pthread_mutex_lock(&s->lock);
    buf_clear(&s->last);
    buf_add(&s->last, request->p, request->n);
    if (k >= s->n)
        k = 0;
    for (int i = 0; i < FAULT_ONS && s->faults[k].on[i].text; i++)
        if (strstr(request->p, s->faults[k].on[i].text)) {
            k = (size_t)s->faults[k].on[i].then;
            break;
        }
    int seen = s->seen[k]++;
    const struct fault *f = &s->faults[k];
    pthread_mutex_unlock(&s->lock);
    return f->times && seen >= f->times ? s->faults[f->then].steps : f->steps;
}

static void *serve(void *self)
{
    struct connection *c = self;
    struct buf request = {0};
    while (read_request(c->s, c->fd, &request) && play(c->s, c->fd, choose(c->s, &request)))
        ;
    buf_free(&request);
    close(c->fd);
    return NULL;
}

static void *accept_all(void *self)
{
    struct fault_server *s = self;
    while (readable(s, s->listener) && s->n_connections < MAX_CONNECTIONS) {
        int one = 1, fd = accept(s->listener, NULL, NULL);
        if (fd < 0)
            continue;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct connection *c = &s->connections[s->n_connections++];
        *c = (struct connection){.s = s, .fd = fd};
        if (pthread_create(&c->thread, NULL, serve, c) != 0)
            err_bug("no thread", __FILE__, __LINE__);
    }
    return NULL;
}

struct fault_server *fault_server_start(const struct fault *faults, size_t n)
{
    ASSERT(n <= MAX_FAULTS);
    struct fault_server *s = mem_alloc(sizeof *s);
    s->faults = faults;
    s->n = n;
    pthread_mutex_init(&s->lock, NULL);
    s->listener = bound_socket(&s->port);
    if (listen(s->listener, 128) != 0 || pthread_create(&s->acceptor, NULL, accept_all, s) != 0)
        err_bug("no listener", __FILE__, __LINE__);
    return s;
}

int fault_server_port(const struct fault_server *s)
{
    return s->port;
}

int fault_server_seen(struct fault_server *s, size_t fault)
{
    pthread_mutex_lock(&s->lock);
    int n = s->seen[fault];
    pthread_mutex_unlock(&s->lock);
    return n;
}

const char *fault_server_last(struct fault_server *s)
{
    return buf_str(&s->last);
}

void fault_server_stop(struct fault_server **out)
{
    struct fault_server *s = *out;
    *out = NULL;
    s->stop = true;
    pthread_join(s->acceptor, NULL);
    for (int i = 0; i < s->n_connections; i++)
        pthread_join(s->connections[i].thread, NULL);
    close(s->listener);
    pthread_mutex_destroy(&s->lock);
    buf_free(&s->last);
    mem_free(s);
}

int fault_closed_port(void)
{
    static int port, fd = -1; /* bound to the end, or another process might listen there */
    if (fd < 0)
        fd = bound_socket(&port);
    return port;
}
