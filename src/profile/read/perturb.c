/* Bundles with perturbed times, and the uncertainty of times. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "profile/read/read.h"

static const double PER_MEAN_ERROR = 1.2533141373155; /* sqrt(pi / 2) */

const char *bundle_part_name(enum bundle_part part)
{
    static const char *const names[BUNDLE_PARTS] = {[PART_TOKENS] = "tokens",
                                                    [PART_ROWS] = "rows",
                                                    [PART_PREFILL] = "attn_prefill",
                                                    [PART_DECODE] = "attn_decode",
                                                    [PART_ALL_REDUCE] = "all_reduce",
                                                    [PART_SEND_RECV] = "send_recv",
                                                    [PART_ALL_TO_ALL] = "all_to_all",
                                                    [PART_HOST] = "host",
                                                    [PART_HOST_PREFILL] = "host_prefill"};
    return names[part];
}

static enum bundle_part part_of(enum op_axis axis)
{
    switch (axis) {
    case AXIS_ROWS:
        return PART_ROWS;
    case AXIS_PREFILL:
        return PART_PREFILL;
    case AXIS_DECODE:
        return PART_DECODE;
    case AXIS_TOKENS:
        break;
    }
    return PART_TOKENS;
}

/* ---- how far places are off -------------------------------------------------------------------
 *
 * Operators over tokens are measured in the same passes, and a slow one is slow for all: what
 * counts is the error of their sum at a place, not that of each. */

struct residual {
    double x, kv, error_s, tested_s; /* s of a forward pass, of the operators tested at the place */
};

struct residuals {
    VEC(struct residual) v;
};

static void add_residuals(struct residuals *r, const struct op_table *t, int32_t repeat)
{
    double *error = mem_alloc((size_t)(t->n + 1) * sizeof *error);
    (void)op_table_errors(t, 0, error);
    for (int64_t i = 0; i < t->n; i++)
        if (!isnan(error[i])) {
            const struct surface_point *p = &t->points[i];
            const double s = p->y * repeat;
            vec_push(&r->v, ((struct residual){p->x, p->kv, error[i] * s, s}));
        }
    mem_free(error);
}

static int by_place(const void *pa, const void *pb)
{
    const struct residual *a = pa, *b = pb;
    if (a->x != b->x)
        return a->x < b->x ? -1 : 1;
    return (a->kv > b->kv) - (a->kv < b->kv);
}

/* Seconds of all operators of the part at a place. */
static double whole_s(const struct bundle *b, enum bundle_part part, double x, double kv)
{
    double s = 0;
    bool outside = false;
    for (int i = 0; i < b->ops.n; i++) {
        const struct op *op = &b->ops.ops[i];
        if (part_of(op->axis) == part)
            s += op_table_at(&b->table[op->row], x, kv, &outside) * op->repeat;
    }
    return s;
}

/* Places where operators of less than half of the time were tested say little of the sum. */
static struct op_spread spread_of(const struct bundle *b, enum bundle_part part,
                                  struct residuals *r)
{
    double *error = mem_alloc((r->v.n + 1) * sizeof *error);
    int64_t n = 0;
    if (r->v.n)
        qsort(r->v.p, r->v.n, sizeof *r->v.p, by_place);
    for (size_t i = 0; i < r->v.n;) {
        struct residual sum = {0};
        size_t j = i;
        for (; j < r->v.n && by_place(&r->v.p[i], &r->v.p[j]) == 0; j++) {
            sum.error_s += r->v.p[j].error_s;
            sum.tested_s += r->v.p[j].tested_s;
        }
        if (sum.tested_s >= whole_s(b, part, r->v.p[i].x, r->v.p[i].kv) / 2)
            error[n++] = sum.error_s / sum.tested_s;
        i = j;
    }
    const struct op_spread s = op_spread_of(error, n);
    mem_free(error);
    return s;
}

static struct op_spread op_part(const struct bundle *b, enum bundle_part part)
{
    struct residuals r = {0};
    for (int i = 0; i < b->ops.n; i++) {
        const struct op *op = &b->ops.ops[i];
        if (part_of(op->axis) == part)
            add_residuals(&r, &b->table[op->row], op->repeat);
    }
    const struct op_spread s = spread_of(b, part, &r);
    vec_free(&r.v);
    return s;
}

static struct op_spread table_part(const struct op_table *t)
{
    double *error = mem_alloc((size_t)(t->n + 1) * sizeof *error);
    (void)op_table_errors(t, 0, error);
    const struct op_spread s = op_spread_of(error, t->n);
    mem_free(error);
    return s;
}

/* ---- how far the factors of the calibration run are off ----------------------------------------
 */

static const struct curve_scale {
    enum calibration_kind kind;
    size_t curve; /* in struct bundle */
    bool prompt;
} scales[] = {{CALIBRATION_DECODE, offsetof(struct bundle, decode_scale), false},
              {CALIBRATION_FIRST, offsetof(struct bundle, first_scale), false},
              {CALIBRATION_SECOND, offsetof(struct bundle, second_scale), false},
              {CALIBRATION_PROMPT, offsetof(struct bundle, prompt_scale), true},
              {CALIBRATION_MIXED, offsetof(struct bundle, mixed_scale), true}};
enum { SCALES = sizeof scales / sizeof *scales };

/* Variances of ln(factor) of a class. Those of its rounds' means differ by as much as their batches
 * would make them, and by what the machine changed from round to round: its drift. */
struct class_variance {
    double mean;  /* of the mean over all batches */
    double drift; /* of one round; an estimate, may be below 0 */
    int64_t rounds;
};

static bool variance_of(const struct bundle_class *c, struct class_variance *out)
{
    *out = (struct class_variance){.rounds = c->rounds};
    if (!isfinite(c->error) || c->batches < 1)
        return false;
    const double one = PER_MEAN_ERROR * c->error, drift = isfinite(c->drift) ? c->drift : 0;
    out->mean = one * one / (double)c->batches;
    out->drift = drift * drift - out->mean * (double)out->rounds;
    return true;
}

/* That of the rounds' mean, and, as a run is no longer than a round and drifts as they did, that of
 * a round. Replayed batches (unevenness.h) hold the latter. */
static double drift_variance(const struct class_variance *c, bool replayed)
{
    return c->drift / (double)c->rounds + (replayed ? 0 : c->drift);
}

static void calibration_uncertainty(const struct bundle *b, bool prompt, double *drift,
                                    double *classes, int64_t *rounds)
{
    double drifts = 0, means = 0;
    int n = 0;
    for (int k = 0; b->said && k < SCALES; k++) {
        const struct bundle_classes *rows = &b->said->iteration[scales[k].kind];
        struct class_variance c;
        for (size_t i = 0; i < rows->n; i++)
            if (scales[k].prompt == prompt && variance_of(&rows->of[i], &c)) {
                drifts += drift_variance(&c, bundle_is_uneven(b));
                means += c.mean;
                *rounds = c.rounds > *rounds ? c.rounds : *rounds;
                n++;
            }
    }
    *drift = n ? sqrt(fmax(0, drifts / n)) : 0;
    *classes = n ? sqrt(means / n) : 0;
}

void bundle_uncertainty(const struct bundle *b, struct bundle_uncertainty *out)
{
    *out = (struct bundle_uncertainty){0};
    for (int i = 0; i < BUNDLE_PARTS; i++) {
        struct op_spread s = {0};
        switch ((enum bundle_part)i) {
        case PART_TOKENS:
        case PART_ROWS:
        case PART_PREFILL:
        case PART_DECODE:
            s = op_part(b, (enum bundle_part)i);
            break;
        case PART_ALL_REDUCE:
            s = table_part(&b->all_reduce_table);
            break;
        case PART_SEND_RECV:
            s = table_part(&b->send_recv_table);
            break;
        case PART_ALL_TO_ALL:
            s = table_part(&b->all_to_all_table);
            break;
        case PART_HOST:
            s = b->host.spread;
            break;
        case PART_HOST_PREFILL:
            s = b->host_prefill.spread;
            break;
        case BUNDLE_PARTS:
            break;
        }
        out->place[i] = s.place;
        out->shift[i] = s.shift;
    }
    calibration_uncertainty(b, false, &out->decode_drift, &out->decode_classes, &out->rounds);
    calibration_uncertainty(b, true, &out->prompt_drift, &out->prompt_classes, &out->rounds);
    struct arena *a = arena_new();
    for (int prompts = 0; b->iterations && prompts < 2; prompts++)
        out->iteration[prompts] = iterations_spread(a, b->iterations, prompts);
    arena_free(&a);
    const struct curve *cv = &b->host.cv;
    for (int32_t i = 0; cv->grid && i < cv->grid->n; i++)
        out->host_cv += cv->y[i] / cv->grid->n;
}

bool bundle_is_uncertain(const struct bundle *b)
{
    return !b->calibrated || calibrated_is_uncertain(b->calibrated);
}

/* ---- perturbed bundles ------------------------------------------------------------------------
 */

/* A normal draw that belongs to a place, in whatever order places are looked at. */
static double place_normal(uint64_t seed, const char *part, double x, double kv)
{
    char name[96];
    snprintf(name, sizeof name, "%s.%.17g.%.17g", part, x, kv);
    struct rng r = rng_stream(seed, name);
    return rng_normal(&r);
}

static double factor_at(const struct bundle_factors *f, enum bundle_part part, double x, double kv)
{
    /* rows are of the passes that tokens are of: slow for both */
    const enum bundle_part passes = part == PART_ROWS ? PART_TOKENS : part;
    const double sd = f->places ? f->places->place[part] : 0;
    return sd > 0 ? f->part[part] *
                        exp(sd * place_normal(f->places_seed, bundle_part_name(passes), x, kv))
                  : f->part[part];
}

static void perturb_table(struct arena *a, const struct bundle_factors *f, enum bundle_part part,
                          struct grid_set *known, struct op_table *t)
{
    const struct op_table old = *t;
    double *y = mem_alloc((size_t)(old.n + 1) * sizeof *y);
    for (int64_t i = 0; i < old.n; i++)
        y[i] = old.points[i].y * factor_at(f, part, old.points[i].x, old.points[i].kv);
    if (old.n > 0)
        op_table_replace(a, &old, known, y, t);
    mem_free(y);
}

static void perturb_curve(struct arena *a, const struct bundle_factors *f, enum bundle_part part,
                          struct curve *c)
{
    if (!c->grid)
        return;
    double *y = arena_array(a, double, c->grid->n);
    for (int32_t i = 0; i < c->grid->n; i++)
        y[i] = c->y[i] * factor_at(f, part, c->grid->x[i], 0);
    c->y = y;
}

/* Operators of a batch as the calibration run had them: n sequences of CALIBRATED_KV tokens, its
 * prompts' mean length and half of its outputs' (profile/calibration.h), or a prompt of n tokens.
 */
static double typical_s(const struct bundle *b, bool prompt, int64_t n)
{
    enum { CALIBRATED_KV = 160 };
    if (b->iterations) {
        const double x = (double)n;
        const struct iterations_batch batch = {.chunk_tokens = prompt ? x : 0,
                                               .chunk_context = prompt ? x * (x + 1) / 2 : 0,
                                               .decode_sequences = prompt ? 0 : x,
                                               .decode_kv_tokens = prompt ? 0 : x * CALIBRATED_KV};
        bool outside;
        const struct iterations_time s = iterations_at(b->iterations, &batch, &outside);
        return s.host_s + s.device_s;
    }
    struct bundle quiet = *b;
    struct bundle_counts ignored = {0};
    quiet.counts = &ignored;
    if (prompt)
        return predict_tokens_s(&quiet, n) + predict_rows_s(&quiet, 1) +
               predict_prefill_s(&quiet, 0, n);
    return predict_decode_tokens_s(&quiet, n) + predict_decode_rows_s(&quiet, n) +
           predict_decode_s(&quiet, n, n * CALIBRATED_KV);
}

/* The factors of a calibration run over the perturbed tables: the same batches took as long as they
 * did, so an error of the tables that all batches of a class share is not in what the two predict
 * together. */
static void perturb_scale(struct arena *a, const struct bundle *before, struct bundle *after,
                          const struct bundle_factors *f, const struct curve_scale *s)
{
    struct curve *c = (struct curve *)(void *)((char *)after + s->curve);
    if (!c->grid)
        return;
    const struct bundle_class *of = before->said ? before->said->iteration[s->kind].of : NULL;
    double *y = arena_array(a, double, c->grid->n);
    for (int32_t i = 0; i < c->grid->n; i++) {
        const int64_t n = llround(exp2(c->grid->x[i]));
        const double old_s = typical_s(before, s->prompt, n),
                     new_s = typical_s(after, s->prompt, n);
        struct class_variance v;
        y[i] = c->y[i] * (s->prompt ? f->prompt : f->decode);
        if (f->places && old_s > 0 && new_s > 0)
            y[i] *= old_s / new_s;
        if (f->places && of && variance_of(&of[i], &v))
            y[i] *= exp(sqrt(v.mean) *
                        place_normal(f->places_seed, calibration_kind_name(s->kind), (double)i, 0));
    }
    c->y = y;
}

struct bundle *bundle_perturbed(struct arena *a, const struct bundle *b,
                                const struct bundle_factors *f)
{
    struct bundle *p = arena_copy(a, b, sizeof *b);
    struct grid_set known = {0};
    p->counts = arena_one(a, struct bundle_counts);
    for (int i = 0; i < b->ops.n; i++) {
        const struct op *op = &b->ops.ops[i];
        perturb_table(a, f, part_of(op->axis), &known, &p->table[op->row]);
        perturb_table(a, f, part_of(op->axis), &known, &p->decode_table[op->row]);
    }
    perturb_table(a, f, PART_ALL_REDUCE, &known, &p->all_reduce_table);
    perturb_table(a, f, PART_SEND_RECV, &known, &p->send_recv_table);
    perturb_table(a, f, PART_ALL_TO_ALL, &known, &p->all_to_all_table);
    p->all_reduce = p->all_reduce_table.curve;
    p->send_recv = p->send_recv_table.curve;
    p->all_to_all = p->all_to_all_table.curve;
    perturb_curve(a, f, PART_HOST, &p->host.s);
    perturb_curve(a, f, PART_HOST_PREFILL, &p->host_prefill.s);
    bundle_clear_sums(p);
    bundle_sum_tables(a, p);
    if (f->places && b->iterations)
        p->iterations = iterations_drawn(a, b->iterations, f->places->iteration, f->places_seed);
    for (int i = 0; i < SCALES; i++)
        perturb_scale(a, b, p, f, &scales[i]);
    if (f->places && b->calibrated)
        p->calibrated = calibrated_drawn(a, b->calibrated, f->places_seed);
    p->host_draws = f->host_draws ? arena_copy(a, f->host_draws, sizeof *f->host_draws) : NULL;
    p->replayed =
        f->unevenness && b->unevenness ? unevenness_begin(a, b->unevenness, f->unevenness) : NULL;
    return p;
}
