#include "model/state_ops.h"

struct sizes {
    double heads, k, v, chunk, key_heads, decays;
};

typedef void recurrence_fn(const struct sizes *x, struct state_work *out);

static void delta(const struct sizes *x, struct state_work *out)
{
    const double c = x->chunk;
    out->decode_flop = x->heads * (7 * x->k * x->v + 2 * x->v);
    out->prompt_flop = x->heads * (6 * x->k * x->v + c * (3 * x->k + 2 * x->v) + c * c / 3);
    out->token_elements =
        2 * x->key_heads * x->k + 2 * x->heads * x->v + x->decays + x->heads; /* and steps */
}

static void mamba(const struct sizes *x, struct state_work *out)
{
    out->decode_flop = out->prompt_flop = x->heads * (7 * x->k + 3);
    out->token_elements = 3 * x->heads + 2 * x->k; /* inputs, steps, outputs; B, C */
}

static void mamba2(const struct sizes *x, struct state_work *out)
{
    out->decode_flop = x->heads * (5 * x->k * x->v + 2 * x->v);
    out->prompt_flop =
        x->heads * (4 * x->k * x->v + x->chunk * x->v + 2 * x->v) + x->key_heads * x->chunk * x->k;
    out->token_elements = 2 * x->key_heads * x->k + 2 * x->heads * x->v + x->decays;
}

static void lightning(const struct sizes *x, struct state_work *out)
{
    out->decode_flop = 5 * x->heads * x->k * x->v;
    out->prompt_flop = x->heads * (4 * x->k * x->v + x->chunk * (x->k + x->v));
    out->token_elements = 2 * x->heads * (x->k + x->v);
}

static void rg_lru(const struct sizes *x, struct state_work *out)
{
    out->decode_flop = out->prompt_flop = 17 * x->heads;
    out->token_elements = 4 * x->heads; /* inputs, those of both gates, outputs */
}

struct state_work state_work_of(const struct sequence_state *s)
{
    static recurrence_fn *const recurrences[STATE_TYPES] = {
        [STATE_DELTA] = delta,         [STATE_MAMBA] = mamba,   [STATE_MAMBA2] = mamba2,
        [STATE_LIGHTNING] = lightning, [STATE_RG_LRU] = rg_lru,
    };
    const struct sizes x = {(double)s->heads, (double)s->k_dim,     (double)s->v_dim,
                            (double)s->chunk, (double)s->key_heads, (double)s->decays};
    const double channels = (double)s->channels, taps = (double)s->taps;
    const double outputs = x.heads * x.v;
    struct state_work out = {0};
    if (s->type == STATE_NONE)
        return out;
    if (s->type == STATE_CONVOLUTION) { /* gates in and out, in one kernel */
        out.decode_flop = out.prompt_flop = channels * (2 * taps + 2);
        out.token_elements = 4 * channels;
        return out;
    }
    recurrences[s->type](&x, &out);
    const double around = channels * (2 * taps + 4) + 9 * outputs;
    out.decode_flop += around;
    out.prompt_flop += around;
    out.token_elements += 2 * channels + 3 * outputs;
    return out;
}

struct state_kernel state_kernel_of(const struct sequence_state *s)
{
    if (s->type != STATE_DELTA)
        return (struct state_kernel){0};
    return s->decays > s->heads ? (struct state_kernel){0.155, 4.5e-6} /* of each element */
                                : (struct state_kernel){0.34, 3.05e-6};
}
