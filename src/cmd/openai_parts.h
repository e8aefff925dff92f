/* bench engine=openai, in parts. Private to cmd/openai*.c. */
#ifndef CMD_OPENAI_PARTS_H
#define CMD_OPENAI_PARTS_H

#include "base/contention.h"
#include "client/outcome.h"
#include "client/preflight.h"
#include "cmd/openai.h"

struct bench {
    struct cmd_context *c;
    struct job_model m;
    struct job_workload w;
    struct tokenizer *counter; /* of answers: of openai_tokenizer(); NULL = none was named */
    struct client_params client;
    struct body_params body; /* what each request holds beside its prompt */
    struct preflight preflight;
    struct client_request *requests; /* [w.w.n] */
    struct client_result *results;
    struct outcome_limits limits;
    const char *goodput; /* as given, or NULL */
    const char *url, *models_url, *served_model;
    const char **secrets;       /* of client.secrets */
    struct node *shown_headers; /* what run_meta.json says of the headers */
    struct client_health health;
    struct contention busy;
};

/* openai_settings.c: url, client, body and limits from the plan. */
enum st openai_settings(struct bench *b, struct err *e);

/* openai_server.c. The name under which the server knows the model: the plan's, else what the
 * server says it serves, else the model's own. */
enum st openai_find_model(struct bench *b, struct err *e);
/* Asks the server what it takes and settles b->body. */
enum st openai_preflight(struct bench *b, struct err *e);
/* run_meta.json's `http`. */
struct node *openai_http_node(const struct bench *b);

#endif
