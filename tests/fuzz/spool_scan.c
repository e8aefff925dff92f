/* Any bytes as a spool to be listed. Checksums would keep nearly all of them out, so what looks
 * like a block gets its own; not all do, so that damage is skipped. */
#include "fuzz.h"

#include <string.h>
#include <unistd.h>

#include "trace/spool_scan.h"

static void mend(uint8_t *copy, size_t size)
{
    for (size_t at = sizeof(struct spool_header); at + sizeof(struct spool_block) <= size;) {
        struct spool_block b;
        memcpy(&b, copy + at, sizeof b);
        if (b.magic != SPOOL_BLOCK_MAGIC || b.bytes > size - at - sizeof b)
            return;
        b.checksum = trace_spool_checksum(0, &b, offsetof(struct spool_block, checksum));
        b.checksum =
            trace_spool_checksum(b.checksum, copy + at + sizeof b, b.bytes) ^ (b.reserved & 1);
        memcpy(copy + at, &b, sizeof b);
        at += sizeof b + b.bytes;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char path[64];
    uint8_t *copy = malloc(size + 1);
    struct arena *a = arena_new();
    struct spool_facts f;
    struct err e = {0};
    REQUIRE(copy);
    memcpy(copy, data, size);
    mend(copy, size);
    if (!path[0])
        snprintf(path, sizeof path, "/tmp/twinfer_fuzz_scan_%d", (int)getpid());
    FILE *file = fopen(path, "wb");
    REQUIRE(file && fwrite(copy, 1, size, file) == size);
    fclose(file);
    free(copy);
    if (trace_spool_scan(a, path, &f, &e) == ST_OK) {
        REQUIRE(f.whole_bytes + f.skipped_bytes + f.cut_bytes == size && f.bytes == size);
        REQUIRE(f.command);
        for (size_t i = 0; i < f.n_notes; i++)
            REQUIRE(f.notes[i]);
    } else {
        REQUIRE(e.st == ST_INPUT && err_cause(&e, 0));
    }
    unlink(path);
    arena_free(&a);
    return 0;
}
