/* Manual pages, in roff's man(7) macros, made from the command table and the option table. Same
 * tables, same bytes. */
#ifndef CMD_MAN_H
#define CMD_MAN_H

#include "base/embed.h"
#include "cmd/cmd.h"

/* twinfer.1 when c is NULL, else twinfer-<command>.1. Groups are those of `embedded`. */
void man_page(struct buf *out, const struct cmd *c, const struct embed_file *embedded);

#endif
