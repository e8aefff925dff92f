#!/bin/sh
# dist/twinfer-<version>-<arch>.tar.gz: the program, its shared libraries (all but glibc's own), its
# configuration and data. Runs from any folder on a machine with the same or a newer glibc.
set -eu
cd "$(dirname "$0")/.."

version=$(build/twinfer --version | cut -d' ' -f2)
name=twinfer-$version-$(uname -m)
root=dist/$name
rm -rf "$root"
mkdir -p "$root/bin" "$root/lib"
cp build/twinfer "$root/bin/"
if [ -f build/libtwinfer_inject.so ]; then
    cp build/libtwinfer_inject.so "$root/lib/"
else
    echo "dist: without the guest library: no CUPTI headers here, so trace will not work" >&2
fi
cp -r adapters configs data README.md LICENSE "$root/"
find "$root" -name __pycache__ -prune -exec rm -r {} +

# glibc, the loader and what must match the kernel stay behind.
ldd build/twinfer | awk '$3 ~ /^\// { print $3 }' |
    grep -vE '/(libc|libm|libpthread|libdl|librt|libresolv|ld-linux[^/]*)\.so' |
    while read -r lib; do cp -L "$lib" "$root/lib/"; done

# Whatever still comes from this machine would be missing on another one.
outside=$(ldd "$root/bin/twinfer" | awk '$3 ~ /^\// { print $3 }' | grep -v "^$PWD/$root/\|^$PWD/$root/bin/\.\./lib/" |
    grep -vE '/(libc|libm|libpthread|libdl|librt|libresolv|ld-linux[^/]*)\.so' || :)
[ -z "$outside" ] || { echo "dist: not in $root/lib: $outside" >&2; exit 1; }

tar -C dist -czf "dist/$name.tar.gz" "$name"
echo "dist/$name.tar.gz"
"$root/bin/twinfer" --version >/dev/null
