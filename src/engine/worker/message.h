/* Messages of the worker protocol (docs/worker-protocol.md): lines from a worker as values, and the
 * lines twinfer sends. Syntax and types are checked here, the sequence of messages elsewhere. */
#ifndef ENGINE_WORKER_MESSAGE_H
#define ENGINE_WORKER_MESSAGE_H

#include "text/node.h"

enum {
    WORKER_PROTOCOL = 1,
    WORKER_LINE_MAX = 1 << 20, /* bytes of a worker's line */
    WORKER_NAME_MAX = 64,      /* bytes of its name */
};

enum worker_event_type {
    WORKER_HELLO,
    WORKER_READY,
    WORKER_CLOCK,
    WORKER_TOKENS,
    WORKER_BATCH,
    WORKER_FINISHED,
    WORKER_ERROR,
    WORKER_PASSED, /* only in answer to a pass */
};
const char *worker_event_name(enum worker_event_type t); /* "hello" */

/* Kinds of passes that a worker can be asked for, as bits: the capability `passes`. */
enum worker_pass_kind {
    WORKER_PASS_DECODE = 1 << 0, /* sequences that decode */
    WORKER_PASS_PROMPT = 1 << 1, /* tokens of one prompt, nothing cached before */
    WORKER_PASS_CHUNK = 1 << 2,  /* the same after cached tokens of it */
    WORKER_PASS_MIXED = 1 << 3,  /* a prompt's tokens beside sequences that decode */
};

enum worker_reason { WORKER_LENGTH, WORKER_STOP, WORKER_CANCELLED };

struct worker_hello {
    int64_t protocol; /* when it is not WORKER_PROTOCOL nothing below is filled in */
    const char *name, *version;
    const char *clock_kind, *boot_id; /* boot_id: NULL = not given */
    bool prompt_ids, prompt_text, token_ids, batches, cancel;
    int64_t max_model_len; /* 0 = no limit */
    uint32_t passes;       /* enum worker_pass_kind; 0 = it carries out none on request */
    const struct node *capabilities;
};

struct worker_tokens {
    int64_t t_ns;
    size_t n;
    int64_t *ids;    /* [n] */
    int64_t *tokens; /* [n] or NULL */
};

struct worker_batch {
    int64_t start_ns, end_ns;
    int64_t device_ns; /* -1 = not given */
    int64_t num_prefill_tokens, num_decode_tokens, batch_size;
};

struct worker_passed {
    int64_t id;
    size_t n;
    int64_t *total_ns;  /* [n] */
    int64_t *device_ns; /* [n] each at most total_ns, or NULL */
};

struct worker_event {
    enum worker_event_type type;
    long line; /* of the worker's output */
    union {
        struct worker_hello hello;
        struct {
            int64_t seq, recv_ns, send_ns;
        } clock;
        struct worker_tokens tokens;
        struct worker_batch batch;
        struct worker_passed passed;
        struct {
            int64_t id, num_tokens, scheduled_ns; /* scheduled_ns: -1 = not given */
            enum worker_reason reason;
        } finished;
        struct {
            int64_t id;                        /* -1 = the worker as a whole */
            const char *message, *kind, *hint; /* kind, hint: NULL = none */
        } error;
    };
    const struct node *info; /* of hello and ready: a map or NULL */
};

/* One line without its end. All of *out lives in the arena. Faults are ST_INPUT at
 * "worker:<line>:<column>". */
enum st worker_event_read(struct arena *a, struct sv text, long line, struct worker_event *out,
                          struct err *e);

/* ---- what is sent: each adds one line with its end ---------------------------------------- */

struct worker_greeting {
    const char *model_name, *model_dir, *weights; /* dir, weights: NULL = null */
    const struct node *model_config;              /* NULL = {} */
    const char *device;
    uint64_t seed;
    int64_t max_tokens;
    const struct node *options; /* map or NULL */
};
void worker_put_hello(struct buf *out, struct arena *scratch, const struct worker_greeting *g);
void worker_put_clock(struct buf *out, int64_t seq);

struct worker_submit {
    int64_t id, planned_ns, num_prefill_tokens, max_tokens;
    const int32_t *prompt_ids; /* [num_prefill_tokens], or */
    const char *prompt;        /* text */
    bool ignore_eos;
};
void worker_put_submit(struct buf *out, const struct worker_submit *s);
/* A pass and how often it is carried out (docs/worker-protocol.md). */
struct worker_pass {
    int64_t id;
    int64_t decode_sequences, cached_tokens; /* of each of them, before the pass */
    int64_t chunk_tokens, chunk_cached_tokens;
    int64_t warmup, repeats;
};
void worker_put_pass(struct buf *out, const struct worker_pass *p);
void worker_put_cancel(struct buf *out, int64_t id);
/* "drain", "shutdown" */
void worker_put_plain(struct buf *out, const char *type);

#endif
