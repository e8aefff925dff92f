/* Server-sent events, bounded and incremental (WHATWG HTML, "event stream").
 *
 * Bytes go in as they come off the wire, in pieces of any size; the data of whole events comes out.
 * Lines end in LF, CR or CRLF; the data lines of an event are joined by LF; comments and the fields
 * event, id and retry are passed over, and so is an event without data. A byte-order mark at the
 * beginning is skipped. The same bytes give the same events however they are cut.
 *
 * An event or a line of more than max_bytes ends the stream: SSE_TOO_LONG, and again ever after.
 * Memory is at most twice max_bytes plus what is fed. */
#ifndef CLIENT_SSE_H
#define CLIENT_SSE_H

#include "base/str.h"

enum { SSE_MAX_BYTES = 1 << 20 };

enum sse_event {
    SSE_MORE,  /* all bytes given so far are used up */
    SSE_EVENT, /* an event with data */
    SSE_TOO_LONG,
};

struct sse {
    const char *p, *end; /* unread bytes of the feed, borrowed */
    size_t max_bytes;
    struct buf line; /* the beginning of a line that the feed before cut */
    struct buf data; /* data lines of the event so far */
    uint64_t lines;
    bool has_data, after_cr, too_long;
    bool delivered; /* data was handed out: forget it at the next call */
};

/* A new stream; keeps the memory of the one before. max_bytes 0 = SSE_MAX_BYTES. */
void sse_begin(struct sse *s, size_t max_bytes);
void sse_free(struct sse *s);

/* More bytes, borrowed until sse_next answers SSE_MORE. */
void sse_feed(struct sse *s, const char *p, size_t n);

/* The next event's data, valid until the next call of any function here. */
enum sse_event sse_next(struct sse *s, struct sv *data);

/* Bytes of an event that has not ended: what a stream that stops here has lost. */
size_t sse_pending(const struct sse *s);

#endif
