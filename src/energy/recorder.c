#include "energy/recorder.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/stats.h"
#include "base/vec.h"

enum { KINDS = SAMPLER_ENERGY + 1, MOST_SAMPLES = 100000000, ENOUGH_UPDATES = 12 };

struct sensor {
    const struct sampler_ops *ops;
    void *self;
    bool open;
    struct recorder_sensor learned;
};

struct recorder {
    struct arena *a; /* of the sensors */
    struct sensor sensors[KINDS];
    int64_t wall_minus_mono_ns;
    int64_t interval_ns, most;
    pthread_t thread;
    bool running;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t wake;
    bool stop;
    VEC(struct power_sample) samples;
    struct recorder_counts n;
    int64_t rounds;          /* readings of all sensors that ended */
    struct err last;         /* of a reading that failed */
    double counter_j;        /* newest; NAN = none */
    _Atomic double newest_w; /* without the lock */
};

/* ---- readings -------------------------------------------------------------------------------- */

int64_t recorder_at(const struct recorder *r, int64_t mono_ns)
{
    return mono_ns + r->wall_minus_mono_ns;
}

int64_t recorder_now(const struct recorder *r)
{
    return recorder_at(r, clock_mono_ns());
}

double recorder_power_now(const struct recorder *r)
{
    return atomic_load_explicit(&r->newest_w, memory_order_relaxed);
}

/* NAN when it failed, which *e then says. */
static double read_sensor(const struct sensor *s, struct err *e)
{
    double v = NAN;
    if (s->open && s->ops->read(s->self, &v, e) != ST_OK)
        v = NAN;
    return v;
}

static struct power_sample read_all(struct recorder *r, int64_t *failed, struct err *e)
{
    const int64_t from_ns = recorder_now(r);
    struct power_sample s;
    s.power_w = read_sensor(&r->sensors[SAMPLER_POWER], e);
    s.energy_j = read_sensor(&r->sensors[SAMPLER_ENERGY], e);
    s.ns = from_ns + (recorder_now(r) - from_ns) / 2;
    *failed = (r->sensors[SAMPLER_POWER].open && isnan(s.power_w)) +
              (r->sensors[SAMPLER_ENERGY].open && isnan(s.energy_j));
    return s;
}

static void keep(struct recorder *r, const struct power_sample *s, int64_t failed,
                 const struct err *e)
{
    r->rounds++;
    r->n.failed += failed;
    if (failed)
        r->last = *e;
    if (isnan(s->power_w) && isnan(s->energy_j))
        return;
    r->n.samples++;
    if (!isnan(s->energy_j))
        r->counter_j = s->energy_j;
    if (r->samples.n < (size_t)r->most)
        vec_push(&r->samples, *s);
}

/* Waits for the moment, or for stop; the lock is held. */
static void wait_until(struct recorder *r, int64_t mono_ns)
{
    const int64_t until = clock_wall_ns() + (mono_ns - clock_mono_ns());
    const struct timespec at = {.tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S};
    if (!r->stop)
        pthread_cond_timedwait(&r->wake, &r->lock, &at);
}

/* The moment of the next reading: those that passed are not made up for. */
static int64_t next_after(struct recorder *r, int64_t next)
{
    const int64_t now = clock_mono_ns();
    next += r->interval_ns;
    if (next > now)
        return next;
    const int64_t passed = (now - next) / r->interval_ns + 1;
    r->n.late += passed;
    return next + passed * r->interval_ns;
}

/* Once more after the stop, so that what ended before it has a sample behind it. */
static void *record(void *arg)
{
    struct recorder *r = arg;
    int64_t next = clock_mono_ns();
    pthread_mutex_lock(&r->lock);
    for (bool last = false;; last = r->stop) {
        struct err e = {0};
        int64_t failed;
        pthread_mutex_unlock(&r->lock);
        const struct power_sample s = read_all(r, &failed, &e);
        if (!isnan(s.power_w)) /* a reading that failed says nothing */
            atomic_store_explicit(&r->newest_w, s.power_w, memory_order_relaxed);
        pthread_mutex_lock(&r->lock);
        keep(r, &s, failed, &e);
        if (last)
            break;
        if (r->interval_ns == 0)
            continue;
        next = next_after(r, next);
        while (!r->stop && clock_mono_ns() < next)
            wait_until(r, next);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

int64_t recorder_rounds(struct recorder *r)
{
    pthread_mutex_lock(&r->lock);
    const int64_t n = r->rounds;
    pthread_mutex_unlock(&r->lock);
    return n;
}

void recorder_await(struct recorder *r, int64_t rounds, const volatile sig_atomic_t *stop)
{
    while (recorder_rounds(r) < rounds && !(stop && *stop))
        clock_sleep_until_ns(clock_mono_ns() + NS_PER_MS);
}

/* ---- update periods -------------------------------------------------------------------------- */

struct recorder_sensor recorder_learn(const struct recorder_reading *readings, size_t n)
{
    VEC(double) gaps = {0}, reads = {0};
    double before = NAN;
    int64_t changed = 0;
    for (size_t i = 0; i < n; i++) {
        const struct recorder_reading *r = &readings[i];
        vec_push(&reads, ns_to_s(r->to_ns - r->from_ns));
        if (isnan(r->value))
            continue;
        if (!isnan(before) && r->value != before) {
            if (changed) /* the first change ended a period of unknown start */
                vec_push(&gaps, ns_to_s(r->to_ns - changed));
            changed = r->to_ns;
        }
        before = r->value;
    }
    struct recorder_sensor out = {.updates = (int64_t)gaps.n, .update_s = NAN};
    if (gaps.n >= 3)
        out.update_s = stats_median(gaps.p, gaps.n);
    out.read_s = stats_median(reads.p, reads.n);
    vec_free(&gaps);
    vec_free(&reads);
    return out;
}

/* Reads one sensor as fast as it answers, until it changed often enough. */
static void learn(struct sensor *s, double most_s, const volatile sig_atomic_t *stop)
{
    const int64_t end = clock_mono_ns() + ns_from_s(most_s);
    VEC(struct recorder_reading) readings = {0};
    double before = NAN;
    for (int64_t changes = 0;
         clock_mono_ns() < end && changes <= ENOUGH_UPDATES && !(stop && *stop);) {
        struct err e = {0};
        struct recorder_reading r = {.from_ns = clock_mono_ns()};
        r.value = read_sensor(s, &e);
        r.to_ns = clock_mono_ns();
        vec_push(&readings, r);
        changes += !isnan(r.value) && !isnan(before) && r.value != before;
        before = isnan(r.value) ? before : r.value;
        /* Beside a sensor that answers at once, one period of which is 1 ms or more. */
        if (r.to_ns - r.from_ns < 200000)
            clock_sleep_until_ns(r.to_ns + 300000);
    }
    s->learned = recorder_learn(readings.p, readings.n);
    s->learned.ops = s->ops;
    vec_free(&readings);
}

struct recorder_sensor recorder_sensor(const struct recorder *r, enum sampler_kind kind)
{
    return r->sensors[kind].learned;
}

/* ---- open, stop, close ----------------------------------------------------------------------- */

static enum st open_sensors(struct recorder *r, const struct recorder_params *p, struct err *e)
{
    const struct sampler_ops *ops[KINDS] = {
        [SAMPLER_POWER] = p->power, [SAMPLER_ENERGY] = p->energy};
    for (int k = 0; k < KINDS; k++) {
        struct sensor *s = &r->sensors[k];
        s->ops = s->learned.ops = ops[k];
        s->learned.update_s = s->learned.read_s = NAN;
        if (!ops[k])
            continue;
        ASSERT(ops[k]->kind == (enum sampler_kind)k);
        if (ops[k]->open(r->a, &p->sampler, &s->self, e) != ST_OK)
            return err_add(e, "cannot read the sensor %s", ops[k]->name);
        s->open = true;
        learn(s, p->learn_s, p->stop);
    }
    return ST_OK;
}

enum st recorder_open(struct arena *a, const struct recorder_params *p, struct recorder **out,
                      struct err *e)
{
    (void)a;
    struct recorder *r = mem_alloc(sizeof *r);
    r->a = arena_new();
    r->interval_ns = ns_from_s(p->interval_s);
    r->most = p->most ? p->most : MOST_SAMPLES;
    r->counter_j = NAN;
    atomic_init(&r->newest_w, (double)NAN);
    r->wall_minus_mono_ns = clock_wall_ns() - clock_mono_ns();
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->wake, NULL);
    *out = r;
    if (open_sensors(r, p, e) == ST_OK) {
        const int result = pthread_create(&r->thread, NULL, record, r);
        r->running = result == 0;
        if (result)
            err_set(e, ST_IO, "cannot start a thread: %s", strerror(result));
    }
    if (e->st != ST_OK)
        recorder_close(out);
    return e->st;
}

/* Until the counter has moved on from where it is now. */
static void await_tick(struct recorder *r)
{
    const int64_t end = clock_mono_ns() + NS_PER_S;
    pthread_mutex_lock(&r->lock);
    const double at = r->counter_j;
    while (!isnan(at) && r->counter_j == at && clock_mono_ns() < end) {
        pthread_mutex_unlock(&r->lock);
        clock_sleep_until_ns(clock_mono_ns() + NS_PER_MS);
        pthread_mutex_lock(&r->lock);
    }
    pthread_mutex_unlock(&r->lock);
}

static void end_thread(struct recorder *r)
{
    if (!r->running)
        return;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    r->running = false;
}

enum st recorder_stop(struct recorder *r, struct err *e)
{
    if (r->running && r->sensors[SAMPLER_ENERGY].open)
        await_tick(r);
    end_thread(r);
    if (r->n.samples > r->most) {
        err_set(e, ST_REJECTED, "more than %lld samples of power", (long long)r->most);
        return err_hint(e, "a longer interval_s");
    }
    if (r->n.samples > 0)
        return ST_OK;
    *e = r->last;
    if (e->st == ST_OK)
        return err_set(e, ST_DEVICE, "no sample of power was taken");
    return err_add(e, "no reading of the sensors came");
}

struct recorder_counts recorder_counts(const struct recorder *r)
{
    return r->n;
}

/* Mean time between two ticks; 0 = fewer than two. */
static double tick_s(const struct power_sample *p, size_t n)
{
    int64_t first_ns = 0, last_ns = 0, ticks = 0;
    for (size_t i = 0; i < n; i++)
        if (!isnan(p[i].energy_j)) {
            first_ns = ticks ? first_ns : p[i].ns;
            last_ns = p[i].ns;
            ticks++;
        }
    return ticks > 1 ? ns_to_s(last_ns - first_ns) / (double)(ticks - 1) : 0;
}

/* Power between the ticks of a counter that stands alone, at the middle of each. Ticks are seen
 * late, now more, now less, and are regular: their mean distance is used, or a multiple of it.
 * to: room for 2n. */
static size_t power_of_ticks(const struct power_sample *p, size_t n, struct power_sample *to)
{
    const double each_s = tick_s(p, n);
    struct power_sample before = {.energy_j = NAN};
    size_t out = 0;
    for (size_t i = 0; i < n; i++) {
        const struct power_sample now = p[i];
        if (isnan(now.energy_j))
            continue;
        if (!isnan(before.energy_j) && each_s > 0) {
            const double s = each_s * fmax(1, round(ns_to_s(now.ns - before.ns) / each_s));
            to[out++] = (struct power_sample){before.ns + (now.ns - before.ns) / 2,
                                              (now.energy_j - before.energy_j) / s, NAN};
        }
        to[out++] = (struct power_sample){now.ns, NAN, now.energy_j};
        before = now;
    }
    return out;
}

static void copy_log(struct arena *a, const struct recorder *r, const char *what,
                     struct power_log *out)
{
    const bool alone = !r->sensors[SAMPLER_POWER].open;
    struct power_sample *p = arena_array(a, struct power_sample, r->samples.n);
    size_t n = r->samples.n;
    if (n)
        memcpy(p, r->samples.p, n * sizeof *p);
    power_log_ticks(p, n);
    if (alone) {
        const struct power_sample *ticks = p;
        p = arena_array(a, struct power_sample, 2 * n);
        n = power_of_ticks(ticks, n, p);
    }
    const struct sampler_ops *power = r->sensors[SAMPLER_POWER].ops;
    *out = (struct power_log){.p = p,
                              .n = n,
                              .zoned = true,
                              .source = "the recording",
                              .what = what,
                              .averaged = power && power->averages_s > 0.5,
                              .missing = r->n.failed};
}

void recorder_log(struct arena *a, const struct recorder *r, const char *what,
                  struct power_log *out)
{
    copy_log(a, r, what, out);
}

void recorder_so_far(struct arena *a, struct recorder *r, const char *what, struct power_log *out)
{
    pthread_mutex_lock(&r->lock);
    copy_log(a, r, what, out);
    pthread_mutex_unlock(&r->lock);
}

void recorder_close(struct recorder **out)
{
    struct recorder *r = *out;
    if (!r)
        return;
    end_thread(r);
    for (int k = 0; k < KINDS; k++)
        if (r->sensors[k].open && r->sensors[k].ops->close)
            r->sensors[k].ops->close(r->sensors[k].self);
    pthread_cond_destroy(&r->wake);
    pthread_mutex_destroy(&r->lock);
    vec_free(&r->samples);
    arena_free(&r->a);
    mem_free(r);
    *out = NULL;
}

/* ---- which sensors --------------------------------------------------------------------------- */

static bool answers(const struct sampler_ops *ops, const struct sampler_params *p, struct err *e)
{
    struct arena *a = arena_new();
    void *self;
    err_clear(e);
    const bool yes = ops->open(a, p, &self, e) == ST_OK;
    if (yes && ops->close)
        ops->close(self);
    arena_free(&a);
    return yes;
}

enum st recorder_pick(struct arena *a, const char *name, struct recorder_params *p, struct err *e)
{
    (void)a;
    p->power = p->energy = NULL;
    const struct sampler_ops *one = sampler_find(name);
    if (one) {
        *(one->kind == SAMPLER_POWER ? &p->power : &p->energy) = one;
        return ST_OK;
    }
    if (strcmp(name, "auto") != 0) {
        struct buf names = {0};
        sampler_names(&names);
        err_set(e, ST_USAGE, "energy.sampler: there is no sampler '%s'", name);
        err_hint(e, "auto, or one of %s", buf_str(&names));
        buf_free(&names);
        return e->st;
    }
    struct err first = {0}, other = {0};
    if (answers(&sampler_nvml_instant, &p->sampler, &first))
        p->power = &sampler_nvml_instant;
    else if (answers(&sampler_nvml_average, &p->sampler, &other))
        p->power = &sampler_nvml_average;
    if (answers(&sampler_nvml_counter, &p->sampler, &other))
        p->energy = &sampler_nvml_counter;
    if (p->power || p->energy)
        return ST_OK;
    *e = first;
    return err_add(e, "no sensor of the GPU answers");
}
