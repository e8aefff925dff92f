#include <string.h>

#include "base/embed.h"
#include "base/str.h"
#include "engine/cuda/kernels.h"

static const char *const defines[CUDA_DTYPES] = {
    [CUDA_F32] = "ELEM_F32", [CUDA_F16] = "ELEM_F16", [CUDA_BF16] = "ELEM_BF16"};

/* The entries as a list: in the text their names come out of macros, which a reader, and the fake
 * compiler of the tests, do not expand. */
static void list_entries(struct arena *a, struct buf *out, const char *source, enum cuda_dtype t)
{
    for (int i = 0; i < CUDA_KERNELS; i++)
        if (strcmp(cuda_kernels[i].source, source) == 0 && (cuda_kernels[i].dtypes >> t & 1))
            buf_printf(out, "// __global__ %s(const struct cuda_..._args)\n",
                       cuda_kernel_entry(a, &cuda_kernels[i], t));
}

static void put_file(struct buf *out, const char *name)
{
    const struct embed_file *f = embed_find(embed_engine, name);
    ASSERT(f);
    buf_printf(out, "#line 1 \"%s\"\n%s\n", name, f->bytes);
}

static void put_shared_files(struct buf *out, const char *source)
{
    for (int i = 0; i < CUDA_KERNELS; i++) {
        if (strcmp(cuda_kernels[i].source, source) != 0)
            continue;
        for (int j = 0; cuda_kernels[i].shares[j]; j++)
            put_file(out, cuda_kernels[i].shares[j]);
        return;
    }
}

const char *cuda_program(struct arena *a, const char *source, enum cuda_dtype t, int head_dim)
{
    struct buf text = {0};
    if (!embed_find(embed_engine, source))
        return NULL;
    list_entries(a, &text, source, t);
    buf_printf(&text, "#define %s 1\n#define KERNEL(name) name##_%s\n", defines[t],
               cuda_dtype_name(t));
    if (head_dim)
        buf_printf(&text, "#define HEAD_DIM %d\n", head_dim);
    put_file(&text, "args.h");
    put_file(&text, "ptx.cu");
    put_file(&text, "prelude.cu");
    put_shared_files(&text, source);
    put_file(&text, source);
    const char *out = arena_strn(a, text.p, text.n);
    buf_free(&text);
    return out;
}
