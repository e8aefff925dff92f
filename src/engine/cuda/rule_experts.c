/* Layers with experts: which each token goes through, their products, and the sum. */
#include "engine/cuda/rules.h"

static int64_t most_pairs(const struct rule_use *u)
{
    return u->p->sizes.tokens * u->mlp->experts_per_token;
}

static enum cuda_kernel_id kernel_of(const struct rule_use *u)
{
    return cuda_experts_pick(most_pairs(u), (int)u->mlp->experts);
}

/* Behind the router's product: the experts of each token, and the tiles of the products. */
static enum st choose(const struct rule_use *u, struct err *e)
{
    const struct cuda_forward *f = u->f;
    const struct mlp *p = u->mlp;
    const struct cuda_route_args route = {.count = rule_tokens(u),
                                          .logits = rule_pointer(f->gate),
                                          .bias = rule_pointer(f->w->layers[u->layer].router.bias),
                                          .expert = rule_pointer(f->expert),
                                          .weight = rule_pointer(f->weight),
                                          .experts = (int)p->experts,
                                          .k = (int)p->experts_per_token,
                                          .over_all = p->router == ROUTER_SOFTMAX && !p->norm_topk};
    const struct cuda_group_args group = {.count = rule_tokens(u),
                                          .expert = rule_pointer(f->expert),
                                          .order = rule_pointer(f->order),
                                          .tiles = rule_pointer(f->tiles),
                                          .n_tiles = rule_pointer(f->n_tiles),
                                          .experts = (int)p->experts,
                                          .k = (int)p->experts_per_token,
                                          .rows = cuda_experts_rows(kernel_of(u))};
    TRY(rule_launch(u, CUDA_ROUTE, &route, e));
    return rule_launch(u, CUDA_GROUP, &group, e);
}

enum st rule_route_few(const struct rule_use *u, struct err *e)
{
    TRY(rule_few(u, e));
    return choose(u, e);
}

enum st rule_route(const struct rule_use *u, struct err *e)
{
    TRY(rule_product(u, e));
    return choose(u, e);
}

/* Both products: in front of the activation, with it, and behind it. */
enum st rule_experts(const struct rule_use *u, struct err *e)
{
    const struct cuda_forward *f = u->f;
    const struct weight_layer *l = &f->w->layers[u->layer];
    const bool down = rule_has(u->rule, OP_MOE_DOWN_PROJ);
    const struct weight_experts *w = down ? &l->expert_down : &l->expert_up;
    const int act = down ? CUDA_ACT_NONE : rule_act_of(u->mlp),
              element = cuda_dtype_bytes(f->programs->dtype);
    const struct cuda_experts_args a = {.n_tiles = rule_pointer(f->n_tiles),
                                        .tiles = rule_pointer(f->tiles),
                                        .order = rule_pointer(f->order),
                                        .x = rule_pointer(down ? f->act : f->h),
                                        .weight = rule_pointer(w->first.data),
                                        .bias = rule_pointer(w->first.bias),
                                        .out = rule_pointer(down ? f->y : f->act),
                                        .weight_step = (long long)w->data_step / element,
                                        .bias_step = (long long)w->bias_step / element,
                                        .experts = (int)u->mlp->experts,
                                        .k = (int)u->mlp->experts_per_token,
                                        .share = down ? 1 : (int)u->mlp->experts_per_token,
                                        .in = (int)w->first.k,
                                        .outs =
                                            (int)(w->first.m / (CUDA_ACT_IS_GATED(act) ? 2 : 1)),
                                        .act = act,
                                        .alpha = (float)u->mlp->act_alpha,
                                        .limit = (float)u->mlp->act_limit};
    return rule_launch(u, kernel_of(u), &a, e);
}

enum st rule_combine(const struct rule_use *u, struct err *e)
{
    const struct cuda_forward *f = u->f;
    const struct cuda_combine_args a = {.count = rule_tokens(u),
                                        .y = rule_pointer(f->y),
                                        .weight = rule_pointer(f->weight),
                                        .x = rule_pointer(f->x),
                                        .width = (int)f->m->hidden,
                                        .k = (int)u->mlp->experts_per_token};
    return rule_launch(u, CUDA_COMBINE, &a, e);
}
