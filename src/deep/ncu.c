#include "deep/ncu.h"

#include <ctype.h>
#include <string.h>

#include "base/map.h"

void ncu_command(struct argv *v, const struct ncu_settings *s, struct texts metrics,
                 const char *regex, const char *region, const char *csv, struct texts command)
{
    argv_add(v, s->path);
    argv_option(v, "--target-processes", s->target_processes);
    argv_option(v, "--replay-mode", s->replay);
    argv_option(v, "--clock-control", s->clock_control);
    argv_option(v, "--set", s->set);
    argv_each(v, "--section", s->sections);
    argv_joined(v, "--metrics", metrics);
    if (s->nvtx || region || s->nvtx_include.n || s->nvtx_exclude.n)
        argv_add(v, "--nvtx");
    if (region)
        argv_option(v, "--nvtx-include", region);
    else
        argv_each(v, "--nvtx-include", s->nvtx_include);
    argv_each(v, "--nvtx-exclude", s->nvtx_exclude);
    if (s->kernel_name) {
        argv_option(v, "--kernel-name", arena_printf(v->a, "regex:%s", s->kernel_name));
    } else if (regex) {
        argv_option(v, "--kernel-name-base", "mangled");
        argv_option(v, "--kernel-name", arena_printf(v->a, "regex:%s", regex));
    }
    argv_option(v, "--filter-mode", s->filter_mode);
    if (s->launch_skip > 0)
        argv_number(v, "--launch-skip", s->launch_skip);
    if (s->launch_count > 0)
        argv_number(v, "--launch-count", s->launch_count);
    argv_add(v, "--csv");
    argv_option(v, "--page", "raw");
    argv_option(v, "--print-units", "base");
    argv_option(v, "--print-kernel-base", "mangled");
    argv_option(v, "--log-file", csv);
    argv_all(v, s->args);
    argv_all(v, command);
}

void ncu_query(struct argv *v, const struct ncu_settings *s, bool of_launch)
{
    argv_add(v, s->path);
    argv_add(v, "--query-metrics");
    argv_option(v, "--query-metrics-collection", of_launch ? "launch" : "profiling");
}

static bool is_name_byte(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Each word of the output that looks like a metric: a unit, two underscores, a name. */
static void take_names(struct map *known, const char *text)
{
    for (const char *p = text; *p;) {
        size_t n = 0;
        while (is_name_byte(p[n]))
            n++;
        const char *mark = strstr(p, "__");
        if (n > 3 && mark && mark < p + n)
            map_put(known, p, n, NULL);
        p += n ? n : 1;
    }
}

struct texts ncu_known(struct arena *a, struct texts wanted, const char *counters,
                       const char *launch)
{
    struct map known;
    map_init(&known, a);
    take_names(&known, counters);
    take_names(&known, launch);
    if (known.n == 0)
        return wanted;
    const char **out = arena_array(a, const char *, wanted.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < wanted.n; i++)
        if (map_find(&known, wanted.items[i], strcspn(wanted.items[i], ".")))
            out[n++] = wanted.items[i];
    return (struct texts){out, n};
}

static void put_escaped(struct buf *out, const char *text, const char *special)
{
    for (; *text; text++) {
        if (strchr(special, *text))
            buf_putc(out, '\\');
        buf_putc(out, *text);
    }
}

const char *ncu_regex(struct arena *a, const char *const *names, size_t n, size_t *n_used)
{
    struct buf out = {0};
    buf_puts(&out, "^(");
    for (*n_used = 0; *n_used < n; (*n_used)++) {
        if (out.n + 2 * strlen(names[*n_used]) + 4 > NCU_REGEX_BYTES)
            break;
        if (*n_used)
            buf_putc(&out, '|');
        put_escaped(&out, names[*n_used], "\\^$.|?*+()[]{}");
    }
    buf_puts(&out, ")$");
    const char *regex = arena_str(a, buf_str(&out));
    buf_free(&out);
    return *n_used ? regex : NULL;
}

const char *ncu_range(struct arena *a, const char *pattern)
{
    struct buf out = {0};
    if (strpbrk(pattern, "*?")) {
        buf_puts(&out, "regex:");
        for (const char *p = pattern; *p; p++)
            if (*p == '*' || *p == '?')
                buf_puts(&out, *p == '*' ? ".*" : ".");
            else
                put_escaped(&out, (const char[]){*p, 0}, "\\^$.|+()[]{}/@,");
        buf_putc(&out, '/');
    } else {
        put_escaped(&out, pattern, "\\/@[],*+");
        buf_putc(&out, '/');
    }
    const char *range = arena_str(a, buf_str(&out));
    buf_free(&out);
    return range;
}

const char *ncu_csv_path(struct arena *a, const char *dir, const char *region)
{
    char *name = arena_str(a, region ? region : "raw");
    for (char *p = name; *p; p++)
        if (strchr("/ *?\\", *p))
            *p = '_';
    return arena_printf(a, "%s/ncu/%s.csv", dir, name);
}
