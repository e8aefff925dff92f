#include "profile/read/bundle.h"

#include <math.h>
#include <string.h>

#include "model/shard.h"
#include "profile/read/network.h"
#include "profile/read/read.h"

static bool is_bundle(struct arena *a, const char *dir)
{
    return fs_exists(fs_join(a, dir, "mlp.csv")) ||
           fs_exists(fs_join(a, dir, BUNDLE_CALIBRATION_FILE)) ||
           fs_exists(fs_join(a, dir, BUNDLE_ITERATIONS_FILE));
}

/* Models: folders with files; a name on the hub is a folder in a folder. */
static void add_models(struct arena *a, struct buf *list, const char *dir, const char *prefix)
{
    const char **names;
    size_t n;
    struct err quiet = {0};
    if (!fs_is_dir(dir) || fs_list(a, dir, &names, &n, &quiet) != ST_OK)
        return;
    for (size_t i = 0; i < n; i++) {
        const char *sub = fs_join(a, dir, names[i]);
        if (is_bundle(a, sub))
            buf_printf(list, "%s%s%s", list->n ? ", " : "", prefix, names[i]);
        else if (!*prefix && names[i][0] != '.')
            add_models(a, list, sub, arena_printf(a, "%s/", names[i]));
    }
}

static void hint_neighbours(struct arena *a, const struct bundle_key *key, struct err *e)
{
    const char *dir = arena_printf(a, "%s/data/profiling/compute/%s", key->root, key->hardware);
    const char *what = "models";
    if (!fs_is_dir(dir)) {
        dir = arena_printf(a, "%s/data/profiling/compute", key->root);
        what = "hardware";
    }
    struct buf list = {0};
    if (strcmp(what, "models") == 0)
        add_models(a, &list, dir, "");
    else
        bundle_list_folders(a, &list, dir);
    if (list.n)
        err_hint(e, "%s has the %s %s", dir, what, buf_str(&list));
    else
        err_hint(
            e,
            "profile.root=%s holds no bundles; `twinfer profile` makes one, predictor=roofline "
            "needs none",
            key->root);
    buf_free(&list);
}

/* The rows behind one another: [levels][iterations]. */
static const double *flat(struct arena *a, const struct doubles *rows, size_t n)
{
    double *v = arena_array(a, double, n *rows[0].n);
    for (size_t i = 0; i < n; i++)
        memcpy(v + i * rows[0].n, rows[i].v, rows[0].n * sizeof *v);
    return v;
}

static enum st check_rows(const struct node *map, const char *key, const struct doubles *rows,
                          size_t n, size_t numbers, struct err *e)
{
    for (size_t i = 0; i < n; i++)
        if (rows[i].n != numbers)
            return node_err(node_find(map, key)->items[i], ST_INPUT, e,
                            "%s: expected a list of %zu numbers", key, numbers);
    return ST_OK;
}

static enum st read_wake(struct arena *a, const struct node *meta, const struct bundle_wake *said,
                         struct wake_table *w, struct err *e)
{
    const struct node *map = node_find(meta, "wake");
    const size_t n = said->pause_s.n, iterations = said->n_device ? said->device_s[0].n : 0;
    if (iterations < 2 || iterations > 1000 || n > 1000 || said->n_device != n || said->n_host != n)
        return node_err(map, ST_INPUT, e, "wake: pause_s, device_s and host_s do not fit together");
    TRY(check_rows(map, "device_s", said->device_s, n, iterations, e));
    TRY(check_rows(map, "host_s", said->host_s, n, iterations, e));
    for (size_t i = 0; i < n; i++)
        if (said->pause_s.v[i] <= (i ? said->pause_s.v[i - 1] : 0))
            return node_err(node_find(map, "pause_s")->items[i], ST_INPUT, e,
                            "pause_s: pauses must ascend from above 0");
    *w = (struct wake_table){said->pause_s.v, flat(a, said->device_s, n), flat(a, said->host_s, n),
                             (int)n, (int)iterations};
    return ST_OK;
}

/* A kind's factors, as a curve over log2 x; none: no curve. */
static enum st read_factors(struct arena *a, const struct node *meta, unsigned kind,
                            const struct bundle_classes *said, struct curve *out, struct err *e)
{
    enum { MOST = 64 };
    double x[MOST], *y = arena_array(a, double, MOST);
    const char *key = calibration_kind_name(kind);
    const struct node *list = node_find(node_find(meta, "iteration"), key);
    if (said->n > MOST)
        return node_err(list, ST_INPUT, e, "%s: at most %d factors", key, MOST);
    for (size_t i = 0; i < said->n; i++) {
        x[i] = log2(said->of[i].x);
        y[i] = said->of[i].factor;
        if (i > 0 && !(x[i] > x[i - 1]))
            return node_err(list->items[i], ST_INPUT, e, "%s: x must ascend", key);
    }
    if (said->n > 0)
        *out = (struct curve){grid_new(a, x, (int32_t)said->n), y};
    return ST_OK;
}

static bool is_whole(const struct bundle *b)
{
    return b->calibrated || b->iterations;
}

static void take_host(struct bundle *b, const struct bundle_host *said)
{
    b->host_scale = said->scale;
    b->host_prefill_scale = said->prefill_scale;
    if (!said->overlaps)
        return;
    b->launch_share = said->launch_share;
    b->prefill_launch_share = said->prefill_launch_share;
    b->answer_s = said->answer_s;
}

static void take_errors(struct bundle *b, const struct bundle_meta *said)
{
    for (size_t i = 0; i < said->n_operators; i++) {
        const struct bundle_operator *of = &said->operators[i];
        for (int k = 0; k < b->ops.n && isfinite(of->loo_error); k++)
            if (strcmp(b->ops.ops[k].name, of->name) == 0)
                b->error[b->ops.ops[k].row] = of->loo_error;
    }
}

static enum st load_meta(struct arena *a, struct bundle *b, struct err *e)
{
    b->host_scale = b->host_prefill_scale = 1;
    for (int k = 0; k < OP_ROWS; k++)
        b->error[k] = -1;
    if (!is_whole(b) && !fs_exists(fs_join(a, b->dir, BUNDLE_META)))
        return ST_OK; /* Vidur's */
    struct bundle_meta *said = arena_one(a, struct bundle_meta);
    struct curve *const factors[CALIBRATION_KINDS] = {[CALIBRATION_DECODE] = &b->decode_scale,
                                                      [CALIBRATION_FIRST] = &b->first_scale,
                                                      [CALIBRATION_SECOND] = &b->second_scale,
                                                      [CALIBRATION_PROMPT] = &b->prompt_scale,
                                                      [CALIBRATION_MIXED] = &b->mixed_scale};
    struct node *meta, *ops;
    TRY(artifact_open(a, b->dir, BUNDLE_META, NULL, &meta, e));
    b->meta = meta;
    b->said = said;
    TRY(fields_read(a, &bundle_meta_fields, meta, said, e));
    take_host(b, &said->host);
    b->decode_beside = said->has_decode_beside ? &said->decode_beside : NULL;
    for (unsigned k = 0; k < CALIBRATION_KINDS; k++)
        TRY(read_factors(a, meta, k, &said->iteration[k], factors[k], e));
    if (said->has_wake)
        TRY(read_wake(a, meta, &said->wake, &b->wake, e));
    struct unevenness *u;
    TRY(unevenness_load(a, fs_join(a, b->dir, BUNDLE_UNEVENNESS), &u, e));
    b->unevenness = u;
    const struct node *energy = node_find(meta, "energy"), *idle = node_find(energy, "idle_w");
    if (idle && idle->kind != NODE_NULL)
        TRY(node_get_double(energy, "idle_w", 0, 1e6, &b->idle_w, e));
    if (is_whole(b))
        return ST_OK;
    return node_get(meta, "operators", NODE_MAP, &ops, e);
}

static void estimate_lm_head(struct bundle *b, struct read_points points[OP_ROWS])
{
    const struct read_points *from = &points[OP_MLP_UP_PROJ];
    const struct op *up = op_list_at(&b->ops, OP_MLP_UP_PROJ),
                    *head = op_list_at(&b->ops, OP_LM_HEAD);
    if (!up || points[OP_LM_HEAD].n || !from->n)
        return;
    for (size_t i = 0; i < from->n; i++) {
        struct surface_point p = from->p[i];
        p.y *= (double)head->m / (double)up->m;
        vec_push(&points[OP_LM_HEAD], p);
    }
    b->estimated = "lm_head (estimated from mlp_up_proj)";
}

/* Whether the decodes of attention.csv are batches of sequences of unequal lengths, and how. */
static bool rows_of(const struct bundle *b, struct seen_rows *out)
{
    const struct node *grid = node_find(b->meta, "grid");
    const struct node *said = node_find(grid, "decode_lengths");
    struct err ignored = {0};
    return said && said->kind == NODE_STR && !sv_eq(said->s, "equal") &&
           node_get_int(grid, "max_kv", 1, INT32_MAX, &out->max_kv, &ignored) == ST_OK &&
           node_get_int(b->meta, "block_size", 1, INT32_MAX, &out->block, &ignored) == ST_OK;
}

static bool takes_time(const struct op_table *t)
{
    for (int64_t i = 0; i < t->n; i++)
        if (t->points[i].y > 0)
            return true;
    return false;
}

/* What keeps the energy of a batch from being known, where operators have any. */
static void find_energy_missing(struct arena *a, struct bundle *b)
{
    struct buf without = {0};
    for (int i = 0; b->has_energy && i < b->ops.n; i++) {
        const struct op *op = &b->ops.ops[i];
        const int32_t k = op->row;
        const bool both = takes_time(&b->table[k]) && b->energy[k].n == 0;
        const bool decodes =
            b->has_decode_energy && takes_time(&b->decode_table[k]) && b->decode_energy[k].n == 0;
        if (both || decodes)
            buf_printf(&without, "%s%s%s", without.n ? ", " : "", op->name,
                       both ? "" : " in batches without chunks");
    }
    if (without.n)
        b->energy_missing =
            arena_printf(a,
                         "the bundle has times of %s, but no energy: twinfer profile "
                         "profile.energy=true measures it",
                         buf_str(&without));
    else if (b->has_energy && !(b->idle_w > 0))
        b->energy_missing = "the bundle does not say what idle devices draw (energy.idle_w of "
                            "bundle_meta.json)";
    buf_free(&without);
}

static void build_decode_tables(struct arena *a, struct bundle *b, struct grid_set *known,
                                struct op_points *decodes)
{
    for (int i = 0; i < b->ops.n; i++) {
        const struct op *op = &b->ops.ops[i];
        struct read_points *p = &decodes->time[op->row];
        struct surface_point *own = arena_copy(a, p->p, p->n * sizeof *p->p);
        if (op->axis != AXIS_TOKENS && op->axis != AXIS_ROWS)
            continue;
        op_table_build(a, op->axis, known, own, (int64_t)p->n, &b->decode_table[op->row]);
        b->has_decodes |= p->n > 0;
        p = &decodes->energy[op->row];
        own = arena_copy(a, p->p, p->n * sizeof *p->p);
        op_table_build(a, op->axis, known, own, (int64_t)p->n, &b->decode_energy[op->row]);
        b->has_decode_energy |= p->n > 0;
    }
}

static void build_tables(struct arena *a, const struct bundle_key *key, struct bundle *b,
                         struct op_points *both, struct op_points *decodes)
{
    struct read_points *points = both->time;
    estimate_lm_head(b, points);
    struct grid_set known = {0};
    struct seen_rows rows;
    const bool unequal = rows_of(b, &rows);
    struct buf missing = {0};
    for (int i = 0; i < b->ops.n; i++) {
        const struct op *op = &b->ops.ops[i];
        struct read_points *p = &points[op->row];
        struct surface_point *own = arena_copy(a, p->p, p->n * sizeof *p->p);
        op_table_build_for(a, key->model, op, unequal ? &rows : NULL, &known, own, (int64_t)p->n,
                           &b->table[op->row]);
        if (p->n == 0)
            buf_printf(&missing, "%s%s", missing.n ? ", " : "", op->name);
    }
    if (missing.n)
        b->missing = arena_str(a, buf_str(&missing));
    buf_free(&missing);
    build_decode_tables(a, b, &known, decodes);
    for (int i = 0; i < b->ops.n; i++) {
        const struct op *op = &b->ops.ops[i];
        struct read_points *p = &both->energy[op->row];
        struct surface_point *own = arena_copy(a, p->p, p->n * sizeof *p->p);
        op_table_build_for(a, key->model, op, unequal ? &rows : NULL, &known, own, (int64_t)p->n,
                           &b->energy[op->row]);
        b->has_energy |= p->n > 0;
    }
}

/* Batches of equal prompts that tell of the operator; those of models whose layers are alike name
 * none. */
static struct bundle_prompt_batch *batches_of(struct arena *a, const struct bundle_meta *said,
                                              const struct op *op, size_t *n)
{
    struct bundle_prompt_batch *out =
        arena_array(a, struct bundle_prompt_batch, said->n_prompt_batches);
    *n = 0;
    for (size_t i = 0; i < said->n_prompt_batches; i++) {
        const char *name = said->prompt_batches[i].operator_name;
        if (strcmp(name ? name : op_name(OP_ATTN_PREFILL), op->name) == 0)
            out[(*n)++] = said->prompt_batches[i];
    }
    return out;
}

/* A file with tables of decodes is of a GPU, whose attention takes the chunks of a batch together.
 */
static void build_together(struct arena *a, struct bundle *b)
{
    for (int i = 0; i < b->prefill.n && b->has_decodes && b->said; i++) {
        const struct op *op = b->prefill.of[i];
        size_t n;
        const struct bundle_prompt_batch *batches = batches_of(a, b->said, op, &n);
        b->together[op->row] = together_of(a, &b->table[op->row], batches, n);
    }
}

/* The sum of two curves that end at the same places, over the knots of both. */
static struct curve sum_of(struct arena *a, const struct curve *p, const struct curve *q,
                           int32_t repeat)
{
    const double *x = p->grid->x, *z = q->grid->x;
    int32_t n = p->grid->n, m = q->grid->n, k = 0;
    double *knots = arena_array(a, double, n + m), *y = arena_array(a, double, n + m);
    bool outside;
    for (int32_t i = 0, j = 0; i < n || j < m; k++) {
        double v = j == m || (i < n && x[i] <= z[j]) ? x[i] : z[j];
        i += i < n && x[i] == v;
        j += j < m && z[j] == v;
        knots[k] = v;
        y[k] = curve_at(p, v, &outside) + curve_at(q, v, &outside) * repeat;
    }
    return (struct curve){grid_new(a, knots, k), y};
}

/* Adds curves over equal knots, or over the same range, into one curve: a look-up then costs the
 * same for one operator or twelve. */
static void sum_add(struct arena *a, struct curve_sum *sum, const struct curve *c, int32_t repeat)
{
    const struct grid *g = c->grid;
    int s = 0;
    while (s < sum->n && sum->curve[s].grid != g)
        s++;
    for (int i = 0; i < sum->n && s == sum->n; i++) {
        const struct grid *h = sum->curve[i].grid;
        if (h->x[0] != g->x[0] || h->x[h->n - 1] != g->x[g->n - 1])
            continue;
        sum->curve[i] = sum_of(a, &sum->curve[i], c, repeat);
        sum->y[i] = NULL; /* not shared: no longer added to in place */
        return;
    }
    if (s == sum->n) {
        sum->y[s] = arena_array(a, double, g->n);
        sum->curve[s] = (struct curve){g, sum->y[s]};
        sum->n++;
    }
    for (int32_t j = 0; j < g->n; j++)
        sum->y[s][j] += c->y[j] * repeat;
}

static void add_experts(struct arena *a, struct bundle *b, const struct op_table *t, int32_t repeat)
{
    sum_add(a, &b->experts, &t->curve, repeat);
    b->expert_model = t->experts;
    for (int i = 0; i < 3; i++)
        b->experts_fit[i] += t->expert_fit[i] * repeat;
}

void bundle_clear_sums(struct bundle *b)
{
    b->tokens = b->rows = b->once = b->experts = b->decode_experts = (struct curve_sum){0};
    b->energy_tokens = b->energy_rows = b->decode_tokens = b->decode_rows = (struct curve_sum){0};
    b->decode_energy_tokens = b->decode_energy_rows = (struct curve_sum){0};
}

void bundle_sum_tables(struct arena *a, struct bundle *b)
{
    for (int i = 0; i < 3; i++)
        b->experts_fit[i] = 0;
    for (int i = 0; i < b->ops.n; i++) {
        const struct op *op = &b->ops.ops[i];
        const struct curve *c = &b->energy[op->row].curve;
        if (c->grid)
            sum_add(a, op->axis == AXIS_ROWS ? &b->energy_rows : &b->energy_tokens, c, op->repeat);
        c = &b->decode_energy[op->row].curve;
        if (c->grid)
            sum_add(a, op->axis == AXIS_ROWS ? &b->decode_energy_rows : &b->decode_energy_tokens, c,
                    op->repeat);
        c = &b->decode_table[op->row].curve;
        if (c->grid)
            sum_add(a, op->axis == AXIS_ROWS ? &b->decode_rows : &b->decode_tokens, c, op->repeat);
        if (c->grid && op_is_expert(op->kind))
            sum_add(a, &b->decode_experts, c, op->repeat);
        c = &b->table[op->row].curve;
        if (c->grid == NULL)
            continue;
        sum_add(a, op->axis == AXIS_ROWS ? &b->rows : &b->tokens, c, op->repeat);
        if (op_is_expert(op->kind))
            add_experts(a, b, &b->table[op->row], op->repeat);
        if (op->where == OP_BEFORE_LAYERS)
            sum_add(a, &b->once, c, op->repeat);
    }
    experts_tell_costs(b);
}

static enum st load_power_cap(struct arena *a, struct bundle *b, struct err *e)
{
    if (!b->said || !b->said->has_power_cap)
        return ST_OK;
    const struct bundle_power_cap *said = &b->said->power_cap;
    double *table_s = arena_array(a, double, said->n_rows);
    for (size_t i = 0; i < said->n_rows; i++) {
        const int64_t tokens = said->rows[i].tokens;
        table_s[i] =
            predict_tokens_s(b, tokens) + predict_rows_s(b, 1) + predict_prefill_s(b, 0, tokens);
    }
    *b->counts = (struct bundle_counts){0};
    return power_cap_make(a, node_find(b->meta, "power_cap"), said, table_s, &b->power_cap, e);
}

static enum st load_network(struct arena *a, const struct bundle_key *key, const char *network,
                            struct bundle *b, struct err *e)
{
    const char *dir = bundle_network_dir(a, key, network);
    struct network_key n = {
        .tp = key->tp, .pp = key->pp, .ep = key->ep, .hidden = key->model->hidden};
    b->all_reduces = shard_all_reduces(key->model);
    b->all_to_alls = key->model->layered ? 2 * (int32_t)shard_stage_expert_layers(key->model, 1, 0)
                                         : b->all_reduces;
    const char *path;
    if (key->tp > 1) {
        TRY(bundle_network_file(a, key, dir, "all_reduce.csv", "parallel.tp", key->tp, &path, e));
        TRY(read_all_reduce(a, path, &n, &b->all_reduce_table, e));
    }
    if (shard_groups(key->tp, key->ep) > 1) {
        TRY(bundle_network_file(a, key, dir, "all_to_all.csv", "parallel.ep", key->ep, &path, e));
        TRY(read_all_to_all(a, path, &n, &b->all_to_all_table, e));
    }
    if (key->pp > 1) {
        TRY(bundle_network_file(a, key, dir, "send_recv.csv", "parallel.pp", key->pp, &path, e));
        TRY(read_send_recv(a, path, &n, &b->send_recv_table, e));
    }
    b->all_to_all = b->all_to_all_table.curve;
    b->all_reduce = b->all_reduce_table.curve;
    b->send_recv = b->send_recv_table.curve;
    return ST_OK;
}

int bundle_files(struct arena *a, const struct bundle_key *key, const char *out[BUNDLE_FILES])
{
    const char *dir = bundle_folder(a, key, "compute", key->hardware);
    const char *network = bundle_network_dir(a, key, bundle_network_of(a, key));
    const char *const paths[BUNDLE_FILES] = {fs_join(a, dir, BUNDLE_META),
                                             fs_join(a, dir, BUNDLE_UNEVENNESS),
                                             fs_join(a, dir, "mlp.csv"),
                                             fs_join(a, dir, "attention.csv"),
                                             fs_join(a, dir, BUNDLE_ITERATIONS_FILE),
                                             fs_join(a, dir, BUNDLE_CALIBRATION_FILE),
                                             fs_join(a, dir, BUNDLE_OVERHEADS),
                                             bundle_host_file(a, key),
                                             fs_join(a, network, "all_reduce.csv"),
                                             fs_join(a, network, "all_to_all.csv"),
                                             fs_join(a, network, "send_recv.csv")};
    int n = 0;
    for (int i = 0; i < BUNDLE_FILES; i++)
        if (fs_exists(paths[i]))
            out[n++] = paths[i];
    return n;
}

/* Tables of operators hold for the formats that the meta states, 16 bits where it states none. */
static enum st check_formats(const struct bundle *b, const struct model *m, struct err *e)
{
    const struct {
        const char *key, *what;
        enum precision is;
    } rows[] = {{"weights", "weights", m->weights}, {"kv", "keys and values", m->kv}};
    const struct node *stated = node_find(b->meta, "formats");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        enum precision p = PRECISION_BF16;
        const struct node *n = node_find(stated, rows[i].key);
        bool known = n && n->kind == NODE_STR && precision_from_name(n->s, &p);
        bool float16 = precision_is_half(rows[i].is);
        if (n && !known)
            return node_err(n, ST_INPUT, e, "formats.%s: there is no such format", rows[i].key);
        if (known ? p == rows[i].is || (float16 && precision_bytes(p) >= 2)
                  : precision_bytes(rows[i].is) >= 2)
            continue;
        err_set(e, ST_INPUT, "the bundle %s holds for %s in %s, not %s", b->dir, rows[i].what,
                known ? precision_name(p) : "16 bits", precision_name(rows[i].is));
        return err_hint(e, "predictor=roofline predicts that format, uncalibrated");
    }
    return ST_OK;
}

/* Times of whole iterations, and what requests pay besides. */
static enum st load_whole(struct arena *a, const struct bundle_key *key, struct bundle *b,
                          struct err *e)
{
    struct calibrated *calibrated;
    struct iterations *iterations = NULL;
    struct request_overheads *overheads;
    const int64_t pp = key->pp > 0 ? key->pp : 1;
    TRY(request_overheads_load(a, fs_join(a, b->dir, BUNDLE_OVERHEADS), &overheads, e));
    TRY(calibrated_load(a, fs_join(a, b->dir, BUNDLE_CALIBRATION_FILE), key->model, key->tp, pp,
                        key->ep, &calibrated, e));
    if (!calibrated)
        TRY(iterations_load(a, fs_join(a, b->dir, BUNDLE_ITERATIONS_FILE), key->tp, &iterations,
                            e));
    if (iterations && (pp > 1 || shard_groups(key->tp, key->ep) > 1))
        return err_set(e, ST_INPUT, "%s/%s holds iterations of one stage and one group of shards",
                       b->dir, BUNDLE_ITERATIONS_FILE);
    b->overheads = overheads;
    b->calibrated = calibrated;
    b->iterations = iterations;
    return ST_OK;
}

enum st bundle_load(struct arena *a, const struct bundle_key *key, struct bundle **out,
                    struct err *e)
{
    struct bundle *b = arena_one(a, struct bundle);
    b->root = arena_str(a, key->root);
    b->dir = bundle_folder(a, key, "compute", key->hardware);
    b->counts = arena_one(a, struct bundle_counts);
    if (!fs_is_dir(b->dir)) {
        err_set(e, ST_INPUT, "no profiling bundle of model %s for hardware %s: %s is not a folder",
                key->model_name, key->hardware, b->dir);
        hint_neighbours(a, key, e);
        return e->st;
    }
    TRY(load_whole(a, key, b, e));
    if (!is_whole(b)) {
        TRY(model_check_described(key->model, "a bundle of operator tables", e));
        TRY(model_check_rows(key->model, OP_ROWS, e));
        model_ops(key->model, &b->ops);
        bundle_find_attention(b);
    }
    TRY(load_meta(a, b, e));
    *out = b;
    if (is_whole(b))
        return ST_OK;
    TRY(check_formats(b, key->model, e));

    struct op_points points = {0}, decodes = {0};
    op_list_add_gap(&b->ops);
    enum st st = read_mlp(fs_join(a, b->dir, "mlp.csv"), key, &b->ops, &points, &decodes, e);
    if (st == ST_OK)
        st = read_attention(fs_join(a, b->dir, "attention.csv"), key, &b->ops, &points, e);
    if (points.time[OP_GAP].n == 0)
        b->ops.n--;
    if (st == ST_OK)
        build_tables(a, key, b, &points, &decodes);
    if (st == ST_OK)
        find_energy_missing(a, b);
    if (st == ST_OK)
        build_together(a, b);
    for (int k = 0; k < OP_ROWS; k++) {
        vec_free(&points.time[k]);
        vec_free(&points.energy[k]);
        vec_free(&decodes.time[k]);
        vec_free(&decodes.energy[k]);
    }
    TRY(st);
    if (b->said)
        take_errors(b, b->said);
    bundle_sum_tables(a, b);
    TRY(load_power_cap(a, b, e));

    const char *network, *host = bundle_host_file(a, key);
    TRY(bundle_network(a, key, &network, e));
    if (fs_exists(host))
        TRY(read_host(a, host, key, &b->host, &b->host_prefill, e));
    if (key->pp > 0)
        TRY(load_network(a, key, network, b, e));
    *out = b;
    return ST_OK;
}

bool bundle_exists(struct arena *a, const struct bundle_key *key)
{
    return fs_is_dir(bundle_folder(a, key, "compute", key->hardware));
}

enum bundle_form bundle_form(const struct bundle *b)
{
    return b->calibrated ? BUNDLE_CALIBRATED : b->iterations ? BUNDLE_ITERATIONS : BUNDLE_OPERATORS;
}

const struct calibrated *bundle_calibrated(const struct bundle *b)
{
    return b->calibrated;
}

double bundle_replayed(const struct bundle *b, bool prompt, int64_t size)
{
    return b->replayed ? unevenness_next(b->replayed, prompt, size) : 1;
}

struct iterations_time bundle_iteration_s(const struct bundle *b, const struct iterations_batch *x)
{
    bool outside;
    const struct iterations_time s = iterations_at(b->iterations, x, &outside);
    b->counts->lookups++;
    b->counts->outside += outside;
    return s;
}

bool bundle_pads(const struct bundle *b)
{
    const struct node *said = node_find(b->meta, "padded");
    return said && said->kind == NODE_BOOL && said->b;
}

const struct request_overheads *bundle_overheads(const struct bundle *b)
{
    return b->overheads;
}

const struct node *bundle_settings(const struct bundle *b)
{
    return b->calibrated ? b->calibrated->settings : node_find(b->meta, "settings");
}

bool bundle_overlaps(const struct bundle *b)
{
    const struct node *serving = node_find(b->meta, "serving");
    const struct node *async = node_find(serving, "scheduler.async_scheduling");
    return async && async->kind == NODE_STR && sv_eq(async->s, "overlap");
}

double bundle_first_use_s(const struct bundle *b, bool prompt)
{
    struct bundle_first_use first;
    if (b->calibrated)
        return b->calibrated->first_use_s > 0 ? b->calibrated->first_use_s : 0;
    if (!b->iterations || !b->meta)
        return 0;
    fields_read_loose(NULL, &bundle_first_use_fields, node_find(b->meta, "first_use"), &first);
    const double s = prompt ? first.prompt_s : first.decode_s;
    return s > 0 ? s : 0;
}

const struct power_cap *bundle_power_cap(const struct bundle *b)
{
    return b->power_cap;
}

bool bundle_has(const struct bundle *b, enum op_kind k)
{
    return b->table[k].n > 0;
}

bool bundle_has_host(const struct bundle *b)
{
    return b->host.s.grid != NULL || is_whole(b);
}

bool bundle_is_uneven(const struct bundle *b)
{
    return b->unevenness != NULL;
}

const struct node *bundle_meta(const struct bundle *b)
{
    return b->meta;
}

const char *bundle_dir(const struct bundle *b)
{
    return b->dir;
}

const char *bundle_root(const struct bundle *b)
{
    return b->root;
}

const char *bundle_missing(const struct bundle *b)
{
    return b->missing;
}

bool bundle_has_energy(const struct bundle *b)
{
    return b->has_energy && !b->energy_missing;
}

const char *bundle_energy_missing(const struct bundle *b)
{
    return b->energy_missing;
}

double bundle_idle_w(const struct bundle *b)
{
    return b->idle_w;
}

const char *bundle_estimated(const struct bundle *b)
{
    return b->estimated;
}

double bundle_row_error(const struct bundle *b, int32_t row)
{
    return b->error[row];
}

void bundle_check(struct arena *a, const struct bundle *b, int64_t folds, struct bundle_check **out,
                  int *n)
{
    const struct {
        const char *name;
        const struct op_table *table;
    } network[] = {{"all_reduce", &b->all_reduce_table},
                   {"all_to_all", &b->all_to_all_table},
                   {"send_recv", &b->send_recv_table}};
    enum { NETWORK = sizeof network / sizeof *network };
    *out = arena_array(a, struct bundle_check, b->ops.n + NETWORK);
    *n = 0;
    if (b->iterations) {
        const struct iterations_facts f = iterations_facts(b->iterations);
        (*out)[(*n)++] = (struct bundle_check){"iteration", f.decodes + f.prompts, f.error};
        return;
    }
    for (int i = 0; i < b->ops.n + NETWORK; i++) {
        bool op = i < b->ops.n;
        const struct op_table *t = op ? &b->table[b->ops.ops[i].row] : network[i - b->ops.n].table;
        const char *name = op ? b->ops.ops[i].name : network[i - b->ops.n].name;
        bool measured = !op || b->ops.ops[i].kind != OP_LM_HEAD || !b->estimated;
        if (t->n > 0 && measured)
            (*out)[(*n)++] = (struct bundle_check){name, t->n, op_table_holdout(t, folds)};
    }
}
