/* Attributes a difference to parts of the time. Compares batches of the same kind and size class at
 * the real run's mix; the remainder is queueing. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/intern.h"

enum batch_kind { KIND_PREFILL, KIND_DECODE, KIND_MIXED, KINDS };
enum { CLASSES = 63 };

static const char BETWEEN[] = "between batches";
static const char *const kind_names[KINDS] = {"prefill batches", "decode batches", "mixed batches"};

enum part_of { OF_ALL, OF_DEVICE, OF_HOST, OFS };

struct sum {
    int64_t n;
    double s[OFS];
    double decode_tokens;
};

struct diagnosed_side {
    const struct run *run;
    struct sum of[KINDS][CLASSES];
    struct sum between; /* time between two batches while requests were there; s[OF_ALL] only */
    bool one_stage;
    double busy, span;
    double sequences, batches; /* all batches, for their mean size */
    struct sum wait;           /* arrival to first batch */
    struct sum late;           /* planned to actual send */
    int64_t preemptions;
};

struct diagnosis {
    struct arena *a;
    struct comparison *c;
    struct diagnosed_side real, sim;
    bool per_token;   /* the metric is made of gaps between tokens */
    double direction; /* of the error: +1 = the simulation is slower */
    VEC(struct compare_part) parts;
    VEC(double) gain;  /* per part: its contribution to the metric, NAN = not attributed */
    double pull;       /* sum of those in the error's direction */
    double difference; /* of all batch times */
    double base;       /* the real time it refers to */
    struct notes findings;
};

/* ---- sums per side ----------------------------------------------------------------------- */

static enum batch_kind kind_of(const struct run_batch *b)
{
    if (b->num_prefill_tokens == 0)
        return KIND_DECODE;
    return b->num_decode_tokens == 0 ? KIND_PREFILL : KIND_MIXED;
}

static int class_of(const struct run_batch *b, enum batch_kind k)
{
    int64_t size = k == KIND_DECODE ? b->batch_size : b->num_prefill_tokens + b->num_decode_tokens;
    int c = 0;
    while (size >>= 1)
        c++;
    return c;
}

static void sum_add(struct sum *s, int64_t all_ns, int64_t device_ns, int64_t host_ns)
{
    s->n++;
    s->s[OF_ALL] += (double)all_ns / 1e9;
    s->s[OF_DEVICE] += device_ns == RUN_NONE ? (double)NAN : (double)device_ns / 1e9;
    s->s[OF_HOST] += host_ns == RUN_NONE ? (double)NAN : (double)host_ns / 1e9;
}

static int by_time(const void *pa, const void *pb)
{
    int64_t a = *(const int64_t *)pa, b = *(const int64_t *)pb;
    return (a > b) - (a < b);
}

/* Counts a gap only if a request was in the system from the end of one batch to the start of the
 * next: then it is overhead, not idleness. */
static void sum_between(struct arena *a, struct diagnosed_side *s)
{
    const struct run *r = s->run;
    int64_t *in = arena_array(a, int64_t, r->n_requests),
            *out = arena_array(a, int64_t, r->n_requests);
    size_t n = 0, i = 0, o = 0;
    for (size_t k = 0; k < r->n_requests; k++) {
        const struct run_request *q = &r->requests[k];
        if (q->completion_ns == RUN_NONE)
            continue;
        in[n] = q->sent_ns > q->arrival_ns ? q->sent_ns : q->arrival_ns;
        out[n++] = q->completion_ns;
    }
    qsort(in, n, sizeof *in, by_time);
    qsort(out, n, sizeof *out, by_time);
    for (size_t k = 0; k + 1 < r->n_batches; k++) {
        int64_t end = r->batches[k].start_ns + r->batches[k].duration_ns;
        int64_t next = r->batches[k + 1].start_ns;
        while (i < n && in[i] <= end)
            i++;
        while (o < n && out[o] < next)
            o++;
        if (i > o)
            sum_add(&s->between, next > end ? next - end : 0, 0, 0);
    }
}

static void sum_batches(struct arena *a, struct diagnosed_side *s)
{
    const struct run *r = s->run;
    int64_t first = INT64_MAX, last = 0;
    s->one_stage = true;
    for (size_t i = 0; i < r->n_batches; i++) {
        const struct run_batch *b = &r->batches[i];
        enum batch_kind k = kind_of(b);
        struct sum *sum = &s->of[k][class_of(b, k)];
        sum_add(sum, b->duration_ns, b->device_ns, b->host_ns);
        sum->decode_tokens += (double)b->num_decode_tokens;
        s->one_stage = s->one_stage && b->replica == 0 && b->stage == 0;
        s->busy += (double)b->duration_ns / 1e9;
        s->sequences += (double)b->batch_size;
        s->batches++;
        first = b->start_ns < first ? b->start_ns : first;
        last = b->start_ns + b->duration_ns > last ? b->start_ns + b->duration_ns : last;
    }
    s->span = r->n_batches ? (double)(last - first) / 1e9 : 0;
    if (s->one_stage)
        sum_between(a, s);
}

static void sum_requests(struct diagnosed_side *s, const struct alignment *al)
{
    size_t at = 0;
    for (size_t i = 0; i < s->run->n_requests && at < al->n; i++) {
        const struct run_request *q = &s->run->requests[i];
        if (q->request_id != al->ids[at])
            continue;
        at++;
        if (q->scheduled_ns != RUN_NONE)
            sum_add(&s->wait, q->scheduled_ns - q->arrival_ns, 0, 0);
        if (q->sent_ns != RUN_NONE)
            sum_add(&s->late, q->sent_ns - q->arrival_ns, 0, 0);
        s->preemptions += q->preemptions > 0 ? q->preemptions : 0;
    }
}

static double mean(const struct sum *s, enum part_of of)
{
    return s->n ? s->s[of] / (double)s->n : (double)NAN;
}

/* ---- parts ------------------------------------------------------------------------------- */

static struct compare_part part_of_sums(const char *name, const struct sum *real,
                                        const struct sum *sim)
{
    return (struct compare_part){.name = name,
                                 .real_n = real->n,
                                 .sim_n = sim->n,
                                 .real_s = mean(real, OF_ALL),
                                 .sim_s = mean(sim, OF_ALL),
                                 .real_device_s = mean(real, OF_DEVICE),
                                 .sim_device_s = mean(sim, OF_DEVICE),
                                 .real_host_s = mean(real, OF_HOST),
                                 .sim_host_s = mean(sim, OF_HOST),
                                 .share = (double)NAN};
}

static void add_part(struct diagnosis *d, struct compare_part part, double gain)
{
    vec_push(&d->parts, part);
    vec_push(&d->gain, gain);
    if (!part.detail && gain * d->direction > 0)
        d->pull += fabs(gain);
}

static void sum_plus(struct sum *to, const struct sum *from)
{
    to->n += from->n;
    for (int i = 0; i < OFS; i++)
        to->s[i] += from->s[i];
    to->decode_tokens += from->decode_tokens;
}

static const char *class_name(struct arena *a, enum batch_kind k, int class)
{
    long long low = 1LL << class, high = 2 * low - 1;
    const char *unit = k == KIND_DECODE ? "" : " tokens";
    return low == high ? arena_printf(a, "of %lld%s", low, unit)
                       : arena_printf(a, "of %lld-%lld%s", low, high, unit);
}

/* The kind as a whole, at the real run's mix of those classes that both sides have, then its
 * classes. */
static double class_gain(const struct diagnosis *d, const struct sum *real, const struct sum *sim)
{
    double weight = d->per_token ? real->decode_tokens : (double)real->n;
    return weight * (mean(sim, OF_ALL) - mean(real, OF_ALL)); /* NAN where a side has none */
}

static void compare_kind(struct diagnosis *d, enum batch_kind k)
{
    struct sum real_all = {0}, sim_all = {0}, shared = {0}, moved = {0};
    double gain = 0;
    int n_classes = 0;
    for (int c = 0; c < CLASSES; c++) {
        const struct sum *real = &d->real.of[k][c], *sim = &d->sim.of[k][c];
        sum_plus(&real_all, real);
        sum_plus(&sim_all, sim);
        n_classes += real->n || sim->n;
        if (!real->n || !sim->n)
            continue;
        gain += class_gain(d, real, sim);
        d->base += (d->per_token ? real->decode_tokens : (double)real->n) * mean(real, OF_ALL);
        sum_plus(&shared, real);
        moved.n += real->n;
        for (int i = 0; i < OFS; i++)
            moved.s[i] += (double)real->n * mean(sim, (enum part_of)i);
    }
    if (n_classes == 0)
        return;
    bool comparable = shared.n > 0;
    struct compare_part whole = comparable ? part_of_sums(kind_names[k], &shared, &moved)
                                           : part_of_sums(kind_names[k], &real_all, &sim_all);
    whole.real_n = real_all.n;
    whole.sim_n = sim_all.n;
    d->difference += gain;
    add_part(d, whole, comparable ? gain : (double)NAN);
    for (int c = 0; n_classes > 1 && c < CLASSES; c++) {
        const struct sum *real = &d->real.of[k][c], *sim = &d->sim.of[k][c];
        if (!real->n && !sim->n)
            continue;
        struct compare_part part = part_of_sums(class_name(d->a, k, c), real, sim);
        part.detail = true;
        add_part(d, part, class_gain(d, real, sim));
    }
}

static struct compare_part time_only(struct compare_part p)
{
    p.real_device_s = p.sim_device_s = p.real_host_s = p.sim_host_s = (double)NAN;
    return p;
}

static void compare_rest(struct diagnosis *d)
{
    const struct sum *real = &d->real.between, *sim = &d->sim.between;
    if (real->n && sim->n) {
        double weight = 0;
        for (int k = 0; k < KINDS; k++)
            for (int c = 0; c < CLASSES; c++)
                weight += d->per_token ? d->real.of[k][c].decode_tokens : 0;
        double gain =
            (d->per_token ? weight : (double)real->n) * (mean(sim, OF_ALL) - mean(real, OF_ALL));
        d->difference += gain;
        add_part(d, time_only(part_of_sums(BETWEEN, real, sim)), gain);
    }
    if (d->real.wait.n && d->sim.wait.n)
        add_part(d,
                 time_only(part_of_sums("wait for the first batch", &d->real.wait, &d->sim.wait)),
                 (double)NAN);
}

/* ---- findings ---------------------------------------------------------------------------- */

static double change(double real, double sim)
{
    return real > 0 ? 100 * (sim - real) / real : (double)NAN;
}

static bool differs(const struct diagnosis *d, double real, double sim)
{
    return fabs(change(real, sim)) > d->c->params.pass_percent;
}

/* "Most of that is host time: ...", where host or device time explains most of the difference. */
static const char *split_text(struct diagnosis *d, const struct compare_part *p)
{
    double all = p->sim_s - p->real_s;
    const struct {
        const char *name;
        double real, sim;
    } splits[] = {{"host time", p->real_host_s, p->sim_host_s},
                  {"device time", p->real_device_s, p->sim_device_s}};
    for (size_t i = 0; i < 2; i++) {
        double part = splits[i].sim - splits[i].real;
        if (isnan(part) || part / all < 0.6)
            continue;
        char r[WORDS_MAX], s[WORDS_MAX];
        return arena_printf(d->a, " Most of that is %s: %s real, %s simulated.", splits[i].name,
                            words_duration(r, splits[i].real), words_duration(s, splits[i].sim));
    }
    return "";
}

static void find_part(struct diagnosis *d, const struct compare_part *p)
{
    char r[WORDS_MAX], s[WORDS_MAX], change_text[WORDS_MAX];
    const bool between = strcmp(p->name, BETWEEN) == 0;
    const char *name = arena_printf(d->a, "%c%s", p->name[0] - 'a' + 'A', p->name + 1);
    compare_note(&d->findings, "%s %s %s real, %s simulated (%s): %.0f %% of the difference.%s",
                 between ? "The time" : name, between ? "between batches is" : "take",
                 words_duration(r, p->real_s), words_duration(s, p->sim_s),
                 words_change(change_text, change(p->real_s, p->sim_s)), 100 * p->share,
                 between ? "" : split_text(d, p));
}

/* The parts that contribute in the error's direction, the largest first. */
static void find_parts(struct diagnosis *d)
{
    double below = INFINITY;
    for (;;) {
        const struct compare_part *best = NULL;
        for (size_t i = 0; i < d->parts.n; i++) {
            const struct compare_part *p = &d->parts.p[i];
            if (p->share >= 0.1 && p->share < below && (!best || p->share > best->share))
                best = p;
        }
        if (!best)
            return;
        find_part(d, best);
        below = best->share;
    }
}

/* Finds single size classes that differ where the kinds agree on average: change over the limit and
 * in the error's direction, the largest contribution first. */
static void find_classes(struct diagnosis *d)
{
    enum { MOST = 3 };
    double below = INFINITY;
    for (int found = 0; found < MOST; found++) {
        size_t best = d->parts.n, kind = 0, best_kind = 0;
        for (size_t i = 0; i < d->parts.n; i++) {
            const struct compare_part *p = &d->parts.p[i];
            double pull = d->gain.p[i] * d->direction;
            if (!p->detail)
                kind = i;
            else if (pull > 0 && pull < below && differs(d, p->real_s, p->sim_s) &&
                     100 * p->real_n >= d->parts.p[kind].real_n &&
                     (best == d->parts.n || pull > d->gain.p[best] * d->direction))
                best = i, best_kind = kind;
        }
        if (best == d->parts.n)
            return;
        const struct compare_part *p = &d->parts.p[best], *k = &d->parts.p[best_kind];
        char r[WORDS_MAX], s[WORDS_MAX], n[WORDS_MAX], all[WORDS_MAX], by[WORDS_MAX];
        compare_note(&d->findings,
                     "But %s %s take %s real, %s simulated (%s): %s of %s such batches.", k->name,
                     p->name, words_duration(r, p->real_s), words_duration(s, p->sim_s),
                     words_change(by, change(p->real_s, p->sim_s)), words_count(n, p->real_n),
                     words_count(all, k->real_n));
        below = d->gain.p[best] * d->direction;
    }
}

static void find_composition(struct diagnosis *d)
{
    double real = d->real.sequences / d->real.batches, sim = d->sim.sequences / d->sim.batches;
    if (!differs(d, real, sim))
        return;
    char r[WORDS_MAX], s[WORDS_MAX];
    compare_note(
        &d->findings,
        "Batches are composed differently: %s of %.1f sequences real, %s of %.1f simulated.",
        words_count(r, (int64_t)d->real.batches), real, words_count(s, (int64_t)d->sim.batches),
        sim);
}

static void find_queue(struct diagnosis *d)
{
    double real = mean(&d->real.wait, OF_ALL), sim = mean(&d->sim.wait, OF_ALL);
    char r[WORDS_MAX], s[WORDS_MAX];
    double busy = d->real.span > 0 ? d->real.busy / d->real.span : 0;
    if (!d->per_token && differs(d, real, sim))
        compare_note(
            &d->findings,
            "Requests wait %s real, %s simulated for their first batch: the queues differ.%s",
            words_duration(r, real), words_duration(s, sim),
            d->real.one_stage && busy > 0.8
                ? arena_printf(d->a,
                               " The real engine was busy %.0f %% of the time; that close to "
                               "saturation a queue multiplies small differences in batch time.",
                               100 * busy)
                : "");
    double late = mean(&d->real.late, OF_ALL) - (d->sim.late.n ? mean(&d->sim.late, OF_ALL) : 0);
    double ttft = d->c->cells[METRIC_TTFT][0].real_ns / 1e9;
    if (!d->per_token && 100 * late > d->c->params.pass_percent * ttft)
        compare_note(&d->findings,
                     "The real run sent its requests %s late on average; TTFT and E2E count "
                     "from the planned arrival.",
                     words_duration(r, late));
    if (d->real.preemptions != d->sim.preemptions)
        compare_note(&d->findings, "%s preemptions real, %s simulated: KV-cache pressure differs.",
                     words_count(r, d->real.preemptions), words_count(s, d->sim.preemptions));
}

static void find_all(struct diagnosis *d)
{
    double apart = d->base > 0 ? 100 * fabs(d->difference) / d->base : (double)NAN;
    bool agree = apart <= d->c->params.pass_percent;
    char text[WORDS_MAX];
    if (agree)
        compare_note(
            &d->findings,
            "Batch times agree within %s on average: like batches take about as long on both "
            "sides.",
            words_percent(text, apart));
    else
        find_parts(d);
    if (agree)
        find_classes(d);
    size_t before = d->findings.v.n;
    find_queue(d);
    if (agree || before == 0)
        find_composition(d);
    if (d->findings.v.n == (agree ? 1 : 0))
        compare_note(&d->findings,
                     "Neither batch times nor queues explain the difference on average: it "
                     "lies in single requests around this percentile.");
}

void compare_diagnose(struct arena *a, struct comparison *c, const struct alignment *al)
{
    struct diagnosis d = {.a = a, .c = c, .findings = {.a = a}};
    if (!c->diagnosed)
        return;
    d.real.run = &c->real;
    d.sim.run = &c->sim;
    d.per_token = c->worst_metric == METRIC_TPOT || c->worst_metric == METRIC_TOKEN_LATENCY;
    d.direction = c->cells[c->worst_metric][c->worst_percentile].error_percent > 0 ? 1 : -1;
    if (!c->real.n_batches || !c->sim.n_batches) {
        compare_note(&d.findings,
                     "No batch times to look into: %s has no batches.csv "
                     "(output.batches=full writes it).",
                     c->real.n_batches ? c->sim.dir : c->real.dir);
    } else {
        sum_batches(a, &d.real);
        sum_batches(a, &d.sim);
        sum_requests(&d.real, al);
        sum_requests(&d.sim, al);
        for (enum batch_kind k = 0; k < KINDS; k++)
            compare_kind(&d, k);
        compare_rest(&d);
        for (size_t i = 0; i < d.parts.n; i++)
            if (d.pull > 0 && !d.parts.p[i].detail)
                d.parts.p[i].share = d.gain.p[i] * d.direction / d.pull;
        find_all(&d);
    }
    c->parts = arena_copy(a, d.parts.p, d.parts.n * sizeof *d.parts.p);
    c->n_parts = d.parts.n;
    c->findings = arena_copy(a, d.findings.v.p, d.findings.v.n * sizeof *d.findings.v.p);
    c->n_findings = d.findings.v.n;
    vec_free(&d.parts);
    vec_free(&d.gain);
    vec_free(&d.findings.v);
}
