#include "support/fake_log.h"

#include "base/rng.h"

void fake_log_compose(struct fake_log *s)
{
    struct rng rng = rng_stream(7, "lengths");
    int running[FAKE_LOG_REQUESTS], n = 0;
    size_t i = 0;
    s->log = (struct iteration_log){.path = "server.log", .of = s->of, .engines = 1};
    s->run = (struct run){.dir = "run", .requests = s->requests, .n_requests = FAKE_LOG_REQUESTS};
    for (int request = 0; request < FAKE_LOG_REQUESTS || n > 0; i++) {
        struct logged_iteration *x = &s->of[i];
        const bool wait = request % FAKE_LOG_GROUP == 0 && n > 0;
        *x = (struct logged_iteration){.index = (int64_t)i,
                                       .line = (long)i + 1,
                                       .follows = i > 0,
                                       .generation_requests = n,
                                       .generation_tokens = n};
        for (int k = 0; k < n;)
            if (--running[k] == 0)
                running[k] = running[--n];
            else
                k++;
        if (request == FAKE_LOG_REQUESTS || wait || (n > 0 && rng_below(&rng, 3) > 0))
            continue;
        s->requests[request] =
            (struct run_request){.request_id = request,
                                 .first_token_ns = request + 1,
                                 .num_prefill_tokens = 100 + (int64_t)rng_below(&rng, 900),
                                 .num_decode_tokens = FAKE_LOG_ANSWER,
                                 .num_decode_tokens_actual = FAKE_LOG_ANSWER};
        s->first[request] = i;
        x->context_requests = 1;
        x->context_tokens = s->requests[request].num_prefill_tokens;
        running[n++] = FAKE_LOG_ANSWER - 1;
        request++;
    }
    s->log.n = i;
}
