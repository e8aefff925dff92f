#include "artifact/batch_trace.h"

#include <errno.h>

#include "base/vec.h"
#include "text/chrome.h"

enum { FLUSH_BYTES = 1 << 20 };

/* What has been written about a replica so far. */
struct known {
    int32_t stages; /* with a name */
    int64_t kv_blocks, batch_size;
};

struct batch_trace {
    const struct artifact *art;
    FILE *f;
    struct chrome list;
    int write_errno;
    VEC(struct known) replicas;
};

enum st batch_trace_open(const struct artifact *art, struct batch_trace **out, struct err *e)
{
    FILE *f;
    TRY(artifact_create_file(art, BATCH_TRACE, &f, e));
    setvbuf(f, NULL, _IONBF, 0); /* blocks are buffered here */
    struct batch_trace *t = mem_alloc(sizeof *t);
    *t = (struct batch_trace){.art = art, .f = f, .list.indent = ""};
    chrome_begin(&t->list, "");
    *out = t;
    return ST_OK;
}

static void flush(struct batch_trace *t)
{
    if (t->list.out.n > 0 && !t->write_errno &&
        fwrite(t->list.out.p, 1, t->list.out.n, t->f) != t->list.out.n)
        t->write_errno = errno ? errno : EIO;
    buf_clear(&t->list.out);
}

/* ---- events; times are in us, ids from 1: viewers keep 0 for themselves -------------------- */

static void begin(struct batch_trace *t, const char *name, char phase, int32_t replica)
{
    chrome_event(&t->list);
    buf_printf(&t->list.out, "\"name\": \"%s\", \"ph\": \"%c\", \"pid\": %d", name, phase,
               replica + 1);
}

static void put_us(struct batch_trace *t, const char *key, int64_t ns)
{
    if (ns < 0)
        buf_printf(&t->list.out, ", \"%s\": null", key);
    else
        chrome_time(&t->list.out, key, ns);
}

static void put_name(struct batch_trace *t, const char *what, int32_t replica, int32_t stage)
{
    begin(t, what, 'M', replica);
    if (stage < 0)
        buf_printf(&t->list.out, ", \"args\": {\"name\": \"replica %d\"}}", replica);
    else
        buf_printf(&t->list.out, ", \"tid\": %d, \"args\": {\"name\": \"stage %d\"}}", stage + 1,
                   stage);
}

static void put_counter(struct batch_trace *t, const char *name, const struct run_batch *b,
                        int64_t value, int64_t *last)
{
    if (value < 0 || value == *last)
        return;
    *last = value;
    begin(t, name, 'C', b->replica);
    put_us(t, "ts", b->start_ns);
    buf_printf(&t->list.out, ", \"args\": {\"%s\": %lld}}", name, (long long)value);
}

static void put_slice(struct batch_trace *t, const struct run_batch *b)
{
    const char *name = b->num_decode_tokens == 0    ? "prefill"
                       : b->num_prefill_tokens == 0 ? "decode"
                                                    : "mixed";
    begin(t, name, 'X', b->replica);
    buf_printf(&t->list.out, ", \"tid\": %d", b->stage + 1);
    put_us(t, "ts", b->start_ns);
    put_us(t, "dur", b->duration_ns);
    buf_printf(&t->list.out,
               ", \"args\": {\"iteration\": %lld, \"batch_size\": %lld, "
               "\"num_prefill_tokens\": %lld, \"num_decode_tokens\": %lld",
               (long long)b->iteration, (long long)b->batch_size, (long long)b->num_prefill_tokens,
               (long long)b->num_decode_tokens);
    put_us(t, "host_us", b->host_ns);
    put_us(t, "device_us", b->device_ns);
    buf_puts(&t->list.out, "}}");
}

static struct known *know(struct batch_trace *t, const struct run_batch *b)
{
    while (t->replicas.n <= (size_t)b->replica)
        vec_push(&t->replicas, (struct known){.kv_blocks = -1, .batch_size = -1});
    struct known *k = &t->replicas.p[b->replica];
    if (k->stages == 0)
        put_name(t, "process_name", b->replica, -1);
    for (; k->stages <= b->stage; k->stages++)
        put_name(t, "thread_name", b->replica, k->stages);
    return k;
}

void batch_trace_write(struct batch_trace *t, const struct run_batch *b)
{
    struct known *k = know(t, b);
    if (b->stage == 0) {
        put_counter(t, "KV blocks", b, b->kv_blocks, &k->kv_blocks);
        put_counter(t, "batch size", b, b->batch_size, &k->batch_size);
    }
    put_slice(t, b);
    if (t->list.out.n >= FLUSH_BYTES)
        flush(t);
}

enum st batch_trace_close(struct batch_trace **pt, struct err *e)
{
    struct batch_trace *t = *pt;
    if (!t)
        return ST_OK;
    *pt = NULL;
    chrome_end(&t->list);
    buf_puts(&t->list.out, "}\n");
    flush(t);
    enum st st = ST_OK;
    if (t->write_errno) {
        errno = t->write_errno;
        err_errno(e, false, "cannot write %s", artifact_path(t->art->a, t->art, BATCH_TRACE));
        st = err_hint(e, "free space there, or choose another place with out=");
        fclose(t->f);
    } else {
        st = artifact_close_file(t->art, BATCH_TRACE, &t->f, e);
    }
    buf_free(&t->list.out);
    vec_free(&t->replicas);
    mem_free(t);
    return st;
}
