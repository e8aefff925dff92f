/* A workload against a server: from its requests to the files of a run and a verdict on it.
 *
 *     client_bench_prepare   bodies of all requests, and what the server accepts (preflight.h)
 *     client_bench_run       warm-up, the run (client.h), figures (outcome.h), the files
 *     client_bench_meta      members of the run's meta file
 *     client_bench_tell      warnings, once the folder is whole
 *     client_bench_judge     whether it is a measurement of the workload
 *
 * A prompt is the workload's text where that has the planned number of tokens; else a text of
 * exactly that many tokens is made from the text, or of words drawn by random ids (prompt_words.h);
 * or the ids themselves are sent. */
#ifndef CLIENT_BENCH_H
#define CLIENT_BENCH_H

#include "artifact/artifact.h"
#include "base/contention.h"
#include "client/outcome.h"
#include "client/preflight.h"
#include "client/scrape.h"
#include "workload/workload.h"

/* Order of option client.prompts. AUTO: ids where all prompts are drawn and the server was seen to
 * take them, else texts. */
enum client_prompts { CLIENT_PROMPTS_AUTO, CLIENT_PROMPTS_TEXT, CLIENT_PROMPTS_IDS };

/* Rows: client/options.c. What they do not fill is of the run. */
struct client_bench_params {
    struct client_params client;
    struct body_params body;    /* its model is the server's name of it */
    const char *api_key_env;    /* for client_headers_make */
    struct texts given_headers; /* likewise */
    int64_t server_pid;         /* whose power it is; 0 = not known */
    struct node *shown_headers; /* headers as shown in the meta file */

    const struct workload *w;
    const struct prompt *prompts; /* [n_prompts] */
    size_t n_prompts;
    const struct tokenizer *tokenizer; /* the model's, to make texts; NULL = none */
    const char *model, *tokenizer_id;  /* what messages and bench.json call them; id or NULL */
    int64_t vocab;                     /* of the model: ids below this */
    uint64_t seed;                     /* of random ids */
    enum client_prompts prompts_kind;
    bool as_ids; /* prompts are sent as token ids; of client_bench, which decides */

    bool preflight;
    int64_t warmup;          /* requests before the clock starts */
    int64_t warmup_requests; /* first ones of the workload, labelled and left out of figures */
    const struct tokenizer *counter; /* for answers; NULL = none */
    const char *counter_id;          /* its tokenizer.json */
    bool may_end_early;              /* answers shorter than requested are accepted */
    double max_wrong_lengths;        /* share of the answers */
    struct outcome_limits limits;
    const char *goodput; /* the limits as written, or NULL */

    double request_rate, burstiness; /* for bench.json; NAN = it is not of a rate */
    const struct rate_stage *stages; /* [n_stages] that the workload was made with */
    size_t n_stages;
    const char *metrics_url; /* of the server's own; NULL = they are not fetched */
    enum scrape_mode metrics_mode;
    bool tokens, answers; /* write token_metrics.csv, answers.jsonl */
    const volatile sig_atomic_t *stop;
};

extern const struct option_section client_options;

struct turns;
struct prompt_words;

struct client_bench {
    struct arena *a;
    struct body_maker *maker;
    struct turns *turns; /* bodies of later turns (client/turns.h); NULL = none */
    struct client_turns hook;
    struct client_bench_params p;
    struct preflight preflight;
    struct prompt_words *words;       /* of the tokenizer; NULL = none were needed */
    int64_t misfits;                  /* prompts of another length than planned */
    struct outcome_prompts p_prompts; /* what their lengths are judged by */
    size_t n;                         /* requests that are part of the run */
    struct client_request *requests;  /* [w->n] */
    struct client_result *results;
    struct client_health health;
    struct contention busy;
    struct scrape scrape;
    struct server_metrics server; /* where scrape.why is NULL */
    struct outcome_figures figures;
    struct node *json; /* bench.json; NULL before there are results */
};

/* Call client_bench_free in any case; *p is copied, its pointers are borrowed. */
enum st client_bench_prepare(struct arena *a, const struct client_bench_params *p,
                             struct client_bench *out, struct err *e);

/* Results and files exist also after ST_INTERRUPTED or when the server is gone (health.gave_up). */
enum st client_bench_run(struct client_bench *b, const struct artifact *art, struct err *e);

/* Members `http`, `client` and `output_lengths` of run_meta.json. */
void client_bench_meta(const struct client_bench *b, struct node *extra);
void client_bench_tell(const struct client_bench *b);

/* ST_REJECTED: the client did not keep its schedule, no request succeeded, or too many answers have
 * another length than requested. */
enum st client_bench_judge(const struct client_bench *b, struct err *e);
void client_bench_free(struct client_bench *b);

#endif
