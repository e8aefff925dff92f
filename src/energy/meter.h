/* The power of a GPU while something else works on it: a recorder, a watch over clocks and heat,
 * and the board they belong to. Profiles take it as their power_meter; runs and traces write its
 * log. */
#ifndef ENERGY_METER_H
#define ENERGY_METER_H

#include "energy/board.h"
#include "energy/recorder.h"
#include "profile/power.h"

struct meter {
    struct board board;
    struct recorder *recorder;
    struct gpu_watch *watch;
    struct gpu_limits limits;
    bool own; /* this process computes there */
    const char *sensor;
    double update_s;   /* of the sensor that gives power; where it was not seen to change 0.1 s */
    double averages_s; /* what it averages over */
    int64_t utc_offset_s;
};

struct meter_params {
    int gpu;
    const char *sampler; /* recorder_pick */
    double interval_s;
    bool own;
};

/* Takes up to 2 s a sensor, to learn its update period. ST_DEVICE: no such GPU, no sensor answers.
 * Close in any case. */
enum st meter_open(struct arena *a, const struct meter_params *p, struct meter *out, struct err *e);
/* The same of a board that is known; p->gpu is not read. */
enum st meter_open_board(struct arena *a, const struct board *board, const struct meter_params *p,
                         struct meter *out, struct err *e);
void meter_close(struct meter *m); /* zeroed is fine */

/* As profiles want it; m stays where it is. */
struct power_meter meter_of_profile(struct meter *m);

/* {sampler, averages_s, update_s, read_s}; null without a sensor. */
struct node *recorder_sensor_node(struct arena *a, const struct recorder_sensor *s);

/* Puts into the map {gpu, gpu_name, gpu_uuid, power_limit_w, utc_offset_s, power_sensor,
 * energy_sensor, samples, failed_readings, late, under}, as energy log has them; after
 * recorder_stop. */
void meter_facts(struct meter *m, struct arena *a, struct node *map);

#endif
