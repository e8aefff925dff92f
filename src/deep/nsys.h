/* Command lines of Nsight Systems. Private to deep/. */
#ifndef DEEP_NSYS_H
#define DEEP_NSYS_H

#include "deep/argv.h"

enum nsys_range { NSYS_RANGE_NONE, NSYS_RANGE_NVTX, NSYS_RANGE_API };

struct nsys_settings {
    const char *path;         /* the program: a name looked up in PATH, or a path */
    struct texts trace;       /* cuda, nvtx, osrt, cublas, ... */
    const char *sample;       /* of the processor: none, process-tree, system-wide */
    int capture_range;        /* enum nsys_range: what begins the recording */
    const char *nvtx_capture; /* range@domain of NSYS_RANGE_NVTX; strings that the program did not
                                 register are allowed */
    const char *capture_end;  /* stop, stop-shutdown, repeat:N, ...; NULL = nsys' own default */
    struct texts reports;     /* of nsys stats */
    struct texts args;        /* further arguments of nsys profile */
};

/* ST_USAGE: a range that begins the recording is not named, or its end is none that nsys knows. */
enum st nsys_check(const struct nsys_settings *s, struct err *e);

/* nsys profile: writes <output>.nsys-rep. light: traces CUDA and NVTX alone. */
void nsys_profile(struct argv *v, const struct nsys_settings *s, bool light, const char *output,
                  struct texts command);
/* nsys stats: one CSV file <output>_<report>.csv for each report. */
void nsys_stats(struct argv *v, const struct nsys_settings *s, const char *recording,
                const char *output);
/* nsys export: the SQLite file that trace/ reads. */
void nsys_export(struct argv *v, const struct nsys_settings *s, const char *recording,
                 const char *sqlite);
/* The file that nsys profile left for that output: .nsys-rep, of older versions .qdrep; the first
 * of several (nsys.capture_end=repeat:N leaves <output>.1.nsys-rep and so on), *more others. NULL =
 * none is there. */
const char *nsys_recording(struct arena *a, const char *output, size_t *more);

#endif
