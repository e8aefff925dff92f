#include <math.h>
#include <string.h>

#include "engine/cpu/forward.h"

/* Experts: the router chooses some for each token, rows are gathered by expert, and each expert
 * that is hit is one product over its rows (gemm_run_groups). A token's result depends neither on
 * the others nor on their order: its outputs are summed in the order in which it chose. */

static const struct mlp *mlp_of(const struct forward *f, int64_t layer)
{
    return &f->s->mlp[model_mlp_of(f->m, layer)];
}

/* ---- the router ------------------------------------------------------------------------------ */

/* The k largest of n, largest first; of equal ones the first. */
static void choose(const float *logits, int64_t n, int64_t k, int32_t *chosen)
{
    int64_t have = 0;
    for (int64_t e = 0; e < n; e++) {
        int64_t at = have < k ? have++ : k;
        for (; at > 0 && logits[e] > logits[chosen[at - 1]]; at--)
            if (at < k)
                chosen[at] = chosen[at - 1];
        if (at < k)
            chosen[at] = (int32_t)e;
    }
}

static void divide(float *x, int64_t n, float by)
{
    for (int64_t i = 0; i < n; i++)
        x[i] /= by;
}

/* exp() and sums are those of every softmax here, in float32. Softmax keeps the order, so the
 * largest logits are the largest of its values. */
static void route_row(struct forward *f, int64_t layer, int64_t t)
{
    const struct mlp *p = mlp_of(f, layer);
    const int64_t k = p->experts_per_token;
    float *logits = f->experts.logits + t * p->experts, *weights = f->experts.weights + t * k;
    int32_t *chosen = f->experts.chosen + t * k;
    choose(logits, p->experts, k, chosen);
    const float top = logits[chosen[0]];
    for (int64_t i = 0; i < k; i++)
        weights[i] = logits[chosen[i]];
    const float of_chosen = f->kn->exp_sum((size_t)k, weights, top);
    const bool to_one = p->router == ROUTER_TOP_SOFTMAX || p->norm_topk;
    divide(weights, k, to_one ? of_chosen : f->kn->exp_sum((size_t)p->experts, logits, top));
}

/* Rows of each expert, in order of the experts, and within one of the tokens. */
static void group_rows(struct forward *f, const struct mlp *p, struct matrix *const first)
{
    struct experts *x = &f->experts;
    const int64_t n = f->b->n_tokens * p->experts_per_token;
    int64_t at = 0;
    memset(x->groups, 0, (size_t)p->experts * sizeof *x->groups);
    for (int64_t i = 0; i < n; i++)
        x->groups[x->chosen[i]].rows++;
    for (int64_t e = 0; e < p->experts; e++) {
        x->groups[e].w = first + e;
        x->groups[e].first = at;
        at += x->groups[e].rows;
        x->groups[e].rows = 0;
    }
    for (int64_t i = 0; i < n; i++) {
        struct gemm_group *g = &x->groups[x->chosen[i]];
        x->at[i] = (int32_t)(g->first + g->rows++);
        x->token[x->at[i]] = (int32_t)(i / p->experts_per_token);
    }
    x->n_groups = 0;
    for (int64_t e = 0; e < p->experts; e++)
        if (x->groups[e].rows > 0)
            x->groups[x->n_groups++] = x->groups[e];
}

void op_moe_router(struct forward *f, int64_t layer)
{
    const struct mlp *p = mlp_of(f, layer);
    gemm_run(f->pool, f->kn, &f->w.layers[layer].router, f->b->n_tokens, f->h, f->h_ld,
             f->experts.logits);
    forward_rows(f, layer, f->b->n_tokens, 8 * p->experts, route_row);
    group_rows(f, p, f->w.layers[layer].expert_up);
}

/* ---- the experts ----------------------------------------------------------------------------- */

static int64_t rows_of(const struct forward *f, int64_t layer)
{
    return f->b->n_tokens * mlp_of(f, layer)->experts_per_token;
}

static void gather_row(struct forward *f, int64_t layer, int64_t row)
{
    (void)layer;
    memcpy(f->experts.in + row * f->h_ld, f->h + f->experts.token[row] * f->h_ld,
           (size_t)f->m->hidden * sizeof *f->h);
}

void op_moe_up_proj(struct forward *f, int64_t layer)
{
    forward_rows(f, layer, rows_of(f, layer), f->m->hidden, gather_row);
    gemm_run_groups(f->pool, f->kn, f->experts.groups, f->experts.n_groups, f->experts.in, f->h_ld,
                    f->up);
}

static void act_row(struct forward *f, int64_t layer, int64_t row)
{
    const int64_t width = mlp_of(f, layer)->intermediate;
    const int64_t up = model_gated(f->m) ? 2 * width : width;
    forward_act(f, layer, f->up + row * up, f->act + row * gemm_ld(width));
}

void op_moe_act(struct forward *f, int64_t layer)
{
    forward_rows(f, layer, rows_of(f, layer), 4 * mlp_of(f, layer)->intermediate, act_row);
}

void op_moe_down_proj(struct forward *f, int64_t layer)
{
    const struct cpu_layer *l = &f->w.layers[layer];
    struct experts *x = &f->experts;
    for (int64_t i = 0; i < x->n_groups; i++)
        x->groups[i].w = l->expert_down + (x->groups[i].w - l->expert_up);
    gemm_run_groups(f->pool, f->kn, x->groups, x->n_groups, f->act,
                    gemm_ld(mlp_of(f, layer)->intermediate), x->out);
}

static void combine_row(struct forward *f, int64_t layer, int64_t t)
{
    const int64_t k = mlp_of(f, layer)->experts_per_token, width = f->m->hidden;
    const struct experts *x = &f->experts;
    float *y = f->y + t * width;
    memset(y, 0, (size_t)width * sizeof *y);
    for (int64_t i = t * k; i < (t + 1) * k; i++)
        f->kn->add_scaled((size_t)width, y, x->out + x->at[i] * width, x->weights[i]);
}

void op_moe_combine(struct forward *f, int64_t layer)
{
    forward_rows(f, layer, f->b->n_tokens, f->m->hidden * mlp_of(f, layer)->experts_per_token,
                 combine_row);
}
