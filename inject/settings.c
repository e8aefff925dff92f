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

static bool set_path(void *at, const char *value)
{
    return copy(at, SETTINGS_PATH, value, strlen(value));
}

static bool set_flag(void *at, const char *value)
{
    bool on = strcmp(value, "1") == 0 || strcmp(value, "true") == 0;
    if (!on && strcmp(value, "0") != 0 && strcmp(value, "false") != 0)
        return false;
    *(bool *)at = on;
    return true;
}

static bool set_graphs(void *at, const char *value)
{
    *(bool *)at = strcmp(value, "graph") == 0;
    return *(bool *)at || strcmp(value, "node") == 0;
}

static bool set_api(void *at, const char *value)
{
    static const char *const names[] = {"none", "driver", "runtime", "all"};
    for (int i = 0; i < 4; i++)
        if (strcmp(value, names[i]) == 0) {
            *(int *)at = i;
            return true;
        }
    return false;
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
    struct settings *s = at;
    s->n_patterns = 0;
    while (*value) {
        size_t n = strcspn(value, ",");
        const char *sign = memchr(value, '@', n);
        size_t range = sign ? (size_t)(sign - value) : n;
        if (s->n_patterns == SETTINGS_PATTERNS || range == 0)
            return false;
        if (!copy(s->patterns[s->n_patterns].range, SETTINGS_PATTERN, value, range) ||
            !copy(s->patterns[s->n_patterns].domain, SETTINGS_PATTERN, sign ? sign + 1 : "",
                  sign ? n - range - 1 : 0))
            return false;
        s->n_patterns++;
        value += n;
        if (*value == ',')
            value++;
    }
    return true;
}

static const struct {
    const char *key;
    bool (*set)(void *at, const char *value);
    size_t offset;
} keys[] = {
#define AT(field) offsetof(struct settings, field)
    {"dir", set_path, AT(dir)},
    {"cupti", set_path, AT(cupti)},
    {"kernels", set_flag, AT(kernels)},
    {"copies", set_flag, AT(copies)},
    {"sync", set_flag, AT(sync)},
    {"nvtx", set_flag, AT(nvtx)},
    {"launches", set_flag, AT(launches)},
    {"graphs", set_graphs, AT(whole_graphs)},
    {"api", set_api, AT(api)},
    {"range", set_ranges, 0},
    {"profiler", set_flag, AT(profiler)},
    {"delay_ms", set_ms, AT(delay_ns)},
    {"duration_ms", set_ms, AT(duration_ns)},
    {"flush_ms", set_ms, AT(flush_ns)},
    {"buffer_kb", set_kb, AT(buffer_bytes)},
    {"buffers", set_count, AT(max_buffers)},
    {"ring_events", set_ring, AT(ring_events)},
#undef AT
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

bool settings_set(struct settings *s, const char *key, const char *value)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i].key) == 0) {
            struct settings before = *s;
            if (keys[i].set((char *)s + keys[i].offset, value))
                return true;
            *s = before;
        }
    complain(s, key, value);
    return false;
}

static void line(struct settings *s, char *text)
{
    text[strcspn(text, "#\r")] = 0;
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
    settings_set(s, text, sign + 1);
}

bool settings_read(struct settings *s, const char *value)
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
        return set_path(s->dir, value);
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
    return s->dir[0] != 0;
}

bool settings_match(const char *pattern, const char *text, size_t bytes)
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
