/* Which kernel carries which operators: one table, asked in order. Private to the forward pass. */
#ifndef ENGINE_CUDA_RULES_H
#define ENGINE_CUDA_RULES_H

#include "engine/cuda/forward.h"

/* What a rule asks of a pass. */
enum {
    RULE_FEW = 1 << 0,      /* at most CUDA_FEW_ROWS tokens */
    RULE_FEW_ROWS = 1 << 1, /* at most CUDA_FEW_ROWS rows */
    RULE_CHUNKS = 1 << 2,
    RULE_DECODES = 1 << 3,
    RULE_FITS = 1 << 4, /* attention kernels of this shape */
    RULE_RMS = 1 << 5,  /* norms without biases, their weights as they are */
    RULE_SAMPLED = 1 << 6,
    RULE_STEP = 1 << 7, /* decode_step takes it whole */
};

/* Operators of one rule in one place of the list. */
struct rule_use {
    struct cuda_forward *f;
    const struct cuda_pass *p;
    CUstream stream;
    const struct rule *rule;
    const int32_t *rows; /* of its operators (op_steps) */
    int64_t layer;
    const struct attention *attention; /* of the layer */
    const struct mlp *mlp;
    bool *begun; /* a kernel of this pass is on the stream */
};

enum { RULE_OPS = 5 };

struct rule {
    enum op_kind ops[RULE_OPS]; /* in the order of the list, the first n */
    int n;
    uint32_t needs, lacks;
    const char *carrier; /* as bundle_meta.json tells it: "matmul" for all kernels of few rows */
    enum st (*run)(const struct rule_use *u, struct err *e); /* NULL: nothing to do */
};

uint32_t rules_of_pass(const struct cuda_forward *f, const struct cuda_pass *p);
/* The first rule that takes the operators from ops[0] on; there always is one. */
const struct rule *rule_for(uint32_t pass, const enum op_kind *ops, int n);
bool rule_has(const struct rule *r, enum op_kind op);
/* The operator that the time of a rule's kernels is charged to: the one with most work, a matrix
 * product before attention before the rest; of a step in one kernel OP_ATTN_DECODE. */
enum op_kind rule_charged(const struct rule *r, bool chunks);

/* Its row in that layer. */
int32_t rule_row(const struct rule_use *u);

/* rule_run.c */
enum st rule_decode_step(const struct rule_use *u, struct err *e);
enum st rule_embed(const struct rule_use *u, struct err *e);
enum st rule_norm(const struct rule_use *u, struct err *e);
enum st rule_few(const struct rule_use *u, struct err *e);
enum st rule_product(const struct rule_use *u, struct err *e);
enum st rule_rope(const struct rule_use *u, struct err *e);
enum st rule_decode_fused(const struct rule_use *u, struct err *e);
enum st rule_decode(const struct rule_use *u, struct err *e);
enum st rule_prefill(const struct rule_use *u, struct err *e);
enum st rule_any(const struct rule_use *u, struct err *e);
enum st rule_act(const struct rule_use *u, struct err *e);
enum st rule_greedy(const struct rule_use *u, struct err *e);
enum st rule_draw(const struct rule_use *u, struct err *e);

/* rule_experts.c */
enum st rule_route_few(const struct rule_use *u, struct err *e);
enum st rule_route(const struct rule_use *u, struct err *e);
enum st rule_experts(const struct rule_use *u, struct err *e);
enum st rule_combine(const struct rule_use *u, struct err *e);

/* Gives the kernel to the stream and charges it to the rule. */
enum st rule_launch(const struct rule_use *u, enum cuda_kernel_id id, const void *args,
                    struct err *e);
/* A pointer of arguments, and the number of tokens of the step. */
void *rule_pointer(CUdeviceptr p);
const int *rule_tokens(const struct rule_use *u);
int rule_act_of(const struct mlp *p); /* CUDA_ACT_... */

/* The sizes and addresses of decode_step, for up to `rows` rows. */
struct cuda_decode_step_args rule_step_args(const struct cuda_forward *f, int rows);

/* The product that an operator is; weight.m 0: the layer has none. */
struct cuda_product rule_product_of(const struct cuda_forward *f, enum op_kind op, int64_t layer);

#endif
