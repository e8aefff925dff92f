#include "artifact/columns.h"

#define AT(member)      offsetof(struct run_request, member)
#define COUNT_OF(table) (sizeof(table) / sizeof *(table))

static const struct run_column requests[] = {
    {"request_id", CELL_INT, NEED_VALUE, AT(request_id), 0, "unique, >= 0; rows are sorted by it"},
    {"arrival_time_ns", CELL_INT, NEED_VALUE, AT(arrival_ns), 0,
     "planned arrival; in a closed loop, and of later turns of a session, the planned moment"},
    {"first_token_time_ns", CELL_INT, NEED_COLUMN, AT(first_token_ns), 0,
     "first output token; empty when none came"},
    {"ttft_ns", CELL_SPAN, NEED_COLUMN, AT(first_token_ns), AT(arrival_ns),
     "first_token_time_ns - arrival_time_ns"},
    {"completion_time_ns", CELL_INT, NEED_OURS, AT(completion_ns), 0,
     "last output token, or the end of the failed request; a foreign file may lack the column"},
    {"num_prefill_tokens", CELL_COUNT, NEED_VALUE, AT(num_prefill_tokens), 0, "prompt tokens"},
    {"num_decode_tokens", CELL_COUNT, NEED_VALUE, AT(num_decode_tokens), 0,
     "output tokens asked for, the first included"},
    {"num_decode_tokens_actual", CELL_COUNT, NEED_VALUE, AT(num_decode_tokens_actual), 0,
     "output tokens that came; fewer after an early end of sequence"},
    {"status", CELL_STATUS, NEED_VALUE, AT(status), 0,
     "ok, error, timeout, rejected or cancelled; an early end of sequence is ok"},
    {"scheduled_time_ns", CELL_INT, NEED_OPTIONAL, AT(scheduled_ns), 0, "first time in a batch"},
    {"sent_time_ns", CELL_INT, NEED_OPTIONAL, AT(sent_ns), 0, "actual send"},
    {"ttft_sent_ns", CELL_SPAN, NEED_OPTIONAL, AT(first_token_ns), AT(sent_ns),
     "first_token_time_ns - sent_time_ns"},
    {"preemptions", CELL_INT, NEED_OPTIONAL, AT(preemptions), 0,
     "times its KV blocks were taken back and recomputed"},
    {"backend", CELL_TEXT, NEED_OPTIONAL, AT(backend), 0, "engine that served it"},
    {"prompt_id", CELL_TEXT, NEED_OPTIONAL, AT(prompt_id), 0, "prompt_id of the workload"},
    {"error_type", CELL_TEXT, NEED_OPTIONAL, AT(error_type), 0, "short name of the failure"},
    {"error_msg", CELL_TEXT, NEED_OPTIONAL, AT(error_msg), 0, "its text"},
    {"warmup", CELL_FLAG, NEED_OPTIONAL, AT(warmup), 0, "1 = left out of all metrics"},
    {"energy_j", CELL_DOUBLE, NEED_OPTIONAL, AT(energy_j), 0,
     "its share of the energy of its batches, J; written where operators have energy"},
    {"session_id", CELL_INT, NEED_OPTIONAL, AT(session_id), 0,
     "its session; written where the workload has some"},
    {"turn", CELL_INT, NEED_OPTIONAL, AT(turn), 0, "its place in the session, from 1"},
};

#undef AT
#define AT(member) offsetof(struct run_token, member)

static const struct run_column tokens[] = {
    {"request_id", CELL_INT, NEED_VALUE, AT(request_id), 0, "a request of request_metrics.csv"},
    {"token_index", CELL_INT, NEED_VALUE, AT(token_index), 0,
     "0 = the first output token, then without gaps"},
    {"token_time_ns", CELL_INT, NEED_VALUE, AT(token_time_ns), 0, "never before the token before"},
    {"token_latency_ns", CELL_INT, NEED_VALUE, AT(token_latency_ns), 0,
     "gap to the token before; 0 for token 0"},
    {"token_id", CELL_INT, NEED_OPTIONAL, AT(token_id), 0, "id in the model's vocabulary"},
};

#undef AT
#define AT(member) offsetof(struct run_batch, member)

static const struct run_column batches[] = {
    {"iteration", CELL_INT, NEED_VALUE, AT(iteration), 0, "count of the scheduler, from 0"},
    {"replica", CELL_INT32, NEED_VALUE, AT(replica), 0, "from 0"},
    {"stage", CELL_INT32, NEED_VALUE, AT(stage), 0, "pipeline stage, from 0"},
    {"start_ns", CELL_INT, NEED_VALUE, AT(start_ns), 0, "start of the iteration on that stage"},
    {"duration_ns", CELL_INT, NEED_VALUE, AT(duration_ns), 0, "host and device part together"},
    {"host_ns", CELL_INT, NEED_COLUMN, AT(host_ns), 0, "part spent on the host"},
    {"device_ns", CELL_INT, NEED_COLUMN, AT(device_ns), 0, "part spent in operators"},
    {"num_prefill_tokens", CELL_COUNT, NEED_VALUE, AT(num_prefill_tokens), 0,
     "prompt tokens in the batch"},
    {"num_decode_tokens", CELL_COUNT, NEED_VALUE, AT(num_decode_tokens), 0,
     "sequences that decode one token"},
    {"batch_size", CELL_COUNT, NEED_VALUE, AT(batch_size), 0, "sequences in the batch"},
    {"kv_blocks", CELL_INT, NEED_COLUMN, AT(kv_blocks), 0, "KV blocks in use"},
};

const struct run_table run_tables[RUN_FILES] = {
    [RUN_REQUESTS] = {"request_metrics.csv", sizeof(struct run_request), requests,
                      COUNT_OF(requests)},
    [RUN_TOKENS] = {"token_metrics.csv", sizeof(struct run_token), tokens, COUNT_OF(tokens)},
    [RUN_BATCHES] = {"batches.csv", sizeof(struct run_batch), batches, COUNT_OF(batches)},
};

_Static_assert(COUNT_OF(requests) <= RUN_MAX_COLUMNS, "raise RUN_MAX_COLUMNS");

static const char *const status_names[] = {"ok", "error", "timeout", "rejected", "cancelled"};

const char *run_status_name(enum run_status s)
{
    return status_names[s];
}

bool run_status_parse(struct sv text, enum run_status *out)
{
    for (size_t i = 0; i < COUNT_OF(status_names); i++) {
        if (sv_eq(text, status_names[i])) {
            *out = (enum run_status)i;
            return true;
        }
    }
    return false;
}
