/* The commands of the program, each once. A command's number, its bit in option rows (CMD_BENCH),
 * its name, and its row `cmd_bench` (cmd/cmd.h) all follow from its line here; overviews list the
 * commands in this order.
 *
 * To add one: a line here, src/cmd/<name>.c with its row, configs/<name>.yaml; then `./do docs`. */
#ifndef CONFIG_COMMAND_H
#define CONFIG_COMMAND_H

#include <stdint.h>

#include "base/str.h"

#define COMMANDS(X)         \
    X(WORKLOAD, workload)   \
    X(BENCH, bench)         \
    X(SERVE, serve)         \
    X(PROFILE, profile)     \
    X(SIMULATE, simulate)   \
    X(COMPARE, compare)     \
    X(CAPACITY, capacity)   \
    X(SEARCH, search)       \
    X(CALIBRATE, calibrate) \
    X(FIT, fit)             \
    X(SETTINGS, settings)   \
    X(REPORT, report)       \
    X(KERNELS, kernels)     \
    X(MODEL, model)         \
    X(LOGITS, logits)       \
    X(TRACE, trace)         \
    X(CAPTURE, capture)     \
    X(REPLAY, replay)       \
    X(ENERGY, energy)       \
    X(DEEP, deep)           \
    X(DOCTOR, doctor)

#define COMMAND_NUMBER(ID, name) COMMAND_##ID,
enum command { COMMANDS(COMMAND_NUMBER) N_COMMANDS };

/* Bits of option.commands. */
#define COMMAND_BIT(ID, name) CMD_##ID = 1 << COMMAND_##ID,
enum { COMMANDS(COMMAND_BIT) CMD_ANY = (1 << N_COMMANDS) - 1 };

static inline uint32_t command_bit(enum command c)
{
    return UINT32_C(1) << c;
}

const char *command_name(enum command c);
/* Names of a set: "workload, bench". */
void command_names(struct buf *out, uint32_t bits);

#endif
