#include "inject/settings.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static bool number(const char *s, int64_t *out)
{
    int64_t v = 0;
    if (!*s)
        return false;
    for (; *s; s++) {
        if (*s < '0' || *s > '9' || v > INT64_MAX / 1000)
            return false;
        v = v * 10 + (*s - '0');
    }
    *out = v;
    return true;
}

static bool copy(char *to, size_t room, const char *from, size_t n)
{
    if (n >= room)
        return false;
    memcpy(to, from, n);
    to[n] = 0;
    return true;
}

/* Whether s begins an escape: a backslash before # , @ or a backslash. */
static bool is_escape(const char *s)
{
    return s[0] == '\\' && s[1] && strchr(TRACE_ESCAPED, s[1]);
}

/* The first unescaped byte of `of` in [s, end); end when there is none. */
static const char *find(const char *s, const char *end, const char *of)
{
    for (; s < end; s++)
        if (is_escape(s))
            s++;
        else if (strchr(of, *s))
            return s;
    return end;
}

static bool copy_plain(char *to, size_t room, const char *from, const char *end)
{
    size_t n = 0;
    for (; from < end; from++) {
        from += is_escape(from);
        if (n + 1 >= room)
            return false;
        to[n++] = *from;
    }
    to[n] = 0;
    return true;
}

static bool set_path(void *at, const char *value)
{
    return copy_plain(at, SETTINGS_PATH, value, value + strlen(value));
}

static bool flag(const char *value, bool *on)
{
    *on = strcmp(value, "1") == 0 || strcmp(value, "true") == 0;
    return *on || strcmp(value, "0") == 0 || strcmp(value, "false") == 0;
}

static bool set_flag(void *at, const char *value)
{
    bool on, ok = flag(value, &on);
    if (ok)
        *(bool *)at = on;
    return ok;
}

static bool set_shared_flag(void *at, const char *value)
{
    bool on, ok = flag(value, &on);
    if (ok)
        *(_Atomic bool *)at = on;
    return ok;
}

static bool set_word(int *at, const char *value, const char *const *words, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(value, words[i]) == 0) {
            *at = i;
            return true;
        }
    return false;
}

static bool set_graphs(void *at, const char *value)
{
    static const char *const words[] = TRACE_GRAPHS_WORDS;
    return set_word(at, value, words, sizeof words / sizeof *words);
}

static bool set_api(void *at, const char *value)
{
    static const char *const words[] = TRACE_API_WORDS;
    return set_word(at, value, words, sizeof words / sizeof *words);
}

static bool set_ms(void *at, const char *value)
{
    int64_t ms;
    if (!number(value, &ms) || ms > INT64_C(1000000000))
        return false;
    *(int64_t *)at = ms * 1000000;
    return true;
}

static bool set_kb(void *at, const char *value)
{
    int64_t kb;
    if (!number(value, &kb) || kb < 64 || kb > 1 << 20)
        return false;
    *(int64_t *)at = kb * 1024;
    return true;
}

static bool set_count(void *at, const char *value)
{
    int64_t n;
    if (!number(value, &n) || n < 2 || n > 1 << 24)
        return false;
    *(int64_t *)at = n;
    return true;
}

static bool set_ordinal(void *at, const char *value)
{
    int64_t n;
    if (!number(value, &n) || n > 1 << 30)
        return false;
    *(int64_t *)at = n;
    return true;
}

static bool set_ring(void *at, const char *value)
{
    int64_t n;
    if (!set_count(&n, value))
        return false;
    for (*(int64_t *)at = 64; *(int64_t *)at < n;) /* a power of two */
        *(int64_t *)at *= 2;
    return true;
}

static bool set_ranges(void *at, const char *value)
{
    struct settings_patterns found = {.n = 0};
    for (const char *end = value + strlen(value); value < end;) {
        const char *stop = find(value, end, ","), *sign = find(value, stop, "@");
        if (found.n == TRACE_RANGES || sign == value)
            return false;
        char *range = found.list[found.n].range, *domain = found.list[found.n].domain;
        found.n++;
        if (!copy_plain(range, TRACE_RANGE_BYTES, value, sign) ||
            !copy_plain(domain, TRACE_RANGE_BYTES, sign < stop ? sign + 1 : stop, stop))
            return false;
        value = stop + (stop < end);
    }
    memcpy(at, &found, sizeof found);
    return true;
}

static const struct {
    const char *key;
    bool (*set)(void *at, const char *value);
    size_t offset;
} keys[] = {
#define X(key, type, field) {#key, set_##type, offsetof(struct settings, field)},
    TRACE_SETTINGS_TABLE(X)
#undef X
};

static void complain(struct settings *s, const char *key, const char *value)
{
    if (s->complaint[0])
        return;
    const char *parts[] = {"setting not understood: ", key, "=", value};
    size_t n = 0;
    for (size_t i = 0; i < 4; i++)
        for (const char *p = parts[i]; *p && n + 1 < sizeof s->complaint; p++)
            s->complaint[n++] = *p;
    s->complaint[n] = 0;
}

bool inject_settings_set(struct settings *s, const char *key, const char *value)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i].key) == 0 && keys[i].set((char *)s + keys[i].offset, value))
            return true;
    complain(s, key, value);
    return false;
}

static void line(struct settings *s, char *text)
{
    size_t all = strlen(text);
    text[(size_t)(find(text, text + all, "#\r") - text)] = 0;
    while (*text == ' ' || *text == '\t')
        text++;
    size_t n = strlen(text);
    while (n > 0 && (text[n - 1] == ' ' || text[n - 1] == '\t'))
        text[--n] = 0;
    if (n == 0)
        return;
    char *sign = strchr(text, '=');
    if (!sign) {
        complain(s, text, "");
        return;
    }
    *sign = 0;
    inject_settings_set(s, text, sign + 1);
}

/* Makes the folder absolute: the program may change its working directory before it forks. */
static bool make_absolute(struct settings *s)
{
    char cwd[SETTINGS_PATH];
    if (s->dir[0] == '/' || s->dir[0] == 0)
        return s->dir[0] != 0;
    if (!getcwd(cwd, sizeof cwd))
        return true; /* works until the working directory changes */
    size_t n = strlen(cwd), m = strlen(s->dir);
    if (n + m + 2 > sizeof cwd)
        return true;
    cwd[n] = '/';
    memcpy(cwd + n + 1, s->dir, m + 1);
    return copy(s->dir, SETTINGS_PATH, cwd, n + m + 1);
}

bool inject_settings_read(struct settings *s, const char *value)
{
    *s = (struct settings){
        .kernels = true,
        .copies = true,
        .sync = true,
        .nvtx = true,
        .launches = true,
        .flush_ns = INT64_C(500000000),
        .buffer_bytes = 4 << 20,
        .max_buffers = 128,
        .ring_events = 32768,
    };
    if (!value || !*value)
        return false;
    int fd = open(value, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    if (fd >= 0) {
        close(fd);
        return copy(s->dir, SETTINGS_PATH, value, strlen(value)) && make_absolute(s);
    }
    fd = open(value, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    char text[16384];
    size_t n = 0;
    for (ssize_t got; n + 1 < sizeof text && (got = read(fd, text + n, sizeof text - 1 - n)) > 0;)
        n += (size_t)got;
    close(fd);
    text[n] = 0;
    for (char *p = text; *p;) {
        size_t len = strcspn(p, "\n");
        bool more = p[len] == '\n';
        p[len] = 0;
        line(s, p);
        p += len + (more ? 1 : 0);
    }
    return make_absolute(s);
}

bool inject_settings_match(const char *pattern, const char *text, size_t bytes)
{
    const char *star = NULL, *end = text + bytes, *back = text;
    while (text < end) {
        if (*pattern == '*') {
            star = ++pattern;
            back = text;
        } else if (*pattern && *pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star;
            text = ++back;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == 0;
}
