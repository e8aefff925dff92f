#include "cmd/program.h"

#include <sys/wait.h>

#include "base/hash.h"

const char *program_id(const struct job_context *c, const char *kind, const char *id)
{
    size_t n = 1;
    for (char **p = c->program; *p; p++)
        n++;
    const char **parts = arena_array(c->a, const char *, n);
    parts[0] = id;
    for (size_t i = 1; i < n; i++)
        parts[i] = c->program[i - 1];
    return hash_stable_id(c->a, kind, parts, n);
}

int program_exit_code(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
