/* Result of `twinfer search`: configurations, each with its capacity and results under several
 * loads; and its files search.json and search.csv (docs/formats.md). */
#ifndef SEARCH_SEARCH_RESULT_H
#define SEARCH_SEARCH_RESULT_H

#include "search/capacity.h"
#include "search/space.h"
#include "text/table.h"

#define SEARCH_JSON "search.json"
#define SEARCH_CSV  "search.csv"

/* One configuration under one load. tokens_per_s_user is 1 / TPOT P50, tokens_per_s_gpu output
 * tokens per second over all GPUs of the configuration. */
struct search_load {
    double load, rate;
    struct probe_result r;                                   /* mean over the seeds */
    double tokens_per_s_user, tokens_per_s_gpu, j_per_token; /* NAN = unknown */
    bool meets;                                              /* the objective, in the mean */
    bool front;        /* no other load of any configuration has more of both token rates */
    bool front_energy; /* the same with J/token too; false where that is unknown */
    bool ranked;       /* search_sum looked for fronts */
};

enum search_status {
    SEARCH_OK,
    SEARCH_UNMET,   /* no rate meets the objective */
    SEARCH_REFUSED, /* cannot be simulated: see `why` */
};

struct search_config {
    const char *const *values; /* [n_axes] of the space; NULL = unchanged */
    enum search_status status;
    const char *why;          /* NULL unless refused */
    int64_t gpus;             /* tp x pp x replicas */
    struct capacity capacity; /* of the longest workload; its low end as of capacity_long_run */
    double requests;          /* of a run of that */
    bool settled;             /* longer runs would not change it (capacity_long_run) */
    const struct node *setup; /* model, hardware, degrees, weights, KV tokens (job/setup.h) */
    const char *remark;       /* what to mind of it; NULL = nothing */
    bool host_overhead;
    bool busy;                 /* its bundle was measured on a machine busy with something else */
    bool uncalibrated;         /* no measurement stands behind its times */
    struct search_load *loads; /* [n_loads]; none unless ok */
    size_t n_loads;
    size_t n_values; /* for search.json, whose writer fills it */
};

struct search_result {
    const struct space *space;
    struct slo slo;
    int64_t seeds;
    struct search_config *configs; /* [n] */
    size_t n;
    bool has_energy; /* some load has J/token */
    const char *const *notes;
    size_t n_notes;

    /* For search.json, whose writer fills them. */
    const char *objective;         /* slo_words */
    const struct space_axis *axes; /* [n_axes] */
    size_t n_axes;
};
extern const struct fields search_result_fields; /* search.json */

/* A configuration as a worker's result: all but its values. */
extern const struct fields search_config_fields;

/* Computes the three rates from the mean. */
void search_load_rates(struct search_load *l, int64_t gpus);

/* Marks the fronts, fills has_energy and notes; warnings come first. */
void search_sum(struct arena *a, struct search_result *r, const char *const *warnings, size_t n);

struct node *search_node(struct arena *a, const struct search_result *r);
struct search_result search_shown(struct arena *a,
                                  const struct search_result *r); /* as it has it */

/* ---- its document; of search_shown or of search.json ----------------------------------------- */

/* For the terminal and the page, which draws its figure "front": tables of the front, without loads
 * whose token rates are both within 2 % of the row above, and of the configurations by capacity per
 * GPU, of up to `most` rows. model may be NULL. */
struct document;
struct document *search_document(struct arena *a, const struct search_result *r, const char *title,
                                 const char *model, size_t most);
/* "sarathi, chunk_size 512, replicas 2": groups by their value alone. */
const char *search_config_words(struct arena *a, const struct search_result *r,
                                const struct search_config *c);

struct search_rank {
    double key;
    size_t config, load;
};
/* Loads on the front by tok/s/user; configurations that can be simulated by capacity per GPU, or by
 * how often they are on the front. Both downwards. */
struct search_rank *search_rank_front(struct arena *a, const struct search_result *r, size_t *n);
struct search_rank *search_rank_configs(struct arena *a, const struct search_result *r,
                                        bool by_front, size_t *n);
size_t search_on_front(const struct search_config *c); /* its loads there */

enum st search_write(const struct artifact *art, const struct search_result *r, struct err *e);

#endif
