/* Names of models and GPUs, as records spell them. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "calibrate/observed.h"

bool observed_says(const char *text, const char *word)
{
    const size_t n = strlen(word);
    for (; *text; text++)
        if (strncasecmp(text, word, n) == 0)
            return true;
    return false;
}

/* ---- models ---------------------------------------------------------------------------------- */

/* Parts of a name that say who tuned or quantised it, or when: not what shape it has. */
static bool says_nothing(const char *part, size_t n)
{
    static const char *const words[] = {"meta",  "instruct",  "chat", "base",  "hf",   "it",
                                        "fp8",   "dynamic",   "awq",  "gptq",  "int4", "int8",
                                        "nvfp4", "quantized", "w8a8", "w4a16", "kv"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == n && strncasecmp(part, words[i], n) == 0)
            return true;
    return n == 4 && strspn(part, "0123456789") >= 4; /* 2407 */
}

/* The next part that says something: from *p, which moves behind it. 0 = none is left. */
static size_t next_part(const char **p, const char **part)
{
    while (**p) {
        const size_t n = strcspn(*p, "-_ ");
        *part = *p;
        *p += n + ((*p)[n] != 0);
        size_t said = strcspn(*part, "."); /* "quantized.w8a8" */
        if (says_nothing(*part, n) || (said < n && says_nothing(*part, said)))
            continue;
        if (n == 4 && strncasecmp(*part, "v0.", 3) == 0) /* v0.1 */
            continue;
        if (n > 0)
            return n;
    }
    return 0;
}

bool observed_same_model(const char *a, const char *b)
{
    if (!a || !b)
        return a == b;
    const char *p = strrchr(a, '/') ? strrchr(a, '/') + 1 : a;
    const char *q = strrchr(b, '/') ? strrchr(b, '/') + 1 : b;
    for (;;) {
        const char *one = p, *other = q;
        const size_t n = next_part(&p, &one), m = next_part(&q, &other);
        if (n != m || strncasecmp(one, other, n) != 0)
            return false;
        if (n == 0)
            return true;
    }
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

struct gpu_name {
    char kind[16]; /* "h100" */
    bool pcie, nvl;
    long gb; /* 0 = not stated */
};

/* Of "NVIDIA H100 80GB HBM3": a word of letters and then digits is the kind, a number of GB the
 * memory. */
static struct gpu_name parse_gpu(const char *s)
{
    struct gpu_name out = {.pcie = observed_says(s, "pcie"), .nvl = observed_says(s, "nvl")};
    while (*s) {
        const size_t n = strcspn(s, " -_,()");
        const size_t letters = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
        char *end;
        const long number = strtol(s, &end, 10);
        if (end > s && end < s + n && strncasecmp(end, "gb", 2) == 0)
            out.gb = number;
        else if (!out.kind[0] && letters < n && letters > 0 && letters <= 3 &&
                 n < sizeof out.kind && isdigit((unsigned char)s[letters]))
            for (size_t i = 0; i < n; i++)
                out.kind[i] = (char)tolower((unsigned char)s[i]);
        s += n + (s[n] != 0);
    }
    return out;
}

bool observed_same_gpu(const char *a, const char *b)
{
    if (!a || !b)
        return a == b;
    const struct gpu_name x = parse_gpu(a), y = parse_gpu(b);
    if (!x.kind[0] || !y.kind[0])
        return strcasecmp(a, b) == 0;
    return strcmp(x.kind, y.kind) == 0 && x.pcie == y.pcie && x.nvl == y.nvl &&
           (x.gb == 0 || y.gb == 0 || x.gb == y.gb);
}
