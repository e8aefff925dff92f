/* One run of the serving loop over a list of requests with fake executors, everything recorded. */
#ifndef SUPPORT_SERVE_HARNESS_H
#define SUPPORT_SERVE_HARNESS_H

#include "base/vec.h"
#include "serve/serve.h"
#include "support/fake_executor.h"

enum { HARNESS_LINE = 400 };

struct harness {
    struct serve_params p;
    struct fake_params fake; /* block_size, num_blocks, batch_cap are filled from p */
    const struct workload_request *requests; /* arrival_ns is filled from arrival_s */
    size_t n_requests;
    volatile sig_atomic_t stop;
    int64_t stop_at_batch; /* n > 0: stop is set when the nth batch is submitted */
    bool real_clock;
    bool no_rows;       /* no sink at all */
    bool no_prompt_ids; /* predictions: the source has none */

    enum st st;
    struct err e;
    struct serve_counters n;
    VEC(struct run_request) rows; /* error_msg is copied */
    VEC(struct run_token) tokens; /* as handed over */
    VEC(struct run_batch) batches;
    VEC(char *) lines; /* fake_batch_text of each batch, all replicas */

    size_t pulled;
    struct serve_clock clock;
};

/* vllm_v1, one replica, 8 requests at once, 8 tokens per batch, 100 blocks of 4 tokens; batches
 * take 1 s. */
struct harness harness_default(void);
void harness_run(struct harness *h);
void harness_free(struct harness *h);

const struct run_request *harness_row(const struct harness *h, int64_t request_id);

/* The ids a computing fake is fed, and the outputs it must give. Of requests HARNESS_ALIKE + k the
 * first k % 7 * 5 tokens are those of the family k % 4. */
enum { HARNESS_ALIKE = 10000 };
void harness_prompt(int64_t request_id, int64_t n, int32_t *ids);
int32_t harness_expected_token(const struct workload_request *r, int64_t index);

/* Exactly these batches, a line each as fake_batch_text writes it, in the order of submission. */
#define EXPECT_BATCHES(h, ...)                              \
    harness_expect((h), (const char *const[]){__VA_ARGS__}, \
                   sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))
void harness_expect(const struct harness *h, const char *const *want, size_t n);

/* What must hold of every finished run: every request one row; tokens in order, each once, as many
 * as asked or ended early, with the latencies and times of the rows; batch rows that add up to the
 * counters. Fails the test otherwise. The requests must be sorted by id; their tokens are then. */
void harness_check(struct harness *h);

#endif
