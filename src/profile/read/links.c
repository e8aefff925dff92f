#include "profile/read/links.h"

#include <math.h>
#include <stdbool.h>

static enum st need(double rate, const char *key, const char *what, struct err *e)
{
    if (rate > 0)
        return ST_OK;
    err_set(e, ST_USAGE, "%s: %s of this hardware is unknown", key, what);
    return err_hint(e, "%s= sets it; hardware= takes a group that has it", key);
}

static enum st need_node(const struct links_hardware *hw, const char *setting, int64_t devices,
                         struct err *e)
{
    if (hw->node_bytes_per_s > 0)
        return ST_OK;
    err_set(e, ST_USAGE,
            "hardware.node_gb_per_s: %s goes over nodes of %lld devices, with %lld, and the rate "
            "between nodes of this hardware is unknown",
            setting, (long long)hw->node_gpus, (long long)devices);
    return err_hint(e, "hardware.node_gb_per_s= sets it, of one device; hardware.gpus_per_node= "
                       "where a node has more");
}

static enum st reduce_over_nodes(const struct links_hardware *hw, int64_t tp, struct err *e)
{
    err_set(e, ST_USAGE,
            "parallel.tp: %lld shards are more than the %lld devices of a node, and all-reduces "
            "between nodes are not modelled",
            (long long)tp, (long long)hw->node_gpus);
    return err_hint(e,
                    "parallel.tp=%lld with parallel.pp= of more stages; or hardware.gpus_per_node= "
                    "where a node has more",
                    (long long)hw->node_gpus);
}

static bool beyond(int64_t devices, int64_t limit)
{
    return limit > 0 && devices > limit;
}

/* Between so many devices of a node. */
static enum st inside(const struct links_hardware *hw, int64_t devices, double *s_per_byte,
                      struct err *e)
{
    const bool pcie = beyond(devices, hw->link_gpus);
    TRY(need(hw->link_bytes_per_s, "hardware.link_gb_per_s", "the bandwidth between devices", e));
    if (pcie)
        TRY(need(hw->pcie_bytes_per_s, "hardware.pcie_gb_per_s", "the bandwidth to the host", e));
    *s_per_byte = 1 / (pcie ? hw->pcie_bytes_per_s : hw->link_bytes_per_s);
    return ST_OK;
}

static enum st exchange(const struct links_hardware *hw, int64_t ep, double *s_per_byte,
                        struct err *e)
{
    const double n = (double)ep;
    const bool far = beyond(ep, hw->node_gpus);
    const int64_t near = far ? hw->node_gpus : ep;
    double s;
    TRY(inside(hw, near, &s, e));
    *s_per_byte = s * (double)(near - 1) / n;
    if (!far)
        return ST_OK;
    TRY(need_node(hw, "parallel.ep", ep, e));
    *s_per_byte = fmax(*s_per_byte, (double)(ep - near) / n / hw->node_bytes_per_s);
    return ST_OK;
}

/* Whether some stage's successor lies beyond its run of stages. */
static bool leaves(int64_t run, int64_t pp, int64_t limit)
{
    return limit > 0 && run < pp;
}

static enum st send(const struct links_hardware *hw, int64_t stage, int64_t pp, struct links *out,
                    struct err *e)
{
    out->stages_linked = hw->link_gpus / stage;
    out->stages_in_node = hw->node_gpus / stage;
    const bool far = leaves(out->stages_linked, pp, hw->link_gpus);
    const bool over = leaves(out->stages_in_node, pp, hw->node_gpus);
    TRY(inside(hw, 1, &out->send_s, e));
    if (far)
        TRY(inside(hw, hw->link_gpus + 1, &out->far_send_s, e));
    if (over)
        TRY(need_node(hw, "parallel.pp", pp * stage, e));
    out->stages_linked = far ? out->stages_linked : pp;
    out->stages_in_node = over ? out->stages_in_node : pp;
    out->node_send_s = over ? 1 / hw->node_bytes_per_s : 0;
    return ST_OK;
}

enum st links_of(const struct links_hardware *hw, int64_t tp, int64_t pp, int64_t groups,
                 struct links *out, struct err *e)
{
    *out = (struct links){0};
    if (beyond(tp, hw->node_gpus))
        return reduce_over_nodes(hw, tp, e);
    if (tp > 1)
        TRY(inside(hw, tp, &out->reduce_s, e));
    if (groups > 1)
        TRY(exchange(hw, groups * tp, &out->exchange_s, e));
    return pp > 1 ? send(hw, groups * tp, pp, out, e) : ST_OK;
}

/* The last of a run of stages; a run of none: each. */
static bool is_last(int64_t stage, int64_t run)
{
    return run == 0 || (stage + 1) % run == 0;
}

double links_send_s(const struct links *l, int64_t stage)
{
    if (l->node_send_s > 0 && is_last(stage, l->stages_in_node))
        return l->node_send_s;
    return l->far_send_s > 0 && is_last(stage, l->stages_linked) ? l->far_send_s : l->send_s;
}
