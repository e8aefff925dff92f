/* HTML: escaping, and one self-contained page.
 *
 * Everything that comes from outside passes html_escape, in text and in attribute values alike. The
 * page carries a content security policy that allows no script and no network, and of styles only
 * the page's own <style> and that of our charts (svg.h), by their sha256: a style="..." attribute
 * has no effect, use classes. It reads well on a phone and follows the reader's light or dark
 * preference. */
#ifndef TEXT_HTML_H
#define TEXT_HTML_H

#include "base/str.h"

/* & < > " ' become entities; control characters but newline and tab, and bytes that are not UTF-8,
 * become U+FFFD. */
void html_escape(struct buf *out, const char *s);

/* Everything up to the open <main>. The title is escaped; css (NULL = none) is added to the page's
 * plain base style, is trusted and must not contain "</". The base style defines the variables
 * --fg, --muted, --bg, --panel, --line, --accent, --good, --warn and --bad for both schemes, and
 * the classes .scroll, .muted, .good, .warn and .bad. */
void html_page_begin(struct buf *out, const char *title, const char *css);
void html_page_end(struct buf *out);

#endif
