#include "config/option_rows.h"
#include "workload/workload.h"

#define SETTINGS struct workload_settings

/* A workload is made, its requests and lengths; all but its arrivals; those alone. Formats of
 * import that have texts without arrivals leave them to the settings. */
#define MADE          UNSET("workload.dir|workload.trace|import")
#define NOT_GIVEN     UNSET("workload.dir|workload.trace")
#define CLOSED        "workload.concurrency|workload.concurrency_stages"
#define MADE_ARRIVALS NOT_GIVEN, NOT("import", "@arrivals"), UNSET(CLOSED)
#define SESSIONS      MADE, SET("workload.session.turns")
#define RATES         "fixed_interval|poisson|gamma"

static const struct option rows[] = {
    {KEY(import), .commands = CMD_WORKLOAD,
     .help =
         "make the workload of another tool's trace: azure, bailian, burstgpt, lmsys, mooncake, "
         "sharegpt, vidur, vllm, wildchat"},
    {KEY(export), .commands = CMD_WORKLOAD, .when = WHEN(ALWAYS_UNSET("import")),
     .help = "write the workload for another tool instead of a directory: azure, burstgpt, "
             "mooncake, vidur, vllm"},
    {KEY(path), .commands = CMD_WORKLOAD, .when = WHEN(ALWAYS_SET("import|export")),
     .help = "the file that is imported or exported"},
    {AT("workload.import.block_tokens", block_tokens), .unit = "tokens", .min = 1, .max = 1 << 20,
     .commands = CMD_WORKLOAD, .when = WHEN(ALWAYS_IS("import", "@units")),
     .help = "tokens of the prompt that a hash id stands for; 512 when unset"},
    {AT("workload.import.time_unit", time_unit), .allowed = "s|ms|us|ns", .commands = CMD_WORKLOAD,
     .when = WHEN(ALWAYS_IS("import", "@units")),
     .help = "unit of timestamp and delay; ms when unset"},
    {IN(workload, dir), .commands = RUNS | CMD_WORKLOAD, .when = WHEN(UNSET("import")),
     .help = "workload directory to run instead of making one"},
    {IN(workload, trace), .commands = RUNS | CMD_WORKLOAD,
     .when = WHEN(UNSET("import"), ALWAYS_UNSET("workload.dir")),
     .help = "CSV of arrived_at, num_prefill_tokens, num_decode_tokens to run instead of making "
             "one, or a Mooncake trace (.jsonl)"},
    {IN(workload, prompts), .commands = MAKES, .when = WHEN(MADE),
     .help = "prompts.jsonl with prompt_id and text"},
    {AT("workload.num_requests", make.num_requests), .unit = "requests", .min = 1, .max = 1e8,
     .commands = MAKES, .when = WHEN(NOT_GIVEN),
     .help = "how many requests; all that the source has when unset"},
    {IN(workload, prompts_seed), .min = 1, .max = INFINITY, .commands = CMD_BENCH,
     .help = "seed of the token ids of prompts that are drawn, seed when unset: the same requests "
             "with another one find none of their prompts in a prefix cache"},
    {AT("workload.duration_s", make.duration_s), .unit = "s", .def = "0", .max = 1e9,
     .commands = CMD_WORKLOAD | ONE_RUN,
     .when = WHEN(MADE, IS("workload.arrival.kind", RATES "|trace"), ALWAYS_UNSET(CLOSED)),
     .help = "all requests that arrive within that time, instead of a number of them; with "
             "workload.num_requests on the command line at most so many"},
    {IN(workload, concurrency), .unit = "requests", .min = 1, .max = 1e6, .commands = RATED,
     .when = WHEN(UNSET("import|export|workload.concurrency_stages")),
     .help = "closed loop: that many requests at once, the next starts when one ends; sessions, "
             "where the workload has them; whatever its arrivals"},
    {IN(workload, concurrency_ramp_s), .unit = "s", .max = 1e9, .commands = RATED,
     .when = WHEN(ALWAYS_SET("workload.concurrency")),
     .help = "time in which that number grows evenly from 1"},
    {IN(workload, concurrency_stages), .commands = RATED, .when = WHEN(UNSET("import|export")),
     .help = "closed loop whose number changes, SECONDS:REQUESTS or SECONDS:REQUESTS-REQUESTS; the "
             "last goes on"},
    {AT("workload.session.turns", make.session_turns), .min = 1, .max = 1e4, .commands = RATED,
     .when = WHEN(MADE, ALWAYS_UNSET("workload.prompts"), NOT("workload.arrival.kind", "trace")),
     .help = "turns of a session, each a request whose prompt holds the earlier ones with their "
             "answers; an arrival is that of a session then, and lengths are of what is new"},
    {AT("workload.session.max_turns", make.session_max_turns), .min = 1, .max = 1e4,
     .commands = RATED,
     .when = WHEN(MADE, ALWAYS_SET("workload.session.turns"), ALWAYS_UNSET("workload.prompts")),
     .help = "most turns of a session, drawn evenly from workload.session.turns up"},
    {AT("workload.session.think_s", make.think_s), .unit = "s", .max = 1e7, .commands = RATED,
     .when = WHEN(SESSIONS), .help = "time from the end of a turn to the next: mean"},
    {AT("workload.session.think_kind", make.think_kind), .def = "fixed",
     .allowed = "fixed|exponential|lognormal", .commands = RATED,
     .when = WHEN(SESSIONS, ALWAYS_SET("workload.session.think_s")),
     .help = "how think times are distributed"},
    {AT("workload.session.think_stddev_s", make.think_stddev_s), .unit = "s", .max = 1e7,
     .commands = RATED,
     .when = WHEN(SESSIONS, ALWAYS_IS("workload.session.think_kind", "lognormal")),
     .help = "standard deviation of lognormal think times"},
    {AT("workload.prefix.tokens", make.prefix_tokens), .unit = "tokens", .def = "0", .max = 1e9,
     .commands = MAKES, .when = WHEN(MADE, ALWAYS_UNSET("workload.prompts")),
     .help = "tokens that stand before each prompt and are the same for all requests of a group; "
             "lengths count without them"},
    {AT("workload.prefix.groups", make.prefix_groups), .def = "1", .min = 1, .max = 1e9,
     .commands = MAKES, .when = WHEN(MADE, UNSET("workload.prompts")),
     .help = "how many such groups there are; each request belongs to one of them by chance"},
    {IN(workload, warmup_requests), .unit = "requests", .def = "0", .max = 1e8, .commands = RUNS,
     .help = "first requests that are labelled warm-up and left out"},
    {AT("workload.arrival.kind", make.arrival_kind), .def = "poisson",
     .allowed = "static|fixed_interval|poisson|gamma|trace", .commands = MAKES,
     .when = WHEN(MADE_ARRIVALS), .help = "how requests arrive; static is all at time 0"},
    {AT("workload.arrival.rate", make.rate), .unit = "1/s", .min = 1e-9, .max = 1e9,
     .commands = RATED,
     .when =
         WHEN(MADE_ARRIVALS, IS("workload.arrival.kind", RATES), UNSET("workload.arrival.stages")),
     .help = "mean rate of poisson, gamma or fixed_interval arrivals"},
    {AT("workload.arrival.ramp_s", ramp_s), .unit = "s", .max = 1e9,
     .commands = CMD_WORKLOAD | ONE_RUN,
     .when = WHEN(MADE_ARRIVALS, IS("workload.arrival.kind", RATES),
                  ALWAYS_SET("workload.arrival.rate"), ALWAYS_UNSET("workload.arrival.stages")),
     .help = "time in which the rate grows evenly from 0 to workload.arrival.rate"},
    {AT("workload.arrival.stages", rate_stages), .commands = CMD_WORKLOAD | ONE_RUN,
     .when = WHEN(MADE_ARRIVALS, IS("workload.arrival.kind", RATES)),
     .help = "rates that change, SECONDS:RATE or SECONDS:RATE-RATE, instead of one rate; the last "
             "goes on"},
    {AT("workload.arrival.burstiness", make.burstiness), .min = 1e-3, .max = 1e3, .commands = MAKES,
     .when = WHEN(MADE_ARRIVALS, IS("workload.arrival.kind", "gamma")),
     .help = "shape of gamma arrivals: 1 is poisson, less is burstier"},
    {AT("workload.arrival.inter_arrival_ns", make.inter_arrival_ns), .unit = "ns", .min = 1,
     .max = INFINITY, .commands = RATED,
     .when = WHEN(MADE_ARRIVALS, IS("workload.arrival.kind", "fixed_interval")),
     .help = "gap of fixed_interval arrivals, instead of a rate"},
    {AT("workload.arrival.trace", make.arrival_trace), .commands = MAKES,
     .when = WHEN(MADE_ARRIVALS, IS("workload.arrival.kind", "trace")),
     .help = "CSV with arrived_at (s) or arrival_time_ns"},
    {AT("workload.lengths.kind", make.lengths_kind), .def = "fixed",
     .allowed = "tokenizer|fixed|uniform|zipf|trace|normal|lognormal", .commands = MAKES,
     .when = WHEN(MADE),
     .help = "where token counts come from; tokenizer: of the prompt, or where the model has none "
             "a token for each 4 bytes of it"},
    {AT("workload.lengths.prefill_tokens", make.prefill_tokens), .unit = "tokens", .min = 1,
     .max = 1e9, .commands = MAKES,
     .when = WHEN(MADE, IS("workload.lengths.kind", "fixed|normal|lognormal")),
     .help = "prompt length of fixed lengths; mean of normal and lognormal"},
    {AT("workload.lengths.decode_tokens", make.decode_tokens), .unit = "tokens", .min = 1,
     .max = 1e9, .commands = MAKES,
     .when = WHEN(MADE, IS("workload.lengths.kind", "fixed|tokenizer|normal|lognormal")),
     .help = "output length of fixed and tokenizer lengths, first token included; mean of normal "
             "and lognormal"},
    {AT("workload.lengths.min_tokens", make.min_tokens), .unit = "tokens", .min = 1, .max = 1e9,
     .commands = MAKES, .when = WHEN(MADE, IS("workload.lengths.kind", "uniform|zipf")),
     .help = "least tokens of a request, prompt and output together, of uniform and zipf"},
    {AT("workload.lengths.max_tokens", make.max_tokens), .unit = "tokens", .min = 1, .max = 1e9,
     .commands = MAKES, .when = WHEN(MADE, IS("workload.lengths.kind", "uniform|zipf")),
     .help = "most tokens of a request, prompt and output together, of uniform and zipf"},
    {AT("workload.lengths.prefill_stddev", make.prefill_stddev), .unit = "tokens", .def = "0",
     .max = 1e9, .commands = MAKES,
     .when = WHEN(MADE, IS("workload.lengths.kind", "normal|lognormal")),
     .help = "standard deviation of normal and lognormal prompt lengths"},
    {AT("workload.lengths.decode_stddev", make.decode_stddev), .unit = "tokens", .def = "0",
     .max = 1e9, .commands = MAKES,
     .when = WHEN(MADE, IS("workload.lengths.kind", "normal|lognormal")),
     .help = "standard deviation of normal and lognormal output lengths"},
    {AT("workload.lengths.zipf_theta", make.zipf_theta), .min = 1e-6, .max = 0.999999,
     .commands = MAKES, .when = WHEN(MADE, IS("workload.lengths.kind", "zipf")),
     .help = "exponent of zipf lengths"},
    {AT("workload.lengths.prefill_decode_ratio", make.prefill_decode_ratio), .max = 1e6,
     .commands = MAKES, .when = WHEN(MADE, IS("workload.lengths.kind", "uniform|zipf")),
     .help = "prompt tokens per output token of uniform and zipf"},
    {AT("workload.lengths.trace", make.lengths_trace), .commands = MAKES,
     .when = WHEN(MADE, IS("workload.lengths.kind", "trace")),
     .help = "CSV with num_prefill_tokens, num_decode_tokens"},
};

OPTION_SECTION(workload, rows);
