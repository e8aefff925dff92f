#include "model/shard.h"

#include "model/describe_layers.h"
#include "model/opaque.h"
#include "model/stored.h"

static int64_t divided_up(int64_t n, int64_t parts)
{
    return (n + parts - 1) / parts;
}

int64_t shard_stage_layers(const struct model *m, int64_t pp, int64_t stage)
{
    const int64_t left_over = m->layers % pp, last = pp - 1;
    return m->layers / pp + (stage < last && stage >= last - left_over);
}

int64_t shard_most_layers(const struct model *m, int64_t pp)
{
    return divided_up(m->layers, pp);
}

int64_t shard_first_layer(const struct model *m, int64_t pp, int64_t stage)
{
    int64_t first = 0;
    for (int64_t i = 0; i < stage; i++)
        first += shard_stage_layers(m, pp, i);
    return first;
}

/* Of a model whose layers differ. */
static void stage_of(const struct model *m, int64_t pp, int64_t stage, struct structure *out)
{
    structure_stage(m->structure, shard_first_layer(m, pp, stage), shard_stage_layers(m, pp, stage),
                    out);
}

int64_t shard_groups(int64_t tp, int64_t ep)
{
    return ep > tp ? ep / tp : 1;
}

int64_t shard_devices(int64_t tp, int64_t ep)
{
    return ep > tp ? ep : tp;
}

enum st shard_check(const struct model *m, int64_t tp, int64_t pp, int64_t ep, struct err *e)
{
    if (m->opaque)
        return opaque_check_shards(m, tp, pp, ep, e);
    if (pp < 1 || pp > m->layers)
        return err_set(e, ST_USAGE, "parallel.pp: %lld stages for the %lld layers of %s",
                       (long long)pp, (long long)m->layers, m->name);
    if (tp < 1 || m->heads % tp != 0)
        return err_set(e, ST_USAGE, "parallel.tp: %lld shards do not divide the %lld heads of %s",
                       (long long)tp, (long long)m->heads, m->name);
    for (int32_t i = 0; m->layered && i < m->structure->n_attentions; i++)
        if (m->structure->attention[i].heads % tp != 0)
            return err_set(e, ST_USAGE,
                           "parallel.tp: %lld shards do not divide the %lld heads of %s",
                           (long long)tp, (long long)m->structure->attention[i].heads, m->name);
    if (ep > 1 && m->experts == 0)
        return err_set(e, ST_USAGE, "parallel.ep: the model has no experts");
    if (ep > 1 && (ep % tp != 0 || m->experts % ep != 0))
        return err_set(e, ST_USAGE,
                       "parallel.ep: %lld devices are no multiple of parallel.tp=%lld that divides "
                       "the %lld experts of %s",
                       (long long)ep, (long long)tp, (long long)m->experts, m->name);
    if (m->stored && m->structure)
        return stored_check_shards(m->stored, m->structure, tp, ep > 1, e);
    return ST_OK;
}

/* ---- operators ------------------------------------------------------------------------------- */

struct model shard_model(const struct model *m, int64_t tp)
{
    struct model s = *m;
    s.heads = m->heads / tp;
    s.kv_heads = divided_up(m->kv_heads, tp);
    s.intermediate = m->intermediate / tp;
    return s;
}

void shard_stage_ops(const struct model *m, int64_t tp, int64_t pp, int64_t stage,
                     struct op_list *out)
{
    struct structure whole, shard;
    stage_of(m, pp, stage, &whole);
    structure_shard(&whole, tp, &shard);
    layered_ops(&shard, out);
}

void shard_ops(const struct model *m, int64_t tp, struct op_list *out)
{
    if (m->layered) {
        shard_stage_ops(m, tp, 1, 0, out);
        return;
    }
    const struct model s = shard_model(m, tp);
    model_ops(&s, out);
    for (int i = 0; i < out->n; i++) {
        struct op *op = &out->ops[i];
        if (op->kind != OP_LM_HEAD)
            continue;
        op->m = divided_up(op->m, tp);
        op->matrix_params = op->m * op->k;
        op->weight_params = op->m * (op->k + (m->head_bias ? 1 : 0));
    }
}

double shard_kv_bytes(const struct model *m, int64_t tp, int64_t pp, int64_t stage)
{
    if (m->layered) {
        struct structure whole, shard;
        stage_of(m, pp, stage, &whole);
        structure_shard(&whole, tp, &shard);
        return layer_bytes_of(&shard, precision_bytes(m->kv), 0).token;
    }
    const struct model s = shard_model(m, tp);
    return model_kv_bytes(&s) / (double)m->layers * (double)shard_stage_layers(m, pp, stage);
}

struct shard_kept shard_kept(const struct model *m, int64_t tp, int64_t pp, int64_t stage)
{
    struct structure whole, shard;
    stage_of(m, pp, stage, &whole);
    structure_shard(&whole, tp, &shard);
    const struct layer_bytes kv = layer_bytes_of(&shard, precision_bytes(m->kv), 0);
    const struct layer_bytes states =
        layer_bytes_of(&shard, precision_bytes(m->dtype), sizeof(float));
    return (struct shard_kept){kv.token + kv.window_token, kv.last + states.state};
}

enum shard_cut { WHOLE, BY_OUT, BY_IN };

/* How the weight of an operator is cut. */
static enum shard_cut cut_of(enum op_kind k)
{
    switch ((int)k) {
    case OP_ATTN_PRE_PROJ:
    case OP_MLP_UP_PROJ:
    case OP_MOE_UP_PROJ:
    case OP_LM_HEAD:
        return BY_OUT;
    case OP_ATTN_POST_PROJ:
    case OP_MLP_DOWN_PROJ:
    case OP_MOE_DOWN_PROJ:
        return BY_IN;
    default:
        return WHOLE;
    }
}

bool shard_is_partial(enum op_kind k)
{
    return k == OP_ATTN_POST_PROJ || k == OP_MLP_DOWN_PROJ || k == OP_MOE_COMBINE;
}

/* Matrices whose outputs are partial sums, those of an MLP added up before. */
static int32_t partial_sums(const struct projections *w, bool together)
{
    int32_t n = 0;
    for (int32_t i = 0; i < w->n; i++)
        n += w->w[i].cut == CUT_COLUMNS || w->w[i].cut == CUT_EXPERT_COLUMNS;
    return together && n > 1 ? 1 : n;
}

int32_t shard_stage_all_reduces(const struct model *m, int64_t pp, int64_t stage)
{
    const struct structure *s = m->structure;
    const int64_t first = shard_first_layer(m, pp, stage);
    int32_t n = 0;
    for (int64_t i = first; i < first + shard_stage_layers(m, pp, stage); i++)
        n += partial_sums(&s->attention[s->attention_of[i]].weights, false) +
             partial_sums(&s->mlp[s->mlp_of[i]].weights, true);
    return n;
}

int64_t shard_stage_expert_layers(const struct model *m, int64_t pp, int64_t stage)
{
    const struct structure *s = m->structure;
    const int64_t first = shard_first_layer(m, pp, stage);
    int64_t n = 0;
    for (int64_t i = first; i < first + shard_stage_layers(m, pp, stage); i++)
        n += s->mlp[s->mlp_of[i]].experts > 0;
    return n;
}

int32_t shard_all_reduces(const struct model *m)
{
    struct op_list l;
    int32_t n = 0;
    if (m->layered)
        return shard_stage_all_reduces(m, 1, 0);
    model_ops(m, &l);
    for (int i = 0; i < l.n; i++)
        n += shard_is_partial(l.ops[i].kind) ? l.ops[i].repeat : 0;
    return n;
}

/* ---- weights --------------------------------------------------------------------------------- */

enum st shard_check_weights(const struct model *m, int64_t tp, struct err *e)
{
    TRY(shard_check(m, tp, 1, 1, e));
    if (m->kv_heads % tp != 0 && tp % m->kv_heads != 0)
        return err_set(e, ST_USAGE,
                       "parallel.tp: %lld KV heads of %s cannot be shared evenly by %lld shards",
                       (long long)m->kv_heads, m->name, (long long)tp);
    if (m->intermediate % tp != 0)
        return err_set(e, ST_USAGE,
                       "parallel.tp: %lld shards do not divide the %lld features of the MLP of %s",
                       (long long)tp, (long long)m->intermediate, m->name);
    return ST_OK;
}

struct shard_slice shard_tensor(const struct model *m, int64_t tp, int64_t rank,
                                const struct tensor *t, const struct weight_place *place)
{
    const int64_t columns = t->n_dims == 2 ? t->dims[1] : 1;
    struct shard_slice s = {0, t->dims[0], 0, columns};
    switch (cut_of(place->op)) {
    case BY_OUT:
        if (place->part == WEIGHT_K || place->part == WEIGHT_V) {
            s.row = rank * m->kv_heads / tp * m->head_dim;
            s.rows = divided_up(m->kv_heads, tp) * m->head_dim;
            break;
        }
        s.rows = divided_up(t->dims[0], tp);
        s.row = rank * s.rows < t->dims[0] ? rank * s.rows : t->dims[0];
        if (s.row + s.rows > t->dims[0])
            s.rows = t->dims[0] - s.row;
        break;
    case BY_IN:
        if (place->bias)
            break;
        s.columns = columns / tp;
        s.column = rank * s.columns;
        break;
    case WHOLE:
        break;
    }
    return s;
}
