#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "cmd/commands.h"
#include "job/record.h"
#include "job/sim.h"
#include "server/server.h"

/* Part of the KV cache touched before the server opens; the rest in the background. */
enum { READY_BYTES = 128 << 20 };

/* The parts of one server. */
struct service {
    struct job_context *c;
    const struct engine *engine;
    struct job_model m;
    struct predictor predictor; /* of engines that need one */
    struct tokenizer *tokenizer;
    struct chat_format chat;
    struct serve_params serve;
    struct serve_clock clock;
    struct executor *executors; /* [serve.replicas] */
    int32_t n_open;
    double late_s; /* engine=sim: the longest time behind the prediction */
    struct keys keys;
    struct server_params params;
    struct server *server;
};

/* Source of the times of engine=sim. */
static enum st open_predictor(struct service *s, struct engine_plan *plan, struct err *e)
{
    struct predictor_params params;
    TRY(job_predictor(s->c, &s->m, &params, &s->predictor, e));
    job_predictor_async(s->c, &params, &s->serve);
    TRY(job_predictor_blocks(s->c, &params, &s->serve, plan, e));
    const char *const remarks[] = {
        job_predictor_uncalibrated(s->c, &s->predictor), job_predictor_settings(s->c, &params),
        job_predictor_disturbed(s->c, &params), job_predictor_warning(s->c, &params)};
    for (size_t i = 0; i < sizeof remarks / sizeof *remarks; i++)
        if (remarks[i])
            log_warn("%s", remarks[i]);
    if (remarks[0])
        printf("prediction      %s\n", remarks[0]);
    return ST_OK;
}

static enum st load_chat(struct service *s, struct err *e)
{
    bool found = false;
    s->chat.kind = (enum chat_template)s->c->plan->chat_template;
    if (s->chat.kind != CHAT_MODEL)
        return ST_OK;
    if (s->m.dir && chat_format_load(s->c->a, s->m.dir, &s->chat, &found, e) != ST_OK) {
        err_hint(e, "chat_template=chatml, llama2 or none names one that says the same");
        return err_add(e, "the chat template of model %s cannot be used", s->m.m.name);
    }
    if (found)
        return ST_OK;
    s->chat = (struct chat_format){.kind = CHAT_NONE};
    if (s->tokenizer)
        log_warn("model %s has no chat template: messages are put one after the other "
                 "(chat_template=none)",
                 s->m.m.name);
    return ST_OK;
}

static enum st open_engine(struct service *s, struct err *e)
{
    const struct plan *p = s->c->plan;
    struct engine_plan plan;
    TRY(engine_for(p->engine.kind, COMMAND_SERVE, &s->engine, e));
    TRY(engine_check_place(s->engine, &p->engine, &p->hardware, p->serve.replicas, e));
    TRY(job_model(s->c, s->engine->needs & ENGINE_WEIGHTS, &s->m, e));
    if (s->m.tokenizer)
        TRY(tokenizer_load(s->m.tokenizer, &s->tokenizer, e));
    else
        log_warn("model %s has no tokenizer: prompts must be token ids, and answers have no text",
                 s->m.m.name);
    TRY(load_chat(s, e));
    TRY(job_serve_params(p, &s->m.m, s->engine, &s->serve, &plan, e));
    if (job_left_out(p, s->engine))
        log_warn("%s", job_left_out(p, s->engine));
    s->serve.emit_tokens = true;
    s->serve.warmup_requests = 0;
    TRY(serve_check_params(&s->serve, e));
    if (s->engine->needs & ENGINE_PREDICTOR)
        TRY(open_predictor(s, &plan, e));
    const int64_t block_bytes =
        s->serve.block_size * model_kv_bytes_held(&s->m.m, (int)dtype_bytes(plan.dtype));
    const struct job_engine how = {
        .engine = s->engine,
        .plan = &plan,
        .m = &s->m,
        .serve = &s->serve,
        .clock = &s->clock,
        .longest = s->serve.max_model_len,
        .ready_blocks = READY_BYTES / block_bytes + 1,
        .ready_later = true,
        .ignore_eos = true, /* per request: decided by the server */
        .tokenizer = s->tokenizer,
        .predictor = &s->predictor,
        .late_s = &s->late_s,
    };
    s->executors = arena_array(s->c->a, struct executor, s->serve.replicas);
    for (; s->n_open < s->serve.replicas; s->n_open++)
        TRY(job_engine_open(s->c, &how, &s->executors[s->n_open], e));
    return ST_OK;
}

/* Loads keys from a file or variable: a key on the command line would be visible to all users, and
 * be stored with the settings of the run. */
static enum st load_keys(struct service *s, struct err *e)
{
    const struct plan *p = s->c->plan;
    const char *name = p->server.api_key_env, *value = name ? getenv(name) : NULL;
    if (name && (!value || !*value)) {
        err_set(e, ST_USAGE, "server.api_key_env: the variable %s is not set", name);
        return err_hint(e, "export %s=KEY; nobody is served without", name);
    }
    if (name)
        TRY(keys_add(&s->keys, arena_printf(s->c->a, "server.api_key_env: %s", name), sv_of(value),
                     e));
    if (p->server.api_key_file)
        TRY(keys_add_file(&s->keys, p->server.api_key_file, e));
    return ST_OK;
}

static enum st open_server(struct service *s, struct err *e)
{
    const struct plan *p = s->c->plan;
    const bool predicted = s->engine->needs & ENGINE_PREDICTOR;
    s->params = p->server;
    if (!p->server.rules.model)
        s->params.rules.model = s->m.m.name;
    s->params.rules.tokenizer = s->tokenizer;
    s->params.rules.vocab = s->m.m.vocab;
    s->params.rules.max_model_len = s->serve.max_model_len;
    s->params.rules.chat = s->chat;
    s->params.rules.ignore_eos = p->engine.ignore_eos;
    s->params.rules.predicted = predicted;
    s->params.eos_ids = s->m.m.eos_ids;
    s->params.n_eos = predicted ? 0 : s->m.m.n_eos; /* its tokens repeat the prompt */
    s->params.kv_blocks = s->serve.num_blocks * s->serve.replicas;
    s->params.seed = (uint64_t)p->seed;
    s->params.keys = s->keys;
    TRY(server_open(&s->params, &s->server, e));
    if (!server_is_loopback(p->server.host) && s->keys.all.n == 0) {
        log_warn("serve: reachable from other machines, and asks nobody for a key "
                 "(server.api_key_file, server.api_key_env)");
    }
    bool v6 = strchr(p->server.host, ':') != NULL;
    printf("listening       http://%s%s%s:%d\n", v6 ? "[" : "", p->server.host, v6 ? "]" : "",
           server_port(s->server));
    fflush(stdout); /* scripts wait for it */
    return ST_OK;
}

/* Runs until a signal; rows go to `to` as well. */
static enum st run(struct service *s, const struct serve_sink *to, struct serve_counters *counters,
                   struct err *e)
{
    static volatile sig_atomic_t abort;
    struct request_source source = server_source(s->server, &s->clock, &job_stop, &abort);
    struct serve_sink sink = server_sink(s->server, to);
    enum st st = serve_run(&s->serve, &s->clock, s->executors, &source, &sink, &abort, counters, e);
    server_close(&s->server);
    if (st == ST_INTERRUPTED) { /* drained as far as drain_s allows: a success */
        err_clear(e);
        st = ST_OK;
    }
    if (s->late_s > 0.01)
        log_warn("serve: tokens came up to %.1f ms later than predicted: this machine did not keep "
                 "up",
                 1e3 * s->late_s);
    return st;
}

static enum st commit(struct service *s, struct artifact *art, const char *id,
                      const struct serve_counters *counters, struct err *e)
{
    struct job_context *c = s->c;
    struct arena *a = c->a;
    struct node *extra = node_new(a, NODE_MAP), *n = node_new(a, NODE_MAP);
    node_set(a, n, SV("iterations"), node_int(a, counters->iterations));
    node_set(a, n, SV("requests"), node_int(a, counters->requests));
    node_set(a, n, SV("tokens"), node_int(a, counters->tokens));
    node_set(a, n, SV("preemptions"), node_int(a, counters->preemptions));
    node_set(a, extra, SV("backend"),
             node_str(a, arena_printf(a, "serve_%s", c->plan->engine.kind)));
    node_set(a, extra, SV("workload_dir"), node_new(a, NODE_NULL));
    node_set(a, extra, SV("counters"), n);
    struct run_meta meta = job_meta(c, art, id, "real");
    meta.model = s->m.m.name;
    meta.extra = extra;
    TRY(job_snapshot(c, art, e));
    return artifact_commit(art, run_meta_node(a, &meta), e);
}

/* out=: records the served requests as a run. */
static enum st run_recorded(struct service *s, struct serve_counters *counters, struct err *e)
{
    struct job_context *c = s->c;
    struct artifact art;
    struct record *record = NULL;
    struct err close_err = {0};
    const char *backend = arena_printf(c->a, "serve_%s", c->plan->engine.kind);
    const struct record_params rp = {
        .plan = c->plan, .serve = &s->serve, .backend = backend, .what = "serve"};
    TRY(artifact_begin(c->a, c->plan->out, "run_meta.json", &art, e));
    enum st st = record_open(&art, &rp, &record, e);
    if (st == ST_OK) {
        struct serve_sink sink = record_sink(record);
        st = run(s, &sink, counters, e);
        if (record_close(record, &close_err) != ST_OK && st == ST_OK) {
            *e = close_err;
            st = e->st;
        }
    }
    if (st == ST_OK)
        st = commit(s, &art, fs_base(c->plan->out), counters, e);
    artifact_discard(&art); /* nothing is left of it after commit */
    record_free(&record);
    return st;
}

static enum st serve(struct job_context *c, struct err *e)
{
    struct service s = {.c = c, .clock = clock_real()};
    struct serve_counters counters = {0};
    s.clock.spin = c->plan->engine.idle == 0;
    enum st st = load_keys(&s, e);
    if (st == ST_OK)
        st = open_engine(&s, e);
    job_catch_signals(); /* before clients can connect */
    if (st == ST_OK)
        st = open_server(&s, e);
    if (st == ST_OK)
        st = c->plan->out ? run_recorded(&s, &counters, e) : run(&s, NULL, &counters, e);
    if (st == ST_OK)
        log_info("serve: ended after %lld requests and %lld tokens", (long long)counters.requests,
                 (long long)counters.tokens);
    server_close(&s.server);
    for (int32_t i = 0; i < s.n_open; i++)
        s.executors[i].ops->close(s.executors[i].self);
    tokenizer_free(&s.tokenizer);
    keys_free(&s.keys);
    return st;
}

static int run_serve(struct job_context *c, struct err *e)
{
    if (serve(c, e) != ST_OK)
        err_add(e, "serve");
    return err_exit_code(e->st);
}

const struct cmd cmd_serve = {
    .id = COMMAND_SERVE,
    .summary = "an OpenAI-compatible server over the same core, real or emulated",
    .about = "Completions, chats, models, metrics and health over HTTP. engine=cpu generates; "
             "engine=sim answers in real time with the timings of a profiling bundle: a "
             "deployment emulated on this machine. SIGTERM drains. With out= it leaves a run "
             "directory, as bench does.",
    .example = "twinfer serve engine=cpu model=tiny_qwen3 server.port=8000",
    .run = run_serve,
};
