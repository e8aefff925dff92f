/* Any bytes as lines of a worker. */
#include <string.h>

#include "engine/worker/message.h"
#include "fuzz.h"

static void check(const struct worker_event *ev)
{
    REQUIRE(worker_event_name(ev->type)[0] != 0);
    if (ev->type == WORKER_TOKENS) {
        REQUIRE(ev->tokens.n > 0 && ev->tokens.t_ns >= 0);
        for (size_t i = 0; i < ev->tokens.n; i++)
            REQUIRE(ev->tokens.ids[i] >= 0 && (!ev->tokens.tokens || ev->tokens.tokens[i] >= 0));
    }
    if (ev->type == WORKER_BATCH)
        REQUIRE(ev->batch.end_ns >= ev->batch.start_ns && ev->batch.batch_size > 0);
    if (ev->type == WORKER_CLOCK)
        REQUIRE(ev->clock.send_ns >= ev->clock.recv_ns);
    if (ev->type == WORKER_HELLO && ev->hello.protocol == WORKER_PROTOCOL)
        REQUIRE(ev->hello.name[0] != 0 && ev->hello.capabilities->kind == NODE_MAP);
    if (ev->type == WORKER_ERROR)
        REQUIRE(ev->error.message != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new();
    const char *p = (const char *)data;
    long number = 0;
    for (size_t at = 0; at < size;) {
        const char *end = memchr(p + at, '\n', size - at);
        struct sv line = {p + at, end ? (size_t)(end - p) - at : size - at};
        struct worker_event ev;
        struct err e = {0};
        at += line.n + 1;
        arena_reset(a);
        enum st st = worker_event_read(a, line, ++number, &ev, &e);
        if (st == ST_OK)
            check(&ev);
        else
            REQUIRE(st == ST_INPUT && strncmp(err_cause(&e, 0), "worker", 6) == 0);
    }
    arena_free(&a);
    return 0;
}
