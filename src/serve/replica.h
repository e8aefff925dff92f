/* One replica: its queue, its lanes with their decode sets, its KV blocks, its batches in flight;
 * and the functions with which a policy builds a batch.
 *
 * States of a request: waiting -> (admit) -> prefills -> (last chunk submitted) -> the lane's ready
 * list -> (next build) -> decode set -> (last token's batch submitted) -> that flight's finishing
 * list -> over. On a prefill replica the last chunk's batch leads to that flight's leaving list ->
 * (transfer) -> a decode replica's received list -> its lane's ready list. replica_preempt leads
 * from prefills and decode set back to the front of the queue. */
#ifndef SERVE_REPLICA_H
#define SERVE_REPLICA_H

#include "base/vec.h"
#include "serve/decode_set.h"
#include "serve/sched/sched.h"
#include "serve/speculate.h"

/* A batch from its first row to its completion. */
struct flight {
    struct batch b;
    uint64_t ticket;
    VEC(struct chunk) chunks;
    VEC(struct request *) chunk_requests; /* beside chunks */
    VEC(int32_t) left, entered;
    struct link finishing; /* requests whose last token this batch emits */
    struct link leaving;   /* prefill replicas: requests whose prefill this batch completes */
    bool out;              /* submitted and not completed */
    bool runs_decodes;
    int64_t waiting, running;    /* in the replica, when submitted */
    VEC(struct spec_step) steps; /* with speculation: of its decode rows */
    int64_t spec_blocks;         /* taken for its decode rows, all drafts accepted */
    VEC(struct detached) detached;
    int32_t hollow; /* steps without a batch right behind it */
    int64_t tick;   /* of the lane's last batch with its decode set, this one included */
    double look_s;  /* virtual clock: when a host begins to take its tokens */
    bool seen;      /* and has begun */
    double due_s;   /* and when the loop handles it */

    /* A completion known ahead of its time (virtual executors), arrays copied here. */
    struct completion c;
    VEC(struct emitted) tokens;
    VEC(int32_t) ended;
    VEC(struct stage_span) stages;
    double op_s[OP_ROWS];
};

/* A request taken out of what a batch in flight holds: preempted, or left idle. */
struct detached {
    struct request *q;
    bool decodes; /* a decode row of it, else a chunk */
};

/* The sink's decision to end a request. */
struct request_verdict {
    struct request *q;
    enum run_status status;
};

/* A request that ended while later batches with it were out. */
struct zombie {
    struct request *q;
    int64_t until; /* batches of the lane that must have come back */
};

struct lane {
    struct decode_set set;
    struct link ready;
    VEC(int32_t) left, entered; /* changes of the set not yet sent with a batch */
    int64_t submitted, delivered;
    int64_t delivered_then; /* when its last batch was submitted */
    int64_t train;          /* batches since its last one with chunks */
    int64_t decode_batches; /* for the policy: lightllm counts those since its last admission */
    double last_end_s;
    struct spent spent;         /* time and energy of delivered batches with its set */
    VEC(struct zombie) zombies; /* over, but held by batches in flight; ascending by until */
    VEC(int64_t) ends_ns;       /* end of tick ends_from + i, for token rows of predictions */
    int64_t ends_from;
};

/* What was computed of a session: prompt and answer of its last turn. */
struct said {
    int32_t *ids; /* heap */
    int64_t n;
};

/* State shared by the replicas of a run. */
struct serve_run_state {
    const struct serve_params *p;
    const struct sched_ops *sched;
    const struct serve_sink *sink;
    struct serve_counters *counters;
    struct request_pool pool;
    struct arena *a;
    struct release *release; /* NULL: nothing follows from ends */
    VEC(struct said) said;   /* by the release's session; computing executors only */
    bool computes;           /* the executors do */
    double event_s;          /* time of the arrival or completion being handled */
    bool write_tokens;       /* the sink takes token rows */
    int64_t finished;        /* request rows written */
};

struct replica {
    struct serve_run_state *run;
    int32_t index;
    struct executor ex;
    bool computes;

    struct request_queue waiting;
    struct link prefills; /* by order of admission */
    struct link running;  /* all that hold KV blocks, by order of admission */
    int64_t admissions;
    size_t head;          /* place in the queue of the request to admit next */
    bool only_prefills;   /* with disaggregation */
    struct link received; /* transferred here, not admitted yet */
    int64_t coming;       /* those and the transfers on their way */
    int64_t active;       /* requests holding KV blocks */
    struct kv kv;
    struct speculation speculation;
    struct lane *lanes; /* [n_lanes], and one that never runs: decodes that rest (lanes.c) */
    int32_t n_lanes;
    bool shares;                 /* SCHED_SHARES, several lanes, one batch each in flight */
    VEC(struct request *) slots; /* by slot; NULL = free */
    VEC(int32_t) free_slots;
    int64_t iterations, preemptions;
    int64_t joins; /* order given to the next member of a decode set, unless a policy gives one */

    struct flight *flights; /* [max_in_flight] */
    int32_t max_in_flight, in_flight, per_lane;
    bool queues;          /* steps without a batch stand in the queue of those out (turns.c) */
    bool turns;           /* and lanes take turns, with one batch more than lanes out */
    int64_t turn;         /* counts also those without a batch */
    int32_t hollow;       /* steps without a batch in the queue of those out, */
    int32_t hollow_first; /* those of them ahead of every batch */
    struct flight *last;  /* submitted last */
    VEC(struct flight *) free_flights;
    VEC(struct request_verdict) over; /* the sink's verdicts on the current batch */
    struct flight *build;             /* the batch being built */
    double idle_until_s;              /* when a request ended the last idle time */
    bool dirty;                       /* listed for scheduling (serve.c) */
    double host_until_s;    /* virtual clock: the host is busy until then; 0 = no account is kept */
    bool host_turn;         /* it has taken a batch's tokens, and schedules before it looks again */
    bool host_fills;        /* it launches, and builds the next batch before it looks for tokens */
    bool host_awaited;      /* and the loop comes back at that moment */
    int64_t waiting_tokens; /* to be computed for the prefills in the queue, ignoring cache hits */
};

void replica_init(struct replica *r, struct serve_run_state *run, int32_t index,
                  struct executor ex);
void replica_free(struct replica *r);

/* ---- for the loop (the life of batches: flights.c) --------------------------------------------
 */

void replica_enqueue(struct replica *r, struct request *q, double from_s);

/* The transfer of q's KV has ended: frees its blocks and slot here. */
void replica_sent(struct replica *r, struct request *q);
/* A transferred request arrived. */
void replica_receive(struct replica *r, struct request *q);
/* Cancels a waiting request that was in no batch yet, with a row. False: it is not here, or has
 * started. */
bool replica_drop_waiting(struct replica *r, int64_t request_id);

/* Let the policy build a batch for the lane, and submit it. *f = NULL: nothing to run. start_s:
 * when the host began to build it. */
enum st replica_submit(struct replica *r, int32_t lane, double start_s, struct flight **f,
                       struct err *e);

/* Where r->queues, the next step (turns.c): builds and submits a batch. *f as above. False: every
 * place in the queue of batches out is taken, or there is nothing to wait for. */
bool replica_next_step(struct replica *r);
enum st replica_take_step(struct replica *r, double start_s, struct flight **f, struct err *e);

/* Requests of the lane whose prefill is complete enter its decode set. */
void replica_gather_ready(struct replica *r, struct lane *lane);

/* Removes q, which waits, from the queue. */
void replica_unqueue(struct replica *r, struct request *q);

/* Removes q from the decode set; the executor is notified only if it was notified of the entry. */
void replica_leave_set(struct lane *lane, struct request *q);

/* Releases all of q's blocks; q is in no list, or about to leave it. */
void replica_give_blocks(struct replica *r, struct request *q);
/* The same, and removes q from the admitted requests. */
void replica_let_go(struct replica *r, struct request *q);
/* Releases q's blocks and slot. */
void replica_drop(struct replica *r, struct request *q);
/* Admits the first received request: gives it a slot and blocks for its KV. False, and nothing
 * done, where batch cap, blocks and watermark do not allow it. */
bool replica_let_in(struct replica *r, struct request *q);

/* The flight of a completion; NULL when there is none of that ticket. */
struct flight *replica_flight(struct replica *r, uint64_t ticket);

/* Book a completion: rows of tokens, requests and the batch; freed blocks and slots. */
enum st replica_complete(struct replica *r, struct flight *f, const struct completion *c,
                         struct err *e);

/* Writes rows of that status for all requests that are not over; only replica_free may follow. */
void replica_abandon(struct replica *r, enum run_status status, const char *error_type,
                     const char *error_msg);

/* ---- for policies --------------------------------------------------------------------------- */

static inline struct decode_set *replica_set(struct replica *r, int32_t lane)
{
    return &r->lanes[lane].set;
}

/* Rows that the batch under construction has. */
int64_t replica_rows(const struct replica *r);

/* Tokens that the lane's decode set computes in a batch. */
int64_t replica_decode_tokens(const struct replica *r, int32_t lane);

/* Adds the lane's decode set to the batch; the blocks it needs must be free. */
void replica_run_decodes(struct replica *r, int32_t lane);

/* Where pipeline lanes share idle decodes, a request belongs to a lane only while a batch of it is
 * in flight. Moves all idle decodes to the lane's decode set; beyond `most`, the last in order stay
 * idle. Only where r->shares. */
void replica_gather(struct replica *r, int32_t lane, int64_t most);

/* Makes the lane's decodes idle, for any lane to run: its batch does not include them. Only where
 * r->shares. */
void replica_rest(struct replica *r, int32_t lane);

/* Moves decodes left out of a batch (replica_leave_out) back to the lane's decode set. */
void replica_take_rested(struct replica *r, int32_t lane);

/* Makes q, a member of the lane's decode set, idle: its batch does not include it. */
void replica_leave_out(struct replica *r, struct request *q);

/* Prefills that a batch of the lane may continue, in order of admission: pass NULL for the first.
 * Skips those in flight on other lanes, unless chunks follow each other (SCHED_CHUNKS_FOLLOW). */
struct request *replica_next_prefill(struct replica *r, int32_t lane, struct request *after);
struct request *replica_last_prefill(struct replica *r, int32_t lane);

/* A chunk of an admitted request. False, and nothing done, when the blocks it needs are not free.
 */
bool replica_chunk(struct replica *r, int32_t lane, struct request *q, int64_t tokens);

/* The request to admit next, NULL when none waits. Skips requests that batches in flight still
 * hold. With prefix caching its kv is the number of its tokens in the cache. */
struct request *replica_head(struct replica *r);

/* Whether the head of the queue (replica_head) may be admitted with blocks for that many tokens:
 * the batch cap, and free blocks above the watermark. An otherwise empty replica needs no
 * watermark. */
bool replica_can_admit(const struct replica *r, int64_t reserve_tokens);

/* Admit the head of the queue with blocks for reserve_tokens and a first chunk of `tokens`,
 * starting at head->kv. Where that covers all it will need, no more are taken later. */
void replica_admit(struct replica *r, int32_t lane, int64_t reserve_tokens, int64_t tokens);

/* With KV groups (r->kv.pool), in place of the two: admits the head of the queue with a first chunk
 * of `tokens`. False, and nothing done, where batch cap, blocks or watermark do not allow it. */
bool replica_admit_tables(struct replica *r, int32_t lane, int64_t tokens);
/* And makes room for the next token of q, a decode that is due. False where blocks do not suffice.
 */
bool replica_decode_tables(struct replica *r, struct request *q);

/* Requests that a lane may hold: its share of the batch cap, at least 1. */
static inline int64_t replica_lane_cap(const struct replica *r)
{
    int64_t share = r->run->p->batch_cap / r->n_lanes;
    return share > 0 ? share : 1;
}

/* The last prefill begun, else the last decode, idle ones after the lane's own. This is the order
 * of admission, since prefills were admitted after every decode. NULL when there is none. */
struct request *replica_last_running(struct replica *r, int32_t lane);

/* The request admitted last, in whatever state; NULL when there is none. */
struct request *replica_last_admitted(struct replica *r);

/* Preempt from the back until each decode of the lane in turn finds a free block, needed or not
 * (the rule of vLLM before V1). False: a preemption has to wait. */
bool replica_make_room(struct replica *r, int32_t lane);

/* Whether a preemption may happen now: no batch of the lane is in flight. */
bool replica_may_preempt(const struct replica *r, int32_t lane);

/* Moves q to the front of the queue and frees its blocks; q is a prefill without chunk in this
 * batch, or a decode of a lane whose set was not added to the batch yet. Batches in flight that
 * hold it complete: their tokens for it count, and it is not admitted before (serve/detached.h). */
void replica_preempt(struct replica *r, struct request *q);

#endif
