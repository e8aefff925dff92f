#!/bin/sh
# install.sh CMAKE BUILD SOURCE: installs below a prefix with a blank in its name and runs the program
# from elsewhere, with nothing of the source tree in reach but the bundle it simulates on.
set -eu
cmake=$1 build=$2 source=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix="$work/a prefix"
tw="$prefix/bin/twinfer"
bad=0
say() {
    echo "$*"
    bad=1
}

# What is there already stays, also when it is installed twice.
mkdir -p "$prefix/bin" "$prefix/share/twinfer/configs/model" "$prefix/lib/twinfer"
for file in bin/other share/twinfer/configs/model/mine.yaml lib/twinfer/other share/twinfer/note; do
    echo 'name: mine' >"$prefix/$file"
done
"$cmake" --install "$build" --prefix "$prefix" >"$work/log"
"$cmake" --install "$build" --prefix "$prefix" >"$work/log"
for file in bin/other share/twinfer/configs/model/mine.yaml lib/twinfer/other share/twinfer/note; do
    [ -f "$prefix/$file" ] || say "$file is gone"
done

# All is there, and nothing else.
(cd "$prefix" && find . -type f ! -name other ! -name note ! -name mine.yaml | sort) >"$work/found"
{
    cd "$source"
    find configs data adapters bench/steps.sh bench/gpu/run.sh bench/accuracy/worker_h200.sh bench/accuracy/vllm*.sh bench/accuracy/all_reduce.py bench/accuracy/peers.py bench/accuracy/transformers_serve.py -type f ! -path '*/__pycache__/*' | sed 's|^|./share/twinfer/|'
    find bench/capture bench/replay bench/energy bench/deep bench/trace -name '*.sh' -o -name '*.py' -o -name '*.c' |
        sed 's|^|./share/twinfer/|'
    find docs bench data -name '*.md' -o -name '*.png' | sed 's|^|./share/doc/twinfer/|'
    "$tw" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' |
        sed 's|.*|./share/man/man1/twinfer-&.1|'
    cat <<'TEXT'
./bin/twinfer
./lib/twinfer/libtwinfer_inject.so
./share/bash-completion/completions/twinfer
./share/doc/twinfer/CHANGELOG.md
./share/doc/twinfer/CONTRIBUTING.md
./share/doc/twinfer/LICENSE
./share/doc/twinfer/README.md
./share/man/man1/twinfer.1
./share/zsh/site-functions/_twinfer
TEXT
} | sort >"$work/wanted"
diff -u "$work/wanted" "$work/found" || say "other files than these are installed"
sh "$source/scripts/ci/links.sh" "$prefix" || say "dead links"

# The program finds its own files.
mkdir "$work/elsewhere"
cd "$work/elsewhere"
"$tw" --version >version || say "--version fails"
grep -q '^twinfer [0-9.]* (commit ' version || say "--version: $(cat version)"
"$tw" workload workload=demo --cfg | grep -qF "prompts: $prefix/share/twinfer/data/prompts/demo_prompts.jsonl" ||
    say "the data is not the installed one"
"$tw" bench engine=transformers --cfg | grep -qF "$prefix/share/twinfer/data/../adapters/transformers_worker.py" ||
    say "the adapter is not the installed one"
"$tw" model inspect model=mine --cfg | grep -q 'name: mine' || say "the installed configs are not read"
"$tw" model init model=tiny_qwen3 out=m >out 2>&1 || say "model init: $(cat out)"
[ -f m/tokenizer.json ] || say "the model has no tokenizer"
"$tw" workload workload=demo workload.num_requests=20 out=w >out 2>&1 || say "workload: $(cat out)"
"$tw" simulate profile.root="$source/tests/golden/bundle" workload.dir=w out=sim >out 2>&1 ||
    say "simulate: $(cat out)"
[ -f sim/run_meta.json ] || say "simulate left no run"
"$tw" doctor >found.txt || [ $? = 4 ] || say "doctor fails"
grep '^ok *guest library' found.txt | grep -qF "$prefix/lib/twinfer/libtwinfer_inject.so" ||
    say "doctor: $(grep 'guest library' found.txt)"

# As packagers do it; and the tree may be moved.
DESTDIR="$work/stage" "$cmake" --install "$build" --prefix /opt/tw >"$work/log"
[ -x "$work/stage/opt/tw/bin/twinfer" ] || say "DESTDIR is not heeded"
mv "$work/stage/opt/tw" "$work/moved"
"$work/moved/bin/twinfer" model inspect model=tiny_qwen3 >out 2>&1 || say "moved: $(cat out)"
exit $bad
