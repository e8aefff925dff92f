#include "profile/read/calibrated.h"

#include <math.h>

#include "base/fs.h"
#include "base/rng.h"
#include "text/json.h"

/* ---- the file -------------------------------------------------------------------------------- */

static const char *param_name(unsigned i)
{
    return iteration_param_table[i].name;
}

static const char *format_name(unsigned i)
{
    return precision_name((enum precision)i);
}

static const double MOST_PEAK = 1e12, MOST_DEGREE = 1 << 20;

/* Rates in the units of the hardware settings. */
struct peaks {
    double dram_gb_per_s, link_gb_per_s, pcie_gb_per_s, node_gb_per_s, tflops[PRECISIONS];
    int64_t link_gpus, gpus_per_node;
};
static const struct field peak_rows[] = {
    FIELD(struct peaks, dram_gb_per_s, .max = MOST_PEAK),
    FIELD(struct peaks, link_gb_per_s, .max = MOST_PEAK, .optional = true),
    FIELD(struct peaks, pcie_gb_per_s, .max = MOST_PEAK, .omit = true),
    FIELD(struct peaks, node_gb_per_s, .max = MOST_PEAK, .omit = true),
    FIELD(struct peaks, link_gpus, .max = MOST_DEGREE, .omit = true),
    FIELD(struct peaks, gpus_per_node, .max = MOST_DEGREE, .omit = true),
    FIELD_NAMED(struct peaks, tflops, "peak_tflops", format_name, PRECISIONS, .max = MOST_PEAK,
                .optional = true),
};
static const struct fields peak_fields = FIELDS(struct peaks, peak_rows);

static const struct field parallel_rows[] = {
    FIELD(struct calibrated, tp, .min = 1, .max = MOST_DEGREE),
    FIELD(struct calibrated, pp, .min = 1, .max = MOST_DEGREE),
    FIELD(struct calibrated, ep, .max = MOST_DEGREE, .optional = true),
};
static const struct fields parallel_fields = FIELDS(struct calibrated, parallel_rows);

static const struct field format_rows[] = {
    FIELD_ENUM(struct calibrated, dtype, "dtype", format_name, PRECISIONS),
    FIELD_ENUM(struct calibrated, weights, "weights", format_name, PRECISIONS),
    FIELD_ENUM(struct calibrated, multiply, "multiply", format_name, PRECISIONS),
    FIELD_ENUM(struct calibrated, kv, "kv", format_name, PRECISIONS),
};
static const struct fields format_fields = FIELDS(struct calibrated, format_rows);

static const struct field param_rows[] = {
    FIELD(struct calibrated_param, value, .max = 10),
    FIELD(struct calibrated_param, sd, .max = 1e3, .optional = true),
    FIELD(struct calibrated_param, low, .optional = true),
    FIELD(struct calibrated_param, high, .optional = true),
    FIELD(struct calibrated_param, fitted),
};
static const struct fields param_fields = FIELDS(struct calibrated_param, param_rows);

static const struct field rows[] = {
    FIELD_PART("parallel", &parallel_fields),
    FIELD_PART("formats", &format_fields),
    FIELD(struct calibrated, settings, .optional = true),
    FIELD_NAMED_MAPS(struct calibrated, param, "parameters", param_name, ITERATION_PARAMS,
                     &param_fields),
    FIELD_LIST(struct calibrated, covariance, n_covariance, "covariance", .optional = true),
    FIELD(struct calibrated, first_use_s, .max = 1e3, .optional = true, .omit = true),
    FIELD(struct calibrated, first_use_sd_s, .max = 1e3, .optional = true, .omit = true),
    FIELD(struct calibrated, residual, .optional = true),
    FIELD(struct calibrated, source, .optional = true),
};
static const struct fields calibrated_fields = FIELDS(struct calibrated, rows);

/* 0 is not written. */
static double known(double rate)
{
    return rate > 0 ? rate : (double)NAN;
}

static double rate_of(double gb_per_s)
{
    return gb_per_s > 0 ? gb_per_s * 1e9 : 0;
}

struct node *calibrated_node(struct arena *a, const struct calibrated *c)
{
    const struct iteration_hardware *hw = &c->hardware;
    const struct links_hardware *l = &hw->links;
    struct peaks peaks = {.dram_gb_per_s = hw->dram_bytes_per_s / 1e9,
                          .link_gb_per_s = l->link_bytes_per_s / 1e9,
                          .pcie_gb_per_s = known(l->pcie_bytes_per_s / 1e9),
                          .node_gb_per_s = known(l->node_bytes_per_s / 1e9),
                          .link_gpus = l->link_gpus,
                          .gpus_per_node = l->node_gpus};
    for (int p = 0; p < PRECISIONS; p++)
        peaks.tflops[p] = hw->flop_per_s[p] / 1e12;
    struct node *n = fields_node(a, &calibrated_fields, c);
    node_set(a, n, SV("peaks"), fields_node(a, &peak_fields, &peaks));
    node_set(a, n, SV("schema_version"), node_int(a, 1));
    return n;
}

/* ---- reading --------------------------------------------------------------------------------- */

static enum st check_degree(const char *path, const char *setting, int64_t stated, int64_t asked,
                            struct err *e)
{
    if ((stated ? stated : 1) == (asked ? asked : 1))
        return ST_OK;
    err_set(e, ST_INPUT, "%s holds for %s=%lld, not %lld", path, setting, (long long)stated,
            (long long)asked);
    return err_hint(e, "calibrate runs of that setting, or predictor=roofline, uncalibrated");
}

static enum st check_format(const char *path, const char *what, enum precision stated,
                            enum precision asked, struct err *e)
{
    if (stated == asked || (precision_is_half(stated) && precision_is_half(asked)))
        return ST_OK;
    err_set(e, ST_INPUT, "%s holds for %s in %s, not %s", path, what, precision_name(stated),
            precision_name(asked));
    return err_hint(e, "calibrate runs of that format, or predictor=roofline, uncalibrated");
}

/* Files may leave out what they do not speak of: experts that are as other GEMMs, and launching
 * that takes no time. */
static void set_missing(struct calibrated *c, const struct node *map)
{
    const struct node *params = node_find(map, "parameters");
    for (int i = 0; params && i < ITERATION_PARAMS; i++)
        if (iteration_param_is(i, ITERATION_OPTIONAL) &&
            !node_find(params, iteration_param_table[i].name))
            c->param[i] = (struct calibrated_param){
                .value = i == ITERATION_EXPERTS_EFFICIENCY
                             ? c->param[ITERATION_COMPUTE_EFFICIENCY].value
                         : i == ITERATION_EXPERTS_WEIGHTS_EFFICIENCY
                             ? c->param[ITERATION_WEIGHTS_EFFICIENCY].value
                             : 0};
}

static enum st check_ranges(const struct calibrated *c, const struct node *map, struct err *e)
{
    const struct node *params = node_find(map, "parameters");
    for (int i = 0; i < ITERATION_PARAMS; i++) {
        const struct iteration_param_info *info = &iteration_param_table[i];
        const struct node *given = node_find(params, info->name);
        double v = c->param[i].value;
        if (!given && iteration_param_is(i, ITERATION_OPTIONAL))
            continue;
        if (!given)
            return node_err(params ? params : map, ST_INPUT, e, "parameters.%s: missing",
                            info->name);
        if (!(v >= info->min && v <= info->max))
            return node_err(given, ST_INPUT, e, "parameters.%s: %g is not in %g to %g", info->name,
                            v, info->min, info->max);
    }
    if (c->n_covariance == 0)
        return ST_OK;
    bool square = c->n_covariance == ITERATION_PARAMS;
    for (size_t i = 0; i < c->n_covariance; i++)
        square = square && c->covariance[i].n == ITERATION_PARAMS;
    return square
               ? ST_OK
               : node_err(node_find(map, "covariance"), ST_INPUT, e,
                          "covariance: expected %d rows of as many numbers", (int)ITERATION_PARAMS);
}

static enum st read_peaks(struct arena *a, const struct node *map, struct iteration_hardware *out,
                          struct err *e)
{
    struct peaks peaks = {0};
    struct node *given;
    TRY(node_get(map, "peaks", NODE_MAP, &given, e));
    TRY(fields_read(a, &peak_fields, given, &peaks, e));
    *out = (struct iteration_hardware){.dram_bytes_per_s = peaks.dram_gb_per_s * 1e9};
    out->links = (struct links_hardware){.link_bytes_per_s = rate_of(peaks.link_gb_per_s),
                                         .pcie_bytes_per_s = rate_of(peaks.pcie_gb_per_s),
                                         .node_bytes_per_s = rate_of(peaks.node_gb_per_s),
                                         .link_gpus = peaks.link_gpus,
                                         .node_gpus = peaks.gpus_per_node};
    for (int p = 0; p < PRECISIONS; p++)
        out->flop_per_s[p] = peaks.tflops[p] > 0 ? peaks.tflops[p] * 1e12 : 0;
    return ST_OK;
}

enum st calibrated_load(struct arena *a, const char *path, const struct model *m, int64_t tp,
                        int64_t pp, int64_t ep, struct calibrated **out, struct err *e)
{
    struct node *map;
    *out = NULL;
    if (!fs_exists(path))
        return ST_OK;
    struct calibrated *c = arena_one(a, struct calibrated);
    TRY(json_load(a, path, NULL, &map, e));
    TRY(node_check_version(map, "schema_version", 1, e));
    TRY(fields_read(a, &calibrated_fields, map, c, e));
    TRY(read_peaks(a, map, &c->hardware, e));
    set_missing(c, map);
    TRY(check_ranges(c, map, e));
    TRY(check_degree(path, "parallel.tp", c->tp, tp, e));
    TRY(check_degree(path, "parallel.pp", c->pp, pp, e));
    TRY(check_degree(path, "parallel.ep", c->ep, ep, e));
    TRY(check_format(path, "activations", c->dtype, m->dtype, e));
    TRY(check_format(path, "weights", c->weights, m->weights, e));
    TRY(check_format(path, "GEMMs", c->multiply, m->multiply, e));
    TRY(check_format(path, "keys and values", c->kv, m->kv, e));
    *out = c;
    return ST_OK;
}

struct iteration_params calibrated_params(const struct calibrated *c)
{
    struct iteration_params p;
    for (int i = 0; i < ITERATION_PARAMS; i++)
        p.v[i] = c->param[i].value;
    return p;
}

/* ---- drawing --------------------------------------------------------------------------------- */

bool calibrated_is_uncertain(const struct calibrated *c)
{
    bool any = c->n_covariance > 0;
    for (int i = 0; i < ITERATION_PARAMS; i++)
        any = any || c->param[i].sd > 0;
    return any;
}

static double covariance_of(const struct calibrated *c, int i, int j)
{
    if (c->n_covariance)
        return c->covariance[i].v[j];
    return i == j ? c->param[i].sd * c->param[i].sd : 0;
}

/* The lower triangle whose product with its transpose is the covariance (Cholesky). Parameters that
 * others determine, and those of no variance, get 0. */
static void root_of(const struct calibrated *c, double l[ITERATION_PARAMS][ITERATION_PARAMS])
{
    static const double least = 1e-12;
    for (int j = 0; j < ITERATION_PARAMS; j++) {
        double rest = covariance_of(c, j, j);
        for (int k = 0; k < j; k++)
            rest -= l[j][k] * l[j][k];
        l[j][j] = rest > least ? sqrt(rest) : 0;
        for (int i = j + 1; i < ITERATION_PARAMS; i++) {
            double s = covariance_of(c, i, j);
            for (int k = 0; k < j; k++)
                s -= l[i][k] * l[j][k];
            l[i][j] = l[j][j] > 0 ? s / l[j][j] : 0;
        }
    }
}

/* Host time beside the device that no data told: what the prior leaves open would be drawn long
 * enough to show. */
static bool is_hidden_host(const struct calibrated *c, int i)
{
    return iteration_param_is(i, ITERATION_OF_STEP) && !c->param[i].fitted;
}

struct calibrated *calibrated_drawn(struct arena *a, const struct calibrated *c, uint64_t seed)
{
    static const double most = 0.9;
    struct calibrated *out = arena_copy(a, c, sizeof *c);
    double l[ITERATION_PARAMS][ITERATION_PARAMS] = {{0}}, z[ITERATION_PARAMS];
    struct rng r = rng_stream(seed, "calibration");
    root_of(c, l);
    for (int i = 0; i < ITERATION_PARAMS; i++)
        z[i] = rng_normal(&r);
    for (int i = 0; i < ITERATION_PARAMS; i++) {
        const struct iteration_param_info *info = &iteration_param_table[i];
        double by = 0, *v = &out->param[i].value;
        for (int j = 0; j <= i; j++)
            by += l[i][j] * z[j];
        if (is_hidden_host(c, i))
            continue;
        *v = iteration_param_is(i, ITERATION_EFFICIENCY) ? *v / (1 + fmax(-by, -most))
                                                         : *v * (1 + fmax(by, -most));
        *v = fmin(fmax(*v, info->min), info->max);
    }
    if (c->first_use_s > 0 && c->first_use_sd_s > 0)
        out->first_use_s = fmax(0, c->first_use_s + c->first_use_sd_s * rng_normal(&r));
    return out;
}
