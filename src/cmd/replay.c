#include "replay/replay.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "cmd/commands.h"
#include "cmd/energy.h"
#include "energy/stamp.h"
#include "replay/verify.h"
#include "replay/worker.h"
#include "text/table.h"

static struct replay_params params_of(const struct replay_capsule_params *r)
{
    struct replay_params p = {.gpu = (int)r->gpu, .timer = r->timer, .cold = r->cold};
    p.timer.sample_s = r->sample_ms / 1e3;
    p.timer.stop = &job_stop;
    return p;
}

static const char *micro(struct arena *a, const struct timing *t)
{
    return t->n ? arena_printf(a, "%.3f", t->median_s * 1e6) : "n/a";
}

static const char *micro_of(struct arena *a, double s)
{
    return isfinite(s) ? arena_printf(a, "%.3f", s * 1e6) : "n/a";
}

/* Seconds of all of a kind, by which the table is sorted. */
static double total_s(const struct replay_kernel *k)
{
    const double one_s = isfinite(k->in_context_s) ? k->in_context_s
                         : k->warm.n               ? k->warm.median_s
                                                   : 0;
    return one_s * (double)k->count;
}

/* The kernels that take most; those alike to a millionth in their order. */
static void add_top(struct arena *a, const struct replay_kernels *k, bool region, struct buf *text)
{
    enum { TOP = 10 };
    struct table *t = table_new(a, region ? 10 : 7);
    bool *shown = arena_array(a, bool, k->n);
    if (region)
        table_cell(t, "class");
    table_cell(t, "tier");
    table_cell(t, "count");
    table_cell(t, "warm (us)");
    table_cell(t, "quartiles");
    table_cell(t, "cold (us)");
    if (region) {
        table_cell(t, "repeated (us)");
        table_cell(t, "in region (us)");
    }
    table_cell(t, region ? "in application (us)" : "in the trace (us)");
    table_cell(t, "name");
    for (int row = 0; row < TOP; row++) {
        const struct replay_kernel *best = NULL;
        for (size_t i = 0; i < k->n; i++)
            if (!shown[i] && total_s(&k->p[i]) > 0 &&
                (!best || total_s(&k->p[i]) > (1 + 1e-6) * total_s(best)))
                best = &k->p[i];
        if (!best)
            break;
        shown[best - k->p] = true;
        if (region)
            table_cell(t, "%lld", (long long)best->number);
        table_cell(t, "%d", best->tier);
        table_cell(t, "%lld", (long long)best->count);
        table_cell(t, "%s", micro(a, &best->warm));
        if (best->warm.n)
            table_cell(t, "%.3f to %.3f", best->warm.low_s * 1e6, best->warm.high_s * 1e6);
        else
            table_cell(t, "n/a");
        table_cell(t, "%s", micro(a, &best->cold));
        if (region) {
            table_cell(t, "%s", micro(a, &best->repeated));
            table_cell(t, "%s", micro_of(a, best->in_context_s));
        }
        table_cell(t, "%s", micro_of(a, best->app_s));
        table_cell(t, "%.80s", best->name);
    }
    if (table_rows(t) > 1)
        table_text(text, t);
}

/* What the times of some hold, or may not hold. */
static void add_notes(const struct replay_kernels *k, struct buf *text)
{
    for (size_t i = 0; i < k->n; i++) {
        const struct replay_kernel *x = &k->p[i];
        if (x->sets && x->warm.n)
            buf_printf(text,
                       "class %lld: repeated with the sets that belong to it (%lld in the region), "
                       "whose %.3f us are taken off\n",
                       (long long)x->number, (long long)x->sets, x->sets_s * 1e6);
        if (x->in_front && x->warm.n)
            buf_printf(
                text,
                "class %lld: the first of it alone, behind all before it: in turn, on memory "
                "at the region's begin, they fail\n",
                (long long)x->number);
        if (replay_is_suspect(x))
            buf_printf(text,
                       "class %lld: faster when repeated, %.3f us where it takes %.3f in the "
                       "region: does it do the same work?\n",
                       (long long)x->number, x->warm.median_s * 1e6, x->in_context_s * 1e6);
    }
}

/* Reasons for what was not measured, each with its number of kinds and invocations. */
static struct node *left_out(struct arena *a, const struct replay_kernels *k)
{
    struct node *out = node_new(a, NODE_MAP);
    for (size_t i = 0; i < k->n; i++) {
        if (k->p[i].warm.n || !k->p[i].why)
            continue;
        struct node *n = node_find(out, k->p[i].why);
        if (!n) {
            n = node_put(a, out, k->p[i].why, node_new(a, NODE_MAP));
            node_put(a, n, "kinds", node_int(a, 0));
            node_put(a, n, "invocations", node_int(a, 0));
        }
        node_find(n, "kinds")->i++;
        node_find(n, "invocations")->i += k->p[i].count;
    }
    return out;
}

/* Which GPU, and in which state it was. */
static struct node *gpu_node(struct arena *a, const char *name, const char *uuid,
                             const struct gpu_conditions *under)
{
    struct node *gpu = node_new(a, NODE_MAP);
    node_put(a, gpu, "name", node_str_or_null(a, name));
    node_put(a, gpu, "uuid", node_str_or_null(a, uuid));
    node_put(a, gpu, "sm_mhz", node_number(a, under->sm_mhz));
    node_put(a, gpu, "power_w", node_number(a, under->power_w));
    node_put(a, gpu, "celsius_high", node_number(a, under->celsius_high));
    node_put(a, gpu, "clock_limits", node_str(a, gpu_reason_words(a, under->reasons)));
    return gpu;
}

static struct node *meta_node(struct job_context *c, const char *id, const struct artifact *art,
                              const struct replay_outcome *r)
{
    struct arena *a = c->a;
    char uuid[GPU_UUID_TEXT];
    struct node *extra = node_new(a, NODE_MAP);
    gpu_uuid_text(r->gpu.uuid, uuid);
    node_put(a, extra, "gpu", gpu_node(a, r->gpu.name, uuid, &r->under));
    node_put(a, extra, "signatures", node_str(a, c->plan->replay.signatures));
    node_put(a, extra, "not_measured", left_out(a, &r->kernels));
    return job_meta_elsewhere(c, art, id, "replay", extra);
}

static void print_result(struct job_context *c, const struct replay_outcome *r, const char *dir)
{
    struct arena *a = c->a;
    struct node *out = node_new(a, NODE_MAP);
    struct buf text = {0};
    const struct node *missing = left_out(a, &r->kernels);
    add_top(a, &r->kernels, false, &text);
    for (uint32_t i = 0; i < missing->n; i++)
        buf_printf(&text, "not measured: %lld kinds, %lld invocations: %s\n",
                   (long long)node_find(missing->pairs[i].value, "kinds")->i,
                   (long long)node_find(missing->pairs[i].value, "invocations")->i,
                   missing->pairs[i].key.p);
    node_put(a, out, "kernels", node_int(a, (int64_t)r->kernels.n));
    node_put(a, out, "measured", node_int(a, (int64_t)replay_measured(&r->kernels, 0)));
    node_put(a, out, "sum_ms", node_float(a, nearbyint(replay_sum_s(&r->kernels) * 1e9) / 1e6));
    node_put(a, out, "out", node_str(a, dir));
    job_lines(&text, out);
    if (c->json)
        node_put(a, out, "isolated", replay_isolated_node(a, &r->kernels));
    job_result(c, out, buf_str(&text));
    buf_free(&text);
}

/* Clocks that heat or the hardware held down are not the GPU's: the files stay, to be looked at. */
static enum st reject_hot(struct arena *a, const struct gpu_conditions *under, struct err *e)
{
    if (!gpu_reasons_reject(under->reasons))
        return ST_OK;
    err_set(e, ST_REJECTED, "clocks were held down while it was measured: %s",
            gpu_reason_words(a, under->reasons));
    return err_hint(e, "let the GPU cool down and measure again");
}

static enum st replay_from_signatures(struct job_context *c, struct err *e)
{
    const struct replay_params params = params_of(&c->plan->replay);
    struct replay_signatures in;
    struct replay_outcome r;
    struct artifact art;
    const char *id, *dir = job_out_dir(c, "replays", &id);
    TRY(replay_signatures_read(c->a, c->plan->replay.signatures, &in, e));
    TRY(artifact_begin(c->a, dir, "run_meta.json", &art, e));
    enum st st = replay_signatures(c->a, &in, &params, &r, e);
    if (st == ST_OK)
        st = replay_write_isolated(c->a, &art, &r.kernels, e);
    if (st == ST_OK)
        st = job_snapshot(c, &art, e);
    if (st == ST_OK)
        st = artifact_commit(&art, meta_node(c, id, &art, &r), e);
    artifact_discard(&art);
    if (st != ST_OK)
        return st;
    print_result(c, &r, dir);
    return reject_hot(c->a, &r.under, e);
}

/* ---- capsules -------------------------------------------------------------------------------- */

static enum replay_task task_of(const struct job_context *c)
{
    static const struct {
        const char *word;
        enum replay_task task;
    } rows[] = {{"verify", REPLAY_VERIFY},
                {"time", REPLAY_TIME},
                {"extract", REPLAY_EXTRACT},
                {"trial", REPLAY_TRIAL}};
    for (size_t i = 0; c->n_words && i < sizeof rows / sizeof *rows; i++)
        if (strcmp(c->words[0], rows[i].word) == 0)
            return rows[i].task;
    return c->plan->replay.dispatch >= 0 ? REPLAY_TIME : REPLAY_BOTH;
}

static enum st check_settings(const struct job_context *c, enum replay_task task, struct err *e)
{
    const struct plan *p = c->plan;
    if (c->n_words > 1)
        return err_set(e, ST_USAGE, "%s and %s cannot be had at once", c->words[0], c->words[1]);
    if (c->n_words && !p->replay.dir)
        return err_set(e, ST_USAGE, "%s needs capsule=", c->words[0]);
    if (task == REPLAY_EXTRACT && (p->replay.dispatch < 0 || !p->out)) {
        err_set(e, ST_USAGE, "extract needs replay.dispatch= and out=");
        return err_hint(e,
                        "isolated_kernels_timing.json of a replay has first_dispatch of each kind");
    }
    if (task != REPLAY_EXTRACT && task != REPLAY_TIME && p->replay.dispatch >= 0)
        return err_set(e, ST_USAGE, "replay.dispatch= is of time and extract");
    if (p->replay.classes.n && (p->replay.dispatch >= 0 || task == REPLAY_VERIFY ||
                                task == REPLAY_TRIAL || task == REPLAY_EXTRACT))
        return err_set(e, ST_USAGE,
                       "replay.classes= is of what is timed, and not with replay.dispatch=");
    if ((p->replay.tolerance > 0) != (p->replay.dtype != VERIFY_BYTES)) {
        err_set(e, ST_USAGE, "replay.tolerance and replay.dtype are given together or not at all");
        return err_hint(e, "replay.tolerance=1e-3 replay.dtype=bf16");
    }
    return ST_OK;
}

static struct replay_capsule_params capsule_params(const struct job_context *c,
                                                   enum replay_task task)
{
    struct replay_capsule_params p = c->plan->replay;
    p.task = task;
    p.timer = params_of(&p).timer;
    p.limits.stop = &job_stop;
    p.extract = c->plan->out;
    return p;
}

static struct node *report_meta(struct job_context *c, const char *id, const struct artifact *art,
                                const struct replay_report *r)
{
    struct arena *a = c->a;
    struct node *extra = node_new(a, NODE_MAP);
    node_put(a, extra, "gpu", gpu_node(a, r->gpu, r->uuid, &r->under));
    node_put(a, extra, "capsule", node_str(a, c->plan->replay.dir));
    node_put(a, extra, "verified",
             r->verified ? node_copy(a, r->verified) : node_new(a, NODE_NULL));
    node_put(a, extra, "not_measured", left_out(a, &r->kernels));
    return job_meta_elsewhere(c, art, id, "replay", extra);
}

static int64_t member(const struct node *map, const char *key)
{
    const struct node *n = node_find(map, key);
    return n && n->kind == NODE_INT ? n->i : 0;
}

/* "from 3 to 8 bytes" of a list of two. */
static void add_apart(struct buf *text, const struct node *list)
{
    const long long low = (long long)list->items[0]->i, high = (long long)list->items[1]->i;
    if (low == high)
        buf_printf(text, "in %lld bytes", low);
    else
        buf_printf(text, "in %lld to %lld bytes", low, high);
}

static void add_variation(const struct node *v, struct buf *text)
{
    const struct node *replays = node_find(v, "replays_apart_bytes"),
                      *program = node_find(v, "program_apart_bytes"),
                      *source = node_find(v, "varies_from");
    if (!member(v, "nondeterministic_bytes"))
        return;
    if (replays->kind == NODE_LIST) {
        buf_printf(text, "  %lld replays differ from each other ", (long long)member(v, "replays"));
        add_apart(text, replays);
        buf_puts(text, ", the program's result from theirs ");
        add_apart(text, program);
        buf_putc(text, '\n');
    }
    if (source->kind != NODE_MAP) {
        buf_puts(text, "  one by one its operations give the same each time: "
                       "results vary where they overlap\n");
        return;
    }
    const int64_t first = member(source, "first_dispatch"), last = member(source, "dispatch");
    buf_puts(text, "  results vary from ");
    if (first != last)
        buf_printf(text, "one of operations %lld to %lld on, ", (long long)first, (long long)last);
    else
        buf_printf(text, "operation %lld on, ", (long long)last);
    buf_printf(text, "%.90s\n", node_find(source, "name")->s.p);
}

static void add_writers(const struct node *v, struct buf *text)
{
    const struct node *writers = node_find(v, "writers"),
                      *complete = node_find(v, "writers_complete");
    for (uint32_t i = 0; i < writers->n; i++) {
        const struct node *x = writers->items[i];
        const int64_t bytes = member(x, "bytes"), wrong = member(x, "wrong_bytes"),
                      unsettled = member(x, "unsettled_bytes");
        const struct {
            int64_t bytes;
            const char *words;
        } rows[] = {{wrong, "wrong"},
                    {unsettled, "unsettled"},
                    {bytes - wrong - unsettled, "nondeterministic"}};
        const char *comma = "";
        buf_printf(text,
                   "  last written by operation %lld, %.90s: ", (long long)member(x, "dispatch"),
                   node_find(x, "name")->s.p);
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
            if (rows[k].bytes) {
                buf_printf(text, "%s%lld bytes %s", comma, (long long)rows[k].bytes, rows[k].words);
                comma = ", ";
            }
        buf_putc(text, '\n');
    }
    if (member(v, "more_writers"))
        buf_printf(text, "  and by %lld operations more\n", (long long)member(v, "more_writers"));
    if (!complete->b)
        buf_puts(text, "  not all bytes that differ were followed to who wrote them\n");
}

/* One line on what was compared; what varies between replays, and since when; a line for each
 * writer of bytes that differ. */
static void add_verdict(const struct node *v, struct buf *text)
{
    static const struct {
        const char *verdict, *words;
    } verdicts[] = {{"same", "verified"}, {"unchanged", "nothing to verify by"}};
    char compared[STR_BYTES_MAX], changed[STR_BYTES_MAX];
    const char *words = "NOT verified", *verdict = node_find(v, "verdict")->s.p;
    str_from_bytes(compared, member(v, "compared_bytes"));
    str_from_bytes(changed, member(v, "changed_bytes"));
    for (size_t i = 0; i < sizeof verdicts / sizeof *verdicts; i++)
        if (strcmp(verdict, verdicts[i].verdict) == 0)
            words = verdicts[i].words;
    buf_printf(text, "%s: %s compared, ", words, compared);
    if (member(v, "changed_bytes"))
        buf_printf(text, "%s in pages that the region changes", changed);
    else if (member(v, "rewritten_bytes"))
        buf_printf(text, "all as before the region; %lld bytes were others on the way",
                   (long long)member(v, "rewritten_bytes"));
    else
        buf_puts(text, "all as before the region, and nothing was seen to be written: "
                       "a replay that did nothing would be the same");
    static const struct {
        const char *key, *words;
    } rows[] = {{"wrong_bytes", "wrong"},
                {"unsettled_bytes", "unsettled"},
                {"nondeterministic_bytes", "nondeterministic"},
                {"tolerated_bytes", "within the tolerance"},
                {"undefined_bytes", "never written"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (member(v, rows[i].key))
            buf_printf(text, "; %lld bytes %s", (long long)member(v, rows[i].key), rows[i].words);
    buf_putc(text, '\n');
    if (strcmp(verdict, "unlike") == 0)
        buf_puts(text, "  the program's result is farther from every replay than these are from "
                       "each other\n");
    add_variation(v, text);
    add_writers(v, text);
}

static struct node *us(struct arena *a, double s)
{
    return node_number(a, isfinite(s) ? nearbyint(s * 1e9) / 1e3 : NAN);
}

/* The energy of the region by a log that runs beside the replay: power=. Its times without a zone
 * are this machine's local ones. */
static enum st region_energy(struct job_context *c, const struct replay_report *r,
                             struct energy_whole *out, struct err *e)
{
    const struct plan *p = c->plan;
    const struct timing *t = &r->region.time;
    struct power_log log;
    TRY(power_log_read(c->a, energy_file(c->a, p->energy.power, "power.csv"),
                       energy_log_gpu(c, "replay.gpu", p->replay.gpu), &log, e));
    const int64_t east_ns = log.zoned ? 0 : stamp_utc_offset_s(t->start_wall_ns) * NS_PER_S;
    struct full_timing full = {
        .window = timing_window_of(c->a, t->start_wall_ns + east_ns, t->end_wall_ns + east_ns, 0),
        .num_runs = t->runs,
        .inference_us = t->median_s * 1e6,
        .source = "the replay"};
    full.window.zoned = log.zoned;
    return energy_whole_of(&log, &full, out, e);
}

static void add_energy(struct job_context *c, const struct energy_whole *w, struct node *out,
                       struct buf *text)
{
    node_put(c->a, out, "energy_per_inference_j", node_number(c->a, w->energy_per_inference_j));
    node_put(c->a, out, "mean_power_w", node_number(c->a, w->power.mean_w));
    energy_whole_text(c->a, text, "The region", w);
    if (c->json)
        node_put(c->a, out, "full_model", energy_whole_node(c->a, w));
}

/* Sums of the operations' own times beside the application's, each by its own limit. */
static void add_sums(const struct replay_region *r, struct buf *text)
{
    struct replay_apart ways[REPLAY_WAYS];
    replay_apart_of(r, ways);
    for (int i = 0; i < REPLAY_WAYS; i++) {
        if (!isfinite(ways[i].sum_s))
            continue;
        buf_printf(text, "%s: operations take %.1f %% %s in the application, ", ways[i].way,
                   fabs(ways[i].percent), ways[i].percent < 0 ? "less than" : "more than");
        if (!ways[i].judged)
            buf_puts(text, "where they are too short to judge by\n");
        else if (ways[i].within)
            buf_printf(text, "within %g %%\n", ways[i].limit);
        else
            buf_printf(text, "BEYOND %g %%: are they the same work, at the same clocks?\n",
                       ways[i].limit);
    }
}

/* energy: NULL = no power log. */
static void print_report(struct job_context *c, const struct replay_report *r,
                         const struct energy_whole *energy, const char *dir)
{
    struct arena *a = c->a;
    struct node *out = node_new(a, NODE_MAP);
    struct buf text = {0};
    const struct node *missing = left_out(a, &r->kernels);
    if (replay_measured(&r->kernels, 0))
        add_top(a, &r->kernels, true, &text);
    add_notes(&r->kernels, &text);
    for (uint32_t i = 0; i < missing->n; i++)
        buf_printf(&text, "not measured: %lld kinds, %lld invocations: %s\n",
                   (long long)member(missing->pairs[i].value, "kinds"),
                   (long long)member(missing->pairs[i].value, "invocations"),
                   missing->pairs[i].key.p);
    if (r->verified)
        add_verdict(r->verified, &text);
    if (r->region.why_no_nodes)
        buf_printf(&text, "no times inside the region: %s\n", r->region.why_no_nodes);
    add_sums(&r->region, &text);
    node_put(a, out, "kernels", node_int(a, (int64_t)r->kernels.n));
    if (r->verified)
        node_put(a, out, "wrong_bytes", node_int(a, r->wrong_bytes));
    if (r->region.time.n) {
        node_put(a, out, "region_us", us(a, r->region.time.median_s));
        node_put(a, out, "alone_sum_us", us(a, replay_sum_s(&r->kernels)));
        node_put(a, out, "in_region_sum_us", us(a, r->region.nodes_s));
        if (isfinite(r->region.as_launched_s))
            node_put(a, out, "as_launched_sum_us", us(a, r->region.as_launched_s));
    }
    node_put(a, out, "application_sum_us", us(a, r->region.app_nodes_s));
    node_put(a, out, "application_wall_us", us(a, r->region.app_wall_s));
    if (energy)
        add_energy(c, energy, out, &text);
    node_put(a, out, "out", node_str(a, dir));
    job_lines(&text, out);
    if (c->json) {
        node_put(a, out, "verified",
                 r->verified ? node_copy(a, r->verified) : node_new(a, NODE_NULL));
        if (replay_measured(&r->kernels, 0))
            node_put(a, out, "isolated", replay_isolated_node(a, &r->kernels));
        if (r->region.time.n)
            node_put(a, out, "full", replay_full_node(a, &r->region));
    }
    job_result(c, out, buf_str(&text));
    buf_free(&text);
}

static enum st write_report(struct job_context *c, struct artifact *art, const char *id,
                            const struct replay_report *r, struct err *e)
{
    if (r->region.time.n)
        TRY(replay_write_full(c->a, art, &r->region, e));
    if (replay_measured(&r->kernels, 0))
        TRY(replay_write_isolated(c->a, art, &r->kernels, e));
    TRY(job_snapshot(c, art, e));
    return artifact_commit(art, report_meta(c, id, art, r), e);
}

static enum st reject_unchanged(struct err *e)
{
    err_set(e, ST_REJECTED, "the region shows nothing to verify by");
    return err_hint(e, "capture a pass whose input is another than that of the pass before it");
}

/* Verifies and times into a folder. Returns the exit code, 1 for a region that is not the
 * program's. */
static int replay_into_folder(struct job_context *c, const struct replay_capsule_params *p,
                              struct err *e)
{
    struct replay_report r;
    struct artifact art;
    const char *id, *dir = job_out_dir(c, "replays", &id);
    if (artifact_begin(c->a, dir, "run_meta.json", &art, e) != ST_OK)
        return err_exit_code(e->st);
    enum st st = replay_capsule(c->a, p, &r, e);
    if (st == ST_OK)
        st = write_report(c, &art, id, &r, e);
    artifact_discard(&art);
    if (st != ST_OK)
        return err_exit_code(st);
    struct energy_whole energy;
    const bool powered = c->plan->energy.power && r.region.time.n > 0;
    if (powered && region_energy(c, &r, &energy, e) != ST_OK)
        return err_exit_code(e->st);
    print_report(c, &r, powered ? &energy : NULL, dir);
    if (p->task != REPLAY_VERIFY && reject_hot(c->a, &r.under, e) != ST_OK)
        return err_exit_code(e->st);
    if (!r.verdict || strcmp(r.verdict, "same") == 0)
        return 0;
    return strcmp(r.verdict, "unchanged") == 0 ? err_exit_code(reject_unchanged(e)) : 1;
}

/* Runs it once, or extracts and runs that once. */
static int try_capsule(struct job_context *c, const struct replay_capsule_params *p, struct err *e)
{
    struct arena *a = c->a;
    struct replay_report r;
    struct node *out = node_new(a, NODE_MAP);
    if (replay_capsule(a, p, &r, e) != ST_OK)
        return err_exit_code(e->st);
    node_put(a, out, "runs", node_bool(a, !r.fault));
    if (r.fault)
        node_put(a, out, "fault", node_str(a, r.fault));
    if (r.extracted) {
        node_put(a, out, "allocations", node_int(a, member(r.extracted, "allocations")));
        if (member(r.extracted, "sets"))
            node_put(a, out, "sets", node_int(a, member(r.extracted, "sets")));
        node_put(a, out, "memory_bytes", node_int(a, member(r.extracted, "bytes")));
        node_put(a, out, "file_bytes", node_int(a, member(r.extracted, "file_bytes")));
        node_put(a, out, "out", node_str(a, p->extract));
    }
    job_result(c, out, NULL);
    return r.fault ? 1 : 0;
}

static int replay_of_capsule(struct job_context *c, struct err *e)
{
    const enum replay_task task = task_of(c);
    const struct replay_capsule_params p = capsule_params(c, task);
    if (check_settings(c, task, e) != ST_OK)
        return err_exit_code(e->st);
    return task == REPLAY_TRIAL || task == REPLAY_EXTRACT ? try_capsule(c, &p, e)
                                                          : replay_into_folder(c, &p, e);
}

int cmd_replay_worker(const char *order)
{
    job_catch_signals();
    return replay_worker(order, &job_stop);
}

static int run_replay(struct job_context *c, struct err *e)
{
    int code = 0;
    job_catch_signals();
    if (c->plan->replay.dir || c->n_words) {
        code = replay_of_capsule(c, e);
    } else if (c->plan->replay.signatures) {
        code = err_exit_code(replay_from_signatures(c, e));
    } else {
        err_set(e, ST_USAGE, "nothing to replay is named");
        err_hint(e, "capsule= takes a folder that twinfer capture wrote, signatures= "
                    "kernel_signatures.json of twinfer kernels");
        code = err_exit_code(e->st);
    }
    if (e->st != ST_OK)
        err_add(e, "replay");
    return code;
}

static const struct cmd_alias aliases[] = {
    {"--dispatch", "replay.dispatch"}, {"--iterations", "replay.samples"}, {NULL, NULL}};

const struct cmd cmd_replay = {
    .id = COMMAND_REPLAY,
    .words = "verify|time|extract|trial",
    .aliases = aliases,
    .columns = "kernels measured sum_ms wrong_bytes region_us",
    .summary = "run GPU work again without the program: verify and time it, whole and by kernel",
    .about =
        "With capsule=, the very kernels of a captured region run again from the captured "
        "memory, without the program and its framework. What they produce is compared with what "
        "the program produced (verify; exit code 1 when it differs), then times are taken: of "
        "the whole region as a graph, and of each kind of kernel alone, warm and with a cold L2 "
        "cache, repeated in its places, and inside the region (time). extract makes a small "
        "capsule of one operation, trial runs the region once. With signatures=, what the "
        "signatures of kernels determine is timed alone: copies and sets by their bytes, and "
        "matrix products of known shape and type by cuBLASLt. Writes full_model_timing.json "
        "and isolated_kernels_timing.json. --dispatch N is replay.dispatch=N, --iterations N is "
        "replay.samples=N.",
    .example = "twinfer replay capsule=runs/capsules/c1 out=replay",
    .run = run_replay,
};
