#define _GNU_SOURCE /* cores */
#include "client/null_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/vec.h"

enum { HEAD_MAX = 4096, PIECE = 1 << 18 };

static const char stream_head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                                  "Transfer-Encoding: chunked\r\n\r\n";
static const char token[] = "4b\r\ndata: {\"id\":\"c\",\"choices\":[{\"index\":0,\"text\":\" a\","
                            "\"finish_reason\":null}]}\n\n\r\n";
static const char stream_tail[] = "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";

struct peer {
    int fd;
    size_t head_n;       /* bytes of head kept */
    char head[HEAD_MAX]; /* of the request: headers and the first of the body */
    int64_t body_left;   /* -1 = still in the headers */
    int64_t tokens;      /* to be sent; 0 = idle */
    int64_t due_ns;      /* of the next */
    size_t at;           /* in server.streams */
};

struct server {
    int epoll, listener;
    int64_t gap_ns;
    VEC(struct peer *) streams; /* that have tokens to come */
};

_Noreturn static void fail(const char *what)
{
    fprintf(stderr, "null server: %s: %s\n", what, strerror(errno));
    exit(1);
}

void pin(int core)
{
    cpu_set_t set;
    if (core < 0)
        return;
    CPU_ZERO(&set);
    CPU_SET((unsigned)core, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        fprintf(stderr, "cannot pin to core %d: %s\n", core, strerror(errno));
}

static void put(struct peer *p, const char *text, size_t n)
{
    while (n > 0) { /* the client reads: a full buffer empties by itself */
        ssize_t sent = send(p->fd, text, n, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        text += sent;
        n -= (size_t)sent;
    }
}

static void stream_end(struct server *s, struct peer *p)
{
    struct peer *last = vec_pop(&s->streams);
    if (last != p) {
        s->streams.p[p->at] = last;
        last->at = p->at;
    }
    p->tokens = 0;
}

static void send_token(struct peer *p)
{
    char both[sizeof token + sizeof stream_tail];
    size_t n = sizeof token - 1;
    memcpy(both, token, n);
    if (p->tokens-- == 1) {
        memcpy(both + n, stream_tail, sizeof stream_tail - 1);
        n += sizeof stream_tail - 1;
    }
    put(p, both, n);
}

static void answer(struct server *s, struct peer *p)
{
    const char *at = strstr(p->head, "\"max_tokens\":");
    int64_t n = at ? strtol(at + 13, NULL, 10) : 1;
    p->head_n = 0;
    p->body_left = -1;
    put(p, stream_head, sizeof stream_head - 1);
    p->tokens = n;
    if (s->gap_ns > 0) {
        p->due_ns = clock_mono_ns() + s->gap_ns;
        p->at = s->streams.n;
        vec_push(&s->streams, p);
        return;
    }
    while (p->tokens > 0)
        send_token(p);
}

static void drop(struct server *s, struct peer *p)
{
    if (p->tokens > 0)
        stream_end(s, p);
    close(p->fd);
    mem_free(p);
}

/* What was read: headers, then a body of which the first bytes are kept. */
static void take(struct server *s, struct peer *p, const char *data, size_t n)
{
    size_t keep = sizeof p->head - 1 - p->head_n;
    keep = keep < n ? keep : n;
    memcpy(p->head + p->head_n, data, keep);
    p->head_n += keep;
    p->head[p->head_n] = 0;
    if (p->body_left < 0) {
        const char *end = strstr(p->head, "\r\n\r\n");
        const char *length = strstr(p->head, "Content-Length: ");
        if (!end || !length)
            return;
        int64_t head = end + 4 - p->head, before = (int64_t)(p->head_n - keep);
        p->body_left = strtol(length + 16, NULL, 10) - (before + (int64_t)n - head);
    } else {
        p->body_left -= (int64_t)n;
    }
    if (p->body_left <= 0)
        answer(s, p);
}

static void readable(struct server *s, struct peer *p)
{
    static char piece[PIECE];
    ssize_t n = recv(p->fd, piece, sizeof piece, MSG_DONTWAIT);
    if (n > 0)
        take(s, p, piece, (size_t)n);
    else if (n == 0 || errno != EAGAIN)
        drop(s, p);
}

static void accept_one(struct server *s)
{
    int one = 1, fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct peer *p = mem_alloc(sizeof *p);
    p->fd = fd;
    p->body_left = -1;
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = p};
    if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &ev) != 0)
        fail("epoll");
}

/* Streams that are due; returns the ms until the next look. */
static int send_due(struct server *s)
{
    int64_t now = clock_mono_ns();
    for (size_t i = s->streams.n; i-- > 0;) {
        struct peer *p = s->streams.p[i];
        if (p->due_ns > now)
            continue;
        p->due_ns += s->gap_ns;
        bool last = p->tokens == 1;
        send_token(p);
        if (last)
            stream_end(s, p);
    }
    return s->streams.n ? 1 : -1;
}

_Noreturn static void run(struct server *s)
{
    struct epoll_event ev[256];
    for (;;) {
        int n = epoll_wait(s->epoll, ev, 256, send_due(s));
        for (int i = 0; i < n; i++)
            if (ev[i].data.ptr)
                readable(s, ev[i].data.ptr);
            else
                accept_one(s);
    }
}

struct null_server null_server_start(int core, int64_t gap_ns)
{
    struct server s = {.gap_ns = gap_ns};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    s.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s.listener < 0 || bind(s.listener, (struct sockaddr *)&at, sizeof at) != 0 ||
        listen(s.listener, 4096) != 0 || getsockname(s.listener, (struct sockaddr *)&at, &n) != 0)
        fail("socket");
    int pid = fork();
    if (pid < 0)
        fail("fork");
    if (pid > 0) {
        close(s.listener);
        return (struct null_server){pid, ntohs(at.sin_port)};
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
        r.rlim_cur = r.rlim_max;
        setrlimit(RLIMIT_NOFILE, &r);
    }
    pin(core);
    s.epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = NULL};
    if (s.epoll < 0 || epoll_ctl(s.epoll, EPOLL_CTL_ADD, s.listener, &ev) != 0)
        fail("epoll");
    run(&s);
}

void null_server_stop(const struct null_server *s)
{
    kill(s->pid, SIGKILL);
    waitpid(s->pid, NULL, 0);
}
