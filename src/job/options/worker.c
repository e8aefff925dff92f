#include "job/options/options.h"

static const struct option rows[] = {
    {KEY(worker.command), .starts = true, .commands = DRIVEN,
     .when = WHEN(IS("engine.kind", "@program")),
     .help =
         "program and arguments of engine=worker; docs/worker-protocol.md says what it must speak"},
    {KEY(worker.prompt), .def = "ids", .allowed = "ids|text", .commands = DRIVES,
     .when = WHEN(IS("engine.kind", "@program")),
     .help = "whether the worker gets prompts as token ids or as texts"},
    {KEY(worker.start_timeout_s), .unit = "s", .def = "120", .min = 1e-3, .max = 1e6,
     .commands = DRIVEN, .when = WHEN(IS("engine.kind", "@program")),
     .help = "time from the worker's start to its hello"},
    {KEY(worker.load_timeout_s), .unit = "s", .def = "1800", .min = 1e-3, .max = 1e6,
     .commands = DRIVEN, .when = WHEN(IS("engine.kind", "@program")),
     .help = "time it has to load its model"},
    {KEY(worker.silence_timeout_s), .unit = "s", .def = "120", .min = 1e-3, .max = 1e6,
     .commands = DRIVEN, .when = WHEN(IS("engine.kind", "@program")),
     .help = "time without a word while requests are running"},
    {KEY(worker.request_timeout_s), .unit = "s", .def = "0", .max = 1e6, .commands = DRIVES,
     .when = WHEN(IS("engine.kind", "@program")),
     .help = "time from a request's planned arrival after which it is cancelled; 0 is no limit"},
    {KEY(worker.stop_timeout_s), .unit = "s", .def = "10", .max = 1e6, .commands = DRIVEN,
     .when = WHEN(IS("engine.kind", "@program")), .help = "time it has to end by itself"},
    {KEY(worker.clock_rounds), .def = "32", .min = 1, .max = 100000, .commands = DRIVEN,
     .when = WHEN(IS("engine.kind", "@program")),
     .help = "messages that compare its clock with ours, before the run and after it"},
    {KEY(worker.options), .starts = true, .commands = DRIVEN,
     .when = WHEN(IS("engine.kind", "@program")),
     .help = "settings of the worker itself, handed over as they are"},
};

OPTION_SECTION(worker, rows);
