#include "serve/executor.h"

int32_t executor_lanes(const struct executor *x)
{
    return x->ops->lanes ? x->ops->lanes(x->self) : 1;
}

bool executor_turns(const struct executor *x)
{
    return x->ops->turns && x->ops->turns(x->self);
}

enum st executor_check(const struct executor *x, struct err *e)
{
    const struct executor_ops *o = x->ops;
    if (!o || !o->name)
        return err_set(e, ST_USAGE, "executor without a name");
    if (o->version != EXECUTOR_VERSION)
        return err_set(e, ST_USAGE, "executor %s: version %d, the loop speaks version %d", o->name,
                       o->version, EXECUTOR_VERSION);
    if (!o->max_in_flight || !o->submit || !o->next || !o->close)
        return err_set(e, ST_USAGE, "executor %s: a required hook is missing", o->name);
    if ((o->caps & EXEC_COMPUTES) && !o->bind)
        return err_set(e, ST_USAGE, "executor %s: computes and has no bind hook", o->name);
    int32_t out = o->max_in_flight(x->self), lanes = executor_lanes(x);
    const bool turns = executor_turns(x);
    if (out < 1 || lanes < 1 || (turns ? lanes == 1 || out != lanes + 1 : out % lanes != 0))
        return err_set(e, ST_USAGE, "executor %s: %d batches in flight over %d lanes", o->name, out,
                       lanes);
    return ST_OK;
}
