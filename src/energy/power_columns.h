/* The columns of a power log: which one holds the time, the power, and what tells GPUs apart.
 *
 * Names are compared in lower case, with '_' for blanks, points and dashes, and without the unit
 * behind: "power.draw [W]", "Power_Draw (W)" and "power_draw_w" are one. Units come from the header
 * alone: W, mW, uW and kW; s, ms, us and ns of times that are numbers. */
#ifndef ENERGY_POWER_COLUMNS_H
#define ENERGY_POWER_COLUMNS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "text/csv.h"

enum identity_kind {
    ID_NUMBER, /* the number of a GPU: "0", "GPU 0", "card0" */
    ID_LABEL,  /* a number where it reads as one ("cuda:0"), else a name */
    ID_BOARD,  /* one of a kind: uuid, serial */
    ID_BUS,    /* a PCI address; nvidia-smi numbers GPUs in its order */
    ID_HOST,
    ID_NAME, /* a product's name, which several GPUs share */
};

enum { MAX_IDENTITIES = 8, MAX_WIDE = 64 };

struct power_columns {
    int time, date;       /* date: where the time of day stands in a column of its own; -1 = none */
    int64_t time_unit_ns; /* of numbers; 0 = not said */
    int energy;           /* joules; -1 = none */
    bool meter;           /* one series that belongs to no GPU */
    bool averaged;        /* known to be an average over about a second */
    struct power_column {
        int column;
        double watts; /* of one unit of it */
        int gpu;      /* its number stands in the column's name; -1 = no */
    } power[MAX_WIDE];
    int n_power; /* more than one: a column for each GPU */
    struct identity_column {
        int column;
        enum identity_kind kind;
        const char *name; /* as the header has it */
    } id[MAX_IDENTITIES];
    int n_id;
    bool only_hosts; /* no other column tells GPUs apart */
};

/* ST_INPUT: a header of no power log, a unit that is none of power, no column of times. */
enum st power_columns_find(struct arena *a, const struct csv_reader *r, const char *source,
                           struct power_columns *out, struct err *e);

/* Whether a column of that name, with its unit, holds power: for lines that may be headers. */
bool power_columns_is_power(struct sv name);

/* Watts of a unit: "W", "mW"; 0 = none. */
double power_unit_watts(struct sv unit);

#endif
