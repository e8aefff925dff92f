/* Text for terminals of 100 columns. */
#ifndef TEXT_WRAP_H
#define TEXT_WRAP_H

#include "base/str.h"

enum { WRAP_WIDTH = 100 };

/* Appends the text and a line break, broken at spaces so that no line is longer than WRAP_WIDTH
 * bytes; `indent` spaces stand before all lines but the first. A word that is longer is cut. */
void wrap_text(struct buf *out, const char *text, int indent);

#endif
