#include "engine/cuda/forward.h"

#include <string.h>

#include "engine/cuda/rules.h"
#include "engine/positions.h"
#include "gpu/stream.h"

/* ---- shapes ---------------------------------------------------------------------------------- */

/* Windows of the kinds of attention, each once, in the order of their first; returns how many. */
static int list_spans(const struct structure *s, int64_t windows[STRUCTURE_ATTENTIONS])
{
    int n = 0;
    for (int32_t i = 0; i < s->n_attentions; i++) {
        int at = 0;
        while (at < n && windows[at] != s->attention[i].window)
            at++;
        if (at == n)
            windows[n++] = s->attention[i].window;
    }
    return n;
}

void cuda_forward_spans(const struct model *m, struct cuda_sizes *s)
{
    int64_t windows[STRUCTURE_ATTENTIONS] = {0};
    s->spans = m->structure ? list_spans(m->structure, windows) : 1;
    ASSERT(s->spans <= CUDA_SPANS);
    for (int i = 0; i < s->spans; i++)
        s->windows[i] = windows[i] < INT32_MAX ? (int)windows[i] : INT32_MAX;
}

int cuda_forward_span(const struct structure *s, int32_t attention)
{
    int64_t windows[STRUCTURE_ATTENTIONS];
    const int n = list_spans(s, windows);
    for (int i = 0; i < n; i++)
        if (windows[i] == s->attention[attention].window)
            return i;
    err_bug("a kind of attention without a span", __FILE__, __LINE__);
}

static const char *mlp_lacks(const struct mlp *p)
{
    if (p->experts > CUDA_EXPERTS_MOST || p->experts_per_token > CUDA_EXPERTS_PICKED)
        return "so many experts";
    if (p->experts && p->out_norm)
        return "a norm behind experts";
    if (!p->experts && p->act == MLP_ACT_CLAMPED)
        return "a dense MLP with a clamped activation";
    return p->act == MLP_ACT_SILU && !p->gated ? "SiLU without a gate" : NULL;
}

/* What the kernels do not compute; NULL = nothing. */
static const char *lacking(const struct model *m)
{
    const struct structure *s = m->structure;
    int64_t windows[STRUCTURE_ATTENTIONS];
    const char *what = NULL;
    if (!s)
        return NULL;
    if (list_spans(s, windows) > CUDA_SPANS)
        return "windows of so many sizes";
    for (int32_t i = 0; i < s->n_mlps && !what; i++)
        what = mlp_lacks(&s->mlp[i]);
    return what;
}

static enum st check_plain(const struct model *m, struct err *e)
{
    const char *what = lacking(m);
    if (!what)
        return ST_OK;
    err_set(e, ST_USAGE, "engine=cuda does not compute %s: %s", what, m->name);
    return err_hint(e, "engine=cpu does; `twinfer simulate` predicts it");
}

static enum st check_row(const struct model *m, enum cuda_dtype t, const char *name, int64_t value,
                         int64_t multiple_of, int64_t most, struct err *e)
{
    if (value % multiple_of != 0)
        return err_set(e, ST_USAGE, "engine=cuda takes multiples of %lld for %s in %s: %s has %lld",
                       (long long)multiple_of, name, cuda_dtype_name(t), m->name, (long long)value);
    if (value > most)
        return err_set(e, ST_USAGE, "engine=cuda takes %s up to %lld: %s has %lld", name,
                       (long long)most, m->name, (long long)value);
    return ST_OK;
}

/* The kernels load 16 bytes at once, so rows must be multiples of that. */
enum st cuda_forward_check(const struct model *m, enum cuda_dtype t, struct err *e)
{
    const int64_t step = 16 / cuda_dtype_bytes(t);
    TRY(model_check_computed(m, e));
    TRY(check_plain(m, e));
    const struct {
        const char *name;
        int64_t value, multiple_of, most;
    } rows[] = {{"hidden_size", m->hidden, step, 1 << 20},
                {"head_dim", m->head_dim, step > 4 ? step : 4, 256},
                {"heads x head_dim", m->heads * m->head_dim, step, 1 << 20},
                {"vocab_size", m->vocab, 1, 1 << 24}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        TRY(check_row(m, t, rows[i].name, rows[i].value, rows[i].multiple_of, rows[i].most, e));
    for (int64_t i = 0; i < m->layers; i++)
        TRY(check_row(m, t, "intermediate_size", model_intermediate(m, i), step, 1 << 20, e));
    return ST_OK;
}

int64_t cuda_forward_max_position(const struct cuda_forward_params *p)
{
    const int64_t held = p->num_blocks * p->block_size;
    if (p->model->position == POSITION_ALIBI || held < p->model->max_positions)
        return held;
    return p->model->max_positions;
}

enum dtype cuda_plain_dtype(enum cuda_dtype t)
{
    static const enum dtype types[CUDA_DTYPES] = {
        [CUDA_F32] = DTYPE_F32, [CUDA_F16] = DTYPE_F16, [CUDA_BF16] = DTYPE_BF16};
    return types[t];
}

/* ---- memory ---------------------------------------------------------------------------------- */

enum { ALIGN = 256 };

struct device_carver {
    CUdeviceptr base;
    size_t used;
};

static CUdeviceptr carve(struct device_carver *c, int64_t n, size_t bytes)
{
    const CUdeviceptr at = c->base + c->used;
    c->used += ((size_t)n * bytes + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

static int64_t partial_floats(const struct cuda_forward_params *p)
{
    return p->most.parts * p->model->heads * (p->model->head_dim + 2);
}

static int64_t step_words(const struct cuda_forward_params *p)
{
    const struct model *m = p->model;
    const struct cuda_decode_step_args a = {.attention = {.heads = (int)m->heads,
                                                          .kv_heads = (int)m->kv_heads,
                                                          .head_dim = (int)m->head_dim},
                                            .hidden = (int)m->hidden,
                                            .intermediate = (int)model_intermediate(m, 0)};
    return cuda_decode_step_words(&a, CUDA_DECODE_STEP_ROWS, p->most.sms);
}

/* Of all layers: the most elements of a token's `up` and `act`, of its experts, and of their pairs.
 */
struct widths {
    int64_t up, act, experts, pairs, rows;
    bool out_norm;
};

static struct widths widths_of(const struct model *m)
{
    const struct structure *s = m->structure;
    struct widths w = {0};
    for (int64_t i = 0; i < m->layers; i++) {
        const struct mlp *p = s ? &s->mlp[model_mlp_of(m, i)] : NULL;
        const int64_t width = model_intermediate(m, i), experts = model_experts(m, i),
                      pairs = !experts ? 1
                              : p      ? p->experts_per_token
                                       : m->experts_per_token;
        const int64_t up = experts ? 0 : width * (model_gated(m) ? 2 : 1);
        w.up = up > w.up ? up : w.up;
        w.act = pairs * width > w.act ? pairs * width : w.act;
        w.experts = experts > w.experts ? experts : w.experts;
        w.pairs = experts && pairs > w.pairs ? pairs : w.pairs;
        w.out_norm = w.out_norm || (p && p->out_norm) ||
                     (s && s->attention[model_attention_of(m, i)].out_norm);
    }
    w.rows = w.pairs > 0 ? w.pairs : w.out_norm;
    return w;
}

static void place_experts(struct cuda_forward *f, struct device_carver *c, const struct widths *w)
{
    const int64_t t = f->p.most.tokens, pairs = t * w->pairs;
    if (w->experts == 0)
        return;
    f->gate = carve(c, t * w->experts, sizeof(float));
    f->expert = carve(c, pairs, sizeof(int));
    f->weight = carve(c, pairs, sizeof(float));
    f->order = carve(c, pairs, sizeof(int));
    f->tiles = carve(c, cuda_experts_tiles(pairs, (int)w->experts, CUDA_TILE_FEW),
                     sizeof(struct cuda_tile));
    f->n_tiles = carve(c, 1, sizeof(int));
}

static int ropes_of(const struct model *m)
{
    return m->structure ? m->structure->n_ropes : 1;
}

/* With c->base 0 only counts. */
static void place(struct cuda_forward *f, struct device_carver *c, enum cuda_dtype type)
{
    const struct model *m = f->p.model;
    const struct widths w = widths_of(m);
    const size_t element = (size_t)cuda_dtype_bytes(type);
    const int64_t t = f->p.most.tokens, r = f->p.most.rows, q = m->heads * m->head_dim;
    const int64_t kv = m->kv_heads * m->head_dim;
    const int64_t angles = cuda_forward_max_position(&f->p) * (m->head_dim / 2);
    const int64_t tiles = cuda_attention_head_tiles((int)m->heads, (int)m->kv_heads);
    f->x = carve(c, t * m->hidden, element);
    f->h = carve(c, (t > r ? t : r) * m->hidden, element);
    f->qkv = carve(c, t * (q + 2 * kv), element);
    f->att = carve(c, t * q, element);
    f->up = carve(c, t * w.up, element);
    f->act = carve(c, t * w.act, element);
    f->y = carve(c, t * w.rows * m->hidden, element);
    f->logits = carve(c, r * m->vocab, sizeof(float));
    f->ids = carve(c, r, sizeof(int));
    f->partial = carve(c, partial_floats(&f->p), sizeof(float));
    f->counters = carve(c, f->p.most.decodes * tiles, sizeof(int));
    f->best = carve(c, r, sizeof(uint64_t));
    f->best_counters = carve(c, r, sizeof(int));
    f->last = carve(c, f->p.slots, sizeof(int));
    f->sync = carve(c, f->p.fused ? 2 : 0, sizeof(int));
    f->exchange = carve(c, f->p.fused ? step_words(&f->p) : 0, sizeof(uint64_t));
    f->stamps =
        carve(c, f->p.stamps ? cuda_decode_step_stamps((int)m->layers) : 0, sizeof(uint64_t));
    f->stamps = f->p.stamps ? f->stamps : 0;
    place_experts(f, c, &w);
    if (m->position == POSITION_ALIBI)
        f->slopes = carve(c, m->heads, sizeof(float));
    for (int i = 0; m->position == POSITION_ROPE && i < ropes_of(m); i++) {
        f->cosine[i] = carve(c, angles, sizeof(float));
        f->sine[i] = carve(c, angles, sizeof(float));
    }
}

size_t cuda_forward_buffer_bytes(const struct cuda_forward_params *p, enum cuda_dtype t)
{
    struct cuda_forward f = {.p = *p};
    struct device_carver c = {0};
    place(&f, &c, t);
    return c.used;
}

/* Cleared: rows past the end of a batch are computed with what stands there. */
static enum st allocate(struct cuda_forward *f, CUstream stream, struct err *e)
{
    const enum cuda_dtype t = f->programs->dtype;
    struct device_carver c = {0};
    place(f, &c, t);
    f->buffer_bytes = c.used;
    TRY(gpu_alloc(f->gpu, f->buffer_bytes, "the activations", &f->buffers, e));
    TRY(cuda_kv_open(f->gpu, f->m, cuda_plain_dtype(t), f->p.block_size, f->p.num_blocks, &f->kv,
                     e));
    c = (struct device_carver){.base = f->buffers};
    place(f, &c, t);
    return gpu_fill(f->gpu, f->buffers, 0, f->buffer_bytes, stream, e);
}

static enum st upload_slopes(struct cuda_forward *f, float *host, CUstream stream, struct err *e)
{
    positions_slopes(f->m, host);
    TRY(gpu_upload(f->gpu, f->slopes, host, (size_t)f->m->heads * sizeof *host, stream, e));
    return gpu_stream_wait(f->gpu, stream, e);
}

static enum st upload_rotation(struct cuda_forward *f, int i, float *host, CUstream stream,
                               struct err *e)
{
    const int64_t n = f->max_position, half = f->m->head_dim / 2;
    const struct rope rope = model_rope(f->m, i);
    const size_t bytes = (size_t)(n * half) * sizeof *host;
    positions_rotation(&rope, f->m->head_dim, n, host, host + n * half);
    TRY(gpu_upload(f->gpu, f->cosine[i], host, bytes, stream, e));
    TRY(gpu_upload(f->gpu, f->sine[i], host + n * half, bytes, stream, e));
    return gpu_stream_wait(f->gpu, stream, e);
}

static enum st upload_positions(struct cuda_forward *f, CUstream stream, struct err *e)
{
    const int64_t floats = f->m->heads + f->max_position * f->m->head_dim;
    float *host = mem_alloc((size_t)floats * sizeof *host);
    enum st st = f->slopes ? upload_slopes(f, host, stream, e) : ST_OK;
    for (int i = 0; st == ST_OK && f->cosine[0] && i < ropes_of(f->m); i++)
        st = upload_rotation(f, i, host, stream, e);
    mem_free(host);
    return st;
}

/* Of decode_step: dense layers that are alike, without anything that it does not know. */
static bool is_carried(const struct cuda_forward *f)
{
    const struct model *m = f->m;
    const struct attention *t = &f->s->attention[0];
    return !m->layered && !m->experts && m->norm == NORM_RMS && m->act == ACT_SILU_GATED &&
           f->s->mlp[0].act == MLP_ACT_SILU && !m->emb_norm && !m->attn_bias && !m->qkv_bias &&
           !m->mlp_bias && !t->window && !t->sinks && !t->out_norm && !f->s->mlp[0].out_norm &&
           f->s->norm_offset == 0 && f->s->embedding_scale == 0 && t->score_scale == 0;
}

/* All blocks of decode_step must run at once: a multiprocessor must have room for one. */
static enum st find_step_rows(struct cuda_forward *f, struct err *e)
{
    const struct gpu_kernel *k = &f->programs->kernel[CUDA_DECODE_STEP];
    int blocks = 0;
    f->step_rows = 0;
    if (!f->p.fused || f->p.check || !is_carried(f) || !k->function ||
        k->dynamic_shared_bytes < CUDA_DECODE_STEP_SHARED_BYTES)
        return ST_OK;
    const struct cuda_decode_step_args a = rule_step_args(f, 1);
    TRY(gpu_kernel_blocks(f->gpu, k, (CUDA_DECODE_STEP_WARPS + 3) * 32,
                          CUDA_DECODE_STEP_SHARED_BYTES, &blocks, e));
    if (blocks > 0)
        f->step_rows = cuda_decode_step_rows(&a, f->programs->dtype, f->p.most.sms);
    return ST_OK;
}

enum st cuda_forward_open(struct cuda_forward *f, const struct cuda_forward_params *p,
                          const struct cuda_programs *programs, struct cuda_matmul *matmul,
                          const struct cuda_weights *w, CUstream stream, struct err *e)
{
    *f = (struct cuda_forward){
        .p = *p,
        .m = p->model,
        .gpu = programs->g,
        .programs = programs,
        .matmul = matmul,
        .w = w,
        .arena = arena_new(),
        .fits = cuda_attention_fits(programs->dtype, (int)p->model->head_dim, (int)p->block_size),
        .max_position = cuda_forward_max_position(p)};
    f->s = model_structure(f->arena, f->m);
    model_steps(f->m, &f->steps);
    TRY(allocate(f, stream, e));
    TRY(find_step_rows(f, e));
    return upload_positions(f, stream, e);
}

void cuda_forward_close(struct cuda_forward *f)
{
    if (f->gpu) {
        gpu_free(f->gpu, &f->buffers);
        cuda_kv_close(f->gpu, &f->kv);
    }
    arena_free(&f->arena);
    *f = (struct cuda_forward){0};
}

/* ---- matrix algorithms ----------------------------------------------------------------------- */

static const enum op_kind layer_products[] = {OP_ATTN_PRE_PROJ, OP_ATTN_POST_PROJ, OP_MLP_UP_PROJ,
                                              OP_MOE_ROUTER, OP_MLP_DOWN_PROJ};

/* Beyond that cuBLASLt's first choice is as good, and measuring takes seconds. */
enum { MOST_PREPARED = 4096 };

/* A product, and the layers from `first` on that have the like of it `stride` bytes further each.
 */
struct products {
    struct cuda_product p;
    int64_t layers;
    size_t stride;
};

static bool is_like(const struct cuda_product *a, const struct cuda_product *b)
{
    return a->weight.m == b->weight.m && a->weight.k == b->weight.k && a->add == b->add;
}

/* layers 0: the layer has no such product. */
static struct products products_from(const struct cuda_forward *f, enum op_kind op, int64_t first)
{
    struct products x = {.p = rule_product_of(f, op, first), .layers = 1};
    if (x.p.weight.m == 0)
        return (struct products){0};
    for (int64_t i = first + 1; op != OP_LM_HEAD && i < f->m->layers; i++) {
        const struct cuda_product next = rule_product_of(f, op, i);
        if (!is_like(&x.p, &next) || next.weight.data < x.p.weight.data)
            break;
        const size_t far = (size_t)(next.weight.data - x.p.weight.data);
        if (i == first + 1)
            x.stride = far;
        if (far != x.stride * (size_t)(i - first))
            break;
        x.layers++;
    }
    return x;
}

/* Up to `most` rows in classes, the smallest beyond the own kernels first. */
static enum st prepare_product(struct cuda_forward *f, const struct products *x, int most,
                               CUstream stream, struct err *e)
{
    most = most < MOST_PREPARED ? most : MOST_PREPARED;
    for (int rows = CUDA_FEW_ROWS + 1; rows <= most;) {
        const int class = cuda_matmul_class(rows);
        const int at = class < most ? class : most;
        TRY(cuda_matmul_prepare(f->matmul, &x->p, at, x->layers, x->stride, stream, e));
        /* once, to load its kernels: the driver takes 8 ms for that at first use */
        TRY(cuda_matmul_run(f->matmul, &x->p, at, stream, e));
        rows = class + 1;
    }
    return ST_OK;
}

/* Of each pair of kinds, the first layer's; products of one shape are prepared once. */
static enum st prepare_layers(struct cuda_forward *f, CUstream stream, struct err *e)
{
    enum { PRODUCTS = sizeof layer_products / sizeof *layer_products };
    struct products done[PRODUCTS * LAYER_KINDS_MOST];
    int n = 0;
    for (int32_t kind = 0; kind < f->steps.n_layers; kind++) {
        int64_t layer = 0;
        while (model_layer_steps(&f->steps, f->m, layer) != &f->steps.layers[kind])
            layer++;
        for (int i = 0; i < PRODUCTS; i++) {
            const struct products x = products_from(f, layer_products[i], layer);
            bool again = x.layers == 0;
            for (int j = 0; j < n && !again; j++)
                again = is_like(&done[j].p, &x.p) && done[j].p.out == x.p.out;
            if (again)
                continue;
            done[n++] = x;
            TRY(prepare_product(f, &x, f->p.most.tokens, stream, e));
        }
    }
    return ST_OK;
}

/* Inputs are not 0 while this is measured: products of zeros are faster. */
enum st cuda_forward_prepare(struct cuda_forward *f, CUstream stream, struct err *e)
{
    const CUdeviceptr end = f->logits;
    TRY(gpu_fill(f->gpu, f->x, 0x3c, (size_t)(end - f->x), stream, e));
    TRY(prepare_layers(f, stream, e));
    const struct products head = products_from(f, OP_LM_HEAD, 0);
    TRY(prepare_product(f, &head, f->p.most.rows, stream, e));
    return gpu_fill(f->gpu, f->x, 0, (size_t)(end - f->x), stream, e);
}

/* ---- the pass -------------------------------------------------------------------------------- */

/* "attn_qk_norm + attn_rope of layer 3" */
static enum st name_operators(const struct rule *r, int64_t layer, bool layered, struct err *e)
{
    char text[160] = "", where[32] = "";
    for (int i = 0; i < r->n; i++) {
        const size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%s%s", i ? " + " : "", op_name(r->ops[i]));
    }
    if (layered)
        snprintf(where, sizeof where, " of layer %lld", (long long)layer);
    return err_add(e, "operator %s%s", text, where);
}

static bool is_wanted(const struct rule_use *u)
{
    return u->f->only == 0 || (u->f->only & UINT64_C(1) << rule_row(u)) != 0;
}

static enum st run_steps(struct cuda_forward *f, const struct cuda_pass *p, uint32_t pass,
                         const struct op_steps *s, int64_t layer, bool *begun, CUstream stream,
                         struct err *e)
{
    for (int i = 0; i < s->n;) {
        const struct rule *r = rule_for(pass, s->kinds + i, s->n - i);
        const struct rule_use use = {.f = f,
                                     .p = p,
                                     .stream = stream,
                                     .rule = r,
                                     .rows = s->rows + i,
                                     .layer = layer,
                                     .attention = &f->s->attention[model_attention_of(f->m, layer)],
                                     .mlp = &f->s->mlp[model_mlp_of(f->m, layer)],
                                     .begun = begun};
        if (r->run && is_wanted(&use) && r->run(&use, e) != ST_OK)
            return name_operators(r, layer, s != &f->steps.before && s != &f->steps.after, e);
        i += r->n;
    }
    return ST_OK;
}

enum st cuda_forward_run(struct cuda_forward *f, const struct cuda_pass *p, CUstream stream,
                         struct err *e)
{
    const uint32_t pass = rules_of_pass(f, p);
    bool begun = false;
    TRY(run_steps(f, p, pass, &f->steps.before, 0, &begun, stream, e));
    for (int64_t layer = 0; layer < f->m->layers; layer++)
        TRY(run_steps(f, p, pass, model_layer_steps(&f->steps, f->m, layer), layer, &begun, stream,
                      e));
    if (p->sizes.rows > 0)
        TRY(run_steps(f, p, pass, &f->steps.after, 0, &begun, stream, e));
    return ST_OK;
}

bool cuda_forward_phases(const struct cuda_forward *f, CUstream stream, double s[CUDA_STEP_PHASES])
{
    const int layers = f->stamps ? (int)f->m->layers : 0, n = cuda_decode_step_stamps(layers);
    uint64_t *ns = mem_alloc((size_t)n * sizeof *ns);
    struct err ignored = {0};
    bool known =
        f->stamps &&
        gpu_download(f->gpu, ns, f->stamps, (size_t)n * sizeof *ns, stream, &ignored) == ST_OK &&
        gpu_stream_wait(f->gpu, stream, &ignored) == ST_OK && ns[n - 1] > 0;
    for (int i = 0; i < CUDA_STEP_PHASES; i++)
        s[i] = 0;
    for (int i = 0; known && i + 1 < n; i++)
        s[i < n - 2 ? i % (CUDA_STEP_PHASES - 1) : CUDA_STEP_PHASES - 1] +=
            (double)(int64_t)(ns[i + 1] - ns[i]) * 1e-9;
    mem_free(ns);
    return known;
}

const char *cuda_forward_carrier(const struct cuda_forward *f, const struct cuda_pass *p,
                                 enum op_kind op, enum op_kind *charged)
{
    const struct op_steps *parts[LAYER_KINDS_MOST + 2] = {&f->steps.before, &f->steps.after};
    const uint32_t pass = rules_of_pass(f, p);
    for (int32_t k = 0; k < f->steps.n_layers; k++)
        parts[k + 2] = &f->steps.layers[k];
    for (int32_t k = 0; k < f->steps.n_layers + 2; k++)
        for (int i = 0; i < parts[k]->n;) {
            const struct rule *r = rule_for(pass, parts[k]->kinds + i, parts[k]->n - i);
            if (rule_has(r, op)) {
                if (charged)
                    *charged = rule_charged(r, p->sizes.chunks > 0);
                return r->carrier;
            }
            i += r->n;
        }
    return NULL;
}
