/* Overrides, then files after lines "%% path": an answer or a named error, and what --cfg prints
 * reads back as the same configuration. */
#include "fuzz.h"

#include <string.h>

#include "config/config.h"

enum { MAX_FILES = 16, MAX_OVERRIDES = 16 };

struct job {
    struct embed_file files[MAX_FILES + 1];
    size_t n_files;
    const char *overrides[MAX_OVERRIDES];
    size_t n_overrides;
};

static void end_file(struct job *j, const char *at)
{
    if (j->n_files)
        j->files[j->n_files - 1].size = (size_t)(at - j->files[j->n_files - 1].bytes);
}

static void read_job(struct arena *a, char *text, struct job *j)
{
    *j = (struct job){0};
    for (char *line = text; line;) {
        char *end = strchr(line, '\n'), *next = end ? end + 1 : NULL;
        if (strncmp(line, "%% ", 3) == 0 && end && j->n_files < MAX_FILES) {
            end_file(j, line);
            j->files[j->n_files++] = (struct embed_file){
                .path = arena_strn(a, line + 3, (size_t)(end - line - 3)), .bytes = next};
        } else if (j->n_files == 0 && end && j->n_overrides < MAX_OVERRIDES) {
            j->overrides[j->n_overrides++] = arena_strn(a, line, (size_t)(end - line));
        }
        line = next;
    }
    end_file(j, text + strlen(text));
}

static void check_again(struct arena *a, const struct config *c)
{
    struct buf one = {0}, two = {0};
    config_print(&one, c);
    const struct embed_file file[] = {{"printed.yaml", buf_str(&one), one.n}, {0}};
    struct config_args args = {
        .command = COMMAND_BENCH, .config_name = "printed", .embedded = file};
    struct config again;
    struct err e = {0};
    enum st st = config_load(a, &args, &again, &e);
    if (st != ST_OK)
        err_print(&e, buf_str(&one), stderr);
    REQUIRE(st == ST_OK);
    config_print(&two, &again);
    REQUIRE(strcmp(buf_str(&one), buf_str(&two)) == 0);
    buf_free(&one);
    buf_free(&two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new();
    struct job j;
    read_job(a, arena_strn(a, (const char *)data, size), &j);
    struct config_args args = {.command = COMMAND_BENCH,
                               .embedded = j.files,
                               .overrides = j.overrides,
                               .n_overrides = j.n_overrides};
    struct config c;
    struct err e = {0};
    if (config_load(a, &args, &c, &e) == ST_OK)
        check_again(a, &c);
    else
        REQUIRE((e.st == ST_USAGE || e.st == ST_INPUT) && err_cause(&e, 0));
    struct buf b = {0};
    err_clear(&e);
    if (config_explain(a, &args, "vars", &b, &e) != ST_OK)
        REQUIRE((e.st == ST_USAGE || e.st == ST_INPUT) && err_cause(&e, 0));
    buf_free(&b);
    arena_free(&a);
    return 0;
}
