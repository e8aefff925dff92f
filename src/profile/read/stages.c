/* A stage of a pipeline of layers that differ: the bundle of its own layers. */
#include "model/shard.h"
#include "profile/read/read.h"

struct layer_stage {
    const struct model *m;
    int64_t first, end; /* layers */
};

/* How often the stage has the operator. */
static int32_t repeat_in(const struct layer_stage *s, const struct op *op)
{
    const struct structure *of = s->m->structure;
    if (op->kind == OP_GAP)
        return 1; /* its table is the stage's part */
    if (op->where == OP_BEFORE_LAYERS)
        return s->first == 0 ? op->repeat : 0;
    if (op->where == OP_AFTER_LAYERS)
        return s->end == s->m->layers ? op->repeat : 0;
    if (op->kind == OP_ADD)
        return (int32_t)(s->end - s->first);
    const uint8_t *kinds = op_is_of_mlp(op->kind) ? of->mlp_of : of->attention_of;
    int32_t n = 0;
    for (int64_t i = s->first; i < s->end; i++)
        n += kinds[i] == op->part;
    return n;
}

/* Time between kernels, spread over the layers. */
static void scale_table(struct arena *a, struct grid_set *known, double part, struct op_table *t)
{
    const struct op_table old = *t;
    double *y = mem_alloc((size_t)(old.n + 1) * sizeof *y);
    for (int64_t i = 0; i < old.n; i++)
        y[i] = old.points[i].y * part;
    if (old.n > 0)
        op_table_replace(a, &old, known, y, t);
    mem_free(y);
}

struct bundle *bundle_stage(struct arena *a, const struct bundle *b, const struct model *m,
                            int64_t pp, int64_t stage)
{
    const int64_t first = shard_first_layer(m, pp, stage);
    const struct layer_stage s = {m, first, first + shard_stage_layers(m, pp, stage)};
    const double part = (double)(s.end - s.first) / (double)m->layers;
    struct bundle *out = arena_copy(a, b, sizeof *b);
    struct grid_set known = {0};
    out->ops.n = 0;
    for (int i = 0; i < b->ops.n; i++) {
        struct op op = b->ops.ops[i];
        op.repeat = repeat_in(&s, &op);
        if (op.repeat > 0)
            out->ops.ops[out->ops.n++] = op;
    }
    scale_table(a, &known, part, &out->table[OP_GAP]);
    scale_table(a, &known, part, &out->decode_table[OP_GAP]);
    bundle_find_attention(out);
    bundle_clear_sums(out);
    bundle_sum_tables(a, out);
    out->all_reduces = shard_stage_all_reduces(m, pp, stage);
    out->all_to_alls = 2 * (int32_t)shard_stage_expert_layers(m, pp, stage);
    return out;
}
