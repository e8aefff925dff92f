#!/bin/sh
# Style: formatting, file size, calls that are banned, shell scripts, and words that do not belong.
set -eu
cd "$(dirname "$0")/../.."
bad=0
say() {
    echo "style: $*"
    bad=1
}

sources=$(git ls-files '*.c' '*.h')
# shellcheck disable=SC2086
clang-format --dry-run -Werror $sources || say "run clang-format -i on the files above"

for f in $sources; do
    n=$(wc -l <"$f")
    [ "$n" -le 1200 ] || say "$f has $n lines (limit 1200)"
done

# Unbounded copies, hidden state, text to number without an error, and exits far from main.
banned='strcpy|strcat|sprintf|vsprintf|gets|strtok|atoi|atol|atof|rand|srand|localtime|gmtime|ctime|asctime|setlocale|alloca|system|popen|tmpnam|mktemp'
git ls-files 'src/*.c' 'src/*.h' | xargs grep -nE "(^|[^_a-zA-Z0-9>.])($banned)\(" && say "banned calls"
git ls-files 'src/*.c' | grep -v '^src/cmd/' | grep -v '^src/base/' | xargs grep -nE '(^|[^_a-zA-Z])(exit|abort|_Exit)\(' &&
    say "exit below cmd/"
git ls-files 'src/*.c' | grep -v '^src/base/clock.c' | xargs grep -n 'clock_gettime(' && say "time goes through base/clock.h"
git ls-files 'src/*.c' | grep -v '^src/gpu/' | xargs grep -nE '(^|[^a-z_])dlopen\(' && say "dlopen belongs to gpu/"
# shellcheck disable=SC2016  # backticks are Markdown's
git ls-files '*.md' | xargs grep -oE '`(src|inject|tests|scripts|configs|cmake|bench|adapters)/[A-Za-z0-9_./-]*\.[a-z]+`' |
    tr -d '`' | while IFS=: read -r page file; do [ -e "$file" ] || echo "$page: $file"; done | grep . && say "files that are not there"
git grep -nwE 'TODO|FIXME|XXX:' -- ':!scripts/ci/style.sh' ':!data' ':!tests/golden' && say "unfinished work"

# shellcheck disable=SC2046
shellcheck $(git ls-files "*.sh") ./do .ci/run || say "shellcheck"
exit $bad
