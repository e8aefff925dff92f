#include "job/options/options.h"

static const struct option rows[] = {
    {AT("from", calibrate.from), .commands = CMD_CALIBRATE,
     .help = "records of runs that are fitted: run directories, or what vllm bench serve or sweep, "
             "SGLang, inference-perf, GuideLLM, AIPerf, GenAI-Perf, LLMPerf or trtllm-bench wrote"},
    {KEY(calibrate.iteration_log), .commands = CMD_CALIBRATE, .when = WHEN(ALWAYS_SET("from")),
     .help = "logs of vLLM servers with --enable-logging-iteration-details, of the runs of from in "
             "their order, none = of that run none is taken; when unset, iterations.log or "
             "iterations.log.gz in its folder"},
    {KEY(calibrate.server_log), .commands = CMD_CALIBRATE, .when = WHEN(ALWAYS_SET("from")),
     .help = "logs of the vLLM servers themselves, from their start, of the runs of from in their "
             "order, none = of that run none is taken: scheduler settings that they state; when "
             "unset, server.log or iterations.log in its folder, where it states any"},
    {AT("stages", calibrate.stages), .commands = CMD_CALIBRATE, .when = WHEN(ALWAYS_SET("from")),
     .help = "stages of these that are fitted; all when unset"},
    {AT("check", calibrate.check), .commands = CMD_CALIBRATE,
     .help = "records of other runs that are predicted and not fitted; without from= by the prior "
             "alone, uncalibrated"},
    {KEY(calibrate.forward), .commands = CMD_CALIBRATE,
     .help = "device times of exact batches on that GPU, which the fit begins with besides: what "
             "vllm bench forward --output-json wrote (vLLM 0.33)"},
    {AT("prior", calibrate.prior), .commands = CMD_CALIBRATE,
     .help = "folders of other calibrations, of other models too, that the fit begins with beside "
             "the roofline"},
};

OPTION_SECTION(calibrate, rows);
