/* Bodies of the later turns of sessions. They hold the answers that came, so they are made while
 * the clock runs, when a turn is sent; all that can be known before is made before.
 *
 *     texts        what each turn adds, and the answers as they came: one text for completions,
 *                  messages of user and assistant for a chat
 *     client.prompts=ids   the ids of the workload with those of the answers in their place, where
 *                  the server sends ids (client.count=ids)
 *
 * The place of an answer that is not known (a request that failed, a server without ids) holds the
 * workload's own tokens. So does everything where the workload has texts of whole prompts. */
#ifndef CLIENT_TURNS_H
#define CLIENT_TURNS_H

#include "client/bench.h"

struct turns;

/* NULL without later turns. Borrows b; lives in b->a. */
enum st turns_prepare(const struct client_bench *b, struct body_maker *maker, struct turns **out,
                      struct err *e);
struct client_turns turns_hook(struct turns *t);

#endif
