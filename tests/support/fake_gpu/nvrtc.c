/* libnvrtc.so.13: "compiles" by collecting the names of the kernels. A source that holds #error
 * does not compile; one that holds #warning leaves a log. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/nvrtc.h"
#include "support/fake_gpu/fake_gpu.h"

#define FAKE_IMAGE "fake image"

#define X(name, arguments, needed) FAKE_EXPORT nvrtcResult name arguments;
GPU_NVRTC_LIST(X)
#undef X

struct _nvrtcProgram {
    char *source, *name, *log, *image;
    bool ptx;
};

nvrtcResult nvrtcVersion(int *major, int *minor)
{
    const int64_t v = fake_script_number("nvrtc", 1300);
    *major = (int)(v / 100);
    *minor = (int)(v % 100);
    return (nvrtcResult)fake_script_fail("nvrtcVersion");
}

static int archs(int *out)
{
    static const int known[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};
    const int64_t newest = fake_script_number("archs", 120);
    int n = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known && known[i] <= newest; i++, n++)
        if (out)
            out[i] = known[i];
    return n;
}

nvrtcResult nvrtcGetNumSupportedArchs(int *n)
{
    *n = archs(NULL);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetSupportedArchs(int *out)
{
    archs(out);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *source, const char *name,
                               int headers, const char *const *header_texts,
                               const char *const *header_names)
{
    const int error = fake_script_fail("nvrtcCreateProgram");
    (void)headers, (void)header_texts, (void)header_names;
    if (error)
        return (nvrtcResult)error;
    *program = calloc(1, sizeof **program);
    (*program)->source = strdup(source);
    (*program)->name = strdup(name);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program)
{
    free((*program)->source);
    free((*program)->name);
    free((*program)->log);
    free((*program)->image);
    free(*program);
    *program = NULL;
    return NVRTC_SUCCESS;
}

/* "<name>(1): <what>" */
static char *line_of(const char *name, const char *what)
{
    char line[512];
    snprintf(line, sizeof line, "%s(1): %s", name, what);
    return strdup(line);
}

/* The names behind `__global__ void`, launch bounds in between left out. */
static char *kernels_of(const char *source)
{
    static const char *const skipped[] = {"void", "static", "__launch_bounds__"};
    size_t room = strlen(source) + 64, n;
    char *out = malloc(room);
    n = (size_t)snprintf(out, room, "%s\n", FAKE_IMAGE);
    for (const char *p = source; (p = strstr(p, "__global__")) != NULL;) {
        p += strlen("__global__");
        for (bool again = true; again;) {
            again = false;
            p += strspn(p, " \t\n");
            for (size_t i = 0; i < sizeof skipped / sizeof *skipped; i++)
                if (strncmp(p, skipped[i], strlen(skipped[i])) == 0) {
                    p += strlen(skipped[i]);
                    if (*p == '(')
                        p += strcspn(p, ")") + 1;
                    again = true;
                }
        }
        const size_t length = strcspn(p, " \t\n(");
        n += (size_t)snprintf(out + n, room - n, "%.*s\n", (int)length, p);
    }
    return out;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int n, const char *const *options)
{
    const int error = fake_script_fail("nvrtcCompileProgram");
    if (error || strstr(program->source, "#error")) {
        program->log =
            line_of(program->name, "error: as asked for\n\n1 error detected in the compilation.\n");
        return error ? (nvrtcResult)error : NVRTC_ERROR_COMPILATION;
    }
    for (int i = 0; i < n; i++) {
        if (options[i][0] != '-')
            return NVRTC_ERROR_INVALID_OPTION;
        if (strstr(options[i], "=compute_"))
            program->ptx = true;
    }
    if (strstr(program->source, "#warning"))
        program->log = line_of(program->name, "warning: as asked for\n");
    program->image = kernels_of(program->source);
    return NVRTC_SUCCESS;
}

static nvrtcResult size_of(const char *text, size_t *bytes)
{
    *bytes = text ? strlen(text) + 1 : 0;
    return NVRTC_SUCCESS;
}

static nvrtcResult copy(const char *text, char *out)
{
    if (text)
        memcpy(out, text, strlen(text) + 1);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *bytes)
{
    return size_of(program->ptx ? NULL : program->image, bytes);
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *image)
{
    return copy(program->image, image);
}

nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t *bytes)
{
    return size_of(program->image, bytes);
}

nvrtcResult nvrtcGetPTX(nvrtcProgram program, char *text)
{
    return copy(program->image, text);
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *bytes)
{
    return size_of(program->log ? program->log : "", bytes);
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *text)
{
    return copy(program->log ? program->log : "", text);
}
