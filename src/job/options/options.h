/* Settings that no stage reads alone, by sections: one file each in this folder, with a row per
 * field of struct plan. Private to job/plan.c. */
#ifndef JOB_OPTIONS_OPTIONS_H
#define JOB_OPTIONS_OPTIONS_H

#include "config/option_rows.h"
#include "job/plan.h"

#define SETTINGS struct plan

extern const struct option_section job_options, model_options, scheduler_options, parallel_options,
    predictor_options, url_options, goodput_options, worker_options, profile_options, sim_options,
    search_options, calibrate_options, fit_options, settings_options, compare_options,
    output_options, kernels_options, trace_options, logits_options, energy_options, doctor_options;

#endif
