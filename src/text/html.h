/* HTML: escaping, and one self-contained page.
 *
 * Everything that comes from outside passes html_escape, in text and in attribute values alike. The
 * page carries a content security policy that allows no script, no network, only the inline style
 * of the page itself; it reads well on a phone and follows the reader's light or dark preference.
 */
#ifndef TEXT_HTML_H
#define TEXT_HTML_H

#include "base/str.h"
#include "text/table.h"

/* & < > " ' become entities; control characters but newline and tab become U+FFFD. */
void html_escape(struct buf *out, const char *s);

void html_page_begin(struct buf *out, const char *title, const char *css);
void html_page_end(struct buf *out);
/* A table in a box that scrolls sideways on narrow screens; cells are escaped. */
void html_table(struct buf *out, const struct table *t, const char *caption);

#endif
