/* Private to profile/read: readers of a bundle's files, and a loaded bundle. */
#ifndef PROFILE_READ_READ_H
#define PROFILE_READ_READ_H

#include "base/rng.h"
#include "base/vec.h"
#include "profile/read/bundle.h"
#include "profile/read/meta.h"
#include "profile/read/power_cap.h"
#include "profile/read/table.h"
#include "profile/read/unevenness.h"

/* ---- folders and files (folders.c) ---------------------------------------------------------- */

/* The folder under the model's name, else, if only that exists, under its name on the hub. */
char *bundle_folder(struct arena *a, const struct bundle_key *key, const char *kind,
                    const char *device);
/* "qwen3_0_6b, llama2_7b": what is there, for hints. */
void bundle_list_folders(struct arena *a, struct buf *list, const char *dir);

/* The folder that host times and collectives are read from: the network's. Where it was not chosen
 * and has none, that of the hardware, if it has. */
const char *bundle_network_of(struct arena *a, const struct bundle_key *key);
/* The same, saying so. ST_INPUT: it was chosen and is not there. */
enum st bundle_network(struct arena *a, const struct bundle_key *key, const char **out,
                       struct err *e);
const char *bundle_network_dir(struct arena *a, const struct bundle_key *key, const char *network);
/* The file of the network's folder; the error lists the folders that have one. */
enum st bundle_network_file(struct arena *a, const struct bundle_key *key, const char *dir,
                            const char *name, const char *setting, int64_t n, const char **out,
                            struct err *e);
const char *bundle_host_file(struct arena *a, const struct bundle_key *key);

/* ---- tables --------------------------------------------------------------------------------- */

/* Points of the file, in seconds of one repeat. */
struct read_points {
    struct surface_point *p;
    size_t n, cap;
};

struct op_points {
    struct read_points time[OP_ROWS];   /* s */
    struct read_points energy[OP_ROWS]; /* J */
};

/* The medians of the operators of a list, of the file's rows that match the key; absent columns and
 * empty cells give no points. decodes: those of columns decode_stats, of batches without chunks.
 * The vectors are the caller's to free, also after an error. */
enum st read_mlp(const char *path, const struct bundle_key *key, const struct op_list *ops,
                 struct op_points *points, struct op_points *decodes, struct err *e);
enum st read_attention(const char *path, const struct bundle_key *key, const struct op_list *ops,
                       struct op_points *points, struct err *e);
/* Host time of iterations, over their sequences. Curves without rows have no grid. */
struct host_table {
    struct curve s;  /* seconds */
    struct curve cv; /* standard deviation of one iteration / mean; no grid: not in the file */
    struct op_spread spread; /* of s; its place at least the standard error of a row's mean */
};
enum st read_host(struct arena *a, const char *path, const struct bundle_key *key,
                  struct host_table *all, struct host_table *prefill, struct err *e);

/* Curves summed over operators, one per distinct grid. */
struct curve_sum {
    struct curve curve[OP_ROWS];
    double *y[OP_ROWS];
    int n;
};

/* Of the experts of all layers: reading all of them once, 0 = not told; computing a token. */
struct expert_costs {
    double reading_s, token_s;
};

struct bundle {
    const char *root, *dir, *missing;
    const struct node *meta;        /* whole; NULL = Vidur's */
    const struct bundle_meta *said; /* what is read of it; NULL = Vidur's */
    struct op_list ops;
    /* Attention, one for each kind of layer that has it. */
    struct attention_rows {
        const struct op *of[OP_ROWS]; /* [n] in ops */
        int n;
    } prefill, decode;
    /* By row of the operator. */
    struct op_table table[OP_ROWS];
    struct op_table energy[OP_ROWS]; /* J instead of seconds */
    struct curve_sum energy_tokens, energy_rows;
    bool has_energy; /* of some operator */
    double idle_w;
    const char *energy_missing; /* bundle_energy_missing */
    double error[OP_ROWS];
    /* Of batches without chunks, where the file tells them apart. */
    bool has_decodes;
    struct together
        together[OP_ROWS]; /* of prefill's; {0}: chunks of a batch go one after the other */
    struct op_table decode_table[OP_ROWS];
    struct curve_sum decode_tokens, decode_rows;
    struct op_table decode_energy[OP_ROWS]; /* J of the same; none: as energy */
    struct curve_sum decode_energy_tokens, decode_energy_rows;
    bool has_decode_energy;
    /* Host time of executors with several batches in flight: the part behind the device's begin, of
     * iterations without chunks and with, and what comes after the device's end. */
    double launch_share, prefill_launch_share, answer_s;
    /* Over tokens; `once`: operators outside the layers; `experts`: those of experts. */
    struct curve_sum tokens, rows, once, experts;
    struct curve_sum decode_experts; /* of batches without chunks; n 0 = not told apart */
    double experts_fit[3];           /* of `experts`: op_table's expert_fit summed */
    struct model expert_model;       /* their number and choice */
    struct expert_costs expert_costs;
    struct op_table all_reduce_table, send_recv_table, all_to_all_table;
    struct curve all_reduce, send_recv, all_to_all; /* of one call, over tokens; no grid = none */
    int32_t all_reduces, all_to_alls;               /* per forward pass */
    struct host_table host, host_prefill;
    struct wake_table {
        const double *pause_s;  /* [levels] ascending */
        const double *device_s; /* [levels][iterations] */
        const double *host_s;
        int levels, iterations;
    } wake;
    double host_scale, host_prefill_scale;
    /* Over log2 of sequences or tokens; no grid: 1. Of the passes of a train of decodes: the first,
     * the second and third (no grid: as the rest), the rest. */
    struct curve first_scale, second_scale, decode_scale, prompt_scale, mixed_scale;
    const struct bundle_decode_beside *decode_beside; /* NULL = as in batches without prompts */
    const char *estimated;
    struct bundle_counts {
        int64_t lookups, outside;
    } * counts;                          /* counted through const bundles */
    struct rng *host_draws;              /* of host time, one per iteration; NULL = none */
    const struct unevenness *unevenness; /* NULL = not in the bundle */
    struct unevenness *replayed;         /* of device time, one ratio per iteration; NULL = none */
    const struct calibrated *calibrated; /* instead of tables; NULL = not */
    const struct iterations *iterations; /* the same */
    const struct request_overheads *overheads; /* NULL = none */
    const struct power_cap *power_cap;         /* NULL = none, or no tables */
};

/* prefill and decode, from ops. */
void bundle_find_attention(struct bundle *b);
/* tokens, rows and once from the tables; the sums must be empty (bundle_clear_sums). */
void bundle_sum_tables(struct arena *a, struct bundle *b);
void bundle_clear_sums(struct bundle *b);
void experts_tell_costs(struct bundle *b); /* expert_costs, from the sums; the last step of these */

#endif
