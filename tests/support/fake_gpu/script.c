/* FAKE_GPU (fake_gpu.h). Compiled into each fake library, which counts its own calls. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/fake_gpu/fake_gpu.h"

enum { MAX_RULES = 32, NAME_BYTES = 64 };

static struct rule {
    char name[NAME_BYTES];
    int64_t at, seen;
    bool onwards;
    int code;
} rules[MAX_RULES];
static struct number {
    char key[NAME_BYTES];
    int64_t value;
} numbers[MAX_RULES];
static int n_rules, n_numbers;
static char script[4096];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void parse_word(const char *word)
{
    struct rule r = {.name = ""};
    struct number v = {.key = ""};
    char at[NAME_BYTES];
    while (*word == ' ')
        word++;
    if (sscanf(word, "fail %63s %63s %d", r.name, at, &r.code) == 3 && n_rules < MAX_RULES) {
        r.at = strtoll(at, NULL, 10);
        r.onwards = strchr(at, '+') != NULL;
        rules[n_rules++] = r;
        return;
    }
    const char *is = strchr(word, '=');
    if (is && is - word < NAME_BYTES && n_numbers < MAX_RULES) {
        memcpy(v.key, word, (size_t)(is - word));
        v.value = strtoll(is + 1, NULL, 0);
        numbers[n_numbers++] = v;
    } else if (*word) {
        fprintf(stderr, "fake gpu: FAKE_GPU: '%s' is not understood\n", word);
        abort();
    }
}

/* The script, or what stands in the file that it names. */
static const char *script_now(char *room, size_t bytes)
{
    const char *now = getenv("FAKE_GPU");
    if (!now || *now != '@')
        return now ? now : "";
    snprintf(room, bytes, "%.*s", (int)strcspn(now + 1, ";"), now + 1);
    FILE *f = fopen(room, "re");
    if (!f) {
        fprintf(stderr, "fake gpu: FAKE_GPU: cannot open '%s'\n", room);
        abort();
    }
    room[fread(room, 1, bytes - 1, f)] = 0;
    fclose(f);
    return room;
}

static void read_script(void)
{
    char room[sizeof script], copy[sizeof script], *save = NULL;
    const char *now = script_now(room, sizeof room);
    if (strcmp(now, script) == 0)
        return;
    snprintf(script, sizeof script, "%s", now);
    snprintf(copy, sizeof copy, "%s", now);
    n_rules = n_numbers = 0;
    for (char *w = strtok_r(copy, ";", &save); w; w = strtok_r(NULL, ";", &save))
        parse_word(w);
}

int fake_script_fail(const char *call)
{
    int code = 0;
    pthread_mutex_lock(&lock);
    read_script();
    for (int i = 0; i < n_rules; i++)
        if (strcmp(rules[i].name, call) == 0) {
            const int64_t n = ++rules[i].seen;
            if (n == rules[i].at || (rules[i].onwards && n > rules[i].at))
                code = rules[i].code;
        }
    pthread_mutex_unlock(&lock);
    return code;
}

int64_t fake_script_number(const char *key, int64_t otherwise)
{
    pthread_mutex_lock(&lock);
    read_script();
    for (int i = 0; i < n_numbers; i++)
        if (strcmp(numbers[i].key, key) == 0)
            otherwise = numbers[i].value;
    pthread_mutex_unlock(&lock);
    return otherwise;
}
