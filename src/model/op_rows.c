/* Rows of operators, and their names: what columns of profiles are called.
 *
 *     attn_decode            of the first kind of attention that has the operator
 *     attn_decode_window     of a further one, by its type
 *     attn_decode_window_2   of the second further one of that type
 *     mlp_up_proj_experts    of the MLP beside experts, where other layers have one without
 *
 * Lists go through kinds in the order of their first layer, so names do not depend on anything but
 * the model. */
#include <stdio.h>
#include <string.h>

#include "model/model.h"

bool op_is_of_mlp(enum op_kind k)
{
    return k == OP_POST_ATTN_NORM || k == OP_MLP_UP_PROJ || k == OP_MLP_ACT ||
           k == OP_MLP_DOWN_PROJ || k == OP_MOE_ROUTER || k == OP_MOE_COMBINE ||
           k == OP_MLP_OUT_NORM || op_is_expert(k);
}

static const char *kind_name(const struct structure *s, const struct op *op)
{
    if (op_is_of_mlp(op->kind))
        return s->mlp[op->part].experts ? "experts" : "dense";
    return attention_type_name(s->attention[op->part].type);
}

/* Those of the kind before place i: the first one, and how many others of the same name. */
struct earlier {
    bool any;
    int alike;
};

static struct earlier earlier_of(const struct op_list *l, const struct structure *s, int i)
{
    struct earlier out = {0};
    const char *name = kind_name(s, &l->ops[i]);
    for (int k = 0; k < i; k++) {
        if (l->ops[k].kind != l->ops[i].kind)
            continue;
        out.alike += out.any && strcmp(kind_name(s, &l->ops[k]), name) == 0;
        out.any = true;
    }
    return out;
}

void op_list_number(struct op_list *l, const struct structure *s)
{
    l->rows = OP_KINDS;
    for (int i = 0; i < l->n; i++) {
        struct op *op = &l->ops[i];
        const char *stem = op_name(op->kind);
        const struct earlier before = earlier_of(l, s, i);
        op->row = before.any ? l->rows++ : (int32_t)op->kind;
        if (!before.any)
            snprintf(op->name, sizeof op->name, "%s", stem);
        else if (before.alike == 0)
            snprintf(op->name, sizeof op->name, "%s_%s", stem, kind_name(s, op));
        else
            snprintf(op->name, sizeof op->name, "%s_%s_%d", stem, kind_name(s, op),
                     before.alike + 1);
    }
}

int32_t op_list_row(const struct op_list *l, enum op_kind k, int32_t part)
{
    for (int i = 0; i < l->n; i++)
        if (l->ops[i].kind == k && l->ops[i].part == part)
            return l->ops[i].row;
    return (int32_t)k;
}

const struct op *op_list_at(const struct op_list *l, int32_t row)
{
    for (int i = 0; i < l->n; i++)
        if (l->ops[i].row == row)
            return &l->ops[i];
    return NULL;
}

enum st model_check_rows(const struct model *m, int32_t most, struct err *e)
{
    struct op_list l;
    model_ops(m, &l);
    if (l.rows <= most)
        return ST_OK;
    err_set(e, ST_INPUT,
            "model %s: %d operators of %d kinds of attention and %d of MLP, at most %d", m->name,
            l.rows, m->structure->n_attentions, m->structure->n_mlps, most);
    return err_hint(e, "predictor=roofline predicts it, and measured iterations do");
}
