#!/usr/bin/env bash
# parts_test.sh BUILD SOURCE [PREFIX_PATH]: a program that links the part core alone carries nothing of the other parts,
# nor an allocator or a path of libraries that it did not ask for; one that links a part has what that part registers.
set -euo pipefail
build=$1 source=$2 prefix_path=${3:-}
source "$(dirname "${BASH_SOURCE[0]}")/prefix.sh" "$build"
fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

project=$work/project
cp -r "$source/tests/install/parts" "$project"
cmake -S "$project" -B "$work/parts" -G Ninja "-DCMAKE_PREFIX_PATH=$prefix;$prefix_path" -DCMAKE_BUILD_TYPE=Debug
cmake --build "$work/parts"
printf 'one\ntwo\n' >"$work/lines.txt"

needed() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }
library=$(find "$prefix" -name libmuster-core.so)
[ "$(needed "$work/parts/with_core" | grep -c muster)" = 1 ] || fail "with_core needs: $(needed "$work/parts/with_core")"
for file in "$work/parts/with_core" "$library"; do
  ! needed "$file" | grep -E 'curl|pugixml|yaml|mimalloc|muster-[^c]' || fail "$file needs more than core is made of"
  ! readelf -d "$file" | grep -E '(RPATH|RUNPATH).*openblas' || fail "$file chooses a BLAS"
done
! ldd "$work/parts/with_core" | grep -E 'pugixml|mimalloc|libmuster-[^c]' || fail 'with_core loads more than core is made of'
! ldd "$work/parts/with_core" | grep 'not found' || fail 'with_core does not find all it loads'
printf 'core alone: %s bytes, %s libraries\n' "$(stat -c %s "$work/parts/with_core")" "$(needed "$work/parts/with_core" | wc -l)"

"$work/parts/with_core" "$work/lines.txt" >"$work/core.log"
grep -qx '2 lines' "$work/core.log"
grep -q "is not linked with Muster's stores" "$work/core.log" || fail "$(cat "$work/core.log")"
grep -q 'find_package(muster COMPONENTS stores)' "$work/core.log" || fail "$(cat "$work/core.log")"

# The same program with the stores, which no function of it calls.
"$work/parts/with_stores" "$work/lines.txt" >"$work/stores.log"
grep -qx '2 lines' "$work/stores.log"
grep -q "names no bucket" "$work/stores.log" || fail "$(cat "$work/stores.log")"

# As pkg-config tells it, of a prefix that was moved.
mv "$prefix" "$work/moved"
export PKG_CONFIG_PATH=$(dirname "$(find "$work/moved" -name muster-core.pc)")
pkg-config --cflags muster-stores | grep -qF "$work/moved"
object=$(find "$work/parts" -name 'paths.cc.o')
for part in core stores; do
  # shellcheck disable=SC2046
  c++ -Wl,--as-needed "$object" -o "$work/plain_$part" $(pkg-config --libs "muster-$part") \
    "-Wl,-rpath,$(pkg-config --variable=libdir muster-core)"
  "$work/plain_$part" "$work/lines.txt" | diff "$work/$part.log" -
done
for part in keras tabular servers tensorflow kerasfiles onnx parallel tpu; do pkg-config --exists --print-errors "muster-$part"; done
