/* Server-sent events, bounded and incremental (WHATWG HTML, "event stream").
 *
 * Bytes go in as they come off the wire, in pieces of any size; the data of whole events comes out.
 * Lines end in LF, CR or CRLF; the data lines of an event are joined by LF; comments and the fields
 * id and retry are skipped, and so is an event without data. A byte-order mark at the beginning is
 * skipped. Events do not depend on how the bytes are cut into pieces.
 *
 * Failures that servers report outside data, each an event with is_error: `event: error` (any
 * name that ends in error or exception), whose data may be missing (then its comment is the data);
 * a field `error: ...` (llama.cpp), whose value is the data; a line that begins with '{', an error
 * document in the place of an event.
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
    struct buf line;    /* the beginning of a line that the feed before cut */
    struct buf data;    /* data lines of the event so far */
    struct buf comment; /* the last one in the event so far */
    uint64_t lines;
    bool has_data, after_cr, too_long;
    bool is_error;  /* of the event that was returned, or so far */
    bool delivered; /* data was returned: clear it at the next call */
};

/* A new stream; keeps the memory of the one before. max_bytes 0 = SSE_MAX_BYTES. */
void sse_begin(struct sse *s, size_t max_bytes);
void sse_free(struct sse *s);

/* More bytes, borrowed until sse_next returns SSE_MORE. */
void sse_feed(struct sse *s, const char *p, size_t n);

/* The next event's data, valid until the next call of any function here. */
enum sse_event sse_next(struct sse *s, struct sv *data);

/* The stream is over: what lacks its blank line is an event too, for sse_next to return. */
void sse_finish(struct sse *s);

/* Bytes of an unfinished event: lost if the stream stops here. */
size_t sse_pending(const struct sse *s);

#endif
