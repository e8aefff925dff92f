#include "job/options/options.h"

static const struct option rows[] = {
    {KEY(slo), .unit = "ms", .def = "delay:5000", .commands = CMD_CAPACITY | CMD_SEARCH,
     .help = "limits on a request, name:milliseconds: ttft, tpot, e2el (as vLLM's goodput) and "
             "delay, the wait for the first batch"},
    {KEY(slo_fraction), .def = "0.99", .min = 1e-6, .max = 1, .commands = CMD_CAPACITY | CMD_SEARCH,
     .help = "fraction of all requests that must meet every limit of slo"},
    {KEY(cores), .unit = "processes", .def = "0", .max = 4096, .commands = SIMULATES,
     .when = WHEN(SIMULATOR, {"sim.replicas_mc", WHEN_NOT, "0", .of = CMD_SIMULATE}),
     .help = "how many simulations run at a time; 0 is every core this process may use; results do "
             "not depend on it"},
    {KEY(launcher), .def = "fork", .commands = CMD_SEARCH,
     .help = "what spreads the work: fork (this machine's cores) or mpi (the ranks of mpirun)"},
    {KEY(capacity.seeds), .min = 1, .max = 1000, .commands = CMD_CAPACITY | CMD_SEARCH,
     .help = "independent draws of the workload, from seed on; they give the interval; when unset "
             "5, and 1 of a real engine"},
    {KEY(capacity.tolerance), .min = 1e-6, .max = 1, .commands = CMD_CAPACITY | CMD_SEARCH,
     .help = "relative width at which the bisection of a seed ends; when unset 0.01, and 0.05 of a "
             "real engine"},
    {KEY(capacity.probe_s), .unit = "s", .def = "30", .min = 0.1, .max = 1e6,
     .commands = CMD_CAPACITY, .when = WHEN(ENGINE),
     .help = "a real engine: how long requests arrive at each rate; they are 50 at least and, "
             "where it is set on the command line, workload.num_requests exactly"},
    {KEY(capacity.start_rate), .unit = "1/s", .min = 1e-9, .max = 1e9,
     .commands = CMD_CAPACITY | CMD_SEARCH,
     .help =
         "rate to begin at; when unset the throughput of all requests at once, of a real engine "
         "of ours what a simulation of the search predicts, else 1"},
    {KEY(capacity.long_run), .unit = "times", .def = "16", .max = 4096,
     .commands = CMD_CAPACITY | CMD_SEARCH, .when = WHEN(SIMULATOR),
     .help =
         "also find the capacity of 4, 16, ... times as many requests, up to so many, until it no "
         "longer changes: that of the long run, which search compares by; 0 leaves it out. "
         "Requests must be made, not given"},
    {KEY(capacity.load), .def = "0.85", .min = 1e-3, .max = 1, .commands = CMD_CAPACITY,
     .help = "operating point, as a fraction of the capacity"},
    {KEY(capacity.max_rate), .unit = "1/s", .min = 1e-9, .max = 1e9, .commands = CMD_CAPACITY,
     .help = "never ask for more than this rate; where the objective holds there, the answer is "
             "\"or more\""},
    {KEY(capacity.probe_timeout_s), .unit = "s", .def = "600", .min = 1, .max = 1e6,
     .commands = CMD_CAPACITY, .when = WHEN(ENGINE),
     .help = "a real engine's time for one rate, its start included; not done by then, the rate is "
             "too high"},
    {KEY(capacity.resume), .commands = CMD_CAPACITY, .when = WHEN(ENGINE),
     .help = "folder of an interrupted capacity run on a real engine: what it measured is not "
             "measured again"},
    {KEY(search.space), .commands = CMD_SEARCH,
     .help = "what to try: lists of values by setting or group; every combination is one "
             "configuration"},
    {KEY(search.loads), .def = "0.1,0.25,0.5,0.7,0.85", .commands = CMD_SEARCH,
     .help = "fractions of its capacity at which each configuration is looked at"},
};

OPTION_SECTION(search, rows);
