/* Any bytes as a SQLite database: the file is anybody's. */
#include "trace_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_trace_file(data, size);
}
