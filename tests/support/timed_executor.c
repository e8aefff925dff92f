#include "support/timed_executor.h"

#include "profile/read/seen.h"
#include "support/support.h"

double timed_flat_s(int32_t k, int64_t n)
{
    return n > 0 ? (k + 1) * 1e-6 + (k + 1) * 1e-8 * (double)n : 0;
}

double timed_decode_s(int64_t seqs, int64_t kv_tokens)
{
    return seqs > 0 ? 2e-6 + 1e-7 * (double)seqs + 1e-9 * (double)kv_tokens : 0;
}

double timed_prefill_s(int64_t chunk, int64_t kv)
{
    double c = (double)chunk;
    return 3e-6 + 1e-7 * c + 1e-10 * (c * (double)kv + c * (c + 1) / 2);
}

double timed_host_s(int64_t seqs, bool chunks)
{
    return (1e-5 + 1e-6 * (double)seqs) * (chunks ? 2 : 1);
}

static int32_t one(void *self)
{
    (void)self;
    return 1;
}

static void apply(struct timed_executor *t, const struct batch *b)
{
    for (int32_t i = 0; i < b->n_left; i++) {
        assert_true(t->in_set[b->left[i]]);
        t->in_set[b->left[i]] = false;
        t->n_set--;
    }
    for (int32_t i = 0; i < b->n_entered; i++) {
        assert_false(t->in_set[b->entered[i]]);
        t->in_set[b->entered[i]] = true;
        t->n_set++;
    }
    assert_true(b->n_decodes == 0 || b->n_decodes == t->n_set);
}

static void check_rows(const struct timed_executor *t, const struct batch *b)
{
    int64_t kv = 0, tokens = 0, last = 0;
    for (int32_t i = 0; i < 1024; i++)
        if (t->in_set[i] && b->n_decodes > 0)
            kv += t->source.view(t->source.self, i).kv_tokens;
    assert_int_equal(kv, b->decode_kv_tokens);
    for (int32_t i = 0; i < b->n_chunks; i++) {
        tokens += b->chunks[i].tokens;
        last += b->chunks[i].last;
        assert_int_equal(t->source.view(t->source.self, b->chunks[i].slot).kv_tokens,
                         b->chunks[i].start);
    }
    assert_int_equal(tokens, b->prefill_tokens);
    assert_int_equal(last, b->n_last_chunks);
}

/* Cached tokens that the operator's queries see, of all decode rows. */
static int64_t kv_seen(const struct timed_executor *t, const struct seen *seen,
                       const struct batch *b)
{
    double sum = 0;
    if (!(seen->tokens > 0))
        return b->decode_kv_tokens;
    for (int32_t i = 0; i < 1024; i++)
        if (t->in_set[i] && b->n_decodes > 0)
            sum += seen_kv(seen, (double)t->source.view(t->source.self, i).kv_tokens);
    return (int64_t)sum;
}

static double chunk_s(const struct seen *seen, const struct chunk *c)
{
    const double n = (double)c->tokens;
    if (!(seen->tokens > 0))
        return timed_prefill_s(c->tokens, c->start);
    return timed_prefill_s(c->tokens, 0) +
           1e-10 * (seen_pairs(seen, (double)c->start, n) - n * (n + 1) / 2);
}

static double op_time(const struct timed_executor *t, const struct op *op, const struct batch *b)
{
    const struct seen seen = seen_of(t->model, op);
    double s = 0;
    switch (op->axis) {
    case AXIS_TOKENS:
        return timed_flat_s(op->row, b->prefill_tokens + b->n_decodes);
    case AXIS_ROWS:
        return timed_flat_s(op->row, b->n_decodes + b->n_last_chunks);
    case AXIS_DECODE:
        s = timed_decode_s(b->n_decodes, kv_seen(t, &seen, b));
        break;
    case AXIS_PREFILL:
        for (int32_t i = 0; i < b->n_chunks; i++)
            s += chunk_s(&seen, &b->chunks[i]);
        break;
    }
    return op->row < OP_KINDS ? s : 2 * s;
}

static enum st submit(void *self, const struct batch *b, uint64_t *ticket, struct err *e)
{
    struct timed_executor *t = self;
    (void)e;
    assert_false(t->busy);
    apply(t, b);
    check_rows(t, b);
    if (t->at_pass)
        t->at_pass(t->at_pass_self, t->passes);
    double factor = t->factor ? t->factor(t->passes) : 1, sum = 0;
    factor *= t->batch_factor ? t->batch_factor(b) : 1;
    t->passes++;
    for (int k = 0; k < OP_ROWS; k++)
        t->op_s[k] = 0;
    for (int i = 0; i < t->ops.n; i++) {
        const struct op *op = &t->ops.ops[i];
        sum += t->op_s[op->row] = op_time(t, op, b) * op->repeat * factor;
    }
    t->device_s += sum;
    double start = b->submit_s > t->free_s ? b->submit_s : t->free_s;
    double host = timed_host_s((int64_t)b->n_decodes + b->n_chunks, b->n_chunks > 0);
    t->free_s = start + host + sum;
    t->done = (struct completion){.ticket = ++t->ticket,
                                  .start_s = start,
                                  .end_s = t->free_s,
                                  .host_s = host / 4,
                                  .device_s = sum,
                                  .op_s = t->no_op_times || !b->op_times ? NULL : t->op_s};
    t->busy = true;
    *ticket = t->ticket;
    return ST_OK;
}

static enum st next(void *self, double deadline_s, struct completion *out, struct err *e)
{
    struct timed_executor *t = self;
    (void)e;
    if (!t->busy || t->done.end_s > deadline_s)
        return ST_END;
    t->busy = false;
    *out = t->done;
    return ST_OK;
}

static void bind_source(void *self, struct slot_source source)
{
    struct timed_executor *t = self;
    t->source = source;
    t->free_s = 0;
    t->n_set = 0;
    for (int i = 0; i < 1024; i++)
        t->in_set[i] = false;
}

static void close_nothing(void *self)
{
    (void)self;
}

#define OPS(more)                                                                            \
    {                                                                                        \
        .name = "timed", .help = "known operator times", .version = EXECUTOR_VERSION,        \
        .caps = EXEC_VIRTUAL | (more), .max_in_flight = one, .submit = submit, .next = next, \
        .close = close_nothing, .bind = bind_source                                          \
    }
static const struct executor_ops with_times = OPS(EXEC_OP_TIMES), without_times = OPS(0);

struct executor timed_executor(struct timed_executor *t)
{
    model_ops(t->model, &t->ops);
    return (struct executor){t->no_op_times ? &without_times : &with_times, t};
}
