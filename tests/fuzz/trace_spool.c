/* Any bytes as a spool. Checksums would keep nearly all of them out, so what looks like a block
 * gets its own; not all do, so that damage is skipped. */
#include "trace_file.h"

#include "trace/spool.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size + 1);
    REQUIRE(copy);
    memcpy(copy, data, size);
    for (size_t at = sizeof(struct spool_header); at + sizeof(struct spool_block) <= size;) {
        struct spool_block b;
        memcpy(&b, copy + at, sizeof b);
        if (b.bytes > size - at - sizeof b)
            break;
        b.magic = SPOOL_BLOCK_MAGIC;
        b.checksum = trace_spool_checksum(0, &b, offsetof(struct spool_block, checksum));
        b.checksum =
            trace_spool_checksum(b.checksum, copy + at + sizeof b, b.bytes) ^ (b.reserved & 1);
        memcpy(copy + at, &b, sizeof b);
        at += sizeof b + b.bytes;
    }
    int code = fuzz_trace_file(copy, size);
    free(copy);
    return code;
}
