/* The one command table: dispatch, help, docs/cli and the tests read it. To add a command: write
 * cmd/<name>.c, add its row and its prototype, a bit in config/plan.h, a stage file in configs/,
 * run
 * `./do docs`. */
#include "cmd/commands.h"

const struct cmd cmd_table[] = {
    {
        .name = "workload",
        .bit = CMD_WORKLOAD,
        .columns = "requests last_arrival_s prefill_tokens decode_tokens",
        .summary = "make a workload directory: who asks what, and when",
        .about =
            "Writes prompts.jsonl, trace_lengths.csv and trace_intervals.csv. The same settings "
            "and seed give the same bytes.",
        .example = "twinfer workload workload.num_requests=200 workload.arrival.rate=4",
        .run = cmd_workload,
    },
    {
        .name = "bench",
        .bit = CMD_BENCH,
        .columns = "requests not_ok requests_per_s output_tokens_per_s goodput_per_s ttft_p50_ms "
                   "ttft_p99_ms tpot_p50_ms tpot_p99_ms e2e_p50_ms e2e_p99_ms completed "
                   "failed request_throughput output_throughput request_goodput "
                   "median_ttft_ms p99_ttft_ms median_tpot_ms p99_tpot_ms",
        .summary = "run a workload for real",
        .about =
            "Serves the workload with a real engine at its planned arrival times and writes the "
            "latency of every request and token. Latency counts from the planned arrival. "
            "engine=openai asks a server at url= and adds bench.json, with vLLM's keys.",
        .example = "twinfer bench engine=cpu model=tiny_qwen3 workload.dir=runs/workloads/w1",
        .run = cmd_bench,
    },
    {
        .name = "serve",
        .bit = CMD_SERVE,
        .summary = "an OpenAI-compatible server over the same core, real or emulated",
        .about = "Completions, chats, models, metrics and health over HTTP. engine=cpu generates; "
                 "engine=sim answers in real time with the timings of a profiling bundle: a "
                 "deployment emulated on this machine. SIGTERM drains. With out= it leaves a run "
                 "directory, as bench does.",
        .example = "twinfer serve engine=cpu model=tiny_qwen3 server.port=8000",
        .run = cmd_serve,
    },
    {
        .name = "profile",
        .bit = CMD_PROFILE,
        .summary = "measure what every operator of a model costs on a device",
        .about =
            "Writes a profiling bundle in Vidur's layout and columns, with spread, counts and "
            "the leave-one-out error. Interrupted, it goes on where it stopped. `profile check` "
            "predicts rows of an existing bundle, Vidur's too, from the others and prints the "
            "error of each operator.",
        .words = "check",
        .example = "twinfer profile device=cpu model=tiny_qwen3",
        .run = cmd_profile,
    },
    {
        .name = "simulate",
        .bit = CMD_SIMULATE,
        .columns = "requests not_ok requests_per_s output_tokens_per_s goodput_per_s ttft_p50_ms "
                   "ttft_p99_ms tpot_p50_ms tpot_p99_ms e2e_p50_ms e2e_p99_ms",
        .summary = "serve the same workload on predicted operator times",
        .about = "The serving core of bench with a predicting executor and a virtual clock; writes "
                 "the same files as a real run. Exit code 5 when no request ended "
                 "well.",
        .example = "twinfer simulate model=tiny_qwen3 workload.dir=runs/workloads/w1",
        .run = cmd_simulate,
    },
    {
        .name = "compare",
        .bit = CMD_COMPARE,
        .columns = "verdict",
        .summary = "say how far a simulated run is from the real one, or runs from each other",
        .about =
            "Percentiles of TTFT, per-token latency, TPOT and E2E side by side. A simulation of a "
            "real run gets a verdict: exit code 1 when it is fail, 5 when it is inconclusive. Two "
            "runs of one kind, or those of runs=, get differences with 95 % intervals instead, "
            "and a verdict only with compare.gate.",
        .example = "twinfer compare real_run_dir=runs/real/a sim_run_dir=runs/sim/b",
        .run = cmd_compare,
    },
    {
        .name = "capacity",
        .bit = CMD_CAPACITY,
        .columns = "capacity_per_s end",
        .summary = "find the highest request rate that meets an objective",
        .about =
            "Simulates the workload at one rate after another until the highest that meets the "
            "objective is known, once for each of several seeds; then looks at the operating point "
            "below it. The objective is vLLM's goodput syntax, slo=ttft:500,tpot:50, or by default "
            "Vidur's: P99 scheduling delay at most 5 s. engine=cpu, openai or worker asks a real "
            "engine instead, by one bench after another: the same search, objective and result. "
            "Exit code 1 when no rate meets it, 5 when the client was too late to tell.",
        .example = "twinfer capacity model=tiny_qwen3 slo=ttft:200,tpot:20 slo_fraction=0.95",
        .run = cmd_capacity,
    },
    {
        .name = "search",
        .bit = CMD_SEARCH,
        .summary = "find the best configurations of a space",
        .about =
            "Takes every combination of the values in search.space, finds its capacity, looks at "
            "it "
            "under several loads, and writes the table of all and the Pareto front of tokens per "
            "second per user, tokens per second per GPU and, where bundles have energy, joules per "
            "token. Interrupted, the same command goes on where it stopped. Exit code 1 when no "
            "configuration meets the objective.",
        .example = "twinfer search +search.space.scheduler.group=[vllm,sarathi] "
                   "+search.space.scheduler.batch_cap=[32,128]",
        .run = cmd_search,
    },
    {
        .name = "report",
        .bit = CMD_REPORT,
        .summary = "one HTML page from any artifacts",
        .about = "The page needs nothing but itself: no network, no scripts.",
        .example = "twinfer report report.inputs=[comparisons/c1,runs/real/a] out=report",
        .run = cmd_report,
    },
    {
        .name = "kernels",
        .bit = CMD_KERNELS,
        .columns = "operations names gpu_time_ms dropped",
        .summary = "say what the GPU did: times by kernel, region and operator",
        .about =
            "Reads a trace of any format and writes the reports of `nsys stats` under their names "
            "and headers, kernels.md, operators.md, regions.md, unique kernels with counts and "
            "tiers, where the GPU stood idle, and a Gantt chart.",
        .example = "twinfer kernels kernels.trace=runs/traces/t1 out=kernels",
        .run = cmd_kernels,
    },
    {
        .name = "model",
        .bit = CMD_MODEL,
        .columns = "name parameters",
        .summary = "make and inspect models",
        .about = "`init` writes a model of the asked shape with seeded random weights; `inspect` "
                 "prints parameters, bytes, the operator list with shapes, and FLOPs and bytes per "
                 "token.",
        .words = "init|inspect",
        .example = "twinfer model init model=tiny_qwen3 seed=1 out=models/tiny",
        .run = cmd_model,
    },
    {
        .name = "trace",
        .bit = CMD_TRACE,
        .columns = "exit_code processes kernels launches ranges dropped bytes",
        .summary = "record what a CUDA program does on its GPUs",
        .about = "Runs the command with libtwinfer_inject.so in every CUDA process it starts; "
                 "nothing in it needs to change. Kernels, copies, sets, synchronization, CUDA "
                 "graphs, NVTX ranges and launch times go to one spool per process. The exit code "
                 "is the command's.",
        .program = true,
        .example = "twinfer trace trace.range=decode@* out=traces/t1 -- python generate.py",
        .run = cmd_trace,
    },
    {
        .name = "doctor",
        .bit = CMD_DOCTOR,
        .summary = "what this machine has and lacks, with the remedy",
        .about = "Looks at the driver, the GPUs, the libraries that are opened at run time and "
                 "the machine's settings, and for folders that killed processes left unfinished. "
                 "Nothing is changed, unless doctor.remove_partial=true: then those folders are "
                 "removed, never one that may still be written. Exit code 4 when something that "
                 "GPU commands cannot do without is missing.",
        .example = "twinfer doctor",
        .run = cmd_doctor,
    },
    {0},
};
