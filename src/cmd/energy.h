/* Parts of the command energy that its files share. Private to cmd/energy*.c. */
#ifndef CMD_ENERGY_H
#define CMD_ENERGY_H

#include "artifact/artifact.h"
#include "energy/energy_report.h"
#include "energy/recorder.h"
#include "job/job.h"

/* A file, or the folder that holds it under its usual name. */
const char *energy_file(struct arena *a, const char *path, const char *name);
/* The GPU whose rows of a log are read: what that key says, else the log's only one. */
int64_t energy_log_gpu(const struct job_context *c, const char *key, int64_t gpu);
/* power.csv. keep_zone: the times of a log in UTC keep their zone. */
enum st energy_write_log(const struct artifact *art, const struct power_log *log, int64_t gpu,
                         int64_t utc_offset_s, bool keep_zone, struct err *e);
struct node *energy_meta(struct job_context *c, const char *id, const struct artifact *art,
                         const char *type, struct node *extra);
struct node *energy_sensor_node(struct arena *a, const struct recorder_sensor *s);
/* gpu_energy_report.json, and summary.txt, which is what is printed. */
enum st energy_write_report(struct arena *a, const struct artifact *art,
                            const struct energy_report *r, struct err *e);
/* The report as text or JSON. */
void energy_print_report(struct job_context *c, const struct energy_report *r, const char *dir);
/* application= and application_power=, where they are given; NULL where not. */
struct energy_application {
    struct full_timing timing;
    struct power_log power;
    const struct full_timing *has_timing;
    const struct power_log *has_power;
};
enum st energy_read_application(struct job_context *c, struct energy_application *out,
                                struct err *e);

/* energy run */
enum st energy_run_capsule(struct job_context *c, struct err *e);

#endif
