#!/bin/sh
# links.sh FOLDER: every link in the Markdown files below it that leads to a file leads to one that
# is there, and every #part of one to a heading. Links to the web are not followed.
set -eu
cd "$1"

# Headings of a file, as the addresses of their parts.
parts() {
    sed -n 's/^##* *//p' "$1" | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g'
}

find . -name '*.md' -not -path './build*' -not -path './.git/*' -not -path './runs/*' -not -path './dist/*' | sort |
    while read -r file; do
        # what stands in code is no link
        # shellcheck disable=SC2016  # backticks are Markdown's
        sed -e '/^```/,/^```/d' -e 's/`[^`]*`//g' "$file" | grep -o '](<[^>]*>)\|]([^)]*)' |
            sed 's/^](<\{0,1\}//; s/>\{0,1\})$//' |
            while read -r link; do
                case $link in
                http://* | https://* | mailto:*) continue ;;
                esac
                target=${link%%#*}
                path=$(dirname "$file")/$target
                [ -n "$target" ] || path=$file
                if [ ! -e "$path" ]; then
                    echo "$file: $link: no such file"
                elif [ "$link" != "$target" ] && ! parts "$path" | grep -qxF -e "${link#*#}"; then
                    echo "$file: $link: no such heading"
                fi
            done
    done | {
    bad=0
    while read -r line; do
        echo "links: $line"
        bad=1
    done
    exit $bad
}
