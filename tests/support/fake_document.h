/* A document that has one of everything, with hostile words, for tests of its renderers. */
#ifndef SUPPORT_FAKE_DOCUMENT_H
#define SUPPORT_FAKE_DOCUMENT_H

#include "text/document.h"

struct document *fake_document(struct arena *a);
/* Its table: a group, folded lines, an unknown number, words in a number's place. */
struct document_table *fake_document_table(struct arena *a);

#endif
