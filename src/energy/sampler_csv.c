/* Sensors without hardware: a power log that is played, and a curve. Time counts from open. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/vec.h"
#include "energy/power_log.h"
#include "energy/sampler.h"

struct played {
    struct power_curve curve;
    int64_t opened_ns;
};

static enum st play(struct arena *a, const struct power_curve *c, void **self)
{
    struct played *p = arena_one(a, struct played);
    *p = (struct played){*c, clock_mono_ns()};
    *self = p;
    return ST_OK;
}

static enum st read_played(void *self, double *watts, struct err *e)
{
    const struct played *p = self;
    (void)e;
    *watts = power_curve_at(&p->curve, ns_to_s(clock_mono_ns() - p->opened_ns));
    return ST_OK;
}

/* ---- curves ---------------------------------------------------------------------------------- */

enum st power_curve_parse(struct arena *a, const char *text, struct power_curve *out, struct err *e)
{
    VEC(double) s = {0}, w = {0};
    enum st st = ST_OK;
    for (const char *p = text + strspn(text, " "); *p && st == ST_OK; p += strspn(p, " ")) {
        const size_t n = strcspn(p, " ");
        const char *colon = memchr(p, ':', n);
        double at, watts;
        if (!colon || !str_double((struct sv){p, (size_t)(colon - p)}, &at) ||
            !str_double((struct sv){colon + 1, n - (size_t)(colon - p) - 1}, &watts) || watts < 0)
            st = err_set(e, ST_USAGE, "'%.*s' is no point of a curve", (int)(n < 40 ? n : 40), p);
        else if (s.n > 0 && at < vec_last(&s))
            st = err_set(e, ST_USAGE, "'%.*s' comes before the point in front of it",
                         (int)(n < 40 ? n : 40), p);
        if (st == ST_OK) {
            vec_push(&s, at);
            vec_push(&w, watts);
        }
        p += n;
    }
    if (st == ST_OK && s.n == 0)
        st = err_set(e, ST_USAGE, "the curve has no point");
    if (st == ST_OK)
        *out = (struct power_curve){arena_copy(a, s.p, s.n * sizeof *s.p),
                                    arena_copy(a, w.p, w.n * sizeof *w.p), s.n};
    vec_free(&s);
    vec_free(&w);
    return st == ST_OK ? st : err_hint(e, "seconds and watts: \"0:100 1:100 1:300\"");
}

double power_curve_at(const struct power_curve *c, double s)
{
    size_t i = 0;
    while (i < c->n && c->s[i] <= s)
        i++;
    if (i == 0 || i == c->n)
        return c->w[i == 0 ? 0 : c->n - 1];
    const double part = (s - c->s[i - 1]) / (c->s[i] - c->s[i - 1]);
    return c->w[i - 1] + part * (c->w[i] - c->w[i - 1]);
}

static enum st open_fake(struct arena *a, const struct sampler_params *p, void **self,
                         struct err *e)
{
    struct power_curve c;
    if (!p->curve)
        return err_set(e, ST_USAGE, "the sampler fake needs a curve");
    TRY(power_curve_parse(a, p->curve, &c, e));
    return play(a, &c, self);
}

/* ---- logs ------------------------------------------------------------------------------------ */

static enum st open_csv(struct arena *a, const struct sampler_params *p, void **self, struct err *e)
{
    struct power_log log;
    struct power_curve c = {0};
    if (!p->path)
        return err_set(e, ST_USAGE, "the sampler csv needs a power log");
    TRY(power_log_read(a, p->path, p->gpu, &log, e));
    c.s = arena_array(a, double, log.n);
    c.w = arena_array(a, double, log.n);
    for (size_t i = 0; i < log.n; i++)
        if (!isnan(log.p[i].power_w)) {
            c.s[c.n] = ns_to_s(log.p[i].ns - log.p[0].ns);
            c.w[c.n++] = log.p[i].power_w;
        }
    if (c.n == 0)
        return err_set(e, ST_INPUT, "%s has no row with a power", p->path);
    return play(a, &c, self);
}

const struct sampler_ops sampler_csv = {.name = "csv",
                                        .what = "a power log, played from its start",
                                        .kind = SAMPLER_POWER,
                                        .averages_s = NAN,
                                        .needs = "a power log",
                                        .open = open_csv,
                                        .read = read_played};
const struct sampler_ops sampler_fake = {.name = "fake",
                                         .what = "a curve",
                                         .kind = SAMPLER_POWER,
                                         .averages_s = 0,
                                         .needs = "a curve",
                                         .open = open_fake,
                                         .read = read_played};
