#include "text/wrap.h"

#include <string.h>

void wrap_text(struct buf *out, const char *text, int indent)
{
    for (int width = WRAP_WIDTH; (int)strlen(text) > width; width = WRAP_WIDTH - indent) {
        int n = width;
        while (n > 0 && text[n] != ' ')
            n--;
        n = n ? n : width;
        buf_printf(out, "%.*s\n%*s", n, text, indent, "");
        text += text[n] == ' ' ? n + 1 : n;
    }
    buf_puts(out, text);
    buf_putc(out, '\n');
}
