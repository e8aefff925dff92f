#include "trace/dict.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

/* Open addressing; a slot holds id + 1, the upper half of the hash stands beside it. */
struct trace_ids {
    struct hash_slot {
        uint32_t id1, hash;
    } * slots;
    uint32_t mask, used;
};

static uint64_t mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ (h >> 29);
}

static uint64_t hash_of(const void *p, size_t n)
{
    const char *at = p;
    uint64_t h = n, word;
    for (; n >= 8; n -= 8, at += 8) {
        memcpy(&word, at, 8);
        h = mix(h, word);
    }
    word = 0;
    if (n)
        memcpy(&word, at, n);
    return mix(mix(h, word), 1);
}

static struct trace_ids *ids_new(struct arena *a)
{
    struct trace_ids *t = arena_one(a, struct trace_ids);
    t->mask = 255;
    t->slots = mem_alloc(sizeof *t->slots * (t->mask + 1));
    return t;
}

static void ids_free(struct trace_ids *t)
{
    if (t)
        mem_free(t->slots);
}

static void ids_place(struct trace_ids *t, struct hash_slot s)
{
    uint32_t i = s.hash & t->mask;
    while (t->slots[i].id1)
        i = (i + 1) & t->mask;
    t->slots[i] = s;
}

static void ids_add(struct trace_ids *t, uint32_t hash, uint32_t id)
{
    if (++t->used > t->mask / 2) {
        struct trace_ids old = *t;
        t->mask = 2 * t->mask + 1;
        t->slots = mem_alloc(sizeof *t->slots * ((size_t)t->mask + 1));
        for (uint32_t i = 0; i <= old.mask; i++)
            if (old.slots[i].id1)
                ids_place(t, old.slots[i]);
        mem_free(old.slots);
    }
    ids_place(t, (struct hash_slot){id + 1, hash});
}

/* Runs `body` for each id with that hash until it breaks out; `id` is the candidate. */
#define EACH_CANDIDATE(t, h, id)                                                           \
    for (uint32_t i_ = (h) & (t)->mask, id; (t)->slots[i_].id1; i_ = (i_ + 1) & (t)->mask) \
        if ((t)->slots[i_].hash == (h) && ((id = (t)->slots[i_].id1 - 1), true))

/* Room for one more in an array of n whose capacity is the power of two from 16 up. */
static void *room(void *p, uint32_t n, size_t size)
{
    ASSERT(n < UINT32_MAX - 1);
    bool full = n == 0 || (n >= 16 && (n & (n - 1)) == 0);
    return full ? mem_resize(p, size * (n < 16 ? 16 : (size_t)n * 2)) : p;
}

void trace_dict_init(struct trace_dict *d)
{
    *d = (struct trace_dict){.a = arena_new()};
    d->string_ids = ids_new(d->a);
    d->sig_ids = ids_new(d->a);
    d->process_ids = ids_new(d->a);
    d->thread_ids = ids_new(d->a);
    trace_string(d, SV(""));
    d->threads = room(NULL, 0, sizeof *d->threads);
    d->threads[d->n_threads++] = (struct trace_thread){0};
}

void trace_dict_free(struct trace_dict *d)
{
    if (!d->a)
        return;
    ids_free(d->string_ids);
    ids_free(d->sig_ids);
    ids_free(d->process_ids);
    ids_free(d->thread_ids);
    mem_free(d->strings);
    mem_free(d->sigs);
    mem_free(d->processes);
    mem_free(d->threads);
    mem_free(d->devices);
    mem_free(d->notes);
    mem_free(d->facts);
    mem_free(d->gpu_uses);
    arena_free(&d->a);
    *d = (struct trace_dict){0};
}

/* ---- strings ---- */

static bool clean(struct sv s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f)
            return false;
    return str_utf8_valid(s.p, s.n) == s.n;
}

static char *cleaned(struct arena *a, struct sv s)
{
    char *out = arena_strn(a, s.p, s.n);
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)out[i] < 0x20 || out[i] == 0x7f)
            out[i] = '?';
    for (size_t i = 0; (i += str_utf8_valid(out + i, s.n - i)) < s.n; i++)
        out[i] = '?';
    return out;
}

uint32_t trace_string(struct trace_dict *d, struct sv text)
{
    if (text.n == 0) /* its pointer may be NULL */
        text = SV("");
    uint32_t h = (uint32_t)(hash_of(text.p, text.n) >> 32);
    EACH_CANDIDATE(d->string_ids, h, id)
    {
        struct sv s = d->strings[id];
        if (s.n == text.n && memcmp(s.p, text.p, s.n) == 0)
            return id;
    }
    if (!clean(text)) {
        struct sv other = {cleaned(d->a, text), text.n};
        return trace_string(d, other);
    }
    d->strings = room(d->strings, d->n_strings, sizeof *d->strings);
    d->strings[d->n_strings] = (struct sv){arena_strn(d->a, text.p, text.n), text.n};
    ids_add(d->string_ids, h, d->n_strings);
    return d->n_strings++;
}

const char *trace_text(const struct trace_dict *d, uint32_t string)
{
    return string < d->n_strings ? d->strings[string].p : "";
}

/* ---- what has a key ---- */

uint32_t trace_sig_id(struct trace_dict *d, const struct trace_sig *sig)
{
    uint32_t h = (uint32_t)(hash_of(sig, sizeof *sig) >> 32);
    EACH_CANDIDATE(d->sig_ids, h, id)
    {
        if (memcmp(&d->sigs[id], sig, sizeof *sig) == 0)
            return id;
    }
    d->sigs = room(d->sigs, d->n_sigs, sizeof *d->sigs);
    d->sigs[d->n_sigs] = *sig;
    ids_add(d->sig_ids, h, d->n_sigs);
    return d->n_sigs++;
}

uint32_t trace_process_of(struct trace_dict *d, uint32_t pid, uint32_t host)
{
    uint32_t key[2] = {pid, host}, h = (uint32_t)(hash_of(key, sizeof key) >> 32);
    EACH_CANDIDATE(d->process_ids, h, id)
    {
        if (d->processes[id].pid == pid && d->processes[id].host == host)
            return id;
    }
    d->processes = room(d->processes, d->n_processes, sizeof *d->processes);
    d->processes[d->n_processes] = (struct trace_process){.pid = pid, .host = host, .rank = -1};
    ids_add(d->process_ids, h, d->n_processes);
    return d->n_processes++;
}

uint32_t trace_thread_of(struct trace_dict *d, uint32_t process, uint32_t tid)
{
    uint32_t key[2] = {process, tid}, h = (uint32_t)(hash_of(key, sizeof key) >> 32);
    EACH_CANDIDATE(d->thread_ids, h, id)
    {
        if (d->threads[id].process == process && d->threads[id].tid == tid)
            return id;
    }
    d->threads = room(d->threads, d->n_threads, sizeof *d->threads);
    d->threads[d->n_threads] = (struct trace_thread){.process = process, .tid = tid};
    ids_add(d->thread_ids, h, d->n_threads);
    return d->n_threads++;
}

static bool same_device(const struct trace_device *x, const struct trace_device *y)
{
    static const uint8_t unknown[16];
    bool named = memcmp(x->uuid, unknown, 16) != 0 && memcmp(y->uuid, unknown, 16) != 0;
    return named ? memcmp(x->uuid, y->uuid, 16) == 0 : x->number == y->number;
}

static bool number_taken(const struct trace_dict *d, uint32_t number)
{
    for (uint32_t i = 0; i < d->n_devices; i++)
        if (d->devices[i].number == number)
            return true;
    return false;
}

uint32_t trace_device_of(struct trace_dict *d, const struct trace_device *facts)
{
    for (uint32_t i = 0; i < d->n_devices; i++) {
        struct trace_device *known = &d->devices[i];
        if (!same_device(known, facts))
            continue;
        if (facts->sms && !known->sms) {
            uint32_t number = known->number;
            *known = *facts;
            known->number = number;
        }
        return i;
    }
    d->devices = room(d->devices, d->n_devices, sizeof *d->devices);
    struct trace_device *new = &d->devices[d->n_devices];
    *new = *facts;
    for (uint32_t next = 0; number_taken(d, new->number); next++)
        new->number = next;
    return d->n_devices++;
}

static bool gpu_in_use(const struct trace_dict *d, uint32_t number)
{
    for (uint32_t i = 0; i < d->n_gpu_uses; i++)
        if (d->gpu_uses[i].number == number)
            return true;
    return false;
}

/* What is known of GPU `local` is so of its other number. */
static void number_device(struct trace_dict *d, uint32_t local, uint32_t number)
{
    for (uint32_t i = 0; i < d->n_devices; i++)
        if (d->devices[i].number == local) {
            struct trace_device facts = d->devices[i];
            facts.number = number;
            trace_device_of(d, &facts);
            return;
        }
}

uint32_t trace_gpu_number(struct trace_dict *d, uint32_t owner, uint32_t local, bool apart)
{
    enum { MOST = 4096 }; /* of a file that was made to have more */
    uint32_t number = local;
    for (uint32_t i = 0; i < d->n_gpu_uses; i++)
        if (d->gpu_uses[i].owner == owner && d->gpu_uses[i].local == local)
            return d->gpu_uses[i].number;
    if (d->n_gpu_uses >= MOST)
        return local;
    if (gpu_in_use(d, local)) {
        if (apart) {
            bool used[MOST + 1] = {false};
            for (uint32_t i = 0; i < d->n_gpu_uses; i++)
                used[d->gpu_uses[i].number < MOST ? d->gpu_uses[i].number : MOST] = true;
            for (number = 0; used[number];)
                number++;
            trace_note(d, LOG_INFO, "GPU %u: its process calls it %u, as others call another GPU",
                       number, local);
            number_device(d, local, number);
        } else {
            trace_note(d, LOG_WARN,
                       "GPU %u is in several files, and nothing says their ranks: taken for one "
                       "GPU",
                       local);
        }
    }
    d->gpu_uses = room(d->gpu_uses, d->n_gpu_uses, sizeof *d->gpu_uses);
    d->gpu_uses[d->n_gpu_uses++] = (struct trace_gpu_use){owner, local, number};
    return number;
}

bool trace_times_ok(struct trace_dict *d, enum trace_record_kind kind, int64_t start_ns,
                    int64_t end_ns)
{
    static const int64_t most[TRACE_RECORDS] = {TRACE_SPAN_MAX_NS, 8 * TRACE_SPAN_MAX_NS,
                                                8 * TRACE_SPAN_MAX_NS, 8 * TRACE_SPAN_MAX_NS};
    bool ok = start_ns > INT64_MIN / 4 && start_ns <= end_ns && end_ns < INT64_MAX / 4 &&
              end_ns - start_ns <= TRACE_SPAN_MAX_NS &&
              d->time_ns[kind] <= most[kind] - (end_ns - start_ns);
    if (ok)
        d->time_ns[kind] += end_ns - start_ns;
    else
        d->impossible[kind]++;
    return ok;
}

const char *trace_impossible(struct arena *a, const struct trace_dict *d)
{
    static const char *const names[TRACE_RECORDS] = {"operation", "call", "range", "wait"};
    const char *text = NULL;
    for (int i = 0; i < TRACE_RECORDS; i++)
        if (d->impossible[i])
            text = arena_printf(a, "%s%s%llu %s%s", text ? text : "", text ? ", " : "",
                                (unsigned long long)d->impossible[i], names[i],
                                d->impossible[i] == 1 ? "" : "s");
    return text;
}

void trace_note(struct trace_dict *d, uint32_t level, const char *fmt, ...)
{
    enum { MOST = 1000 };
    if (d->n_notes >= MOST)
        return;
    va_list ap;
    va_start(ap, fmt);
    char *text = arena_vprintf(d->a, fmt, ap);
    va_end(ap);
    struct sv s = {text, strlen(text)};
    d->notes = room(d->notes, d->n_notes, sizeof *d->notes);
    d->notes[d->n_notes++] = (struct trace_note){level, clean(s) ? text : cleaned(d->a, s)};
}

const struct trace_fact_name trace_fact_names[TRACE_FACTS] = {
    [TRACE_HOST] = {"Host", "Hostname", NULL},
    [TRACE_PROCESSOR] = {"Processor", "CpuDescription", NULL},
    [TRACE_CORES] = {"Cores", "CpuCores", NULL},
    [TRACE_DRIVER] = {"NVIDIA driver", "NvDriverVersion", NULL},
    [TRACE_CUDA_DRIVER] = {"CUDA of the driver", "CudaDriverVersion", "cuda_driver_version"},
    [TRACE_CUDA_RUNTIME] = {"CUDA runtime", NULL, "cuda_runtime_version"},
    [TRACE_CUPTI] = {"CUPTI", NULL, "cupti_version"},
};

void trace_fact(struct trace_dict *d, enum trace_fact_kind kind, struct sv text)
{
    enum { MOST = 200, LONGEST = 200 };
    text.n = text.n < LONGEST ? text.n : LONGEST;
    const char *fine = clean(text) ? arena_strn(d->a, text.p, text.n) : cleaned(d->a, text);
    if (!*fine || strcmp(fine, "0") == 0 || d->n_facts >= MOST)
        return;
    for (uint32_t i = 0; i < d->n_facts; i++)
        if (d->facts[i].kind == kind && strcmp(d->facts[i].text, fine) == 0)
            return;
    d->facts = room(d->facts, d->n_facts, sizeof *d->facts);
    d->facts[d->n_facts++] = (struct trace_fact){kind, fine};
}

const char *trace_fact_words(struct arena *a, const struct trace_dict *d, enum trace_fact_kind kind)
{
    const char *all = NULL;
    bool cuda = kind == TRACE_CUDA_DRIVER || kind == TRACE_CUDA_RUNTIME;
    for (uint32_t i = 0; i < d->n_facts; i++) {
        const char *text = d->facts[i].text;
        int64_t v;
        if (d->facts[i].kind != kind)
            continue;
        if (cuda && str_int64(sv_of(text), &v) && v >= 1000 && v < INT32_MAX)
            text = arena_printf(a, "%d.%d", (int)v / 1000, (int)v % 1000 / 10);
        all = all ? arena_printf(a, "%s, %s", all, text) : text;
    }
    return all;
}

/* ---- copies and sets ---- */

static const struct {
    const char *name, *brief;
} copies[TRACE_COPY_KINDS] = {
    [0] = {"Unknown", "unknown"},
    [1] = {"Host-to-Device", "HtoD"},
    [2] = {"Device-to-Host", "DtoH"},
    [3] = {"Host-to-Array", "HtoA"},
    [4] = {"Array-to-Host", "AtoH"},
    [5] = {"Array-to-Array", "AtoA"},
    [6] = {"Array-to-Device", "AtoD"},
    [7] = {"Device-to-Array", "DtoA"},
    [8] = {"Device-to-Device", "DtoD"},
    [9] = {"Host-to-Host", "HtoH"},
    [10] = {"Peer-to-Peer", "PtoP"},
    [11] = {"Unified Host-to-Device", "UVM HtoD"},
    [12] = {"Unified Device-to-Host", "UVM DtoH"},
    [13] = {"Unified Device-to-Device", "UVM DtoD"},
};

static const char *const memories[TRACE_MEMORY_KINDS] = {
    "Unknown", "Pageable", "Pinned",        "Device",
    "Array",   "Managed",  "Device Static", "Managed Static"};

#define LEN(x) (sizeof(x) / sizeof *(x))

const char *trace_copy_name(uint32_t copy_kind)
{
    return copies[copy_kind < LEN(copies) ? copy_kind : 0].name;
}

const char *trace_copy_short(uint32_t copy_kind)
{
    return copies[copy_kind < LEN(copies) ? copy_kind : 0].brief;
}

uint8_t trace_copy_kind(struct sv short_name)
{
    for (uint8_t i = 1; i < LEN(copies); i++)
        if (sv_eq(short_name, copies[i].brief))
            return i;
    return 0;
}

const char *trace_memory_name(uint32_t memory_kind)
{
    return memories[memory_kind < LEN(memories) ? memory_kind : 0];
}

uint8_t trace_memory_kind(struct sv name)
{
    for (uint8_t i = 1; i < LEN(memories); i++)
        if (sv_eq(name, memories[i]))
            return i;
    return 0;
}

uint32_t trace_memory_op_name(struct trace_dict *d, const struct trace_sig *sig)
{
    char text[96];
    if (sig->kind == TRACE_SET)
        snprintf(text, sizeof text, "Memset (%s)", trace_memory_name(sig->target_kind));
    else
        snprintf(text, sizeof text, "Memcpy %s (%s -> %s)", trace_copy_short(sig->copy_kind),
                 trace_memory_name(sig->source_kind), trace_memory_name(sig->target_kind));
    return trace_string(d, sv_of(text));
}
