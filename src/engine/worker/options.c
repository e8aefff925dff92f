#include "config/option_rows.h"
#include "engine/worker/worker.h"

#define SETTINGS struct worker_params

#define PROGRAM WHEN(IS("engine.kind", "@program"))

static const struct option rows[] = {
    {IN(worker, command), .starts = true, .commands = DRIVEN, .when = PROGRAM,
     .help =
         "program and arguments of engine=worker; docs/worker-protocol.md says what it must speak"},
    {AT("worker.prompt", prompt), .def = "ids", .allowed = "ids|text", .commands = DRIVES,
     .when = PROGRAM, .help = "whether the worker gets prompts as token ids or as texts"},
    {IN(worker, start_timeout_s), .unit = "s", .def = "120", .min = 1e-3, .max = 1e6,
     .commands = DRIVEN, .when = PROGRAM, .help = "time from the worker's start to its hello"},
    {IN(worker, load_timeout_s), .unit = "s", .def = "1800", .min = 1e-3, .max = 1e6,
     .commands = DRIVEN, .when = PROGRAM, .help = "time it has to load its model"},
    {IN(worker, silence_timeout_s), .unit = "s", .def = "120", .min = 1e-3, .max = 1e6,
     .commands = DRIVEN, .when = PROGRAM, .help = "time without a word while requests are running"},
    {IN(worker, request_timeout_s), .unit = "s", .def = "0", .max = 1e6, .commands = DRIVES,
     .when = PROGRAM,
     .help = "time from a request's planned arrival after which it is cancelled; 0 is no limit"},
    {IN(worker, stop_timeout_s), .unit = "s", .def = "10", .max = 1e6, .commands = DRIVEN,
     .when = PROGRAM, .help = "time it has to end by itself"},
    {IN(worker, clock_rounds), .def = "32", .min = 1, .max = 100000, .commands = DRIVEN,
     .when = PROGRAM,
     .help = "messages that compare its clock with ours, before the run and after it"},
    {AT("worker.options", greeting.options), .starts = true, .commands = DRIVEN, .when = PROGRAM,
     .help = "settings of the worker itself, handed over as they are"},
};

OPTION_SECTION(worker, rows);
