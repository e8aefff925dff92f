/* request_overheads.json of a bundle: what a request pays once, outside the engine's iterations
 * (HTTP, tokenization, detokenization, the client). Such time passes beside the batches of others:
 * it is added to the latencies of a simulated request, and occupies no engine; front_s alone
 * stands before it. */
#ifndef PROFILE_READ_OVERHEADS_H
#define PROFILE_READ_OVERHEADS_H

#include "text/fields.h"

#define BUNDLE_OVERHEADS "request_overheads.json"

/* Seconds, >= 0. */
struct request_overheads {
    double front_s;        /* of the server's front before the engine sees it; requests that come
                            * together are ready together */
    double first_token_s;  /* before the first token reaches the client */
    double prompt_token_s; /* besides, per prompt token */
    double completion_s;   /* besides, from the last token to the end that the client sees */
    double stream_s; /* besides, before the first token, per request that runs beside it: a server
                      * hands the tokens of a batch out one after the other */
    const char *source; /* where they come from; NULL = not stated */
};
/* What requests pay at an OpenAI-style server in Python that nobody measured, and the prior of
 * calibrations (docs/methodology.md). Of 128 requests at once the first reached vLLM 0.24's engine
 * after 160 ms. A few ms to parse, tokenize and answer, a client as much
 * again; tokenizers encode 0.3 to 1 million tokens a second, a process streams some 40,000 out. */
extern const struct request_overheads request_overheads_server;

/* Where the overheads of a prediction come from: values of predictor.request_overheads. */
enum request_overheads_from {
    OVERHEADS_BUNDLE, /* request_overheads.json of the bundle; none where there is no such file */
    OVERHEADS_SERVER, /* request_overheads_server */
    OVERHEADS_NONE,
};

/* The members of the file and of run_meta.json's request_overheads; first_token_s is required. */
extern const struct fields request_overheads_fields;

/* *out: NULL when there is no such file. ST_INPUT names file, line and column. */
enum st request_overheads_load(struct arena *a, const char *path, struct request_overheads **out,
                               struct err *e);

#endif
