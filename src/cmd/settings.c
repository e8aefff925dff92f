/* settings: what a server's log states, and what a simulation takes of it. */
#include "calibrate/server_settings.h"

#include "base/log.h"
#include "cmd/commands.h"
#include "job/job.h"
#include "text/table.h"

static struct node *facts_node(struct arena *a, const struct server_log *l)
{
    struct node *map = node_new(a, NODE_MAP);
    for (unsigned i = 0; i < FACTS; i++) {
        if (!l->of[i].value)
            continue;
        struct node *fact = node_put(a, map, server_fact_name(i), node_new(a, NODE_MAP));
        node_put(a, fact, "value", node_str(a, l->of[i].value));
        node_put(a, fact, "line", node_int(a, l->of[i].line));
    }
    return map;
}

static void print_facts(struct arena *a, struct buf *text, const struct server_log *l)
{
    static const char *const heads[] = {"stated", "line", "value"};
    struct table *t = table_headed(a, heads, 3);
    for (unsigned i = 0; i < FACTS; i++) {
        if (!l->of[i].value)
            continue;
        table_cell(t, "%s", server_fact_name(i));
        table_cell(t, "%ld", l->of[i].line);
        table_cell(t, "%s", l->of[i].value);
    }
    table_text(text, t);
    buf_printf(text, "lines     %lld of iterations, %lld of throughput\n", (long long)l->iterations,
               (long long)l->throughputs);
}

/* As words for a command line. */
static void print_settings(struct arena *a, struct buf *text, const struct node *settings)
{
    buf_puts(text, "settings ");
    for (uint32_t i = 0; i < settings->n; i++)
        buf_printf(text, " %.*s=%s", (int)settings->pairs[i].key.n, settings->pairs[i].key.p,
                   node_scalar_text(a, settings->pairs[i].value));
    buf_putc(text, '\n');
}

/* Tokens of the KV cache as blocks of the size that the log states, or vLLM's 16. A model whose
 * layers differ counts otherwise, and calibrate, which knows the model, leaves it. */
static void take_blocks(struct arena *a, const struct server_log *l, struct server_settings *s,
                        const char **assumed)
{
    enum { USUAL = 16 };
    const char *why;
    s->of.num_blocks = server_log_blocks(a, l, s->of.block_size ? s->of.block_size : USUAL, &why);
    *assumed = NULL;
    if (!server_fact_count(l, FACT_NUM_BLOCKS) && s->of.num_blocks)
        *assumed = arena_printf(a, "blocks of %lld tokens%s, layers with one kind of attention",
                                (long long)(s->of.block_size ? s->of.block_size : USUAL),
                                s->of.block_size ? "" : ", vLLM's usual");
    if (why)
        log_warn("%s states a KV cache, which is not taken: %s", l->path, why);
}

static enum st tell(struct job_context *c, struct err *e)
{
    struct arena *a = c->a;
    struct server_log l;
    struct server_settings s;
    const char *assumed;
    struct buf text = {0};
    if (!c->plan->settings.log) {
        err_set(e, ST_USAGE, "settings.log is not set");
        return err_hint(e, "settings.log=FILE is what a vLLM server wrote since its start");
    }
    TRY(server_log_read(a, c->plan->settings.log, &l, e));
    TRY(server_settings_of(a, &l, &s, e));
    take_blocks(a, &l, &s, &assumed);
    struct node *settings = server_settings_node(a, &s.of), *result = node_new(a, NODE_MAP);
    struct node *doubts = node_new(a, NODE_LIST);
    for (size_t i = 0; i < s.n_doubts; i++) {
        log_warn("%s: %s", l.path, s.doubts[i]);
        node_push(a, doubts, node_str(a, s.doubts[i]));
    }
    node_put(a, result, "log", node_str(a, l.path));
    node_put(a, result, "stated", facts_node(a, &l));
    node_put(a, result, "settings", settings);
    node_put(a, result, "not_taken", doubts);
    node_put(a, result, "iterations", node_int(a, l.iterations));
    node_put(a, result, "throughputs", node_int(a, l.throughputs));
    print_facts(a, &text, &l);
    print_settings(a, &text, settings);
    node_put(a, result, "assumed", node_str_or_null(a, assumed));
    if (assumed)
        buf_printf(&text, "assumed   %s\n", assumed);
    job_result(c, result, buf_str(&text));
    buf_free(&text);
    return ST_OK;
}

static int run_settings(struct job_context *c, struct err *e)
{
    if (tell(c, e) != ST_OK)
        err_add(e, "settings");
    return err_exit_code(e->st);
}

const struct cmd cmd_settings = {
    .id = COMMAND_SETTINGS,
    .summary = "what a vLLM server's log states of its settings",
    .about =
        "Reads the log of a vLLM server from its start (0.11 to 0.33, plain or gzip) and prints "
        "what it states with the lines, and the settings that a simulation of this server "
        "takes. calibrate takes them by itself from a log in the run's folder.",
    .example = "twinfer settings settings.log=server.log",
    .run = run_settings,
};
