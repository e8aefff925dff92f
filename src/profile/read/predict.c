#include <math.h>

#include "profile/read/read.h"

int64_t bundle_lookups(const struct bundle *b)
{
    return b->counts->lookups;
}

int64_t bundle_extrapolations(const struct bundle *b)
{
    return b->counts->outside;
}

static double counted(const struct bundle *b, double s, bool outside)
{
    b->counts->lookups++;
    b->counts->outside += outside;
    return s;
}

static double sum_at(const struct bundle *b, const struct curve_sum *sum, int64_t v)
{
    if (v <= 0)
        return 0;
    double s = 0;
    bool outside = false;
    for (int i = 0; i < sum->n; i++)
        s += curve_scaled_at(&sum->curve[i], (double)v, &outside);
    return counted(b, s, outside);
}

double predict_tokens_s(const struct bundle *b, int64_t tokens)
{
    return sum_at(b, &b->tokens, tokens);
}

double predict_rows_s(const struct bundle *b, int64_t rows)
{
    return sum_at(b, &b->rows, rows);
}

double predict_decode_tokens_s(const struct bundle *b, int64_t tokens)
{
    return sum_at(b, b->has_decodes ? &b->decode_tokens : &b->tokens, tokens);
}

double predict_decode_rows_s(const struct bundle *b, int64_t rows)
{
    return sum_at(b, b->has_decodes ? &b->decode_rows : &b->rows, rows);
}

double predict_once_s(const struct bundle *b, int64_t tokens)
{
    if (tokens <= 0)
        return 0;
    double s = 0;
    bool outside = false; /* counted once, with the sum */
    for (int i = 0; i < b->once.n; i++)
        s += curve_scaled_at(&b->once.curve[i], (double)tokens, &outside);
    return s;
}

static double network(const struct bundle *b, const struct curve *c, int64_t tokens)
{
    if (c->grid == NULL || tokens <= 0)
        return 0;
    bool outside = false;
    double s = curve_scaled_at(c, (double)tokens, &outside);
    return counted(b, s, outside && (double)tokens > c->grid->x[0]);
}

double predict_all_reduce_s(const struct bundle *b, int64_t tokens)
{
    return network(b, &b->all_reduce, tokens) * b->all_reduces;
}

double predict_all_to_all_s(const struct bundle *b, int64_t tokens)
{
    return network(b, &b->all_to_all, tokens) * b->all_to_alls;
}

double predict_send_recv_s(const struct bundle *b, int64_t tokens)
{
    return network(b, &b->send_recv, tokens);
}

/* ---- attention: sums over kinds of layer ------------------------------------------------------
 */

void bundle_find_attention(struct bundle *b)
{
    b->prefill.n = b->decode.n = 0;
    for (int i = 0; i < b->ops.n; i++) {
        const struct op *op = &b->ops.ops[i];
        if (op->axis == AXIS_PREFILL)
            b->prefill.of[b->prefill.n++] = op;
        else if (op->axis == AXIS_DECODE)
            b->decode.of[b->decode.n++] = op;
    }
}

static double attention(const struct bundle *b, const struct op *op, double x, double kv)
{
    bool outside = false;
    double s = op_table_at(&b->table[op->row], x, kv, &outside) * op->repeat;
    return counted(b, s, outside);
}

static double prefill_s(const struct bundle *b, const struct op *op, int64_t kv_before,
                        int64_t tokens)
{
    return tokens > 0 ? attention(b, op, (double)tokens, (double)kv_before) : 0;
}

double predict_prefill_s(const struct bundle *b, int64_t kv_before, int64_t tokens)
{
    double s = 0;
    for (int i = 0; i < b->prefill.n; i++)
        s += prefill_s(b, b->prefill.of[i], kv_before, tokens);
    return s;
}

int predict_prefill_kinds(const struct bundle *b)
{
    return b->prefill.n;
}

void predict_prefill_add(const struct bundle *b, int kind, int64_t kv_before, int64_t tokens,
                         struct together_sum *sum)
{
    const struct op *op = b->prefill.of[kind];
    const double s = prefill_s(b, op, kv_before, tokens);
    together_add(&b->together[op->row], &b->table[op->row], (double)kv_before, (double)tokens, s,
                 op->repeat, sum);
}

double predict_prefills_s(const struct bundle *b, int kind, const struct together_sum *sum)
{
    return together_s(&b->together[b->prefill.of[kind]->row], sum);
}

/* Decode rows as one kind of attention sees them. */
struct decode_rows {
    int64_t seqs;
    double kv, longest; /* cached tokens of all; of the longest, 0 = not known */
};

static double equal_rows_s(const struct bundle *b, const struct op *op, const struct decode_rows *r)
{
    return attention(b, op, (double)r->seqs, r->kv / (double)r->seqs);
}

static double rows_s(const struct bundle *b, const struct op *op, const struct decode_rows *r)
{
    enum { PARTS = 4 };
    const struct op_table *t = &b->table[op->row];
    double n = (double)r->seqs, mean = r->kv / n, half = r->longest - mean;
    if (!(half > 0) || t->n == 0)
        return equal_rows_s(b, op, r);
    bool outside = false, quiet = false;
    double s = op_table_at(t, n, mean, &outside), tile = t->surface.tiles.k;
    if (tile > 0) { /* without tiles the average over a window equals its middle */
        double width = 2 * half < tile ? 2 * half : tile;
        s = 0;
        for (int i = 0; i < PARTS; i++)
            s += op_table_at(t, n, mean + ((i + 0.5) / PARTS - 0.5) * width, &quiet) / PARTS;
    }
    double longest = op_table_at(t, 1, r->longest, &quiet);
    return counted(b, (s > longest ? s : longest) * op->repeat, outside);
}

/* What the kind of attention sees of sequences, the mean of which the load of a batch says; of a
 * mean length alone at most that much. */
static struct decode_rows rows_of(const struct bundle *b, const struct op *op, int64_t seqs,
                                  int64_t kv_before, int64_t kv_max, const struct op_load *load)
{
    const struct seen *seen = &b->table[op->row].seen;
    if (!(seen->tokens > 0))
        return (struct decode_rows){seqs, (double)kv_before, (double)kv_max};
    const double n = (double)seqs, longest = seen->piece ? 0 : seen_kv(seen, (double)kv_max);
    if (load && load->seqs > 0 && seen->span >= 0 && seen->span < load->n_spans) {
        const double of = (double)load->seqs; /* their own tokens are among the keys */
        return (struct decode_rows){seqs, n * ((double)load->spans[seen->span].kv_tokens - of) / of,
                                    longest};
    }
    return (struct decode_rows){seqs, n * seen_kv(seen, (double)kv_before / n), longest};
}

double predict_decode_s(const struct bundle *b, int64_t seqs, int64_t kv_before)
{
    double s = 0;
    for (int i = 0; i < b->decode.n && seqs > 0; i++) {
        const struct op *op = b->decode.of[i];
        const struct decode_rows r = rows_of(b, op, seqs, kv_before, 0, NULL);
        s += equal_rows_s(b, op, &r);
    }
    return s;
}

static double mixed_s(const struct bundle *b, int64_t seqs, int64_t kv_before, int64_t kv_max,
                      const struct op_load *load)
{
    double s = 0;
    for (int i = 0; i < b->decode.n && seqs > 0; i++) {
        const struct op *op = b->decode.of[i];
        const struct decode_rows r = rows_of(b, op, seqs, kv_before, kv_max, load);
        s += rows_s(b, op, &r);
    }
    return s;
}

double predict_decode_mixed_s(const struct bundle *b, int64_t seqs, int64_t kv_before,
                              int64_t kv_max)
{
    return mixed_s(b, seqs, kv_before, kv_max, NULL);
}

/* The prefill attention of that kind of layer. */
static const struct op *prefill_beside(const struct bundle *b, const struct op *decode)
{
    for (int i = 0; i < b->prefill.n; i++)
        if (b->prefill.of[i]->kind == OP_ATTN_PREFILL && b->prefill.of[i]->part == decode->part)
            return b->prefill.of[i];
    return NULL;
}

/* Scores of the new tokens, at the fitted time of one. */
static double scores_s(const struct bundle *b, const struct op *decode, const struct decode_rows *r,
                       double q)
{
    const struct op *op = decode->kind == OP_ATTN_DECODE ? prefill_beside(b, decode) : NULL;
    if (!op)
        return 0;
    const struct op_table *t = &b->table[op->row];
    const double n = (double)r->seqs;
    const double scores = t->seen.tokens > 0 ? n * seen_pairs(&t->seen, r->kv / n, q)
                                             : q * r->kv + n * q * (q + 1) / 2;
    return surface_score_s(&t->surface) * scores * op->repeat;
}

double predict_verify_s(const struct bundle *b, int64_t seqs, int64_t kv_before, int64_t kv_max,
                        int64_t draft_tokens, const struct op_load *load)
{
    if (draft_tokens == 0 || seqs <= 0)
        return mixed_s(b, seqs, kv_before, kv_max, load);
    double s = 0;
    for (int i = 0; i < b->decode.n; i++) {
        const struct op *op = b->decode.of[i];
        const struct decode_rows before = rows_of(b, op, seqs, kv_before, kv_max, NULL),
                                 after = rows_of(b, op, seqs, kv_before + seqs * draft_tokens,
                                                 kv_max ? kv_max + draft_tokens : 0, load);
        s += fmax(rows_s(b, op, &after), scores_s(b, op, &before, 1 + (double)draft_tokens));
    }
    return s;
}

/* Cached tokens, in the mean over the layers that read any. */
static double seen_tokens(const struct bundle *b, int64_t seqs, int64_t kv_before,
                          const struct op_load *load)
{
    double sum = 0, layers = 0;
    bool all = true;
    for (int i = 0; i < b->decode.n; i++) {
        const struct op *op = b->decode.of[i];
        sum += op->repeat * rows_of(b, op, seqs, kv_before, 0, load).kv;
        layers += op->repeat;
        all = all && !(b->table[op->row].seen.tokens > 0);
    }
    return all ? (double)kv_before : sum / layers;
}

double predict_decode_beside_s(const struct bundle *b, int64_t seqs, int64_t kv_before,
                               int64_t kv_max, int64_t draft_tokens, const struct op_load *load)
{
    const struct bundle_decode_beside *x = b->decode_beside;
    if (!x || seqs <= 0)
        return predict_verify_s(b, seqs, kv_before, kv_max, draft_tokens, load);
    return (double)seqs * x->per_row_s +
           seen_tokens(b, seqs, kv_before + seqs * draft_tokens, load) * x->per_key_s;
}

void bundle_set_decode_beside(struct bundle *b, const struct bundle_decode_beside *beside)
{
    b->decode_beside = beside;
}

/* ---- energy: the times' look-ups count already -------------------------------------------- */

static double sum_j(const struct curve_sum *sum, int64_t v)
{
    double j = 0;
    bool outside;
    for (int i = 0; v > 0 && i < sum->n; i++)
        j += curve_scaled_at(&sum->curve[i], (double)v, &outside);
    return j;
}

double predict_tokens_j(const struct bundle *b, int64_t tokens)
{
    return sum_j(&b->energy_tokens, tokens);
}

double predict_rows_j(const struct bundle *b, int64_t rows)
{
    return sum_j(&b->energy_rows, rows);
}

double predict_decode_tokens_j(const struct bundle *b, int64_t tokens)
{
    return sum_j(b->has_decode_energy ? &b->decode_energy_tokens : &b->energy_tokens, tokens);
}

double predict_decode_rows_j(const struct bundle *b, int64_t rows)
{
    return sum_j(b->has_decode_energy ? &b->decode_energy_rows : &b->energy_rows, rows);
}

static double attention_j(const struct bundle *b, const struct op *op, double x, double kv)
{
    bool outside = false;
    return op_table_at(&b->energy[op->row], x, kv, &outside) * op->repeat;
}

double predict_prefill_j(const struct bundle *b, int64_t kv_before, int64_t tokens)
{
    double j = 0;
    for (int i = 0; i < b->prefill.n && tokens > 0; i++)
        j += attention_j(b, b->prefill.of[i], (double)tokens, (double)kv_before);
    return j;
}

double predict_decode_j(const struct bundle *b, int64_t seqs, int64_t kv_before,
                        const struct op_load *load)
{
    double n = (double)seqs, j = 0;
    for (int i = 0; i < b->decode.n && seqs > 0; i++) {
        const struct op *op = b->decode.of[i];
        j += attention_j(b, op, n, rows_of(b, op, seqs, kv_before, 0, load).kv / n);
    }
    return j;
}

/* One chunk of the same work stands for all: with n equal chunks of c tokens after kv,
 * tokens = n c, chunk_sq = n c (c + 1) / 2, kv_tokens = n c kv. */
static double prefill_from_sums(const struct bundle *b, const struct op *op,
                                const struct op_load *load)
{
    double tokens = (double)(load->tokens - load->seqs);
    if (tokens <= 0)
        return 0;
    double chunk = 2 * (double)load->chunk_sq / tokens - 1;
    if (chunk < 1)
        chunk = 1;
    return tokens / chunk * attention(b, op, chunk, (double)load->kv_tokens_prefill / tokens);
}

double bundle_op_s(const struct bundle *b, const struct op *op, const struct op_load *load)
{
    const struct op_table *t = &b->table[op->row];
    bool outside = false;
    int64_t x = op->axis == AXIS_ROWS ? load->rows : load->tokens;
    struct decode_rows r;
    switch (op->axis) {
    case AXIS_DECODE:
        if (load->seqs <= 0)
            return 0;
        r = rows_of(b, op, load->seqs, load->kv_tokens - load->seqs, 0, load);
        return equal_rows_s(b, op, &r);
    case AXIS_PREFILL:
        return prefill_from_sums(b, op, load);
    case AXIS_TOKENS:
    case AXIS_ROWS:
        break;
    }
    if (x <= 0 || t->n == 0)
        return 0;
    double s = op_table_at(t, (double)x, 0, &outside) * op->repeat;
    return counted(b, s, outside);
}

/* Lognormal of mean 1 with the standard deviation that was measured. */
static double host_draw(const struct bundle *b, const struct curve *cv, double batch_size)
{
    bool outside;
    double z =
        rng_normal(b->host_draws); /* drawn even where unused, so that later draws stay the same */
    if (!cv->grid)
        return 1;
    double c = curve_at(cv, batch_size, &outside), variance = log1p(c * c);
    return exp(sqrt(variance) * z - variance / 2);
}

double bundle_host_s(const struct bundle *b, int64_t batch_size, bool prefill)
{
    bool own = prefill && b->host_prefill.s.grid;
    const struct host_table *h = own ? &b->host_prefill : &b->host;
    if (h->s.grid == NULL || batch_size <= 0)
        return 0;
    bool outside = false;
    double s = curve_at(&h->s, (double)batch_size, &outside);
    if (b->host_draws)
        s *= host_draw(b, &h->cv, (double)batch_size);
    return counted(b, s * (own ? b->host_prefill_scale : b->host_scale), outside);
}

double bundle_launch_s(const struct bundle *b, double host_s, bool prefill)
{
    return host_s * (prefill ? b->prefill_launch_share : b->launch_share);
}

double bundle_answer_s(const struct bundle *b)
{
    return b->answer_s;
}

static double scale_at(const struct curve *c, int64_t x)
{
    bool outside;
    return c->grid && x > 0 ? curve_at(c, log2((double)x), &outside) : 1;
}

double bundle_prompt_scale(const struct bundle *b, int64_t tokens, bool mixed)
{
    const struct curve *c = mixed && b->mixed_scale.grid ? &b->mixed_scale : &b->prompt_scale;
    return scale_at(c, tokens) * (b->replayed ? unevenness_next(b->replayed, true, tokens) : 1);
}

double bundle_decode_scale(const struct bundle *b, int64_t seqs, int64_t train)
{
    const struct curve *c = train == 1                 ? &b->first_scale
                            : train == 2 || train == 3 ? &b->second_scale
                                                       : &b->decode_scale;
    return scale_at(c->grid ? c : &b->decode_scale, seqs) *
           (b->replayed ? unevenness_next(b->replayed, false, seqs) : 1);
}

int bundle_wake_iterations(const struct bundle *b)
{
    return b->wake.iterations;
}

void bundle_wake_s(const struct bundle *b, double pause_s, int k, double *device_s, double *host_s)
{
    const struct wake_table *w = &b->wake;
    *device_s = *host_s = 0;
    if (k < 0 || k >= w->iterations || !(pause_s > 0))
        return;
    int i = 0; /* the first measured pause that is not shorter */
    while (i < w->levels && w->pause_s[i] < pause_s)
        i++;
    int above = (i < w->levels ? i : w->levels - 1) * w->iterations + k;
    *device_s = w->device_s[above];
    *host_s = w->host_s[above];
    if (i == w->levels)
        return;
    double x0 = i ? w->pause_s[i - 1] : 0, part = (pause_s - x0) / (w->pause_s[i] - x0);
    double device0 = i ? w->device_s[above - w->iterations] : 0;
    double host0 = i ? w->host_s[above - w->iterations] : 0;
    *device_s = device0 + part * (*device_s - device0);
    *host_s = host0 + part * (*host_s - host0);
}
