/* What people are told of an option row. */
#ifndef CONFIG_OPTION_HELP_H
#define CONFIG_OPTION_HELP_H

#include "config/option.h"

/* Help lines of the rows a command uses: key, help, and its facts in brackets; at most 100 columns.
 */
void option_help(struct buf *out, uint32_t command);

/* What stands in the brackets: type or range, unit, default, conditions of that command; as "1 to
 * 64 tokens; default 8; only with engine.kind=cpu". out is empty. */
void option_facts(struct buf *out, const struct option *o, uint32_t command);

/* "64 tokens or more", "0 to 1", "one of a, b"; nothing when every value will do. */
void option_range(struct buf *out, const struct option *o);

#endif
