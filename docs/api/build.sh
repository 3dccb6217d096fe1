#!/usr/bin/env bash
# build.sh: the API reference of the tree in the current folder, to build/docs/html. Ends with 1 and the places when a
# public header lacks a contract or says what Doxygen cannot follow.
set -euo pipefail
out=build/docs
# What cmake --install puts into place; export.h has no names that programs use.
mapfile -t headers < <(grep -v '^muster/base/export\.h$' cmake/face/headers.txt)

rm -rf "$out"
mkdir -p "$out"
# The first entry of the menu leads back to the guides: ./dev docs puts the reference into the folder api of the site.
doxygen -l "$out/layout"
sed -i 's|<navindex>|&<tab type="user" visible="yes" url="../index.html" title="Guides"/>|' "$out/layout"
{
  cat docs/api/Doxyfile
  printf 'STRIP_FROM_PATH = %s\nSTRIP_FROM_INC_PATH = %s\n' "$PWD" "$PWD"
  printf 'LAYOUT_FILE = %s/layout\nOUTPUT_DIRECTORY = %s\nWARN_LOGFILE = %s/warnings\nGENERATE_TAGFILE = %s/tags\n' "$out" "$out" "$out" "$out"
  printf 'INPUT = docs/api/index.md docs/api/namespaces.dox %s\n' "${headers[*]}"
} | doxygen - >"$out/log" 2>&1 || {
  cat "$out/log" "$out/warnings" >&2
  exit 1
}

failed=0
awk -f docs/api/undocumented.awk "$out/warnings" | sed "s|^$PWD/||" | sort -u >"$out/missing"
[ ! -s "$out/missing" ] || failed=1
# Doxygen leaves out what stands in a namespace nobody described.
while read -r namespace; do
  if ! grep -qx "/\*\* .namespace $namespace" docs/api/namespaces.dox; then
    printf 'docs/api/namespaces.dox: warning: %s is not described\n' "$namespace" >>"$out/missing"
    failed=1
  fi
done < <(sed -n 's/^namespace \(muster[a-z_0-9: ]*\) {$/\1/p' "${headers[@]}" | sed 's/::inline v[0-9_]*//' |
  grep -v internal | sort -u)
# Every name on the start page exists. (Newer Doxygen links what it does not know too, somewhere.)
awk -F '[<>]' '/<compound /{ compound = "" }
  /<name>/{ if (compound == "") print compound = $3; else print compound "::" $3 }' "$out/tags" >"$out/names"
while read -r name; do
  if ! grep -qxF "$name" "$out/names" || ! grep -qF ">$name</a>" "$out/html/index.html"; then
    printf 'docs/api/index.md: warning: there is no %s\n' "$name" >>"$out/missing"
    failed=1
  fi
done < <(grep -oE 'muster::[A-Za-z0-9_:]*[A-Za-z0-9_]' docs/api/index.md | sort -u)
if [ $failed = 1 ]; then
  cat "$out/missing" >&2
  printf 'docs: FAILED, %d places\n' "$(wc -l <"$out/missing")" >&2
  exit 1
fi
printf 'docs: %d headers, %s/html/index.html\n' ${#headers[@]} "$out"
