/* An event stream gives the same events however its bytes are cut, within its bounds, and whatever
 * an event holds, it is parsed to a result or refused. The first byte picks the size of the pieces.
 */
#include "fuzz.h"

#include "base/hash.h"
#include "client/response.h"

enum { MAX_BYTES = 512 };

struct outcome {
    uint64_t hash;
    enum sse_event last;
};

static struct outcome read_in_pieces(struct sv text, size_t piece)
{
    struct sse s = {0};
    struct outcome o = {0};
    sse_begin(&s, MAX_BYTES);
    o.last = SSE_MORE;
    for (size_t at = 0; at < text.n && o.last != SSE_TOO_LONG; at += piece) {
        size_t n = text.n - at < piece ? text.n - at : piece;
        char *held = mem_alloc(n);
        for (size_t i = 0; i < n; i++)
            held[i] = text.p[at + i];
        sse_feed(&s, held, n);
        struct sv data;
        while ((o.last = sse_next(&s, &data)) == SSE_EVENT) {
            REQUIRE(data.n <= MAX_BYTES);
            o.hash = o.hash * UINT64_C(0x100000001b3) ^ hash_bytes(data.p, data.n);
        }
        REQUIRE(s.line.n <= MAX_BYTES && s.data.n <= MAX_BYTES + 1);
        mem_free(held);
    }
    sse_free(&s);
    return o;
}

static void read_stream(struct sv text)
{
    static struct response s;
    struct client_result r = {0};
    response_begin(&s, &r, MAX_BYTES);
    response_bytes(&s, 1, text.p, text.n / 2);
    response_bytes(&s, 2, text.p + text.n / 2, text.n - text.n / 2);
    response_close(&s, 3);
    REQUIRE((r.status == RUN_OK) == (r.error_type[0] == 0));
    REQUIRE(r.status != RUN_OK || r.chunks.n > 0);
    client_result_free(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct sv text = {(const char *)data + 1, size - 1};
    struct outcome whole = read_in_pieces(text, text.n + 1);
    struct outcome pieces = read_in_pieces(text, 1 + data[0] % 16);
    REQUIRE(whole.hash == pieces.hash && whole.last == pieces.last);
    read_stream(text);
    return 0;
}
