/* Tables of collectives, Vidur's all_reduce.csv and send_recv.csv, and all_to_all.csv of their
 * kind: median ms over size in bytes of float16 activations, so tokens = size / hidden / 2.
 *
 * Rows used: all_reduce of num_workers = tp, as many per node as fit (devices_per_node = tp, at
 * most the file's max_devices_per_node); send_recv between nodes (devices_per_node = 1) when tp *
 * pp is more than a node holds, else inside one (2). None: ST_INPUT naming the nearest. Below the
 * smallest size the smallest one's time holds: a small message costs its latency. */
#ifndef PROFILE_READ_NETWORK_H
#define PROFILE_READ_NETWORK_H

#include "profile/read/table.h"

struct network_key {
    int64_t tp, pp, ep, hidden;
};

/* Seconds of one call over tokens. */
enum st read_all_reduce(struct arena *a, const char *path, const struct network_key *key,
                        struct op_table *out, struct err *e);
enum st read_all_to_all(struct arena *a, const char *path, const struct network_key *key,
                        struct op_table *out, struct err *e);
enum st read_send_recv(struct arena *a, const char *path, const struct network_key *key,
                       struct op_table *out, struct err *e);

#endif
