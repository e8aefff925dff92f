/* Bundles with perturbed times, and the uncertainty of times. */
#include <math.h>

#include "profile/read/read.h"

static const double PER_MEAN_ERROR = 1.2533141373155; /* sqrt(pi / 2) */

/* Mean uncertainty of the factors of a calibration run's classes: from its batches, and from the
 * spread of its rounds, since a run is no longer than a round. Replayed batches (unevenness.h) hold
 * that spread: what remains is that of the rounds' mean. */
static double calibration_uncertainty(const struct node *classes, bool replayed)
{
    double sum = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; classes && classes->kind == NODE_LIST && i < classes->n; i++) {
        double error, drift = 0;
        int64_t batches, rounds = 1;
        struct err ignored = {0};
        if (node_get_double(classes->items[i], "error", 0, 1e6, &error, &ignored) != ST_OK ||
            node_get_int(classes->items[i], "batches", 1, INT64_MAX, &batches, &ignored) != ST_OK)
            continue;
        (void)node_get_double(classes->items[i], "drift", 0, 1e6, &drift, &ignored);
        if (replayed)
            (void)node_get_int(classes->items[i], "rounds", 1, INT64_MAX, &rounds, &ignored);
        drift /= sqrt((double)rounds);
        sum += hypot(PER_MEAN_ERROR * error / sqrt((double)batches), drift);
        n++;
    }
    return n ? sum / n : 0;
}

static double held_out(const struct op_table *t)
{
    struct holdout h = op_table_holdout(t, 0);
    return h.tested > 0 ? h.mean : 0;
}

void bundle_uncertainty(const struct bundle *b, struct bundle_uncertainty *out)
{
    const struct node *iteration = node_find(b->meta, "iteration");
    *out = (struct bundle_uncertainty){0};
    for (int k = 0; k < OP_KINDS; k++)
        if (b->table[k].n > 0)
            out->op[k] = PER_MEAN_ERROR * (b->error[k] >= 0 ? b->error[k] : held_out(&b->table[k]));
    const bool replayed = bundle_is_uneven(b);
    out->decode = calibration_uncertainty(node_find(iteration, "decode"), replayed);
    out->prompt = fmax(calibration_uncertainty(node_find(iteration, "prompt"), replayed),
                       calibration_uncertainty(node_find(iteration, "prompt_mixed"), replayed));
    const struct op_table *network[NETWORKS] = {[NETWORK_ALL_REDUCE] = &b->all_reduce_table,
                                                [NETWORK_SEND_RECV] = &b->send_recv_table,
                                                [NETWORK_ALL_TO_ALL] = &b->all_to_all_table};
    for (int i = 0; i < NETWORKS; i++)
        if (network[i]->n > 0)
            out->network[i] = PER_MEAN_ERROR * held_out(network[i]);
    out->host = hypot(PER_MEAN_ERROR * b->host.error, b->host.standard_error);
    out->host_prefill =
        hypot(PER_MEAN_ERROR * b->host_prefill.error, b->host_prefill.standard_error);
    const struct curve *cv = &b->host.cv;
    for (int32_t i = 0; cv->grid && i < cv->grid->n; i++)
        out->host_cv += cv->y[i] / cv->grid->n;
}

const char *bundle_network_name(enum bundle_network n)
{
    static const char *const names[NETWORKS] = {[NETWORK_ALL_REDUCE] = "all_reduce",
                                                [NETWORK_SEND_RECV] = "send_recv",
                                                [NETWORK_ALL_TO_ALL] = "all_to_all"};
    return names[n];
}

static void scale_curve(struct arena *a, struct curve *c, double factor)
{
    if (!c->grid)
        return;
    double *y = arena_array(a, double, c->grid->n);
    for (int32_t i = 0; i < c->grid->n; i++)
        y[i] = c->y[i] * factor;
    c->y = y;
}

struct bundle *bundle_perturbed(struct arena *a, const struct bundle *b,
                                const struct bundle_factors *f)
{
    struct bundle *p = arena_copy(a, b, sizeof *b);
    p->counts = arena_one(a, struct bundle_counts);
    for (int k = 0; k < OP_KINDS; k++) {
        scale_curve(a, &p->table[k].curve, f->op[k]);
        for (int i = 0; i < SURFACE_FEATURES; i++)
            p->table[k].surface.theta[i] *= f->op[k]; /* its rows are ratios to it */
    }
    scale_curve(a, &p->all_reduce, f->network[NETWORK_ALL_REDUCE]);
    scale_curve(a, &p->send_recv, f->network[NETWORK_SEND_RECV]);
    scale_curve(a, &p->all_to_all, f->network[NETWORK_ALL_TO_ALL]);
    scale_curve(a, &p->host.s, f->host);
    scale_curve(a, &p->host_prefill.s, f->host_prefill);
    p->host_draws = f->host_draws ? arena_copy(a, f->host_draws, sizeof *f->host_draws) : NULL;
    p->replayed =
        f->unevenness && b->unevenness ? unevenness_begin(a, b->unevenness, f->unevenness) : NULL;
    scale_curve(a, &p->decode_scale, f->decode);
    scale_curve(a, &p->first_scale, f->decode);
    scale_curve(a, &p->second_scale, f->decode);
    scale_curve(a, &p->prompt_scale, f->prompt);
    scale_curve(a, &p->mixed_scale, f->prompt);
    p->tokens = p->rows = p->once = p->experts = (struct curve_sum){0};
    p->energy_tokens = p->energy_rows = (struct curve_sum){0};
    bundle_sum_tables(a, p);
    return p;
}
