/* An executor of known operator times on the virtual clock, to test what measures and what predicts
 * them. Per repeat, in s, with k the operator's row:
 *     over tokens or rows n   (k + 1) 1e-6 + (k + 1) 1e-8 n
 *     decode attention        2e-6 + 1e-7 sequences + 1e-9 sum of kv before
 *     prefill attention       sum over chunks of 3e-6 + 1e-7 c + 1e-10 (c kv + c (c + 1) / 2)
 * (of attention to a window the keys and scores that it sees; of a further kind of layer twice
 * that) and host time 1e-5 + 1e-6 sequences per batch, twice that with chunks. It keeps the decode
 * set and checks the sums of each batch against the slots it can see. */
#ifndef SUPPORT_TIMED_EXECUTOR_H
#define SUPPORT_TIMED_EXECUTOR_H

#include "serve/executor.h"

struct timed_executor {
    const struct model *model;
    double (*factor)(int64_t pass); /* multiplies the operators of that pass; NULL = 1 */
    double (*batch_factor)(const struct batch *b); /* the same, by what the batch is */
    void (*at_pass)(void *self, int64_t pass);     /* NULL; called by each submit */
    void *at_pass_self;
    bool no_op_times;

    int64_t passes;
    double device_s; /* of all passes */
    bool in_set[1024];
    int32_t n_set;
    struct slot_source source;
    struct op_list ops;
    struct completion done;
    double op_s[OP_ROWS], free_s;
    uint64_t ticket;
    bool busy;
};

struct executor timed_executor(struct timed_executor *t);

double timed_flat_s(int32_t row, int64_t n);
double timed_decode_s(int64_t seqs, int64_t kv_tokens);
double timed_prefill_s(int64_t chunk, int64_t kv);
double timed_host_s(int64_t seqs, bool chunks);

#endif
