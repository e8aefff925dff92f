#include "text/html.h"

#include <string.h>

#include "base/hash.h"
#include "text/svg.h"

static const char REPLACEMENT[] = "\xef\xbf\xbd";

void html_escape(struct buf *out, const char *s)
{
    static const char *const entities[256] = {
        ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&quot;", ['\''] = "&#39;"};
    const char *end = s + strlen(s);
    while (s < end) {
        const char *valid = s + str_utf8_valid(s, (size_t)(end - s));
        for (; s < valid; s++) {
            unsigned char c = (unsigned char)*s;
            if (entities[c])
                buf_puts(out, entities[c]);
            else if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
                buf_puts(out, REPLACEMENT);
            else
                buf_putc(out, *s);
        }
        if (s < end) {
            buf_puts(out, REPLACEMENT);
            s++;
        }
    }
}

static const char base_css[] =
    ":root{color-scheme:light dark;--fg:#1b1f24;--muted:#5c6670;--bg:#ffffff;--panel:#f5f6f8;"
    "--line:#dde1e6;--accent:#2563eb;--good:#15803d;--warn:#b45309;--bad:#c02626}\n"
    "@media (prefers-color-scheme:dark){:root{--fg:#e6e9ed;--muted:#9aa4af;--bg:#14171a;"
    "--panel:#1d2125;--line:#343a41;--accent:#7aaeff;--good:#4ade80;--warn:#fbbf24;"
    "--bad:#ff7b72}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0;background:var(--bg);color:var(--fg);"
    "font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}\n"
    "main{max-width:64rem;margin:0 auto;padding:1rem}\n"
    "h1{font-size:1.6rem;line-height:1.25;margin:1rem 0 .5rem}\n"
    "h2{font-size:1.2rem;line-height:1.3;margin:2rem 0 .5rem;padding-top:.5rem;"
    "border-top:1px solid var(--line)}\n"
    "h3{font-size:1rem;margin:1.25rem 0 .25rem}\n"
    "p{margin:.5rem 0}\n"
    "a{color:var(--accent)}\n"
    "code,pre{font:.875em/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}\n"
    "pre{background:var(--panel);border:1px solid var(--line);border-radius:6px;padding:.75rem;"
    "overflow-x:auto}\n"
    ".scroll{overflow-x:auto;margin:.75rem 0}\n"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.9375rem}\n"
    "caption{text-align:left;color:var(--muted);padding-bottom:.25rem}\n"
    "th,td{padding:.3rem .75rem;border-bottom:1px solid var(--line);text-align:left;"
    "white-space:nowrap}\n"
    "th{color:var(--muted);font-weight:600}\n"
    "tbody tr:hover{background:var(--panel)}\n"
    ".right{text-align:right}\n"
    ".muted{color:var(--muted)}\n"
    ".good{color:var(--good)}\n"
    ".warn{color:var(--warn)}\n"
    ".bad{color:var(--bad)}\n"
    ".chart{max-width:100%;height:auto}\n";

static int hex_digit(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* 'sha256-<base64>', the form in which a content security policy allows an inline style. */
static void put_source_hash(struct buf *out, const char *style, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    enum { BYTES = HASH_SHA256_HEX / 2 };
    char hex[HASH_SHA256_HEX + 1];
    hash_sha256(style, n, hex);
    buf_puts(out, " 'sha256-");
    for (int i = 0; i < BYTES; i += 3) {
        unsigned v = 0;
        for (int k = i; k < i + 3; k++)
            v = v << 8 |
                (k < BYTES ? (unsigned)(hex_digit(hex[2 * k]) << 4 | hex_digit(hex[2 * k + 1]))
                           : 0);
        for (int k = 0; k < 4; k++)
            buf_putc(out, i + k <= BYTES ? digits[v >> (18 - 6 * k) & 63] : '=');
    }
    buf_putc(out, '\'');
}

void html_page_begin(struct buf *out, const char *title, const char *css)
{
    ASSERT(!css || !strstr(css, "</"));
    struct buf style = {0};
    buf_puts(&style, base_css);
    buf_puts(&style, css ? css : "");
    buf_puts(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                  "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                  "base-uri 'none'; form-action 'none'; style-src");
    put_source_hash(out, style.p, style.n);
    put_source_hash(out, svg_css, strlen(svg_css));
    buf_puts(out, "\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                  "<title>");
    html_escape(out, title);
    buf_puts(out, "</title>\n<style>");
    buf_add(out, style.p, style.n);
    buf_puts(out, "</style>\n</head>\n<body>\n<main>\n");
    buf_free(&style);
}

void html_page_end(struct buf *out)
{
    buf_puts(out, "</main>\n</body>\n</html>\n");
}
