#!/bin/sh
# Names can be searched: a struct, union or enum tag is defined in one file of src/ and inject/, and
# one folder has a .c or .h of a given name. What stands more than once is listed below with how
# often and why; a name that comes back, or one that is unique by now, fails.
set -eu
cd "$(dirname "$0")/../.."

# Not counted: files of src/cmd and src/job/options, named after the command or section of settings
# that they hold, options.c of a stage, its settings, and files of src/gpu/abi, named after the
# library whose interface they declare.
uncounted='^src/(cmd|job/options|gpu/abi)/|/options\.c$'

# kind name times: reason
allowed='
tag trace_writer 2: opaque in trace/trace.h; each format defines its own
file calibrate 2: job/calibrate sets up the stage of that name
file capture 2: inject/ records what src/capture reads
file cupti 2: inject/ uses what src/gpu opens
file engine 4: engine/engine is the interface; one per device; job/engine sets them up
file executor 2: interface (serve) and its simulated member (sim)
file forward 3: one per device; calibrate/forward: not renamed yet
file kernels 3: one per device; kernels/kernels is a stage
file kv 2: bookkeeping (serve) and memory on the device (engine/cuda)
file matmul 2: of the GPU library (gpu), and of the engine on top of it (engine/cuda)
file memory 3: job/memory sets up serve/memory; capsule/memory: not renamed yet
file monte_carlo 2: job/monte_carlo sets up search/monte_carlo
file nvtx 2: inject/ uses what src/gpu declares
file passes 3: job/passes sets up profile/passes; engine/worker/passes asks a worker for them
file power_cap 2: measured in profile/, read in profile/read/
file predictor 2: job/predictor sets up sim/predictor
file probe 3: job/probe sets up search/probe; energy/probe: not renamed yet
file registry 2: one per family of members
file run 2: the files of a run (artifact) and carrying one out (job)
file settings 2: src/trace/record.c writes what inject/ reads
file sim 2: job/sim sets up the stage of that name
file weights 3: layout (model) and one per device
file worker 3: job/worker sets up engine/worker; replay/worker: not renamed yet
'
# Not renamed yet: take a line off when its file gets a name of its own.
later='bundle 2, capsule 2, check 3, classes 2, clock 2, config 2, counters 2, decode 2, defaults 2,
figures 2, find 2, fit 3, folders 2, formats 2, format 2, iterations 3, iteration 2, json_write 2,
launch 2, lengths 2, load 4, measure 2, names 3, node 2, notes 3, parts 3, plan 2, pool 2, power 2,
predict 2, program 2, random 2, ranges 2, read 2, record 2, roofs 2, rows 2, sampler 2,
server_log 2, session 3, source 2, stages 3, stats 3, steps 2, stream 4, summary 2, tables 2,
table 3, tell 2, timing 2, tokens 2, trace 2, turns 2, write 3'

sources=$(git ls-files 'src/*.[ch]' 'inject/*.[ch]')
{
    printf '%s\n' "$allowed" | sed -n 's/^\([a-z]* [a-z0-9_]* [0-9]*\): ..*/allowed \1/p'
    printf '%s\n' "$later" | tr ',' '\n' | sed -n 's/^ *\([a-z0-9_]* [0-9]*\)$/allowed file \1/p'
    printf '%s\n' "$sources" | grep -Ev "$uncounted" | sed 's/\.[ch]$//' | sort -u | sed 's|.*/\(.*\)|file \1 &|'
    # shellcheck disable=SC2086  # a list of files
    awk '/^[^*\/]*(struct|union|enum) [a-z0-9_]+ \{/ {
        match($0, /(struct|union|enum) [a-z0-9_]+ \{/)
        split(substr($0, RSTART, RLENGTH), w, " ")
        print "tag", w[2], FILENAME
    }' $sources | sort -u
} | awk '
$1 == "allowed" { times[$2 " " $3] = $4; next }
{ n[$1 " " $2]++; where[$1 " " $2] = where[$1 " " $2] " " $3 }
END {
    for (name in n)
        if (n[name] > 1 && n[name] != times[name]) {
            print "names: " name " stands " n[name] " times:" where[name]; bad = 1
        }
    for (name in times)
        if (n[name] < 2) {
            print "names: " name " is unique now; take it off the list in scripts/ci/names.sh"; bad = 1
        }
    exit bad
}'
