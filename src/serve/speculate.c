#include "serve/speculate.h"

#include "serve/replica.h"
#include "serve/tokens.h"

struct speculation speculation_begin(const struct serve_params *p, int32_t replica)
{
    char name[48];
    snprintf(name, sizeof name, "serve.speculate.%d", replica);
    return (struct speculation){.rng = rng_stream(p->seed, name),
                                .draft_tokens = (int32_t)p->draft_tokens,
                                .acceptance = p->acceptance};
}

int64_t speculation_draw(struct speculation *s, int64_t left)
{
    int64_t m = 1;
    while (m <= s->draft_tokens && rng_unit(&s->rng) < s->acceptance)
        m++;
    return m < left ? m : left;
}

void speculation_advance(struct replica *r, struct lane *lane, struct flight *f)
{
    struct decode_set *set = &lane->set;
    struct serve_counters *n = r->run->counters;
    int64_t blocks = 0;
    f->steps.n = 0;
    for (struct link *l = set->members.next; l != &set->members; l = l->next) {
        struct request *q = request_of(l);
        int64_t kv = decode_set_kv(set, q);
        int64_t m = speculation_draw(&r->speculation, q->finish - set->tick + 1);
        if (!q->fixed_blocks)
            blocks += kv_blocks_for(&r->kv, kv + m) - kv_blocks_for(&r->kv, kv);
        decode_set_skip(set, q, m - 1);
        vec_push(&f->steps, (struct spec_step){q, m});
        n->spec_accepted_tokens += m - 1;
    }
    n->spec_steps += set->n;
    n->spec_draft_tokens += set->n * set->draft_tokens;
    r->kv.free += f->spec_blocks - blocks;
    decode_set_tick(set, &f->finishing);
}

void speculation_deliver(struct replica *r, const struct flight *f, int64_t end_ns)
{
    for (size_t i = 0; i < f->steps.n; i++)
        for (int64_t k = 0; k < f->steps.p[i].tokens; k++)
            tokens_deliver(r, f->steps.p[i].q, end_ns, RUN_NONE);
}
