#!/bin/sh
# Opens the report's pages in a headless browser, light and dark, on a phone's width and a screen's:
#   look.sh MAKE_PAGES [FOLDER]
# FOLDER keeps pages and pictures for people to look at. Exit 77: there is no browser.
set -eu
here=$(dirname "$0")

for b in chromium chromium-browser google-chrome google-chrome-stable; do
    browser=$(command -v "$b") && break
done
if [ -z "${browser:-}" ]; then
    echo "skipped: no chromium or google-chrome to look at the report with"
    exit 77
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
pages=${2:-$work/pages}
mkdir -p "$pages"
"$1" "$pages"
cp "$here/look.html" "$pages/"

# browse light|dark OPTION MODE: stdout is what the option prints
browse() {
    scheme=
    [ "$1" = light ] || scheme=$dark
    timeout 600 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
        --hide-scrollbars --allow-file-access-from-files --user-data-dir="$work/profile" \
        --virtual-time-budget=20000 --window-size=1652,3000 ${scheme:+"$scheme"} "$2" \
        "file://$pages/look.html#$3" 2>"$work/browser.log" || {
        cat "$work/browser.log"
        echo "the browser failed"
        exit 1
    }
}

# The lines of <pre>, or nothing when the page never got that far.
findings() { sed -n '/<pre>/,/<\/pre>/p' | sed 's/.*<pre>//; s/<\/pre>.*//; /^$/d'; }

failed=0
# expect LAST_LINE FILE: the findings are that line alone
expect() {
    [ "$(cat "$2")" = "$1" ] || {
        echo "--- expected only: $1"
        head -40 "$2"
        failed=1
    }
}

# How a browser is told to prefer dark differs between versions.
for dark in --blink-settings=preferredColorScheme=0 --force-dark-mode; do
    browse dark --dump-dom measure | findings >"$work/dark"
    ! grep -q "in the dark" "$work/dark" || break
done
browse light --dump-dom measure | findings >"$work/light"
expect "looked in the dark" "$work/dark"
expect "looked in the light" "$work/light"

for scheme in light dark; do
    browse "$scheme" "--screenshot=$pages/$scheme.png" sheet >/dev/null
done
browse light --dump-dom shots | findings >"$work/shots"
expect "looked in the light" "$work/shots"
exit $failed
