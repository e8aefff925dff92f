/* A safetensors file: tensors inside the bytes that read as float32 and survive being written, or a
 * named error. */
#include "fuzz.h"

#include <string.h>

#include "model/safetensors.h"

static void check_tensor(struct sv file, const struct tensor *t)
{
    const char *begin = t->data;
    REQUIRE(begin >= file.p && begin <= file.p + file.n);
    REQUIRE(t->bytes <= (size_t)(file.p + file.n - begin));
    REQUIRE((size_t)tensor_elements(t) * dtype_bytes(t->dtype) == t->bytes);
    float *x = mem_alloc((t->bytes + 1) * sizeof *x);
    tensor_to_f32(t, 0, (size_t)tensor_elements(t), x);
    mem_free(x);
}

static void check_again(struct arena *a, const struct tensor *t, size_t n)
{
    struct buf b = {0};
    struct tensor *again;
    size_t count;
    struct err e = {0};
    safetensors_header(&b, NULL, t, n);
    for (size_t i = 0; i < n; i++)
        buf_add(&b, t[i].data, t[i].bytes);
    REQUIRE(safetensors_parse(a, "again", (struct sv){b.p, b.n}, &again, &count, &e) == ST_OK);
    REQUIRE(count == n);
    buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new();
    const struct sv file = {(const char *)data, size};
    struct tensor *t;
    size_t n;
    struct err e = {0};
    if (safetensors_parse(a, "input", file, &t, &n, &e) == ST_OK) {
        for (size_t i = 0; i < n; i++)
            check_tensor(file, &t[i]);
        check_again(a, t, n);
    } else {
        REQUIRE(e.st == ST_INPUT && err_cause(&e, 0));
    }
    arena_free(&a);
    return 0;
}
