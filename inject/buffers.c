#include "inject/buffers.h"

#include <sys/mman.h>

#include "inject/guest.h"
#include "inject/writer.h"

/* CUPTI's activity buffers: a private header page, then the bytes given to CUPTI. */
enum { HEAD = 4096 };

struct buffer {
    struct buffer *next, *older;
    size_t valid;
};

static struct buffer *spare, *full, **full_end = &full, *newest;
static int64_t made, in_use, peak, spares;
static size_t data_bytes; /* of every buffer; fixed */

void inject_buffers_reset(void)
{
    spare = full = newest = NULL;
    full_end = &full;
    made = in_use = peak = spares = 0;
    data_bytes = (size_t)guest.settings.buffer_bytes;
}

static struct buffer *make(bool touch)
{
    void *p = mmap(NULL, HEAD + data_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | (touch ? MAP_POPULATE : 0), -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* Lock `buffers` held, here and below. */
static void keep(struct buffer *b)
{
    b->older = newest;
    newest = b;
}

static uint8_t *data(struct buffer *b)
{
    return (uint8_t *)b + HEAD;
}

static struct buffer *of(uint8_t *p)
{
    return (struct buffer *)(void *)(p - HEAD);
}

/* Checks the buffer's origin: another profiler that had CUPTI during a pause may have left its own.
 */
static bool is_ours(const uint8_t *p)
{
    struct buffer *b = newest;
    while (b && data(b) != p)
        b = b->older;
    return b != NULL;
}

void inject_buffers_request(uint8_t **buffer, size_t *bytes)
{
    *buffer = NULL;
    *bytes = 0;
    pthread_mutex_lock(&guest.buffers);
    struct buffer *b = spare;
    if (b) {
        spare = b->next;
        spares--;
    } else if (made < guest.settings.max_buffers) {
        b = make(false);
        made += b != NULL;
        if (b)
            keep(b);
    }
    if (b) {
        in_use++;
        peak = in_use > peak ? in_use : peak;
        *buffer = data(b);
        *bytes = data_bytes;
    }
    bool low = b && spares == 0;
    pthread_mutex_unlock(&guest.buffers);
    if (low)
        inject_writer_wake();
}

void inject_buffers_completed(uint8_t *buffer, size_t valid)
{
    if (!buffer)
        return;
    pthread_mutex_lock(&guest.buffers);
    bool ours = is_ours(buffer);
    if (ours) {
        struct buffer *b = of(buffer);
        b->valid = valid;
        b->next = NULL;
        *full_end = b;
        full_end = &b->next;
    }
    pthread_mutex_unlock(&guest.buffers);
    if (ours)
        inject_writer_wake();
}

uint8_t *inject_buffers_take(size_t *valid)
{
    pthread_mutex_lock(&guest.buffers);
    struct buffer *b = full;
    if (b) {
        full = b->next;
        if (!full)
            full_end = &full;
    }
    pthread_mutex_unlock(&guest.buffers);
    if (!b)
        return NULL;
    *valid = b->valid;
    return data(b);
}

void inject_buffers_return(uint8_t *buffer)
{
    struct buffer *b = of(buffer);
    pthread_mutex_lock(&guest.buffers);
    b->next = spare;
    spare = b;
    spares++;
    in_use--;
    pthread_mutex_unlock(&guest.buffers);
}

void inject_buffers_refill(void)
{
    for (;;) {
        pthread_mutex_lock(&guest.buffers);
        bool want = spares < 2 && made < guest.settings.max_buffers;
        made += want;
        pthread_mutex_unlock(&guest.buffers);
        if (!want)
            return;
        struct buffer *b = make(true);
        pthread_mutex_lock(&guest.buffers);
        if (b) {
            keep(b);
            b->next = spare;
            spare = b;
            spares++;
        } else {
            made--;
        }
        pthread_mutex_unlock(&guest.buffers);
        if (!b)
            return;
    }
}

uint64_t inject_buffers_peak(void)
{
    pthread_mutex_lock(&guest.buffers);
    int64_t n = peak;
    pthread_mutex_unlock(&guest.buffers);
    return (uint64_t)n;
}

uint64_t inject_buffers_bytes(void)
{
    pthread_mutex_lock(&guest.buffers);
    int64_t n = made;
    pthread_mutex_unlock(&guest.buffers);
    return (uint64_t)n * (HEAD + data_bytes);
}
