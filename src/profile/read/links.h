/* What joins the devices of a replica: by which rate they send to each other.
 *
 * Devices are numbered as vLLM numbers ranks: the shards of a group, the groups of a stage, the
 * stages, and fill one node after the other; a stage lies within a node where it fits in one.
 *
 *     up to link_gpus of them   the link: NVLink, or PCIe where there is none
 *     up to node_gpus           PCIe, where the link joins fewer than a node holds (bridges)
 *     beyond                    the network between nodes, node_bytes_per_s of each device
 *
 * An all-reduce goes at the slowest of the rates between its shards. Between nodes it is refused:
 * it is no ring of equal links there, and how fast it is depends on how its library cuts it. An
 * all-to-all over several nodes takes as long as the slower of its parts inside and between them;
 * a send from stage to stage goes by what joins these two. A rate that is needed and unknown is
 * refused by name. */
#ifndef PROFILE_READ_LINKS_H
#define PROFILE_READ_LINKS_H

#include "base/err.h"

#include <stdint.h>

struct links_hardware {
    double link_bytes_per_s, pcie_bytes_per_s, node_bytes_per_s; /* of a device; 0 = unknown */
    int64_t link_gpus, node_gpus;                                /* 0 = not stated: all */
};

/* Seconds a byte; 0 where nothing is sent. */
struct links {
    double reduce_s;   /* all-reduces of the shards */
    double exchange_s; /* all-to-alls, a byte for any device, the sender among them */
    double send_s, far_send_s, node_send_s;
    int64_t stages_linked, stages_in_node; /* successive ones that a link joins, a node holds */
};

/* groups as of shard_groups. ST_USAGE. */
enum st links_of(const struct links_hardware *hw, int64_t tp, int64_t pp, int64_t groups,
                 struct links *out, struct err *e);
/* From that stage to the next. */
double links_send_s(const struct links *l, int64_t stage);

#endif
