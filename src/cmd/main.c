#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/build.h"
#include "base/embed.h"
#include "base/log.h"
#include "base/process.h"
#include "base/vec.h"
#include "cmd/commands.h"
#include "cmd/complete.h"
#include "cmd/flags.h"
#include "cmd/man.h"
#include "config/option_help.h"
#include "engine/cuda/fault.h"
#include "engine/registry.h"
#include "job/sweep.h"
#include "replay/worker.h"
#include "text/wrap.h"

/* The parsed command line, before configuration. */
struct command_request {
    const struct cmd *cmd;
    struct arena *a; /* of overrides that are made here */
    VEC(const char *) words, overrides;
    const char *config_dir, *config_name, *explain;
    bool help, print_config, sweep, json;
    bool told;                     /* of files that nobody named */
    const struct config_args *all; /* of a command with rows; NULL = of another */
    char **program;
};

static const struct cmd *find_command(const char *name)
{
    for (enum command c = 0; c < N_COMMANDS; c++)
        if (strcmp(command_name(c), name) == 0)
            return cmd_table[c];
    return NULL;
}

static void print_commands(FILE *to)
{
    fputs("usage: twinfer <command> [key=value ...]\n\n"
          "Puts LLM inference on a test stand: make a workload, run it for real, profile the\n"
          "operators, simulate the same run, compare the two.\n\ncommands:\n",
          to);
    for (enum command c = 0; c < N_COMMANDS; c++)
        fprintf(to, "  %-10s %s\n", command_name(c), cmd_table[c]->summary);
    fputs("\ntwinfer <command> --help shows its settings. Flags of every command:\n", to);
    for (const struct cmd_flag *f = cmd_flags; f->name; f++) {
        const char *value = f->value ? f->value : "";
        fprintf(to, "  %s %-*s %s\n", f->name, 16 - (int)strlen(f->name), value, f->help);
    }
    fputs("  --version         the version, and the commit it was built from\n", to);
}

static void print_help(const struct cmd *c)
{
    struct buf options = {0}, engines = {0}, about = {0};
    option_help(&options, command_bit(c->id));
    printf("usage: twinfer %s%s%s%s [key=value ...]%s\n\n", command_name(c->id),
           c->words ? " [" : "", c->words ? c->words : "", c->words ? "]" : "",
           c->program ? " -- command ..." : "");
    wrap_text(&about, c->about, 0);
    fputs(buf_str(&about), stdout);
    buf_free(&about);
    engine_help(&engines, c->id);
    if (engines.n)
        printf("\nengines:\n%s", buf_str(&engines));
    printf("\nexample:\n  %s\n\nsettings:\n%s", c->example, buf_str(&options));
    buf_free(&options);
    buf_free(&engines);
}

static enum st unknown_command(const char *name, struct err *e)
{
    const char *best = NULL;
    int distance = 4;
    for (enum command c = 0; c < N_COMMANDS; c++) {
        int d = str_distance(name, command_name(c));
        if (d < distance) {
            distance = d;
            best = command_name(c);
        }
    }
    err_set(e, ST_USAGE, "there is no command '%s'", name);
    return best ? err_hint(e, "did you mean %s?", best) : err_hint(e, "twinfer --help lists them");
}

static bool is_word_of(const struct cmd *c, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = c->words; p;) {
        const char *bar = strchr(p, '|');
        size_t len = bar ? (size_t)(bar - p) : strlen(p);
        if (len == n && memcmp(p, word, n) == 0)
            return true;
        p = bar ? bar + 1 : NULL;
    }
    return false;
}

static enum st flag_value(int argc, char **argv, int *i, const char **out, struct err *e)
{
    if (*i + 1 >= argc)
        return err_set(e, ST_USAGE, "%s needs a value", argv[*i]);
    *out = argv[++*i];
    return ST_OK;
}

/* The folder searched first for configuration files, unless --config-dir is given. */
static const char *usual_config_dir(void)
{
    const char *dir = getenv("TWINFER_CONFIG_DIR");
    return dir && *dir ? dir : NULL;
}

static const char *alias_of(const struct cmd *c, const char *flag)
{
    for (const struct cmd_alias *x = c->aliases; x && x->flag; x++)
        if (strcmp(x->flag, flag) == 0)
            return x->key;
    return NULL;
}

static enum st take_alias(int argc, char **argv, int *i, struct command_request *r, struct err *e)
{
    const char *key = alias_of(r->cmd, argv[*i]), *value = NULL;
    TRY(flag_value(argc, argv, i, &value, e));
    vec_push(&r->overrides, arena_printf(r->a, "%s=%s", key, value));
    return ST_OK;
}

static enum st parse(int argc, char **argv, struct command_request *r, struct err *e)
{
    r->config_dir = usual_config_dir();
    r->cmd = find_command(argv[1]);
    if (!r->cmd)
        return unknown_command(argv[1], e);
    for (int i = 2; i < argc; i++) {
        const char *s = argv[i];
        if (strcmp(s, "--help") == 0 || strcmp(s, "-h") == 0)
            r->help = true;
        else if (strcmp(s, "--cfg") == 0)
            r->print_config = true;
        else if (strcmp(s, "-m") == 0 || strcmp(s, "--multirun") == 0)
            r->sweep = true;
        else if (strcmp(s, "--json") == 0)
            r->json = true;
        else if (strcmp(s, "--dry-run") == 0 && r->cmd->dry_run)
            vec_push(&r->overrides, r->cmd->dry_run);
        else if (alias_of(r->cmd, s))
            TRY(take_alias(argc, argv, &i, r, e));
        else if (strcmp(s, "--explain") == 0)
            TRY(flag_value(argc, argv, &i, &r->explain, e));
        else if (strcmp(s, "--config-name") == 0)
            TRY(flag_value(argc, argv, &i, &r->config_name, e));
        else if (strcmp(s, "--config-dir") == 0)
            TRY(flag_value(argc, argv, &i, &r->config_dir, e));
        else if (strcmp(s, "--") == 0 && r->cmd->program) {
            r->program = argv + i + 1 < argv + argc ? argv + i + 1 : NULL;
            break;
        } else if (s[0] == '-')
            return err_hint((err_set(e, ST_USAGE, "unknown flag %s", s), e),
                            "settings are written key=value; twinfer %s --help lists them",
                            command_name(r->cmd->id));
        else if (strchr(s, '=') || s[0] == '~')
            vec_push(&r->overrides, s);
        else if (is_word_of(r->cmd, s))
            vec_push(&r->words, s);
        else
            return err_hint((err_set(e, ST_USAGE, "'%s' is not a setting", s), e),
                            "settings are written key=value");
    }
    return ST_OK;
}

/* The file itself must not decide whether this is said. */
static void tell_unasked(struct command_request *r, const struct config *c)
{
    bool quiet =
        c->plan->log.level < LOG_INFO && config_origin(c, "log.level") == ORIGIN_COMMAND_LINE;
    if (c->unasked && !r->told && !quiet)
        log_info("settings are taken from the folder this runs in: %s", c->unasked);
    r->told = true;
}

/* One job of a sweep, or with result NULL the only one. Returns the exit code. */
static int run_job(void *self, struct arena *a, const struct config_args *args,
                   const struct node **result, struct err *e)
{
    struct command_request *r = self;
    struct config config;
    if (config_load(a, args, &config, e) != ST_OK)
        return err_exit_code(e->st);
    tell_unasked(r, &config);
    if (r->print_config) {
        struct buf text = {0};
        config_print(&text, &config);
        fputs(buf_str(&text), stdout);
        buf_free(&text);
        return 0;
    }
    if (config_check_read(&config, e) != ST_OK)
        return err_exit_code(e->st);
    log_set_level((enum log_level)config.plan->log.level);
    struct job_context c = {.a = a,
                            .config = &config,
                            .plan = config.plan,
                            .args = r->all ? r->all : args,
                            .json = r->json || config.plan->json,
                            .words = r->words.p,
                            .program = r->program,
                            .n_words = r->words.n,
                            .result = result};
    return r->cmd->run(&c, e);
}

/* --cfg of a sweep: a YAML document for each job. */
static int print_configs(struct command_request *r, struct arena *a, struct config_args *args,
                         struct err *e)
{
    const char *const **jobs;
    size_t n;
    enum st st = config_sweep(a, args, &jobs, &n, e);
    for (size_t i = 0; st == ST_OK && i < n; i++) {
        args->overrides = jobs[i];
        printf("%s# job %zu of %zu\n", i ? "---\n" : "", i + 1, n);
        run_job(r, a, args, NULL, e);
        st = e->st;
    }
    return err_exit_code(st);
}

/* A command whose combinations are rows of one result. */
static int run_rows(struct command_request *r, struct arena *a, const struct config_args *args,
                    struct err *e)
{
    const char *const **jobs;
    size_t n;
    struct config_args first = *args;
    if (config_sweep(a, args, &jobs, &n, e) != ST_OK)
        return err_exit_code(e->st);
    first.overrides = jobs[0];
    r->all = args;
    return run_job(r, a, &first, NULL, e);
}

/* Whether json=true, which is the same as --json. */
static bool wants_json(const struct command_request *r)
{
    for (size_t i = 0; i < r->overrides.n; i++)
        if (strcmp(r->overrides.p[i], "json=true") == 0)
            return true;
    return r->json;
}

static int run_command(struct command_request *r, struct err *e)
{
    struct arena *a = arena_new();
    struct config_args args = {.command = r->cmd->id,
                               .config_dir = r->config_dir,
                               .config_name = r->config_name,
                               .embedded = embed_cmd,
                               .overrides = r->overrides.p,
                               .n_overrides = r->overrides.n};
    int code = 0;
    if (r->explain) {
        struct buf text = {0};
        if (config_explain(a, &args, r->explain, &text, e) == ST_OK)
            log_result(&text);
        else
            code = err_exit_code(e->st);
        buf_free(&text);
    } else if (r->sweep && !r->print_config) {
        struct sweep s = {.columns = r->cmd->columns,
                          .args = args,
                          .json = wants_json(r),
                          .job = run_job,
                          .self = r};
        r->json = s.json;
        code = sweep_run(&s, e);
    } else if (r->sweep || (r->cmd->rows && r->print_config)) {
        code = print_configs(r, a, &args, e);
    } else if (r->cmd->rows) {
        code = run_rows(r, a, &args, e);
    } else {
        code = run_job(r, a, &args, NULL, e);
    }
    if (e->st != ST_OK)
        err_print(e, "twinfer", stderr);
    arena_free(&a);
    return code;
}

/* "twinfer 0.1.0 (commit 0123456789ab-dirty)" */
static void print_version(void)
{
    enum { SHORT = 12 };
    int hex = (int)strspn(build_commit, "0123456789abcdef");
    printf("twinfer %s (commit %.*s%s)\n", TW_VERSION, hex ? SHORT : 7,
           hex ? build_commit : "unknown", hex ? build_commit + hex : "");
}

/* Output for shells and the build. `--complete WORD...`: cmd/complete.h. `--man [command]`:
 * cmd/man.h. */
static void print_for_install(int argc, char **argv)
{
    struct buf text = {0};
    if (strcmp(argv[0], "--complete") == 0)
        complete_words(&text, embed_cmd, usual_config_dir(), (const char *const *)argv + 1,
                       (size_t)argc - 1);
    else
        man_page(&text, argc > 1 ? find_command(argv[1]) : NULL, embed_cmd);
    fputs(buf_str(&text), stdout);
    buf_free(&text);
}

/* Fails when results could not be written to stdout. */
static int close_stdout(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    fprintf(stderr, "twinfer: cannot write to stdout: %s\n", strerror(errno));
    return code ? code : 3;
}

int cmd_main(int argc, char **argv)
{
    process_report_file_limit();
    if (argc < 2) {
        print_commands(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--version") == 0) {
        print_version();
        return close_stdout(0);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        const struct cmd *c = argc > 2 ? find_command(argv[2]) : NULL;
        if (c)
            print_help(c);
        else
            print_commands(stdout);
        return close_stdout(0);
    }
    if (strcmp(argv[1], CUDA_FAULT_WORD) == 0 && argc == 3) /* started by this program alone */
        return close_stdout(cuda_fault_main(argv[2]));
    if (strcmp(argv[1], WORKER_FLAG) == 0 && argc == 3)
        return close_stdout(cmd_replay_worker(argv[2]));
    if (strcmp(argv[1], "--complete") == 0 || strcmp(argv[1], "--man") == 0) {
        print_for_install(argc - 1, argv + 1);
        return close_stdout(0);
    }
    static struct err e; /* static because it is large */
    struct command_request r = {.a = arena_new()};
    int code;
    if (parse(argc, argv, &r, &e) != ST_OK) {
        err_print(&e, "twinfer", stderr);
        code = err_exit_code(e.st);
    } else if (r.help) {
        print_help(r.cmd);
        code = 0;
    } else {
        code = run_command(&r, &e);
    }
    vec_free(&r.words);
    vec_free(&r.overrides);
    arena_free(&r.a);
    return close_stdout(code);
}
