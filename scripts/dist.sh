#!/bin/sh
# dist/twinfer-<version>-<arch>.tar.gz: what ./do install installs, with the program's shared libraries
# (all but glibc's own). Runs from any folder on a machine with the same or a newer glibc.
# dist.sh [BUILD]: of another build than build/.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}

version=$("$build/twinfer" --version | cut -d' ' -f2)
name=twinfer-$version-$(uname -m)
root=$PWD/dist/$name
rm -rf "$root"
DESTDIR='' cmake --install "$build" --prefix "$root" >/dev/null
# what bench/gpu/run.sh needs besides the program
cmake --build "$build" --target gpu_bench >/dev/null
cp "$(find "$build" -name gpu_bench -type f -perm -100 | head -n 1)" "$root/share/twinfer/bench/gpu/"
# what people read first stands first
mv "$root/share/doc/twinfer"/* "$root/"
rmdir "$root/share/doc/twinfer" "$root/share/doc"
find "$root/docs" "$root/bench" "$root/data" -type d -empty -delete # had no documents

# glibc, the loader and what must match the kernel stay behind.
ldd "$build/twinfer" | awk '$3 ~ /^\// { print $3 }' |
    grep -vE '/(libc|libm|libpthread|libdl|librt|libresolv|ld-linux[^/]*)\.so' |
    while read -r lib; do cp -L "$lib" "$root/lib/twinfer/"; done

# Whatever still comes from this machine would be missing on another one.
outside=$(ldd "$root/bin/twinfer" | awk '$3 ~ /^\// { print $3 }' | grep -vF -e "$root/lib/" -e "$root/bin/../lib/" |
    grep -vE '/(libc|libm|libpthread|libdl|librt|libresolv|ld-linux[^/]*)\.so' || :)
[ -z "$outside" ] || { echo "dist: not in $root/lib: $outside" >&2; exit 1; }

sh scripts/ci/links.sh "$root"
(cd / && "$root/bin/twinfer" --version) >/dev/null
# the documents at its top have the names of folders in share/twinfer, which they must not hide
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
(cd "$root" && bin/twinfer workload model=tiny_qwen3 "out=$out/workload" && bin/twinfer simulate hardware=h200 \
    model=qwen3_0_6b workload.num_requests=2 "out=$out/run") >"$out/log" 2>&1 || { cat "$out/log" >&2; exit 1; }
! grep uncalibrated "$out/log" >&2 || exit 1 # its bundle was not found
tar -C dist -czf "dist/$name.tar.gz" "$name"
echo "dist/$name.tar.gz"
