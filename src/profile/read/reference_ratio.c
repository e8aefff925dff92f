#include "profile/read/reference_ratio.h"

#include <math.h>
#include <string.h>

static double median_s(const struct node *row)
{
    const struct node *v = row && row->kind == NODE_MAP ? node_path(row, "median_s") : NULL;
    return v && v->kind == NODE_FLOAT ? v->f : 0;
}

static const struct node *find(const struct node *map, struct sv key)
{
    for (uint32_t i = 0; i < map->n; i++)
        if (map->pairs[i].key.n == key.n && memcmp(map->pairs[i].key.p, key.p, key.n) == 0)
            return map->pairs[i].value;
    return NULL;
}

double reference_ratio(const struct node *now, const struct node *then)
{
    double sum = 0;
    int n = 0;
    if (!now || !then || now->kind != NODE_MAP || then->kind != NODE_MAP)
        return (double)NAN;
    for (uint32_t i = 0; i < now->n; i++) {
        const double x = median_s(now->pairs[i].value);
        const double y = median_s(find(then, now->pairs[i].key));
        if (x > 0 && y > 0)
            sum += log(x / y), n++;
    }
    return n ? exp(sum / n) : (double)NAN;
}
