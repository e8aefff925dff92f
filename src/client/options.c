#include "client/bench.h"
#include "config/option_rows.h"

#define SETTINGS struct client_bench_params

#define SERVER WHEN(IS("engine.kind", "@server"))

static const struct option rows[] = {
    {AT("client.endpoint", body.endpoint), .def = "completions",
     .allowed = "completions|chat|responses", .commands = DRIVES, .when = SERVER,
     .help = "which endpoint of the server is asked"},
    {AT("client.prompts", prompts_kind), .def = "auto", .allowed = "auto|text|ids",
     .commands = DRIVES, .when = SERVER,
     .help = "prompts as texts or as token ids; auto sends ids where prompts are drawn and the "
             "server is seen to take them"},
    {AT("client.count", body.count), .def = "usage", .allowed = "usage|each|ids|tokenizer",
     .commands = DRIVES, .when = SERVER,
     .help = "what output tokens are counted by: usage at the end, usage in every chunk, ids in "
             "every chunk, or client.tokenizer"},
    {AT("client.model", body.model), .commands = DRIVES, .when = SERVER,
     .help = "name of the model at the server; the one that it serves when unset"},
    {AT("client.tokenizer", counter_id), .commands = DRIVES, .when = SERVER,
     .help = "tokenizer.json of the model that the server runs: counts output tokens where the "
             "server sends no usage, and writes the prompts of a model that has none; that of a "
             "model named on the command line when unset, else chunks are counted"},
    {AT("client.max_tokens_name", body.limit), .def = "auto",
     .allowed = "auto|max_tokens|max_completion_tokens", .commands = DRIVES, .when = SERVER,
     .help = "what the limit on output tokens is called; auto is max_tokens, or the other one "
             "where the server refuses or ignores that"},
    {IN(client, preflight), .def = "true", .commands = DRIVES, .when = SERVER,
     .help = "ask one short request before the run: a server that refuses ends it at once, and "
             "what a server does not take is not sent"},
    {AT("client.server_metrics", metrics_mode), .def = "auto", .allowed = "auto|none|required",
     .commands = CMD_BENCH, .when = SERVER,
     .help = "fetch the server's own metrics (GET /metrics) before and after the run, for "
             "server_metrics.json; auto does without where they are missing"},
    {AT("client.duration_s", client.duration_s), .unit = "s", .def = "0", .max = 1e9,
     .commands = CMD_BENCH, .when = SERVER,
     .help = "time after which no further request is sent: what was not sent by then is no part of "
             "the run; 0 sends them all"},
    {IN(client, max_wrong_lengths), .def = "0.01", .max = 1, .commands = DRIVES, .when = SERVER,
     .help =
         "share of answers with another number of output tokens than was asked for, or of prompts "
         "that the server counts longer than planned, above which a run is rejected; shorter "
         "answers count only with engine.ignore_eos"},
    {AT("client.save_answers", answers), .def = "false", .commands = CMD_BENCH, .when = SERVER,
     .help = "write answers.jsonl: the text that came for each request"},
    {IN(client, server_pid), .def = "0", .max = (1 << 22), .commands = CMD_BENCH,
     .when = WHEN(IS("engine.kind", "@server"), IS("energy.record", "true")),
     .help = "pid of the server, on this machine: power is that of all GPUs on which it and its "
             "descendants compute, and any other process there makes the energy unknown; 0: it "
             "cannot be told from others, which are only counted, on gpu="},
    {AT("client.give_up_after", client.give_up_after), .unit = "requests", .def = "10", .max = 1e9,
     .commands = DRIVES, .when = SERVER,
     .help = "so many requests in a row that find no server, or one that refuses them all (401, "
             "403, 404, 405), end the run; 0 is never"},
    {AT("client.max_concurrency", client.max_concurrency), .unit = "requests", .def = "0",
     .max = 1 << 20, .commands = DRIVES,
     .when = WHEN(IS("engine.kind", "@server"),
                  UNSET("workload.concurrency|workload.concurrency_stages")),
     .help = "requests on their way at once, others are held back; 0 is no limit"},
    {IN(client, warmup), .unit = "requests", .def = "0", .max = 1e6, .commands = DRIVES,
     .when = SERVER,
     .help = "requests sent and awaited before the clock starts; they are in no file"},
    {AT("client.timeout_s", client.timeout_s), .unit = "s", .def = "600", .max = 1e6,
     .commands = DRIVES, .when = SERVER, .help = "longest time of a request; 0 is no limit"},
    {AT("client.stall_timeout_s", client.stall_timeout_s), .unit = "s", .def = "120", .max = 1e6,
     .commands = DRIVES, .when = SERVER, .help = "longest time without a byte; 0 is no limit"},
    {AT("client.connect_timeout_s", client.connect_timeout_s), .unit = "s", .def = "10",
     .min = 0.001, .max = 1e4, .commands = DRIVES, .when = SERVER,
     .help = "longest time to connect"},
    {AT("client.retries", client.retries), .def = "0", .max = 100, .commands = DRIVES,
     .when = SERVER,
     .help = "further attempts when the connection fails or the answer is 429 or 503; latency goes "
             "on counting"},
    {AT("client.retry_delay_s", client.retry_delay_s), .unit = "s", .def = "0.5", .max = 1e4,
     .commands = DRIVES, .when = SERVER,
     .help = "wait before the first further attempt, twice as long before each next one, and never "
             "less than the answer's Retry-After"},
    {AT("client.temperature", body.temperature), .def = "0", .max = 100, .commands = DRIVES,
     .when = SERVER, .help = "sampling temperature that is asked for"},
    {IN(client, api_key_env), .def = "OPENAI_API_KEY", .commands = DRIVES, .when = SERVER,
     .help = "environment variable that holds the API key; none is sent when it is not set"},
    {AT("client.headers", given_headers), .commands = DRIVES, .when = SERVER,
     .help = "further headers, Name: value; a value $VARIABLE is taken from the environment and "
             "never written down"},
    {AT("client.tls_verify", client.tls_verify), .def = "true", .commands = DRIVES, .when = SERVER,
     .help = "check the server's certificate"},
    {AT("client.ca_file", client.ca_file), .commands = DRIVES, .when = SERVER,
     .help = "certificates to trust, PEM, instead of the system's"},
    {AT("client.body", body.extra), .commands = DRIVES, .when = SERVER,
     .help = "further members of a request's JSON, as +client.body.top_p=0.9"},
};

OPTION_SECTION(client, rows);
