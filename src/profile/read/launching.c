#include "profile/read/launching.h"

#include <math.h>

/* How batches up to the largest captured size are launched; beyond it, kernel by kernel. */
static const struct {
    const char *name;
    enum launch decodes, others;
} modes[] = {
    [LAUNCHING_UNTOLD] = {"auto", LAUNCH_UNTOLD, LAUNCH_UNTOLD},
    [LAUNCHING_NONE] = {"none", LAUNCH_KERNELS, LAUNCH_KERNELS},
    [LAUNCHING_PIECEWISE] = {"piecewise", LAUNCH_PIECES, LAUNCH_PIECES},
    [LAUNCHING_FULL] = {"full", LAUNCH_GRAPH, LAUNCH_GRAPH},
    [LAUNCHING_FULL_DECODE_ONLY] = {"full_decode_only", LAUNCH_GRAPH, LAUNCH_KERNELS},
    [LAUNCHING_FULL_AND_PIECEWISE] = {"full_and_piecewise", LAUNCH_GRAPH, LAUNCH_PIECES},
};

const char *launching_mode_name(enum launching_mode m)
{
    return modes[m].name;
}

enum launch launching_of(const struct launching *l, int64_t tokens, bool decodes)
{
    if (l->mode != LAUNCHING_UNTOLD && tokens > l->tokens)
        return LAUNCH_KERNELS;
    return decodes ? modes[l->mode].decodes : modes[l->mode].others;
}

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

int64_t launching_padded(const struct launching *l, int64_t tokens, bool decodes)
{
    const enum launch how = launching_of(l, tokens, decodes);
    if (how == LAUNCH_UNTOLD || how == LAUNCH_KERNELS || tokens <= 2)
        return tokens;
    const int64_t size = tokens <= 4     ? 4
                         : tokens <= 256 ? round_up(tokens, 8)
                                         : round_up(tokens, 16);
    return size < l->tokens ? size : l->tokens;
}

bool launching_has_pieces(const struct launching *l)
{
    return modes[l->mode].decodes == LAUNCH_PIECES || modes[l->mode].others == LAUNCH_PIECES;
}

double launching_unevenness(double spread, int64_t n)
{
    static const double golden = 0.61803398874989485;
    const double x = ((double)n + 0.5) * golden, u = x - floor(x);
    return (1 - spread * log1p(-u)) / (1 + spread);
}
