/* Batches of a real run from its server's log of iterations. */
#include "compare/intern.h"
#include "metrics/iteration_times.h"

/* How the batches of a run are composed. */
struct batch_mix {
    double batches, sequences, with_prompts, prompt_tokens;
};

static struct batch_mix composed_of(const struct run *r)
{
    struct batch_mix c = {.batches = 0};
    for (size_t i = 0; i < r->n_batches; i++) {
        const struct run_batch *b = &r->batches[i];
        if (b->stage != 0)
            continue;
        c.batches++;
        c.sequences += (double)b->batch_size;
        c.with_prompts += b->num_prefill_tokens > 0;
        c.prompt_tokens += (double)b->num_prefill_tokens;
    }
    return c;
}

static void tell_composition(const struct comparison *c, struct notes *notes)
{
    const struct batch_mix real = composed_of(&c->real), sim = composed_of(&c->sim);
    char r[WORDS_MAX], s[WORDS_MAX], rp[WORDS_MAX], sp[WORDS_MAX];
    if (!(real.batches > 0 && sim.batches > 0))
        return;
    compare_note(notes,
                 "Batches: %s of %.2f sequences real, %s of %.2f simulated; of them %s with %.0f "
                 "tokens of prompts real, %s with %.0f simulated.",
                 words_count(r, (int64_t)real.batches), real.sequences / real.batches,
                 words_count(s, (int64_t)sim.batches), sim.sequences / sim.batches,
                 words_count(rp, (int64_t)real.with_prompts),
                 real.with_prompts > 0 ? real.prompt_tokens / real.with_prompts : 0,
                 words_count(sp, (int64_t)sim.with_prompts),
                 sim.with_prompts > 0 ? sim.prompt_tokens / sim.with_prompts : 0);
}

/* ST_USAGE: a log for a run that has batches. */
static enum st log_of(struct arena *a, const struct comparison *c, const char **path, struct err *e)
{
    *path = c->params.iteration_log;
    if (!*path) {
        *path = c->real.n_batches ? NULL : iteration_log_beside(a, c->real.dir);
        return ST_OK;
    }
    if (!c->real.n_batches)
        return ST_OK;
    err_set(e, ST_USAGE, "compare.iteration_log: the real run %s has its batches in batches.csv",
            c->real.dir);
    return err_hint(e, "leave compare.iteration_log out: it is for runs of a server");
}

enum st compare_take_log(struct arena *a, struct comparison *c, struct notes *notes, struct err *e)
{
    const char *path;
    struct iteration_log *log = arena_one(a, struct iteration_log);
    struct iteration_match m;
    struct iteration_times t;
    struct err few = {0};
    TRY(log_of(a, c, &path, e));
    if (!path)
        return ST_OK;
    TRY(iteration_log_read(a, path, log, e));
    TRY(iteration_match(a, &c->real, log, NULL, &m, e));
    if (iteration_times(a, &c->real, &m, &t, &few) != ST_OK) {
        compare_note(notes, "%s is not used: %s.", path, err_cause(&few, 0));
        return ST_OK;
    }
    c->real.batches = iteration_batches(a, &m, &t);
    c->real.n_batches = m.n;
    compare_note(notes, "Batches of the real run are of %s: %s.", path,
                 iteration_match_words(a, &m));
    compare_note(notes, "Times of these batches: %s.", iteration_times_words(a, &m, &t));
    tell_composition(c, notes);
    return ST_OK;
}
