#include "config/option_rows.h"
#include "profile/read/hardware.h"

#define SETTINGS struct hardware

/* Predictors that measure read nothing of these. */
#define FROM_PEAKS WHEN(SIMULATOR, NOT("predictor.kind", "@measured"))
/* clang-format off */
#define PEAK(type, what)                                                              \
    {IN(hardware, peak_tflops.type), .unit = "TFLOP/s", .max = 1e9,                   \
     .commands = SIMULATES | CMD_CALIBRATE | CMD_SERVE | CMD_DEEP, .when = FROM_PEAKS,            \
     .help = "peak rate of " what}
/* clang-format on */

static const struct option rows[] = {
    {IN(hardware, id), .commands = HOLDS | CMD_PROFILE | CMD_KERNELS | CMD_DEEP,
     .help = "name of the hardware: the folder of its profiling bundle"},
    {IN(hardware, memory_gb), .unit = "GiB", .min = 1e-3, .max = 1e6, .commands = HOLDS,
     .when = WHEN(OUR_BATCHES),
     .help = "memory of one device: plans scheduler.num_blocks where that is unset"},
    {IN(hardware, reserved_gb), .unit = "GiB", .max = 1e6, .commands = HOLDS,
     .when = WHEN(OUR_BATCHES, SET("hardware.memory_gb")),
     .help = "of that memory, what the driver keeps from programs"},
    {IN(hardware, memory_margin), .def = "0.1", .max = 0.999, .commands = HOLDS,
     .when =
         WHEN(OUR_BATCHES, SET("hardware.memory_gb"), UNSET("scheduler.gpu_memory_utilization")),
     .help = "fraction of that memory the plan leaves free"},
    {IN(hardware, kv_cache_gb), .unit = "GiB", .max = 1e6, .commands = PLANS,
     .when = WHEN(OUR_BATCHES, UNSET("hardware.memory_gb")),
     .help = "most keys and values of an engine that keeps them in the host's memory; 2 when "
             "unset, but simulations have to be told"},
    {IN(hardware, dram_gb_per_s), .unit = "GB/s", .max = 1e9,
     .commands = SIMULATES | CMD_CALIBRATE | CMD_SERVE | CMD_DEEP, .when = FROM_PEAKS,
     .help = "bandwidth of one device's memory"},
    PEAK(fp32, "float32, without tensor cores"),
    PEAK(tf32, "TF32 matrix products, dense as all of these"),
    PEAK(bf16, "bfloat16 matrix products"),
    PEAK(fp16, "float16 matrix products, summed in float32"),
    PEAK(fp8, "FP8 matrix products"),
    PEAK(fp4, "FP4 matrix products"),
    PEAK(int8, "int8 matrix products, in 10^12 operations"),
    {IN(hardware, link_gb_per_s), .unit = "GB/s", .max = 1e9,
     .commands = SIMULATES | CMD_CALIBRATE | CMD_SERVE | CMD_FIT, .when = WHEN(SIMULATOR),
     .help = "bandwidth from one device to the others, one direction: NVLink, else PCIe"},
    {IN(hardware, link_gpus), .unit = "GPUs", .min = 1, .max = 1 << 20,
     .commands = SIMULATES | CMD_CALIBRATE | CMD_SERVE, .when = FROM_PEAKS,
     .help =
         "devices that this link joins, as an NVLink bridge two; beyond them it is PCIe; all of "
         "a node when unset"},
    {IN(hardware, gpus_per_node), .unit = "GPUs", .min = 1, .max = 1 << 20,
     .commands = SIMULATES | CMD_CALIBRATE | CMD_SERVE, .when = FROM_PEAKS,
     .help = "devices of a node: more of them talk over the network; all when unset"},
    {IN(hardware, node_gb_per_s), .unit = "GB/s", .max = 1e9,
     .commands = SIMULATES | CMD_CALIBRATE | CMD_SERVE, .when = FROM_PEAKS,
     .help = "bandwidth from one device to those of other nodes, one direction"},
    {IN(hardware, pcie_gb_per_s), .unit = "GB/s", .max = 1e9,
     .commands = SIMULATES | CMD_CALIBRATE | CMD_SERVE | CMD_FIT, .when = WHEN(SIMULATOR),
     .help = "bandwidth from one device to the host, one direction"},
    {IN(hardware, host_speed), .min = 0.05, .max = 100,
     .commands = SIMULATES | CMD_CALIBRATE | CMD_SERVE, .when = FROM_PEAKS,
     .help = "how fast the host schedules and launches, of the hosts that the roofline's defaults "
             "were measured on; 1 when unset. A calibration tells: it is the prior's piece_layer_s "
             "or kernel_layer_s over the fitted one"},
    {IN(hardware, sms), .max = 1 << 20, .commands = SIMULATES | CMD_CALIBRATE | CMD_SERVE,
     .when = FROM_PEAKS, .help = "streaming multiprocessors of one device"},
    {IN(hardware, compute_capability), .max = 100, .commands = HOLDS, .when = WHEN(OUR_BATCHES),
     .help = "CUDA's compute capability, as 10.0: vLLM keeps keys and values of sparse latent "
             "attention in other layouts from there; that of Hopper when unset"},
    {IN(hardware, profile_root), .commands = SIMULATES | CMD_SERVE, .when = WHEN(SIMULATOR),
     .help =
         "measured bundles that ship with the hardware: read where profile.root is not chosen and "
         "has none, and one of them holds the model"},
    {KEY(network_device), .commands = CMD_PROFILE | SIMULATES | CMD_CALIBRATE | CMD_SERVE,
     .when = WHEN(SIMULATOR), .help = "name of the interconnect: the folder of its network tables"},
};

OPTION_SECTION(hardware, rows);
