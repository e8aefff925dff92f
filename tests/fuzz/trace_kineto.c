/* Any bytes as a PyTorch trace, packed or not. */
#include "trace_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_trace_file(data, size);
}
