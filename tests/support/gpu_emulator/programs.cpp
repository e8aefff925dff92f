/* The kernels' sources as a program of the host: compiled once for each dtype and head_dim, which
 * CMakeLists.txt defines (ELEM_..., HEAD_DIM, TABLE). Each source has a namespace of its own, as it
 * is a program of its own for NVRTC; the files it shares are those of its row in kernels.c. */
#include "support/gpu_emulator/device.hpp"

#include "engine/cuda/kernels/args.h"

#define PASTE_NAMES(a, b) a##_of_##b
#define PASTE(a, b)       PASTE_NAMES(a, b)
#define KERNEL(name)      PASTE(name, TABLE)

namespace
{
#include "engine/cuda/kernels/prelude.cu"

namespace token
{
#include "engine/cuda/kernels/token.cu"
}
namespace rope_
{
#include "engine/cuda/kernels/rope.cu"
}
namespace any
{
#include "engine/cuda/kernels/attention_any.cu"
}
namespace routing
{
#include "engine/cuda/kernels/route.cu"
}
namespace grouped
{
#include "engine/cuda/kernels/experts.cu"
}
namespace matrix
{
#include "engine/cuda/kernels/matmul_finish.cu"

#include "engine/cuda/kernels/matmul.cu"
} // namespace matrix
namespace one
{
#include "engine/cuda/kernels/matmul_finish.cu"

#include "engine/cuda/kernels/matmul_one.cu"
} // namespace one
namespace sampling
{
#include "engine/cuda/kernels/sample.cu"
}
namespace numbers
{
#include "engine/cuda/kernels/random.cu"
}
#if !defined(ELEM_F32)
namespace decode_
{
#include "engine/cuda/kernels/attention_page.cu"

#include "engine/cuda/kernels/attention_decode.cu"
} // namespace decode_
namespace prefill
{
#include "engine/cuda/kernels/attention_prefill.cu"
}
namespace step
{
#include "engine/cuda/kernels/attention_page.cu"

#include "engine/cuda/kernels/step_block.cu"

#include "engine/cuda/kernels/step_stream.cu"

#include "engine/cuda/kernels/step_input.cu"

#include "engine/cuda/kernels/step_product.cu"

#include "engine/cuda/kernels/decode_step.cu"
} // namespace step
#endif

template <auto Kernel> struct caller;
template <class Args, void (*Kernel)(Args)> struct caller<Kernel> {
    static void run(const void *args) { Kernel(*static_cast<const Args *>(args)); }
};
} // namespace

// clang-format off
#define ENTRY(space, name) {#name, caller<space::KERNEL(name)>::run}
// clang-format on

extern "C" const struct emulator_entry TABLE[] = {
    ENTRY(token, embed),
    ENTRY(token, norm),
    ENTRY(token, act),
    ENTRY(token, bias),
    ENTRY(rope_, rope),
    ENTRY(routing, route),
    ENTRY(routing, group),
    ENTRY(routing, combine),
    ENTRY(grouped, experts_few),
    ENTRY(grouped, experts_many),
    ENTRY(any, attention_any),
    ENTRY(one, matmul_one),
    ENTRY(one, matmul_one_gated),
    ENTRY(matrix, matmul_few),
    ENTRY(matrix, matmul_few_wide),
    ENTRY(matrix, matmul_few_gated),
    ENTRY(matrix, matmul_some),
    ENTRY(matrix, matmul_some_wide),
    ENTRY(matrix, matmul_some_gated),
    ENTRY(sampling, argmax),
    ENTRY(sampling, sample),
    ENTRY(numbers, random),
    ENTRY(numbers, fill),
#if !defined(ELEM_F32)
    ENTRY(decode_, attention_decode),
    ENTRY(prefill, attention_prefill),
    ENTRY(step, decode_step),
#endif
    {nullptr, nullptr},
};
