#include "model/describe.h"

#include <string.h>

#include "model/describe_layers.h"
#include "model/opaque.h"
#include "model/stored.h"
#include "text/table.h"

/* ---- the figures ----------------------------------------------------------------------------- */

struct op_row {
    struct op op;
    struct op_cost prefill, decode; /* per token */
};

struct figures {
    struct describe_params p; /* defaults filled in */
    struct op_row rows[OP_KINDS];
    struct op_cost prefill, decode; /* sums */
    int n;
};

static struct op_cost per_token(struct op_cost c, int64_t tokens)
{
    return (struct op_cost){c.flop / (double)tokens, c.bytes / (double)tokens};
}

static void add(struct op_cost *sum, struct op_cost c)
{
    sum->flop += c.flop;
    sum->bytes += c.bytes;
}

static struct figures figures_of(const struct model *m, const struct describe_params *given)
{
    enum { DEFAULT_TOKENS = 512 };
    struct figures f = {.p = *given};
    struct op_list l;
    f.p.prompt_tokens = given->prompt_tokens ? given->prompt_tokens : DEFAULT_TOKENS;
    f.p.kv_tokens = given->kv_tokens ? given->kv_tokens : DEFAULT_TOKENS;
    f.p.element_bytes = given->element_bytes ? given->element_bytes : 4;
    int64_t n = f.p.prompt_tokens;
    const struct key_spans spans = model_spans(m);
    struct op_load prefill = {.tokens = n, .rows = 1}, decode = {.tokens = 1, .rows = 1, .seqs = 1};
    op_load_add_chunk(&prefill, &spans, 0, n);
    op_load_add_keys(&decode, &spans, f.p.kv_tokens);
    model_ops(m, &l);
    for (int i = 0; i < l.n; i++) {
        struct op_row *r = &f.rows[f.n++];
        r->op = l.ops[i];
        r->prefill = per_token(op_cost(m, &r->op, &prefill, f.p.element_bytes), n);
        r->decode = op_cost(m, &r->op, &decode, f.p.element_bytes);
        add(&f.prefill, r->prefill);
        add(&f.decode, r->decode);
    }
    return f;
}

/* Keys and values, of elements of so many bytes: a token of a long sequence in all layers. */
static double kv_bytes(const struct model *m, double element_bytes)
{
    if (!m->structure)
        return element_bytes * (double)model_kv_bytes_per_token(m, 1);
    const struct layer_bytes b = layer_bytes_of(m->structure, element_bytes, sizeof(float));
    return b.token + b.window_token;
}

static int64_t parameters(const struct model *m)
{
    return m->layered ? structure_params(m->structure) : model_params(m);
}

/* ---- for people ------------------------------------------------------------------------------ */

/* "1,234,567" */
static const char *grouped(struct arena *a, int64_t v)
{
    const char *digits = arena_printf(a, "%lld", (long long)v);
    struct buf b = {0};
    for (size_t i = 0, n = strlen(digits); i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0)
            buf_putc(&b, ',');
        buf_putc(&b, digits[i]);
    }
    const char *text = arena_str(a, buf_str(&b));
    buf_free(&b);
    return text;
}

/* Three digits or so: "1.19 G"; step 1000 for FLOPs, 1024 for bytes. */
static const char *scaled(struct arena *a, double v, double step, const char *const units[5])
{
    int u = 0;
    while (v >= step && u < 4) {
        v /= step;
        u++;
    }
    int decimals = u == 0 || v >= 100 ? 0 : v >= 10 ? 1 : 2;
    return arena_printf(a, "%.*f%s", decimals, v, units[u]);
}

static const char *flops(struct arena *a, double v)
{
    static const char *const units[5] = {"", " k", " M", " G", " T"};
    return scaled(a, v, 1000, units);
}

static const char *bytes(struct arena *a, double v)
{
    static const char *const units[5] = {" B", " KiB", " MiB", " GiB", " TiB"};
    return scaled(a, v, 1024, units);
}

static void put_name(struct arena *a, const struct model *m, struct buf *out)
{
    buf_printf(out, "%s: %s, %lld layers, hidden %lld, ", m->name, model_family_words(a, m),
               (long long)m->layers, (long long)m->hidden);
    if (!m->layered) {
        buf_printf(out, "%lld heads of %lld, %lld KV heads, ", (long long)m->heads,
                   (long long)m->head_dim, (long long)m->kv_heads);
        if (m->experts)
            buf_printf(out, "%lld experts, %lld per token, ", (long long)m->experts,
                       (long long)m->experts_per_token);
        buf_printf(out, "intermediate %lld, ", (long long)m->intermediate);
    }
    buf_printf(out, "vocabulary %lld\n", (long long)m->vocab);
}

/* As the files have it, where that is not all in the model's type. */
static void put_stored(struct arena *a, const struct model *m, struct buf *out)
{
    const char *label = "stored";
    if (stored_quantised(m->stored)) {
        buf_printf(out, "%-19s %s: %s\n", label, bytes(a, m->stored->bytes),
                   stored_words(a, m->stored));
        label = "";
    }
    if (m->stored->kv_stated) {
        buf_printf(out, "%-19s keys and values in %s: %s per token\n", label, precision_name(m->kv),
                   bytes(a, kv_bytes(m, precision_bytes(m->kv))));
        label = "";
    }
    if (m->stored->note)
        buf_printf(out, "%-19s %s\n", label, m->stored->note);
}

/* Beside keys and values of all tokens, which the line before has. */
static void put_kept(struct arena *a, const struct structure *s, struct buf *out)
{
    const struct layer_bytes b = layer_bytes_of(s, 2, sizeof(float));
    if (b.window > 0)
        buf_printf(out,
                   "                    of it %s as bfloat16 in layers with a window, at most %s a "
                   "sequence\n",
                   bytes(a, b.window_token), bytes(a, b.window));
    if (b.state > 0)
        buf_printf(out, "state per sequence  %s, of elements in bfloat16 and float32\n",
                   bytes(a, b.state));
}

static void put_not_counted(const struct structure *s, struct buf *out)
{
    if (s->draft_layers)
        buf_printf(out, "not counted         %lld layers that draft tokens (MTP)\n",
                   (long long)s->draft_layers);
    if (s->encoder)
        buf_printf(
            out,
            "not counted         the encoder of %s; what images or sound cost is not modelled\n",
            s->encoder);
}

static void put_sizes(struct arena *a, const struct model *m, struct buf *out)
{
    if (m->source)
        buf_printf(out, "source              %s\n", m->source);
    const int64_t params = parameters(m);
    const struct structure *s = m->structure;
    buf_printf(out, "parameters          %s%s\n", grouped(a, params),
               m->tied ? " (lm_head is the embedding, counted once)" : "");
    if (s && structure_active_params(s) != params)
        buf_printf(out, "                    %s of them for each token\n",
                   grouped(a, structure_active_params(s)));
    buf_printf(out, "weights             %s as float32, %s as bfloat16\n",
               bytes(a, 4 * (double)params), bytes(a, 2 * (double)params));
    buf_printf(out, "KV cache per token  %s as float32, %s as bfloat16\n", bytes(a, kv_bytes(m, 4)),
               bytes(a, kv_bytes(m, 2)));
    if (s)
        put_kept(a, s, out);
    if (m->stored)
        put_stored(a, m, out);
    if (s)
        put_not_counted(s, out);
}

static void put_head(struct arena *a, const struct model *m, const struct figures *f,
                     struct buf *out)
{
    put_name(a, m, out);
    put_sizes(a, m, out);
    buf_printf(out,
               "\nFLOPs and bytes moved per token, %s: a prompt of %s tokens, and a decode step ",
               f->p.element_bytes == 4 ? "float32" : "bfloat16", grouped(a, f->p.prompt_tokens));
    buf_printf(out, "over %s keys, each alone in its batch\n\n", grouped(a, f->p.kv_tokens));
}

static void put_costs(struct arena *a, struct table *t, struct op_cost prefill,
                      struct op_cost decode)
{
    table_cell(t, "%s", flops(a, prefill.flop));
    table_cell(t, "%s", bytes(a, prefill.bytes));
    table_cell(t, "%s", flops(a, decode.flop));
    table_cell(t, "%s", bytes(a, decode.bytes));
}

void model_describe(struct arena *a, const struct model *m, const struct describe_params *p,
                    struct buf *out)
{
    static const char *const heads[] = {"operator",     "times",         "weight",
                                        "parameters",   "prefill FLOPs", "prefill bytes",
                                        "decode FLOPs", "decode bytes"};
    enum { COLUMNS = sizeof heads / sizeof *heads };
    if (m->opaque) {
        opaque_describe(a, m, out);
        return;
    }
    if (m->layered) {
        put_name(a, m, out);
        put_sizes(a, m, out);
        buf_putc(out, '\n');
        describe_layers(a, m->structure, out);
        return;
    }
    struct figures f = figures_of(m, p);
    struct table *t = table_new(a, COLUMNS);
    put_head(a, m, &f, out);
    for (int i = 0; i < COLUMNS; i++)
        table_cell(t, "%s", heads[i]);
    for (int i = 0; i < f.n; i++) {
        const struct op_row *r = &f.rows[i];
        table_cell(t, "%s", r->op.name);
        table_cell(t, "%d", r->op.repeat);
        table_cell(t, "%s",
                   !r->op.m ? ""
                   : r->op.experts
                       ? arena_printf(a, "%lld x [%lld, %lld]", (long long)r->op.experts,
                                      (long long)r->op.m, (long long)r->op.k)
                       : arena_printf(a, "[%lld, %lld]", (long long)r->op.m, (long long)r->op.k));
        table_cell(t, "%s", grouped(a, r->op.repeat * r->op.weight_params));
        put_costs(a, t, r->prefill, r->decode);
    }
    table_cell(t, "all");
    table_cell(t, "%s", "");
    table_cell(t, "%s", "");
    table_cell(t, "%s", grouped(a, model_params(m)));
    put_costs(a, t, f.prefill, f.decode);
    table_text(out, t);
}

/* ---- as a tree ------------------------------------------------------------------------------- */

static void set(struct arena *a, struct node *map, const char *key, struct node *value)
{
    node_set(a, map, sv_of(key), value);
}

static struct node *cost_node(struct arena *a, struct op_cost c)
{
    struct node *n = node_new(a, NODE_MAP);
    set(a, n, "flop", node_float(a, c.flop));
    set(a, n, "bytes", node_float(a, c.bytes));
    return n;
}

static struct node *dimensions_node(struct arena *a, const struct model *m)
{
    const struct {
        const char *key;
        int64_t value;
    } dims[] = {
        {"layers", m->layers},     {"hidden", m->hidden},
        {"heads", m->heads},       {"kv_heads", m->kv_heads},
        {"head_dim", m->head_dim}, {"intermediate", m->intermediate},
        {"vocab", m->vocab},       {"max_positions", m->max_positions},
        {"experts", m->experts},   {"experts_per_token", m->experts_per_token},
    };
    struct node *n = node_new(a, NODE_MAP);
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        set(a, n, dims[i].key, node_int(a, dims[i].value));
    return n;
}

static struct node *by_dtype(struct arena *a, int64_t elements)
{
    struct node *n = node_new(a, NODE_MAP);
    set(a, n, "float32", node_int(a, 4 * elements));
    set(a, n, "bfloat16", node_int(a, 2 * elements));
    return n;
}

/* Bytes are whole unless several tokens share an entry. */
static struct node *whole_number(struct arena *a, double v)
{
    const int64_t whole = (int64_t)v;
    return (double)whole < v ? node_float(a, v) : node_int(a, whole);
}

static struct node *operator_node(struct arena *a, const struct op_row *r)
{
    struct node *n = node_new(a, NODE_MAP), *shape = node_new(a, r->op.m ? NODE_LIST : NODE_NULL);
    set(a, n, "name", node_str(a, r->op.name));
    set(a, n, "repeat", node_int(a, r->op.repeat));
    if (r->op.m) {
        node_push(a, shape, node_int(a, r->op.m));
        node_push(a, shape, node_int(a, r->op.k));
    }
    set(a, n, "weight", shape);
    set(a, n, "parameters", node_int(a, r->op.repeat * r->op.weight_params));
    set(a, n, "prefill", cost_node(a, r->prefill));
    set(a, n, "decode", cost_node(a, r->decode));
    return n;
}

static void put_costs_node(struct arena *a, const struct model *m, const struct describe_params *p,
                           struct node *n)
{
    struct figures f = figures_of(m, p);
    struct node *ops = node_new(a, NODE_LIST), *total = node_new(a, NODE_MAP);
    for (int i = 0; i < f.n; i++)
        node_push(a, ops, operator_node(a, &f.rows[i]));
    set(a, total, "prefill", cost_node(a, f.prefill));
    set(a, total, "decode", cost_node(a, f.decode));
    set(a, n, "prompt_tokens", node_int(a, f.p.prompt_tokens));
    set(a, n, "kv_tokens", node_int(a, f.p.kv_tokens));
    set(a, n, "element_bytes", node_int(a, f.p.element_bytes));
    set(a, n, "operators", ops);
    set(a, n, "total", total);
}

static void put_layers_node(struct arena *a, const struct structure *s, struct node *n)
{
    const struct layer_bytes b = layer_bytes_of(s, 2, sizeof(float));
    set(a, n, "active_parameters", node_int(a, structure_active_params(s)));
    set(a, n, "expert_parameters", node_int(a, structure_expert_params(s)));
    set(a, n, "window_kv_bytes_per_token", node_float(a, b.window_token));
    set(a, n, "window_bytes_per_sequence", node_float(a, b.window));
    set(a, n, "state_bytes_per_sequence", node_float(a, b.state));
    set(a, n, "layers", describe_layers_node(a, s));
}

struct node *model_describe_node(struct arena *a, const struct model *m,
                                 const struct describe_params *p)
{
    if (m->opaque)
        return opaque_describe_node(a, m);
    struct node *n = node_new(a, NODE_MAP), *kv = node_new(a, NODE_MAP);
    set(a, kv, "float32", whole_number(a, kv_bytes(m, 4)));
    set(a, kv, "bfloat16", whole_number(a, kv_bytes(m, 2)));
    set(a, n, "model", node_str(a, m->name));
    if (m->source)
        set(a, n, "source", node_str(a, m->source));
    set(a, n, "family", node_str(a, model_family_name(m)));
    if (m->structure && m->structure->own_type)
        set(a, n, "model_type", node_str(a, m->structure->own_type));
    set(a, n, "dimensions", dimensions_node(a, m));
    set(a, n, "parameters", node_int(a, parameters(m)));
    set(a, n, "weight_bytes", by_dtype(a, parameters(m)));
    set(a, n, "kv_bytes_per_token", kv);
    set(a, n, "stored_kv_bytes_per_token", whole_number(a, kv_bytes(m, precision_bytes(m->kv))));
    if (m->stored) {
        set(a, n, "stored_bytes", node_int(a, (int64_t)m->stored->bytes));
        set(a, n, "stored_as", node_str(a, stored_words(a, m->stored)));
        set(a, n, "stored_kv", node_str(a, precision_name(m->kv)));
        set(a, n, "stored_note", node_str_or_null(a, m->stored->note));
        set(a, n, "stored", stored_node(a, m->stored));
    }
    if (m->structure)
        put_layers_node(a, m->structure, n);
    if (!m->layered)
        put_costs_node(a, m, p, n);
    return n;
}
